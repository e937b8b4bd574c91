package resilientwrite

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"sort"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/gitdir"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
	"github.com/resilientwrite/resilientwrite/internal/progress"
)

// maxUndo is how many commits one call undoes.
const maxUndo = 50

// UndoRequest asks for the newest commits to be undone.
type UndoRequest struct {
	Call `omit:"accept_risk"`

	// Number of commits, newest first. A transaction counts as one.
	N int `json:"n,omitempty" default:"1" min:"1" max:"50"`

	// Row is the journal row of the one commit to undo, by any caller
	// and whatever was committed since to other files. 0: the newest. It is for
	// people; no tool has it.
	Row uint64 `json:"-"`

	// Undo this group of changes that other programs made, such as a shell
	// command, and nothing else: its identifier, or that of the tool call during
	// which they were made.
	Group string `json:"group,omitempty" maxlen:"200"`
}

// UndoResult reports what was undone.
type UndoResult struct {
	// The commits undone, newest first, by journal row; empty when they cancel
	// out and nothing was written.
	Undone []uint64 `json:"undone"`
	// The changed files, as they are now.
	Results []TxOpResult `json:"results"`
	// Journal row of the undo; 0 when nothing was written.
	Seq uint64 `json:"seq"`
	// Directories that git ignores and that changed with the group. They were left
	// as they are.
	IgnoredNotUndone []string `json:"ignored_not_undone,omitempty"`
	// Unified diff, truncated when long; dry run only.
	Diff string `json:"diff,omitempty"`
	// When, RFC 3339 UTC.
	WroteAt string `json:"wrote_at"`
	// Outcome of the call.
	Status Status `json:"status" enum:"succeeded,unchanged,replayed"`
	// What the caller should know although the call succeeded.
	Warnings []Warning `json:"warnings"`
	// The full record of the call, with the facts of the first file.
	Receipt Receipt `json:"receipt"`
}

// Undo undoes the newest n commits of a caller, all in one commit: every file
// becomes what it was before the oldest of them, and a directory that they made
// is removed if nothing else is in it. Undoing is a commit itself, so undoing it
// again restores the changes. A request that names neither caller nor session
// undoes commits of its own session only, when the call belongs to one
// ([WithCaller], Options.Session).
//
// If the commits cancel each other out, such as a commit and its undo, there is
// nothing to do: the call ends as unchanged with the warning
// [WarnCommitsCancelOut], undone and results are empty and nothing is written, so
// the next call begins with the same commits.
//
// With a group it undoes the changes that other programs made and a
// [Store.Scan] found, all in one commit, and no others; without one such changes
// are never undone. Directories that git ignores are left as they are.
//
// A file that another program changed since, through this store or not, is never
// touched: the whole call fails with [ErrChangedOutside]. The same error is
// returned if a file would replace a directory that holds anything that is not
// undone with it (context files). Other errors: [ErrNothingToUndo],
// [ErrVersionNotKept], [ErrHashDriftOnRead], and those of [Store.SafeWrite].
func (s *Store) Undo(ctx context.Context, r UndoRequest) (UndoResult, error) {
	req := r.request("undo", r)
	req.frees, req.long, req.hash = true, true, budget.RequestHash([]string{req.hash, r.Caller, r.Session}) // whose commits
	if r.IdempotencyKey == "" {                                                                             // with a key it is the same call wherever the journal is by now
		req.hash += fmt.Sprint(" ", s.headSeq())
	}
	c := s.newCommit(ctx, req)
	n := max(r.N, 1)
	e := r.Call.check(ctx)
	if e == nil && r.Group != "" && (r.N != 0 || r.Row != 0) {
		e = fault.New(fault.InvalidArgument).With("argument", "group").Hintf("give group alone")
	}
	if e == nil && (r.N < 0 || n > maxUndo) {
		e = fault.New(fault.InvalidArgument).With("argument", "n").Hintf("n must be 1 to %d", maxUndo)
	}
	if e != nil {
		return UndoResult{}, c.Failed(e)
	}
	out := UndoResult{Undone: []uint64{}, Results: []TxOpResult{}, Warnings: []Warning{}}
	ctx, _, end := progress.Begin(ctx)
	defer end()
	c.Outcome = func() any { return outcome{Undone: out.Undone} }
	of := c.whose(r.Caller, r.Session)
	if r.Row != 0 {
		of, n = whose{row: r.Row}, 1
	}
	if r.Group != "" {
		of, n = whose{group: r.Group}, maxUndo
	}
	if err := s.prepareUndo(ctx, c, of, n, &out); err != nil {
		c.Release()
		return UndoResult{}, c.Failed(err)
	}
	if err := s.commit(ctx, c); err != nil {
		return UndoResult{}, err
	}
	if c.status() == StatusUnchanged {
		c.First().Warn(WarnCommitsCancelOut)
	}
	rec, status := c.finished()
	out.Seq, out.Diff, out.WroteAt, out.Status, out.Receipt = rec.JournalSeq, c.Diff, c.wroteAt(), status, rec
	switch status {
	case StatusReplayed:
		out.Results, out.Undone = replayedFiles(c.Replayed), append(out.Undone, c.storedOutcome().Undone...)
		return out, nil
	case StatusUnchanged: // there is no row, and the next call finds the same commits
		out.Undone, out.Warnings = []uint64{}, append(out.Warnings, rec.Warnings...)
		return out, nil
	}
	for i, m := range c.Muts {
		res := TxOpResult{Op: "write", Path: m.Path, SHA256: digest(m.SHA), PrevSHA256: digest(m.Prev.SHA), Bytes: m.Size}
		if m.Op == engine.OpDelete {
			res.Op = "delete"
		}
		if rec.JournalSeq > 0 {
			res.JournalID = engine.JournalID(rec.JournalSeq, i)
		}
		out.Results = append(out.Results, res)
		out.Warnings = append(out.Warnings, warningsOf(m.Warnings)...)
	}
	return out, nil
}

// replayedFiles returns the files of the workspace that a commit changed.
func replayedFiles(rec *journal.Record) []TxOpResult {
	list := []TxOpResult{}
	for i := range rec.Muts {
		m := &rec.Muts[i]
		if m.Class != "" {
			continue
		}
		res := TxOpResult{Op: "write", Path: m.Path, SHA256: digest(m.SHA256), PrevSHA256: digest(m.PrevSHA256), Bytes: m.Bytes, JournalID: engine.JournalID(rec.Seq, i)}
		switch {
		case m.From != "":
			res.Op = "move"
		case m.SHA256 == "":
			res.Op = "delete"
		}
		list = append(list, res)
	}
	return list
}

func (s *Store) headSeq() uint64 {
	if s.engine.Log == nil {
		return 0
	}
	return s.engine.Log.Head()
}

// undoing is a file that an undo restores.
type undoing struct {
	path   string
	newest *journal.Mutation // of the commits that are undone
	oldest *journal.Mutation
	seq    uint64 // of the newest
	first  uint64 // of the oldest
	broken bool   // another program changed it between two of them
}

// prepareUndo finds the commits and takes the bytes from before them.
func (s *Store) prepareUndo(ctx context.Context, c *commit, of whose, n int, out *UndoResult) error {
	if err := s.engine.Enter(); err != nil {
		return err
	}
	defer s.engine.Leave()
	if s.keyKnown(c.Req.Key) {
		c.Muts = []*engine.Mutation{} // the key answers
		return nil
	}
	if err := s.engine.Settler.Drain(); err != nil { // what is settled in the background enters history only then
		return err
	}
	recs, err := s.lastCommits(of, n)
	if err != nil {
		return err
	}
	if len(recs) == 0 {
		e := fault.New(fault.NothingToUndo)
		switch {
		case of.group != "":
			e = e.Hintf("no group of observed changes has this identifier; Store.Changes lists them")
		case of.row != 0:
			e = e.Hintf("no commit of the workspace has this row; Store.JournalTail lists them")
		case of.none:
			e = e.Hintf("calls over this protocol have no session, so no commit is known to be yours; pass the session or the caller whose commits to undo")
		case of.session != c.session:
			e = e.Hintf("this session has no commit left to undo; pass caller to undo commits of earlier or other sessions")
		}
		return e
	}
	if err := observe.CheckGroup(recs, of.group); err != nil {
		return err
	}
	for _, rec := range recs {
		out.Undone = append(out.Undone, rec.Seq)
		if rec.Group != nil {
			out.IgnoredNotUndone = append(out.IgnoredNotUndone, rec.Group.Ignored...)
		}
	}
	files := undoFiles(recs)
	c.Dirs = s.undoDirs(recs, files)
	files = withoutIdle(files, c.Dirs)
	c.Expects = len(files)
	git := s.observed.Git(ctx)
	defer git.Close()
	account := progress.Of(ctx)
	if len(files) > manyFiles {
		account.Things(string(StepVersions), int64(len(files)), fmt.Sprintf("undoing %d files", len(files)))
	}
	for _, f := range files {
		account.One()
		last, err := s.engine.LastRow(f.path)
		if err != nil {
			return err
		}
		if of.group == "" && last.Seq != f.seq || f.broken { // of a group the hash decides
			e := fault.New(fault.ChangedOutside).With("version", last.Seq).Hintf("row %d changed the file since; undo that first (what a scan recorded: the group obs_%d), or restore the version you want", last.Seq, last.Seq)
			e.Path = f.path
			return e
		}
		m, err := s.undoOne(ctx, c, f, git)
		if m != nil {
			c.Muts = append(c.Muts, m)
		}
		if err != nil {
			e := s.engine.ErrorOf(err)
			if e.Code == fault.VersionNotKept {
				e = s.whatIsAmiss(e, files)
			}
			if e.Path == "" {
				e.Path = f.path
			}
			return e
		}
	}
	gone, err := s.goneDirs(c.Muts, c.Dirs)
	if err != nil {
		return err
	}
	c.Dirs = append(c.Dirs, gone...)
	return nil
}

// whatIsAmiss explains why earlier bytes are unavailable. If another program
// changed the file that held them, the error reports that instead.
func (s *Store) whatIsAmiss(e *fault.Fault, files []*undoing) *fault.Fault {
	for _, f := range files {
		if have, err := s.engine.HashEntry(f.path); err == nil && have != f.newest.SHA256 {
			e = engine.ChangedOutside("undo", f.newest.SHA256, have)
			e.Path = f.path
			break
		}
	}
	return e
}

// lastCommits returns the newest n commits that changed the workspace, newest
// first.
func (s *Store) lastCommits(of whose, n int) ([]*journal.Record, error) {
	if err := s.engine.Log.CatchUp(); err != nil {
		return nil, err
	}
	aborted := map[uint64]bool{}
	recs, _, err := s.engine.Log.Tail(n, func(rec *journal.Record) bool {
		if rec.Kind == journal.KindAbort {
			aborted[rec.Ref] = true
		}
		if rec.Kind != journal.KindCommit && of.group == "" || aborted[rec.Seq] || !of.made(rec) {
			return false
		}
		for i := range rec.Muts {
			if (rec.Muts[i].Class == "" || rec.Muts[i].Class == journal.ClassDirectory) && rec.Muts[i].ImportID == "" {
				return true
			}
		}
		return false
	}, 0)
	if err != nil {
		return nil, err
	}
	sort.Slice(recs, func(i, j int) bool { return recs[i].Seq > recs[j].Seq })
	return recs, nil
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
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].path < list[j].path })
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

// undoDirs returns the directories of some commits, newest commit first, as they
// were before. Those that the commits made for their files are removed if nothing
// else is in them.
func (s *Store) undoDirs(recs []*journal.Record, files []*undoing) (list []journal.Mutation) {
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
	return s.dirsToMake(append(list, s.leftEmpty(made, files)...))
}

// leftEmpty returns removals of those directories that are empty, or contain only
// what the undo removes. Those that are false in made are removed anyway.
func (s *Store) leftEmpty(made map[string]bool, files []*undoing) (list []journal.Mutation) {
	goes := map[string]bool{}
	for _, f := range files {
		if f.oldest.PrevSHA256 == "" {
			goes[f.path] = true
		}
	}
	paths := slices.Sorted(maps.Keys(made))
	slices.Reverse(paths) // what is inside first
	for _, dir := range paths {
		names, mode, err := s.engine.ListDirectory(dir)
		if err != nil || slices.ContainsFunc(names, func(name string) bool { return !goes[engine.JoinPath(dir, name)] }) {
			continue
		}
		if goes[dir] = true; made[dir] {
			list = append(list, journal.Mutation{Path: dir, PrevMode: mode})
		}
	}
	return list
}

// dirsToMake returns the changes of directories that a commit may make: those
// with an effect, except empty directories that git would treat as parts of a
// repository.
func (s *Store) dirsToMake(list []journal.Mutation) []journal.Mutation {
	return slices.DeleteFunc(list, func(d journal.Mutation) bool {
		part := gitdir.Part(path.Base(d.Path), s.gate.Folds)
		return d.Mode == d.PrevMode || d.PrevMode == 0 && part != "" && s.engine.IsThere(engine.JoinPath(engine.ParentOf(d.Path), gitdir.Head))
	})
}

// undoOne returns the mutation that restores one file.
func (s *Store) undoOne(ctx context.Context, c *commit, f *undoing, git *observe.Git) (*engine.Mutation, error) {
	believed := f.newest.SHA256
	m := &engine.Mutation{
		Path: f.path, Op: engine.OpOverwrite, Kind: "undo", Force: true, AllowShrink: true, Ungated: true, Expected: &believed, Guarded: true,
		NoFollow: true, WasLink: f.newest.Link(),
	}
	sha, size := f.oldest.PrevSHA256, f.oldest.PrevBytes
	if sha == "" {
		m.Op, m.AbsentOK = engine.OpDelete, true
		return m, nil
	}
	before := f.oldest.ModeBefore()
	mode := before
	switch {
	case fsx.KindOf(before) == fsx.Symlink:
		m.Perm, mode = &before, 0
	case f.oldest.PrevMode != 0, f.newest.SHA256 != "" && f.newest.Mode != 0 && f.newest.Mode != before:
		m.Perm = &before // the commits have changed it
	}
	if sum, err := s.takeVersion(c, m, sha, f.oldest.Mode); err != nil || sum == sha {
		return m, err
	}
	for _, place := range []func() (io.ReadCloser, error){
		func() (io.ReadCloser, error) { return s.observed.Kept(sha, size), nil },
		func() (io.ReadCloser, error) { return git.Open(f.path, f.oldest.PrevGit), nil },
		func() (io.ReadCloser, error) { return s.contentBefore(f) },
		func() (io.ReadCloser, error) { return s.observed.StartOf(f.path, size), nil },
	} {
		src, err := place()
		if err != nil {
			return m, err
		}
		if src == nil {
			continue
		}
		sum, err := s.takeKept(ctx, c, m, src, mode)
		src.Close()
		if err != nil {
			return m, err
		}
		if sum == sha {
			return m, nil
		}
		m.DropSpooled()
	}
	return nil, s.versions.NotKept(sha)
}

// takeVersion has a commit of many files read a version directly from history. It
// returns the hash of what was taken, "" if nothing was. mode is the mode of the
// file if it is created.
func (s *Store) takeVersion(c *commit, m *engine.Mutation, sha string, mode uint32) (string, error) {
	sum, ok, err := c.TakeFile(m, func() (fsx.File, error) { return s.engine.History.Open(sha) })
	if err != nil || !ok {
		return "", nil // the other places may have it
	}
	if m.Perm == nil && mode != 0 && !s.engine.IsThere(m.Path) {
		m.Perm = &mode
	}
	return sum, nil
}

// contentBefore opens what a file held before the oldest of the undone commits,
// if a later version holds it: one that was left unchanged or appended to, or one
// under the name it was moved to; nil if there is none.
func (s *Store) contentBefore(f *undoing) (io.ReadCloser, error) {
	var src io.ReadCloser
	err := error(fault.New(fault.VersionNotKept))
	switch {
	case f.oldest.PaySHA256 != "" || f.oldest.SHA256 == f.oldest.PrevSHA256:
		src, _, err = s.versions.ContentAt(f.path, f.first, f.oldest.PrevBytes)
	case f.oldest.SHA256 == "":
		src, _, err = s.versions.MovedContent(f.first, f.path, f.oldest.PrevBytes)
	}
	if err != nil {
		return nil, nil // the other places may have it
	}
	return src, nil
}
