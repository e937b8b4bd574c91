package resilientwrite

import (
	"context"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/hooks"
)

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
