package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	rw "github.com/resilientwrite/resilientwrite"
)

// eraseOptions are the flags of erase. None of them takes the secret: a command
// line stands in the history of the shell and in the list of processes.
type eraseOptions struct {
	request  rw.EraseRequest
	file     string
	fd       int
	fdGiven  bool
	yes      bool
	byNumber bool // --sha256 or --draft-ref
}

// maxSecret bounds what is read as a secret: more is a mix-up.
const maxSecret = 1 << 20

// erase erases a leaked secret.
func (a *app) erase() *cobra.Command {
	var o eraseOptions
	cmd := &cobra.Command{
		Use: "erase", Short: "Erase a leaked secret from the state directory", GroupID: "upkeep",
		Long: `Erase a leaked secret from every part of the state directory: journal, archive,
history, scratchpad, drafts, sessions, checkpoints, handoffs, names of files. It
is looked for as it is, escaped as in JSON, in base64, in hexadecimal and
percent-encoded.

The secret comes from --secret-file, from --secret-fd, or from standard input,
never from the command line; on a terminal it is asked for and not shown. One
newline at its end, if there is one, is not a part of it; everything else is.

Revoke the secret and clean the files of the workspace first: they are not
touched, and a write that replaces one keeps its old bytes in history. What
copies, backups, git and the transcript of the agent hold is out of reach.

The exit code is 7 when files of the state directory still hold the secret, and
6 when only files of the workspace do, or could not be looked into. It is the
same with --dry-run. Killed at any point it leaves a sound store, and the next
call finishes.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 { // which may be the secret, so it is not told
				return &misuse{"erase takes no arguments", "a secret on the command line is seen by others; give it on standard input, or with --secret-file"}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.fdGiven = cmd.Flags().Changed("secret-fd")
			o.byNumber = o.request.SHA256 != "" || o.request.DraftRef != ""
			return a.runErase(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.file, "secret-file", "", "`file` that holds the secret; - for standard input, the default")
	f.IntVar(&o.fd, "secret-fd", 0, "open file `descriptor` that the secret is read from")
	f.StringVar(&o.request.SHA256, "sha256", "", "instead of the secret: erase everything whose whole content has this `hash`")
	f.StringVar(&o.request.DraftRef, "draft-ref", "", "instead of the secret: erase everything whose whole content is that of this refused `draft`")
	f.StringVar(&o.request.Reason, "reason", "", "why; it stands in the journal, so it must not name the secret")
	f.BoolVar(&o.request.SkipWorkspace, "skip-workspace", false, "do not look for files of the workspace that still hold it")
	f.BoolVar(&o.request.DryRun, "dry-run", false, "count where it is, change nothing")
	f.BoolVar(&o.yes, "yes", false, "do not ask on a terminal whether it is meant")
	callerFlag(f, &o.request.Caller)
	cmd.SetFlagErrorFunc(quietFlagError)
	return cmd
}

// quietFlagError refuses a flag without telling what was given with it, which
// may be the secret.
func quietFlagError(cmd *cobra.Command, err error) error {
	u := &misuse{"a flag does not exist or does not read", "run " + cmd.CommandPath() + " --help; no flag takes the secret itself"}
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
	sources := 0
	for _, is := range []bool{o.file != "", o.fdGiven, o.request.SHA256 != "", o.request.DraftRef != ""} {
		if is {
			sources++
		}
	}
	if sources > 1 {
		return &misuse{"more than one way to name the secret", "give one of --secret-file, --secret-fd, --sha256 and --draft-ref"}
	}
	r := o.request
	if !o.byNumber {
		secret, err := a.secret(ctx, o)
		if err != nil {
			return err
		}
		defer clear(secret)
		if len(secret) == 0 {
			return &misuse{"there is no secret", "what was given is empty"}
		}
		r.Secret = secret
	}
	if err := a.confirmed(o); err != nil {
		return err
	}
	// The name of the session is judged with the request: nothing may have
	// been written under it before.
	r.Session, a.session = a.session, ""
	return a.withOldStore(ctx, false, func(ctx context.Context, s *rw.Store) error {
		out, err := s.Erase(ctx, r)
		if err != nil {
			return err
		}
		if err := a.reply(out, showErase); err != nil {
			return err
		}
		a.left(rw.CodePrecondition, len(out.Workspace) > 0 || out.Unreadable > 0)
		a.left(rw.CodeStorage, len(out.Left) > 0)
		return nil
	})
}

// secret reads the secret. No error tells what was read, nor the name of the
// file, which may be the secret given by mistake.
func (a *app) secret(ctx context.Context, o eraseOptions) ([]byte, error) {
	var src io.Reader = a.stdin
	switch {
	case o.fdGiven && o.fd != 0:
		if o.fd < 0 {
			return nil, &misuse{"--secret-fd is no descriptor", "give the number of an open one"}
		}
		f := os.NewFile(uintptr(o.fd), "secret")
		if f == nil {
			return nil, &misuse{"--secret-fd is no descriptor", "give the number of an open one"}
		}
		defer f.Close()
		src = &interruptible{ctx: ctx, src: f}
	case o.file != "" && o.file != "-":
		f, err := openNamed(ctx, o.file)
		switch {
		case errors.Is(err, context.Canceled):
			return nil, err
		case err != nil:
			return nil, &misuse{"--secret-file cannot be read", "it names a file that holds the secret; - is standard input"}
		}
		defer f.Close()
		src = f
	case isTerminal(a.in):
		fmt.Fprint(a.told(), "Secret (not shown, one line): ")
		secret, err := hidden(ctx, a.in, a.stdin)
		fmt.Fprintln(a.errs)
		return secret, err
	}
	secret, err := io.ReadAll(io.LimitReader(src, maxSecret+3))
	switch {
	case errors.Is(err, context.Canceled):
		return nil, err
	case err != nil:
		return nil, &misuse{"the secret cannot be read", "name a file, or an open descriptor, that holds it"}
	}
	if secret = withoutNewline(secret); len(secret) > maxSecret {
		return nil, &misuse{"the secret has more than 1 MiB", "a secret is short; is it the right file?"}
	}
	return secret, nil
}

// withoutNewline takes away one newline at the end.
func withoutNewline(text []byte) []byte {
	if rest, ok := bytes.CutSuffix(text, []byte("\n")); ok {
		return bytes.TrimSuffix(rest, []byte("\r"))
	}
	return text
}

// hidden reads a line that is typed and not shown. Ctrl-C ends the wait, and
// leaves the terminal as it was.
func hidden(ctx context.Context, in, stdin io.Reader) ([]byte, error) {
	f, ok := in.(*os.File)
	if !ok { // a test plays the terminal
		return lineOf(stdin)
	}
	fd := int(f.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, &misuse{"the terminal cannot be read without showing what is typed", "use --secret-file"}
	}
	type typed struct {
		line []byte
		err  error
	}
	done := make(chan typed, 1)
	go func() {
		line, err := term.ReadPassword(fd)
		done <- typed{line, err}
	}()
	select {
	case t := <-done:
		if t.err != nil && !errors.Is(t.err, io.EOF) {
			return nil, &misuse{"the terminal cannot be read", "use --secret-file"}
		}
		return t.line, nil
	case <-ctx.Done():
		term.Restore(fd, before)
		return nil, ctx.Err()
	}
}

// lineOf reads one line, and nothing behind it.
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

// confirmed asks a person whether it is meant.
func (a *app) confirmed(o eraseOptions) error {
	if o.yes || o.request.DryRun || !isTerminal(a.in) {
		return nil
	}
	fmt.Fprint(a.told(), "Erase it for good? What held it in history cannot be brought back. Type yes: ")
	answer, err := lineOf(a.stdin)
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(answer)) != "yes" {
		return rw.NewError(a.command, rw.Canceled, "it was not confirmed, and nothing was changed; --dry-run tells where the secret is", nil)
	}
	return nil
}

func showErase(p *printer, r reply) {
	dry := r.object("receipt").text("dry_run") == "true"
	var rows [][]string
	for _, one := range r.list("places") {
		rows = append(rows, []string{one.text("place"), one.text("count")})
	}
	switch {
	case len(rows) == 0:
		p.line("%s the state directory does not hold it", p.paint(green, "erase"))
	case dry:
		p.line("%s nothing was changed; the state directory holds it in:", p.paint(yellow, "dry run"))
	default:
		p.line("%s it was erased from:", p.paint(green, "erase"))
	}
	if len(rows) > 0 {
		p.table([]string{"place", "things"}, rows)
	}
	for _, one := range []struct{ field, words string }{
		{"left", "state directory: still holds it"}, {"workspace", "workspace: still holds it"},
	} {
		names, _ := r.fields[one.field].([]any)
		for _, name := range names {
			p.line("%s %s", p.paint(red, one.words), printable(word(name)))
		}
	}
	if r.text("workspace_more") == "true" {
		p.line("%s", p.paint(red, "workspace: more files hold it than are named"))
	}
	if n := r.text("unreadable"); n != "" && n != "0" {
		p.line("%s", p.paint(yellow, n+" files of the workspace could not be looked into"))
	}
}
