package resilientwrite

import (
	"context"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/gate"
	"github.com/resilientwrite/resilientwrite/internal/history"
	"github.com/resilientwrite/resilientwrite/internal/hooks"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
	"github.com/resilientwrite/resilientwrite/internal/layer/checkpoint"
	"github.com/resilientwrite/resilientwrite/internal/layer/chunks"
	"github.com/resilientwrite/resilientwrite/internal/layer/drafts"
	"github.com/resilientwrite/resilientwrite/internal/layer/handoff"
	"github.com/resilientwrite/resilientwrite/internal/layer/lease"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
	"github.com/resilientwrite/resilientwrite/internal/layer/scratch"
	"github.com/resilientwrite/resilientwrite/internal/place"
	"github.com/resilientwrite/resilientwrite/internal/watch"
)

// Store is the write surface of one workspace. Its methods may be called by
// any number of goroutines, and any number of processes on one machine may
// open the same workspace. Make one with [Open].
type Store struct {
	engine *engine.Engine
	opts   Options

	versions    *history.Layer
	scratch     *scratch.Layer
	chunks      *chunks.Layer
	checkpoints *checkpoint.Layer
	handoffs    *handoff.Layer
	drafts      *drafts.Layer
	observed    *observe.Layer
	leases      *lease.Layer
	gate        *gate.Layer
	hooks       *hooks.Layer
	budgets     *budget.Layer
	watchers    watch.List[Receipt]
	workspace   *place.Workspace // nil where the caller says where the state is
	placed      place.Place
}

// Sync returns when everything that calls have done so far is at the level
// [SyncFull]. It does nothing at that level, and has no effect at [SyncOff].
// When ctx ends first, the flushes are completed in the background. Errors: the
// storage details, [ErrStorePoisoned], [ErrStoreClosed], [ErrCanceled]; after an
// error, what was acknowledged keeps its previous level.
func (s *Store) Sync(ctx context.Context) error {
	if err := s.enterReader(ctx); err != nil {
		return s.verbError("sync", err)
	}
	if s.engine.Settler == nil {
		s.engine.Leave()
		return nil
	}
	done := make(chan error, 1)
	go func() {
		defer s.engine.Leave()
		err := s.engine.Settler.Drain()
		if err == nil {
			s.engine.Heads.Drain()
		}
		done <- err
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return s.verbError("sync", err)
	}
	return nil
}
