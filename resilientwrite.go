// Package resilientwrite is a write surface for coding agents: files are
// written so that a crash, a race or a lost reply never costs a byte, and
// every failure says what happened to the disk and what to do next.
//
//	store, err := resilientwrite.Open(ctx, "workspace", nil)
//	if err != nil {
//		return err
//	}
//	defer store.Close(ctx)
//
//	first, err := store.SafeWrite(ctx, resilientwrite.SafeWriteRequest{
//		Path: "docs/plan.md", Content: []byte("# Plan\n"),
//	})
//	if err != nil {
//		return err // an *Error: kind, reason, suggested action, effect
//	}
//	_, err = store.SafeWrite(ctx, resilientwrite.SafeWriteRequest{
//		Path: "docs/plan.md", Content: []byte("# Plan B\n"), Mode: resilientwrite.ModeOverwrite,
//		Expect: resilientwrite.Exactly(first.SHA256), // refuse if another program changed it meanwhile
//	})
//
// # Where to begin
//
// [Open] and [Options], then [Store.SafeWrite], whose comment says what every
// write promises, then [Error]. The rest is in layers:
//
//   - Writing: [Store.SafeWrite] and [Store.SafeWriteFrom], [Store.Edit],
//     [Store.Delete], [Store.Move]; [Store.Tx] for several files at once.
//   - Looking and going back: [Store.Read], [Store.History], [Store.Diff],
//     [Store.Restore], [Store.Undo]; [Store.Operation] reports whether a call
//     happened whose reply was lost.
//   - The gate, which looks for secrets in what is written: [Store.RiskScore],
//     [Store.Redact], [Gate], [Policy]; [Store.DraftGet] for what it refused.
//   - Large files, piece by piece and over restarts: [Store.ChunkAppend],
//     [Store.ChunkStatus], [Store.ChunkCompose].
//   - Raw material outside the workspace: [Store.ScratchPut],
//     [Store.ScratchGet].
//   - The state of a task, and handing it over: [Store.Checkpoint],
//     [Store.HandoffWrite], [Store.HandoffRead].
//   - Seeing what went on: [Store.JournalTail], [Store.JournalSince],
//     [Store.Watch], [Store.Analytics], [Store.Check].
//   - Running a command so that all its changes are one commit: [Store.Exec].
//   - Rules of the host: package hook, with hooks that are ready.
//   - For operators: [Store.Admin], with what package admin describes.
//
// Each call takes a request and returns a result. An empty field has the
// default that its tag names. The JSON Schemas of the tools are made from the
// same structs and their comments; packages toolbox and mcpserver offer the
// methods to a language model.
//
// # Durability
//
// At [SyncFull], the default, a call that returns nil has its bytes, their
// name, every directory it made and its journal row on stable storage.
// [SyncJournal] returns as soon as the row and the bytes are; the next Open
// finishes the rename. [SyncOff] survives the death of the process only. A
// reader sees the old file or the new one, whole; only bytes that are appended
// to an existing file may be seen in part while they are being written.
//
// # Layout on disk
//
// Everything is in one directory, mode 0700, which [Options.StateDir] names or
// docs/state.md finds: journal/ (what was written, by whom; JSON
// lines, the source of truth), archive/ (segments of it that Compact parked),
// staging/ (commits in progress), history/ (earlier versions, by hash), chunks/,
// scratch/, checkpoints/, handoffs/, tx/ (what belongs to no file of the
// workspace yet), quarantine/ (refused drafts and what was found damaged),
// policy.yaml (the owner's rules), budgets.json, index/ and meta.json (caches),
// locks/.
//
// # Errors
//
// Every error of a method is an [*Error]. errors.Is works against the kinds
// ([ErrStalePrecondition], [ErrPolicyViolation] …) and the details ([ErrHashMismatch],
// [ErrEscapesWorkspace] …). [Error.Effect] says whether the disk was changed.
//
// The comment of each method lists the details that it returns. The path details
// are those from [ErrEmptyPath] to [ErrSymlinkLoop]; the storage details are those
// of the file system and of the store's own files, from [ErrDiskFull] to
// [ErrJournalDamaged]. What to do about each is in docs/errors.md and in
// [Error.Hint].
//
// The common ones, which every call can return, are the storage details,
// [ErrInvalidArgument], [ErrBadStateDir], [ErrStoreClosed], [ErrCanceled],
// [ErrRetryExhausted] when it failed the same way too often, and [ErrInternal] for
// a mistake of this package. Those of every write are, in addition,
// [ErrIdempotencyKeyReused], [ErrSecretInName], [ErrDenied], [ErrLockTimeout],
// [ErrIOBusy], [ErrPathClaimed], [ErrBadPolicy], [ErrStorePoisoned] and
// [ErrStoreReadOnly]. After an error nothing has changed on disk, unless the effect
// says otherwise; a method whose comment mentions no change never changes
// anything.
//
// # Concurrency
//
// A [Store] is safe for concurrent use by goroutines, and any number of
// processes on one machine may open the same workspace. Writers of one path
// wait for each other, writers of different paths do not. Network file systems
// are opened with a warning: neither their locks nor their flushes can be
// trusted.
//
// # Compatibility
//
// Tool names, arguments, reply fields, limits and the state directory are a
// superset of those of the Python implementation resilient-write, whose
// workspaces open. A state directory of a newer format is refused.
package resilientwrite

import (
	"context"

	"github.com/resilientwrite/resilientwrite/internal/changes"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/feed"
	"github.com/resilientwrite/resilientwrite/internal/gate"
	"github.com/resilientwrite/resilientwrite/internal/history"
	"github.com/resilientwrite/resilientwrite/internal/hooks"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
	"github.com/resilientwrite/resilientwrite/internal/layer/checkpoint"
	"github.com/resilientwrite/resilientwrite/internal/layer/chunks"
	"github.com/resilientwrite/resilientwrite/internal/layer/drafts"
	handoffs "github.com/resilientwrite/resilientwrite/internal/layer/handoff"
	"github.com/resilientwrite/resilientwrite/internal/layer/lease"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
	"github.com/resilientwrite/resilientwrite/internal/layer/scratch"
	"github.com/resilientwrite/resilientwrite/internal/place"
	"github.com/resilientwrite/resilientwrite/internal/watch"
)

// Version is the version of the library and of the command.
const Version = "0.1.0-dev"

// FormatVersion is the version of the state directory.
const FormatVersion = engine.FormatVersion

// Store is the write surface of one workspace. Its methods may be called by
// any number of goroutines, and any number of processes on one machine may
// open the same workspace. Make one with [Open].
type Store struct {
	engine *engine.Engine
	opts   Options

	versions    *history.Layer
	scratch     *scratch.Layer
	chunks      *chunks.Layer
	checkpoints *checkpoint.Layer
	handoffs    *handoffs.Layer
	drafts      *drafts.Layer
	observed    *observe.Layer
	leases      *lease.Layer
	gate        *gate.Layer
	hooks       *hooks.Layer
	budgets     *budget.Layer
	watchers    watch.List[Receipt]
	workspace   *place.Workspace // nil where the caller says where the state is
	placed      place.Place
}

// Sync returns when everything that calls have done so far is at the level
// [SyncFull]. At that level nothing is left to flush; at [SyncOff] nothing is flushed.
// Versions that another program had open and has closed since go into history.
// When ctx ends first, this is completed in the background. Errors: the storage
// details, [ErrStorePoisoned], [ErrStoreClosed], [ErrCanceled]; after an error, what
// was acknowledged keeps its previous level.
func (s *Store) Sync(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		err = s.engine.EnterReader()
	}
	if err != nil {
		return s.verbError("sync", err)
	}
	if s.engine.Settler == nil {
		s.engine.Leave()
		return nil
	}
	done := make(chan error, 1)
	go func() {
		defer s.engine.Leave()
		err := s.engine.Drain()
		if err == nil {
			s.engine.LookAgain(-1)
		}
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return s.verbError("sync", err)
	}
	return nil
}

// reading runs f as a call of a verb that changes nothing in the workspace.
func reading[T any](ctx context.Context, s *Store, op, path string, req any, f func() (T, error)) (out T, err error) {
	var none T
	a, e := s.budgets.Begin(ctx, op, path, req)
	if e != nil {
		return none, errorFrom(e)
	}
	left := false
	defer func() { // also when a validator of the host panics
		if !left {
			s.engine.Leave()
		}
	}()
	if out, err = f(); err != nil {
		left = true // by Fail
		return none, errorFrom(a.Fail(err))
	}
	return out, nil
}

// looking runs f as a call that changes nothing and counts no failures.
func looking[T any](ctx context.Context, s *Store, op string, f func() (T, error)) (T, error) {
	return uncounted(ctx, s, op, s.engine.EnterReader, f)
}

// changing runs f as a call that changes only the state directory and counts no failures.
func changing[T any](ctx context.Context, s *Store, op string, f func() (T, error)) (T, error) {
	return uncounted(ctx, s, op, s.engine.Enter, f)
}

func uncounted[T any](ctx context.Context, s *Store, op string, enter func() error, f func() (T, error)) (out T, err error) {
	if err = ctx.Err(); err == nil {
		err = enter()
	}
	if err != nil {
		return out, s.verbError(op, err)
	}
	defer s.engine.Leave() // f may end the goroutine
	if out, err = f(); err != nil {
		return out, s.verbError(op, err)
	}
	return out, nil
}

// verbError returns the error of a call that does not go through commit.
func (s *Store) verbError(op string, err error) *Error { return errorFrom(s.engine.VerbFault(op, err)) }

// via returns what is recorded about the origin of the call; nil if no adapter
// was used.
func (s *Store) via(ctx context.Context) *journal.Via {
	via, ok := ctx.Value(viaKey{}).(Via)
	if !ok {
		return nil
	}
	return s.gate.Via(journal.Via(via))
}

// changes returns the reader of what was changed.
func (s *Store) changes() *changes.Layer {
	return &changes.Layer{Engine: s.engine, Versions: s.versions, Observed: s.observed}
}

// keyKnown reports whether an idempotency key was used; see [feed.KeyKnown].
func (s *Store) keyKnown(key string) bool { return feed.KeyKnown(s.engine, key) }

func (s *Store) headSeq() uint64 {
	if s.engine.Log == nil {
		return 0
	}
	return s.engine.Log.Head()
}
