package resilientwrite

import (
	"context"
	"io"
	"strconv"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/failpoint"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// The stages, in the order in which every write passes them.
const (
	stageResolve      = "resolve"      // where the path leads
	stageAuthorize    = "authorize"    // may the caller do this
	stageLock         = "lock"         // one writer per path
	stagePrecondition = "precondition" // is the file as the request expects
	stageCompose      = "compose"      // the final bytes
	stageClassify     = "classify"     // the gate, on the final bytes
	stageStage        = "stage"        // the final bytes beside the workspace
	stageRecord       = "record"       // the commit point
	stagePublish      = "publish"      // the bytes under their name
	stageSettle       = "settle"       // the name on stable storage
)

// stages is the write path: one value, one direction. Up to the record stage
// nothing has happened that another process could see; after it the commit is
// completed, by this process or by the next one that opens the store.
var stages = []struct {
	name string
	run  func(*engineCommit, context.Context) error
}{
	{stageResolve, (*engineCommit).resolve},
	{stageAuthorize, (*engineCommit).authorize},
	{stageLock, (*engineCommit).lock},
	{stagePrecondition, (*engineCommit).precondition},
	{stageCompose, (*engineCommit).compose},
	{stageClassify, (*engineCommit).classify},
	{stageStage, (*engineCommit).stage},
	{stageRecord, (*engineCommit).record},
	{stagePublish, (*engineCommit).publish},
	{stageSettle, (*engineCommit).settle},
}

// engineRequest is what the engine needs to know of a call.
type engineRequest struct {
	op      string // the verb
	caller  string
	session string
	key     string // idempotency key
	hash    string // of everything the caller asked for
	dryRun  bool
	tx      string
	frees   bool // a way out of a full disk, so it may have the reserve
}

// judge is what decides about a commit beside the engine: the budget, the gate,
// the hooks and the policy of the call. The engine asks it at fixed places.
type judge interface {
	Admit(context.Context) error                  // before any stage
	At(stage string)                              // a stage begins
	Authorize(context.Context) error              // the stage
	LockNames() ([]string, error)                 // names that must be owned besides the paths
	Touches() []string                            // further paths whose unfinished commits are completed first
	OnTheWay() func(dir fsx.Dir, at string) error // sees each directory on the way to the files
	Located() error                               // the files are located, under the locks
	Transform(context.Context, *mutation) error   // may change the content
	Composed() error                              // the final bytes are known
	Classify(context.Context) error               // the stage
	Verifies() bool                               // there are verifiers
	VerifyStaged(context.Context) error           // the staged files are complete
	Wait()                                        // for what runs beside the commit
	Failed(error) error                           // the commit ends with this error
}

// engineCommit is a set of mutations on its way to the disk. All of it happens
// or nothing.
type engineCommit struct {
	s     *engine
	judge judge
	req   engineRequest
	muts  []*mutation
	began time.Time
	inv   string // invocation id

	id       string
	stageNow string
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
	accepted string       // the reason why a risk was taken
	via      *journal.Via // what an adapter knows of the call; nil without one
	unasked  bool         // the user was not asked, because the idempotency key answers
	complete bool         // it is verified even if nothing changes

	// outcome is what the call tells besides the facts of its files, once the
	// final bytes are known.
	outcome func() any

	also  []string // further names the commit must own
	spare spare    // its right to the reserve
	alone bool     // no other commit of any process runs beside it

	// indexOf tells which operation of a transaction a mutation comes from, -1
	// for none of them.
	indexOf func(*mutation) int

	// plan decides what can be decided only when the locks are held: the
	// next free number, the content that depends on what is there. It may run
	// more than once, and may change what the mutations write; what it makes
	// them write to must be covered by also.
	plan func(context.Context) error
}

// newCommit begins a commit.
func (s *engine) newCommit(ctx context.Context, by judge, req engineRequest) *engineCommit {
	c := &engineCommit{s: s, judge: by, req: req, began: s.now(), id: s.newCommitID(), spare: s.newSpare(ctx, req.frees)}
	c.inv = "inv_" + c.id
	return c
}

// madeDir is a directory that a commit made.
type madeDir struct {
	parent fsx.Dir
	name   string
	path   string
}

// do runs the stages.
func (s *engine) do(ctx context.Context, c *engineCommit) error {
	err := s.runStages(ctx, c)
	s.takeBack()
	if err == nil && c.rec != nil {
		s.pruneAfter(c.rec.Seq)
	}
	return err
}

func (s *engine) runStages(ctx context.Context, c *engineCommit) error {
	if err := s.enter(); err != nil {
		defer c.release()
		return c.judge.Failed(err)
	}
	defer s.leave() // when the locks are given back: Close waits for it
	defer c.release()
	if err := c.judge.Admit(ctx); err != nil {
		return c.judge.Failed(err)
	}
	for _, stage := range stages {
		c.stageNow = stage.name
		if stage.name == stageStage && c.req.dryRun {
			break
		}
		if err := ctx.Err(); err != nil {
			return c.judge.Failed(fault.New(fault.Canceled).Because(err))
		}
		if stage.name == stageRecord {
			ctx = context.WithoutCancel(ctx) // from here on the commit always finishes
		}
		c.judge.At(stage.name)
		failpoint.At(stage.name)
		if err := stage.run(c, ctx); err != nil {
			return c.judge.Failed(err)
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

// paths are those of the commit.
func (c *engineCommit) paths() []string {
	var paths []string
	for _, m := range c.muts {
		paths = append(paths, m.target.Path)
	}
	return paths
}

func (c *engineCommit) authorize(ctx context.Context) error { return c.judge.Authorize(ctx) }
func (c *engineCommit) classify(ctx context.Context) error  { return c.judge.Classify(ctx) }

// first is the mutation a receipt speaks of when there is only room for one.
func (c *engineCommit) first() *mutation {
	if len(c.muts) == 0 {
		return &mutation{}
	}
	return c.muts[0]
}

// release gives back what the commit holds. What it staged and did not use is
// removed; what belongs to a recorded commit is evidence and stays until that
// commit is settled.
func (c *engineCommit) release() {
	c.judge.Wait()
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
func (s *engine) newCommitID() string {
	var head uint64
	if s.log != nil {
		head = s.log.Head()
	}
	n := s.commits.Add(1)
	return s.writer + "-" + strconv.FormatUint(head, 36) + "-" + strconv.FormatUint(n, 36)
}
