package resilientwrite_test

import (
	"fmt"
	"path"
	"slices"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// elsewhere are the scenarios that are repeated with the state elsewhere: one for
// each primitive, and several in one commit.
var elsewhere = []string{"create_deep", "overwrite", "append", "several", "delete", "move", "move_over", "undo_tx", "restore", "tx", "undo_links", "undo_kinds", "undo_kinds_back"}

// TestCrashSweepElsewhere is TestCrashSweep, that of recovery and TestFaultSweep, with the
// state in the git directory and on another file system.
func TestCrashSweepElsewhere(t *testing.T) {
	for layout, state := range map[string]string{"git": ".git/resilientwrite/main", "mount": "elsewhere/resilientwrite/0123"} {
		for _, c := range scenarios {
			if !slices.Contains(elsewhere, c.name) {
				continue
			}
			c.sim.State, c.opts.Sync = state, rw.SyncFull
			disk := c.disk
			c.disk = func(f *simfs.FS) {
				if disk != nil {
					disk(f)
				}
				f.MkdirAll(path.Dir(state))
				if layout == "mount" {
					f.MountAt("elsewhere")
				}
			}
			t.Run(layout+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				c.crashSweep(t)
			})
			t.Run(layout+"/recovery/"+c.name, func(t *testing.T) {
				t.Parallel()
				c.recoverySweep(t)
			})
			if layout == "mount" {
				c.faultsElsewhere(t, layout)
			}
		}
	}
}

func (c scenario) faultsElsewhere(t *testing.T, layout string) {
	for _, happened := range []bool{false, true} {
		for _, errnos := range errorsOfASweep() {
			t.Run(fmt.Sprintf("%s/faults/%s/applied=%v/%v", layout, c.name, happened, errnos), func(t *testing.T) {
				t.Parallel()
				c.faultSweep(t, happened, errnos)
			})
		}
	}
}

// mounted are calls for files on a file system that is mounted in the workspace.
var mounted = []scenario{
	{name: "create", run: do(put("mnt/d/a.txt", longText, rw.ModeCreate)), old: map[string]string{}, new: map[string]string{"mnt/d/a.txt": longText}},
	{name: "overwrite", before: do(put("mnt/a.txt", longText, rw.ModeCreate)), run: do(put("mnt/a.txt", otherText, rw.ModeOverwrite)),
		old: map[string]string{"mnt/a.txt": longText}, new: map[string]string{"mnt/a.txt": otherText}},
	{name: "append_in_place", sim: rw.Sim{AppendFrom: 1}, before: do(put("mnt/a.txt", longText, rw.ModeCreate)), run: do(put("mnt/a.txt", otherText, rw.ModeAppend)),
		old: map[string]string{"mnt/a.txt": longText}, new: map[string]string{"mnt/a.txt": longText + otherText}},
	{name: "move_over", before: do(put("mnt/a.txt", longText, rw.ModeCreate), put("mnt/d/b.txt", otherText, rw.ModeCreate)), run: move("mnt/a.txt", "mnt/d/b.txt", true),
		old: map[string]string{"mnt/a.txt": longText, "mnt/d/b.txt": otherText}, new: map[string]string{"mnt/d/b.txt": longText}},
	{name: "tx", before: do(put("mnt/a.txt", longText, rw.ModeCreate), put("a.txt", longText, rw.ModeCreate), put("mnt/gone.txt", otherText, rw.ModeCreate)),
		run: func(s *rw.Store) error {
			_, err := s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{
				{Op: "write", Path: "mnt/a.txt", Content: []byte(otherText), Mode: rw.ModeOverwrite}, {Op: "write", Path: "a.txt", Content: []byte(otherText), Mode: rw.ModeOverwrite},
				{Op: "delete", Path: "mnt/gone.txt"}, {Op: "write", Path: "mnt/new.txt", Content: []byte("new")},
			}})
			return err
		},
		old: map[string]string{"mnt/a.txt": longText, "a.txt": longText, "mnt/gone.txt": otherText},
		new: map[string]string{"mnt/a.txt": otherText, "a.txt": otherText, "mnt/new.txt": "new"}},
}

// TestSweepNestedMount is TestCrashSweepElsewhere for files on a file system that is
// mounted in the workspace, where the state is elsewhere and where it is not.
func TestSweepNestedMount(t *testing.T) {
	for _, c := range mounted {
		for _, elsewhere := range []bool{false, true} {
			c.opts.Sync, c.sim.Mount, c.disk = rw.SyncFull, elsewhere, func(f *simfs.FS) { f.MountAt("mnt") }
			layout := fmt.Sprintf("elsewhere=%v", elsewhere)
			t.Run(layout+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				c.crashSweep(t)
			})
			t.Run(layout+"/recovery/"+c.name, func(t *testing.T) {
				t.Parallel()
				c.recoverySweep(t)
			})
			c.faultsElsewhere(t, layout)
		}
	}
}
