package resilientwrite

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/adapter"
	"github.com/resilientwrite/resilientwrite/internal/edit"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
	"github.com/resilientwrite/resilientwrite/internal/layer/staged"
	"github.com/resilientwrite/resilientwrite/internal/move"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// maxTxOps is how many operations one call of Tx accepts.
const maxTxOps = 256

// TxOp is one operation of a transaction. Content is the bytes themselves; only in JSON
// may they be base64.
type TxOp struct {
	Op string `json:"op" required:"true" enum:"write,edit,delete,move"` // What to do.
	// Path of the file, relative to the workspace.
	Path string `json:"path" required:"true"`
	// write, required: the text, or base64 when encoding is base64.
	Content []byte `json:"content,omitempty" requiredif:"op=write"`
	// write: how content is encoded, utf-8 or base64. edit: the encoding of a
	// file that is not UTF-8, where it cannot be found.
	Encoding string `json:"encoding,omitempty" enum:"utf-8,base64,@charsets" default:"utf-8"`
	// write: what to do with an existing file.
	Mode WriteMode `json:"mode,omitempty" enum:"create,overwrite,append" default:"create"`
	// edit, required: replacements, made in order.
	Edits []EditOp `json:"edits,omitempty" requiredif:"op=edit"`
	To    string   `json:"to,omitempty" requiredif:"op=move"` // move, required: the new path.
	// move: an existing file at the new path may be replaced.
	Overwrite bool `json:"overwrite,omitempty"`
	// SHA-256 the file must have before the transaction; the empty string means
	// that it must not exist.
	Expect Expect `json:"expected_prev_sha256,omitzero"`
	// Allow a file of 1 KiB or more to shrink to less than a fifth of its size.
	AllowShrink bool `json:"allow_shrink,omitempty"`
	Force       bool `json:"force,omitempty"` // Allow a read-only file to be changed.
}

// plainOp is a TxOp without methods.
type plainOp TxOp

// wireOp is a TxOp as JSON: content that is not UTF-8 is base64, and encoding
// records that.
type wireOp struct {
	plainOp
	Content  string `json:"content,omitempty"`
	Encoding string `json:"encoding,omitempty"`
}

// MarshalJSON writes the operation in the form that the tools accept.
func (op TxOp) MarshalJSON() ([]byte, error) {
	out := wireOp{plainOp(op), string(op.Content), op.Encoding}
	if !utf8.Valid(op.Content) || bytes.ContainsFunc(op.Content, func(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' }) {
		out.Content, out.Encoding = base64.StdEncoding.EncodeToString(op.Content), "base64"
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (op *TxOp) UnmarshalJSON(data []byte) error {
	var in wireOp
	err := json.Unmarshal(data, &in)
	if err != nil {
		return err
	}
	*op = TxOp(in.plainOp)
	op.Content, op.Encoding = []byte(in.Content), in.Encoding
	if in.Encoding == "base64" {
		op.Encoding = ""
		op.Content, err = base64.StdEncoding.DecodeString(in.Content)
	}
	return err
}

// TxRequest asks for several operations to happen together or not at all.
type TxRequest struct {
	Call

	// The operations, at most 256. Several on one file are applied in order and
	// have one net effect.
	Ops []TxOp `json:"ops" required:"true"`
	// true makes the content gate refuse secrets, false turns it off where the
	// policy allows. Default: the policy decides.
	Classify *bool `json:"classify,omitempty"`
	// Refuse content from this verdict on, where that is stricter than the
	// policy.
	ClassifyRejectAt Verdict `json:"classify_reject_at,omitempty" enum:"low,medium,high"`
	// Refuse files with invalid syntax, judged by their extension.
	Validate bool `json:"validate,omitempty"`
}

// TxResult is what a transaction did.
type TxResult struct {
	// The full record of the call, with the facts of the first file.
	Receipt `json:"receipt" copies:"wrote_at,status"`
	TxID    string `json:"tx_id"` // Identifier of the transaction in the journal.
	Seq     uint64 `json:"seq"`   // Its journal row; 0 when nothing was written.
	// One result per operation, in order. Several on one file report its final
	// state.
	Results []call.FileResult `json:"results"`
	// Unified diff, truncated when long; dry run only.
	Diff string `json:"diff,omitempty"`
	// What the caller should know although the call succeeded, for all files.
	Warnings []Warning `json:"warnings"`
}

// Tx makes several writes, edits, deletions and moves as one commit: a single
// journal row commits all of them. After a crash either all of them have happened
// or none. All paths are locked, in sorted order, and all preconditions are
// checked, before anything is staged.
//
// Errors: those of the single verbs, with context.op_index naming the
// operation; [ErrInvalidArgument] for no operation or more than 256 of them,
// and for a move together with another operation on the same file.
func (s *Store) Tx(ctx context.Context, r TxRequest) (TxResult, error) {
	c := s.newCommit(ctx, requestOf(r.Call, "tx", r))
	c.Risk.Classify, c.Risk.RejectAt = r.Classify, string(r.ClassifyRejectAt)
	c.Req.Tx = "tx_" + c.ID
	c.check(c.Risk.Check())
	if len(r.Ops) == 0 || len(r.Ops) > maxTxOps {
		c.check(fault.New(fault.InvalidArgument).With("argument", "ops").With("max_ops", maxTxOps).
			Hintf("a transaction has 1 to %d operations; make several for more", maxTxOps))
	}
	p := s.planTx(ctx, c, r.Ops, r.Validate)
	return s.runTx(ctx, c, p, r.Ops)
}

// planTx turns operations into mutations of a commit, which fails if one is wrong.
func (s *Store) planTx(ctx context.Context, c *commit, ops []TxOp, validate bool) *staged.Plan {
	p := staged.NewPlan(s.engine, c.Commit)
	for i := 0; i < len(ops) && c.bad == nil; i++ {
		do, err := ops[i].plain(ctx, i)
		do.Validate = validate
		if err := p.Add(do, err); err != nil {
			c.check(s.engine.ErrorOf(err))
		}
	}
	return p
}

// plain returns an operation as a plan takes it.
func (op TxOp) plain(ctx context.Context, i int) (staged.Op, error) {
	do := staged.Op{
		Do: engine.WriteOp(op.Op), Path: op.Path, To: op.To, Content: op.Content, Expected: op.Expect.Hash(),
		Overwrite: op.Overwrite, AllowShrink: op.AllowShrink, Force: op.Force,
	}
	if e := cmp.Or(badDigest(ctx, fmt.Sprintf("ops[%d].", i)), badDigest(ctx, "op.")); e != nil {
		return do, e
	}
	if op.Op != "move" && (adapter.IsMalformed(ctx, fmt.Sprintf("ops[%d].content", i)) || adapter.IsMalformed(ctx, "op.content")) {
		return do, fault.New(fault.BadBase64)
	}
	switch op.Op {
	case "write":
		do.Do = engine.WriteOp(cmp.Or(op.Mode, ModeCreate))
		switch {
		case op.Encoding == "base64": // of JSON, whose decoder has read it
			return do, fault.New(fault.InvalidArgument).With("argument", "encoding").Hintf("content is the bytes themselves; leave encoding empty")
		case op.Encoding != "" && op.Encoding != "utf-8":
			return do, fault.BadChoice("encoding", "utf-8", "base64")
		case do.Do != engine.OpCreate && do.Do != engine.OpOverwrite && do.Do != engine.OpAppend:
			return do, fault.BadChoice("mode", "create", "overwrite", "append")
		}
	case "edit":
		do.Revise = revision(op.Edits, op.Encoding, new(edit.Result))
	case "delete", "move":
	default:
		return do, fault.BadChoice("op", "write", "edit", "delete", "move")
	}
	for _, of := range []struct {
		op, member string
		given      bool
	}{{"write", "content", len(op.Content) > 0}, {"edit", "edits", len(op.Edits) > 0}, {"move", "to", op.To != ""}} {
		if of.given && op.Op != of.op {
			return do, fault.New(fault.InvalidArgument).With("argument", of.member).Hintf("%s belongs to the op %s, not to %s; leave it out, or add an operation", of.member, of.op, op.Op)
		}
	}
	return do, nil
}

// runTx commits a transaction and makes the reply.
func (s *Store) runTx(ctx context.Context, c *commit, p *staged.Plan, ops []TxOp) (TxResult, error) {
	if err := s.commit(ctx, c); err != nil {
		return TxResult{}, err
	}
	rec := c.finished()
	out := TxResult{
		Receipt: rec, TxID: c.Req.Tx, Seq: rec.JournalSeq, Results: []call.FileResult{}, Diff: c.Diff, Warnings: allWarnings(c.Muts),
	}
	if c.Replayed != nil {
		if out.TxID = c.Replayed.Tx; len(ops) == 0 { // what was asked for is gone; what was done is known
			out.Results = engine.ChangedBy(c.Replayed)
		}
	}
	for i, op := range ops {
		m := p.Of[i]
		at := slices.Index(c.Muts, m)
		row := journal.Mutation{SHA256: m.SHA, PrevSHA256: m.Prev.SHA, Bytes: m.Size}
		if c.Replayed != nil && at < len(c.Replayed.Muts) {
			row = c.Replayed.Muts[max(at, 0)]
		}
		res := call.FileResult{Op: op.Op, Path: m.Path, SHA256: digest(row.SHA256), PrevSHA256: digest(row.PrevSHA256), Bytes: row.Bytes}
		if rec.JournalSeq > 0 {
			res.JournalID = engine.JournalID(rec.JournalSeq, max(at, 0))
		}
		out.Results = append(out.Results, res)
	}
	return out, nil
}

func (s *Store) staged() staged.Layer { return staged.Layer{Engine: s.engine} }

// TxBeginRequest asks for a transaction to be begun.
type TxBeginRequest struct {
	Call `omit:"accept_risk"`
}

// TxBeginResult names a transaction.
type TxBeginResult struct {
	Receipt `json:"receipt"`
	// Identifier of the transaction for the following calls; empty for a dry run.
	TxID      string    `json:"tx_id"`
	ExpiresAt time.Time `json:"expires_at"` // When it expires unless committed, RFC 3339 UTC.
}

// TxBegin begins a transaction that is built in several calls. Staged operations
// survive a restart; a transaction that is not committed is dropped after 24
// hours. A repeated idempotency key returns the transaction that its first call
// began, even if that has ended.
//
// Errors: those of every write.
func (s *Store) TxBegin(ctx context.Context, r TxBeginRequest) (TxBeginResult, error) {
	c := s.newCommit(ctx, requestOf(r.Call, "tx_begin", r))
	c.Req.Hash = budget.RequestHash([]string{"tx_begin", r.Caller, r.Session})
	id := "tx_" + c.ID
	head := staged.Head{
		TxID: id, Caller: c.Req.Caller, Session: c.Req.Session,
		CreatedAt: stamp.Text(c.Began), ExpiresAt: stamp.Text(c.Began.Add(budget.MaxAge)),
	}
	data, err := json.Marshal(head)
	if err != nil {
		return TxBeginResult{}, c.Failed(err)
	}
	m := engine.NewObject(staged.Object(id, 0), "tx_begin", engine.OpCreate)
	m.Hold(data)
	c.Muts, c.Req.Tx, c.ExtraLocks = []*engine.Mutation{m}, id, []string{staged.Lock(id)}
	c.Outcome = func() any { return outcome{ExpiresAt: head.ExpiresAt} }
	if err := s.commit(ctx, c); err != nil {
		return TxBeginResult{}, err
	}
	out := TxBeginResult{Receipt: c.finished(), TxID: id, ExpiresAt: stamp.Parse(c.storedOutcome().ExpiresAt)}
	switch {
	case c.Replayed != nil:
		out.TxID, out.Path = c.Replayed.Tx, c.Replayed.Muts[0].Path
	case r.DryRun:
		out.TxID = "" // nothing was staged
	}
	return out, nil
}

// TxStageRequest asks for an operation to be added to a transaction.
type TxStageRequest struct {
	Call `omit:"session"`

	TxID string `json:"tx_id" required:"true" maxlen:"200"` // The transaction, from Store.TxBegin.
	Op   TxOp   `json:"op" required:"true"`                 // The operation, as in Store.Tx.
}

// TxStageResult reports what is staged.
type TxStageResult struct {
	Receipt `json:"receipt"`
	TxID    string `json:"tx_id"` // The transaction.
	Index   int    `json:"index"` // Number of the operation, from 1.
}

// TxStage adds an operation to a transaction. It is checked now as far as
// possible without the files, which are read when the transaction is committed.
// The gate judges the staged content, and later the whole files.
//
// Errors: those of every write, [ErrTxNotFound], those of [Store.Tx] for the
// arguments, [ErrTooLarge] for more than 500 operations, [ErrRiskBlocked] (the
// draft is kept).
func (s *Store) TxStage(ctx context.Context, r TxStageRequest) (TxStageResult, error) {
	c := s.newTxCommit(ctx, requestOf(r.Call, "tx_stage", r), r.TxID)
	try := s.newCommit(ctx, c.request())
	s.planTx(ctx, try, []TxOp{r.Op}, false)
	c.check(try.bad)
	data, err := json.Marshal(r.Op)
	if err != nil {
		return TxStageResult{}, c.Failed(err)
	}
	m := engine.NewObject(staged.Object(r.TxID, 1), "tx_stage", engine.OpCreate)
	m.Hold(data)
	c.Muts = []*engine.Mutation{m}
	c.Plan = func(context.Context) error {
		if s.keyKnown(c.Req.Key) { // the key answers
			return nil
		}
		n, err := s.staged().Count(r.TxID)
		if err == nil && n == staged.MaxOps {
			err = fault.New(fault.TooLarge).With("max_ops", n).Hintf("a transaction has at most %d operations; commit this one", n)
		}
		m.SetObject(staged.Object(r.TxID, n+1))
		return err
	}
	if err := s.commit(ctx, c); err != nil {
		return TxStageResult{}, err
	}
	rec := c.finished()
	if c.Replayed != nil {
		m.SetObject(c.Replayed.Muts[0].Object)
	}
	return TxStageResult{TxID: r.TxID, Index: staged.IndexOf(m.Object), Receipt: rec}, nil
}

// TxCommitRequest asks for a staged transaction to happen.
type TxCommitRequest struct {
	Call `omit:"idempotency_key"`

	TxID string `json:"tx_id" required:"true" maxlen:"200"` // The transaction, from Store.TxBegin.
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
	req := requestOf(r.Call, "tx_commit", r)
	req.key, req.hash = "tx:"+r.TxID, budget.RequestHash([]string{"tx_commit", r.TxID}) // a transaction happens once
	c := s.newTxCommit(ctx, req, r.TxID)
	ops := s.stagedOps(c, r.TxID)
	p := s.planTx(ctx, c, ops, r.Validate)
	// Taken away with everything the transaction does. When it is gone, only
	// the idempotency key can still answer.
	c.Muts = append(c.Muts, engine.NewObject(staged.Object(r.TxID, 0), "tx_commit", engine.OpDelete))
	c.Plan = func(ctx context.Context) error {
		if now, err := s.staged().Count(r.TxID); err == nil && now != len(ops) {
			return fault.New(fault.ChangedDuringWrite).Hintf("an operation was staged while the transaction was committed; commit again")
		}
		return move.Distinct(c.Commit)
	}
	out, err := s.runTx(ctx, c, p, ops)
	if err == nil && !r.DryRun {
		s.staged().Drop(r.TxID)
	}
	if e := AsError("tx_commit", err); e != nil && e.Detail == ErrNotFound {
		if _, gone := s.staged().Count(r.TxID); errors.Is(gone, fault.TxNotFound) {
			e.Detail = ErrTxNotFound
			e.Kind, e.Reason, e.Action, _, e.Hint = ErrTxNotFound.Describe()
			err = e
		}
	}
	return out, err
}

// newTxCommit begins a call about a staged transaction.
func (s *Store) newTxCommit(ctx context.Context, req request, id string) *commit {
	req.tx = id
	c := s.newCommit(ctx, req)
	c.check(checkLabels("", id, ""))
	if id == "" {
		c.check(fault.New(fault.InvalidArgument).With("argument", "tx_id").Hintf("give the identifier of a transaction that was begun"))
	}
	c.ExtraLocks = []string{staged.Lock(id)}
	return c
}

// stagedOps reads the operations of a transaction; there are none if it does not exist.
func (s *Store) stagedOps(c *commit, id string) (ops []TxOp) {
	if c.bad != nil {
		return nil
	}
	err := s.engine.Enter()
	if err == nil {
		defer s.engine.Leave()
		_, err = s.staged().Read(id, func(data []byte) error {
			ops = append(ops, TxOp{})
			return json.Unmarshal(data, &ops[len(ops)-1])
		})
	}
	if err != nil {
		if e := s.engine.ErrorOf(err); e.Code != fault.TxNotFound {
			c.check(e)
		}
		return nil
	}
	if len(ops) == 0 {
		c.check(fault.New(fault.InvalidArgument).With("argument", "tx_id").Hintf("the transaction is empty; add operations with Store.TxStage"))
	}
	return ops
}

// TxRollbackRequest asks for a staged transaction to be dropped.
type TxRollbackRequest struct {
	Call `omit:"session,accept_risk"`

	TxID string `json:"tx_id" required:"true" maxlen:"200"` // The transaction, from Store.TxBegin.
}

// TxRollbackResult reports what was dropped.
type TxRollbackResult struct {
	Receipt `json:"receipt"`
	TxID    string `json:"tx_id"`   // The transaction.
	Dropped int    `json:"dropped"` // Number of staged operations dropped.
	Existed bool   `json:"existed"` // False when the transaction did not exist.
}

// TxRollback drops a staged transaction with its operations; files of the
// workspace are not changed. Dropping one that does not exist is no error, so the
// call can be repeated after a lost reply; with an idempotency key the first
// reply is returned again.
//
// Errors: those of every write.
func (s *Store) TxRollback(ctx context.Context, r TxRollbackRequest) (TxRollbackResult, error) {
	c := s.newTxCommit(ctx, requestOf(r.Call, "tx_rollback", r), r.TxID)
	out := TxRollbackResult{TxID: r.TxID}
	m := engine.NewObject(staged.Object(r.TxID, 0), "tx_rollback", engine.OpDelete)
	m.AbsentOK = true
	c.Muts = []*engine.Mutation{m}
	c.Plan = func(context.Context) error { // under the lock, so that what is staged meanwhile counts
		n, err := s.staged().Count(r.TxID)
		out.Existed, out.Dropped = err == nil, n
		return nil
	}
	c.Outcome = func() any { return outcome{Dropped: out.Dropped} }
	if err := s.commit(ctx, c); err != nil {
		return TxRollbackResult{}, err
	}
	out.Receipt = c.finished()
	if c.Replayed != nil { // only one that was there is dropped
		out.Existed, out.Dropped = true, c.storedOutcome().Dropped
	}
	if !r.DryRun {
		s.staged().Drop(r.TxID)
	}
	return out, nil
}

// sweepTxs drops expired transactions, and removes the remains of those that have
// ended.
func (s *Store) sweepTxs(ctx context.Context) error {
	ids, err := s.staged().Expired()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := s.TxRollback(ctx, TxRollbackRequest{TxID: id, Call: Call{Caller: "expiry"}}); err != nil {
			return err
		}
	}
	return s.staged().DropAll()
}
