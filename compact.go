package resilientwrite

import (
	"context"

	"github.com/resilientwrite/resilientwrite/internal/fault"
)

// defaultKeepRows is how many of the newest rows remain reachable by cursors.
const defaultKeepRows = 10_000

// CompactRequest asks for the state directory to be put in order.
type CompactRequest struct {
	Call `omit:"idempotency_key,accept_risk"`

	// Keep at least this many of the newest rows in live segments, where cursors
	// can reach them.
	KeepRows *int `json:"keep_rows,omitempty" default:"10000" min:"0"`
}

// CompactResult reports what was put in order.
type CompactResult struct {
	// Segments that were moved to archive/, oldest first.
	Archived []ArchivedSegment `json:"archived"`
	// Oldest row that a cursor can reach.
	LiveFrom uint64 `json:"live_from"`
	// Index snapshots that exist and were verified.
	Snapshots int `json:"snapshots"`
	// Kept versions that exceeded a limit of history.
	VersionsRemoved int `json:"versions_removed"`
	// Total size of those in bytes.
	VersionBytes int64 `json:"version_bytes"`
	// Kept versions that are now further names of those that another work tree of
	// the repository keeps.
	VersionsShared int `json:"versions_shared"`
	// Expired objects of the scratchpad.
	ScratchRemoved int `json:"scratch_removed"`
	// Expired or damaged checkpoints; damaged ones are in quarantine.
	CheckpointsGone int `json:"checkpoints_removed"`
	// Expired drafts.
	DraftsRemoved int `json:"drafts_removed"`
	// Expired staged transactions.
	TxDropped int `json:"transactions_dropped"`
	// Retry counts that have expired.
	BudgetsRemoved int `json:"budgets_removed"`
	// Outcome of the call.
	Status Status `json:"status" enum:"succeeded,unchanged"`
	// What the caller should know although the call succeeded.
	Warnings []Warning `json:"warnings"`
	// The full record of the call.
	Receipt Receipt `json:"receipt"`
}

// ArchivedSegment is one segment of the journal in archive/.
type ArchivedSegment struct {
	// Its first row.
	First uint64 `json:"first"`
	// Its last row.
	Last uint64 `json:"last"`
	// Number of rows.
	Rows int64 `json:"rows"`
	// Its size in bytes.
	Bytes int64 `json:"bytes"`
	// SHA-256 of the segment.
	SHA256 Digest `json:"sha256"`
}

// Compact puts the state directory in order, concurrently with writers. It writes
// fresh snapshots of the index and reads them back. It moves the segments of the
// journal that precede both the older snapshot and the newest keep_rows rows to
// archive/. It applies the limits of history and removes what has expired:
// objects of the scratchpad, checkpoints, refused drafts, staged transactions,
// counts of failed calls. Kept versions that another work tree of the same
// repository also keeps become hard links to those, if the file system supports
// them.
// those, where the file system has such names.
//
// No row is lost: [Store.History], [Store.JournalTail], [Store.Undo] and
// [Store.Check] still read archive/. Only a cursor of [Store.JournalSince] does
// not reach it and gets a gap. Before a segment moves, a note in the journal
// records its rows, size and hash. If Compact is killed at any point, the store
// is sound, and the next call finishes the work. A second call with nothing to do
// changes nothing and returns unchanged.
//
// Limits of history are applied while other processes run. If one of them was
// stopped while it added a version, the limits are not applied, and the warning
// other_writer_live reports it. Errors: [ErrInvalidArgument], [ErrLockTimeout],
// [ErrJournalDamaged] when archive/ holds another segment of the same name, the
// storage details, [ErrStorePoisoned], [ErrStoreClosed], [ErrStoreReadOnly],
// [ErrCanceled].
func (a Admin) Compact(ctx context.Context, r CompactRequest) (CompactResult, error) {
	s := a.s
	u, ctx, err := s.beginUpkeep(ctx, upkeepCall{op: "compact", caller: r.Caller, session: r.Session, dryRun: r.DryRun})
	if err != nil {
		return CompactResult{}, err
	}
	keep := defaultKeepRows
	if r.KeepRows != nil {
		keep = *r.KeepRows
	}
	if keep < 0 {
		return CompactResult{}, u.failed(fault.New(fault.InvalidArgument).With("argument", "keep_rows").Hintf("keep_rows must be 0 or more"))
	}
	done, err := u.Compact(ctx, keep)
	if err != nil {
		return CompactResult{}, u.failed(err)
	}
	out := CompactResult{
		Archived: []ArchivedSegment{}, LiveFrom: done.LiveFrom, Snapshots: done.Snapshots, VersionsRemoved: done.Versions, VersionBytes: done.VersionBytes, VersionsShared: done.Shared,
		ScratchRemoved: done.Scratch, CheckpointsGone: done.Checkpoints, DraftsRemoved: done.Drafts, TxDropped: done.Tx, BudgetsRemoved: done.Budgets,
		Status: changedOr(done.Changed), Warnings: []Warning{},
	}
	for _, f := range done.Archived {
		out.Archived = append(out.Archived, ArchivedSegment{First: f.First, Last: f.Last, Rows: f.Rows, Bytes: f.Bytes, SHA256: digest(f.SHA256)})
	}
	if done.OtherWriter {
		out.Warnings = append(out.Warnings, warning(WarnOtherWriterLive))
	}
	out.Receipt = u.done(out.Status, out.Warnings)
	return out, nil
}
