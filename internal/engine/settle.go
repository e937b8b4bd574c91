package engine

import (
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/blob"
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// settlement is what remains to be done for a published commit: flushes, then
// the slots.
type settlement struct {
	of      *Commit
	paths   []string   // of the commit
	files   []fsx.File // whose bytes were written in place
	dirs    []fsx.Dir  // that hold new names
	slots   []spent
	marks   []fsx.Dir // of slots whose removal is to be durable too
	closers []io.Closer
	grant   ReserveGrant // the right of the commit to the reserve
	home    inode        // of dirs, when that is one directory and all that is to be flushed
	flushed bool
}

// inode is a file or directory, whatever it is called.
type inode struct{ dev, ino uint64 }

// spent is the slot of a published mutation.
type spent struct {
	slot publish.Slot
	old  string // hash of the previous version it holds; "" when it holds none
	// held is the previous version, open for reading, when it is known to be
	// what the slot holds.
	held fsx.File
	rev  uint64 // of the path, which the commit made
	path string
	seq  uint64 // of the commit
	// check says that another program may have changed the previous version, so
	// its hash is taken again.
	check   bool
	flushed bool // the previous version is durable, whatever process wrote it
	// was is the previous version as it came out of the workspace; Ino is 0 where
	// that is not known.
	was fsx.Stat
	// had says that the previous version need not be kept as it was: it is the
	// beginning of the new one, or was kept before.
	had bool
}

// changed reports whether another program has written to the file since it came
// out of the workspace.
func (x spent) changed(now fsx.Stat) bool {
	return x.was.Ino != 0 && (now.Size != x.was.Size || now.Mtime != x.was.Mtime)
}

// settlement collects what remains to be done for c.
func (c *Commit) settlement() *settlement {
	t := &settlement{of: c, grant: ReserveGrant{s: c.s, may: c.grant.may}}
	for i, m := range c.Muts {
		if i == c.clearing {
			t.dirs = nil // flushed before the names turned
		}
		t.paths = append(t.paths, m.Target.Path)
		if m.Slot == nil {
			if m.carried() {
				t.dirs = append(t.dirs, m.Target.Parent)
			}
			continue
		}
		if m.ch == nil { // one of several, and unchanged
			t.dirs = append(t.dirs, m.Target.Parent)
			t.slots = append(t.slots, spent{slot: m.Slot.Slot})
			continue
		}
		t.add(c, m, c.Rec.Muts[i].Rev)
	}
	if c.clearing == len(c.Muts) {
		t.dirs = nil
	}
	if len(t.dirs) == 1 && len(t.files) == 0 && len(t.marks) == 0 {
		t.home = c.Muts[0].home
	}
	return t
}

func (t *settlement) add(c *Commit, m *Mutation, rev uint64) {
	if f := m.ch.Opened(); f != nil {
		t.files = append(t.files, f)
	} else {
		t.dirs = append(t.dirs, m.Target.Parent)
	}
	x := spent{slot: m.Slot.Slot, rev: rev, path: m.Target.Path, seq: c.Rec.Seq}
	if m.ch.Linked || m.Primitive == publish.Append || m.Primitive == publish.InPlace || m.Primitive == publish.Move {
		t.marks = append(t.marks, m.Slot.Dir)
	}
	if m.keepsOld() {
		x.old, x.check = m.Prev.SHA, m.ch.Foreign
		if !x.check {
			x.held, x.was, x.had = m.Prev.File, m.Prev.Stat, m.PayBytes > 0 && c.s.keepsHead(m) || m.Primitive == publish.Move
		}
	} else if m.Primitive == publish.Create && m.ch.Done {
		return // the slot has become the file
	}
	t.slots = append(t.slots, x)
}

// sharesOld reports whether a file that left the workspace has other names, or is open in
// another program, through which it may change at any time: it is copied before the reply.
func (c *Commit) sharesOld() bool {
	return slices.ContainsFunc(c.Muts, func(m *Mutation) bool {
		return m.ch != nil && m.keepsOld() && (m.Prev.Stat.Nlink > 1 || m.ch.Foreign || m.Prev.File != nil && m.Prev.File.InUse())
	})
}

// keepsOld reports whether the slot holds an earlier version.
func (m *Mutation) keepsOld() bool {
	return !m.Private && !m.ch.Gone && m.ch.HoldsOld()
}

// flush makes the new names and bytes durable. It fails if another flush of this process
// has failed: that may have lost them, whatever this one says.
func (t *settlement) flush(s *Engine) error {
	if s.Opts.Sync == SyncOff {
		return nil
	}
	err := t.flushAll(s)
	if err == nil && s.Poisoned.Load() {
		err = journal.ErrPoisoned
	}
	return err
}

func (t *settlement) flushAll(s *Engine) error {
	if len(t.files) == 0 && len(t.dirs) == 1 {
		return s.SyncDir(t.dirs[0])
	}
	var all []func() error
	for _, f := range t.files {
		all = append(all, f.Datasync)
	}
	seen := map[inode]bool{}
	for _, d := range t.dirs {
		st, err := d.Stat()
		if err != nil {
			return err
		}
		if id := (inode{st.Dev, st.Ino}); !seen[id] {
			seen[id] = true
			all = append(all, func() error { return s.SyncDir(d) })
		}
	}
	return s.Together(all...)
}

// clean empties the slots: previous versions move into history, the rest is
// removed. It is not flushed: a slot that a power cut brings back is emptied by
// the next Open. A version that cannot be kept now stays where it is, to be tried
// again; clean reports whether there was one.
func (t *settlement) clean(s *Engine) (left bool) {
	for _, x := range t.slots {
		if x.old == "" && !t.of.handed {
			x.slot.Remove()
		} else if x.old == "" {
			s.removeSlot(x.slot)
		} else if t.grant.Try(func() error { return s.keep(x) }) != nil {
			x.held = nil // its owner closes it
			s.lingers(lingerer{spent: x, size: unknownSize, failed: true})
			left = true
		}
	}
	t.grant.End()
	if s.copies.many(s.descriptors()) {
		s.FlushCopies()
	}
	s.LookAgain(1)
	s.Unsettled.done(t.of)
	closeAll(t.closers)
	return left
}

// keep moves the previous version that a slot holds into history. From another file
// system it is copied, and the slot stays until the copy is flushed.
func (s *Engine) keep(x spent) error {
	f := x.held
	if f == nil {
		var err error
		if f, err = fsx.OpenEntry(x.slot.Dir, x.slot.Name); err != nil {
			return err
		}
		defer f.Close()
	}
	if x.check {
		return s.keepChanged(x, f)
	}
	st, err := f.Stat()
	switch {
	case err != nil:
		return err
	case x.changed(st):
		return s.keepChanged(x, f)
	case !x.had:
		_, _, err = s.keepFile(x, f)
		return err
	}
	done, err := s.emptying()
	if err != nil {
		return err
	}
	defer done()
	if s.linger(x, f, st) {
		return nil
	}
	return x.slot.Remove()
}

// emptying begins to empty slots of commits whose paths are not locked any more, before
// their files are looked at for the last time. In a poisoned store they stay: another
// process may be completing the commits with them.
func (s *Engine) emptying() (done func(), err error) {
	if done, err = s.shareHistory(); err != nil {
		done = func() {}
	}
	if err = s.certify(); err != nil {
		done()
	}
	return done, err
}

// removeSlot removes a slot whose file is not looked at.
func (s *Engine) removeSlot(slot publish.Slot) error {
	done, err := s.emptying()
	if err != nil {
		return err
	}
	defer done()
	return slot.Remove()
}

// keepFile is keep for an open file. It returns the hash and size of the version that
// history has then, or no hash if the file is still being changed and stays in the slot.
func (s *Engine) keepFile(x spent, f fsx.File) (sha string, size int64, err error) {
	done, err := s.shareHistory()
	if err != nil {
		return "", 0, err
	}
	defer done()
	if err := s.certify(); err != nil { // as in emptying
		return "", 0, err
	}
	// Only a file that no other process can still write to is removed or becomes an
	// object. What such a process wrote before shows in the stat that follows.
	free := f.Unshared()
	st, err := f.Stat()
	if err != nil {
		return "", 0, err
	}
	if sha = x.old; x.check {
		if sha, _, err = HashFile(f); err != nil {
			return "", 0, err
		}
	}
	elsewhere := x.slot.Dir != s.Disk.Staging
	if !elsewhere && st.Kind == fsx.Regular && st.Nlink == 1 && free && !x.changed(st) {
		if x.check && !x.flushed && s.Opts.Sync != SyncOff {
			if err := f.Sync(); err != nil {
				return "", 0, err
			}
		}
		if err := s.History.Adopt(x.slot.Dir, x.slot.Name, f, st.Mode, sha); err == nil {
			s.countKept(x, st.Size, sha)
			s.adopted.add(s, x, sha, st)
			if st.Size >= forgetFrom {
				f.Forget()
			}
			return sha, st.Size, nil
		}
	}
	if elsewhere {
		err = s.copyAway(x, f, st, sha)
	} else {
		err = s.History.Save(io.NewSectionReader(f, 0, st.Size), st.Size, sha)
	}
	if errors.Is(err, blob.ErrDamaged) { // it is being changed
		x.held = nil // its owner closes it
		s.lingers(lingerer{spent: x, size: unknownSize})
		return "", 0, nil
	}
	if err != nil || elsewhere {
		return sha, st.Size, err
	}
	s.countKept(x, st.Size, sha)
	if s.linger(x, f, st) {
		return sha, st.Size, nil
	}
	return sha, st.Size, x.slot.Remove()
}

// countKept notes that history holds a version of the path that was changed by
// revision x.rev.
func (s *Engine) countKept(x spent, size int64, sha string) {
	if s.Heads.keptAs(sha) {
		s.countGrown(x.rev, size)
	}
}

// countGrown notes that history has grown.
func (s *Engine) countGrown(rev uint64, size int64) {
	s.keptBytes.Add(size)
	if s.countsForPruning(rev) {
		s.keptObjects.Add(1)
	}
}

// forgetFrom is the size in bytes from which the pages of an earlier version
// are given back. The next version then gets them, where it would otherwise
// take memory that was not used before, which costs several times as much.
const forgetFrom = 16 << 10

// largeVersion is the size in bytes from which an earlier version goes into history before
// the reply also beside other commits: the memory that it gives back is worth more than
// the time.
const largeVersion = 128 << 10

func closeAll[T io.Closer](list []T) {
	for _, c := range list {
		c.Close()
	}
}

// settler settles commits after their callers were answered, at the level journal, and
// at full beside other commits. Its goroutine runs only while there is something to do, and Close
// waits for it.
type settler struct {
	s     *Engine
	mu    sync.Mutex
	cond  sync.Cond
	queue []*settlement
	files int            // of those, and of the batch that is being settled
	paths map[string]int // commits of each path that are not flushed
	added uint64         // settlements that were handed over
	over  uint64         // those that are done with
	busy  bool
	soon  bool // the goroutine will run within behindDelay
	err   error
}

const (
	// maxBehind is how many files may be settled together, while as many wait, before
	// writers wait for them. A commit holds up to three descriptors for each.
	maxBehind = 32
	// batchBehind is how many files wait for a flush that they share, but no
	// longer than behindDelay.
	batchBehind = 16
	behindDelay = 250 * time.Millisecond
)

func newSettler(s *Engine) *settler {
	b := &settler{s: s, paths: map[string]int{}}
	b.cond.L = &b.mu
	return b
}

// add hands over one settlement.
func (b *settler) add(t *settlement) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	most := max(1, min(maxBehind, b.s.descriptors()/32))
	for b.files > 0 && b.files+len(t.of.Muts) > 2*most && b.err == nil {
		b.start()
		b.cond.Wait()
	}
	if b.err != nil {
		closeAll(t.closers)
		return b.err
	}
	b.queue = append(b.queue, t)
	b.files += len(t.of.Muts)
	b.added++
	for _, p := range t.paths {
		b.paths[p]++
	}
	switch {
	case b.s.TestHooks.Manual:
	case b.files >= min(batchBehind, most):
		b.start()
	case !b.soon:
		b.soon = true
		time.AfterFunc(behindDelay, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.soon = false
			b.start()
		})
	}
	return nil
}

// start runs the goroutine if there is something to do. b.mu is held.
func (b *settler) start() {
	if !b.busy && len(b.queue) > 0 {
		b.busy = true
		go b.run()
	}
}

// run settles batches until the queue is empty. One batch shares its flushes.
func (b *settler) run() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.queue) > 0 && b.err == nil {
		batch := b.queue
		b.queue = nil
		todo := slices.DeleteFunc(slices.Clone(batch), func(t *settlement) bool { return t.flushed })
		b.mu.Unlock()
		err := b.settle(todo, batch)
		b.mu.Lock()
		if err != nil {
			b.err = b.s.Poison(err)
		}
		b.over += uint64(len(batch))
		for _, t := range batch {
			b.files -= len(t.of.Muts)
		}
		b.forget(batch, true)
	}
	b.busy = false
	b.cond.Broadcast()
}

// forget notes that commits are flushed. The removal of a mark is flushed last.
func (b *settler) forget(batch []*settlement, marks bool) {
	for _, t := range batch {
		if len(t.marks) > 0 && !marks {
			continue
		}
		for _, p := range t.paths {
			if b.paths[p]--; b.paths[p] == 0 {
				delete(b.paths, p)
			}
		}
		t.paths = nil
	}
	b.cond.Broadcast()
}

// settle flushes what is to be flushed, then empties the slots of the batch.
func (b *settler) settle(todo, batch []*settlement) error {
	all := &settlement{}
	for _, t := range todo {
		all.files = append(all.files, t.files...)
		all.dirs = append(all.dirs, t.dirs...)
		all.marks = append(all.marks, t.marks...)
	}
	err := b.s.certify()
	if err == nil {
		err = all.flush(b.s)
	}
	if err != nil {
		for _, t := range batch {
			closeAll(t.closers)
		}
		return err
	}
	b.mu.Lock()
	b.forget(todo, false)
	b.mu.Unlock()
	for _, t := range batch {
		t.clean(b.s)
	}
	return b.s.syncMarks(all.marks)
}

// syncMarks makes the removal of marks durable.
func (s *Engine) syncMarks(dirs []fsx.Dir) error {
	if len(dirs) == 0 {
		return nil
	}
	return s.syncDirs(dirs...)
}

// stop ends it where there was nothing to wait for, because the store is
// poisoned or gone.
func (b *settler) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = fault.New(fault.StoreClosed)
	}
	for _, t := range b.queue {
		closeAll(t.closers)
	}
	b.queue = nil
	b.cond.Broadcast()
}

// flushIn flushes a directory if a commit of one of the paths waits for that, and
// spares all who wait for this directory a flush of their own.
func (b *settler) flushIn(dir fsx.Dir, home inode, paths []string) error {
	b.mu.Lock()
	var served []*settlement
	wanted := false
	for _, t := range b.queue {
		if t.home == home && !t.flushed {
			served = append(served, t)
			wanted = wanted || slices.ContainsFunc(t.paths, func(p string) bool { return slices.Contains(paths, p) })
		}
	}
	b.mu.Unlock()
	if !wanted {
		return nil
	}
	if err := b.s.SyncDir(dir); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range served {
		t.flushed = true
	}
	b.forget(served, false)
	return nil
}

// waits reports whether a commit of the path is not flushed yet.
func (b *settler) waits(path string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.paths[path] > 0
}

// drainFor waits until every commit of the paths is flushed.
func (b *settler) drainFor(paths []string) error {
	return b.wait(func() bool {
		return !slices.ContainsFunc(paths, func(p string) bool { return b.paths[p] > 0 })
	})
}

// Drain waits until everything that was handed over before is settled. It fails if a
// flush of any process has failed.
func (b *settler) Drain() error {
	if err := b.s.certify(); err != nil {
		return err
	}
	b.mu.Lock()
	added := b.added
	b.mu.Unlock()
	return b.wait(func() bool { return b.over >= added })
}

func (b *settler) wait(done func() bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.err == nil && !done() {
		b.start()
		b.cond.Wait()
	}
	return b.err
}
