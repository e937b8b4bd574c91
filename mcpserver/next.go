package mcpserver

import (
	"encoding/json"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// NextAction is a call that is the clear next step. It stands in next_actions
// of a reply, and in context.next_actions of a refusal.
type NextAction struct {
	Tool string         `json:"tool" desc:"Name of the tool."`
	Args map[string]any `json:"args" desc:"Arguments that are known already; others may be needed."`
	When string         `json:"when" desc:"When this is the thing to do."`
}

// maxNext is how many next steps a reply names.
const maxNext = 3

// next says what comes after a success, by tool. A tool that is not here has
// no clear next step.
var next = map[string]func(reply any) []NextAction{
	"chunk_append":  after(afterAppend),
	"chunk_write":   after(afterChunkWrite),
	"chunk_status":  after(afterStatus),
	"chunk_preview": after(afterPreview),
	"draft_list":    after(afterDrafts),
	"handoff_read":  after(afterHandoff),
	"redact":        after(afterRedact),
	"tx_begin":      after(afterBegin),
	"tx_stage":      after(afterStage),
	"history":       after(afterHistory),
	"operation":     after(afterOperation),
}

func after[T any](f func(T) []NextAction) func(any) []NextAction {
	return func(reply any) []NextAction { return f(reply.(T)) }
}

func step(tool, when string, args map[string]any) NextAction {
	if args == nil {
		args = map[string]any{}
	}
	return NextAction{Tool: tool, Args: args, When: when}
}

func afterAppend(r rw.ChunkAppendResult) []NextAction {
	return []NextAction{
		step("chunk_append", "more text follows", map[string]any{"session": r.Session, "expect_index": r.NextIndex}),
		step("chunk_compose", "this was the last piece", map[string]any{"session": r.Session}),
	}
}

func afterChunkWrite(r rw.ChunkWriteResult) []NextAction {
	return []NextAction{
		step("chunk_status", "to see which pieces are missing", map[string]any{"session": r.Session}),
		step("chunk_compose", "every piece is stored", map[string]any{"session": r.Session}),
	}
}

func afterStatus(r rw.ChunkStatusResult) []NextAction {
	session := map[string]any{"session": r.Session}
	switch {
	case !r.Exists:
		return []NextAction{step("chunk_append", "to begin the session", session)}
	case r.Sealed:
		return []NextAction{step("chunk_reset", "to begin anew under this name", session)}
	case len(r.Missing) > 0:
		return []NextAction{step("chunk_write", "to send the first missing piece", map[string]any{"session": r.Session, "index": r.Missing[0]})}
	}
	return []NextAction{step("chunk_compose", "every piece is stored", session)}
}

func afterPreview(r rw.ChunkPreviewResult) []NextAction {
	return []NextAction{step("chunk_compose", "this is what the file should hold", map[string]any{"session": r.Session, "expected_sha256": r.SHA256})}
}

func afterDrafts(r rw.DraftListResult) []NextAction {
	if len(r.Drafts) == 0 {
		return nil
	}
	d := r.Drafts[0]
	return []NextAction{step("redact", "to go on with the newest draft", map[string]any{"draft_ref": d.DraftRef, "target_path": d.Path})}
}

func afterHandoff(r rw.HandoffReadResult) []NextAction {
	for _, w := range r.DriftWarnings {
		if w.Reason == "hash_mismatch" {
			return []NextAction{step("history", "to see who changed what the handoff relies on", map[string]any{"path": w.Path})}
		}
	}
	if len(r.CheckpointRefs) > 0 {
		return []NextAction{step("checkpoint_list", "to load where the work stood", nil)}
	}
	return nil
}

func afterRedact(rw.RedactResult) []NextAction {
	return []NextAction{step("safe_write", "to write the redacted text", nil)}
}

func afterBegin(r rw.TxBeginResult) []NextAction {
	return []NextAction{step("tx_stage", "for each operation", map[string]any{"tx_id": r.TxID})}
}

func afterStage(r rw.TxStageResult) []NextAction {
	return []NextAction{
		step("tx_stage", "for the next operation", map[string]any{"tx_id": r.TxID}),
		step("tx_commit", "everything is staged", map[string]any{"tx_id": r.TxID}),
	}
}

func afterHistory(r rw.HistoryResult) []NextAction {
	if len(r.Versions) < 2 {
		return nil
	}
	return []NextAction{step("restore", "to go back to the version before", map[string]any{"path": r.Path, "version": r.Versions[1].Version})}
}

func afterOperation(r rw.OperationResult) []NextAction {
	if r.Happened {
		return nil
	}
	return []NextAction{step("safe_write", "the call did not happen; send it again with the same idempotency_key", nil)}
}

// remedy says what comes after a refusal, by what was refused.
var remedy = map[rw.Detail]func(e *rw.Error) []NextAction{
	rw.RiskBlocked: func(e *rw.Error) []NextAction {
		if ref, ok := e.Context["draft_ref"].(string); ok {
			return []NextAction{step("redact", "to take the secrets out", map[string]any{"draft_ref": ref, "target_path": e.Path})}
		}
		return []NextAction{step("redact", "to take the secrets out", nil)}
	},
	rw.FileAlreadyExists:   readFirst("to see what is there before replacing it"),
	rw.HashMismatch:        readFirst("to get the file as it is now"),
	rw.ChangedDuringWrite:  readFirst("to get the file as it is now"),
	rw.OldStringNotFound:   readFirst("to copy the text exactly"),
	rw.AmbiguousMatch:      readFirst("to copy more of what stands around"),
	rw.InsufficientMatches: readFirst("to count the places"),
	rw.TooManyMatches:      readFirst("to count the places"),
	rw.DestructiveShrink:   readFirst("to see what would be lost"),
	rw.ChangedOutside: func(e *rw.Error) []NextAction {
		return []NextAction{step("read", "to see what somebody made of it", pathArg(e)), step("history", "to see what this store wrote", pathArg(e))}
	},
	rw.VersionNotFound: historyOf, rw.VersionNotKept: historyOf,
	rw.MissingContent: func(*rw.Error) []NextAction {
		return []NextAction{step("chunk_append", "the text is too long for one call", nil)}
	},
	rw.TooLarge: func(*rw.Error) []NextAction {
		return []NextAction{step("chunk_append", "to send the text in pieces", nil)}
	},
	rw.SessionNotFound: func(*rw.Error) []NextAction {
		return []NextAction{step("chunk_list", "to find the name of the session", nil)}
	},
	rw.NoChunksFound: sessionStatus, rw.NonContiguous: sessionStatus, rw.ChunkCountMismatch: sessionStatus, rw.IndexMismatch: sessionStatus,
	rw.SessionSealed: func(e *rw.Error) []NextAction {
		return []NextAction{step("chunk_reset", "to begin anew under this name", sessionArg(e))}
	},
	rw.CheckpointNotFound: func(*rw.Error) []NextAction {
		return []NextAction{step("checkpoint_list", "to find the name", nil)}
	},
	rw.DraftNotFound: func(*rw.Error) []NextAction {
		return []NextAction{step("draft_list", "to find the draft_ref", nil)}
	},
	rw.TxNotFound: func(*rw.Error) []NextAction {
		return []NextAction{step("describe", "to see the open transactions", nil)}
	},
	rw.StorePoisoned: func(*rw.Error) []NextAction {
		return []NextAction{step("check", "to see where the store stands", nil)}
	},
}

func readFirst(when string) func(*rw.Error) []NextAction {
	return func(e *rw.Error) []NextAction { return []NextAction{step("read", when, pathArg(e))} }
}

func historyOf(e *rw.Error) []NextAction {
	return []NextAction{step("history", "to see the versions there are", pathArg(e))}
}

func sessionStatus(e *rw.Error) []NextAction {
	return []NextAction{step("chunk_status", "to see which pieces are there", sessionArg(e))}
}

func pathArg(e *rw.Error) map[string]any {
	if e.Path == "" {
		return nil
	}
	return map[string]any{"path": e.Path}
}

func sessionArg(e *rw.Error) map[string]any {
	if s, ok := e.Context["session"].(string); ok {
		return map[string]any{"session": s}
	}
	return nil
}

// output is the schema of the reply, with next_actions where the tool has
// them.
func (t tool) output() json.RawMessage {
	more := t.deprecated.fields(schema.Output(t.out))
	if next[t.name] != nil {
		more = append(more, schema.Field[[]NextAction]("next_actions", "What to call next, at most three."))
	}
	return schema.Output(t.out, more...)
}

// named puts the names into next steps under which this server has the tools,
// and drops those it does not have.
func (set *toolset) named(list []NextAction) []NextAction {
	var out []NextAction
	for _, a := range list {
		if of, ok := set.find(wireName(a.Tool, false)); ok && len(out) < maxNext {
			a.Tool = of.wire
			out = append(out, a)
		}
	}
	return out
}
