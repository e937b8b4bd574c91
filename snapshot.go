package resilientwrite

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/gate"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
	"github.com/resilientwrite/resilientwrite/internal/progress"
)

// SnapshotRequest asks for a snapshot of the workspace.
type SnapshotRequest struct {
	// What it is for, in a few words.
	Label string `json:"label,omitempty"`
	// Name of the working session.
	Session string `json:"session,omitempty"`
}

// Snapshot describes the state of the workspace at one moment.
type Snapshot struct {
	// Identifier.
	ID string `json:"id"`
	// When it was made, RFC 3339 UTC.
	At string `json:"at"`
	// Newest journal row then.
	Seq uint64 `json:"seq"`
	// What it is for.
	Label string `json:"label,omitempty"`
	// Name of the working session.
	Session string `json:"session,omitempty"`
	// Commit that was checked out in the repository of the workspace.
	BaseCommit string `json:"base_commit,omitempty"`
	// Number of files, and of those whose bytes git has.
	Files   int `json:"files"`
	FromGit int `json:"from_git"`
	// Size of all files in bytes.
	Bytes int64 `json:"bytes"`
	// Number of files whose bytes are not kept, because they are too large.
	NotKept int `json:"not_kept,omitempty"`
}

// SnapshotListRequest asks for the snapshots.
type SnapshotListRequest struct{}

// SnapshotListResult lists the snapshots, newest first.
type SnapshotListResult struct {
	Snapshots []Snapshot `json:"snapshots"`
}

// SnapshotDiffRequest asks what differs between two snapshots.
type SnapshotDiffRequest struct {
	// Identifier of the earlier one.
	From string `json:"from"`
	// Identifier of the later one; empty: the workspace as it is.
	To string `json:"to,omitempty"`
}

// SnapshotDiffResult lists the files that differ.
type SnapshotDiffResult struct {
	Created int `json:"created"`
	Changed int `json:"changed"`
	Deleted int `json:"deleted"`
	// The files, in the order of their paths; at most 10,000.
	Files []SnapshotFile `json:"files"`
	// True when there are more.
	Truncated bool `json:"truncated,omitempty"`
}

// SnapshotFile is a file that differs.
type SnapshotFile struct {
	// Path relative to the workspace.
	Path string `json:"path"`
	// created, changed, mode or deleted, from the earlier to the later state.
	Change string `json:"change" enum:"created,changed,mode,deleted"`
	// SHA-256 in the later and the earlier state; empty for a file that is not
	// there.
	SHA256     Digest `json:"sha256"`
	PrevSHA256 Digest `json:"prev_sha256"`
	// Size in the later state, in bytes.
	Bytes int64 `json:"bytes"`
	// True for a symbolic link in the later state. Its content is its target.
	Link bool `json:"link,omitempty"`

	wasLink bool
}

// SnapshotRestoreRequest asks for the workspace to become what it was.
type SnapshotRestoreRequest struct {
	Call `omit:"accept_risk"`
	// Identifier of the snapshot.
	ID string `json:"id"`
	// Also replace what was changed since without a tool call: most likely the
	// edits of a person. History keeps them.
	Force bool `json:"force,omitempty"`
}

// SnapshotRestoreResult reports what was restored.
type SnapshotRestoreResult struct {
	// The files that were written or deleted.
	Results []TxOpResult `json:"results"`
	// Journal row of the commit; 0 when nothing differed.
	Seq uint64 `json:"seq"`
	// Outcome of the call.
	Status Status `json:"status" enum:"succeeded,unchanged,replayed"`
	// The full record of the call, with the facts of the first file.
	Receipt Receipt `json:"receipt"`
}

// Snapshot records the state of the workspace: every file whose changes a
// [Store.Scan] records, with its hash and mode. It scans first, and only reads
// what changed since the last scan. The bytes are in history, or in git if its
// object equals the file; those of files above 8 MiB are not kept. The 50 newest
// snapshots of the last 30 days are kept, and always the newest one; history
// keeps the bytes that they need as far as its limit of bytes allows. Errors:
// those of [Store.Scan], and [ErrChangedDuringWrite] for a file that was changed
// meanwhile.
func (s *Store) Snapshot(ctx context.Context, r SnapshotRequest) (Snapshot, error) {
	out, err := s.snapshot(ctx, r)
	if err != nil {
		return Snapshot{}, s.verbError("snapshot", err)
	}
	return out, nil
}

func (s *Store) snapshot(ctx context.Context, r SnapshotRequest) (Snapshot, error) {
	if e := checkLabels(r.Label, r.Session, ""); e != nil {
		return Snapshot{}, e
	}
	found, index, err := s.scan(ctx, ScanRequest{Session: r.Session}, nil)
	if err != nil {
		return Snapshot{}, err
	}
	if found.Partial || len(found.Busy) > 0 {
		return Snapshot{}, fault.New(fault.ChangedDuringWrite).With("files", found.Busy).Hintf("files of the workspace are being changed; try again")
	}
	if err := s.engine.Enter(); err != nil {
		return Snapshot{}, err
	}
	defer s.engine.Leave()
	snap, err := s.observed.Save(ctx, index, observe.Snapshot{Seq: s.headSeq(), Label: asLabel(s.safeText(r.Label)), Session: r.Session, Base: s.observed.Head()})
	return snapshotOf(snap), err
}

func snapshotOf(x observe.Snapshot) Snapshot {
	return Snapshot{
		ID: x.ID, At: x.At.Format(engine.TimeFormat), Seq: x.Seq, Label: x.Label, Session: x.Session, BaseCommit: x.Base,
		Files: x.Files, FromGit: x.FromGit, Bytes: x.Bytes, NotKept: x.Unkept,
	}
}

// SnapshotList lists the snapshots, newest first. Errors: the storage details,
// [ErrStoreClosed].
func (s *Store) SnapshotList(_ context.Context, _ SnapshotListRequest) (SnapshotListResult, error) {
	out := SnapshotListResult{Snapshots: []Snapshot{}}
	if err := s.engine.EnterReader(); err != nil {
		return out, s.verbError("snapshot_list", err)
	}
	defer s.engine.Leave()
	list, err := s.observed.List()
	if err != nil {
		return out, s.verbError("snapshot_list", err)
	}
	for _, x := range list {
		out.Snapshots = append(out.Snapshots, snapshotOf(x))
	}
	return out, nil
}

// SnapshotDiff lists the differences between two snapshots, or between one and
// the workspace, which is scanned first. Errors: [ErrNotFound] for a snapshot
// that does not exist, [ErrHashDriftOnRead] for a damaged one, those of
// [Store.Scan].
func (s *Store) SnapshotDiff(ctx context.Context, r SnapshotDiffRequest) (SnapshotDiffResult, error) {
	out := SnapshotDiffResult{Files: []SnapshotFile{}}
	from, to, err := s.twoStates(ctx, r.From, r.To)
	if err != nil {
		return out, s.verbError("snapshot_diff", err)
	}
	for _, d := range differences(from, to) {
		switch d.Change {
		case "created":
			out.Created++
		case "deleted":
			out.Deleted++
		default:
			out.Changed++
		}
		if len(out.Files) < maxChangedFiles {
			out.Files = append(out.Files, d)
		} else {
			out.Truncated = true
		}
	}
	return out, nil
}

// twoStates returns the files of two snapshots, or those of the workspace if the
// second has no name.
func (s *Store) twoStates(ctx context.Context, from, to string) (a, b map[string]observe.File, err error) {
	_, x, err := s.observed.Load(from)
	if err != nil {
		return nil, nil, err
	}
	var y *observe.Index
	if to != "" {
		_, y, err = s.observed.Load(to)
	} else {
		_, y, err = s.scan(ctx, ScanRequest{}, nil)
	}
	if err != nil {
		return nil, nil, err
	}
	a, b = statesOf(x, y)
	return a, b, nil
}

// statesOf returns the files of two indexes. Symbolic links that the earlier
// format of one does not record are omitted from the other.
func statesOf(x, y *observe.Index) (a, b map[string]observe.File) {
	a, b = x.All(), y.All()
	unknown := func(of map[string]observe.File) func(string, observe.File) bool {
		return func(p string, f observe.File) bool { return f.Link() && of[p].Entry == nil }
	}
	if !x.Links {
		maps.DeleteFunc(b, unknown(a))
	}
	if !y.Links {
		maps.DeleteFunc(a, unknown(b))
	}
	return a, b
}

// differences returns the changes from one state to another, in the order of
// paths.
func differences(from, to map[string]observe.File) (list []SnapshotFile) {
	for p, now := range to {
		was, ok := from[p]
		switch {
		case !ok:
			list = append(list, SnapshotFile{Path: p, Change: "created", SHA256: now.SHA, Bytes: now.Size, Link: now.Link()})
		case was.SHA != now.SHA || was.Link() != now.Link():
			list = append(list, SnapshotFile{p, "changed", now.SHA, was.SHA, now.Size, now.Link(), was.Link()})
		case was.Mode != now.Mode:
			list = append(list, SnapshotFile{p, "mode", now.SHA, was.SHA, now.Size, false, false})
		}
	}
	for p, was := range from {
		if _, ok := to[p]; !ok {
			list = append(list, SnapshotFile{Path: p, Change: "deleted", PrevSHA256: was.SHA, wasLink: was.Link()})
		}
	}
	slices.SortFunc(list, func(a, b SnapshotFile) int { return strings.Compare(a.Path, b.Path) })
	return list
}

// SnapshotRestore makes the workspace what it was in a snapshot, in one commit
// that changes only what differs and that [Store.Undo] undoes. Files that were
// created since are deleted; the current content is kept in history. It fails
// with [ErrChangedOutside], and names the files, when one of those that differ
// was changed since without a tool call, unless force is set. It always fails so
// when a file changes while it runs, or when a file would replace a directory
// that holds anything the snapshot does not have (context files). Other errors:
// [ErrNotFound], [ErrVersionNotKept] for bytes that neither history nor git has
// any more (context base_gone: git collected them), [ErrHashDriftOnRead], those
// of [Store.Scan] and [Store.SafeWrite].
func (s *Store) SnapshotRestore(ctx context.Context, r SnapshotRestoreRequest) (SnapshotRestoreResult, error) {
	req := r.request("snapshot_restore", r)
	req.long = true
	c := s.newCommit(ctx, req)
	ctx, _, end := progress.Begin(ctx)
	defer end()
	out := SnapshotRestoreResult{Results: []TxOpResult{}}
	err := error(nil)
	if e := r.Call.check(ctx); e != nil {
		err = e
	} else {
		err = s.prepareSnapshot(ctx, c, r)
	}
	if err != nil {
		c.Release()
		return out, c.Failed(err)
	}
	if len(c.Muts)+len(c.Dirs) == 0 && !s.keyKnown(c.Req.Key) {
		c.Release()
		out.Status = StatusUnchanged
		return out, nil
	}
	if err := s.commit(ctx, c); err != nil {
		return out, err
	}
	rec, status := c.finished()
	out.Seq, out.Status, out.Receipt = rec.JournalSeq, status, rec
	if status == StatusReplayed {
		out.Results = replayedFiles(c.Replayed)
		return out, nil
	}
	for i, m := range c.Muts {
		op := TxOpResult{Op: "write", Path: m.Path, SHA256: digest(m.SHA), PrevSHA256: digest(m.Prev.SHA), Bytes: m.Size, JournalID: engine.JournalID(rec.JournalSeq, i)}
		if m.Op == engine.OpDelete {
			op.Op = "delete"
		}
		out.Results = append(out.Results, op)
	}
	return out, nil
}

// prepareSnapshot makes the mutations that lead back to a snapshot.
func (s *Store) prepareSnapshot(ctx context.Context, c *commit, r SnapshotRestoreRequest) error {
	if s.keyKnown(c.Req.Key) {
		c.Muts = []*engine.Mutation{} // the key answers
		return nil
	}
	snap, x, err := s.observed.Load(r.ID)
	if err != nil {
		return err
	}
	_, y, err := s.scan(ctx, ScanRequest{}, nil)
	if err != nil {
		return err
	}
	c.Dirs = s.dirsToMake(observe.Directories(y, x))
	then, now := statesOf(x, y)
	list := differences(now, then)
	if err := s.unattributed(list, snap.Seq, r.Force); err != nil {
		return err
	}
	git := s.observed.Git(ctx)
	defer git.Close()
	return s.changeInto(c, list, func(m *engine.Mutation, path string) error { return s.takeSnapshotFile(ctx, c, m, then[path], git) })
}

// changeInto makes the mutations of differences; take takes the bytes of a file
// that is written.
func (s *Store) changeInto(c *commit, list []SnapshotFile, take func(m *engine.Mutation, path string) error) error {
	c.Expects = len(list)
	for _, d := range list {
		believed := d.PrevSHA256.String()
		m := &engine.Mutation{
			Path: d.Path, Op: engine.OpOverwrite, Kind: "restore", Force: true, AllowShrink: true, Ungated: true, Expected: &believed, Guarded: true,
			NoFollow: true, WasLink: d.wasLink,
		}
		c.Muts = append(c.Muts, m)
		if d.Change == "deleted" {
			m.Op = engine.OpDelete
			continue
		}
		if err := take(m, d.Path); err != nil {
			e := s.engine.ErrorOf(err)
			e.Path = cmp.Or(e.Path, d.Path)
			return e
		}
	}
	return nil
}

// unattributed refuses to replace changes that were made after a row outside
// every tool call.
func (s *Store) unattributed(list []SnapshotFile, after uint64, force bool) error {
	if force {
		return nil
	}
	rows, names := map[uint64]*journal.Record{}, []string{}
	for _, d := range list {
		last, err := s.engine.LastRow(d.Path)
		if err != nil {
			return err
		}
		if last.Seq <= after {
			continue
		}
		if rows[last.Seq] == nil {
			if rows[last.Seq], err = s.engine.Log.Find(last.Seq); err != nil {
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
	e := fault.New(fault.ChangedOutside).With("files", names[:min(len(names), gate.MaxListed)]).With("count", len(names)).
		Hintf("files were changed since without a tool call, most likely by a person; nothing was restored; pass force if they may be replaced (history keeps them)")
	e.Path = names[0]
	return e
}

// takeSnapshotFile takes the bytes and the mode of a file in a snapshot.
func (s *Store) takeSnapshotFile(ctx context.Context, c *commit, m *engine.Mutation, f observe.File, git *observe.Git) error {
	mode := f.Mode
	m.Perm = &mode
	if sum, err := s.takeVersion(c, m, f.Hex(), mode); err != nil || sum == f.Hex() {
		return err
	}
	for _, place := range []func() (io.ReadCloser, error){
		func() (io.ReadCloser, error) { return s.observed.Kept(f.Hex(), f.Size), nil },
		func() (io.ReadCloser, error) { return git.Open(f.Path, f.GitHex()), nil },
		func() (io.ReadCloser, error) { return s.observed.StartOf(f.Path, f.Size), nil },
	} {
		src, err := place()
		if err != nil {
			return err
		}
		if src == nil {
			continue
		}
		sum, err := s.takeKept(ctx, c, m, src, mode)
		src.Close()
		if err != nil {
			return err
		}
		if sum == f.Hex() {
			return nil
		}
		m.DropSpooled()
	}
	e := s.versions.NotKept(f.Hex())
	if f.Git != "" {
		e.With("base_gone", true).Hintf("git had the content of this file and has collected it; restore another snapshot, or fetch the commit again")
	}
	return e
}
