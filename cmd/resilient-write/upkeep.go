package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
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

// opener opens the store for some work: withStore or withOldStore.
type opener func(ctx context.Context, looks bool, work func(context.Context, *rw.Store) error) error

// do calls a method of the store, and prints its result.
func do[In, Out any](ctx context.Context, a *app, open opener, looks bool, method func(*rw.Store, context.Context, In) (Out, error), in In, show func(*printer, Out)) error {
	return open(ctx, looks, func(ctx context.Context, s *rw.Store) error {
		out, err := method(s, ctx, in)
		if err != nil {
			return err
		}
		return present(a, out, show)
	})
}

// administer does the same for a method of operators.
func administer[In, Out any](ctx context.Context, a *app, open opener, method func(admin.Operator, context.Context, In) (Out, error), in In, show func(*printer, reply)) (out Out, err error) {
	err = open(ctx, false, func(ctx context.Context, s *rw.Store) error {
		if out, err = method(s.Admin(), ctx, in); err != nil {
			return err
		}
		return a.reply(out, show)
	})
	return out, err
}

// present prints a result of this type.
func present[T any](a *app, v T, show func(*printer, T)) error {
	return a.reply(v, func(p *printer, _ reply) { show(p, v) })
}

// noArguments accepts no arguments.
var noArguments = takes(0, 0, "", "")

// takes accepts a number of arguments; most is -1 for any number above.
func takes(least, most int, what, hint string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			return &misuse{cmp.Or(what, cmd.CommandPath()+" takes "+counted(least, most)), cmp.Or(hint, "usage: "+cmd.UseLine())}
		}
		return nil
	}
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
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		detail = rw.ErrTooManyFiles
	case errors.Is(err, syscall.EROFS):
		detail = rw.ErrReadOnlyVolume
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		detail = rw.ErrDiskFull
	}
	e := rw.NewError(command, detail, what+": "+plainError(err), nil)
	e.Err = err
	return e
}
