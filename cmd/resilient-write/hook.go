package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/clients"
	"github.com/resilientwrite/resilientwrite/internal/hostevent"
	"github.com/resilientwrite/resilientwrite/internal/place"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// Limits of a hook, from the start of the process. A host waits for it.
const (
	beforeDeadline = 150 * time.Millisecond
	afterDeadline  = 1200 * time.Millisecond
	maxEvent       = 16 << 20 // bytes
	toldFindings   = 5        // per answer
)

// hook answers one event of an agent host. The exit code is always 0: hosts
// treat others as a refusal of the tool.
func (a *app) hook() *cobra.Command {
	return &cobra.Command{
		Use: "hook --host HOST [EVENT]", Short: "Answer an event of a coding agent's host", GroupID: "upkeep", DisableFlagParsing: true,
		Long: `Answer one event of a coding agent's host, which the host writes to standard
input as JSON. If the hook is configured for the events before and after tool
calls, the changes that a shell command makes are recorded under its call: list
them with changes, undo them with undo --group. A write or an edit is denied if
the content gate, a protected path or the claim of another session refuses it. A
secret that a command wrote, or a claimed file that it changed, is reported to
the model. Nothing that a command did is reverted.

  --host HOST      ` + hostevent.Hosts + `;
                   the names that init takes also work
  --print          print the configuration for HOST and the file it belongs to;
                   init --hooks writes it
  --deadline TIME  end without an answer after this time; default 150ms before a
                   tool, 1.2s otherwise

The workspace is the nearest directory, from the working directory of the event
upwards, that has a store or is the root of a git repository. In other
directories the hook does nothing. The exit code is always 0.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			started := time.Now()
			signal.Ignore(syscall.SIGPIPE) // the host may not read the answer
			defer func() {
				if v := recover(); v != nil { // the panic value may hold content
					fmt.Fprintln(a.errs, "resilient-write hook: internal error")
				}
			}()
			if err := a.answerHook(cmd, args, started); err != nil {
				fmt.Fprintln(a.errs, "resilient-write hook:", printable(plainError(err)))
			}
			return nil
		},
	}
}

func (a *app) answerHook(cmd *cobra.Command, args []string, started time.Time) error {
	f := pflag.NewFlagSet("hook", pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	host := f.String("host", "", "")
	deadline := f.Duration("deadline", 0, "")
	show := f.Bool("print", false, "")
	if err := f.Parse(args); errors.Is(err, pflag.ErrHelp) {
		return cmd.Help()
	} else if err != nil {
		return err
	}
	if c, ok := clients.Find(*host); ok && c.Hooks != "" { // the name that init uses
		*host = c.Hooks
	}
	if *show {
		return a.printHooks(*host)
	}
	h := &hooked{out: a.out.w, limit: cmp.Or(*deadline, afterDeadline)}
	h.until = started.Add(h.limit)
	timer := time.AfterFunc(time.Until(h.until), h.giveUp)
	defer timer.Stop()
	data, err := io.ReadAll(io.LimitReader(a.in, maxEvent))
	if err != nil {
		return err
	}
	e, err := hostevent.Parse(*host, f.Arg(0), data)
	if err != nil {
		return err
	}
	root := hookRoot(e.Dir)
	if root == "" || e.Own || e.Kind == hostevent.Other {
		return nil
	}
	if h.Event = e; *deadline == 0 && e.Kind == hostevent.Before {
		h.limit, h.until = beforeDeadline, started.Add(beforeDeadline)
		timer.Reset(time.Until(h.until))
	}
	return h.run(cmd.Context(), a, root)
}

// printHooks prints the configuration of a host.
func (a *app) printHooks(host string) error {
	files, err := hostevent.Config(host, clients.Program)
	if err != nil {
		return err
	}
	for _, f := range files {
		what := "write this to"
		switch {
		case f.Merge:
			what = "merge this into"
		case f.Exec:
			what = "write this, executable, to"
		}
		fmt.Fprintln(a.errs, what, f.Project)
		if len(files) > 1 {
			fmt.Fprintf(a.out.w, "# %s\n", path.Base(f.Project))
		}
		if _, err := io.WriteString(a.out.w, f.Text); err != nil {
			return err
		}
	}
	return nil
}

// hooked is one event being answered.
type hooked struct {
	hostevent.Event
	out   io.Writer
	until time.Time
	limit time.Duration

	mu sync.Mutex // held while the answer is written
}

// giveUp ends the process when its time has expired. A store survives that at
// any moment, and the next scan finds what this one did not record.
func (h *hooked) giveUp() {
	h.mu.Lock()
	os.Exit(0)
}

// say writes the answer.
func (h *hooked) say(answer []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(answer) > 0 {
		h.out.Write(append(answer, '\n'))
	}
}

func (h *hooked) run(ctx context.Context, a *app, root string) error {
	o := a.set.options(a.env, "")
	o.Caller, o.LockTimeout = h.Host, h.limit/2
	s, err := rw.Open(rw.WithGate(ctx, rw.GateOfAgents), root, o)
	if err != nil {
		return err
	}
	err = h.answer(toolbox.ForAgents(ctx), s, root)
	return errors.Join(err, s.Close(ctx))
}

// answer handles the event.
func (h *hooked) answer(ctx context.Context, s *rw.Store, root string) error {
	c := around.ToolCall{ID: h.Call, Host: h.Host, Session: h.Session, Event: h.Name, Command: h.Command, Alike: h.Alike, Within: time.Until(h.until) * 2 / 3}
	same := c
	same.Event += fmt.Sprint("\x00", h.Tool, "\x00", h.Command, h.Writes)
	if seen, err := s.SeenCall(ctx, same); seen && err == nil {
		return nil // another configuration of the host answers it
	}
	switch h.Kind {
	case hostevent.Before:
		if why := h.refused(ctx, s, root); why != "" {
			if answer := h.Deny(why); answer != nil {
				h.say(answer)
				return nil // the call does not run
			}
		}
		_, err := s.BeginCall(ctx, c)
		return err
	case hostevent.After:
		c.Report = func(found around.ScanResult) {
			if text := strings.TrimPrefix(findingsText(found)+claimedText(found), "\n"); text != "" {
				h.say(h.Context(text))
			}
		}
		_, err := s.EndCall(ctx, c)
		return err
	case hostevent.Settled:
		c.ID = ""
		_, err := s.EndCall(ctx, c)
		return err
	case hostevent.Compacts:
		if err := h.checkpoint(ctx, s); err != nil {
			return err
		}
	}
	c.ID = ""
	_, err := s.BeginCall(ctx, c)
	return err
}

// refused returns why a write or an edit of files in the workspace is refused,
// or "" if it is not.
func (h *hooked) refused(ctx context.Context, s *rw.Store, root string) string {
	if h.Shell {
		return ""
	}
	for _, w := range h.Writes {
		if why := h.refusedFile(ctx, s, root, w); why != "" {
			return why
		}
	}
	return ""
}

// denied lists the refusals of our own tools that also apply to those of a
// host.
var denied = []rw.Detail{rw.ErrRiskBlocked, rw.ErrProtectedPath, rw.ErrProtectedDefault, rw.ErrPathClaimed}

func (h *hooked) refusedFile(ctx context.Context, s *rw.Store, root string, w hostevent.Write) string {
	file := w.Path
	if !filepath.IsAbs(file) {
		file = filepath.Join(h.Dir, file)
	}
	rel, ok := relpath.Below(root, relpath.Resolved(file))
	if !ok {
		return ""
	}
	_, err := s.SafeWrite(rw.WithVia(ctx, rw.Via{Client: h.Host, Thread: h.Session}), rw.SafeWriteRequest{
		Path: rel, Content: []byte(w.Text), Mode: rw.ModeOverwrite, AllowShrink: true, Force: true, Call: rw.Call{DryRun: true},
	})
	var e *rw.Error
	if !errors.As(err, &e) || !slices.Contains(denied, e.Detail) {
		return ""
	}
	why := fmt.Sprintf("resilient-write refuses this write of %s: %s", rel, toolbox.NameTools(e.Hint))
	if len(e.Patterns) > 0 {
		why += " (" + strings.Join(e.Patterns, ", ") + ")"
	}
	return why
}

// findingsText describes what the gate found in the changes of a call.
func findingsText(r around.ScanResult) string {
	var lines []string
	for _, f := range r.Findings {
		if f.Confidence != "info" {
			lines = append(lines, fmt.Sprintf("%s:%d looks like %s (%s)", printable(f.Path), f.Line, f.Pattern, f.Confidence))
		}
	}
	return told("resilient-write found secrets in files that changed:", lines, "", r.Group)
}

// claimedText describes which files the calls changed although another session
// has claimed them.
func claimedText(r around.ScanResult) string {
	var lines []string
	for _, f := range r.Claimed {
		lines = append(lines, fmt.Sprintf("%s is claimed by session %s until %s", printable(f.Path), printable(f.Session), f.Until.UTC().Format(time.RFC3339)))
	}
	return told("\nresilient-write: files that another session has claimed were changed while this call ran:", lines, " Leave them to that session until then.", r.Group)
}

// told returns the lines of an answer, below their heading and above what to do; "" if
// there are none.
func told(heading string, lines []string, advice, group string) string {
	if len(lines) == 0 {
		return ""
	}
	if more := len(lines) - toldFindings; more > 0 {
		lines = append(lines[:toldFindings], fmt.Sprintf("and %d more", more))
	}
	text := heading + "\n" + strings.Join(lines, "\n") + "\nNothing was reverted." + advice
	if group != "" {
		text += " Undo the changes of this call with: resilient-write undo --group " + group
	}
	return text
}

// checkpoint records what the session has changed, for use after the
// conversation is shortened.
func (h *hooked) checkpoint(ctx context.Context, s *rw.Store) error {
	r, err := s.Changes(ctx, around.ChangesRequest{Session: h.Session})
	if err != nil {
		return err
	}
	data, err := schema.Encode(map[string]any{"host": h.Host, "session": h.Session, "files": r.Files, "groups": r.Groups})
	if err != nil {
		return err
	}
	_, err = s.Checkpoint(ctx, rw.CheckpointRequest{Name: "before-compaction", Data: data, Call: rw.Call{Session: h.Session}})
	return err
}

// hookRoot returns the workspace of a directory, or "" if there is none: the
// nearest directory that has a store or is that of a git repository.
func hookRoot(dir string) string {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil || !filepath.IsAbs(dir) {
		return ""
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at
		}
		if has, err := place.Has(at); has || err != nil { // where that is not known, no store above is used
			return at
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}
