package resilientwrite

import (
	"context"

	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// abort takes back a commit whose row is written: what was published is
// undone in reverse, then an abort row is made durable, and only then may the
// caller be told that nothing happened. If any of it fails nobody knows, and
// the store takes no more writes.
func (c *engineCommit) abort(cause *fault.Fault) fault.Effect {
	if c.s.poisoned.Load() {
		// A flush failed. What is on disk is for the next Open to find out.
		return fault.EffectUnknown
	}
	c.spare.may = true // whatever the call is
	for i := len(c.muts) - 1; i >= 0; i-- {
		if err := c.muts[i].unpublish(); err != nil {
			c.s.poison(err)
			return fault.EffectUnknown
		}
	}
	c.unmakeDirs()
	if err := c.syncUndone(); err != nil {
		c.s.poison(err)
		return fault.EffectUnknown
	}
	if err := c.s.writeAbort(withSpare(context.Background()), c.rec, string(cause.Code)); err != nil {
		c.s.poison(err)
		return fault.EffectUnknown
	}
	for _, m := range c.muts {
		c.s.dropSlot(m)
	}
	c.s.unsettled.done(c)
	return fault.EffectNone
}

// syncUndone makes durable that the names are what they were, before a row
// says so.
func (c *engineCommit) syncUndone() error {
	undone := &settlement{}
	for _, m := range c.muts {
		if m.ch == nil || !m.ch.Done || m.ch.Opened() != nil {
			continue
		}
		undone.dirs = append(undone.dirs, m.target.Parent)
		if m.source != nil {
			undone.dirs = append(undone.dirs, m.source.target.Parent)
		}
	}
	return undone.flush(c.s)
}

// dropSlot removes the slot of a mutation that was taken back. A file that could
// not get its name back is kept as a version.
func (s *engine) dropSlot(m *mutation) {
	if m.slot == nil {
		return
	}
	if m.ch != nil && m.ch.Displaced && s.keep(spent{slot: m.slot.Slot, old: m.prev.sha, check: true}) == nil {
		if m.slot.mark != nil {
			m.slot.mark.Remove()
		}
		return
	}
	m.slot.drop()
}

// writeAbort makes durable that the commit rec did not happen. The row repeats
// what each path was before, so that reading it is enough to know.
func (s *engine) writeAbort(ctx context.Context, rec *journal.Record, reason string) error {
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
func (s *engine) rowAbout(kind string, rec *journal.Record, reason string) *journal.Record {
	return &journal.Record{
		TS: s.now().UTC().Format(timeFormat), Kind: kind, Writer: s.writer,
		Settled: s.unsettled.floor(s.log.Head()), Ref: rec.Seq, Commit: rec.Commit,
		Caller: rec.Caller, Session: rec.Session, Via: rec.Via, Invocation: rec.Invocation, Key: rec.Key, Tx: rec.Tx,
		Reason: reason,
	}
}

// writeRow appends one row and, unless the level is off, flushes it.
func (s *engine) writeRow(ctx context.Context, rec *journal.Record) error {
	own := s.newSpare(ctx, false)
	defer own.end()
	return own.try(func() error { return s.appendRow(ctx, rec, nil) })
}

// recordRefusal leaves a row that tells of a refused call and reports whether
// it could.
func (c *engineCommit) recordRefusal(e *fault.Fault) bool {
	if len(c.muts) == 0 || c.s.poisoned.Load() || e.Code == fault.StoreClosed || e.Code == fault.BadPolicy {
		return false
	}
	rec := &journal.Record{
		TS: c.s.now().UTC().Format(timeFormat), Kind: journal.KindRefused, Writer: c.s.writer,
		Settled: c.s.unsettled.floor(c.s.log.Head()),
		Caller:  c.req.caller, Session: c.req.session, Via: c.via, Invocation: c.inv, Key: c.req.key, Tx: c.req.tx,
		Reason: string(e.Code), Policy: c.s.host.PolicyHash(),
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
func (c *engineCommit) noteStranger(m *mutation, sha string, size int64) error {
	note := c.s.rowAbout(journal.KindNote, c.rec, "stranger")
	note.Note = &journal.Note{What: "stranger", Path: m.target.Path, SHA256: sha, Bytes: size}
	return c.s.writeRow(withSpare(context.Background()), note)
}

// noteInPlace records the intent to write over a file, so that recovery knows
// a half-written one.
func (c *engineCommit) noteInPlace(m *mutation) error {
	note := c.s.rowAbout(journal.KindNote, c.rec, "in_place")
	note.Note = &journal.Note{What: "in_place", Path: m.target.Path, SHA256: m.sha, Bytes: m.size}
	return c.s.writeRow(withSpare(context.Background()), note)
}
