package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/endsignal"
	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// operator is the caller if --caller is not given.
const operator = "operator"

// app is one run of the command.
type app struct {
	args []string
	env  func(string) string
	in   io.Reader // to find out its kind; it is read through stdin
	out  *output
	errs io.Writer // terminal check and progress bar; messages go to messages()

	stdin io.Reader // content of in, until Ctrl-C

	set     settings
	json    bool
	color   string
	session string

	resultOut string
	resultFD  descriptor
	results   *resultPlaces // nil until they were checked
	progress  *progressLog
	progFD    descriptor
	wipeBar   func() // removes the progress bar; nil if there is none

	command string // what is being run, for the result
	done    outcome

	streams bool    // standard output belongs to a command that is run, unless json is set
	failing rw.Code // of every error; 0: its own
}

// outcome is the result of a run: the reply, if there is one, and the code.
type outcome struct {
	code  rw.Code
	reply json.RawMessage // reply that an MCP client would have received
}

// misuse is an error of the command line: code 2.
type misuse struct{ what, hint string }

func (u *misuse) Error() string { return u.what }

// declined is the error of a question that a person answered with no.
type declined struct{ of *rw.Error }

func (*declined) Error() string { return "nothing was changed, because it was not confirmed" }

// operate runs a subcommand other than serve.
func operate(args []string, env func(string) string, in io.Reader, out, errs io.Writer) rw.Code {
	log.SetOutput(io.Discard) // libraries may print content
	a := &app{args: args, env: env, in: in, out: &output{w: out}, errs: errs}
	ctx, stop := endsignal.Context()
	defer atEnd(stop)
	a.out.ctx = ctx
	a.stdin = &interruptible{ctx: ctx, src: in}
	ignoreSizeSignal()
	a.resultOut = early(args, "--result-out")
	a.resultFD.Set(early(args, "--result-fd")) // an error is reported when the flag is read
	root := a.root()
	root.SetArgs(args)
	return a.end(root.ExecuteContext(ctx))
}

// early finds the value of a flag before the flags are parsed, so that it
// applies even if another flag is wrong.
func early(args []string, name string) string {
	value := ""
	for i, arg := range args {
		switch rest, ok := strings.CutPrefix(arg, name+"="); {
		case arg == "--":
			return value
		case ok:
			value = rest
		case arg == name && i+1 < len(args):
			value = args[i+1]
		}
	}
	return value
}

// end is the only place where a run ends: it reports errors, writes the result
// where the caller wants it, and returns the code.
func (a *app) end(err error) rw.Code {
	var u *misuse
	var r *refusal
	var no *declined
	if lost := a.out.failed(); lost != nil && !errors.Is(lost, context.Canceled) && errors.Is(err, lost) && !errors.As(err, new(*rw.Error)) {
		err = nil // standard output failed, which is reported below
	}
	switch {
	case err == nil:
	case errors.As(err, &r):
		code, _ := r.env.Context["code"].(float64)
		a.done.code = rw.Code(code)
		a.tell(r.Error(), advice(r.text("hint"), r.env.Context))
	case errors.As(err, &u):
		a.fail(rw.NewError(a.command, rw.ErrInvalidArgument, u.hint, map[string]any{"problem": u.what}), u.what, rw.CodeUsage)
	case errors.As(err, &no):
		a.fail(no.of, no.Error(), no.of.Code())
	default:
		var e *rw.Error
		if errors.Is(err, context.Canceled) && !errors.As(err, &e) { // while reading the input
			err = rw.NewError(a.command, rw.ErrCanceled, "", nil)
		}
		e = rw.AsError(a.command, err)
		a.fail(e, e.Error(), e.Code())
	}
	if lost := a.out.failed(); lost != nil && !errors.Is(err, lost) {
		a.resultLost(lost)
	}
	if a.done.code != rw.CodeOK && a.failing != 0 {
		a.done.code = a.failing
	}
	if err := a.leaveResult(); err != nil {
		a.alsoFailed(err, "")
	}
	if a.progress != nil {
		a.progress.write(progressEvent{Event: "end", Command: a.command, Code: &a.done.code})
	}
	return a.done.code
}

// resultLost reports that standard output did not accept the reply. Neither the
// call nor the result of --result-out is affected.
func (a *app) resultLost(err error) {
	if errors.Is(err, context.Canceled) && a.done.code != rw.CodeOK {
		return // already reported
	}
	if a.done.reply == nil {
		detail := rw.ErrIO
		if errors.Is(err, syscall.ENOSPC) {
			detail = rw.ErrDiskFull
		}
		e := rw.NewError(a.command, detail, "standard output did not take the result", nil)
		a.done.reply, _ = schema.Encode(e.Envelope())
	}
	a.alsoFailed(err, "; completed changes remain")
}

// alsoFailed reports that a result could not be written after the outcome was
// already known.
func (a *app) alsoFailed(err error, then string) {
	code, what := rw.CodeStorage, plainError(err)
	var u *misuse
	var e *rw.Error
	switch {
	case errors.As(err, &u):
		code = rw.CodeUsage
	case errors.As(err, &e):
		what = e.Hint
	case errors.Is(err, context.Canceled):
		what = "interrupted before it was read"
	}
	a.done.code = max(a.done.code, code)
	fmt.Fprintf(a.messages(), "resilient-write: the result could not be written: %s%s\n", what, then)
}

// fail reports an error: a sentence for people, the envelope for programs.
func (a *app) fail(e *rw.Error, what string, code rw.Code) {
	if a.done.reply == nil {
		env := e.Envelope()
		env.Context["code"] = code
		if e.Hint != "" {
			env.Context["hint"] = toolbox.NameTools(e.Hint)
		}
		a.done.reply, _ = schema.Encode(env)
		if a.forPrograms() {
			a.document(a.done.reply)
		}
	}
	a.done.code = code
	a.tell(what, advice(e.Hint, e.Context))
}

// tell prints an error and how to correct it, on one line: no name in it can look like another
// line.
func (a *app) tell(what, advice string) {
	fmt.Fprintf(a.messages(), "resilient-write: %s\n", printable(strings.TrimSuffix(what+"; "+advice, "; ")))
}

// advice is a hint for people, with the draft that it is about.
func advice(hint string, context map[string]any) string {
	ref, _ := context["draft_ref"].(string)
	return strings.Replace(spoken(hint), "with --draft-ref", strings.TrimSpace("with --draft-ref "+ref), 1)
}

// messages returns the writer for messages: standard error.
func (a *app) messages() io.Writer { return plain{a.errs} }

// document prints a reply as JSON.
func (a *app) document(doc []byte) error {
	if isTerminal(a.out.w) {
		doc = escaped(doc)
	}
	_, err := fmt.Fprintf(a.out, "%s\n", doc)
	return err
}

// forPrograms reports whether the reply is for a program: JSON.
func (a *app) forPrograms() bool { return a.json || !a.streams && !isTerminal(a.out.w) }

// isTerminal reports whether a stream is a terminal. Tests replace it.
var isTerminal = func(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// dumb reports whether the terminal understands no control sequences.
func (a *app) dumb() bool { return a.env("TERM") == "dumb" }

// root is the command with all its subcommands.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "resilient-write",
		Short: "Durable file writes for coding agents and their operators",
		Long: `resilient-write writes files atomically: a crash leaves the old content or the
new one. It keeps earlier versions and reports failures with what to do next.

Without a subcommand it serves MCP on standard input and output, except on a
terminal, where it shows this help and the state of the directory.`,
		SilenceErrors: true, SilenceUsage: true,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.welcome(cmd)
			}
			return unknownCommand(cmd, args)
		},
	}
	root.SetOut(a.out)
	root.SetErr(a.messages())
	a.globalFlags(root.PersistentFlags())
	complete(root, "color", "auto", "always", "never")
	complete(root, "sync", "full", "journal", "off")
	complete(root, "gate", "block", "advise", "off")
	root.Flags().Bool("version", false, "print the version") // run replaces it with the subcommand
	root.SetFlagErrorFunc(flagError)
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		cmd.Long = folded(spoken(cmd.Long), 80)
		for _, flags := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
			flags.VisitAll(func(f *pflag.Flag) { f.Usage = folded(spoken(f.Usage), 64) })
		}
		help(cmd, args)
	})
	root.AddGroup(
		&cobra.Group{ID: "files", Title: "Files:"},
		&cobra.Group{ID: "work", Title: "Work in progress:"},
		&cobra.Group{ID: "look", Title: "Inspection:"},
		&cobra.Group{ID: "upkeep", Title: "Upkeep:"},
	)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return a.begin(cmd) }
	root.AddCommand(a.commands()...)
	root.AddCommand(a.serving())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help": // cobra's own help succeeds for a wrong name
			cmd.Run, cmd.RunE = nil, helpTopic
		case "completion":
			cmd.Args, cmd.RunE = cobra.ArbitraryArgs, unknownCommand
		}
	}
	return root
}

// serving is the subcommand serve, for help and completion: run handles it before cobra.
func (a *app) serving() *cobra.Command {
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve MCP over standard input and output, or HTTP (see serve -h)", GroupID: "work", Args: noArguments, Run: func(*cobra.Command, []string) {},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags, _ := newFlags(a.env)
	cmd.Flags().AddFlagSet(flags)
	for flag, values := range map[string][]string{
		"transport": {"stdio", "http", "sse"}, "tier": {"core", "standard", "full"}, "replies": {"brief", "full"},
		"sync": {"full", "journal", "off"}, "gate": {"block", "advise", "off"},
	} {
		complete(cmd, flag, values...)
	}
	return cmd
}

// complete offers the values of a flag to the shell.
func complete(cmd *cobra.Command, flag string, values ...string) {
	cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// globalFlags adds the flags of every subcommand except serve. They may precede
// it.
func (a *app) globalFlags(f *pflag.FlagSet) {
	a.set.storeFlags(f, a.env)
	f.StringVar(&a.session, "session", "", "name of the session, recorded in the journal")
	f.BoolVar(&a.json, "json", false, "print JSON even on a terminal")
	f.StringVar(&a.color, "color", "auto", "auto, always or never; auto prints colors on a terminal, unless NO_COLOR is set or TERM is dumb")
	f.StringVar(&a.resultOut, "result-out", a.resultOut, "write the receipt to this `file` atomically, on success, failure and refusal")
	f.Var(&a.resultFD, "result-fd", "write the receipt to this open file `descriptor`")
	f.Var(&a.progFD, "progress-fd", "write progress as JSON lines to this open file `descriptor`")
}

// begin evaluates the flags that every subcommand has.
func (a *app) begin(cmd *cobra.Command) error {
	a.command = strings.TrimPrefix(cmd.CommandPath(), "resilient-write ")
	switch a.color {
	case "auto", "always", "never":
	default:
		return &misuse{"--color has an unknown value", "use auto, always or never"}
	}
	if cmd.Flags().Changed("result-out") && a.resultOut == "" {
		return &misuse{"--result-out names no file", "name a file, or omit the flag"}
	}
	if err := a.tryResults(); err != nil {
		return err
	}
	if a.progFD != 0 {
		f, err := a.progFD.open("--progress-fd")
		if err != nil {
			return err
		}
		a.progress = &progressLog{w: f}
		a.progress.write(progressEvent{Event: "begin", Command: a.command})
	}
	return nil
}

// withStore opens the store, does the work, and closes the store again. A
// command that only reads creates no store and recovers nothing.
func (a *app) withStore(ctx context.Context, looks bool, work func(context.Context, *rw.Store) error) error {
	o := a.set.options(a.env, operator)
	o.Session, o.ReadOnly, o.ProtectDefaults = a.session, o.ReadOnly || looks, rw.ProtectWarn
	store, err := rw.Open(rw.WithGate(ctx, rw.GateOfAgents), a.set.root, o)
	if err != nil {
		return err
	}
	a.tellPlace(store.Recovery().Warnings)
	ctx, done := a.withProgress(rw.WithOperator(ctx))
	err = work(ctx, store)
	done()
	return errors.Join(err, store.Close(context.WithoutCancel(ctx)))
}

// plainError returns the text of an error without the paths in it.
func plainError(err error) string {
	var p *os.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		return p.Op + ": " + plainError(p.Err)
	case errors.As(err, &l):
		return l.Op + ": " + plainError(l.Err)
	}
	return err.Error()
}
