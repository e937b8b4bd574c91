package resilientwrite

import (
	"context"
	"errors"

	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/internal/edit"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/gate"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
	"github.com/resilientwrite/resilientwrite/internal/layer/drafts"
	"github.com/resilientwrite/resilientwrite/internal/layer/staged"
	"github.com/resilientwrite/resilientwrite/internal/protect"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/internal/ship"
)

// DescribeRequest asks for the facts of the store.
type DescribeRequest struct{}

// DescribeResult holds the facts of a store that a caller may want to know.
type DescribeResult struct {
	Version       string `json:"version"`        // Version of resilientwrite.
	FormatVersion int    `json:"format_version"` // Format version of the state directory.
	// What is on stable storage when a call succeeds.
	Sync SyncLevel `json:"sync" enum:"full,journal,off"`
	// True when the store accepts no writes.
	ReadOnly bool   `json:"read_only"`
	Poisoned bool   `json:"poisoned"` // True when a flush failed and the store must be reopened.
	HeadSeq  uint64 `json:"head_seq"` // Sequence number of the newest journal row.
	// The policy in force, as read when the store was opened.
	Policy PolicyFacts `json:"policy"`
	// Staged transactions waiting for Store.TxCommit, oldest first.
	Transactions []string `json:"open_transactions"`
	// Limits, by name; most apply to one call. calls_per_second and calls_at_once
	// are present when a server limits them.
	Limits Limits `json:"limits" values:"integer"`
	// What recovery found and did when the store was opened.
	Recovery RecoveryReport `json:"recovery"`
	Codes    map[string]int `json:"codes"` // Numeric classes of outcomes.
	// How far a hub has the journal; absent where nothing is shipped.
	Hub *admin.HubFacts `json:"hub,omitempty"`
}

// Limits are the limits of a store, and of the server that answers. Their names
// say what they count.
type Limits struct {
	ArgumentItems         int64 `json:"argument_items"`
	ArgumentMembers       int64 `json:"argument_members"`
	CallsAtOnce           int64 `json:"calls_at_once,omitempty"`    // 0: none
	CallsPerSecond        int64 `json:"calls_per_second,omitempty"` // 0: none
	ContentBytes          int64 `json:"content_bytes"`
	DraftBytes            int64 `json:"draft_bytes"`
	DraftSeconds          int64 `json:"draft_seconds"`
	Drafts                int64 `json:"drafts"`
	DraftsBytes           int64 `json:"drafts_bytes"`
	EditBytes             int64 `json:"edit_bytes"`
	Edits                 int64 `json:"edits"`
	HistoryBytes          int64 `json:"history_bytes"`
	HistoryVersions       int64 `json:"history_versions"`
	HistoryVersionsKept   int64 `json:"history_versions_kept"`
	IdempotencyKeySeconds int64 `json:"idempotency_key_seconds"`
	IdempotencyKeys       int64 `json:"idempotency_keys"`
	JournalRowBytes       int64 `json:"journal_row_bytes"`
	JournalSinceRows      int64 `json:"journal_since_rows"`
	JournalTailRows       int64 `json:"journal_tail_rows"`
	LabelBytes            int64 `json:"label_bytes"`
	LockTimeoutMS         int64 `json:"lock_timeout_ms"`
	NameBytes             int64 `json:"name_bytes"`
	PathBytes             int64 `json:"path_bytes"`
	ReadBytes             int64 `json:"read_bytes"`
	ReadDefaultBytes      int64 `json:"read_default_bytes"`
	RetryBudgetSeconds    int64 `json:"retry_budget_seconds"`
	StagedTxOps           int64 `json:"staged_tx_ops"`
	TxOps                 int64 `json:"tx_ops"`
	UndoCommits           int64 `json:"undo_commits"`
}

// PolicyFacts says which policy holds.
type PolicyFacts struct {
	// SHA-256 of the policy file, empty for the default policy. Recorded in every
	// journal row.
	Hash string `json:"hash"`
	Gate Gate   `json:"gate"` // Mode of the content gate for the caller.
	// Identical failing attempts before a call is refused without being tried.
	RetryBudget int      `json:"retry_budget"`
	Protected   []string `json:"protected"`  // Globs of paths that no tool may change.
	Exceptions  int      `json:"exceptions"` // Rules that allow findings.

	// Source of the policy: no file, the file in the state directory, or the file
	// named by flag, variable or option.
	Source string `json:"source,omitempty" enum:"default,workspace,explicit"`
	// Keys of the policy file that are ignored because they weaken a flag, or a
	// default while git tracks the file.
	Ignored []string `json:"ignored,omitempty"`
	// What is wrong with the policy file; nothing can be changed until it is
	// valid. Absent when it is valid.
	Problem *PolicyProblem `json:"problem,omitempty"`

	// What happens to changes of files that execute, launch or grant access.
	ProtectDefaults ProtectFacts `json:"protect_defaults"`
	// Those files; listed only by the resource rw://policy.
	ProtectedFiles []ProtectedFile `json:"protected_files,omitempty"`
}

// PolicyProblem is the first thing that is wrong with a policy file.
type PolicyProblem struct {
	File    string `json:"file"`             // Name of the file.
	Line    int    `json:"line,omitempty"`   // Line, from 1; absent when the file cannot be read.
	Column  int    `json:"column,omitempty"` // Column in characters, from 1.
	Problem string `json:"problem"`          // Stable name of the problem.
	Hint    string `json:"hint"`             // What is wrong and how to correct it.
}

// ProtectFacts says how the protected defaults are set.
type ProtectFacts struct {
	Version int `json:"version"` // Version of the list.
	// For the caller: ask the user, or refuse when no user can be asked; warn; or
	// nothing.
	Mode ProtectMode `json:"mode" enum:"ask,warn,off"`
	// Paths and globs that the policy exempts.
	Exceptions int `json:"exceptions"`
}

// Describe returns the facts of the store: version, limits, the level of
// durability, the policy in force, staged transactions, what Open recovered,
// how far a hub has the journal, the numeric codes. Errors: the common ones.
func (s *Store) Describe(ctx context.Context, r DescribeRequest) (DescribeResult, error) {
	return uncounted(ctx, s, "describe", s.engine.EnterAny, func() (DescribeResult, error) { return s.describe(ctx) })
}

func (s *Store) describe(ctx context.Context) (DescribeResult, error) {
	out := DescribeResult{
		Version: Version, FormatVersion: FormatVersion, Sync: s.opts.Sync,
		ReadOnly: s.opts.ReadOnly, Poisoned: s.engine.Poisoned.Load() || s.engine.Present() != nil, Recovery: s.Recovery(),
		Policy: s.policyFacts(ctx), Limits: s.limits(), Codes: codes(), Transactions: []string{},
	}
	open, err := s.staged().List()
	for _, h := range open {
		out.Transactions = append(out.Transactions, h.TxID)
	}
	out.HeadSeq = s.headSeq()
	hub, herr := ship.Facts(s.engine)
	if out.Hub = hub; hub != nil {
		out.Hub.Task, out.Hub.LostTask = gate.Label(s.gate.SafeText(out.Hub.Task)), gate.Label(s.gate.SafeText(out.Hub.LostTask))
		out.Hub.Waiting = out.HeadSeq - min(out.Hub.Seq, out.HeadSeq)
	}
	return out, errors.Join(err, herr)
}

// policyProblem returns what is wrong with the policy file, nil when it is valid.
func (s *Store) policyProblem() *PolicyProblem {
	file, e := s.gate.Problem()
	if e == nil {
		return nil
	}
	p := &PolicyProblem{File: file, Hint: e.Hint}
	p.Line, _ = e.Context["line"].(int)
	p.Column, _ = e.Context["column"].(int)
	p.Problem, _ = e.Context["problem"].(string)
	return p
}

// policyFacts returns which policy holds for a call.
func (s *Store) policyFacts(ctx context.Context) PolicyFacts {
	p := s.gate.Policy()
	return PolicyFacts{
		Hash: p.Hash, Gate: s.gateFor(ctx), RetryBudget: s.budgets.Budget(),
		Protected: append([]string{}, p.File.Protect...), Exceptions: len(p.File.Allow),
		Source: p.Source, Ignored: p.Ignored, Problem: s.policyProblem(),
		ProtectDefaults: ProtectFacts{Version: protect.Version, Mode: s.protectFor(ctx), Exceptions: len(p.File.ProtectExceptions)},
	}
}

func (s *Store) limits() Limits {
	return Limits{
		ContentBytes:          s.opts.MaxContentBytes,
		PathBytes:             relpath.MaxPath,
		NameBytes:             relpath.MaxName,
		ArgumentMembers:       schema.MaxMembers,
		ArgumentItems:         schema.MaxItems,
		Edits:                 edit.MaxEdits,
		EditBytes:             edit.MaxWork,
		ReadBytes:             maxRead,
		ReadDefaultBytes:      defaultRead,
		JournalTailRows:       maxTail,
		JournalSinceRows:      maxSince,
		LabelBytes:            maxLabel,
		JournalRowBytes:       journal.MaxRecord,
		IdempotencyKeySeconds: int64(engine.KeyAge.Seconds()),
		IdempotencyKeys:       engine.KeyCount,
		HistoryBytes:          s.gate.HistoryCaps().Bytes,
		HistoryVersionsKept:   int64(s.gate.HistoryCaps().Versions),
		UndoCommits:           maxUndo,
		HistoryVersions:       maxVersions,
		TxOps:                 maxTxOps,
		StagedTxOps:           staged.MaxOps,
		Drafts:                drafts.MaxCount,
		DraftBytes:            drafts.MaxBytes,
		DraftsBytes:           drafts.MaxTotal,
		DraftSeconds:          int64(drafts.MaxAge.Seconds()),
		RetryBudgetSeconds:    int64(budget.MaxAge.Seconds()),
		LockTimeoutMS:         s.opts.LockTimeout.Milliseconds(),
	}
}

// codes returns the numeric classes of outcomes by name.
func codes() map[string]int {
	return map[string]int{
		"ok": int(CodeOK), "internal": int(CodeInternal), "usage": int(CodeUsage),
		"permission": int(CodePermission), "not_found": int(CodeNotFound), "invalid": int(CodeInvalid),
		"precondition": int(CodePrecondition), "storage": int(CodeStorage), "policy": int(CodePolicy),
	}
}
