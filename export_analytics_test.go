package resilientwrite

import (
	"context"

	"github.com/resilientwrite/resilientwrite/internal/analytics"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// AnalyticsDecoded makes the figures from rows that were decoded in full.
func (s *Store) AnalyticsDecoded() (AnalyticsResult, error) {
	return analytics.Read(context.Background(), analytics.Options{}, func(fn func(*journal.Record) error) error {
		return s.engine.Log.Range(1, func(rec *journal.Record, _ journal.Pos) error { return fn(rec) })
	})
}
