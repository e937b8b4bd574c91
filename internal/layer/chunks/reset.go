package chunks

import (
	"context"

	"github.com/resilientwrite/resilientwrite/internal/engine"
)

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
		if err := k.ResolveOne(m); err != nil {
			return false, err
		}
		muts = append(muts, m)
	}
	k.Muts, k.Manifest.AbsentOK = append(muts, k.Manifest), true
	if len(muts) == len(sess.Parts) {
		k.Manifest.Op, k.Manifest.Kind = engine.OpDelete, ""
		return true, nil
	}
	k.Manifest.Op, k.Manifest.Kind = engine.OpOverwrite, OpReset
	fresh := sess.Gone()
	fresh.Manifest.ResetPending = true
	return false, HoldManifest(k.Manifest, fresh)
}
