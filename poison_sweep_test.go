package resilientwrite_test

import (
	"errors"
	"maps"
	"strings"
	"syscall"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// failFlush makes the flush n, counted from now on, fail once without effect.
// It reports which one that was.
func failFlush(fs *simfs.FS, n int) *simfs.Op {
	failed := &simfs.Op{}
	fs.Inject(func(op simfs.Op) simfs.Fault {
		if !strings.Contains(op.Kind, "sync") || failed.Kind != "" {
			return simfs.Fault{}
		}
		if n--; n >= 0 {
			return simfs.Fault{}
		}
		*failed = op
		return simfs.Fault{Err: syscall.EIO}
	})
	return failed
}

// poisoned runs the call as one process and lets its flush n fail; another one
// has the store open. The process lives on.
func (x attack) poisoned(t *testing.T, level rw.SyncLevel, n int) (fs *simfs.FS, a, b *rw.Store, failed *simfs.Op, err error) {
	t.Helper()
	fs = simfs.New()
	if x.disk != nil {
		x.disk(fs)
	}
	s, err := x.open(fs, level, "0001")
	if err == nil && x.before != nil {
		err = x.before(s)
	}
	if err == nil {
		err = s.Close(background)
	}
	noErr(t, err)
	open := func(nonce string) *rw.Store {
		y := x
		y.sim.Process = fs.NewProcess()
		s := must(y.open(fs, level, nonce))(t)
		return s
	}
	a, b = open("0002"), open("0004")
	failed = failFlush(fs, n)
	if err = x.run(a); err == nil && level != rw.SyncFull {
		a.Sync(background)
	}
	fs.Inject(nil)
	return fs, a, b, failed, err
}

// TestPoisonSweep: each flush of a call fails, and the process that saw it continues to
// run. Another process opens the store; before each of its operations a third one opens
// it, too, or it dies, or the power fails. The content that an opener shows is durable,
// although the pages of the failed flush are lost, and the processes that were there
// before accept no more writes.
func TestPoisonSweep(t *testing.T) {
	step := attackStep(43)
	for i, x := range attacks {
		for j, level := range allLevels[:2] {
			t.Run(x.name+"/"+string(level), func(t *testing.T) {
				t.Parallel()
				x := x
				x.opts.LockTimeout, x.sim.LockWait = time.Millisecond, time.Millisecond
				for n := 0; ; n++ {
					if !x.heal(t, level, n, -1, "") {
						return
					}
					for k, how := range []string{"opens", "opens, and the first one dies", "opens, and the power is cut", "the power is cut"} {
						for m := (phase(step) + i + j + k + n) % step; x.heal(t, level, n, m, how); m += step {
						}
					}
				}
			})
		}
	}
}

// TestPoisonMoveOverSweep is TestPoisonSweep at each operation for a replacing move
// whose directories could not be flushed: completing such a move before it is rolled
// back would rely on names that the disk does not have.
func TestPoisonMoveOverSweep(t *testing.T) {
	for _, x := range attacks {
		if x.name != "move over" {
			continue
		}
		x.opts.LockTimeout, x.sim.LockWait = time.Millisecond, time.Millisecond
		for n := 0; ; n++ {
			_, _, _, failed, _ := x.poisoned(t, rw.SyncFull, n)
			if failed.Kind == "" {
				break
			}
			if failed.Kind != "syncdir" {
				continue
			}
			for m := 0; x.heal(t, rw.SyncFull, n, m, "the power is cut"); m++ {
			}
		}
	}
}

// heal makes flush n of the call fail and opens the store while the process that saw
// the failure is still running. At operation m of that, something happens.
func (x attack) heal(t *testing.T, level rw.SyncLevel, n, m int, how string) (reached bool) {
	t.Helper()
	fs, a, b, failed, callErr := x.poisoned(t, level, n)
	if failed.Kind == "" {
		return false
	}
	mark := func(fs *simfs.FS) bool {
		_, there := fs.ReadFile(rw.StateDirName + "/poisoned")
		return there
	}
	poisoned := mark(fs)
	defer func() {
		if t.Failed() {
			t.Fatalf("flush %d (%v) failed, poisoned %v, call %v; %s at operation %d", n, *failed, poisoned, callErr, how, m)
		}
	}()
	disk, first := fs, fs.NewProcess()
	count := 0
	fs.Before(func(simfs.Op) {
		if count++; m < 0 || count != m+1 {
			return
		}
		reached = true
		fs.Before(nil)
		if strings.HasPrefix(how, "opens") {
			y := x
			y.sim.Process = fs.NewProcess()
			if s, err := y.open(fs, level, "0008"); err == nil {
				do(put("third.txt", longText, rw.ModeCreate))(s)
			}
		}
		if strings.Contains(how, "first one dies") {
			first.Kill()
		}
		if strings.Contains(how, "power") {
			disk = fs.Crash(uint64(n+m), simfs.Older)
			first.Kill()
		}
	})
	y := x
	y.sim.Process = first
	c, err := y.open(fs, level, "0005")
	fs.Before(nil)
	if m >= 0 && !reached {
		return false
	}
	if poisoned {
		for _, s := range []*rw.Store{a, b} {
			if err := do(put("late.txt", otherText, rw.ModeCreate))(s); !errors.Is(err, rw.ErrStorePoisoned) && !errors.Is(err, rw.ErrLockTimeout) {
				t.Errorf("a process that had the store open before writes: %v", err)
			}
		}
	}
	if strings.Contains(how, "power") || strings.Contains(how, "dies") {
		x.settled(t, disk, level, poisoned && !strings.Contains(how, "power"))
		return true
	}
	if err != nil {
		if m < 0 || !errors.Is(err, rw.ErrLockTimeout) {
			t.Errorf("open: %v (%v)", err, errors.Unwrap(err))
		}
		return true
	}
	if poisoned && how == "" && !c.Recovery().Poisoned {
		t.Error("the report says nothing of the failed flush")
	}
	// The old content must survive a power failure at once, and so must the following
	// write.
	shown := files(fs)
	cut := fs.Crash(uint64(n), simfs.All)
	x.settled(t, cut, level, false)
	if have := files(cut); !maps.Equal(have, shown) {
		t.Errorf("the opener showed %s, a power cut left %s", brief(shown), brief(have))
	}
	mode := rw.ModeCreate
	if _, there := shown[x.paths[0]]; there {
		mode = rw.ModeOverwrite
	}
	noErr(t, do(put("later.txt", otherText, rw.ModeCreate), put(x.paths[0], longText+humansText, mode))(c), "a write of the opener")
	noErr(t, c.Close(background))
	for _, s := range []*rw.Store{a, b} {
		s.Close(background)
	}
	if mark(fs) {
		t.Error("the mark is there although nothing is in doubt")
	}
	shown = files(fs)
	kept := contents(fs, false)
	cut = fs.Crash(uint64(n), simfs.All)
	x.settled(t, cut, level, false)
	if have := files(cut); !maps.Equal(have, shown) {
		t.Errorf("the opener closed with %s, a power cut left %s", brief(shown), brief(have))
	}
	for _, text := range []string{longText, otherText, humansText} {
		if haveText(kept, text) && !haveText(contents(cut, false), text) {
			t.Errorf("%.20q is lost", text)
		}
	}
	return true
}

// settled opens a disk and closes it: its journal is in order, and opening it
// once more finds the same files.
func (x attack) settled(t *testing.T, disk *simfs.FS, level rw.SyncLevel, live bool) {
	t.Helper()
	x.sim.Process = disk.NewProcess()
	s, err := x.open(disk, level, "0006")
	if err != nil {
		t.Errorf("open behind it: %v (%v)", err, errors.Unwrap(err))
		return
	}
	if r, err := s.Check(background, rw.CheckRequest{}); err != nil || len(r.Problems) > 0 {
		t.Errorf("check: %+v, %v", r.Problems, err)
	}
	if c := s.Recovery().Conflicts; len(c) > 0 {
		t.Errorf("conflicts %v", c)
	}
	noErr(t, s.Close(background))
}

// TestPoisonMarkStaysSweep: the mark of a failed flush stays while an opener could not
// recover the files that it names, so that the next one publishes it again.
func TestPoisonMarkStaysSweep(t *testing.T) {
	mark := rw.StateDirName + "/poisoned"
	for _, x := range attacks {
		for n := 0; ; n++ {
			fs, _, _, failed, _ := x.poisoned(t, rw.SyncFull, n)
			if failed.Kind == "" {
				break
			}
			if _, there := fs.ReadFile(mark); !there {
				continue
			}
			fs.Kill()
			y := x
			y.sim.Unrecovered = true
			if s, err := y.open(fs, rw.SyncFull, "0005"); err == nil {
				s.Close(background)
			}
			if _, there := fs.ReadFile(mark); !there {
				t.Errorf("%s: flush %d (%v) failed: the mark went with an opener that recovered nothing", x.name, n, *failed)
			}
			s, err := x.open(fs, rw.SyncFull, "0006")
			if err != nil || !s.Recovery().Poisoned {
				t.Fatalf("%s: flush %d (%v) failed: the next opener does not know: %v", x.name, n, *failed, err)
			}
			s.Close(background)
			if _, there := fs.ReadFile(mark); there {
				t.Errorf("%s: flush %d (%v) failed: the mark stays after recovery", x.name, n, *failed)
			}
		}
	}
}
