package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/call"
)

// eraseOptions are the flags of erase. None of them takes the secret: a command
// line is recorded in the history of the shell and visible in the process list.
type eraseOptions struct {
	request admin.EraseRequest
	sha     string // hash of the content to erase, as given
	file    string
	fd      int
	fdGiven bool
	yes     bool
}

// maxSecret limits the size of a secret: anything larger is a mistake.
const maxSecret = 1 << 20

// erase erases a leaked secret.
func (a *app) erase() *cobra.Command {
	var o eraseOptions
	cmd := &cobra.Command{
		Use: "erase", Short: "Erase a leaked secret from the state directory", GroupID: "upkeep",
		Long: `Erase a leaked secret from every part of the state directory: journal, archive,
history, scratchpad, drafts, sessions, checkpoints, handoffs, names of files. It
is searched for in plain form, escaped as in JSON, and in base64, hexadecimal
and percent encoding.

The secret comes from --secret-file, from --secret-fd, or from standard input,
never from the command line; a terminal prompts for it without echo. One
trailing newline is not part of the secret; everything else is.

Revoke the secret and clean the files of the workspace first: erase does not
change them, and a write that replaces one keeps its old content in history.
Copies, backups, git and the transcript of the agent are out of reach.

The exit code is 7 when files of the state directory still contain the secret,
and 6 when only files of the workspace do, or some could not be read. It is the
same with --dry-run. If erase is killed, the store remains valid and the next
call continues.`,
		// An argument may be the secret, so it is not printed.
		Args: takes(0, 0, "erase takes no arguments", "other users can see a secret on the command line; give it on standard input, or with --secret-file"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.fdGiven = cmd.Flags().Changed("secret-fd")
			return a.runErase(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.file, "secret-file", "", "`file` that holds the secret; - for standard input, the default")
	f.IntVar(&o.fd, "secret-fd", 0, "open file `descriptor` that the secret is read from")
	f.StringVar(&o.sha, "sha256", "", "instead of the secret: erase everything whose whole content has this `hash`")
	f.StringVar(&o.request.DraftRef, "draft-ref", "", "instead of the secret: erase everything whose whole content equals this refused `draft`")
	f.StringVar(&o.request.Reason, "reason", "", "reason, recorded in the journal; it must not contain the secret")
	f.BoolVar(&o.request.SkipWorkspace, "skip-workspace", false, "do not search the files of the workspace")
	f.BoolVar(&o.request.DryRun, "dry-run", false, "count the occurrences, but change nothing")
	f.BoolVar(&o.yes, "yes", false, "do not ask for confirmation on a terminal")
	callerFlag(f, &o.request.Caller)
	cmd.SetFlagErrorFunc(quietFlagError)
	return cmd
}

// quietFlagError refuses a flag without repeating its value, which
// may be the secret.
func quietFlagError(cmd *cobra.Command, err error) error {
	u := &misuse{"a flag does not exist or has an invalid value", "run " + cmd.CommandPath() + " --help; no flag takes the secret itself"}
	if name, ok := strings.CutPrefix(err.Error(), "unknown flag: --"); ok {
		var near *misuse
		switch {
		case strings.HasPrefix(name, "secret"):
			u.hint = "did you mean --secret-file; no flag takes the secret itself"
		case errors.As(flagError(cmd, err), &near) && strings.HasPrefix(near.hint, "did you mean"):
			u.hint = near.hint
		}
	}
	return u
}

func (a *app) runErase(ctx context.Context, o eraseOptions) error {
	ways := []bool{o.file != "", o.fdGiven, o.sha != "", o.request.DraftRef != ""}
	if len(slices.DeleteFunc(ways, func(given bool) bool { return !given })) > 1 {
		return &misuse{"the secret was given in more than one way", "give one of --secret-file, --secret-fd, --sha256 and --draft-ref"}
	}
	r := o.request
	var err error
	if r.SHA256, err = call.ParseDigest(o.sha); err != nil {
		return rw.NewError("erase", rw.ErrBadSHA256, "", map[string]any{"argument": "sha256"})
	}
	if o.sha == "" && o.request.DraftRef == "" {
		secret, err := a.secret(ctx, o)
		if err != nil {
			return err
		}
		defer clear(secret)
		if len(secret) == 0 {
			return &misuse{"no secret was given", "name the file that holds it with --secret-file, or pass it on standard input"}
		}
		r.Secret = secret
	}
	if err := a.confirmed(o); err != nil {
		return err
	}
	// The name of the session is checked with the request: nothing may have been
	// written under it before.
	r.Session, a.session = a.session, ""
	return administer(ctx, a, a.withOldStore, func(o admin.Operator, ctx context.Context, r admin.EraseRequest) (admin.EraseResult, error) {
		out, err := o.Erase(ctx, r)
		switch {
		case len(out.Left) > 0:
			a.done.code = rw.CodeStorage
		case len(out.Workspace) > 0, out.Unreadable > 0:
			a.done.code = rw.CodePrecondition
		}
		return out, err
	}, r, showErase)
}

// secret reads the secret. No error contains what was read, or the name of the
// file, which may be the secret given by mistake.
func (a *app) secret(ctx context.Context, o eraseOptions) ([]byte, error) {
	var src io.Reader = a.stdin
	switch {
	case o.fdGiven && o.fd != 0:
		f := os.NewFile(uintptr(o.fd), "secret")
		if o.fd < 0 || f == nil {
			return nil, &misuse{"--secret-fd is not a descriptor", "give the number of an open descriptor"}
		}
		defer f.Close()
		src = &interruptible{ctx: ctx, src: f}
	case o.file != "" && o.file != "-":
		f, err := openNamed(ctx, o.file)
		switch {
		case errors.Is(err, context.Canceled):
			return nil, err
		case err != nil:
			return nil, &misuse{"--secret-file cannot be read", "name a file that contains the secret, or - for standard input"}
		}
		defer f.Close()
		src = f
	case isTerminal(a.in):
		fmt.Fprint(a.messages(), "Secret (not shown, one line): ")
		secret, err := hidden(ctx, a.in, a.stdin)
		fmt.Fprintln(a.errs)
		return secret, err
	}
	secret, err := io.ReadAll(io.LimitReader(src, maxSecret+3))
	switch {
	case errors.Is(err, context.Canceled):
		return nil, err
	case err != nil:
		return nil, &misuse{"the secret cannot be read", "name a file, or an open descriptor, that contains it"}
	}
	if secret = withoutNewline(secret); len(secret) > maxSecret {
		return nil, &misuse{"the secret has more than 1 MiB", "is it the right file?"}
	}
	return secret, nil
}

// withoutNewline removes one newline at the end.
func withoutNewline(text []byte) []byte {
	if rest, ok := bytes.CutSuffix(text, []byte("\n")); ok {
		return bytes.TrimSuffix(rest, []byte("\r"))
	}
	return text
}

// hidden reads a line without echo. Ctrl-C ends the wait and restores the
// terminal.
func hidden(ctx context.Context, in, stdin io.Reader) ([]byte, error) {
	f, ok := in.(*os.File)
	if !ok { // a test replaces the terminal
		return lineOf(stdin)
	}
	fd := int(f.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, &misuse{"the terminal cannot be read without echo", "use --secret-file"}
	}
	line, err := await(ctx, func() ([]byte, error) { return term.ReadPassword(fd) }, func([]byte) {})
	switch {
	case errors.Is(err, context.Canceled):
		term.Restore(fd, before)
	case err != nil && !errors.Is(err, io.EOF):
		return nil, &misuse{"the terminal cannot be read", "use --secret-file"}
	default:
		err = nil
	}
	return line, err
}

// lineOf reads one line, and no byte after it.
func lineOf(r io.Reader) ([]byte, error) {
	var line []byte
	for b := make([]byte, 1); len(line) < maxSecret; {
		n, err := r.Read(b)
		if n > 0 && b[0] == '\n' || err == io.EOF {
			return bytes.TrimSuffix(line, []byte("\r")), nil
		}
		if err != nil {
			return nil, err
		}
		line = append(line, b[:n]...)
	}
	return line, nil
}

// confirmed asks a person for confirmation.
func (a *app) confirmed(o eraseOptions) error {
	if o.yes || o.request.DryRun || !isTerminal(a.in) {
		return nil
	}
	answer, err := a.answerTo("Erase it permanently? Versions in history that contain it cannot be restored. Type yes: ")
	if err == nil && answer != "yes" {
		return &declined{of: rw.NewError(a.command, rw.ErrCanceled, "--dry-run reports where the secret is", nil)}
	}
	return err
}

func showErase(p *printer, r admin.EraseResult) {
	switch {
	case len(r.Places) == 0:
		p.line("%s the state directory does not contain it", p.paint(green, "erase"))
	case r.DryRun:
		p.line("%s nothing was changed; the state directory contains it in:", p.paint(yellow, "dry run"))
	default:
		p.line("%s removed from:", p.paint(green, "erase"))
	}
	rows(p, []string{"place", "things"}, r.Places, func(one admin.ErasedPlace) []string { return []string{one.Place, fmt.Sprint(one.Count)} })
	for _, list := range []struct {
		color, what string
		names       []string
	}{
		{yellow, "removed whole:", r.Removed}, {red, "state directory: still contains it", r.Left}, {red, "workspace: still contains it", r.Workspace},
	} {
		for _, name := range list.names {
			p.line("%s %s", p.paint(list.color, list.what), printable(name))
		}
	}
	if r.WorkspaceMore {
		p.line("%s", p.paint(red, "workspace: more files contain it than are listed"))
	}
	if r.Unreadable > 0 {
		p.line("%s", p.paint(yellow, several(r.Unreadable, "file")+" of the workspace could not be read"))
	}
}
