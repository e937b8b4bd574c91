package resilientwrite

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// Authorize checks the names of the call, then asks the hooks whether the caller
// may do this, and the user about protected files.
func (c *commit) Authorize(ctx context.Context) error {
	if err := c.CheckNames(); err != nil {
		return err
	}
	hooked, files := len(c.s.opts.Hooks.Authorize) > 0, c.ToAsk()
	if !hooked && len(files) == 0 {
		return nil
	}
	op := c.operation()
	if len(op.Changes) == 0 {
		return nil
	}
	var questions []question
	if hooked {
		var err error
		if questions, err = c.decideAll(ctx, op); err != nil {
			return err
		}
		c.stayAuthorized(op, questions)
	}
	if len(files) > 0 {
		questions = append(slices.Clip(questions), question{defaultsAsk, c.s.questionText(c.Question(files))})
	}
	return c.ask(ctx, op, questions, files)
}

// decideAll passes the operation to every authorizer. It returns the question for
// the user, if any.
func (c *commit) decideAll(ctx context.Context, op HookCall) (questions []question, err error) {
	var refusal error
	for i, a := range c.s.opts.Hooks.Authorize {
		d, err := decide(ctx, a, op)
		switch {
		case refusal != nil:
		case err != nil && ctx.Err() != nil:
			refusal = fault.New(fault.Canceled).Because(err)
		case err != nil:
			refusal = fault.New(fault.Denied).Because(err).Hintf("the authorization check of this call failed, so it was refused; ask the user")
		case d.verdict == verdictAsk:
			questions = append(questions, question{i, c.s.questionText(d.reason)})
		case d.verdict != verdictAllow:
			refusal = c.denied(d)
		}
	}
	return questions, refusal
}

// denied returns the error of a refusal.
func (c *commit) denied(d Decision) error {
	e := fault.New(fault.Denied)
	if d.reason != "" {
		e.Hintf("%s", c.s.safeText(d.reason))
	}
	if d.rule != "" {
		e.With("rule", d.rule)
	}
	for _, m := range c.Muts {
		if d.path != "" && !m.Private && m.Path == d.path {
			return c.About(m, e)
		}
	}
	return e
}

// decide asks one authorizer. A panic becomes an error.
func decide(ctx context.Context, a Authorizer, op HookCall) (d Decision, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("an authorizer panicked")
		}
	}()
	op.Changes = slices.Clone(op.Changes) // what it does to them is its own affair
	return a.Authorize(ctx, op)
}

// stayAuthorized has the operation authorized again under the locks if it is no
// longer the one that was authorized: a link may have been changed, or a file
// created, while the call waited. answered holds the questions that the user
// answered with yes.
func (c *commit) stayAuthorized(seen HookCall, answered []question) {
	plan := c.Plan
	c.Plan = func(ctx context.Context) error {
		if plan != nil {
			if err := plan(ctx); err != nil {
				return err
			}
		}
		now := c.operationNow()
		if slices.Equal(now.Changes, seen.Changes) {
			return nil
		}
		questions, err := c.decideAll(ctx, now)
		if err != nil {
			return err
		}
		same := subject(now) == subject(seen) && (seen.Destructive() || !now.Destructive())
		for _, q := range questions {
			if !c.Req.DryRun && !(same && slices.Contains(answered, q)) && !c.s.answers.covers(now, q) {
				// Nobody is asked while others wait for the lock.
				return fault.New(fault.ChangedDuringWrite).Hintf("the files of this call changed while the user was asked; send it again, so that the user can be asked about the current files")
			}
		}
		seen = now
		return nil
	}
}

// operationNow returns the operation as it would be if the paths were resolved
// now.
func (c *commit) operationNow() HookCall {
	var opened []*relpath.Target
	defer func() {
		for _, t := range opened {
			t.Close()
		}
	}()
	return c.operationAt(func(m *engine.Mutation) *relpath.Target {
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

// observe calls every observer with the outcome of a call.
func (c *commit) observe(r Receipt, err error) {
	for _, o := range c.s.opts.Hooks.Observe {
		func() {
			defer func() { recover() }() // what observes must not break what it observes
			o.Observe(context.Background(), c.operation(), r, err)
		}()
	}
}

// Transform lets the hooks change the content that the caller sent.
func (c *commit) Transform(ctx context.Context, m *engine.Mutation) error {
	list := c.s.opts.Hooks.Transform
	if len(list) == 0 || m.Private || m.Source != nil || m.Op == engine.OpDelete || m.Op == engine.OpEdit || m.Ungated {
		return nil
	}
	chain := func(src io.Reader) (*transformed, error) {
		for _, t := range list {
			next, err := runTransform(ctx, t, c.operation(), m.Path, src)
			if err != nil {
				return nil, fault.New(fault.TransformFailed).Because(err)
			}
			src = next
		}
		return &transformed{ctx: ctx, src: engine.NewStoppable(ctx, src)}, nil
	}
	if m.Revise != nil {
		m.Revise = c.transformRevision(m.Revise, chain)
		return nil
	}
	src, err := chain(m.Content.Reader())
	if err != nil {
		return err
	}
	return c.takeTransformed(m, src)
}

// takeTransformed replaces the content that was sent with the output of the
// transformers. The memory used does not depend on its size.
func (c *commit) takeTransformed(m *engine.Mutation, src *transformed) error {
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
	limit := c.s.opts.MaxContentBytes
	if !m.Spooled { // what was sent in memory stays within the limit of memory
		in = io.LimitReader(in, limit+1)
	}
	tmp, err := c.Spool(in)
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
func (c *commit) transformRevision(revise engine.Reviser, chain func(io.Reader) (*transformed, error)) engine.Reviser {
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
		limit := c.s.opts.MaxContentBytes
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

func runTransform(ctx context.Context, t Transformer, op HookCall, path string, src io.Reader) (out io.Reader, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("a transformer panicked")
		}
	}()
	out, err = t.Transform(ctx, op, path, src)
	if err == nil && out == nil {
		err = errors.New("a transformer returned no reader")
	}
	return out, err
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
