// Package tree walks a directory tree by open directories and single names, so that a
// directory that becomes a symbolic link during the walk is an error and never
// followed. Directories are visited concurrently.
package tree

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"runtime"
	"slices"
	"sync"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Entry is a name in a directory.
type Entry struct {
	Name string
	fsx.Stat
}

// Dir is a directory in a walk. Of is the value that the visit of its parent passed to
// Enter.
type Dir[T any] struct {
	fsx.Dir
	Path    string // relative to the root, "" for the root itself
	Of      T
	Entries []Entry // sorted by name; only for the visit
	enter   []next[T]
}

type next[T any] struct {
	name string
	of   T
}

// Enter has a subdirectory visited, after this visit.
func (d *Dir[T]) Enter(name string, of T) { d.enter = append(d.enter, next[T]{name, of}) }

// Join is the path of a name in a directory.
func Join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// Walk visits root and every directory that a visit enters. Visits run concurrently;
// the visit of a directory ends before its subdirectories are opened. failed is called
// for a directory that could not be listed; a directory that no longer exists is not
// reported. A name that disappears before its stat is read is left out. The first error
// of a visit ends the walk, as does the end of ctx.
func Walk[T any](ctx context.Context, root fsx.Dir, of T, visit func(*Dir[T]) error, failed func(path string, of T, err error)) error {
	w := &walk[T]{ctx: ctx, visit: visit, failed: failed, idle: make(chan struct{}, max(0, runtime.GOMAXPROCS(0)-1))}
	w.dir(&Dir[T]{Dir: root, Of: of})
	if w.err == nil {
		w.err = ctx.Err()
	}
	return w.err
}

type walk[T any] struct {
	ctx    context.Context
	visit  func(*Dir[T]) error
	failed func(path string, of T, err error)
	idle   chan struct{} // one for each goroutine in addition to the caller's
	lists  sync.Pool     // of entries
	mu     sync.Mutex
	err    error
}

func (w *walk[T]) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err != nil || w.ctx.Err() != nil
}

// dir visits a directory and everything below it. It does not close it.
func (w *walk[T]) dir(d *Dir[T]) {
	if w.over() {
		return
	}
	if list, ok := w.lists.Get().(*[]Entry); ok {
		d.Entries = (*list)[:0]
	}
	if err := d.list(); err != nil {
		w.fail(d, err)
		return
	}
	err := w.visit(d)
	list := d.Entries
	d.Entries = nil
	w.lists.Put(&list)
	if err != nil {
		w.mu.Lock()
		w.err = cmp.Or(w.err, err)
		w.mu.Unlock()
		return
	}
	var below sync.WaitGroup // d stays open for them
	for _, n := range d.enter {
		sub := &Dir[T]{Path: Join(d.Path, n.name), Of: n.of}
		var err error
		if sub.Dir, err = d.OpenDir(n.name); err != nil {
			w.fail(sub, err)
			continue
		}
		select {
		case w.idle <- struct{}{}:
			below.Go(func() {
				w.dir(sub)
				sub.Close()
				<-w.idle
			})
		default:
			w.dir(sub)
			sub.Close()
		}
	}
	below.Wait()
}

func (w *walk[T]) fail(d *Dir[T], err error) {
	if !errors.Is(err, fs.ErrNotExist) {
		w.failed(d.Path, d.Of, err)
	}
}

// list reads the names and the stat of each.
func (d *Dir[T]) list() error {
	names, err := d.Names()
	if err != nil {
		return err
	}
	d.Entries = slices.Grow(d.Entries, len(names))
	for _, name := range names {
		st, err := d.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		d.Entries = append(d.Entries, Entry{name, st})
	}
	return nil
}
