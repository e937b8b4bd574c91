package hook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
	"github.com/resilientwrite/resilientwrite/internal/policyfile"
	"github.com/resilientwrite/resilientwrite/internal/visible"
)

func deny(rule, path, format string, args ...any) Decision {
	return Decision{Reason: fmt.Sprintf(format, args...), Rule: rule, Path: path}
}

// DenyWrites is a hook that refuses every change.
type DenyWrites struct{}

// Authorize refuses everything, by the rule read_only.
func (DenyWrites) Authorize(context.Context, Call) (Decision, error) {
	return deny("read_only", "", "this workspace is read-only now; ask the user"), nil
}

// PathRules is a hook that decides by path. Globs are those of the policy file:
// ** spans directories, a glob of a directory covers what is in it, letter case
// is ignored.
type PathRules struct {
	Allow []string // when not empty, only paths that one of them matches may be changed
	Deny  []string // paths that may not be changed; Deny goes before Allow
}

// Authorize decides by the paths of the operation, as requested and after
// symbolic links are resolved. A glob in Deny that is invalid, or whose braces
// expand to too many globs, refuses everything.
func (r PathRules) Authorize(_ context.Context, c Call) (Decision, error) {
	for _, g := range r.Deny {
		if policyfile.GlobTooLarge(g) || !doublestar.ValidatePattern(g) {
			return Decision{}, fmt.Errorf("%q is no glob", g)
		}
	}
	for _, ch := range c.Changes {
		for _, p := range []string{ch.Path, ch.RealPath, ch.From, ch.RealFrom} {
			if p == "" {
				continue
			}
			if policyfile.Covers(r.Deny, p) {
				return deny("path_denied", ch.Path, "the path %s must not be changed; choose another path or ask the user", p), nil
			}
			if len(r.Allow) > 0 && !policyfile.Covers(r.Allow, p) {
				return deny("path_not_allowed", ch.Path, "only %s may be changed; %s is not among them", strings.Join(r.Allow, ", "), p), nil
			}
		}
	}
	return Allow(), nil
}

// Permission is a hook that asks the user before anything is changed, except
// where AutoApprove matches. It always asks about a destructive operation
// ([Call.Destructive]).
type Permission struct {
	AutoApprove []string // globs of paths that need no question
}

// Authorize asks, or allows what needs no question.
func (p Permission) Authorize(_ context.Context, c Call) (Decision, error) {
	var changes []Change
	for _, ch := range c.Changes {
		if c.Destructive() || !policyfile.Covers(p.AutoApprove, ch.RealPath) {
			changes = append(changes, ch)
		}
	}
	if c.DryRun || len(changes) == 0 {
		return Allow(), nil
	}
	// What the user does not see must not be the worst of it.
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(harm(a), harm(b)) })
	var said []string
	for i, ch := range changes {
		if i == maxAsked {
			more := fmt.Sprintf("and %d more", len(changes)-i)
			if harm(ch) < harmless {
				more += ", some of which delete or replace files"
			}
			said = append(said, more)
			break
		}
		said = append(said, sentence(ch))
	}
	return AskUser("may " + c.Verb + " do this: " + strings.Join(said, ", ") + "?"), nil
}

// maxAsked is how many changes a question names.
const maxAsked = 20

const harmless = 2

// harm orders changes by how much they destroy.
func harm(ch Change) int {
	switch {
	case engine.WriteOp(ch.Op) == engine.OpDelete:
		return 0
	case ch.destructive():
		return 1
	}
	return harmless
}

// sentence describes a change to a user.
func sentence(ch Change) string {
	if ch.RealFrom != "" {
		return ch.Op + " " + visible.Name(ch.RealFrom) + " to " + visible.Name(ch.RealPath)
	}
	return ch.Op + " " + visible.Name(ch.RealPath)
}

// TaskBudget is a hook that limits what one task may do in the workspace; 0 means
// no limit. A new task begins with ResetTask of the store. Concurrent calls do not
// exceed the number of writes; the call that exceeds the bytes or the failures is
// the last one. Pass a pointer.
type TaskBudget struct {
	Bytes    int64 // written
	Writes   int   // files changed
	Failures int   // calls that failed

	mu   sync.Mutex
	done struct { // by the task
		bytes            int64
		writes, failures int
	}
	active map[string]int // files of calls that did not end yet, by invocation
}

// Authorize refuses when a limit is reached.
func (b *TaskBudget) Authorize(_ context.Context, c Call) (Decision, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.active, c.InvocationID) // it may be asked twice for one call
	writes := b.done.writes
	for _, n := range b.active {
		writes += n
	}
	switch {
	case b.Bytes > 0 && b.done.bytes >= b.Bytes:
		return deny("budget_bytes", "", "this task has written %d bytes, its budget is %d; report to the user", b.done.bytes, b.Bytes), nil
	case b.Writes > 0 && writes+len(c.Changes) > b.Writes:
		return deny("budget_writes", "", "this task has changed %d files, its budget is %d; report to the user", writes, b.Writes), nil
	case b.Failures > 0 && b.done.failures >= b.Failures:
		return deny("budget_failures", "", "%d calls of this task have failed, which is its budget; stop and report to the user", b.done.failures), nil
	}
	if !c.DryRun && c.InvocationID != "" {
		if b.active == nil {
			b.active = map[string]int{}
		}
		b.active[c.InvocationID] = len(c.Changes)
	}
	return Allow(), nil
}

// Withdraw releases what was reserved for a call that waits for a user.
func (b *TaskBudget) Withdraw(_ context.Context, c Call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.active, c.InvocationID)
}

// Observe counts the bytes and files that a call has written, and calls that
// failed.
func (b *TaskBudget) Observe(_ context.Context, c Call, r call.Receipt, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.active, c.InvocationID)
	switch {
	case c.DryRun:
	case err != nil:
		b.done.failures++
	case r.Status == call.Succeeded:
		b.done.writes += len(c.Changes)
		for _, ch := range c.Changes {
			b.done.bytes += ch.Bytes
		}
	}
}

// ResetTask begins a new task: all counts start at zero.
func (b *TaskBudget) ResetTask() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done.bytes, b.done.writes, b.done.failures = 0, 0, 0
}

// LoopGuard is a hook that stops a caller who makes no progress with a file:
// whose writes repeatedly restore the current content of the file or an earlier
// one, or whose calls fail one after the other, each in a different way.
// Identical calls that fail are stopped by the retry budget of the store. Pass a
// pointer.
type LoopGuard struct {
	Repeats int // times that it lets pass, of either kind; 0 means 6

	mu   sync.Mutex
	past map[string]*circle
}

// circle is the recent history of one file.
type circle struct {
	seen    map[string]bool
	repeats int
	failed  int        // calls, since one made a change
	why     fault.Code // of the last one
}

// maxGuarded is how many files, and contents of a file, are remembered.
const maxGuarded = 1000

// Authorize refuses a file whose contents repeat, or whose calls keep failing.
func (g *LoopGuard) Authorize(_ context.Context, c Call) (Decision, error) {
	limit := 6
	if g.Repeats > 0 {
		limit = g.Repeats
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, ch := range c.Changes {
		past := g.past[ch.RealPath]
		switch {
		case past == nil:
		case past.repeats >= limit:
			return deny("loop_no_progress", ch.Path, "%s has come back %d times to a content it had before; stop changing it, look at what is wrong, and ask the user",
				ch.RealPath, past.repeats), nil
		case past.failed >= limit:
			return deny("loop_failing", ch.Path, "%d calls one after the other failed to change %s, the last one with %s; stop trying, read the file, and ask the user how to go on",
				past.failed, ch.RealPath, past.why), nil
		}
	}
	return Allow(), nil
}

// Observe records the contents of each file, and its failed calls.
func (g *LoopGuard) Observe(_ context.Context, c Call, r call.Receipt, err error) {
	if c.DryRun || err == nil && r.Status != call.Succeeded && r.Status != call.Unchanged {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		e := fault.New(fault.Internal)
		errors.As(err, &e)
		g.count(c, e)
		return
	}
	for _, ch := range c.Changes {
		if r.Status == call.Succeeded && ch.SHA256 == ch.PrevSHA256 {
			continue // one of several that had nothing to change
		}
		g.follow(ch)
	}
}

// count records a failed call. Failures that may be temporary, that a rule of the
// host caused, or that the disk caused are not counted against the caller.
func (g *LoopGuard) count(c Call, e *fault.Fault) {
	if !budget.Countable(e) || e.Code == fault.Denied || e.OfStorage() {
		return
	}
	for _, ch := range c.Changes {
		if ch.RealPath == "" || e.Path != "" && e.Path != ch.Path {
			continue // the others of a transaction are not to blame
		}
		past := g.circle(ch.RealPath)
		past.failed, past.why = past.failed+1, e.Code
	}
}

func (g *LoopGuard) circle(path string) *circle {
	if g.past == nil || len(g.past) > maxGuarded {
		g.past = map[string]*circle{}
	}
	c := g.past[path]
	if c == nil {
		c = &circle{seen: map[string]bool{}}
		g.past[path] = c
	}
	return c
}

func (g *LoopGuard) follow(ch Change) {
	c := g.circle(ch.RealPath)
	if ch.SHA256 != ch.PrevSHA256 {
		c.failed = 0
	}
	if len(c.seen) > maxGuarded {
		c.seen = map[string]bool{}
	}
	if c.seen[ch.SHA256] {
		c.repeats++
	}
	c.seen[ch.SHA256], c.seen[ch.PrevSHA256] = true, true
}

// ResetTask begins a new task: everything recorded about files is forgotten.
func (g *LoopGuard) ResetTask() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.past = nil
}
