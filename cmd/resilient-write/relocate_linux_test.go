package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestRelocateSweepOfTargets: a place that takes no store, or only a part of it, is refused
// with what mends it. The store stays where it was, nothing is left at the place, and the
// same call succeeds once the place is in order.
func TestRelocateSweepOfTargets(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	small := t.TempDir()
	if err := syscall.Mount("none", small, "tmpfs", 0, "size=256k"); err != nil {
		t.Skip("mounting is not allowed here")
	}
	t.Cleanup(func() { syscall.Unmount(small, syscall.MNT_DETACH) })
	remount := func(flags uintptr, data string) func() error {
		return func() error { return syscall.Mount("none", small, "tmpfs", syscall.MS_REMOUNT|flags, data) }
	}
	s := newShell(t)
	s.with(strings.Repeat("words that are kept\n", 20000)).ok("write", "a.txt")
	s.with("x").ok("write", "a.txt", "--mode", "overwrite", "--allow-shrink")
	noErr(t, os.Symlink(filepath.Join(s.dir, ".resilient_write"), filepath.Join(s.dir, "link")))
	target := filepath.Join(small, "state")
	for _, row := range []struct {
		name, to      string
		before, after func() error
		code          rw.Code
		said          string
	}{
		{"full", target, remount(0, "size=256k"), remount(0, "size=32m"), rw.CodeStorage, "disk_full"},
		{"read-only", target, remount(syscall.MS_RDONLY, ""), remount(0, ""), rw.CodePermission, "read_only_file_system"},
		{"taken", target, func() error { return os.WriteFile(target, nil, 0o600) }, func() error { return os.Remove(target) }, rw.CodePrecondition, "store_not_empty"},
		{"no parent", filepath.Join(small, "no", "state"), remount(0, ""), func() error { return os.Mkdir(filepath.Join(small, "no"), 0o700) }, rw.CodeUsage, "does not exist"},
		{"inside", filepath.Join(s.dir, ".resilient_write", "state"), remount(0, ""), nil, rw.CodeUsage, "in the state directory itself"},
		{"inside by a link", filepath.Join(s.dir, "link", "state"), remount(0, ""), nil, rw.CodeUsage, "in the state directory itself"},
	} {
		t.Run(row.name, func(t *testing.T) {
			noErr(t, row.before())
			before := must(os.ReadDir(small))(t)
			r := s.run("relocate", "--to", row.to)
			if r.code != row.code || !strings.Contains(r.errs+r.out, row.said) {
				t.Errorf("code %d: %s", r.code, r.errs)
			}
			if after := must(os.ReadDir(small))(t); len(after) != len(before) {
				t.Errorf("left %v", after)
			}
			if out := s.ok("history", "a.txt").out; strings.Count(out, `"rev"`) != 2 {
				t.Error(out)
			}
			if row.after == nil {
				return
			}
			noErr(t, row.after())
			s.ok("relocate", "--to", row.to)
			s.ok("check", "--state-dir", row.to)
			s.ok("relocate", "--state-dir", row.to, "--to", "tree")
			if _, err := os.Lstat(row.to); !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
		})
	}
}
