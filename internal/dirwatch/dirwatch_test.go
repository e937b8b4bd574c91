package dirwatch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

const quiet, longest = time.Millisecond, time.Minute

func waits(t *testing.T, d *Watcher) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	testbed.NoErr(t, d.Wait(ctx, quiet, longest, 0))
}

// TestLostEvents: when the system loses events, the waiting caller is woken, and all
// directories are watched again.
func TestLostEvents(t *testing.T) {
	root := t.TempDir()
	testbed.NoErr(t, os.Mkdir(filepath.Join(root, "a"), 0o755))
	d := testbed.Must(New(root))(t)
	defer d.Close()
	added, unwatched := d.Watch([]string{"", "a", strings.Repeat("x", 300)})
	testbed.Require(t, added == 2 && unwatched == 1, "%v %v", added, unwatched)
	added, unwatched = d.Watch([]string{"", "a"})
	testbed.Require(t, added == 0 && unwatched == 0, "%v %v", added, unwatched)
	d.w.Errors <- fsnotify.ErrEventOverflow
	waits(t, d)
	added, _ = d.Watch([]string{"", "a"})
	testbed.Expect(t, added == 2, "%v", added)
	testbed.NoErr(t, os.WriteFile(filepath.Join(root, "a", "f"), nil, 0o644))
	waits(t, d)
	d.Watch([]string{""})
	testbed.Expect(t, len(d.w.WatchList()) == 1, "the system still watches %q", d.w.WatchList())
}

// TestADirectoryThatIsGone: one that was removed since it was found is not one that the
// system does not watch. It wakes the waiting caller, who looks again. When the root is
// gone, none is watched.
func TestADirectoryThatIsGone(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	testbed.NoErr(t, os.Mkdir(root, 0o755))
	d := testbed.Must(New(root))(t)
	defer d.Close()
	added, unwatched := d.Watch([]string{"", "gone"})
	testbed.Require(t, added == 1 && unwatched == 0, "%v %v", added, unwatched)
	waits(t, d)
	testbed.NoErr(t, os.Rename(root, root+" moved"))
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { // until the event has come
		if _, unwatched = d.Watch([]string{"", "gone"}); unwatched == 2 {
			break
		}
		testbed.Require(t, !time.Now().After(end), "%d directories are not watched", unwatched)
	}
}

// TestADirectoryThatIsAnother: one that was removed and made again is watched
// again, with those below it.
func TestADirectoryThatIsAnother(t *testing.T) {
	root := t.TempDir()
	name := filepath.Join(root, "a")
	d := testbed.Must(New(root))(t)
	defer d.Close()
	for i := range 3 {
		testbed.NoErr(t, os.MkdirAll(filepath.Join(name, "b"), 0o755))
		added := 0
		for added == 0 { // until the events have come
			added, _ = d.Watch([]string{"", "a", "a/b"})
		}
		testbed.Expect(t, i < 2 || added == 2, "after a rename: %d", added)
		testbed.NoErr(t, os.WriteFile(filepath.Join(name, "f"), nil, 0o644))
		waits(t, d)
		if i == 1 {
			testbed.NoErr(t, os.Rename(name, name+" moved"))
		} else {
			testbed.NoErr(t, os.RemoveAll(name))
		}
	}
}

// TestWithoutTheSystem: a Watcher that the system refused watches nothing, and Wait returns in
// time.
func TestWithoutTheSystem(t *testing.T) {
	d := &Watcher{root: t.TempDir(), changed: make(chan struct{}, 1)}
	if added, unwatched := d.Watch([]string{"", "a"}); added != 0 || unwatched != 2 {
		t.Errorf("%d watched, %d not", added, unwatched)
	}
	testbed.IsErr(t, errors.Join(d.Wait(t.Context(), time.Hour, time.Hour, time.Millisecond), d.Close()), nil)
}
