package resilientwrite

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/adapter"
	"github.com/resilientwrite/resilientwrite/internal/edit"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/move"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// maxTxOps is how many operations one call of Tx accepts; maxStagedOps how many a
// staged transaction may have.
const (
	maxTxOps     = 256
	maxStagedOps = 500
)

// TxOp is one operation of a transaction.
type TxOp struct {
	// What to do.
	Op string `json:"op" required:"true" enum:"write,edit,delete,move"`
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
	// move, required: the new path.
	To string `json:"to,omitempty" requiredif:"op=move"`
	// move: an existing file at the new path may be replaced.
	Overwrite bool `json:"overwrite,omitempty"`
	// SHA-256 the file must have before the transaction; the empty string means
	// that it must not exist.
	Expect Expect `json:"expected_prev_sha256,omitzero"`
	// Allow a file of 1 KiB or more to shrink to less than a fifth of its size.
	AllowShrink bool `json:"allow_shrink,omitempty"`
	// Allow a read-only file to be changed.
	Force bool `json:"force,omitempty"`
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
	// Identifier of the transaction in the journal.
	TxID string `json:"tx_id"`
	// Its journal row; 0 when nothing was written.
	Seq uint64 `json:"seq"`
	// One result per operation, in order. Several on one file report its final
	// state.
	Results []TxOpResult `json:"results"`
	// Unified diff, truncated when long; dry run only.
	Diff string `json:"diff,omitempty"`
	// When, RFC 3339 UTC.
	WroteAt string `json:"wrote_at"`
	// Outcome of the call.
	Status Status `json:"status" enum:"succeeded,unchanged,replayed"`
	// What the caller should know although the call succeeded, for all files.
	Warnings []Warning `json:"warnings"`
	// The full record of the call, with the facts of the first file.
	Receipt Receipt `json:"receipt"`
}

// TxOpResult is what became of the file of one operation.
type TxOpResult struct {
	// The operation.
	Op string `json:"op" enum:"write,edit,delete,move"`
	// Path of the file; the new one for a move.
	Path string `json:"path"`
	// SHA-256 of the final file; empty when it no longer exists.
	SHA256 Digest `json:"sha256"`
	// SHA-256 of the previous file.
	PrevSHA256 Digest `json:"prev_sha256,omitzero"`
	// Size of the final file in bytes.
	Bytes int64 `json:"bytes"`
	// Identifier of the journal row of this file.
	JournalID string `json:"journal_id,omitempty"`
}

// Tx makes several writes, edits, deletions and moves as one commit: a single
// journal row commits all of them. After a crash either all of them have happened
// or none. All paths are locked, in sorted order, and all preconditions are
// checked, before anything is staged.
//
// Errors: those of the single verbs, with context.op_index naming the operation;
// [ErrInvalidArgument] for no operation or more than 256 of them, and for a move
// together with another operation on the same file. After an error none of the
// files is changed, unless Effect reports otherwise.
func (s *Store) Tx(ctx context.Context, r TxRequest) (TxResult, error) {
	c := s.newCommit(ctx, r.request("tx", r))
	c.Risk.Classify, c.Risk.RejectAt = r.Classify, string(r.ClassifyRejectAt)
	c.Req.Tx = "tx_" + c.ID
	e := cmp.Or(r.Call.check(ctx), c.Risk.Check())
	if e == nil && (len(r.Ops) == 0 || len(r.Ops) > maxTxOps) {
		e = fault.New(fault.InvalidArgument).With("argument", "ops").With("max_ops", maxTxOps).
			Hintf("a transaction has 1 to %d operations; stage a larger one with Store.TxBegin", maxTxOps)
	}
	if e != nil {
		return TxResult{}, c.Failed(e)
	}
	t, err := s.newTx(ctx, c, r.Ops, r.Validate)
	if err != nil {
		return TxResult{}, c.Failed(err)
	}
	return t.run(ctx)
}

// txn is a transaction in progress: the commit, and the mutation that each
// operation became part of.
type txn struct {
	c    *commit
	ops  []TxOp
	of   []*engine.Mutation
	byID map[string]*txFile // by path
}

// txFile is one file of a transaction.
type txFile struct {
	m     *engine.Mutation
	made  engine.Reviser // its content after the operations so far
	moved bool
}

// newTx turns operations into mutations.
func (s *Store) newTx(ctx context.Context, c *commit, ops []TxOp, validate bool) (*txn, error) {
	t := &txn{c: c, ops: ops, byID: map[string]*txFile{}}
	c.Plan, c.IndexOf = c.distinct, t.indexOf
	for i := range ops {
		m, err := t.add(ctx, s, i)
		if err != nil {
			e := s.engine.ErrorOf(err).With("op_index", i)
			if rel, _, cerr := relpath.Clean(ops[i].Path, s.engine.Tree.Rules); cerr == nil && e.Context["argument"] != "to" {
				e.Path = rel
			}
			if e.Path == "" {
				c.Muts = nil // those of the operations before it are not what is wrong
			}
			return nil, e
		}
		m.Validate = validate
		t.of = append(t.of, m)
	}
	return t, nil
}

// add adds one operation.
func (t *txn) add(ctx context.Context, s *Store, i int) (*engine.Mutation, error) {
	op := &t.ops[i]
	rel, _, err := relpath.Clean(op.Path, s.engine.Tree.Rules)
	if err != nil {
		return nil, err
	}
	if e := cmp.Or(badDigest(ctx, fmt.Sprintf("ops[%d].", i)), badDigest(ctx, "op.")); e != nil {
		return nil, e
	}
	have := t.byID[rel]
	if op.Op == "move" {
		return t.move(s, op, rel, have)
	}
	if adapter.IsMalformed(ctx, fmt.Sprintf("ops[%d].content", i)) || adapter.IsMalformed(ctx, "op.content") {
		return nil, fault.New(fault.BadBase64)
	}
	step, mode, err := stepOf(op)
	if err != nil {
		return nil, err
	}
	step = t.numbered(len(t.of), step)
	if have != nil {
		return have.m, have.then(op, mode, step)
	}
	m := &engine.Mutation{Path: rel, Op: mode, AllowShrink: op.AllowShrink, Force: op.Force}
	m.Expected = op.Expect.hash()
	switch {
	case mode == engine.OpEdit:
		m.Revise = step
	case mode != engine.OpDelete:
		if int64(len(op.Content)) > s.opts.MaxContentBytes {
			return nil, fault.New(fault.TooLarge).With("bytes", len(op.Content)).With("max_bytes", s.opts.MaxContentBytes)
		}
		m.Hold(op.Content)
	}
	t.byID[rel] = &txFile{m: m, made: step}
	t.c.Muts = append(t.c.Muts, m)
	return m, nil
}

// numbered makes the errors of a step name its operation.
func (t *txn) numbered(i int, step engine.Reviser) engine.Reviser {
	return func(ctx context.Context, before []byte) ([]byte, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		after, err := step(ctx, before)
		if err != nil {
			err = t.c.s.engine.ErrorOf(err).With("op_index", i)
		}
		return after, err
	}
}

// indexOf returns the first operation on the file of a mutation.
func (t *txn) indexOf(m *engine.Mutation) int {
	return slices.IndexFunc(t.of, func(of *engine.Mutation) bool { return of == m || of.Source == m })
}

// stepOf returns an operation as a function of the file's content.
func stepOf(op *TxOp) (engine.Reviser, engine.WriteOp, error) {
	switch op.Op {
	case "write":
		if op.Encoding != "" && op.Encoding != "utf-8" {
			return nil, "", badChoice("encoding", "utf-8", "base64")
		}
		content := op.Content
		mode := engine.WriteOp(op.Mode)
		if mode == "" {
			mode = engine.OpCreate
		}
		switch mode {
		case engine.OpCreate, engine.OpOverwrite:
			return func(context.Context, []byte) ([]byte, error) { return content, nil }, mode, nil
		case engine.OpAppend:
			return func(_ context.Context, before []byte) ([]byte, error) {
				return append(append([]byte{}, before...), content...), nil
			}, mode, nil
		}
		return nil, "", badChoice("mode", "create", "overwrite", "append")
	case "edit":
		return revision(op.Edits, op.Encoding, new(edit.Result)), engine.OpEdit, nil
	case "delete":
		return func(context.Context, []byte) ([]byte, error) { return nil, nil }, engine.OpDelete, nil
	}
	return nil, "", badChoice("op", "write", "edit", "delete", "move")
}

// then adds another operation on a file of the transaction.
func (f *txFile) then(op *TxOp, mode engine.WriteOp, step engine.Reviser) error {
	m := f.m
	switch {
	case f.moved:
		return fault.New(fault.InvalidArgument).With("argument", "ops").Hintf("a moved file can have no other operation in the same transaction; use two transactions")
	case op.Expect != AnyVersion:
		return fault.New(fault.InvalidArgument).With("argument", "expected_prev_sha256").Hintf("only the first operation on a file can give expected_prev_sha256")
	case mode == engine.OpDelete && m.Op == engine.OpCreate:
		return fault.New(fault.InvalidArgument).With("argument", "ops").Hintf("the transaction creates the file and deletes it again; omit both operations")
	case mode == engine.OpCreate && m.Op != engine.OpDelete:
		return fault.New(fault.FileAlreadyExists).Hintf("an earlier operation of the transaction creates the file; use mode overwrite")
	case m.Op == engine.OpDelete && mode == engine.OpEdit:
		return fault.New(fault.FileNotFound).Hintf("an earlier operation of the transaction deletes the file")
	case m.Op == engine.OpDelete && mode == engine.OpDelete:
		return fault.New(fault.NotFound).Hintf("an earlier operation of the transaction deletes the file")
	}
	before := f.made
	f.made = func(ctx context.Context, old []byte) ([]byte, error) {
		mid, err := before(ctx, old)
		if err != nil {
			return nil, err
		}
		return step(ctx, mid)
	}
	if mode == engine.OpDelete {
		m.Op = engine.OpDelete
		if m.Revise != nil { // what goes before must still be possible
			m.Revise = f.made
		}
		return nil
	}
	m.Revise = f.made
	switch m.Op {
	case engine.OpDelete: // taken away and made again: it must have been there
		m.Op, m.MustExist, m.AllowShrink = engine.OpOverwrite, true, true
	case engine.OpAppend:
		m.Op = engine.OpOverwrite
	}
	m.AllowShrink = m.AllowShrink || op.AllowShrink
	m.Force = m.Force || op.Force
	return nil
}

// move adds the two mutations of a move.
func (t *txn) move(s *Store, op *TxOp, rel string, have *txFile) (*engine.Mutation, error) {
	to, err := move.NewName(s.engine, op.To)
	if err != nil {
		return nil, err
	}
	if have != nil || t.byID[to] != nil {
		return nil, fault.New(fault.InvalidArgument).With("argument", "ops").Hintf("a moved file can have no other operation in the same transaction; use two transactions")
	}
	if rel == to {
		return nil, fault.New(fault.InvalidArgument).With("argument", "to").Hintf("a path cannot be moved to itself")
	}
	dst, src := move.Pair(rel, to, op.Overwrite, op.Force)
	src.Expected = op.Expect.hash()
	t.byID[rel] = &txFile{m: src, moved: true}
	t.byID[to] = &txFile{m: dst, moved: true}
	t.c.Muts = append(t.c.Muts, dst, src)
	return dst, nil
}

// run commits and makes the reply.
func (t *txn) run(ctx context.Context) (TxResult, error) {
	c := t.c
	if err := c.s.commit(ctx, c); err != nil {
		return TxResult{}, err
	}
	rec, status := c.finished()
	if c.Replayed != nil && len(t.of) == 0 { // what was asked for is gone; what was done is known
		return TxResult{
			TxID: c.Replayed.Tx, Seq: rec.JournalSeq, Results: replayedFiles(c.Replayed), WroteAt: c.wroteAt(),
			Status: status, Warnings: []Warning{}, Receipt: rec,
		}, nil
	}
	out := TxResult{
		TxID: c.Req.Tx, Seq: rec.JournalSeq, Results: []TxOpResult{}, Diff: c.Diff, WroteAt: c.wroteAt(),
		Status: status, Warnings: []Warning{}, Receipt: rec,
	}
	at := map[*engine.Mutation]int{}
	seen := map[string]bool{}
	for i, m := range c.Muts {
		at[m] = i
		for _, w := range m.Warnings {
			if !seen[w] {
				seen[w] = true
				out.Warnings = append(out.Warnings, warning(w))
			}
		}
	}
	for i, m := range t.of {
		row := journal.Mutation{SHA256: m.SHA, PrevSHA256: m.Prev.SHA, Bytes: m.Size}
		if c.Replayed != nil {
			out.TxID = c.Replayed.Tx
			if n := at[m]; n < len(c.Replayed.Muts) {
				row = c.Replayed.Muts[n]
			}
		}
		res := TxOpResult{Op: t.ops[i].Op, Path: m.Path, SHA256: digest(row.SHA256), PrevSHA256: digest(row.PrevSHA256), Bytes: row.Bytes}
		if rec.JournalSeq > 0 {
			res.JournalID = engine.JournalID(rec.JournalSeq, at[m])
		}
		out.Results = append(out.Results, res)
	}
	return out, nil
}
