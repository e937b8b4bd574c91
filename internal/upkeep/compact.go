package upkeep

import (
	"context"
	"errors"

	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
	"github.com/resilientwrite/resilientwrite/internal/layer/staged"
	"github.com/resilientwrite/resilientwrite/internal/lock"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// compact applies the limits, removes expired objects and archives rows that are not
// among the newest keep ones.
func (c *Call) compact(ctx context.Context, keep int) (*compaction, error) {
	p := &compaction{Call: c, out: admin.CompactResult{Archived: []admin.ArchivedSegment{}}, reserve: c.Engine.NewReserveGrant(ctx, !c.DryRun), keep: keep, known: map[uint64]journal.SegmentFacts{}}
	err := p.spend(ctx)
	return p, err
}

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
	for _, step := range append(steps, p.journal) {
		if err := canceled(ctx); err != nil {
			return err
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
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
	now, over := stamp.Text(p.Engine.Now()), 0
	for _, d := range list {
		if d.ExpiresAt <= now {
			over++
		}
	}
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
	expired := staged.Layer{Engine: p.Engine}.Expired()
	if !p.DryRun {
		if err := p.DropStaged(ctx); err != nil {
			return err
		}
	}
	p.did(&p.out.TxDropped, len(expired))
	return nil
}

// budgets rewrites the counts of failed calls when some are too old.
func (p *compaction) budgets(context.Context) error {
	data, err := durable.ReadFile(p.Engine.Disk.State, budget.Name, budget.Limit)
	if engine.IsAbsent(err) {
		return nil
	}
	counts, ok := p.Budgets.Decode(data)
	if err != nil || !ok {
		return nil // a lost count; Check names it
	}
	over := counts - p.Budgets.Live()
	if over <= 0 {
		return nil
	}
	if !p.DryRun {
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
