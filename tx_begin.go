package resilientwrite

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
	"github.com/resilientwrite/resilientwrite/internal/layer/staged"
)

// A staged transaction is a directory tx/<id>/ in the state directory: the file
// begin.json, and one file for each operation. It exists exactly as long as
// begin.json does. The commit of the transaction removes begin.json together with
// its changes, so a transaction cannot be committed twice.

// TxBeginRequest asks for a transaction to be begun.
type TxBeginRequest struct {
	Call `omit:"accept_risk"`
}

// TxBeginResult names a transaction.
type TxBeginResult struct {
	// Identifier of the transaction for the following calls; empty for a dry run.
	TxID string `json:"tx_id"`
	// When it expires unless committed, RFC 3339 UTC.
	ExpiresAt string `json:"expires_at"`
	// The full record of the call.
	Receipt Receipt `json:"receipt"`
}

// TxBegin begins a transaction that is built in several calls. Staged operations
// survive a restart; a transaction that is not committed is dropped after 24
// hours. A repeated idempotency key returns the transaction that its first call
// began, even if that has ended.
//
// Errors: [ErrInvalidArgument], [ErrIdempotencyKeyReused], [ErrLockTimeout], the
// storage details, [ErrStorePoisoned], [ErrStoreClosed], [ErrStoreReadOnly],
// [ErrCanceled]. After an error there is no transaction, unless Effect reports
// otherwise.
func (s *Store) TxBegin(ctx context.Context, r TxBeginRequest) (TxBeginResult, error) {
	c := s.newCommit(ctx, r.request("tx_begin", r))
	c.Req.Hash = requestHash([]string{"tx_begin", r.Caller, r.Session})
	if e := r.Call.check(ctx); e != nil {
		return TxBeginResult{}, c.Failed(e)
	}
	id := "tx_" + c.ID
	head := staged.Head{
		TxID: id, Caller: c.Req.Caller, Session: c.Req.Session,
		CreatedAt: c.Began.UTC().Format(engine.TimeFormat), ExpiresAt: c.Began.Add(budget.MaxAge).UTC().Format(engine.TimeFormat),
	}
	data, err := json.Marshal(head)
	if err != nil {
		return TxBeginResult{}, c.Failed(err)
	}
	m := engine.NewObject("tx/"+id+"/"+staged.Begin, "tx_begin", engine.OpCreate)
	m.Hold(data)
	c.Muts, c.Req.Tx = []*engine.Mutation{m}, id
	c.Outcome = func() any { return outcome{ExpiresAt: head.ExpiresAt} }
	if err := s.commit(ctx, c); err != nil {
		return TxBeginResult{}, err
	}
	out := TxBeginResult{TxID: id, ExpiresAt: c.storedOutcome().ExpiresAt}
	out.Receipt, _ = c.finished()
	switch {
	case c.Replayed != nil:
		out.TxID, out.Receipt.Path = c.Replayed.Tx, c.Replayed.Muts[0].Path
	case r.DryRun:
		out.TxID = "" // nothing was staged
	}
	return out, nil
}

// TxStageRequest asks for an operation to be added to a transaction.
type TxStageRequest struct {
	Call `omit:"session"`

	// The transaction, from Store.TxBegin.
	TxID string `json:"tx_id" required:"true" maxlen:"200"`
	// The operation, as in Store.Tx.
	Op TxOp `json:"op" required:"true"`
}

// TxStageResult reports what is staged.
type TxStageResult struct {
	// The transaction.
	TxID string `json:"tx_id"`
	// Number of the operation, from 1.
	Index int `json:"index"`
	// The full record of the call.
	Receipt Receipt `json:"receipt"`
}

// TxStage adds an operation to a transaction. When it returns nil at [SyncFull],
// the operation is on stable storage. It is checked now as far as possible
// without the files, which are read when the transaction is committed. The gate
// judges the staged content, and later the whole files.
//
// Errors: [ErrTxNotFound], those of [Store.Tx] for the arguments, [ErrTooLarge]
// for more than 500 operations, [ErrRiskBlocked] (the draft is kept),
// [ErrIdempotencyKeyReused], [ErrLockTimeout], the storage details,
// [ErrStorePoisoned], [ErrStoreClosed], [ErrStoreReadOnly], [ErrCanceled]. After
// an error the operation is not in the transaction, unless Effect reports
// otherwise.
func (s *Store) TxStage(ctx context.Context, r TxStageRequest) (TxStageResult, error) {
	req := r.request("tx_stage", r)
	req.tx = r.TxID
	c := s.newCommit(ctx, req)
	if e := cmp.Or(r.Call.check(ctx), checkLabels("", r.TxID, "")); e != nil {
		return TxStageResult{}, c.Failed(e)
	}
	if _, err := s.newTx(ctx, s.newCommit(ctx, c.request()), []TxOp{r.Op}, false); err != nil {
		return TxStageResult{}, c.Failed(err)
	}
	data, err := json.Marshal(r.Op)
	if err != nil {
		return TxStageResult{}, c.Failed(err)
	}
	m := engine.NewObject("tx/"+safeTxID(r.TxID)+"/"+staged.OpName(1), "tx_stage", engine.OpCreate)
	m.Hold(data)
	c.Muts, c.Also = []*engine.Mutation{m}, []string{staged.Lock(r.TxID)}
	index := 0
	c.Plan = func(context.Context) error {
		if s.keyKnown(c.Req.Key) { // the key answers
			return nil
		}
		n, err := s.stagedCount(r.TxID)
		if err != nil {
			return err
		}
		if index = n + 1; index > maxStagedOps {
			return fault.New(fault.TooLarge).With("max_ops", maxStagedOps).Hintf("a transaction has at most %d operations; commit this one", maxStagedOps)
		}
		m.Object = "tx/" + r.TxID + "/" + staged.OpName(index)
		m.Path = engine.StateDirName + "/" + m.Object
		return nil
	}
	if err := s.commit(ctx, c); err != nil {
		return TxStageResult{}, err
	}
	rec, _ := c.finished()
	if c.Replayed != nil {
		fmt.Sscanf(c.Replayed.Muts[0].Object[strings.LastIndexByte(c.Replayed.Muts[0].Object, '/')+1:], "op-%d.json", &index)
	}
	return TxStageResult{TxID: r.TxID, Index: index, Receipt: rec}, nil
}

// safeTxID returns an id that can be part of a path.
func safeTxID(id string) string {
	if !validTxID(id) {
		return "tx_none"
	}
	return id
}

func validTxID(id string) bool {
	rest, ok := strings.CutPrefix(id, "tx_")
	return ok && len(rest) > 0 && len(rest) <= 80 && strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
