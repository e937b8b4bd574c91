// Package budget counts failed calls: a call that repeatedly fails the same way is
// answered without doing any work. Two calls are the same if the verb, the paths, the
// whole request, the policy and the state of the target are equal; when any of them
// changes, the count starts again. Failures that may disappear with time are not
// counted.
package budget

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/gate"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

const (
	Name       = "budgets.json" // the file, in the state directory
	Limit      = 1 << 20        // its bytes
	maxStrikes = 1000           // calls that are remembered
	MaxAge     = 24 * time.Hour
	absent     = "Absent"
)

// strike is how often one call has failed.
type strike struct {
	N      int        `json:"n"`
	Detail fault.Code `json:"detail"`
	State  string     `json:"state"`           // of the target when it failed
	At     int64      `json:"at"`              // seconds since 1970
	Draft  string     `json:"draft,omitempty"` // where the refused draft is
}

// expired reports whether a count is too old. One that lies further ahead than a count
// can last is of a clock that was wrong.
func (k strike) expired(now int64) bool {
	age, most := now-k.At, int64(MaxAge.Seconds())
	return age > most || age < -most
}

// tally is the content of the file. Its generation grows with every new task, so that
// no process restores the counts of an old one.
type tally struct {
	Task    int64             `json:"task"`
	Strikes map[string]strike `json:"strikes"`
}

// Layer is the memory of failed calls. The file is shared by all processes and read
// again before each change; a process whose calls all succeed never reads it.
type Layer struct {
	*engine.Engine
	Gate *gate.Layer
	// Describe is a failure as the context of an error has it.
	Describe func(fault.Code) map[string]any
	// DraftPath is the path of a refused draft.
	DraftPath func(ref string) string

	mu      sync.Mutex
	strikes map[string]strike
	task    int64
	seen    fsx.Stat // the file when it was read last
	written int64    // when it was written last by this process, seconds since 1970
}

// get returns the count of a call, as this process knows it.
func (g *Layer) get(key string) (strike, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k, ok := g.strikes[key]
	return k, ok
}

// Known adopts the counts of other processes, if the file changed, and reports whether
// there are any counts.
func (g *Layer) Known() (known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.follow()
	return len(g.strikes) > 0
}

// follow reads the file again if another process has changed it. The
// caller holds the lock of the guard.
func (g *Layer) follow() error {
	if g.Disk.State == nil {
		return nil
	}
	st, err := g.Disk.State.Lstat(Name)
	if engine.IsAbsent(err) || err == nil && st == g.seen {
		return nil
	}
	t, _, rerr := g.readTally()
	if err = cmp.Or(err, rerr); err == nil {
		g.take(t)
		g.seen = st
	}
	return err
}

// take adopts the counts of the file that are newer or higher; those of a new task replace
// the others.
func (g *Layer) take(t tally) {
	if t.Task > g.task {
		g.task, g.strikes = t.Task, map[string]strike{}
	}
	if t.Task < g.task {
		return
	}
	for k, v := range t.Strikes {
		if have, ok := g.strikes[k]; !ok || have.expired(g.Now().Unix()) || v.At > have.At || v.At == have.At && v.N > have.N {
			g.strikes[k] = v
		}
	}
}

// Load reads the counts of earlier processes. A damaged file loses counts, but Open
// does not fail. One that cannot be read now is read with the next call.
func (g *Layer) Load() {
	t, _, _ := g.readTally()
	g.task, g.strikes = t.Task, t.Strikes
}

// readTally reads the counts of the file, without the expired ones.
func (g *Layer) readTally() (t tally, expired int, err error) {
	none := tally{Strikes: map[string]strike{}}
	if g.Disk.State == nil {
		return none, 0, nil
	}
	data, err := durable.ReadFile(g.Disk.State, Name, Limit)
	if engine.IsAbsent(err) || engine.IsOdd(err) {
		return none, 0, nil
	}
	if err != nil || json.Unmarshal(data, &t) != nil || t.Strikes == nil {
		return none, 0, err
	}
	all, now := len(t.Strikes), g.Now().Unix()
	maps.DeleteFunc(t.Strikes, func(_ string, k strike) bool { return k.N < 1 || k.expired(now) })
	return t, all - len(t.Strikes), nil
}

// Lock blocks access to the counts by other calls of this process.
func (g *Layer) Lock() (unlock func()) {
	g.mu.Lock()
	return g.mu.Unlock
}

// Sound reports whether the bytes of the file can be read.
func Sound(data []byte) bool { return json.Unmarshal(data, new(tally)) == nil }

// Expired returns how many counts of the file have expired; 0 if it cannot be read.
func (g *Layer) Expired() int {
	_, expired, _ := g.readTally()
	return expired
}

// Rewrite drops the counts that have expired. The caller holds Lock.
func (g *Layer) Rewrite() error {
	t, _, err := g.readTally()
	if err != nil {
		return err
	}
	g.task, g.strikes = t.Task, t.Strikes
	return g.write()
}

// Call is what makes two calls the same.
type Call struct {
	Op    string
	Paths []string
	Hash  string // of the whole request
	Reads bool   // a verb that changes nothing in the workspace
}

func (g *Layer) key(c Call) string {
	return engine.HashOf([]byte(strings.Join([]string{c.Op, strings.Join(c.Paths, "\x00"), c.Hash, g.Gate.Policy().Identity()}, "\x01")))[:32]
}

// stateOf summarises the files at the paths of a call.
func (g *Layer) stateOf(paths []string) string {
	var states []string
	for _, p := range paths {
		states = append(states, g.stateOfPath(p))
	}
	return engine.HashOf([]byte(strings.Join(states, ";")))[:16]
}

// stateOfPath summarizes the file at a path.
func (g *Layer) stateOfPath(path string) string {
	if object, ok := strings.CutPrefix(path, engine.StateDirName+"/"); ok { // an object of ours is named by us
		return cmp.Or(g.StateOf(object), absent)
	}
	rel, _, err := relpath.Clean(path, g.Tree.Rules)
	if err != nil {
		return "none"
	}
	t, err := g.Tree.Resolve(rel)
	if err != nil {
		return g.ErrorOf(err).Code.Error()
	}
	defer t.Close()
	if !t.Exists() {
		return absent
	}
	st, err := t.Parent.Lstat(t.Name)
	if err != nil {
		return absent
	}
	return fmt.Sprint(st.Ino, st.Size, st.Mtime, st.Ctime, st.Mode, st.Nlink)
}

// Budget returns how often the policy lets a call fail.
func (g *Layer) Budget() int { return g.Gate.Policy().File.RetryBudget.Default }

// Exhausted refuses a call that has used up its budget, before any work is
// done.
func (g *Layer) Exhausted(c Call) *fault.Fault {
	if !g.Known() {
		return nil
	}
	k, ok := g.get(g.key(c))
	if !ok || k.N < g.Budget() || k.expired(g.Now().Unix()) || k.State != g.stateOf(c.Paths) {
		return nil
	}
	class := k.Detail.Class()
	e := fault.New(fault.RetryExhausted).With("attempts", k.N)
	if k.Draft != "" && g.stateOfPath(g.DraftPath(k.Draft)) != absent {
		e.With("draft_ref", k.Draft)
	}
	e.With("last_error", g.Describe(k.Detail))
	e.RetryBudget = 0
	return e.Hintf("this call failed %d times with %s and was not tried again; %s. Change the call, or ask the user", k.N, k.Detail, class.Hint)
}

// Strike counts a failure and returns how many identical attempts remain.
func (g *Layer) Strike(c Call, e *fault.Fault) int {
	key, budget := g.key(c), g.Budget()
	if !Countable(e) {
		if k, ok := g.get(key); ok && k.State == g.stateOf(c.Paths) {
			return max(0, budget-k.N)
		}
		return budget
	}
	now := strike{N: 1, Detail: e.Code, State: g.stateOf(c.Paths), At: g.Now().Unix()}
	now.Draft, _ = e.Context["draft_ref"].(string)
	count := func() error {
		err := g.follow()
		if k, ok := g.strikes[key]; ok && k.State == now.State && k.Detail == now.Detail && !k.expired(now.At) {
			now.N = min(k.N+1, budget)
		}
		g.strikes[key] = now
		g.trim(key)
		return err
	}
	if g.Opts.ReadOnly || g.Poisoned.Load() || g.mayWait(c, key, now.At) {
		g.mu.Lock()
		defer g.mu.Unlock()
		count()
		return max(0, budget-now.N)
	}
	g.Alone("budget", func() error { // a count that cannot be kept is reported anyway
		g.mu.Lock()
		defer g.mu.Unlock()
		if err := count(); err != nil { // the file may have counts of others
			return err
		}
		return g.write()
	})
	return max(0, budget-now.N)
}

// mayWait reports whether a count may stay in memory until the next one is written: it
// is the first failure of a call that reads, and the file was written less than a
// second ago. A caller that reads a thousand missing files does not wait for a thousand
// flushes. A crash loses at most one attempt.
func (g *Layer) mayWait(c Call, key string, now int64) bool {
	if !c.Reads || g.Budget() < 2 {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	_, known := g.strikes[key]
	return !known && now == g.written
}

func (g *Layer) write() error {
	data, err := json.Marshal(tally{g.task, g.strikes})
	if err != nil {
		return err
	}
	if err := durable.WriteFile(g.Disk.State, Name, data, 0o600); err != nil {
		return err
	}
	g.written = g.Now().Unix()
	if st, err := g.Disk.State.Lstat(Name); err == nil {
		g.seen = st
	}
	return nil
}

// trim forgets the oldest calls, but not the one that was counted just now.
func (g *Layer) trim(newest string) {
	for len(g.strikes) > maxStrikes { // by one, unless another process has added many
		oldest := ""
		for k, v := range g.strikes {
			if k != newest && (oldest == "" || v.At < g.strikes[oldest].At) {
				oldest = k
			}
		}
		delete(g.strikes, oldest)
	}
}

// Countable reports whether trying the same again is pointless.
func Countable(e *fault.Fault) bool {
	if e.Code.Class().Action == fault.ActionRetryLater {
		return false
	}
	switch e.Code {
	case fault.StoreClosed, fault.StoreReadOnly, fault.StorePoisoned, fault.RetryExhausted, fault.InputRequired, fault.BadPolicy:
		return false
	}
	return true
}

// Reset begins a new task: every call has its whole budget again.
func (g *Layer) Reset() error {
	clear := func() error {
		defer g.Lock()()
		if !g.Opts.ReadOnly {
			t, _, err := g.readTally()
			if err != nil {
				return err
			}
			g.task = max(g.task, t.Task)
		}
		g.task++
		g.strikes = map[string]strike{}
		if g.Opts.ReadOnly || g.Disk.State == nil {
			return nil
		}
		return g.write()
	}
	if g.Opts.ReadOnly {
		return clear()
	}
	return g.Alone("budget", clear)
}

// Attempt is a call of a verb that changes nothing in the workspace.
type Attempt struct {
	l    *Layer
	call Call
	req  any
}

// Begin counts a call in, unless its retry budget is used up. The caller ends it
// with Leave of the engine or with Fail.
func (l *Layer) Begin(ctx context.Context, op, path string, req any) (*Attempt, *fault.Fault) {
	canceled, enter := ctx.Err(), l.EnterReader // a nil context panics before it is counted in
	if engine.Stateless[op] {
		enter = l.EnterAny
	}
	if err := enter(); err != nil {
		return nil, l.VerbFault(op, err)
	}
	a := &Attempt{l: l, call: Call{Op: op, Reads: true}, req: req}
	if path != "" {
		a.call.Paths = []string{path}
	}
	if canceled != nil {
		return nil, a.Fail(canceled)
	}
	if l.Known() {
		a.call.Hash = RequestHash(req)
		if e := l.Exhausted(a.call); e != nil {
			return nil, a.Fail(e)
		}
	}
	return a, nil
}

// Fail ends the call with an error.
func (a *Attempt) Fail(err error) *fault.Fault {
	defer a.l.Leave()
	e := a.l.VerbFault(a.call.Op, err)
	if e.Code == fault.RetryExhausted {
		return e
	}
	if a.call.Hash == "" {
		a.call.Hash = RequestHash(a.req)
	}
	e.RetryBudget = a.l.Strike(a.call, e)
	return e
}

// Refused counts a call that an adapter refused because of its arguments.
func (l *Layer) Refused(verb string, args []byte, refusal *fault.Fault) *fault.Fault {
	if err := l.EnterReader(); err != nil {
		return l.VerbFault(verb, err)
	}
	a := &Attempt{l: l, call: Call{Op: verb, Hash: "refused " + engine.HashOf(args), Reads: true}}
	e := l.Exhausted(a.call)
	if e == nil {
		return a.Fail(refusal)
	}
	for name, value := range refusal.Context {
		if _, taken := e.Context[name]; !taken {
			e.With(name, value)
		}
	}
	return a.Fail(e)
}

// RequestHash returns the identity of a request. It uses Go syntax, which
// distinguishes texts that JSON does not, because JSON replaces invalid UTF-8.
func RequestHash(req any) string {
	data, err := json.Marshal(req)
	if err != nil { // a json.RawMessage that is not JSON
		data = []byte(`\ufffd`)
	}
	if bytes.Contains(data, []byte(`\ufffd`)) || bytes.Contains(data, []byte("\ufffd")) {
		data = append(data, fmt.Sprintf("%+q", fmt.Sprint(req))...)
	}
	return engine.HashOf(data)
}

// About combines a request with the state of the objects that it refers to: a call
// that failed because an object did not exist counts as another call once it
// exists.
func (l *Layer) About(req any, objects ...string) any { return about{l, req, objects} }

type about struct {
	l       *Layer
	req     any
	objects []string
}

// MarshalJSON reads the objects when the budget of the call is checked.
func (a about) MarshalJSON() ([]byte, error) {
	var states []string
	for _, object := range a.objects {
		states = append(states, a.l.StateOf(strings.TrimPrefix(object, engine.StateDirName+"/")))
	}
	return json.Marshal(map[string]any{"req": a.req, "states": states})
}
