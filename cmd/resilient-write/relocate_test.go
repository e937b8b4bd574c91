package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// newPlaced is newAround with the state where it is by default, and a directory
// of the user's state.
func newPlaced(t *testing.T) (a *around, state string) {
	a = newAround(t)
	state = filepath.Join(t.TempDir(), "state")
	t.Setenv("RW_STATE_DIR", "")
	t.Setenv("XDG_STATE_HOME", state)
	t.Setenv("HOME", t.TempDir())
	a.dir = filepath.Join(a.dir, "ws")
	if err := os.Mkdir(a.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return a, state
}

// stores lists the directories of a place.
func stores(dir string) (list []string) {
	entries, _ := os.ReadDir(filepath.Join(dir, "resilientwrite"))
	for _, e := range entries {
		if e.Name() != "known" {
			list = append(list, e.Name())
		}
	}
	return list
}

// TestStateIsOutOfHarmsWay: by default the state is in the common git directory,
// where what cleans up a work tree leaves it, and a root without a repository has
// it in the user's state. The workspace holds nothing of it.
func TestStateIsOutOfHarmsWay(t *testing.T) {
	a, state := newPlaced(t)
	a.sh("git init -q; echo one > a.txt; git add .; git commit -qm x")
	write := func(text string) {
		a.sh("printf '" + text + "' > ../in")
		a.rw(0, "write", "a.txt", "--mode", "overwrite", "--from", filepath.Join(filepath.Dir(a.dir), "in"))
	}
	write("two")
	a.sh("git clean -fdxq; git gc -q --prune=now; rm a.txt")
	a.rw(0, "restore", "a.txt", "--version", "1", "--force")
	if got := a.files()["a.txt"]; !strings.HasSuffix(got, "two") {
		t.Errorf("%q", got)
	}
	if got := stores(filepath.Join(a.dir, ".git")); !slices.Equal(got, []string{"main"}) || len(stores(state)) > 0 {
		t.Errorf("%v %v", got, stores(state))
	}
	// A worktree has a store of its own, which is there when it is gone.
	main := a.dir
	a.sh("git worktree add -q ../linked; ")
	a.dir = filepath.Join(filepath.Dir(main), "linked")
	write("three")
	write("four")
	list := stores(filepath.Join(main, ".git"))
	if len(list) != 2 {
		t.Fatal(list)
	}
	id := list[slices.IndexFunc(list, func(s string) bool { return s != "main" })]
	linked := a.dir
	a.dir = main
	a.sh("git worktree remove --force ../linked; git worktree add -q ../second")
	// What it kept comes back into a new one.
	a.dir = filepath.Join(filepath.Dir(linked), "second")
	old := filepath.Join(main, ".git", "resilientwrite", id)
	a.rw(0, "restore", "a.txt", "--version", "1", "--force", "--state-dir", old)
	if got := a.files()["a.txt"]; !strings.HasSuffix(got, "three") {
		t.Errorf("%q", got)
	}
	// Without a repository.
	a.dir = filepath.Join(filepath.Dir(linked), "plain")
	os.Mkdir(a.dir, 0o755)
	write("five")
	if len(stores(state)) != 1 {
		t.Errorf("%v", stores(state))
	}
	if left, _ := os.ReadDir(a.dir); len(left) != 1 {
		t.Errorf("%v", left)
	}
}

// TestPolicyInTheTreeApplies wherever the state is.
func TestPolicyInTheTreeApplies(t *testing.T) {
	a, _ := newPlaced(t)
	a.sh("git init -q; mkdir -p .resilient_write; printf 'protect:\\n  - \"*.lock\"\\n' > .resilient_write/policy.yaml; git add -f .; git commit -qm x; printf x > ../in")
	if out := a.fails("write", "a.lock", "--from", filepath.Join(filepath.Dir(a.dir), "in")); !strings.Contains(out, "protected") {
		t.Error(out)
	}
	a.rw(0, "write", "a.txt", "--from", filepath.Join(filepath.Dir(a.dir), "in"))
	if got := stores(filepath.Join(a.dir, ".git")); len(got) != 1 {
		t.Error(got)
	}
	a.sh("chmod 777 .resilient_write")
	if out := a.fails("write", "b.txt", "--from", filepath.Join(filepath.Dir(a.dir), "in")); !strings.Contains(out, "bad_state_dir") {
		t.Error(out)
	}
}

// TestStateThatCannotBeWritten is an error, and no second one is made.
func TestStateThatCannotBeWritten(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be somebody else")
	}
	a, state := newPlaced(t)
	a.sh("git init -q; printf x > ../in; chmod -R a+rX ../..")
	a.rw(0, "write", "a.txt", "--from", filepath.Join(filepath.Dir(a.dir), "in"))
	store := filepath.Join(a.dir, ".git", "resilientwrite", "main")
	a.sh("mkdir -p '" + state + "'; chmod 755 .git/resilientwrite .git/resilientwrite/main; chown -R 4711 .; chmod 500 .git/resilientwrite/main; chown 4711 '" + state + "'")
	bin := filepath.Join(filepath.Dir(a.dir), "rw")
	data, err := os.ReadFile(a.bin)
	if err == nil {
		err = os.WriteFile(bin, data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for dir := a.dir; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if st, _ := os.Stat(dir); st.Mode().Perm()&0o055 == 0 {
			os.Chmod(dir, 0o755)
		}
	}
	cmd := exec.Command(bin, "write", "b.txt", "--from", filepath.Join(filepath.Dir(a.dir), "in"))
	cmd.Dir = a.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4711, Gid: 4711}}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "state_not_writable") || strings.Contains(string(out), store) {
		t.Errorf("%v %s", err, out)
	}
	if len(stores(state)) > 0 {
		t.Error("a second store was made")
	}
	if _, err := os.Lstat(filepath.Join(a.dir, ".resilient_write")); err == nil {
		t.Error("a second store was made in the tree")
	}
}
