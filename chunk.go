package resilientwrite

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/excerpt"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/gate"
	"github.com/resilientwrite/resilientwrite/internal/layer/chunks"
	"github.com/resilientwrite/resilientwrite/internal/progress"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
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

// ChunkWriteResult reports where a chunk is stored. SHA256 and Bytes are those of
// the chunk.
type ChunkWriteResult struct {
	Receipt `json:"receipt" copies:"sha256,bytes,journal_id,status,warnings"`
	Session string `json:"session"` // Name of the session.
	Index   int    `json:"index"`   // Number of the chunk.
	// Path of the chunk in the state directory. Only the chunk tools write there.
	ChunkPath string `json:"chunk_path"`
	NextIndex int    `json:"next_index"` // Number following the last chunk of the session.
	// Total number of chunks expected; absent when not given.
	TotalExpected *int `json:"total_expected,omitempty"`
}

// ChunkAppendResult reports the number of a stored chunk.
type ChunkAppendResult = ChunkWriteResult

// ChunkWrite stores one piece of a session under its number. Writing the same
// bytes under the same number again changes nothing; other bytes replace the
// piece. Pieces may come in any order and from any number of processes.
//
// A crash leaves the piece, its entry in the list of the session and the
// journal row, or none of them. The content gate inspects each piece by itself,
// and the whole text when it is composed. One piece is at most
// [Options.MaxContentBytes].
//
// Errors: those of every write, [ErrBadSession], [ErrBadIndex],
// [ErrIndexExceedsTotal], [ErrSessionSealed] once the session was composed,
// [ErrTooLarge], [ErrRiskBlocked] (the draft is kept).
func (s *Store) ChunkWrite(ctx context.Context, r ChunkWriteRequest) (ChunkWriteResult, error) {
	p := chunks.Piece{Session: r.Session, Index: r.Index, Numbered: true, TotalExpected: r.TotalExpected, Content: r.Content}
	return s.storeChunk(ctx, p, r.Call, requestOf(r.Call, "chunk_write", r))
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
	p := chunks.Piece{Session: r.Session, TotalExpected: r.TotalExpected, Expect: r.ExpectIndex, Content: r.Content}
	return s.storeChunk(ctx, p, r.Call, requestOf(r.Call, "chunk_append", r))
}

// storeChunk stores one piece and makes the reply.
func (s *Store) storeChunk(ctx context.Context, p chunks.Piece, call Call, req request) (ChunkWriteResult, error) {
	if e := cmp.Or(p.Check(), checkCall(ctx, call), s.takes(ctx, p.Content)); e != nil {
		return ChunkWriteResult{}, s.refuseChunks(ctx, req, p.Session, e)
	}
	var c *commit
	at, err := s.chunks.Put(ctx, p, s.chunkCommits(ctx, req, &c))
	if err != nil {
		return ChunkWriteResult{}, err
	}
	r := c.finished()
	return ChunkWriteResult{
		Receipt: r, Session: p.Session, Index: at.Index, ChunkPath: r.Path, NextIndex: at.Next, TotalExpected: at.Total,
	}, nil
}

// refuseChunks ends a call that concerns only the session.
func (s *Store) refuseChunks(ctx context.Context, req request, session string, e *fault.Fault) error {
	object := chunks.Dir
	if chunks.CheckName(session) == nil {
		object = chunks.SessionObject(session)
	}
	c := s.newCommit(ctx, req)
	c.Muts = []*engine.Mutation{engine.NewObject(object, "", engine.OpOverwrite)}
	return c.Failed(e)
}

// chunkCommits makes the commits of a call on a session; c is the last that does what
// was asked for.
func (s *Store) chunkCommits(ctx context.Context, req request, c **commit) chunks.Begin {
	return func(clears bool) chunks.Commit {
		of := req
		if clears {
			of = request{op: req.op, caller: req.caller}
		}
		this := s.newCommit(ctx, of)
		if !clears {
			*c = this
		}
		return chunks.Commit{Commit: this.Commit, Fail: this.Failed, Do: func(ctx context.Context, state string) error {
			this.gateKey = s.gateFor(ctx).String()
			asked := this.call()
			asked.Hash += "\x00" + state
			this.asked = &asked
			return s.commit(ctx, this)
		}}
	}
}

// ChunkComposeRequest asks for the pieces of a session to become one file.
type ChunkComposeRequest struct {
	Call

	Session string `json:"session" required:"true"` // Name of the session.
	// Path of the file, relative to the workspace.
	OutputPath string `json:"output_path" required:"true"`
	// Text inserted between chunks, at most 4096 bytes. Default: none or, for a
	// session that was composed before, the separator used then.
	Separator *string `json:"separator,omitempty"`
	// Remove the session once the file is in place. Otherwise the session
	// remains, sealed.
	Cleanup bool `json:"cleanup,omitempty"`
	// overwrite replaces an existing file; create refuses to.
	Mode WriteMode `json:"mode,omitempty" enum:"overwrite,create" default:"overwrite"`
	// SHA-256 the file must have now; the empty string means that it must not
	// exist.
	Expect Expect `json:"expected_prev_sha256,omitzero"`
	// SHA-256 the composed file must have, as returned by Store.ChunkPreview.
	ExpectedSHA256 Digest `json:"expected_sha256,omitzero"`
	// Refuse a file with invalid syntax, judged by the extension of the path; see
	// Store.Validate.
	Validate bool `json:"validate,omitempty"`
	// Allow a file of 1 KiB or more to shrink to less than a fifth of its size.
	AllowShrink bool `json:"allow_shrink,omitempty"`
	Force       bool `json:"force,omitempty"` // Allow a read-only file to be replaced.
}

// ChunkComposeResult reports what was composed.
type ChunkComposeResult struct {
	Receipt    `json:"receipt" copies:"sha256,bytes,journal_id,status,warnings"`
	Session    string `json:"session"`     // Name of the session.
	OutputPath string `json:"output_path"` // Path of the file, relative to the workspace.
	// Number of chunks composed; 0 in the reply to a repeated idempotency key
	// once the session is gone.
	ChunkCount int `json:"chunk_count"`
	// SHA-256 of each chunk, in order; empty in the reply to a repeated
	// idempotency key once the session is gone.
	ChunkHashes []Digest `json:"chunk_hashes"`
	CleanedUp   bool     `json:"cleaned_up"`     // True when the session was removed.
	Diff        string   `json:"diff,omitempty"` // Unified diff, truncated when long; dry run only.
}

// ChunkCompose makes one file of the pieces of a session, byte for byte and in
// constant memory, and seals the session. Both are one commit: after a crash both
// are done or neither. The file is written like [Store.SafeWrite] does, with the
// same promises; the content gate inspects the whole file. Every piece is
// compared with the hash that was recorded when it was stored.
//
// Composing a sealed session again makes the same file again, or leaves it alone
// if it is unchanged. With Cleanup the session, seal included, is removed once
// the file is in place; its name can then be used again. A removal that a crash
// interrupts is completed by the next call that writes to the session.
//
// Errors: those of every write, [ErrBadSession], [ErrBadSHA256],
// [ErrSessionNotFound], [ErrNoChunksFound], [ErrNonContiguous] and
// [ErrChunkCountMismatch] when pieces are missing, [ErrHashDriftOnRead] for a
// piece that was changed on disk, naming its number, [ErrHashMismatch] for
// either expected hash, [ErrFileAlreadyExists], [ErrDestructiveShrink],
// [ErrReadOnlyFile], [ErrSyntaxInvalid], [ErrRiskBlocked] (the draft is kept),
// the path details, [ErrChangedDuringWrite]. The pieces stay as they are; the
// file does unless Effect says otherwise.
func (s *Store) ChunkCompose(ctx context.Context, r ChunkComposeRequest) (ChunkComposeResult, error) {
	r.Mode = cmp.Or(r.Mode, ModeOverwrite)
	var c *commit
	var m *engine.Mutation
	file := func() *engine.Mutation {
		m = &engine.Mutation{
			Path: r.OutputPath, Op: engine.WriteOp(r.Mode), Kind: "compose", Object: chunks.SessionObject(r.Session),
			AllowShrink: r.AllowShrink, Force: r.Force, Validate: r.Validate, Expected: r.Expect.Hash(),
		}
		return m
	}
	req := requestOf(r.Call, "chunk_compose", r)
	if e := cmp.Or(chunks.CheckName(r.Session), fault.CheckChoice("mode", r.Mode, ModeOverwrite, ModeCreate), chunks.CheckSeparator(r.Separator), checkCall(ctx, r.Call)); e != nil {
		c = s.newCommit(ctx, req)
		c.Muts = []*engine.Mutation{file()}
		return ChunkComposeResult{}, c.Failed(e)
	}
	ctx, account, end := progress.Begin(ctx)
	defer end()
	sess, left, err := s.chunks.Compose(ctx, chunks.Compose{
		Session: r.Session, File: file, Separator: r.Separator, SHA256: r.ExpectedSHA256.String(), Cleanup: r.Cleanup,
		Take: func(ctx context.Context, m *engine.Mutation, sess *chunks.Session, src io.Reader) (string, error) {
			account.Work(string(StageCompose), sess.Bytes(), fmt.Sprintf("joining %d chunks", len(sess.Parts)))
			return c.Take(ctx, m, src)
		},
	}, s.chunkCommits(ctx, req, &c))
	if err != nil {
		return ChunkComposeResult{}, err
	}
	out := ChunkComposeResult{
		Session: r.Session, ChunkHashes: []Digest{}, CleanedUp: r.Cleanup && !r.DryRun && left == nil, Diff: c.Diff,
	}
	if left != nil {
		m.Warn(call.WarnChunksLeft)
	}
	out.Receipt = c.receipt(m, c.status())
	c.deliver(out.Receipt)
	out.OutputPath = out.Path
	if sess != nil {
		out.ChunkCount, out.ChunkHashes = len(sess.Parts), pieceHashes(sess)
	}
	return out, nil
}

func pieceHashes(sess *chunks.Session) []Digest {
	list := make([]Digest, len(sess.Parts))
	for i, p := range sess.Parts {
		list[i] = digest(p.SHA256)
	}
	return list
}

// ChunkStatusRequest asks how far a session is.
type ChunkStatusRequest struct {
	Session string `json:"session" required:"true"` // Name of the session.
}

// ChunkStatusResult reports how far a session is.
type ChunkStatusResult struct {
	Session string `json:"session"` // Name of the session.
	Exists  bool   `json:"exists"`  // False when the session does not exist.
	// When the session began, RFC 3339 UTC; absent when that is not known.
	CreatedAt Timestamp `json:"created_at,omitzero"`
	// Total number of chunks expected; absent when not given.
	TotalExpected  *int  `json:"total_expected,omitempty"`
	PresentIndices []int `json:"present_indices"` // Numbers of the stored chunks.
	// Missing numbers up to total_expected or below the last chunk; at most 1000.
	Missing      []int `json:"missing"`
	MissingCount int   `json:"missing_count"` // Number of missing chunks.
	// Number following the last chunk; the next append gets it.
	NextIndex int    `json:"next_index"`
	Bytes     int64  `json:"bytes"`               // Total size of the chunks in bytes.
	ChunkDir  string `json:"chunk_dir,omitempty"` // Path of the chunks in the state directory.
	// True once the session was composed; it accepts no more chunks.
	Sealed     bool   `json:"sealed"`
	Separator  string `json:"separator"`             // The separator it was composed with.
	OutputPath string `json:"output_path,omitempty"` // The file it was composed into.
	// SHA-256 of that file when it was composed.
	OutputSHA256 Digest `json:"output_sha256,omitzero"`
}

// ChunkStatus reports which pieces of a session exist and which are missing. A
// second process needs this to continue where a first one died. The pieces are
// not read. Work that a dead writer left half done is completed first; a session
// whose reset was interrupted no longer exists.
//
// Errors: the common ones, [ErrBadSession], [ErrLockTimeout].
func (s *Store) ChunkStatus(ctx context.Context, r ChunkStatusRequest) (ChunkStatusResult, error) {
	return reading(ctx, s, "chunk_status", "", s.budgets.About(r, chunks.About(r.Session)...), func() (ChunkStatusResult, error) {
		sess, err := s.chunks.Look(ctx, r.Session)
		if err != nil {
			return ChunkStatusResult{}, err
		}
		return statusOf(sess), nil
	})
}

func statusOf(sess *chunks.Session) ChunkStatusResult {
	out := ChunkStatusResult{
		Session: sess.Name, Exists: sess.Found, CreatedAt: timestamp(sess.Manifest.CreatedAt), TotalExpected: sess.Total(), PresentIndices: sess.Indices(),
		NextIndex: sess.Next(), Bytes: sess.Bytes(), Separator: sess.Manifest.Separator,
	}
	out.Missing, out.MissingCount = sess.Missing()
	if sess.Found {
		out.ChunkDir = engine.StateDirName + "/" + chunks.SessionObject(sess.Name)
	}
	if seal := sess.Manifest.Sealed; seal != nil {
		out.Sealed, out.OutputPath, out.OutputSHA256 = true, seal.OutputPath, digest(seal.SHA256)
	}
	return out
}

// ChunkPreviewRequest asks for what a compose would write.
type ChunkPreviewRequest struct {
	Session string `json:"session" required:"true"` // Name of the session.
	// Text inserted between chunks. Default: none or, for a session that was
	// composed before, the separator used then.
	Separator *string `json:"separator,omitempty"`
	// Maximum bytes of content to return; 0 means 1 MiB.
	MaxBytes int64 `json:"max_bytes,omitempty" min:"0"`
	Offset   int64 `json:"offset,omitempty" min:"0"` // Offset of the first byte to return.
	// How content is returned. Use base64 for bytes that are not UTF-8 text.
	_ schema.Encoding `wire:"encoding,omitempty" enum:"utf-8,base64" default:"utf-8"`
	// Also return the risk score of the whole file, as Store.RiskScore would.
	Classify bool `json:"classify,omitempty"`
	// Also check the syntax of the whole file, as Store.Validate would.
	Validate bool `json:"validate,omitempty"`
	// Intended path of the file. Policy exceptions for that path apply, and its
	// extension selects the format.
	TargetPath string `json:"target_path,omitempty"`
}

// ChunkPreviewResult is what a compose would write.
type ChunkPreviewResult struct {
	Session string `json:"session"` // Name of the session.
	Preview bool   `json:"preview"` // Always true: nothing was written.
	Content []byte `json:"content"` // The requested bytes, as text or base64.
	// How content is encoded.
	_ schema.Encoding `wire:"encoding" enum:"utf-8,base64"`
	// Offset of the first byte returned.
	Offset     int64 `json:"offset"`
	Truncated  bool  `json:"truncated"`   // True when the file continues after the returned bytes.
	ChunkCount int   `json:"chunk_count"` // Number of stored chunks.
	// SHA-256 of each piece, in order.
	ChunkHashes []Digest `json:"chunk_hashes"`
	TotalBytes  int64    `json:"total_bytes"` // Size of the composed file in bytes.
	// SHA-256 of the composed file; pass it as expected_sha256 of
	// Store.ChunkCompose.
	SHA256  Digest `json:"sha256"`
	Missing []int  `json:"missing"` // Missing numbers; a compose would be refused. At most 1000.
	// With classify: the risk of the composed file.
	Risk *RiskScoreResult `json:"risk,omitempty"`
	// With validate: whether the composed file is well formed; absent when it is
	// too large to check.
	Validation *ValidateResult `json:"validation,omitempty"`
}

// ChunkPreview reads what a compose of the stored pieces would write, or a part
// of it, with the hash of each piece and of the whole. Nothing is written. Every
// piece is compared with the hash that was recorded when it was stored.
//
// Errors: the common ones, [ErrBadSession], [ErrTooLarge],
// [ErrSessionNotFound], [ErrNoChunksFound], [ErrHashDriftOnRead] for a piece
// that was changed on disk, naming its number, the path details for a target
// path that is invalid, [ErrLockTimeout].
func (s *Store) ChunkPreview(ctx context.Context, r ChunkPreviewRequest) (ChunkPreviewResult, error) {
	return reading(ctx, s, "chunk_preview", "", s.budgets.About(r, chunks.About(r.Session)...), func() (out ChunkPreviewResult, err error) {
		if e := cmp.Or(checkWindow(r.Offset, &r.MaxBytes), chunks.CheckSeparator(r.Separator)); e != nil {
			return out, e
		}
		if r.TargetPath != "" {
			if r.TargetPath, _, err = relpath.Clean(r.TargetPath, s.engine.Tree.Rules); err != nil {
				return out, err
			}
		}
		for range chunks.MaxAgain { // pieces may be taken away while they are read
			if out, err = s.preview(ctx, r); !engine.IsAbsent(err) {
				break
			}
		}
		return out, err
	})
}

// checkWindow refuses a window that no reply shows.
func checkWindow(offset int64, maxBytes *int64) *fault.Fault {
	*maxBytes = cmp.Or(*maxBytes, defaultRead)
	switch {
	case *maxBytes < 0 || offset < 0:
		return fault.New(fault.InvalidArgument).Hintf("offset and max_bytes must not be negative")
	case *maxBytes > maxRead:
		return fault.New(fault.TooLarge).Hintf("read the preview in parts of at most %d bytes, with offset", maxRead)
	}
	return nil
}

// preview reads the whole once and passes it to everything that needs it.
func (s *Store) preview(ctx context.Context, r ChunkPreviewRequest) (out ChunkPreviewResult, err error) {
	sum, part, whole := engine.NewDigest(), &excerpt.Window{From: r.Offset, Left: r.MaxBytes}, &excerpt.Window{Left: gate.MaxValidated}
	sinks := []io.Writer{sum, part}
	opt := s.gate.Policy().Options(r.TargetPath)
	ctx = s.gate.Bounded(ctx)
	opt.Context = ctx
	stream := s.gate.Policy().Scanner().NewStream(opt)
	if r.Classify {
		sinks = append(sinks, stream)
	}
	if r.Validate {
		sinks = append(sinks, whole)
	}
	sess, err := s.chunks.Copy(ctx, r.Session, r.Separator, io.MultiWriter(sinks...))
	if err != nil {
		return out, err
	}
	out = ChunkPreviewResult{
		Session: r.Session, Preview: true, Content: part.Got, Offset: min(r.Offset, part.At), ChunkCount: len(sess.Parts),
		ChunkHashes: pieceHashes(sess), TotalBytes: part.At, SHA256: digest(sum.Hex()),
	}
	out.Missing, _ = sess.Missing()
	out.Truncated = out.Offset+int64(len(part.Got)) < part.At
	if r.Classify {
		risk := riskOf(stream.Report())
		if out.Risk = &risk; ctx.Err() != nil {
			return out, ctx.Err()
		}
	}
	if r.Validate && whole.At == int64(len(whole.Got)) {
		v, err := validated(s.gate.CheckSyntax(ctx, "", r.TargetPath, whole.Got))
		out.Validation = &v
		return out, err
	}
	return out, nil
}

// ChunkListRequest asks which sessions there are.
type ChunkListRequest struct{}

// ChunkListResult lists the sessions.
type ChunkListResult struct {
	Sessions []ChunkSession `json:"sessions"` // The sessions, sorted by name.
	Count    int            `json:"count"`    // Number of sessions.
}

// ChunkSession is one session of the list.
type ChunkSession struct {
	Session string `json:"session"` // Name of the session.
	// Total number of chunks expected; absent when not given.
	TotalExpected *int  `json:"total_expected,omitempty"`
	ChunkCount    int   `json:"chunk_count"`   // Number of stored chunks.
	MissingCount  int   `json:"missing_count"` // Number of missing chunks.
	NextIndex     int   `json:"next_index"`    // Number following the last chunk.
	Bytes         int64 `json:"bytes"`         // Total size of the chunks in bytes.
	// True once the session was composed; it accepts no more chunks.
	Sealed bool `json:"sealed"`
	// True when the session cannot be read; Store.ChunkStatus says why.
	Unreadable bool `json:"unreadable,omitempty"`
}

// ChunkList lists the kept sessions, including those that were composed and not
// cleaned up. One that cannot be read is marked and does not hide the others.
// The pieces are not read and nothing is changed on disk. Errors: the common
// ones.
func (s *Store) ChunkList(ctx context.Context, r ChunkListRequest) (ChunkListResult, error) {
	return reading(ctx, s, "chunk_list", "", r, func() (ChunkListResult, error) {
		out := ChunkListResult{Sessions: []ChunkSession{}}
		err := s.chunks.List(ctx, func(sess *chunks.Session) {
			entry := ChunkSession{Session: sess.Name, Unreadable: !sess.Found}
			if sess.Found {
				_, entry.MissingCount = sess.Missing()
				entry.TotalExpected, entry.ChunkCount, entry.NextIndex = sess.Total(), len(sess.Parts), sess.Next()
				entry.Bytes, entry.Sealed = sess.Bytes(), sess.Manifest.Sealed != nil
			}
			out.Sessions = append(out.Sessions, entry)
		})
		out.Count = len(out.Sessions)
		return out, err
	})
}

// ChunkResetRequest asks for a session to be forgotten.
type ChunkResetRequest struct {
	Call `omit:"accept_risk"`

	Session string `json:"session" required:"true"` // Name of the session.
}

// ChunkResetResult reports what was removed.
type ChunkResetResult struct {
	Receipt `json:"receipt" copies:"journal_id,status,warnings"`
	Session string `json:"session"` // Name of the session.
	// Number of chunks removed; 0 in the reply to a repeated idempotency key.
	Removed int  `json:"removed"`
	Existed bool `json:"existed"` // False when the session did not exist.
}

// ChunkReset removes a session and its pieces, composed or not, for good: pieces
// have no history. The name can be used again at once. The file that the session
// was composed into stays. A session that does not exist is no error.
//
// The first commit records that the pieces are invalid. From then on no piece of
// the old session gets into a new one, and a reset that a crash interrupts is
// completed by the next call that writes to the session. The warning chunks_left
// reports pieces that cannot be removed now.
//
// Errors: those of every write, [ErrBadSession].
func (s *Store) ChunkReset(ctx context.Context, r ChunkResetRequest) (ChunkResetResult, error) {
	req := requestOf(r.Call, "chunk_reset", r)
	if e := cmp.Or(chunks.CheckName(r.Session), checkCall(ctx, r.Call)); e != nil {
		return ChunkResetResult{}, s.refuseChunks(ctx, req, r.Session, e)
	}
	var c *commit
	begin := s.chunkCommits(ctx, req, &c)
	k, existed, removed, err := s.chunks.Reset(ctx, r.Session, begin)
	if err != nil {
		return ChunkResetResult{}, err
	}
	status := c.status()
	if existed && !r.DryRun {
		if status == StatusUnchanged {
			status = StatusSucceeded // the rest of an earlier reset is removed now
		}
		if err := s.chunks.Clear(ctx, r.Session, req.op, begin); err != nil {
			if s.engine.Poisoned.Load() {
				e := s.verbError(req.op, err)
				e.Effect = EffectUnknown // the chunks count no more, but the next Open decides
				return ChunkResetResult{}, e
			}
			k.Manifest.Warn(call.WarnChunksLeft)
		}
	}
	rec := c.receipt(k.Manifest, status)
	rec.SHA256, rec.Bytes = digest(""), 0 // of a session that is gone
	c.deliver(rec)
	return ChunkResetResult{Receipt: rec, Session: r.Session, Removed: removed, Existed: existed}, nil
}
