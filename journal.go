package resilientwrite

import (
	"cmp"
	"context"
	"iter"

	"github.com/resilientwrite/resilientwrite/internal/changes"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/feed"
	"github.com/resilientwrite/resilientwrite/internal/gate"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// JournalTailRequest asks for the newest rows.
type JournalTailRequest struct {
	N int `json:"n,omitempty" min:"1" max:"1000" default:"20"` // Maximum number of rows.
	// Only rows of this path.
	FilterPath   string `json:"filter_path,omitempty"`
	FilterMode   string `json:"filter_mode,omitempty" enum:"@modes"` // Only rows of this operation.
	FilterCaller string `json:"filter_caller,omitempty"`             // Only rows of this caller.
	// Also return refused writes.
	IncludeRefused bool `json:"include_refused,omitempty"`
	// IncludeObserved also returns changes that other programs made, as rows of
	// kind observed. No tool has it.
	IncludeObserved bool `json:"-"`
}

// JournalTailResult holds rows, oldest first.
type JournalTailResult struct {
	Entries   []JournalEntry `json:"entries"`   // The rows, oldest first.
	Malformed int            `json:"malformed"` // Unreadable lines that were skipped.
}

// JournalSinceRequest asks for the rows after a cursor.
type JournalSinceRequest struct {
	// Return rows after this sequence number. With agent it also acknowledges
	// them; without it the stored cursor of the agent is used.
	AfterSeq *uint64 `json:"after_seq,omitempty"`
	// Approximate number of rows; a commit is never split.
	Limit int `json:"limit,omitempty" min:"1" max:"10000" default:"100"`
	// Name of a durable cursor. Rows written under this name as caller are left
	// out, except those of another connection.
	Agent          string `json:"agent,omitempty" maxlen:"200"`
	IncludeRefused bool   `json:"include_refused,omitempty"` // Also return refused writes.
	// IncludeObserved also returns changes that other programs made, as rows of
	// kind observed. No tool has it.
	IncludeObserved bool `json:"-"`
}

// JournalSinceResult holds the rows after a cursor, oldest first.
type JournalSinceResult struct {
	Entries []JournalEntry `json:"entries"`  // The rows, oldest first.
	NextSeq uint64         `json:"next_seq"` // Pass it as after_seq next time.
	// True when rows between the cursor and the first entry are not available.
	Gap    bool   `json:"gap"`
	Reason string `json:"reason,omitempty" enum:"archived,cursor_ahead"` // Why there is a gap.
	// The archived rows after the cursor; only with reason archived.
	Archived  *ArchivedRows `json:"archived,omitempty"`
	Malformed int           `json:"malformed"` // Unreadable lines that were skipped.
}

// ArchivedRows are rows that a cursor no longer reaches.
type ArchivedRows struct {
	From uint64 `json:"from"` // The first of them.
	To   uint64 `json:"to"`   // The last row.
	Rows uint64 `json:"rows"` // Number of them.
}

// JournalEntry is one mutation of one path.
type JournalEntry struct {
	JournalID string    `json:"journal_id"` // Identifier of the row.
	Seq       uint64    `json:"seq"`        // Position in the journal. Rows are ordered by it alone.
	TS        Timestamp `json:"ts"`         // When, RFC 3339 UTC; informational.
	// Kind of the row.
	Kind string `json:"kind" enum:"commit,abort,conflict,refused,note,checkpoint"`
	// Path relative to the workspace.
	Path     string `json:"path"`
	RealPath string `json:"real_path,omitempty"` // Resolved path of a symbolic link.
	// SHA-256 of the file afterwards; empty when it no longer exists.
	SHA256     Digest `json:"sha256"`
	Bytes      int64  `json:"bytes"`                // Size of the file afterwards in bytes.
	Mode       string `json:"mode"`                 // The operation: create, overwrite, append …
	Caller     string `json:"caller"`               // Who wrote it.
	PrevSHA256 Digest `json:"prev_sha256,omitzero"` // SHA-256 of the file before.
	Rev        uint64 `json:"rev,omitempty"`        // Number of versions of the path so far.
	Session    string `json:"session,omitempty"`    // Name of the working session.
	// What the server knows of the call, independent of caller and session.
	Via            *Via   `json:"via,omitempty"`
	Tx             string `json:"tx,omitempty"`              // The transaction the row belongs to.
	Op             string `json:"op"`                        // The operation, as in mode.
	Writer         string `json:"writer,omitempty"`          // The process that wrote the row.
	InvocationID   string `json:"invocation_id,omitempty"`   // The call that wrote the row.
	IdempotencyKey string `json:"idempotency_key,omitempty"` // The idempotency key of that call.
	// For an abort or conflict: the commit concerned.
	Ref    uint64 `json:"ref,omitempty"`
	Reason string `json:"reason,omitempty"` // For a refusal, abort, conflict or note: the reason.
	// Justification for writing content that the gate would have refused.
	AcceptRisk string `json:"accept_risk,omitempty"`
}

// JournalTail returns the newest rows, oldest first, one per file. It reads
// from the end, so its cost depends only on the rows requested. Only rows that
// are known to be on stable storage are returned. Lines that cannot be read are
// counted and skipped. Errors: the common ones.
func (s *Store) JournalTail(ctx context.Context, r JournalTailRequest) (JournalTailResult, error) {
	return looking(ctx, s, "journal_tail", func() (JournalTailResult, error) { return s.tail(r) })
}

func (s *Store) tail(r JournalTailRequest) (JournalTailResult, error) {
	out := JournalTailResult{Entries: []JournalEntry{}}
	n := cmp.Or(r.N, 20)
	if n < 0 || n > maxTail {
		return out, fault.New(fault.InvalidArgument).Hintf("n must be 1 to %d", maxTail).With("argument", "n")
	}
	if s.engine.Log == nil {
		return out, nil
	}
	want := feed.Filter{Path: r.FilterPath, Mode: r.FilterMode, Caller: r.FilterCaller, Refused: r.IncludeRefused, Observed: r.IncludeObserved}
	recs, malformed, err := s.engine.Log.Tail(n, want.Keep(), 0)
	if err != nil {
		return out, err
	}
	for _, rec := range recs {
		out.Entries = appendEntries(out.Entries, rec, want)
	}
	if extra := len(out.Entries) - n; extra > 0 {
		out.Entries = out.Entries[extra:]
	}
	out.Malformed = malformed
	return out, nil
}

const (
	maxTail  = 1000
	maxSince = 10_000
)

// appendEntries adds the mutations of a record that a reader wants.
func appendEntries(list []JournalEntry, rec *journal.Record, want feed.Filter) []JournalEntry {
	if n := rec.Note; n != nil && n.What == engine.NoteForeign { // a version without a mutation
		named := *rec
		named.Muts = []journal.Mutation{{Path: n.Path, SHA256: n.SHA256, Bytes: n.Bytes}}
		rec = &named
	}
	for _, i := range want.Select(rec) {
		list = append(list, entryOf(rec, i))
	}
	return list
}

// entryOf returns one mutation of a record in the form for readers.
func entryOf(rec *journal.Record, i int) JournalEntry {
	m := &rec.Muts[i]
	e := JournalEntry{
		JournalID: engine.JournalID(rec.Seq, i), Seq: rec.Seq, TS: timestamp(rec.TS), Kind: rec.Kind,
		Path: m.Path, RealPath: m.Real, SHA256: digest(m.SHA256), Bytes: m.Bytes, Mode: m.Op, Op: m.Op,
		Caller: rec.Caller, PrevSHA256: digest(m.PrevSHA256), Rev: m.Rev, Session: rec.Session, Via: viaOf(rec.Via), Tx: rec.Tx,
		Writer: rec.Writer, InvocationID: rec.Invocation, IdempotencyKey: rec.Key, Ref: rec.Ref, Reason: rec.Reason,
		AcceptRisk: rec.AcceptRisk,
	}
	if m.JournalID != "" {
		e.JournalID = m.JournalID
	}
	return e
}

// JournalSince returns the rows after a cursor, oldest first, never part of a
// commit. With an agent the cursor is kept in the state directory: passing
// after_seq acknowledges everything up to it, and a reply alone does not move the
// cursor. Rows of the agent itself are omitted: those that name it as caller and,
// if an adapter knows them ([WithVia]), came from the client, thread and
// connection of this call. Gap is set when the cursor is outside the journal:
// ahead of it, or at rows that [admin.Operator.Compact] moved to the archive, which
// [Store.JournalTail] and [Store.History] still read. Errors:
// [ErrInvalidArgument], the storage details, [ErrStoreClosed]; [ErrStoreReadOnly] and
// [ErrBadPolicy] when a cursor would have to be stored.
func (s *Store) JournalSince(ctx context.Context, r JournalSinceRequest) (JournalSinceResult, error) {
	return looking(ctx, s, "journal_since", func() (JournalSinceResult, error) {
		out := JournalSinceResult{Entries: []JournalEntry{}}
		err := s.since(ctx, r, &out)
		return out, err
	})
}

// JournalRows iterates over the rows that [Store.JournalSince] returns in pages,
// until the newest one. It begins after r.AfterSeq, nil is the cursor of r.Agent;
// when it continues with a page, it acknowledges the one before. Rows of a gap
// are left out. An error is the last pair; the errors are those of JournalSince.
func (s *Store) JournalRows(
	ctx context.Context, r JournalSinceRequest,
) iter.Seq2[JournalEntry, error] {
	return func(yield func(JournalEntry, error) bool) {
		for r := r; ; {
			page, err := s.JournalSince(ctx, r)
			if err != nil {
				yield(JournalEntry{}, err)
				return
			}
			for _, e := range page.Entries {
				if !yield(e, nil) {
					return
				}
			}
			if r.AfterSeq != nil && page.NextSeq <= *r.AfterSeq {
				return
			}
			r.AfterSeq = &page.NextSeq
		}
	}
}

func (s *Store) since(ctx context.Context, r JournalSinceRequest, out *JournalSinceResult) error {
	limit := cmp.Or(r.Limit, 100)
	switch {
	case limit < 0 || limit > maxSince:
		return fault.New(fault.InvalidArgument).Hintf("limit must be 1 to %d", maxSince).With("argument", "limit")
	case r.AfterSeq == nil && r.Agent == "":
		return fault.New(fault.InvalidArgument).Hintf("pass after_seq, or pass agent to use its stored cursor").With("argument", "after_seq")
	case len(r.Agent) > maxLabel:
		return fault.New(fault.InvalidArgument).Hintf("agent must be at most %d bytes", maxLabel).With("argument", "agent")
	}
	if family, pattern, found := s.gate.SecretIn("agent", r.Agent); found && s.gateFor(ctx).Mode == GateBlock { // its cursor is stored under it
		return gate.SecretInName("agent", family, pattern)
	}
	after, err := s.cursor(r)
	if err != nil {
		return err
	}
	page, err := feed.Since(s.engine, after, limit)
	if err != nil {
		return err
	}
	out.NextSeq, out.Gap, out.Reason, out.Malformed = page.Next, page.Gap != "", page.Gap, page.Malformed
	if page.Oldest > 0 {
		out.Archived = &ArchivedRows{From: after + 1, To: page.Oldest - 1, Rows: page.Oldest - 1 - after}
	}
	want := feed.Filter{All: true, Refused: r.IncludeRefused, Observed: r.IncludeObserved}
	if r.Agent != "" {
		want.Without = changes.Itself(s.via(ctx), r.Agent)
	}
	for _, rec := range page.Recs {
		out.Entries = appendEntries(out.Entries, rec, want)
	}
	return nil
}

// cursor returns the position of the reader and stores what it acknowledges.
func (s *Store) cursor(r JournalSinceRequest) (uint64, error) {
	if r.Agent == "" {
		return *r.AfterSeq, nil
	}
	if r.AfterSeq == nil {
		return feed.Cursor(s.engine, r.Agent)
	}
	if s.opts.ReadOnly {
		return 0, fault.New(fault.StoreReadOnly).Hintf("a read-only store keeps no cursors; omit agent")
	}
	if err := s.gate.Holds(); err != nil {
		return 0, err
	}
	return *r.AfterSeq, feed.SetCursor(s.engine, r.Agent, *r.AfterSeq)
}

// OperationRequest asks what became of a call.
type OperationRequest struct {
	// Idempotency key of the call. Give this or invocation_id.
	IdempotencyKey string `json:"idempotency_key,omitempty" maxlen:"200"`
	// invocation_id from the receipt of the call.
	InvocationID string `json:"invocation_id,omitempty" maxlen:"200"`
}

// OperationResult reports the outcome of a call.
type OperationResult struct {
	Happened bool `json:"happened"` // True when the call was committed.
	Refused  bool `json:"refused"`  // True when the call was refused; entries give the reason.
	// Its journal rows, one per file.
	Entries []JournalEntry `json:"entries"`
}

// Operation reports to a caller who lost a reply whether its call happened: by
// the idempotency key, or by the invocation id of its receipt. Keys are known for
// at least 24 hours, and longer while fewer than 100,000 rows follow theirs; an
// invocation is searched for in the newest 100,000 rows.
//
// Only a call that was committed binds its key. A call that was refused, was a
// dry run, was undone, or ended as unchanged, because the disk already had the
// requested state, leaves the key free: the key is then not known here, the same
// call runs again, and another request may use it.
//
// Errors: the common ones, [ErrInvalidArgument] for both or neither.
func (s *Store) Operation(ctx context.Context, r OperationRequest) (OperationResult, error) {
	return reading(ctx, s, "operation", "", r, func() (OperationResult, error) {
		out := OperationResult{Entries: []JournalEntry{}}
		if (r.IdempotencyKey == "") == (r.InvocationID == "") {
			return out, fault.New(fault.InvalidArgument).With("argument", "idempotency_key").Hintf("give either idempotency_key or invocation_id")
		}
		rec, err := feed.Operation(s.engine, r.IdempotencyKey, r.InvocationID)
		if err != nil || rec == nil {
			return out, err
		}
		out.Happened, out.Refused = rec.Kind == journal.KindCommit, rec.Kind == journal.KindRefused
		for i := range rec.Muts {
			out.Entries = append(out.Entries, entryOf(rec, i))
		}
		return out, nil
	})
}
