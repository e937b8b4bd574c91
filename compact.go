package resilientwrite

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/lock"
)

// defaultKeepRows is how many of the newest rows stay where cursors reach
// them.
const defaultKeepRows = 10_000

// CompactRequest asks for the state directory to be put in order.
type CompactRequest struct {
	Call `omit:"idempotency_key,accept_risk"`

	// Keep at least this many of the newest rows in live segments, where cursors
	// can reach them.
	KeepRows *int `json:"keep_rows,omitempty" default:"10000" min:"0"`
}

// CompactResult reports what was put in order.
type CompactResult struct {
	// Segments that were moved to archive/, oldest first.
	Archived []ArchivedSegment `json:"archived"`
	// Oldest row that a cursor can reach.
	LiveFrom uint64 `json:"live_from"`
	// Index snapshots that exist and were verified.
	Snapshots int `json:"snapshots"`
	// Kept versions that exceeded a limit of history.
	VersionsRemoved int `json:"versions_removed"`
	// Total size of those in bytes.
	VersionBytes int64 `json:"version_bytes"`
	// Expired objects of the scratchpad.
	ScratchRemoved int `json:"scratch_removed"`
	// Expired or damaged checkpoints; damaged ones are in quarantine.
	CheckpointsGone int `json:"checkpoints_removed"`
	// Expired drafts.
	DraftsRemoved int `json:"drafts_removed"`
	// Expired staged transactions.
	TxDropped int `json:"transactions_dropped"`
	// Retry counts that have expired.
	BudgetsRemoved int `json:"budgets_removed"`
	// Outcome of the call.
	Status Status `json:"status" enum:"succeeded,unchanged"`
	// What the caller should know although the call succeeded.
	Warnings []Warning `json:"warnings"`
	// The full record of the call.
	Receipt Receipt `json:"receipt"`
}

// ArchivedSegment is one segment of the journal in archive/.
type ArchivedSegment struct {
	// Its first row.
	First uint64 `json:"first"`
	// Its last row.
	Last uint64 `json:"last"`
	// Number of rows.
	Rows int64 `json:"rows"`
	// Its size in bytes.
	Bytes int64 `json:"bytes"`
	// SHA-256 of the segment.
	SHA256 Digest `json:"sha256"`
}

// Compact puts the state directory in order, beside running writers. It writes
// fresh snapshots of the index and reads them back; it moves the segments of
// the journal that precede the older snapshot, and the newest
// keep_rows rows, to archive/; it applies the limits of history and removes
// what has expired: objects of the scratchpad, checkpoints, refused drafts,
// staged transactions, counts of failed calls.
//
// No row is lost: what is in archive/ is still read by [Store.History],
// [Store.JournalTail], [Store.Undo] and [Store.Check]. Only a cursor of
// [Store.JournalSince] does not reach it and gets a gap. For each segment
// a note in the journal holds its rows, size and hash before it moves. Killed
// at any point it leaves a sound store, and the next call finishes. A second
// call with nothing to do changes nothing and says unchanged.
//
// Limits of history are applied beside other processes. Where one of them was
// stopped while it added a version, they are not, and the warning
// other_writer_live says so. Errors:
// [ErrInvalidArgument], [ErrLockTimeout], [ErrJournalDamaged] when archive/ holds another
// segment of the same name, the storage details, [ErrStorePoisoned],
// [ErrStoreClosed], [ErrStoreReadOnly], [ErrCanceled].
func (a Admin) Compact(ctx context.Context, r CompactRequest) (CompactResult, error) {
	s := a.s
	u, ctx, err := s.beginUpkeep(ctx, upkeepCall{op: "compact", caller: r.Caller, session: r.Session, dryRun: r.DryRun})
	if err != nil {
		return CompactResult{}, err
	}
	p := &compaction{u: u, s: s, spare: s.engine.NewSpare(ctx, !r.DryRun), keep: defaultKeepRows, dryRun: r.DryRun, known: map[uint64]ArchivedSegment{}}
	if r.KeepRows != nil {
		p.keep = *r.KeepRows
	}
	p.out = CompactResult{Archived: []ArchivedSegment{}, Warnings: []Warning{}}
	if p.keep < 0 {
		return CompactResult{}, u.failed(fault.New(fault.InvalidArgument).With("argument", "keep_rows").Hintf("keep_rows must be 0 or more"))
	}
	if err := p.spend(ctx); err != nil {
		return CompactResult{}, u.failed(err)
	}
	p.out.Status = StatusUnchanged
	if p.changed {
		p.out.Status = StatusSucceeded
	}
	p.out.Receipt = u.done(p.out.Status, p.out.Warnings)
	return p.out, nil
}

// compaction is one Compact in progress.
type compaction struct {
	u       *upkeep
	s       *Store
	spare   engine.Spare // its right to the reserve
	keep    int
	dryRun  bool
	changed bool
	known   map[uint64]ArchivedSegment // segments that were read
	out     CompactResult
}

// spend runs the steps with the reserve to fall back on, and makes it whole
// again with the room that they have made.
func (p *compaction) spend(ctx context.Context) error {
	if p.dryRun || p.s.engine.Log == nil {
		return p.run(ctx)
	}
	err := p.run(engine.WithSpare(ctx))
	p.spare.End()
	p.s.engine.MakeReserve() // what is missing of it, later commits look for
	return err
}

func (p *compaction) run(ctx context.Context) error {
	if p.s.engine.Log == nil {
		return nil
	}
	if p.s.engine.Behind != nil && !p.dryRun {
		if err := p.s.engine.Behind.Drain(); err != nil {
			return err
		}
	}
	p.u.account.things(StepSweep, 0, "removing what has expired")
	// First what only removes names: on a full disk it makes room for the rest.
	for _, step := range []func(context.Context) error{
		p.drafts, p.versions, p.transactions, p.scratch, p.checkpoints, p.budgets, p.journal,
	} {
		if err := canceled(ctx); err != nil {
			return err
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// did counts things that are gone.
func (p *compaction) did(into *int, n int) {
	*into += n
	p.changed = p.changed || n > 0
	if n > 0 && !p.dryRun {
		p.u.effect = fault.EffectUnknown
	}
}

// scratch removes the expired objects of the scratchpad, in commits
// as a delete makes them.
func (p *compaction) scratch(ctx context.Context) error {
	if p.dryRun {
		pad, err := p.s.scratch.Open()
		if err != nil {
			return err
		}
		gone, err := p.s.scratch.Expired(pad, "")
		p.did(&p.out.ScratchRemoved, len(gone))
		return err
	}
	for {
		n, err := p.s.expireScratch(ctx, p.u.c.request())
		p.did(&p.out.ScratchRemoved, n)
		if err != nil || n == 0 {
			return err
		}
	}
}

// expireScratch removes some expired objects, with their entries.
func (s *Store) expireScratch(ctx context.Context, req request) (int, error) {
	c := s.newCommit(ctx, request{op: req.op, caller: req.caller, session: req.session, hash: "expired"})
	removed := s.scratch.Expire(c.Commit)
	if err := s.commit(ctx, c); err != nil {
		return 0, err
	}
	return *removed, nil
}

func (p *compaction) checkpoints(ctx context.Context) error {
	others := false
	for {
		var r CheckpointCleanupResult
		err := p.spare.Try(func() (err error) { // damaged ones are copied
			r, err = p.s.CheckpointCleanup(ctx, CheckpointCleanupRequest{
				IncludeSession: &others, Call: Call{DryRun: p.dryRun, Caller: p.u.c.Req.Caller, Session: p.u.c.Req.Session},
			})
			return err
		})
		p.did(&p.out.CheckpointsGone, len(r.Removed))
		if err != nil || !r.More || p.dryRun || len(r.Removed) == 0 {
			return err
		}
	}
}

func (p *compaction) drafts(context.Context) error {
	list, err := p.s.drafts.List()
	if err != nil {
		return err
	}
	now, over := p.s.engine.Now().UTC().Format(engine.TimeFormat), 0
	for _, d := range list {
		if d.ExpiresAt <= now {
			over++
		}
	}
	if !p.dryRun {
		if over > 0 {
			p.u.effect = fault.EffectUnknown
		}
		if err := p.s.engine.Alone("quarantine", p.s.drafts.Sweep); err != nil {
			return err
		}
	}
	p.did(&p.out.DraftsRemoved, over)
	return nil
}

func (p *compaction) transactions(ctx context.Context) error {
	now, over := p.s.engine.Now().UTC().Format(engine.TimeFormat), 0
	for _, h := range p.s.openTxs() {
		if h.ExpiresAt < now {
			over++
		}
	}
	if !p.dryRun {
		if err := p.s.sweepTxs(ctx); err != nil {
			return err
		}
	}
	p.did(&p.out.TxDropped, over)
	return nil
}

// budgets rewrites the counts of failed calls when some are too old.
func (p *compaction) budgets(context.Context) error {
	data, err := durable.ReadFile(p.s.engine.Disk.State, guardName, guardLimit)
	if engine.IsAbsent(err) {
		return nil
	}
	var all tally
	if err != nil || json.Unmarshal(data, &all) != nil {
		return nil // a lost count; Check names it
	}
	over := len(all.Strikes) - len(p.s.readTally().Strikes)
	if over <= 0 {
		return nil
	}
	if !p.dryRun {
		err = p.s.engine.Alone("budget", func() error {
			p.s.guard.mu.Lock()
			defer p.s.guard.mu.Unlock()
			t := p.s.readTally()
			p.s.guard.task, p.s.guard.strikes = t.Task, t.Strikes
			return p.spare.Try(p.s.writeStrikes)
		})
	}
	if err == nil {
		p.did(&p.out.BudgetsRemoved, over)
	}
	return err
}

// versions applies the limits of history.
func (p *compaction) versions(ctx context.Context) error {
	if p.s.engine.History == nil {
		return nil
	}
	p.s.engine.Sweeping.Lock()
	defer p.s.engine.Sweeping.Unlock()
	var gone []*engine.Kept
	var err error
	if p.dryRun {
		read := p.s.engine.PruneRead.Load()
		defer p.s.engine.PruneRead.Store(read) // no one has pruned
		gone, _, err = p.s.engine.OverBounds()
	} else {
		gone, err = p.sweep(ctx)
	}
	p.did(&p.out.VersionsRemoved, len(gone))
	for _, k := range gone {
		p.out.VersionBytes += k.St.Size
	}
	return err
}

// compactTries is how often Compact asks for the lock of history. Each time it
// waits less than they do who add a version.
const compactTries = 20

// sweep removes what is over a limit of history. Where the lock cannot be had,
// because a process was stopped with it, a warning says so.
func (p *compaction) sweep(ctx context.Context) (gone []*engine.Kept, err error) {
	for range compactTries {
		var some []*engine.Kept
		some, err = p.s.engine.Prune(ctx, 4*engine.SweepWait)
		gone = append(gone, some...)
		var timeout *lock.TimeoutError
		if !errors.As(err, &timeout) {
			return gone, err
		}
	}
	p.out.Warnings = append(p.out.Warnings, warning(WarnOtherWriterLive))
	return gone, nil
}
