package resilientwrite

import (
	"cmp"
	"context"
	"encoding/json"
	"sort"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/layer/staged"
)

// txDir opens the directory of a staged transaction.
func (s *Store) txDir(id string) (fsx.Dir, error) {
	if !validTxID(id) || s.engine.Disk.State == nil {
		return nil, fault.New(fault.TxNotFound)
	}
	all, err := s.engine.Disk.State.OpenDir("tx")
	if engine.IsAbsent(err) {
		return nil, fault.New(fault.TxNotFound)
	}
	if err != nil {
		return nil, err
	}
	defer all.Close()
	dir, err := all.OpenDir(id)
	if engine.IsAbsent(err) {
		return nil, fault.New(fault.TxNotFound)
	}
	return dir, err
}

// stagedOps reads the staged operations, in order.
func (s *Store) stagedOps(id string) ([]TxOp, error) {
	dir, err := s.txDir(id)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if _, err := dir.Lstat(staged.Begin); engine.IsAbsent(err) {
		return nil, fault.New(fault.TxNotFound)
	} else if err != nil {
		return nil, err
	}
	names, err := opNames(dir)
	if err != nil {
		return nil, err
	}
	ops := make([]TxOp, len(names))
	for i, name := range names {
		data, err := durable.ReadFile(dir, name, staged.MaxOp)
		if err != nil {
			return nil, err
		}
		if name != staged.OpName(i+1) || json.Unmarshal(data, &ops[i]) != nil {
			return nil, fault.New(fault.HashDriftOnRead).With("op_index", i).Hintf("a staged operation was changed or lost on disk; roll the transaction back and begin again")
		}
	}
	return ops, nil
}

// stagedCount returns the number of staged operations.
func (s *Store) stagedCount(id string) (int, error) {
	dir, err := s.txDir(id)
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	if _, err := dir.Lstat(staged.Begin); engine.IsAbsent(err) {
		return 0, fault.New(fault.TxNotFound)
	} else if err != nil {
		return 0, err
	}
	names, err := opNames(dir)
	return len(names), err
}

func opNames(dir fsx.Dir) ([]string, error) {
	all, err := dir.Names()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, n := range all {
		if strings.HasPrefix(n, "op-") && strings.HasSuffix(n, ".json") {
			names = append(names, n)
		}
	}
	sort.Strings(names)
	return names, nil
}

// TxCommitRequest asks for a staged transaction to happen.
type TxCommitRequest struct {
	Call `omit:"idempotency_key"`

	// The transaction, from Store.TxBegin.
	TxID string `json:"tx_id" required:"true" maxlen:"200"`
	// Refuse files with invalid syntax, judged by their extension.
	Validate bool `json:"validate,omitempty"`
}

// TxCommit commits a staged transaction, with the promises of [Store.Tx]. It can
// be committed only once: a call that is repeated after a lost reply gets the
// first outcome. A refused transaction stays staged.
//
// Errors: [ErrTxNotFound] for one that was never begun, was dropped or has
// expired, and those of Tx.
func (s *Store) TxCommit(ctx context.Context, r TxCommitRequest) (TxResult, error) {
	req := r.request("tx_commit", r)
	req.key, req.tx, req.hash = "tx:"+r.TxID, r.TxID, requestHash([]string{"tx_commit", r.TxID}) // a transaction happens once
	c := s.newCommit(ctx, req)
	if e := cmp.Or(r.Call.check(ctx), checkLabels("", r.TxID, "")); e != nil {
		return TxResult{}, c.Failed(e)
	}
	if err := s.engine.Enter(); err != nil {
		return TxResult{}, c.Failed(err)
	}
	ops, err := s.stagedOps(r.TxID)
	s.engine.Leave()
	if err != nil && s.engine.ErrorOf(err).Code != fault.TxNotFound {
		return TxResult{}, c.Failed(err)
	}
	gone := err != nil
	t := &txn{c: c}
	if !gone {
		if len(ops) == 0 {
			return TxResult{}, c.Failed(fault.New(fault.InvalidArgument).With("argument", "tx_id").Hintf("the transaction is empty; add operations with Store.TxStage"))
		}
		if t, err = s.newTx(ctx, c, ops, r.Validate); err != nil {
			return TxResult{}, c.Failed(err)
		}
	}
	// Taken away with everything the transaction does. When it is gone, only
	// the idempotency key can still answer.
	begin := engine.NewObject("tx/"+safeTxID(r.TxID)+"/"+staged.Begin, "tx_commit", engine.OpDelete)
	c.Muts = append(c.Muts, begin)
	c.Also = []string{staged.Lock(r.TxID)}
	count := len(ops)
	c.Plan = func(ctx context.Context) error {
		if now, err := s.stagedCount(r.TxID); err == nil && now != count {
			return fault.New(fault.ChangedDuringWrite).Hintf("an operation was staged while the transaction was committed; commit again")
		}
		return c.distinct(ctx)
	}
	out, err := t.run(ctx)
	if err != nil {
		e := AsError("tx_commit", err)
		if gone && e.Detail == ErrNotFound {
			e.Detail = ErrTxNotFound
			e.Kind, e.Reason, e.Action, _, e.Hint = ErrTxNotFound.Describe()
		}
		return TxResult{}, e
	}
	if !r.DryRun {
		s.dropTx(r.TxID)
	}
	return out, nil
}

// TxRollbackRequest asks for a staged transaction to be dropped.
type TxRollbackRequest struct {
	Call `omit:"session,accept_risk"`

	// The transaction, from Store.TxBegin.
	TxID string `json:"tx_id" required:"true" maxlen:"200"`
}

// TxRollbackResult reports what was dropped.
type TxRollbackResult struct {
	// The transaction.
	TxID string `json:"tx_id"`
	// Number of staged operations dropped.
	Dropped int `json:"dropped"`
	// False when the transaction did not exist.
	Existed bool `json:"existed"`
	// The full record of the call.
	Receipt Receipt `json:"receipt"`
}

// TxRollback drops a staged transaction with its operations; files of the
// workspace are not changed. Dropping one that does not exist is no error, so the
// call can be repeated after a lost reply; with an idempotency key the first
// reply is returned again.
//
// Errors: [ErrInvalidArgument], [ErrIdempotencyKeyReused], [ErrLockTimeout], the
// storage details, [ErrStorePoisoned], [ErrStoreClosed], [ErrStoreReadOnly],
// [ErrCanceled]. After an error it stays staged, unless Effect reports otherwise.
func (s *Store) TxRollback(ctx context.Context, r TxRollbackRequest) (TxRollbackResult, error) {
	req := r.request("tx_rollback", r)
	req.tx = r.TxID
	c := s.newCommit(ctx, req)
	if e := cmp.Or(r.Call.check(ctx), checkLabels("", r.TxID, "")); e != nil {
		return TxRollbackResult{}, c.Failed(e)
	}
	out := TxRollbackResult{TxID: r.TxID}
	m := engine.NewObject("tx/"+safeTxID(r.TxID)+"/"+staged.Begin, "tx_rollback", engine.OpDelete)
	m.AbsentOK = true
	c.Muts, c.Also = []*engine.Mutation{m}, []string{staged.Lock(r.TxID)}
	c.Plan = func(context.Context) error { // under the lock, so that what is staged meanwhile counts
		n, err := s.stagedCount(r.TxID)
		out.Existed, out.Dropped = err == nil, n
		return nil
	}
	c.Outcome = func() any { return outcome{Dropped: out.Dropped} }
	if err := s.commit(ctx, c); err != nil {
		return TxRollbackResult{}, err
	}
	out.Receipt, _ = c.finished()
	if c.Replayed != nil { // only one that was there is dropped
		out.Existed, out.Dropped = true, c.storedOutcome().Dropped
	}
	if !r.DryRun {
		s.dropTx(r.TxID)
	}
	return out, nil
}

// dropTx removes the remains of a transaction that no longer exists. The next
// Open removes what cannot be removed now.
func (s *Store) dropTx(id string) {
	s.engine.Alone("transactions", func() error {
		dir, err := s.txDir(id)
		if err != nil {
			return err
		}
		defer dir.Close()
		if _, err := dir.Lstat(staged.Begin); !engine.IsAbsent(err) {
			return err
		}
		names, err := dir.Names()
		for _, n := range names {
			dir.Remove(n)
		}
		if all, aerr := s.engine.Disk.State.OpenDir("tx"); aerr == nil {
			all.Rmdir(id)
			all.Close()
		}
		return err
	})
}

// sweepTxs drops expired transactions, and removes the remains of those that have
// ended.
func (s *Store) sweepTxs(ctx context.Context) error {
	all, err := s.engine.Disk.State.OpenDir("tx")
	if engine.IsAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := all.Names()
	all.Close()
	if err != nil {
		return err
	}
	now := s.engine.Now().UTC().Format(engine.TimeFormat)
	for _, h := range staged.List(s.engine.Disk.State) {
		if h.ExpiresAt < now {
			if _, err := s.TxRollback(ctx, TxRollbackRequest{TxID: h.TxID, Call: Call{Caller: "expiry"}}); err != nil {
				return err
			}
		}
	}
	for _, id := range names {
		s.dropTx(id)
	}
	return nil
}
