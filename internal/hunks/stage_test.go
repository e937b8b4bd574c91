package hunks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/fault"
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

// TestStageKeepsTheOthers: entries of the index stay as they are, and what git tells about
// their files. A row is the state before, the changes of the writer, what is left out, and
// what git prints then.
func TestStageKeepsTheOthers(t *testing.T) {
	testbed.Needs(t, "git")
	mine := func(path, before, after string) *Net { return Start(path, version(before), version(after)) }
	for name, row := range map[string]struct {
		before  string
		files   []*Net
		skipped string
		look    string
		want    string
	}{
		"file":                  {"printf u >d; git add d; rm d", []*Net{mine("d/e/n", "-", "n"), mine("d/n", "-", "n")}, "[{d/e/n overlap} {d/n overlap}]", "git ls-files", "d\n"},
		"submodule":             {"git update-index --add --cacheinfo 160000,1111111111111111111111111111111111111111,m", []*Net{mine("m/n", "-", "n")}, "[{m/n overlap}]", "git ls-files", "m\n"},
		"file of the same":      {"printf u >d; git add d; rm d", []*Net{mine("d", "u", "-"), mine("d/n", "-", "n")}, "[]", "git ls-files", "d/n\n"},
		"directory of the same": {"mkdir d; printf u >d/n; git add d; rm -r d", []*Net{mine("d", "-", "n"), mine("d/n", "u", "-")}, "[]", "git ls-files", "d\n"},
		"directory of others":   {"mkdir d; printf u >d/n; touch d/o; git add d; rm -r d", []*Net{mine("d", "-", "n"), mine("d/n", "u", "-")}, "[{d unmerged}]", "git ls-files", "d/o\n"},
		"skip worktree":         {"printf u >f; git add f; git update-index --skip-worktree f", []*Net{mine("f", "u", "n")}, "[{f unmerged}]", "git ls-files -v", "S f\n"},
		"assume unchanged":      {"printf u >f; git add f; git update-index --assume-unchanged f", []*Net{mine("f", "u", "n")}, "[{f unmerged}]", "git ls-files -v", "h f\n"},
		"changed since": {"git config core.trustctime false; printf a >r; touch -t 202001010000 r; git add r; printf b >r; touch -t 202001010000 r .git/index",
			[]*Net{mine("f", "-", "n")}, "[]", "git diff --name-only", "f\nr\n"},
		"intent to add": {"touch e n; git add -N e n", []*Net{mine("e", "-", ""), mine("n", "-", "n")}, "[]", "git diff --cached --numstat", "0\t0\te\n1\t0\tn\n"},
		"permissions":   {"printf u >g; git add g; chmod 640 .git/index", []*Net{mine("f", "-", "n")}, "[]", "ls -l .git/index | cut -c1-10", "-rw-r-----\n"},
	} {
		dir := t.TempDir()
		sh := func(line string) string {
			cmd := exec.Command("sh", "-c", line)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			testbed.Require(t, err == nil, "%s: %s: %v %s", name, line, err, out)
			return string(out)
		}
		sh("git init -q; " + row.before)
		out := testbed.Must(Stage(context.Background(), dir, row.files))(t, name)
		testbed.Equal(t, fmt.Sprint(out.Skipped), row.skipped, name)
		testbed.Equal(t, sh(row.look), row.want, name)
	}
}

// TestStageInBrokenRepository: an index that git cannot read is reported and left alone.
func TestStageInBrokenRepository(t *testing.T) {
	testbed.Needs(t, "git")
	dir := t.TempDir()
	testbed.NoErr(t, exec.Command("git", "init", "-q", dir).Run())
	index := filepath.Join(dir, ".git", "index")
	testbed.NoErr(t, os.WriteFile(index, []byte("broken"), 0o600))
	_, err := Stage(context.Background(), dir, []*Net{Start("f", version("-"), version("n"))})
	testbed.Expect(t, errors.Is(err, fault.InvalidArgument), "%v", err)
	testbed.Holds(t, index, "broken")
}
