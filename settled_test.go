package resilientwrite_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// TestSettledSweep: settled has one meaning. After a power failure before any
// operation, no row reports a commit as settled whose files are not under their names:
// recovery does not examine such a commit. Other commits write their rows between the
// row of a commit and its publication.
func TestSettledSweep(t *testing.T) {
	for _, level := range allLevels[:2] {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			fs := simfs.New()
			s := must(rw.OpenSim(fs, &rw.Options{Sync: level}, rw.Sim{Manual: true}))(t)
			looks, settled := 0, 0
			look := func() {
				looks++
				for seed := range someLosses(60, looks) {
					settled = max(settled, settledOn(t, fs.Crash(seed, simfs.Some)))
				}
			}
			beside, busy := 0, false
			fs.Before(func(op simfs.Op) {
				if !strings.Contains(op.Path, "/history/") {
					look()
				}
				if op.Kind != "exchange" || busy {
					return
				}
				busy = true // the row of another commit comes before this one is published
				beside++
				if err := do(put(fmt.Sprint("beside", beside), "beside", rw.ModeCreate))(s); err != nil {
					t.Error(err)
				}
				busy = false
			})
			for i := range 3 {
				for _, path := range []string{"a.txt", "b.txt", "a.txt", "x/c.txt"} {
					noErr(t, do(put(path, fmt.Sprint(longText, path, i), rw.ModeOverwrite))(s))
				}
				noErr(t, together(put("a.txt", fmt.Sprint("all of them ", i, longText), rw.ModeOverwrite), put(fmt.Sprint("new", i), "new", rw.ModeCreate))(s))
				must(s.Delete(background, rw.DeleteRequest{Path: "b.txt"}))(t)
				noErr(t, s.Sync(background))
			}
			fs.Before(nil)
			look()
			if settled < 10 || looks < 100 {
				t.Errorf("%d commits were told to be settled, on disks of %d moments", settled, looks)
			}
		})
	}
}

// settledOn fails where a commit that a row calls settled is not published on
// the disk. It returns how many are called so.
func settledOn(t *testing.T, disk *simfs.FS) (n int) {
	t.Helper()
	upto, commits := map[string]uint64{}, []journal.Record{}
	for path, content := range disk.Tree() {
		if !strings.HasPrefix(path, rw.StateDirName+"/journal/") || !strings.HasSuffix(path, ".jsonl") {
			continue
		}
		for _, line := range strings.Split(content, "\n") {
			var rec journal.Record
			if json.Unmarshal(bytes.Trim([]byte(line), "\x00"), &rec) != nil {
				continue
			}
			upto[rec.Writer] = max(upto[rec.Writer], rec.Settled)
			if rec.Kind == journal.KindCommit {
				commits = append(commits, rec)
			}
		}
	}
	state, err := disk.Foreign().OpenDir(rw.StateDirName)
	if err != nil {
		return 0
	}
	staging, err := state.OpenDir("staging")
	if err != nil {
		return 0
	}
	for _, c := range commits {
		if c.Seq > upto[c.Writer] {
			continue
		}
		n++
		for _, m := range c.Muts {
			_, ino, _ := publish.ParseSlot(m.Slot)
			if st, err := staging.Lstat(m.Slot); err == nil && st.Ino == ino {
				t.Errorf("a row calls commit %d settled, and %s is not published", c.Seq, m.Path)
			}
		}
	}
	return n
}
