package resilientwrite_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// txStep is how far apart the operations are at which a sweep breaks off. Which
// ones they are the seed decides, so that all of them have their turn.
func txStep() int { return stride(max(1, 32/scale(40))) }

// levels are those at which a shape is swept: all of them, or one where time is
// short.
func (x txShape) levels() []rw.SyncLevel {
	if txStep() < 4 {
		return []rw.SyncLevel{rw.SyncFull, rw.SyncJournal, rw.SyncOff}
	}
	return [][]rw.SyncLevel{{rw.SyncFull}, {rw.SyncJournal}, {rw.SyncFull}, {rw.SyncOff}}[x.start%4]
}

// sweepTx runs a sweep of every shape in parallel.
func sweepTx(t *testing.T, random int, sweep func(*testing.T, txShape)) {
	for _, x := range txShapes(t, random) {
		for _, level := range x.levels() {
			x := x
			x.opts.Sync = level
			t.Run(x.name+"/"+string(level), func(t *testing.T) {
				t.Parallel()
				sweep(t, x)
			})
		}
	}
}

// TestCrashSweepTx kills the process at the operations of transactions of every kind,
// with and without a power failure: the whole transaction or nothing exists, and after
// an acknowledged one all of it.
func TestCrashSweepTx(t *testing.T) {
	sweepTx(t, scale(30), func(t *testing.T, x txShape) {
		for n := x.start % txStep(); ; n += txStep() {
			fs, want, over := x.broken(t, n)
			if t.Run(fmt.Sprintf("op%d", n), func(t *testing.T) { x.allOrNothing(t, fs, n, want) }); t.Failed() || over {
				return
			}
		}
	})
}

// TestCrashSweepTxOff: the level off promises nothing about the bytes after a power
// cut, but the store opens and works.
func TestCrashSweepTxOff(t *testing.T) {
	for _, x := range txShapes(t, scale(30)) {
		x.opts.Sync = rw.SyncOff
		for n := x.start % txStep(); ; n += txStep() {
			fs, _, over := x.broken(t, n)
			for seed := range uint64(scale(40)) {
				disk := fs.Crash(seed*7919+uint64(n), simfs.Some)
				s := x.open(t, disk, "0004")
				must(s.SafeWrite(background, rw.SafeWriteRequest{Path: "after.txt", Content: []byte("it goes on\n")}))(t, x.name, ", operation ", n, ", seed ", seed)
				s.Close(background)
			}
			if over {
				break
			}
		}
	}
}

// TestRecoveryCrashSweepTx kills recovery at its operations, then the recovery from
// that, and checks the result of the third one.
func TestRecoveryCrashSweepTx(t *testing.T) {
	sweepTx(t, scale(20), func(t *testing.T, x txShape) {
		if x.opts.Sync == rw.SyncOff {
			return // promises nothing about a power cut
		}
		for n := x.start % txStep(); ; n += 3 * txStep() {
			fs, want, over := x.broken(t, n)
			for seed := range uint64(scale(10)) {
				for m := (x.start + n) % txStep(); ; m += 2 * txStep() {
					disk := fs.Crash(seed, simfs.Some)
					if !x.dies(disk, m) {
						break // recovery got through
					}
					disk = disk.Crash(seed+uint64(m), simfs.Some)
					x.dies(disk, (m*7+n)%23)
					if x.aftermath(t, disk.Crash(seed+uint64(n), simfs.Some), want); t.Failed() {
						t.Fatalf("operation %d, seed %d, recovery dies at %d", n, seed, m)
					}
				}
			}
			if over {
				return
			}
		}
	})
}

// txFault is one way in which an operation goes wrong.
type txFault struct {
	errno    syscall.Errno
	happened bool // the operation is made anyway
	stays    bool // and all later operations that need disk space fail
}

var txFaults = []txFault{
	{syscall.EIO, false, false}, {syscall.EIO, true, false}, {syscall.ENOSPC, false, false}, {syscall.ENOSPC, true, false}, {syscall.ENOSPC, false, true},
}

// grows are the operations that need room on the disk.
var grows = map[string]bool{"create": true, "write": true, "append": true, "mkdir": true, "link": true, "setxattr": true}

// TestFaultSweepTx makes operations of transactions fail: what the error reports about
// the disk is true, and opening again gives all or nothing.
func TestFaultSweepTx(t *testing.T) {
	sweepTx(t, scale(20), func(t *testing.T, x txShape) {
		for k, f := range txFaults {
			if f.stays && x.plain {
				continue // names that cannot be swapped back need room, too
			}
			step := 6*txStep() - 5
			for i := (x.start + 7*k) % step; !x.fails(t, i, f) && !t.Failed(); i += step {
			}
		}
	})
}

// TestCrashSweepTxTakenBack makes an operation fail and kills the process while it
// rolls back the files published before.
func TestCrashSweepTxTakenBack(t *testing.T) {
	sweepTx(t, scale(20), func(t *testing.T, x txShape) {
		for i := x.start % (5 * txStep()); ; i += 5 * txStep() {
			for n := i + 1 + x.start%txStep(); ; n += 2 * txStep() {
				fs, want, over := x.brokenWhileTakenBack(t, i, n)
				if x.aftermath(t, fs.Crash(0, simfs.None), want); x.opts.Sync == rw.SyncFull {
					x.aftermath(t, fs.Crash(uint64(i+n), simfs.Some), want)
				}
				if t.Failed() {
					t.Fatalf("operation %d fails, the process dies at %d", i, n)
				}
				if over && n == i+1+x.start%txStep() {
					return // it did not come to operation i
				}
				if over {
					break
				}
			}
		}
	})
}

// TestTakenBackWithoutExchange kills the process at every operation that takes a
// replaced file back where names cannot be swapped. For a moment the slot and the
// target are then two names of the staged file.
func TestTakenBackWithoutExchange(t *testing.T) {
	for _, x := range txShapes(t, 0) {
		if x.name != "no_exchange" {
			continue
		}
		x.opts.Sync = rw.SyncFull
		for i := 42; i < 46; i++ {
			for n := i + 1; n < i+30; n++ {
				fs, want, _ := x.brokenWhileTakenBack(t, i, n)
				x.aftermath(t, fs.Crash(0, simfs.None), want)
				if x.aftermath(t, fs.Crash(uint64(i+n), simfs.Some), want); t.Failed() {
					t.Fatalf("operation %d fails, the process dies at %d", i, n)
				}
			}
		}
	}
}

// brokenWhileTakenBack runs the transaction, makes operation i fail, and kills the
// process at operation n. over reports that it did not reach that operation.
func (x txShape) brokenWhileTakenBack(t *testing.T, i, n int) (fs *simfs.FS, want outcome, over bool) {
	t.Helper()
	fs, s := x.prepare(t)
	base := fs.Muts()
	fs.Inject(func(op simfs.Op) simfs.Fault {
		if op.Mut == base+i && !strings.HasPrefix(op.Path, rw.StateDirName) {
			return simfs.Fault{Err: syscall.EIO}
		}
		return simfs.Fault{}
	})
	fs.StopAt(n)
	err := x.run(s)
	fs.StopAt(-1)
	fs.Inject(nil)
	want = either
	if err == nil {
		want = applied
	}
	return fs, want, fs.Muts()-base < n
}

// broken runs the transaction until the process dies at operation n, including
// background cleanup. over reports that it did not reach that operation.
func (x txShape) broken(t *testing.T, n int) (fs *simfs.FS, want outcome, over bool) {
	t.Helper()
	fs, s := x.prepare(t)
	base := fs.Muts()
	fs.StopAt(n)
	err := x.run(s)
	fs.StopAt(-1)
	want = applied
	if err != nil {
		want = either
		if !errors.Is(err, simfs.ErrDead) && !errors.Is(err, rw.ErrStorePoisoned) {
			t.Fatalf("operation %d: %v (%v)", n, err, errors.Unwrap(err))
		}
	}
	return fs, want, fs.Muts()-base < n
}

// dies opens a store and kills it at operation m of its recovery. It reports
// false when recovery was over before.
func (x txShape) dies(disk *simfs.FS, m int) bool {
	disk.StopAt(m)
	defer disk.StopAt(-1)
	opts := x.opts
	_, err := rw.OpenSim(disk, &opts, rw.Sim{Nonce: fmt.Sprintf("1%03d", m), Segment: x.sim.Segment, Manual: true})
	return err != nil
}

// fails makes operation i fail and checks the reported error. It returns true if the
// transaction has fewer operations.
func (x txShape) fails(t *testing.T, i int, f txFault) bool {
	t.Helper()
	fs, s := x.prepare(t)
	base, hit := fs.Muts(), ""
	fs.Inject(func(op simfs.Op) simfs.Fault {
		if op.Mut == base+i || f.stays && op.Mut > base+i && grows[op.Kind] {
			if hit == "" {
				hit = op.String()
			}
			if x.opts.Sync == rw.SyncOff && strings.Contains(op.Kind, "sync") {
				return simfs.Fault{} // this level promises nothing about flushes
			}
			if strings.HasPrefix(op.Path, rw.StateDirName+"/history") && (op.Kind == "mkdir" || op.Kind == "syncdir") {
				return simfs.Fault{} // history takes a flush for good that comes after one that failed
			}
			return simfs.Fault{Err: f.errno, Applied: f.happened, Short: int(op.Len / 2)}
		}
		return simfs.Fault{}
	})
	err := x.run(s)
	fs.Inject(nil)
	defer func() {
		if t.Failed() {
			t.Logf("%+v, operation %d, %s: %v", f, i, hit, err)
		}
	}()
	want := either
	if err == nil {
		want = applied
	} else if e := rw.AsError("", err); e.Effect == rw.EffectNone {
		want = untouched
		// A mkdir that fails and happens anyway leaves its directory.
		if diff := cmp.Diff(x.dirs, directories(fs)); diff != "" && !strings.HasPrefix(hit, "mkdir") {
			t.Errorf("effect none, but directories:\n%s", diff)
		}
	}
	x.judgeFault(t, fs, s, err, hit)
	x.aftermath(t, fs.Crash(0, simfs.None), want)
	if x.opts.Sync == rw.SyncFull {
		x.aftermath(t, fs.Crash(uint64(i), simfs.Some), want)
	}
	return hit == ""
}

// allOrNothing checks the disks that are possible after the process died.
func (x txShape) allOrNothing(t *testing.T, fs *simfs.FS, n int, want outcome) {
	t.Helper()
	x.verify(t, fs.Crash(0, simfs.None), want)
	x.aftermath(t, fs.Crash(0, simfs.None), want) // the process died, the machine did not
	if x.opts.Sync == rw.SyncOff {
		return
	}
	x.verify(t, fs.Crash(uint64(n), simfs.Some), want)
	x.aftermath(t, fs.Crash(0, simfs.All), want)
	for seed := range uint64(scale(20)) {
		x.aftermath(t, fs.Crash(seed*7919+uint64(n), simfs.Some), want)
	}
}

// aftermath opens the disk after a crash and continues: it contains only the needed
// files, the history records what happened, the caller repeats its call and gets the
// complete result, and an undo restores the previous state.
func (x txShape) aftermath(t *testing.T, disk *simfs.FS, want outcome) {
	t.Helper()
	s := x.open(t, disk, "0004")
	got := files(disk)
	happened := same(got, x.new)
	if !happened && !same(got, x.old) || want == applied && !happened || want == untouched && happened {
		t.Fatalf("want %v, found %s\n old %s\n new %s\n recovery %+v", want, brief(got), brief(x.old), brief(x.new), s.Recovery())
	}
	past := x.past
	if happened { // else a directory that was made before the commit point may be left
		past = x.future
		if diff := cmp.Diff(x.newDirs(), directories(disk)); diff != "" {
			t.Errorf("directories:\n%s", diff)
		}
	}
	x.tellsOf(t, s, past)
	noErr(t, x.run(s), "the repeated call")
	if got := files(disk); !same(got, x.new) {
		t.Fatalf("the repeated call, happened %v, made %s of %s", happened, brief(got), brief(x.new))
	}
	x.tellsOf(t, s, x.future)
	must(s.Undo(background, rw.UndoRequest{Call: rw.Call{Caller: txCaller}}))(t, "undo")
	if got := files(disk); !same(got, x.old) {
		t.Fatalf("undo made %s of %s", brief(got), brief(x.old))
	}
	check(t, s, true)
	noErr(t, s.Close(background))
	if left, _ := s.Unfinished(); len(left) > 0 {
		t.Errorf("left in staging: %v", left)
	}
	if t.Failed() {
		t.Fatalf("recovery %+v", s.Recovery())
	}
}

// newDirs returns the directories after the transaction: none is removed.
func (x txShape) newDirs() map[string]bool {
	dirs := parents(x.new)
	for d := range x.dirs {
		dirs[d] = true
	}
	return dirs
}

// directories are those of the workspace on a disk.
func directories(fs *simfs.FS) map[string]bool {
	out := map[string]bool{}
	for p, content := range fs.Tree() {
		if content == "/" && !ofStore(p) {
			out[p] = true
		}
	}
	return out
}

// tellsOf compares the history of every path that the transaction names.
func (x txShape) tellsOf(t *testing.T, s *rw.Store, want map[string][]string) {
	t.Helper()
	for p := range x.future {
		if diff := cmp.Diff(want[p], x.pastOf(t, s, p)); diff != "" {
			t.Errorf("history of %s:\n%s", p, diff)
		}
	}
}
