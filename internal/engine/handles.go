package engine

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"sync"

	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// A commit of many files cannot keep each of them open until it ends. It holds
// their directories, each once, and a few files: one that is needed again is
// reopened by its name, and must be the same inode. A file that was written is
// flushed before it is closed, so that no write error is lost; files that are
// closed together are flushed together.

// mostOpen is how many files such a commit has open, and the number of files from which a
// commit counts as one of many, if the process may have eight times as many
// descriptors. The calls of agents name fewer.
const mostOpen = 512

// Many reports whether a commit of n files keeps only a few of them open, and
// takes the lock of the whole tree instead of theirs.
func (s *Engine) Many(n int) bool {
	return n >= s.manyFrom()
}

// manyFrom is the number of files from which a commit is one of many.
func (s *Engine) manyFrom() int { return cmp.Or(s.TestHooks.Many, min(mostOpen, s.descriptors()/8)) }

// descriptors returns how many file descriptors the process may have. It queries
// the system once.
func (s *Engine) descriptors() int {
	s.limitOnce.Do(func() { s.limit = max(8, fsx.DescriptorLimit()) })
	return s.limit
}

// Many reports whether the commit is one of many files.
func (c *Commit) Many() bool { return c.s.Many(max(len(c.Muts), c.Expects)) }

// lending returns the files of a commit of many, nil for any other.
func (c *Commit) lending() *handles {
	if c.files == nil && c.Many() {
		c.files = &handles{s: c.s}
	}
	return c.files
}

// openDirs returns the directories of a commit of many, nil for any other. Those
// that it had before are closed.
func (c *Commit) openDirs() *relpath.Dirs {
	c.dirs.Close()
	if c.dirs = nil; c.Many() {
		c.dirs = new(relpath.Dirs)
	}
	return c.dirs
}

// lendPrev lets the previous file be reopened when it is needed: under its name,
// in the slot once it was replaced, or under the name to which it was moved. If
// names cannot be exchanged, it is opened from history, which holds its bytes by
// then.
func (c *Commit) lendPrev(m, heir *Mutation) {
	h := c.lending()
	if h == nil || m.Prev.File == nil || m.Prev.Link() { // the target of a link is in memory
		return
	}
	id := inode{m.Prev.Stat.Dev, m.Prev.Stat.Ino}
	m.Prev.File = h.lend(m.Prev.File, func() (fsx.File, error) {
		names := []publish.Name{{Dir: m.Target.Parent, Name: m.Target.Name}}
		if m.Slot != nil {
			names = append(names, publish.Name{Dir: m.Slot.Dir, Name: m.Slot.Name})
		}
		if heir != nil {
			names = append(names, publish.Name{Dir: heir.Target.Parent, Name: heir.Target.Name})
		}
		f, err := openSame(id, fsx.Read, names...)
		if err != nil && m.ch != nil && !m.Private {
			return c.s.History.Open(m.Prev.SHA)
		}
		return f, err
	})
}

// openSame opens a file by the first of several names that leads to it.
func openSame(id inode, how fsx.Flag, names ...publish.Name) (fsx.File, error) {
	for _, n := range names {
		f, err := n.Dir.Open(n.Name, how, 0)
		var kind *fsx.TypeError
		if IsAbsent(err) || errors.As(err, &kind) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if st, err := f.Stat(); err == nil && (inode{st.Dev, st.Ino}) == id {
			return f, nil
		}
		f.Close()
	}
	return nil, fault.New(fault.ChangedDuringWrite)
}

// handles holds the files of one commit.
type handles struct {
	s    *Engine
	mu   sync.Mutex
	open []*reopened // the oldest first
	lost error       // of the first flush that failed
}

func (h *handles) most() int {
	if h.s.TestHooks.Many > 0 {
		return 2
	}
	return h.s.manyFrom()
}

// reopened is a regular file that is open only while it is used. Its methods are
// those of [fsx.File].
type reopened struct {
	of   *handles
	find func() (fsx.File, error) // opens it by its name

	mu    sync.Mutex
	file  fsx.File // nil: not open now
	pos   int64    // of Read and Write
	dirty bool     // written and not flushed
	ended bool
}

// lend takes over an open file. find opens it again.
func (h *handles) lend(f fsx.File, find func() (fsx.File, error)) *reopened {
	r := &reopened{of: h, find: find, file: f}
	r.mu.Lock()
	defer r.mu.Unlock()
	h.opened(r)
	return r
}

// opened records an open file, whose lock is held, and closes others if too many
// are open.
func (h *handles) opened(r *reopened) {
	h.mu.Lock()
	h.open = append(h.open, r)
	var rest []*reopened
	if len(h.open) > h.most() {
		rest, h.open = h.open[:len(h.open)-1], []*reopened{r}
	}
	h.mu.Unlock()
	h.close(rest, true)
}

// flush makes all written data durable, and returns earlier failures.
func (h *handles) flush() error {
	h.mu.Lock()
	all := slices.Clone(h.open)
	h.mu.Unlock()
	h.close(all, false)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

// close flushes and closes files. If it only makes room, a file that is in use
// stays open.
func (h *handles) close(list []*reopened, room bool) {
	var files []fsx.File
	var mine []*reopened
	for _, r := range list {
		if room && !r.mu.TryLock() {
			h.mu.Lock()
			h.open = append(h.open, r)
			h.mu.Unlock()
			continue
		}
		if !room {
			r.mu.Lock()
		}
		if mine = append(mine, r); r.dirty && r.file != nil {
			files = append(files, r.file)
			r.dirty = false
		}
	}
	err := h.s.flushFiles(files)
	h.mu.Lock()
	h.lost = cmp.Or(h.lost, err)
	if !room {
		h.open = slices.DeleteFunc(h.open, func(r *reopened) bool { return slices.Contains(mine, r) })
	}
	h.mu.Unlock()
	for _, r := range mine {
		if r.file != nil {
			r.file.Close()
			r.file = nil
		}
		r.mu.Unlock()
	}
}

// use calls fn with the open file.
func use[T any](r *reopened, fn func(f fsx.File) (T, error)) (result T, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return result, fs.ErrClosed
	}
	if r.file == nil {
		f, err := r.find()
		if err != nil {
			return result, err
		}
		r.file = f
		r.of.opened(r)
	}
	return fn(r.file)
}

// change is use for operations after which the file must be flushed.
func change[T any](r *reopened, fn func(f fsx.File) (T, error)) (T, error) {
	return use(r, func(f fsx.File) (T, error) {
		r.dirty = true
		return fn(f)
	})
}

// changed is change without a result.
func (r *reopened) changed(fn func(f fsx.File) error) error {
	_, err := change(r, func(f fsx.File) (none struct{}, err error) { return none, fn(f) })
	return err
}

func (r *reopened) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return fs.ErrClosed
	}
	r.ended = true
	if r.file == nil {
		return nil
	}
	r.of.mu.Lock()
	r.of.open = slices.DeleteFunc(r.of.open, func(x *reopened) bool { return x == r })
	r.of.mu.Unlock()
	err := r.file.Close()
	r.file = nil
	return err
}

func (r *reopened) Read(b []byte) (int, error) {
	return use(r, func(f fsx.File) (int, error) {
		n, err := f.ReadAt(b, r.pos)
		r.pos += int64(n)
		return n, err
	})
}

func (r *reopened) ReadAt(b []byte, off int64) (int, error) {
	return use(r, func(f fsx.File) (int, error) { return f.ReadAt(b, off) })
}

func (r *reopened) Write(b []byte) (int, error) {
	return change(r, func(f fsx.File) (int, error) {
		n, err := f.WriteAt(b, r.pos)
		r.pos += int64(n)
		return n, err
	})
}

func (r *reopened) WriteAt(b []byte, off int64) (int, error) {
	return change(r, func(f fsx.File) (int, error) { return f.WriteAt(b, off) })
}

func (r *reopened) Append(b []byte) (int64, error) {
	return change(r, func(f fsx.File) (int64, error) { return f.Append(b) })
}

func (r *reopened) Stat() (fsx.Stat, error) { return use(r, fsx.File.Stat) }

// Sync marks the file to be flushed with the others.
func (r *reopened) Sync() error {
	if err := r.touch(); err != nil {
		return err
	}
	return r.of.flush()
}

// touch has the file flushed with the others.
func (r *reopened) touch() error { return r.changed(func(fsx.File) error { return nil }) }

func (r *reopened) Datasync() error { return r.Sync() }

func (r *reopened) Truncate(size int64) error {
	return r.changed(func(f fsx.File) error { return f.Truncate(size) })
}

func (r *reopened) Chmod(mode uint32) error {
	return r.changed(func(f fsx.File) error { return f.Chmod(mode) })
}

func (r *reopened) Chown(uid, gid int) error {
	return r.changed(func(f fsx.File) error { return f.Chown(uid, gid) })
}

func (r *reopened) Xattrs() (map[string][]byte, error) { return use(r, fsx.File.Xattrs) }

func (r *reopened) SetXattr(name string, value []byte) error {
	return r.changed(func(f fsx.File) error { return f.SetXattr(name, value) })
}

func (r *reopened) Unshared() bool {
	is, _ := use(r, func(f fsx.File) (bool, error) { return f.Unshared(), nil })
	return is
}

func (r *reopened) InUse() bool {
	is, _ := use(r, func(f fsx.File) (bool, error) { return f.InUse(), nil })
	return is
}

func (r *reopened) WriteOut() {} // the flush of all does

func (r *reopened) Forget() {
	use(r, func(f fsx.File) (none struct{}, _ error) {
		f.Forget()
		return none, nil
	})
}

func (r *reopened) Clone(src fsx.File) error {
	return r.changed(func(f fsx.File) error { return f.Clone(src) })
}

func (r *reopened) TryLock(off, n int64, exclusive bool) (bool, error) {
	return false, fsx.ErrUnsupported // it would end when the file is closed
}

func (r *reopened) Unlock(off, n int64) error { return fsx.ErrUnsupported }
