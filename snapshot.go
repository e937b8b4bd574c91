package resilientwrite

import (
	"context"

	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/changes"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
	"github.com/resilientwrite/resilientwrite/internal/progress"
)

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
func (s *Store) Snapshot(ctx context.Context, r around.SnapshotRequest) (around.Snapshot, error) {
	out, err := s.snapshot(ctx, r)
	if err != nil {
		return around.Snapshot{}, s.verbError("snapshot", err)
	}
	return out, nil
}

func (s *Store) snapshot(ctx context.Context, r around.SnapshotRequest) (around.Snapshot, error) {
	if e := checkLabels(r.Label, r.Session, ""); e != nil {
		return around.Snapshot{}, e
	}
	found, index, err := s.scan(ctx, around.ScanRequest{Session: r.Session}, nil)
	if err != nil {
		return around.Snapshot{}, err
	}
	if found.Partial || len(found.Busy) > 0 {
		return around.Snapshot{}, fault.New(fault.ChangedDuringWrite).With("files", found.Busy).Hintf("files of the workspace are being changed; try again")
	}
	if err := s.engine.Enter(); err != nil {
		return around.Snapshot{}, err
	}
	defer s.engine.Leave()
	snap, err := s.observed.Save(ctx, index, observe.Snapshot{Seq: s.headSeq(), Label: asLabel(s.safeText(r.Label)), Session: r.Session, Base: s.observed.Head()})
	return snap.Report(), err
}

// SnapshotList lists the snapshots, newest first. Errors: the storage details,
// [ErrStoreClosed].
func (s *Store) SnapshotList(
	ctx context.Context, _ around.SnapshotListRequest,
) (around.SnapshotListResult, error) {
	return looking(ctx, s, "snapshot_list", func() (around.SnapshotListResult, error) {
		list, err := s.observed.List()
		return around.SnapshotListResult{Snapshots: convert(list, observe.Snapshot.Report)}, err
	})
}

// SnapshotDiff lists the differences between two snapshots, or between one and
// the workspace, which is scanned first. Errors: [ErrNotFound] for a snapshot
// that does not exist, [ErrHashDriftOnRead] for a damaged one, those of
// [Store.Scan].
func (s *Store) SnapshotDiff(
	ctx context.Context, r around.SnapshotDiffRequest,
) (around.SnapshotDiffResult, error) {
	out := around.SnapshotDiffResult{Files: []around.FileChange{}}
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
			out.Files = append(out.Files, around.FileChange{
				Path: d.Path, Change: d.Change, SHA256: d.SHA, PrevSHA256: d.PrevSHA, Bytes: d.Bytes, Link: d.Link,
			})
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
		_, y, err = s.scan(ctx, around.ScanRequest{}, nil)
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
	_, now, err := s.scan(ctx, around.ScanRequest{}, nil)
	if err != nil {
		return err
	}
	t := s.taking(ctx, c)
	return s.changes().Rewind(ctx, c.Commit, snap, then, now, r.Force, t)
}
