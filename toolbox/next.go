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
	"chunk_append": after(func(r rw.ChunkAppendResult) []NextAction {
		return steps(preview("this was the last chunk", r.Session))
	}),
	"chunk_write": after(func(r rw.ChunkWriteResult) []NextAction {
		return steps(missing(r.Session), preview("every chunk is stored", r.Session))
	}),
	"chunk_status": after(func(r rw.ChunkStatusResult) []NextAction {
		switch {
		case !r.Exists || len(r.Missing) > 0: // what to send, only the caller knows
			return nil
		case r.Sealed:
			return steps(step("chunk_reset", "to start again under this name", "session", r.Session))
		}
		return steps(preview("every chunk is stored", r.Session))
	}),
	"chunk_preview": after(func(r rw.ChunkPreviewResult) []NextAction {
		if len(r.Missing) == 0 {
			return nil
		}
		return steps(missing(r.Session))
	}),
	"draft_list": after(func(r rw.DraftListResult) []NextAction {
		if len(r.Drafts) == 0 {
			return nil
		}
		return steps(step("redact", "to continue with the newest draft", "draft_ref", r.Drafts[0].DraftRef))
	}),
	"handoff_read": after(func(r handoffFound) []NextAction {
		for _, w := range r.DriftWarnings {
			if w.Reason == "hash_mismatch" {
				return steps(step("history", "to see who changed the files of the handoff", "path", w.Path))
			}
		}
		if len(r.CheckpointRefs) > 0 {
			return steps(step("checkpoint_list", "to load the saved state of the work"))
		}
		return nil
	}),
	"tx_begin": after(func(r rw.TxBeginResult) []NextAction {
		if r.Receipt.DryRun { // nothing was begun
			return nil
		}
		return steps(step("tx_rollback", "it is no longer wanted", "tx_id", r.TxID))
	}),
	"tx_stage": after(func(r rw.TxStageResult) []NextAction {
		return steps(step("tx_commit", "everything is staged", "tx_id", r.TxID), step("tx_rollback", "it is no longer wanted", "tx_id", r.TxID))
	}),
	"history": after(func(r historyReply) []NextAction {
		if len(r.Versions) < 2 {
			return nil
		}
		return steps(step("restore", "to go back to the previous version", "path", r.Path, "version", r.Versions[1].Version))
	}),
	"operation": after(func(r rw.OperationResult) []NextAction {
		if r.Happened || r.Refused { // entries say all there is to say
			return nil
		}
		return steps(step("journal_tail", "the call is unknown: to see recent changes before you send it again"))
	}),
}

func after[T any](f func(T) []NextAction) func(any) []NextAction {
	return func(reply any) []NextAction { return f(reply.(T)) }
}

func steps(list ...NextAction) []NextAction { return list }

// step is a call with pairs of an argument and its value.
func step(tool, when string, args ...any) NextAction {
	a := NextAction{Tool: tool, Args: map[string]any{}, When: when}
	for i := 0; i < len(args); i += 2 {
		a.Args[args[i].(string)] = args[i+1]
	}
	return a
}

func preview(since, session string) NextAction {
	return step("chunk_preview", since+": to see the whole file before composing it", "session", session)
}

func missing(session string) NextAction {
	return step("chunk_status", "to see which chunks are missing", "session", session)
}

// remedy says what comes after a refusal, by what was refused.
var remedy = map[rw.Detail]func(e *rw.Error) []NextAction{
	rw.ErrRiskBlocked:         about("redact", "to redact the secrets", "draft_ref"),
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
	rw.ErrNoChunksFound: sessionStatus, rw.ErrNonContiguous: sessionStatus, rw.ErrChunkCountMismatch: sessionStatus, rw.ErrIndexMismatch: sessionStatus,
	rw.ErrSessionSealed:      about("chunk_reset", "to start again under this name", "session"),
	rw.ErrSessionNotFound:    about("chunk_list", "to find the name of the session", ""),
	rw.ErrCheckpointNotFound: about("checkpoint_list", "to find the name", ""),
	rw.ErrDraftNotFound:      about("draft_list", "to find the draft_ref", ""),
	rw.ErrTxNotFound:         about("describe", "to see the open transactions", ""),
	rw.ErrStorePoisoned:      about("check", "to see the state of the store", ""),
}

var sessionStatus = about("chunk_status", "to see which chunks are stored", "session")

// about is a step with one argument, which the context of the refusal has, if it is not
// "".
func about(tool, when, arg string) func(*rw.Error) []NextAction {
	return func(e *rw.Error) []NextAction {
		value, ok := e.Context[arg].(string)
		switch {
		case arg == "":
			return steps(step(tool, when))
		case !ok:
			return nil
		}
		return steps(step(tool, when, arg, value))
	}
}

// readFirst is a look at the file, where there is one.
func readFirst(when string) func(*rw.Error) []NextAction {
	return func(e *rw.Error) []NextAction {
		if is, ok := e.Context["actual_prev_sha256"]; ok && is == "" {
			return nil
		}
		return aboutFile(e, "read", when)
	}
}

func historyOf(e *rw.Error) []NextAction {
	return aboutFile(e, "history", "to see the existing versions")
}

// aboutFile is a step for the file that an error is about. What is in the state
// directory is no file that a tool for files takes.
func aboutFile(e *rw.Error, tool, when string) []NextAction {
	if e.Path == "" || strings.HasPrefix(e.Path, ".resilient_write/") {
		return steps(step(tool, when))
	}
	return steps(step(tool, when, "path", e.Path))
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

// corrected are the arguments that change where the corrected call is known. A
// member of an argument, as ops[0].op, is none itself.
func corrected(e *rw.Error) map[string]any {
	name, _ := e.Context["argument"].(string)
	switch meant, ok := e.Context["did_you_mean"]; {
	case e.Detail == rw.ErrInvalidArgument && ok && name != "" && !strings.Contains(name, "."):
		return map[string]any{name: meant}
	case e.Detail == rw.ErrDestructiveShrink:
		return map[string]any{"allow_shrink": true}
	}
	return nil
}
