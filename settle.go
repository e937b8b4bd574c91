package resilientwrite

import (
	"io"
	"sync"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// settlement is what remains to be done for a published commit: flushes, then
// the removal of its traces in staging/.
type settlement struct {
	seq     uint64
	files   []fsx.File // whose bytes were written in place
	dirs    []fsx.Dir  // that hold new names
	traces  []trace
	closers []io.Closer
	spare   spare // the right of the commit to the reserve
}

// trace is one entry of staging/ that proves its commit is under way.
type trace struct {
	dir  fsx.Dir
	name string
	mark bool   // only marks that the staged file lay beside the target
	old  string // hash of the previous version it holds; "" when it holds none
	// held is the previous version, open for reading, when it is known to be
	// what the name holds.
	held fsx.File
	rev  uint64 // of the path, which the commit made
	// check says that a stranger may have changed the previous version, so
	// its hash is taken again.
	check bool
}

// settlement collects what remains to be done for c.
func (c *commit) settlement() *settlement {
	t := &settlement{seq: c.rec.Seq, spare: spare{s: c.s, may: c.spare.may}}
	for i, m := range c.muts {
		if m.grown != nil {
			t.files = append(t.files, m.grown)
		}
		if m.how != howAppend && m.how != howInPlace {
			t.dirs = append(t.dirs, m.target.Parent)
		}
		if !m.staged {
			continue
		}
		tr := trace{dir: m.stageDir(c.s), name: m.stageName(c.id, i)}
		if (m.how == howExchange || m.how == howUnlink && !m.gone) && m.done && !m.private && !m.forgotten {
			tr.old, tr.check, tr.rev = m.prev.sha, m.stranger, c.rec.Muts[i].Rev
			if !m.stranger {
				tr.held = m.prev.file
			}
		}
		t.traces = append(t.traces, tr)
		if m.beside {
			t.traces = append(t.traces, trace{dir: c.s.disk.staging, name: stagedName(c.id, i), mark: true})
		}
	}
	for _, d := range c.made {
		t.dirs = append(t.dirs, d.parent)
	}
	return t
}

// flush makes the new names and bytes durable.
func (t *settlement) flush(s *Store) error {
	if s.opts.Sync == SyncOff {
		return nil
	}
	var here, elsewhere []func() error // on the file system of the state directory, or not
	add := func(st fsx.Stat, flush func() error) {
		if st.Dev == s.disk.dev {
			here = append(here, flush)
		} else {
			elsewhere = append(elsewhere, flush)
		}
	}
	for _, f := range t.files {
		st, err := f.Stat()
		if err != nil {
			return err
		}
		add(st, f.Datasync)
	}
	seen := map[[2]uint64]bool{}
	for _, d := range t.dirs {
		st, err := d.Stat()
		if err != nil {
			return err
		}
		if key := [2]uint64{st.Dev, st.Ino}; !seen[key] {
			seen[key] = true
			add(st, func() error { return s.syncDir(d) })
		}
	}
	if s.opts.FlushVolume && len(here) >= volumeFrom {
		here = s.either(func() error { return s.volume.flush(s.disk.staging) }, here)
	}
	return s.together(append(here, elsewhere...)...)
}

// clean takes away the traces: previous versions move into history, the rest
// is removed. It is not flushed: a trace that a power cut brings back is taken
// away by the next Open. A version that cannot be kept now stays where it is,
// for the next Open to try again; clean reports whether there was one.
func (t *settlement) clean(s *Store) (left bool) {
	for _, tr := range t.traces {
		if tr.old == "" {
			tr.dir.Remove(tr.name)
		} else if t.spare.try(func() error { return s.keep(tr) }) != nil {
			left = true
		}
	}
	t.spare.end()
	s.unsettled.done(t.seq)
	closeAll(t.closers)
	return left
}

// keep moves the previous version that a trace holds into history.
func (s *Store) keep(tr trace) error {
	f := tr.held
	if f == nil {
		var err error
		if f, err = tr.dir.Open(tr.name, fsx.Read, 0); err != nil {
			return err
		}
		defer f.Close()
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	sha := tr.old
	if tr.check {
		d, _, err := hashFile(f, st.Size)
		if err != nil {
			return err
		}
		sha = d.hex()
	}
	// Only a file that nobody else can still write to may become an object.
	if st.Nlink == 1 && f.Unshared() {
		if tr.check && s.opts.Sync != SyncOff {
			if err := f.Sync(); err != nil {
				return err
			}
		}
		if err := s.history.Adopt(tr.dir, tr.name, f, sha); err == nil {
			s.countKept(tr, st.Size)
			if st.Size >= forgetFrom {
				f.Forget()
			}
			return nil
		}
	}
	if err := s.history.Save(io.NewSectionReader(f, 0, st.Size), st.Size, sha); err != nil {
		return err
	}
	s.countKept(tr, st.Size)
	return tr.dir.Remove(tr.name)
}

// countKept notes that history has grown.
func (s *Store) countKept(tr trace, size int64) {
	s.keptBytes.Add(size)
	if s.countsForPruning(tr.rev) {
		s.keptObjects.Add(1)
	}
}

// forgetFrom is the size in bytes from which the pages of an earlier version
// are given back. The next version then gets them, where it would otherwise
// take memory that was not used before, which costs several times as much.
const forgetFrom = 16 << 10

func closeAll(list []io.Closer) {
	for _, c := range list {
		c.Close()
	}
}

// behind settles commits after their callers were answered, at the level
// journal. Its goroutine runs only while there is something to do, and Close
// waits for it.
type behind struct {
	s     *Store
	mu    sync.Mutex
	cond  sync.Cond
	queue []*settlement
	busy  bool
	err   error
}

// maxBehind is how many commits may wait to be settled before writers wait
// for them.
const maxBehind = 256

func newBehind(s *Store) *behind {
	b := &behind{s: s}
	b.cond.L = &b.mu
	return b
}

// add hands over one settlement.
func (b *behind) add(t *settlement) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.queue) >= maxBehind && b.err == nil {
		b.cond.Wait()
	}
	if b.err != nil {
		closeAll(t.closers)
		return b.err
	}
	b.queue = append(b.queue, t)
	if !b.busy && !b.s.seam.manual {
		b.busy = true
		go b.run()
	}
	return nil
}

// run settles batches until the queue is empty. One batch shares its flushes.
func (b *behind) run() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.queue) > 0 && b.err == nil {
		batch := b.queue
		b.queue = nil
		b.mu.Unlock()
		err := b.settle(batch)
		b.mu.Lock()
		if err != nil {
			b.err = b.s.poison(err)
		}
		b.cond.Broadcast()
	}
	b.busy = false
	b.cond.Broadcast()
}

func (b *behind) settle(batch []*settlement) error {
	all := &settlement{}
	for _, t := range batch {
		all.files = append(all.files, t.files...)
		all.dirs = append(all.dirs, t.dirs...)
	}
	if err := all.flush(b.s); err != nil {
		return err
	}
	for _, t := range batch {
		t.clean(b.s)
	}
	return nil
}

// drain waits until everything that was handed over is settled.
func (b *behind) drain() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.busy && len(b.queue) > 0 {
		b.busy = true
		go b.run()
	}
	for b.busy && b.err == nil {
		b.cond.Wait()
	}
	return b.err
}
