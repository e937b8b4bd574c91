package resilientwrite

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/admin"
	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/layer/drafts"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// The retry budget: a call that fails the same way again and again is
// answered without doing any work. What makes calls the same is the verb, the
// paths, the whole request, the policy and the state of the target; when any
// of it changes, the count starts again. Failures that time may mend are not
// counted.

const (
	guardName   = admin.BudgetsName
	guardLimit  = 1 << 20 // bytes of the file
	maxStrikes  = 1000    // calls that are remembered
	strikeAge   = 24 * time.Hour
	stateAbsent = "absent"
)

// strike is how often one call has failed.
type strike struct {
	N      int        `json:"n"`
	Detail fault.Code `json:"detail"`
	State  string     `json:"state"`           // of the target when it failed
	At     int64      `json:"at"`              // seconds since 1970
	Draft  string     `json:"draft,omitempty"` // where the refused draft is
}

// tally is what the file holds. Its generation grows with every new task, so
// that no one brings back the counts of an old one.
type tally struct {
	Task    int64             `json:"task"`
	Strikes map[string]strike `json:"strikes"`
}

// guard is the memory of failed calls. The file is shared by all processes
// and read again before each change; a process that only succeeds never looks
// at it.
type guard struct {
	mu      sync.Mutex
	strikes map[string]strike
	task    int64
	seen    fsx.Stat // the file when it was read last
	written int64    // when it was written last by this process, seconds since 1970
}

// get returns what is known of a call, in this process.
func (g *guard) get(key string) (strike, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k, ok := g.strikes[key]
	return k, ok
}

// refreshGuard takes over what other processes counted, when the file changed,
// and reports whether anything is counted.
func (s *Store) refreshGuard() (known bool) {
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	s.followTally()
	return len(s.guard.strikes) > 0
}

// followTally reads the file again if another process has changed it. The
// caller holds the lock of the guard.
func (s *Store) followTally() {
	if s.engine.Disk.State == nil {
		return
	}
	if st, err := s.engine.Disk.State.Lstat(guardName); err == nil && st != s.guard.seen {
		s.guard.take(s.readTally())
		s.guard.seen = st
	}
}

// take takes over what the file holds.
func (g *guard) take(t tally) {
	if t.Task > g.task {
		g.task, g.strikes = t.Task, map[string]strike{}
	}
	if t.Task == g.task {
		g.merge(t.Strikes)
	}
}

// merge takes over counts that are newer or higher.
func (g *guard) merge(strikes map[string]strike) {
	for k, v := range strikes {
		if have, ok := g.strikes[k]; !ok || v.At > have.At || v.At == have.At && v.N > have.N {
			g.strikes[k] = v
		}
	}
}

// openGuard reads the counts of earlier processes. A damaged file is a lost
// count, not a failed Open.
func (s *Store) openGuard() {
	t := s.readTally()
	s.guard.task, s.guard.strikes = t.Task, t.Strikes
}

func (s *Store) readTally() tally {
	t := tally{Strikes: map[string]strike{}}
	if s.engine.Disk.State == nil {
		return t
	}
	data, err := durable.ReadFile(s.engine.Disk.State, guardName, guardLimit)
	if err != nil || json.Unmarshal(data, &t) != nil || t.Strikes == nil {
		return tally{Strikes: map[string]strike{}}
	}
	for key, k := range t.Strikes {
		if age := s.engine.Now().Unix() - k.At; k.N < 1 || age > int64(strikeAge.Seconds()) || age < -int64(strikeAge.Seconds()) {
			delete(t.Strikes, key)
		}
	}
	return t
}

// budgetFile is the file of the counts for the verbs of the operator.
func (s *Store) budgetFile() admin.Budgets {
	return admin.Budgets{
		Limit: guardLimit,
		Lock:  func() func() { s.guard.mu.Lock(); return s.guard.mu.Unlock },
		Decode: func(data []byte) (int, bool) {
			var t tally
			ok := json.Unmarshal(data, &t) == nil
			return len(t.Strikes), ok
		},
		Live: func() int { return len(s.readTally().Strikes) },
		Rewrite: func() error {
			t := s.readTally()
			s.guard.task, s.guard.strikes = t.Task, t.Strikes
			return s.writeStrikes()
		},
	}
}

// call is what makes two calls the same.
type call struct {
	op    string
	paths []string
	hash  string // of the whole request
	reads bool   // a verb that changes nothing in the workspace
}

func (s *Store) callKey(c call) string {
	return engine.HashOf([]byte(strings.Join([]string{c.op, strings.Join(c.paths, "\x00"), c.hash, s.policy().identity()}, "\x01")))[:32]
}

// stateOf summarises the files at the paths of a call.
func (s *Store) stateOf(paths []string) string {
	var states []string
	for _, p := range paths {
		states = append(states, s.stateOfPath(p))
	}
	return engine.HashOf([]byte(strings.Join(states, ";")))[:16]
}

func (s *Store) stateOfPath(path string) string {
	if ref, ok := strings.CutPrefix(path, draftState); ok {
		return s.stateOfDraft(ref)
	}
	rel := path
	if !strings.HasPrefix(path, engine.StateDirName+"/") { // an object of ours is named by us
		var err error
		if rel, _, err = relpath.Clean(path, s.engine.Tree.Rules); err != nil {
			return "none"
		}
	}
	t, err := s.engine.Locate(rel)
	if err != nil {
		return s.engine.ErrorOf(err).Code.Error()
	}
	defer t.Close()
	if !t.Exists() {
		return stateAbsent
	}
	st, err := t.Parent.Lstat(t.Name)
	if err != nil {
		return stateAbsent
	}
	return fmt.Sprint(st.Ino, st.Size, st.Mtime, st.Ctime, st.Mode, st.Nlink)
}

// draftState begins the name under which the state of a draft is asked for.
const draftState = "\x00draft/"

func (s *Store) stateOfDraft(ref string) string {
	dir, err := s.drafts.OpenDir()
	if err != nil || dir == nil || !drafts.ValidRef(ref) {
		return stateAbsent
	}
	defer dir.Close()
	st, err := dir.Lstat(ref + drafts.FactsSuffix)
	if err != nil {
		return stateAbsent
	}
	return fmt.Sprint(st.Ino, st.Size, st.Mtime)
}

// exhausted refuses a call that has used up its budget, before any work is
// done.
func (s *Store) exhausted(c call) *fault.Fault {
	if !s.refreshGuard() {
		return nil
	}
	k, ok := s.guard.get(s.callKey(c))
	if !ok || k.N < s.budget() || s.engine.Now().Unix()-k.At > int64(strikeAge.Seconds()) || k.State != s.stateOf(c.paths) {
		return nil
	}
	class := k.Detail.Class()
	e := fault.New(fault.RetryExhausted).With("attempts", k.N)
	if k.Draft != "" && s.stateOfPath(draftState+k.Draft) != stateAbsent {
		e.With("draft_ref", k.Draft)
	}
	e.With("last_error", map[string]any{
		"error": Kind(class.Kind), "reason_hint": Reason(class.Reason), "suggested_action": Action(class.Action), "reason": Detail(k.Detail),
	})
	e.RetryBudget = 0
	return e.Hintf("this call failed %d times with %s and was not tried again; %s. Change the call, or ask the user", k.N, k.Detail, class.Hint)
}

func (s *Store) budget() int { return s.policy().file.RetryBudget.Default }

// strike counts a failure and returns how many identical attempts are left.
func (s *Store) strike(c call, e *fault.Fault) int {
	key, budget := s.callKey(c), s.budget()
	if !countable(e) {
		if k, ok := s.guard.get(key); ok && k.State == s.stateOf(c.paths) {
			return max(0, budget-k.N)
		}
		return budget
	}
	now := strike{N: 1, Detail: e.Code, State: s.stateOf(c.paths), At: s.engine.Now().Unix()}
	now.Draft, _ = e.Context["draft_ref"].(string)
	count := func() {
		s.followTally()
		if k, ok := s.guard.strikes[key]; ok && k.State == now.State && k.Detail == now.Detail && now.At-k.At <= int64(strikeAge.Seconds()) {
			now.N = min(k.N+1, budget)
		}
		s.guard.strikes[key] = now
		s.guard.trim(key)
	}
	if s.opts.ReadOnly || s.engine.Poisoned.Load() || s.mayWait(c, key, now.At) {
		s.guard.mu.Lock()
		defer s.guard.mu.Unlock()
		count()
		return max(0, budget-now.N)
	}
	s.engine.Alone("budget", func() error { // a count that cannot be kept is reported anyway
		s.guard.mu.Lock()
		defer s.guard.mu.Unlock()
		count()
		return s.writeStrikes()
	})
	return max(0, budget-now.N)
}

// mayWait reports whether a count may wait in memory until the next one is
// written: the first failure of a call that reads, when the file was written
// less than a second ago. Who reads a thousand files that are not there does
// not wait for a thousand flushes, and what a crash loses is one attempt.
func (s *Store) mayWait(c call, key string, now int64) bool {
	if !c.reads || s.budget() < 2 {
		return false
	}
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	_, known := s.guard.strikes[key]
	return !known && now == s.guard.written
}

func (s *Store) writeStrikes() error {
	data, err := json.Marshal(tally{s.guard.task, s.guard.strikes})
	if err != nil {
		return err
	}
	if err := durable.WriteFile(s.engine.Disk.State, guardName, data, 0o600); err != nil {
		return err
	}
	s.guard.written = s.engine.Now().Unix()
	if st, err := s.engine.Disk.State.Lstat(guardName); err == nil {
		s.guard.seen = st
	}
	return nil
}

// trim forgets the oldest calls, but not the one that was counted just now.
func (g *guard) trim(newest string) {
	switch over := len(g.strikes) - maxStrikes; {
	case over <= 0:
		return
	case over == 1: // one came in, one goes
		oldest := ""
		for k, v := range g.strikes {
			if k != newest && (oldest == "" || v.At < g.strikes[oldest].At) {
				oldest = k
			}
		}
		delete(g.strikes, oldest)
		return
	}
	keys := make([]string, 0, len(g.strikes))
	for k := range g.strikes {
		if k != newest {
			keys = append(keys, k)
		}
	}
	sort.Slice(keys, func(i, j int) bool { return g.strikes[keys[i]].At < g.strikes[keys[j]].At })
	for _, k := range keys[:len(keys)+1-maxStrikes] {
		delete(g.strikes, k)
	}
}

// countable reports whether trying the same again is pointless.
func countable(e *fault.Fault) bool {
	if e.Code.Class().Action == fault.ActionRetryLater {
		return false
	}
	switch e.Code {
	case fault.StoreClosed, fault.StoreReadOnly, fault.StorePoisoned, fault.RetryExhausted, fault.InputRequired, fault.BadPolicy:
		return false
	}
	return true
}

// ResetTask begins a new task: every call has its whole retry budget again,
// and hooks with a method ResetTask start again. A panic in one is contained:
// the others and the budgets are reset, and the error records it.
func (s *Store) ResetTask(ctx context.Context) error {
	if err := s.engine.EnterReader(); err != nil {
		return s.verbError("reset_task", err)
	}
	defer s.engine.Leave()
	clear := func() error {
		s.guard.mu.Lock()
		defer s.guard.mu.Unlock()
		if !s.opts.ReadOnly {
			s.guard.task = max(s.guard.task, s.readTally().Task)
		}
		s.guard.task++
		s.guard.strikes = map[string]strike{}
		if s.opts.ReadOnly || s.engine.Disk.State == nil {
			return nil
		}
		return s.writeStrikes()
	}
	failed := s.resetHooks()
	renew := clear
	if !s.opts.ReadOnly {
		renew = func() error { return s.engine.Alone("budget", clear) }
	}
	if err := renew(); err != nil {
		return s.verbError("reset_task", err)
	}
	return failed
}

// resetHooks begins a new task for the hooks that count. One that panics keeps
// the counts of the old task, which the caller has to know.
func (s *Store) resetHooks() (failed error) {
	for i, t := range s.opts.Hooks.resetters() {
		func() {
			defer func() {
				if recover() != nil {
					e := fault.New(fault.Internal).With("index", i).Hintf("a hook of the host could not start a new task; everything else was reset")
					failed = s.verbError("reset_task", e)
				}
			}()
			t.ResetTask()
		}()
	}
	return failed
}
