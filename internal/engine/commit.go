package engine

import (
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/failpoint"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// The stages, in the order in which every write passes them.
const (
	StageResolve      = "resolve"      // where the path leads
	StageAuthorize    = "authorize"    // may the caller do this
	StageLock         = "lock"         // one writer per path
	StagePrecondition = "precondition" // is the file as the request expects
	StageCompose      = "compose"      // the final bytes
	StageClassify     = "classify"     // the gate, on the final bytes
	StageStage        = "stage"        // the final bytes, outside the workspace
	StageRecord       = "record"       // the commit point
	StagePublish      = "publish"      // the bytes under their name
	StageSettle       = "settle"       // the name on stable storage
)

// Stages is the write path. The stages run in this order. Up to the record stage
// no change is visible to other processes; after it the commit is completed, by
// this process or by the next one that opens the store.
var Stages = []struct {
	Name string
	run  func(*Commit, context.Context) error
}{
	{StageResolve, (*Commit).Resolve},
	{StageAuthorize, (*Commit).authorize},
	{StageLock, (*Commit).lock},
	{StagePrecondition, (*Commit).precondition},
	{StageCompose, (*Commit).compose},
	{StageClassify, (*Commit).classify},
	{StageStage, (*Commit).stage},
	{StageRecord, (*Commit).record},
	{StagePublish, (*Commit).publish},
	{StageSettle, (*Commit).settle},
}

// Request is what the engine needs to know about a call.
type Request struct {
	Op      string // the verb
	Caller  string
	Session string
	Key     string // idempotency key
	Hash    string // of everything the caller asked for
	DryRun  bool
	Tx      string
	Frees   bool // a way out of a full disk, so it may have the reserve
	Long    bool // it may change more files than a call can name
}

// Judge makes the decisions about a commit that the engine does not make: the
// budget, the gate, the hooks and the policy of the call. The engine calls it at
// fixed places.
type Judge interface {
	Admit(context.Context) error                  // before any stage
	At(stage string)                              // a stage begins
	Authorize(context.Context) error              // the stage
	LockNames() ([]string, error)                 // names that must be locked in addition to the paths
	Touches() []string                            // further paths whose unfinished commits are completed first
	OnTheWay() func(dir fsx.Dir, at string) error // is called with each directory on the way to the files
	Located() error                               // the files are located, under the locks
	Transform(context.Context, *Mutation) error   // may change the content
	Composed() error                              // the final bytes are known
	Classify(context.Context) error               // the stage
	Verifies() bool                               // there are verifiers
	VerifyStaged(context.Context) error           // the staged files are complete
	Wait()                                        // waits for what runs concurrently with the commit
	Failed(error) error                           // the commit ends with this error
}

// Commit is a set of mutations in progress. All of them happen or none.
type Commit struct {
	s     *Engine
	ctx   context.Context // of the call
	judge Judge
	Req   Request
	Muts  []*Mutation
	Dirs  []journal.Mutation // directories that are made, removed if empty, or get another mode; only with Path, Mode and PrevMode
	Began time.Time
	Inv   string // invocation id

	ID       string
	StageNow string
	unlock   func()
	sharing  func()              // keeps sweeps of history out until the row is written; nil: none is kept out
	newDirs  []string            // directories that the row says it makes, outermost first
	modes    map[string]uint32   // of those among Dirs that are made
	Owners   map[string]fsx.Stat // of some of these, if this process may set them
	made     []madeDir           // those that it made
	ways     []*Mutation         // lead to directories that it makes for themselves
	turns    turns               // names that change between a directory and a file
	clearing int                 // mutations that clear these names; they come first
	turned   bool                // their directories were removed and made
	earlier  int                 // of made, those that were made before
	removed  []goingDir          // the innermost first
	goes     map[string]bool     // what makes way for files; nil: not listed yet
	entered  map[string]fsx.Dir  // directories that were absent, by path
	Handles  []io.Closer         // opened on the way
	Expects  int                 // mutations that it will have
	files    *handles            // of a commit of many
	dirs     *relpath.Dirs       // that hold its targets, where they share them
	head     uint64              // newest row that was known when the locks were taken
	Rec      *journal.Record     // once written
	Replayed *journal.Record     // the commit that the idempotency key had done
	Ended    bool                // nothing is left to do
	flushing bool                // counted among those that flush
	handed   bool                // settling was handed to the background
	counted  bool                // counted in until release, because it has spooled
	leave    func()              // ends its admission; nil: it is not admitted
	leaks    bool                // the gate found secrets in what was spooled, and refused it
	Diff     string              // of a dry run, or if requested
	ShowDiff bool
	Accepted string       // the reason why a risk was taken
	Via      *journal.Via // what an adapter knows of the call; nil without one
	Command  string       // that made the changes, without secrets
	Unasked  bool         // the user was not asked, because the idempotency key answers
	Complete bool         // it is verified even if nothing changes

	// Outcome returns what the call reports besides the facts of its files, once
	// the final bytes are known.
	Outcome func() any

	ExtraLocks []string     // further names the commit must own
	grant      ReserveGrant // its right to the reserve
	Alone      bool         // no other commit of any process runs at the same time

	visit func(dir fsx.Dir, at string) error // of the judge, on the way to the files

	// indexOf returns which operation of a transaction a mutation comes from, -1
	// for none of them.
	IndexOf func(*Mutation) int

	// Plan makes the decisions that need the locks: the next free number, the
	// content that depends on the current state. It may run more than once, and
	// may change what the mutations write; the targets that it sets must be
	// covered by ExtraLocks.
	Plan func(context.Context) error
}

// NewCommit begins a commit.
func (s *Engine) NewCommit(ctx context.Context, by Judge, req Request) *Commit {
	c := &Commit{s: s, ctx: ctx, judge: by, Req: req, Began: s.Now(), ID: s.NewCommitID(), grant: s.NewReserveGrant(ctx, req.Frees)}
	c.Inv = "inv_" + c.ID
	return c
}

// madeDir is a directory that a commit made.
type madeDir struct {
	parent fsx.Dir
	name   string
	path   string
}

// Do runs the stages.
func (s *Engine) Do(ctx context.Context, c *Commit) error {
	err := s.runStages(ctx, c)
	s.refillReserve()
	if err == nil && c.Rec != nil {
		s.pruneAfter(c.Rec.Seq)
	}
	return err
}

func (s *Engine) runStages(ctx context.Context, c *Commit) error {
	if err := s.Enter(); err != nil {
		defer c.Release()
		return c.judge.Failed(err)
	}
	defer s.Leave() // when the locks are given back: Close waits for it
	defer c.Release()
	if c.leave == nil {
		c.leave = s.admit(ctx, len(c.Muts))
	}
	if err := c.judge.Admit(ctx); err != nil {
		return c.judge.Failed(err)
	}
	for _, stage := range Stages {
		c.StageNow = stage.Name
		if stage.Name == StageStage && c.Req.DryRun {
			break
		}
		if err := ctx.Err(); err != nil {
			return c.judge.Failed(fault.New(fault.Canceled).Because(err))
		}
		c.judge.At(stage.Name)
		failpoint.At(stage.Name)
		if err := stage.run(c, ctx); err != nil {
			var f *fault.Fault
			c.leaks = errors.As(err, &f) && len(f.Patterns) > 0
			return c.judge.Failed(c.besideRemoval(err))
		}
		if c.Ended {
			break
		}
		if stage.Name == StageRecord {
			ctx = context.WithoutCancel(ctx) // from here on the commit always finishes
		}
	}
	if s.Rows.due() {
		s.snapshot() // a cache: what goes wrong with it is no failure of the write
	}
	return nil
}

// besideRemoval returns err, or an error that reports that a directory of the
// files was removed during the commit, for example by an undo, if that caused
// err.
func (c *Commit) besideRemoval(err error) error {
	if !IsAbsent(err) {
		return err
	}
	e := c.s.ErrorOf(err)
	if e.Code != fault.NotFound || !IsAbsent(e.Err) {
		return err
	}
	for _, m := range c.Muts {
		target, lerr := c.s.LocateEntry(m.Path)
		if lerr != nil {
			continue
		}
		there := target.Exists()
		target.Close()
		if !there {
			return c.About(m, fault.New(fault.ChangedDuringWrite).Because(err).Hintf("the directory of the file was removed during the write; send the call again"))
		}
	}
	return err
}

// paths returns the paths of the commit.
func (c *Commit) paths() []string {
	var paths []string
	for _, m := range c.Muts {
		paths = append(paths, m.Target.Path)
	}
	return paths
}

func (c *Commit) authorize(ctx context.Context) error { return c.judge.Authorize(ctx) }
func (c *Commit) classify(ctx context.Context) error  { return c.judge.Classify(ctx) }

// First returns the mutation that a receipt describes if it can describe only
// one.
func (c *Commit) First() *Mutation {
	if len(c.Muts) == 0 {
		return &Mutation{}
	}
	return c.Muts[0]
}

// Release releases what the commit holds. Staged files that were not used are
// removed. What belongs to a recorded commit is evidence and stays until that
// commit is settled.
func (c *Commit) Release() {
	c.judge.Wait()
	c.endSharing()
	for _, m := range c.Muts {
		if c.Rec == nil {
			m.Slot.discard(c.leaks)
			m.tail.discard(c.leaks)
		} else {
			m.tail.Drop()
		}
		if c.handed {
			continue // the settlement closes them
		}
		m.Close()
		m.Target.Close()
	}
	if c.Rec == nil {
		c.unmakeDirs()
	}
	for _, m := range c.ways {
		m.Target.Close()
	}
	if !c.handed {
		closeAll(c.Handles)
		c.dirs.Close()
	}
	if c.unlock != nil {
		c.unlock()
	}
	c.grant.End()
	c.endFlushing()
	if c.leave != nil {
		c.leave()
		c.leave = nil
	}
	if c.counted {
		c.counted = false
		c.s.Leave()
	}
}

// NewCommitID returns a name for a commit: the writer, the head of the journal
// before it and a number.
func (s *Engine) NewCommitID() string {
	var head uint64
	if s.Log != nil {
		head = s.Log.Head()
	}
	n := s.commits.Add(1)
	return s.Writer + "-" + strconv.FormatUint(head, 36) + "-" + strconv.FormatUint(n, 36)
}

// endFlushing ends the count of the commit among those that flush.
func (c *Commit) endFlushing() {
	if c.flushing {
		c.flushing = false
		c.s.flushes.end()
	}
}
