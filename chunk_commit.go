package resilientwrite

import (
	"context"
	"path"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
	"github.com/resilientwrite/resilientwrite/internal/layer/chunks"
)

// chunkCall is one commit of a session. Each call holds the manifest, so a commit
// that a dead writer left is completed by the next call on the session.
type chunkCall struct {
	s        *Store
	c        *commit
	session  string
	manifest *engine.Mutation

	resetting bool // the call is the one that deals with a pending reset

	// What the plan found.
	index int
	next  int
	total *int

	// again is what must be done, without the locks, before the call can be
	// decided. The commit then ends without a change.
	again func(context.Context) error
}

// newChunkCall makes the commit of first and the manifest, under the lock of
// the session.
func (s *Store) newChunkCall(ctx context.Context, req request, session string, first ...*engine.Mutation) *chunkCall {
	k := &chunkCall{s: s, c: s.newCommit(ctx, req), session: session}
	k.manifest = engine.NewObject(chunks.ManifestObject(session), "manifest", engine.OpOverwrite)
	k.manifest.Ungated = true // names and hashes of ours
	k.c.Muts = append(first, k.manifest)
	k.c.Also = []string{chunks.Lock(session)}
	return k
}

// runChunk completes a call. It also completes what a crash left of an earlier
// one.
func (s *Store) runChunk(ctx context.Context, build func() *chunkCall) (*chunkCall, error) {
	var k *chunkCall
	for range chunks.MaxAgain {
		k = build()
		if err := k.clearWay(ctx); err != nil {
			return k, k.c.Failed(err)
		}
		// What was refused before may be tried again when the session changed.
		k.c.gateKey = s.gateFor(ctx).String()
		asked := k.c.call()
		asked.Hash += "\x00" + s.stateOfSession(k.session)
		k.c.asked = &asked
		if err := s.commit(ctx, k.c); err != nil {
			return k, err
		}
		if k.again == nil {
			return k, nil
		}
		if err := k.again(ctx); err != nil {
			return k, k.c.Failed(err)
		}
	}
	return k, k.c.Failed(fault.New(fault.IOBusy).Hintf("the session keeps changing; try again later"))
}

// see reads the session, under its lock. nil means that the plan is finished: the
// idempotency key answers the call, or something must be done first. A dead
// writer may have left the session half changed, so that is checked before
// anything is judged.
func (k *chunkCall) see(context.Context) (*chunks.Session, error) {
	s, c := k.s, k.c
	if err := s.engine.Log.CatchUp(); err != nil {
		return nil, err
	}
	if c.Req.Key != "" {
		done, err := c.Replay()
		if err != nil {
			return nil, err
		}
		if done {
			if sess, err := s.chunks.Read(k.session); err == nil {
				k.next, k.total = sess.Next(), sess.Total()
			}
			return nil, nil
		}
	}
	left, err := s.engine.LeftBehind([]string{k.manifest.Target.Path})
	if err != nil {
		return nil, err
	}
	if left != nil {
		return nil, k.later(func(ctx context.Context) error { return s.chunks.FinishLeft(ctx, left) })
	}
	sess, err := s.chunks.Read(k.session)
	if err != nil {
		return nil, err
	}
	return k.clean(sess)
}

// clean completes or removes stale work in a session before it is used.
func (k *chunkCall) clean(sess *chunks.Session) (*chunks.Session, error) {
	s, c := k.s, k.c
	switch {
	case sess.Manifest.ResetPending && k.resetting:
	case sess.Manifest.ResetPending && c.Req.DryRun:
		return sess.Gone(), nil
	case sess.Manifest.ResetPending:
		return nil, k.later(func(ctx context.Context) error {
			return s.clearSession(ctx, c.Req.Op, c.Req.Caller, k.session)
		})
	}
	if len(sess.Odd) > 0 && !c.Req.DryRun {
		return nil, k.later(func(ctx context.Context) error { return s.chunks.SetAside(ctx, k.session, sess.Odd) })
	}
	return sess, nil
}

// clearWay resolves the names that the call begins with, so that none leads
// elsewhere, before the session is read under its lock.
func (k *chunkCall) clearWay(ctx context.Context) error {
	if k.c.Req.DryRun || k.s.opts.ReadOnly {
		return nil
	}
	dir, err := k.s.chunks.OpenDir(k.session)
	if dir == nil || err != nil {
		return err
	}
	defer dir.Close()
	var odd []string
	for _, m := range k.c.Muts {
		name := path.Base(m.Object)
		if st, err := dir.Lstat(name); m.Private && err == nil && st.Kind != fsx.Regular {
			odd = append(odd, name)
		}
	}
	if odd == nil {
		return nil
	}
	return k.s.chunks.SetAside(ctx, k.session, odd)
}

// occupied reports whether something other than a file is at the path of a piece.
// It is then moved away first.
func (k *chunkCall) occupied(index int) (bool, error) {
	dir, err := k.s.chunks.OpenDir(k.session)
	if dir == nil || err != nil {
		return false, err
	}
	defer dir.Close()
	name := chunks.PartName(index)
	st, err := dir.Lstat(name)
	if err != nil || st.Kind == fsx.Regular || k.c.Req.DryRun {
		return false, nil
	}
	return true, k.later(func(ctx context.Context) error { return k.s.chunks.SetAside(ctx, k.session, []string{name}) })
}

// later ends the commit without doing anything; the call is made again after f.
func (k *chunkCall) later(f func(context.Context) error) error {
	k.again = f
	k.drop()
	return nil
}

// drop leaves the commit without mutations.
func (k *chunkCall) drop() {
	for _, m := range k.c.Muts {
		m.Target.Close()
	}
	k.c.Muts = nil
}

// stateOfSession summarizes the current state of a session.
func (s *Store) stateOfSession(session string) string {
	if chunks.CheckName(session) != nil {
		return "none"
	}
	dir, err := s.chunks.OpenDir(session)
	if dir == nil || err != nil {
		return budget.Absent
	}
	defer dir.Close()
	var state []any
	if st, err := dir.Stat(); err == nil {
		state = append(state, st.Ino, st.Mtime)
	}
	if st, err := dir.Lstat(chunks.ManifestName); err == nil {
		state = append(state, st.Ino, st.Size, st.Mtime)
	}
	return requestHash(state)
}
