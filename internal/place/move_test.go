package place_test

import (
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
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "waits.json" {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		data, err := os.ReadFile(p)
		out[rel] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestMoveEndsAnywhere: a move that ends at any step leaves one store, which is
// whole, and can be made again; on one file system and between two.
func TestMoveEndsAnywhere(t *testing.T) {
	ram := testbed.RAM()
	for _, far := range []bool{false, true} {
		for _, row := range []struct{ from, to place.Kind }{{place.Git, place.XDG}, {place.XDG, place.Git}, {place.Git, place.Tree}, {place.XDG, place.Tree}} {
			for step := 0; ; step++ {
				g := newGround(t)
				if far {
					if ram == "" || row.from != place.XDG && row.to != place.XDG {
						break
					}
					state, err := os.MkdirTemp(ram, "rw-place-")
					if err != nil {
						t.Skip("no second file system")
					}
					defer os.RemoveAll(state)
					t.Setenv("XDG_STATE_HOME", state)
				}
				if ended := g.moveUntil(row.from, row.to, step); !ended {
					if step < 1 || far && step < 4 {
						t.Errorf("%v: only %d steps", row, step)
					}
					break
				}
			}
		}
	}
}

// moveUntil moves a store and ends at a step. It reports whether there was one.
func (g ground) moveUntil(from, to place.Kind, step int) (ended bool) {
	g.Helper()
	repo := g.repo("repo")
	w, err := place.Look(repo)
	if err != nil {
		g.Fatal(err)
	}
	open := func(kind place.Kind) place.Opened {
		o, err := w.OpenAt(w.Of(kind), true)
		if err == nil && o.Parent == nil {
			o.Parent, err = fsx.OpenRoot(repo)
		}
		if err != nil {
			g.Fatal(err)
		}
		return o
	}
	source := open(from)
	for name, text := range map[string]string{"meta.json": "{}", "journal/1": "rows", "history/aa/x": "old", "locks/paths": ""} {
		file := filepath.Join(source.Path, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			g.Fatal(err)
		}
	}
	os.Symlink("/etc/passwd", filepath.Join(source.Path, "link"))
	want := contentOf(g.T, source.Path)
	delete(want, "link")
	one := func() string {
		found := w.Found()
		if len(found) != 1 {
			g.Fatalf("%s to %s, step %d: %d stores", from, to, step, len(found))
		}
		got := contentOf(g.T, found[0].Path)
		delete(got, "link")
		if !maps.Equal(got, want) {
			g.Errorf("%s to %s, step %d: %v", from, to, step, got)
		}
		return found[0].Path
	}
	func() {
		n := 0
		disarm := failpoint.Arm(func(string) {
			if n++; n > step {
				panic("ended")
			}
		})
		defer disarm()
		defer func() { ended = recover() != nil }()
		if err := place.Move(source.Path, open(to)); err != nil {
			g.Error(err)
		}
	}()
	if at := one(); at != w.Of(to).Path {
		if err := place.Move(at, open(to)); err != nil {
			g.Errorf("%s to %s, again after step %d: %v", from, to, step, err)
		}
	}
	if at := one(); at != w.Of(to).Path {
		g.Errorf("it is in %s", at)
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
	if err := place.Move(from, to); !errors.Is(err, place.ErrTaken) {
		t.Error(err)
	}
	os.Remove(to.Path)
	os.Mkdir(filepath.Join(from, "locks"), 0o700)
	locks := testbed.Must(fsx.OpenRoot(filepath.Join(from, "locks")))(t)
	defer locks.Close()
	_, release, err := lock.Register(locks, "other")
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{place.Move(from, to), place.Remove(from)} {
		if !errors.Is(err, place.ErrInUse) {
			t.Error(err)
		}
	}
	release()
	if err := place.Remove(from); err != nil || len(w.Found()) != 0 {
		t.Error(err, w.Found())
	}
}
