package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/spf13/pflag"

	rw "github.com/resilientwrite/resilientwrite"
)

// callerFlag adds the flag of the calls that leave a note in the journal.
func callerFlag(f *pflag.FlagSet, caller *string) {
	f.StringVar(caller, "caller", "", "who asks, recorded in the journal; default "+operator)
}

func (a *app) hasStore() bool {
	_, err := os.Lstat(a.set.stateDirectory())
	return err == nil
}

// withOldStore is withStore for a call that maintains an existing store: if
// there is none, the directory is most likely the wrong one.
func (a *app) withOldStore(ctx context.Context, looks bool, work func(context.Context, *rw.Store) error) error {
	if !a.hasStore() {
		return rw.NewError(a.command, rw.ErrNotFound, "there is no store in this workspace, and none was created; name another workspace with --root", nil)
	}
	return a.withStore(ctx, looks, work)
}

// streamError returns why a file or stream of the caller failed, without its
// path.
func streamError(command, what string, err error) error {
	var own *rw.Error
	if errors.As(err, &own) || errors.Is(err, context.Canceled) {
		return err
	}
	detail := rw.ErrIO
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &misuse{what + ": the directory does not exist", "create it, or name another file"}
	case errors.Is(err, fs.ErrPermission):
		detail = rw.ErrPermission
	case errors.Is(err, syscall.ENOSPC):
		detail = rw.ErrDiskFull
	}
	e := rw.NewError(command, detail, what+": "+plainError(err), nil)
	e.Err = err
	return e
}

// left sets the code of a call that completed what it could, if something is
// left that needs attention.
func (a *app) left(code rw.Code, is bool) {
	if is {
		a.done.code = code
	}
}
