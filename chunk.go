package resilientwrite

import (
	"context"
	"strconv"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/layer/chunks"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// A session collects the pieces of one large file. Each piece is a file of its
// own, so that a failed piece does not affect the others, and a process that
// takes over from a dead one finds every acknowledged piece.

// ChunkWriteRequest asks for one piece to be stored under its number.
type ChunkWriteRequest struct {
	Call

	// Name of the session: 1 to 64 letters, digits, _ or -. The first chunk
	// creates it.
	Session string `json:"session" required:"true"`
	// Number of the chunk, from 1 to 999999. Sending a number again replaces that
	// chunk.
	Index int `json:"index" required:"true"`
	// The chunk, or base64 when encoding is base64. May be empty. A base64 chunk
	// need not end at a line or character boundary.
	Content []byte `json:"content" required:"true"`
	// How content is encoded. Use base64 for bytes that are not UTF-8 text.
	_ schema.Encoding `wire:"encoding,omitempty" enum:"utf-8,base64" default:"utf-8"`
	// Total number of chunks expected, from 1 to 999999. It is stored with the
	// session; the last value given applies.
	TotalExpected int `json:"total_expected,omitempty"`
}

// ChunkAppendRequest asks for one piece to be stored after the last one.
type ChunkAppendRequest struct {
	Call

	// Name of the session: 1 to 64 letters, digits, _ or -. The first chunk
	// creates it.
	Session string `json:"session" required:"true"`
	// The chunk, or base64 when encoding is base64. May be empty. A base64 chunk
	// need not end at a line or character boundary.
	Content []byte `json:"content" required:"true"`
	// How content is encoded. Use base64 for bytes that are not UTF-8 text.
	_ schema.Encoding `wire:"encoding,omitempty" enum:"utf-8,base64" default:"utf-8"`
	// Total number of chunks expected, from 1 to 999999. It is stored with the
	// session; the last value given applies.
	TotalExpected int `json:"total_expected,omitempty"`
	// The number the chunk must get: next_index of the last reply. If the same
	// chunk is already stored under it, nothing is done, so a lost reply cannot
	// duplicate it.
	ExpectIndex int `json:"expect_index,omitempty"`
}

// ChunkWriteResult reports where a chunk is stored.
type ChunkWriteResult struct {
	// Name of the session.
	Session string `json:"session"`
	// Number of the chunk.
	Index int `json:"index"`
	// Path of the chunk in the state directory. Only the chunk tools write there.
	ChunkPath string `json:"chunk_path"`
	// SHA-256 of the chunk.
	SHA256 Digest `json:"sha256"`
	// Size of the chunk in bytes.
	Bytes int64 `json:"bytes"`
	// Identifier of the journal row; absent when nothing was written.
	JournalID string `json:"journal_id,omitempty"`
	// Number following the last chunk of the session.
	NextIndex int `json:"next_index"`
	// Total number of chunks expected; absent when not given.
	TotalExpected *int `json:"total_expected,omitempty"`
	// Outcome of the call.
	Status Status `json:"status" enum:"succeeded,unchanged,replayed"`
	// What the caller should know although the call succeeded.
	Warnings []Warning `json:"warnings"`
	// The full record of the call.
	Receipt Receipt `json:"receipt"`
}

// ChunkAppendResult reports the number of a stored chunk.
type ChunkAppendResult = ChunkWriteResult

// ChunkWrite stores one piece of a session under its number. Writing the same
// bytes under the same number again changes nothing; other bytes replace the
// piece. Pieces may come in any order and from any number of processes.
//
// When it returns nil at [SyncFull], the piece, the list of the session and the
// journal row are on stable storage; after a crash, either all of them exist or
// none. The content gate inspects each piece by itself, and the whole text when
// it is composed. One piece is at most [Options.MaxContentBytes].
//
// Errors: [ErrBadSession], [ErrBadIndex], [ErrIndexExceedsTotal], [ErrSessionSealed] once
// the session was composed, [ErrTooLarge],
// [ErrInvalidArgument], [ErrRiskBlocked] (the draft is kept), [ErrRetryExhausted],
// [ErrIdempotencyKeyReused], [ErrLockTimeout], [ErrIOBusy], [ErrBadStateDir], the storage
// details, [ErrStorePoisoned], [ErrStoreClosed], [ErrStoreReadOnly], [ErrCanceled].
// Nothing is changed on disk unless Effect says otherwise.
func (s *Store) ChunkWrite(ctx context.Context, r ChunkWriteRequest) (ChunkWriteResult, error) {
	return s.storeChunk(ctx, chunkPiece{
		args: r, op: "chunk_write", session: r.Session, index: r.Index, numbered: true, total: r.TotalExpected,
		content: r.Content, call: r.Call,
	})
}

// ChunkAppend stores one piece of a session under the number after the last one.
// The number is assigned under a lock, so each piece gets its own, also with
// several processes. With IdempotencyKey or ExpectIndex a repeated call does not
// store the piece twice.
//
// It makes the promises of [Store.ChunkWrite] and returns the same errors, and
// [ErrIndexMismatch] when another piece has the expected number or the next
// number is a different one.
func (s *Store) ChunkAppend(ctx context.Context, r ChunkAppendRequest) (ChunkAppendResult, error) {
	out, err := s.storeChunk(ctx, chunkPiece{
		args: r, op: "chunk_append", session: r.Session, total: r.TotalExpected, expect: r.ExpectIndex,
		content: r.Content, call: r.Call,
	})
	return ChunkAppendResult(out), err
}

// chunkPiece is one piece to store, as both verbs request it.
type chunkPiece struct {
	args     any // the request of the verb
	op       string
	session  string
	index    int // 0: the next one
	numbered bool
	total    int
	expect   int
	content  []byte
	call     Call
}

// checkIndex refuses a number that no piece can have. 0 means that none was
// given.
func checkIndex(argument string, n int, needed bool) *fault.Fault {
	if n < 0 || n > chunks.MaxIndex || n == 0 && needed {
		return fault.New(fault.BadIndex).With("argument", argument)
	}
	return nil
}

// check validates the arguments that need no access to the disk.
func (p *chunkPiece) check(ctx context.Context) *fault.Fault {
	for _, e := range []*fault.Fault{
		chunks.CheckName(p.session), checkIndex("index", p.index, p.numbered),
		checkIndex("total_expected", p.total, false), checkIndex("expect_index", p.expect, false),
		p.call.check(ctx),
	} {
		if e != nil {
			return e
		}
	}
	if p.total > 0 && p.index > p.total {
		return fault.New(fault.IndexExceedsTotal).With("index", p.index).With("total_expected", p.total)
	}
	return nil
}

// hash returns the identity of the request.
func (p *chunkPiece) hash(content string) string {
	return engine.HashOf([]byte(strings.Join([]string{
		p.op, p.session, strconv.Itoa(p.index), strconv.Itoa(p.total), strconv.Itoa(p.expect), content, p.call.AcceptRisk,
	}, "\x00")))
}

// storeChunk stores one piece and makes the reply.
func (s *Store) storeChunk(ctx context.Context, p chunkPiece) (ChunkWriteResult, error) {
	e := p.check(ctx)
	if e == nil {
		e = s.takes(ctx, p.content)
	}
	if e != nil {
		c := s.newCommit(ctx, p.request())
		c.Muts = []*engine.Mutation{refusedObject(p.session)}
		c.Req.Hash = p.hash("raw " + engine.HashOf(p.content))
		return ChunkWriteResult{}, c.Failed(e)
	}
	k, err := s.runChunk(ctx, func() *chunkCall { return s.newPieceCall(ctx, p) })
	if err != nil {
		return ChunkWriteResult{}, err
	}
	r, status := k.c.finished()
	out := ChunkWriteResult{
		Session: p.session, Index: k.index, ChunkPath: r.Path, SHA256: r.SHA256, Bytes: r.Bytes,
		JournalID: r.JournalID, NextIndex: k.next, TotalExpected: k.total,
		Status: status, Warnings: r.Warnings, Receipt: r,
	}
	return out, nil
}

// refusedObject is the object in the row of a refusal that concerns only the
// session.
func refusedObject(session string) *engine.Mutation {
	if chunks.CheckName(session) != nil {
		return engine.NewObject(chunks.Dir, "", engine.OpOverwrite)
	}
	return engine.NewObject(chunks.SessionObject(session), "", engine.OpOverwrite)
}

func (p *chunkPiece) request() request {
	req := p.call.request(p.op, nil)
	req.args = p.args
	return req
}

// newPieceCall makes the commit of one piece: the piece and the list of the
// session, both or neither.
func (s *Store) newPieceCall(ctx context.Context, p chunkPiece) *chunkCall {
	part := engine.NewObject(chunks.PartObject(p.session, max(p.index, p.expect, 1)), "chunk", engine.OpOverwrite)
	sum := part.Hold(p.content)
	k := s.newChunkCall(ctx, p.request(), p.session, part)
	k.c.Req.Hash = p.hash(sum)
	k.c.Plan = func(ctx context.Context) error { return k.planPiece(ctx, p, part, sum) }
	return k
}

// planPiece decides, under the lock of the session, which number the piece gets,
// and makes the list that contains it.
func (k *chunkCall) planPiece(ctx context.Context, p chunkPiece, part *engine.Mutation, sum string) error {
	sess, err := k.see(ctx)
	if err != nil {
		return err
	}
	if sess == nil {
		if done := k.c.Replayed; done != nil && len(done.Muts) > 0 {
			part.SetObject(done.Muts[0].Object)
			k.index = chunks.IndexOf(done.Muts[0].Object)
		}
		return nil
	}
	if err := sess.Writable(); err != nil {
		return err
	}
	if len(sess.Parts) == 0 && sess.Manifest.CreatedAt == "" {
		sess.Manifest.CreatedAt = k.c.Began.UTC().Format(engine.TimeFormat)
	}
	if p.total > 0 {
		sess.Manifest.TotalExpected = p.total
	}
	if k.index, err = p.choose(sess, sum); err != nil {
		return err
	}
	if total := sess.Manifest.TotalExpected; total > 0 && k.index > total {
		return fault.New(fault.IndexExceedsTotal).With("index", k.index).With("total_expected", total)
	}
	if busy, err := k.occupied(k.index); busy || err != nil {
		return err
	}
	part.SetObject(chunks.PartObject(p.session, k.index))
	if err := k.s.chunks.FillHashes(sess); err != nil {
		return err
	}
	sess.Put(chunks.Part{Index: k.index, SHA256: sum, Bytes: part.Content.Size()})
	k.next, k.total = sess.Next(), sess.Total()
	return chunks.HoldManifest(k.manifest, sess)
}

// choose returns the number of a piece.
func (p chunkPiece) choose(sess *chunks.Session, sum string) (int, error) {
	if p.numbered {
		return p.index, nil
	}
	next := sess.Next()
	if p.expect > 0 && p.expect != next {
		if have := sess.Part(p.expect); have == nil || have.SHA256 != sum {
			return 0, fault.New(fault.IndexMismatch).With("expect_index", p.expect).With("next_index", next)
		}
		return p.expect, nil // the call whose reply was lost
	}
	if next > chunks.MaxIndex {
		return 0, fault.New(fault.BadIndex).With("argument", "index").Hintf("the session already has its last chunk; compose it")
	}
	return next, nil
}
