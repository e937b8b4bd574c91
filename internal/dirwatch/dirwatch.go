// Package dirwatch reports that something changed in one of many directories. A scan
// has to find the changes: the system may lose events, and then reports it.
package dirwatch

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Watcher watches directories, each without those below it.
type Watcher struct {
	root    string
	w       *fsnotify.Watcher // nil: the system watches nothing
	changed chan struct{}     // holds one when something changed

	mu   sync.Mutex
	dirs map[string]bool // watched, absolute
	gone map[string]bool // directories that were removed or renamed
	lost int             // times that events were lost
	err  error
}

// New begins to watch directories below root. With an error, the Watcher can be used, too:
// the system watches none of the directories.
func New(root string) (*Watcher, error) {
	w, err := fsnotify.NewWatcher()
	d := &Watcher{root: root, w: w, changed: make(chan struct{}, 1), dirs: map[string]bool{}, gone: map[string]bool{}}
	if err != nil {
		d.w = nil
		return d, err
	}
	go d.read()
	return d, nil
}

// Close ends it.
func (d *Watcher) Close() error {
	if d.w == nil {
		return nil
	}
	return d.w.Close()
}

// read takes the events, so that the system keeps few of them.
func (d *Watcher) read() {
	for {
		select {
		case e, ok := <-d.w.Events:
			if !ok {
				return
			}
			if e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename) {
				d.mu.Lock()
				if d.dirs[e.Name] {
					d.gone[e.Name] = true
				}
				d.mu.Unlock()
			}
		case err, ok := <-d.w.Errors:
			if !ok {
				return
			}
			d.mu.Lock()
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				d.lost++
			} else {
				d.err = err
			}
			d.mu.Unlock()
		}
		d.signal()
	}
}

func (d *Watcher) signal() {
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// Watch sets the directories that are watched, by their paths from the root, "" for the
// root itself. It returns how many were not watched before, and how many the system
// does not watch. Changes in the former since they were last read may be missed. One that
// was removed since counts as a change. Watch must not be called concurrently.
func (d *Watcher) Watch(dirs []string) (added, unwatched int) {
	if d.w == nil {
		return 0, len(dirs)
	}
	d.mu.Lock()
	gone := d.gone
	d.gone = map[string]bool{}
	if d.lost > 0 { // a directory may have become another one
		d.lost = 0
		gone[d.root] = true
	}
	d.mu.Unlock()
	want := make(map[string]bool, len(dirs))
	for _, dir := range dirs {
		want[filepath.Join(d.root, filepath.FromSlash(dir))] = true
	}
	for dir := range d.dirs {
		if !want[dir] || d.within(gone, dir) {
			d.w.Remove(dir)
			d.set(dir, false)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(want)) { // the root before the others
		if d.dirs[dir] {
			continue
		}
		if err := d.w.Add(dir); errors.Is(err, fs.ErrNotExist) && d.dirs[d.root] {
			d.signal()
			continue
		} else if err != nil {
			unwatched++
			continue
		}
		d.set(dir, true)
		added++
	}
	return added, unwatched
}

// within reports whether a directory is one of others or below one.
func (d *Watcher) within(others map[string]bool, dir string) bool {
	for len(dir) > len(d.root) && !others[dir] {
		dir = filepath.Dir(dir)
	}
	return others[dir]
}

// set changes d.dirs, which only Watch does.
func (d *Watcher) set(dir string, watched bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if watched {
		d.dirs[dir] = true
	} else {
		delete(d.dirs, dir)
	}
}

// Wait returns when something has changed and nothing did for the time quiet, or
// longest after the first change. With every above 0 it returns after that time
// although nothing was seen to change.
func (d *Watcher) Wait(ctx context.Context, quiet, longest, every time.Duration) error {
	var due <-chan time.Time
	if every > 0 {
		due = time.After(every)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-due:
		return nil
	case <-d.changed:
	}
	end := time.After(longest)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			return d.failed()
		case <-time.After(quiet):
			return d.failed()
		case <-d.changed:
		}
	}
}

func (d *Watcher) failed() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.err
	d.err = nil
	return err
}
