//go:build unix

package resilientwrite_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestMoveKeepsModesOfDirectories: a private directory is as private under its new
// name, after undo and after its undo; one that is there already keeps its own mode, and one
// that keeps a directory without files stays.
func TestMoveKeepsModesOfDirectories(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	for _, d := range []struct {
		path string
		mode os.FileMode
	}{
		{"old", 0o700}, {"old/in", 0o750}, {"old/in/deep", 0o770}, {"old/stays", 0o711}, {"old/stays/void", 0o755}, {"there", 0o755}, {"there/in", 0o711},
	} {
		at := filepath.Join(dir, d.path)
		noErr(t, os.MkdirAll(at, 0o755))
		if !strings.HasSuffix(d.path, "void") && !strings.HasPrefix(d.path, "there") {
			noErr(t, os.WriteFile(filepath.Join(at, "f"), []byte(d.path), 0o644))
		}
		defer os.Chmod(at, 0o755)
		noErr(t, os.Chmod(at, d.mode))
	}
	modes := func() string {
		var list []string
		filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
			if rel, _ := filepath.Rel(dir, p); err == nil && rel != "." && e.Name() == rw.StateDirName {
				return fs.SkipDir
			} else if err == nil && rel != "." {
				info, _ := e.Info()
				list = append(list, fmt.Sprint(info.Mode(), " ", rel))
			}
			return nil
		})
		return strings.Join(list, "\n")
	}
	undo := func() {
		t.Helper()
		must(s.Undo(t.Context(), rw.UndoRequest{}))(t)
	}
	before := modes()
	for to, want := range map[string]string{
		"new/name": "drwxr-xr-x new\ndrwx------ new/name\n-rw-r--r-- new/name/f\ndrwxr-x--- new/name/in\ndrwxrwx--- new/name/in/deep\n-rw-r--r-- new/name/in/deep/f\n-rw-r--r-- new/name/in/f\n" +
			"drwx--x--x new/name/stays\n-rw-r--r-- new/name/stays/f\ndrwx------ old\ndrwx--x--x old/stays\ndrwxr-xr-x old/stays/void\ndrwxr-xr-x there\ndrwx--x--x there/in",
		"there": "drwx------ old\ndrwx--x--x old/stays\ndrwxr-xr-x old/stays/void\ndrwxr-xr-x there\n-rw-r--r-- there/f\ndrwx--x--x there/in\ndrwxrwx--- there/in/deep\n-rw-r--r-- there/in/deep/f\n-rw-r--r-- there/in/f\n" +
			"drwx--x--x there/stays\n-rw-r--r-- there/stays/f",
	} {
		out, err := s.Move(t.Context(), rw.MoveRequest{Path: "old", To: to})
		if err != nil || out.Files != 4 {
			t.Fatal(out, err)
		}
		if got := modes(); got != want {
			t.Errorf("moved to %s:\n%s\nwant\n%s", to, got, want)
		}
		undo()
		if got := modes(); got != before {
			t.Errorf("undone:\n%s\nwant\n%s", got, before)
		}
		undo()
		if got := modes(); got != want {
			t.Errorf("redone:\n%s\nwant\n%s", got, want)
		}
		undo()
		if got := modes(); got != before {
			t.Errorf("undone again:\n%s\nwant\n%s", got, before)
		}
	}
}

// TestGonePrivateDirectories: a directory that was removed with its content is as
// private as before when a file in it is restored.
func TestGonePrivateDirectories(t *testing.T) {
	for what, back := range map[string]func(t *testing.T, s *rw.Store) error{
		"restore": func(t *testing.T, s *rw.Store) error {
			_, err := s.Restore(t.Context(), rw.RestoreRequest{Path: "private/in/key", Version: 1})
			return err
		},
		"undo": func(t *testing.T, s *rw.Store) error {
			_, err := s.Undo(t.Context(), rw.UndoRequest{})
			return err
		},
	} {
		dir := t.TempDir()
		s := open(t, dir, nil)
		write(t, s, "private/in/key", "value", rw.ModeCreate)
		for d, mode := range map[string]os.FileMode{"private": 0o700, "private/in": 0o710} {
			noErr(t, os.Chmod(filepath.Join(dir, d), mode))
		}
		must(s.Scan(t.Context(), rw.ScanRequest{}))(t)
		deleted(t, s, "private/in/key")
		noErr(t, os.RemoveAll(filepath.Join(dir, "private")))
		must(s.Scan(t.Context(), rw.ScanRequest{}))(t)
		noErr(t, back(t, s))
		for d, mode := range map[string]os.FileMode{"private": 0o700, "private/in": 0o710} {
			if st, err := os.Stat(filepath.Join(dir, d)); err != nil || st.Mode().Perm() != mode {
				t.Errorf("%s: %s is %v, want %v (%v)", what, d, st.Mode(), mode, err)
			}
		}
		fileIs(t, dir, "private/in/key", "value")
	}
}

// TestMoveKeepsOwnersOfDirectories: a process that may set owners does not take a
// directory from its user.
func TestMoveKeepsOwnersOfDirectories(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory to another user")
	}
	dir := t.TempDir()
	s := open(t, dir, nil)
	write(t, s, "old/in/f", "text", rw.ModeCreate)
	for d, id := range map[string]int{"old": 1234, "old/in": 1235} {
		noErr(t, os.Chown(filepath.Join(dir, d), id, id+1))
		noErr(t, os.Chmod(filepath.Join(dir, d), os.ModeSetgid|0o700))
	}
	must(s.Move(t.Context(), rw.MoveRequest{Path: "old", To: "new/name"}))(t)
	for d, id := range map[string]int{"new": 0, "new/name": 1234, "new/name/in": 1235} {
		st := must(os.Stat(filepath.Join(dir, d)))(t)
		owner := st.Sys().(*syscall.Stat_t)
		if id != 0 && (int(owner.Uid) != id || int(owner.Gid) != id+1 || owner.Mode&0o7777 != 0o2700) || id == 0 && owner.Uid != 0 {
			t.Errorf("%s: owner %d, group %d, mode %o", d, owner.Uid, owner.Gid, owner.Mode)
		}
	}
}

// TestMoveOntoADirectorySaysHow: a file that is moved onto a directory is refused with
// the path that would move it there.
func TestMoveOntoADirectorySaysHow(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	write(t, s, "a.txt", "text", rw.ModeCreate)
	write(t, s, "d/b.txt", "text", rw.ModeCreate)
	_, err := s.Move(t.Context(), rw.MoveRequest{Path: "a.txt", To: "d"})
	if e := rw.AsError("move", err); e == nil || e.Detail != rw.ErrIsADirectory || !strings.Contains(e.Hint, "d/a.txt") {
		t.Errorf("%v", err)
	}
	if _, err = s.Move(t.Context(), rw.MoveRequest{Path: "none", To: "d"}); !errors.Is(err, rw.ErrNotFound) {
		t.Errorf("%v", err)
	}
	must(s.Move(t.Context(), rw.MoveRequest{Path: "a.txt", To: "d/a.txt"}))(t)
}
