package resilientwrite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// maxTxOps is how many operations one call of Tx takes; maxStagedOps how many
// a staged transaction does.
const (
	maxTxOps     = 256
	maxStagedOps = 500
)

// TxOp is one operation of a transaction.
type TxOp struct {
	Op                 string    `json:"op" required:"true" enum:"write,edit,delete,move" desc:"What to do."`
	Path               string    `json:"path" required:"true" desc:"Path of the file, relative to the workspace."`
	Content            string    `json:"content,omitempty" requiredif:"op=write" desc:"write, required: the text, or base64 when encoding says so."`
	Encoding           string    `json:"encoding,omitempty" enum:"utf-8,base64" default:"utf-8" desc:"write: how content is encoded."`
	Mode               WriteMode `json:"mode,omitempty" enum:"create,overwrite,append" default:"create" desc:"write: what to do with a file that is there."`
	Edits              []EditOp  `json:"edits,omitempty" requiredif:"op=edit" desc:"edit, required: replacements, made in order."`
	To                 string    `json:"to,omitempty" requiredif:"op=move" desc:"move, required: the new path."`
	Overwrite          bool      `json:"overwrite,omitempty" desc:"move: a file at the new path may be replaced."`
	ExpectedPrevSHA256 *string   `json:"expected_prev_sha256,omitempty" desc:"SHA-256 the file must have before the transaction; the empty string means it must not exist."`
	AllowShrink        bool      `json:"allow_shrink,omitempty" desc:"Allow a file of 1 KiB or more to be replaced by less than a fifth of it."`
	Force              bool      `json:"force,omitempty" desc:"Allow a read-only file to be changed."`
}

// TxRequest asks for several operations to happen together or not at all.
type TxRequest struct {
	Ops              []TxOp  `json:"ops" required:"true" desc:"The operations, at most 256. Several on one file are made one after the other and have one net effect."`
	Classify         *bool   `json:"classify,omitempty" desc:"true lets the content gate refuse secrets, false switches it off where the policy allows; absent means as the policy says."`
	ClassifyRejectAt Verdict `json:"classify_reject_at,omitempty" enum:"low,medium,high" desc:"Refuse from this verdict on, where that is stricter than the policy."`
	AcceptRisk       string  `json:"accept_risk,omitempty" maxlen:"500" desc:"Why a risky content is to be written all the same; it stands in the journal."`
	Validate         bool    `json:"validate,omitempty" desc:"Refuse files whose syntax would be wrong, by their extension."`
	DryRun           bool    `json:"dry_run,omitempty" desc:"Decide as the real call would, return hashes and a diff, change nothing."`
	IdempotencyKey   string  `json:"idempotency_key,omitempty" maxlen:"200" desc:"Send the same key again after a lost reply: the transaction happens once."`
	Caller           string  `json:"caller,omitempty" maxlen:"200" desc:"Who is writing, for the journal."`
	Session          string  `json:"session,omitempty" maxlen:"200" desc:"Name of the working session, for the journal."`
}

// TxResult is what a transaction did.
type TxResult struct {
	TxID     string       `json:"tx_id" desc:"Names the transaction in the journal."`
	Seq      uint64       `json:"seq" desc:"Its journal row; 0 when nothing was written."`
	Results  []TxOpResult `json:"results" desc:"One for each operation, in order. Several on one file show the file as it is at the end."`
	Diff     string       `json:"diff,omitempty" desc:"Unified diff, dry run only, capped."`
	WroteAt  string       `json:"wrote_at" desc:"When, RFC 3339 UTC."`
	Status   Status       `json:"status" desc:"How the call ended." enum:"succeeded,unchanged,replayed"`
	Warnings []Warning    `json:"warnings" desc:"What you should know although the call succeeded, of all files."`
	Receipt  Receipt      `json:"receipt" desc:"The full account of the call, with the facts of the first file."`
}

// TxOpResult is what became of the file of one operation.
type TxOpResult struct {
	Op         string `json:"op" enum:"write,edit,delete,move" desc:"The operation."`
	Path       string `json:"path" desc:"Path of the file; the new one for a move."`
	SHA256     string `json:"sha256" desc:"SHA-256 of the final file; empty when it is gone."`
	PrevSHA256 string `json:"prev_sha256,omitempty" desc:"SHA-256 of what was there before."`
	Bytes      int64  `json:"bytes" desc:"Size of the final file in bytes."`
	JournalID  string `json:"journal_id,omitempty" desc:"Identifier of the journal row of this file."`
}

// Tx makes several writes, edits, deletions and moves as one commit: one
// journal row is the one moment at which they all happen. After a crash either
// all of them are there or none. All paths are locked, in sorted order, and
// all preconditions judged, before anything is staged.
//
// Errors: those of the single verbs, with context.op_index telling which
// operation; [InvalidArgument] for no operation or more than 256 of them, and
// for a move together with another operation on the same file. None of the
// files is changed then, unless Effect says otherwise.
func (s *Store) Tx(ctx context.Context, r TxRequest) (TxResult, error) {
	c := s.newCommit(ctx, request{
		op: "tx", caller: r.Caller, session: r.Session, key: r.IdempotencyKey, dryRun: r.DryRun, hash: requestHash(r.identity()),
		risk: risk{classify: r.Classify, rejectAt: r.ClassifyRejectAt, accept: r.AcceptRisk},
	})
	c.req.tx = "tx_" + c.id
	e := checkLabels(r.Caller, r.Session, r.IdempotencyKey)
	if e == nil {
		e = c.req.risk.check()
	}
	if e == nil && (len(r.Ops) == 0 || len(r.Ops) > maxTxOps) {
		e = fail(InvalidArgument).with("argument", "ops").with("max_ops", maxTxOps).
			hint("a transaction has 1 to %d operations; stage a larger one with rw_tx_begin", maxTxOps)
	}
	if e != nil {
		return TxResult{}, c.failed(e)
	}
	t, err := s.newTx(c, r.Ops, r.Validate)
	if err != nil {
		return TxResult{}, c.failed(err)
	}
	return t.run(ctx)
}

// identity is the request without what does not change its outcome.
func (r TxRequest) identity() TxRequest {
	r.Caller, r.Session, r.IdempotencyKey, r.DryRun = "", "", "", false
	return r
}

// txn is a transaction on its way: the commit, and which mutation each
// operation ended in.
type txn struct {
	c    *commit
	ops  []TxOp
	of   []*mutation
	byID map[string]*txFile // by path
}

// txFile is one file of a transaction.
type txFile struct {
	m     *mutation
	made  func([]byte) ([]byte, error) // its content after the operations so far
	moved bool
}

// newTx turns operations into mutations.
func (s *Store) newTx(c *commit, ops []TxOp, validate bool) (*txn, error) {
	t := &txn{c: c, ops: ops, byID: map[string]*txFile{}}
	c.plan, c.indexOf = c.distinct, t.indexOf
	for i := range ops {
		m, err := t.add(s, &ops[i])
		if err != nil {
			e := s.errorOf(err).with("op_index", i)
			if rel, _, cerr := relpath.Clean(ops[i].Path, s.tree.Rules); cerr == nil {
				e.Path = rel
			}
			return nil, e
		}
		m.validate = validate
		t.of = append(t.of, m)
	}
	return t, nil
}

// add takes one operation.
func (t *txn) add(s *Store, op *TxOp) (*mutation, error) {
	rel, _, err := relpath.Clean(op.Path, s.tree.Rules)
	if err != nil {
		return nil, err
	}
	have := t.byID[rel]
	if op.Op == "move" {
		return t.move(s, op, rel, have)
	}
	step, mode, err := stepOf(op)
	if err != nil {
		return nil, err
	}
	step = t.numbered(len(t.of), step)
	if have != nil {
		return have.m, have.then(op, mode, step)
	}
	m := &mutation{path: rel, op: mode, allowShrink: op.AllowShrink, force: op.Force}
	if e := m.expect(op.ExpectedPrevSHA256); e != nil {
		return nil, e
	}
	switch {
	case mode == modeEdit:
		m.revise = step
	case mode != modeDelete:
		content, _ := decodeContent(op.Content, op.Encoding)
		if int64(len(content)) > s.opts.MaxContentBytes {
			return nil, fail(TooLarge).with("bytes", len(content)).with("max_bytes", s.opts.MaxContentBytes)
		}
		m.hold(content)
	}
	t.byID[rel] = &txFile{m: m, made: step}
	t.c.muts = append(t.c.muts, m)
	return m, nil
}

// numbered has the errors of a step name its operation.
func (t *txn) numbered(i int, step func([]byte) ([]byte, error)) func([]byte) ([]byte, error) {
	return func(before []byte) ([]byte, error) {
		after, err := step(before)
		if err != nil {
			err = t.c.s.errorOf(err).with("op_index", i)
		}
		return after, err
	}
}

// indexOf is the first operation on the file of a mutation.
func (t *txn) indexOf(m *mutation) int {
	return slices.IndexFunc(t.of, func(of *mutation) bool { return of == m || of.source == m })
}

// stepOf is an operation as a function of the file's content.
func stepOf(op *TxOp) (func([]byte) ([]byte, error), WriteMode, error) {
	switch op.Op {
	case "write":
		content, e := decodeContent(op.Content, op.Encoding)
		if e != nil {
			return nil, "", e
		}
		mode := op.Mode
		if mode == "" {
			mode = ModeCreate
		}
		switch mode {
		case ModeCreate, ModeOverwrite:
			return func([]byte) ([]byte, error) { return content, nil }, mode, nil
		case ModeAppend:
			return func(before []byte) ([]byte, error) {
				return append(append([]byte{}, before...), content...), nil
			}, mode, nil
		}
		return nil, "", badChoice("mode", string(op.Mode), "create", "overwrite", "append")
	case "edit":
		n := 0
		return revision(op.Edits, &n), modeEdit, nil
	case "delete":
		return func([]byte) ([]byte, error) { return nil, nil }, modeDelete, nil
	}
	return nil, "", badChoice("op", op.Op, "write", "edit", "delete", "move")
}

// then makes another operation on a file of the transaction.
func (f *txFile) then(op *TxOp, mode WriteMode, step func([]byte) ([]byte, error)) error {
	m := f.m
	switch {
	case f.moved:
		return fail(InvalidArgument).with("argument", "ops").hint("a file that is moved takes no other operation in the same transaction; use two")
	case op.ExpectedPrevSHA256 != nil:
		return fail(InvalidArgument).with("argument", "expected_prev_sha256").hint("only the first operation on a file can name the version it expects")
	case mode == modeDelete && m.op == ModeCreate:
		return fail(InvalidArgument).with("argument", "ops").hint("the transaction creates the file and deletes it again; leave both out")
	case mode == ModeCreate && m.op != modeDelete:
		return fail(FileAlreadyExists).hint("an earlier operation of the transaction has made the file; use mode overwrite")
	case m.op == modeDelete && mode == modeEdit:
		return fail(FileNotFound).hint("an earlier operation of the transaction deletes the file")
	case m.op == modeDelete && mode == modeDelete:
		return fail(NotFound).hint("an earlier operation of the transaction deletes the file")
	}
	before := f.made
	f.made = func(old []byte) ([]byte, error) {
		mid, err := before(old)
		if err != nil {
			return nil, err
		}
		return step(mid)
	}
	if mode == modeDelete {
		m.op = modeDelete
		if m.revise != nil { // what goes before must still be possible
			m.revise = f.made
		}
		return nil
	}
	m.revise = f.made
	switch m.op {
	case modeDelete: // taken away and made again: it must have been there
		m.op, m.mustExist, m.allowShrink = ModeOverwrite, true, true
	case ModeAppend:
		m.op = ModeOverwrite
	}
	m.allowShrink = m.allowShrink || op.AllowShrink
	m.force = m.force || op.Force
	return nil
}

// move adds the two mutations of a move.
func (t *txn) move(s *Store, op *TxOp, rel string, have *txFile) (*mutation, error) {
	to, _, err := relpath.Clean(op.To, s.tree.Rules)
	if err != nil {
		return nil, err
	}
	if have != nil || t.byID[to] != nil {
		return nil, fail(InvalidArgument).with("argument", "ops").hint("a file that is moved takes no other operation in the same transaction; use two")
	}
	if rel == to {
		return nil, fail(InvalidArgument).with("argument", "to").hint("a path cannot be moved to itself")
	}
	dst, src := movePair(rel, to, MoveRequest{Force: op.Force, Overwrite: op.Overwrite})
	if e := src.expect(op.ExpectedPrevSHA256); e != nil {
		return nil, e
	}
	t.byID[rel] = &txFile{m: src, moved: true}
	t.byID[to] = &txFile{m: dst, moved: true}
	t.c.muts = append(t.c.muts, dst, src)
	return dst, nil
}

// run commits and makes the reply.
func (t *txn) run(ctx context.Context) (TxResult, error) {
	c := t.c
	if err := c.s.commit(ctx, c); err != nil {
		return TxResult{}, err
	}
	rec, status := c.finished()
	if c.replayed != nil && len(t.of) == 0 { // what was asked for is gone; what was done is known
		return TxResult{
			TxID: c.replayed.Tx, Seq: rec.JournalSeq, Results: replayedFiles(c.replayed), WroteAt: c.wroteAt(),
			Status: status, Warnings: []Warning{}, Receipt: rec,
		}, nil
	}
	out := TxResult{
		TxID: c.req.tx, Seq: rec.JournalSeq, Results: []TxOpResult{}, Diff: c.diff, WroteAt: c.wroteAt(),
		Status: status, Warnings: []Warning{}, Receipt: rec,
	}
	at := map[*mutation]int{}
	seen := map[string]bool{}
	for i, m := range c.muts {
		at[m] = i
		for _, w := range m.warnings {
			if !seen[w.Reason] {
				seen[w.Reason] = true
				out.Warnings = append(out.Warnings, w)
			}
		}
	}
	for i, m := range t.of {
		row := journal.Mutation{SHA256: m.sha, PrevSHA256: m.prev.sha, Bytes: m.size}
		if c.replayed != nil {
			out.TxID = c.replayed.Tx
			if n := at[m]; n < len(c.replayed.Muts) {
				row = c.replayed.Muts[n]
			}
		}
		res := TxOpResult{Op: t.ops[i].Op, Path: m.path, SHA256: row.SHA256, PrevSHA256: row.PrevSHA256, Bytes: row.Bytes}
		if rec.JournalSeq > 0 {
			res.JournalID = journalID(rec.JournalSeq, at[m])
		}
		out.Results = append(out.Results, res)
	}
	return out, nil
}

// --- transactions that are larger than one call ---

// A staged transaction is a directory tx/<id>/ in the state directory: the
// file begin.json, and one file for each operation. It exists exactly as long
// as begin.json does, which the commit of the transaction takes away together
// with everything it does: it can never happen twice.

const txBegin = "begin.json"

// TxBeginRequest asks for a transaction to be begun.
type TxBeginRequest struct {
	Caller  string `json:"caller,omitempty" maxlen:"200" desc:"Who begins it, for the journal."`
	Session string `json:"session,omitempty" maxlen:"200" desc:"Name of the working session, for the journal."`
}

// TxBeginResult names a transaction.
type TxBeginResult struct {
	TxID      string  `json:"tx_id" desc:"Names the transaction in the calls that follow."`
	ExpiresAt string  `json:"expires_at" desc:"When it is dropped unless it is committed, RFC 3339 UTC."`
	Receipt   Receipt `json:"receipt" desc:"The full account of the call."`
}

// txHead is what begin.json holds.
type txHead struct {
	TxID      string `json:"tx_id"`
	Caller    string `json:"caller"`
	Session   string `json:"session"`
	CreatedAt string `json:"created_at"`
	ExpiresAt string `json:"expires_at"`
}

// TxBegin begins a transaction that is built in several calls. What is staged
// survives a restart; a transaction that nobody commits is dropped after 24
// hours. Errors: [InvalidArgument], [LockTimeout], the storage details,
// [StorePoisoned], [StoreClosed], [StoreReadOnly], [Canceled]. There is no
// transaction then, unless Effect says otherwise.
func (s *Store) TxBegin(ctx context.Context, r TxBeginRequest) (TxBeginResult, error) {
	c := s.newCommit(ctx, request{op: "tx_begin", caller: r.Caller, session: r.Session, hash: requestHash(r)})
	if e := checkLabels(r.Caller, r.Session, ""); e != nil {
		return TxBeginResult{}, c.failed(e)
	}
	id := "tx_" + c.id
	head := txHead{
		TxID: id, Caller: c.req.caller, Session: c.req.session,
		CreatedAt: c.began.UTC().Format(timeFormat), ExpiresAt: c.began.Add(strikeAge).UTC().Format(timeFormat),
	}
	data, err := json.Marshal(head)
	if err != nil {
		return TxBeginResult{}, c.failed(err)
	}
	m := newObject("tx/"+id+"/"+txBegin, "tx_begin", ModeCreate)
	m.hold(data)
	c.muts, c.req.tx = []*mutation{m}, id
	if err := s.commit(ctx, c); err != nil {
		return TxBeginResult{}, err
	}
	rec, _ := c.finished()
	return TxBeginResult{TxID: id, ExpiresAt: head.ExpiresAt, Receipt: rec}, nil
}

// TxStageRequest asks for an operation to be added to a transaction.
type TxStageRequest struct {
	TxID           string `json:"tx_id" required:"true" maxlen:"200" desc:"The transaction, from rw_tx_begin."`
	Op             TxOp   `json:"op" required:"true" desc:"The operation, as in rw_tx."`
	IdempotencyKey string `json:"idempotency_key,omitempty" maxlen:"200" desc:"Send the same key again after a lost reply: the operation is staged once."`
	AcceptRisk     string `json:"accept_risk,omitempty" maxlen:"500" desc:"Why a risky content is to be staged all the same; it stands in the journal."`
	Caller         string `json:"caller,omitempty" maxlen:"200" desc:"Who stages it, for the journal."`
}

// TxStageResult tells what is staged.
type TxStageResult struct {
	TxID    string  `json:"tx_id" desc:"The transaction."`
	Index   int     `json:"index" desc:"Number of the operation, from 1."`
	Receipt Receipt `json:"receipt" desc:"The full account of the call."`
}

// TxStage adds an operation to a transaction. When it returns nil at
// [SyncFull], the operation is on stable storage. It is checked now as far as
// that is possible without the files; they are looked at when the transaction
// is committed. The gate judges what is staged, and then the whole files.
//
// Errors: [TxNotFound], those of [Store.Tx] for the arguments, [TooLarge] for
// more than 500 operations, [RiskBlocked] (the draft is kept),
// [IdempotencyKeyReused], [LockTimeout], the storage details, [StorePoisoned],
// [StoreClosed], [StoreReadOnly], [Canceled]. The operation is not in the
// transaction then, unless Effect says otherwise.
func (s *Store) TxStage(ctx context.Context, r TxStageRequest) (TxStageResult, error) {
	c := s.newCommit(ctx, request{
		op: "tx_stage", caller: r.Caller, key: r.IdempotencyKey, tx: r.TxID,
		hash: requestHash(TxStageRequest{TxID: r.TxID, Op: r.Op}), risk: risk{accept: r.AcceptRisk},
	})
	e := checkLabels(r.Caller, r.TxID, r.IdempotencyKey)
	if e == nil {
		e = c.req.risk.check()
	}
	if e != nil {
		return TxStageResult{}, c.failed(e)
	}
	if _, err := s.newTx(s.newCommit(ctx, c.req), []TxOp{r.Op}, false); err != nil {
		return TxStageResult{}, c.failed(err)
	}
	data, err := json.Marshal(r.Op)
	if err != nil {
		return TxStageResult{}, c.failed(err)
	}
	m := newObject("tx/"+safeTxID(r.TxID)+"/"+opName(1), "tx_stage", ModeCreate)
	m.hold(data)
	c.muts, c.also = []*mutation{m}, []string{txLock(r.TxID)}
	index := 0
	c.plan = func(context.Context) error {
		if s.keyKnown(c.req.key) { // the key answers
			return nil
		}
		n, err := s.stagedCount(r.TxID)
		if err != nil {
			return err
		}
		if index = n + 1; index > maxStagedOps {
			return fail(TooLarge).with("max_ops", maxStagedOps).hint("a transaction has at most %d operations; commit this one", maxStagedOps)
		}
		m.object = "tx/" + r.TxID + "/" + opName(index)
		m.path = stateDirName + "/" + m.object
		return nil
	}
	if err := s.commit(ctx, c); err != nil {
		return TxStageResult{}, err
	}
	rec, _ := c.finished()
	if c.replayed != nil {
		fmt.Sscanf(c.replayed.Muts[0].Object[strings.LastIndexByte(c.replayed.Muts[0].Object, '/')+1:], "op-%d.json", &index)
	}
	return TxStageResult{TxID: r.TxID, Index: index, Receipt: rec}, nil
}

func txLock(id string) string { return "tx\x00" + id }

func opName(i int) string { return fmt.Sprintf("op-%05d.json", i) }

// safeTxID is an id that may be part of a path.
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
