package resilientwrite

import (
	"context"

	"github.com/resilientwrite/resilientwrite/analytics"
	"github.com/resilientwrite/resilientwrite/internal/adapter"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/usage"
)

// Analytics reports what was written, from the journal alone: totals, by mode
// and caller, the busiest paths, sessions of chunks, checkpoints, refusals.
// The journal is read twice, row by row, so the memory it takes grows only with
// the number of names. Commits that were rolled back are not counted.
//
// Errors: the common ones, [ErrInvalidArgument] for an invalid time.
func (s *Store) Analytics(ctx context.Context, r analytics.Request) (analytics.Result, error) {
	return reading(ctx, s, "analytics", "", r, func() (out analytics.Result, err error) {
		if adapter.IsMalformed(ctx, "since") {
			return out, fault.New(fault.InvalidArgument).With("argument", "since").Hintf("since is a time such as 2026-01-31T09:00:00Z")
		}
		each := func(func(*journal.Record) error) error { return nil }
		if s.engine.Log != nil {
			each = s.engine.Log.Skim
		}
		return usage.Read(ctx, r, each)
	})
}
