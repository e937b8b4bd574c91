//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestStateThatCannotBeWritten checks that this is an error, and that no second
// store is created.
func TestStateThatCannotBeWritten(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to run as another user")
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
	noErr(t, err)
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
