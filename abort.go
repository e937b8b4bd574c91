package resilientwrite

import (
	"context"
	"errors"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// abort takes back a commit whose row is written: what was published is
// undone in reverse, then an abort row is made durable, and only then may the
// caller be told that nothing happened. If any of it fails nobody knows, and
// the store takes no more writes.
func (c *commit) abort(cause *Error) Effect {
	if c.s.poisoned.Load() {
		// A flush failed. What is on disk is for the next Open to find out.
		return EffectUnknown
	}
	c.spare.may = true // whatever the call is
	for i := len(c.muts) - 1; i >= 0; i-- {
		if err := c.muts[i].unpublish(c, i); err != nil {
			c.s.poison(err)
			return EffectUnknown
		}
	}
	c.unmakeDirs()
	if err := c.syncUndone(); err != nil {
		c.s.poison(err)
		return EffectUnknown
	}
	if err := c.s.writeAbort(withSpare(context.Background()), c.rec, string(cause.Detail)); err != nil {
		c.s.poison(err)
		return EffectUnknown
	}
	for i, m := range c.muts {
		if m.staged {
			c.s.dropStaged(m, trace{dir: m.stageDir(c.s), name: m.stageName(c.id, i), old: m.prev.sha, check: true})
		}
		if m.beside {
			c.s.disk.staging.Remove(stagedName(c.id, i))
		}
	}
	c.s.unsettled.done(c.rec.Seq)
	return EffectNone
}

// syncUndone makes durable that the names are what they were, before a row
// says so.
func (c *commit) syncUndone() error {
	undone := &settlement{}
	for _, m := range c.muts {
		if m.done && m.how != howAppend && m.how != howInPlace {
			undone.dirs = append(undone.dirs, m.target.Parent)
		}
	}
	return undone.flush(c.s)
}

// writeAbort makes durable that the commit rec did not happen. The row repeats
// what each path was before, so that reading it is enough to know.
func (s *Store) writeAbort(ctx context.Context, rec *journal.Record, reason string) error {
	abort := s.rowAbout(journal.KindAbort, rec, reason)
	for _, m := range rec.Muts {
		abort.Muts = append(abort.Muts, journal.Mutation{
			Op: m.Op, Path: m.Path, Real: m.Real, SHA256: m.PrevSHA256, Bytes: m.PrevBytes,
			Rev: m.Rev - 1, PrevSeq: m.PrevSeq,
		})
	}
	return s.writeRow(ctx, abort)
}

// rowAbout is a row that speaks of another one.
func (s *Store) rowAbout(kind string, rec *journal.Record, reason string) *journal.Record {
	return &journal.Record{
		TS: s.now().UTC().Format(timeFormat), Kind: kind, Writer: s.writer,
		Settled: s.unsettled.floor(s.log.Head()), Ref: rec.Seq, Commit: rec.Commit,
		Caller: rec.Caller, Session: rec.Session, Via: rec.Via, Invocation: rec.Invocation, Key: rec.Key, Tx: rec.Tx,
		Reason: reason,
	}
}

// writeRow appends one row and, unless the level is off, flushes it.
func (s *Store) writeRow(ctx context.Context, rec *journal.Record) error {
	own := s.newSpare(ctx, false)
	defer own.end()
	err := own.try(func() error {
		_, err := s.log.Write(ctx, &journal.Batch{Recs: []*journal.Record{rec}})
		return err
	})
	if err != nil {
		return err
	}
	if s.opts.Sync == SyncOff {
		return s.log.Show(rec.Seq)
	}
	return s.log.Flush(ctx, rec.Seq)
}

// recordRefusal leaves a row that tells of a refused call and reports whether
// it could.
func (c *commit) recordRefusal(e *Error) bool {
	if len(c.muts) == 0 || c.s.poisoned.Load() || e.Detail == StoreClosed || e.Detail == BadPolicy {
		return false
	}
	rec := &journal.Record{
		TS: c.s.now().UTC().Format(timeFormat), Kind: journal.KindRefused, Writer: c.s.writer,
		Settled: c.s.unsettled.floor(c.s.log.Head()),
		Caller:  c.req.caller, Session: c.req.session, Via: c.via, Invocation: c.inv, Key: c.req.key, Tx: c.req.tx,
		Reason: string(e.Detail), Policy: c.s.policy().hash,
	}
	for _, m := range c.muts {
		rec.Muts = append(rec.Muts, journal.Mutation{
			Op: string(m.op), Path: m.path, SHA256: m.prev.sha, Bytes: m.prev.stat.Size, PrevSHA256: m.prev.sha,
		})
	}
	return c.s.writeRow(context.Background(), rec) == nil
}

// noteStranger records that a file ended up with other bytes than the row of
// its commit says, because somebody else wrote to it at the same moment.
func (c *commit) noteStranger(m *mutation, sha string, size int64) error {
	note := c.s.rowAbout(journal.KindNote, c.rec, "stranger")
	note.Note = &journal.Note{What: "stranger", Path: m.target.Path, SHA256: sha, Bytes: size}
	return c.s.writeRow(withSpare(context.Background()), note)
}

// noteInPlace records the intent to write over a file, so that recovery knows
// a half-written one.
func (c *commit) noteInPlace(m *mutation) error {
	note := c.s.rowAbout(journal.KindNote, c.rec, "in_place")
	note.Note = &journal.Note{What: "in_place", Path: m.target.Path, SHA256: m.sha, Bytes: m.size}
	return c.s.writeRow(withSpare(context.Background()), note)
}

// unpublish takes back one published mutation and leaves its staged entry as it
// was before: a process that dies while others of the commit are still published
// is followed by a recovery that goes forward, and has to find it.
func (m *mutation) unpublish(c *commit, i int) error {
	if m.how == howAppend {
		return m.cutBack() // also what a failed append left
	}
	if !m.done {
		return nil
	}
	stage, name := m.stageDir(c.s), m.stageName(c.id, i)
	switch m.how {
	case howLink:
		return m.unpublishNew(stage, name)
	case howExchange:
		return m.unpublishOver(stage, name)
	case howUnlink:
		if m.gone {
			return nil
		}
		return m.giveBack(stage, name)
	case howRename:
		return m.restoreOld(c, i)
	case howInPlace:
		return m.putBack()
	}
	return nil
}

// ours reports whether a file is the one that the commit staged, with nothing
// written to it since.
func (m *mutation) ours(st fsx.Stat) bool {
	return st.SameFile(m.stageSt) && st.Size == m.stageSt.Size && st.Mtime == m.stageSt.Mtime
}

// isOurs reports whether the name leads to the staged file, unchanged. What
// another program saved under the name since stays there.
func (m *mutation) isOurs() (bool, error) {
	st, err := m.target.Parent.Lstat(m.target.Name)
	if isAbsent(err) {
		return false, nil
	}
	return err == nil && m.ours(st), err
}

// unpublishNew takes the name from the staged file. The file is looked at
// after it is out: another program may have saved it at the last moment.
//
//	unlinkat(staging/id.i)  renameat2(parent/name, staging/id.i, RENAME_NOREPLACE)
func (m *mutation) unpublishNew(stage fsx.Dir, name string) error {
	if ours, err := m.isOurs(); !ours || err != nil {
		return err
	}
	if err := stage.Remove(name); err != nil && !isAbsent(err) {
		return err
	}
	err := m.target.Parent.RenameNoReplace(m.target.Name, stage, name)
	if isAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if out, err := stage.Lstat(name); err != nil || m.ours(out) {
		return err
	}
	return m.giveBack(stage, name)
}

// unpublishOver swaps the staged file with the one before it again. What comes
// out and is not the staged file goes back under the name.
//
//	renameat2(staging/id.i, parent/name, RENAME_EXCHANGE)
func (m *mutation) unpublishOver(stage fsx.Dir, name string) error {
	if ours, err := m.isOurs(); err != nil || !ours {
		m.keepOut = err == nil
		return err
	}
	for again := false; ; again = true {
		err := stage.Exchange(name, m.target.Parent, m.target.Name)
		if isAbsent(err) {
			m.keepOut = true
			return nil
		}
		if err != nil || again {
			m.keepOut = again
			return err
		}
		if out, err := stage.Lstat(name); err != nil || m.ours(out) {
			return err
		}
	}
}

// giveBack gives a file that was taken away its name again. Where another
// program made a new file under it, that one stays.
//
//	linkat(staging/id.i, parent/name)
func (m *mutation) giveBack(stage fsx.Dir, name string) error {
	err := stage.Link(name, m.target.Parent, m.target.Name)
	if err != nil && !isExist(err) {
		err = stage.RenameNoReplace(name, m.target.Parent, m.target.Name)
	}
	if isExist(err) {
		m.keepOut = true
		return nil
	}
	return err
}

// dropStaged removes the entry of a mutation that was taken back. A file that
// could not get its name back is kept as a version.
func (s *Store) dropStaged(m *mutation, t trace) {
	if m.keepOut && s.keep(t) == nil {
		return
	}
	t.dir.Remove(t.name)
}

// restoreOld puts the old file back where names cannot be swapped: its inode
// is still open, and its bytes are in history.
//
//	write(staging/id.i.spool)  fsync  linkat(parent/name, staging/id.i)  renameat(staging/id.i.spool, parent/name)
func (m *mutation) restoreOld(c *commit, i int) error {
	m.final, m.stageSHA, m.spooled = body{file: m.prev.file, size1: m.prev.stat.Size}, m.prev.sha, false
	m.file.Close()
	stage, name := m.stageDir(c.s), m.stageName(c.id, i)
	if err := m.fillAs(context.Background(), &c.spare, stage, name+spoolSuffix); err != nil {
		return err
	}
	if err := m.dress(); err != nil {
		return err
	}
	if err := m.file.Sync(); err != nil {
		return err
	}
	if err := m.target.Parent.Link(m.target.Name, stage, name); err != nil && !errors.Is(err, fsx.ErrUnsupported) {
		return err
	}
	return stage.Rename(name+spoolSuffix, m.target.Parent, m.target.Name)
}
