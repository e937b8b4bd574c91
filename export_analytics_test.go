package resilientwrite

import (
	"github.com/resilientwrite/resilientwrite/internal/analytics"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// AnalyticsDecoded makes the figures from rows that were decoded in full.
func (s *Store) AnalyticsDecoded() (AnalyticsResult, error) {
	fold := analytics.New(analytics.Options{})
	err := s.engine.Log.Range(1, func(rec *journal.Record, _ journal.Pos) error {
		fold.Add(rec)
		return nil
	})
	return fold.Result(), err
}
