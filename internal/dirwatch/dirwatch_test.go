package dirwatch

import (
	"context"
	"os"
	"path/filepath"
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
	if added, unwatched := d.Watch([]string{"", "a", "not there"}); added != 2 || unwatched != 1 {
		t.Fatal(added, unwatched)
	}
	if added, unwatched := d.Watch([]string{"", "a"}); added != 0 || unwatched != 0 {
		t.Fatal(added, unwatched)
	}
	d.w.Errors <- fsnotify.ErrEventOverflow
	waits(t, d)
	if added, _ := d.Watch([]string{"", "a"}); added != 2 {
		t.Error(added)
	}
	testbed.NoErr(t, os.WriteFile(filepath.Join(root, "a", "f"), nil, 0o644))
	waits(t, d)
}

// TestADirectoryThatIsAnother: one that was removed and made again is watched
// again.
func TestADirectoryThatIsAnother(t *testing.T) {
	root := t.TempDir()
	name := filepath.Join(root, "a")
	d := testbed.Must(New(root))(t)
	defer d.Close()
	for i := range 3 {
		testbed.NoErr(t, os.Mkdir(name, 0o755))
		for added := 0; added == 0; { // until the events have come
			added, _ = d.Watch([]string{"", "a"})
		}
		testbed.NoErr(t, os.WriteFile(filepath.Join(name, "f"), nil, 0o644))
		waits(t, d)
		if i == 1 {
			testbed.NoErr(t, os.Rename(name, name+" moved"))
		} else {
			testbed.NoErr(t, os.RemoveAll(name))
		}
	}
}
