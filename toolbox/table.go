package toolbox

import (
	rw "github.com/resilientwrite/resilientwrite"
)

// table is every tool: one line each. Registration, schemas, annotations,
// documents and tests come from it.
var table = []tool{
	bind("safe_write", destructive, "Write one file", (*rw.Store).SafeWrite,
		"Writes one file atomically: a crash leaves the old content or the new one, and the previous version is kept. Use it instead of any other way to create, replace or extend a file; pass expected_prev_sha256 whenever you replace what you read. Do not send very long text in one call: create the file with the first part and append the others. A refusal says in context.hint what to do next."),
	bind("edit", destructive, "Edit one file", editFile,
		"Replaces exact strings in a file, all edits or none, and returns a diff. Use it to change part of a file you have read; it needs less text than sending the whole file. old must be unique unless count says otherwise. Do not use it to create a file. If an edit does not match, context gives the closest line, or the lines of all matches."),
	bind("delete", destructive, "Delete one file", (*rw.Store).Delete,
		"Deletes one file; history keeps its content. Use it instead of any other way to delete a file. Directories are not deleted."),
	bind("move", destructive, "Move or rename", (*rw.Store).Move,
		"Moves or renames a file, or the files of a directory (at most 4,096), without copying; history follows. Use it to rename or reorganize. An existing file at the new path is refused unless overwrite is set; an existing directory is merged into. A directory that contains a symbolic link or special file is refused, and subdirectories without files are left in place."),
	bind("tx", destructive, "Change several files at once", (*rw.Store).Tx,
		"Applies several writes, edits, deletions and moves atomically: all of them happen or none, even across a crash. Use it for a change that spans several files. At most 256 operations; for more use rw_tx_begin."),
	bind("tx_begin", writing, "Begin a transaction", (*rw.Store).TxBegin,
		"Begins a transaction that is built in several calls: rw_tx_stage adds operations, rw_tx_commit applies them together, rw_tx_rollback drops them. Use it when one call would be too long. Staged operations survive a restart for 24 hours."),
	bind("tx_stage", writing, "Add an operation to a transaction", (*rw.Store).TxStage,
		"Adds one operation to a transaction begun with rw_tx_begin. Call it once per operation; no file changes until rw_tx_commit. Repeating a call with the same idempotency_key adds nothing."),
	bind("tx_commit", destructive, "Commit a transaction", (*rw.Store).TxCommit,
		"Applies all staged operations together or none of them. Calling it again after a lost reply returns the first outcome. A refused transaction stays staged."),
	bind("tx_rollback", destructive, "Roll back a transaction", (*rw.Store).TxRollback,
		"Drops a transaction and everything staged in it. Use it when a staged transaction is no longer wanted. No file changes, and a transaction that does not exist is not an error."),
	bind("read", readOnly, "Read one file", readFile,
		"Returns a file with its SHA-256, line endings and mode. Use it before you replace a file: its sha256 is the expected_prev_sha256 of the write. Read large files in parts, with offset and max_bytes. Changes nothing."),
	bind("history", readOnly, "Versions of a file", history,
		"Lists the versions of a file, newest first, across deletions and moves, with hash, time and caller. Use it before rw_restore, or to see who changed a file. Changes nothing."),
	bind("diff", readOnly, "Show a diff", (*rw.Store).Diff,
		"Returns the unified diff between two versions of a file, or between a version and the current file. Use it to see what a change did, what was changed outside these tools, or before rw_restore. Without versions it shows the newest change. Changes nothing."),
	bind("restore", destructive, "Restore a version", (*rw.Store).Restore,
		"Restores an earlier version of a file, from rw_history. The result is a new version, so it can be undone. A file that was changed outside these tools is refused unless force is set."),
	bind("undo", destructive, "Undo the newest commits", undo,
		"Undoes your newest commit, or the newest n, all files or none. Use it when a change was a mistake. Undoing again redoes it. A file that was changed since by anyone else is never overwritten; the call is refused instead."),
	bind("operation", readOnly, "Was the call carried out", (*rw.Store).Operation,
		"Reports whether a call whose reply was lost was carried out, by its idempotency_key or invocation_id. Use it after a timeout, before sending anything again. Changes nothing."),
	bind("risk_score", readOnly, "Score the risk of a text", (*rw.Store).RiskScore,
		"Reports the secrets, personal data and oversized parts of a text, with line, column and a masked snippet, and recommends an action. Use it before you send a text anywhere, or after a risk warning. The text is not stored. Not needed before rw_safe_write, which scans by itself."),
	bind("redact", readOnly, "Redact a text", (*rw.Store).Redact,
		"Returns a text with {KIND-REDACTED} in place of each secret; line numbers do not change. Use it after a refusal with suggested_action redact: pass the draft_ref of the refusal instead of the text, then write the result. Writes nothing."),
	bind("validate", readOnly, "Check the syntax of a text", (*rw.Store).Validate,
		"Checks the syntax of a text before it is written: JSON, YAML, TOML, XML, Go, Python, LaTeX, Markdown front matter. Use it before a write that must not break anything, or pass validate to rw_safe_write. A text of unknown format is valid. Writes nothing."),
	bind("analytics", readOnly, "Usage report", (*rw.Store).Analytics,
		"Reports usage from the journal: totals, by mode and caller, busiest paths, chunk sessions, checkpoints, refusals. Use it for a report on a session or a period. Changes nothing."),
	bind("draft_list", readOnly, "List refused drafts", (*rw.Store).DraftList,
		"Lists the drafts that the content gate refused and that are still kept, without their content. Use it when a draft_ref was lost. Changes nothing."),
	bind("draft_get", readOnly, "Read a refused draft", (*rw.Store).DraftGet,
		"Returns a refused draft as it was sent, secrets included. Use it to continue with the draft when redaction is not what you want; prefer rw_redact. Changes nothing. The operator can disable it."),
	bind("draft_delete", destructive, "Delete a refused draft", (*rw.Store).DraftDelete,
		"Deletes a refused draft permanently. Use it once its content has been written in redacted form. A draft that does not exist is not an error."),
	bind("handoff_write", destructive, "Write a handoff", writeHandoff,
		"Writes HANDOFF.md: what was done, the current state, what comes next, and the hashes of the files the next agent may build on. Use it when you stop, are blocked, or are done; auto_state fills in the hashes. Do not use it for notes to yourself during the work; use checkpoints for those. drift_warnings lists files that differ from your statement; an unread handoff that is replaced is archived, not lost."),
	bind("handoff_read", cursor, "Read a handoff", readHandoff,
		"Returns the handoff of the previous agent, with the files that changed since (drift_warnings) and the steps that can be worked on now (ready_steps). Use it first when you take up work in a workspace, with acknowledge_as to record that it was read. Do not build on a file listed in drift_warnings before you have examined it. The handoff itself is not changed."),
	bind("scratch_put", destructive, "Store raw material", (*rw.Store).ScratchPut,
		"Stores bytes in the scratchpad, outside the workspace and outside git, under their SHA-256 and a label. Use it for raw logs, dumps and replies that may contain secrets: the content gate does not apply to it. Refer to them by label afterwards, and write only a redacted form into the workspace. Do not use it for results that belong in a file. Identical bytes are stored once; ttl makes them expire."),
	bind("scratch_ref", readOnly, "Find raw material", (*rw.Store).ScratchRef,
		"Returns the facts about a scratchpad object, found by sha256 or label, without its bytes. Use it to pass a reference to another agent, or to get the sha256 for rw_scratch_get. The newest entry is returned. Changes nothing."),
	bind("scratch_get", readOnly, "Read raw material", (*rw.Store).ScratchGet,
		"Returns the bytes of a scratchpad object after verifying their hash. Use it when the raw material itself is needed; it may contain secrets, so do not write it into the workspace as it is. Changes nothing. The operator can disable it."),
	bind("scratch_list", cursor, "List the scratchpad", (*rw.Store).ScratchList,
		"Lists the entries of the scratchpad, newest first, with labels and sizes but without bytes. Use it when a label or hash was lost, or to find what can be deleted. Expired objects are removed during the call."),
	bind("scratch_delete", destructive, "Delete raw material", (*rw.Store).ScratchDelete,
		"Deletes a scratchpad object permanently, found by sha256 or label, with all its entries. Use it when the raw material is no longer needed or the scratchpad is full. An object that does not exist is not an error."),
	bind("checkpoint", destructive, "Save a checkpoint", (*rw.Store).Checkpoint,
		"Saves a named state of your work: any JSON, or YAML or Markdown text, returned later exactly as given. Use it after each step of a long task, so that you or the next agent can continue from there. A checkpoint of the same name is replaced. Do not use it for files of the workspace or for secrets: the content gate applies to it."),
	bind("checkpoint_read", readOnly, "Read a checkpoint", (*rw.Store).CheckpointRead,
		"Returns a checkpoint with its data after verifying its hash. Use it when you continue a task that was begun earlier. Changes nothing."),
	bind("checkpoint_list", readOnly, "List the checkpoints", (*rw.Store).CheckpointList,
		"Lists the checkpoints by name, without their data; damaged ones are marked corrupt. Use it to find out how far a task is. Changes nothing."),
	bind("checkpoint_cleanup", destructive, "Remove old checkpoints", (*rw.Store).CheckpointCleanup,
		"Removes expired checkpoints, those of ttl session unless include_session is false, and moves damaged ones to quarantine. Use it at the end of a task, not while others still need their session checkpoints. Call it again when more is true."),
	bind("chunk_append", destructive, "Store the next chunk of a large file", (*rw.Store).ChunkAppend,
		"Stores the next chunk of a large file; the first chunk creates the session. Use it for any text that is too long for one call, or costly to lose half way, then call rw_chunk_compose. Pass expect_index from next_index of the last reply, so that a repeated call stores nothing twice. Do not use it for text that fits into one rw_safe_write."),
	bind("chunk_write", destructive, "Store one chunk under its number", (*rw.Store).ChunkWrite,
		"Stores one chunk of a large file under a number you choose; the same number again replaces the chunk. Use it to send missing chunks, to correct one, or to send them in any order. Nothing appears in the workspace before rw_chunk_compose. A composed session accepts no more chunks until rw_chunk_reset."),
	bind("chunk_status", readOnly, "Status of a chunk session", (*rw.Store).ChunkStatus,
		"Reports which chunks of a session are stored, which are missing, and whether it was composed. Use it first when you take over work that another process began, then send only what is missing. Changes nothing."),
	bind("chunk_preview", readOnly, "Preview a composed file", previewChunks,
		"Returns the text that the chunks produce, or a part of it, with the hash of each chunk and of the whole. Use it before rw_chunk_compose to see, score or validate the result; pass its sha256 as expected_sha256. Writes nothing."),
	bind("chunk_compose", destructive, "Compose a file", (*rw.Store).ChunkCompose,
		"Joins the chunks of a session into one file, atomically, and seals the session. Use it when every chunk is stored; otherwise it is refused and names the missing ones. Calling it again produces the same file. With cleanup the session is removed afterwards."),
	bind("chunk_reset", destructive, "Delete a chunk session", (*rw.Store).ChunkReset,
		"Deletes a session and all its chunks permanently; a composed file remains. Use it to start again under the same name, or to discard an abandoned session. A session that does not exist is not an error."),
	bind("chunk_list", readOnly, "List chunk sessions", (*rw.Store).ChunkList,
		"Lists the chunk sessions, with the number of stored and missing chunks and whether each was composed. Use it when the name of a session was lost, or to find abandoned ones. Changes nothing."),
	bind("journal_tail", readOnly, "Newest journal rows", (*rw.Store).JournalTail,
		"Returns the newest rows of the journal, oldest first: which file was written when, by whom, with which hash. Use it to see recent changes, or to find out whether a write of yours was carried out. Filter by path, operation or caller. Changes nothing."),
	bind("journal_since", cursor, "Journal rows since a cursor", (*rw.Store).JournalSince,
		"Returns the journal rows after a sequence number, or after the stored cursor of a named agent, without the agent's own rows. Use it to follow what other agents write. Passing after_seq together with agent acknowledges everything up to it; a reply alone does not move the cursor. gap says that some rows are not available."),
	bind("exec", running, "Run a command", runCommand,
		"Runs a command (argv, without a shell; use [\"sh\", \"-c\", \"...\"] for one) over a private view of the workspace, and commits everything that it changed as one commit, which rw_undo reverts, or nothing: when the command fails, the content gate refuses, or another program changed one of the files meanwhile. Use it for formatters, generators, codemods and package managers, with dry_run to see the diff first. .git is read-only, and nothing outside of the workspace but caches can be written. Files that git ignores are changed without versions. Linux only."),
	bind("claim", claiming, "Claim paths", claim,
		"Keeps the calls of other sessions from changing files or directories for at most ten minutes: they are refused with path_claimed. Use it before work on several files that others might change too; renew it while you work, and release it at the end. Shell commands and other programs are not kept away, only reported. Do not use it for a single change: expected_prev_sha256 suffices for that."),
	bind("check", readOnly, "Check the store", (*rw.Store).Check,
		"Verifies the journal, the kept versions and the state of commits against each other, like fsck. Use it after an error whose effect is unknown, or when something looks wrong. With deep it also hashes every kept version and every file, which takes time on a large store. Repairs nothing."),
	bind("describe", readOnly, "Describe the store", describe,
		"Returns version, limits, durability level, what recovery did when the store was opened, and the numeric codes of outcomes. Use it once at the start, or to look up a limit. Changes nothing."),
}

// nature is what a tool does to its environment.
type nature struct {
	readOnly, destructive, idempotent bool

	onlyListed bool // it cannot be called where it is not listed
}

var (
	readOnly    = nature{readOnly: true, idempotent: true}
	cursor      = nature{idempotent: true}
	destructive = nature{destructive: true}
	writing     = nature{}
	claiming    = nature{onlyListed: true}
	running     = nature{destructive: true, onlyListed: true}
)

// Names on the wire: rw_safe_write, which every client accepts, and
// rw.safe_write, which always works on call.
func wireName(name string, dotted bool) string {
	if dotted {
		return "rw." + name
	}
	return "rw_" + name
}
