package resilientwrite

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/layer/chunks"
)

// ChunkComposeRequest asks for the pieces of a session to become one file.
type ChunkComposeRequest struct {
	Call

	// Name of the session.
	Session string `json:"session" required:"true"`
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
	// Allow a read-only file to be replaced.
	Force bool `json:"force,omitempty"`
}

// ChunkComposeResult reports what was composed.
type ChunkComposeResult struct {
	// Name of the session.
	Session string `json:"session"`
	// Path of the file, relative to the workspace.
	OutputPath string `json:"output_path"`
	// SHA-256 of the file.
	SHA256 Digest `json:"sha256"`
	// Size of the file in bytes.
	Bytes int64 `json:"bytes"`
	// Number of chunks composed; 0 in the reply to a repeated idempotency key
	// once the session is gone.
	ChunkCount int `json:"chunk_count"`
	// SHA-256 of each chunk, in order; empty in the reply to a repeated
	// idempotency key once the session is gone.
	ChunkHashes []Digest `json:"chunk_hashes"`
	// Identifier of the journal row; absent when nothing was written.
	JournalID string `json:"journal_id,omitempty"`
	// True when the session was removed.
	CleanedUp bool `json:"cleaned_up"`
	// Unified diff, truncated when long; dry run only.
	Diff string `json:"diff,omitempty"`
	// Outcome of the call.
	Status Status `json:"status" enum:"succeeded,unchanged,replayed"`
	// What the caller should know although the call succeeded.
	Warnings []Warning `json:"warnings"`
	// The full record of the call.
	Receipt Receipt `json:"receipt"`
}

const maxSeparator = 4096 // bytes

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
// Errors: [ErrBadSession], [ErrInvalidArgument], [ErrBadSHA256], [ErrSessionNotFound],
// [ErrNoChunksFound], [ErrNonContiguous] and [ErrChunkCountMismatch] when pieces are
// missing, [ErrHashDriftOnRead] for a piece that was changed on disk, naming its
// number, [ErrHashMismatch] for either expected hash, [ErrFileAlreadyExists],
// [ErrDestructiveShrink], [ErrReadOnlyFile], [ErrSyntaxInvalid], [ErrRiskBlocked] (the
// draft is kept), the path details, [ErrIdempotencyKeyReused], [ErrLockTimeout],
// [ErrIOBusy], [ErrChangedDuringWrite], [ErrBadStateDir], [ErrRetryExhausted], the storage
// details, [ErrStorePoisoned], [ErrStoreClosed], [ErrStoreReadOnly], [ErrCanceled].
// The pieces stay as they are; the file does unless Effect says otherwise.
func (s *Store) ChunkCompose(ctx context.Context, r ChunkComposeRequest) (ChunkComposeResult, error) {
	if r.Mode == "" {
		r.Mode = ModeOverwrite
	}
	if e := r.check(ctx); e != nil {
		c := s.newCommit(ctx, r.request())
		c.Muts = []*engine.Mutation{{Path: r.OutputPath, Op: engine.WriteOp(r.Mode)}}
		return ChunkComposeResult{}, c.Failed(e)
	}
	ctx, _, end := metered(ctx)
	defer end()
	var p *composition
	k, err := s.runChunk(ctx, func() *chunkCall {
		p = s.newComposition(ctx, r)
		return p.chunkCall
	})
	if err != nil {
		return ChunkComposeResult{}, err
	}
	return p.result(ctx, k.c.status())
}

func (r *ChunkComposeRequest) request() request {
	return r.Call.request("chunk_compose", *r)
}

// check validates the arguments that need no access to the disk.
func (r *ChunkComposeRequest) check(ctx context.Context) *fault.Fault {
	if e := chunks.CheckName(r.Session); e != nil {
		return e
	}
	if r.Mode != ModeOverwrite && r.Mode != ModeCreate {
		return badChoice("mode", "overwrite", "create")
	}
	if p := r.Separator; p != nil && (len(*p) > maxSeparator || !utf8.ValidString(*p)) {
		return fault.New(fault.InvalidArgument).Hintf("separator must be valid UTF-8 of at most %d bytes", maxSeparator).With("argument", "separator")
	}
	return r.Call.check(ctx)
}

// composition is a compose in progress.
type composition struct {
	*chunkCall
	r    ChunkComposeRequest
	out  *engine.Mutation
	sess *chunks.Session // what was composed
}

// newComposition makes the commit of the file and the seal.
func (s *Store) newComposition(ctx context.Context, r ChunkComposeRequest) *composition {
	m := &engine.Mutation{
		Path: r.OutputPath, Op: engine.WriteOp(r.Mode), Kind: "compose", Object: chunks.SessionObject(r.Session),
		AllowShrink: r.AllowShrink, Force: r.Force, Validate: r.Validate, Expected: r.Expect.hash(),
	}
	p := &composition{chunkCall: s.newChunkCall(ctx, r.request(), r.Session, m), r: r, out: m}
	p.c.Plan = p.plan
	return p
}

// plan joins the pieces under the lock of the session. It composes the pieces
// that exist when the commit happens.
func (p *composition) plan(ctx context.Context) error {
	p.unspool()
	sess, err := p.see(ctx)
	if sess == nil || err != nil {
		return err
	}
	if err := p.complete(sess); err != nil {
		return err
	}
	sep := sess.Manifest.Separator
	if p.r.Separator != nil {
		sep = *p.r.Separator
	}
	sum, err := p.spool(ctx, sess, sep)
	if err != nil {
		return err
	}
	if want := p.r.ExpectedSHA256.String(); want != "" && want != sum {
		return fault.New(fault.HashMismatch).With("expected_sha256", want).With("actual_sha256", sum).
			Hintf("the chunks do not produce the expected file; compare chunk_hashes of Store.ChunkPreview with what you sent")
	}
	p.sess = sess
	sess.Manifest.Separator = sep
	sess.Manifest.Sealed = &chunks.Seal{OutputPath: p.out.Path, SHA256: sum, Bytes: p.out.Content.Size()}
	if sess.Manifest.ResetPending = p.r.Cleanup; p.r.Cleanup {
		p.manifest.Kind = chunks.OpReset
	}
	if p.r.DryRun { // the diff is that of the file
		p.manifest.Target.Close()
		p.c.Muts = p.c.Muts[:1]
	}
	return chunks.HoldManifest(p.manifest, sess)
}

// spool reads the pieces into the content of the file.
func (p *composition) spool(ctx context.Context, sess *chunks.Session, sep string) (string, error) {
	dir, err := p.s.chunks.OpenDir(p.session)
	if err != nil {
		return "", err
	}
	if dir == nil {
		return "", fault.New(fault.SessionNotFound)
	}
	defer dir.Close()
	src := p.s.chunks.Join(dir, sess, sep)
	defer src.Close()
	meterOf(ctx).work(StageCompose, sess.Bytes(), fmt.Sprintf("joining %d chunks", len(sess.Parts)))
	return p.s.take(ctx, p.c, p.out, src)
}

// unspool releases what an earlier plan of this commit has read.
func (p *composition) unspool() {
	m := p.out
	m.DropSpooled()
	m.Content, m.Measured = engine.Body{}, nil
}

// complete refuses a session that lacks pieces.
func (p *composition) complete(sess *chunks.Session) error {
	switch {
	case !sess.Found:
		return p.notFound()
	case len(sess.Parts) == 0:
		return fault.New(fault.NoChunksFound).With("session", sess.Name)
	}
	count, total := len(sess.Parts), sess.Manifest.TotalExpected
	missing, n := sess.Missing()
	if have := sess.Indices(); count != sess.Next()-1 { // there are gaps
		unexpected := []int{}
		for _, i := range have {
			if total > 0 && i > total && len(unexpected) < chunks.MaxMissing {
				unexpected = append(unexpected, i)
			}
		}
		return fault.New(fault.NonContiguous).With("session", sess.Name).With("have", have[:min(count, chunks.MaxMissing)]).
			With("missing", missing).With("missing_count", n).With("unexpected", unexpected)
	}
	if total > 0 && count != total {
		return fault.New(fault.ChunkCountMismatch).With("session", sess.Name).With("have", count).With("total_expected", total)
	}
	return nil
}

// notFound refuses a session that does not exist. If it was composed and cleaned
// up recently, the journal has the outcome.
func (p *composition) notFound() error {
	e := fault.New(fault.SessionNotFound).With("session", p.session)
	rec := p.s.chunks.NewestRow(chunks.ManifestObject(p.session))
	for range 8192 { // rows of the removal
		if rec == nil {
			return e
		}
		var before uint64
		for _, m := range rec.Muts {
			if m.Op == "compose" && m.Object == chunks.SessionObject(p.session) {
				e.With("composed", map[string]any{"output_path": m.Path, "sha256": m.SHA256, "journal_seq": rec.Seq})
				return e.Hintf("already_applied: the session was composed into %s and removed", m.Path)
			}
			if m.Object == chunks.ManifestObject(p.session) && (m.Op == chunks.OpReset || m.SHA256 == "") {
				before = m.PrevSeq
			}
		}
		if before == 0 || before >= rec.Seq {
			return e
		}
		var err error
		if rec, err = p.s.engine.Log.Find(before); err != nil {
			return e
		}
	}
	return e
}

// result removes the session if requested, and makes the reply.
func (p *composition) result(ctx context.Context, status Status) (ChunkComposeResult, error) {
	out := ChunkComposeResult{Session: p.session, ChunkHashes: digests([]string{}), Status: status, Diff: p.c.Diff}
	if p.r.Cleanup && !p.r.DryRun {
		err := p.s.clearSession(ctx, p.c.Req.Op, p.c.Req.Caller, p.session)
		if err != nil {
			p.out.Warn(WarnChunksLeft)
		}
		out.CleanedUp = err == nil
	}
	r := p.c.receipt(p.out, status)
	p.c.deliver(r)
	out.OutputPath, out.SHA256, out.Bytes = r.Path, r.SHA256, r.Bytes
	out.JournalID, out.Warnings, out.Receipt = r.JournalID, r.Warnings, r
	if p.sess == nil { // replayed: the session knows, while it is there
		if sess, err := p.s.chunks.Read(p.session); err == nil && sess.Manifest.Sealed != nil && digest(sess.Manifest.Sealed.SHA256) == r.SHA256 {
			p.sess = sess
		}
	}
	if p.sess != nil {
		out.ChunkCount = len(p.sess.Parts)
		for _, part := range p.sess.Parts {
			out.ChunkHashes = append(out.ChunkHashes, digest(part.SHA256))
		}
	}
	return out, nil
}
