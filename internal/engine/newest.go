package engine

import (
	"errors"

	"github.com/resilientwrite/resilientwrite/internal/index"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// Newest finds the newest rows of many paths, each row once.
type Newest struct {
	s    *Engine
	rows map[uint64]*newestRow
}

type newestRow struct {
	rec  *journal.Record
	muts map[string]*journal.Mutation
}

// NewNewest returns one that has found nothing yet.
func (s *Engine) NewNewest() *Newest { return &Newest{s, map[uint64]*newestRow{}} }

// Of is where the newest row of a path is, the row, and what it says of the path; nil for what is not there.
func (n *Newest) Of(path string) (index.Entry, *journal.Record, *journal.Mutation, error) {
	e, err := n.s.LastRow(path)
	if err != nil || e.Seq == 0 {
		return e, nil, nil, err
	}
	row := n.rows[e.Seq]
	if row == nil {
		row = &newestRow{muts: map[string]*journal.Mutation{}}
		if row.rec, err = n.s.Log.Find(e.Seq); err != nil && !errors.Is(err, journal.ErrNotFound) {
			return e, nil, nil, err
		}
		for i := 0; row.rec != nil && i < len(row.rec.Muts); i++ {
			m := &row.rec.Muts[i]
			row.muts[m.Identity()] = m
		}
		n.rows[e.Seq] = row
	}
	return e, row.rec, row.muts[path], nil
}
