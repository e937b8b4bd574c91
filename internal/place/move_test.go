package place_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/failpoint"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/lock"
	"github.com/resilientwrite/resilientwrite/internal/place"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// contentOf is every file of a store but those that say whose it is.
func contentOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for e := range testbed.Entries(t, dir, "waits.json", "left.json", place.RecordName) {
		if !e.Info.IsDir() {
			out[e.Path] = e.Text
		}
	}
	return out
}

// TestMoveEndsAnywhere: a move that ends at any step leaves one store, which is
// whole, and can be made again; on one file system and between two.
func TestMoveEndsAnywhere(t *testing.T) {
	first, stride := 0, 1
	if !testbed.Long() {
		first, stride = int(testbed.Seed(t)%3), 3
	}
	for _, far := range []bool{false, true} {
		for _, row := range []struct{ from, to place.Kind }{{place.Git, place.XDG}, {place.XDG, place.Git}, {place.Git, place.Tree}, {place.XDG, place.Tree}} {
			for step := first; ; step += stride {
				g := newGround(t)
				if far {
					if testbed.RAM() == "" || row.from != place.XDG && row.to != place.XDG {
						break
					}
					g.farState("rw-place-")
				}
				if ended := g.moveUntil(row.from, row.to, step); !ended {
					testbed.Expect(t, step >= 1 && (!far || step >= 4), "%v: only %d steps", row, step)
					break
				}
			}
		}
	}
}

// farState has the user's state on another file system, in a directory whose name begins
// with stem.
func (g ground) farState(stem string) (dir string) {
	g.Helper()
	ram := testbed.RAM()
	testbed.SkipIf(g, ram == "", "no second file system")
	dir = testbed.Must(os.MkdirTemp(ram, stem))(g)
	g.Cleanup(func() { os.RemoveAll(dir) })
	g.Setenv("XDG_STATE_HOME", dir)
	return dir
}

// moveUntil moves a store and ends at a step. It reports whether there was one.
func (g ground) moveUntil(from, to place.Kind, step int) (ended bool) {
	g.Helper()
	repo := g.repo("repo")
	w := testbed.Must(place.Look(repo))(g)
	open := func(kind place.Kind) place.Opened {
		o := testbed.Must(w.OpenAt(w.Of(kind), true))(g)
		if o.Parent == nil {
			o.Parent = testbed.Must(fsx.OpenRoot(repo))(g)
		}
		return o
	}
	source := open(from)
	testbed.Plant(g, source.Path, 0o600, map[string]string{"meta.json": "{}", "journal/1": "rows", "history/aa/x": "old", "locks/paths": ""})
	os.Symlink("/etc/passwd", filepath.Join(source.Path, "link"))
	want := contentOf(g.T, source.Path)
	delete(want, "link")
	one := func() string {
		found := w.Found()
		testbed.Require(g, len(found) == 1, "%s to %s, step %d: %d stores", from, to, step, len(found))
		got := contentOf(g.T, found[0].Path)
		delete(got, "link")
		testbed.Expect(g, maps.Equal(got, want), "%s to %s, step %d: %v", from, to, step, got)
		return found[0].Path
	}
	last := ""
	func() {
		n := 0
		disarm := failpoint.Arm(func(point string) {
			last = point
			if n++; n > step {
				panic("ended")
			}
		})
		defer disarm()
		defer func() { ended = recover() != nil }()
		err := place.Move(source.Path, open(to))
		testbed.Expect(g, err == nil, "%v", err)
	}()
	at, err := one(), error(nil)
	g.noOther(repo, at, true)
	if at == w.Of(to).Path {
		if left, _ := filepath.Glob(source.Path + ".moved-*"); ended && last == "relocate:retired" {
			g.open(repo) // makes a store of it for good
			testbed.NoErr(g, os.RemoveAll(left[0]))
			one()
		}
		if ended && last == "relocate:settled" { // a move of the copy ends the first one as well
			third := testbed.Must(place.OpenDir(filepath.Join(g.mkdir("third"), "store")))(g)
			testbed.NoErr(g, errors.Join(place.Move(at, third), place.Move(third.Path, open(to))))
		} else {
			err = place.Finish(at)
		}
	} else {
		err = place.Move(at, open(to))
	}
	testbed.Expect(g, err == nil, "%s to %s, again after step %d: %v", from, to, step, err)
	testbed.Equal(g, one(), w.Of(to).Path, "it is in")
	for _, pattern := range []string{source.Path + ".*", w.Of(to).Path + ".*", filepath.Join(w.Of(to).Path, "*.json")} {
		if left := testbed.Must(filepath.Glob(pattern))(g.T); len(left) > 0 && filepath.Base(left[0]) != "meta.json" {
			g.Errorf("%s to %s, again after step %d: left %q", from, to, step, left)
		}
	}
	return ended
}

// TestMoveRefuses what is in use and what is taken, and changes nothing.
func TestMoveRefuses(t *testing.T) {
	g := newGround(t)
	repo := g.repo("repo")
	from := g.open(repo).Path
	w, _ := place.Look(repo)
	to := testbed.Must(w.OpenAt(w.Of(place.XDG), true))(t)
	os.Mkdir(to.Path, 0o700)
	testbed.IsErr(t, place.Move(from, to), place.ErrTaken)
	os.Remove(to.Path)
	st := testbed.Must(testbed.Must(fsx.OpenRoot(repo))(t).Stat())(t)
	mark := testbed.Must(json.Marshal(map[string]any{"retired": []byte(repo), "inode": st.Ino}))(t)
	testbed.NoErr(t, os.WriteFile(filepath.Join(from, "left.json"), mark, 0o600)) // names what no move has left
	testbed.NoErr(t, place.Finish(from))
	testbed.Expect(t, len(w.Found()) == 1, "the workspace was removed")
	os.Remove(filepath.Join(from, "left.json"))
	os.Mkdir(filepath.Join(from, "locks"), 0o700)
	locks := testbed.Must(fsx.OpenRoot(filepath.Join(from, "locks")))(t)
	defer locks.Close()
	_, release, err := lock.Register(locks, "other")
	testbed.NoErr(t, err)
	for _, err := range []error{place.Move(from, to), place.Remove(from)} {
		testbed.Expect(t, errors.Is(err, place.ErrInUse), "%v", err)
	}
	release()
	err = place.Remove(from)
	testbed.Expect(t, err == nil && len(w.Found()) == 0, "%v %v", err, w.Found())
}

// TestInterruptedCopyIsNoStore: a copy that a move to another file system did not finish
// never becomes a store: not where the original is moved elsewhere, nor where its path is
// not text.
func TestInterruptedCopyIsNoStore(t *testing.T) {
	for _, at := range []string{"relocate:made", "relocate:begun", "relocate:copied"} {
		g := newGround(t)
		state := g.farState("rw-\xff\n")
		root := g.mkdir("\xff\n")
		from := g.open(root)
		w := testbed.Must(place.Look(root))(t)
		to := testbed.Must(place.OpenDir(w.Of(place.Tree).Path))(t)
		disarm := failpoint.Arm(func(point string) {
			if point == at {
				panic("ended")
			}
		})
		func() {
			defer disarm()
			defer func() { recover() }()
			t.Error(at, place.Move(from.Path, to))
		}()
		found := w.Found()
		testbed.Expect(t, len(found) == 1 && found[0].Kind == place.XDG, "%s: %q", at, found)
		other := testbed.Must(place.OpenDir(filepath.Join(state, "other")))(t)
		err := place.Move(from.Path, other)
		testbed.Expect(t, err == nil, "%s, to a third place: %v", at, err)
		found = w.Found()
		testbed.Expect(t, len(found) == 0, "%s, from a third place: %q", at, found)
		err = errors.Join(place.Move(other.Path, to), place.Finish(to.Path))
		testbed.Expect(t, err == nil && len(w.Found()) == 1, "%s, finished: %v, %q", at, err, w.Found())
	}
}

// TestCopyThatIsRemoved: a store stays where it is if another program removes its copy,
// or a part of it, during a move to another file system.
func TestCopyThatIsRemoved(t *testing.T) {
	for _, at := range []string{"relocate:begun", "relocate:copied", "relocate:retired"} {
		g := newGround(t)
		g.farState("rw-place-")
		root := g.mkdir("ws")
		from := g.open(root).Path
		was := contentOf(t, from)
		to := testbed.Must(place.OpenDir(filepath.Join(root, "copy")))(t)
		disarm := failpoint.Arm(func(point string) {
			if point == at {
				os.RemoveAll(to.Path)
			}
		})
		err := place.Move(from, to)
		disarm()
		found := testbed.Must(place.Look(root))(t).Found()
		testbed.Expect(t, err != nil && len(found) == 1 && found[0].Path == from, "%s: %v, %q", at, err, found)
		now := contentOf(t, from)
		for name, text := range was { // locks come besides
			testbed.Expect(t, now[name] == text, "%s: %s has changed", at, name)
		}
	}
}

// TestMoveIntoItself is refused, under every name of the place, and changes nothing.
func TestMoveIntoItself(t *testing.T) {
	g := newGround(t)
	root := g.mkdir("ws")
	from := g.open(root).Path
	testbed.NoErr(t, os.Symlink(from, filepath.Join(root, "link")))
	for _, name := range []string{from + "/new", from + "/journal/new", root + "/link/new", from + "/../" + filepath.Base(from) + "/new"} {
		to := testbed.Must(place.OpenDir(name))(t)
		testbed.IsErr(t, place.Move(from, to), place.ErrInside, name)
		to.Parent.Close()
	}
	_, err := os.Lstat(filepath.Join(from, "new"))
	testbed.Expect(t, err != nil, "something was made")
}

// TestRemovedInPart: what a removal left that ended at any step is listed, and can be
// removed.
func TestRemovedInPart(t *testing.T) {
	for _, kind := range []place.Kind{place.Git, place.XDG, place.Tree} {
		g := newGround(t)
		root := g.repo("repo")
		w := testbed.Must(place.Look(root))(t)
		dir := w.Of(kind).Path
		testbed.NoErr(t, errors.Join(os.MkdirAll(dir+"/journal", 0o700), os.WriteFile(dir+"/meta.json", nil, 0o600)))
		g.open(root) // notes where it is
		func() {
			defer failpoint.Arm(func(string) { panic("ended") })()
			defer func() { recover() }()
			t.Error(place.Remove(dir))
		}()
		left := testbed.Must(place.All(w))(t)
		testbed.Require(t, len(left) == 1 && len(w.Found()) == 0, "%s: %v, %v", kind, left, w.Found())
		os.RemoveAll(left[0].Path + "/meta.json")
		os.RemoveAll(left[0].Path + "/journal")
		again := testbed.Must(place.All(w))(t)
		testbed.Require(t, len(again) == 1 && place.IsStore(again[0].Path), "%s: %v", kind, again)
		if err := place.Remove(left[0].Path); err != nil || len(testbed.Must(place.All(w))(t)) != 0 {
			t.Errorf("%s: %v, %v", kind, err, testbed.Must(place.All(w))(t))
		}
	}
}
