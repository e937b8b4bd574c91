package resilientwrite

import (
	"context"

	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// SnapshotNow writes a snapshot of the index even if the last one is recent.
func (s *Store) SnapshotNow() error { return s.engine.Rows.Write(s.engine.Disk.Index, s.engine.Log) }

// RollJournal begins a new segment.
func (s *Store) RollJournal() error { return s.engine.Log.Roll(context.Background()) }

// CountRows counts the rows of the journal, archived ones too.
func (s *Store) CountRows() (n int, err error) {
	err = s.engine.Log.Range(1, func(*journal.Record, journal.Pos) error { n++; return nil })
	return n, err
}

// RebuildRows folds the journal again.
func (s *Store) RebuildRows() error { return s.engine.RebuildRows() }
