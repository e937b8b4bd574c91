package resilientwrite

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/bmatcuk/doublestar/v4"
)

// ReadOnly is a hook that refuses every change.
type ReadOnly struct{}

// Authorize refuses.
func (ReadOnly) Authorize(context.Context, Operation) (Decision, error) {
	return Deny("this workspace takes no changes now; ask the user"), nil
}

// PathRules is a hook that decides by path. Globs are those of the policy
// file: ** spans directories, a glob of a directory covers what lies in it,
// letter case does not count.
type PathRules struct {
	Allow []string // when not empty, only paths that one of them matches may be changed
	Deny  []string // paths that may not be changed; Deny goes before Allow
}

// Authorize decides by the paths of the operation, with and without links. A
// glob that is none refuses everything.
func (r PathRules) Authorize(_ context.Context, op Operation) (Decision, error) {
	for _, g := range r.Deny {
		if !doublestar.ValidatePattern(g) {
			return Decision{}, fmt.Errorf("%q is no glob", g)
		}
	}
	for _, ch := range op.Changes {
		for _, p := range []string{ch.Path, ch.RealPath, ch.From, ch.RealFrom} {
			if p == "" {
				continue
			}
			if matchesAny(r.Deny, p) {
				return Deny("the path " + p + " may not be changed; choose another one or ask the user"), nil
			}
			if len(r.Allow) > 0 && !matchesAny(r.Allow, p) {
				return Deny("only " + strings.Join(r.Allow, ", ") + " may be changed; " + p + " is none of it"), nil
			}
		}
	}
	return Allow(), nil
}

func matchesAny(globs []string, path string) bool {
	for _, g := range globs {
		if matches(g, path) || matches(g+"/**", path) {
			return true
		}
	}
	return false
}

// Permission is a hook that asks the user before anything is changed, except
// where AutoApprove matches. What takes away or replaces something
// ([Operation.Destructive]) is asked for all the same.
type Permission struct {
	AutoApprove []string // globs of paths that need no question
}

// Authorize asks, or lets pass what needs no question.
func (p Permission) Authorize(_ context.Context, op Operation) (Decision, error) {
	if op.DryRun {
		return Allow(), nil
	}
	var paths []string
	for _, ch := range op.Changes {
		if op.Destructive() || !matchesAny(p.AutoApprove, ch.RealPath) {
			what := ch.Op + " " + ch.RealPath
			if ch.RealFrom != "" {
				what = ch.Op + " " + ch.RealFrom + " to " + ch.RealPath
			}
			paths = append(paths, what)
		}
	}
	if len(paths) == 0 {
		return Allow(), nil
	}
	if len(paths) > 5 {
		paths = append(paths[:5], fmt.Sprintf("and %d more", len(paths)-5))
	}
	return AskUser("may " + op.Verb + " do this: " + strings.Join(paths, ", ") + "?"), nil
}

// Budget is a hook that bounds what one task may do in the workspace; 0 is no
// bound. A new task begins with [Store.ResetTask]. Calls at the same time do
// not go over the number of writes; the call that goes over the bytes or the
// failures is the last one. Pass a pointer.
type Budget struct {
	Bytes    int64 // written
	Writes   int   // files changed
	Failures int   // calls that failed

	mu       sync.Mutex
	bytes    int64
	writes   int
	failures int
	underway map[string]int // files of calls that did not end yet
}

// Authorize refuses when a bound is reached.
func (b *Budget) Authorize(_ context.Context, op Operation) (Decision, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.underway, op.InvocationID) // it may be asked twice for one call
	writes := b.writes
	for _, n := range b.underway {
		writes += n
	}
	switch {
	case b.Bytes > 0 && b.bytes >= b.Bytes:
		return Deny(fmt.Sprintf("this task has written %d bytes, its budget is %d; report to the user", b.bytes, b.Bytes)), nil
	case b.Writes > 0 && writes+len(op.Changes) > b.Writes:
		return Deny(fmt.Sprintf("this task has changed %d files, its budget is %d; report to the user", writes, b.Writes)), nil
	case b.Failures > 0 && b.failures >= b.Failures:
		return Deny(fmt.Sprintf("%d calls of this task have failed, which is its budget; stop and report to the user", b.failures)), nil
	}
	if !op.DryRun && op.InvocationID != "" {
		if b.underway == nil {
			b.underway = map[string]int{}
		}
		b.underway[op.InvocationID] = len(op.Changes)
	}
	return Allow(), nil
}

// Observe counts.
func (b *Budget) Observe(_ context.Context, op Operation, r Receipt, err error) {
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

// ResetTask begins a new task.
func (b *Budget) ResetTask() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes, b.writes, b.failures = 0, 0, 0
}

// LoopGuard is a hook that stops a caller who writes in a circle: the same
// file again and again, with the content it has or one it had before.
// Identical calls that fail are stopped by the retry budget of the store. Pass
// a pointer.
type LoopGuard struct {
	Repeats int // contents that come back before it refuses; 0 means 6

	mu   sync.Mutex
	past map[string]*circle
}

// circle is the way of one file.
type circle struct {
	seen    map[string]bool
	repeats int
}

// maxGuarded is how many files and contents of a file are remembered.
const maxGuarded = 1000

func (g *LoopGuard) limit() int {
	if g.Repeats > 0 {
		return g.Repeats
	}
	return 6
}

// Authorize refuses a file that goes in a circle.
func (g *LoopGuard) Authorize(_ context.Context, op Operation) (Decision, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, ch := range op.Changes {
		if c := g.past[ch.RealPath]; c != nil && c.repeats >= g.limit() {
			return Deny(fmt.Sprintf("%s has come back %d times to a content it had before; stop changing it, look at what is wrong, and ask the user", ch.RealPath, c.repeats)), nil
		}
	}
	return Allow(), nil
}

// Observe follows the contents of each file.
func (g *LoopGuard) Observe(_ context.Context, op Operation, r Receipt, err error) {
	if op.DryRun || err != nil || r.Status != StatusSucceeded && r.Status != StatusUnchanged {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, ch := range op.Changes {
		if r.Status == StatusSucceeded && ch.SHA256 == ch.PrevSHA256 {
			continue // one of several that had nothing to change
		}
		g.follow(ch)
	}
}

func (g *LoopGuard) follow(ch Change) {
	if g.past == nil || len(g.past) > maxGuarded {
		g.past = map[string]*circle{}
	}
	c := g.past[ch.RealPath]
	if c == nil {
		c = &circle{seen: map[string]bool{}}
		g.past[ch.RealPath] = c
	}
	if len(c.seen) > maxGuarded {
		c.seen = map[string]bool{}
	}
	if c.seen[ch.SHA256] {
		c.repeats++
	}
	c.seen[ch.SHA256], c.seen[ch.PrevSHA256] = true, true
}

// ResetTask forgets.
func (g *LoopGuard) ResetTask() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.past = nil
}
