package resilientwrite

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/hooks"
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
func (o HookCall) Destructive() bool { return o.inside().Destructive() }

// inside returns the call as package hooks has it.
func (o HookCall) inside() hooks.Call {
	c := hooks.Call{
		Verb: o.Verb, Caller: o.Caller, Session: o.Session, InvocationID: o.InvocationID, DryRun: o.DryRun,
		Changes: make([]hooks.Change, len(o.Changes)), Request: o.Request, Complete: o.Complete,
	}
	for i, ch := range o.Changes {
		c.Changes[i] = hooks.Change(ch)
	}
	return c
}

// callOf returns a call for one hook of the host.
func callOf(c hooks.Call) HookCall {
	o := HookCall{
		Verb: c.Verb, Caller: c.Caller, Session: c.Session, InvocationID: c.InvocationID, DryRun: c.DryRun,
		Changes: make([]Change, len(c.Changes)), Request: c.Request, Complete: c.Complete,
	}
	for i, ch := range c.Changes {
		o.Changes[i] = Change(ch)
	}
	return o
}

// Decision is the answer of an authorizer. The zero value denies.
type Decision struct{ d hooks.Decision }

// Allow returns a decision that lets an operation pass; other authorizers may
// still refuse it.
func Allow() Decision { return Decision{hooks.Decision{Verdict: hooks.Allowed}} }

// Deny refuses an operation. The reason is returned to the caller; it should say
// what to do instead.
func Deny(reason string) Decision { return Decision{hooks.Decision{Reason: reason}} }

// AskUser lets the user decide, by [Options.Ask] or [WithAsk], and refuses if
// neither is set. The reason is the question. The user is not asked about a dry
// run.
func AskUser(reason string) Decision {
	return Decision{hooks.Decision{Verdict: hooks.Asks, Reason: reason}}
}

// Rule names the rule of a refusal, for programs: context.rule of the
// error.
func (d Decision) Rule(name string) Decision {
	d.d.Rule = name
	return d
}

// About names the file that a refusal is about, by [Change.Path], so that the
// caller of a transaction can identify the operation.
func (d Decision) About(path string) Decision {
	d.d.Path = path
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

// AskFunc puts a question to the user and returns the answer. An error refuses
// the operation.
//
// A function that cannot wait for the user returns [ErrInputRequired] as its
// error. The call then ends with that detail and leaves no trace: no row, no
// receipt, no count, no draft, and no observer is called. After the user has
// answered, the caller sends the same call again, and the function returns the
// answer; equal values of [HookCall.Request] identify the same call.
//
// Several authorizers may each have a question. All questions are put, unless the
// user answers no to one. The function is called before anything is locked.
type AskFunc func(ctx context.Context, op HookCall, question string) (Answer, error)

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

type askKey struct{}

// WithAsk returns a context whose calls put the questions of authorizers to ask
// where [Options.Ask] is not set. An adapter uses it to provide its channel to
// the user.
func WithAsk(ctx context.Context, ask AskFunc) context.Context {
	return context.WithValue(ctx, askKey{}, ask)
}

// channelTo returns the function that asks the user for one call, nil if there is
// none.
func (s *Store) channelTo(ctx context.Context) hooks.AskFunc {
	ask := s.opts.Ask
	if ask == nil {
		ask, _ = ctx.Value(askKey{}).(AskFunc)
	}
	if ask == nil {
		return nil
	}
	return func(ctx context.Context, c hooks.Call, question string) (hooks.Answer, error) {
		answer, err := ask(ctx, callOf(c), question)
		if errors.Is(err, ErrInputRequired) {
			err = fault.New(fault.InputRequired).Because(err)
		}
		return hooks.Answer(answer), err
	}
}

// newHooks returns the hooks of the options as package hooks runs them.
func (s *Store) newHooks() *hooks.Layer {
	l := &hooks.Layer{Engine: s.engine, Gate: s.gate, VerifyTimeout: s.opts.VerifyTimeout, Channel: s.channelTo, KeyKnown: s.keyKnown}
	for _, a := range s.opts.Hooks.Authorize {
		l.Authorize = append(l.Authorize, func(ctx context.Context, c hooks.Call) (hooks.Decision, error) {
			d, err := a.Authorize(ctx, callOf(c))
			return d.d, err
		})
		if w, ok := a.(Withdrawer); ok {
			l.Withdraw = append(l.Withdraw, func(ctx context.Context, c hooks.Call) { w.Withdraw(ctx, callOf(c)) })
		}
	}
	for _, t := range s.opts.Hooks.Transform {
		l.Transform = append(l.Transform, func(ctx context.Context, c hooks.Call, path string, content io.Reader) (io.Reader, error) {
			return t.Transform(ctx, callOf(c), path, content)
		})
	}
	for _, v := range s.opts.Hooks.Verify {
		l.Verify = append(l.Verify, func(ctx context.Context, c hooks.Staged) (about string, err error) {
			staged := StagedCommit{HookCall: callOf(c.Call), Root: c.Root}
			for _, f := range c.Files {
				staged.Files = append(staged.Files, StagedFile(f))
			}
			err = v.Verify(ctx, staged)
			var one *FileError
			if errors.As(err, &one) {
				about = one.Path
			}
			return about, err
		})
	}
	return l
}

// observe calls every observer with the outcome of a call.
func (c *commit) observe(r Receipt, err error) {
	for _, o := range c.s.opts.Hooks.Observe {
		func() {
			defer func() { recover() }() // what observes must not break what it observes
			o.Observe(context.Background(), callOf(hooks.CallOf(c.Commit)), r, err)
		}()
	}
}

// postponed ends a commit that waits for an answer of the user. Nothing has
// changed and no observer is called: the same call is repeated after the user has
// answered.
func (c *commit) postponed(e *fault.Fault) error {
	e.Op, e.Stage = c.Req.Op, c.StageNow
	if e.Path == "" && len(c.Muts) == 1 {
		e.Path = c.Muts[0].Path
	}
	e.RetryBudget = c.s.budgets.Strike(c.call(), e) // counts nothing
	c.Run.Withdraw()
	return errorFrom(e)
}

// lists returns the hooks by the names of their lists.
func (h Hooks) lists() []hooks.List {
	return []hooks.List{hooks.ListOf("authorize", h.Authorize), hooks.ListOf("transform", h.Transform), hooks.ListOf("verify", h.Verify), hooks.ListOf("observe", h.Observe)}
}

// clone returns h with its own lists, so that later changes of the host to its
// lists do not change the rules of an open store.
func (h Hooks) clone() Hooks {
	return Hooks{slices.Clone(h.Authorize), slices.Clone(h.Transform), slices.Clone(h.Verify), slices.Clone(h.Observe)}
}

// ResetTask begins a new task: every call gets its full retry budget again, and
// hooks with a method ResetTask are reset. A panic in one is contained: the
// others and the budgets are reset, and the error reports it.
func (s *Store) ResetTask(ctx context.Context) error {
	if err := s.engine.EnterReader(); err != nil {
		return s.verbError("reset_task", err)
	}
	defer s.engine.Leave()
	failed := hooks.Reset(s.opts.Hooks.lists())
	if err := s.budgets.Reset(); err != nil {
		return s.verbError("reset_task", err)
	}
	if failed != nil {
		return s.verbError("reset_task", failed)
	}
	return nil
}
