package hooks

import (
	"cmp"
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

// ReadOnly refuses every change.
func ReadOnly() Decision {
	return deny("read_only", "", "this workspace is read-only now; ask the user")
}

// PathRules decides by path.
type PathRules struct{ Allow, Deny []string }

// Authorize decides by the paths of the call, as requested and after symbolic
// links are resolved.
func (r PathRules) Authorize(c Call) (Decision, error) {
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
	return allow(), nil
}

// Permission asks about every change, except of the paths that the globs match. It
// always asks about a destructive call.
func Permission(autoApprove []string, c Call) Decision {
	var changes []Change
	for _, ch := range c.Changes {
		if c.Destructive() || !policyfile.Covers(autoApprove, ch.RealPath) {
			changes = append(changes, ch)
		}
	}
	if c.DryRun || len(changes) == 0 {
		return allow()
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
	return Decision{Verdict: Asks, Reason: "may " + c.Verb + " do this: " + strings.Join(said, ", ") + "?"}
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

// Limits are what one task may do in the workspace; 0 means no limit.
type Limits struct {
	Bytes    int64
	Writes   int
	Failures int
}

// Spent counts what one task has done. Its zero value is ready for use.
type Spent struct {
	mu     sync.Mutex
	done   Limits
	active map[string]int // files of calls that did not end yet, by invocation
}

// Authorize refuses when a limit is reached.
func (s *Spent) Authorize(most Limits, c Call) Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.active, c.InvocationID) // it may be asked twice for one call
	writes := s.done.Writes
	for _, n := range s.active {
		writes += n
	}
	switch {
	case most.Bytes > 0 && s.done.Bytes >= most.Bytes:
		return deny("budget_bytes", "", "this task has written %d bytes, its budget is %d; report to the user", s.done.Bytes, most.Bytes)
	case most.Writes > 0 && writes+len(c.Changes) > most.Writes:
		return deny("budget_writes", "", "this task has changed %d files, its budget is %d; report to the user", writes, most.Writes)
	case most.Failures > 0 && s.done.Failures >= most.Failures:
		return deny("budget_failures", "", "%d calls of this task have failed, which is its budget; stop and report to the user", s.done.Failures)
	}
	if !c.DryRun && c.InvocationID != "" {
		if s.active == nil {
			s.active = map[string]int{}
		}
		s.active[c.InvocationID] = len(c.Changes)
	}
	return allow()
}

// Withdraw releases what was reserved for a call.
func (s *Spent) Withdraw(c Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.active, c.InvocationID)
}

// Observe counts a call that ended: what it changed, if it succeeded, or that it
// failed.
func (s *Spent) Observe(c Call, succeeded, failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.active, c.InvocationID)
	switch {
	case c.DryRun:
	case failed:
		s.done.Failures++
	case succeeded:
		s.done.Writes += len(c.Changes)
		for _, ch := range c.Changes {
			s.done.Bytes += ch.Bytes
		}
	}
}

// Reset begins a new task.
func (s *Spent) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = Limits{}
}

// Loops records the contents of files and the failed calls, to find a caller who
// makes no progress. Its zero value is ready for use.
type Loops struct {
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

// Authorize refuses a file whose contents repeat more often than limit, or whose
// calls keep failing.
func (g *Loops) Authorize(limit int, c Call) Decision {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, ch := range c.Changes {
		past := g.past[ch.RealPath]
		switch {
		case past == nil:
		case past.repeats >= limit:
			return deny("loop_no_progress", ch.Path, "%s has come back %d times to a content it had before; stop changing it, look at what is wrong, and ask the user",
				ch.RealPath, past.repeats)
		case past.failed >= limit:
			return deny("loop_failing", ch.Path, "%d calls one after the other failed to change %s, the last one with %s; stop trying, read the file, and ask the user how to go on",
				past.failed, ch.RealPath, past.why)
		}
	}
	return allow()
}

// Observe records the contents of the files of a call that ended, or that it
// failed with e.
func (g *Loops) Observe(c Call, succeeded bool, e *fault.Fault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e != nil {
		g.count(c, e)
		return
	}
	for _, ch := range c.Changes {
		if succeeded && ch.SHA256 == ch.PrevSHA256 {
			continue // one of several that had nothing to change
		}
		g.follow(ch)
	}
}

// count records a failed call. Failures that may be temporary, that a rule of the
// host caused, or that the disk caused are not counted against the caller.
func (g *Loops) count(c Call, e *fault.Fault) {
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

func (g *Loops) circle(path string) *circle {
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

func (g *Loops) follow(ch Change) {
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

// Reset begins a new task: everything recorded about files is forgotten.
func (g *Loops) Reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.past = nil
}
