package toolbox

import (
	"reflect"
	"strings"

	rw "github.com/resilientwrite/resilientwrite"
)

// NextAction is a call that is the clear next step. It is listed in
// next_actions of a reply, and in context.next_actions of a refusal.
type NextAction struct {
	// Name of the tool.
	Tool string `json:"tool"`
	// Complete arguments for the call.
	Args map[string]any `json:"args"`
	// When to make this call.
	When string `json:"when"`
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
	return []NextAction{step("chunk_preview", "this was the last chunk: to see the whole file before composing it", map[string]any{"session": r.Session})}
}

func afterChunkWrite(r rw.ChunkWriteResult) []NextAction {
	return []NextAction{
		step("chunk_status", "to see which chunks are missing", map[string]any{"session": r.Session}),
		step("chunk_preview", "every chunk is stored: to see the whole file before composing it", map[string]any{"session": r.Session}),
	}
}

func afterStatus(r rw.ChunkStatusResult) []NextAction {
	session := map[string]any{"session": r.Session}
	switch {
	case !r.Exists || len(r.Missing) > 0: // what to send, only the caller knows
		return nil
	case r.Sealed:
		return []NextAction{step("chunk_reset", "to start again under this name", session)}
	}
	return []NextAction{step("chunk_preview", "every chunk is stored: to see the whole file before composing it", session)}
}

func afterPreview(r rw.ChunkPreviewResult) []NextAction {
	if len(r.Missing) == 0 {
		return nil
	}
	return []NextAction{step("chunk_status", "to see which chunks are missing", map[string]any{"session": r.Session})}
}

func afterDrafts(r rw.DraftListResult) []NextAction {
	if len(r.Drafts) == 0 {
		return nil
	}
	return []NextAction{step("redact", "to continue with the newest draft", map[string]any{"draft_ref": r.Drafts[0].DraftRef})}
}

func afterHandoff(r handoffFound) []NextAction {
	for _, w := range r.DriftWarnings {
		if w.Reason == "hash_mismatch" {
			return []NextAction{step("history", "to see who changed the files of the handoff", map[string]any{"path": w.Path})}
		}
	}
	if len(r.CheckpointRefs) > 0 {
		return []NextAction{step("checkpoint_list", "to load the saved state of the work", nil)}
	}
	return nil
}

func afterBegin(r rw.TxBeginResult) []NextAction {
	if r.Receipt.DryRun { // nothing was begun
		return nil
	}
	return []NextAction{step("tx_rollback", "it is no longer wanted", map[string]any{"tx_id": r.TxID})}
}

func afterStage(r rw.TxStageResult) []NextAction {
	return []NextAction{
		step("tx_commit", "everything is staged", map[string]any{"tx_id": r.TxID}),
		step("tx_rollback", "it is no longer wanted", map[string]any{"tx_id": r.TxID}),
	}
}

func afterHistory(r historyReply) []NextAction {
	if len(r.Versions) < 2 {
		return nil
	}
	return []NextAction{step("restore", "to go back to the previous version", map[string]any{"path": r.Path, "version": r.Versions[1].Version})}
}

func afterOperation(r rw.OperationResult) []NextAction {
	if r.Happened || r.Refused { // entries say all there is to say
		return nil
	}
	return []NextAction{step("journal_tail", "the call is unknown: to see recent changes before you send it again", nil)}
}

// remedy says what comes after a refusal, by what was refused.
var remedy = map[rw.Detail]func(e *rw.Error) []NextAction{
	rw.ErrRiskBlocked: func(e *rw.Error) []NextAction {
		if ref, ok := e.Context["draft_ref"].(string); ok {
			return []NextAction{step("redact", "to redact the secrets", map[string]any{"draft_ref": ref})}
		}
		return nil
	},
	rw.ErrFileAlreadyExists:   readFirst("to see the current content before replacing it"),
	rw.ErrHashMismatch:        readFirst("to get the current file"),
	rw.ErrChangedDuringWrite:  readFirst("to get the current file"),
	rw.ErrOldStringNotFound:   readFirst("to copy the text exactly"),
	rw.ErrAmbiguousMatch:      readFirst("to copy more context"),
	rw.ErrInsufficientMatches: readFirst("to count the occurrences"),
	rw.ErrTooManyMatches:      readFirst("to count the occurrences"),
	rw.ErrDestructiveShrink:   readFirst("to see what would be removed"),
	rw.ErrChangedOutside: func(e *rw.Error) []NextAction {
		return append(readFirst("to see what was changed")(e), historyOf(e)...)
	},
	rw.ErrVersionNotFound: historyOf, rw.ErrVersionNotKept: historyOf,
	rw.ErrSessionNotFound: func(*rw.Error) []NextAction {
		return []NextAction{step("chunk_list", "to find the name of the session", nil)}
	},
	rw.ErrNoChunksFound: sessionStatus, rw.ErrNonContiguous: sessionStatus, rw.ErrChunkCountMismatch: sessionStatus, rw.ErrIndexMismatch: sessionStatus,
	rw.ErrSessionSealed: func(e *rw.Error) []NextAction {
		return []NextAction{step("chunk_reset", "to start again under this name", sessionArg(e))}
	},
	rw.ErrCheckpointNotFound: func(*rw.Error) []NextAction {
		return []NextAction{step("checkpoint_list", "to find the name", nil)}
	},
	rw.ErrDraftNotFound: func(*rw.Error) []NextAction {
		return []NextAction{step("draft_list", "to find the draft_ref", nil)}
	},
	rw.ErrTxNotFound: func(*rw.Error) []NextAction {
		return []NextAction{step("describe", "to see the open transactions", nil)}
	},
	rw.ErrStorePoisoned: func(*rw.Error) []NextAction {
		return []NextAction{step("check", "to see the state of the store", nil)}
	},
}

// readFirst is a look at the file, where there is one.
func readFirst(when string) func(*rw.Error) []NextAction {
	return func(e *rw.Error) []NextAction {
		if is, ok := e.Context["actual_prev_sha256"]; ok && is == "" {
			return nil
		}
		return []NextAction{step("read", when, pathArg(e))}
	}
}

func historyOf(e *rw.Error) []NextAction {
	return []NextAction{step("history", "to see the existing versions", pathArg(e))}
}

func sessionStatus(e *rw.Error) []NextAction {
	return []NextAction{step("chunk_status", "to see which chunks are stored", sessionArg(e))}
}

// pathArg is the file that an error is about. What is in the state directory
// is no file that a tool for files takes.
func pathArg(e *rw.Error) map[string]any {
	if !inWorkspace(e.Path) {
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

// named gives next steps the tool names of this server, and drops steps whose
// tool it does not list or that lack an argument: a step is a complete call.
func (set *toolset) named(list []NextAction) []NextAction {
	var out []NextAction
	for _, a := range list {
		of, ok := set.find(wireName(a.Tool, false))
		if other := instead[a.Tool]; other.same && (!ok || !of.listed) {
			of, ok = set.find(wireName(other.tool, false))
		}
		if ok && of.listed && of.takes(a.Args) && len(out) < maxNext {
			a.Tool = of.wire
			out = append(out, a)
		}
	}
	return out
}

// takes reports whether the arguments are all that a call needs.
func (of *offer) takes(args map[string]any) bool {
	for _, f := range reflect.VisibleFields(of.in) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); f.Tag.Get("required") == "true" && args[name] == nil {
			return false
		}
	}
	return true
}

// corrected are the arguments that change where the corrected call is known.
func corrected(e *rw.Error) map[string]any {
	name, _ := e.Context["argument"].(string)
	switch meant, ok := e.Context["did_you_mean"]; {
	case e.Detail == rw.ErrInvalidArgument && ok && name != "":
		return map[string]any{name: meant}
	case e.Detail == rw.ErrDestructiveShrink:
		return map[string]any{"allow_shrink": true}
	}
	return nil
}

func inWorkspace(path string) bool {
	return path != "" && !strings.HasPrefix(path, ".resilient_write/")
}
