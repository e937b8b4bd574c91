package resilientwrite

import (
	"context"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/changes"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
	"github.com/resilientwrite/resilientwrite/internal/progress"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// SnapshotRequest asks for a snapshot of the workspace.
type SnapshotRequest struct {
	Label   string `json:"label,omitempty"`   // What it is for, in a few words.
	Session string `json:"session,omitempty"` // Name of the working session.
}

// Snapshot describes the state of the workspace at one moment.
type Snapshot struct {
	ID      string    `json:"id"`                // Identifier.
	At      time.Time `json:"at"`                // When it was made, RFC 3339 UTC.
	Seq     uint64    `json:"seq"`               // Newest journal row then.
	Label   string    `json:"label,omitempty"`   // What it is for.
	Session string    `json:"session,omitempty"` // Name of the working session.
	// Commit that was checked out in the repository of the workspace.
	BaseCommit string `json:"base_commit,omitempty"`
	// Number of files, and of those whose bytes git has.
	Files   int   `json:"files"`
	FromGit int   `json:"from_git"`
	Bytes   int64 `json:"bytes"` // Size of all files in bytes.
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
	From string `json:"from"`         // Identifier of the earlier one.
	To   string `json:"to,omitempty"` // Identifier of the later one; empty: the workspace as it is.
}

// SnapshotDiffResult lists the files that differ.
type SnapshotDiffResult struct {
	Created int `json:"created"`
	Changed int `json:"changed"`
	Deleted int `json:"deleted"`
	// The files, in the order of their paths; at most 10,000.
	Files     []FileChange `json:"files"`
	Truncated bool         `json:"truncated,omitempty"` // True when there are more.
}

// FileChange is a file that differs in two states of the workspace.
type FileChange struct {
	Path string `json:"path"` // Path relative to the workspace.
	// The change from the earlier to the later state; reverted means that there is
	// none any more.
	Change string `json:"change" enum:"created,changed,mode,deleted,reverted"`
	// SHA-256 in the later and the earlier state; empty for a file that is not
	// there.
	SHA256     Digest `json:"sha256"`
	PrevSHA256 Digest `json:"prev_sha256"`
	Bytes      int64  `json:"bytes"` // Size in the later state, in bytes.
	// True for a symbolic link in the later state. Its content is its target.
	Link bool `json:"link,omitempty"`
}

// SnapshotRestoreRequest asks for the workspace to become what it was.
type SnapshotRestoreRequest struct {
	Call `omit:"accept_risk"`
	ID   string `json:"id"` // Identifier of the snapshot.
	// Also replace what was changed since without a tool call: most likely the
	// edits of a person. History keeps them.
	Force bool `json:"force,omitempty"`
}

// SnapshotRestoreResult reports what was restored.
type SnapshotRestoreResult struct {
	// The full record of the call, with the facts of the first file.
	Receipt `json:"receipt" copies:"status"`
	Results []TxOpResult `json:"results"` // The files that were written or deleted.
	Seq     uint64       `json:"seq"`     // Journal row of the commit; 0 when nothing differed.
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
		ID: x.ID, At: stamp.Of(x.At), Seq: x.Seq, Label: x.Label, Session: x.Session, BaseCommit: x.Base,
		Files: x.Files, FromGit: x.FromGit, Bytes: x.Bytes, NotKept: x.Unkept,
	}
}

// SnapshotList lists the snapshots, newest first. Errors: the storage details,
// [ErrStoreClosed].
func (s *Store) SnapshotList(ctx context.Context, _ SnapshotListRequest) (SnapshotListResult, error) {
	out := SnapshotListResult{Snapshots: []Snapshot{}}
	if err := s.enterReader(ctx); err != nil {
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
	out := SnapshotDiffResult{Files: []FileChange{}}
	from, to, err := s.twoStates(ctx, r.From, r.To)
	if err != nil {
		return out, s.verbError("snapshot_diff", err)
	}
	for _, d := range observe.Differences(observe.States(from, to)) {
		switch d.Change {
		case "created":
			out.Created++
		case "deleted":
			out.Deleted++
		default:
			out.Changed++
		}
		if len(out.Files) < changes.MaxFiles {
			out.Files = append(out.Files, FileChange{d.Path, d.Change, d.SHA, d.PrevSHA, d.Bytes, d.Link})
		} else {
			out.Truncated = true
		}
	}
	return out, nil
}

// twoStates returns two snapshots, or one and the workspace if the second has no name.
func (s *Store) twoStates(ctx context.Context, from, to string) (x, y *observe.Index, err error) {
	if _, x, err = s.observed.Load(from); err != nil {
		return nil, nil, err
	}
	if to != "" {
		_, y, err = s.observed.Load(to)
	} else {
		_, y, err = s.scan(ctx, ScanRequest{}, nil)
	}
	return x, y, err
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
func (s *Store) SnapshotRestore(
	ctx context.Context, r SnapshotRestoreRequest,
) (SnapshotRestoreResult, error) {
	req := requestOf(r.Call, "snapshot_restore", r)
	req.long = true
	c := s.newCommit(ctx, req)
	ctx, _, end := progress.Begin(ctx)
	defer end()
	out := SnapshotRestoreResult{Results: []TxOpResult{}}
	if err := s.prepareSnapshot(ctx, c, r); err != nil {
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
	out.Receipt, out.Results = c.finished(), c.changedFiles()
	out.Seq = out.JournalSeq
	return out, nil
}

// prepareSnapshot makes the mutations that lead back to a snapshot.
func (s *Store) prepareSnapshot(ctx context.Context, c *commit, r SnapshotRestoreRequest) error {
	if e := checkCall(ctx, r.Call); e != nil {
		return e
	}
	if s.keyKnown(c.Req.Key) {
		c.Muts = []*engine.Mutation{} // the key answers
		return nil
	}
	snap, then, err := s.observed.Load(r.ID)
	if err != nil {
		return err
	}
	_, now, err := s.scan(ctx, ScanRequest{}, nil)
	if err != nil {
		return err
	}
	t := s.taking(ctx, c)
	return s.changes().Rewind(ctx, c.Commit, snap, then, now, r.Force, t)
}
