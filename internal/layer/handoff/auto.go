package handoff

import (
	"cmp"
	"context"
	"errors"
	"path"
	"sort"
	"strings"
	"sync"
	"syscall"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/policyfile"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/tree"
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
	w := &globWalk{l: l, glob: glob, without: without}
	w.base, _ = doublestar.SplitPattern(glob)
	err := tree.Walk(ctx, l.Disk.Root, struct{}{}, w.visit, w.failed)
	return w.files, cmp.Or(err, w.err)
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
	glob    string
	base    string // the directory that all matches are in
	without string

	mu     sync.Mutex
	walked int
	files  []handoff.File
	err    error // of a directory that could not be listed
}

// visit takes the entries of a directory.
func (w *globWalk) visit(d *tree.Dir[struct{}]) error {
	w.mu.Lock()
	w.walked += len(d.Entries)
	many := w.walked > maxWalked
	w.mu.Unlock()
	if many {
		return fault.New(fault.TooLarge).With("argument", "auto_state").Hintf("auto_state would examine too many files; start the glob with a directory")
	}
	for _, e := range d.Entries {
		at := tree.Join(d.Path, e.Name)
		switch {
		case relpath.ProtectedName(e.Name, w.l.Tree.Rules.Protected):
		case e.Kind == fsx.Directory && w.mayHold(at) && (w.l.Tree.Guard == nil || w.l.Tree.Guard(e.Stat) == nil):
			d.Enter(e.Name, struct{}{})
		case e.Kind == fsx.Regular && at != w.without && doublestar.MatchUnvalidated(w.glob, at):
			if err := w.add(at, e.Size); err != nil {
				return err
			}
		}
	}
	return nil
}

// failed notes that a directory could not be listed, unless it is none any more.
func (w *globWalk) failed(_ string, _ struct{}, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, syscall.ELOOP) {
		w.err = cmp.Or(w.err, err)
	}
}

// add takes a file that matches.
func (w *globWalk) add(at string, size int64) error {
	sha, err := w.l.HashPath(at)
	if err != nil || sha == "" {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.files) == maxAutoState {
		return fault.New(fault.TooLarge).With("argument", "auto_state").Hintf("auto_state matches more than %d files; narrow the glob", maxAutoState)
	}
	w.files = append(w.files, handoff.File{Path: at, SHA256: sha, Bytes: size})
	return nil
}

// mayHold reports whether something below a directory can match: it is on the way to
// the base of the glob or in it, and a glob without ** only matches paths with as many
// names as it has.
func (w *globWalk) mayHold(at string) bool {
	if w.base != "." && at != w.base && !strings.HasPrefix(w.base, at+"/") && !strings.HasPrefix(at, w.base+"/") {
		return false
	}
	if strings.Contains(w.glob, "**") || strings.Contains(w.glob, "{") {
		return true
	}
	depth := strings.Count(at, "/") + 1
	parts := strings.Split(w.glob, "/")
	return depth < len(parts) && doublestar.MatchUnvalidated(path.Join(parts[:depth]...), at)
}
