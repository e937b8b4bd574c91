package call

import (
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/protect"
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
	WarnEOLChanged:          "the line endings differ from those of the previous file; if that was not intended, write them as they were, or pass eol preserve to Store.SafeWrite",
	WarnBOMDropped:          "the byte order mark of the file was removed; if that was not intended, write it too, or pass bom preserve to Store.SafeWrite",
	WarnNULBytes:            "the content contains NUL bytes",
	WarnHardLinkBroken:      "the file had several hard links; the other names keep the old content",
	WarnMetadataNotKept:     "some mode bits, ownership, attributes or ACLs of the file could not be preserved",
	WarnStateDirVisible:     "git does not ignore the state directory; its .gitignore is missing or overridden",
	WarnHistorySkipped:      "the previous version could not be moved into history yet; later calls and the next open try again",
	WarnNameNotPortable:     "the name cannot be used on Windows",
	WarnForeignWriteRace:    "the file was rewritten in place, or this file system cannot exchange two names, so bytes that another program writes at the same moment could be lost",
	WarnForeignWriteKept:    "another program changed the file during the write; its content is kept in history",
	WarnRewrittenInPlace:    "the file was rewritten in place; a reader could have seen old and new bytes mixed",
	WarnDurabilityUnproven:  "the file system is a network or FUSE file system, whose flushes cannot be relied on, or one without a journal, on which a power cut can leave names half changed",
	WarnContentWasObject:    "content was a JSON value and was written as indented JSON",
	WarnPolicyFileMissing:   "the policy file does not exist; the default policy applies",
	WarnPolicyWeakens:       "the policy file in the state directory weakens the defaults; if you did not write it, remove it; if you did, record it with resilient-write trust",
	WarnPolicyNotTrusted:    "some keys of the policy file in the state directory are ignored, because they weaken a flag or because git tracks the file; to apply them, name the file with --policy-file or record it with resilient-write trust",
	WarnPolicyBroken:        "the policy file is invalid; nothing can be changed until it is valid",
	WarnStateNarrowed:       "other users could write to the state directory or the policy file; the modes were narrowed, but what was written before is not known",
	WarnModesNotEnforced:    "other users may be able to write to the state directory: this file system does not keep owners and modes, or the store is open read-only",
	WarnStateInTree:         "the state directory is in the workspace, because no other place is local and writable; git clean -fdx and the removal of the workspace delete it",
	WarnSeveralStateDirs:    "the workspace has several state directories, of which one is used; resilient-write status --all lists them, resilient-write relocate --remove removes one",
	WarnStateOfOtherRoot:    "a state directory was made for this path when another directory was there; or for this worktree before it was moved without git (git worktree repair mends that); it is not used; resilient-write status --all lists it; to continue with it, as after a restore from a backup, resilient-write relocate --from",
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
		list = append(list, WarningOf(reason))
	}
	slices.SortFunc(list, func(a, b Warning) int { return strings.Compare(a.Reason, b.Reason) })
	return list
}

// WarningOf returns the warning with its meaning.
func WarningOf(reason string) Warning { return Warning{Reason: reason, Hint: warningHints[reason]} }
