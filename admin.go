package resilientwrite

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/resilientwrite/resilientwrite/internal/admin"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/gate"
	"github.com/resilientwrite/resilientwrite/internal/progress"
)

// Admin has the calls of an operator. They are not tools, and do not go through
// commit: they change segments, kept versions and caches, which a commit relies
// on. Only one of them runs at a time across all processes, concurrently with
// writers.
type Admin struct{ s *Store }

// Admin returns the calls of an operator.
func (s *Store) Admin() Admin { return Admin{s} }

// The steps of calls of the operator.
const (
	StepSweep  Stage = "sweep"  // what has expired is removed
	StepErase  Stage = "erase"  // the state directory is searched and written over
	StepRepair Stage = "repair" // what is damaged is set aside or made again
	StepExport Stage = "export" // rows are written out
	StepImport Stage = "import" // rows are taken over
)

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

// Check compares everything the store keeps with everything else: the chain
// and the order of the journal, the head that meta.json remembers, the entries
// of staging/, the kept versions, and – when deep – the bytes of every kept
// version and of every file as the journal last wrote it. It changes nothing.
//
// A file that differs from its newest row is no problem of the store: people
// edit files. Deep reports it as file_differs. Errors: the storage details,
// [ErrStoreClosed].
func (s *Store) Check(ctx context.Context, r CheckRequest) (CheckResult, error) {
	if err := s.engine.EnterReader(); err != nil {
		return CheckResult{}, s.verbError("check", err)
	}
	defer s.engine.Leave()
	_, account, end := progress.Begin(ctx)
	defer end()
	found, err := s.admin().Check(ctx, r.Deep, account)
	if err != nil {
		return CheckResult{}, s.verbError("check", err)
	}
	out := CheckResult{Clean: len(found.Problems) == 0, Problems: make([]CheckProblem, len(found.Problems)), Counters: CheckCounters(found.Counters)}
	for i, p := range found.Problems {
		out.Problems[i] = CheckProblem(p)
	}
	return out, nil
}

// RepairRequest asks for what Check finds to be put right.
type RepairRequest struct {
	Call `omit:"idempotency_key,accept_risk"`

	// Reason for accepting journal damage that cannot be repaired. It is recorded
	// in the journal, and Check no longer reports that damage.
	Acknowledge string `json:"acknowledge,omitempty" maxlen:"500"`
}

// RepairResult reports what was done.
type RepairResult struct {
	Receipt `json:"receipt" copies:"status,warnings"`
	Actions []RepairAction `json:"actions"` // What was done, in order.
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

// Repair repairs the problems that a deep [Store.Check] finds, as far as that is
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
// worse, and the next call continues. Errors: [ErrInvalidArgument],
// [ErrLockTimeout], the storage details, [ErrStorePoisoned], [ErrStoreClosed],
// [ErrStoreReadOnly], [ErrCanceled].
func (a Admin) Repair(ctx context.Context, r RepairRequest) (RepairResult, error) {
	s := a.s
	u, ctx, err := s.beginUpkeep(ctx, "repair", r.Call, s.engine.Enter)
	if err != nil {
		return RepairResult{}, err
	}
	if e := fault.CheckText("acknowledge", r.Acknowledge, gate.MaxReason); e != nil {
		return RepairResult{}, u.failed(e)
	}
	done, err := u.Repair(ctx, r.Acknowledge)
	if err != nil {
		return RepairResult{}, u.failed(err)
	}
	out := RepairResult{Actions: make([]RepairAction, len(done.Actions)), Left: make([]LeftProblem, len(done.Left))}
	for i, a := range done.Actions {
		out.Actions[i] = RepairAction{Did: RepairKind(a.Did), Code: a.Code, Path: a.Path, Seq: a.Seq, Detail: a.Detail}
	}
	for i, p := range done.Left {
		out.Left[i] = LeftProblem{CheckProblem(p.Problem), p.Why}
	}
	out.Clean = len(out.Left) == 0
	out.Receipt = u.done(changedOr(len(out.Actions) > 0), nil)
	return out, nil
}

// CompactRequest asks for the state directory to be put in order.
type CompactRequest struct {
	Call `omit:"idempotency_key,accept_risk"`

	// Keep at least this many of the newest rows in live segments, where cursors
	// can reach them.
	KeepRows *int `json:"keep_rows,omitempty" default:"10000" min:"0"`
}

// CompactResult reports what was put in order.
type CompactResult struct {
	Receipt `json:"receipt" copies:"status,warnings"`
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
	First  uint64 `json:"first"`  // Its first row.
	Last   uint64 `json:"last"`   // Its last row.
	Rows   int64  `json:"rows"`   // Number of rows.
	Bytes  int64  `json:"bytes"`  // Its size in bytes.
	SHA256 Digest `json:"sha256"` // SHA-256 of the segment.
}

// Compact puts the state directory in order, concurrently with writers. It writes
// fresh snapshots of the index and reads them back. It moves the segments of the
// journal that precede both the older snapshot and the newest keep_rows rows to
// archive/. It applies the limits of history and removes what has expired:
// objects of the scratchpad, checkpoints, refused drafts, staged transactions,
// counts of failed calls. Kept versions that another work tree of the same
// repository also keeps become hard links to those, if the file system supports
// them.
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
	u, ctx, err := s.beginUpkeep(ctx, "compact", r.Call, s.engine.Enter)
	if err != nil {
		return CompactResult{}, err
	}
	keep := 10_000 // of the newest rows that cursors reach
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
	}
	for _, f := range done.Archived {
		out.Archived = append(out.Archived, ArchivedSegment{First: f.First, Last: f.Last, Rows: f.Rows, Bytes: f.Bytes, SHA256: digest(f.SHA256)})
	}
	var warnings []Warning
	if done.OtherWriter {
		warnings = append(warnings, warning(WarnOtherWriterLive))
	}
	out.Receipt = u.done(changedOr(done.Changed), warnings)
	return out, nil
}

// EraseRequest asks for a leaked secret to be erased from the state directory.
// Give exactly one of Secret, SHA256 and DraftRef.
type EraseRequest struct {
	Call `omit:"idempotency_key,accept_risk"`

	Secret []byte `json:"-"` // the bytes themselves, at least 8; they are written nowhere
	// Instead of the bytes: erase everything whose whole content has this
	// SHA-256.
	SHA256 Digest `json:"sha256,omitzero" maxlen:"200"`
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
	Receipt `json:"receipt" copies:"status,warnings"`
	Places  []ErasedPlace `json:"places"` // Occurrences in the state directory, by part.
	Rows    int           `json:"rows"`   // Number of journal rows that were overwritten.
	// SHA-256 of the kept versions that were erased, at most 1000.
	Versions []string `json:"versions"`
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

// Erase erases a leaked secret from every part of the state directory, archive
// included: as it is, escaped as in JSON, in base64, in hexadecimal and
// percent-encoded. It is meant for the operator and is no tool.
//
// Kept versions, objects of the scratchpad, refused drafts, pieces of chunk
// sessions and staged transactions that hold it are removed; the session then
// lacks the piece, and the version is [ErrVersionNotKept] with erased set in the
// context. Checkpoints, archived handoffs, rows of the journal and everything
// else keep their size and their other bytes; only the secret is overwritten,
// also in the names of files that a scan found. Files with such names are removed
// from the stat index of the last scan and from snapshots.
// Numbers of rows, cursors and the chain stay valid: notes in the journal record
// the hash of each row and file before and afterwards, and [Store.Check] accepts
// them. Neither the secret nor a hash of it is written anywhere; hashes of
// whole files that held it stay.
//
// Files of the workspace are not changed; Workspace lists those that still hold
// it, except those in .git. Clean them first: a write that replaces such a file
// keeps its old bytes in history. Removed bytes that the disk itself retains, and
// copies elsewhere, are out of reach.
//
// Erase works concurrently with writers and may be killed at any point: the store
// is sound, and calling again finishes. Errors: [ErrInvalidArgument] for a secret
// that is shorter than 8 bytes, too uniform, or a part of what the journal itself
// is made of, and for a reason or label that holds it; [ErrBadSHA256],
// [ErrDraftNotFound], [ErrLockTimeout], the storage details, [ErrStorePoisoned],
// [ErrStoreClosed], [ErrStoreReadOnly], [ErrCanceled].
func (a Admin) Erase(ctx context.Context, r EraseRequest) (EraseResult, error) {
	s := a.s
	u, ctx, err := s.beginUpkeep(ctx, "erase", Call{DryRun: r.DryRun}, s.engine.Enter) // the labels are not checked yet
	if err != nil {
		return EraseResult{}, err
	}
	if e := cmp.Or(checkLabels(r.Caller, r.Session, ""), fault.CheckText("reason", r.Reason, gate.MaxReason)); e != nil {
		return EraseResult{}, u.failed(e)
	}
	what, err := u.Select(r.Secret, r.SHA256.String(), r.DraftRef, map[string]string{"caller": r.Caller, "session": r.Session, "reason": r.Reason})
	if err != nil {
		return EraseResult{}, u.failed(err)
	}
	what.Reason, what.Workspace = s.safeText(r.Reason), !r.SkipWorkspace
	u.calls(r.Caller, r.Session)
	done, err := u.Erase(ctx, what)
	if err != nil {
		return EraseResult{}, u.failed(err)
	}
	out := EraseResult{
		Places: []ErasedPlace{}, Rows: done.Rows, Versions: done.Versions, Workspace: done.Workspace, WorkspaceMore: done.WorkspaceMore,
		Unreadable: done.Unreadable, Left: done.Left,
	}
	for _, place := range slices.Sorted(maps.Keys(done.Places)) {
		out.Places = append(out.Places, ErasedPlace{place, done.Places[place]})
	}
	var warnings []Warning
	if len(out.Left) > 0 {
		warnings = append(warnings, warning(WarnSecretLeft))
	}
	if len(out.Workspace) > 0 {
		warnings = append(warnings, warning(WarnSecretInWorkspace))
	}
	out.Receipt = u.done(changedOr(len(done.Places) > 0), warnings)
	return out, nil
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
	Rows      int64  `json:"rows"`      // Number of rows exported.
	First     uint64 `json:"first"`     // The first row; 0 when there is none.
	Last      uint64 `json:"last"`      // The last row.
	Malformed int64  `json:"malformed"` // Lines that are not valid rows and were left out.
	SHA256    Digest `json:"sha256"`    // Hash in the last line, covering everything before it.
	Chain     Digest `json:"-"`         // Hash of the last row.
}

// Export writes the journal to W, archived rows too, as JSON lines: a header,
// every row unchanged, and a last line with the number of rows and the hash of
// everything before it. It writes the journal as it was when the call began;
// writers are not blocked. It takes constant memory.
//
// [Admin.Import] reads an export. It holds no content, but paths, callers and
// reasons are in it. Errors: [ErrInvalidArgument] without a writer,
// [ErrLockTimeout] while another call of the operator runs, the storage details –
// also those of W –, [ErrStoreClosed], [ErrCanceled]. After an error the output
// is incomplete, and Import refuses it. Nothing is changed on disk.
func (a Admin) Export(ctx context.Context, r ExportRequest) (ExportResult, error) {
	s := a.s
	u, ctx, err := s.beginUpkeep(ctx, "export", Call{Caller: r.Caller, Session: r.Session}, s.engine.EnterReader)
	if err != nil {
		return ExportResult{}, err
	}
	if r.W == nil {
		return ExportResult{}, u.failed(fault.New(fault.InvalidArgument).With("argument", "w").Hintf("give a writer"))
	}
	foot, err := u.Export(ctx, r.W, r.After, r.Upto, r.Same, Version)
	if err != nil {
		return ExportResult{}, u.failed(err)
	}
	u.close()
	return ExportResult{Rows: foot.Rows, First: foot.First, Last: foot.Last, Malformed: foot.Malformed, SHA256: digest(foot.SHA256), Chain: digest(foot.Chain)}, nil
}

// ImportRequest asks for the rows of an export to be taken over.
type ImportRequest struct {
	Call `omit:"idempotency_key,accept_risk"`

	R io.Reader `json:"-"` // the export; it is read to its end
	// Also import into a store that has rows of its own. Rows of paths it already
	// knows become notes.
	AllowNonEmpty bool `json:"allow_non_empty,omitempty"`
}

// ImportResult reports what was taken over.
type ImportResult struct {
	Receipt  `json:"receipt" copies:"status,warnings"`
	Rows     int64 `json:"rows"`     // Rows in the export.
	Imported int64 `json:"imported"` // Number of rows imported, or that would be imported.
	Present  int64 `json:"present"`  // Number of rows that an earlier call imported.
	// Rows about the old store itself: notes, rolled-back commits, objects of its
	// state directory.
	Skipped int64  `json:"skipped"`
	SHA256  Digest `json:"sha256"` // Hash in the last line of the export, which identifies it.
}

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
// Errors: [ErrExportDamaged] for an export that is truncated or changed, with
// nothing left on disk; [ErrNewerFormat]; [ErrStoreNotEmpty] for a store with
// rows of its own unless the request allows it; [ErrInvalidArgument] without a
// reader; [ErrLockTimeout]; the storage details – also those of R –;
// [ErrStorePoisoned], [ErrStoreClosed], [ErrStoreReadOnly], [ErrCanceled].
func (a Admin) Import(ctx context.Context, r ImportRequest) (ImportResult, error) {
	s := a.s
	u, ctx, err := s.beginUpkeep(ctx, "import", r.Call, s.engine.Enter)
	if err != nil {
		return ImportResult{}, err
	}
	if r.R == nil {
		return ImportResult{}, u.failed(fault.New(fault.InvalidArgument).With("argument", "r").Hintf("give a reader"))
	}
	done, err := u.Import(ctx, r.R, r.AllowNonEmpty)
	if err != nil {
		return ImportResult{}, u.failed(err)
	}
	return ImportResult{
		Receipt: u.done(changedOr(done.Imported > 0), nil),
		Rows:    done.Rows, Imported: done.Imported, Present: done.Present, Skipped: done.Skipped, SHA256: digest(done.SHA256),
	}, nil
}

// upkeep is one call of the operator in progress.
type upkeep struct {
	admin.Call
	s   *Store
	c   *commit // who calls, and the receipt
	end []func()
}

// beginUpkeep starts a call and excludes others of its kind.
func (s *Store) beginUpkeep(ctx context.Context, op string, call Call, enter func() error) (*upkeep, context.Context, error) {
	u := &upkeep{s: s}
	u.c = s.newCommit(ctx, request{op: op, caller: call.Caller, session: call.Session, dryRun: call.DryRun})
	if e := checkLabels(call.Caller, call.Session, ""); e != nil {
		return nil, ctx, u.failed(e)
	}
	if err := u.c.CheckNames(); err != nil {
		return nil, ctx, u.failed(err)
	}
	if err := enter(); err != nil {
		return nil, ctx, u.failed(err)
	}
	u.end = append(u.end, s.engine.Leave)
	if err := ctx.Err(); err != nil {
		return nil, ctx, u.failed(fault.New(fault.Canceled).Because(err))
	}
	if s.engine.Locks != nil {
		unlock, err := s.engine.Locks.Names(ctx, s.opts.LockTimeout, op, "upkeep")
		if err != nil {
			return nil, ctx, u.failed(err)
		}
		u.end = append(u.end, unlock)
	}
	ctx, account, end := progress.Begin(ctx)
	u.end = append(u.end, end)
	u.Call = admin.Call{Store: s.admin(), DryRun: call.DryRun, Meter: account, Via: u.c.Via, Invocation: u.c.Inv, Effect: fault.EffectNone}
	u.Commit = func(ctx context.Context, what string, prepare func(*engine.Commit)) error {
		c := s.newCommit(ctx, request{op: op, caller: u.Caller, session: u.Session, hash: what})
		prepare(c.Commit)
		return s.commit(ctx, c)
	}
	u.calls(u.c.Req.Caller, u.c.Req.Session)
	return u, ctx, nil
}

func (u *upkeep) close() {
	for i := len(u.end) - 1; i >= 0; i-- {
		u.end[i]()
	}
	u.end = nil
}

// failed ends the call with an error.
func (u *upkeep) failed(err error) *Error {
	u.DropTemps()
	u.close()
	e := u.s.engine.ErrorOf(err)
	u.c.HideNames()
	u.s.gate.HideIn(e)
	e.Op = u.c.Req.Op
	if u.Effect != "" && u.Effect != fault.EffectNone {
		e.Effect = u.Effect
	}
	e.RetryBudget = u.s.budgets.Budget()
	status := StatusRefused
	if e.OfStorage() {
		status = StatusFailed
	}
	r := u.c.receipt(u.c.First(), status)
	e.With("invocation_id", u.c.Inv).With("receipt", r)
	u.s.deliver(r)
	out := errorFrom(e)
	u.c.Observed(r, out)
	return out
}

// done ends the call.
func (u *upkeep) done(status Status, warnings []Warning) Receipt {
	u.close()
	r := u.c.receipt(u.c.First(), status)
	r.Warnings = append(r.Warnings, warnings...)
	if u.Seq > 0 && status == StatusSucceeded {
		r.JournalSeq, r.JournalID = u.Seq, engine.JournalID(u.Seq, 0)
	}
	u.c.deliver(r)
	return r
}

// calls records the caller and the session.
func (u *upkeep) calls(caller, session string) {
	u.c.Req.Caller, u.c.Req.Session = cmp.Or(caller, u.c.Req.Caller), cmp.Or(session, u.c.Req.Session)
	u.Caller, u.Session = u.c.Req.Caller, u.c.Req.Session
}

// admin returns the store as the operator's verbs use it.
func (s *Store) admin() *admin.Store {
	return &admin.Store{
		Engine: s.engine, Scratch: s.scratch, Chunks: s.chunks, Checkpoints: s.checkpoints, Handoffs: s.handoffs, Drafts: s.drafts,
		LockTimeout: s.opts.LockTimeout, SafeText: s.safeText, DropStaged: s.sweepTxs, Budgets: s.budgets,
		CleanCheckpoints: func(ctx context.Context, caller, session string, dryRun bool) (int, bool, error) {
			others := false
			r, err := s.CheckpointCleanup(ctx, CheckpointCleanupRequest{IncludeSession: &others, Call: Call{DryRun: dryRun, Caller: caller, Session: session}})
			return len(r.Removed), r.More, err
		},
	}
}

func changedOr(changed bool) Status {
	if changed {
		return StatusSucceeded
	}
	return StatusUnchanged
}
