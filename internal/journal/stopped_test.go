package journal_test

import (
	"errors"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// openAs opens the journal as a process of its own.
func openAs(t *testing.T, p *simfs.Process, writer string) *journal.Log {
	t.Helper()
	return openMarked(t, p, writer, new(atomic.Bool))
}

// openMarked is openAs for processes that share the mark of poison.
func openMarked(t *testing.T, p *simfs.Process, writer string, mark *atomic.Bool) *journal.Log {
	t.Helper()
	dir, err := p.Root().OpenDir("journal")
	if err != nil {
		t.Fatal(err)
	}
	lock, err := p.Root().Open("lock", fsx.Read|fsx.Write|fsx.Create, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	l, _, err := journal.Open(ctx, journal.Options{Dir: dir, Lock: lock, Writer: writer, Preallocate: 2048, LockWait: time.Millisecond,
		Failed: func(uint64) { mark.Store(true) }, Marked: mark.Load})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestStoppedProcessSweep: a process is stopped before each operation of a
// write and its flush. Another one that writes meanwhile succeeds or fails
// without effect; a lock timeout poisons no store. When the stopped
// one goes on, both have their rows.
func TestStoppedProcessSweep(t *testing.T) {
	for n := 0; ; n++ {
		fs := simfs.New()
		fs.Root().Mkdir("journal", 0o700)
		one, two := fs.NewProcess(), fs.NewProcess()
		a, b := openAs(t, one, "a"), openAs(t, two, "b")
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
		if first != nil {
			t.Fatalf("stopped before operation %d: %v", n, first)
		}
		want := []string{"of a", "then"}
		if err == nil {
			want = append(want, "meanwhile")
		}
		if err := write(b, "then", true); err != nil {
			t.Fatalf("stopped before operation %d, afterwards: %v", n, err)
		}
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			t.Fatal(err)
		}
		have := paths(t, openAs(t, fs.NewProcess(), "c"))
		slices.Sort(have)
		slices.Sort(want)
		if !slices.Equal(have, want) {
			t.Fatalf("stopped before operation %d: %q, want %q", n, have, want)
		}
		if !stopped {
			return
		}
	}
}

// TestCloseAfterAFailedRead: Close cuts off what was written ahead only where
// it has read the rows of others to their end.
func TestCloseAfterAFailedRead(t *testing.T) {
	fs := simfs.New()
	fs.Root().Mkdir("journal", 0o700)
	a, b := openAs(t, fs.NewProcess(), "a"), openAs(t, fs.NewProcess(), "b")
	for _, err := range []error{write(a, "first", true), write(b, "second", true)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	fs.Inject(func(op simfs.Op) simfs.Fault {
		if op.Kind == "read" {
			return simfs.Fault{Err: syscall.EIO}
		}
		return simfs.Fault{}
	})
	a.Close()
	fs.Inject(nil)
	if have := paths(t, openAs(t, fs.NewProcess(), "c")); !slices.Equal(have, []string{"first", "second"}) {
		t.Fatalf("%q", have)
	}
}

// TestPoisonBesideAStoppedProcessSweep: a process is stopped before each operation of its
// first write, and the flush of another one fails meanwhile. No process writes after that.
func TestPoisonBesideAStoppedProcessSweep(t *testing.T) {
	for n, stopped := 0, true; stopped; n++ {
		fs := simfs.New()
		fs.Root().Mkdir("journal", 0o700)
		one, two, mark := fs.NewProcess(), fs.NewProcess(), new(atomic.Bool)
		a, b := openMarked(t, one, "a", mark), openMarked(t, two, "b", mark)
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
			if err := write(l, "later", true); !errors.Is(err, journal.ErrPoisoned) {
				t.Fatalf("stopped before operation %d: a write after the failure: %v", n, err)
			}
		}
	}
}
