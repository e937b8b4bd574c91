package changes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
	"github.com/resilientwrite/resilientwrite/internal/progress"
)

// manyFiles is how many files an undo handles without reporting its progress at once.
const manyFiles = 10

// Wanted selects the commits to undo: the newest N that Made is true for or, with a
// group, its rows.
type Wanted struct {
	Made  func(*journal.Record) bool
	Group string
	N     int
}

// Undone is what a commit undoes.
type Undone struct {
	Rows    []uint64 // newest first
	Ignored []string // directories that git ignores and that changed too
}

// undoing is a file that an undo restores.
type undoing struct {
	path   string
	newest *journal.Mutation // of the commits that are undone
	oldest *journal.Mutation
	seq    uint64 // of the newest
	first  uint64 // of the oldest
	broken bool   // another program changed it between two of them

	gone *journal.Mutation // the oldest by which the file left its name; nil if none did
	at   string            // the path to which it was moved by that
}

// Undo makes the mutations by which a commit undoes others: every file becomes what it
// was before the oldest of them.
func (l *Layer) Undo(ctx context.Context, c *engine.Commit, want Wanted, take Take) (done Undone, err error) {
	if err := l.Settler.Drain(); err != nil { // what is settled in the background enters history only then
		return done, err
	}
	recs, err := l.lastCommits(want)
	if err != nil {
		return done, err
	}
	if len(recs) == 0 {
		return done, fault.New(fault.NothingToUndo)
	}
	if want.Group != "" {
		if err := observe.CheckGroup(recs, want.Group); err != nil {
			return done, err
		}
	}
	for _, rec := range recs {
		done.Rows = append(done.Rows, rec.Seq)
		if rec.Group != nil {
			done.Ignored = append(done.Ignored, rec.Group.Ignored...)
		}
	}
	files := undoFiles(recs)
	c.Dirs = l.undoDirs(recs, files)
	files = withoutIdle(files, c.Dirs)
	c.Expects = len(files)
	account := progress.Of(ctx)
	if len(files) > manyFiles {
		account.Things("versions", int64(len(files)), fmt.Sprintf("undoing %d files", len(files)))
	}
	git := l.Observed.Git(ctx)
	defer git.Close()
	for _, f := range files {
		account.One()
		m, err := l.undoOne(c, f, want.Group != "", git, take)
		if m != nil {
			c.Muts = append(c.Muts, m)
		}
		if err != nil {
			e := l.ErrorOf(err)
			if e.Code == fault.VersionNotKept {
				e = l.explain(e, files)
			}
			e.Path = cmp.Or(e.Path, f.path)
			return done, e
		}
	}
	formerAt(files, c.Muts)
	gone, err := l.GoneDirs(c.Muts, c.Dirs)
	c.Dirs = append(c.Dirs, gone...)
	return done, err
}

// formerAt sets the mutations of the names to which files were moved that get their old
// names back.
func formerAt(files []*undoing, muts []*engine.Mutation) {
	at := map[string]*engine.Mutation{}
	for _, m := range muts {
		at[m.Path] = m
	}
	for i, f := range files {
		muts[i].FormerAt = at[f.at]
	}
}

// explain reports why earlier bytes are unavailable. If another program
// changed the file that held them, the error reports that instead.
func (l *Layer) explain(e *fault.Fault, files []*undoing) *fault.Fault {
	for _, f := range files {
		if have, _, err := l.HashEntry(f.path); err == nil && have != f.newest.SHA256 {
			e = engine.ChangedOutside("undo", f.newest.SHA256, have)
			e.Path = f.path
			break
		}
	}
	return e
}

// lastCommits returns the wanted commits that changed the workspace, newest first.
func (l *Layer) lastCommits(want Wanted) ([]*journal.Record, error) {
	aborted := map[uint64]bool{}
	recs, _, err := l.Log.Tail(want.N, func(rec *journal.Record) bool {
		if rec.Kind == journal.KindAbort {
			aborted[rec.Ref] = true
		}
		if rec.Kind != journal.KindCommit && want.Group == "" || aborted[rec.Seq] || !want.Made(rec) {
			return false
		}
		return slices.ContainsFunc(rec.Muts, func(m journal.Mutation) bool {
			return (m.Class == "" || m.Class == journal.ClassDirectory) && m.ImportID == ""
		})
	}, 0)
	if err == nil {
		err = l.Log.CatchUp() // the newest rows of their files are looked up, and are not older
	}
	slices.SortFunc(recs, func(a, b *journal.Record) int { return cmp.Compare(b.Seq, a.Seq) })
	return recs, err
}

// undoFiles returns the files of some commits, newest commit first, sorted by
// path.
func undoFiles(recs []*journal.Record) []*undoing {
	byPath := map[string]*undoing{}
	var list []*undoing
	for _, rec := range recs {
		for i := range rec.Muts {
			m := &rec.Muts[i]
			if m.Class != "" {
				continue
			}
			f := byPath[m.Identity()]
			if f == nil {
				f = &undoing{path: m.Identity(), newest: m, seq: rec.Seq}
				byPath[f.path] = f
				list = append(list, f)
			} else if f.oldest.PrevSeq != rec.Seq || f.oldest.PrevSHA256 != m.SHA256 {
				f.broken = true
			}
			f.oldest, f.first = m, rec.Seq
			if m.PrevSHA256 != "" && (m.SHA256 == "" || m.From != "") {
				f.gone, f.at = m, ""
				if to := slices.IndexFunc(rec.Muts, func(x journal.Mutation) bool { return x.From == f.path }); to >= 0 {
					f.at = rec.Muts[to].Identity()
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b *undoing) int { return strings.Compare(a.path, b.path) })
	return list
}

// withoutIdle omits files that exist neither before nor after, if their names
// conflict with directories: they are below another file, above one, or
// directories themselves.
func withoutIdle(files []*undoing, dirs []journal.Mutation) []*undoing {
	at, above := map[string]bool{}, map[string]bool{}
	for i := range dirs {
		above[dirs[i].Path] = true
	}
	for _, f := range files {
		at[f.path] = true
		for dir := engine.ParentOf(f.path); dir != "" && !above[dir]; dir = engine.ParentOf(dir) {
			above[dir] = true
		}
	}
	return slices.DeleteFunc(files, func(f *undoing) bool {
		if f.newest.SHA256 != "" || f.oldest.PrevSHA256 != "" {
			return false
		}
		below := false
		for dir := engine.ParentOf(f.path); dir != "" && !below; dir = engine.ParentOf(dir) {
			below = at[dir]
		}
		return below || above[f.path]
	})
}

// changedSince returns the error of a file whose newest row is not one of those that are
// undone. same reports that the row undid whatever came after these.
func (l *Layer) changedSince(f *undoing, seq uint64) (same bool, e *fault.Fault) {
	e = fault.New(fault.ChangedOutside).With("version", seq).Hintf("row %d changed the file since; undo that first, or restore the version you want", seq)
	rec, err := l.Log.Find(seq)
	if err != nil {
		return false, e
	}
	if rec.Kind == journal.KindObserved {
		e.Hintf("row %d, which a scan recorded, changed the file since; undo its group %s first, or restore the version you want", seq, observe.GroupID(seq))
	}
	return slices.ContainsFunc(rec.Muts, func(m journal.Mutation) bool {
		return m.Identity() == f.path && m.Op == "undo" && m.SHA256 == f.newest.SHA256 && m.Link() == f.newest.Link()
	}), e
}

// undoOne returns the mutation that restores one file. For a file of a group its hash
// decides whether it was changed since, otherwise its newest row: a change that was undone
// again is none.
func (l *Layer) undoOne(c *engine.Commit, f *undoing, group bool, git *observe.Git, take Take) (*engine.Mutation, error) {
	last, err := l.LastRow(f.path)
	if err != nil {
		return nil, err
	}
	if !group && last.Seq != f.seq || f.broken {
		if same, e := l.changedSince(f, last.Seq); !same || f.broken {
			return nil, e
		}
	}
	m := restored("undo", f.path, f.newest.SHA256, f.newest.Link())
	m.Former = f.gone
	v := version{sha: f.oldest.PrevSHA256, size: f.oldest.PrevBytes, recorded: f.oldest.Mode, by: []*journal.Mutation{f.oldest}}
	if v.sha == "" {
		m.Op, m.AbsentOK = engine.OpDelete, true
		return m, nil
	}
	before := f.oldest.ModeBefore()
	v.mode = before
	switch {
	case fsx.KindOf(before) == fsx.Symlink:
		m.Perm, v.mode = &before, 0
	case f.oldest.PrevMode != 0, f.newest.SHA256 != "" && f.newest.Mode != 0 && f.newest.Mode != before:
		m.Perm = &before // the commits have changed it
	}
	err = l.take(c, m, v, take,
		func() (io.ReadCloser, error) { return git.Open(f.path, f.oldest.PrevGit) },
		func() (io.ReadCloser, error) { return l.contentBefore(f.oldest, f.first) },
		func() (io.ReadCloser, error) { return l.Observed.StartOf(f.path, v.size) })
	if errors.Is(err, fault.VersionNotKept) {
		return nil, err
	}
	return m, err
}
