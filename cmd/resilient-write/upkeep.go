package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
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

// hasStore reports whether the workspace has a store. The error is why that is not known.
func (a *app) hasStore() (bool, error) {
	dir, err := a.set.findState()
	if err != nil {
		return false, err
	}
	_, err = os.Lstat(dir)
	return err == nil, nil
}

// withOldStore is withStore for a call that maintains an existing store: if
// there is none, the directory is most likely the wrong one.
func (a *app) withOldStore(ctx context.Context, looks bool, work func(context.Context, *rw.Store) error) error {
	if has, err := a.hasStore(); err != nil {
		return err
	} else if !has {
		return rw.NewError(a.command, rw.ErrNotFound, "there is no store in this workspace, and none was created; name another workspace with --root; resilient-write status --all lists those with a store", nil)
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
func administer[In, Out any](ctx context.Context, a *app, open opener, method func(admin.Operator, context.Context, In) (Out, error), in In, show func(*printer, Out)) error {
	return do(ctx, a, open, false, func(s *rw.Store, ctx context.Context, in In) (Out, error) { return method(s.Admin(), ctx, in) }, in, show)
}

// present prints a result of this type; show is nil if every field is printed.
func present[T any](a *app, v T, show func(*printer, T)) error {
	doc, err := success(v)
	if err != nil {
		return err
	}
	if show == nil {
		return a.answer(doc, true, nil)
	}
	return a.answer(doc, true, func(p *printer, _ reply) { show(p, v) })
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

// check verifies the store. With --repair it also repairs what it finds.
func (a *app) check() *cobra.Command {
	var repair bool
	var r admin.RepairRequest
	cmd := a.build(verb{"check", "check", "Check the store, like fsck; --repair repairs what it can", "upkeep", nil, "", showCheck})
	cmd.Long += `

The exit code is 7 when there are problems. With --repair the store is checked
deeply, caches are rebuilt, damaged objects are moved to quarantine/, and rows
that are complete but out of order are reordered. Nothing is deleted, no row is
invented, and no file of the workspace is changed; the exit code is 7 when
problems remain.`
	f := cmd.Flags()
	f.BoolVar(&repair, "repair", false, "repair what can be repaired, and report the rest")
	f.BoolVar(&r.DryRun, "dry-run", false, "with --repair: report what would be done, but change nothing")
	f.StringVar(&r.Acknowledge, "acknowledge", "", "with --repair: accept journal damage that cannot be repaired, for this `reason`, which is recorded in the journal; check no longer reports that damage")
	callerFlag(f, &r.Caller)
	f.Lookup("caller").Usage = "with --repair: " + f.Lookup("caller").Usage
	inner := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if repair {
			r.Session = a.session
			return a.leftUnclean(administer(cmd.Context(), a, a.withOldStore, admin.Operator.Repair, r, showRepair))
		}
		for _, name := range []string{"dry-run", "acknowledge", "caller"} {
			if cmd.Flags().Changed(name) {
				return &misuse{"--" + name + " without --repair", "a check alone changes nothing; add --repair"}
			}
		}
		return a.leftUnclean(inner(cmd, args))
	}
	return cmd
}

// leftUnclean sets the exit code to storage if the store is not clean, for
// scripts. err is the error of the check.
func (a *app) leftUnclean(err error) error {
	var r struct{ Clean bool }
	if err == nil && (json.Unmarshal(a.done.reply, &r) != nil || !r.Clean) {
		a.done.code = rw.CodeStorage
	}
	return err
}

func showCheck(p *printer, r reply) {
	problems := r.list("problems")
	rows(p, []string{"problem", "path", "row", "detail"}, problems, func(one reply) []string {
		return []string{one.text("code"), one.text("path"), one.number("seq"), one.text("detail")}
	})
	if r.text("clean") == "true" {
		p.line("%s", p.paint(green, "clean"))
	} else {
		p.line("%s", p.paint(red, several(len(problems), "problem"))+p.paint(faint, "; check --repair --dry-run reports what can be repaired"))
	}
	if c := r.object("counters"); len(c.fields) > 0 {
		p.line("%s", p.paint(faint, pairs(c)))
	}
}

// several formats a number with the noun of what is counted.
func several(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// rowNumber formats the number of a row, 0 for none.
func rowNumber(seq uint64) string {
	if seq == 0 {
		return ""
	}
	return fmt.Sprint(seq)
}

func showRepair(p *printer, r admin.RepairResult) {
	did := "did"
	if r.DryRun {
		did = "would be"
	}
	rows(p, []string{did, "problem", "path", "row", "detail"}, r.Actions, func(one admin.RepairAction) []string {
		return []string{strings.ReplaceAll(string(one.Did), "_", " "), one.Code, one.Path, rowNumber(one.Seq), one.Detail}
	})
	rows(p, []string{"left", "path", "row", "why"}, r.Left, func(one admin.LeftProblem) []string {
		return []string{one.Code, one.Path, rowNumber(one.Seq), one.Why}
	})
	switch {
	case len(r.Left) > 0:
		p.line("%s", p.paint(red, fmt.Sprintf("%d repaired, %d left", len(r.Actions), len(r.Left))))
	case r.DryRun && len(r.Actions) > 0:
		p.line("%s all can be repaired: %s", p.paint(yellow, "dry run"), several(len(r.Actions), "problem"))
	case len(r.Actions) > 0:
		p.line("%s repaired: %s", p.paint(green, "clean"), several(len(r.Actions), "problem"))
	default:
		p.line("%s nothing to do", p.paint(green, "clean"))
	}
}

// compact compacts the state directory.
func (a *app) compact() *cobra.Command {
	var r admin.CompactRequest
	var keep int
	cmd := &cobra.Command{
		Use: "compact", Short: "Archive old rows, apply the limits, remove what has expired", GroupID: "upkeep", Args: noArguments,
		Long: `Compact the state directory while writers are running.

Journal segments older than the newest --keep-rows rows move to archive/, where
history, tail, undo and check still read them; only cursors no longer reach
them. Limits of history are applied. Expired objects are removed: raw material,
checkpoints, refused drafts, staged transactions, retry counts. Kept versions
that another work tree of the repository has too are then stored once.

If it is killed, the store remains valid and the next call continues.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("keep-rows") {
				r.KeepRows = &keep
			}
			r.Session = a.session
			return administer(cmd.Context(), a, a.withOldStore, admin.Operator.Compact, r, showCompact)
		},
	}
	f := cmd.Flags()
	f.IntVar(&keep, "keep-rows", 10_000, "keep at least this many of the newest `rows` where cursors can reach them")
	f.BoolVar(&r.DryRun, "dry-run", false, "report what would be archived and removed, but change nothing")
	callerFlag(f, &r.Caller)
	return cmd
}

func showCompact(p *printer, r admin.CompactResult) {
	switch {
	case r.Status == rw.StatusUnchanged:
		p.line("%s nothing to do", p.paint(green, "compact"))
	case r.DryRun:
		p.line("%s nothing was changed; a call would write snapshots of the index and make the changes below", p.paint(yellow, "dry run"))
	default:
		p.line("%s done", p.paint(green, "compact"))
	}
	if len(r.Archived) > 0 {
		p.line("to archive/:")
	}
	rows(p, []string{"rows", "count", "size", "sha256"}, r.Archived, func(s admin.ArchivedSegment) []string {
		return []string{fmt.Sprintf("%d–%d", s.First, s.Last), fmt.Sprint(s.Rows), size(float64(s.Bytes)), short(s.SHA256.String())}
	})
	for _, gone := range []struct {
		n    int
		what string
	}{
		{r.VersionsRemoved, "kept versions over a limit, " + size(float64(r.VersionBytes))}, {r.ScratchRemoved, "objects of the scratchpad"},
		{r.CheckpointsGone, "checkpoints"}, {r.DraftsRemoved, "refused drafts"}, {r.TxDropped, "staged transactions"}, {r.BudgetsRemoved, "retry counts"},
	} {
		if gone.n > 0 {
			p.line("removed: %d %s", gone.n, gone.what)
		}
	}
	if r.VersionsShared > 0 {
		p.line("shared with other work trees: %d kept versions", r.VersionsShared)
	}
	p.line("%s", p.paint(faint, fmt.Sprintf("cursors reach back to row %d; %d snapshots of the index", r.LiveFrom, r.Snapshots)))
}
