package journal_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// openAs opens the journal as a process of its own, which waits for no lock unless it is said.
func openAs(t *testing.T, p *simfs.Process, o journal.Options) *journal.Log {
	t.Helper()
	o.LockWait = cmp.Or(o.LockWait, time.Millisecond)
	l, _, err := openIn(p.Root(), o)
	testbed.NoErr(t, err)
	return l
}

// TestStoppedProcessSweep: a process is stopped before each operation of a
// write and its flush. Another one that writes meanwhile succeeds or fails
// without effect; a lock timeout poisons no store. When the stopped
// one goes on, both have their rows.
func TestStoppedProcessSweep(t *testing.T) {
	for n := 0; ; n++ {
		fs := simfs.New()
		one, two := fs.NewProcess(), fs.NewProcess()
		a, b := openAs(t, one, journal.Options{}), openAs(t, two, journal.Options{})
		reached, done := one.PauseAt(n), make(chan error, 1)
		go func() { done <- write(a, "of a", true) }()
		var first error
		stopped := false
		select {
		case <-reached:
			stopped = true
		case first = <-done:
		}
		err := write(b, "meanwhile", true)
		var we *journal.WriteError
		if err != nil && (!errors.Is(err, journal.ErrLocked) || !errors.As(err, &we) || we.Effect != journal.EffectNone) || b.Poisoned() {
			t.Fatalf("stopped before operation %d: the other one: %v, poisoned %v", n, err, b.Poisoned())
		}
		one.Continue()
		if stopped {
			first = <-done
		}
		testbed.NoErr(t, first, "stopped before operation ", n)
		want := []string{"of a", "then"}
		if err == nil {
			want = append(want, "meanwhile")
		}
		testbed.NoErr(t, write(b, "then", true), "stopped before operation ", n, ", afterwards")
		testbed.NoErr(t, errors.Join(a.Close(), b.Close()))
		have := paths(t, openAs(t, fs.NewProcess(), journal.Options{}))
		slices.Sort(have)
		slices.Sort(want)
		testbed.Require(t, slices.Equal(have, want), "stopped before operation %d: %q, want %q", n, have, want)
		if !stopped {
			return
		}
	}
}

// TestStoppedProcessIsNotWaitedForSweep: a process is stopped before each operation of a
// write. Another one that writes, and one that opens the journal, wait for no lock longer
// than their contexts, or than raiseWait. The time limit for locks is an hour here.
func TestStoppedProcessIsNotWaitedForSweep(t *testing.T) {
	for n, stopped := 0, true; stopped; n++ {
		synctest.Test(t, func(t *testing.T) {
			fs := simfs.New()
			one := fs.NewProcess()
			a := openAs(t, one, journal.Options{})
			b := openAs(t, fs.NewProcess(), journal.Options{LockWait: time.Hour})
			reached, done := one.PauseAt(n), make(chan error, 1)
			go func() { done <- write(a, "of a", true) }()
			stopped = false
			select {
			case <-reached:
				stopped = true
			case <-done:
			}
			ended := make(chan error)
			go func() {
				short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
				defer cancel()
				meanwhile := created("meanwhile")
				meanwhile.Ctx = short
				_, err := b.Commit(meanwhile)
				ended <- err
				dir, derr := fs.NewProcess().Root().OpenDir("journal")
				lock, lerr := fs.NewProcess().Root().Open("lock", fsx.Read|fsx.Write, 0o600)
				_, _, err = journal.Open(short, journal.Options{Dir: dir, Lock: lock, Writer: "c", LockWait: time.Hour})
				ended <- errors.Join(err, derr, lerr)
			}()
			for _, what := range []string{"write", "open"} {
				select {
				case err := <-ended:
					testbed.Expect(t, err == nil || errors.Is(err, context.DeadlineExceeded), "stopped before operation %d: %s: %v", n, what, err)
				case <-time.After(time.Minute):
					t.Fatalf("stopped before operation %d: the %s does not end", n, what)
				}
			}
			one.Continue()
		})
	}
}

// TestCloseAfterAFailedRead: Close cuts off what was written ahead only where
// it has read the rows of others to their end.
func TestCloseAfterAFailedRead(t *testing.T) {
	fs := simfs.New()
	a, b := openAs(t, fs.NewProcess(), journal.Options{}), openAs(t, fs.NewProcess(), journal.Options{})
	for _, err := range []error{write(a, "first", true), write(b, "second", true)} {
		testbed.NoErr(t, err)
	}
	fs.Inject(func(op simfs.Op) simfs.Fault {
		if op.Kind == "read" {
			return simfs.Fault{Err: syscall.EIO}
		}
		return simfs.Fault{}
	})
	a.Close()
	fs.Inject(nil)
	have := paths(t, openAs(t, fs.NewProcess(), journal.Options{}))
	testbed.Require(t, slices.Equal(have, []string{"first", "second"}), "%q", have)
}

// TestPoisonBesideAStoppedProcessSweep: a process is stopped before each operation of its
// first write, and the flush of another one fails meanwhile. No process writes after that.
func TestPoisonBesideAStoppedProcessSweep(t *testing.T) {
	for n, stopped := 0, true; stopped; n++ {
		fs := simfs.New()
		one, two, mark := fs.NewProcess(), fs.NewProcess(), new(atomic.Bool)
		o := journal.Options{Failed: func(uint64) { mark.Store(true) }, Marked: mark.Load}
		a, b := openAs(t, one, o), openAs(t, two, o)
		reached, done := one.PauseAt(n), make(chan error, 1)
		go func() { done <- write(a, "of a", true) }()
		select {
		case <-reached:
		case <-done:
			stopped = false
		}
		b.Poison()
		one.Continue()
		if stopped {
			<-done
		}
		for _, l := range []*journal.Log{a, b} {
			err := write(l, "later", true)
			testbed.Require(t, errors.Is(err, journal.ErrPoisoned), "stopped before operation %d: a write after the failure: %v", n, err)
		}
	}
}

// TestPoisonWithoutAMarkSweep: the flush of one process fails before each operation of the
// first write of another one, up to that which writes the header, and the mark of poison
// cannot be written. The epoch in the header alone ends the writes of both.
func TestPoisonWithoutAMarkSweep(t *testing.T) {
	for n, poisoned := 0, true; poisoned; n++ {
		fs := simfs.New()
		a, b := openAs(t, fs.NewProcess(), journal.Options{}), openAs(t, fs.NewProcess(), journal.Options{})
		ops, ended := 0, false
		poisoned = false
		fs.Before(func(op simfs.Op) {
			ended = ended || op.Kind == "write" && op.Path == "lock"
			if ops++; ops <= n || ended || poisoned {
				return
			}
			poisoned = true
			b.Poison()
		})
		write(a, "of a", true)
		for _, l := range []*journal.Log{a, b} {
			err := write(l, "later", true)
			testbed.Expect(t, !poisoned || errors.Is(err, journal.ErrPoisoned), "before operation %d: a write after the failure: %v", n, err)
		}
	}
}

// TestWritersWaitAtTheSameTime: writers of one process that wait for the journal lock wait
// no longer than its time limit each, whoever came before them. One whose context ends
// does not end the wait of the others, who write when the lock is free.
func TestWritersWaitAtTheSameTime(t *testing.T) {
	const limit, apart, writers = 10 * time.Second, time.Second, 6
	for _, freed := range []time.Duration{0, limit + 2*apart + apart/2} { // never, or when three have given up
		synctest.Test(t, func(t *testing.T) {
			fs := simfs.New()
			l := openAs(t, fs.NewProcess(), journal.Options{LockWait: limit})
			lock := testbed.Must(fs.NewProcess().Root().Open("lock", fsx.Read|fsx.Write, 0))(t)
			ok, err := lock.TryLock(1<<40, 1, true)
			testbed.Require(t, ok && err == nil, "%v %v", ok, err)
			short, cancel := context.WithTimeout(ctx, apart/2)
			defer cancel()
			testbed.Fails(l.Commit(&journal.Batch{Recs: created("x").Recs, Ctx: short}))(t, context.DeadlineExceeded)
			if freed > 0 {
				time.AfterFunc(freed, func() { lock.Unlock(1<<40, 1) })
			}
			var all sync.WaitGroup
			for i := range writers {
				all.Go(func() {
					time.Sleep(time.Duration(i) * apart)
					began := time.Now()
					err := write(l, fmt.Sprint(i), true)
					took, want := time.Since(began), limit
					if late := freed - time.Duration(i)*apart; freed > 0 && late < limit {
						want = late
					}
					testbed.Expect(t, took.Round(100*time.Millisecond) == want && errors.Is(err, journal.ErrLocked) == (want == limit) && (want >= limit || err == nil),
						"writer %d, lock free after %v: %v after %v, want %v", i, freed, err, took, want)
				})
			}
			all.Wait()
			have := len(paths(t, l))
			testbed.Expect(t, (freed <= 0 || have == writers-3) && (freed != 0 || have == 0), "lock free after %v: %d rows", freed, have)
		})
	}
}
