package hooks

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/resilientwrite/resilientwrite/hook"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// Authorize checks the names of the call, then asks the hooks whether the caller
// may do this, and the user about protected files.
func (r *Run) Authorize(ctx context.Context) error {
	if err := r.Gate.CheckNames(); err != nil {
		return err
	}
	hooked, files := len(r.Hooks.Authorize) > 0, r.Gate.ToAsk()
	if !hooked && len(files) == 0 {
		return nil
	}
	call := callOf(r.Gate.Commit)
	if len(call.Changes) == 0 {
		return nil
	}
	var questions []question
	if hooked {
		var err error
		if questions, err = r.decideAll(ctx, call); err != nil {
			return err
		}
		r.stayAuthorized(call, questions)
	}
	if len(files) > 0 {
		questions = append(slices.Clip(questions), question{defaultsAsk, r.Hooks.questionText(r.Gate.Question(files))})
	}
	return r.ask(ctx, call, questions, files)
}

// decideAll passes the call to every authorizer. It returns the questions for the
// user, if any.
func (r *Run) decideAll(ctx context.Context, call hook.Call) (questions []question, err error) {
	var refusal error
	for i, a := range r.Hooks.Authorize {
		d, err := contained("an authorizer panicked", func() (hook.Decision, error) { return a.Authorize(ctx, own(call)) })
		switch {
		case refusal != nil:
		case err != nil && ctx.Err() != nil:
			refusal = fault.New(fault.Canceled).Because(err)
		case err != nil:
			refusal = fault.New(fault.Denied).Because(err).Hintf("the authorization check of this call failed, so it was refused; ask the user")
		case d.Verdict == hook.Asks:
			questions = append(questions, question{i, r.Hooks.questionText(d.Reason)})
		case d.Verdict != hook.Allowed:
			refusal = r.denied(d)
		}
	}
	return questions, refusal
}

// contained calls a function of the host. A panic becomes an error.
func contained[T any](panicked string, f func() (T, error)) (out T, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New(panicked)
		}
	}()
	return f()
}

// denied returns the error of a refusal.
func (r *Run) denied(d hook.Decision) error {
	e := fault.New(fault.Denied)
	if d.Reason != "" {
		e.Hintf("%s", r.Hooks.Gate.SafeText(d.Reason))
	}
	if d.Rule != "" {
		e.With("rule", d.Rule)
	}
	for _, m := range r.Gate.Commit.Muts {
		if d.Path != "" && !m.Private && m.Path == d.Path {
			return r.Gate.Commit.About(m, e)
		}
	}
	return e
}

// stayAuthorized has the operation authorized again under the locks if it is no
// longer the one that was authorized: a link may have been changed, or a file
// created, while the call waited. answered holds the questions that the user
// answered with yes.
func (r *Run) stayAuthorized(seen hook.Call, answered []question) {
	plan := r.Gate.Commit.Plan
	r.Gate.Commit.Plan = func(ctx context.Context) error {
		if plan != nil {
			if err := plan(ctx); err != nil {
				return err
			}
		}
		now := callNow(r.Gate.Commit)
		if slices.Equal(now.Changes, seen.Changes) {
			return nil
		}
		questions, err := r.decideAll(ctx, now)
		if err != nil {
			return err
		}
		same := subject(now) == subject(seen) && (seen.Destructive() || !now.Destructive())
		for _, q := range questions {
			if !r.Gate.Commit.Req.DryRun && !(same && slices.Contains(answered, q)) && !r.Hooks.answers.covers(now, q) {
				// No user is asked while others wait for the lock.
				return fault.New(fault.ChangedDuringWrite).Hintf("the files of this call changed while the user was asked; send it again, so that the user can be asked about the current files")
			}
		}
		seen = now
		return nil
	}
}

// callNow returns the call as it would be if the paths were resolved now.
func callNow(c *engine.Commit) hook.Call {
	var opened []*relpath.Target
	defer func() {
		for _, t := range opened {
			t.Close()
		}
	}()
	return callAt(c, func(m *engine.Mutation) *relpath.Target {
		tree := c.Tree()
		tree.NoFollow = m.NoFollow
		t, err := tree.Resolve(m.Path)
		if err != nil {
			return m.Target // the lock stage resolves it too, and reports the error
		}
		opened = append(opened, t)
		return t
	})
}

// Withdraw reports to the hooks that the call is not continued.
func (r *Run) Withdraw() {
	for _, a := range r.Hooks.Authorize {
		if w, ok := a.(hook.Withdrawer); ok {
			contained("", func() (any, error) { w.Withdraw(context.Background(), callOf(r.Gate.Commit)); return nil, nil }) // the others are called anyway
		}
	}
}

// Transform lets the hooks change the content that the caller sent.
func (r *Run) Transform(ctx context.Context, m *engine.Mutation) error {
	list := r.Hooks.Transform
	if len(list) == 0 || m.Private || m.Source != nil || m.Op == engine.OpDelete || m.Op == engine.OpEdit || m.Ungated {
		return nil
	}
	chain := func(src io.Reader) (*transformed, error) {
		call := callOf(r.Gate.Commit)
		for _, t := range list {
			next, err := contained("a transformer panicked", func() (io.Reader, error) { return t.Transform(ctx, own(call), m.Path, src) })
			if err == nil && next == nil {
				err = errors.New("a transformer returned no reader")
			}
			if err != nil {
				return nil, fault.New(fault.TransformFailed).Because(err)
			}
			src = next
		}
		return &transformed{ctx: ctx, src: engine.NewStoppable(ctx, src)}, nil
	}
	if m.Revise != nil {
		m.Revise = r.transformRevision(m.Revise, chain)
		return nil
	}
	src, err := chain(m.Content.Reader())
	if err != nil {
		return err
	}
	return r.takeTransformed(m, src)
}

// takeTransformed replaces the content that was sent with the output of the
// transformers. The memory used does not depend on its size.
func (r *Run) takeTransformed(m *engine.Mutation, src *transformed) error {
	var head bytes.Buffer
	n, err := head.ReadFrom(io.LimitReader(src, engine.InMemory+1))
	if err != nil {
		return src.failure(err)
	}
	if n <= engine.InMemory {
		m.DropSpooled()
		m.Hold(head.Bytes())
		return nil
	}
	in := io.MultiReader(&head, src)
	limit := r.Hooks.Opts.MaxContentBytes
	if !m.Spooled { // what was sent in memory stays within the limit of memory
		in = io.LimitReader(in, limit+1)
	}
	tmp, err := r.Gate.Commit.Spool(src.ctx, in)
	if err != nil {
		return src.failure(err)
	}
	if !m.Spooled && tmp.Size > limit {
		tmp.Slot.Drop()
		return fault.New(fault.TooLarge).With("max_bytes", limit).Hintf("a hook of the host made the content larger than %d bytes", limit)
	}
	m.TakeSpooled(tmp)
	return nil
}

// transformRevision transforms the part of several operations of a transaction on
// one file that the caller alone wrote: the whole file, or what is appended to
// it. The other operations are edits.
func (r *Run) transformRevision(revise engine.Reviser, chain func(io.Reader) (*transformed, error)) engine.Reviser {
	return func(ctx context.Context, before []byte) ([]byte, error) {
		after, err := revise(ctx, before)
		if err != nil {
			return nil, err
		}
		alone, err := revise(ctx, nil)
		kept := len(after) - len(alone)
		switch {
		case err == nil && kept == 0 && bytes.Equal(after, alone):
		case err == nil && kept == len(before) && bytes.HasPrefix(after, before) && bytes.HasSuffix(after, alone):
		default:
			return after, nil
		}
		src, err := chain(bytes.NewReader(alone))
		if err != nil {
			return nil, err
		}
		limit := r.Hooks.Opts.MaxContentBytes
		made, err := io.ReadAll(io.LimitReader(src, limit+1))
		if err != nil {
			return nil, src.failure(err)
		}
		if int64(len(made)) > limit {
			return nil, fault.New(fault.TooLarge).With("max_bytes", limit).Hintf("a hook of the host made the content larger than %d bytes", limit)
		}
		return append(after[:kept:kept], made...), nil
	}
}

// transformed reads the output of transformers. A panic in them becomes an error,
// and their errors can be distinguished from those of the disk.
type transformed struct {
	ctx context.Context
	src io.Reader
	err error
}

func (t *transformed) Read(p []byte) (n int, err error) {
	defer func() {
		if recover() != nil {
			n, err = 0, errors.New("a transformer panicked")
		}
		if err != nil && err != io.EOF {
			t.err = err
		}
	}()
	return t.src.Read(p)
}

// failure returns the error of a copy from t.
func (t *transformed) failure(err error) error {
	switch {
	case t.err == nil:
		return err
	case t.ctx.Err() != nil:
		return fault.New(fault.Canceled).Because(t.err)
	}
	return fault.New(fault.TransformFailed).Because(t.err)
}
