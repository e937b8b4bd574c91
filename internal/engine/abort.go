package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// Abort rolls back a commit whose row is written: published mutations are undone
// in reverse order, then an abort row is made durable, and only then may the
// caller get the reply that nothing happened. If any step fails the result is
// unknown, and the store accepts no more writes.
func (c *Commit) Abort(cause *fault.Fault) fault.Effect {
	if c.s.Poisoned.Load() {
		// A flush failed. What is on disk is for the next Open to find out.
		return fault.EffectUnknown
	}
	c.grant.may = true // whatever the call is
	if err := c.unpublish(); err != nil {
		c.s.Poison(err)
		return fault.EffectUnknown
	}
	if err := c.syncUndone(); err != nil {
		c.s.Poison(err)
		return fault.EffectUnknown
	}
	c.unmakeDirs() // a power cut that kept only their removal would take the files that were in them
	if err := c.s.writeAbort(WithSpare(context.Background()), c.Rec, string(cause.Code)); err != nil {
		c.s.Poison(err)
		return fault.EffectUnknown
	}
	for _, m := range c.Muts {
		c.s.dropSlot(m)
	}
	c.s.Unsettled.done(c)
	return fault.EffectNone
}

// unpublish rolls back the published mutations.
func (c *Commit) unpublish() error {
	for i, m := range slices.Backward(c.Muts) {
		if i+1 == c.clearing {
			if err := c.unturn(); err != nil {
				return err
			}
		}
		if err := m.unpublish(); err != nil {
			return err
		}
	}
	if c.clearing == 0 {
		return c.unturn()
	}
	return nil
}

// syncUndone makes the restored names durable before a row records the abort.
func (c *Commit) syncUndone() error {
	muts := c.Muts
	if c.turned { // the others are flushed
		muts = muts[:c.clearing]
	}
	return c.flushUndone(muts)
}

// flushUndone makes restored names durable.
func (c *Commit) flushUndone(muts []*Mutation) error {
	undone := &settlement{}
	for _, m := range muts {
		if m.ch == nil || !m.ch.Done || m.ch.Opened() != nil {
			continue
		}
		undone.dirs = append(undone.dirs, m.Target.Parent)
		if m.Source != nil {
			undone.dirs = append(undone.dirs, m.Source.Target.Parent)
		}
	}
	return undone.flush(c.s)
}

// dropSlot removes the slot of a mutation that was rolled back. A file whose name
// could not be restored is kept as a version; if that fails, it stays in its slot
// for the next Open.
func (s *Engine) dropSlot(m *Mutation) {
	switch {
	case m.Slot == nil:
	case m.ch == nil || !m.ch.Displaced:
		m.Slot.Drop()
	case s.keep(spent{slot: m.Slot.Slot, old: m.Prev.SHA, check: true}) != nil:
		m.Slot.close()
		m.Warn(call.WarnHistorySkipped)
	}
}

// writeAbort durably records that the commit rec was rolled back. The row repeats
// what each path was before, so that readers need no other row.
func (s *Engine) writeAbort(ctx context.Context, rec *journal.Record, reason string) error {
	abort := s.RowAbout(journal.KindAbort, rec, reason)
	for _, m := range rec.Muts {
		abort.Muts = append(abort.Muts, journal.Mutation{
			Op: m.Op, Path: m.Path, Real: m.Real, SHA256: m.PrevSHA256, Bytes: m.PrevBytes,
			Rev: m.Rev - 1, PrevSeq: m.PrevSeq,
		})
	}
	return s.WriteRow(ctx, abort)
}

// RowAbout returns a row that refers to another one.
func (s *Engine) RowAbout(kind string, rec *journal.Record, reason string) *journal.Record {
	return &journal.Record{
		TS: stamp.Text(s.Now()), Kind: kind, Writer: s.Writer,
		Settled: s.Unsettled.Floor(s.Log.Head()), Ref: rec.Seq, Commit: rec.Commit,
		Caller: rec.Caller, Session: rec.Session, Via: rec.Via, Invocation: rec.Invocation, Key: rec.Key, Tx: rec.Tx,
		Reason: reason,
	}
}

// WriteRow appends one row and, unless the level is off, flushes it.
func (s *Engine) WriteRow(ctx context.Context, rec *journal.Record) error {
	own := s.NewReserveGrant(ctx, false)
	defer own.End()
	long := rec.Kind == journal.KindAbort // as the row that it rolls back
	return own.Try(func() error { return s.appendRow(&journal.Batch{Recs: []*journal.Record{rec}, Long: long}) })
}

// RecordRefusal writes a row about a refused call and reports whether it
// succeeded. It does not wait for the journal lock longer than the call may.
func (c *Commit) RecordRefusal(e *fault.Fault) bool {
	if len(c.Muts) == 0 || c.s.Poisoned.Load() || e.Code == fault.StoreClosed || e.Code == fault.BadPolicy {
		return false
	}
	if errors.Is(e.Err, journal.ErrLocked) {
		return false // this row would wait for the same lock
	}
	rec := &journal.Record{
		TS: stamp.Text(c.s.Now()), Kind: journal.KindRefused, Writer: c.s.Writer,
		Settled: c.s.Unsettled.Floor(c.s.Log.Head()),
		Caller:  c.Req.Caller, Session: c.Req.Session, Via: c.Via, Invocation: c.Inv, Key: c.Req.Key, Tx: c.Req.Tx,
		Reason: string(e.Code), Policy: c.s.Host.PolicyHash(),
	}
	for _, m := range c.Muts {
		rec.Muts = append(rec.Muts, journal.Mutation{
			Op: string(m.Op), Path: m.Path, SHA256: m.Prev.SHA, Bytes: m.Prev.Stat.Size, PrevSHA256: m.Prev.SHA,
		})
	}
	return c.s.appendRow(&journal.Batch{Recs: []*journal.Record{rec}, Ctx: c.ctx}) == nil
}

// NoteForeign is the subject of a note that names what another program wrote to a file.
const NoteForeign = "stranger"

// noteForeign records that a file has other bytes than the row of its commit
// records, because another program wrote to it at the same moment.
func (c *Commit) noteForeign(m *Mutation, sha string, size int64) error {
	note := c.s.RowAbout(journal.KindNote, c.Rec, NoteForeign)
	note.Note = &journal.Note{What: NoteForeign, Path: m.Target.Path, SHA256: sha, Bytes: size}
	return c.s.WriteRow(WithSpare(context.Background()), note)
}

// noteInPlace is the subject of a note that records the intent to write in place.
const noteInPlace = "in_place"

// noteOver records the intent to overwrite a file in place, so that recovery
// recognizes a partly written one.
func (c *Commit) noteOver(m *Mutation) error {
	note := c.s.RowAbout(journal.KindNote, c.Rec, noteInPlace)
	note.Note = &journal.Note{What: noteInPlace, Path: m.Target.Path, SHA256: m.SHA, Bytes: m.Size}
	return c.s.WriteRow(WithSpare(context.Background()), note)
}
