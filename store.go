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
// [SyncFull]. It does nothing at that level, and has no effect at [SyncOff]. It
// does not return early when ctx ends. Errors: the storage details,
// [ErrStorePoisoned], [ErrStoreClosed]; after an error, what was acknowledged
// keeps its previous level.
func (s *Store) Sync(ctx context.Context) error {
	if err := s.engine.EnterReader(); err != nil {
		return s.verbError("sync", err)
	}
	defer s.engine.Leave()
	if s.engine.Settler == nil {
		return nil
	}
	if err := s.engine.Settler.Drain(); err != nil {
		return s.verbError("sync", err)
	}
	s.engine.Heads.Drain()
	return nil
}
