package resilientwrite

import (
	"cmp"
	"context"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/failpoint"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// Stage is a step on the way of a write.
type Stage string

// The stages, in the order in which every write passes them.
const (
	StageResolve      Stage = "resolve"      // where the path leads
	StageAuthorize    Stage = "authorize"    // may the caller do this
	StageLock         Stage = "lock"         // one writer per path
	StagePrecondition Stage = "precondition" // is the file as the request expects
	StageCompose      Stage = "compose"      // the final bytes
	StageClassify     Stage = "classify"     // the gate, on the final bytes
	StageStage        Stage = "stage"        // the final bytes beside the workspace
	StageRecord       Stage = "record"       // the commit point
	StagePublish      Stage = "publish"      // the bytes under their name
	StageSettle       Stage = "settle"       // the name on stable storage
)

// stages is the way of a write: one value, one direction. Up to the record
// stage nothing has happened that anybody could see; behind it the commit is
// finished, by this process or by the next one that opens the store.
var stages = []struct {
	name Stage
	run  func(*commit, context.Context) error
}{
	{StageResolve, (*commit).resolve},
	{StageAuthorize, (*commit).authorize},
	{StageLock, (*commit).lock},
	{StagePrecondition, (*commit).precondition},
	{StageCompose, (*commit).compose},
	{StageClassify, (*commit).classify},
	{StageStage, (*commit).stage},
	{StageRecord, (*commit).record},
	{StagePublish, (*commit).publish},
	{StageSettle, (*commit).settle},
}

// request is what every mutating call says about itself.
type request struct {
	op      string // the verb
	caller  string
	session string
	key     string // idempotency key
	hash    string // of everything the caller asked for
	dryRun  bool
	tx      string
	risk    risk
	args    any // the request of the verb, for its names

	complete bool // a handoff that says that the task is done
	frees    bool // a way out of a full disk, so it may have the reserve
}

// commit is a set of mutations on its way to the disk. All of it happens or
// nothing.
type commit struct {
	s     *Store
	req   request
	muts  []*mutation
	began time.Time
	inv   string // invocation id

	id       string
	at       Stage
	unlock   func()
	refilled func()             // waits for the slots that are made beside it; nil: none are
	newDirs  []string           // directories that the row says it makes, outermost first
	made     []madeDir          // those that it made
	entered  map[string]fsx.Dir // directories that were absent, by path
	handles  []io.Closer        // opened on the way
	head     uint64             // newest row that was known when the locks were taken
	rec      *journal.Record    // once written
	replayed *journal.Record    // the commit that the idempotency key had done
	ended    bool               // nothing is left to do
	handed   bool               // settling was handed to the background
	counted  bool               // counted in until release, because it has spooled
	diff     string             // of a dry run, or when it is asked for
	showDiff bool
	advice   []func()     // waits for what is inspected on the side
	accepted string       // the reason why a risk was taken
	refused  int          // files that the gate refuses
	asked    *call        // what the caller asked for
	session  string       // that the request named; req has the one that holds
	via      *journal.Via // what an adapter knows of the call; nil without one
	unasked  bool         // the user was not asked, because the idempotency key answers
	under    string       // the gate that holds

	protect   ProtectMode     // that holds
	consented map[string]bool // protected files that the user said yes to

	// outcome is what the call tells besides the facts of its files, once the
	// final bytes are known.
	outcome func() outcome

	also  []string // further names the commit must own
	spare spare    // its right to the reserve
	alone bool     // no other commit of any process is under way beside it

	// indexOf tells which operation of a transaction a mutation comes from, -1
	// for none of them.
	indexOf func(*mutation) int

	// plan decides what can be decided only when the locks are held: the
	// next free number, the content that depends on what is there. It may run
	// more than once, and may change what the mutations write; what it makes
	// them write to must be covered by also.
	plan func(context.Context) error
}

// newCommit begins a call.
func (s *Store) newCommit(ctx context.Context, req request) *commit {
	c := &commit{s: s, req: req, began: s.now(), id: s.newCommitID(), session: req.session, spare: s.newSpare(ctx, req.frees)}
	of, via := labelsOf(ctx), journal.Via{}
	if c.via = s.via(ctx); c.via != nil {
		via = *c.via
	}
	c.req.caller = cmp.Or(req.caller, via.Client, of.caller, s.opts.Caller)
	c.req.session = cmp.Or(via.Thread, req.session, via.Connection, of.session, s.opts.Session)
	c.inv = "inv_" + c.id
	return c
}

// madeDir is a directory that a commit made.
type madeDir struct {
	parent fsx.Dir
	name   string
	path   string
}

// commit runs the stages. It is the one path by which bytes reach the
// workspace.
func (s *Store) commit(ctx context.Context, c *commit) error {
	err := s.runStages(ctx, c)
	s.takeBack()
	if err == nil && c.rec != nil {
		s.pruneAfter(c.rec.Seq)
	}
	return err
}

func (s *Store) runStages(ctx context.Context, c *commit) error {
	if err := s.enter(); err != nil {
		defer c.release()
		return c.failed(err)
	}
	defer s.leave() // when the locks are given back: Close waits for it
	defer c.release()
	ctx, account, end := metered(ctx)
	defer end()
	c.under, c.protect = s.gateFor(ctx).String(), s.protectFor(ctx)
	if e := s.exhausted(c.call()); e != nil && !c.req.dryRun {
		return c.failed(e)
	}
	for _, stage := range stages {
		c.at = stage.name
		if stage.name == StageStage && c.req.dryRun {
			break
		}
		if err := ctx.Err(); err != nil {
			return c.failed(fault.New(fault.Canceled).Because(err))
		}
		if stage.name == StageRecord {
			ctx = context.WithoutCancel(ctx) // from here on the commit always finishes
		}
		account.at(stage.name)
		failpoint.At(string(stage.name))
		if err := stage.run(c, ctx); err != nil {
			return c.failed(err)
		}
		if c.ended {
			break
		}
	}
	if s.rows.due() {
		s.snapshot() // a cache: what goes wrong with it is no failure of the write
	}
	return nil
}

// failed finishes a commit that did not succeed: it undoes what can be
// undone, says where the disk stands, and leaves a row that tells of the
// refusal.
func (c *commit) failed(cause error) error {
	asked := c.call()
	for _, m := range c.muts {
		m.hidePath(c.s)
	}
	e := c.s.errorOf(cause)
	if e.Code == fault.InputRequired && c.at == StageAuthorize {
		return c.postponed(e)
	}
	if e.Code != fault.RetryExhausted && !c.req.dryRun && c.rec == nil && countable(e) {
		if spent := c.s.exhausted(asked); spent != nil {
			e = spent
		}
	}
	if e.Code == fault.TooManyFiles && c.s.history != nil {
		c.s.history.Trim()
	}
	e.Op = c.req.op
	if e.Stage == "" {
		e.Stage = string(c.at)
	}
	if e.Path == "" && len(c.muts) == 1 && !(c.muts[0].private && c.req.tx != "") {
		e.Path = c.muts[0].path // that of a staged transaction is no path that a caller knows
	}
	if c.rec != nil {
		e.Effect = c.abort(e)
	}
	if c.rec == nil {
		c.hideNames()
	}
	c.s.hideIn(e)
	if e.Context == nil {
		e.Context = map[string]any{}
	}
	e.Context["invocation_id"] = c.inv
	if !c.req.dryRun && !c.s.opts.ReadOnly {
		// A caller in a loop must not fill the journal: only the attempts that
		// were looked at have a row.
		e.Context["journaled"] = c.rec != nil || e.Code != fault.RetryExhausted && c.recordRefusal(e)
	}
	if e.RetryBudget = c.s.budget(); e.Code == fault.RetryExhausted {
		e.RetryBudget = 0
	} else if !c.req.dryRun {
		e.RetryBudget = c.s.strike(asked, e)
	}
	status := StatusRefused
	if storageFailed(e) {
		status = StatusFailed
	}
	r := c.receipt(c.first(), status)
	e.Context["receipt"] = r
	c.s.deliver(r)
	out := errorFrom(e)
	c.observe(r, out)
	return out
}

// storageFailed reports whether a call was not refused but failed.
func storageFailed(e *fault.Fault) bool {
	exit := e.Code.Class().Exit
	return exit == fault.CodeStorage || exit == fault.CodeInternal
}

// call is what makes this call the same as another one: what was asked for,
// before any stage made something of it. The session belongs to it only where
// the request names one: an agent that connects again asks for the same.
func (c *commit) call() call {
	if c.asked != nil {
		return *c.asked
	}
	out := call{op: c.req.op, hash: strings.Join([]string{c.req.hash, c.req.caller, c.session, c.req.key, c.under}, "\x00")}
	for _, m := range c.muts {
		out.paths = append(out.paths, m.path)
	}
	c.asked = &out
	return out
}

// first is the mutation a receipt speaks of when there is only room for one.
func (c *commit) first() *mutation {
	if len(c.muts) == 0 {
		return &mutation{}
	}
	return c.muts[0]
}

// release gives back what the commit holds. What it staged and did not use is
// removed; what belongs to a recorded commit is evidence and stays until that
// commit is settled.
func (c *commit) release() {
	c.takeAdvice()
	for _, m := range c.muts {
		m.tail.drop()
		if c.rec == nil {
			m.slot.drop()
		}
		if c.handed {
			continue // the settlement closes them
		}
		m.Close()
		m.target.Close()
	}
	if c.rec == nil {
		c.unmakeDirs()
	}
	if !c.handed {
		closeAll(c.handles)
	}
	if c.refilled != nil {
		c.refilled()
	}
	if c.unlock != nil {
		c.unlock()
	}
	c.spare.end()
	if c.counted {
		c.counted = false
		c.s.leave()
	}
}

// newCommitID names a commit: the writer, the head of the journal before it and
// a number.
func (s *Store) newCommitID() string {
	var head uint64
	if s.log != nil {
		head = s.log.Head()
	}
	n := s.commits.Add(1)
	return s.writer + "-" + strconv.FormatUint(head, 36) + "-" + strconv.FormatUint(n, 36)
}
