package resilientwrite

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

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

// DenyWrites is a hook that refuses every change.
type DenyWrites struct{}

// Authorize refuses everything, by the rule read_only.
func (DenyWrites) Authorize(context.Context, HookCall) (Decision, error) {
	return Decision{hooks.ReadOnly()}, nil
}

// PathRules is a hook that decides by path. Globs are those of the policy file:
// ** spans directories, a glob of a directory covers what is in it, letter case
// is ignored.
type PathRules struct {
	Allow []string // when not empty, only paths that one of them matches may be changed
	Deny  []string // paths that may not be changed; Deny goes before Allow
}

// Authorize decides by the paths of the operation, as requested and after
// symbolic links are resolved. A glob in Deny that is invalid, or whose braces
// expand to too many globs, refuses everything.
func (r PathRules) Authorize(_ context.Context, op HookCall) (Decision, error) {
	d, err := hooks.PathRules(r).Authorize(op.inside())
	return Decision{d}, err
}

// Permission is a hook that asks the user before anything is changed, except
// where AutoApprove matches. It always asks about a destructive operation
// ([HookCall.Destructive]).
type Permission struct {
	AutoApprove []string // globs of paths that need no question
}

// Authorize asks, or allows what needs no question.
func (p Permission) Authorize(_ context.Context, op HookCall) (Decision, error) {
	return Decision{hooks.Permission(p.AutoApprove, op.inside())}, nil
}

// TaskBudget is a hook that limits what one task may do in the workspace; 0 means
// no limit. A new task begins with [Store.ResetTask]. Concurrent calls do not
// exceed the number of writes; the call that exceeds the bytes or the failures is
// the last one. Pass a pointer.
type TaskBudget struct {
	Bytes    int64 // written
	Writes   int   // files changed
	Failures int   // calls that failed

	spent hooks.Spent
}

// Authorize refuses when a limit is reached.
func (b *TaskBudget) Authorize(_ context.Context, op HookCall) (Decision, error) {
	return Decision{b.spent.Authorize(hooks.Limits{Bytes: b.Bytes, Writes: b.Writes, Failures: b.Failures}, op.inside())}, nil
}

// Withdraw releases what was reserved for a call that waits for a user.
func (b *TaskBudget) Withdraw(_ context.Context, op HookCall) { b.spent.Withdraw(op.inside()) }

// Observe counts the bytes and files that a call has written, and calls that
// failed.
func (b *TaskBudget) Observe(_ context.Context, op HookCall, r Receipt, err error) {
	b.spent.Observe(op.inside(), r.Status == StatusSucceeded, err != nil)
}

// ResetTask begins a new task: all counts start at zero.
func (b *TaskBudget) ResetTask() { b.spent.Reset() }

// LoopGuard is a hook that stops a caller who makes no progress with a file:
// whose writes repeatedly restore the current content of the file or an earlier
// one, or whose calls fail one after the other, each in a different way.
// Identical calls that fail are stopped by the retry budget of the store. Pass a
// pointer.
type LoopGuard struct {
	Repeats int // times that it lets pass, of either kind; 0 means 6

	loops hooks.Loops
}

// Authorize refuses a file whose contents repeat, or whose calls keep failing.
func (g *LoopGuard) Authorize(_ context.Context, op HookCall) (Decision, error) {
	limit := 6
	if g.Repeats > 0 {
		limit = g.Repeats
	}
	return Decision{g.loops.Authorize(limit, op.inside())}, nil
}

// Observe records the contents of each file, and its failed calls.
func (g *LoopGuard) Observe(_ context.Context, op HookCall, r Receipt, err error) {
	if op.DryRun || err == nil && r.Status != StatusSucceeded && r.Status != StatusUnchanged {
		return
	}
	var e *fault.Fault
	if err != nil {
		e = AsError(op.Verb, err).fault()
	}
	g.loops.Observe(op.inside(), r.Status == StatusSucceeded, e)
}

// ResetTask begins a new task: everything recorded about files is forgotten.
func (g *LoopGuard) ResetTask() { g.loops.Reset() }

// CommandOracle is a hook that runs a command before a commit, on the files as
// they would be. If the command exits with another code than 0, or not in time,
// the commit is refused with its output. The command runs without a shell, in a
// private directory. These words in its arguments are replaced by paths:
//
//	{}         the file as it would be; the command runs once for each file
//	{root}     the workspace, or its copy
//	{overlay}  a file for go's -overlay flag that names all files of the commit
//
// Without {} the command runs once for a commit. RW_ROOT, RW_OVERLAY, and, for
// the file it runs for or the first one, RW_PATH and RW_STAGED hold the same
// paths; RW_STAGED is empty for a file that is removed.
//
//	CommandOracle{Match: []string{"**/*.go"}, Command: []string{"gofmt", "-e", "{}"}}
//	build := []string{"go", "-C", "{root}", "build", "-overlay={overlay}", "./..."}
//	CommandOracle{Command: build}
//	CommandOracle{Command: []string{"npm", "test"}, Tree: true}
type CommandOracle struct {
	Match   []string      // globs of paths it looks at; empty means all
	Command []string      // program and arguments
	Tree    bool          // run it in a copy of the workspace without .git, after the commit
	Timeout time.Duration // of one run; 0 means 30 seconds
	Env     []string      // besides the environment of the process and the variables above

	// OnComplete runs the command also before a handoff that says that the
	// task is done, whatever Match says: no one declares a task complete
	// whose check does not pass after the last change. It needs a command
	// without {}, which looks at the whole workspace.
	OnComplete bool
}

// Verify runs the command.
func (o CommandOracle) Verify(ctx context.Context, c StagedCommit) error {
	staged := hooks.Staged{Call: c.inside(), Root: c.Root}
	for _, f := range c.Files {
		staged.Files = append(staged.Files, hooks.File(f))
	}
	about, err := hooks.Oracle(o).Verify(ctx, staged)
	if about != "" {
		return &FileError{about, err}
	}
	return err
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
