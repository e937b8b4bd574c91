package resilientwrite

import (
	"context"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/analytics"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// AnalyticsRequest asks for usage figures.
type AnalyticsRequest struct {
	// Count only rows from this time on, RFC 3339. Default: all rows.
	Since string `json:"since,omitempty" maxlen:"64"`
	// List only this session under sessions; the other figures still cover all
	// sessions.
	SessionFilter string `json:"session_filter,omitempty" maxlen:"200"`
}

// AnalyticsResult holds usage figures.
type AnalyticsResult = analytics.Result

// Analytics reports what was written, from the journal alone: totals, by mode
// and caller, the busiest paths, sessions of chunks, checkpoints, refusals.
// The journal is read twice, row by row, so the memory it takes grows only with
// the number of names. Commits that were rolled back are not counted.
//
// Errors: [ErrInvalidArgument] for an invalid time, the storage details,
// [ErrStoreClosed], [ErrCanceled]. Nothing is changed on disk.
func (s *Store) Analytics(ctx context.Context, r AnalyticsRequest) (AnalyticsResult, error) {
	return reading(ctx, s, "analytics", "", r, func() (out AnalyticsResult, err error) {
		opt := analytics.Options{Session: r.SessionFilter}
		if r.Since != "" {
			if opt.Since, err = time.Parse(time.RFC3339, r.Since); err != nil {
				return out, fault.New(fault.InvalidArgument).With("argument", "since").Hintf("since is a time such as 2026-01-31T09:00:00Z")
			}
		}
		each := func(func(*journal.Record) error) error { return nil }
		if s.engine.Log != nil {
			each = s.engine.Log.Skim
		}
		return analytics.Read(ctx, opt, each)
	})
}
