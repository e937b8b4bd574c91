package upkeep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/index"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/drafts"
	"github.com/resilientwrite/resilientwrite/internal/layer/staged"
	"github.com/resilientwrite/resilientwrite/internal/lock"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// compaction is one Compact in progress.
type compaction struct {
	*Call
	reserve engine.ReserveGrant // its right to use the reserve
	keep    int
	known   map[uint64]journal.SegmentFacts // segments that were read
	out     admin.CompactResult
	changed bool
	blocked bool // the limits of history could not be applied
}

// spend runs the steps with the reserve as a fallback, and restores the reserve with
// the space that they have freed.
func (p *compaction) spend(ctx context.Context) error {
	if p.DryRun || p.Engine.Log == nil {
		return p.run(ctx)
	}
	err := p.run(engine.WithSpare(ctx))
	p.reserve.End()
	p.Engine.MakeReserve() // later commits try again to allocate what is missing
	return err
}

func (p *compaction) run(ctx context.Context) error {
	if p.Engine.Log == nil {
		return nil
	}
	if p.Engine.Settler != nil && !p.DryRun {
		if err := p.Engine.Settler.Drain(); err != nil {
			return err
		}
	}
	p.Meter.Things(StepSweep, 0, "removing what has expired")
	steps := []func(context.Context) error{}
	for _, part := range parts {
		if part.expire != nil {
			steps = append(steps, func(ctx context.Context) error { return part.expire(p, ctx) })
		}
	}
	return inTurn(ctx, append(steps, p.journal)...)
}

// did counts removed items.
func (p *compaction) did(into *int, n int) {
	*into += n
	p.changed = p.changed || n > 0
	if n > 0 && !p.DryRun {
		p.Effect = fault.EffectUnknown
	}
}

// scratch removes the expired objects of the scratchpad, in commits
// as a delete makes them.
func (p *compaction) scratch(ctx context.Context) error {
	if p.DryRun {
		pad, err := p.Scratch.Open()
		if err != nil {
			return err
		}
		gone, err := p.Scratch.Expired(pad, "")
		p.did(&p.out.ScratchRemoved, len(gone))
		return err
	}
	for {
		var removed *int
		err := p.Commit(ctx, "expired", func(c *engine.Commit) { removed = p.Store.Scratch.Expire(c) })
		if err != nil {
			return err
		}
		p.did(&p.out.ScratchRemoved, *removed)
		if *removed == 0 {
			return nil
		}
	}
}

func (p *compaction) checkpoints(ctx context.Context) error {
	for {
		var removed int
		var more bool
		err := p.reserve.Try(func() (err error) { // damaged ones are copied
			removed, more, err = p.CleanCheckpoints(ctx, p.Asked().Req.Caller, p.Asked().Req.Session, p.DryRun)
			return err
		})
		p.did(&p.out.CheckpointsGone, removed)
		if err != nil || !more || p.DryRun || removed == 0 {
			return err
		}
	}
}

func (p *compaction) drafts(context.Context) error {
	list, err := p.Drafts.List()
	if err != nil {
		return err
	}
	now := stamp.Text(p.Engine.Now())
	over := len(slices.DeleteFunc(list, func(d drafts.Facts) bool { return d.ExpiresAt > now }))
	if !p.DryRun {
		if over > 0 {
			p.Effect = fault.EffectUnknown
		}
		if err := p.Engine.Alone("quarantine", p.Drafts.Sweep); err != nil {
			return err
		}
	}
	p.did(&p.out.DraftsRemoved, over)
	return nil
}

func (p *compaction) transactions(ctx context.Context) error {
	expired, err := staged.Layer{Engine: p.Engine}.Expired()
	if err != nil {
		return err
	}
	if !p.DryRun {
		if err := p.DropStaged(ctx); err != nil {
			return err
		}
	}
	p.did(&p.out.TxDropped, len(expired))
	return nil
}

// budgets rewrites the counts of failed calls when some are too old. Counts that cannot be
// read are named by Check.
func (p *compaction) budgets(context.Context) (err error) {
	over := p.Budgets.Expired()
	if over > 0 && !p.DryRun {
		err = p.Engine.Alone("budget", func() error {
			defer p.Budgets.Lock()()
			return p.reserve.Try(p.Budgets.Rewrite)
		})
	}
	if err == nil {
		p.did(&p.out.BudgetsRemoved, over)
	}
	return err
}

// versions applies the limits of history, and shares the remaining versions with the
// other work trees of the repository.
func (p *compaction) versions(ctx context.Context) error {
	if p.Engine.History == nil {
		return nil
	}
	p.Engine.Sweeping.Lock()
	defer p.Engine.Sweeping.Unlock()
	var gone []*engine.Kept
	var err error
	if p.DryRun {
		var b engine.Bounds
		b, err = p.Engine.OverBounds()
		gone = b.Over
	} else {
		gone, err = p.sweep(ctx)
	}
	p.did(&p.out.VersionsRemoved, len(gone))
	for _, k := range gone {
		p.out.VersionBytes += k.St.Size
	}
	if err != nil || p.blocked {
		return err
	}
	shared, err := p.Engine.ShareHistory(ctx, p.DryRun)
	p.did(&p.out.VersionsShared, shared)
	return err
}

// compactTries is how often Compact tries to take the lock of history. Each attempt
// waits for less time than a writer that adds a version does.
const compactTries = 20

// sweep removes the versions over a limit of history. If the lock cannot be taken
// because its holder is stopped, it adds a warning.
func (p *compaction) sweep(ctx context.Context) (gone []*engine.Kept, err error) {
	for range compactTries {
		var some []*engine.Kept
		some, err = p.Engine.Prune(ctx, 4*engine.SweepWait)
		gone = append(gone, some...)
		var timeout *lock.TimeoutError
		if !errors.As(err, &timeout) {
			return gone, err
		}
	}
	p.blocked = true
	return gone, nil
}

// journal writes snapshots and parks segments. The order is what makes it
// safe: a segment moves only when two snapshots that were read back precede
// it and a durable row records it.
func (p *compaction) journal(ctx context.Context) error {
	p.Meter.Things(StepJournal, 0, "archiving old journal segments")
	if err := p.archive(ctx); err != nil {
		return err
	}
	ends, err := p.snapshots()
	if err != nil {
		return err
	}
	p.out.Snapshots = len(ends)
	p.out.LiveFrom, err = p.Engine.Log.Oldest()
	return err
}

func (p *compaction) archive(ctx context.Context) error {
	if err := p.Engine.Log.CatchUp(); err != nil {
		return err
	}
	due, err := p.due(math.MaxUint64)
	if err != nil {
		return err
	}
	ends, err := p.snapshots()
	if err != nil {
		return err
	}
	fresh := len(ends) >= 2 && ends[0].Seq == p.Engine.Log.Head() // two are sound, and the newer one covers every row
	if p.DryRun {
		p.changed = p.changed || len(due) > 0 || !fresh
		return p.eachFact(ctx, due, p.archived)
	}
	if fresh && len(due) == 0 && !p.changed {
		return nil
	}
	p.changed = true
	if err := p.snapshot(); err != nil {
		return err
	}
	if err := p.noteSegments(ctx, due); err != nil {
		return err
	}
	if err := p.snapshot(); err != nil {
		return err
	}
	if ends, err = p.snapshots(); err != nil || len(ends) < 2 {
		return err
	}
	if due, err = p.due(min(ends[0].Segment, ends[1].Segment)); err != nil {
		return err
	}
	return p.park(ctx, due)
}

// due lists the segments that can be parked: sealed ones that hold none of the
// newest rows and precede the segment limit.
func (p *compaction) due(limit uint64) ([]uint64, error) {
	sealed, err := p.Engine.Log.Unparked()
	if err != nil {
		return nil, err
	}
	head := p.Engine.Log.Head()
	upto := head - min(head, uint64(p.keep)) // this row and those before it may go
	var list []uint64
	for i, first := range sealed {
		next := p.Engine.Log.End().Segment
		if i+1 < len(sealed) {
			next = sealed[i+1]
		}
		if next <= upto+1 && first < limit {
			list = append(list, first)
		}
	}
	return list, nil
}

// eachFact calls fn with the facts about each of some segments, which are read once.
func (p *compaction) eachFact(ctx context.Context, segments []uint64, fn func(journal.SegmentFacts) error) error {
	for _, first := range segments {
		f, ok := p.known[first]
		if !ok {
			if err := canceled(ctx); err != nil {
				return err
			}
			var err error
			if f, err = p.Engine.Log.Facts(first); err != nil {
				return err
			}
			p.known[first] = f
			p.Meter.One()
		}
		if err := fn(f); err != nil {
			return err
		}
	}
	return nil
}

// noteSegments writes a note for every segment that has none, and one for
// the call as a whole.
func (p *compaction) noteSegments(ctx context.Context, due []uint64) error {
	if len(due) > 0 {
		known, err := p.Engine.Log.Known()
		if err != nil {
			return err
		}
		err = p.eachFact(ctx, due, func(f journal.SegmentFacts) error {
			if known.Archived(f.First, f.SHA256) {
				return nil
			}
			return p.note(ctx, journal.Note{What: journal.NoteArchived, Segment: f.First, Last: f.Last, Rows: f.Rows, To: f.Bytes, SHA256: f.SHA256})
		})
		if err != nil {
			return err
		}
	}
	return p.note(ctx, journal.Note{What: journal.NoteCompact, Rows: int64(len(due)), Text: fmt.Sprintf("%d segments to the archive", len(due))})
}

func (p *compaction) park(ctx context.Context, due []uint64) error {
	if len(due) == 0 {
		return nil
	}
	if err := p.eachFact(ctx, due, p.archived); err != nil {
		return err
	}
	err := p.reserve.Try(func() error { return p.Engine.Log.Park(context.WithoutCancel(ctx), due) })
	if errors.Is(err, journal.ErrTaken) {
		return fault.New(fault.JournalDamaged).Because(err).Hintf("archive/ contains a different segment of the same name; examine it, move it away, then call again")
	}
	return err
}

func (p *compaction) archived(f journal.SegmentFacts) error {
	p.out.Archived = append(p.out.Archived, admin.ArchivedSegment{First: f.First, Last: f.Last, Rows: f.Rows, Bytes: f.Bytes, SHA256: digest(f.SHA256)})
	return nil
}

// snapshot writes a snapshot of the index and reads it back.
func (p *compaction) snapshot() error {
	return p.Engine.Alone("snapshot", func() error {
		err := p.reserve.Try(func() error { return p.Engine.Rows.Write(p.Engine.Disk.Index, p.Engine.Log) })
		if err == nil || !p.Engine.LacksSpace(err) { // without space it did not get its name
			p.Effect = fault.EffectUnknown
		}
		if err != nil && p.Engine.Log.Poisoned() {
			return p.Engine.Poison(err)
		}
		if err != nil {
			return err
		}
		list, err := index.Snapshots(p.Engine.Disk.Index)
		if err != nil {
			return err
		}
		if len(list) == 0 || list[0].Err != nil {
			return fault.New(fault.ReadBackMismatch)
		}
		return nil
	})
}

// snapshots are the ends of the sound snapshots, newest first.
func (p *compaction) snapshots() ([]journal.Pos, error) {
	list, err := index.Snapshots(p.Engine.Disk.Index)
	if err != nil {
		return nil, err
	}
	var ends []journal.Pos
	for _, snap := range list {
		var st engine.SnapshotState
		if snap.Err == nil && json.Unmarshal(snap.State, &st) == nil && st.Format == engine.FormatVersion {
			ends = append(ends, st.Pos)
		}
	}
	return ends, nil
}
