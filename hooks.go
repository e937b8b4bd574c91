package resilientwrite

import (
	"context"
	"io"
	"reflect"
	"slices"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// Hooks are the host's own rules, called in the order of each list. A value with
// several roles, such as a [TaskBudget], appears in several lists. [Open] refuses
// a nil entry. A hook must not call the Store.
//
// [Store.ResetTask] calls the method ResetTask() of each hook that has one.
type Hooks struct {
	Authorize []Authorizer  // may a call happen
	Transform []Transformer // what a call writes
	Verify    []Verifier    // the staged files, before the commit
	Observe   []Observer    // the end of every call
}

// HookCall is a mutating call as hooks see it.
type HookCall struct {
	Verb         string // safe_write, edit, tx …
	Caller       string
	Session      string
	InvocationID string
	DryRun       bool
	Changes      []Change

	// Request is the same when the same call is sent again: a hash of
	// everything that was asked for, the content too.
	Request string
	// Complete is set for a handoff that says that the task is done.
	Complete bool
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
func (o HookCall) Destructive() bool {
	for _, c := range o.Changes {
		switch engine.WriteOp(c.Op) {
		case engine.OpDelete, engine.OpMove, engine.OpEdit:
			return true
		case engine.OpOverwrite:
			if c.Exists {
				return true
			}
		}
	}
	return false
}

// Decision is the answer of an authorizer. The zero value denies.
type Decision struct {
	verdict int
	reason  string
	rule    string
	path    string
}

const (
	verdictDeny = iota
	verdictAllow
	verdictAsk
)

// Allow returns a decision that lets an operation pass; other authorizers may
// still refuse it.
func Allow() Decision { return Decision{verdict: verdictAllow} }

// Deny refuses an operation. The reason is returned to the caller; it should say
// what to do instead.
func Deny(reason string) Decision { return Decision{verdict: verdictDeny, reason: reason} }

// AskUser lets the user decide, by [Options.Ask] or [WithAsk], and refuses if
// neither is set. The reason is the question. The user is not asked about a dry
// run.
func AskUser(reason string) Decision { return Decision{verdict: verdictAsk, reason: reason} }

// Rule names the rule of a refusal, for programs: context.rule of the
// error.
func (d Decision) Rule(name string) Decision {
	d.rule = name
	return d
}

// About names the file that a refusal is about, by [Change.Path], so that the
// caller of a transaction can identify the operation.
func (d Decision) About(path string) Decision {
	d.path = path
	return d
}

// Authorizer decides whether an operation may happen, before anything is locked.
// The first refusal counts, but every authorizer is called for every operation.
// An error or a panic refuses. If a path leads somewhere else once it is locked,
// or a file exists that did not, the authorizers are called again with the same
// invocation id.
type Authorizer interface {
	Authorize(ctx context.Context, op HookCall) (Decision, error)
}

// Withdrawer is an authorizer that holds something for a call until the call
// ends. It is called when that call will not be continued, because a user must be
// asked first (see [AskFunc]). The repeated call is a new one.
type Withdrawer interface {
	Withdraw(ctx context.Context, op HookCall)
}

// Observer is called for every operation that ended, successfully or not,
// including dry runs, but not for one that waits for a user. A panic in it is
// contained.
type Observer interface {
	Observe(ctx context.Context, op HookCall, r Receipt, err error)
}

// Transformer may change the content of a write before it is combined with the
// existing file, for formatting or redaction. Several are chained. It returns a
// reader of the whole content, even if it changes nothing. The hash that the
// caller promises and the identity of the request are those of the content that
// was sent. Edits, restorations and moves are not transformed. An error or a
// panic, also while the reader is read, refuses the write.
type Transformer interface {
	Transform(ctx context.Context, op HookCall, path string, content io.Reader) (io.Reader, error)
}

// Verifier inspects the staged files before the commit point: a compiler, a
// linter, a test. An error or a panic refuses the whole commit, and nothing has
// happened. It runs while the paths are locked, for at most
// [Options.VerifyTimeout]. One that does not stop soon after its context ended is
// abandoned, and the commit is refused; the verifier must then tolerate that
// staged files are gone. It only reads: a staged file that it changes makes the
// commit fail with [ErrReadBackMismatch]. A [FileError] reports which of several
// files it is about.
type Verifier interface {
	Verify(ctx context.Context, c StagedCommit) error
}

// StagedCommit is the commit as passed to a verifier.
type StagedCommit struct {
	HookCall
	Root  string       // the workspace, absolute
	Files []StagedFile // in order
}

// StagedFile is one file before it is published.
type StagedFile struct {
	Path   string // relative to the workspace
	Staged string // where its bytes are now, absolute; "" for one that is removed
	// Append is set for an append to a file of 1 MiB or more: Staged then holds
	// only what is added.
	Append bool
}

// FileError is the error of a [Verifier] about one file of a commit.
type FileError struct {
	Path string // as [StagedFile] has it
	Err  error
}

// Error returns what is wrong with the file.
func (e *FileError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong with the file.
func (e *FileError) Unwrap() error { return e.Err }

const defaultVerifyTimeout = time.Minute

// operation returns the commit as passed to hooks.
func (c *commit) operation() HookCall {
	return c.operationAt(func(m *engine.Mutation) *relpath.Target { return m.Target })
}

// operationAt is operation for other targets than the resolved ones.
func (c *commit) operationAt(target func(*engine.Mutation) *relpath.Target) HookCall {
	o := HookCall{
		Verb: c.Req.Op, Caller: c.Req.Caller, Session: c.Req.Session, InvocationID: c.Inv, DryRun: c.Req.DryRun,
		Request: c.Req.Hash, Complete: c.Complete,
	}
	for i, m := range c.Muts {
		if m.Private || m.Forgotten {
			continue
		}
		ch := Change{Op: string(m.Op), Path: m.Path, RealPath: m.Path}
		t := target(m)
		if t != nil {
			ch.RealPath = t.Path
		}
		if m.Source != nil {
			ch.From, ch.RealFrom = m.Source.Path, m.Source.Path
			if from := target(m.Source); from != nil {
				ch.RealFrom = from.Path
			}
		}
		switch {
		case c.Replayed != nil:
			if i < len(c.Replayed.Muts) {
				done := &c.Replayed.Muts[i]
				ch.Exists, ch.SHA256, ch.PrevSHA256 = done.PrevSHA256 != "", done.SHA256, done.PrevSHA256
			}
		case m.Applied != "": // it was looked at, under the lock
			ch.Exists, ch.SHA256, ch.PrevSHA256 = m.Prev.Exists, m.SHA, m.Prev.SHA
			if m.Source == nil && !m.Unchanged() {
				if ch.Bytes = m.Final.Size(); m.Applied == engine.OpAppend {
					ch.Bytes = m.PayBytes
				}
			}
		case t != nil && t.Exists():
			_, err := t.Parent.Lstat(t.Name)
			ch.Exists = err == nil
		}
		o.Changes = append(o.Changes, ch)
	}
	return o
}

// check refuses nil entries, because a missing rule would protect nothing.
func (h Hooks) check() *fault.Fault {
	for name, missing := range map[string]int{
		"authorize": slices.IndexFunc(h.Authorize, func(a Authorizer) bool { return a == nil }),
		"transform": slices.IndexFunc(h.Transform, func(t Transformer) bool { return t == nil }),
		"verify":    slices.IndexFunc(h.Verify, func(v Verifier) bool { return v == nil }),
		"observe":   slices.IndexFunc(h.Observe, func(o Observer) bool { return o == nil }),
	} {
		if missing >= 0 {
			return fault.New(fault.InvalidArgument).With("argument", "hooks."+name).With("index", missing).
				Hintf("entry %d of hooks.%s is nil", missing, name)
		}
	}
	return nil
}

// clone returns h with its own lists, so that later changes of the host to its
// lists do not change the rules of an open store.
func (h Hooks) clone() Hooks {
	return Hooks{slices.Clone(h.Authorize), slices.Clone(h.Transform), slices.Clone(h.Verify), slices.Clone(h.Observe)}
}

// resetters returns the hooks that keep counts, each once.
func (h Hooks) resetters() (list []interface{ ResetTask() }) {
	add := func(v any) {
		r, ok := v.(interface{ ResetTask() })
		if ok && !slices.ContainsFunc(list, func(have interface{ ResetTask() }) bool { return sameHook(have, r) }) {
			list = append(list, r)
		}
	}
	for _, a := range h.Authorize {
		add(a)
	}
	for _, t := range h.Transform {
		add(t)
	}
	for _, v := range h.Verify {
		add(v)
	}
	for _, o := range h.Observe {
		add(o)
	}
	return list
}

// sameHook reports whether a hook is in several lists. Values that cannot be
// compared are different.
func sameHook(a, b any) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && reflect.ValueOf(a).Comparable() && a == b
}
