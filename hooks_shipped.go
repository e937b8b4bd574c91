package resilientwrite

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
	"github.com/resilientwrite/resilientwrite/internal/policyfile"
	"github.com/resilientwrite/resilientwrite/internal/visible"
)

// DenyWrites is a hook that refuses every change.
type DenyWrites struct{}

// Authorize refuses everything, by the rule read_only.
func (DenyWrites) Authorize(context.Context, HookCall) (Decision, error) {
	return Deny("this workspace is read-only now; ask the user").Rule("read_only"), nil
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
func (r PathRules) Authorize(_ context.Context, op HookCall) (Decision, error) {
	for _, g := range r.Deny {
		if policyfile.GlobTooLarge(g) || !doublestar.ValidatePattern(g) {
			return Decision{}, fmt.Errorf("%q is no glob", g)
		}
	}
	for _, ch := range op.Changes {
		for _, p := range []string{ch.Path, ch.RealPath, ch.From, ch.RealFrom} {
			if p == "" {
				continue
			}
			if policyfile.Covers(r.Deny, p) {
				return Deny("the path " + p + " must not be changed; choose another path or ask the user").Rule("path_denied").About(ch.Path), nil
			}
			if len(r.Allow) > 0 && !policyfile.Covers(r.Allow, p) {
				return Deny("only " + strings.Join(r.Allow, ", ") + " may be changed; " + p + " is not among them").Rule("path_not_allowed").About(ch.Path), nil
			}
		}
	}
	return Allow(), nil
}

// Permission is a hook that asks the user before anything is changed, except
// where AutoApprove matches. It always asks about a destructive operation
// ([HookCall.Destructive]).
type Permission struct {
	AutoApprove []string // globs of paths that need no question
}

// Authorize asks, or allows what needs no question.
func (p Permission) Authorize(_ context.Context, op HookCall) (Decision, error) {
	if op.DryRun {
		return Allow(), nil
	}
	var changes []Change
	for _, ch := range op.Changes {
		if op.Destructive() || !policyfile.Covers(p.AutoApprove, ch.RealPath) {
			changes = append(changes, ch)
		}
	}
	if len(changes) == 0 {
		return Allow(), nil
	}
	// What the user does not see must not be the worst of it.
	slices.SortStableFunc(changes, func(a, b Change) int {
		return cmp.Compare(harm(a), harm(b))
	})
	var said []string
	for i, ch := range changes {
		if i == maxAsked {
			rest := changes[i:]
			more := fmt.Sprintf("and %d more", len(rest))
			if harm(rest[0]) < harmless {
				more += ", some of which delete or replace files"
			}
			said = append(said, more)
			break
		}
		said = append(said, sentence(ch))
	}
	return AskUser("may " + op.Verb + " do this: " + strings.Join(said, ", ") + "?"), nil
}

// maxAsked is how many changes a question names.
const maxAsked = 20

const harmless = 2

// harm orders changes by how much they destroy.
func harm(ch Change) int {
	switch {
	case engine.WriteOp(ch.Op) == engine.OpDelete:
		return 0
	case (HookCall{Changes: []Change{ch}}).Destructive():
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
// no limit. A new task begins with [Store.ResetTask]. Concurrent calls do not
// exceed the number of writes; the call that exceeds the bytes or the failures is
// the last one. Pass a pointer.
type TaskBudget struct {
	Bytes    int64 // written
	Writes   int   // files changed
	Failures int   // calls that failed

	mu       sync.Mutex
	bytes    int64
	writes   int
	failures int
	underway map[string]int // files of calls that did not end yet
}

// Authorize refuses when a limit is reached.
func (b *TaskBudget) Authorize(_ context.Context, op HookCall) (Decision, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.underway, op.InvocationID) // it may be asked twice for one call
	writes := b.writes
	for _, n := range b.underway {
		writes += n
	}
	switch {
	case b.Bytes > 0 && b.bytes >= b.Bytes:
		return Deny(fmt.Sprintf("this task has written %d bytes, its budget is %d; report to the user", b.bytes, b.Bytes)).Rule("budget_bytes"), nil
	case b.Writes > 0 && writes+len(op.Changes) > b.Writes:
		return Deny(fmt.Sprintf("this task has changed %d files, its budget is %d; report to the user", writes, b.Writes)).Rule("budget_writes"), nil
	case b.Failures > 0 && b.failures >= b.Failures:
		return Deny(fmt.Sprintf("%d calls of this task have failed, which is its budget; stop and report to the user", b.failures)).Rule("budget_failures"), nil
	}
	if !op.DryRun && op.InvocationID != "" {
		if b.underway == nil {
			b.underway = map[string]int{}
		}
		b.underway[op.InvocationID] = len(op.Changes)
	}
	return Allow(), nil
}

// Withdraw releases what was reserved for a call that waits for a user.
func (b *TaskBudget) Withdraw(_ context.Context, op HookCall) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.underway, op.InvocationID)
}

// Observe counts the bytes and files that a call has written, and calls that
// failed.
func (b *TaskBudget) Observe(_ context.Context, op HookCall, r Receipt, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.underway, op.InvocationID)
	switch {
	case op.DryRun:
	case err != nil:
		b.failures++
	case r.Status == StatusSucceeded:
		b.writes += len(op.Changes)
		for _, ch := range op.Changes {
			b.bytes += ch.Bytes
		}
	}
}

// ResetTask begins a new task: all counts start at zero.
func (b *TaskBudget) ResetTask() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes, b.writes, b.failures = 0, 0, 0
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

func (g *LoopGuard) limit() int {
	if g.Repeats > 0 {
		return g.Repeats
	}
	return 6
}

// Authorize refuses a file whose contents repeat, or whose calls keep failing.
func (g *LoopGuard) Authorize(_ context.Context, op HookCall) (Decision, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, ch := range op.Changes {
		c := g.past[ch.RealPath]
		switch {
		case c == nil:
		case c.repeats >= g.limit():
			return Deny(fmt.Sprintf("%s has come back %d times to a content it had before; stop changing it, look at what is wrong, and ask the user",
				ch.RealPath, c.repeats)).Rule("loop_no_progress").About(ch.Path), nil
		case c.failed >= g.limit():
			return Deny(fmt.Sprintf("%d calls one after the other failed to change %s, the last one with %s; stop trying, read the file, and ask the user how to go on",
				c.failed, ch.RealPath, c.why)).Rule("loop_failing").About(ch.Path), nil
		}
	}
	return Allow(), nil
}

// Observe records the contents of each file, and its failed calls.
func (g *LoopGuard) Observe(_ context.Context, op HookCall, r Receipt, err error) {
	if op.DryRun || err == nil && r.Status != StatusSucceeded && r.Status != StatusUnchanged {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.count(op, AsError(op.Verb, err).fault())
		return
	}
	for _, ch := range op.Changes {
		if r.Status == StatusSucceeded && ch.SHA256 == ch.PrevSHA256 {
			continue // one of several that had nothing to change
		}
		g.follow(ch)
	}
}

// count records a failed call. Failures that may be temporary, that a rule of the
// host caused, or that the disk caused are not counted against the caller.
func (g *LoopGuard) count(op HookCall, e *fault.Fault) {
	if !budget.Countable(e) || e.Code == fault.Denied || storageFailed(e) {
		return
	}
	for _, ch := range op.Changes {
		if ch.RealPath == "" || e.Path != "" && e.Path != ch.Path {
			continue // the others of a transaction are not to blame
		}
		c := g.circle(ch.RealPath)
		c.failed, c.why = c.failed+1, e.Code
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
