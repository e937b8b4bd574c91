package handoff

import (
	"context"
	"errors"
	"path"
	"sort"
	"strings"
	"syscall"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/policyfile"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

const (
	maxAutoState = 1000    // files that auto_state takes
	maxWalked    = 200_000 // entries that a glob, and journal rows that true, looks at
)

// autoState returns the files that the write adds to last_good_state, by path, and
// the hashes of those that were read.
func (w *Write) autoState(ctx context.Context) (added []handoff.File, sure map[string]string, err error) {
	var found []handoff.File
	switch w.AutoState {
	case "":
		return nil, nil, nil
	case handoff.AutoStateSession:
		found, err = w.written()
	default:
		found, err = w.l.glob(ctx, string(w.AutoState), w.c.First().Path)
	}
	if err != nil {
		return nil, nil, err
	}
	sort.Slice(found, func(i, j int) bool { return found[i].Path < found[j].Path })
	found = found[:min(len(found), maxAutoState)]
	listed := map[string]bool{}
	for _, f := range w.Envelope.LastGoodState {
		listed[f.Path] = true
	}
	sure = map[string]string{}
	for _, f := range found {
		if !listed[f.Path] {
			added = append(added, f)
		}
		if w.AutoState != handoff.AutoStateSession {
			sure[f.Path] = f.SHA256
		}
	}
	return added, sure, nil
}

// glob returns the files that match, but for one.
func (l *Layer) glob(ctx context.Context, glob, without string) ([]handoff.File, error) {
	if policyfile.GlobTooLarge(glob) {
		return nil, fault.New(fault.TooLarge).With("argument", "auto_state").Hintf("the glob of auto_state is too long, or its braces expand to too many globs; send a simpler one")
	}
	if !doublestar.ValidatePattern(glob) || strings.HasPrefix(glob, "/") || strings.Contains("/"+glob+"/", "/../") {
		return nil, fault.New(fault.InvalidArgument).With("argument", "auto_state").Hintf("auto_state must be true or a glob relative to the workspace, such as src/**/*.go")
	}
	w := &globWalk{l: l, ctx: ctx, glob: glob, without: without}
	base, _ := doublestar.SplitPattern(glob)
	dir, err := l.openBelow(base)
	if notThere(err) || errors.Is(err, relpath.ErrProtected) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if dir != l.Disk.Root {
		defer dir.Close()
	}
	err = w.walk(dir, strings.TrimPrefix(base, "."))
	return w.files, err
}

// openBelow opens a directory of the workspace by the names that lead to it,
// without following links.
func (l *Layer) openBelow(base string) (fsx.Dir, error) {
	dir := l.Disk.Root
	for _, name := range strings.Split(base, "/") {
		if name == "." || name == "" {
			continue
		}
		var next fsx.Dir
		err := error(relpath.ErrProtected)
		if !relpath.ProtectedName(name, l.Tree.Rules.Protected) {
			next, err = dir.OpenDir(name)
		}
		if dir != l.Disk.Root {
			dir.Close()
		}
		if err != nil {
			return nil, err
		}
		dir = next
	}
	return dir, nil
}

// notThere reports whether an error says that a name does not lead to a
// directory.
func notThere(err error) bool {
	return engine.IsAbsent(err) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}

// written returns the files that the journal last recorded as written by the
// selected commits, with the recorded hashes.
func (w *Write) written() ([]handoff.File, error) {
	out, seen, aborted := []handoff.File{}, map[string]bool{w.c.First().Path: true}, map[uint64]bool{}
	keep := func(rec *journal.Record) bool {
		if rec.Kind == journal.KindAbort {
			aborted[rec.Ref] = true
		}
		if rec.Kind != journal.KindCommit || aborted[rec.Seq] || len(out) >= maxAutoState || !w.wrote(rec) {
			return false
		}
		for i := range rec.Muts {
			m := &rec.Muts[i]
			if m.Class != "" || seen[m.Identity()] {
				continue
			}
			seen[m.Identity()] = true
			if m.SHA256 != "" {
				out = append(out, handoff.File{Path: m.Identity(), SHA256: m.SHA256, Bytes: m.Bytes})
			}
		}
		return false
	}
	if _, _, err := w.l.Log.Tail(1, keep, maxWalked); err != nil {
		return nil, err
	}
	return out, nil
}

// globWalk collects the files that match a glob. Links are not followed, and
// protected directories are not entered.
type globWalk struct {
	l       *Layer
	ctx     context.Context
	glob    string
	without string
	walked  int
	files   []handoff.File
}

func (w *globWalk) walk(dir fsx.Dir, at string) error {
	names, err := dir.Names()
	if err != nil {
		return err
	}
	sort.Strings(names)
	for _, name := range names {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if w.walked++; w.walked > maxWalked {
			return fault.New(fault.TooLarge).With("argument", "auto_state").Hintf("auto_state would examine too many files; start the glob with a directory")
		}
		if relpath.ProtectedName(name, w.l.Tree.Rules.Protected) {
			continue
		}
		st, err := dir.Lstat(name)
		if engine.IsAbsent(err) {
			continue
		}
		if err != nil {
			return err
		}
		if err := w.entry(dir, name, engine.JoinPath(at, name), st); err != nil {
			return err
		}
	}
	return nil
}

// entry takes one entry of a directory.
func (w *globWalk) entry(dir fsx.Dir, name, at string, st fsx.Stat) error {
	switch st.Kind {
	case fsx.Directory:
		if !w.mayHold(at) || w.l.Tree.Guard != nil && w.l.Tree.Guard(st) != nil {
			return nil
		}
		sub, err := dir.OpenDir(name)
		if notThere(err) {
			return nil
		}
		if err != nil {
			return err
		}
		defer sub.Close()
		return w.walk(sub, at)
	case fsx.Regular:
		if at == w.without || !doublestar.MatchUnvalidated(w.glob, at) {
			return nil
		}
		if len(w.files) == maxAutoState {
			return fault.New(fault.TooLarge).With("argument", "auto_state").Hintf("auto_state matches more than %d files; narrow the glob", maxAutoState)
		}
		sha, err := w.l.HashPath(at)
		if err != nil || sha == "" {
			return err
		}
		w.files = append(w.files, handoff.File{Path: at, SHA256: sha, Bytes: st.Size})
	}
	return nil
}

// mayHold reports whether something below a directory can match: a glob without
// ** only matches paths with as many names as it has.
func (w *globWalk) mayHold(at string) bool {
	if strings.Contains(w.glob, "**") || strings.Contains(w.glob, "{") {
		return true
	}
	depth := strings.Count(at, "/") + 1
	parts := strings.Split(w.glob, "/")
	return depth < len(parts) && doublestar.MatchUnvalidated(path.Join(parts[:depth]...), at)
}
