package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/failpoint"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/place"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestRelocateSweepOfTargets: a place that takes no store, or only a part of it, is refused
// with what mends it. The store stays where it was, nothing is left at the place, and the
// same call succeeds once the place is in order.
func TestRelocateSweepOfTargets(t *testing.T) {
	testbed.SkipIf(t, os.Getuid() != 0, "only root can mount")
	small := t.TempDir()
	testbed.SkipIf(t, syscall.Mount("none", small, "tmpfs", 0, "size=256k") != nil, "mounting is not allowed here")
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
			expect(t, r.code == row.code && strings.Contains(r.errs+r.out, row.said), "code %d: %s", r.code, r.errs)
			after := must(os.ReadDir(small))(t)
			expect(t, len(after) == len(before), "left %v", after)
			out := s.ok("history", "a.txt").out
			expect(t, strings.Count(out, `"rev"`) == 2, "%v", out)
			if row.after == nil {
				return
			}
			noErr(t, row.after())
			s.ok("relocate", "--to", row.to)
			s.ok("check", "--state-dir", row.to)
			s.ok("relocate", "--state-dir", row.to, "--to", "tree")
			fails(os.Lstat(row.to))(t, os.ErrNotExist)
		})
	}
}

// TestOpenWhileStateMoves: a store that is opened at any step of the move of its state
// directory is refused, or its acknowledged writes are in the journal of the one store
// that there is later, whether the move ends, is killed at that step or at any later one.
func TestOpenWhileStateMoves(t *testing.T) {
	testbed.SkipIf(t, os.Getuid() != 0, "only root can mount")
	other := t.TempDir()
	testbed.SkipIf(t, syscall.Mount("none", other, "tmpfs", 0, "size=64m") != nil, "mounting is not allowed here")
	t.Cleanup(func() { syscall.Unmount(other, syscall.MNT_DETACH) })
	for _, stays := range []bool{false, true} {
		for at := 0; ; at++ {
			ended := 0
			for killed := at; ; killed++ {
				m := moving{T: t, name: fmt.Sprintf("opened at step %d, stays open: %t, killed at step %d", at, stays, killed), stays: stays, at: at, killed: killed}
				if !m.run(other) {
					break
				}
				ended++
			}
			if ended == 0 {
				expect(t, at >= 5, "only %d steps", at)
				break
			}
		}
	}
}

// moving is one move.
type moving struct {
	*testing.T
	name       string
	stays      bool
	at, killed int // steps
}

// run reports whether the move got as far as the step where it is killed.
func (m moving) run(mount string) (ended bool) {
	state := must(os.MkdirTemp(mount, ""))(m)
	defer os.RemoveAll(state)
	m.Setenv("XDG_STATE_HOME", state)
	root := must(filepath.EvalSymlinks(m.TempDir()))(m)
	said := map[string]bool{}
	write := func(s *rw.Store, name string) {
		if _, err := s.SafeWrite(m.Context(), rw.SafeWriteRequest{Path: name, Content: []byte(name)}); err == nil {
			said[name] = true
		}
	}
	open := func() (*rw.Store, error) { return rw.Open(m.Context(), root, nil) }
	s := must(open())(m)
	write(s, "first")
	noErr(m, s.Close(m.Context()))
	w := must(place.Look(root))(m)
	to := must(place.OpenDir(w.Of(place.Tree).Path))(m)
	defer to.Parent.Close()
	var other *rw.Store
	var refused error
	func() {
		n := -1
		step := func(string) {}
		step = func(string) {
			if n++; n == m.at {
				failpoint.Arm(func(string) {}) // not those of the store
				if other, refused = open(); refused == nil {
					write(other, "second")
					if !m.stays {
						other.Close(m.Context())
					}
				}
				failpoint.Arm(step)
			}
			if n == m.killed {
				panic("killed")
			}
		}
		defer failpoint.Arm(step)()
		defer func() { ended = recover() != nil }()
		if err := place.Move(w.Found()[0].Path, to); err != nil && !errors.Is(err, place.ErrInUse) {
			m.Errorf("%s: %v", m.name, err)
		}
	}()
	if refused != nil && !errors.Is(refused, rw.ErrIOBusy) {
		m.Errorf("%s: %v", m.name, refused)
	}
	if other != nil && m.stays {
		write(other, "third")
		other.Close(m.Context())
	}
	s = must(open())(m)
	defer s.Close(m.Context())
	write(s, "last")
	if found := w.Found(); len(found) != 1 {
		m.Errorf("%s: %v", m.name, found)
	}
	j := must(s.JournalSince(m.Context(), rw.JournalSinceRequest{AfterSeq: new(uint64)}))(m)
	for _, e := range j.Entries {
		delete(said, e.Path)
	}
	if len(said) > 0 {
		m.Errorf("%s: the journal lacks %v", m.name, said)
	}
	return ended
}

// TestOpenAsStateMoves: a store that is opened as its state directory is moved or removed is
// the moved one, or a new one; no second one is made in the old place.
func TestOpenAsStateMoves(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	for _, readOnly := range []bool{false, true} {
		for _, remove := range []bool{false, true} {
			root := must(filepath.EvalSymlinks(t.TempDir()))(t)
			write := func(s *rw.Store, name string) {
				must(s.SafeWrite(t.Context(), rw.SafeWriteRequest{Path: name, Content: []byte("x")}))(t)
			}
			s := must(rw.Open(t.Context(), root, nil))(t)
			write(s, "first")
			noErr(t, s.Close(t.Context()))
			w := must(place.Look(root))(t)
			from := w.Found()[0].Path
			to := must(w.OpenAt(w.Of(place.Tree), true))(t)
			to.Parent = must(fsx.OpenRoot(root))(t)
			defer to.Parent.Close()
			disarm := failpoint.Arm(func(string) {
				failpoint.Arm(func(string) {})
				if remove {
					noErr(t, place.Remove(from))
				} else {
					noErr(t, place.Move(from, to))
				}
			})
			s = must(rw.Open(t.Context(), root, &rw.Options{ReadOnly: readOnly}))(t)
			disarm()
			if !readOnly {
				write(s, "second")
			}
			j := must(s.JournalSince(t.Context(), rw.JournalSinceRequest{AfterSeq: new(uint64)}))(t)
			want := map[bool]int{false: 1, true: 0}[remove] + map[bool]int{false: 1, true: 0}[readOnly]
			expect(t, len(j.Entries) == want && len(w.Found()) <= 1 && (remove || w.Found()[0].Kind == place.Tree),
				"read-only %t, removed %t: %d rows, %v", readOnly, remove, len(j.Entries), w.Found())
			noErr(t, s.Close(t.Context()))
		}
	}
}
