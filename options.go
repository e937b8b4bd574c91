package resilientwrite

import (
	"cmp"
	"time"

	"github.com/resilientwrite/resilientwrite/hook"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/hooks"
	"github.com/resilientwrite/resilientwrite/internal/syntax"
)

// Options are the settings of a [Store]. nil means the defaults, and so does
// the zero value of every field.
type Options struct {
	// Sync is what a successful call has on stable storage when it returns.
	// Default: [SyncFull].
	Sync SyncLevel

	// StateDir is the state directory, absolute or relative to the workspace.
	// Default: the store that exists, else a new one in the common git directory
	// of the repository that the workspace is in, in the directory of the user's
	// state, or in the workspace (docs/state.md). Where it is on another file
	// system than the workspace, the workspace contains a directory .rw-slots-… for the
	// files of commits in progress, and versions are copied to history instead of moved.
	StateDir string

	// ReadOnly opens the store for reading only: nothing is written, locked or
	// recovered, so it works concurrently with a writer and on read-only media. Every
	// mutating call fails with [ErrStoreReadOnly].
	ReadOnly bool

	AllowUnsafeRoot bool // AllowUnsafeRoot accepts a system or home directory as the workspace.

	// Caller and Session are recorded with every row whose request names
	// none. Default: "unknown" and "".
	Caller  string
	Session string

	// LockTimeout is how long a call waits for another writer of the same
	// path. Default: 10 seconds.
	LockTimeout time.Duration

	// VerifyReadBack reads every staged file again and compares its hash with
	// what was to be written, before the commit. Without it, and without
	// verifiers, only the size is compared.
	VerifyReadBack bool

	// HardLinks says what happens to a file that has several names.
	// Default: [HardLinksBreak].
	HardLinks HardLinkPolicy

	// InPlaceOnBusy allows a file that cannot be replaced by rename (a mount
	// point, a file that another program keeps busy) to be rewritten in place,
	// after its old bytes were saved and the intent journaled. A reader may
	// then see a mixture while the write runs. Default: such a write fails
	// with [ErrIOBusy].
	InPlaceOnBusy bool

	// PolicyFile names the policy file, absolute or relative to the workspace.
	// It takes precedence over the options. If it is invalid or does not exist,
	// Open fails with [ErrBadPolicy]. Default: policy.yaml in the state directory,
	// which may be absent and never weakens the options.
	PolicyFile string

	// PolicyFileOptional makes a PolicyFile that does not exist a warning of
	// [Store.Recovery]: the default policy holds then.
	PolicyFileOptional bool

	// TrustWorkspacePolicy lets the policy file in the state directory weaken
	// the defaults also if git tracks it. Default: it then only tightens them,
	// unless "resilient-write trust" has recorded it.
	TrustWorkspacePolicy bool

	// ServeWithBadPolicy opens a store whose policy file is wrong. Reads work;
	// every call that changes something fails with [ErrBadPolicy], and the file is
	// read again until it is valid. Default: Open fails.
	ServeWithBadPolicy bool

	// Gate sets the content gate where PolicyFile does not. The policy file in
	// the state directory can make it stricter. Default: advise at high, with
	// any override: risky content is written, and the result has a warning.
	Gate Gate

	// ProtectDefaults says how to answer a change of a file that runs code or
	// grants access because of its place in the project; [ProtectedFiles]
	// lists these files. The policy file can make it weaker. Default: the mode
	// that [WithProtectDefaults] sets for the call, else [ProtectOff].
	ProtectDefaults ProtectMode

	// Validators adds syntax checkers to [Store.Validate], by the name of a
	// format or by an extension with its dot, in lower case. They take precedence
	// over the built-in ones.
	Validators map[string]Validator

	Hooks hook.Hooks // Hooks are the host's own rules. [Open] refuses a nil entry.

	// Ask puts the question of an authorizer to the user. Default: none; such
	// an operation is refused then, unless [WithAsk] gives a way to ask.
	Ask hook.AskFunc

	// VerifyTimeout bounds the verifiers of one commit together. When it is
	// over, their context ends, and they have a quarter of it to end too, at
	// least 100 ms and at most two seconds. Then the commit is refused and its
	// locks are given back, whether they ended or not. Default: 60 seconds.
	VerifyTimeout time.Duration

	// DisableScratchGet forbids reading back what is kept apart: refused
	// drafts and the scratchpad. Such a call fails with [ErrScratchGetDisabled].
	DisableScratchGet bool

	// MaxContentBytes is the limit of the content of one call that passes it
	// in memory; [Store.SafeWriteFrom] is not limited. Default: 256 MiB.
	MaxContentBytes int64

	// ReceiptSink, when set, gets the receipt of every mutating call, also of
	// a refused one, before the call returns. It must not call the Store. A
	// panic in it is contained and changes nothing.
	ReceiptSink func(Receipt)
}

// SyncLevel is how much of a successful call is on stable storage when it
// returns.
type SyncLevel string

const (
	// SyncFull: bytes, name and journal row survive a power cut.
	SyncFull SyncLevel = "full"
	// SyncJournal: the bytes and the journal row survive a power cut; the
	// next Open finishes the rename. Files and directories are flushed in the background.
	SyncJournal SyncLevel = "journal"
	// SyncOff: the call survives the death of the process only. After a power
	// cut even the old file may be damaged.
	SyncOff SyncLevel = "off"
)

// HardLinkPolicy says what happens when a file with several names is written.
type HardLinkPolicy string

const (
	// HardLinksBreak replaces the name that was given; the other names keep
	// the old bytes. The receipt warns with hardlink_broken.
	HardLinksBreak HardLinkPolicy = "break"
	// HardLinksRefuse fails with [ErrHardLinkRefused].
	HardLinksRefuse HardLinkPolicy = "refuse"
	// HardLinksInPlace rewrites the file under all its names, in place, after
	// its old bytes were saved and the intent journaled. A reader may see a
	// mixture while the write runs.
	HardLinksInPlace HardLinkPolicy = "in_place"
)

const (
	defaultLockTimeout = 10 * time.Second
	defaultMaxContent  = 256 << 20
)

// withDefaults returns a copy of o in which every zero field has its default.
func (o *Options) withDefaults() (Options, *fault.Fault) {
	var out Options
	if o != nil {
		out = *o
	}
	out.Sync, out.HardLinks, out.Caller = cmp.Or(out.Sync, SyncFull), cmp.Or(out.HardLinks, HardLinksBreak), cmp.Or(out.Caller, "unknown")
	out.LockTimeout = cmp.Or(max(out.LockTimeout, 0), defaultLockTimeout)
	out.MaxContentBytes = cmp.Or(max(out.MaxContentBytes, 0), defaultMaxContent)
	if e := out.check(); e != nil {
		return out, e
	}
	var bad *fault.Fault
	if out.Hooks, bad = hooks.Copy(out.Hooks); bad != nil {
		return out, bad
	}
	return out, nil
}

// check refuses invalid values.
func (o *Options) check() *fault.Fault {
	switch o.Sync {
	case SyncFull, SyncJournal, SyncOff:
	default:
		return fault.New(fault.InvalidArgument).Hintf("sync must be full, journal or off").With("argument", "sync")
	}
	switch o.HardLinks {
	case HardLinksBreak, HardLinksRefuse, HardLinksInPlace:
	default:
		return fault.New(fault.InvalidArgument).Hintf("hard links must be break, refuse or in_place").With("argument", "hard_links")
	}
	return cmp.Or(o.Gate.check(), fault.CheckChoice("protect_defaults", o.ProtectDefaults, ProtectAsk, ProtectWarn, ProtectOff))
}

// validate runs the validator of a format, if there is one.
func (o *Options) validate(format string, content []byte) ([]syntax.Problem, bool) {
	own, ok := o.Validators[format]
	if !ok {
		return nil, false
	}
	return convert(own(content), func(p SyntaxProblem) syntax.Problem { return syntax.Problem(p) }), true
}

// SyntaxProblem is one thing that is wrong with a text.
type SyntaxProblem struct {
	Line     int    `json:"line"`                          // Line, from 1.
	Col      int    `json:"col"`                           // Column in characters, from 1.
	Message  string `json:"message"`                       // What is wrong.
	Severity string `json:"severity" enum:"error,warning"` // Only errors make a text invalid.
}

// Validator checks a text of one format. It must not keep the content, and must
// run in time linear in its size.
type Validator func(content []byte) []SyntaxProblem

func syntaxProblems(list []syntax.Problem) []SyntaxProblem {
	return convert(list, func(p syntax.Problem) SyntaxProblem { return SyntaxProblem(p) })
}
