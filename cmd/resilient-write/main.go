// Command resilient-write serves the write surface of one workspace to a
// coding agent, over the Model Context Protocol on standard input and output.
//
// Without a subcommand it serves, so that an existing client configuration
// only changes the program's name. The workspace is RW_WORKSPACE, or the
// working directory.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

func main() {
	code := run(os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
	os.Exit(int(code))
}

const usage = `resilient-write serves durable file writes to a coding agent (MCP on stdin and stdout).

usage: resilient-write [serve] [flags]
       resilient-write version
       resilient-write help

`

// run is main without the process around it.
func run(args []string, env func(string) string, in io.Reader, out, errs io.Writer) rw.Code {
	command := "serve"
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		command, args = args[0], args[1:]
	}
	switch command {
	case "serve":
		return serve(args, env, in, out, errs)
	case "version":
		fmt.Fprintln(out, "resilient-write", rw.Version)
		return rw.CodeOK
	case "help":
		flags, _ := newFlags(env, out)
		fmt.Fprint(out, usage)
		flags.PrintDefaults()
		return rw.CodeOK
	}
	hint := "run resilient-write help"
	if near := schema.Closest(command, []string{"serve", "version", "help"}); near != "" {
		hint = "did you mean " + near
	}
	return usageError(errs, fmt.Sprintf("unknown command %q", command), hint)
}

func usageError(errs io.Writer, what, hint string) rw.Code {
	fmt.Fprintf(errs, "resilient-write: %s; %s\n", what, hint)
	return rw.CodeUsage
}

// settings are what flags and environment say; flags win.
type settings struct {
	root, stateDir, sync, transport string
	policyFile, gate                string
	readOnly, unsafe, dotted        bool
}

func newFlags(env func(string) string, errs io.Writer) (*flag.FlagSet, *settings) {
	s := &settings{}
	f := flag.NewFlagSet("resilient-write", flag.ContinueOnError)
	f.SetOutput(errs)
	root := env("RW_WORKSPACE")
	if root == "" {
		root = "."
	}
	f.StringVar(&s.root, "root", root, "workspace directory (RW_WORKSPACE)")
	f.StringVar(&s.root, "workspace", root, "the same as -root")
	f.StringVar(&s.stateDir, "state-dir", env("RW_STATE_DIR"), "state directory, default .resilient_write in the workspace (RW_STATE_DIR)")
	f.StringVar(&s.sync, "sync", env("RW_SYNC"), "durability: full, journal or off; default full (RW_SYNC)")
	f.StringVar(&s.policyFile, "policy-file", env("RW_POLICY_FILE"), "policy file, default policy.yaml in the state directory (RW_POLICY_FILE)")
	f.StringVar(&s.gate, "gate", "", "content gate where the policy file says nothing: block, advise or off; default block")
	f.StringVar(&s.transport, "transport", "stdio", "transport: stdio")
	f.BoolVar(&s.readOnly, "read-only", false, "take no writes, change nothing")
	f.BoolVar(&s.unsafe, "allow-unsafe-root", env("RW_ALLOW_UNSAFE_ROOT") == "1", "accept a system or home directory (RW_ALLOW_UNSAFE_ROOT=1)")
	f.BoolVar(&s.dotted, "dotted-names", false, "list tools as rw.safe_write instead of rw_safe_write")
	f.Usage = func() {
		fmt.Fprint(errs, usage)
		f.PrintDefaults()
	}
	return f, s
}

// serve answers a client until its input ends or a signal comes. What is under
// way then is finished.
func serve(args []string, env func(string) string, in io.Reader, out, errs io.Writer) rw.Code {
	flags, set := newFlags(env, errs)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return rw.CodeOK
	case err != nil:
		return rw.CodeUsage
	case flags.NArg() > 0:
		return usageError(errs, fmt.Sprintf("unexpected argument %q", flags.Arg(0)), "run resilient-write help")
	case set.transport != "stdio":
		return usageError(errs, fmt.Sprintf("unknown transport %q", set.transport), "this version serves stdio")
	}
	log := slog.New(slog.NewJSONHandler(errs, nil))
	// A file size limit must come back as an error of the write, not end the
	// process.
	ignoreSizeSignal()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	store, err := rw.Open(ctx, set.root, &rw.Options{
		Sync: rw.SyncLevel(set.sync), StateDir: set.stateDir, ReadOnly: set.readOnly,
		AllowUnsafeRoot: set.unsafe, Caller: "mcp", PolicyFile: set.policyFile,
		Gate: rw.Gate{Mode: rw.GateMode(set.gate)}, DisableScratchGet: env("RW_SCRATCH_DISABLE_GET") != "",
	})
	if err != nil {
		return report(errs, err)
	}
	logRecovery(log, store.Recovery())
	err = mcpserver.ServeStdio(ctx, mcpserver.New(store, &mcpserver.Options{DottedNames: set.dotted, Logger: log}), in, out)
	if cerr := store.Close(context.Background()); err == nil {
		err = cerr
	}
	if err != nil {
		return report(errs, err)
	}
	return rw.CodeOK
}

// report tells an error on one line and returns its code.
func report(errs io.Writer, err error) rw.Code {
	e := rw.AsError("serve", err)
	fmt.Fprintf(errs, "resilient-write: %v; %s\n", e, e.Hint)
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
