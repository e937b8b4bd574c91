package resilientwrite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/spec"
)

// upkeepSweep is a call of the operator that is interrupted at every operation. Unlike
// a write it need not be atomic: the store must be sound afterwards, nothing but the
// requested data may be lost, and a repeated call must complete the work.
type upkeepSweep struct {
	name   string
	sim    rw.Sim
	before func(*testing.T, *rw.Store)
	disk   func(*simfs.FS) // what happens to the disk before the call
	run    func(*rw.Store) error
	rows   bool                                      // it makes commits, whose rows stay when they are refused or rolled back
	damage bool                                      // Check need not be clean before the call has ended well
	then   func(*testing.T, *rw.Store, *simfs.FS)    // holds at any time
	after  func(*testing.T, *rw.Store, *simfs.FS)    // holds when the call has ended well
	same   func(*testing.T, *rw.Store) (what string) // must not change, however far the call came
}

func (c upkeepSweep) open(t *testing.T, fs *simfs.FS, level rw.SyncLevel, nonce string) *rw.Store {
	t.Helper()
	sim := c.sim
	sim.Nonce, sim.Manual = nonce, true
	s := must(rw.OpenSim(fs, &rw.Options{Sync: level, Caller: "tester"}, sim))(t)
	return s
}

func (c upkeepSweep) prepare(t *testing.T, level rw.SyncLevel) (*simfs.FS, *rw.Store) {
	t.Helper()
	fs := simfs.New()
	s := c.open(t, fs, level, "0001")
	c.before(t, s)
	noErr(t, s.Close(background))
	if c.disk != nil {
		c.disk(fs)
	}
	return fs, c.open(t, fs, level, "0002")
}

func (c upkeepSweep) view(t *testing.T, s *rw.Store) string {
	t.Helper()
	if c.same == nil {
		return ""
	}
	return c.same(t, s)
}

// settle checks a disk that an interrupted call left, lets the call run again, and
// checks the disk again.
func (c upkeepSweep) settle(t *testing.T, disk *simfs.FS, level rw.SyncLevel, want string, ended bool, where string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Log(where)
		}
	}()
	s := c.open(t, disk, level, "0003")
	defer s.Close(background)
	if !c.damage || ended {
		check(t, s, true)
	}
	if got := c.view(t, s); got != want {
		t.Fatalf("the call changed\n%s\nto\n%s", want, got)
	}
	if c.then != nil {
		c.then(t, s, disk)
	}
	if ended {
		c.after(t, s, disk)
	}
	noErr(t, c.run(s), "again")
	check(t, s, true)
	if got := c.view(t, s); got != want {
		t.Fatalf("calling again changed\n%s\nto\n%s", want, got)
	}
	c.after(t, s, disk)
	if left, err := s.Unfinished(); err != nil || len(left) > 0 {
		t.Fatalf("left in staging: %v %v", left, err)
	}
	write(t, s, "after.txt", "after", rw.ModeOverwrite)
}

// crashes kills the process at every operation of the call, in steps in short runs, and
// checks the disks that a power failure could leave.
func (c upkeepSweep) crashes(t *testing.T, level rw.SyncLevel, step int) {
	_, s := c.prepare(t, level)
	want := c.view(t, s)
	step = stride(step)
	for n := phase(step); ; n += step {
		fs, s := c.prepare(t, level)
		fs.StopAt(n)
		err := c.run(s)
		fs.StopAt(-1)
		if err != nil && !errors.Is(err, simfs.ErrDead) && !errors.Is(err, rw.ErrStorePoisoned) {
			t.Fatalf("operation %d: %v (%v)", n, err, errors.Unwrap(err))
		}
		disks := []*simfs.FS{fs.Crash(0, simfs.None)}
		if level != rw.SyncOff {
			disks = append(disks, fs.Crash(0, simfs.All))
			for seed := range someLosses(20, n) {
				disks = append(disks, fs.Crash(seed*7919+uint64(n), simfs.Some))
			}
		}
		for i, disk := range disks {
			c.settle(t, disk, level, want, err == nil, fmt.Sprintf("operation %d, disk %d", n, i))
			if t.Failed() {
				return
			}
		}
		if err == nil {
			return
		}
	}
}

// faults makes every operation fail once, done and not done. The reported effect must
// be true, and the call must work when it is made again.
func (c upkeepSweep) faults(t *testing.T, step int) {
	_, s := c.prepare(t, rw.SyncFull)
	want := c.view(t, s)
	step = stride(step)
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		for i := phase(step); ; i += step {
			fs, again := c.prepare(t, rw.SyncFull)
			s = again
			base, hit, old := fs.Muts(), "", c.tree(fs)
			fs.Inject(func(op simfs.Op) simfs.Fault {
				if op.Mut == base+i {
					hit = op.String()
					return simfs.Fault{Err: errno, Applied: errno == syscall.ENOSPC, Short: int(op.Len / 2)}
				}
				return simfs.Fault{}
			})
			err := c.run(s)
			fs.Inject(nil)
			if err != nil {
				e := rw.AsError("", err)
				if e.Detail == rw.ErrInternal {
					t.Fatalf("%s: internal error %v (%v)", hit, err, errors.Unwrap(err))
				}
				if now := c.tree(fs); e.Effect == rw.EffectNone && now != old {
					t.Fatalf("%s: effect none, but the disk changed from\n%s\nto\n%s", hit, old, now)
				}
			}
			disk := fs.Crash(uint64(i), simfs.Some)
			if err != nil { // the same store, without opening it again
				if again := c.run(s); again != nil && !errors.Is(again, rw.ErrStorePoisoned) {
					t.Fatalf("%s: %v; again: %v (%v)", hit, err, again, errors.Unwrap(again))
				}
			}
			s.Close(background)
			c.settle(t, disk, rw.SyncFull, want, err == nil, fmt.Sprintf("fault %d at %s: %v", i, hit, err))
			if hit == "" {
				break
			}
			if t.Failed() {
				return
			}
		}
	}
}

// treeOf returns the content of a disk, without the files that every call touches:
// locks, and the counts of failed calls.
func treeOf(fs *simfs.FS) string {
	var list []string
	for p, content := range fs.Tree() {
		if strings.HasPrefix(p, rw.StateDirName+"/locks") || p == rw.StateDirName+"/budgets.json" {
			continue
		}
		if strings.HasPrefix(p, rw.StateDirName+"/journal") {
			content = strings.TrimRight(content, "\x00")
		}
		list = append(list, fmt.Sprintf("%s %d %.12s", p, len(content), hash(content)))
	}
	sort.Strings(list)
	return strings.Join(list, "\n")
}

// tree is treeOf without the remains of a commit that did not happen: its rows, and a
// staged file whose creation failed and happened anyway, which the next open sweeps.
func (c upkeepSweep) tree(fs *simfs.FS) string {
	var list []string
	for _, line := range strings.Split(treeOf(fs), "\n") {
		if !c.rows || !strings.HasPrefix(line, rw.StateDirName+"/journal/") && !strings.HasPrefix(line, rw.StateDirName+"/staging/") {
			list = append(list, line)
		}
	}
	return strings.Join(list, "\n")
}

// sweeps runs the crash sweep at both durable levels and the fault sweep.
func (c upkeepSweep) sweeps(t *testing.T, step int) {
	for _, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncOff} {
		t.Run(c.name+"/crash/"+string(level), func(t *testing.T) {
			t.Parallel()
			c.crashes(t, level, step)
		})
	}
	t.Run(c.name+"/fault", func(t *testing.T) {
		t.Parallel()
		c.faults(t, step)
	})
}

// allHistory is the versions of every path, with what can be read of them.
func allHistory(t *testing.T, s *rw.Store, paths ...string) string {
	t.Helper()
	var b strings.Builder
	for _, p := range paths {
		h := must(s.History(background, rw.HistoryRequest{Path: p, N: 1000}))(t, "history of ", p)
		for _, v := range h.Versions {
			fmt.Fprintf(&b, "%s %d %s %s %v\n", p, v.Version, v.Op, v.SHA256, v.Available)
		}
	}
	return b.String()
}

// simFiles lists the files of a part of the state directory on a simulated
// disk.
func simFiles(fs *simfs.FS, part string) []string {
	var names []string
	for p := range fs.Tree() {
		if filepath.Dir(p) == rw.StateDirName+"/"+part {
			names = append(names, filepath.Base(p))
		}
	}
	sort.Strings(names)
	return names
}

// TestOperatorCallsAreAccountedFor: each leaves a receipt with the sink, the observers
// and the watchers, also when it is refused, reports its progress, and returns an
// envelope that conforms.
func TestOperatorCallsAreAccountedFor(t *testing.T) {
	dir := workspace(t)
	var receipts []rw.Receipt
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff, ReceiptSink: func(r rw.Receipt) { receipts = append(receipts, r) }})
	write(t, s, "a.txt", "a", rw.ModeCreate)
	write(t, s, "a.txt", "it is correct-horse-battery", rw.ModeOverwrite)
	write(t, s, "a.txt", "something that is not shorter than it", rw.ModeOverwrite)
	var data bytes.Buffer
	calls := []struct {
		op  string
		run func(context.Context) error
	}{
		{"compact", func(ctx context.Context) error { _, err := s.Admin().Compact(ctx, rw.CompactRequest{}); return err }},
		{"erase", func(ctx context.Context) error {
			_, err := s.Admin().Erase(ctx, rw.EraseRequest{Secret: []byte("correct-horse-battery")})
			return err
		}},
		{"repair", func(ctx context.Context) error { _, err := s.Admin().Repair(ctx, rw.RepairRequest{}); return err }},
		{"import", func(ctx context.Context) error {
			_, err := s.Admin().Import(ctx, rw.ImportRequest{R: &data, AllowNonEmpty: true, Call: rw.Call{DryRun: true}})
			return err
		}},
	}
	must(s.Admin().Export(background, rw.ExportRequest{W: &data}))(t)
	for _, c := range calls {
		receipts = nil
		told := 0
		noErr(t, c.run(rw.WithProgress(background, func(rw.Progress) { told++ })), c.op)
		last := receipts[len(receipts)-1]
		if last.Op != c.op || last.InvocationID == "" || last.Status == rw.StatusFailed || told == 0 {
			t.Errorf("%s: %d reports, %+v", c.op, told, last)
		}
		gone, cancel := context.WithCancel(background)
		cancel()
		err := c.run(gone)
		var e *rw.Error
		if !errors.As(err, &e) || !errors.Is(err, rw.ErrCanceled) || e.Op != c.op {
			t.Fatalf("%s: %v", c.op, err)
		}
		if last = receipts[len(receipts)-1]; last.Op != c.op || last.Status != rw.StatusRefused {
			t.Errorf("%s refused: %+v", c.op, last)
		}
		doc, _ := json.Marshal(e)
		if err := spec.Validate("errors", doc); err != nil {
			t.Errorf("%s: %v: %s", c.op, err, doc)
		}
	}
	// One at a time: the second caller gets the holder of the lock.
	pr, pw := io.Pipe()
	slow := make(chan error, 1)
	go func() {
		_, err := s.Admin().Export(background, rw.ExportRequest{W: pw})
		pw.Close()
		slow <- err
	}()
	one := make([]byte, 1)
	pr.Read(one) // it has started
	other := open(t, dir, &rw.Options{Sync: rw.SyncOff, LockTimeout: 50 * time.Millisecond})
	fails(other.Admin().Compact(background, rw.CompactRequest{}))(t, rw.ErrLockTimeout)
	write(t, other, "b.txt", "writers go on", rw.ModeCreate)
	io.Copy(io.Discard, pr)
	noErr(t, <-slow)
}
