// Command resilient-write serves the write surface of one workspace to coding
// agents, over the Model Context Protocol: on standard input and output, or
// over HTTP.
//
// Without a subcommand it serves standard input and output, so that an
// existing client configuration only changes the program's name. The workspace
// is RW_WORKSPACE, or the working directory.
package main

import (
	"fmt"
	"io"
	"os"

	rw "github.com/resilientwrite/resilientwrite"
)

func main() { process(os.Args[1:], os.Getenv) }

// process runs the command and ends the process with its code. A first signal
// that comes when all is done, and told, does not change the code any more.
func process(args []string, env func(string) string) {
	atEnd = func(func()) {}
	os.Exit(int(run(args, env, os.Stdin, os.Stdout, os.Stderr)))
}

// atEnd stops listening to signals at the end of a run.
var atEnd = func(stop func()) { stop() }

const usage = `resilient-write serves durable file writes to coding agents (MCP).

usage: resilient-write [serve] [flags]
       resilient-write version
       resilient-write help

`

// forPeople are the flags that ask for the command as a whole; all others in
// the place of a subcommand are those of serve.
var forPeople = map[string]bool{"-h": true, "--help": true}

// run is main without the process around it.
func run(args []string, env func(string) string, in io.Reader, out, errs io.Writer) rw.Code {
	command := "serve"
	if len(args) > 0 && args[0] != "" && (args[0][0] != '-' || forPeople[args[0]]) {
		command, args = args[0], args[1:]
	}
	if command == "serve" {
		return serve(args, env, in, out, errs)
	}
	return operate(append([]string{command}, args...), env, in, out, errs)
}

func usageError(errs io.Writer, what, hint string) rw.Code {
	fmt.Fprintf(errs, "resilient-write: %s; %s\n", what, hint)
	return rw.CodeUsage
}
