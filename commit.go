package resilientwrite

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/gate"
	"github.com/resilientwrite/resilientwrite/internal/hooks"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
	"github.com/resilientwrite/resilientwrite/internal/progress"
)

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

// request is what a mutating call declares about itself.
type request struct {
	op      string // the verb
	caller  string
	session string
	key     string // idempotency key
	hash    string // of everything the caller asked for
	dryRun  bool
	tx      string
	risk    gate.Risk
	args    any // the request of the verb, for its names

	complete bool // a handoff that says that the task is done
	frees    bool // a way out of a full disk, so it may have the reserve
	long     bool // it may change more files than a call can name
}

// commit is a call that changes files: the commit of the engine and the state of
// the gate, the hooks, the retry budget and the receipts.
type commit struct {
	*engine.Commit
	gate.Check
	hooks.Run
	s *Store

	asked    *budget.Call // what the caller asked for
	session  string       // the session in the request; req has the effective one
	gateKey  string       // the effective gate
	operator bool         // no claim binds it
	fence    uint64       // of the claim without which it fails; 0: none
	account  *progress.Meter
	lent     *bytes.Buffer // the content, as long as the call runs
	kept     int64         // bytes of earlier versions that are in memory
}

// newCommit begins a call.
func (s *Store) newCommit(ctx context.Context, req request) *commit {
	c := &commit{s: s, session: req.session, operator: isOperator(ctx)}
	c.fence, _ = ctx.Value(fenceKey{}).(uint64)
	of, via := labelsOf(ctx), journal.Via{}
	known := s.via(ctx)
	if known != nil {
		via = *known
	}
	c.Commit = s.engine.NewCommit(ctx, c, engine.Request{
		Op: req.op, Key: req.key, Hash: req.hash, DryRun: req.dryRun, Tx: req.tx, Frees: req.frees, Long: req.long,
		Caller:  cmp.Or(req.caller, via.Client, of.caller, s.opts.Caller),
		Session: cmp.Or(via.Thread, req.session, via.Connection, of.session, s.opts.Session),
	})
	c.Complete, c.Via = req.complete, known
	c.Check = gate.Check{Layer: s.gate, Commit: c.Commit, Args: req.args, Default: defaultGate(ctx), Risk: req.risk}
	c.Run = hooks.Run{Hooks: s.hooks, Gate: &c.Check}
	return c
}

// request returns the request for another commit of the same call.
func (c *commit) request() request {
	r := c.Req
	return request{op: r.Op, caller: r.Caller, session: r.Session, key: r.Key, hash: r.Hash, dryRun: r.DryRun, tx: r.Tx, risk: c.Risk, args: c.Args, complete: c.Complete, frees: r.Frees}
}

// commit runs the stages. It is the only path by which bytes reach the workspace.
func (s *Store) commit(ctx context.Context, c *commit) error {
	ctx, account, end := progress.Begin(ctx)
	defer end()
	defer c.announce(ctx)()
	c.account = account
	return s.engine.Do(ctx, c.Commit)
}

// At reports the stage as progress to the caller.
func (c *commit) At(stage string) { c.account.At(stage) }

// Admit refuses a call that has used up its retry budget, before any work.
func (c *commit) Admit(ctx context.Context) error {
	c.gateKey, c.Protect = c.s.gateFor(ctx).String(), string(c.s.protectFor(ctx))
	if e := c.s.budgets.Exhausted(c.call()); e != nil && !c.Req.DryRun {
		return e
	}
	return nil
}

// Failed finishes a commit that did not succeed: it undoes what can be undone,
// reports what is on disk, and writes a row that describes the refusal.
func (c *commit) Failed(cause error) error {
	asked := c.call()
	for _, m := range c.Muts {
		m.HidePath(c.s.engine)
	}
	e := c.s.engine.ErrorOf(cause)
	if e.Code == fault.InputRequired && c.StageNow == engine.StageAuthorize {
		return c.postponed(e)
	}
	if e.Code != fault.RetryExhausted && !c.Req.DryRun && c.Rec == nil && budget.Countable(e) {
		if spent := c.s.budgets.Exhausted(asked); spent != nil {
			e = spent
		}
	}
	if e.Code == fault.TooManyFiles && c.s.engine.History != nil {
		c.s.engine.History.Trim()
	}
	e.Op = c.Req.Op
	if e.Stage == "" {
		e.Stage = c.StageNow
	}
	if e.Path == "" && len(c.Muts) == 1 && !(c.Muts[0].Private && c.Req.Tx != "") {
		e.Path = c.Muts[0].Path // that of a staged transaction is no path that a caller knows
	}
	if c.Rec != nil {
		e.Effect = c.Abort(e)
	}
	if c.Rec == nil {
		c.HideNames()
	}
	c.s.gate.HideIn(e)
	if e.Context == nil {
		e.Context = map[string]any{}
	}
	e.Context["invocation_id"] = c.Inv
	if !c.Req.DryRun && !c.s.opts.ReadOnly {
		// A caller in a loop must not fill the journal: only the attempts that
		// were evaluated have a row.
		e.Context["journaled"] = c.Rec != nil || e.Code != fault.RetryExhausted && c.RecordRefusal(e)
	}
	if e.RetryBudget = c.s.budgets.Budget(); e.Code == fault.RetryExhausted {
		e.RetryBudget = 0
	} else if !c.Req.DryRun {
		e.RetryBudget = c.s.budgets.Strike(asked, e)
	}
	return c.refuse(e)
}

// refuse returns the error of a call that failed, with its receipt.
func (c *commit) refuse(e *fault.Fault) error {
	status := StatusRefused
	if e.OfStorage() {
		status = StatusFailed
	}
	r := c.receipt(c.First(), status)
	out := errorFrom(e.With("receipt", r))
	c.s.deliver(r)
	c.Observed(r, out)
	return out
}

// call identifies the call: what was asked for, before any stage changed it. The
// session is part of it only if the request names one: an agent that reconnects
// asks for the same.
func (c *commit) call() budget.Call {
	if c.asked != nil {
		return *c.asked
	}
	out := budget.Call{Op: c.Req.Op, Hash: strings.Join([]string{c.Req.Hash, c.Req.Caller, c.session, c.Req.Key, c.gateKey}, "\x00")}
	for _, m := range c.Muts {
		out.Paths = append(out.Paths, m.Path)
	}
	c.asked = &out
	return out
}

// outcome is what a call reports besides the facts of its files. It is stored in
// the row of a call with an idempotency key, so that a repeated call reports it
// again: numbers, never content, and at most 4 KiB.
type outcome struct {
	Replacements int      `json:"replacements,omitempty"` // places that an edit replaced
	Encoding     string   `json:"encoding,omitempty"`     // of the file, where it is not UTF-8
	Undone       []uint64 `json:"undone,omitempty"`       // commits that were undone
	Version      uint64   `json:"version,omitempty"`      // that a restoration brought back

	ExpiresAt string   `json:"expires_at,omitempty"` // of a transaction that was begun
	Dropped   int      `json:"dropped,omitempty"`    // operations dropped with a transaction
	Object    string   `json:"object,omitempty"`     // SHA-256 of what left the scratchpad
	Entries   int      `json:"entries,omitempty"`    // that named it
	Freed     int64    `json:"freed,omitempty"`      // bytes of it
	Expired   int      `json:"expired,omitempty"`    // other objects that had expired
	Cleaned   []string `json:"cleaned,omitempty"`    // checkpoints that were removed, see [checkpoint.Cleanup.Briefs]
	Kept      int      `json:"kept,omitempty"`       // checkpoints that were left
	More      bool     `json:"more,omitempty"`       // one call could not remove all
}

// storedOutcome returns the outcome of the commit, or of the commit that its
// idempotency key completed. Rows of earlier versions hold none.
func (c *commit) storedOutcome() (o outcome) {
	if c.Replayed != nil {
		json.Unmarshal(c.Replayed.Reply, &o)
	} else if c.Outcome != nil {
		o, _ = c.Outcome().(outcome)
	}
	return o
}
