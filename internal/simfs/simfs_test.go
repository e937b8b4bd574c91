package simfs_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/fsx/fsxtest"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

func TestConformance(t *testing.T) {
	fsxtest.Test(t, func(*testing.T) fsx.Dir { return simfs.New().Root() })
}

func put(t *testing.T, d fsx.Dir, name, content string, sync bool) fsx.File {
	t.Helper()
	f := testbed.Must(d.Open(name, fsx.Read|fsx.Write|fsx.Create, 0o644))(t)
	testbed.Must(f.WriteAt([]byte(content), 0))(t)
	if sync {
		testbed.NoErr(t, f.Sync())
	}
	return f
}

func tree(f *simfs.FS) string { return fmt.Sprint(f.Tree()) }

// TestWhatACrashTakes is the model, row by row.
func TestWhatACrashTakes(t *testing.T) {
	for name, row := range map[string]struct {
		run  func(*testing.T, fsx.Dir)
		want string // with everything unsynced lost
	}{
		"nothing synced":        {func(t *testing.T, d fsx.Dir) { put(t, d, "a", "x", false) }, "map[]"},
		"file without its name": {func(t *testing.T, d fsx.Dir) { put(t, d, "a", "x", true) }, "map[]"},
		"name without its data": {func(t *testing.T, d fsx.Dir) { put(t, d, "a", "x", false); d.Sync() }, "map[a:]"},
		"both":                  {func(t *testing.T, d fsx.Dir) { put(t, d, "a", "x", true); d.Sync() }, "map[a:x]"},
		"overwritten unsynced":  {func(t *testing.T, d fsx.Dir) { put(t, d, "a", "x", true); d.Sync(); put(t, d, "a", "y", false) }, "map[a:x]"},
		"directory lost with its files": {func(t *testing.T, d fsx.Dir) {
			d.Mkdir("d", 0o755)
			s, _ := d.OpenDir("d")
			put(t, s, "a", "x", true)
			s.Sync()
		}, "map[]"},
		"rename is made durable by either directory": {func(t *testing.T, d fsx.Dir) {
			d.Mkdir("d", 0o755)
			s, _ := d.OpenDir("d")
			put(t, d, "a", "x", true)
			d.Sync()
			d.Rename("a", s, "b")
			s.Sync()
		}, "map[d:/ d/b:x]"},
		"many files": {func(t *testing.T, d fsx.Dir) {
			d.Mkdir("d", 0o755)
			s, _ := d.OpenDir("d")
			list := []fsx.Syncer{put(t, d, "a", "x", false), put(t, s, "b", "y", false)}
			d.Sync()
			s.Sync()
			put(t, d, "c", "z", false)
			d.SyncEach(list)
		}, "map[a:x d:/ d/b:y]"},
		"exchange is whole or not at all": {func(t *testing.T, d fsx.Dir) {
			put(t, d, "a", "x", true)
			put(t, d, "b", "y", true)
			d.Sync()
			d.Exchange("a", d, "b")
		}, "map[a:x b:y]"},
	} {
		f := simfs.New()
		row.run(t, f.Root())
		testbed.Equal(t, tree(f.Crash(0, simfs.All)), row.want, name)
	}
}

// TestSomeIsDeterministicAndVaried: a seed gives one outcome, many seeds give
// many, and an exchange over two directories is never split.
func TestSomeIsDeterministicAndVaried(t *testing.T) {
	f := simfs.New()
	d := f.Root()
	d.Mkdir("d", 0o755)
	s, _ := d.OpenDir("d")
	put(t, d, "a", "x", true)
	put(t, s, "b", "y", true)
	d.Sync()
	s.Sync()
	d.Exchange("a", s, "b")
	long := put(t, d, "a", "", false)
	for i := range 4 {
		long.WriteAt([]byte{byte('0' + i)}, int64(i)*512)
	}
	seen := map[string]bool{}
	for seed := range uint64(200) {
		one, two := tree(f.Crash(seed, simfs.Some)), tree(f.Crash(seed, simfs.Some))
		testbed.MustEqual(t, one, two, "one seed, two outcomes")
		seen[one] = true
		m := f.Crash(seed, simfs.Some).Tree()
		testbed.Require(t, (m["d/b"] == "x") != (m["a"] == "x"), "the exchange is split: %v", m)
	}
	testbed.Expect(t, len(seen) >= 10, "only %d outcomes", len(seen))
}

// TestFailedSyncIsNeverMadeGood by the next one.
func TestFailedSyncIsNeverMadeGood(t *testing.T) {
	f := simfs.New()
	d := f.Root()
	x := put(t, d, "a", "old", true)
	d.Sync()
	x.WriteAt([]byte("new"), 0)
	f.Inject(func(op simfs.Op) simfs.Fault {
		if op.Kind == "sync" {
			return simfs.Fault{Err: syscall.EIO}
		}
		return simfs.Fault{}
	})
	err := x.Sync()
	testbed.Require(t, errors.Is(err, syscall.EIO), "%v", err)
	f.Inject(nil)
	testbed.NoErr(t, x.Sync())
	got, _ := f.Crash(0, simfs.All).ReadFile("a")
	testbed.Expect(t, string(got) == "old", "found %q", got)
	x.WriteAt([]byte("new"), 0)
	x.Sync()
	got, _ = f.Crash(0, simfs.All).ReadFile("a")
	testbed.Expect(t, string(got) == "new", "written again, found %q", got)
}

func TestKillAndFullDisk(t *testing.T) {
	f := simfs.New()
	d := f.Root()
	x := put(t, d, "a", "x", false)
	x.TryLock(0, 1, true)
	f.Kill()
	testbed.Fails(x.WriteAt([]byte("y"), 0))(t, simfs.ErrDead)
	y := put(t, f.Root(), "a", "z", false)
	ok, _ := y.TryLock(0, 1, true)
	testbed.Expect(t, ok, "the lock did not die with its holder")
	f.CapBytes(10)
	n, err := y.WriteAt(make([]byte, 20), 0)
	testbed.Expect(t, n == 10 && errors.Is(err, syscall.ENOSPC), "%d %v", n, err)
}

// TestTraceNamesAFileAsItIsCalledNow: a handle follows its file, and a failed
// flush through it loses the bytes of that file, not of the one that took its
// old name.
func TestTraceNamesAFileAsItIsCalledNow(t *testing.T) {
	f := simfs.New()
	d := f.Root()
	a, b := put(t, d, "a", "1", true), put(t, d, "b", "2", true)
	d.Sync()
	d.Exchange("a", d, "b")
	a.WriteAt([]byte("3"), 0)
	b.WriteAt([]byte("4"), 0)
	f.ResetTrace()
	f.Inject(func(op simfs.Op) simfs.Fault { return simfs.Fault{Err: syscall.EIO} })
	a.Sync()
	f.Inject(nil)
	ops := f.Trace()
	testbed.Expect(t, len(ops) == 1 && ops[0].Path == "b", "%v", ops)
	a.Sync()
	b.Sync()
	d.Sync()
	testbed.Equal(t, tree(f.Crash(0, simfs.All)), "map[a:4 b:1]")
	d.Remove("b")
	if err := a.Sync(); err != nil { // it has no name any more
		t.Error(err)
	}
}

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
