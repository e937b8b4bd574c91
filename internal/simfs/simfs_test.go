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
