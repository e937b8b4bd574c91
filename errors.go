package resilientwrite

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// Kind is the class of a failure, the `error` field of the envelope. The set
// is closed. A Kind is an error, so that errors.Is(err, ErrStalePrecondition)
// works on everything a [Store] returns.
type Kind string

const (
	// ErrBlocked: the content gate refused the draft. Nothing was written.
	ErrBlocked Kind = "blocked"
	// ErrStalePrecondition: the workspace is not in the state the request
	// expects. Nothing was written unless Effect says otherwise.
	ErrStalePrecondition Kind = "stale_precondition"
	// ErrWriteCorruption: bytes on disk are not what they should be, or the
	// storage failed. Effect says what is on disk.
	ErrWriteCorruption Kind = "write_corruption"
	// ErrQuotaExceeded: a limit of the disk, the process or the policy.
	ErrQuotaExceeded Kind = "quota_exceeded"
	// ErrPolicyViolation: the request is not allowed or not well formed.
	ErrPolicyViolation Kind = "policy_violation"
)

// Error returns the kind in words.
func (k Kind) Error() string { return strings.ReplaceAll(string(k), "_", " ") }

// Kinds lists every Kind.
func Kinds() []Kind {
	return []Kind{ErrBlocked, ErrStalePrecondition, ErrWriteCorruption, ErrQuotaExceeded, ErrPolicyViolation}
}

// Reason says what about the request made it fail, the `reason_hint` field of
// the envelope. The set is closed.
type Reason string

const (
	ReasonContentFilter Reason = "content_filter" // what it holds
	ReasonSizeLimit     Reason = "size_limit"     // how much it is, or how little room there is
	ReasonEncoding      Reason = "encoding"       // how it is written: UTF-8, base64, YAML, a name
	ReasonPermission    Reason = "permission"     // who or where it is
	ReasonNetwork       Reason = "network"        // what happened to it on the way here
	ReasonUnknown       Reason = "unknown"        // none of these; the detail says more
)

// Reasons lists every Reason.
func Reasons() []Reason {
	return []Reason{ReasonContentFilter, ReasonSizeLimit, ReasonEncoding, ReasonPermission, ReasonNetwork, ReasonUnknown}
}

// Action is what the caller should do next. The set is closed. It is
// `suggested_action` in version 2 of the envelope and `context.action` in
// version 1, whose `suggested_action` has neither of the last two.
type Action string

const (
	ActionRedact     Action = "redact"      // take the secret out, see [Store.Redact]
	ActionSplit      Action = "split"       // send it in pieces, see [Store.ChunkAppend]
	ActionEscape     Action = "escape"      // write it in another encoding
	ActionAskUser    Action = "ask_user"    // look, or ask; the same call again does not help
	ActionRetryLater Action = "retry_later" // the same call may pass in a moment
	ActionAbort      Action = "abort"       // the same call will not pass
	ActionFixCall    Action = "fix_call"    // correct the call and send it again
	ActionReadAgain  Action = "read_again"  // read the file, then make the call again
)

// Actions lists every Action.
func Actions() []Action {
	return []Action{ActionRedact, ActionSplit, ActionEscape, ActionAskUser, ActionRetryLater, ActionAbort, ActionFixCall, ActionReadAgain}
}

// Effect says what is on disk after a failure.
type Effect string

const (
	// EffectNone: nothing the caller asked for is on disk.
	EffectNone Effect = "none"
	// EffectApplied: everything the caller asked for is on disk, although
	// the call failed.
	EffectApplied Effect = "applied"
	// EffectUnknown: only the next Open, or [Store.Check], can determine it.
	EffectUnknown Effect = "unknown"
)

// Effects lists every Effect.
func Effects() []Effect { return []Effect{EffectNone, EffectApplied, EffectUnknown} }

// Code is the numeric class of an outcome. The exit codes of the command are
// the same numbers.
type Code int

const (
	CodeOK           Code = 0
	CodeInternal     Code = 1
	CodeUsage        Code = 2
	CodePermission   Code = 3
	CodeNotFound     Code = 4
	CodeInvalid      Code = 5 // invalid input or encoding
	CodePrecondition Code = 6 // precondition or conflict
	CodeStorage      Code = 7
	CodePolicy       Code = 8
)

// DefaultRetryBudget is the number of identical attempts after which a failing
// call is refused without being tried, unless the policy says otherwise.
const DefaultRetryBudget = fault.DefaultRetryBudget

// Error is the only error type a [Store] method returns.
//
// Its text names the operation, the relative path and the detail. It never
// holds file content, a secret, or a path outside the workspace.
type Error struct {
	Op          string         // the verb: "safe_write", "read" …
	Path        string         // relative to the workspace, "" when none
	Kind        Kind           // what class of failure
	Reason      Reason         // what about the request
	Detail      Detail         // which failure exactly
	Action      Action         // what to do next
	Patterns    []string       // families the gate found, sorted
	RetryBudget int            // identical attempts that are left
	Stage       Stage          // the stage of the write path that failed
	Effect      Effect         // what is on disk
	Hint        string         // one sentence that says what to do next
	Context     map[string]any // facts for programs, by name; of content only a few redacted lines
	Err         error          // the cause, for errors.Is; never shown on the wire
}

// Error returns the operation, the relative path, the kind and the detail in
// one line, without content.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Path != "" {
		fmt.Fprintf(&b, " %s", e.Path)
	}
	b.WriteString(": ")
	b.WriteString(e.Kind.Error())
	if e.Detail != "" {
		fmt.Fprintf(&b, ": %s", e.Detail.Error())
	}
	if e.Effect != EffectNone && e.Effect != "" {
		fmt.Fprintf(&b, " (effect %s)", e.Effect)
	}
	return b.String()
}

// Is reports whether target is the Kind or the Detail of e.
func (e *Error) Is(target error) bool {
	switch t := target.(type) {
	case Kind:
		return e.Kind == t
	case Detail:
		return e.Detail == t
	}
	return false
}

// As gives hooks the error in the form of the internal packages.
func (e *Error) As(target any) bool {
	f, ok := target.(**fault.Fault)
	if ok {
		*f = e.fault()
	}
	return ok
}

// Unwrap returns the cause, which may hold what must not be shown.
func (e *Error) Unwrap() error { return e.Err }

// Code returns the numeric class of the error.
func (e *Error) Code() Code { return Code(fault.Code(e.Detail).Class().Exit) }

// Envelope is the wire form of an [Error]: exactly these fields, in every
// refusal of every tool. What has no field of its own is in Context.
type Envelope struct {
	OK               bool           `json:"ok"`
	SchemaVersion    string         `json:"schema_version"`
	Error            Kind           `json:"error"`
	ReasonHint       Reason         `json:"reason_hint"`
	DetectedPatterns []string       `json:"detected_patterns"`
	SuggestedAction  Action         `json:"suggested_action"`
	RetryBudget      int            `json:"retry_budget"`
	Context          map[string]any `json:"context"`
}

// EnvelopeVersion is the schema_version of every envelope.
const EnvelopeVersion = "1"

// Envelope returns the wire form of e, version 1.
func (e *Error) Envelope() Envelope {
	ctx := make(map[string]any, len(e.Context)+8)
	maps.Copy(ctx, e.Context)
	set := func(key, value string) {
		if value != "" {
			ctx[key] = value
		}
	}
	set("reason", string(e.Detail))
	set("op", e.Op)
	set("path", e.Path)
	set("hint", e.Hint)
	set("stage", string(e.Stage))
	set("effect", string(e.Effect))
	set("action", string(e.Action))
	ctx["code"] = int(e.Code())
	patterns := e.Patterns
	if patterns == nil {
		patterns = []string{}
	}
	suggested := e.Action
	if suggested == ActionFixCall || suggested == ActionReadAgain {
		suggested = Action(fault.Code(e.Detail).Class().Action)
	}
	return Envelope{
		SchemaVersion:    EnvelopeVersion,
		Error:            e.Kind,
		ReasonHint:       e.Reason,
		DetectedPatterns: patterns,
		SuggestedAction:  suggested,
		RetryBudget:      e.RetryBudget,
		Context:          ctx,
	}
}

// MarshalJSON encodes the envelope.
func (e *Error) MarshalJSON() ([]byte, error) { return schema.Encode(e.Envelope()) }

// AsError returns err as an *Error. Any other error becomes an internal error
// that keeps err as its cause and reveals nothing of it; nil stays nil.
func AsError(op string, err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	var f *fault.Fault
	if !errors.As(err, &f) {
		f = fault.New(fault.Internal).Because(err)
		f.Op, f.Effect = op, fault.EffectUnknown
	}
	return errorFrom(f)
}

// errorFrom is the only place where a fault becomes the error of a caller.
func errorFrom(f *fault.Fault) *Error {
	class := f.Code.Class()
	return &Error{
		Op: f.Op, Path: f.Path, Kind: Kind(class.Kind), Reason: Reason(class.Reason), Detail: Detail(f.Code),
		Action: Action(f.Code.Action()), Patterns: f.Patterns, RetryBudget: f.RetryBudget, Stage: Stage(f.Stage),
		Effect: Effect(f.Effect), Hint: f.Hint, Context: f.Context, Err: f.Err,
	}
}

// fault returns e as the internal packages use it, for an error that a hook or an
// adapter returns to the store.
func (e *Error) fault() *fault.Fault {
	return &fault.Fault{
		Code: fault.Code(e.Detail), Op: e.Op, Path: e.Path, Stage: string(e.Stage), Effect: fault.Effect(e.Effect),
		Patterns: e.Patterns, RetryBudget: e.RetryBudget, Hint: e.Hint, Context: e.Context, Err: e.Err,
	}
}

// describeCode returns a failure in the form of last_error.
func describeCode(code fault.Code) map[string]any {
	class := code.Class()
	return map[string]any{
		"error": Kind(class.Kind), "reason_hint": Reason(class.Reason), "suggested_action": Action(class.Action), "reason": Detail(code),
	}
}

// Stage is a step of the write path.
type Stage string

// The stages, in the order in which every write passes them.
const (
	StageResolve      Stage = "resolve"      // where the path leads
	StageAuthorize    Stage = "authorize"    // may the caller do this
	StageLock         Stage = "lock"         // one writer per path
	StagePrecondition Stage = "precondition" // is the file as the request expects
	StageCompose      Stage = "compose"      // the final bytes
	StageClassify     Stage = "classify"     // the gate, on the final bytes
	StageStage        Stage = "stage"        // the final bytes, outside the workspace
	StageRecord       Stage = "record"       // the commit point
	StagePublish      Stage = "publish"      // the bytes under their name
	StageSettle       Stage = "settle"       // the name on stable storage
)

// NewError makes the error of a detail for an adapter that refuses a call
// before it reaches the Store.
func NewError(op string, d Detail, hint string, context map[string]any) *Error {
	e := fault.New(fault.Code(d))
	e.Op, e.Context = op, context
	if hint != "" {
		e.Hint = hint
	}
	return errorFrom(e)
}
