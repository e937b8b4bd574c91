package resilientwrite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// warningsOf returns the warnings for the given reasons.
func warningsOf(reasons []string) []Warning { return convert(reasons, call.WarningOf) }

// warnings converts the notes of the engine to warnings.
func warnings(notes []engine.Note) []Warning {
	list := make([]Warning, len(notes))
	for i, n := range notes {
		if list[i] = call.WarningOf(n.Reason); n.About != "" {
			list[i].Hint += ": " + n.About
		}
	}
	return list
}

// status returns how a successful call ended.
func (c *commit) status() Status {
	switch {
	case c.Replayed != nil:
		return StatusReplayed
	case c.Ended:
		return StatusUnchanged
	}
	return StatusSucceeded
}

// finished makes the receipt of a commit that succeeded, and passes it to the
// sink.
func (c *commit) finished() Receipt {
	r := c.receipt(c.First(), c.status())
	c.deliver(r)
	return r
}

// wroteAt returns the time of the call that made the change.
func (c *commit) wroteAt() time.Time {
	if c.Replayed != nil {
		return stamp.Parse(c.Replayed.TS)
	}
	return stamp.Of(c.Began)
}

// deliver passes the receipt of a successful commit to the sink and to the
// observers.
func (c *commit) deliver(r Receipt) {
	c.s.deliver(r)
	c.Observed(r, nil)
}

// receipt makes the receipt of c for one of its mutations.
func (c *commit) receipt(m *engine.Mutation, status Status) Receipt {
	r := Receipt{
		InvocationID: c.Inv, ToolVersion: Version, Caller: c.Req.Caller, Session: c.Req.Session, Op: c.Req.Op,
		Status: status, DryRun: c.Req.DryRun, Path: m.Path, IdempotencyKey: c.Req.Key,
		SHA256: digest(m.SHA), PrevSHA256: digest(m.Prev.SHA), Bytes: m.Size, Durability: c.durability(status),
		StartedAt:  stamp.Of(c.Began),
		DurationMS: float64(c.s.engine.Now().Sub(c.Began).Microseconds()) / 1000,
		Warnings:   warningsOf(m.Warnings),
	}
	if status != StatusFailed && status != StatusRefused {
		r.WroteAt = c.wroteAt()
	}
	if m.Target != nil && m.Target.Path != m.Path {
		r.RealPath = m.Target.Path
	}
	rec := c.Rec
	if c.Replayed != nil {
		rec = c.Replayed
		done := rec.Muts[0]
		r.SHA256, r.PrevSHA256, r.Bytes = digest(done.SHA256), digest(done.PrevSHA256), done.Bytes
		if len(c.Muts) == 0 { // the call found its files in the journal
			r.Path, r.RealPath = done.Path, done.Real
		}
	}
	if rec != nil && (status == StatusSucceeded || status == StatusReplayed) {
		r.JournalSeq, r.JournalID = rec.Seq, engine.JournalID(rec.Seq, 0)
	}
	return r
}

// durability returns the durability level reached when the call returned.
func (c *commit) durability(status Status) string {
	switch {
	case c.Req.DryRun || status == StatusFailed || status == StatusRefused:
		return "none"
	case c.s.engine.Unverified:
		return "unverified"
	case c.s.opts.Sync == SyncFull && !fsx.FlushesNames:
		return string(SyncJournal)
	}
	return string(c.s.opts.Sync)
}

// deliver passes a receipt to the host. A sink that panics must not make a
// completed call look failed.
func (s *Store) deliver(r Receipt) {
	if sink := s.opts.ReceiptSink; sink != nil {
		func() {
			defer func() { recover() }()
			sink(r)
		}()
	}
	s.watchers.Send(r)
}

// OpMissed is the Op of the receipt that replaces all those that a watcher was
// too slow to receive. It describes no call: the missed calls are in the journal.
const OpMissed = "missed"

// Watch calls f with the receipt of every mutating call of this Store, including
// refused calls and calls that changed nothing, once the outcome is known. Calls
// of other processes are not included; [Store.JournalSince] reports them.
//
// Receipts arrive in the order in which the calls ended, one at a time, in a
// separate goroutine: f may take its time and may call the Store, and no writer
// waits for it. At most 256 receipts wait for a slow f. Further receipts are
// dropped, and one receipt whose Op is [OpMissed] replaces them. A panic in f is
// contained.
//
// stop ends the watch, as does [Store.Close], which lets f receive the waiting
// receipts for at most a second. After stop no further call of f begins; one that
// has begun may still be in progress. Stopping twice is harmless. Watching a
// closed store does nothing.
func (s *Store) Watch(f func(Receipt)) (stop func()) { return s.watchers.Add(f, missedReceipts) }

func missedReceipts(n int) Receipt {
	return Receipt{Op: OpMissed, ToolVersion: Version, Durability: "none", Warnings: []Warning{{
		Reason: call.WarnReceiptsMissed,
		Hint:   fmt.Sprintf("%d receipts were dropped because the watcher was too slow; the journal has the changes", n),
	}}}
}

// finishedWith makes the receipt of a successful commit for one object that need
// not be part of it.
func (c *commit) finishedWith(m *engine.Mutation, sha string, size int64) Receipt {
	for _, other := range c.Muts {
		for _, w := range other.Warnings {
			m.Warn(w)
		}
	}
	r := c.receipt(m, c.status())
	r.SHA256, r.Bytes = digest(sha), size
	if c.Replayed != nil {
		r.PrevSHA256 = digest("")
	}
	c.deliver(r)
	return r
}

// allWarnings returns the warnings of several files, each once.
func allWarnings(muts []*engine.Mutation) []Warning {
	var all []string
	for _, m := range muts {
		for _, w := range m.Warnings {
			if !slices.Contains(all, w) {
				all = append(all, w)
			}
		}
	}
	return warningsOf(all)
}

// merged reports whether a commit of one file was merged, and what others had
// changed.
func (c *commit) merged(ctx context.Context) (merged bool, others string) {
	if c.Replayed == nil {
		return c.First().Base != "", c.First().Others
	}
	m := c.Replayed.Muts[0]
	if m.Base == "" || c.s.engine.EnterReader() != nil {
		return m.Base != "", ""
	}
	defer c.s.engine.Leave()
	return true, c.s.engine.KeptDiff(ctx, m.Identity(), m.Base, m.PrevSHA256)
}
