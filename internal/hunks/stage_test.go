package hunks

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestStageLeavesTheLockOfAnother: a program that locks the index as soon as it is
// free keeps its lock.
func TestStageLeavesTheLockOfAnother(t *testing.T) {
	dir := t.TempDir()
	if err := exec.Command("git", "init", "-q", dir).Run(); err != nil {
		t.Skip("git:", err)
	}
	lock := filepath.Join(dir, ".git", "index.lock")
	for i := range 8 {
		stop, got := make(chan bool), make(chan bool)
		go func() {
			before, _ := os.Stat(filepath.Join(dir, ".git", "index"))
			for {
				select {
				case <-stop:
					got <- false
					return
				default:
				}
				if now, err := os.Stat(filepath.Join(dir, ".git", "index")); err != nil || before != nil && os.SameFile(before, now) {
					continue
				}
				f, err := os.OpenFile(lock, os.O_CREATE|os.O_EXCL, 0o600)
				if err == nil {
					f.Close()
				}
				got <- err == nil
				return
			}
		}()
		out, err := Stage(context.Background(), dir, []*Net{Start("f", version("-"), version(fmt.Sprint(i)))})
		testbed.Require(t, err == nil && len(out.Staged) == 1, "%v %+v", err, out)
		close(stop)
		if <-got {
			testbed.NoErr(t, os.Remove(lock), "another program's lock of the index is gone")
		}
		testbed.NoErr(t, os.Remove(filepath.Join(dir, ".git", "index")))
	}
}
