// Package hooks runs the rules of a host on the commits of a store: who may change
// something, what the content becomes, whether the staged files are sound. It also
// contains the rules that the library ships.
package hooks

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"time"

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

	Authorize []func(context.Context, Call) (Decision, error)
	Withdraw  []func(context.Context, Call)
	Transform []func(ctx context.Context, c Call, path string, content io.Reader) (io.Reader, error)
	// Verify returns the path that its error is about, if it is one of several.
	Verify []func(context.Context, Staged) (about string, err error)

	VerifyTimeout time.Duration                    // 0: one minute
	Channel       func(context.Context) AskFunc    // to the user; it returns nil if there is none
	KeyKnown      func(idempotencyKey string) bool // a commit was made under the key

	answers answers
}

// Run is the hooks of one commit.
type Run struct {
	Hooks *Layer
	Gate  *gate.Check
}

// Call is a mutating call as hooks see it. Request is a hash of everything that
// was asked for, and Complete is set for a handoff that says that the task is
// done.
type Call struct {
	Verb         string
	Caller       string
	Session      string
	InvocationID string
	DryRun       bool
	Changes      []Change
	Request      string
	Complete     bool
}

// Change is what a call does to one file of the workspace.
type Change struct {
	Op       string
	Path     string // as it was asked for, relative to the workspace
	RealPath string // after symbolic links are resolved
	From     string // of a move
	RealFrom string // after symbolic links are resolved
	Exists   bool   // something is there now; observers also learn what was there before

	SHA256     string // of the whole final file; empty when it is gone
	PrevSHA256 string // of what was there
	Bytes      int64  // that are written: the whole file, of an append what is added
}

// destructive reports whether the change removes or replaces content. An edit may
// replace the whole file.
func (c Change) destructive() bool {
	switch engine.WriteOp(c.Op) {
	case engine.OpDelete, engine.OpMove, engine.OpEdit:
		return true
	}
	return engine.WriteOp(c.Op) == engine.OpOverwrite && c.Exists
}

// Destructive reports whether the call removes or replaces content.
func (c Call) Destructive() bool { return slices.ContainsFunc(c.Changes, Change.destructive) }

// Decision is the answer of an authorizer. The zero value denies.
type Decision struct {
	Verdict int
	Reason  string
	Rule    string
	Path    string // that a refusal is about
}

// Verdicts of a decision.
const (
	Denied = iota
	Allowed
	Asks
)

func allow() Decision { return Decision{Verdict: Allowed} }

func deny(rule, path, format string, args ...any) Decision {
	return Decision{Reason: fmt.Sprintf(format, args...), Rule: rule, Path: path}
}

// Staged is a commit as passed to a verifier.
type Staged struct {
	Call
	Root  string // the workspace, absolute
	Files []File // in order
}

// File is one file before it is published.
type File struct {
	Path   string // relative to the workspace
	Staged string // where its bytes are, absolute; "" for one that is removed
	Append bool   // Staged has only what is added
}

// List is a list of hooks of the host.
type List struct {
	name  string
	hooks []any
}

// ListOf returns a list under its name.
func ListOf[T any](name string, hooks []T) List {
	l := List{name: name}
	for _, h := range hooks {
		l.hooks = append(l.hooks, h)
	}
	return l
}

// Check refuses nil entries, because a missing rule would protect nothing.
func Check(lists []List) *fault.Fault {
	for _, l := range lists {
		if i := slices.Index(l.hooks, nil); i >= 0 {
			return fault.New(fault.InvalidArgument).With("argument", "hooks."+l.name).With("index", i).
				Hintf("entry %d of hooks.%s is nil", i, l.name)
		}
	}
	return nil
}

// Reset begins a new task for the hooks that count, each once. One that panics
// keeps the counts of the old task, which the error reports.
func Reset(lists []List) (failed error) {
	type resetter interface{ ResetTask() }
	var done []resetter
	for _, l := range lists {
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
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.ValueOf(a).Comparable() && a == b
}

// CallOf returns a commit as passed to hooks.
func CallOf(c *engine.Commit) Call {
	return callAt(c, func(m *engine.Mutation) *relpath.Target { return m.Target })
}

// callAt is CallOf for other targets than the resolved ones.
func callAt(c *engine.Commit, target func(*engine.Mutation) *relpath.Target) Call {
	o := Call{
		Verb: c.Req.Op, Caller: c.Req.Caller, Session: c.Req.Session, InvocationID: c.Inv, DryRun: c.Req.DryRun,
		Request: c.Req.Hash, Complete: c.Complete,
	}
	for i, m := range c.Muts {
		if m.Private || m.Forgotten {
			continue
		}
		ch := Change{Op: string(m.Op), Path: m.Path, RealPath: m.Path}
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
