package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/place"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// relocate moves the state directory of the workspace, or removes one.
func (a *app) relocate() *cobra.Command {
	var from, to string
	var remove, yes bool
	cmd := &cobra.Command{
		Use: "relocate [STATE]", Short: "Move the state directory, or remove one", GroupID: "upkeep",
		Args: takes(0, 1, "relocate takes one state directory", ""),
		Long: `Move the state directory of the workspace, with everything in it. --to is git
(the common git directory of the repository), xdg (the directory of the user's
state), tree (.resilient_write in the workspace) or a directory; the default is
the first of git, xdg and tree that the workspace has. If you choose a
directory, every later call has to name it with --state-dir or RW_STATE_DIR.

--from gives the workspace the state of a workspace that is gone, such as a
worktree that git removed. STATE, as status --all names it, becomes the state of
this workspace, which must not have one yet. Files are left as they are; the
next scan finds what the workspace lacks, and undo restores it.

No process may have the store open. If relocate is killed, the store is complete
in one of the two places, and that one is used; run relocate again to complete
the move.

With --remove the state directory is deleted instead, after a question: the one
of the workspace, or STATE, as status --all names it. Files of the workspace
stay as they are; their earlier versions are gone.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case remove && to+from != "":
				return &misuse{"--remove cannot be used with --to and --from", "drop one"}
			case remove:
				return a.removeState(strings.Join(args, ""), yes)
			case len(args) > 0:
				return &misuse{"a state directory is named with --remove only", "to move that of a workspace, name the workspace with --root"}
			}
			return a.moveState(cmd.Context(), from, to)
		},
	}
	f := cmd.Flags()
	f.StringVar(&to, "to", "", "git, xdg, tree or a `directory`")
	f.StringVar(&from, "from", "", "state `directory` of a workspace that is gone, to be that of this one")
	f.BoolVar(&remove, "remove", false, "delete the state directory")
	f.BoolVar(&yes, "yes", false, "do not ask before deleting")
	complete(cmd, "to", "git", "xdg", "tree")
	return cmd
}

// movedReply reports the new place of the state.
type movedReply struct {
	From   string     `json:"from"`
	To     string     `json:"to"`
	Place  place.Kind `json:"place"`
	Status string     `json:"status"`
}

// moveState gives the workspace's own state a new place, or that of a workspace
// that no longer exists.
func (a *app) moveState(ctx context.Context, gone, to string) error {
	from, err := a.storeAt(gone)
	if err != nil {
		return err
	}
	root, err := a.realRoot()
	if err != nil {
		return err
	}
	w, err := place.Look(root)
	if err != nil {
		return streamError(a.command, "the workspace", err)
	}
	if gone != "" {
		if err := a.mayTake(w, from); err != nil {
			return err
		}
	}
	target, err := a.targetOf(w, root, to)
	if err != nil {
		return a.stateError(err)
	}
	defer target.Parent.Close()
	out := movedReply{From: from, To: target.Path, Place: target.Kind, Status: "succeeded"}
	if gone == "" && target.Path == from {
		out.Status, err = "unchanged", place.Finish(from)
	} else {
		// What dead writers left is completed first, because a copy has other inodes.
		if gone == "" {
			err = a.withStore(ctx, false, func(context.Context, *rw.Store) error { return nil })
		}
		if err != nil {
			return err
		}
		if err = place.Move(from, target); err == nil {
			if d, err := fsx.OpenRoot(target.Path); err == nil {
				w.Note(target.Place, d) // the next open tries again
				d.Close()
			}
		}
	}
	if err != nil {
		return a.stateError(err)
	}
	return present(a, out, func(p *printer, out movedReply) {
		p.line("%s  %s", out.Status, printable(out.To))
		if out.Place == place.Dir {
			p.line("name it in every later call: --state-dir %s", printable(out.To))
		}
	})
}

// mayTake reports why the workspace cannot have the state of another one.
func (a *app) mayTake(w *place.Workspace, from string) error {
	if len(w.Found()) > 0 {
		return a.stateError(place.ErrTaken)
	}
	if was, err := place.ReadRecord(from); err == nil && was.Root != "" {
		if other, err := place.Look(was.Root); err == nil && slices.ContainsFunc(other.Found(), func(p place.Place) bool { return p.Path == from }) {
			return rw.NewError(a.command, rw.ErrIOBusy, "the workspace of this state directory still exists and keeps using it", nil)
		}
	}
	return nil
}

// targetOf opens the place that --to names.
func (a *app) targetOf(w *place.Workspace, root, to string) (place.Opened, error) {
	kinds, failed := place.Kinds(), error(nil)
	switch {
	case slices.Contains(kinds, place.Kind(to)):
		kinds = []place.Kind{place.Kind(to)}
	case to != "":
		if near := schema.Closest(to, []string{string(place.Git), string(place.XDG), string(place.Tree)}); near != "" && filepath.Base(to) == to {
			return place.Opened{}, &misuse{"no place is called " + strconv.Quote(to) + ", did you mean " + near, "a directory of this name is ." + string(filepath.Separator) + to}
		}
		dir, err := filepath.Abs(to)
		if err != nil {
			return place.Opened{}, err
		}
		if up, err := filepath.EvalSymlinks(filepath.Dir(dir)); err == nil {
			dir = filepath.Join(up, filepath.Base(dir))
		}
		o, err := place.OpenDir(dir)
		if err != nil {
			err = streamError(a.command, "the new place of the state directory", err)
		}
		return o, err
	}
	for _, kind := range kinds {
		p := w.Of(kind)
		if p.Path == "" {
			continue
		}
		o, err := w.OpenAt(p, true)
		if err == nil && o.Parent == nil {
			o.Parent, err = fsx.OpenRoot(root)
		}
		if err == nil {
			return o, nil
		}
		failed = cmp.Or(failed, err)
	}
	if failed != nil {
		return place.Opened{}, streamError(a.command, "the new place of the state directory", failed)
	}
	return place.Opened{}, &misuse{"the workspace has no place of this kind", "name another one with --to"}
}

// storeAt returns the whole path of a state directory that a person names, "" for that of
// the workspace.
func (a *app) storeAt(dir string) (string, error) {
	if dir == "" {
		var err error
		if dir, err = a.set.findState(); err != nil {
			return "", err
		}
	}
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil || !place.IsStore(abs) {
		return "", rw.NewError(a.command, rw.ErrNotFound, "there is no state directory; resilient-write status --all lists those that there are", nil)
	}
	return abs, nil
}

// stateError is an error of moving or removing a state directory.
func (a *app) stateError(err error) error {
	switch {
	case errors.Is(err, place.ErrInUse):
		return rw.NewError(a.command, rw.ErrIOBusy, "another process has the store open; end the servers of this workspace, then try again", nil)
	case errors.Is(err, place.ErrInside):
		return &misuse{"the new place is in the state directory itself", "name another place with --to"}
	case errors.Is(err, place.ErrTaken):
		return rw.NewError(a.command, rw.ErrStoreNotEmpty, "there is something at the new place already; remove it, or name another place with --to", nil)
	}
	var u *misuse
	var e *fs.PathError
	switch {
	case errors.As(err, &u):
		return err
	case errors.As(err, &e):
		return streamError(a.command, "the store is whole, where it was or at its new place; mend this and try again", err)
	}
	return rw.AsError(a.command, err)
}

// removeState deletes one state directory.
func (a *app) removeState(dir string, yes bool) error {
	dir, err := a.storeAt(dir)
	if err != nil {
		return err
	}
	if !yes {
		if !isTerminal(a.in) {
			return &misuse{"a state directory is deleted after a question only, and there is no terminal", "add --yes"}
		}
		root := ""
		if r, err := place.ReadRecord(dir); err == nil {
			root = " of " + r.Root
		}
		answer, err := a.answerTo(fmt.Sprintf("Delete the state directory %s%s? Earlier versions cannot be restored. Type yes: ", printable(dir), printable(root)))
		if err != nil {
			return err
		}
		if answer != "yes" {
			return rw.NewError(a.command, rw.ErrCanceled, "not confirmed; nothing was changed", nil)
		}
	}
	if err := place.Remove(dir); err != nil {
		return a.stateError(err)
	}
	return present(a, map[string]string{"removed": dir}, func(p *printer, _ map[string]string) { p.line("removed %s", printable(dir)) })
}

// statusAll lists the state directories of this user.
func (a *app) statusAll() error {
	var w *place.Workspace
	if root, err := a.realRoot(); err == nil {
		w, _ = place.Look(root)
	}
	list, err := place.All(w)
	if err != nil {
		return streamError(a.command, "the state directories cannot be listed", err)
	}
	list = append([]place.Store{}, list...)
	slices.SortFunc(list, func(x, y place.Store) int { return y.Used.Compare(x.Used) })
	return present(a, map[string][]place.Store{"stores": list}, func(p *printer, _ map[string][]place.Store) {
		if len(list) == 0 {
			p.line("there is no state directory")
		}
		rows(p, []string{"workspace", "size", "used", "state"}, list, func(s place.Store) []string {
			root := s.Root
			if s.Gone {
				root += " (gone)"
			}
			return []string{printable(root), fmt.Sprint((s.Bytes+1023)>>10, " KiB"), whenAt(s.Used), printable(s.Path)}
		})
	})
}
