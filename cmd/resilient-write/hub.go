package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
)

// hubProgram is a separate program, so that this one contains no network code
// except its server.
const hubProgram = "resilient-write-hub"

// hub and resume run hubProgram, from the directory of this program or from the
// path.
func (a *app) hub() *cobra.Command {
	return a.passed(nil, &cobra.Command{
		Use: "hub [status|ship|verify|gc|erase]", Short: "Ship journal and versions to an object store that machines share", GroupID: "upkeep",
	})
}

func (a *app) resume() *cobra.Command {
	return a.passed([]string{"resume"}, &cobra.Command{
		Use: "resume TASK [--into DIR]", Short: "Continue a task of another machine, with the same files", GroupID: "work",
	})
}

// passed makes a command pass all of its arguments to that program.
func (a *app) passed(first []string, cmd *cobra.Command) *cobra.Command {
	cmd.DisableFlagParsing = true
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, err := hubPath()
		if err != nil && (slices.Contains(args, "--help") || slices.Contains(args, "-h")) {
			return cmd.Help()
		}
		if err != nil {
			return rw.NewError(a.command, rw.ErrNotFound, hubProgram+" is not installed; in a clone of the repository run: cd hub && go build -o \"$(dirname \"$(command -v resilient-write)\")\" ./cmd/"+hubProgram, nil)
		}
		run := exec.CommandContext(cmd.Context(), name, slices.Concat(first, args)...)
		run.Stdin, run.Stdout, run.Stderr = a.in, a.out.w, a.errs
		run.WaitDelay = 10 * time.Second
		run.Cancel = func() error { return run.Process.Signal(syscall.SIGTERM) }
		err = run.Run()
		var ended *exec.ExitError
		if errors.As(err, &ended) && ended.ExitCode() > 0 {
			a.done.code = rw.Code(ended.ExitCode())
			return nil
		}
		return err
	}
	return cmd
}

// hubWords describes the progress of the shipper of a store, as recorded in the
// store.
func hubWords(l *admin.HubFacts) string {
	text := fmt.Sprintf("the hub has %d of %d rows", l.Seq, l.Seq+l.Waiting)
	switch {
	case l.Forked:
		text += "; it is forked, see resilient-write hub ship"
	case l.Task != "":
		text += "; works on task " + printable(l.Task)
	case l.LostTask != "":
		text += "; another machine has taken over task " + printable(l.LostTask)
	}
	return text
}

// hubPath finds the program.
func hubPath() (string, error) {
	name := hubProgram
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if own, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(own), name)
		if st, err := os.Stat(beside); err == nil && st.Mode().IsRegular() {
			return beside, nil
		}
	}
	return exec.LookPath(name)
}
