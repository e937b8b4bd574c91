package resilientwrite

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/protect"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// The reasons of warnings: what a caller should know although the call
// succeeded. [Warnings] says what each of them means.
const (
	WarnEOLChanged          = "eol_changed"
	WarnBOMDropped          = "bom_dropped"
	WarnNULBytes            = "nul_bytes"
	WarnHardLinkBroken      = "hardlink_broken"
	WarnMetadataNotKept     = "metadata_not_preserved"
	WarnStateDirVisible     = "state_dir_not_gitignored"
	WarnHistorySkipped      = "history_skipped"
	WarnNameNotPortable     = "name_not_portable"
	WarnForeignWriteRace    = "stranger_race_possible"
	WarnForeignWriteKept    = "stranger_bytes_kept"
	WarnRewrittenInPlace    = "rewritten_in_place"
	WarnDurabilityUnproven  = "durability_unverified"
	WarnContentWasObject    = "content_was_object"
	WarnReserveNotAvailable = "reserve_not_available"
	WarnUnreadHandoff       = "unread_handoff_archived"
	WarnReplacedSession     = "replaced_other_session"
	WarnCommitsCancelOut    = "commits_cancel_out"
	WarnHandoffRecords      = "handoff_records_unreadable"
	WarnPolicyFileMissing   = "policy_file_missing"
	WarnPolicyWeakens       = "policy_weakens_default"
	WarnPolicyNotTrusted    = "policy_not_trusted"
	WarnPolicyBroken        = "policy_broken"
	WarnStateNarrowed       = "state_dir_narrowed"
	WarnModesNotEnforced    = "modes_not_enforced"
	WarnStateInTree         = "state_in_tree"
	WarnSeveralStateDirs    = "several_state_dirs"
	WarnStateOfOtherRoot    = "state_of_other_root"
	WarnDraftsNotSwept      = "drafts_not_swept"
	WarnRiskLow             = "risk_low"
	WarnRiskMedium          = "risk_medium"
	WarnRiskHigh            = "risk_high"
	WarnChecksumFailed      = "checksum_failed"
	WarnRiskPreexisting     = "risk_preexisting"
	WarnRiskAccepted        = "risk_accepted"
	WarnSecretInName        = "secret_in_name"
	WarnGateKept            = "gate_kept"
	WarnChunksLeft          = "chunks_left"
	WarnNotValidated        = "not_validated"
	WarnNotScanned          = "not_scanned"
	WarnSecretUnignored     = "secret_unignored"
	WarnToolDeprecated      = "tool_deprecated"
	WarnOtherWriterLive     = "other_writer_live"
	WarnSecretLeft          = "secret_left"
	WarnSecretInWorkspace   = "secret_in_workspace"
	WarnReceiptsMissed      = "receipts_missed"
	WarnOutsideRoots        = "workspace_outside_roots"

	WarnChangesAgentConfig  = "changes_agent_config"
	WarnChangesEntry        = "changes_entry"
	WarnChangesShell        = "changes_shell"
	WarnChangesHook         = "changes_hook"
	WarnChangesCI           = "changes_ci"
	WarnChangesPackageHook  = "changes_package_hook"
	WarnChangesInstructions = "changes_instructions"
	WarnChangesHostFile     = "changes_host_file"
	WarnChangesExecutable   = "changes_executable"
)

var warningHints = map[string]string{
	WarnEOLChanged:          "the line endings differ from those of the previous file; pass eol preserve to keep them",
	WarnBOMDropped:          "the byte order mark of the file was removed; pass bom preserve to keep it",
	WarnNULBytes:            "the content contains NUL bytes",
	WarnHardLinkBroken:      "the file had several hard links; the other names keep the old content",
	WarnMetadataNotKept:     "some mode bits, ownership, attributes or ACLs of the file could not be preserved",
	WarnStateDirVisible:     "git does not ignore the state directory; its .gitignore is missing or overridden",
	WarnHistorySkipped:      "the previous version could not be moved into history; the next open tries again",
	WarnNameNotPortable:     "the name cannot be used on Windows",
	WarnForeignWriteRace:    "this file system cannot exchange two names, so bytes that another program writes at the same moment could be lost",
	WarnForeignWriteKept:    "another program changed the file during the write; its content is kept in history",
	WarnRewrittenInPlace:    "the file was rewritten in place; a reader could have seen old and new bytes mixed",
	WarnDurabilityUnproven:  "the file system is a network or FUSE file system, whose flushes cannot be relied on",
	WarnContentWasObject:    "content was a JSON value and was written as indented JSON",
	WarnPolicyFileMissing:   "the policy file does not exist; the default policy applies",
	WarnPolicyWeakens:       "the policy file in the state directory weakens the defaults; if you did not write it, remove it; if you did, record it with resilient-write trust",
	WarnPolicyNotTrusted:    "some keys of the policy file in the state directory are ignored, because they weaken a flag or because git tracks the file; to apply them, name the file with --policy-file or record it with resilient-write trust",
	WarnPolicyBroken:        "the policy file is invalid; nothing can be changed until it is valid",
	WarnStateNarrowed:       "other users could write to the state directory or the policy file; the modes were narrowed, but what was written before is not known",
	WarnModesNotEnforced:    "other users may be able to write to the state directory: this file system does not keep owners and modes, or the store is open read-only",
	WarnStateInTree:         "the state directory is in the workspace, because no other place is local and writable; git clean -fdx and the removal of the workspace delete it",
	WarnSeveralStateDirs:    "the workspace has several state directories, of which one is used; resilient-write status --all lists them, resilient-write relocate --remove removes one",
	WarnStateOfOtherRoot:    "a state directory was made for this path when another directory was there; or for this worktree before it was moved without git (git worktree repair mends that); it is not used, and a new one was made; resilient-write status --all lists both",
	WarnDraftsNotSwept:      "expired drafts or transactions could not be removed; the next open tries again",
	WarnRiskLow:             "the content contains what may be personal data or a secret; Store.RiskScore gives the details",
	WarnRiskMedium:          "the content contains what may be a secret; Store.RiskScore gives the details",
	WarnRiskHigh:            "the content contains what looks like a credential; Store.RiskScore gives the details, Store.Redact removes it",
	WarnChecksumFailed:      "a token has the right format but a wrong checksum, so it was never issued: it counts as likely, not as confirmed, and was allowed; `resilient-write demo` shows how a token with a valid checksum is refused and repaired",
	WarnRiskPreexisting:     "the file contained what looks like a secret before this write, and still does",
	WarnRiskAccepted:        "the gate would have refused the content; accept_risk allowed it and is recorded in the journal",
	WarnSecretInName:        "a path, label or key of the call contains what looks like a credential; it is stored and shown in clear text",
	WarnNotScanned:          "the file was not scanned: it is larger than 8 MiB and was moved, or a pattern of the policy takes too long on it",
	WarnSecretUnignored:     "the file contains what looks like a secret; git ignored it at its old path and does not at the new one",
	WarnNotValidated:        "the file is too large for a syntax check",
	WarnOtherWriterLive:     "another process holds the history lock and may be stopped, so the limits of history were not applied; call again later",
	WarnSecretLeft:          "some files of the state directory still contain the secret: this call does not change them, or another process keeps writing it; left lists them",
	WarnSecretInWorkspace:   "files of the workspace still contain the secret; clean them, then call again, because a write that replaces them keeps their old content in history",
	WarnToolDeprecated:      "this tool is deprecated; use the one that its description names",
	WarnReceiptsMissed:      "some receipts were dropped because a watcher was too slow; the journal is complete",
	WarnOutsideRoots:        "the workspace is outside the roots that the client declared; check that the server was started for the right workspace",
	WarnChunksLeft:          "the chunks of the session are obsolete but could not be removed; the next call that writes to the session removes them",
	WarnGateKept:            "the policy does not allow the caller to weaken the gate; it was applied as configured",
	WarnCommitsCancelOut:    "the commits cancel out: the files are already as they were before them, so nothing was undone; undo more commits with a larger n, or restore the version you want",
	WarnUnreadHandoff:       "the replaced handoff had not been acknowledged, so it was archived; read archived_path before you continue",
	WarnReplacedSession:     "another session had saved a different checkpoint under this name; it is kept under the name with .replaced at its end, until another one is replaced",
	WarnHandoffRecords:      "it is unknown who has read this handoff: its acknowledgments cannot be read",
	WarnReserveNotAvailable: "there was no space for the reserve that keeps the store usable on a full disk",

	WarnChangesAgentConfig:  "check the change with the user: " + protect.Reasons[protect.AgentConfig],
	WarnChangesEntry:        "check the change with the user: " + protect.Reasons[protect.Entry],
	WarnChangesShell:        "check the change with the user: " + protect.Reasons[protect.Shell],
	WarnChangesHook:         "check the change with the user: " + protect.Reasons[protect.Hook],
	WarnChangesCI:           "check the change with the user: " + protect.Reasons[protect.CI],
	WarnChangesPackageHook:  "check the change with the user: " + protect.Reasons[protect.PackageHook],
	WarnChangesInstructions: "check the change with the user: " + protect.Reasons[protect.Instructions],
	WarnChangesHostFile:     "check the change with the user: " + protect.Reasons[protect.HostFile],
	WarnChangesExecutable:   "check the change with the user: " + protect.Reasons[protect.Executable],
}

// Warnings lists every warning there is with its meaning, by reason.
func Warnings() []Warning {
	list := make([]Warning, 0, len(warningHints))
	for reason := range warningHints {
		list = append(list, warning(reason))
	}
	slices.SortFunc(list, func(a, b Warning) int { return strings.Compare(a.Reason, b.Reason) })
	return list
}

func warning(reason string) Warning { return Warning{Reason: reason, Hint: warningHints[reason]} }

// warningsOf returns the warnings for the given reasons.
func warningsOf(reasons []string) []Warning { return convert(reasons, warning) }

// warnings converts the notes of the engine to warnings.
func warnings(notes []engine.Note) []Warning {
	list := make([]Warning, len(notes))
	for i, n := range notes {
		if list[i] = warning(n.Reason); n.About != "" {
			list[i].Hint += ": " + n.About
		}
	}
	return list
}

// status returns how a successful call ended.
func (c *commit) status() Status {
	switch {
	case c.Replayed != nil:
		return StatusReplayed
	case c.Ended:
		return StatusUnchanged
	}
	return StatusSucceeded
}

// finished makes the receipt of a commit that succeeded, and passes it to the
// sink.
func (c *commit) finished() Receipt {
	r := c.receipt(c.First(), c.status())
	c.deliver(r)
	return r
}

// wroteAt returns the time of the call that made the change.
func (c *commit) wroteAt() time.Time {
	if c.Replayed != nil {
		return stamp.Parse(c.Replayed.TS)
	}
	return stamp.Of(c.Began)
}

// deliver passes the receipt of a successful commit to the sink and to the
// observers.
func (c *commit) deliver(r Receipt) {
	c.s.deliver(r)
	c.Observed(r, nil)
}

// receipt makes the receipt of c for one of its mutations.
func (c *commit) receipt(m *engine.Mutation, status Status) Receipt {
	r := Receipt{
		InvocationID: c.Inv, ToolVersion: Version, Caller: c.Req.Caller, Session: c.Req.Session, Op: c.Req.Op,
		Status: status, DryRun: c.Req.DryRun, Path: m.Path, IdempotencyKey: c.Req.Key,
		SHA256: digest(m.SHA), PrevSHA256: digest(m.Prev.SHA), Bytes: m.Size, Durability: c.durability(status),
		StartedAt:  stamp.Of(c.Began),
		DurationMS: float64(c.s.engine.Now().Sub(c.Began).Microseconds()) / 1000,
		Warnings:   warningsOf(m.Warnings),
	}
	if status != StatusFailed && status != StatusRefused {
		r.WroteAt = c.wroteAt()
	}
	if m.Target != nil && m.Target.Path != m.Path {
		r.RealPath = m.Target.Path
	}
	rec := c.Rec
	if c.Replayed != nil {
		rec = c.Replayed
		done := rec.Muts[0]
		r.SHA256, r.PrevSHA256, r.Bytes = digest(done.SHA256), digest(done.PrevSHA256), done.Bytes
		if len(c.Muts) == 0 { // the call found its files in the journal
			r.Path, r.RealPath = done.Path, done.Real
		}
	}
	if rec != nil && (status == StatusSucceeded || status == StatusReplayed) {
		r.JournalSeq, r.JournalID = rec.Seq, engine.JournalID(rec.Seq, 0)
	}
	return r
}

// durability returns the durability level reached when the call returned.
func (c *commit) durability(status Status) string {
	switch {
	case c.Req.DryRun || status == StatusFailed || status == StatusRefused:
		return "none"
	case c.s.engine.Unverified:
		return "unverified"
	}
	return string(c.s.opts.Sync)
}

// deliver passes a receipt to the host. A sink that panics must not make a
// completed call look failed.
func (s *Store) deliver(r Receipt) {
	if sink := s.opts.ReceiptSink; sink != nil {
		func() {
			defer func() { recover() }()
			sink(r)
		}()
	}
	s.watchers.Send(r)
}

// OpMissed is the Op of the receipt that replaces all those that a watcher was
// too slow to receive. It describes no call: the missed calls are in the journal.
const OpMissed = "missed"

// Watch calls f with the receipt of every mutating call of this Store, including
// refused calls and calls that changed nothing, once the outcome is known. Calls
// of other processes are not included; [Store.JournalSince] reports them.
//
// Receipts arrive in the order in which the calls ended, one at a time, in a
// separate goroutine: f may take its time and may call the Store, and no writer
// waits for it. At most 256 receipts wait for a slow f. Further receipts are
// dropped, and one receipt whose Op is [OpMissed] replaces them. A panic in f is
// contained.
//
// stop ends the watch, as does [Store.Close], which lets f receive the waiting
// receipts for at most a second. After stop no further call of f begins; one that
// has begun may still be in progress. Stopping twice is harmless. Watching a
// closed store does nothing.
func (s *Store) Watch(f func(Receipt)) (stop func()) { return s.watchers.Add(f, missedReceipts) }

func missedReceipts(n int) Receipt {
	return Receipt{Op: OpMissed, ToolVersion: Version, Durability: "none", Warnings: []Warning{{
		Reason: WarnReceiptsMissed,
		Hint:   fmt.Sprintf("%d receipts were dropped because the watcher was too slow; the journal has the changes", n),
	}}}
}

// finishedWith makes the receipt of a successful commit for one object that need
// not be part of it.
func (c *commit) finishedWith(m *engine.Mutation, sha string, size int64) Receipt {
	for _, other := range c.Muts {
		for _, w := range other.Warnings {
			m.Warn(w)
		}
	}
	r := c.receipt(m, c.status())
	r.SHA256, r.Bytes = digest(sha), size
	if c.Replayed != nil {
		r.PrevSHA256 = digest("")
	}
	c.deliver(r)
	return r
}

// TxOpResult is what became of the file of one operation.
type TxOpResult struct {
	Op string `json:"op" enum:"write,edit,delete,move"` // The operation.
	// Path of the file; the new one for a move.
	Path   string `json:"path"`
	SHA256 Digest `json:"sha256"` // SHA-256 of the final file; empty when it no longer exists.
	// SHA-256 of the previous file.
	PrevSHA256 Digest `json:"prev_sha256,omitzero"`
	Bytes      int64  `json:"bytes"`                // Size of the final file in bytes.
	JournalID  string `json:"journal_id,omitempty"` // Identifier of the journal row of this file.
}

// changedFiles returns the files that a commit has changed, or those of the commit that
// its idempotency key had completed.
func (c *commit) changedFiles() []TxOpResult {
	if c.Replayed != nil {
		return replayedFiles(c.Replayed)
	}
	list := []TxOpResult{}
	for i, m := range c.Muts {
		if m.Forgotten { // the old name of a move
			continue
		}
		res := TxOpResult{Op: "write", Path: m.Path, SHA256: digest(m.SHA), PrevSHA256: digest(m.Prev.SHA), Bytes: m.Size}
		switch {
		case m.Source != nil:
			res.Op = "move"
		case m.Op == engine.OpDelete:
			res.Op = "delete"
		}
		if c.Rec != nil {
			res.JournalID = engine.JournalID(c.Rec.Seq, i)
		}
		list = append(list, res)
	}
	return list
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

// allWarnings returns the warnings of several files, each once.
func allWarnings(muts []*engine.Mutation) []Warning {
	var all []string
	for _, m := range muts {
		for _, w := range m.Warnings {
			if !slices.Contains(all, w) {
				all = append(all, w)
			}
		}
	}
	return warningsOf(all)
}

// merged reports whether a commit of one file was merged, and what others had
// changed.
func (c *commit) merged(ctx context.Context) (merged bool, others string) {
	if c.Replayed == nil {
		return c.First().Base != "", c.First().Others
	}
	m := c.Replayed.Muts[0]
	if m.Base == "" || c.s.engine.EnterReader() != nil {
		return m.Base != "", ""
	}
	defer c.s.engine.Leave()
	return true, c.s.engine.KeptDiff(ctx, m.Identity(), m.Base, m.PrevSHA256)
}
