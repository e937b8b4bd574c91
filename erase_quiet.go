package resilientwrite

import (
	"context"
	"slices"
	"time"
)

// quiet waits until every commit that is under way now is settled for good, and
// brings those of dead writers to their end.
func (e *eraser) quiet(ctx context.Context) error {
	if e.dryRun {
		return nil
	}
	if err := e.s.behind.drain(); err != nil {
		return err
	}
	e.s.heads.drain()
	if err := e.s.recoverDead(ctx, new(RecoveryReport)); err != nil {
		return err
	}
	under, err := e.s.heldSlots()
	if err != nil {
		return err
	}
	deadline := time.Now().Add(e.s.opts.LockTimeout)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		now, err := e.s.heldSlots()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(under, func(name string) bool { return slices.Contains(now, name) }) {
			return e.u.forGood()
		}
		if time.Now().After(deadline) {
			return fail(LockTimeout).hint("another write is in progress; call again when it has ended")
		}
		select {
		case <-ctx.Done():
			return canceled(ctx)
		case <-time.After(wait):
		}
		if err := e.s.recoverDead(ctx, new(RecoveryReport)); err != nil {
			return err
		}
	}
}
