package resilientwrite

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/command"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
	"github.com/resilientwrite/resilientwrite/internal/move"
	"github.com/resilientwrite/resilientwrite/internal/progress"
	"github.com/resilientwrite/resilientwrite/internal/sandbox"
	"github.com/resilientwrite/resilientwrite/internal/views"
)

// Exec runs a command over a private view of the workspace, and commits its
// changes as one commit: through the policy, the gate, the verifiers and the
// journal, each file against the hash that it had when the command began. Before
// the commit, no change is in the workspace. No change ever gets there if the
// commit is refused, the process dies, or the command fails (unless KeepFailed is
// set). The result is returned also with an error, for its exit code and its
// output.
//
// The command can write to the view, to a temporary directory of its own and to
// the caches of tools (exec.allow_write of the policy), and nowhere else: this is
// verified before it starts. It cannot write to .git or to the state directory.
// It can read what this process can, and its network access is not limited. All
// its processes end with it. Files that it does not change it sees in their
// current state.
//
// Symbolic links and directories are part of the commit. Files that git ignores
// get no versions: they are copied into the workspace after the commit, with
// their directories, and are not undone. Special files elsewhere are refused.
//
// Errors: [ErrNoIsolation] if nothing isolates the command, which is then not
// started; [ErrHashMismatch] and [ErrFileAlreadyExists] for a file that another
// program changed meanwhile; [ErrChangedOutside] if a file would replace a
// directory that holds anything the command did not remove (context files);
// [ErrNotARegularFile]; [ErrTooLarge] for more than 100,000 files; those of
// [Store.Scan] and [Store.Tx]. If the gate refused, the changes are discarded;
// after other refusals they are kept for seven days, and context.kept names them.
// Exec works on Linux.
func (s *Store) Exec(ctx context.Context, r command.Request) (*command.Result, error) {
	req := requestOf(r.Call, "exec", r)
	named := r // what is stored as it is; the arguments are redacted, environment and output are not stored
	named.Argv, named.Env, named.Stdin, named.Stdout, named.Stderr = nil, nil, nil, nil, nil
	req.long, req.args = true, named
	x := &execution{s: s, r: r, c: s.newCommit(ctx, req)}
	x.cmd = &views.Command{Timeout: time.Duration(r.TimeoutSeconds) * time.Second, Job: sandbox.Job{
		Base: r.Views, Dir: r.Dir, Argv: r.Argv, Env: r.Env, Copy: r.Copy, Helper: r.Helper, Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr,
	}}
	x.c.Command = s.scanner(ctx).CommandText(x.cmd.Line())
	x.out = &command.Result{Results: []call.FileResult{}, Warnings: []Warning{}, Status: StatusUnchanged, WroteAt: x.c.wroteAt()}
	ctx, _, end := progress.Begin(ctx)
	defer end()
	x.c.check(x.cmd.Check(s.engine))
	if r.Helper == "" && !command.IsReady {
		x.c.check(fault.New(fault.NoIsolation).Hintf("the main of this program does not call command.Main, and Helper names no program that does"))
	}
	if x.c.bad != nil {
		return x.out, x.c.Failed(x.c.bad)
	}
	return x.out, x.do(ctx)
}

// execution is a call of Exec.
type execution struct {
	s    *Store
	r    command.Request
	c    *commit
	out  *command.Result
	cmd  *views.Command
	plan *views.Plan
}

// do runs the command and commits its changes.
func (x *execution) do(ctx context.Context) error {
	c := x.c
	if x.s.keyKnown(c.Req.Key) {
		c.Muts = []*engine.Mutation{} // the key answers
		return x.commit(ctx)
	}
	start, err := x.run(ctx)
	if err != nil {
		return x.fail(err)
	}
	if x.cmd.View == nil { // the time was over before the command was started
		x.out.Discarded = true
		c.Release()
		return nil
	}
	if x.out.ExitCode != 0 && !x.r.KeepFailed {
		x.out.Discarded = true
		c.Release()
		return x.cmd.View.Remove()
	}
	b := &views.Builder{Layer: x.s.observed, Commit: c.Commit, View: x.cmd.View, Start: start, Capture: observe.Capture(x.s.gate.Policy().File.Capture)}
	x.plan, err = b.Build(ctx)
	c.Muts, c.Dirs = x.plan.Muts, x.s.changes().DirsToMake(x.plan.Dirs)
	if err != nil {
		return x.fail(err)
	}
	if len(c.Muts)+len(c.Dirs) > 0 {
		if err := x.commit(ctx); err != nil {
			return x.kept(err)
		}
	} else {
		c.Release()
	}
	x.out.Discarded, x.out.Ignored = c.Req.DryRun, x.plan.Ignored
	if !c.Req.DryRun {
		x.out.NotApplied = x.plan.Apply(x.s.observed, x.cmd.View)
	}
	x.cmd.View.Remove()
	return nil
}

// run scans the workspace and runs the command.
func (x *execution) run(ctx context.Context) (*observe.Index, error) {
	start, err := x.cmd.Run(ctx, x.s.engine, x.s.gate.Policy().File.Exec.AllowWrite, func() (*observe.Index, error) {
		return x.s.scanAll(ctx, x.r.Session)
	})
	x.out.ExitCode, x.out.TimedOut, x.out.OutputCut = x.cmd.Code, x.cmd.TimedOut, x.cmd.Cut
	for i, text := range []*string{&x.out.Stdout, &x.out.Stderr} {
		*text = strings.ToValidUTF8(string(x.s.gate.Redacted(context.WithoutCancel(ctx), "", x.cmd.Output[i])), "\uFFFD")
	}
	if x.cmd.View != nil {
		x.out.Isolation = x.cmd.View.Way
	}
	return start, err
}

// commit commits the changes and makes the result.
func (x *execution) commit(ctx context.Context) error {
	c := x.c
	c.Plan = func(context.Context) error { return move.Distinct(c.Commit) }
	if err := x.s.commit(ctx, c); err != nil {
		return err
	}
	rec := c.finished()
	x.out.Seq, x.out.Diff, x.out.WroteAt, x.out.Status, x.out.Receipt = rec.JournalSeq, c.Diff, rec.WroteAt, rec.Status, &rec
	x.out.Results = c.Changed()
	if c.Replayed == nil {
		x.out.Warnings = allWarnings(c.Muts)
	}
	return nil
}

// fail ends a call before its commit.
func (x *execution) fail(err error) error {
	x.c.Release()
	err = x.c.Failed(err)
	if x.cmd.View == nil || x.plan == nil {
		if x.cmd.View != nil {
			x.cmd.View.Remove()
		}
		return err
	}
	return x.kept(err)
}

// kept keeps what the command wrote, unless it holds what the gate refused, and
// adds the place to the error.
func (x *execution) kept(err error) error {
	e := AsError("exec", err)
	if e.Kind == ErrBlocked || x.r.DryRun || e.Effect != EffectNone || x.cmd.View.Keep() != nil {
		x.cmd.View.Remove()
		return e
	}
	x.out.KeptIn = x.cmd.View.Upper()
	switch e.Detail {
	case ErrHashMismatch, ErrFileAlreadyExists, ErrChangedDuringWrite, ErrChangedOutside, ErrNotFound:
		if e.Context["files"] != nil { // in a directory that a file replaces
			break
		}
		e.Hint = "another program changed the file while the command ran, so nothing of it was committed; look at the file and run the command again"
	case ErrIsADirectory:
		e.Hint = "the command replaced a directory whose files history does not have, because git ignores them, or another program made the directory while the command ran; move or delete the directory, then run the command again"
	}
	e.Context["kept"] = x.cmd.View.ID
	e.Hint += fmt.Sprintf("; what the command wrote is kept for 7 days, in resilientwrite/exec/%s of the user's state directory", x.cmd.View.ID)
	return e
}
