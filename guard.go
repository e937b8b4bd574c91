package resilientwrite

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// The retry budget: a call that fails the same way again and again is
// answered without doing any work. What makes calls the same is the verb, the
// paths, the whole request, the policy and the state of the target; when any
// of it changes, the count begins anew. Failures that time may mend are not
// counted.

const (
	guardName   = "budgets.json"
	guardLimit  = 1 << 20 // bytes of the file
	maxStrikes  = 1000    // calls that are remembered
	strikeAge   = 24 * time.Hour
	stateAbsent = "absent"
)

// strike is how often one call has failed.
type strike struct {
	N      int    `json:"n"`
	Detail Detail `json:"detail"`
	State  string `json:"state"`           // of the target when it failed
	At     int64  `json:"at"`              // seconds since 1970
	Draft  string `json:"draft,omitempty"` // where the refused draft is
}

// guard is the memory of failed calls. The file is shared by all processes
// and read again before each change; a process that only succeeds never looks
// at it.
type guard struct {
	mu      sync.Mutex
	strikes map[string]strike
}

// get returns what is known of a call, in this process.
func (g *guard) get(key string) (strike, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k, ok := g.strikes[key]
	return k, ok
}

func (g *guard) empty() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.strikes) == 0
}

// openGuard reads the counts of earlier processes. A damaged file is a lost
// count, not a failed Open.
func (s *Store) openGuard() {
	s.guard.strikes = s.readStrikes()
}

func (s *Store) readStrikes() map[string]strike {
	strikes := map[string]strike{}
	if s.disk.state == nil {
		return strikes
	}
	data, err := durable.ReadFile(s.disk.state, guardName, guardLimit)
	if err != nil || json.Unmarshal(data, &strikes) != nil || strikes == nil {
		return map[string]strike{}
	}
	for key, k := range strikes {
		if age := s.now().Unix() - k.At; age > int64(strikeAge.Seconds()) || age < -int64(strikeAge.Seconds()) {
			delete(strikes, key)
		}
	}
	return strikes
}

// call is what makes two calls the same.
type call struct {
	op    string
	paths []string
	hash  string // of the whole request
}

func (s *Store) callKey(c call) string {
	return hashOf([]byte(strings.Join([]string{c.op, strings.Join(c.paths, "\x00"), c.hash, s.policy.hash}, "\x01")))[:32]
}

// stateOf tells in a few words what stands under the paths of a call.
func (s *Store) stateOf(paths []string) string {
	var states []string
	for _, p := range paths {
		states = append(states, s.stateOfPath(p))
	}
	return hashOf([]byte(strings.Join(states, ";")))[:16]
}

func (s *Store) stateOfPath(path string) string {
	rel, _, err := relpath.Clean(path, s.tree.Rules)
	if err != nil {
		return "none"
	}
	t, err := s.tree.Resolve(rel)
	if err != nil {
		return s.errorOf(err).Detail.Error()
	}
	defer t.Close()
	if !t.Exists() {
		return stateAbsent
	}
	st, err := t.Parent.Lstat(t.Name)
	if err != nil {
		return stateAbsent
	}
	return fmt.Sprint(st.Ino, st.Size, st.Mtime, st.Mode)
}

// exhausted refuses a call that has used up its budget, before any work is
// done.
func (s *Store) exhausted(c call) *Error {
	if s.guard.empty() {
		return nil
	}
	k, ok := s.guard.get(s.callKey(c))
	if !ok || k.N < s.budget() || s.now().Unix()-k.At > int64(strikeAge.Seconds()) || k.State != s.stateOf(c.paths) {
		return nil
	}
	kind, reason, action, _, hint := k.Detail.Describe()
	e := fail(RetryExhausted).with("attempts", k.N)
	if k.Draft != "" {
		e.with("draft_ref", k.Draft)
	}
	e.with("last_error", map[string]any{
		"error": kind, "reason_hint": reason, "suggested_action": action, "reason": k.Detail,
	})
	e.RetryBudget = 0
	return e.hint("this call failed %d times with %s and was not tried again; %s. Change the call, or ask the user", k.N, k.Detail, hint)
}

func (s *Store) budget() int { return s.policy.file.RetryBudget.Default }

// strike counts a failure and returns how many identical attempts are left.
func (s *Store) strike(c call, e *Error) int {
	key, budget := s.callKey(c), s.budget()
	if !countable(e) {
		if k, ok := s.guard.get(key); ok && k.State == s.stateOf(c.paths) {
			return max(0, budget-k.N)
		}
		return budget
	}
	now := strike{N: 1, Detail: e.Detail, State: s.stateOf(c.paths), At: s.now().Unix()}
	now.Draft, _ = e.Context["draft_ref"].(string)
	count := func() error {
		s.guard.mu.Lock()
		defer s.guard.mu.Unlock()
		if !s.opts.ReadOnly {
			for k, v := range s.readStrikes() {
				if have, ok := s.guard.strikes[k]; !ok || v.At > have.At || v.N > have.N {
					s.guard.strikes[k] = v
				}
			}
		}
		if k, ok := s.guard.strikes[key]; ok && k.State == now.State && k.Detail == now.Detail && now.At-k.At <= int64(strikeAge.Seconds()) {
			now.N = min(k.N+1, budget)
		}
		s.guard.strikes[key] = now
		s.guard.trim()
		if s.opts.ReadOnly || s.poisoned.Load() {
			return nil
		}
		return s.writeStrikes()
	}
	if s.opts.ReadOnly {
		count()
	} else {
		s.alone("budget", count) // a count that cannot be kept is told all the same
	}
	return max(0, budget-now.N)
}

func (s *Store) writeStrikes() error {
	data, err := json.Marshal(s.guard.strikes)
	if err != nil {
		return err
	}
	return durable.WriteFile(s.disk.state, guardName, data, 0o600)
}

// trim forgets the oldest calls.
func (g *guard) trim() {
	if len(g.strikes) <= maxStrikes {
		return
	}
	keys := make([]string, 0, len(g.strikes))
	for k := range g.strikes {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool { return g.strikes[keys[i]].At < g.strikes[keys[j]].At })
	for _, k := range keys[:len(keys)-maxStrikes] {
		delete(g.strikes, k)
	}
}

// countable reports whether trying the same again is pointless.
func countable(e *Error) bool {
	if e.Action == ActionRetryLater {
		return false
	}
	switch e.Detail {
	case StoreClosed, StoreReadOnly, StorePoisoned, RetryExhausted:
		return false
	}
	return true
}

// ResetTask begins a new task: every call has its whole retry budget again.
func (s *Store) ResetTask(ctx context.Context) error {
	if err := s.enterReader(); err != nil {
		return s.verbError("reset_task", err)
	}
	defer s.leave()
	clear := func() error {
		s.guard.mu.Lock()
		defer s.guard.mu.Unlock()
		s.guard.strikes = map[string]strike{}
		if s.opts.ReadOnly || s.disk.state == nil {
			return nil
		}
		if err := s.disk.state.Remove(guardName); err != nil && !isAbsent(err) {
			return err
		}
		return nil
	}
	if s.opts.ReadOnly {
		return clear()
	}
	if err := s.alone("budget", clear); err != nil {
		return s.verbError("reset_task", err)
	}
	return nil
}

// attempt is a call of a verb that changes nothing in the workspace.
type attempt struct {
	s    *Store
	call call
	req  any
}

// begin counts a call in, unless its budget is used up. The caller ends it
// with leave, or with failed.
func (s *Store) begin(ctx context.Context, op, path string, req any) (*attempt, error) {
	if err := s.enterReader(); err != nil {
		return nil, s.verbError(op, err)
	}
	a := &attempt{s: s, call: call{op: op}, req: req}
	if path != "" {
		a.call.paths = []string{path}
	}
	if err := ctx.Err(); err != nil {
		return nil, a.failed(err)
	}
	if !s.guard.empty() {
		a.call.hash = requestHash(req)
		if e := s.exhausted(a.call); e != nil {
			return nil, a.failed(e)
		}
	}
	return a, nil
}

// failed ends the call with an error.
func (a *attempt) failed(err error) *Error {
	defer a.s.leave()
	e := a.s.verbError(a.call.op, err)
	if e.Detail == RetryExhausted {
		return e
	}
	if a.call.hash == "" {
		a.call.hash = requestHash(a.req)
	}
	e.RetryBudget = a.s.strike(a.call, e)
	return e
}

func requestHash(req any) string {
	data, err := json.Marshal(req)
	if err != nil {
		return "?"
	}
	return hashOf(data)
}
