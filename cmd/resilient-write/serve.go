package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/durable"
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
	f.BoolVar(&s.dotted, "dotted-names", false, "list tools with a dot in their names, as rw.safe_write")
	f.StringVar(&s.dashboard, "dashboard", "", "also serve a live view for a browser at this loopback `address`, such as 127.0.0.1:8010; port 0 selects a free one; the address with its token is printed to stderr")
	s.http.flags(f)
	return f, s
}

// storeFlags adds the flags that select the store and how it is opened, to
// those of serve and to those of the subcommands.
func (s *settings) storeFlags(f *pflag.FlagSet, env func(string) string) {
	f.StringVar(&s.root, "root", cmp.Or(env("RW_WORKSPACE"), "."), "workspace `directory` (RW_WORKSPACE)")
	f.StringVar(&s.stateDir, "state-dir", env("RW_STATE_DIR"), "state `directory`, relative to the workspace; default: the one that exists, else in the repository's git directory, in the user's state, or .resilient_write in the workspace (RW_STATE_DIR)")
	f.StringVar(&s.sync, "sync", env("RW_SYNC"), "durability: full, journal or off; default full (RW_SYNC)")
	f.StringVar(&s.policyFile, "policy-file", "", "policy `file`, relative to the workspace, which takes precedence over all flags; default policy.yaml in the state directory (RW_POLICY_FILE)")
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
	if len(rest) > 0 && isFlag(rest[0]) && len(nameOf(rest[0])) > 1 { // it is no flag; the error names it as one
		rest = slices.Concat([]string{"--" + strings.TrimLeft(rest[0], "-")}, rest[1:])
	}
	switch err := flags.Parse(slices.Concat(given, rest)); {
	case errors.Is(err, pflag.ErrHelp):
		printUsage(errs, flags)
		return rw.CodeOK
	case err != nil:
		names := namesOf(flags)
		if !asked {
			names = append(namesOf(everyFlag(env)), names...)
		}
		u := describeFlagError(err, names, "run resilient-write serve -h")
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
	fmt.Fprintln(errs, "resilient-write: "+printable(strings.TrimSuffix(fmt.Sprintf("%v; %s", e, e.Hint), "; ")))
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

// httpSettings are the flags of the transports over HTTP.
type httpSettings struct {
	host, socket     string
	port             int
	token, tokenFile string
	noAuth, plain    bool
	tlsCert, tlsKey  string
	origins, hosts   []string
	names            []string // names of these flags
}

func (s *httpSettings) flags(f *pflag.FlagSet) {
	before := namesOf(f)
	f.StringVar(&s.host, "host", "127.0.0.1", "`address` or host name to serve HTTP on")
	f.IntVar(&s.port, "port", 8000, "port to serve HTTP on; 0 selects a free port")
	f.StringVar(&s.socket, "socket", "", "serve HTTP on a unix socket at this `path` (mode 0600) instead")
	f.StringVar(&s.token, "token", "", "bearer token for HTTP requests, at least 16 characters (RW_TOKEN is not visible to other users); default: a new token, printed to stderr")
	f.StringVar(&s.tokenFile, "token-file", "", "`file` that holds the token; created with a new token and mode 0600 if it does not exist. Its directory must exist")
	f.BoolVar(&s.noAuth, "no-auth", false, "accept HTTP requests without a token; on loopback only")
	f.BoolVar(&s.plain, "allow-plain-http", false, "serve beyond loopback without TLS")
	f.Func("allowed-origin", "allowed web `origin`, scheme://host[:port]; repeatable", appendTo(&s.origins))
	f.Func("allowed-host", "allowed `name` in the Host header, with or without port; repeatable", appendTo(&s.hosts))
	f.StringVar(&s.tlsCert, "tls-cert", "", "certificate `file` (PEM)")
	f.StringVar(&s.tlsKey, "tls-key", "", "key `file` of the certificate (PEM)")
	s.names = slices.DeleteFunc(namesOf(f), func(name string) bool { return slices.Contains(before, name) })
}

func appendTo(list *[]string) func(string) error {
	return func(value string) error {
		for _, v := range strings.Split(value, ",") {
			*list = append(*list, strings.TrimSpace(v))
		}
		return nil
	}
}

// given returns the name of one of these flags that was used, or "".
func (s *httpSettings) given(f *pflag.FlagSet) (name string) {
	f.Visit(func(g *pflag.Flag) {
		if slices.Contains(s.names, g.Name) {
			name = g.Name
		}
	})
	return name
}

// options returns the settings of the server, without those that require
// reading files.
func (s *httpSettings) options(env func(string) string, sse bool, logs *slog.Logger) (*mcpserver.HTTPOptions, error) {
	token, from := s.token, "--token"
	if token == "" && s.tokenFile == "" {
		token, from = env("RW_TOKEN"), "RW_TOKEN"
	}
	switch {
	case s.port < 0 || s.port > 65535:
		return nil, &misuse{fmt.Sprintf("%d is no port", s.port), "a port must be 0 to 65535"}
	case s.host == "":
		return nil, &misuse{"--host is empty", "give an address; 0.0.0.0 means all interfaces"}
	case s.token != "" && s.tokenFile != "":
		return nil, &misuse{"--token and --token-file were both given", "drop one"}
	case s.noAuth && (token != "" || s.tokenFile != ""):
		if s.tokenFile != "" {
			from = "--token-file"
		}
		return nil, &misuse{"--no-auth and " + from + " cannot be used together", "drop one"}
	case (s.tlsCert == "") != (s.tlsKey == ""):
		return nil, &misuse{"--tls-cert and --tls-key must be given together", "give both"}
	case s.socket != "" && s.tlsCert != "":
		return nil, &misuse{"--socket and --tls-cert were both given", "a unix socket does not use TLS"}
	}
	o := &mcpserver.HTTPOptions{
		Token: token, NoAuth: s.noAuth, AllowedOrigins: s.origins, AllowedHosts: s.hosts,
		AllowPlainHTTP: s.plain, SSE: sse, Logger: logs,
	}
	if err := o.Check(); err != nil {
		return nil, &misuse{err.Error(), "see resilient-write help"}
	}
	return o, nil
}

// serveHTTP serves HTTP until a signal comes. Everything that can be refused
// is refused before the store is opened.
func serveHTTP(ctx context.Context, set *settings, env func(string) string, logs *slog.Logger, errs io.Writer) rw.Code {
	s := &set.http
	o, err := s.options(env, set.transport == "sse", logs)
	if err != nil {
		return reportHTTP(errs, err)
	}
	if s.tlsCert != "" {
		cert, err := s.certificate(ctx)
		if ctx.Err() != nil {
			return report(errs, rw.NewError("serve", rw.ErrCanceled, "", nil))
		}
		if err != nil {
			return reportHTTP(errs, fmt.Errorf("the certificate cannot be used: %w", pathless(err)))
		}
		o.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	}
	if s.tokenFile != "" {
		var misplaced *misuse
		if _, err := os.Lstat(s.tokenFile); errors.Is(err, fs.ErrNotExist) && errors.As(set.place("--token-file", s.tokenFile), &misplaced) {
			return reportHTTP(errs, misplaced)
		}
		if o.Token, err = tokenOf(s.tokenFile); err == nil {
			err = o.Check()
		}
		if err != nil {
			return reportHTTP(errs, fmt.Errorf("the file of --token-file cannot be used: %w", pathless(err)))
		}
	}
	l, err := s.listen(o)
	if err != nil {
		return reportHTTP(errs, err)
	}
	defer l.Close()
	return withStore(ctx, set, env, logs, errs, func(store *rw.Store, opts *mcpserver.Options) error {
		h, err := mcpserver.NewHTTP(mcpserver.New(store, opts), o)
		if err != nil {
			return err
		}
		if token := h.Token(); token != "" {
			fmt.Fprintln(errs, "resilient-write token:", token)
		}
		return h.Serve(ctx, l)
	})
}

// certificate reads the certificate and its key. Either may be a pipe.
func (s *httpSettings) certificate(ctx context.Context) (tls.Certificate, error) {
	cert, err := readNamed(ctx, s.tlsCert)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := readNamed(ctx, s.tlsKey)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}

// listen opens the listener, after checking that its address may be served.
func (s *httpSettings) listen(o *mcpserver.HTTPOptions) (net.Listener, error) {
	if s.socket != "" {
		l, err := listenUnix(s.socket)
		if err != nil {
			return nil, fmt.Errorf("cannot listen on the socket: %w", pathless(err))
		}
		return l, nil
	}
	addr, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(s.host, strconv.Itoa(s.port)))
	if err != nil {
		return nil, &misuse{fmt.Sprintf("the host %q cannot be resolved", s.host), "give an address of this machine"}
	}
	if err := o.CheckAddr(addr); err != nil {
		return nil, &misuse{err.Error(), "give --token or drop --no-auth, and give --tls-cert and --tls-key or --allow-plain-http; or use --host 127.0.0.1"}
	}
	l, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", addr, pathless(err))
	}
	return l, nil
}

// reportHTTP reports why the server could not start.
func reportHTTP(errs io.Writer, err error) rw.Code {
	var usage *misuse
	if errors.As(err, &usage) {
		return usageError(errs, usage.what, usage.hint)
	}
	fmt.Fprintf(errs, "resilient-write: %v\n", err)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return rw.CodePrecondition
	case errors.Is(err, fs.ErrPermission):
		return rw.CodePermission
	case errors.Is(err, fs.ErrNotExist):
		return rw.CodeNotFound
	}
	return rw.CodeUsage
}

// pathless returns an error without the path or address that it names.
func pathless(err error) error {
	var path *fs.PathError
	var op *net.OpError
	var sys *os.SyscallError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &sys):
		return sys.Err
	case errors.As(err, &op):
		return op.Err
	}
	return err
}

const tokenFileBytes = 4096

// tokenOf reads the token from a file that only its owner can read, or creates
// the file with a new one.
func tokenOf(name string) (string, error) {
	token := rand.Text() + rand.Text()
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return readToken(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w; create its directory first, with mode 0700", pathless(err))
	}
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(token + "\n")
	if err == nil {
		err = f.Sync()
	}
	err = cmp.Or(err, f.Close())
	if err != nil {
		os.Remove(name) // a partial token could be mistaken for a complete one
	}
	return token, err
}

func readToken(name string) (string, error) {
	// Check the kind first: opening a pipe would wait for its other end.
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("it is not a regular file")
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return "", errors.New("other users can read it; change its mode to 0600")
	}
	data, err := durable.ReadRegular(name, tokenFileBytes)
	if err != nil && !errors.Is(err, durable.ErrTooLong) {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", errors.New("it is empty")
	}
	return token, nil
}
