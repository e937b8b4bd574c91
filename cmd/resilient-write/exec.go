package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/command"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// execFailed is the code of every failure of exec itself, so that it cannot be
// mistaken for a code of the command.
const execFailed rw.Code = 125

// exec runs a command as a transaction.
func (a *app) exec() *cobra.Command {
	var r command.Request
	cmd := &cobra.Command{
		Use: "exec [flags] -- COMMAND [ARGUMENT...]", Short: "Run a command and commit all of its changes, or none", GroupID: "work",
		Long: `Run a command over a private view of the workspace, and commit its changes as
one commit, which undo reverts. The changes must pass the policy, the content
gate and the verifiers. They are refused if another program changed one of the
files meanwhile. If the command fails, its changes are discarded, unless
--keep-failed is given.

Outside the view the command can write only to its own temporary directory and
to the caches of tools (exec.allow_write of the policy). .git is read-only.
Files that git ignores are moved into the workspace without versions. Linux
only.

The exit code is the exit code of the command, or 128 plus the number of the
signal that ended it. 125 means that exec itself failed or refused.`,
		Args: func(cmd *cobra.Command, args []string) error {
			a.streams, a.failing = true, execFailed
			if cmd.ArgsLenAtDash() != 0 || len(args) == 0 {
				return &misuse{"exec takes a command after --", "usage: resilient-write " + cmd.Use}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Argv, r.Dir = args, cmp.Or(r.Dir, a.inWorkspace())
			return a.withStore(cmd.Context(), false, func(ctx context.Context, s *rw.Store) error { return a.runCommand(ctx, s, r) })
		},
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		a.streams, a.failing = true, execFailed
		return flagError(cmd, err)
	})
	f := cmd.Flags()
	f.BoolVar(&r.DryRun, "dry-run", false, "show the diff, and discard the changes")
	f.BoolVar(&r.Copy, "copy", false, "allow a plain copy of the workspace, at most 1 GiB, if nothing better is available")
	f.BoolVar(&r.KeepFailed, "keep-failed", false, "also commit the changes of a command that fails")
	f.IntVar(&r.TimeoutSeconds, "timeout-seconds", 0, "seconds after which the command is ended")
	f.StringVar(&r.Dir, "dir", "", "working directory in the workspace; default: the current one, if it is in the workspace")
	f.StringVar(&r.Caller, "caller", "", "who is asking")
	f.StringVar(&r.Session, "session", "", "name of the session, recorded in the journal")
	f.StringVar(&r.AcceptRisk, "accept-risk", "", "justification for writing flagged content")
	f.StringVar(&r.IdempotencyKey, "idempotency-key", "", "a command that was committed with this key does not run again")
	return cmd
}

// inWorkspace returns the working directory relative to the workspace, or "" if
// it is outside.
func (a *app) inWorkspace() string {
	here, err := os.Getwd()
	if err != nil {
		return ""
	}
	if rel, ok := relpath.Below(absolute(a.set.root), relpath.Resolved(here)); ok && rel != "." {
		return rel
	}
	return ""
}

// runCommand runs the command with the streams of this process.
func (a *app) runCommand(ctx context.Context, s *rw.Store, r command.Request) error {
	r.Stdin, r.Stdout, r.Stderr = a.in, a.out.w, a.errs
	if a.json { // standard output is for the reply
		r.Stdout = a.errs
	}
	out, err := s.Exec(rw.WithGate(ctx, rw.GateOfAgents), r)
	if err != nil {
		if out.KeptIn != "" {
			defer a.note("the changes are kept for 7 days in %s", out.KeptIn)
		}
		if errors.Is(err, rw.ErrCanceled) && out.ExitCode != 0 {
			a.failing = rw.Code(out.ExitCode)
		}
		return err
	}
	a.failing, a.done.code = 0, rw.Code(out.ExitCode)
	nameTools(out.Warnings)
	if out.Receipt != nil {
		nameTools(out.Receipt.Warnings)
	}
	if a.done.reply, err = success(out); err != nil {
		return err
	}
	if a.json {
		return a.document(a.done.reply)
	}
	a.sayExec(out)
	return nil
}

// note prints a line for people, next to the output of the command.
func (a *app) note(format string, values ...any) {
	if a.wipeBar != nil {
		a.wipeBar()
	}
	fmt.Fprintf(a.messages(), "resilient-write: "+format+"\n", values...)
}

// sayExec reports what happened to the changes.
func (a *app) sayExec(out *command.Result) {
	switch {
	case out.TimedOut && out.Discarded:
		a.note("the time is over; the changes were thrown away")
	case out.Discarded && out.ExitCode != 0 && out.Receipt == nil:
		a.note("exit code %d; the changes were thrown away (--keep-failed commits them)", out.ExitCode)
	case out.Discarded:
		plain{a.out}.Write([]byte(out.Diff))
		a.note("dry run; files that would be changed: %d", len(out.Results))
	case out.Status == rw.StatusReplayed:
		a.note("the command was committed before with this key, as row %d, and did not run again", out.Seq)
	case out.Seq > 0:
		a.note("changed files: %d, in row %d (%s)", len(out.Results), out.Seq, out.Isolation)
	}
	if out.Ignored > 0 && !out.Discarded {
		a.note("%s that git ignores changed too, without versions", several(out.Ignored, "file"))
	}
	for _, p := range out.NotApplied {
		a.note("%s could not be brought into the workspace", printable(p))
	}
	a.warn(out.Warnings...)
}

// warn prints warnings next to the output of the command.
func (a *app) warn(list ...rw.Warning) {
	for _, w := range list {
		a.note("warning: %s", strings.TrimSuffix(w.Reason+": "+printable(spoken(w.Hint)), ": "))
	}
}
