package changes

import (
	"cmp"
	"context"
	"io"

	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
)

// Rewind makes the mutations that lead from the present state of the workspace back to
// that of a snapshot. Unless force is set, it refuses to replace what was changed since
// outside every tool call.
func (l *Layer) Rewind(ctx context.Context, c *engine.Commit, snap observe.Snapshot, to, now *observe.Index, force bool, take Take) error {
	c.Dirs = l.DirsToMake(observe.Directories(now, to))
	then, present := observe.States(to, now)
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
		err := l.take(c, m, version{f.Hex(), f.Size, mode, mode}, take,
			func() io.ReadCloser { return git.Open(path, f.GitHex()) },
			func() io.ReadCloser { return l.Observed.StartOf(path, f.Size) })
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

// maxListed is how many files a refusal lists.
const maxListed = 20

// unattributed refuses to replace changes that were made after a row outside
// every tool call.
func (l *Layer) unattributed(list []observe.Difference, after uint64, force bool) error {
	if force {
		return nil
	}
	rows, names := map[uint64]*journal.Record{}, []string{}
	for _, d := range list {
		last, err := l.LastRow(d.Path)
		if err != nil {
			return err
		}
		if last.Seq <= after {
			continue
		}
		if rows[last.Seq] == nil {
			if rows[last.Seq], err = l.Log.Find(last.Seq); err != nil {
				return err
			}
		}
		if rec := rows[last.Seq]; rec.Kind == journal.KindObserved && (rec.Group == nil || len(rec.Group.Calls) == 0) {
			names = append(names, d.Path)
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
	for _, d := range observe.Differences(observe.States(from, to)) {
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
