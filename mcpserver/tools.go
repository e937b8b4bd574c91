package mcpserver

import (
	rw "github.com/resilientwrite/resilientwrite"
)

// table is every tool: one line each. Registration, schemas, annotations,
// documents and tests come from it.
var table = []tool{
	bind("safe_write", Facade, destructive, "Write one file", (*rw.Store).SafeWrite,
		"Writes one file so that a crash leaves the old bytes or the new ones, and keeps the previous version. Use it instead of any other way to create, replace or extend a file; pass expected_prev_sha256 whenever you replace what you read. Do not use it to send a very long text at once: create the file with the first piece and append the others. A refusal says in context.hint what to do next."),
	bind("edit", Facade, destructive, "Edit one file", (*rw.Store).Edit,
		"Replaces exact strings of a file, all edits or none, and returns a diff. Use it to change a part of a file you have read; it needs less than sending the whole file. old must be unique unless count says otherwise. Do not use it to create a file. On a refusal context tells the closest line or the lines of the matches."),
	bind("delete", Common, destructive, "Delete one file", (*rw.Store).Delete,
		"Removes one file; history keeps what it held. Use it instead of any other way to remove a file. Directories are not removed."),
	bind("move", Common, destructive, "Move or rename", (*rw.Store).Move,
		"Gives a file, or the files of a directory (at most 256), another path without copying; history goes along. Use it to rename or reorganize. A file at the new path is refused unless overwrite is set; a directory there is merged with. A directory that holds a symbolic link or special file is refused, and subdirectories without files stay where they are."),
	bind("tx", Common, destructive, "Change several files at once", (*rw.Store).Tx,
		"Makes several writes, edits, deletions and moves happen together or not at all, also over a crash. Use it for a refactoring over several files. At most 256 operations; for more use rw_tx_begin."),
	bind("tx_begin", Advanced, writing, "Begin a transaction", (*rw.Store).TxBegin,
		"Begins a transaction that is built in several calls: rw_tx_stage adds operations, rw_tx_commit makes them happen together, rw_tx_rollback drops them. Use it when one call would be too long. What is staged survives a restart for 24 hours."),
	bind("tx_stage", Advanced, writing, "Add to a transaction", (*rw.Store).TxStage,
		"Adds one operation to a transaction that rw_tx_begin began. Use it once for each operation; the files are not changed until rw_tx_commit. A repeated call with the same idempotency_key adds nothing."),
	bind("tx_commit", Advanced, destructive, "Commit a transaction", (*rw.Store).TxCommit,
		"Makes all staged operations happen together or not at all. Calling it again after a lost reply gives the first outcome. A refused transaction stays staged."),
	bind("tx_rollback", Advanced, destructive, "Drop a transaction", (*rw.Store).TxRollback,
		"Drops a transaction with everything that was staged. Use it when a staged transaction is not wanted any more. The files are not changed, and a transaction that is not there is no error."),
	bind("read", Facade, readOnly, "Read one file", (*rw.Store).Read,
		"Returns a file with its SHA-256, line endings and mode. Use it before you replace a file: its sha256 is the expected_prev_sha256 of the write. Large files come in parts, with offset and max_bytes. Nothing is changed."),
	bind("history", Common, readOnly, "Versions of a file", (*rw.Store).History,
		"Lists the versions of a file, newest first, over deletions and moves, with hash, time and caller. Use it before rw_restore, or to see who changed a file. Nothing is changed."),
	bind("diff", Common, readOnly, "What changed", (*rw.Store).Diff,
		"Returns the unified diff between two versions of a file, or between a version and the file as it is. Use it to see what a change did, what somebody did to a file since it was last written here, or before rw_restore. Without versions it shows the newest change. Nothing is changed."),
	bind("restore", Common, destructive, "Restore a version", (*rw.Store).Restore,
		"Makes a file what it was in an earlier version, from rw_history. That is a new version itself, so it can be taken back. A file that somebody changed without these tools is refused unless force is set."),
	bind("undo", Common, destructive, "Undo the newest commits", (*rw.Store).Undo,
		"Takes your newest commit back, or the newest n, all files or none. Use it when a change was a mistake. Undoing again brings it back. A file that somebody changed since is never touched; the call is refused then."),
	bind("operation", Common, readOnly, "Did my call happen?", (*rw.Store).Operation,
		"Tells whether a call whose reply was lost happened, by its idempotency_key or invocation_id. Use it after a timeout, before sending anything again. Nothing is changed."),
	bind("risk_score", Common, readOnly, "Score the risk of a text", (*rw.Store).RiskScore,
		"Tells what secrets, personal data and oversize a text holds, with line, column and a masked snippet, and what to do about it. Use it before you send a text anywhere, or after a warning of risk. The text is kept nowhere. rw_safe_write looks by itself; this tool is not needed before it."),
	bind("redact", Common, readOnly, "Take secrets out of a text", (*rw.Store).Redact,
		"Returns a text with {KIND-REDACTED} in place of each secret, lines unchanged. Use it after a refusal with suggested_action redact: pass the draft_ref of the refusal instead of the text, then write the result. Nothing is written."),
	bind("validate", Common, readOnly, "Check the syntax of a text", (*rw.Store).Validate,
		"Checks whether a text is well formed before it is written: JSON, YAML, TOML, XML, Go, Python, LaTeX, Markdown front matter. Use it before a write that must not break something, or pass validate to rw_safe_write. A text of unknown format is valid. Nothing is written."),
	bind("analytics", Common, readOnly, "Usage figures", (*rw.Store).Analytics,
		"Tells what was written, from the journal: totals, by mode and caller, busiest paths, chunk sessions, checkpoints, refusals. Use it for a report over a session or a period. Nothing is changed."),
	bind("draft_list", Advanced, readOnly, "List refused drafts", (*rw.Store).DraftList,
		"Lists the drafts that the content gate refused and that are still kept, without their content. Use it when a draft_ref was lost. Nothing is changed."),
	bind("draft_get", Advanced, readOnly, "Read a refused draft", (*rw.Store).DraftGet,
		"Returns a refused draft as it was sent, secrets included. Use it to go on with the draft when redaction is not what you want; prefer rw_redact. Nothing is changed. It can be switched off by the operator."),
	bind("draft_delete", Advanced, destructive, "Remove a refused draft", (*rw.Store).DraftDelete,
		"Removes a refused draft for good. Use it when its content has been written in a redacted form. A draft that is not there is no error."),
	bind("handoff_write", Common, destructive, "Leave a handoff", (*rw.Store).HandoffWrite,
		"Writes HANDOFF.md: what was done, where it stands, what comes next, and the hashes of the files the next agent may build on. Use it when you stop, are blocked, or are done; auto_state fills in the hashes. Do not use it for notes to yourself in the middle of the work: that is what checkpoints are for. drift_warnings names files that are not as you say; a handoff that nobody read is archived, not lost."),
	bind("handoff_read", Common, cursor, "Take over a handoff", (*rw.Store).HandoffRead,
		"Returns the handoff that the agent before you left, with the files that changed since (drift_warnings) and the steps that can be worked on now (ready_steps). Use it first when you take up work in a workspace, with acknowledge_as so that its writer's successor knows it was read. Do not build on a file that drift_warnings names before you have looked at it. The handoff itself is not changed."),
	bind("scratch_put", Common, destructive, "Keep raw material apart", (*rw.Store).ScratchPut,
		"Keeps bytes in the scratchpad, outside the workspace and outside git, under their SHA-256 and a label. Use it for raw logs, dumps and replies that may hold secrets: the content gate does not look at them. Refer to them by label afterwards, and write only a redacted form into the workspace. Do not use it for results that belong into a file. The same bytes are stored once; ttl removes them later."),
	bind("scratch_ref", Common, readOnly, "Find raw material", (*rw.Store).ScratchRef,
		"Returns what is known of a thing in the scratchpad, found by sha256 or label, without its bytes. Use it to pass a reference to another agent, or to get the sha256 for rw_scratch_get. The newest entry wins. Nothing is changed."),
	bind("scratch_get", Common, readOnly, "Read raw material", (*rw.Store).ScratchGet,
		"Returns the bytes of a thing in the scratchpad, compared with their hash. Use it when the raw material itself is needed; it may hold secrets, so do not write it into the workspace as it is. Nothing is changed. It can be switched off by the operator."),
	bind("scratch_list", Advanced, cursor, "List the scratchpad", (*rw.Store).ScratchList,
		"Lists the entries of the scratchpad, newest first, with labels and sizes but without bytes. Use it when a label or hash was lost, or to find what can be deleted. Things whose ttl is over are removed on this occasion."),
	bind("scratch_delete", Advanced, destructive, "Remove raw material", (*rw.Store).ScratchDelete,
		"Removes a thing from the scratchpad for good, found by sha256 or label, with all its entries. Use it when the raw material is no longer needed or the scratchpad is full. What is not there is no error."),
	bind("checkpoint", Common, destructive, "Save a checkpoint", (*rw.Store).Checkpoint,
		"Saves a named state of your work: any JSON, or YAML or Markdown text, that comes back exactly as given. Use it after each step of a long task, so that you or the next agent can go on from there. A checkpoint of the same name is replaced. Do not use it for files of the workspace, and not for secrets: the content gate looks at it."),
	bind("checkpoint_read", Common, readOnly, "Read a checkpoint", (*rw.Store).CheckpointRead,
		"Returns a checkpoint with its data, compared with its hash. Use it at the start of a task that was begun before. Nothing is changed."),
	bind("checkpoint_list", Common, readOnly, "List the checkpoints", (*rw.Store).CheckpointList,
		"Lists the checkpoints by name, without their data; damaged ones are marked corrupt. Use it to find out where a task stands. Nothing is changed."),
	bind("checkpoint_cleanup", Common, destructive, "Remove old checkpoints", (*rw.Store).CheckpointCleanup,
		"Removes the checkpoints whose time is over, those of ttl session unless include_session is false, and moves damaged ones to quarantine. Use it at the end of a task, not while others still need their session checkpoints. Call it again when more is true."),
	bind("chunk_append", Common, writing, "Store the next piece of a large file", (*rw.Store).ChunkAppend,
		"Stores one piece of a large file behind the pieces that are there; the session is made by the first one. Use it for any text that is too long for one call, or whose loss half way would hurt, then call rw_chunk_compose. Pass expect_index from next_index of the last reply, so that a repeated call stores nothing twice. Do not use it for text that fits into one rw_safe_write."),
	bind("chunk_write", Common, destructive, "Store one piece under its number", (*rw.Store).ChunkWrite,
		"Stores one piece of a large file under a number you choose; the same number again replaces the piece. Use it to send missing pieces, to correct one, or to send pieces in any order. Nothing appears in the workspace before rw_chunk_compose. A composed session takes no more pieces until rw_chunk_reset."),
	bind("chunk_status", Common, readOnly, "How far a session is", (*rw.Store).ChunkStatus,
		"Tells which pieces of a session are stored, which are missing, and whether it was composed. Use it first when you take over work that another process began, then send only what is missing. Nothing is changed."),
	bind("chunk_preview", Common, readOnly, "Look at what a compose would write", (*rw.Store).ChunkPreview,
		"Returns the text that the pieces make, or a part of it, with the hash of each piece and of the whole. Use it before rw_chunk_compose when you want to see, score or validate the result; pass its sha256 as expected_sha256. Nothing is written."),
	bind("chunk_compose", Common, destructive, "Make one file of the pieces", (*rw.Store).ChunkCompose,
		"Joins the pieces of a session into one file, all or nothing, and seals the session. Use it when every piece is stored; it is refused, naming what is missing, when one is not. Calling it again makes the same file again. With cleanup the session is removed afterwards."),
	bind("chunk_reset", Common, destructive, "Forget a session", (*rw.Store).ChunkReset,
		"Removes a session and all its pieces for good; a file that was composed stays. Use it to begin anew under the same name, or to throw an abandoned session away. A session that does not exist is no error."),
	bind("chunk_list", Advanced, readOnly, "List the sessions", (*rw.Store).ChunkList,
		"Lists the chunk sessions that are kept, with how many pieces each has and misses and whether it was composed. Use it when the name of a session was lost, or to find abandoned ones. Nothing is changed."),
	bind("journal_tail", Common, readOnly, "Newest journal rows", (*rw.Store).JournalTail,
		"Returns the newest rows of the journal, oldest first: which file was written when, by whom, with which hash. Use it to see what happened lately, or to find out whether a write of yours took place. Filter by path, operation or caller. Nothing is changed."),
	bind("journal_since", Advanced, cursor, "Journal rows since a cursor", (*rw.Store).JournalSince,
		"Returns the journal rows behind a sequence number, or behind the stored cursor of a named agent, whose own rows are left out. Use it to follow what other agents write. Passing after_seq together with agent acknowledges everything up to it; a reply alone moves nothing. gap says that rows cannot be given."),
	bind("check", Advanced, readOnly, "Check the store", (*rw.Store).Check,
		"Compares the journal, the kept versions and the traces of commits with each other, like fsck. Use it after an error whose effect is unknown, or when something looks wrong. With deep it also hashes every kept version and every file; that takes time on a large store. It repairs nothing."),
	bind("describe", Common, readOnly, "Describe the store", (*rw.Store).Describe,
		"Returns version, limits, durability level, what opening the store recovered, and the numeric codes of outcomes. Use it once at the start, or to look up a limit. Nothing is changed."),
}

// nature is what a tool does to its environment.
type nature struct{ readOnly, destructive, idempotent bool }

var (
	readOnly    = nature{readOnly: true, idempotent: true}
	cursor      = nature{idempotent: true}
	destructive = nature{destructive: true}
	writing     = nature{}
)

// Names on the wire: rw_safe_write, which every client accepts, and
// rw.safe_write, which always works on call.
func wireName(name string, dotted bool) string {
	if dotted {
		return "rw." + name
	}
	return "rw_" + name
}
