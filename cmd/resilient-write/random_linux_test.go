package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// scripts generates what commands do to a workspace: files, links and directories
// are written, moved, removed and put in place of each other.
type scripts struct{ *rand.Rand }

func newScripts(t *testing.T) scripts {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("RW_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	t.Logf("RW_SEED=%d", seed)
	return scripts{rand.New(rand.NewPCG(seed, 0))}
}

func (r scripts) name() string {
	return "'./" + []string{"a.txt", "b.md", "src/x.go", "src/deep/y.go", "with space", "-dash", "ü", "lib/one.js", "l1", "e1/f", ".env"}[r.IntN(11)] + "'"
}

func (r scripts) dir() string {
	return "'./" + []string{"src", "src/deep", "lib", "lib2", "l1", "e1", "e1/e2", "new2/a", "a.txt", "b.md", "src/x.go"}[r.IntN(11)] + "'"
}

func (r scripts) line() string {
	x, y := r.name(), r.name()
	return []string{
		fmt.Sprintf("printf 'line %d\\n' > %s", r.IntN(9), x), fmt.Sprintf("cat >> %s <<< more", x), fmt.Sprintf("printf '' > %s", x),
		"rm -f " + x, fmt.Sprintf("mv -f %s %s", x, y), fmt.Sprintf("cp %s %s", x, y), fmt.Sprintf("chmod %o %s", []int{0o600, 0o755, 0o444}[r.IntN(3)], x),
		fmt.Sprintf("sed -i s/line/row/ %s", x), "rm -rf src", "mv lib lib2 || mv lib2 lib", "mkdir -p e1/e2 src/empty", "rmdir e1/e2 e1 src/empty",
		fmt.Sprintf("ln -sfn %s %s", []string{"a.txt", "nowhere", "src", "../out"}[r.IntN(4)], []string{"l1", "l2", "src/l3"}[r.IntN(3)]),
		"rm -f l1 l2; mkdir -p l1; echo k > l1/in", "rm -rf l1; ln -s gone.md l1", "mkdir -p new/a; echo 1 > new/a/b; rm -rf new2; mv new new2",
		fmt.Sprintf("rm -rf %s; mkdir -p %[1]s/sub; echo in > %[1]s/f; echo deep > %[1]s/sub/f", x),
		fmt.Sprintf("rm -rf %s; echo out > %[1]s", r.dir()), fmt.Sprintf("rm -rf %s; ln -s %s %[1]s", r.dir(), []string{"a.txt", "lib2", "nowhere"}[r.IntN(3)]),
		fmt.Sprintf("mv %s t; mkdir -p %[1]s; mv t %[1]s/index", x), fmt.Sprintf("mv %s/f t && rm -rf %[1]s && mv t %[1]s", r.dir()),
	}[r.IntN(21)]
}

func (r scripts) script() string {
	lines := make([]string, 1+r.IntN(4))
	for i := range lines {
		lines[i] = "{ " + r.line() + "; } 2>/dev/null"
	}
	return strings.Join(append(lines, "true"), "; ")
}

// TestExecAsWithoutIt: a command has the same effect in exec as without it, or
// none, and undo reverts it.
func TestExecAsWithoutIt(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
	s, r := newSandboxed(t), newScripts(t)
	done := 0
	for range rounds() {
		script := r.script()
		copied := &sandboxed{around: &around{t, filepath.Join(t.TempDir(), "w"), s.bin}}
		s.sh("cp -a . " + copied.dir)
		cmd := exec.Command("bash", "-c", script)
		cmd.Dir = copied.dir
		cmd.Run()
		before, want := s.tree(), copied.tree()
		run := s.exec("--", "bash", "-c", script)
		now := s.tree()
		switch {
		case run.code != 0 && (now != before || !strings.Contains(run.errs, "kept for 7 days")):
			t.Fatalf("%s\nrefused: %s\nbefore\n%s\nafter\n%s", script, run.errs, before, now)
		case run.code != 0:
			continue
		case now != want:
			t.Fatalf("%s\nbefore\n%s\nwithout exec\n%s\nwith it\n%s", script, before, want, now)
		}
		if done++; now == before || r.IntN(2) == 0 {
			continue
		}
		if s.rw(0, "undo"); s.tree() != before {
			t.Fatalf("%s\nbefore\n%s\nundone\n%s", script, before, s.tree())
		}
	}
	if done < 10 {
		t.Errorf("%d commands were not refused", done)
	}
	s.clean()
}

// TestUndoOfRandomCalls: the changes of a shell in a call of a host are undone, and
// the undo is too, byte for byte; a file that a person changed afterwards is never
// replaced.
func TestUndoOfRandomCalls(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
	a, r := newAround(t), newScripts(t)
	s := &sandboxed{around: a}
	a.sh("git init -q; mkdir -p src lib; echo line > a.txt; echo line > src/x.go; echo one > lib/one.js; ln -s a.txt l1; git add .; git commit -qm start; echo more >> a.txt")
	a.rw(0, "changes")
	undone := 0
	for i := range rounds() {
		call, script := fmt.Sprintf("call-%d", i), r.script()
		a.rw(0, "changes")
		before := s.tree()
		cmd := exec.Command("bash", "-c", script)
		cmd.Dir = a.dir
		cmd.Run()
		after := s.tree()
		a.rw(0, "changes", "--call", call)
		if after == before {
			continue
		}
		person, theirs := r.IntN(4) == 0, "theirs "+call
		if person {
			a.sh("for f in a.txt b.md src/x.go lib/one.js; do [ ! -f $f ] || [ -L $f ] || echo " + theirs + " >> $f; done")
		}
		now := s.tree()
		cmd = exec.Command(a.bin, "undo", "--group", call)
		cmd.Dir, cmd.Env = a.dir, append(os.Environ(), "RW_WORKSPACE="+a.dir)
		out, err := cmd.CombinedOutput()
		switch back := s.tree(); {
		case err != nil && back != now:
			t.Fatalf("%s\nrefused, and changed: %s\n%s\n%s", script, out, now, back)
		case err != nil && !person:
			t.Fatalf("%s\nrefused: %s\n%s\n%s", script, out, before, after)
		case err != nil:
			continue
		case strings.Count(back, theirs) != strings.Count(now, theirs):
			t.Fatalf("%s\nwhat a person wrote is gone\n%s\n%s", script, now, back)
		case now == after && back != before:
			t.Fatalf("%s\nbefore\n%s\nundone\n%s", script, before, back)
		}
		if undone++; r.IntN(3) > 0 {
			continue
		}
		if a.rw(0, "undo"); s.tree() != now {
			t.Fatalf("%s\nthe undo is not undone\n%s\n%s", script, now, s.tree())
		}
	}
	if undone < 8 {
		t.Errorf("%d calls were undone", undone)
	}
}

// rounds is how often a test with random calls repeats them.
func rounds() int {
	if testbed.Long() {
		return 25
	}
	return 10
}
