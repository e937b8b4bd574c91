package resilientwrite_test

import (
	"errors"
	"maps"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// TestNextWriterSweep: a process dies at each operation of a call, and another process
// that has the store open makes the same call with the same key. A change is reported
// to it at most once, before it completes the work of the dead process or does it
// itself. The result reported to it survives a power failure, and happened once.
func TestNextWriterSweep(t *testing.T) {
	step := attackStep(3)
	for i, x := range attacks {
		for j, level := range allLevels[:2] {
			t.Run(x.name+"/"+string(level), func(t *testing.T) {
				t.Parallel()
				x := x
				x.opts.LockTimeout, x.sim.LockWait = time.Millisecond, time.Millisecond
				for n := (phase(step) + i + j) % step; x.next(t, level, n); n += step {
				}
			})
		}
	}
}

func (x attack) next(t *testing.T, level rw.SyncLevel, n int) (died bool) {
	t.Helper()
	fs := simfs.New()
	if x.disk != nil {
		x.disk(fs)
	}
	open := func(p *simfs.Process, nonce string) *rw.Store {
		y := x
		y.sim.Process = p
		s := must(y.open(fs, level, nonce))(t)
		return s
	}
	if x.before != nil {
		s := open(fs.NewProcess(), "0001")
		noErr(t, errors.Join(x.before(s), s.Close(background)))
	}
	next := open(fs.NewProcess(), "0003")
	first := fs.NewProcess()
	s := open(first, "0002")
	first.StopAt(n)
	died = errors.Is(x.run(s), simfs.ErrDead)
	first.Kill()
	told := x.run(next)
	if errors.Is(told, rw.ErrChangedDuringWrite) {
		told = x.run(next)
	}
	cut := fs.Crash(uint64(n), simfs.All)
	if told != nil {
		t.Fatalf("the process died at operation %d; the next one: %v", n, told)
	}
	y := x
	y.sim.Process = cut.NewProcess()
	after := must(y.open(cut, level, "0004"))(t)
	op, err := after.Operation(background, rw.OperationRequest{IdempotencyKey: attackKey})
	if err != nil || len(op.Entries) == 0 {
		t.Errorf("the call is not in the journal: %v", err)
	}
	if c := after.Recovery().Conflicts; len(c) > 0 || !maps.Equal(files(cut), x.new) {
		t.Errorf("a power cut left %s, conflicts %v", brief(files(cut)), c)
	}
	if r, err := after.Check(background, rw.CheckRequest{}); err != nil || len(r.Problems) > 0 {
		t.Errorf("check: %+v, %v", r.Problems, err)
	}
	if t.Failed() {
		t.Fatalf("the process died at operation %d", n)
	}
	return died
}
