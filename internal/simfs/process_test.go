package simfs_test

import (
	"errors"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestOlderStatesAreWrittenBack: a sector that was written twice and not
// synced may hold the first content after a power cut, and the size may be
// one in between; a sync ends that.
func TestOlderStatesAreWrittenBack(t *testing.T) {
	f := simfs.New()
	d := f.Root()
	x := put(t, d, "a", "one", true)
	d.Sync()
	for _, content := range []string{"two", "thr", "four!"} {
		x.WriteAt([]byte(content), 0)
	}
	found := func(loss simfs.Loss) map[string]bool {
		seen := map[string]bool{}
		for seed := range uint64(200) {
			got, _ := f.Crash(seed, loss).ReadFile("a")
			seen[string(got)] = true
		}
		return seen
	}
	older := found(simfs.Older)
	for _, want := range []string{"one", "two", "thr", "four!", "two\x00\x00"} {
		testbed.Expect(t, older[want], "%q is not among %v", want, older)
	}
	some := found(simfs.Some)
	testbed.Expect(t, !some["two"] && !some["thr"], "without older states: %v", some)
	x.Sync()
	older = found(simfs.Older)
	testbed.Expect(t, len(older) == 1 && older["four!"], "after a sync: %v", older)
	x.WriteAt([]byte("again"), 0)
	x.Truncate(2)
	older = found(simfs.Older)
	testbed.Expect(t, older["four!"] && older["ag"] && older["again"], "after a truncation: %v", older)
}

// TestProcessesDieAlone: the handles and locks of one end with it, those of
// another stay.
func TestProcessesDieAlone(t *testing.T) {
	f := simfs.New()
	one, two := f.NewProcess(), f.NewProcess()
	a, b := put(t, one.Root(), "a", "1", true), put(t, two.Root(), "a", "2", true)
	ok, _ := a.TryLock(0, 1, true)
	testbed.Require(t, ok, "the first lock was refused")
	ok, _ = b.TryLock(0, 1, true)
	testbed.Require(t, !ok, "two processes hold one lock")
	one.Kill()
	testbed.Fails(a.WriteAt([]byte("3"), 0))(t, simfs.ErrDead, "a dead process wrote")
	ok, _ = b.TryLock(0, 1, true)
	testbed.Expect(t, ok, "the lock outlived its holder")
	testbed.Expect(t, !b.Unshared(), "a file open for writing is said not to be")
	b.Close()
	r, err := f.Root().Open("a", fsx.Read, 0)
	testbed.Expect(t, err == nil && r.Unshared(), "handles outlived their process: %v", err)
	three := f.NewProcess()
	d := three.Root()
	three.StopAt(2) // after create and write
	put(t, d, "b", "", false)
	testbed.IsErr(t, d.Remove("b"), simfs.ErrDead, "it lives after its last operation")
	_, err = f.Root().Lstat("b")
	testbed.Expect(t, err == nil, "the others died too: %v", err)
}

// TestAStoppedProcessKeepsItsLocks until it goes on or is killed.
func TestAStoppedProcessKeepsItsLocks(t *testing.T) {
	for _, end := range []string{"continue", "kill"} {
		f := simfs.New()
		p := f.NewProcess()
		x := put(t, p.Root(), "a", "old", true)
		x.TryLock(0, 1, true)
		reached, done := p.PauseAt(1), make(chan error)
		go func() {
			x.Stat() // one operation passes
			_, err := x.WriteAt([]byte("new"), 0)
			done <- err
		}()
		<-reached
		other := f.NewProcess()
		y := put(t, other.Root(), "b", "", false)
		if z, _ := other.Root().Open("a", fsx.Read|fsx.Write, 0); z != nil {
			y = z
		}
		ok, _ := y.TryLock(0, 1, true)
		testbed.Expect(t, !ok, "a stopped process lost its lock")
		got, _ := f.ReadFile("a")
		testbed.Expect(t, string(got) == "old", "a stopped process wrote %q", got)
		if end == "kill" {
			p.Kill()
		} else {
			p.Continue()
		}
		err := <-done
		got, _ = f.ReadFile("a")
		testbed.Expect(t, end == "kill" == errors.Is(err, simfs.ErrDead) && (end != "continue" || string(got) == "new"), "after %s: %v, %q", end, err, got)
		ok, _ = y.TryLock(0, 1, true)
		testbed.Expect(t, ok == (end == "kill"), "after %s the lock is free: %v", end, ok)
	}
}

// TestAForeignProgramActsBeforeEveryOperation and is not counted itself.
func TestAForeignProgramActsBeforeEveryOperation(t *testing.T) {
	f := simfs.New()
	d, editor := f.Root(), f.Foreign()
	f.ResetTrace()
	var before []string
	f.Before(func(op simfs.Op) {
		before = append(before, op.Kind)
		put(t, editor, "notes", op.Kind, true)
	})
	x := put(t, d, "a", "x", true)
	d.Rename("a", d, "notes")
	f.Before(nil)
	x.Stat()
	if len(before) != 4 { // create, write, sync, rename
		t.Errorf("asked before %v", before)
	}
	if got, _ := f.ReadFile("notes"); string(got) != "x" || f.Muts() != 4 || len(f.Trace()) != 5 {
		t.Errorf("%q, %d mutations, trace %v", got, f.Muts(), f.Trace())
	}
	f.Inject(func(simfs.Op) simfs.Fault { return simfs.Fault{Err: errors.ErrUnsupported} })
	put(t, editor, "notes", "not made to fail", true)
}
