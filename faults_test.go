package resilientwrite_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
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
	t      *testing.T
	seed   uint64
	human  bool // a person saves files, too
	rng    *rand.Rand
	fs     *simfs.FS
	opts   rw.Options
	sim    rw.Sim
	all    []*faultProcess
	nonce  int
	made   []string // all texts
	newest string   // text that was written to a file
	keyed  []rw.SafeWriteRequest
	ends   []faultCall // acknowledged, with something to look at in the end

	// A flush of the workspace has failed: what a person then saves makes the loss of other
	// names durable, or is lost with a directory.
	loses atomic.Bool

	mu    sync.Mutex
	acked map[string]string // text to who wrote it, "" if a person has removed it
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
	if w.human = rng.IntN(2) == 0; w.human {
		return w
	}
	// Where names cannot be swapped, what a person saves at the wrong moment is replaced.
	for _, lack := range []*bool{&w.fs.NoExchange, &w.fs.NoReplace, &w.fs.NoLink, &w.fs.NoSyncEach, &w.fs.NoLeases, &w.fs.Clones} {
		*lack = rng.IntN(8) == 0
	}
	w.fs.NoLink = w.fs.NoLink && !w.fs.NoReplace // else no file can be made
	if rng.IntN(3) == 0 {
		w.opts.HardLinks = rw.HardLinksInPlace
	}
	return w
}

func (w *faultRun) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *faultRun) run() {
	w.note("%s, %+v, human %v, ordered %v, exchange %v, replace %v, link %v", w.opts.Sync, w.sim, w.human, w.fs.Ordered, !w.fs.NoExchange, !w.fs.NoReplace, !w.fs.NoLink)
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
	for _, c := range w.ends {
		err := c.after(p.s)
		expect(w.t, err == nil, "%s: %v", c.name, err)
	}
	for path, text := range w.fs.Tree() {
		for x := range w.acked {
			expect(w.t, strings.Count(text, x) < 2, "%s has %q twice", path, x)
		}
	}
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
	w.loses.Store(false)
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
	fault := simfs.Fault{Err: []error{syscall.EIO, syscall.ENOSPC}[w.rng.IntN(2)], Applied: w.rng.IntN(4) == 0, Short: []int{-1, 1, 600}[w.rng.IntN(3)]}
	w.fs.Inject(func(op simfs.Op) simfs.Fault {
		if !strings.Contains(op.Kind, kind) || count == 0 {
			return simfs.Fault{}
		}
		if n--; n >= 0 {
			return simfs.Fault{}
		}
		count--
		w.note("  %v fails", op)
		if op.Kind == "syncdir" && !ofStore(op.Path) {
			w.loses.Store(true)
		}
		return fault
	})
}

func (w *faultRun) text() string {
	text := fmt.Sprintf("text %d of %d\n", len(w.made), w.seed)
	if w.rng.IntN(6) == 0 {
		text += strings.Repeat("some more text that fills the file\n", 1+w.rng.IntN(300))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made = append(w.made, text)
	return text
}

// faultCall is a random call and the texts that it writes.
type faultCall struct {
	name  string
	texts []string
	do    func(*rw.Store) error
	after func(*rw.Store) error // fails in the end if the call was acknowledged and has no effect
}

func (w *faultRun) call() faultCall {
	paths := []string{"a.txt", "b.txt", "d/c.txt", "d/e/f.txt"}
	if w.opts.HardLinks != "" {
		paths = append(paths, "link.txt")
	}
	w.rng.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
	p, q := paths[0], paths[1]
	switch w.rng.IntN(20) {
	case 0, 1:
		return faultCall{name: "delete " + p, do: doing((*rw.Store).Delete, rw.DeleteRequest{Path: p})}
	case 2:
		return faultCall{name: "move " + p + " " + q, do: doing((*rw.Store).Move, rw.MoveRequest{Path: p, To: q, Overwrite: true})}
	case 3:
		from, to := "d/e", "g"
		if w.rng.IntN(2) == 0 {
			from, to = to, from
		}
		return faultCall{name: "move " + from + " " + to, do: doing((*rw.Store).Move, rw.MoveRequest{Path: from, To: to})}
	case 4:
		return faultCall{name: "undo", do: doing((*rw.Store).Undo, rw.UndoRequest{})}
	case 5:
		return w.upkeep()
	case 6, 7, 8:
		return w.kept()
	case 9:
		return faultCall{name: "restore " + p, do: func(s *rw.Store) error {
			h, err := s.History(background, rw.HistoryRequest{Path: p})
			if err == nil && len(h.Versions) > 0 {
				_, err = s.Restore(background, rw.RestoreRequest{Path: p, Version: h.Versions[len(h.Versions)/2].Version})
			}
			return err
		}}
	case 10, 11:
		x, y := w.text(), w.text()
		return faultCall{name: "tx " + p + " " + q, texts: []string{x, y}, do: doing((*rw.Store).Tx, rw.TxRequest{Ops: []rw.TxOp{
			{Op: "write", Path: p, Content: []byte(x), Mode: rw.ModeOverwrite, AllowShrink: true},
			{Op: "write", Path: q, Content: []byte(y), Mode: rw.ModeAppend},
		}})}
	case 12:
		old, text := w.newest, w.text()
		w.newest = text
		return faultCall{name: "edit " + p, texts: []string{text}, do: doing((*rw.Store).Edit, rw.EditRequest{Path: p, AllowShrink: true,
			Edits: []rw.EditOp{{Old: old, New: old + text}}})}
	}
	mode := []rw.WriteMode{rw.ModeCreate, rw.ModeOverwrite, rw.ModeOverwrite, rw.ModeAppend}[w.rng.IntN(4)]
	r := put(p, w.text(), mode)
	r.AllowShrink = true
	w.newest = string(r.Content)
	if w.rng.IntN(3) == 0 {
		if len(w.keyed) > 0 && w.rng.IntN(2) == 0 {
			r = w.keyed[w.rng.IntN(len(w.keyed))]
		} else {
			r.IdempotencyKey = fmt.Sprint("key ", len(w.made))
			w.keyed = append(w.keyed, r)
		}
	}
	return faultCall{name: fmt.Sprint(r.Mode, " ", p, " ", r.IdempotencyKey), texts: []string{string(r.Content)}, do: do(r), after: func(s *rw.Store) error {
		if r.IdempotencyKey == "" {
			return nil
		}
		op, err := s.Operation(background, rw.OperationRequest{IdempotencyKey: r.IdempotencyKey})
		if err == nil && len(op.Entries) == 0 {
			err = errors.New("the key is not known")
		}
		return err
	}}
}

// upkeep is a random call of the operator.
func (w *faultRun) upkeep() faultCall {
	return []faultCall{
		{name: "sync", do: func(s *rw.Store) error { return s.Sync(background) }},
		{name: "repair", do: func(s *rw.Store) error {
			_, err := s.Admin().Repair(background, admin.RepairRequest{})
			return err
		}},
		{name: "compact", do: func(s *rw.Store) error {
			_, err := s.Admin().Compact(background, admin.CompactRequest{KeepRows: new(int)})
			return err
		}},
	}[w.rng.IntN(3)]
}

// kept is a random call that keeps a text elsewhere than in a file.
func (w *faultRun) kept() faultCall {
	text := w.text()
	name := fmt.Sprint("n", len(w.made))
	session := fmt.Sprint("s", w.rng.IntN(2))
	switch w.rng.IntN(7) {
	case 0:
		return faultCall{name: "scratch " + name, do: doing((*rw.Store).ScratchPut, rw.ScratchPutRequest{Content: []byte(text), Label: name}), after: func(s *rw.Store) error {
			_, err := s.ScratchGet(background, rw.ScratchGetRequest{SHA256: digest(hash(text))})
			return err
		}}
	case 1:
		return faultCall{name: "checkpoint " + name, do: doing((*rw.Store).Checkpoint, rw.CheckpointRequest{Name: name, Data: must(json.Marshal(text))(w.t), Format: "markdown", TTL: "permanent"}), after: func(s *rw.Store) error {
			_, err := s.CheckpointRead(background, rw.CheckpointReadRequest{Name: name})
			return err
		}}
	case 2:
		return faultCall{name: "snapshot", do: doing((*rw.Store).Snapshot, around.SnapshotRequest{Label: name}), after: func(s *rw.Store) error {
			list, err := s.SnapshotList(background, around.SnapshotListRequest{})
			if err == nil && !slices.ContainsFunc(list.Snapshots, func(x around.Snapshot) bool { return x.Label == name }) {
				err = errors.New("there is no such snapshot")
			}
			return err
		}}
	case 3:
		return faultCall{name: "compose " + session, do: doing((*rw.Store).ChunkCompose, rw.ChunkComposeRequest{Session: session, OutputPath: "b.txt", Cleanup: true, AllowShrink: true})}
	}
	return faultCall{name: "chunk " + session, do: doing((*rw.Store).ChunkAppend, rw.ChunkAppendRequest{Session: session, Content: []byte(text)}), after: func(s *rw.Store) error {
		if _, removed := w.acked[text]; removed || haveText(contents(w.fs, false), text) {
			return nil
		}
		x, err := s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: session})
		if err == nil && !strings.Contains(string(x.Content), text) {
			err = errors.New("the chunk is not there")
		}
		return err
	}}
}

// ended notes the result of a call.
func (w *faultRun) ended(c faultCall, err error) {
	e := rw.AsError("", err)
	w.note("  %s: %v (%v)", c.name, err, errors.Unwrap(err))
	if err == nil || e.Effect == rw.EffectApplied {
		for _, text := range c.texts {
			w.acknowledged(text, c.name)
		}
		if c.after != nil {
			w.ends = append(w.ends, c)
		}
	} else if e.Detail == rw.ErrInternal {
		w.t.Errorf("%s: %v (%v)", c.name, err, errors.Unwrap(err))
	}
}

// acknowledged notes that a text was written, unless a person has removed it since: then it is
// a replay.
func (w *faultRun) acknowledged(text, by string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.acked[text]; !known {
		w.acked[text] = by
	}
}

// removed notes that a person has replaced a file. Copies of it in history may not be durable.
func (w *faultRun) removed(was string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, text := range w.made {
		if strings.Contains(was, text) {
			w.acked[text] = ""
		}
	}
}

// expected returns the texts that are somewhere, with who wrote them.
func (w *faultRun) expected() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := maps.Clone(w.acked)
	maps.DeleteFunc(all, func(_, by string) bool { return by == "" })
	return all
}

// beside has a person save a file before one of the next operations.
func (w *faultRun) beside() {
	var n atomic.Int64
	n.Store(1 + w.rng.Int64N(100))
	name, text := []string{"a.txt", "b.txt", "d/c.txt", "d/e/f.txt"}[w.rng.IntN(4)], w.text()
	inside := w.sim.AppendFrom == 0 && w.rng.IntN(2) == 0 // such appends and those of the store would mix
	w.fs.Before(func(simfs.Op) {
		if n.Add(-1) != 0 || w.loses.Load() {
			return
		}
		dir, done, err := fsx.OpenPath(w.fs.Foreign(), strings.TrimPrefix(path.Dir(name), "."))
		if err != nil {
			return
		}
		defer done()
		was, _ := w.fs.ReadFile(name)
		if !inside {
			replaceBy(dir, path.Base(name), text)
			w.removed(string(was))
		} else if f, err := dir.Open(path.Base(name), fsx.Append, 0); err == nil {
			f.Append([]byte(text))
			f.Sync()
			f.Close()
		} else {
			return
		}
		for d := path.Dir(name); ; d = path.Dir(d) { // the directories may be new
			if dir, done, err := fsx.OpenPath(w.fs.Foreign(), strings.TrimPrefix(d, ".")); err == nil {
				dir.Sync()
				done()
			}
			if d == "." {
				break
			}
		}
		w.acknowledged(text, "a person")
		w.note("  a person saves %s (inside %v)", name, inside)
	})
}

func (w *faultRun) step() {
	p := w.one()
	if p == nil {
		return
	}
	if w.human && w.rng.IntN(2) == 0 {
		w.beside()
		defer func() { w.fs.Before(nil) }()
	}
	if w.opts.HardLinks != "" && w.rng.IntN(4) == 0 {
		err := w.fs.Foreign().Link("a.txt", w.fs.Foreign(), "link.txt")
		w.fs.Foreign().Sync()
		w.note("link: %v", err)
	}
	c := w.call()
	switch w.rng.IntN(10) {
	case 0, 1, 2:
		w.ended(c, c.do(p.s))
	case 3, 4:
		w.failing([]string{"sync", "sync", "sync", "rename", "write", "remove", "exchange", "create", "open", "read", "stat", "truncate", "mkdir", "link", "chmod"}[w.rng.IntN(15)])
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
	kept, expected := contents(w.fs, slots), w.expected()
	for text, name := range expected {
		expect(w.t, haveText(kept, text), "%q of %s is lost", text[:min(len(text), 60)], name)
	}
	for _, p := range w.all {
		for _, x := range p.s.Recovery().Conflicts {
			for text, name := range expected {
				expect(w.t, w.human || x.Reason == "unplaced" || hash(text) != x.SHA256, "a conflict of %s: %+v", name, x)
			}
		}
	}
}
