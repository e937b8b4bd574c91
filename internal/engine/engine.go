// Package engine keeps the files of one workspace: it takes a commit through its
// stages, writes its row, publishes its files, and completes what dead writers
// left. It is independent of the verbs that make commits. Two small interfaces
// connect it to the rest: a Judge makes the other decisions about a commit, and
// the Host is the store that it works for.
package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/blob"
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/lock"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// Engine is the storage of one workspace: files, journal, history, locks and
// their recovery. It handles commits, independently of the verbs that make them.
type Engine struct {
	Host      Host
	Opts      Options
	Version   string // of the library, for meta.json
	Writer    string // process and start nonce
	Tree      relpath.Tree
	Disk      disk
	Locks     *lock.Table
	Log       *journal.Log
	Rows      *RowIndex
	TestHooks TestHooks
	Report    Report

	History   *blob.Store
	lingering lingering
	adopted   adopted
	waiting   waiting
	copies    copies
	Settler   *settler
	Heads     *heads
	slotDirs  slotDirs
	written   written
	limit     int // of descriptors
	limitOnce sync.Once
	admission admission
	Unsettled unsettled
	flushes   flushes
	Hashes    hashCache

	commits     atomic.Uint64 // counts the names of commits
	Poisoned    atomic.Bool
	poisonDue   atomic.Bool   // other processes are to be told of it
	unflushed   error         // why a directory could not be flushed before the journal was open
	doubt       doubt         // what a failed flush had left when the store was opened
	ways        written       // inodes of the directories that are known to be durable
	Unkept      sync.Map      // slots that hold the only copy of a version, by their labels
	closed      Meta          // as it was when the store was opened
	Sweeping    sync.Mutex    // one sweep of history at a time
	pruned      atomic.Uint64 // counts the sweeps
	historyBusy atomic.Int64  // until when its lock is not waited for, in nanoseconds
	keptBytes   atomic.Int64  // in history since it was pruned last
	keptObjects atomic.Int64
	prunedTo    atomic.Uint64                           // newest row that pruning knew of last
	ownRows     atomic.Uint64                           // of commits of this process since then
	pruneRead   atomic.Int64                            // versions and files of rows that pruning read last
	pruneAll    atomic.Bool                             // a bound that is not one of bytes may be exceeded
	bounds      Bounds                                  // that pruning found last, without what was over; under Sweeping
	StatePlace  string                                  // the state directory, absolute; "" in tests
	Beside      string                                  // the directory of the states of all work trees of the repository, absolute; "" for none
	RealRoot    string                                  // the workspace without symbolic links; "" in tests
	Pinned      func() (map[string]bool, error)         // versions that only the bound of bytes removes; may be nil
	Shipped     func() (seq uint64, ok bool, err error) // versions of later rows are not in the hub yet: likewise; may be nil
	Unverified  bool                                    // flushes of this file system cannot be trusted
	births      bool                                    // its times of birth are exact and stay
	Reserve     reserve
	lost        atomic.Pointer[loss] // what happened to the state directory; nil = nothing

	stuck    bool       // Open has waited in vain for the lock of the small files
	snapping sync.Mutex // one snapshot at a time

	Gate            sync.Mutex
	Open            bool
	Ended           chan error     // the result of closing, then closed; has room for it
	Flights         sync.WaitGroup // calls in progress
	releaseLiveness func() error   // ends the liveness lock
	calls           *lock.Calls    // those that others wait for
}

// Host is the interface of an engine to its store.
type Host interface {
	Holds() error                                                  // nil while mutations may run
	PolicyHash() string                                            // for rows
	Permitted(path string) error                                   // may a tool change the path
	Redacted(ctx context.Context, path string, text []byte) []byte // for excerpts
	HideIn(*fault.Fault)                                           // redacts the names in it
	Translate(error) error                                         // gives its own errors a meaning
	HistoryCaps() HistoryCaps
}

// disk is the open directories of a store.
type disk struct {
	Root    fsx.Dir
	State   fsx.Dir
	above   fsx.Dir // holds the name of the state directory; most often root
	journal fsx.Dir
	Staging fsx.Dir
	locks   fsx.Dir
	Index   fsx.Dir
	lockf   fsx.File // the journal's lock and shared header
	Size    int64    // of the file system of the state directory; 0 where unknown

	history fsx.Dir

	stateName   string
	stateStat   fsx.Stat // of the state directory
	historyStat fsx.Stat
	lockStat    fsx.Stat // of lockf
}

// TestHooks holds what tests replace.
type TestHooks struct {
	Now    func() time.Time
	Nonce  func() string
	User   func() int // who this process is; nil: ask the system
	Quiet  func()     // waits whether another process is writing the policy file; nil: a while
	InTurn bool       // run what may run side by side one after the other
	Manual bool       // settle in the background only when a caller waits for it
	Slots  int        // made at a time; 0: the default
	Many   int        // files from which a commit holds few of them open, and then two; 0: the default
	// appendFrom is the size from which files are appended to in place; 0: the default.
	AppendFrom  int64
	AheadFrom   int    // bytes from which content is written before it is hashed; 0: the default
	State       string // the state directory in a simulation, with its parents; "" = the default
	Unrecovered bool   // leave what dead writers left to others
	LockWait    time.Duration
	Patterns    time.Duration // how long those of the policy may compute; 0 = default

	Segment     int64 // size at which a journal segment is rolled; 0 = default
	Preallocate int64 // of the journal; 0 = default
	NoReserve   bool
}

func (s *Engine) Now() time.Time { return s.TestHooks.Now() }

// Announce reports a call to the other processes if it takes long. The caller calls
// end when the call ends.
func (s *Engine) Announce(what func() lock.Call) (end func()) { return s.calls.Begin(what) }

// Enter counts a call in; Leave counts it out. Close waits for the calls inside.
func (s *Engine) Enter() error {
	if err := s.countIn(); err != nil {
		return err
	}
	err := s.Present()
	switch {
	case s.Opts.ReadOnly:
		err = fault.New(fault.StoreReadOnly)
	case err == nil && s.Poisoned.Load():
		err = fault.New(fault.StorePoisoned)
	case err == nil:
		err = s.Host.Holds()
	}
	if err != nil {
		s.Leave()
	}
	return err
}

// EnterReader is Enter for calls that change nothing.
func (s *Engine) EnterReader() error {
	if err := s.EnterAny(); err != nil {
		return err
	}
	err := s.Present()
	if err != nil {
		s.Leave()
	}
	return err
}

// EnterAny is Enter for calls that do not need the state directory.
func (s *Engine) EnterAny() error {
	err := s.countIn()
	if err == nil {
		s.Host.Holds() // a file that is valid again holds for reads too
	}
	return err
}

func (s *Engine) countIn() error {
	s.Gate.Lock()
	defer s.Gate.Unlock()
	if !s.Open {
		return fault.New(fault.StoreClosed)
	}
	s.Flights.Add(1)
	return nil
}

func (s *Engine) Leave() {
	s.tellPoison()
	s.Flights.Done()
}

// SyncDir makes the entries of d durable.
//
// A failure poisons the store: a commit that was published before may have its
// name in d, and the next flush would report success without it.
func (s *Engine) SyncDir(d fsx.Dir) error {
	if err := s.flushes.do(d); err != nil {
		return s.Poison(err)
	}
	return nil
}

// syncDirs makes the entries of several directories durable, unless the level
// is off.
func (s *Engine) syncDirs(dirs ...fsx.Dir) error {
	if s.Opts.Sync == SyncOff {
		return nil
	}
	todo := &settlement{dirs: dirs}
	return todo.flush(s)
}

// busyTries and busyWait limit how often and at what interval the replacement of
// a busy name is retried.
const (
	busyTries = 6
	busyWait  = 2 * time.Millisecond
)

// retryBusy retries op while another program keeps the file busy, but not for
// long.
func (s *Engine) retryBusy(op func() error) error {
	var err error
	for try := range busyTries {
		if err = op(); !publish.IsBusy(err) {
			return err
		}
		time.Sleep(busyWait << try)
	}
	return err
}

// unsettled tracks which commits of this process are in progress.
type unsettled struct {
	mu   sync.Mutex
	from map[*Commit]uint64 // no commit's row is before this
}

// begin registers a commit before its row is written. Otherwise a row that is
// written concurrently could record this one as settled.
func (u *unsettled) begin(c *Commit, head func() uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.from == nil {
		u.from = map[*Commit]uint64{}
	}
	u.from[c] = head() + 1
}

func (u *unsettled) done(c *Commit) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.from, c)
}

// Floor returns the highest seq up to which every commit of this process is
// settled; head if none is in progress.
func (u *unsettled) Floor(head uint64) uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, seq := range u.from {
		head = min(head, seq-1)
	}
	return head
}
