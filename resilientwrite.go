// Package resilientwrite is a write surface for coding agents: files are
// written so that a crash, a race or a lost reply never costs a byte, and
// every failure says what happened to the disk and what to do next.
//
//	store, err := resilientwrite.Open(ctx, "workspace", nil)
//	if err != nil {
//		return err
//	}
//	defer store.Close(ctx)
//
//	first, err := store.SafeWrite(ctx, resilientwrite.SafeWriteRequest{
//		Path: "docs/plan.md", Content: "# Plan\n",
//	})
//	if err != nil {
//		return err // an *Error: kind, reason, suggested action, effect
//	}
//	_, err = store.SafeWrite(ctx, resilientwrite.SafeWriteRequest{
//		Path: "docs/plan.md", Content: "# Plan B\n", Mode: resilientwrite.ModeOverwrite,
//		ExpectedPrevSHA256: &first.SHA256, // refuse if somebody changed it meanwhile
//	})
//
// # Durability
//
// At [SyncFull], the default, a call that returns nil has its bytes, their
// name, every directory it made and its journal row on stable storage.
// [SyncJournal] returns as soon as the row and the bytes are; the next Open
// finishes the rename. [SyncOff] survives the death of the process only. A
// reader sees the old file or the new one, whole; only bytes that are appended
// to an existing file may be seen in part while they are being written.
//
// # Layout on disk
//
// Everything lies in <workspace>/.resilient_write, mode 0700, unless
// [Options.StateDir] says otherwise: journal/ (what was written, by whom; JSON
// lines, the source of truth), archive/ (segments of it that Compact parked),
// staging/ (commits under way), history/ (earlier versions, by hash), chunks/,
// scratch/, checkpoints/, handoffs/, tx/ (what belongs to no file of the
// workspace yet), quarantine/ (refused drafts and what was found damaged),
// policy.yaml (the owner's rules), budgets.json, index/ and meta.json (caches),
// locks/.
//
// # Errors
//
// Every method returns an [*Error]. errors.Is works against the kinds
// ([StalePrecondition], [PolicyViolation] …) and the details ([HashMismatch],
// [EscapesWorkspace] …). Error.Effect says whether the disk was changed.
//
// # Concurrency
//
// A [Store] is safe for concurrent use by goroutines, and any number of
// processes on one machine may open the same workspace. Writers of one path
// wait for each other, writers of different paths do not. Network file systems
// are opened with a warning: neither their locks nor their flushes can be
// trusted.
//
// # Compatibility
//
// Tool names, arguments, reply fields, limits and the state directory are a
// superset of those of the Python implementation resilient-write, whose
// workspaces open. A state directory of a newer format is refused.
package resilientwrite
