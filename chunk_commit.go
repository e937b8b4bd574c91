package resilientwrite

import (
	"context"
	"path"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// chunkCall is one commit of a session. Each holds the manifest, so a commit
// that a dead writer left is met by whoever comes next to the session.
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
	// decided. The commit then ends without having done anything.
	again func(context.Context) error
}

// newChunkCall makes the commit of first and the manifest, under the lock of
// the session.
func (s *Store) newChunkCall(ctx context.Context, req request, session string, first ...*engine.Mutation) *chunkCall {
	k := &chunkCall{s: s, c: s.newCommit(ctx, req), session: session}
	k.manifest = engine.NewObject(manifestObject(session), "manifest", engine.OpOverwrite)
	k.manifest.Ungated = true // names and hashes of ours
	k.c.Muts = append(first, k.manifest)
	k.c.Also = []string{sessionLock(session)}
	return k
}

func sessionLock(session string) string { return "chunks\x00" + relpath.Key(session) }

// maxAgain is how often a call is made anew because of what others left.
const maxAgain = 16

// runChunk takes a call to its end. What a crash left of an earlier one is
// dealt with on the way.
func (s *Store) runChunk(ctx context.Context, build func() *chunkCall) (*chunkCall, error) {
	var k *chunkCall
	for range maxAgain {
		k = build()
		if err := k.clearWay(ctx); err != nil {
			return k, k.c.Failed(err)
		}
		// What was refused before may be tried again when the session changed.
		k.c.under = s.gateFor(ctx).String()
		asked := k.c.call()
		asked.hash += "\x00" + s.stateOfSession(k.session)
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

// see looks at the session, under its lock. nil means that the plan is over:
// the idempotency key had done the call before, or something must be done
// first. What a plan sees may be the work of a dead writer, half done, so that
// is looked for before anything is judged.
func (k *chunkCall) see(context.Context) (*chunkSession, error) {
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
			if sess, err := s.readSession(k.session); err == nil {
				k.next, k.total = sess.next(), sess.total()
			}
			return nil, nil
		}
	}
	left, err := s.engine.LeftBehind([]string{k.manifest.Target.Path})
	if err != nil {
		return nil, err
	}
	if left != nil {
		return nil, k.later(func(ctx context.Context) error { return s.finishLeft(ctx, left) })
	}
	sess, err := s.readSession(k.session)
	if err != nil {
		return nil, err
	}
	return k.clean(sess)
}

// clean sees to it that nothing stale is in a session before it is used.
func (k *chunkCall) clean(sess *chunkSession) (*chunkSession, error) {
	s, c := k.s, k.c
	switch {
	case sess.manifest.ResetPending && k.resetting:
	case sess.manifest.ResetPending && c.Req.DryRun:
		return sess.gone(), nil
	case sess.manifest.ResetPending:
		return nil, k.later(func(ctx context.Context) error {
			return s.clearSession(ctx, c.Req.Op, c.Req.Caller, k.session)
		})
	}
	if len(sess.odd) > 0 && !c.Req.DryRun {
		return nil, k.later(func(ctx context.Context) error { return s.setAside(ctx, k.session, sess.odd) })
	}
	return sess, nil
}

// clearWay sees to it that the names the call begins with lead nowhere else:
// they are resolved before the session can be looked at under its lock.
func (k *chunkCall) clearWay(ctx context.Context) error {
	if k.c.Req.DryRun || k.s.opts.ReadOnly {
		return nil
	}
	dir, err := k.s.openSession(k.session)
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
	return k.s.setAside(ctx, k.session, odd)
}

// occupied looks whether something that is no file stands where a piece is to
// be written. It is then moved out of the way first.
func (k *chunkCall) occupied(index int) (bool, error) {
	dir, err := k.s.openSession(k.session)
	if dir == nil || err != nil {
		return false, err
	}
	defer dir.Close()
	name := partName(index)
	st, err := dir.Lstat(name)
	if err != nil || st.Kind == fsx.Regular || k.c.Req.DryRun {
		return false, nil
	}
	return true, k.later(func(ctx context.Context) error { return k.s.setAside(ctx, k.session, []string{name}) })
}

// later ends the commit without doing anything; the call is made anew after f.
func (k *chunkCall) later(f func(context.Context) error) error {
	k.again = f
	k.drop()
	return nil
}

// drop leaves the commit with nothing to do.
func (k *chunkCall) drop() {
	for _, m := range k.c.Muts {
		m.Target.Close()
	}
	k.c.Muts = nil
}

// finishLeft brings the commit of a dead writer to its end.
func (s *Store) finishLeft(ctx context.Context, rec *journal.Record) error {
	if err := s.engine.Enter(); err != nil {
		return err
	}
	defer s.engine.Leave()
	return s.engine.FinishDead(ctx, rec, new(engine.Report))
}

// settleSession finishes what a dead writer left of a session, so that what is
// read next is what will stay.
func (s *Store) settleSession(ctx context.Context, session string) error {
	if s.engine.Log == nil {
		return nil
	}
	if err := s.engine.Log.CatchUp(); err != nil {
		return err
	}
	if s.opts.ReadOnly || s.engine.Poisoned.Load() {
		return nil
	}
	manifest := engine.StateDirName + "/" + manifestObject(session)
	for range maxAgain {
		left, err := s.engine.LeftBehind([]string{manifest})
		if left == nil || err != nil {
			return err
		}
		if err := s.engine.FinishDead(ctx, left, new(engine.Report)); err != nil {
			return err
		}
	}
	return nil
}

// withSession runs fn while nobody else changes the session.
func (s *Store) withSession(ctx context.Context, session, what string, fn func() error) error {
	if err := s.engine.Enter(); err != nil {
		return err
	}
	defer s.engine.Leave()
	manifest := engine.StateDirName + "/" + manifestObject(session)
	unlock, err := s.engine.Locks.Names(ctx, s.opts.LockTimeout, what, sessionLock(session), engine.PathLock(manifest))
	if err != nil {
		return err
	}
	defer unlock()
	return fn()
}

// setAside moves what has a name of ours and is no file of ours into
// quarantine: it may not keep anybody from the pieces.
func (s *Store) setAside(ctx context.Context, session string, names []string) error {
	return s.withSession(ctx, session, "quarantine", func() error {
		dir, err := s.openSession(session)
		if dir == nil || err != nil {
			return err
		}
		defer dir.Close()
		to, err := s.engine.OpenPart("quarantine")
		if err != nil {
			return err
		}
		defer to.Close()
		for _, name := range names {
			st, err := dir.Lstat(name)
			if engine.IsAbsent(err) || err == nil && st.Kind == fsx.Regular {
				continue
			}
			if err != nil {
				return err
			}
			if err := dir.RenameNoReplace(name, to, "chunk-"+s.engine.NewCommitID()+"-"+session+"-"+name); err != nil && !engine.IsAbsent(err) {
				return err
			}
		}
		if s.opts.Sync == SyncOff {
			return nil
		}
		return s.engine.Together(func() error { return s.engine.SyncDir(to) }, func() error { return s.engine.SyncDir(dir) })
	})
}

// stateOfSession tells in a few words what a session is like now.
func (s *Store) stateOfSession(session string) string {
	if checkSession(session) != nil {
		return "none"
	}
	dir, err := s.openSession(session)
	if dir == nil || err != nil {
		return stateAbsent
	}
	defer dir.Close()
	var state []any
	if st, err := dir.Stat(); err == nil {
		state = append(state, st.Ino, st.Mtime)
	}
	if st, err := dir.Lstat(manifestName); err == nil {
		state = append(state, st.Ino, st.Size, st.Mtime)
	}
	return requestHash(state)
}
