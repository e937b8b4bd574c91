package chunks

import (
	"context"
	"io"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
)

const maxSeparator = 4096 // bytes

// CheckSeparator refuses a text that cannot be inserted between chunks.
func CheckSeparator(text *string) *fault.Fault {
	if text == nil || len(*text) <= maxSeparator && utf8.ValidString(*text) {
		return nil
	}
	return fault.New(fault.InvalidArgument).Hintf("separator must be valid UTF-8 of at most %d bytes", maxSeparator).With("argument", "separator")
}

// Compose asks for the pieces of a session to become one file.
type Compose struct {
	Session   string
	File      func() *engine.Mutation // makes the mutation of the file, without its content
	Separator *string                 // nil: that of the session
	SHA256    string                  // the file must have; "": any
	Cleanup   bool                    // the pieces count no more

	// Take reads the joined pieces into the content of the file and returns its hash.
	Take func(ctx context.Context, m *engine.Mutation, sess *Session, src io.Reader) (string, error)
}

// Compose commits the file and the seal of the session, and clears the session if
// requested; left is why that failed. It returns the session that was composed, nil if
// the idempotency key has answered and the session is gone.
func (s *Layer) Compose(ctx context.Context, r Compose, begin Begin) (sess *Session, left, err error) {
	var k *Call
	err = s.run(ctx, r.Session, false, begin, func(now *Call) {
		k = now
		m := r.File()
		k.Muts = []*engine.Mutation{m}
		k.Plan = func(ctx context.Context) (err error) {
			sess, err = now.planCompose(ctx, r, m)
			return err
		}
	})
	if err != nil {
		return nil, nil, err
	}
	if r.Cleanup && !k.Req.DryRun {
		left = s.Clear(ctx, r.Session, k.Req.Op, begin)
	}
	if sess == nil && k.Replayed != nil { // it knows, while it is there
		if now, err := s.Read(r.Session); err == nil && now.Manifest.Sealed != nil && now.Manifest.Sealed.SHA256 == k.Replayed.Muts[0].SHA256 {
			sess = now
		}
	}
	return sess, left, nil
}

// planCompose joins the pieces under the lock of the session. It composes the pieces
// that exist when the commit happens.
func (k *Call) planCompose(ctx context.Context, r Compose, m *engine.Mutation) (*Session, error) {
	m.DropSpooled() // what an earlier plan of this commit has read
	m.Content, m.Measured = engine.Body{}, nil
	sess, err := k.see()
	if sess == nil || err != nil {
		return nil, err
	}
	if err := k.complete(sess); err != nil {
		return nil, err
	}
	src, err := k.s.join(sess, r.Separator)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	sum, err := r.Take(ctx, m, sess, src)
	if err != nil {
		return nil, err
	}
	if r.SHA256 != "" && r.SHA256 != sum {
		return nil, fault.New(fault.HashMismatch).With("expected_sha256", r.SHA256).With("actual_sha256", sum).
			Hintf("the chunks do not produce the expected file; compare chunk_hashes of Store.ChunkPreview with what you sent")
	}
	sess.Manifest.Sealed = &Seal{OutputPath: m.Path, SHA256: sum, Bytes: m.Content.Size()}
	if sess.Manifest.ResetPending = r.Cleanup; r.Cleanup {
		k.Manifest.Kind = OpReset
	}
	if k.Req.DryRun { // the diff is that of the file
		k.Manifest.Target.Close()
		k.Muts = k.Muts[:1]
	}
	return sess, HoldManifest(k.Manifest, sess)
}

// complete refuses a session that lacks pieces.
func (k *Call) complete(sess *Session) error {
	switch {
	case !sess.Found:
		return k.notFound()
	case len(sess.Parts) == 0:
		return fault.New(fault.NoChunksFound).With("session", sess.Name)
	}
	count, total := len(sess.Parts), sess.Manifest.TotalExpected
	missing, n := sess.Missing()
	if have := sess.Indices(); count != sess.Next()-1 { // there are gaps
		unexpected := []int{}
		for _, i := range have {
			if total > 0 && i > total && len(unexpected) < maxMissing {
				unexpected = append(unexpected, i)
			}
		}
		return fault.New(fault.NonContiguous).With("session", sess.Name).With("have", have[:min(count, maxMissing)]).
			With("missing", missing).With("missing_count", n).With("unexpected", unexpected)
	}
	if total > 0 && count != total {
		return fault.New(fault.ChunkCountMismatch).With("session", sess.Name).With("have", count).With("total_expected", total)
	}
	return nil
}

// notFound refuses a session that does not exist. If it was composed and cleaned
// up recently, the journal has the outcome.
func (k *Call) notFound() error {
	e := fault.New(fault.SessionNotFound).With("session", k.session)
	rec, err := k.s.NewestRow(ManifestObject(k.session))
	if err != nil {
		return err
	}
	for range 8192 { // rows of the removal
		if rec == nil {
			return e
		}
		var before uint64
		for _, m := range rec.Muts {
			if m.Op == "compose" && m.Object == SessionObject(k.session) {
				e.With("composed", map[string]any{"output_path": m.Path, "sha256": m.SHA256, "journal_seq": rec.Seq})
				return e.Hintf("already_applied: the session was composed into %s and removed", m.Path)
			}
			if m.Object == ManifestObject(k.session) && (m.Op == OpReset || m.SHA256 == "") {
				before = m.PrevSeq
			}
		}
		if before == 0 || before >= rec.Seq {
			return e
		}
		if rec, err = k.s.Log.Find(before); err != nil {
			return e
		}
	}
	return e
}

// clearAtOnce is how many pieces one commit takes away.
const clearAtOnce = 255

// Reset records that the pieces of a session are invalid, in the commit that k is
// afterwards. Clear removes them. pieces is how many there were.
func (s *Layer) Reset(ctx context.Context, session string, begin Begin) (k *Call, existed bool, pieces int, err error) {
	err = s.run(ctx, session, false, begin, func(now *Call) {
		k = now
		k.Manifest.Kind, k.resetting = OpReset, true
		k.Plan = func(context.Context) (err error) {
			existed, pieces, err = k.planReset()
			return err
		}
	})
	return k, existed, pieces, err
}

// planReset makes the manifest that records that the pieces are invalid.
func (k *Call) planReset() (existed bool, pieces int, err error) {
	sess, err := k.see()
	if sess == nil || err != nil {
		return k.Replayed != nil, 0, err
	}
	if !sess.Found || sess.Manifest.ResetPending {
		return sess.Found, len(sess.Parts), k.Choose()
	}
	fresh := sess.Gone()
	fresh.Manifest.ResetPending = true
	return true, len(sess.Parts), HoldManifest(k.Manifest, fresh)
}

// Clear removes the pieces of a session whose reset is pending, then its
// manifest, then its directory. Any process may do it, and several may at once:
// each commit checks whether something is left to remove.
func (s *Layer) Clear(ctx context.Context, session, op string, begin Begin) error {
	for done := false; !done; {
		err := s.run(ctx, session, true, begin, func(k *Call) {
			k.Req.Hash = "clear\x00" + session
			k.resetting = true
			k.Plan = func(context.Context) (err error) {
				done, err = k.planClear()
				return err
			}
		})
		if err != nil {
			return err
		}
	}
	return s.withSession(ctx, session, op, func() error {
		all, err := s.StatePart(Dir)
		if all == nil || err != nil {
			return err
		}
		defer all.Close()
		all.Rmdir(session) // only when it is empty: foreign files are kept
		return nil
	})
}

// planClear removes as many pieces as one commit can, and the manifest with the
// last of them.
func (k *Call) planClear() (done bool, err error) {
	sess, err := k.see()
	if sess == nil || err != nil {
		return false, err
	}
	if !sess.Manifest.ResetPending {
		return true, k.Choose()
	}
	var muts []*engine.Mutation
	for _, p := range sess.Parts[:min(len(sess.Parts), clearAtOnce)] {
		m := engine.NewObject(PartObject(k.session, p.Index), "", engine.OpDelete)
		m.AbsentOK = true
		muts = append(muts, m)
	}
	k.Manifest.AbsentOK = true
	if err := k.Choose(append(muts, k.Manifest)...); err != nil {
		return false, err
	}
	if len(muts) == len(sess.Parts) {
		k.Manifest.Op, k.Manifest.Kind = engine.OpDelete, ""
		return true, nil
	}
	k.Manifest.Op, k.Manifest.Kind = engine.OpOverwrite, OpReset
	fresh := sess.Gone()
	fresh.Manifest.ResetPending = true
	return false, HoldManifest(k.Manifest, fresh)
}
