package chunks

import (
	"context"
	"path"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Commit is a commit that a call makes.
type Commit struct {
	*engine.Commit
	// Do runs it. What was refused before may be tried again when the state of the
	// session has changed.
	Do func(ctx context.Context, state string) error
	// Fail ends it before it runs.
	Fail func(error) error
}

// Begin begins a commit of a call: of what was asked for, or one that only clears the
// session.
type Begin func(clears bool) Commit

// Call is one commit of a session. Each call holds the manifest, so a commit that a dead
// writer left is completed by the next call on the session.
type Call struct {
	Commit
	Manifest *engine.Mutation

	s         *Layer
	session   string
	begin     Begin
	resetting bool // the call is the one that deals with a pending reset

	// again is what must be done, without the locks, before the call can be
	// decided. The commit then ends without a change.
	again func(context.Context) error
}

// run completes a call, which build makes. It also completes what a crash left of an
// earlier one.
func (s *Layer) run(ctx context.Context, session string, clears bool, begin Begin, build func(*Call)) error {
	var k *Call
	for range MaxAgain {
		k = &Call{Commit: begin(clears), s: s, session: session, begin: begin}
		k.Manifest = engine.NewObject(ManifestObject(session), "manifest", engine.OpOverwrite)
		k.Manifest.Ungated = true // names and hashes of ours
		k.ExtraLocks = []string{Lock(session)}
		build(k)
		k.Muts = append(k.Muts, k.Manifest)
		if err := k.clearWay(ctx); err != nil {
			return k.Fail(err)
		}
		if err := k.Do(ctx, s.state(session)); err != nil || k.again == nil {
			return err
		}
		if err := k.again(ctx); err != nil {
			return k.Fail(err)
		}
	}
	return k.Fail(fault.New(fault.IOBusy).Hintf("the session keeps changing; try again later"))
}

// see reads the session, under its lock. nil means that the plan is finished: the
// idempotency key answers the call, or something must be done first. A dead
// writer may have left the session half changed, so that is checked before
// anything is judged.
func (k *Call) see() (*Session, error) {
	if done, err := k.Answered(); done || err != nil {
		return nil, err
	}
	left, err := k.s.LeftBehind([]string{k.Manifest.Target.Path})
	if err != nil {
		return nil, err
	}
	if left != nil {
		return nil, k.later(func(ctx context.Context) error {
			if err := k.s.Enter(); err != nil {
				return err
			}
			defer k.s.Leave()
			return k.s.FinishDead(ctx, left, new(engine.Report))
		})
	}
	sess, err := k.s.Read(k.session)
	if err != nil {
		return nil, err
	}
	return k.clean(sess)
}

// clean completes or removes stale work in a session before it is used.
func (k *Call) clean(sess *Session) (*Session, error) {
	switch {
	case sess.Manifest.ResetPending && k.resetting:
	case sess.Manifest.ResetPending && k.Req.DryRun:
		return sess.Gone(), nil
	case sess.Manifest.ResetPending:
		return nil, k.later(func(ctx context.Context) error { return k.s.Clear(ctx, k.session, k.Req.Op, k.begin) })
	}
	if len(sess.Odd) > 0 && !k.Req.DryRun {
		return nil, k.later(func(ctx context.Context) error { return k.s.setAside(ctx, k.session, sess.Odd) })
	}
	return sess, nil
}

// clearWay resolves the names that the call begins with, so that none leads
// elsewhere, before the session is read under its lock.
func (k *Call) clearWay(ctx context.Context) error {
	odd, err := k.odd()
	if odd == nil || err != nil {
		return err
	}
	return k.s.setAside(ctx, k.session, odd)
}

// odd returns the names of the call at which the session has something other than a
// file.
func (k *Call) odd() (odd []string, err error) {
	if k.Req.DryRun || k.s.Opts.ReadOnly {
		return nil, nil
	}
	if err := k.s.EnterReader(); err != nil {
		return nil, err
	}
	defer k.s.Leave()
	dir, err := k.s.OpenDir(k.session)
	if dir == nil || err != nil {
		return nil, err
	}
	defer dir.Close()
	for _, m := range k.Muts {
		name := path.Base(m.Object)
		if st, err := dir.Lstat(name); m.Private && err == nil && st.Kind != fsx.Regular {
			odd = append(odd, name)
		}
	}
	return odd, nil
}

// later ends the commit without doing anything; the call is made again after f.
func (k *Call) later(f func(context.Context) error) error {
	k.again = f
	return k.Choose()
}

// About lists the objects that change whenever a session does.
func About(session string) []string {
	if CheckName(session) != nil {
		return nil
	}
	return []string{SessionObject(session), ManifestObject(session)}
}

func (s *Layer) state(session string) (text string) {
	for _, object := range About(session) {
		text += s.StateOf(object) + "\n"
	}
	return text
}
