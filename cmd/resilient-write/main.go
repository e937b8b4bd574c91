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
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/command"
	"github.com/resilientwrite/resilientwrite/internal/schema"
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
	flags, rest = leading(everyFlag(env), args)
	if len(rest) == 0 {
		return flags, "", nil
	}
	switch flag := strings.TrimLeft(rest[0], "-"); {
	case !isFlag(rest[0]):
		return flags, rest[0], rest[1:]
	case flag == "h", flag == "help":
		return flags, "--help", rest[1:]
	case flag == "version":
		return flags, flag, rest[1:]
	}
	if served, _ := newFlags(env); served.Lookup(nameOf(rest[0])) != nil {
		rest = nil
	}
	return nil, "", rest
}

// nameOf returns the name of a flag as given, with or without a value.
func nameOf(flag string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(flag, "-"), "=")
	return name
}

func isFlag(arg string) bool { return strings.HasPrefix(arg, "-") && arg != "-" }

// leading returns the flags at the beginning of a command line, with two hyphens and
// their values, and what follows: anything but one of the known flags. One hyphen is
// enough for the flags of serve.
func leading(known *pflag.FlagSet, args []string) (flags, rest []string) {
	for len(args) > 0 && isFlag(args[0]) {
		f := known.Lookup(nameOf(args[0]))
		if f == nil {
			break
		}
		n := 1
		if f.NoOptDefVal == "" && !strings.Contains(args[0], "=") {
			n = min(2, len(args)) // the next one is its value
		}
		flags = append(append(flags, "--"+strings.TrimLeft(args[0], "-")), args[1:n]...)
		args = args[n:]
	}
	return flags, args
}

// everyFlag returns the flags that every subcommand has.
func everyFlag(env func(string) string) *pflag.FlagSet {
	known := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&app{env: env}).globalFlags(known)
	return known
}

// namesOf returns the names of the flags of all sets.
func namesOf(sets ...*pflag.FlagSet) (names []string) {
	for _, set := range sets {
		set.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	}
	return names
}

func usageError(errs io.Writer, what, hint string) rw.Code {
	fmt.Fprintf(errs, "resilient-write: %s; %s\n", what, hint)
	return rw.CodeUsage
}

// likeName reports whether a word may appear in an error. A word that is not a
// name may be content, or a secret, given in the wrong place.
func likeName(word string) bool {
	const signs = "-_.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	return word != "" && len(word) <= 32 && strings.Trim(word, signs) == ""
}

// didYouMean returns the hint for a wrong name: the closest existing one, or
// where to look for it.
func didYouMean(word, prefix string, names []string, otherwise string) string {
	if near := schema.Closest(word, names); near != "" {
		return "did you mean " + prefix + near
	}
	return otherwise
}

// unknownCommand refuses a subcommand that does not exist.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	what := "unknown command"
	if likeName(args[0]) {
		what += " " + strconv.Quote(args[0])
	}
	return &misuse{what, didYouMean(args[0], "", names, "run "+cmd.CommandPath()+" --help")}
}

// helpTopic prints the help of a subcommand.
func helpTopic(cmd *cobra.Command, args []string) error {
	topic, rest, err := cmd.Root().Find(args)
	switch {
	case err != nil:
		return &misuse{"there is no such help topic", "run " + cmd.Root().Name() + " help"}
	case len(rest) == 0:
		topic.InitDefaultHelpFlag() // so that it is listed
		return topic.Help()
	case !topic.HasSubCommands():
		return &misuse{topic.CommandPath() + " has no subcommands", "run " + cmd.Root().Name() + " help " + topic.Name()}
	}
	return unknownCommand(topic, rest)
}

// flagError refuses a flag that does not exist or has an invalid value.
func flagError(cmd *cobra.Command, err error) error {
	return describeFlagError(err, namesOf(cmd.Flags(), cmd.InheritedFlags()), "run "+cmd.CommandPath()+" --help")
}

// describeFlagError describes a flag that does not exist or has an invalid value. It
// names the flag and omits the value. names are those of the flags that may be meant.
func describeFlagError(err error, names []string, hint string) *misuse {
	u := &misuse{"a flag has an invalid value", hint}
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	var wrong *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		u.what, u.hint = unknownFlag(unknown.GetSpecifiedName(), unknown.GetSpecifiedShortnames(), names, u.hint)
	case errors.As(err, &bare):
		u.what = "flag needs an argument: --" + bare.GetSpecifiedName()
	case errors.As(err, &wrong):
		u.what = "invalid argument for --" + wrong.GetFlag().Name
		var number *strconv.NumError
		if own := (*misuse)(nil); errors.As(err, &own) {
			u.what, u.hint = u.what+": "+own.what, own.hint
		} else if errors.As(err, &number) {
			u.what += ": " + number.Err.Error()
		}
	}
	return u
}

// unknownFlag describes a flag that does not exist. After a single hyphen, name
// is the first letter that is not a flag; all the letters may be the name of a
// flag that needs two hyphens.
func unknownFlag(name, letters string, names []string, otherwise string) (what, hint string) {
	if letters != "" {
		name, _, _ = strings.Cut(letters, "=")
	}
	names = slices.DeleteFunc(names, func(other string) bool { return other == name }) // of another subcommand
	what, hint = "unknown flag", didYouMean(name, "--", names, otherwise)
	if likeName(name) && (letters == "" || hint != otherwise) {
		what += ": --" + name
	}
	return what, hint
}
