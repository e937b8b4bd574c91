// Package feed selects rows of the journal for readers, keeps the cursors of agents, and
// finds the row of a call.
package feed

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/index"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// Filter selects the rows that a reader wants.
type Filter struct {
	Path, Mode, Caller string
	Without            func(*journal.Record) bool // records that are left out; nil: none
	Refused, Observed  bool
	All                bool // also aborts, conflicts and notes
}

// Keep filters whole records. The reader starts at the end, so it reads an abort
// before the commit that was rolled back.
func (f Filter) Keep() func(*journal.Record) bool {
	aborted := map[uint64]bool{}
	return func(rec *journal.Record) bool {
		if rec.Kind == journal.KindAbort {
			aborted[rec.Ref] = true
		}
		if rec.Kind == journal.KindCommit && aborted[rec.Seq] && !f.All {
			return false
		}
		return len(f.Select(rec)) > 0
	}
}

// Select returns which mutations of a record the reader wants.
func (f Filter) Select(rec *journal.Record) (list []int) {
	switch rec.Kind {
	case journal.KindCommit, journal.KindConflict:
	case journal.KindRefused:
		if !f.Refused {
			return nil
		}
	case journal.KindObserved:
		if !f.Observed {
			return nil
		}
	default:
		if !f.All {
			return nil
		}
	}
	if f.Caller != "" && rec.Caller != f.Caller || f.Without != nil && f.Without(rec) {
		return nil
	}
	for i := range rec.Muts {
		m := &rec.Muts[i]
		if f.Path != "" && m.Path != f.Path && m.Real != f.Path || f.Mode != "" && m.Op != f.Mode {
			continue
		}
		list = append(list, i)
	}
	return list
}

// Page is what follows a cursor.
type Page struct {
	Recs      []*journal.Record
	Next      uint64 // the next cursor
	Gap       string // why rows after the cursor are not available: archived or cursor_ahead; "": they are
	Oldest    uint64 // the first row of the journal, if rows after the cursor were archived
	Malformed int
}

// Since reads the rows after a cursor, never part of a commit.
func Since(e *engine.Engine, after uint64, limit int) (p Page, err error) {
	if e.Log != nil {
		p.Recs, p.Next, p.Oldest, p.Malformed, err = e.Log.Since(after, limit, nil)
	}
	switch {
	case err != nil:
	case after > p.Next:
		p.Gap = "cursor_ahead"
	case p.Oldest > 0:
		p.Gap = "archived"
	}
	return p, err
}

// cursor is the durable cursor of one agent.
type cursor struct {
	Agent string `json:"agent"`
	Seq   uint64 `json:"seq"`
}

// CursorName is the file of the cursor of an agent.
func CursorName(agent string) string { return engine.HashOf([]byte(agent))[:32] + ".json" }

// SetCursor stores what an agent acknowledges.
func SetCursor(e *engine.Engine, agent string, seq uint64) error {
	data, err := json.Marshal(cursor{Agent: agent, Seq: seq})
	if err != nil {
		return err
	}
	name := CursorName(agent)
	unlock, err := e.Locks.Names(context.Background(), e.Opts.LockTimeout, "journal_since", "cursor\x00"+name)
	if err != nil {
		return err
	}
	defer unlock()
	return e.WritePart("cursors", name, append(data, '\n'))
}

// Cursor reads the cursor of an agent. One that cannot be read starts again at 0, which
// repeats rows but loses none.
func Cursor(e *engine.Engine, agent string) (uint64, error) {
	data, err := e.ReadPart("cursors", CursorName(agent), engine.MetaLimit)
	if engine.IsAbsent(err) {
		return 0, nil
	}
	var c cursor
	if err != nil || json.Unmarshal(data, &c) != nil || c.Agent != agent {
		return 0, err
	}
	return c.Seq, nil
}

// maxSearched is how many rows are searched for an invocation.
const maxSearched = 100_000

// Operation returns the row of the call with an idempotency key or, if that is empty,
// with an invocation; nil if there is none.
func Operation(e *engine.Engine, key, invocation string) (*journal.Record, error) {
	if e.Log == nil {
		return nil, nil
	}
	if key != "" {
		seq, err := seqOf(e, key)
		if seq == 0 || err != nil {
			return nil, err
		}
		rec, err := e.Log.Find(seq)
		if errors.Is(err, journal.ErrNotFound) {
			return nil, nil
		}
		return rec, err
	}
	aborted := map[uint64]bool{}
	recs, _, err := e.Log.Tail(1, func(rec *journal.Record) bool {
		if rec.Kind == journal.KindAbort {
			aborted[rec.Ref] = true
		}
		return rec.Invocation == invocation && !aborted[rec.Seq] && (rec.Kind == journal.KindCommit || rec.Kind == journal.KindRefused)
	}, maxSearched)
	if err != nil || len(recs) == 0 {
		return nil, err
	}
	return recs[0], nil
}

// KeyKnown reports whether an idempotency key was used. The key then answers the
// call, regardless of later changes of the files.
func KeyKnown(e *engine.Engine, key string) bool {
	if key == "" || e.Log == nil {
		return false
	}
	seq, err := seqOf(e, key)
	return err == nil && seq != 0
}

// seqOf returns the row of an idempotency key; 0 if there is none.
func seqOf(e *engine.Engine, key string) (uint64, error) {
	if err := e.Log.CatchUp(); err != nil && !e.Opts.ReadOnly {
		return 0, err
	}
	row, err := e.Rows.Get(index.IdemKey(key))
	return row.Seq, err
}
