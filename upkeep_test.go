package resilientwrite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
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
	run    func(context.Context, *rw.Store) error
	step   int                                       // of short runs
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
	return must(rw.OpenSim(fs, &rw.Options{Sync: level, Caller: "tester"}, sim))(t)
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
	mustEqual(t, c.view(t, s), want, "the call changed")
	if c.then != nil {
		c.then(t, s, disk)
	}
	if ended {
		c.after(t, s, disk)
	}
	noErr(t, c.run(background, s), "again")
	check(t, s, true)
	mustEqual(t, c.view(t, s), want, "calling again changed")
	c.after(t, s, disk)
	nothingStaged(t, s)
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
		_, err := killed(t, fs, n, func() error { return c.run(background, s) })
		for i, disk := range theDisks(fs, level, 20, n) {
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
func (c upkeepSweep) faults(t *testing.T) {
	_, s := c.prepare(t, rw.SyncFull)
	want := c.view(t, s)
	step := stride(c.step)
	for _, x := range []struct {
		errno syscall.Errno
		how   string
	}{{syscall.EIO, "applied=false"}, {syscall.ENOSPC, "applied=true"}, {syscall.EIO, "read"}, {syscall.EMFILE, "read"}} {
		for i := phase(step); ; i += step {
			fs, s := c.prepare(t, rw.SyncFull)
			old := c.tree(fs)
			hit, err := failingAs(t, fs, i, x.errno, x.how, func() error { return c.run(background, s) })
			if err != nil && rw.AsError("", err).Effect == rw.EffectNone {
				mustEqual(t, c.tree(fs), old, hit, ": effect none, but the disk changed")
			}
			disk := fs.Crash(uint64(i), simfs.Some)
			if err != nil { // the same store, without opening it again
				again := c.run(background, s)
				require(t, again == nil || errors.Is(again, rw.ErrStorePoisoned), "%s: %v; again: %v (%v)", hit, err, again, errors.Unwrap(again))
			}
			s.Close(background)
			length(t, fs.Open(), 0, "open after Close: ", hit)
			ended := err == nil && (hit == "" || x.how != "read") // what could not be read is left
			c.settle(t, disk, rw.SyncFull, want, ended, fmt.Sprintf("fault %d at %s: %v", i, hit, err))
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
// staged file whose creation failed and happened anyway, which the next open sweeps; and
// without the mark of a failed flush.
func (c upkeepSweep) tree(fs *simfs.FS) string {
	var list []string
	for _, line := range strings.Split(treeOf(fs), "\n") {
		if strings.HasPrefix(line, rw.StateDirName+"/poisoned ") {
			continue
		}
		if !c.rows || !strings.HasPrefix(line, rw.StateDirName+"/journal/") && !strings.HasPrefix(line, rw.StateDirName+"/staging/") {
			list = append(list, line)
		}
	}
	return strings.Join(list, "\n")
}

// sweeps runs the crash sweep at both durable levels and the fault sweep.
func (c upkeepSweep) sweeps(t *testing.T) {
	for _, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncOff} {
		t.Run(c.name+"/crash/"+string(level), func(t *testing.T) {
			t.Parallel()
			c.crashes(t, level, c.step)
		})
	}
	t.Run(c.name+"/fault", func(t *testing.T) {
		t.Parallel()
		c.faults(t)
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
		if path.Dir(p) == rw.StateDirName+"/"+part {
			names = append(names, path.Base(p))
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
		{"compact", within(s.Admin().Compact, admin.CompactRequest{})},
		{"erase", within(s.Admin().Erase, admin.EraseRequest{Secret: []byte("correct-horse-battery")})},
		{"repair", within(s.Admin().Repair, admin.RepairRequest{})},
		{"import", within(s.Admin().Import, admin.ImportRequest{R: &data, AllowNonEmpty: true, Call: rw.Call{DryRun: true}})},
	}
	must(s.Admin().Export(background, admin.ExportRequest{W: &data}))(t)
	for _, c := range calls {
		receipts = nil
		reported := 0
		noErr(t, c.run(rw.WithProgress(background, func(rw.Progress) { reported++ })), c.op)
		last := receipts[len(receipts)-1]
		expect(t, last.Op == c.op && last.InvocationID != "" && last.Status != rw.StatusFailed && reported != 0,
			"%s: %d reports, %+v", c.op, reported, last)
		gone, cancel := context.WithCancel(background)
		cancel()
		err := c.run(gone)
		var e *rw.Error
		require(t, errors.As(err, &e) && errors.Is(err, rw.ErrCanceled) && e.Op == c.op, "%s: %v", c.op, err)
		last = receipts[len(receipts)-1]
		expect(t, last.Op == c.op && last.Status == rw.StatusRefused, "%s refused: %+v", c.op, last)
		doc, _ := json.Marshal(e)
		noErr(t, spec.Validate("errors", doc), c.op, doc)
	}
	// One at a time: the second caller gets the holder of the lock.
	pr, pw := io.Pipe()
	slow := make(chan error, 1)
	go func() {
		_, err := s.Admin().Export(background, admin.ExportRequest{W: pw})
		pw.Close()
		slow <- err
	}()
	one := make([]byte, 1)
	pr.Read(one) // it has started
	other := open(t, dir, &rw.Options{Sync: rw.SyncOff, LockTimeout: 50 * time.Millisecond})
	fails(other.Admin().Compact(background, admin.CompactRequest{}))(t, rw.ErrLockTimeout)
	write(t, other, "b.txt", "writers go on", rw.ModeCreate)
	io.Copy(io.Discard, pr)
	noErr(t, <-slow)
}

// operatorCalls are calls that are also interrupted by their caller. The plain forms of
// Compact, Erase, Repair and Import are swept in their own tests; these are the forms
// with other code paths.
func operatorCalls(t *testing.T) []upkeepSweep {
	return []upkeepSweep{compactExpired(), eraseByHash(), repairAcknowledged(), importBesideRows(t)}
}

// compactExpired removes something of every kind, and versions over a limit,
// but never the newest prior version of a path.
func compactExpired() upkeepSweep {
	later := time.Date(2027, 6, 1, 0, 0, 0, 0, time.UTC)
	return upkeepSweep{
		step: 29, name: "compact_expired", sim: rw.Sim{Segment: 2500}, rows: true,
		before: func(t *testing.T, s *rw.Store) {
			t.Helper()
			manyRows(t, s, 3)
			_, scratch := s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte("raw"), TTL: "PT1H"})
			_, point := s.Checkpoint(background, rw.CheckpointRequest{Name: "old", Data: []byte(`{"n":1}`), TTL: "PT1H"})
			tx, begin := s.TxBegin(background, rw.TxBeginRequest{})
			_, stage := s.TxStage(background, rw.TxStageRequest{TxID: tx.TxID, Op: rw.TxOp{Op: "write", Path: "t.txt", Content: []byte("t")}})
			noErr(t, errors.Join(scratch, point, begin, stage))
			refused := put("refused.txt", "key = "+ghToken(3)+"\n", rw.ModeCreate)
			fails(s.SafeWrite(rw.WithGate(background, rw.GateOfAgents), refused))(t, rw.ErrRiskBlocked)
		},
		disk: func(fs *simfs.FS) {
			fs.WriteFile(rw.StateDirName+"/policy.yaml", []byte("history:\n  max_versions: 1\n"), 0o600)
		},
		same: func(t *testing.T, s *rw.Store) string { // the rows, and the way back by one step
			var b strings.Builder
			for _, p := range manyPaths {
				h := must(s.History(background, rw.HistoryRequest{Path: p, N: 1000}))(t)
				for i, v := range h.Versions {
					fmt.Fprintf(&b, "%s %d %s %v\n", p, v.Version, v.SHA256, i > 1 || v.Available)
				}
			}
			return b.String()
		},
		after: func(t *testing.T, s *rw.Store, fs *simfs.FS) {
			for p, content := range fs.Tree() {
				rest := strings.TrimPrefix(p, rw.StateDirName+"/")
				expect(t, content == "/" || !strings.HasSuffix(p, ".bin") && !strings.HasPrefix(rest, "checkpoints/old") &&
					!strings.HasPrefix(rest, "tx/") && !strings.HasPrefix(rest, "quarantine/draft"), "%s is still there", rest)
			}
			// A power failure may restore a version over a limit: its removal is not
			// flushed, and the next call removes it again.
		},
		run: func(ctx context.Context, s *rw.Store) error {
			s.SetNow(later)
			return errorOf(s.Admin().Compact(ctx, admin.CompactRequest{KeepRows: none()}))
		},
	}
}

// eraseByHash erases a whole content wherever it is.
func eraseByHash() upkeepSweep {
	const leak = "the whole of this must go"
	return upkeepSweep{
		step: 5, name: "erase_by_hash", sim: rw.Sim{Segment: 2500},
		before: func(t *testing.T, s *rw.Store) {
			t.Helper()
			write(t, s, "a.txt", leak, rw.ModeCreate)
			write(t, s, "a.txt", "something longer came in its place", rw.ModeOverwrite)
			write(t, s, "clean.txt", "1", rw.ModeCreate)
			write(t, s, "clean.txt", "2", rw.ModeOverwrite)
			must(s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte(leak)}))(t)
			must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "up", Content: []byte(leak)}))(t)
		},
		same: func(t *testing.T, s *rw.Store) string { return allHistory(t, s, "clean.txt") },
		after: func(t *testing.T, s *rw.Store, fs *simfs.FS) {
			for p, content := range fs.Tree() {
				expect(t, !strings.Contains(content, leak), "%s still holds it", p)
			}
		},
		run: func(ctx context.Context, s *rw.Store) error {
			return errorOf(s.Admin().Erase(ctx, admin.EraseRequest{SHA256: digest(hash(leak))}))
		},
	}
}

// repairAcknowledged accepts that rows are gone, and mends the rest.
func repairAcknowledged() upkeepSweep {
	return upkeepSweep{
		step: 5, name: "repair_acknowledged", sim: rw.Sim{Segment: 2500}, damage: true,
		before: func(t *testing.T, s *rw.Store) { t.Helper(); manyRows(t, s, 3) },
		disk: func(fs *simfs.FS) {
			name := rw.StateDirName + "/journal/" + simFiles(fs, "journal")[0]
			data, _ := fs.ReadFile(name)
			rows := strings.Split(strings.Trim(string(data), "\n\x00"), "\n\n")
			fs.WriteFile(name, []byte("\n"+strings.Join(append(rows[:1:1], rows[2:]...), "\n\n")+"\n"), 0o600)
			fs.WriteFile(rw.StateDirName+"/budgets.json", []byte("damage"), 0o600)
		},
		after: func(t *testing.T, s *rw.Store, fs *simfs.FS) { allHistory(t, s, manyPaths...) },
		run: func(ctx context.Context, s *rw.Store) error {
			return repairAll(ctx, s, admin.RepairRequest{Acknowledge: "a row was cut out by hand"})
		},
	}
}

// importBesideRows takes rows over into a store that has its own.
func importBesideRows(t *testing.T) upkeepSweep {
	_, old := richStore(t)
	data := exported(t, old)
	return upkeepSweep{
		step: 5, name: "import_beside_rows", sim: rw.Sim{Segment: 3000},
		before: func(t *testing.T, s *rw.Store) {
			t.Helper()
			write(t, s, "a.txt", "mine", rw.ModeCreate) // the export knows this path
			write(t, s, "a.txt", "mine too", rw.ModeOverwrite)
			write(t, s, "own.txt", "mine alone", rw.ModeCreate)
		},
		same: func(t *testing.T, s *rw.Store) string { return allHistory(t, s, "a.txt", "own.txt") },
		after: func(t *testing.T, s *rw.Store, fs *simfs.FS) {
			h := must(s.History(background, rw.HistoryRequest{Path: "moved.txt", N: 100}))(t)
			expect(t, len(h.Versions) == 6, "%+v", h)
		},
		run: func(ctx context.Context, s *rw.Store) error {
			return errorOf(s.Admin().Import(ctx, admin.ImportRequest{R: bytes.NewReader(data), AllowNonEmpty: true}))
		},
	}
}

// TestOperatorCallsSweep kills each of them everywhere, at every level, and
// makes every operation fail.
func TestOperatorCallsSweep(t *testing.T) {
	for _, c := range operatorCalls(t) {
		c.sweeps(t)
		t.Run(c.name+"/crash/journal", func(t *testing.T) {
			t.Parallel()
			c.crashes(t, rw.SyncJournal, 2*c.step+1)
		})
	}
}

// TestImportRollsBackOnlyItsOwn: of the batch that a power failure tore, some rows
// survived after others that did not. They are rolled back and imported again. Rows
// that only describe a path with rows of its own do not roll back any of those rows.
func TestImportRollsBackOnlyItsOwn(t *testing.T) {
	t.Parallel()
	c := importBesideRows(t)
	fs, s := c.prepare(t, rw.SyncFull)
	want, torn := c.view(t, s), 0
	base, flush := fs.Muts(), -1
	fs.Inject(func(op simfs.Op) simfs.Fault {
		if flush < 0 && op.Kind == "datasync" && strings.Contains(op.Path, "/journal/") {
			flush = op.Mut - base // of the first batch
		}
		return simfs.Fault{}
	})
	err := c.run(background, s)
	require(t, err == nil && flush >= 0, "%v %v", err, flush)
	for seed := range uint64(40) {
		fs, s := c.prepare(t, rw.SyncFull)
		fs.StopAt(flush)
		c.run(background, s)
		fs.StopAt(-1)
		disk := fs.Crash(seed, simfs.Some)
		c.settle(t, disk, rw.SyncFull, want, false, fmt.Sprintf("seed %d", seed))
		if aborts(disk) > 0 {
			torn++
		}
		if t.Failed() {
			return
		}
	}
	expect(t, torn != 0, "no disk had rows after a hole")
}

// aborts counts the rows of a disk that take an import back.
func aborts(fs *simfs.FS) (n int) {
	for _, name := range simFiles(fs, "journal") {
		data, _ := fs.ReadFile(rw.StateDirName + "/journal/" + name)
		n += strings.Count(string(data), "import_cut_off")
	}
	return n
}

// TestOperatorCallsCanceledAnywhere: the caller cancels while any operation is in
// progress. The error reports it, what it reports about the disk is true, the store is
// sound without being opened again, and a repeated call completes the work.
func TestOperatorCallsCanceledAnywhere(t *testing.T) {
	for _, c := range operatorCalls(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.cancels(t)
		})
	}
}

func (c upkeepSweep) cancels(t *testing.T) {
	step := stride(c.step)
	gaveUp := 0
	for n := 0; ; n += step {
		fs, s := c.prepare(t, rw.SyncFull)
		want, old := c.view(t, s), c.tree(fs)
		ctx, cancel := context.WithCancel(background)
		base, hit := fs.Muts(), ""
		fs.Inject(func(op simfs.Op) simfs.Fault {
			if op.Mut == base+n {
				hit = op.String()
				cancel()
			}
			return simfs.Fault{}
		})
		err := c.run(ctx, s)
		fs.Inject(nil)
		cancel()
		if err != nil {
			gaveUp++
			e := rw.AsError("", err)
			require(t, e.Detail == rw.ErrCanceled, "%s: %v (%v)", hit, err, errors.Unwrap(err))
			now := c.tree(fs)
			require(t, e.Effect != rw.EffectNone || now == old, "%s: effect none, but the disk changed from\n%s\nto\n%s", hit, old, now)
		}
		if !c.damage {
			check(t, s, true)
		}
		length(t, must(s.Unfinished())(t), 0, hit, ": left in staging: ", err)
		noErr(t, c.run(background, s), hit, ": again")
		check(t, s, true)
		got := c.view(t, s)
		require(t, got == want, "%s: changed\n%s\nto\n%s", hit, want, got)
		c.after(t, s, fs)
		s.Close(background)
		require(t, !t.Failed(), "%v", hit)
		if hit == "" {
			break
		}
	}
	expect(t, gaveUp != 0, "no call was broken off")
}

// TestOneOperatorCallAfterAnother: one call dies anywhere, and another one is next. It
// is not disturbed by the remains of the first call, and does not prevent its
// completion afterwards.
func TestOneOperatorCallAfterAnother(t *testing.T) {
	secret := leaked()
	calls := map[string]func(*rw.Store) error{
		"compact": func(s *rw.Store) error {
			return errorOf(s.Admin().Compact(background, admin.CompactRequest{KeepRows: none()}))
		},
		"erase": func(s *rw.Store) error {
			return errorOf(s.Admin().Erase(background, admin.EraseRequest{Secret: []byte(secret)}))
		},
		"repair": func(s *rw.Store) error { return errorOf(s.Admin().Repair(background, admin.RepairRequest{})) },
		"export and import": func(s *rw.Store) error {
			var b bytes.Buffer
			if _, err := s.Admin().Export(background, admin.ExportRequest{W: &b}); err != nil {
				return err
			}
			return errorOf(s.Admin().Import(background, admin.ImportRequest{R: &b, AllowNonEmpty: true, Call: rw.Call{DryRun: true}}))
		},
	}
	step := stride(23)
	for first := range calls {
		for second := range calls {
			if first == second || first == "export and import" {
				continue
			}
			t.Run(first+" then "+second, func(t *testing.T) {
				t.Parallel()
				for n := 1; ; n += step {
					if !oneAfterAnother(t, secret, n, calls[first], calls[second]) || t.Failed() {
						return
					}
				}
			})
		}
	}
}

// oneAfterAnother kills the first call at operation n. It reports whether the
// call came so far.
func oneAfterAnother(t *testing.T, secret string, n int, first, second func(*rw.Store) error) bool {
	t.Helper()
	c := upkeepSweep{sim: rw.Sim{Segment: 2500}, before: func(t *testing.T, s *rw.Store) {
		manyRows(t, s, 2)
		write(t, s, "leak.txt", "key = "+secret+"\n", rw.ModeCreate)
		write(t, s, "leak.txt", "it is gone from here, and this is longer than it was before\n", rw.ModeOverwrite)
		noErr(t, move("leak.txt", "dir/"+secret, false)(s))
		noErr(t, move("dir/"+secret, "clean.txt", false)(s))
	}, disk: func(fs *simfs.FS) {
		fs.WriteFile(rw.StateDirName+"/history/stray.txt", []byte("stray"), 0o600)
	}}
	fs, s := c.prepare(t, rw.SyncFull)
	fs.StopAt(n)
	err := first(s)
	fs.StopAt(-1)
	disk := fs.Crash(uint64(n)*7919, simfs.Some)
	s = c.open(t, disk, rw.SyncFull, "0003")
	defer s.Close(background)
	for i, call := range []func(*rw.Store) error{second, first, second} {
		again := call(s)
		require(t, again == nil, "operation %d, call %d: %v (%v)", n, i, again, errors.Unwrap(again))
	}
	if _, err := s.Admin().Repair(background, admin.RepairRequest{}); err != nil { // of the stray file
		t.Fatal(err)
	}
	check(t, s, true)
	left, lerr := s.Unfinished()
	require(t, lerr == nil && len(left) == 0, "operation %d: left in staging: %v %v", n, left, lerr)
	allHistory(t, s, manyPaths...)
	must(s.Admin().Erase(background, admin.EraseRequest{Secret: []byte(secret)}))(t)
	nowhere(t, disk.Tree(), secret)
	return err != nil
}

// TestExportAtABrokenSink: a sink that fails at any byte is reported, the incomplete
// export is refused, and nothing was changed.
func TestExportAtABrokenSink(t *testing.T) {
	fs, s := richStore(t)
	whole := exported(t, s)
	before := treeOf(fs)
	step := 511
	if *long {
		step = 7
	}
	for n := 0; n < len(whole); n += step {
		sink := &sinkOf{room: n}
		_, err := s.Admin().Export(background, admin.ExportRequest{W: sink})
		require(t, errors.Is(err, rw.ErrIO) && rw.AsError("", err).Effect == rw.EffectNone, "room for %d bytes: %v", n, err)
		fresh := must(rw.OpenSim(simfs.New(), nil, rw.Sim{Nonce: "0fff"}))(t)
		fails(fresh.Admin().Import(background, admin.ImportRequest{R: bytes.NewReader(sink.got)}))(t, rw.ErrExportDamaged, n, " bytes of an export")
		rows, _ := fresh.CountRows()
		require(t, rows <= 0, "%d bytes of an export left %d rows", n, rows)
		fresh.Close(background)
	}
	equal(t, treeOf(fs), before, "exporting changed")
	check(t, s, true)
}

// sinkOf takes so many bytes.
type sinkOf struct {
	room int
	got  []byte
}

func (k *sinkOf) Write(p []byte) (int, error) {
	n := min(len(p), k.room-len(k.got))
	k.got = append(k.got, p[:n]...)
	if n < len(p) {
		return n, errors.New("the sink is full")
	}
	return n, nil
}

// The long sweeps run at a tenth, or at the share of their turn, unless -long
// is given or RW_LONG is set: to 1 for their full size, to n for an nth of it.
var long = flag.Bool("long", os.Getenv("RW_LONG") == "1", "run the sweeps at their full size")

func scale(full int) int {
	if *long {
		return full
	}
	if n, err := strconv.Atoi(os.Getenv("RW_LONG")); err == nil && n > 0 {
		return max(1, full/n)
	}
	return max(1, full/10)
}

// short reports whether the sweeps take turns.
func short() bool { return !*long && !testbed.Long() }

// turn is a number that changes from run to run, by which the sweeps of a short run
// alternate: different runs visit different operations. RW_SEED repeats a run; a failed
// run prints it.
var turn = sync.OnceValue(func() uint64 {
	if seed, err := strconv.ParseUint(os.Getenv("RW_SEED"), 10, 64); err == nil {
		return seed
	}
	return uint64(time.Now().UnixNano())
})

// stride is the distance between the operations at which a sweep stops, short in a
// longer run, sixteen times that in a short one, and under the race detector, which checks
// something else and makes everything ten times slower.
func stride(short int) int {
	switch {
	case *long:
		return 1
	case testbed.Long():
		return short
	}
	return 16*short + 1 // odd, so that sweeps with two kinds of operations visit both
}

// turns is the stride of a sweep that takes every operation in a long run, and
// every (4n+1)th of them in a short one. It has no divisor in common with the errors.
func turns(n int) int {
	if !short() {
		return 1
	}
	return 4*n + 1
}

// inTurn are all elements in a long run, and one of them in a short one, another for
// each i and in each run.
func inTurn[T any](i int, all ...T) []T {
	if !short() {
		return all
	}
	return all[(turn()+uint64(i))%uint64(len(all)):][:1]
}

// phase is the first operation of a sweep that takes every stepth.
func phase(step int) int {
	if !short() || step < 2 {
		return 0
	}
	return int(turn() % uint64(step))
}

// someLosses are the seeds of the disks that a sweep checks after operation n: the
// first of full in a long run, else a sixtieth of them, others for each operation and
// in each run.
func someLosses(full, n int) iter.Seq[uint64] {
	count, first := scale(full), uint64(0)
	if short() {
		count = max(1, full/60)
		first = turn() + uint64(n*count)
	}
	return func(yield func(uint64) bool) {
		for i := range uint64(count) {
			if !yield((first + i) % uint64(full)) {
				return
			}
		}
	}
}

// errorsOfASweep are the errors of one pass over the operations: each alone in
// a long run, in turns in a short one.
func errorsOfASweep() [][]syscall.Errno {
	if !short() {
		return [][]syscall.Errno{{syscall.EIO}, {syscall.ENOSPC}}
	}
	if turn()%2 == 0 {
		return [][]syscall.Errno{{syscall.EIO, syscall.ENOSPC}}
	}
	return [][]syscall.Errno{{syscall.ENOSPC, syscall.EIO}}
}

// TestTheEndOfTheJournalIsNotForgotten: if rows were cut off, or the newest one was
// changed, while no process had the store open, Check reports it permanently, whatever
// is written afterwards, and no number of a lost row is assigned again.
func TestTheEndOfTheJournalIsNotForgotten(t *testing.T) {
	for name, row := range map[string]struct {
		change func([]string) []string
		code   string
		next   uint64
	}{
		"cut off": {func(l []string) []string { return l[:3] }, "tail_missing", 8},
		"all cut": {func(l []string) []string { return nil }, "tail_missing", 8},
		"changed": {func(l []string) []string {
			l[5] = strings.Replace(l[5], "tester", "forger", 1)
			return l
		}, "head_changed", 8},
	} {
		t.Run(name, func(t *testing.T) {
			dir := workspace(t)
			s, _ := rw.Open(background, dir, &rw.Options{Caller: "tester"})
			for i := range 6 {
				write(t, s, "a.txt", fmt.Sprint("version ", i), rw.ModeOverwrite)
			}
			s.Close(background)
			path := statePath(dir, "journal", firstSegment)
			data, _ := os.ReadFile(path)
			list := row.change(strings.Split(strings.Trim(string(data), "\n\x00"), "\n\n"))
			os.WriteFile(path, []byte("\n"+strings.Join(list, "\n\n")+"\n"), 0o600)
			os.RemoveAll(statePath(dir, "index"))
			for round := range 3 {
				s := must(rw.Open(background, dir, &rw.Options{Caller: "tester"}))(t)
				r := write(t, s, "b.txt", fmt.Sprint("on ", round), rw.ModeOverwrite)
				want := row.next + uint64(round)
				expect(t, r.Receipt.JournalSeq == want, "round %d: row %d, want %d", round, r.Receipt.JournalSeq, want)
				got := must(s.Check(background, admin.CheckRequest{}))(t)
				named := 0
				for _, p := range got.Problems {
					if p.Code == row.code {
						named++
					} else if p.Code != "chain_broken" && p.Code != "history_link_broken" {
						t.Errorf("round %d: %+v", round, p)
					}
				}
				equal(t, named, 1, "round ", round, ": found ", got.Problems, ", want ", row.code, " once")
				if round == 1 { // the process dies: meta.json stays unchanged
					continue
				}
				s.Close(background)
			}
		})
	}
}

// deepProblems returns the problems that a deep check finds in the workspace.
func deepProblems(t *testing.T, s *rw.Store) string {
	t.Helper()
	r := must(s.Check(background, admin.CheckRequest{Deep: true}))(t)
	text := ""
	for _, p := range r.Problems {
		detail := p.Detail
		if p.Code != "file_unreadable" {
			detail = ""
		}
		text += fmt.Sprintf("%s %s %s;", p.Code, p.Path, detail)
	}
	expect(t, r.Clean == (text == ""), "clean %v, found %q", r.Clean, text)
	return text
}

// TestCheckTakesNoDirectoryForAFile: if the store itself replaces a file with a
// directory, or a directory with a file, that is not a problem.
func TestCheckTakesNoDirectoryForAFile(t *testing.T) {
	s, dir := quick(t, nil)
	write(t, s, "fd", "file", rw.ModeCreate)
	deleted(t, s, "fd")
	write(t, s, "fd/inner", "below", rw.ModeCreate)
	write(t, s, "d/x", "x", rw.ModeCreate)
	write(t, s, "d/s/y", "y", rw.ModeCreate)
	renamed(t, s, "d", "e")
	os.RemoveAll(filepath.Join(dir, "d"))
	write(t, s, "d", "file", rw.ModeCreate)
	equal(t, deepProblems(t, s), "", "found")
	// To and fro.
	deleted(t, s, "fd/inner")
	noErr(t, os.RemoveAll(filepath.Join(dir, "fd")))
	write(t, s, "fd", "file again", rw.ModeCreate)
	equal(t, deepProblems(t, s), "", "back again")
}

// TestCheckStillNamesForeignChanges, where the kind of a thing changed.
func TestCheckStillNamesForeignChanges(t *testing.T) {
	s, dir := quick(t, nil)
	for _, p := range []string{"file", "gone", "d/x"} {
		write(t, s, p, p, rw.ModeCreate)
	}
	deleted(t, s, "gone")
	human(t, dir, "gone", "a stranger's")
	noErr(t, os.Remove(filepath.Join(dir, "file")))
	noErr(t, os.Mkdir(filepath.Join(dir, "file"), 0o755))
	noErr(t, os.RemoveAll(filepath.Join(dir, "d")))
	human(t, dir, "d", "a stranger's")
	want := "file_unreadable d/x not_a_directory;file_unreadable file is_a_directory;file_differs gone ;"
	equal(t, deepProblems(t, s), want, "found")
}

// TestDeepCheckBesideWriters: files that another process changes while they are compared
// with the journal are no problem, and one that was changed outside is.
func TestDeepCheckBesideWriters(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	writer, s := open(t, dir, &rw.Options{Sync: rw.SyncOff}), open(t, dir, &rw.Options{Sync: rw.SyncOff})
	for i := range 50 {
		write(t, writer, fmt.Sprint("f", i), "content", rw.ModeCreate)
	}
	noErr(t, os.WriteFile(filepath.Join(dir, "f7"), []byte("by a person"), 0o644))
	stop, done := make(chan struct{}), make(chan struct{})
	defer func() { close(stop); <-done }()
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			write(t, writer, fmt.Sprint("f", 10+i%20), fmt.Sprint("content ", i), rw.ModeOverwrite)
			must(writer.ScratchPut(background, rw.ScratchPutRequest{Content: fmt.Append(nil, i)}))(t)
			must(writer.Checkpoint(background, rw.CheckpointRequest{Name: "one", Data: fmt.Append(nil, i)}))(t)
		}
	}()
	for range scale(10) {
		r := must(s.Check(background, admin.CheckRequest{Deep: true}))(t)
		expect(t, len(r.Problems) == 1 && r.Problems[0].Code == "file_differs" && r.Problems[0].Path == "f7", "%+v", r.Problems)
	}
}
