// Package hooks runs the rules of a host on the commits of a store: who may change
// something, what the content becomes, whether the staged files are sound.
package hooks

import (
	"context"
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
