// Package admin defines the calls of an operator of a store, with their requests
// and results, and those of a check. A store returns them with its method Admin.
// Names such as ErrLockTimeout and Undo are those of the root package.
package admin

import (
	"context"
	"fmt"
	"io"

	"github.com/resilientwrite/resilientwrite/call"
)

// Operator has the calls of an operator. They are not tools, and do not go through
// commit, except for Materialize: they change segments, kept versions and caches,
// which a commit relies on. Only one of them runs at a time across all processes,
// concurrently with writers.
type Operator interface {
	// Repair repairs the problems that a deep Check finds, as far as that is
	// possible without inventing data. Caches – meta.json, snapshots of the index,
	// lists of sessions, the index of the scratchpad – are rebuilt from their
	// sources. Files that are damaged or do not belong here are moved to quarantine/,
	// where they keep their bytes. Segments of the journal whose rows are all
	// present, as the chain proves, are put in order: rows that were swapped,
	// duplicated or run together, garbage between them, a wrong name; the old segment
	// is kept in quarantine/. Nothing is deleted, and no row is invented.
	//
	// A journal with missing or changed rows cannot be repaired. Left reports this,
	// and with Acknowledge a note in the journal accepts exactly that damage, with
	// the reason: Check does not report it again, but still reports any other. Files
	// of the workspace are never changed: one that differs from its newest row was
	// changed by another program, which is no damage.
	//
	// Repeating it changes nothing. If Repair is killed at any point, the store is no
	// worse, and the next call continues. Errors: ErrInvalidArgument,
	// ErrLockTimeout, the storage details, ErrStorePoisoned, ErrStoreClosed,
	// ErrStoreReadOnly, ErrCanceled.
	Repair(ctx context.Context, r RepairRequest) (RepairResult, error)

	// Compact puts the state directory in order, concurrently with writers. It writes
	// fresh snapshots of the index and reads them back. It moves the segments of the
	// journal that precede both the older snapshot and the newest keep_rows rows to
	// archive/. It applies the limits of history and removes what has expired:
	// objects of the scratchpad, checkpoints, refused drafts, staged transactions,
	// counts of failed calls. Kept versions that another work tree of the same
	// repository also keeps become hard links to those, if the file system supports
	// them.
	//
	// No row is lost: History, JournalTail, Undo and
	// Check still read archive/. Only a cursor of JournalSince does
	// not reach it and gets a gap. Before a segment moves, a note in the journal
	// records its rows, size and hash. If Compact is killed at any point, the store
	// is sound, and the next call finishes the work. A second call with nothing to do
	// changes nothing and returns unchanged.
	//
	// Limits of history are applied while other processes run. If one of them was
	// stopped while it added a version, the limits are not applied, and the warning
	// other_writer_live reports it. Errors: ErrInvalidArgument, ErrLockTimeout,
	// ErrJournalDamaged when archive/ holds another segment of the same name, the
	// storage details, ErrStorePoisoned, ErrStoreClosed, ErrStoreReadOnly,
	// ErrCanceled.
	Compact(ctx context.Context, r CompactRequest) (CompactResult, error)

	// Erase erases a leaked secret from every part of the state directory, archive
	// included: as it is, escaped as in JSON, in base64, in hexadecimal and
	// percent-encoded. It is meant for the operator and is no tool.
	//
	// In the rows of the journal, also in the names of files that a scan found, and in
	// what is recorded about other programs and about who has read a handoff, the
	// secret is overwritten; size and other bytes stay. Files with such names are
	// removed from the stat index of the last scan and from snapshots. Everything else
	// that holds it is removed whole: kept versions, objects of the scratchpad with
	// their labels, refused drafts, pieces of chunk sessions, staged transactions,
	// checkpoints, archived handoffs, other files. The session then lacks the piece,
	// and the version is ErrVersionNotKept with erased set in the context.
	// Numbers of rows, cursors and the chain stay valid: notes in the journal record
	// the hash of each row and file before and afterwards, and Check accepts
	// them. Neither the secret nor a hash of it is written anywhere; hashes of
	// whole files that held it stay.
	//
	// Files of the workspace are not changed; Workspace lists those that still hold
	// it, except those in .git. Clean them first: a write that replaces such a file
	// keeps its old bytes in history. Removed bytes that the disk itself retains, and
	// copies elsewhere, are out of reach.
	//
	// Erase works concurrently with writers and may be killed at any point: the store
	// is sound, and calling again finishes. Errors: ErrInvalidArgument for a secret
	// that is shorter than 8 bytes, too uniform, or a part of what the journal itself
	// is made of, and for a reason or label that holds it; ErrBadSHA256,
	// ErrDraftNotFound, ErrLockTimeout, the storage details, ErrStorePoisoned,
	// ErrStoreClosed, ErrStoreReadOnly, ErrCanceled.
	Erase(ctx context.Context, r EraseRequest) (EraseResult, error)

	// Export writes the journal to W, archived rows too, as JSON lines: a header,
	// every row unchanged, and a last line with the number of rows and the hash of
	// everything before it. It writes the journal as it was when the call began;
	// writers are not blocked. It takes constant memory.
	//
	// [Operator.Import] reads an export. It holds no content, but paths, callers and
	// reasons are in it. Errors: ErrInvalidArgument without a writer,
	// ErrLockTimeout while another call of the operator runs, the storage details –
	// also those of W –, ErrStoreClosed, ErrCanceled. After an error the output
	// is incomplete, and Import refuses it. Nothing is changed on disk.
	Export(ctx context.Context, r ExportRequest) (ExportResult, error)

	// Import adds the rows of an export to a fresh store, where tail, history and
	// analytics show them with their original ids. The export is read to its end and
	// verified before anything is written: header, order, chain, number of rows,
	// final hash. An export has no content: versions of imported rows are available
	// only if history has their bytes.
	//
	// Rows are written in batches. If Import is killed, the store has a part of them,
	// and importing the same export again continues where it stopped; when all rows
	// are present the call is unchanged. Idempotency keys are not imported.
	//
	// Errors: ErrExportDamaged for an export that is truncated or changed, with
	// nothing left on disk; ErrNewerFormat; ErrStoreNotEmpty for a store with
	// rows of its own unless the request allows it; ErrInvalidArgument without a
	// reader; ErrLockTimeout; the storage details – also those of R –;
	// ErrStorePoisoned, ErrStoreClosed, ErrStoreReadOnly, ErrCanceled.
	Import(ctx context.Context, r ImportRequest) (ImportResult, error)

	// Content returns bytes that a row or a snapshot refers to: from history, git,
	// the file itself, or a later version that begins with them. They have the
	// requested hash. Errors: ErrVersionNotKept when none of these has them,
	// ErrTooLarge above 64 MiB, the path and storage details, ErrStoreClosed.
	Content(ctx context.Context, r ContentRequest) ([]byte, error)

	// SnapshotTree lists the files and directories of a snapshot. Errors:
	// ErrNotFound, ErrHashDriftOnRead, the storage details, ErrStoreClosed.
	SnapshotTree(ctx context.Context, id string) (Tree, error)

	// Materialize makes the workspace equal to the tree of another one, in one commit
	// that changes only what differs and that Undo undoes. The workspace must
	// be empty except for files that are in the tree with the same bytes, or that
	// equal git's own object: git and history keep the bytes of these. Files that git
	// ignores stay unless the tree has them. Directories are created and get their
	// modes; those that the tree does not have are removed if they are empty. The
	// bytes are compared with the tree before the commit.
	//
	// Errors: ErrChangedOutside for files that only the workspace has (context
	// files), and when another commit than Base is checked out (context base and
	// head), ErrHashDriftOnRead for bytes that are not those of the tree,
	// ErrTooLarge for more files than the process may open, those of Open as their
	// cause, and those of Scan and SafeWrite. After an error nothing
	// has changed.
	Materialize(ctx context.Context, r MaterializeRequest) (MaterializeResult, error)

	// ShipState returns what [Operator.SetShipState] kept, nil when there is nothing.
	// Errors: the storage details, ErrStoreClosed.
	ShipState() ([]byte, error)

	// SetShipState keeps the state of a shipper in the state directory, durably and
	// atomically: a JSON object of at most 1 MiB, whose member seq is the number of
	// the newest row that no longer needs to be shipped; Describe returns the
	// members of HubFacts. While there is one, pruning keeps the versions of later
	// rows; only the limit of bytes removes them. Call it under [Operator.HoldShipping].
	// Errors: ErrInvalidArgument, the storage details, ErrStoreReadOnly,
	// ErrStoreClosed.
	SetShipState(data []byte) error

	// HoldShipping excludes other shippers of this store, in every process, until
	// release is called. Errors: ErrLockTimeout while there is one,
	// ErrStoreReadOnly, ErrStoreClosed, ErrCanceled.
	HoldShipping(ctx context.Context) (release func(), err error)
}

// CheckRequest asks for the store to be checked.
type CheckRequest struct {
	// Also hash every kept version and every file that the journal says was
	// written.
	Deep bool `json:"deep,omitempty"`
}

// CheckResult is what a check found.
type CheckResult struct {
	Clean    bool           `json:"clean"`    // True when no problem was found.
	Problems []CheckProblem `json:"problems"` // The problems found.
	Counters CheckCounters  `json:"counters"` // How much was examined.
}

// CheckProblem is one thing that is wrong.
type CheckProblem struct {
	Code string `json:"code"` // Stable name of the problem.
	// The file concerned, relative to the workspace or the state directory.
	Path   string `json:"path,omitempty"`
	Seq    uint64 `json:"seq,omitempty"`    // The journal row concerned.
	Detail string `json:"detail,omitempty"` // What was found.
}

// CheckCounters says how much was looked at.
type CheckCounters struct {
	Segments int `json:"segments"` // Journal segments.
	Parked   int `json:"parked"`   // Archived journal segments.
	// Problems that the operator has acknowledged; they are not reported again.
	Accepted  int   `json:"accepted"`
	Rows      int   `json:"rows"`      // Journal rows.
	Malformed int   `json:"malformed"` // Unreadable journal lines.
	Objects   int   `json:"objects"`   // Kept versions.
	Bytes     int64 `json:"bytes"`     // Total size of kept versions in bytes.
	Staged    int   `json:"staged"`    // Files of commits that are not settled.
	Paths     int   `json:"paths"`     // Files compared with the journal.
}

// RepairRequest asks for what Check finds to be put right.
type RepairRequest struct {
	call.Call `omit:"idempotency_key,accept_risk"`

	// Reason for accepting journal damage that cannot be repaired. It is recorded
	// in the journal, and Check no longer reports that damage.
	Acknowledge string `json:"acknowledge,omitempty" maxlen:"500"`
}

// RepairResult reports what was done.
type RepairResult struct {
	call.Receipt `json:"receipt" copies:"status,warnings"`
	Actions      []RepairAction `json:"actions"` // What was done, in order.
	// Problems that a deep check still finds, and why they remain.
	Left  []LeftProblem `json:"left"`
	Clean bool          `json:"clean"` // True when a deep check finds no more problems.
}

// RepairAction is one thing that was done.
type RepairAction struct {
	// The operation.
	Did RepairKind `json:"did" enum:"rebuilt,set_aside,put_in_order,finished,acknowledged"`
	// The problem that was repaired, as Check names it.
	Code string `json:"code"`
	// The file that was repaired, relative to the state directory.
	Path   string `json:"path,omitempty"`
	Seq    uint64 `json:"seq,omitempty"`    // The journal row concerned.
	Detail string `json:"detail,omitempty"` // Description in words.
}

// RepairKind is what Repair did about a problem.
type RepairKind string

const (
	// A cache was made again from the journal or from the files it describes.
	RepairRebuilt RepairKind = "rebuilt"
	// Something damaged was moved to quarantine/, where it keeps its bytes.
	RepairSetAside RepairKind = "set_aside"
	// Rows that are all present, as the hash chain proves, were put in order.
	RepairOrdered RepairKind = "put_in_order"
	// A write that a dead process left was completed or rolled back.
	RepairFinished RepairKind = "finished"
	// Damage that cannot be repaired was accepted, with a note in the journal.
	RepairAcknowledged RepairKind = "acknowledged"
)

// LeftProblem is a problem that Repair does not repair.
type LeftProblem struct {
	CheckProblem
	Why string `json:"why"` // Why it remains, and what can be done.
}

// CompactRequest asks for the state directory to be put in order.
type CompactRequest struct {
	call.Call `omit:"idempotency_key,accept_risk"`

	// Keep at least this many of the newest rows in live segments, where cursors
	// can reach them.
	KeepRows *int `json:"keep_rows,omitempty" default:"10000" min:"0"`
}

// CompactResult reports what was put in order.
type CompactResult struct {
	call.Receipt `json:"receipt" copies:"status,warnings"`
	// Segments that were moved to archive/, oldest first.
	Archived  []ArchivedSegment `json:"archived"`
	LiveFrom  uint64            `json:"live_from"` // Oldest row that a cursor can reach.
	Snapshots int               `json:"snapshots"` // Index snapshots that exist and were verified.
	// Kept versions that exceeded a limit of history.
	VersionsRemoved int   `json:"versions_removed"`
	VersionBytes    int64 `json:"version_bytes"` // Total size of those in bytes.
	// Kept versions that are now further names of those that another work tree of
	// the repository keeps.
	VersionsShared int `json:"versions_shared"`
	ScratchRemoved int `json:"scratch_removed"` // Expired objects of the scratchpad.
	// Expired or damaged checkpoints; damaged ones are in quarantine.
	CheckpointsGone int `json:"checkpoints_removed"`
	DraftsRemoved   int `json:"drafts_removed"`       // Expired drafts.
	TxDropped       int `json:"transactions_dropped"` // Expired staged transactions.
	BudgetsRemoved  int `json:"budgets_removed"`      // Retry counts that have expired.
}

// ArchivedSegment is one segment of the journal in archive/.
type ArchivedSegment struct {
	First  uint64      `json:"first"`  // Its first row.
	Last   uint64      `json:"last"`   // Its last row.
	Rows   int64       `json:"rows"`   // Number of rows.
	Bytes  int64       `json:"bytes"`  // Its size in bytes.
	SHA256 call.Digest `json:"sha256"` // SHA-256 of the segment.
}

// EraseRequest asks for a leaked secret to be erased from the state directory.
// Give exactly one of Secret, SHA256 and DraftRef.
type EraseRequest struct {
	call.Call `omit:"idempotency_key,accept_risk"`

	Secret []byte `json:"-"` // the bytes themselves, at least 8; they are written nowhere
	// Instead of the bytes: erase everything whose whole content has this
	// SHA-256.
	SHA256 call.Digest `json:"sha256,omitzero" maxlen:"200"`
	// Instead of the bytes: erase everything whose whole content equals this
	// draft.
	DraftRef string `json:"draft_ref,omitempty" maxlen:"200"`
	// Reason, recorded in the journal; it must not contain the secret.
	Reason string `json:"reason,omitempty" maxlen:"500"`
	// Do not search the files of the workspace for the secret.
	SkipWorkspace bool `json:"skip_workspace,omitempty"`
}

// String hides the secret when someone prints a request.
func (r EraseRequest) String() string {
	return fmt.Sprintf("{Secret:%d bytes SHA256:%s DraftRef:%s DryRun:%v}", len(r.Secret), r.SHA256, r.DraftRef, r.DryRun)
}

// GoString is String.
func (r EraseRequest) GoString() string { return r.String() }

// EraseResult reports what was erased.
type EraseResult struct {
	call.Receipt `json:"receipt" copies:"status,warnings"`
	Places       []ErasedPlace `json:"places"` // Occurrences in the state directory, by part.
	Rows         int           `json:"rows"`   // Number of journal rows that were overwritten.
	// SHA-256 of the kept versions that were erased, at most 1000.
	Versions []string `json:"versions"`
	// Files of the state directory that are removed whole, such as chunks,
	// checkpoints and drafts; at most 1000.
	Removed []string `json:"removed"`
	// Files of the workspace that still contain it; they are not changed. At most
	// 1000.
	Workspace     []string `json:"workspace"`
	WorkspaceMore bool     `json:"workspace_more"` // True when there are more.
	Unreadable    int      `json:"unreadable"`     // Files of the workspace that could not be read.
	// Files of the state directory that still contain it, such as a policy file
	// that names it.
	Left []string `json:"left"`
}

// ErasedPlace is one part of the state directory.
type ErasedPlace struct {
	Place string `json:"place"` // Name of the part: journal, history, scratch, quarantine, chunks …
	Count int    `json:"count"` // Number of items erased or overwritten.
}

// ExportRequest asks for the journal as one stream.
type ExportRequest struct {
	W io.Writer `json:"-"` // gets the export; it is not closed
	// After and Upto select rows by number: those after After, up to Upto. 0: all.
	After, Upto uint64 `json:"-"`
	// Same leaves out the time and the version of the program, so that the same
	// rows are the same bytes.
	Same    bool   `json:"-"`
	Caller  string `json:"caller,omitempty" maxlen:"200"`  // Who is asking.
	Session string `json:"session,omitempty" maxlen:"200"` // Name of the working session.
}

// ExportResult reports what was exported.
type ExportResult struct {
	Rows      int64       `json:"rows"`      // Number of rows exported.
	First     uint64      `json:"first"`     // The first row; 0 when there is none.
	Last      uint64      `json:"last"`      // The last row.
	Malformed int64       `json:"malformed"` // Lines that are not valid rows and were left out.
	SHA256    call.Digest `json:"sha256"`    // Hash in the last line, covering everything before it.
	Chain     call.Digest `json:"-"`         // Hash of the last row.
}

// ImportRequest asks for the rows of an export to be taken over.
type ImportRequest struct {
	call.Call `omit:"idempotency_key,accept_risk"`

	R io.Reader `json:"-"` // the export; it is read to its end
	// Also import into a store that has rows of its own. Rows of paths it already
	// knows become notes.
	AllowNonEmpty bool `json:"allow_non_empty,omitempty"`
}

// ImportResult reports what was taken over.
type ImportResult struct {
	call.Receipt `json:"receipt" copies:"status,warnings"`
	Rows         int64 `json:"rows"`     // Rows in the export.
	Imported     int64 `json:"imported"` // Number of rows imported, or that would be imported.
	Present      int64 `json:"present"`  // Number of rows that an earlier call imported.
	// Rows about the old store itself: notes, rolled-back commits, objects of its
	// state directory.
	Skipped int64       `json:"skipped"`
	SHA256  call.Digest `json:"sha256"` // Hash in the last line of the export, which identifies it.
}

// ContentRequest names bytes that a row or a snapshot refers to.
type ContentRequest struct {
	Path string // Path of the file then, relative to the workspace, or of an archived handoff.
	// Hash and size of the content.
	SHA256 call.Digest
	Bytes  int64
	Seq    uint64 // Row that made it what it was; 0: of a snapshot.
	Git    string // Git object with the same bytes, in hex; empty: none.
}

// TreeFile is one file of a state of a workspace.
type TreeFile struct {
	Path string `json:"path"` // Path relative to the workspace.
	// Hash, size and permission bits.
	SHA256 call.Digest `json:"sha256"`
	Bytes  int64       `json:"bytes"`
	Mode   uint32      `json:"mode"`
	Git    string      `json:"git,omitempty"` // Git object with the same bytes, in hex; empty: none.
	// True when git ignores the file.
	Ignored bool `json:"ignored,omitempty"`
	NotKept bool `json:"not_kept,omitempty"` // True when its bytes were too large to be kept.
}

// TreeDir is one directory of a state of a workspace.
type TreeDir struct {
	Path string `json:"path"` // Path relative to the workspace.
	Mode uint32 `json:"mode"` // Permission bits.
}

// Tree is a state of a workspace, in the order of the paths.
type Tree struct {
	Files []TreeFile // The files, and symbolic links, whose bytes are their targets.
	// The directories, empty ones too; without the workspace itself and what git
	// ignores as a whole.
	Dirs []TreeDir
}

// MaterializeRequest asks for the workspace to become a tree that another machine
// had.
type MaterializeRequest struct {
	Caller  string // Who is asking; recorded in the journal.
	Session string // Name of the working session; recorded in the journal.
	// The files and directories.
	Tree
	Keep []string // Paths that stay as they are, whether they exist or not.
	Base string   // Commit that must be checked out; empty: any, or none.
	// Open opens the bytes of a file that the workspace does not have yet. It is
	// called in the order of Files.
	Open func(TreeFile) (io.ReadCloser, error) `json:"-"`
}

// MaterializeResult reports what was written.
type MaterializeResult struct {
	// Files that were written and deleted.
	Written, Deleted int
	Dirs             int    // Directories that were made or removed, or that got another mode.
	Seq              uint64 // Journal row of the commit; 0 when nothing differed.
	// What is remarkable about the files, such as that one of them runs programs.
	Warnings []call.Warning
}

// HubFacts says how far a hub has the journal of a store, as its shipper left it.
type HubFacts struct {
	Seq     uint64 `json:"seq"`            // The newest row that is in the hub.
	Waiting uint64 `json:"waiting"`        // Rows that the hub lacks.
	Task    string `json:"task,omitempty"` // The task that the store works on.
	// A task of this store that another machine works on now.
	LostTask string `json:"lost_task,omitempty"`
	// True when the hub has another log under the name of this store, or the
	// shipper's state is damaged; nothing is shipped until the operator repairs that.
	Forked bool `json:"forked,omitempty"`
}
