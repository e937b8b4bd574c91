package resilientwrite

import (
	"context"
	"errors"

	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/index"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// OperationRequest asks what became of a call.
type OperationRequest struct {
	// Idempotency key of the call. Give this or invocation_id.
	IdempotencyKey string `json:"idempotency_key,omitempty" maxlen:"200"`
	// invocation_id from the receipt of the call.
	InvocationID string `json:"invocation_id,omitempty" maxlen:"200"`
}

// OperationResult reports the outcome of a call.
type OperationResult struct {
	// True when the call was committed.
	Happened bool `json:"happened"`
	// True when the call was refused; entries give the reason.
	Refused bool `json:"refused"`
	// Its journal rows, one per file.
	Entries []JournalEntry `json:"entries"`
}

// Operation reports to a caller who lost a reply whether its call happened: by
// the idempotency key, or by the invocation id of its receipt. Keys are known for
// at least 24 hours, and longer while fewer than 100 000 rows follow theirs; an
// invocation is searched for in the newest 100 000 rows.
//
// Only a call that was committed binds its key. A call that was refused, was a
// dry run, was undone, or ended as unchanged, because the disk already had the
// requested state, leaves the key free: the key is then not known here, the same
// call runs again, and another request may use it.
//
// Errors: [ErrInvalidArgument] for both or neither, the storage details,
// [ErrStoreClosed]. Nothing is changed on disk.
func (s *Store) Operation(ctx context.Context, r OperationRequest) (OperationResult, error) {
	a, err := s.begin(ctx, "operation", "", r)
	if err != nil {
		return OperationResult{}, err
	}
	if (r.IdempotencyKey == "") == (r.InvocationID == "") {
		return OperationResult{}, a.failed(fault.New(fault.InvalidArgument).With("argument", "idempotency_key").Hintf("give either idempotency_key or invocation_id"))
	}
	out := OperationResult{Entries: []JournalEntry{}}
	rec, err := s.operation(r)
	if err != nil {
		return OperationResult{}, a.failed(err)
	}
	defer s.engine.Leave()
	if rec == nil {
		return out, nil
	}
	out.Happened, out.Refused = rec.Kind == journal.KindCommit, rec.Kind == journal.KindRefused
	for i := range rec.Muts {
		out.Entries = append(out.Entries, entryOf(rec, i))
	}
	return out, nil
}

// operationRows is how many rows are searched for an invocation.
const operationRows = 100_000

func (s *Store) operation(r OperationRequest) (*journal.Record, error) {
	if s.engine.Log == nil {
		return nil, nil
	}
	if r.IdempotencyKey != "" {
		if !s.opts.ReadOnly {
			if err := s.engine.Log.CatchUp(); err != nil {
				return nil, err
			}
		}
		e, err := s.engine.Rows.Get(index.IdemKey(r.IdempotencyKey))
		if err != nil || e.Seq == 0 {
			return nil, err
		}
		rec, err := s.engine.Log.Find(e.Seq)
		if errors.Is(err, journal.ErrNotFound) {
			return nil, nil
		}
		return rec, err
	}
	aborted := map[uint64]bool{}
	recs, _, err := s.engine.Log.Tail(1, func(rec *journal.Record) bool {
		if rec.Kind == journal.KindAbort {
			aborted[rec.Ref] = true
		}
		return rec.Invocation == r.InvocationID && !aborted[rec.Seq] && (rec.Kind == journal.KindCommit || rec.Kind == journal.KindRefused)
	}, operationRows)
	if err != nil || len(recs) == 0 {
		return nil, err
	}
	return recs[0], nil
}

// keyKnown reports whether an idempotency key was used. The key then answers the
// call, regardless of later changes of the files.
func (s *Store) keyKnown(key string) bool {
	if key == "" || s.engine.Log == nil {
		return false
	}
	if !s.opts.ReadOnly && s.engine.Log.CatchUp() != nil {
		return false
	}
	e, err := s.engine.Rows.Get(index.IdemKey(key))
	return err == nil && e.Seq != 0
}
