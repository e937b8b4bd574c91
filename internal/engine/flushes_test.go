package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// syncs is a directory, and the files in it, that records when flushes of it begin.
type syncs struct {
	fsx.Dir
	ino   uint64
	clock *atomic.Int64
	each  bool // SyncEach is supported
	turns atomic.Int64
	mu    sync.Mutex
	begun []int64
	err   error
}

func (d *syncs) Sync() error {
	d.mu.Lock()
	d.begun = append(d.begun, d.clock.Add(1))
	d.mu.Unlock()
	time.Sleep(time.Millisecond)
	return d.err
}

func (d *syncs) Stat() (fsx.Stat, error) { return fsx.Stat{Ino: d.ino}, nil }

func (d *syncs) SyncEach(list []fsx.Syncer) ([]error, error) {
	if !d.each {
		return nil, fsx.ErrUnsupported
	}
	d.turns.Add(1)
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i, x := range list {
		wg.Go(func() { errs[i] = x.Sync() })
	}
	wg.Wait()
	return errs, nil
}

// TestFlushesStartAfterTheirCallers: of one commit, of two and of many, with and without
// flushes of several files in one call, every caller is answered by a flush of its
// files that began after its call, and by the failure of its own files alone.
func TestFlushesStartAfterTheirCallers(t *testing.T) {
	for _, c := range []struct {
		commits int
		each    bool
	}{{1, true}, {2, true}, {2, false}, {64, true}, {64, false}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var clock atomic.Int64
				disk := &syncs{each: c.each, clock: &clock}
				shared := &syncs{ino: 1, clock: &clock}
				bad := &syncs{ino: 2, clock: &clock, err: errors.New("bad")}
				q := &flushes{disk: disk, expect: func(int) {}}
				for range c.commits {
					q.begin()
				}
				var wg sync.WaitGroup
				for w := range c.commits {
					wg.Go(func() {
						defer q.end()
						for i := range 20 {
							mine := &syncs{ino: 3 + uint64(w), clock: &clock}
							list, want := []fsx.Syncer{mine, shared}, error(nil)
							if (w+i)%5 == 0 {
								list, want = append(list, bad), bad.err
							}
							time.Sleep(time.Duration(w) * 7 * time.Microsecond)
							asked := clock.Add(1)
							err := q.do(list...)
							testbed.Expect(t, err == want, "%v, want %v", err, want)
							shared.mu.Lock()
							last := shared.begun[len(shared.begun)-1]
							shared.mu.Unlock()
							testbed.Expect(t, len(mine.begun) == 1 && mine.begun[0] >= asked && last >= asked,
								"asked at %d, flushed at %v and %d", asked, mine.begun, last)
						}
					})
				}
				wg.Wait()
				testbed.Expect(t, c.commits <= 2 || len(shared.begun) <= 20*4+10,
					"%d flushes of one directory for 20 of each of %d commits", len(shared.begun), c.commits)
			})
		})
	}
}

// badFlush panics.
type badFlush struct{ fsx.Dir }

func (badFlush) Sync() error             { panic("flush") }
func (badFlush) Stat() (fsx.Stat, error) { return fsx.Stat{}, nil }

// TestFlushesAfterAPanic: of the commits that share a turn with a flush that panics, that
// which leads the turn panics, the others fail, and the next turn succeeds.
func TestFlushesAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock atomic.Int64
		disk := &syncs{each: true, clock: &clock}
		q := &flushes{disk: panicking{disk}, expect: func(int) {}}
		for range 64 {
			q.begin()
		}
		var failed, panicked atomic.Int64
		var wg sync.WaitGroup
		for range 40 {
			wg.Go(func() {
				defer func() {
					if recover() != nil {
						panicked.Add(1)
					}
				}()
				if q.do(badFlush{}) != nil {
					failed.Add(1)
				}
			})
		}
		wg.Wait()
		if panicked.Load() < 1 || failed.Load()+panicked.Load() != 40 {
			t.Errorf("%d panics, %d errors", panicked.Load(), failed.Load())
		}
		q.disk = disk
		err := q.do(&syncs{clock: &clock})
		testbed.Expect(t, err == nil, "%v", err)
	})
}

// panicking flushes on the goroutine of the caller.
type panicking struct{ *syncs }

func (panicking) SyncEach(list []fsx.Syncer) ([]error, error) { return nil, list[0].Sync() }

// TestFlushesDoNotWait: a commit that does not come to its flush delays the
// others by gatherTime at most.
func TestFlushesDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock atomic.Int64
		q := &flushes{disk: &syncs{clock: &clock}, expect: func(int) {}}
		for range 100 {
			q.begin()
		}
		began := time.Now()
		testbed.NoErr(t, q.do(&syncs{clock: &clock}))
		took := time.Since(began)
		testbed.Expect(t, took <= gatherTime+2*time.Millisecond, "%v", took)
		for range 100 {
			q.end()
		}
	})
}

// TestFlushesOfAllTogether: a turn waits until all commits in progress have come, flushes
// them together, and announces those whose rows are next and whose flush succeeded.
func TestFlushesOfAllTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock, rows atomic.Int64
		disk := &syncs{each: true, clock: &clock}
		q := &flushes{disk: disk, expect: func(n int) { rows.Add(int64(n)) }}
		var wg sync.WaitGroup
		for range 16 {
			q.begin()
		}
		for w := range 16 {
			wg.Go(func() {
				time.Sleep(time.Duration(w) * gatherTime / 20)
				x := &syncs{ino: uint64(w) + 1, clock: &clock}
				if w == 0 {
					x.err = errors.New("bad")
				}
				err := q.doFor(w < 8, []fsx.Syncer{x})
				testbed.Expect(t, err == x.err, "%v, want %v", err, x.err)
			})
		}
		wg.Wait()
		if disk.turns.Load() != 1 || rows.Load() != 7 {
			t.Errorf("%d turns, %d rows announced; want 1 and 7", disk.turns.Load(), rows.Load())
		}
	})
}

// verifying is the judge of commits with verifiers, or without.
type verifying struct {
	Judge
	yes bool
}

func (v verifying) Verifies() bool { return v.yes }

// TestBriefCommits: no turn waits for a commit of much content, of many files, or whose
// staged files are verified.
func TestBriefCommits(t *testing.T) {
	small, large := &Mutation{Content: MemBody(make([]byte, 1<<10))}, &Mutation{Content: MemBody(make([]byte, longFlush+1))}
	for i, c := range []struct {
		muts    []*Mutation
		expects int
		verify  bool
		want    bool
	}{
		{[]*Mutation{small, small}, 2, false, true},
		{[]*Mutation{small, large}, 2, false, false},
		{[]*Mutation{small}, 1, true, false},
		{[]*Mutation{small}, 1 << 20, false, false},
	} {
		commit := &Commit{s: &Engine{}, judge: verifying{yes: c.verify}, Muts: c.muts, Expects: c.expects}
		got := commit.brief()
		testbed.Expect(t, got == c.want, "%d: %v", i, got)
	}
}

// TestAdmission: commits beyond the limit wait for others to end, in their order; one that
// is canceled or has waited too long goes on and gives nothing back that it has not got.
func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Engine{limit: 2 * commitFiles}
		s.limitOnce.Do(func() {})
		ctx, cancel := context.WithCancel(context.Background())
		began := time.Now()
		first, second := s.admit(ctx, 1), s.admit(ctx, 1)
		canceled, cancelIt := context.WithCancel(ctx)
		cancelIt()
		s.admit(canceled, 1)()
		in := make(chan int, 2)
		for i, files := range []int{100, 1} {
			go func() {
				leave := s.admit(ctx, files)
				in <- i
				time.Sleep(time.Second)
				leave()
			}()
			synctest.Wait()
		}
		first()
		synctest.Wait()
		testbed.Expect(t, len(in) == 0, "a commit of many files goes on beside another one")
		second()
		if one, two := <-in, <-in; one != 0 || two != 1 || time.Since(began) != time.Second {
			t.Errorf("%d and %d went on, the second one after %v", one, two, time.Since(began))
		}
		time.Sleep(time.Second)
		all := s.admit(ctx, 2)
		began = time.Now()
		late := s.admit(ctx, 1)
		testbed.Equal(t, time.Since(began), admissionWait, "a commit waited")
		late()
		all()
		testbed.Expect(t, s.admission.used == 0 && len(s.admission.waiting) == 0,
			"%d units are used, %d commits wait", s.admission.used, len(s.admission.waiting))
		cancel()
	})
}
