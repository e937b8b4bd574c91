package resilientwrite

import (
	"cmp"
	"context"

	"github.com/resilientwrite/resilientwrite/internal/admin"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/progress"
)

// Admin has the calls of an operator. They are not tools, and do not go through
// commit: they change segments, kept versions and caches, which a commit relies
// on. Only one of them runs at a time across all processes, concurrently with
// writers.
type Admin struct{ s *Store }

// Admin returns the calls of an operator.
func (s *Store) Admin() Admin { return Admin{s} }

// The steps of calls of the operator.
const (
	StepSweep  Stage = "sweep"  // what has expired is removed
	StepErase  Stage = "erase"  // the state directory is searched and written over
	StepRepair Stage = "repair" // what is damaged is set aside or made again
	StepExport Stage = "export" // rows are written out
	StepImport Stage = "import" // rows are taken over
)

// upkeep is one call of the operator in progress.
type upkeep struct {
	admin.Call
	s   *Store
	c   *commit // who calls, and the receipt
	end []func()
}

// upkeepCall describes the call.
type upkeepCall struct {
	op, caller, session string
	dryRun              bool
	reads               bool // it changes nothing, so a read-only store will do
}

// beginUpkeep starts a call and excludes others of its kind.
func (s *Store) beginUpkeep(ctx context.Context, call upkeepCall) (*upkeep, context.Context, error) {
	u := &upkeep{s: s}
	u.c = s.newCommit(ctx, request{op: call.op, caller: call.caller, session: call.session, dryRun: call.dryRun})
	enter := s.engine.Enter
	if call.reads {
		enter = s.engine.EnterReader
	}
	if e := checkLabels(call.caller, call.session, ""); e != nil {
		return nil, ctx, u.failed(e)
	}
	if err := u.c.CheckNames(); err != nil {
		return nil, ctx, u.failed(err)
	}
	if err := enter(); err != nil {
		return nil, ctx, u.failed(err)
	}
	u.end = append(u.end, s.engine.Leave)
	if err := ctx.Err(); err != nil {
		return nil, ctx, u.failed(fault.New(fault.Canceled).Because(err))
	}
	if s.engine.Locks != nil {
		unlock, err := s.engine.Locks.Names(ctx, s.opts.LockTimeout, call.op, "upkeep")
		if err != nil {
			return nil, ctx, u.failed(err)
		}
		u.end = append(u.end, unlock)
	}
	ctx, account, end := progress.Begin(ctx)
	u.end = append(u.end, end)
	u.Call = admin.Call{Store: s.admin(), DryRun: call.dryRun, Meter: account, Via: u.c.Via, Invocation: u.c.Inv, Effect: fault.EffectNone}
	u.Commit = func(ctx context.Context, what string, prepare func(*engine.Commit)) error {
		c := s.newCommit(ctx, request{op: call.op, caller: u.Caller, session: u.Session, hash: what})
		prepare(c.Commit)
		return s.commit(ctx, c)
	}
	u.calls(u.c.Req.Caller, u.c.Req.Session)
	return u, ctx, nil
}

func (u *upkeep) close() {
	for i := len(u.end) - 1; i >= 0; i-- {
		u.end[i]()
	}
	u.end = nil
}

// failed ends the call with an error.
func (u *upkeep) failed(err error) *Error {
	u.DropTemps()
	u.close()
	e := u.s.engine.ErrorOf(err)
	u.c.HideNames()
	u.s.gate.HideIn(e)
	e.Op = u.c.Req.Op
	if u.Effect != "" && u.Effect != fault.EffectNone {
		e.Effect = u.Effect
	}
	e.RetryBudget = u.s.budgets.Budget()
	status := StatusRefused
	if e.OfStorage() {
		status = StatusFailed
	}
	r := u.c.receipt(u.c.First(), status)
	e.With("invocation_id", u.c.Inv).With("receipt", r)
	u.s.deliver(r)
	out := errorFrom(e)
	u.c.observe(r, out)
	return out
}

// done ends the call.
func (u *upkeep) done(status Status, warnings []Warning) Receipt {
	u.close()
	r := u.c.receipt(u.c.First(), status)
	r.Warnings = append(r.Warnings, warnings...)
	if u.Seq > 0 && status == StatusSucceeded {
		r.JournalSeq, r.JournalID = u.Seq, engine.JournalID(u.Seq, 0)
	}
	u.c.deliver(r)
	return r
}

// calls records the caller and the session.
func (u *upkeep) calls(caller, session string) {
	u.c.Req.Caller, u.c.Req.Session = cmp.Or(caller, u.c.Req.Caller), cmp.Or(session, u.c.Req.Session)
	u.Caller, u.Session = u.c.Req.Caller, u.c.Req.Session
}

// admin returns the store as the operator's verbs use it.
func (s *Store) admin() *admin.Store {
	return &admin.Store{
		Engine: s.engine, Scratch: s.scratch, Chunks: s.chunks, Checkpoints: s.checkpoints, Handoffs: s.handoffs, Drafts: s.drafts,
		LockTimeout: s.opts.LockTimeout, SafeText: s.safeText, DropStaged: s.sweepTxs, Budgets: s.budgets,
		CleanCheckpoints: func(ctx context.Context, caller, session string, dryRun bool) (int, bool, error) {
			others := false
			r, err := s.CheckpointCleanup(ctx, CheckpointCleanupRequest{IncludeSession: &others, Call: Call{DryRun: dryRun, Caller: caller, Session: session}})
			return len(r.Removed), r.More, err
		},
	}
}

func changedOr(changed bool) Status {
	if changed {
		return StatusSucceeded
	}
	return StatusUnchanged
}
