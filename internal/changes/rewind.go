package changes

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"path"
	"slices"

	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/gitdir"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
)

// Rewind makes the mutations that lead from the present state of the workspace back to
// that of a snapshot. Unless force is set, it refuses to replace what was changed since
// outside every tool call.
func (l *Layer) Rewind(ctx context.Context, c *engine.Commit, snap observe.Snapshot, to, now *observe.Index, force bool, take Take) error {
	c.Dirs = l.DirsToMake(observe.Directories(now, to))
	then, present := to.All(), now.All()
	list := observe.Differences(present, then)
	if err := l.unattributed(list, snap.Seq, force); err != nil {
		return err
	}
	git := l.Observed.Git(ctx)
	defer git.Close()
	return l.Into(c, list, func(m *engine.Mutation, path string) error {
		f := then[path]
		mode := f.Mode
		m.Perm = &mode
		err := l.take(c, m, version{sha: f.Hex(), size: f.Size, mode: mode, recorded: mode}, take,
			func() (io.ReadCloser, error) { return git.Open(path, f.GitHex()) },
			func() (io.ReadCloser, error) { return l.Observed.StartOf(path, f.Size) })
		if e, ok := err.(*fault.Fault); ok && e.Code == fault.VersionNotKept && f.Git != "" {
			e.With("base_gone", true).Hintf("git had the content of this file and has collected it; restore another snapshot, or fetch the commit again")
		}
		return err
	})
}

// Into makes the mutations of differences; take takes the content of a file that is
// written.
func (l *Layer) Into(c *engine.Commit, list []observe.Difference, take func(m *engine.Mutation, path string) error) error {
	c.Expects = len(list)
	for _, d := range list {
		m := restored("restore", d.Path, d.PrevSHA256.String(), d.WasLink)
		c.Muts = append(c.Muts, m)
		if d.Change == "deleted" {
			m.Op = engine.OpDelete
			continue
		}
		if err := take(m, d.Path); err != nil {
			e := l.ErrorOf(err)
			e.Path = cmp.Or(e.Path, d.Path)
			return e
		}
	}
	return nil
}

// cause is a row, and whether it records changes that were made during no tool call.
type cause struct {
	outside bool
	muts    map[string]*journal.Mutation
}

func causeOf(rec *journal.Record) cause {
	c := cause{rec.Kind == journal.KindObserved && (rec.Group == nil || len(rec.Group.Calls) == 0), make(map[string]*journal.Mutation, len(rec.Muts))}
	for i := range rec.Muts {
		c.muts[rec.Muts[i].Identity()] = &rec.Muts[i]
	}
	return c
}

// maxListed is how many files a refusal lists.
const maxListed = 20

// unattributed refuses to replace changes that were made after a row outside
// every tool call.
func (l *Layer) unattributed(list []observe.Difference, after uint64, force bool) error {
	if force {
		return nil
	}
	rows, names := map[uint64]cause{}, []string{}
	for _, d := range list {
		last, err := l.LastRow(d.Path)
		if err != nil {
			return err
		}
		back := (*journal.Mutation)(nil) // brought back an earlier version, which is not reached yet
		for seq := last.Seq; seq > after; {
			row, known := rows[seq]
			if !known {
				rec, err := l.Log.Find(seq)
				if errors.Is(err, journal.ErrNotFound) {
					break
				}
				if err != nil {
					return err
				}
				if row = causeOf(rec); len(row.muts) > 1 {
					rows[seq] = row
				}
			}
			m := row.muts[d.Path]
			if m == nil || seq < last.Seq && m.SHA256 == d.SHA256.String() { // it was restored already
				break
			}
			if back == nil || back.SHA256 == m.SHA256 {
				if row.outside {
					names = append(names, d.Path)
					break
				}
				if back = nil; m.Op == "undo" || m.Op == "restore" {
					back = m
				}
			}
			seq = min(seq-1, m.PrevSeq)
		}
	}
	if len(names) == 0 {
		return nil
	}
	e := fault.New(fault.ChangedOutside).With("files", names[:min(len(names), maxListed)]).With("count", len(names)).
		Hintf("files were changed since without a tool call, most likely by a person; nothing was restored; pass force if they may be replaced (history keeps them)")
	e.Path = names[0]
	return e
}

// DiffOf lists the differences between two states of the workspace.
func DiffOf(from, to *observe.Index) around.SnapshotDiffResult {
	out := around.SnapshotDiffResult{Files: []around.FileChange{}}
	for _, d := range observe.Differences(from.All(), to.All()) {
		switch d.Change {
		case "created":
			out.Created++
		case "deleted":
			out.Deleted++
		default:
			out.Changed++
		}
		if len(out.Files) < MaxFiles {
			out.Files = append(out.Files, d.FileChange)
		} else {
			out.Truncated = true
		}
	}
	return out
}

// undoDirs returns the directories of some commits, newest commit first, as they
// were before. Those that the commits made for their files are removed if nothing
// else is in them.
func (l *Layer) undoDirs(recs []*journal.Record, files []*undoing) (list []journal.Mutation) {
	at := map[string]int{}
	made := map[string]bool{}
	for _, rec := range recs {
		for i := range rec.Muts {
			if rec.Muts[i].Class == "" {
				for _, dir := range rec.Muts[i].Dirs {
					made[dir] = true
				}
			}
			d, ok := rec.Muts[i].Directory()
			if !ok {
				continue
			}
			j, ok := at[d.Path]
			if !ok {
				j = len(list)
				at[d.Path] = j
				list = append(list, journal.Mutation{Path: d.Path, PrevMode: d.Mode})
			}
			list[j].Mode = d.PrevMode
		}
	}
	for path, j := range at {
		if delete(made, path); list[j].Mode == 0 {
			made[path] = false
		}
	}
	return l.DirsToMake(append(list, l.leftEmpty(made, files)...))
}

// leftEmpty returns removals of those directories that are empty, or contain only
// what the undo removes. Those that are false in made are removed anyway.
func (l *Layer) leftEmpty(made map[string]bool, files []*undoing) (list []journal.Mutation) {
	goes := map[string]bool{}
	for _, f := range files {
		if f.oldest.PrevSHA256 == "" {
			goes[f.path] = true
		}
	}
	paths := slices.Sorted(maps.Keys(made))
	slices.Reverse(paths) // what is inside first
	for _, dir := range paths {
		names, mode, err := l.ListDirectory(dir)
		if err != nil || slices.ContainsFunc(names, func(name string) bool { return !goes[engine.JoinPath(dir, name)] }) {
			continue
		}
		if goes[dir] = true; made[dir] {
			list = append(list, journal.Mutation{Path: dir, PrevMode: mode})
		}
	}
	return list
}

// DirsToMake returns the changes of directories that a commit may make: those
// with an effect, except empty directories that git would treat as parts of a
// repository.
func (l *Layer) DirsToMake(list []journal.Mutation) []journal.Mutation {
	return slices.DeleteFunc(list, func(d journal.Mutation) bool {
		part := gitdir.Part(path.Base(d.Path))
		return d.Mode == d.PrevMode || d.PrevMode == 0 && part != "" && l.IsThere(engine.JoinPath(engine.ParentOf(d.Path), gitdir.Head))
	})
}

// GoneDirs returns the directories that restored files need and that the journal
// records as removed: they get their previous modes. Those in known are omitted.
func (l *Layer) GoneDirs(muts []*engine.Mutation, known []journal.Mutation) (list []journal.Mutation, err error) {
	seen := map[string]bool{}
	for i := range known {
		seen[known[i].Path] = true
	}
	for _, m := range muts {
		if m.Op == engine.OpDelete {
			continue
		}
		for dir := engine.ParentOf(m.Path); dir != "" && !seen[dir] && !l.IsThere(dir); dir = engine.ParentOf(dir) {
			seen[dir] = true
			versions, err := l.Versions.Lineage(dir)
			if err != nil {
				return nil, err
			}
			last, err := versions.At(0)
			if err != nil {
				return nil, err
			}
			if last == nil {
				continue
			}
			if d, ok := last.M.Directory(); ok && d.Mode == 0 {
				list = append(list, journal.Mutation{Path: dir, Mode: d.PrevMode})
			}
		}
	}
	return l.DirsToMake(list), nil
}
