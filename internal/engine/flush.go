package engine

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// A commit of n files has n files to flush, and none of the flushes may be
// omitted. Their total cost depends on how they are requested. A file with new
// blocks is durable when the file system has committed its own journal, and one
// commit serves all callers that wait for it; a later caller makes the device
// flush once more. So the bytes of all files are sent to the device first, which
// puts their blocks into the next commit, and then all flushes are requested at
// once.

// FlushWidth limits how many flushes of one commit, or of one turn, are in progress at a time if
// each takes a goroutine, and with it a thread of the system while it waits.
// Eight to one hundred measured alike.
const FlushWidth = 16

// writeOut starts to send the staged bytes to the device. For a single file its
// flush does that just as well.
func (c *Commit) writeOut() {
	if len(c.Muts) < 2 {
		return
	}
	for _, m := range c.Muts {
		if m.holdsBytes() { // one that is opened again was written out
			m.Slot.File.WriteOut()
		}
	}
}

// holdsBytes reports whether the slot holds the new bytes, and is not just a
// mark.
func (m *Mutation) holdsBytes() bool {
	return m.Slot != nil && m.Source == nil && m.Primitive != publish.Delete
}

// flushStaged makes the slots and the new directories durable, before the row
// names them. The names of slots are durable already. A previous file that this
// store did not write is flushed concurrently with them, because it will become a
// version.
//
//	fsync(slot) …  [fsync(parent of a new directory) …]  [fsync(directory of a file that another program made, if it is written in place)]
//	[fsync(directory of an earlier commit of the path)]
//
// The second line comes after the first, which leaves it little to do if the
// flush of a file commits the journal of the file system: run concurrently, the
// two would commit it twice. Where commits flush in turns, it is in the turn of the
// first.
func (c *Commit) flushStaged() error {
	for _, m := range c.Muts {
		if m.Slot != nil {
			m.Slot.from.Ahead()
		}
	}
	if c.s.Opts.Sync == SyncOff {
		return nil
	}
	if !c.s.flushes.many() { // which writes them out too
		c.writeOut()
	}
	var here, foreign []fsx.Syncer
	var linked []*slotDir // whose slots hold new links
	// A file must not reach a directory that a power cut may take.
	parents := &settlement{}
	for _, d := range c.made {
		parents.dirs = append(parents.dirs, d.parent)
	}
	var flushes []func() error
	for _, m := range c.Muts {
		unflushed, err := m.prevUnflushed(c.s)
		if err != nil {
			return err
		}
		if unflushed && (m.Primitive == publish.Append || m.Primitive == publish.InPlace) { // the name stays
			parents.dirs = append(parents.dirs, m.Target.Parent)
		}
		lent, isLent := m.Prev.File.(*reopened)
		switch {
		case unflushed && isLent:
			if err := lent.touch(); err != nil {
				return err
			}
		case unflushed && !m.Prev.Link():
			foreign = append(foreign, m.Prev.File)
		}
		switch {
		case m.Slot != nil && m.Link():
			if !slices.Contains(linked, m.Slot.in) {
				linked = append(linked, m.Slot.in)
			}
		case m.holdsBytes() && m.Slot.roomy:
			flushes = append(flushes, m.Slot.File.Datasync)
		case m.holdsBytes() && !m.isLent() && m.stageSt.Size > longFlush && c.s.flushes.many():
			flushes = append(flushes, m.Slot.File.Sync)
		case m.holdsBytes() && !m.isLent():
			here = append(here, m.Slot.File)
		}
	}
	if len(parents.dirs) > 0 {
		flushes = append(flushes, func() error { return parents.flush(c.s) })
	}
	for _, d := range linked {
		flushes = append(flushes, func() error { return c.s.SyncDir(d.dir) })
	}
	if c.files != nil {
		flushes = append(flushes, c.files.flush)
	}
	paths := append(c.paths(), c.judge.Touches()...)
	if c.s.flushes.many() { // in the same turn
		flushes = append(flushes, func() error { return c.flushHomes(paths) })
	}
	each := func() error { return c.s.flushes.doFor(true, append(here, foreign...)) }
	if err := c.s.Together(append([]func() error{each}, flushes...)...); err != nil {
		return err
	}
	for _, m := range c.Muts {
		if err := m.cut(); err != nil {
			return err
		}
	}
	if err := c.settleEarlier(paths); err != nil {
		return err
	}
	return c.flushWays()
}

// cut cuts the staged file to its size, so that its slot is one without room.
func (m *Mutation) cut() (err error) {
	if m.Slot == nil || !m.Slot.roomy {
		return nil
	}
	m.Slot.roomy = false
	if err = m.Slot.File.Truncate(m.Final.Size()); err == nil {
		m.stageSt, err = m.Slot.File.Stat()
	}
	return err
}

// brief reports whether the commit is expected at its next flush soon.
func (c *Commit) brief() bool {
	return !c.Many() && !c.judge.Verifies() && !slices.ContainsFunc(c.Muts, func(m *Mutation) bool { return m.Content.Size() > longFlush })
}

// longFlush is the size in bytes from which a file is not flushed in a turn with others,
// which would wait for it.
const longFlush = 1 << 20

// isLent reports whether the file of the slot is flushed with others of its commit.
func (m *Mutation) isLent() bool {
	_, is := m.Slot.File.(*reopened)
	return is
}

// flushWays makes the existence of the targets' directories durable, once for
// each: another program may have made them a moment ago, and a power cut that
// loses a directory loses its entries.
//
//	[fsync(parent of the directory) …]
func (c *Commit) flushWays() error {
	made := map[string]bool{}
	for _, d := range c.made {
		made[d.path] = true
	}
	flushed := map[string]bool{} // directories
	for _, m := range c.Muts {
		dir := ParentOf(m.Target.Path)
		if dir == "" || m.Slot == nil && !c.Ended {
			continue
		}
		if m.home == (inode{}) {
			st, err := m.Target.Parent.Stat()
			if err != nil {
				return err
			}
			m.home = inode{st.Dev, st.Ino}
		}
		if m.Target.Exists() && c.s.ways.is(dir, m.home.ino, "", fsx.Stat{}) {
			continue
		}
		for d := dir; d != "" && d != StateDirName; d = ParentOf(d) {
			if made[d] || flushed[ParentOf(d)] {
				continue
			}
			if err := c.s.syncParent(d); err != nil {
				return err
			}
			flushed[ParentOf(d)] = true
		}
		if m.Target.Exists() { // else the directory is not made yet
			c.s.ways.put(dir, m.home.ino, "", fsx.Stat{})
		}
	}
	return nil
}

// prevUnflushed reports whether the previous file may not be on stable storage: it is
// not as this process has left it. Another program may have written it, if only
// with the same bytes.
func (m *Mutation) prevUnflushed(s *Engine) (bool, error) {
	if m.Prev.File == nil || m.Private {
		return false, nil
	}
	if m.Unchanged() { // acknowledged like the others, whatever process wrote it
		return true, nil
	}
	last, err := s.LastRow(m.Target.Path)
	return err == nil && !s.written.is(m.Target.Path, last.Seq, m.Prev.SHA, m.Prev.Stat), err
}

// madeAtOff reports whether a commit was made at the level off, so that its names were
// not flushed.
func (s *Engine) madeAtOff(seq uint64) (bool, error) {
	if seq == 0 || seq > s.Rows.offTo() {
		return false, nil
	}
	rec, err := s.Log.Find(seq)
	if errors.Is(err, journal.ErrNotFound) {
		return false, nil
	}
	return err == nil && rec.Level == string(SyncOff), err
}

// written caches which file this process has left under a path, durably, with its newest row.
type written struct {
	mu   sync.Mutex
	rows map[string]writtenRow
}

type writtenRow struct {
	seq, ino    uint64
	size, mtime int64
	sha         string
}

// maxWritten limits how many paths are cached.
const maxWritten = 4096

func (w *written) put(path string, seq uint64, sha string, st fsx.Stat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rows) >= maxWritten {
		w.rows = nil
	}
	if w.rows == nil {
		w.rows = map[string]writtenRow{}
	}
	w.rows[path] = writtenRow{seq, st.Ino, st.Size, st.Mtime, sha}
}

func (w *written) is(path string, seq uint64, sha string, st fsx.Stat) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rows[path] == writtenRow{seq, st.Ino, st.Size, st.Mtime, sha}
}

// Together runs all functions concurrently, and returns the first error in list
// order when all have returned. File systems handle concurrent flushes with one
// write to the device.
func (s *Engine) Together(all ...func() error) error {
	if s.TestHooks.InTurn || len(all) == 1 || s.Opts.Sync == SyncOff {
		for _, f := range all {
			if err := f(); err != nil {
				return err
			}
		}
		return nil
	}
	return parallel(all)
}

func parallel(all []func() error) error {
	errs := make([]error, len(all))
	var next atomic.Int64
	work := func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(all)-1 {
				return
			}
			errs[i] = all[i]()
		}
	}
	var wg sync.WaitGroup
	for range min(FlushWidth, len(all)) - 1 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			work()
		}()
	}
	if n := len(all); n > 0 {
		errs[n-1] = all[n-1]() // the flush of the journal, where there is one
		work()
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// MutationOf returns the index of the mutation of a path in a record, -1 if there
// is none.
func MutationOf(rec *journal.Record, path string) int {
	for i := range rec.Muts {
		if rec.Muts[i].Identity() == path {
			return i
		}
	}
	return -1
}
