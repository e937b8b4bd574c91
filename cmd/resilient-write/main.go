// Command resilient-write serves the write surface of one workspace to coding
// agents, over the Model Context Protocol: on standard input and output, or
// over HTTP.
//
// Without a subcommand it serves standard input and output, so that an
// existing client configuration only changes the program's name. On a terminal
// it shows its help and the state of the directory instead. The workspace
// is RW_WORKSPACE, or the working directory.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/command"
)

func main() {
	command.Main()
	collectLate()
	process(os.Args[1:], os.Getenv)
}

// collectLate delays the first garbage collection until the heap has 64 MiB;
// later ones are as usual. Most commands end before the first.
func collectLate() {
	if os.Getenv("GOGC") != "" {
		return
	}
	usual := debug.SetGCPercent(1600) // of 4 MiB
	runtime.AddCleanup(new([16]byte), func(percent int) { debug.SetGCPercent(percent) }, usual)
}

// process runs the command and exits with its code. A first signal that arrives
// after the outcome was reported does not change the code.
func process(args []string, env func(string) string) {
	atEnd = func(func()) {}
	os.Exit(int(run(args, env, os.Stdin, os.Stdout, os.Stderr)))
}

// atEnd stops listening to signals at the end of a run.
var atEnd = func(stop func()) { stop() }

const usage = `resilient-write serves durable file writes to coding agents (MCP).

usage: resilient-write [serve] [flags]
       resilient-write version
       resilient-write help    lists the other subcommands

`

// run is main without process-wide effects.
func run(args []string, env func(string) string, in io.Reader, out, errs io.Writer) rw.Code {
	flags, command, rest := parted(args, env)
	switch command {
	case "":
		if onTerminal := isTerminal(in) && isTerminal(out); onTerminal && (len(args) == 0 || flags != nil) {
			return operate(flags, env, in, out, errs)
		}
		if len(rest) > 0 { // report the flag that no subcommand has, not one before it
			args = rest
		}
		return serve(args, env, in, out, errs, false)
	case "serve":
		return serve(slices.Concat(flags, rest), env, in, out, errs, true)
	}
	return operate(slices.Concat(flags, []string{command}, rest), env, in, out, errs)
}

// parted splits a command line at its subcommand. The flags that every
// subcommand has may precede it. If there is no subcommand, command is ""; if
// other flags come first, flags is nil, and rest begins with the first of them if
// serve does not have it either.
func parted(args []string, env func(string) string) (flags []string, command string, rest []string) {
	known := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&app{env: env}).globalFlags(known)
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			return flags, arg, args[i+1:]
		}
		name := strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-")
		switch name {
		case "h", "help":
			return flags, "--help", args[i+1:]
		case "version":
			return flags, name, args[i+1:]
		}
		name, _, whole := strings.Cut(name, "=")
		f := known.Lookup(name)
		if f == nil {
			if served, _ := newFlags(env); served.Lookup(name) == nil {
				rest = args[i:]
			}
			return nil, "", rest
		}
		flags = append(flags, "--"+strings.TrimLeft(arg, "-"))
		if f.NoOptDefVal == "" && !whole && i+1 < len(args) {
			i++
			flags = append(flags, args[i])
		}
	}
	return flags, "", nil
}

// globalNames returns the names of these flags.
func globalNames(env func(string) string) (names []string) {
	known := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&app{env: env}).globalFlags(known)
	known.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// doubled returns the flags of a command line with two hyphens each. One is enough for
// those of serve.
func doubled(known *pflag.FlagSet, args []string) (out []string) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if !strings.HasPrefix(arg, "-") || arg == "-" || arg == "--" {
			return append(out, args[i:]...)
		}
		name, _, whole := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if len(name) > 1 {
			arg = "--" + strings.TrimLeft(arg, "-")
		}
		out = append(out, arg)
		if f := known.Lookup(name); f != nil && f.NoOptDefVal == "" && !whole && i+1 < len(args) {
			i++
			out = append(out, args[i])
		}
	}
	return out
}

func usageError(errs io.Writer, what, hint string) rw.Code {
	fmt.Fprintf(errs, "resilient-write: %s; %s\n", what, hint)
	return rw.CodeUsage
}
