package resilientwrite_test

import (
	"fmt"
	"slices"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// TestAppendRecoverySweep: a process appends to a file, continues with it in several ways, and is
// killed, or the power fails, at each operation. At the level journal the work after its replies is
// then not done yet. The next Open leaves the file as the last acknowledged call left it, or as the
// call in progress would have: an append is not repeated after later content.
func TestAppendRecoverySweep(t *testing.T) {
	const base = "one\n"
	write := func(content string) func(*rw.Store) error {
		return func(s *rw.Store) error {
			_, err := s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.log", Content: []byte(content), Mode: rw.ModeOverwrite})
			return err
		}
	}
	add := func(content string) func(*rw.Store) error {
		return func(s *rw.Store) error {
			_, err := s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.log", Content: []byte(content), Mode: rw.ModeAppend})
			return err
		}
	}
	undo := func(s *rw.Store) error {
		_, err := s.Undo(background, rw.UndoRequest{})
		return err
	}
	remove := func(s *rw.Store) error {
		_, err := s.Delete(background, rw.DeleteRequest{Path: "a.log"})
		return err
	}
	type step struct {
		call func(*rw.Store) error
		want string // content of the file afterwards; "" when it is gone
	}
	shapes := map[string][]step{
		"undo":          {{add("two\n"), base + "two\n"}, {undo, base}},
		"write back":    {{add("two\n"), base + "two\n"}, {write(base), base}},
		"write longer":  {{add("two\n"), base + "two\n"}, {write(base + "2\n" + base), base + "2\n" + base}},
		"append twice":  {{add("two\n"), base + "two\n"}, {add("three\n"), base + "two\nthree\n"}, {write(base), base}},
		"delete, make":  {{add("two\n"), base + "two\n"}, {remove, ""}, {write(base), base}},
		"append, write": {{add("two\n"), base + "two\n"}, {write(base), base}, {add("3\n"), base + "3\n"}},
	}
	for name, steps := range shapes {
		for _, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncJournal, rw.SyncOff} {
			t.Run(fmt.Sprintf("%s/%s", name, level), func(t *testing.T) {
				t.Parallel()
				for n := phase(stride(1)); ; n += stride(1) {
					fs := simfs.New()
					opts := &rw.Options{Sync: level}
					s := must(rw.OpenSim(fs, opts, rw.Sim{Nonce: "0001", Manual: true}))(t)
					noErr(t, write(base)(s))
					fs.StopAt(n)
					allowed, died := []string{base}, false
					for _, x := range steps {
						if err := x.call(s); err != nil {
							allowed, died = append(allowed, x.want), true
							break
						}
						allowed = []string{x.want}
					}
					losses := []simfs.Loss{simfs.None} // killed: the pages stay
					if level != rw.SyncOff {
						losses = append(losses, simfs.Some, simfs.All)
					}
					for _, loss := range losses {
						disk := fs.Crash(uint64(n), loss)
						after := must(rw.OpenSim(disk, opts, rw.Sim{Nonce: "0002"}))(t, "operation ", n, ", loss ", loss, ": open")
						if have, _ := disk.ReadFile("a.log"); !slices.Contains(allowed, string(have)) {
							t.Fatalf("operation %d, loss %v: %q, want one of %q", n, loss, have, allowed)
						}
						after.Close(background)
					}
					if !died {
						return
					}
				}
			})
		}
	}
}
