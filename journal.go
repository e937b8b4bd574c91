package resilientwrite

import (
	"context"
	"encoding/json"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/gate"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// JournalTailRequest asks for the newest rows.
type JournalTailRequest struct {
	// Maximum number of rows.
	N int `json:"n,omitempty" min:"1" max:"1000" default:"20"`
	// Only rows of this path.
	FilterPath string `json:"filter_path,omitempty"`
	// Only rows of this operation.
	FilterMode string `json:"filter_mode,omitempty" enum:"@modes"`
	// Only rows of this caller.
	FilterCaller string `json:"filter_caller,omitempty"`
	// Also return refused writes.
	IncludeRefused bool `json:"include_refused,omitempty"`
	// IncludeObserved also returns changes that other programs made, as rows of
	// kind observed. No tool has it.
	IncludeObserved bool `json:"-"`
}

// JournalTailResult holds rows, oldest first.
type JournalTailResult struct {
	// The rows, oldest first.
	Entries []JournalEntry `json:"entries"`
	// Unreadable lines that were skipped.
	Malformed int `json:"malformed"`
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
	Agent string `json:"agent,omitempty" maxlen:"200"`
	// Also return refused writes.
	IncludeRefused bool `json:"include_refused,omitempty"`
	// IncludeObserved also returns changes that other programs made, as rows of
	// kind observed. No tool has it.
	IncludeObserved bool `json:"-"`
}

// JournalSinceResult holds the rows after a cursor, oldest first.
type JournalSinceResult struct {
	// The rows, oldest first.
	Entries []JournalEntry `json:"entries"`
	// Pass it as after_seq next time.
	NextSeq uint64 `json:"next_seq"`
	// True when rows between the cursor and the first entry are not available.
	Gap bool `json:"gap"`
	// Why there is a gap.
	Reason string `json:"reason,omitempty" enum:"archived,cursor_ahead"`
	// The archived rows after the cursor; only with reason archived.
	Archived *ArchivedRows `json:"archived,omitempty"`
	// Unreadable lines that were skipped.
	Malformed int `json:"malformed"`
}

// ArchivedRows are rows that a cursor no longer reaches.
type ArchivedRows struct {
	// The first of them.
	From uint64 `json:"from"`
	// The last row.
	To uint64 `json:"to"`
	// Number of them.
	Rows uint64 `json:"rows"`
}

// JournalEntry is one mutation of one path.
type JournalEntry struct {
	// Identifier of the row.
	JournalID string `json:"journal_id"`
	// Position in the journal. Rows are ordered by it alone.
	Seq uint64 `json:"seq"`
	// When, RFC 3339 UTC; informational.
	TS string `json:"ts"`
	// Kind of the row.
	Kind string `json:"kind" enum:"commit,abort,conflict,refused,note,checkpoint"`
	// Path relative to the workspace.
	Path string `json:"path"`
	// Resolved path of a symbolic link.
	RealPath string `json:"real_path,omitempty"`
	// SHA-256 of the file afterwards; empty when it no longer exists.
	SHA256 Digest `json:"sha256"`
	// Size of the file afterwards in bytes.
	Bytes int64 `json:"bytes"`
	// The operation: create, overwrite, append …
	Mode string `json:"mode"`
	// Who wrote it.
	Caller string `json:"caller"`
	// SHA-256 of the file before.
	PrevSHA256 Digest `json:"prev_sha256,omitzero"`
	// Number of versions of the path so far.
	Rev uint64 `json:"rev,omitempty"`
	// Name of the working session.
	Session string `json:"session,omitempty"`
	// What the server knows of the call, independent of caller and session.
	Via *Via `json:"via,omitempty"`
	// The transaction the row belongs to.
	Tx string `json:"tx,omitempty"`
	// The operation, as in mode.
	Op string `json:"op"`
	// The process that wrote the row.
	Writer string `json:"writer,omitempty"`
	// The call that wrote the row.
	InvocationID string `json:"invocation_id,omitempty"`
	// The idempotency key of that call.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	// For an abort or conflict: the commit concerned.
	Ref uint64 `json:"ref,omitempty"`
	// For a refusal, abort, conflict or note: the reason.
	Reason string `json:"reason,omitempty"`
	// Justification for writing content that the gate would have refused.
	AcceptRisk string `json:"accept_risk,omitempty"`
}

// JournalTail returns the newest rows, oldest first, one per file. It reads from
// the end, so its cost depends only on the rows requested. Only rows that are
// known to be on stable storage are returned. Lines that cannot be read are
// counted and skipped. Errors: [ErrInvalidArgument], the storage details,
// [ErrStoreClosed].
func (s *Store) JournalTail(ctx context.Context, r JournalTailRequest) (JournalTailResult, error) {
	out := JournalTailResult{Entries: []JournalEntry{}}
	if err := s.engine.EnterReader(); err != nil {
		return out, s.verbError("journal_tail", err)
	}
	defer s.engine.Leave()
	n := r.N
	switch {
	case n == 0:
		n = 20
	case n < 0 || n > maxTail:
		return out, s.verbError("journal_tail", fault.New(fault.InvalidArgument).Hintf("n must be 1 to %d", maxTail).With("argument", "n"))
	}
	if s.engine.Log == nil {
		return out, nil
	}
	want := rowFilter{path: r.FilterPath, mode: r.FilterMode, caller: r.FilterCaller, refused: r.IncludeRefused, observed: r.IncludeObserved}
	recs, malformed, err := s.engine.Log.Tail(n, want.keep(), 0)
	if err != nil {
		return out, s.verbError("journal_tail", err)
	}
	for _, rec := range recs {
		out.Entries = append(out.Entries, want.entries(rec)...)
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

// rowFilter selects the rows that a reader wants.
type rowFilter struct {
	path, mode, caller string
	without            func(*journal.Record) bool // records that are left out; nil: none
	refused, observed  bool
	all                bool // also aborts, conflicts and notes
}

// keep filters whole records. The reader starts at the end, so it reads an abort
// before the commit that was rolled back.
func (f rowFilter) keep() func(*journal.Record) bool {
	aborted := map[uint64]bool{}
	return func(rec *journal.Record) bool {
		if rec.Kind == journal.KindAbort {
			aborted[rec.Ref] = true
		}
		if rec.Kind == journal.KindCommit && aborted[rec.Seq] && !f.all {
			return false
		}
		return len(f.entries(rec)) > 0
	}
}

// entries returns the rows of a record that the filter selects.
func (f rowFilter) entries(rec *journal.Record) []JournalEntry {
	switch rec.Kind {
	case journal.KindCommit, journal.KindConflict:
	case journal.KindRefused:
		if !f.refused {
			return nil
		}
	case journal.KindObserved:
		if !f.observed {
			return nil
		}
	default:
		if !f.all {
			return nil
		}
	}
	if f.caller != "" && rec.Caller != f.caller || f.without != nil && f.without(rec) {
		return nil
	}
	var list []JournalEntry
	for i := range rec.Muts {
		m := &rec.Muts[i]
		if f.path != "" && m.Path != f.path && m.Real != f.path || f.mode != "" && m.Op != f.mode {
			continue
		}
		list = append(list, entryOf(rec, i))
	}
	return list
}

// entryOf returns one mutation of a record in the form for readers.
func entryOf(rec *journal.Record, i int) JournalEntry {
	m := &rec.Muts[i]
	e := JournalEntry{
		JournalID: engine.JournalID(rec.Seq, i), Seq: rec.Seq, TS: rec.TS, Kind: rec.Kind,
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
// ahead of it, or at rows that [Admin.Compact] moved to the archive, which
// [Store.JournalTail] and [Store.History] still read. Errors:
// [ErrInvalidArgument], the storage details, [ErrStoreClosed]; [ErrStoreReadOnly] and
// [ErrBadPolicy] when a cursor would have to be stored.
func (s *Store) JournalSince(ctx context.Context, r JournalSinceRequest) (JournalSinceResult, error) {
	out := JournalSinceResult{Entries: []JournalEntry{}}
	if err := s.engine.EnterReader(); err != nil {
		return out, s.verbError("journal_since", err)
	}
	defer s.engine.Leave()
	if err := s.since(ctx, r, &out); err != nil {
		return JournalSinceResult{Entries: []JournalEntry{}}, s.verbError("journal_since", err)
	}
	return out, nil
}

func (s *Store) since(ctx context.Context, r JournalSinceRequest, out *JournalSinceResult) error {
	limit := r.Limit
	if limit == 0 {
		limit = 100
	}
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
	out.NextSeq = after
	if s.engine.Log == nil {
		out.Gap = after > 0
		if out.Gap {
			out.Reason = "cursor_ahead"
		}
		return nil
	}
	want := rowFilter{all: true, refused: r.IncludeRefused, observed: r.IncludeObserved}
	if r.Agent != "" {
		want.without = s.wroteItself(ctx, r.Agent)
	}
	recs, next, gap, malformed, err := s.engine.Log.Since(after, limit, nil)
	if err != nil {
		return err
	}
	out.NextSeq, out.Gap, out.Malformed = next, gap, malformed
	if gap {
		out.Reason = "archived"
		if after > next {
			out.Reason = "cursor_ahead"
		}
	}
	if out.Reason == "archived" {
		if oldest, err := s.engine.Log.Oldest(); err == nil && oldest > after+1 {
			out.Archived = &ArchivedRows{From: after + 1, To: oldest - 1, Rows: oldest - 1 - after}
		}
	}
	for _, rec := range recs {
		out.Entries = append(out.Entries, want.entries(rec)...)
	}
	return nil
}

// cursorFile is the durable cursor of one agent.
type cursorFile struct {
	Agent string `json:"agent"`
	Seq   uint64 `json:"seq"`
}

// cursor returns the position of the reader and stores what it acknowledges.
func (s *Store) cursor(r JournalSinceRequest) (uint64, error) {
	if r.Agent == "" {
		return *r.AfterSeq, nil
	}
	name := engine.HashOf([]byte(r.Agent))[:32] + ".json"
	if r.AfterSeq == nil {
		return s.loadCursor(name, r.Agent)
	}
	if s.opts.ReadOnly {
		return 0, fault.New(fault.StoreReadOnly).Hintf("a read-only store keeps no cursors; omit agent")
	}
	if err := s.gate.Holds(); err != nil {
		return 0, err
	}
	dir, err := durable.Mkdir(s.engine.Disk.State, "cursors", 0o700)
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	data, err := json.Marshal(cursorFile{Agent: r.Agent, Seq: *r.AfterSeq})
	if err != nil {
		return 0, err
	}
	unlock, err := s.engine.Locks.Names(context.Background(), s.opts.LockTimeout, "journal_since", "cursor\x00"+name)
	if err != nil {
		return 0, err
	}
	defer unlock()
	return *r.AfterSeq, durable.WriteFile(dir, name, append(data, '\n'), 0o600)
}

// loadCursor reads a cursor. One that cannot be read starts again at 0, which
// repeats rows but loses none.
func (s *Store) loadCursor(name, agent string) (uint64, error) {
	if s.engine.Disk.State == nil {
		return 0, nil
	}
	dir, err := s.engine.Disk.State.OpenDir("cursors")
	if engine.IsAbsent(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	return readCursor(dir, name, agent)
}

func readCursor(dir fsx.Dir, name, agent string) (uint64, error) {
	data, err := durable.ReadFile(dir, name, engine.MetaLimit)
	if engine.IsAbsent(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var c cursorFile
	if json.Unmarshal(data, &c) != nil || c.Agent != agent {
		return 0, nil
	}
	return c.Seq, nil
}
