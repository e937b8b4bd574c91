package resilientwrite_test

import (
	"path"
	"slices"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// elsewhere are the scenarios that are repeated with the state elsewhere: one for
// each primitive, and several in one commit.
var elsewhere = []string{"create_deep", "overwrite", "append", "several", "delete", "move", "move_over", "undo_tx", "restore", "tx", "undo_links", "undo_kinds", "undo_kinds_back"}

// TestCrashSweepElsewhere is TestCrashSweep, and that of recovery, with the state
// in the git directory and on another file system.
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
		}
	}
}
