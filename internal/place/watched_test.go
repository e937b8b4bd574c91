package place_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/failpoint"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/lock"
	"github.com/resilientwrite/resilientwrite/internal/place"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// watch knows which directories have names that are not flushed, and is told of each
// directory that is opened.
type watch struct {
	dirty  map[[2]string]bool // a rename needs a flush of one of two
	opened func(path string)
}

// watched is a directory that a watch observes.
type watched struct {
	fsx.Dir
	*watch
	path string
}

// watch observes what the package opens until the test ends.
func (g ground) watch() *watch {
	w, open := &watch{map[[2]string]bool{}, func(string) {}}, *place.OpenRoot
	*place.OpenRoot = func(path string) (fsx.Dir, error) { return w.wrap(path)(open(path)) }
	g.Cleanup(func() { *place.OpenRoot = open })
	return w
}

func (w *watch) wrap(path string) func(fsx.Dir, error) (fsx.Dir, error) {
	return func(d fsx.Dir, err error) (fsx.Dir, error) {
		if err != nil {
			return d, err
		}
		w.opened(path)
		return &watched{d, w, path}, nil
	}
}

func (d *watched) OpenDir(name string) (fsx.Dir, error) {
	return d.wrap(filepath.Join(d.path, name))(d.Dir.OpenDir(name))
}

// names is an operation that gives a name in another directory.
func (d *watched) names(to fsx.Dir, do func(fsx.Dir) error) error {
	at := to.(*watched)
	err := do(at.Dir)
	if err == nil {
		d.dirty[[2]string{d.path, at.path}] = true
	}
	return err
}

func (d *watched) Rename(name string, to fsx.Dir, as string) error {
	return d.names(to, func(to fsx.Dir) error { return d.Dir.Rename(name, to, as) })
}

func (d *watched) RenameNoReplace(name string, to fsx.Dir, as string) error {
	return d.names(to, func(to fsx.Dir) error { return d.Dir.RenameNoReplace(name, to, as) })
}

func (d *watched) Link(name string, to fsx.Dir, as string) error {
	return d.names(to, func(to fsx.Dir) error { return d.Dir.Link(name, to, as) })
}

func (d *watched) Mkdir(name string, perm uint32) error {
	return d.names(d, func(fsx.Dir) error { return d.Dir.Mkdir(name, perm) })
}

func (d *watched) Sync() error {
	for pair := range d.dirty {
		if pair[0] == d.path || pair[1] == d.path {
			delete(d.dirty, pair)
		}
	}
	return d.Dir.Sync()
}

// TestNamesAreFlushed: before the next step, and before the call returns, on one file
// system and between two.
func TestNamesAreFlushed(t *testing.T) {
	for _, far := range []bool{false, true} {
		g := newGround(t)
		if far {
			g.farState("rw-place-")
		}
		root, linked := g.mkdir("ws"), filepath.Join(g.dir, "linked")
		git(t, g.repo("repo"), "worktree", "add", "-q", linked)
		w := g.watch()
		defer failpoint.Arm(func(point string) {
			testbed.Expect(t, len(w.dirty) == 0 || point == "relocate:renamed" || point == "relocate:made" || point == "relocate:begun", "%s: %v", point, w.dirty)
		})()
		clean := func(what string, err error) {
			testbed.Expect(t, err == nil && len(w.dirty) == 0, "%s: %v, %v", what, err, w.dirty)
		}
		from := g.open(root).Path
		clean("open", nil)
		g.open(linked)
		clean("open a worktree", nil)
		to := testbed.Must(place.OpenDir(filepath.Join(root, "copy")))(t)
		clean("move", place.Move(from, to))
		clean("remove", place.Remove(to.Path))
	}
}

// TestUseIsNoticed: a store that a process opens for writing at any step of a move to
// another file system, or of a removal, stays one store.
func TestUseIsNoticed(t *testing.T) {
	try := func(n int, call func(ws *place.Workspace, from string) error) bool {
		g := newGround(t)
		g.farState("rw-place-")
		root := g.mkdir("ws")
		from := g.open(root).Path
		was := contentOf(t, from)
		ws, w := testbed.Must(place.Look(root))(t), g.watch()
		none := func() error { return nil }
		release, late := none, n == 0
		use := func(path string) {
			locks := filepath.Join(path, "locks")
			testbed.NoErr(t, os.MkdirAll(locks, 0o700))
			dir := testbed.Must(fsx.OpenRoot(locks))(t)
			t.Cleanup(func() { dir.Close() })
			_, end, err := lock.Register(dir, "other")
			testbed.NoErr(t, err)
			release = end
		}
		w.opened = func(path string) {
			if path != from && !strings.HasPrefix(path, from+".moved-") || strings.Contains(path[len(from):], "/") {
				return
			}
			if n--; n == 0 {
				use(path)
			}
		}
		disarm := failpoint.Arm(func(point string) {
			if point == "relocate:copied" { // what it wrote is not in the copy
				testbed.NoErr(t, release())
				release = none
			}
			if late && point == "relocate:retired" {
				use(testbed.Must(filepath.Glob(from + ".moved-*"))(t)[0])
			}
		})
		err := call(ws, from)
		disarm()
		w.opened = func(string) {}
		found := ws.Found()
		if n > 0 {
			return false
		}
		testbed.Require(t, errors.Is(err, place.ErrInUse) && len(found) == 1 && (!late || found[0].Path == from), "%v, %v", err, found)
		for name, text := range contentOf(t, found[0].Path) { // locks come besides
			testbed.Expect(t, was[name] == text || strings.HasPrefix(name, "locks"), "%s has changed", name)
		}
		testbed.NoErr(t, release())
		if found[0].Path == from {
			testbed.NoErr(t, call(ws, from))
		} else {
			testbed.NoErr(t, place.Finish(found[0].Path))
		}
		left, _ := filepath.Glob(from + "*")
		testbed.Expect(t, len(left) == 0, "left %q", left)
		return true
	}
	for n := 0; ; n++ {
		if !try(n, func(ws *place.Workspace, from string) error {
			return place.Move(from, testbed.Must(place.OpenDir(ws.Of(place.Tree).Path))(t))
		}) {
			testbed.Expect(t, n > 6, "only %d steps", n)
			break
		}
	}
	for n := 1; n <= 2; n++ {
		try(n, func(_ *place.Workspace, from string) error { return place.Remove(from) })
	}
}
