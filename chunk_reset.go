package resilientwrite

import (
	"cmp"
	"context"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/layer/chunks"
)

// ChunkResetRequest asks for a session to be forgotten.
type ChunkResetRequest struct {
	Call `omit:"accept_risk"`

	// Name of the session.
	Session string `json:"session" required:"true"`
}

// ChunkResetResult reports what was removed.
type ChunkResetResult struct {
	// Name of the session.
	Session string `json:"session"`
	// Number of chunks removed; 0 in the reply to a repeated idempotency key.
	Removed int `json:"removed"`
	// False when the session did not exist.
	Existed bool `json:"existed"`
	// Identifier of the journal row; absent when nothing was written.
	JournalID string `json:"journal_id,omitempty"`
	// Outcome of the call.
	Status Status `json:"status" enum:"succeeded,unchanged,replayed"`
	// What the caller should know although the call succeeded.
	Warnings []Warning `json:"warnings"`
	// The full record of the call.
	Receipt Receipt `json:"receipt"`
}

const (
	// clearAtOnce is how many pieces one commit takes away.
	clearAtOnce = 255
)

// ChunkReset removes a session and its pieces, composed or not, for good: pieces
// have no history. The name can be used again at once. The file that the session
// was composed into stays. A session that does not exist is no error.
//
// The first commit records that the pieces are invalid. From then on no piece of
// the old session gets into a new one, and a reset that a crash interrupts is
// completed by the next call that writes to the session. The warning chunks_left
// reports pieces that cannot be removed now.
//
// Errors: [ErrBadSession], [ErrInvalidArgument], [ErrIdempotencyKeyReused],
// [ErrLockTimeout], [ErrIOBusy], [ErrBadStateDir], [ErrRetryExhausted], the storage
// details, [ErrStorePoisoned], [ErrStoreClosed], [ErrStoreReadOnly], [ErrCanceled].
func (s *Store) ChunkReset(ctx context.Context, r ChunkResetRequest) (ChunkResetResult, error) {
	req := r.Call.request("chunk_reset", r)
	if e := cmp.Or(chunks.CheckName(r.Session), r.Call.check(ctx)); e != nil {
		c := s.newCommit(ctx, req)
		c.Muts = []*engine.Mutation{refusedObject(r.Session)}
		return ChunkResetResult{}, c.Failed(e)
	}
	out := ChunkResetResult{Session: r.Session}
	k, err := s.runChunk(ctx, func() *chunkCall {
		k := s.newChunkCall(ctx, req, r.Session)
		k.manifest.Kind = chunks.OpReset
		k.c.Plan = func(ctx context.Context) error { return k.planReset(ctx, &out) }
		return k
	})
	if err != nil {
		return ChunkResetResult{}, err
	}
	out.Status = k.c.status()
	if out.Existed && !r.DryRun {
		if out.Status == StatusUnchanged {
			out.Status = StatusSucceeded // the rest of an earlier reset is removed now
		}
		if err := s.clearSession(ctx, req.op, req.caller, r.Session); err != nil {
			if s.engine.Poisoned.Load() {
				e := s.verbError(req.op, err)
				e.Effect = EffectUnknown // the chunks count no more, but the next Open decides
				return ChunkResetResult{}, e
			}
			k.manifest.Warn(WarnChunksLeft)
		}
	}
	rec := k.c.receipt(k.manifest, out.Status)
	rec.SHA256, rec.Bytes = digest(""), 0 // of a session that is gone
	k.c.deliver(rec)
	out.JournalID, out.Warnings, out.Receipt = rec.JournalID, rec.Warnings, rec
	return out, nil
}

// planReset makes the manifest that records that the pieces are invalid.
func (k *chunkCall) planReset(ctx context.Context, out *ChunkResetResult) error {
	out.Existed, out.Removed = false, 0
	k.resetting = true
	sess, err := k.see(ctx)
	if sess == nil || err != nil {
		out.Existed = k.c.Replayed != nil
		return err
	}
	out.Existed, out.Removed = sess.Found, len(sess.Parts)
	if !sess.Found || sess.Manifest.ResetPending {
		k.drop()
		return nil
	}
	fresh := sess.Gone()
	fresh.Manifest.ResetPending = true
	return chunks.HoldManifest(k.manifest, fresh)
}

// clearSession removes the pieces of a session whose reset is pending, then its
// manifest, then its directory. Any process may do it, and several may at once:
// each commit checks whether something is left to remove.
func (s *Store) clearSession(ctx context.Context, op, caller, session string) error {
	for done := false; !done; {
		_, err := s.runChunk(ctx, func() *chunkCall {
			k := s.newChunkCall(ctx, request{op: op, caller: caller}, session)
			k.c.Req.Hash = "clear\x00" + session
			k.resetting = true
			k.c.Plan = func(ctx context.Context) error { return k.planClear(ctx, &done) }
			return k
		})
		if err != nil {
			return err
		}
	}
	return s.chunks.WithSession(ctx, session, op, func() error {
		chunks, err := s.chunks.OpenAll()
		if chunks == nil || err != nil {
			return err
		}
		defer chunks.Close()
		chunks.Rmdir(session) // only when it is empty: foreign files are kept
		return nil
	})
}

// planClear removes as many pieces as one commit can, and the manifest with the
// last of them.
func (k *chunkCall) planClear(ctx context.Context, done *bool) error {
	*done = false
	sess, err := k.see(ctx)
	if sess == nil || err != nil {
		return err
	}
	if !sess.Manifest.ResetPending {
		*done = true
		k.drop()
		return nil
	}
	var muts []*engine.Mutation
	for _, p := range sess.Parts[:min(len(sess.Parts), clearAtOnce)] {
		m := engine.NewObject(chunks.PartObject(k.session, p.Index), "", engine.OpDelete)
		m.AbsentOK = true
		if err := k.c.ResolveOne(m); err != nil {
			return err
		}
		muts = append(muts, m)
	}
	k.manifest.Op, k.manifest.AbsentOK = engine.OpOverwrite, true
	if *done = len(muts) == len(sess.Parts); *done {
		k.manifest.Op, k.manifest.Kind = engine.OpDelete, ""
	} else {
		k.manifest.Kind = chunks.OpReset
		fresh := sess.Gone()
		fresh.Manifest.ResetPending = true
		if err := chunks.HoldManifest(k.manifest, fresh); err != nil {
			return err
		}
	}
	k.c.Muts = append(muts, k.manifest)
	return nil
}
