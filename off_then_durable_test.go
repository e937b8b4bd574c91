package resilientwrite_test

import (
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// TestDurableWriteOverOneAtOff: a write at a durable level over a file that was written
// at the level off flushes the name and the bytes of that file first. A power failure
// then removes at most its own name, which Open restores, and the version before is
// complete. The slots of the writer are made before: making them would flush those
// names as well.
func TestDurableWriteOverOneAtOff(t *testing.T) {
	for _, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncJournal} {
		for _, off := range []string{"living", "closed"} {
			for seed := range uint64(8) {
				fs := simfs.New()
				s := must(rw.OpenSim(fs, &rw.Options{Sync: level}, rw.Sim{Nonce: "0001"}))(t)
				write(t, s, "first.txt", "makes the slots", rw.ModeCreate)
				noErr(t, s.Sync(background))
				o := must(rw.OpenSim(fs, &rw.Options{Sync: rw.SyncOff}, rw.Sim{Nonce: "0002"}))(t)
				write(t, o, "a.txt", "one", rw.ModeCreate)
				write(t, o, "a.txt", "two", rw.ModeOverwrite)
				write(t, o, "b.txt", "its row tells that a.txt is settled", rw.ModeCreate)
				if off == "closed" {
					noErr(t, o.Close(background))
				}
				write(t, s, "a.txt", "three", rw.ModeOverwrite)
				disk := fs.Crash(seed, []simfs.Loss{simfs.All, simfs.Some}[seed%2])
				s = must(rw.OpenSim(disk, &rw.Options{Sync: level}, rw.Sim{Nonce: "0003"}))(t)
				if r := s.Recovery(); len(r.Conflicts) > 0 {
					t.Errorf("%s, %s, %d: %+v", level, off, seed, r.Conflicts)
				}
				if got, _ := disk.ReadFile("a.txt"); string(got) != "three" {
					t.Errorf("%s, %s, %d: the file holds %q", level, off, seed, got)
				}
				must(s.Restore(background, rw.RestoreRequest{Path: "a.txt", SHA256: digest(hash("two"))}))(t, level, ", ", off, ", ", seed)
				noErr(t, s.Close(background))
			}
		}
	}
}
