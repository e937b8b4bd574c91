package engine

import (
	"cmp"
	"errors"
	"sync"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// flushes makes the flushes of many concurrent commits together: one turn at a
// time flushes everything that waits. A file system with a journal serves all
// flushes that are requested at once with one commit of that journal; commits that
// each flush when they get there cause more of them, each with writes and flushes
// of the device. A turn begins when all brief commits in progress wait for it, or
// after gatherTime. Those that a turn lets go on to their rows are announced to the
// journal, which writes and flushes their rows together as well.
//
// The flushes of one commit alone are made at once.
type flushes struct {
	mu      sync.Mutex
	commits int        // brief ones in progress
	waiting []*request // that no turn has taken
	busy    bool       // a turn is in progress, or its leader has been named
	timed   bool       // a turn will begin within gatherTime
	disk    fsx.Dir
	expect  func(n int) // announces commits that come to the journal next
	alone   bool        // flush each in order, for tests that need one order
}

// request is what one caller has flushed.
type request struct {
	list []fsx.Syncer
	rows bool      // a commit, whose row is next
	err  error     // of the first of list that failed
	turn chan bool // true: lead a turn; false: done
}

// gatherTime limits how long a turn waits for further requests: about four flushes of a
// fast disk, in which a commit comes from one flush to the next.
const gatherTime = 2 * time.Millisecond

// begin counts a brief commit that will flush, end one that will flush no more.
func (q *flushes) begin() { q.count(1) }
func (q *flushes) end()   { q.count(-1) }

func (q *flushes) count(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.commits += n
	q.next(false)
}

// do makes files and directories durable. Everything that was done to them before
// the call is covered. A failed flush is reported to all who asked for it.
func (q *flushes) do(list ...fsx.Syncer) error { return q.doFor(false, list) }

// doFor is do. rows says that it is for a commit whose row is next.
func (q *flushes) doFor(rows bool, list []fsx.Syncer) error {
	if len(list) == 0 {
		return nil
	}
	if q.alone || !q.many() {
		return q.apart(list)
	}
	// The blocks of the files are then part of the commit that the turn causes.
	for _, x := range list {
		if f, ok := x.(fsx.File); ok {
			f.WriteOut()
		}
	}
	r := &request{list: list, rows: rows, turn: make(chan bool, 1)}
	q.mu.Lock()
	q.waiting = append(q.waiting, r)
	q.next(false)
	q.mu.Unlock()
	if <-r.turn {
		q.lead(r)
	}
	return r.err
}

// many reports whether several brief commits are in progress, which flush in turns.
func (q *flushes) many() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.commits > 1
}

// apart is do without waiting for a turn.
func (q *flushes) apart(list []fsx.Syncer) error {
	if q.alone {
		for _, x := range list {
			if err := x.Sync(); err != nil {
				return err
			}
		}
		return nil
	}
	for _, err := range q.flush(list) {
		if err != nil {
			return err
		}
	}
	return nil
}

// next names the leader of the next turn if there is enough for one, or now. q.mu
// is held.
func (q *flushes) next(now bool) {
	switch {
	case q.busy || len(q.waiting) == 0:
	case now || len(q.waiting) >= q.commits:
		q.busy = true
		q.waiting[0].turn <- true
	case !q.timed:
		q.timed = true
		time.AfterFunc(gatherTime, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.timed = false
			q.next(true)
		})
	}
}

// lead flushes what waits, also for me. A panic reaches me, and the others get an error.
func (q *flushes) lead(me *request) {
	q.mu.Lock()
	batch := q.waiting
	q.waiting = nil
	q.mu.Unlock()
	ended := false
	defer func() {
		q.mu.Lock()
		q.busy = false
		q.next(false)
		q.mu.Unlock()
		for _, r := range batch {
			if !ended {
				r.err = errNotFlushed
			}
			if r != me {
				r.turn <- false
			}
		}
	}()
	q.flushBatch(batch)
	next := 0
	for _, r := range batch {
		if r.rows && r.err == nil {
			next++
		}
	}
	q.expect(next)
	ended = true
}

var errNotFlushed = errors.New("the flush was broken off")

// flushBatch flushes what the requests ask for, each directory once.
func (q *flushes) flushBatch(batch []*request) {
	var list []fsx.Syncer
	var at []int // where each of the requests is in list
	dirs := map[inode]int{}
	for _, r := range batch {
		for _, x := range r.list {
			n := len(list)
			if d, ok := x.(fsx.Dir); ok && len(batch) > 1 {
				if st, err := d.Stat(); err == nil {
					id := inode{st.Dev, st.Ino}
					if first, is := dirs[id]; is {
						n = first
					} else {
						dirs[id] = n
					}
				}
			}
			if at = append(at, n); n == len(list) {
				list = append(list, x)
			}
		}
	}
	errs := q.flush(list)
	for _, r := range batch {
		for range r.list {
			r.err = cmp.Or(r.err, errs[at[0]])
			at = at[1:]
		}
	}
}

// flush flushes each of list and returns the results.
func (q *flushes) flush(list []fsx.Syncer) []error {
	if len(list) == 1 {
		return []error{list[0].Sync()}
	}
	errs, err := q.disk.SyncEach(list)
	switch {
	case errors.Is(err, fsx.ErrUnsupported):
		errs = make([]error, len(list))
		each := make([]func() error, len(list))
		for i, x := range list {
			each[i] = func() error { errs[i] = x.Sync(); return nil }
		}
		parallel(each)
	case err != nil:
		errs = make([]error, len(list))
		for i := range errs {
			errs[i] = err
		}
	}
	return errs
}
