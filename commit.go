package resilientwrite

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/adapter"
	"github.com/resilientwrite/resilientwrite/internal/changes"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/gate"
	"github.com/resilientwrite/resilientwrite/internal/hooks"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
	"github.com/resilientwrite/resilientwrite/internal/progress"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/scan"
	"github.com/resilientwrite/resilientwrite/internal/syntax"
)

// commit is a call that changes files: the commit of the engine and the state of
// the gate, the hooks, the retry budget and the receipts.
type commit struct {
	*engine.Commit
	gate.Check
	hooks.Run
	s *Store

	bad      *fault.Fault // what is wrong with the request
	asked    *budget.Call // what the caller asked for
	session  string       // the session in the request; req has the effective one
	gateKey  string       // the effective gate
	operator bool         // no claim binds it
	fence    uint64       // of the claim without which it fails; 0: none
	account  *progress.Meter
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
	if req.of != nil {
		c.bad = checkCall(ctx, *req.of)
	}
	return c
}

// request returns the request for another commit of the same call.
func (c *commit) request() request {
	r := c.Req
	return request{op: r.Op, caller: r.Caller, session: r.Session, key: r.Key, hash: r.Hash, dryRun: r.DryRun, tx: r.Tx, risk: c.Risk, args: c.Args, complete: c.Complete, frees: r.Frees}
}

// check records what is wrong with the request. The commit then fails with the
// first such error, before any stage.
func (c *commit) check(e *fault.Fault) { c.bad = cmp.Or(c.bad, e) }

// errNothing ends a call that would change nothing.
var errNothing = errors.New("nothing to change")

// commitPrepared is commit for a call that reads what it writes first. If prepare
// returns errNothing, so does commitPrepared, and nothing else happens.
func (s *Store) commitPrepared(ctx context.Context, c *commit, prepare func(context.Context) error) error {
	ctx, _, end := progress.Begin(ctx)
	defer end()
	if c.bad == nil {
		if err := s.prepare(ctx, prepare); err != nil {
			c.Release()
			if err == errNothing {
				return err
			}
			return c.Failed(err)
		}
	}
	return s.commit(ctx, c)
}

func (s *Store) prepare(ctx context.Context, f func(context.Context) error) error {
	if err := s.engine.Enter(); err != nil {
		return err
	}
	defer s.engine.Leave()
	return f(ctx)
}

// commit runs the stages. It is the only path by which bytes reach the workspace.
func (s *Store) commit(ctx context.Context, c *commit) error {
	if c.bad != nil {
		defer c.Release()
		return c.Failed(c.bad)
	}
	ctx, account, end := progress.Begin(ctx)
	defer end()
	if !adapter.IsReported(ctx) {
		paths := c.paths() // as they are now
		defer s.gate.Announce(c.Req.Op, c.Req.Caller, func() []string { return paths })()
	}
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

// gateFor returns the setting that applies to a call.
func (s *Store) gateFor(ctx context.Context) Gate {
	g := s.gate.For(defaultGate(ctx))
	return Gate{GateMode(g.Mode), Verdict(g.RejectAt), Overrides(g.Overrides)}
}

// protectFor returns the mode of the protected defaults that applies to a call:
// that of the host, or a weaker one if the policy sets it.
func (s *Store) protectFor(ctx context.Context) ProtectMode {
	of, _ := ctx.Value(protectKey{}).(ProtectMode)
	return ProtectMode(s.gate.ProtectFor(string(cmp.Or(s.opts.ProtectDefaults, of))))
}

// Located refuses files that the gate protects or that another session has
// claimed.
func (c *commit) Located() error {
	if err := c.Check.Located(); err != nil {
		return err
	}
	return c.unclaimed()
}

// unclaimed refuses a commit that claims do not allow.
func (c *commit) unclaimed() error {
	if c.operator {
		return nil
	}
	return c.s.leases.Check(c.Commit, c.fence)
}

// Classify runs the content gate on the final bytes, and gives what it found the
// types of this package.
func (c *commit) Classify(ctx context.Context) error {
	err := c.Check.Classify(ctx)
	if e, ok := err.(*fault.Fault); ok {
		setType(e, "verdict", func(v string) any { return Verdict(v) })
		setType(e, "classify_reject_at", func(v string) any { return Verdict(v) })
		setType(e, "draft_problem", func(c fault.Code) any { return Detail(c) })
		setType(e, "detected", func(f []scan.Finding) any { return riskFindings(f) })
		setType(e, "errors", func(p []syntax.Problem) any { return syntaxProblems(p) })
	}
	return err
}

// setType gives a fact of an error its type in this package.
func setType[T any](e *fault.Fault, key string, as func(T) any) {
	if v, ok := e.Context[key].(T); ok {
		e.Context[key] = as(v)
	}
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
	e.Stage = cmp.Or(e.Stage, c.StageNow)
	if e.Path == "" && len(c.Muts) == 1 && !(c.Muts[0].Private && strings.HasPrefix(c.Req.Op, "tx_")) {
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

// postponed ends a commit that waits for an answer of the user. Nothing has
// changed and no observer is called: the same call is repeated after the user has
// answered.
func (c *commit) postponed(e *fault.Fault) error {
	e.Op, e.Stage = c.Req.Op, c.StageNow
	if e.Path == "" && len(c.Muts) == 1 {
		e.Path = c.Muts[0].Path
	}
	e.RetryBudget = c.s.budgets.Strike(c.call(), e) // counts nothing
	c.Run.Withdraw()
	return errorFrom(e)
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
	out.Paths = c.paths()
	c.asked = &out
	return out
}

// paths returns the paths that the call asks for.
func (c *commit) paths() []string {
	return convert(c.Muts, func(m *engine.Mutation) string { return m.Path })
}

// taking returns the function by which the commit takes the content of earlier
// versions.
func (c *commit) taking(ctx context.Context) changes.Take {
	return func(m *engine.Mutation, src io.Reader, mode uint32) (string, error) {
		return c.TakeKept(ctx, m, src, mode)
	}
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

func init() {
	adapter.CountRefusal = func(store any, verb string, args []byte, refusal error) error {
		return errorFrom(store.(*Store).budgets.Refused(verb, args, refusal.(*Error).fault()))
	}
}

// scanned validates the arguments that the scanning verbs share.
func (s *Store) scanned(ctx context.Context, content []byte, target string) (path string, err error) {
	if e := s.takes(ctx, content); e != nil {
		return "", e
	}
	if target != "" {
		path, _, err = relpath.Clean(target, s.engine.Tree.Rules)
	}
	return path, err
}

// takes refuses content that was truncated or is too large.
func (s *Store) takes(ctx context.Context, content []byte) *fault.Fault {
	switch {
	case adapter.IsMalformed(ctx, "content"):
		return fault.New(fault.BadBase64)
	case int64(len(content)) > s.opts.MaxContentBytes:
		return fault.New(fault.TooLarge).With("bytes", len(content)).With("max_bytes", s.opts.MaxContentBytes)
	}
	return nil
}
