package resilientwrite

import (
	"context"

	"github.com/resilientwrite/resilientwrite/internal/edit"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/drafts"
	"github.com/resilientwrite/resilientwrite/internal/protect"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// Version is the version of the library and of the command.
const Version = "0.1.0-dev"

// DescribeRequest asks for the facts of the store.
type DescribeRequest struct{}

// DescribeResult holds the facts of a store that a caller may want to know.
type DescribeResult struct {
	Version       string           `json:"version" desc:"Version of resilientwrite."`
	FormatVersion int              `json:"format_version" desc:"Format version of the state directory."`
	Sync          SyncLevel        `json:"sync" enum:"full,journal,off" desc:"What is on stable storage when a call succeeds."`
	ReadOnly      bool             `json:"read_only" desc:"True when the store accepts no writes."`
	Poisoned      bool             `json:"poisoned" desc:"True when a flush failed and the store must be reopened."`
	HeadSeq       uint64           `json:"head_seq" desc:"Sequence number of the newest journal row."`
	Policy        PolicyFacts      `json:"policy" desc:"The policy in force, as read when the store was opened."`
	Transactions  []string         `json:"open_transactions" desc:"Staged transactions waiting for rw_tx_commit, oldest first."`
	Limits        map[string]int64 `json:"limits" desc:"Limits, by name; most apply to one call. calls_per_second and calls_at_once are present when a server limits them."`
	Recovery      RecoveryReport   `json:"recovery" desc:"What recovery found and did when the store was opened."`
	Codes         map[string]int   `json:"codes" desc:"Numeric classes of outcomes."`
	Surface       *SurfaceFacts    `json:"surface,omitempty" desc:"The tools of the server that answers; absent when there is no server."`
}

// SurfaceFacts says what a server offers over the store. The server fills it
// in.
type SurfaceFacts struct {
	SchemaVersion string      `json:"schema_version" desc:"Version of the tools, their arguments and replies."`
	Tier          string      `json:"tier" desc:"Which tools are listed: core, standard or full."`
	Tools         []ToolFacts `json:"tools" desc:"Every callable tool, listed or not, by name."`
}

// ToolFacts is one tool of a server.
type ToolFacts struct {
	Name       string `json:"name" desc:"Name of the tool."`
	Tier       string `json:"tier" desc:"Audience of the tool: facade, standard or advanced."`
	Listed     bool   `json:"listed" desc:"False when the tool is callable but not listed."`
	Deprecated string `json:"deprecated,omitempty" desc:"The replacement, when the tool is deprecated."`
}

// PolicyFacts says which policy holds.
type PolicyFacts struct {
	Hash        string   `json:"hash" desc:"SHA-256 of the policy file, empty for the default policy. Recorded in every journal row."`
	Gate        Gate     `json:"gate" desc:"Mode of the content gate for the caller."`
	RetryBudget int      `json:"retry_budget" desc:"Identical failing attempts before a call is refused without being tried."`
	Protected   []string `json:"protected" desc:"Globs of paths that no tool may change."`
	Exceptions  int      `json:"exceptions" desc:"Rules that allow findings."`

	Source  string         `json:"source,omitempty" enum:"default,workspace,explicit" desc:"Source of the policy: no file, the file in the state directory, or the file named by flag, variable or option."`
	Ignored []string       `json:"ignored,omitempty" desc:"Keys of the policy file that are ignored because they weaken a flag, or a default while git tracks the file."`
	Problem *PolicyProblem `json:"problem,omitempty" desc:"What is wrong with the policy file; nothing can be changed until it is valid. Absent when it is valid."`

	ProtectDefaults ProtectFacts    `json:"protect_defaults" desc:"What happens to changes of files that execute, launch or grant access."`
	ProtectedFiles  []ProtectedFile `json:"protected_files,omitempty" desc:"Those files; listed only by the resource rw://policy."`
}

// PolicyProblem is the first thing that is wrong with a policy file.
type PolicyProblem struct {
	File    string `json:"file" desc:"Name of the file."`
	Line    int    `json:"line,omitempty" desc:"Line, from 1; absent when the file cannot be read."`
	Column  int    `json:"column,omitempty" desc:"Column in characters, from 1."`
	Problem string `json:"problem" desc:"Stable name of the problem."`
	Hint    string `json:"hint" desc:"What is wrong and how to correct it."`
}

// ProtectFacts says how the protected defaults are set.
type ProtectFacts struct {
	Version    int         `json:"version" desc:"Version of the list."`
	Mode       ProtectMode `json:"mode" enum:"ask,warn,off" desc:"For the caller: ask the user, or refuse when no user can be asked; warn; or nothing."`
	Exceptions int         `json:"exceptions" desc:"Paths and globs that the policy exempts."`
}

// Describe returns the facts of the store: version, limits, the level of
// durability, the policy in force, staged transactions, what Open recovered,
// the numeric codes. Errors: [ErrStoreClosed]. Nothing is changed on disk.
func (s *Store) Describe(ctx context.Context, r DescribeRequest) (DescribeResult, error) {
	if err := s.engine.EnterAny(); err != nil {
		return DescribeResult{}, s.verbError("describe", err)
	}
	defer s.engine.Leave()
	out := DescribeResult{
		Version: Version, FormatVersion: FormatVersion, Sync: s.opts.Sync,
		ReadOnly: s.opts.ReadOnly, Poisoned: s.engine.Poisoned.Load() || s.engine.Present() != nil, Recovery: s.Recovery(),
		Policy: PolicyFacts{
			Hash: s.policy().hash, Gate: s.gateFor(ctx), RetryBudget: s.budget(),
			Protected: append([]string{}, s.policy().file.Protect...), Exceptions: len(s.policy().file.Allow),
			Source: s.policy().source, Ignored: s.policy().ignored, Problem: s.policyProblem(),
			ProtectDefaults: ProtectFacts{Version: protect.Version, Mode: s.protectFor(ctx), Exceptions: len(s.policy().file.ProtectExceptions)},
		},
		Limits: map[string]int64{
			"content_bytes": s.opts.MaxContentBytes, "path_bytes": relpath.MaxPath, "name_bytes": relpath.MaxName,
			"argument_members": schema.MaxMembers, "argument_items": schema.MaxItems,
			"edits": edit.MaxEdits, "edit_bytes": edit.MaxWork,
			"read_bytes": maxRead, "read_default_bytes": defaultRead, "journal_tail_rows": maxTail,
			"journal_since_rows": maxSince, "label_bytes": maxLabel, "journal_row_bytes": journal.MaxRecord,
			"idempotency_key_seconds": int64(engine.KeyAge.Seconds()), "idempotency_keys": engine.KeyCount,
			"history_bytes": s.historyCaps().Bytes, "history_versions_kept": int64(s.historyCaps().Versions),
			"undo_commits": maxUndo, "history_versions": maxVersions,
			"tx_ops": maxTxOps, "staged_tx_ops": maxStagedOps,
			"drafts": drafts.MaxCount, "draft_bytes": drafts.MaxBytes, "drafts_bytes": drafts.MaxTotal, "draft_seconds": int64(drafts.MaxAge.Seconds()),
			"retry_budget_seconds": int64(strikeAge.Seconds()),
			"lock_timeout_ms":      s.opts.LockTimeout.Milliseconds(),
		},
		Codes: map[string]int{
			"ok": int(CodeOK), "internal": int(CodeInternal), "usage": int(CodeUsage),
			"permission": int(CodePermission), "not_found": int(CodeNotFound), "invalid": int(CodeInvalid),
			"precondition": int(CodePrecondition), "storage": int(CodeStorage), "policy": int(CodePolicy),
		},
	}
	out.Transactions = []string{}
	for _, h := range s.openTxs() {
		out.Transactions = append(out.Transactions, h.TxID)
	}
	if s.engine.Log != nil {
		out.HeadSeq = s.engine.Log.Head()
	}
	return out, nil
}
