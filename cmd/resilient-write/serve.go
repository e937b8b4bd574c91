package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/endsignal"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/surface"
	"github.com/resilientwrite/resilientwrite/mcpserver"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// settings holds the flags and the environment; flags take precedence.
type settings struct {
	root, stateDir, sync, transport string
	policyFile, gate, tier          string
	tools, replies                  string
	readOnly, unsafe, dotted        bool
	trustPolicy, worktrees, inPlace bool
	allowRoots                      []string
	dashboard                       string
	board                           net.Listener // of the dashboard
	http                            httpSettings
}

func newFlags(env func(string) string) (*pflag.FlagSet, *settings) {
	s := &settings{}
	f := pflag.NewFlagSet("resilient-write", pflag.ContinueOnError)
	f.Usage, f.SortFlags = func() {}, false // serve reports errors itself, in one line
	s.storeFlags(f, env)
	f.StringVar(&s.root, "workspace", s.root, "the same as --root")
	f.StringVar(&s.transport, "transport", "stdio", "stdio, http (streamable HTTP at /mcp) or sse (that and the deprecated /sse)")
	f.StringVar(&s.tier, "tier", "", "which tools are listed: core (7), standard (12) or full (all); default standard")
	f.StringVar(&s.tools, "tools", "", "further tools to list: `names` with commas, such as scratch_put,checkpoint")
	f.StringVar(&s.replies, "replies", env("RW_REPLIES"), "form of replies: brief, or full with structured content; default full with --tier full and --dotted-names, else brief (RW_REPLIES)")
	f.StringArrayVar(&s.allowRoots, "allow-root", nil, "also serve this `directory`, with a state of its own, and roots in it that the client declares; may be repeated")
	f.BoolVar(&s.worktrees, "worktrees", false, "also serve the other work trees of the repository, each with a state of its own")
	f.BoolVar(&s.dotted, "dotted-names", false, "list tools as rw.safe_write instead of rw_safe_write")
	f.StringVar(&s.dashboard, "dashboard", "", "also serve a live view for a browser at this loopback `address`, such as 127.0.0.1:8010; port 0 selects a free one; the address with its token is printed to stderr")
	s.http.flags(f)
	return f, s
}

// storeFlags adds the flags that select the store and how it is opened, to
// those of serve and to those of the subcommands.
func (s *settings) storeFlags(f *pflag.FlagSet, env func(string) string) {
	f.StringVar(&s.root, "root", cmp.Or(env("RW_WORKSPACE"), "."), "workspace `directory` (RW_WORKSPACE)")
	f.StringVar(&s.stateDir, "state-dir", env("RW_STATE_DIR"), "state `directory`; default: the one that exists, else in the repository's git directory, in the user's state, or .resilient_write in the workspace (RW_STATE_DIR)")
	f.StringVar(&s.sync, "sync", env("RW_SYNC"), "durability: full, journal or off; default full (RW_SYNC)")
	f.StringVar(&s.policyFile, "policy-file", "", "policy `file`, which takes precedence over all flags; default policy.yaml in the state directory (RW_POLICY_FILE)")
	f.StringVar(&s.gate, "gate", "", "content gate: block, advise or off; default block. A policy file in the state directory can only make it stricter")
	f.BoolVar(&s.trustPolicy, "trust-workspace-policy", false, "let the policy file in the state directory weaken defaults even if git tracks it")
	f.BoolVar(&s.inPlace, "in-place-on-busy", false, "write a file in place if it cannot be replaced, such as one that is mounted into a container; readers can see old and new bytes mixed")
	f.BoolVar(&s.readOnly, "read-only", false, "open read-only")
	f.BoolVar(&s.unsafe, "allow-unsafe-root", env("RW_ALLOW_UNSAFE_ROOT") == "1", "accept a system or home directory (RW_ALLOW_UNSAFE_ROOT=1)")
}

// options returns the options of the store for a caller. A policy file that
// only the variable names need not exist, and an invalid file makes calls fail,
// not the start.
func (s *settings) options(env func(string) string, caller string) *rw.Options {
	o := &rw.Options{
		Sync: rw.SyncLevel(s.sync), StateDir: s.stateDir, ReadOnly: s.readOnly, InPlaceOnBusy: s.inPlace,
		AllowUnsafeRoot: s.unsafe, Caller: caller, PolicyFile: s.policyFile, TrustWorkspacePolicy: s.trustPolicy, ServeWithBadPolicy: true,
		Gate: rw.Gate{Mode: rw.GateMode(s.gate)}, DisableScratchGet: env("RW_SCRATCH_DISABLE_GET") != "",
	}
	if o.PolicyFile == "" {
		o.PolicyFile, o.PolicyFileOptional = env("RW_POLICY_FILE"), true
	}
	return o
}

// printUsage prints the flags, and the variables that the command reads, from the list
// that describe also shows.
func printUsage(w io.Writer, f *pflag.FlagSet) {
	f.VisitAll(func(one *pflag.Flag) { one.Usage = folded(one.Usage, 64) })
	fmt.Fprint(w, usage, f.FlagUsages(), "\nenvironment; a flag wins over its variable:\n")
	for _, v := range surface.Environment() {
		text := v.Meaning
		if v.Default != "" {
			text += " Default: " + v.Default + "."
		}
		if v.Flag != "" {
			text += " Flag: --" + v.Flag + "."
		}
		fmt.Fprintf(w, "  %s\n    \t%s\n", v.Name, text)
	}
}

// serve answers clients until the input ends or a signal arrives. Calls in
// progress are then finished. asked reports whether it was called by its name.
func serve(args []string, env func(string) string, in io.Reader, out, errs io.Writer, asked bool) rw.Code {
	errs = plain{errs}
	flags, set := newFlags(env)
	given, rest := leading(flags, args)
	if len(rest) > 0 && isFlag(rest[0]) && len(rest[0]) > 2 { // it is no flag; the error names it as one
		rest = slices.Concat([]string{"--" + strings.TrimLeft(rest[0], "-")}, rest[1:])
	}
	switch err := flags.Parse(slices.Concat(given, rest)); {
	case errors.Is(err, pflag.ErrHelp):
		printUsage(errs, flags)
		return rw.CodeOK
	case err != nil:
		var more []string
		if !asked {
			more = globalNames(env)
		}
		flags.VisitAll(func(f *pflag.Flag) { more = append(more, f.Name) })
		u := describeFlagError(err, more, "run resilient-write serve -h")
		return usageError(errs, u.what, u.hint)
	case flags.NArg() > 0:
		return usageError(errs, "serve takes no arguments", "run resilient-write help")
	}
	if what, hint := set.checkList(); what != "" {
		return usageError(errs, what, hint)
	}
	// Libraries may print what clients sent.
	log.SetOutput(io.Discard)
	logs := slog.New(slog.NewJSONHandler(errs, nil))
	ignoreSizeSignal()
	ignorePipeSignal()
	ctx, stop := endsignal.Context()
	defer atEnd(stop)

	switch set.transport {
	case "stdio":
		if name := set.http.given(flags); name != "" {
			return usageError(errs, fmt.Sprintf("--%s has no effect over stdio", name), "add --transport http")
		}
		if isTerminal(in) {
			fmt.Fprintln(errs, "resilient-write: serving MCP on this terminal until Ctrl-D; run resilient-write --help for the subcommands")
		}
		return withStore(ctx, set, env, logs, errs, func(store *rw.Store, o *mcpserver.Options) error {
			// Claude Code passes the session of its hooks to its servers in this
			// variable, and in no call. An empty value is ignored.
			of := toolbox.WithCallOpts(ctx, toolbox.CallOpts{Session: env("CLAUDE_CODE_SESSION_ID")})
			return mcpserver.ServeStdio(of, mcpserver.New(store, o), in, out)
		})
	case "http", "streamable-http", "sse":
		return serveHTTP(ctx, set, env, logs, errs)
	}
	transports := []string{"stdio", "http", "streamable-http", "sse"}
	return usageError(errs, "unknown transport", didYouMean(set.transport, "", transports, "the transports are stdio, http and sse"))
}

// added returns the tools that are listed in addition to those of the tier.
func (s *settings) added() []string {
	return strings.FieldsFunc(s.tools, func(c rune) bool { return c == ',' || c == ' ' })
}

// checkList describes what is wrong with the settings of the list and of
// replies, or returns "" if nothing is.
func (s *settings) checkList() (what, hint string) {
	if s.tier != "" {
		if _, err := toolbox.ParsePreset(s.tier); err != nil {
			tiers := []string{"core", "standard", "full"}
			return "unknown tier", didYouMean(s.tier, "", tiers, "the tiers are core, standard and full")
		}
	}
	if s.replies != "" {
		if _, err := toolbox.ParseReplies(s.replies); err != nil {
			return "unknown form of replies", didYouMean(s.replies, "", []string{"brief", "full"}, "replies are brief or full")
		}
	}
	names := toolNames()
	for _, name := range s.added() {
		if name = plainTool(name); !slices.Contains(names, name) {
			return "unknown tool", didYouMean(name, "", names, "resilient-write serve --tier full lists all tools")
		}
	}
	return "", ""
}

// withStore opens the store, does the work, and closes the store again.
func withStore(ctx context.Context, set *settings, env func(string) string, logs *slog.Logger, errs io.Writer, work func(*rw.Store, *mcpserver.Options) error) rw.Code {
	if err := set.listenDashboard(); err != nil {
		return reportHTTP(errs, err)
	}
	store, err := rw.Open(rw.WithGate(ctx, rw.GateOfAgents), set.root, set.options(env, "mcp"))
	if err != nil {
		return report(errs, err)
	}
	logRecovery(logs, store.Recovery())
	spaces := set.workspaces(env, logs)
	err = set.besideDashboard(ctx, env, logs, errs, store, func() error {
		return work(store, &mcpserver.Options{
			Workspaces: spaces, Tier: mcpserver.Preset(set.tier), Tools: set.added(), Replies: mcpserver.Replies(set.replies), DottedNames: set.dotted, Logger: logs,
		})
	})
	if spaces != nil {
		err = errors.Join(err, spaces.Close(context.Background()))
	}
	err = cmp.Or(err, store.Close(context.Background()))
	if err != nil {
		return report(errs, err)
	}
	return rw.CodeOK
}

// workspaces returns the roots in addition to --root, or nil if there are none.
func (s *settings) workspaces(env func(string) string, logs *slog.Logger) *mcpserver.Workspaces {
	if len(s.allowRoots) == 0 && !s.worktrees {
		return nil
	}
	w := &mcpserver.Workspaces{Root: absolute(s.root), Worktrees: s.worktrees}
	for _, dir := range s.allowRoots {
		w.Allow = append(w.Allow, absolute(dir))
	}
	w.Open = func(ctx context.Context, root string) (*rw.Store, error) {
		o := s.options(env, "mcp")
		if filepath.IsAbs(o.StateDir) { // belongs to one workspace
			o.StateDir = ""
		}
		store, err := rw.Open(rw.WithGate(ctx, rw.GateOfAgents), root, o)
		if err == nil {
			logRecovery(logs, store.Recovery())
		}
		return store, err
	}
	return w
}

// absolute returns an absolute path, with links resolved as far as it exists.
func absolute(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return dir
	}
	return relpath.Resolved(abs)
}

// report prints an error on one line and returns its code.
func report(errs io.Writer, err error) rw.Code {
	e := rw.AsError("serve", err)
	fmt.Fprintln(errs, "resilient-write: "+strings.TrimSuffix(fmt.Sprintf("%v; %s", e, e.Hint), "; "))
	return e.Code()
}

func logRecovery(log *slog.Logger, r rw.RecoveryReport) {
	if n := len(r.Finished) + len(r.Aborted) + len(r.Conflicts) + r.Swept; n > 0 || r.TornBytes > 0 {
		log.Info("recovered", "finished", len(r.Finished), "aborted", len(r.Aborted),
			"conflicts", len(r.Conflicts), "swept", r.Swept, "torn_bytes", r.TornBytes)
	}
	for _, w := range r.Warnings {
		log.Warn("open", "reason", w.Reason, "hint", w.Hint)
	}
}

// listenDashboard listens on the address of --dashboard, before the store is
// opened.
func (s *settings) listenDashboard() error {
	if s.dashboard == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(s.dashboard)
	if err != nil {
		return &misuse{"--dashboard is no address", "give host and port, such as 127.0.0.1:8010"}
	}
	if !isLoopback(host) {
		return &misuse{"--dashboard is served on a loopback address only", "use 127.0.0.1, and a tunnel from another machine"}
	}
	if s.board, err = net.Listen("tcp", s.dashboard); err != nil {
		return fmt.Errorf("the dashboard cannot listen: %w", pathless(err))
	}
	return nil
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// besideDashboard does the work, and serves the dashboard at the same time if
// there is one.
func (s *settings) besideDashboard(ctx context.Context, env func(string) string, logs *slog.Logger, errs io.Writer, store *rw.Store, work func() error) error {
	if s.board == nil {
		return work()
	}
	d := mcpserver.Dashboard{
		Open: func(ctx context.Context) (*rw.Store, error) {
			o := s.options(env, operator)
			o.ReadOnly = true
			return rw.Open(rw.WithGate(ctx, rw.GateOfAgents), s.root, o)
		},
		Undo: store, State: s.stateDirectory(),
	}
	if s.readOnly {
		d.Undo = nil
	}
	h, err := mcpserver.NewDashboard(d, &mcpserver.HTTPOptions{Logger: logs})
	if err != nil {
		s.board.Close()
		return err
	}
	fmt.Fprintf(errs, "resilient-write dashboard: http://%s/#%s\n", s.board.Addr(), h.Token())
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(ctx, s.board) }()
	err = work()
	stop()
	return errors.Join(err, <-ended)
}
