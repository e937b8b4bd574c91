// Package hook defines the rules of a host: the interfaces that a store calls, and
// rules that are ready, such as [PathRules] and [CommandOracle].
package hook

import (
	"context"
	"io"
	"slices"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/engine"
)

// Hooks are the host's own rules, called in the order of each list. A value with
// several roles, such as a [TaskBudget], appears in several lists. A store with
// a nil entry cannot be opened. A hook must not call the Store.
//
// ResetTask of the store calls the method ResetTask() of each hook that has one.
type Hooks struct {
	Authorize []Authorizer  // may a call happen
	Transform []Transformer // what a call writes
	Verify    []Verifier    // the staged files, before the commit
	Observe   []Observer    // the end of every call
}

// Call is a mutating call as hooks see it.
type Call struct {
	Verb         string // safe_write, edit, tx …
	Caller       string
	Session      string
	InvocationID string
	DryRun       bool
	Changes      []Change

	// Request is the same when the same call is sent again: a hash of
	// everything that was asked for, the content too.
	Request  string
	Complete bool // Complete is set for a handoff that says that the task is done.
}

// Change is what an operation does to one file of the workspace. Changes of
// objects in the state directory, such as chunks, are not included.
type Change struct {
	Op       string // create, overwrite, append, edit, delete, move
	Path     string // as it was asked for, relative to the workspace
	RealPath string // after symbolic links are resolved
	From     string // of a move
	RealFrom string // after symbolic links are resolved
	Exists   bool   // something is there now; observers also learn what was there before

	// What verifiers and observers know besides.
	SHA256     string // of the whole final file; empty when it is gone
	PrevSHA256 string // of what was there
	Bytes      int64  // that are written: the whole file, of an append what is added
}

// Destructive reports whether the operation removes or replaces content. An edit
// may replace the whole file, so edits are destructive too.
func (c Call) Destructive() bool { return slices.ContainsFunc(c.Changes, Change.destructive) }

// destructive reports whether the change removes or replaces content.
func (c Change) destructive() bool {
	switch engine.WriteOp(c.Op) {
	case engine.OpDelete, engine.OpMove, engine.OpEdit:
		return true
	}
	return engine.WriteOp(c.Op) == engine.OpOverwrite && c.Exists
}

// Decision is the answer of an authorizer. The zero value denies.
type Decision struct {
	Verdict Verdict
	// Reason is returned to the caller, or is the question to the user. It should
	// say what to do instead.
	Reason string
	// Rule names the rule of a refusal, for programs: context.rule of the error.
	Rule string
	// Path is [Change.Path] of the file that a refusal is about, so that the caller
	// of a transaction can identify the operation.
	Path string
}

// Verdict says whether a call may happen.
type Verdict int

const (
	Denied  Verdict = iota
	Allowed         // other authorizers may still refuse it
	Asks            // the user decides; without a channel to the user it is refused. The user is not asked about a dry run.
)

// Allow returns a decision that lets an operation pass.
func Allow() Decision { return Decision{Verdict: Allowed} }

// Deny returns a decision that refuses an operation.
func Deny(reason string) Decision { return Decision{Reason: reason} }

// AskUser returns a decision that lets the user decide.
func AskUser(reason string) Decision { return Decision{Verdict: Asks, Reason: reason} }

// Authorizer decides whether an operation may happen, before anything is locked.
// The first refusal counts, but every authorizer is called for every operation.
// An error or a panic refuses. If a path leads somewhere else once it is locked,
// or a file exists that did not, the authorizers are called again with the same
// invocation id.
type Authorizer interface {
	Authorize(ctx context.Context, op Call) (Decision, error)
}

// Withdrawer is an authorizer that holds something for a call until the call
// ends. It is called when that call will not be continued, because a user must be
// asked first (see [AskFunc]). The repeated call is a new one.
type Withdrawer interface {
	Withdraw(ctx context.Context, op Call)
}

// Observer is called for every operation that ended, successfully or not,
// including dry runs, but not for one that waits for a user. A panic in it is
// contained.
type Observer interface {
	Observe(ctx context.Context, op Call, r call.Receipt, err error)
}

// Transformer may change the content of a write before it is combined with the
// existing file, for formatting or redaction. Several are chained. It returns a
// reader of the whole content, even if it changes nothing. The hash that the
// caller promises and the identity of the request are those of the content that
// was sent. Edits, restorations and moves are not transformed. An error or a
// panic, also while the reader is read, refuses the write.
type Transformer interface {
	Transform(ctx context.Context, op Call, path string, content io.Reader) (io.Reader, error)
}

// Verifier inspects the staged files before the commit point: a compiler, a
// linter, a test. An error or a panic refuses the whole commit, and nothing has
// happened. It runs while the paths are locked, for at most
// VerifyTimeout of the options. One that does not stop soon after its context ended is
// abandoned, and the commit is refused; the verifier must then tolerate that
// staged files are gone. It only reads: a staged file that it changes makes the
// commit fail with the detail read_back_mismatch. A [FileError] reports which of several
// files it is about.
type Verifier interface {
	Verify(ctx context.Context, c Staged) error
}

// Staged is the commit as passed to a verifier.
type Staged struct {
	Call
	Root  string // the workspace, absolute
	Files []File // in order
}

// File is one file before it is published.
type File struct {
	Path   string // relative to the workspace
	Staged string // where its bytes are now, absolute; "" for one that is removed
	// Append is set for an append to a file of 1 MiB or more: Staged then holds
	// only what is added.
	Append bool
}

// FileError is the error of a [Verifier] about one file of a commit.
type FileError struct {
	Path string // as [File] has it
	Err  error
}

// Error returns what is wrong with the file.
func (e *FileError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong with the file.
func (e *FileError) Unwrap() error { return e.Err }

// AskFunc puts a question to the user and returns the answer. An error refuses
// the operation.
//
// A function that cannot wait for the user returns ErrInputRequired as its
// error. The call then ends with that detail and leaves no trace: no row, no
// receipt, no count, no draft, and no observer is called. After the user has
// answered, the caller sends the same call again, and the function returns the
// answer; equal values of [Call.Request] identify the same call.
//
// Several authorizers may each have a question. All questions are put, unless the
// user answers no to one. The function is called before anything is locked.
type AskFunc func(ctx context.Context, op Call, question string) (Answer, error)

// Answer is what a user says to a question.
type Answer struct {
	Allow bool

	// Always lets the same pass from now on, as long as the store is open: the
	// same question about the same verb and paths. What was allowed while it
	// destroyed nothing does not cover what does.
	Always bool
	// Pattern makes Always hold for more files: whatever this authorizer asks
	// about the same verb, where the same is done to files that the glob
	// matches. It never covers what is destructive, and has no effect when it
	// does not match the files that were asked about.
	Pattern string
}
