package resilientwrite_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// TestRandomFaultSweep: three processes make random calls. Flushes and other operations fail,
// processes are stopped, continue or die at random operations, and the power is cut. What
// was acknowledged is in the files or in history in the end, no acknowledged commit
// conflicts, and Check finds nothing. Other sweeps visit pairs of faults; these are
// many in a row.
func TestRandomFaultSweep(t *testing.T) {
	t.Parallel()
	first, runs := uint64(0), scale(20000)
	if short() {
		first, runs = turn()%20*100, 100 // of those of a long run
	}
	for i := range uint64(runs) {
		w := newFaultRun(t, first+i)
		w.run()
		if t.Failed() {
			t.Fatalf("seed %d:\n%s", w.seed, strings.Join(w.log, "\n"))
		}
	}
}

// faultRun is one run of TestRandomFaultSweep.
type faultRun struct {
	t     *testing.T
	seed  uint64
	rng   *rand.Rand
	fs    *simfs.FS
	opts  rw.Options
	sim   rw.Sim
	all   []*faultProcess
	nonce int
	texts int
	acked map[string]string // text to the call that wrote it
	log   []string
}

type faultProcess struct {
	*simfs.Process
	s *rw.Store
}

func newFaultRun(t *testing.T, seed uint64) *faultRun {
	rng := rand.New(rand.NewPCG(seed, 0))
	w := &faultRun{t: t, seed: seed, rng: rng, fs: simfs.New(), acked: map[string]string{}}
	w.fs.Ordered = rng.IntN(2) == 0
	w.opts = rw.Options{Sync: allLevels[rng.IntN(2)], LockTimeout: time.Millisecond}
	w.sim = rw.Sim{LockWait: time.Millisecond, Manual: rng.IntN(2) == 0, Mount: rng.IntN(4) == 0}
	for _, set := range []func(){
		func() { w.sim.AppendFrom = 64 }, func() { w.sim.Segment = 2000 },
		func() { w.sim.AheadFrom = 4 << 10 }, func() { w.sim.Slots = 8 },
	} {
		if rng.IntN(3) == 0 {
			set()
		}
	}
	return w
}

func (w *faultRun) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *faultRun) run() {
	w.note("%s, ordered %v, %+v", w.opts.Sync, w.fs.Ordered, w.sim)
	for range 4 + w.rng.IntN(14) {
		w.step()
		w.compare(true)
	}
	if w.rng.IntN(2) == 0 {
		w.cutPower()
	}
	w.fs.Kill()
	p, err := w.open()
	noErr(w.t, err)
	w.compare(false)
	r := must(p.s.Check(background, admin.CheckRequest{}))(w.t)
	problems := slices.DeleteFunc(r.Problems, func(x admin.CheckProblem) bool {
		return x.Code == "malformed_line" // a row that a failed flush has lost in part
	})
	length(w.t, problems, 0, "problems")
	noErr(w.t, do(put("last.txt", "x", rw.ModeOverwrite))(p.s))
}

// open opens the store in another process.
func (w *faultRun) open() (*faultProcess, error) {
	w.nonce++
	p := &faultProcess{Process: w.fs.NewProcess()}
	sim := w.sim
	sim.Process, sim.Nonce = p.Process, fmt.Sprintf("%04d", w.nonce)
	var err error
	if p.s, err = rw.OpenSim(w.fs, &w.opts, sim); err != nil {
		w.note("opens: %v (%v)", err, errors.Unwrap(err))
		p.Kill()
		return nil, err
	}
	w.note("opens: %+v", p.s.Recovery())
	return p, nil
}

// one returns a process that has the store open, or nil.
func (w *faultRun) one() *faultProcess {
	for range 3 - len(w.all) {
		if p, err := w.open(); err == nil {
			w.all = append(w.all, p)
		}
	}
	if len(w.all) == 0 {
		return nil
	}
	return w.all[w.rng.IntN(len(w.all))]
}

func (w *faultRun) drop(p *faultProcess) {
	w.all = slices.DeleteFunc(w.all, func(x *faultProcess) bool { return x == p })
}

func (w *faultRun) kill(p *faultProcess) {
	p.Kill()
	w.drop(p)
}

func (w *faultRun) cutPower() {
	w.note("power cut")
	old := w.fs
	w.fs = old.Crash(w.rng.Uint64(), []simfs.Loss{simfs.All, simfs.Older, simfs.None}[w.rng.IntN(3)])
	for _, p := range w.all {
		p.Kill()
	}
	w.all = nil
}

// failing lets one or two of the next operations of a kind fail.
func (w *faultRun) failing(kind string) {
	n, count := w.rng.IntN(10), 1+w.rng.IntN(2)
	err := []error{syscall.EIO, syscall.ENOSPC}[w.rng.IntN(2)]
	w.fs.Inject(func(op simfs.Op) simfs.Fault {
		if !strings.Contains(op.Kind, kind) || count == 0 {
			return simfs.Fault{}
		}
		if n--; n >= 0 {
			return simfs.Fault{}
		}
		count--
		w.note("  %v fails", op)
		return simfs.Fault{Err: err}
	})
}

func (w *faultRun) text() string {
	w.texts++
	text := fmt.Sprintf("text %d of %d\n", w.texts, w.seed)
	if w.rng.IntN(6) == 0 {
		text += strings.Repeat("some more text that fills the file\n", 1+w.rng.IntN(300))
	}
	return text
}

// faultCall is a random call and the texts that it writes.
type faultCall struct {
	name  string
	texts []string
	do    func(*rw.Store) error
}

func (w *faultRun) call() faultCall {
	paths := []string{"a.txt", "b.txt", "d/c.txt", "d/e/f.txt"}
	w.rng.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
	p, q := paths[0], paths[1]
	switch w.rng.IntN(10) {
	case 0:
		return faultCall{"delete " + p, nil, doing((*rw.Store).Delete, rw.DeleteRequest{Path: p})}
	case 1:
		return faultCall{"move " + p + " " + q, nil, doing((*rw.Store).Move, rw.MoveRequest{Path: p, To: q, Overwrite: true})}
	case 2:
		return faultCall{"undo", nil, doing((*rw.Store).Undo, rw.UndoRequest{})}
	case 3:
		return []faultCall{
			{"sync", nil, func(s *rw.Store) error { return s.Sync(background) }},
			{"repair", nil, func(s *rw.Store) error {
				_, err := s.Admin().Repair(background, admin.RepairRequest{})
				return err
			}},
			{"compact", nil, func(s *rw.Store) error {
				_, err := s.Admin().Compact(background, admin.CompactRequest{KeepRows: new(int)})
				return err
			}},
		}[w.rng.IntN(3)]
	case 4, 5:
		x, y := w.text(), w.text()
		return faultCall{"tx " + p + " " + q, []string{x, y}, doing((*rw.Store).Tx, rw.TxRequest{Ops: []rw.TxOp{
			{Op: "write", Path: p, Content: []byte(x), Mode: rw.ModeOverwrite, AllowShrink: true},
			{Op: "write", Path: q, Content: []byte(y), Mode: rw.ModeAppend},
		}})}
	}
	mode := []rw.WriteMode{rw.ModeCreate, rw.ModeOverwrite, rw.ModeOverwrite, rw.ModeAppend}[w.rng.IntN(4)]
	r := put(p, w.text(), mode)
	r.AllowShrink = true
	return faultCall{string(mode) + " " + p, []string{string(r.Content)}, do(r)}
}

// ended notes the result of a call.
func (w *faultRun) ended(c faultCall, err error) {
	e := rw.AsError("", err)
	w.note("  %s: %v (%v)", c.name, err, errors.Unwrap(err))
	if err == nil || e.Effect == rw.EffectApplied {
		for _, text := range c.texts {
			w.acked[text] = c.name
		}
	} else if e.Detail == rw.ErrInternal {
		w.t.Errorf("%s: %v (%v)", c.name, err, errors.Unwrap(err))
	}
}

func (w *faultRun) step() {
	p := w.one()
	if p == nil {
		return
	}
	c := w.call()
	switch w.rng.IntN(10) {
	case 0, 1, 2:
		w.ended(c, c.do(p.s))
	case 3, 4:
		w.failing([]string{"sync", "sync", "sync", "rename", "write", "remove", "exchange", "create", "open", "read"}[w.rng.IntN(10)])
		w.ended(c, c.do(p.s))
		if w.rng.IntN(2) == 0 {
			w.ended(faultCall{name: "sync"}, p.s.Sync(background))
		}
		w.fs.Inject(nil)
	case 5, 6:
		w.stopped(p, c)
	case 7:
		w.note("%s, in a process that dies", c.name)
		p.StopAt(w.rng.IntN(40))
		if err := c.do(p.s); err == nil {
			w.ended(c, nil)
		}
		w.kill(p)
	case 8:
		w.failing([]string{"sync", "write", "rename", "read", "open"}[w.rng.IntN(5)])
		if p, err := w.open(); err == nil {
			w.all = append(w.all, p)
		}
		w.fs.Inject(nil)
	default:
		if w.rng.IntN(2) == 0 {
			w.cutPower()
		} else {
			w.ended(faultCall{name: "close"}, p.s.Close(background))
			w.kill(p)
		}
	}
	for _, p := range slices.Clone(w.all) {
		if must(p.s.Describe(background, rw.DescribeRequest{}))(w.t).Poisoned && w.rng.IntN(3) == 0 {
			w.kill(p)
		}
	}
}

// stopped stops a process in a call while others go on.
func (w *faultRun) stopped(p *faultProcess, c faultCall) {
	reached := p.PauseAt(w.rng.IntN(90))
	ended := make(chan error, 1)
	go func() { ended <- c.do(p.s) }()
	select {
	case <-reached:
	case err := <-ended:
		p.Continue()
		w.ended(c, err)
		return
	}
	w.note("%s stops", c.name)
	w.drop(p)
	for range 1 + w.rng.IntN(3) {
		beside := w.one()
		if beside == nil {
			break
		}
		if w.rng.IntN(4) == 0 {
			w.failing("sync")
		}
		c := w.call()
		w.ended(c, c.do(beside.s))
		w.fs.Inject(nil)
		if w.rng.IntN(4) == 0 {
			w.kill(beside)
		}
	}
	if w.rng.IntN(4) == 0 {
		w.cutPower()
	} else if w.rng.IntN(3) > 0 {
		p.Continue()
		w.ended(c, <-ended)
		w.all = append(w.all, p)
		return
	}
	p.Kill()
	<-ended
}

// compare looks for the acknowledged texts: in the end without the slots.
func (w *faultRun) compare(slots bool) {
	kept := contents(w.fs, slots)
	for text, name := range w.acked {
		expect(w.t, haveText(kept, text), "%q of %s is lost", text[:min(len(text), 60)], name)
	}
	for _, p := range w.all {
		for _, x := range p.s.Recovery().Conflicts {
			for text, name := range w.acked {
				expect(w.t, x.Reason == "unplaced" || hash(text) != x.SHA256, "a conflict of %s: %+v", name, x)
			}
		}
	}
}
