// Package hooks runs the rules of a host on the commits of a store: who may change
// something, what the content becomes, whether the staged files are sound.
package hooks

import (
	"bytes"
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"time"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/hook"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/gate"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// Layer is the hooks of one store. They are called in the order of each list, and
// get a copy of the call that is their own.
type Layer struct {
	*engine.Engine
	Gate *gate.Layer
	hook.Hooks

	VerifyTimeout time.Duration                      // 0: one minute
	Channel       func(context.Context) hook.AskFunc // to the user; it returns nil if there is none
	KeyKnown      func(idempotencyKey string) bool   // a commit was made under the key

	answers answers
}

// Run is the hooks of one commit.
type Run struct {
	Hooks *Layer
	Gate  *gate.Check
}

// Copy returns h with its own lists, so that later changes of the host to its
// lists do not change the rules of an open store. It refuses nil entries, because a
// missing rule would protect nothing.
func Copy(h hook.Hooks) (hook.Hooks, *fault.Fault) {
	h = hook.Hooks{
		Authorize: slices.Clone(h.Authorize), Transform: slices.Clone(h.Transform), Verify: slices.Clone(h.Verify), Observe: slices.Clone(h.Observe),
	}
	for _, l := range listsOf(h) {
		if i := slices.Index(l.hooks, nil); i >= 0 {
			return h, fault.New(fault.InvalidArgument).With("argument", "hooks."+l.name).With("index", i).
				Hintf("entry %d of hooks.%s is nil", i, l.name)
		}
	}
	return h, nil
}

// list is one list of the hooks of the host.
type list struct {
	name  string
	hooks []any
}

func listsOf(h hook.Hooks) []list {
	return []list{anyOf("authorize", h.Authorize), anyOf("transform", h.Transform), anyOf("verify", h.Verify), anyOf("observe", h.Observe)}
}

func anyOf[T any](name string, hooks []T) list {
	l := list{name: name}
	for _, h := range hooks {
		l.hooks = append(l.hooks, h)
	}
	return l
}

// ResetTask begins a new task for the hooks that count, each once. One that panics
// keeps the counts of the old task, which the error reports.
func (l *Layer) ResetTask() (failed error) {
	type resetter interface{ ResetTask() }
	var done []resetter
	for _, l := range listsOf(l.Hooks) {
		for _, h := range l.hooks {
			r, ok := h.(resetter)
			if !ok || slices.ContainsFunc(done, func(d resetter) bool { return same(d, r) }) {
				continue
			}
			if _, err := contained("", func() (any, error) { r.ResetTask(); return nil, nil }); err != nil {
				failed = fault.New(fault.Internal).With("index", len(done)).Hintf("a hook of the host could not start a new task; everything else was reset")
			}
			done = append(done, r)
		}
	}
	return failed
}

// same reports whether a hook is in several lists. Values that cannot be compared
// are different.
func same(a, b any) bool {
	return reflect.ValueOf(a).Comparable() && a == b
}

// Observed calls every observer with the outcome of a call. A panic in one must not
// break what it observes.
func (r *Run) Observed(rec call.Receipt, err error) {
	for _, o := range r.Hooks.Hooks.Observe {
		contained("", func() (any, error) {
			o.Observe(context.Background(), callOf(r.Gate.Commit), rec, err)
			return nil, nil
		})
	}
}

// own returns a copy of a call for one hook.
func own(c hook.Call) hook.Call {
	c.Changes = slices.Clone(c.Changes)
	return c
}

// callOf returns a commit as passed to hooks.
func callOf(c *engine.Commit) hook.Call {
	return callAt(c, func(m *engine.Mutation) *relpath.Target { return m.Target })
}

// callAt is callOf for other targets than the resolved ones.
func callAt(c *engine.Commit, target func(*engine.Mutation) *relpath.Target) hook.Call {
	o := hook.Call{
		Verb: c.Req.Op, Caller: c.Req.Caller, Session: c.Req.Session, InvocationID: c.Inv, DryRun: c.Req.DryRun,
		Request: c.Req.Hash, Complete: c.Complete,
	}
	for i, m := range c.Muts {
		if m.Private || m.Forgotten {
			continue
		}
		ch := hook.Change{Op: string(m.Op), Path: m.Path, RealPath: m.Path}
		t := target(m)
		if t != nil {
			ch.RealPath = t.Path
		}
		if m.Source != nil {
			ch.From, ch.RealFrom = m.Source.Path, m.Source.Path
			if from := target(m.Source); from != nil {
				ch.RealFrom = from.Path
			}
		}
		switch {
		case c.Replayed != nil:
			if i < len(c.Replayed.Muts) {
				done := &c.Replayed.Muts[i]
				ch.Exists, ch.SHA256, ch.PrevSHA256 = done.PrevSHA256 != "", done.SHA256, done.PrevSHA256
			}
		case m.Applied != "": // it was looked at, under the lock
			ch.Exists, ch.SHA256, ch.PrevSHA256 = m.Prev.Exists, m.SHA, m.Prev.SHA
			if m.Source == nil && !m.Unchanged() {
				if ch.Bytes = m.Final.Size(); m.Applied == engine.OpAppend {
					ch.Bytes = m.PayBytes
				}
			}
		case t != nil && t.Exists():
			_, err := t.Parent.Lstat(t.Name)
			ch.Exists = err == nil
		}
		o.Changes = append(o.Changes, ch)
	}
	return o
}

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
