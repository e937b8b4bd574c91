package resilientwrite

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/progress"
	"github.com/resilientwrite/resilientwrite/internal/ship"
	"github.com/resilientwrite/resilientwrite/internal/upkeep"
)

// Admin returns the calls of an operator.
func (s *Store) Admin() admin.Operator { return operator{s.upkeep(), s} }

// operator is the calls of the operator: those of package upkeep, and those for a
// hub (docs/hub.md).
type operator struct {
	*upkeep.Store
	s *Store
}

// Check compares everything the store keeps with everything else: the chain
// and the order of the journal, the head that meta.json remembers, the entries
// of staging/, the kept versions, and – when deep – the bytes of every kept
// version and of every file as the journal last wrote it. It changes nothing.
//
// A file that differs from its newest row is no problem of the store: people
// edit files. Deep reports it as file_differs. Errors: the common ones.
func (s *Store) Check(ctx context.Context, r admin.CheckRequest) (admin.CheckResult, error) {
	return looking(ctx, s, "check", func() (admin.CheckResult, error) {
		_, account, end := progress.Begin(ctx)
		defer end()
		return s.upkeep().Check(ctx, r.Deep, account)
	})
}

// upkeepCall is a call of the operator, as its rows and its receipt describe it.
type upkeepCall struct{ c *commit }

// Asked is never committed.
func (u upkeepCall) Asked() *engine.Commit { return u.c.Commit }

// CheckLabels validates who calls.
func (u upkeepCall) CheckLabels(caller, session string) error {
	if e := checkLabels(caller, session, ""); e != nil {
		return e
	}
	return u.c.CheckNames()
}

// Commit makes a commit that prepare completes.
func (u upkeepCall) Commit(ctx context.Context, what string, prepare func(*engine.Commit)) error {
	by := u.c.Req
	c := u.c.s.newCommit(ctx, request{op: by.Op, caller: by.Caller, session: by.Session, hash: what})
	prepare(c.Commit)
	return u.c.s.commit(ctx, c)
}

// Failed returns the error of the call.
func (u upkeepCall) Failed(err error, effect fault.Effect) error {
	e := u.c.s.engine.ErrorOf(err)
	u.c.HideNames()
	u.c.s.gate.HideIn(e)
	e.Op = u.c.Req.Op
	if effect != fault.EffectNone {
		e.Effect = effect
	}
	e.RetryBudget = u.c.s.budgets.Budget()
	return u.c.refuse(e.With("invocation_id", u.c.Inv))
}

// Done returns the receipt of the call, whose newest row is seq.
func (u upkeepCall) Done(changed bool, seq uint64, warnings ...string) Receipt {
	status := StatusUnchanged
	if changed {
		status = StatusSucceeded
	}
	r := u.c.receipt(u.c.First(), status)
	r.Warnings = append(r.Warnings, warningsOf(warnings)...)
	if changed && seq > 0 {
		r.JournalSeq, r.JournalID = seq, engine.JournalID(seq, 0)
	}
	u.c.deliver(r)
	return r
}

// upkeep returns the store as the operator's verbs use it.
func (s *Store) upkeep() *upkeep.Store {
	return &upkeep.Store{
		Engine: s.engine, Scratch: s.scratch, Chunks: s.chunks, Checkpoints: s.checkpoints, Handoffs: s.handoffs, Drafts: s.drafts,
		LockTimeout: s.opts.LockTimeout, SafeText: s.gate.SafeText, DropStaged: s.sweepTxs, Budgets: s.budgets,
		CleanCheckpoints: func(ctx context.Context, caller, session string, dryRun bool) (int, bool, error) {
			others := false
			r, err := s.CheckpointCleanup(ctx, CheckpointCleanupRequest{IncludeSession: &others, Call: Call{DryRun: dryRun, Caller: caller, Session: session}})
			return len(r.Removed), r.More, err
		},
		Host: func(ctx context.Context, op string, r Call) upkeep.Host {
			return upkeepCall{s.newCommit(ctx, request{op: op, caller: r.Caller, session: r.Session, dryRun: r.DryRun})}
		},
	}
}

// What a hub (docs/hub.md) needs of a store besides an export:
// the position of its shipper, the bytes of versions and snapshots, and one
// commit that makes the workspace equal to another one.

// ShipState is [admin.Operator.ShipState].
func (a operator) ShipState() ([]byte, error) {
	return looking(context.Background(), a.s, "ship_state", func() ([]byte, error) { return ship.State(a.s.engine) })
}

// SetShipState is [admin.Operator.SetShipState].
func (a operator) SetShipState(data []byte) error {
	_, err := changing(context.Background(), a.s, "set_ship_state", func() (state admin.HubFacts, err error) {
		if len(data) > ship.MaxState || json.Unmarshal(data, &state) != nil {
			return state, fault.New(fault.InvalidArgument).With("argument", "data").Hintf("give a JSON object of at most %d bytes", ship.MaxState)
		}
		return state, ship.SetState(a.s.engine, data)
	})
	return err
}

// HoldShipping is [admin.Operator.HoldShipping].
func (a operator) HoldShipping(ctx context.Context) (release func(), err error) {
	return changing(ctx, a.s, "hold_shipping", func() (func(), error) {
		return a.s.engine.Locks.Names(ctx, a.s.opts.LockTimeout, "ship", "ship")
	})
}

// Content is [admin.Operator.Content].
func (a operator) Content(ctx context.Context, r admin.ContentRequest) ([]byte, error) {
	return looking(ctx, a.s, "content", func() ([]byte, error) {
		data, err := ship.Bytes{Path: r.Path, SHA256: r.SHA256.String(), Size: r.Bytes, Seq: r.Seq, Git: r.Git}.Read(ctx, a.s.versions, a.s.observed)
		if err == nil {
			return data, nil
		}
		e := a.s.engine.ErrorOf(err)
		e.Path = cmp.Or(e.Path, r.Path)
		return nil, e
	})
}

// SnapshotTree is [admin.Operator.SnapshotTree].
func (a operator) SnapshotTree(ctx context.Context, id string) (admin.Tree, error) {
	return looking(ctx, a.s, "snapshot_tree", func() (admin.Tree, error) {
		_, x, err := a.s.observed.Load(id)
		if err != nil {
			return admin.Tree{}, err
		}
		return ship.Tree(x), nil
	})
}

// Materialize is [admin.Operator.Materialize].
func (a operator) Materialize(ctx context.Context, r admin.MaterializeRequest) (admin.MaterializeResult, error) {
	s := a.s
	// Each call is one of its own: what fails in it is most often not the request.
	c := s.newCommit(ctx, request{op: "materialize", caller: r.Caller, session: r.Session, hash: s.engine.NewCommitID(), long: true})
	c.check(checkLabels(r.Caller, r.Session, ""))
	out := admin.MaterializeResult{}
	err := s.commitPrepared(ctx, c, func(ctx context.Context) error {
		now, err := s.scanAll(ctx, "")
		if err == nil {
			out, err = ship.Into(c.Commit, s.changes(), now, r, c.taking(ctx))
		}
		if err == nil && len(c.Muts)+len(c.Dirs) == 0 {
			err = errNothing
		}
		return err
	})
	if err == errNothing {
		return out, nil
	}
	if err != nil {
		return admin.MaterializeResult{}, err
	}
	out.Seq, out.Warnings = c.finished().JournalSeq, allWarnings(c.Muts)
	return out, nil
}
