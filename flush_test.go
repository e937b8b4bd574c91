package resilientwrite_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/blob"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// many returns a transaction with the same operation on n files; content distinguishes
// the calls.
func many(n int, op rw.TxOp, path func(int) string, content string) rw.TxRequest {
	var r rw.TxRequest
	for i := range n {
		o := op
		o.Path = path(i)
		if o.Op == "write" {
			o.Content = []byte(fmt.Sprintf("%s of file %d\n", content, i))
		}
		r.Ops = append(r.Ops, o)
	}
	return r
}

func flat(i int) string   { return fmt.Sprintf("f%03d.txt", i) }
func nested(i int) string { return fmt.Sprintf("d%02d/f%03d.txt", i%16, i) }

func tx(t *testing.T, s *rw.Store, r rw.TxRequest) {
	t.Helper()
	must(s.Tx(context.Background(), r))(t, "tx")
}

// flushesOf counts the flushes since the trace was reset, and fails the test
// when a file or directory was flushed twice.
func flushesOf(t *testing.T, fs *simfs.FS) (kinds map[string]int, all int) {
	t.Helper()
	kinds, seen := map[string]int{}, map[string]bool{}
	for _, op := range fs.Trace() {
		switch op.Kind {
		case "sync", "datasync", "syncdir":
			if what := op.Kind + " " + op.Path; seen[what] {
				t.Errorf("%s is flushed twice", op.Path)
			} else {
				seen[what] = true
			}
			kinds[op.Kind]++
			all++
		}
	}
	return kinds, all
}

var (
	overwriteOp = rw.TxOp{Op: "write", Mode: rw.ModeOverwrite}
	createOp    = rw.TxOp{Op: "write", Mode: rw.ModeCreate}
	appendOp    = rw.TxOp{Op: "write", Mode: rw.ModeAppend}
	deleteOp    = rw.TxOp{Op: "delete"}
)

// TestOpenMakesTheDirectoriesOfHistory: all at once, so that no write waits for its own.
func TestOpenMakesTheDirectoriesOfHistory(t *testing.T) {
	testbed.Set(t, &blob.OneByOne, false)
	_, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
	length(t, must(os.ReadDir(statePath(dir, "history")))(t), 256, "directories")
}

// TestFlushesOfALargeCommit: besides the one flush that each staged file needs, a
// commit costs as many as a commit of one file.
func TestFlushesOfALargeCommit(t *testing.T) {
	for _, c := range []struct {
		name    string
		before  func(*testing.T, *rw.Store, int)
		run     func(*testing.T, *rw.Store, int)
		perFile int // flushes of bytes that each file needs
		dirs    int // directories of the workspace that change
	}{
		{"overwrite", func(t *testing.T, s *rw.Store, n int) { tx(t, s, many(n, createOp, flat, "first")) },
			func(t *testing.T, s *rw.Store, n int) { tx(t, s, many(n, overwriteOp, flat, "second")) }, 1, 1},
		{"create in new directories", nil,
			func(t *testing.T, s *rw.Store, n int) { tx(t, s, many(n, createOp, nested, "first")) }, 1, 17},
		{"delete", func(t *testing.T, s *rw.Store, n int) { tx(t, s, many(n, createOp, flat, "first")) },
			func(t *testing.T, s *rw.Store, n int) { tx(t, s, many(n, deleteOp, flat, "")) }, 0, 1},
		{"append", func(t *testing.T, s *rw.Store, n int) { tx(t, s, many(n, createOp, flat, "first")) },
			func(t *testing.T, s *rw.Store, n int) { tx(t, s, many(n, appendOp, flat, "second")) }, 1, 1},
		{"undo", func(t *testing.T, s *rw.Store, n int) {
			tx(t, s, many(n, createOp, flat, "first"))
			tx(t, s, many(n, overwriteOp, flat, "second"))
		}, func(t *testing.T, s *rw.Store, n int) {
			must(s.Undo(context.Background(), rw.UndoRequest{}))(t)
		}, 1, 1},
	} {
		for _, n := range []int{16, 256} {
			t.Run(fmt.Sprintf("%s/%d", c.name, n), func(t *testing.T) {
				t.Parallel()
				fs := simfs.New()
				s := must(rw.OpenSim(fs, nil, rw.Sim{}))(t)
				defer s.Close(context.Background())
				noErr(t, s.PrepareHistory())
				write(t, s, "seed.txt", "the journal has a segment", rw.ModeCreate)
				if c.before != nil {
					c.before(t, s, n)
				}
				fs.ResetTrace()
				c.run(t, s, n)
				kinds, all := flushesOf(t, fs)
				most := c.perFile*n + c.dirs + 2 // the names of the slots, and the journal
				expect(t, all <= most && all >= 3, "%d flushes of %d files, at most %d are needed: %v", all, n, most, kinds)
				expect(t, kinds["sync"] == c.perFile*n, "%d of %d staged files were flushed", kinds["sync"], n)
			})
		}
	}
}

// TestFlushesOfACommitThatIsRolledBack: rolling back published files flushes each
// directory once, not once for each file.
func TestFlushesOfACommitThatIsRolledBack(t *testing.T) {
	const n = 64
	fs := simfs.New()
	s := must(rw.OpenSim(fs, nil, rw.Sim{}))(t)
	defer s.Close(context.Background())
	tx(t, s, many(n, createOp, flat, "first"))
	before := files(fs)
	fs.ResetTrace()
	fs.Inject(func(op simfs.Op) simfs.Fault {
		if op.Kind == "exchange" && op.To == flat(n-1) {
			return simfs.Fault{Err: syscall.ENOSPC}
		}
		return simfs.Fault{}
	})
	_, err := s.Tx(context.Background(), many(n, overwriteOp, flat, "second"))
	fs.Inject(nil)
	e := rw.AsError("", err)
	require(t, e != nil && e.Effect == rw.EffectNone, "%v", err)
	dirs := testbed.Count(fs.Trace(), func(op simfs.Op) bool { return op.Kind == "syncdir" })
	expect(t, dirs <= 2, "%d flushes of directories, there are staging/ and the workspace", dirs)
	equal(t, cmp.Diff(before, files(fs)), "")
}

// TestFlushesFallBack: where the system does not take many flushes in one call, every
// file is flushed by itself, before the row is, and nothing else changes.
func TestFlushesFallBack(t *testing.T) {
	traces := map[bool]string{}
	for _, batches := range []bool{true, false} {
		fs := simfs.New()
		fs.NoSyncEach = !batches
		s := must(rw.OpenSim(fs, nil, rw.Sim{}))(t)
		fs.ResetTrace()
		tx(t, s, many(5, createOp, nested, "first"))
		s.Close(context.Background())
		traces[batches] = traceText(fs.Trace(), rw.SyncFull)
	}
	equal(t, cmp.Diff(traces[true], traces[false]), "")
}

// TestTogether: everything runs once, even if some of it fails; the first error in
// order is reported; and a thousand flushes do not use a thousand threads.
func TestTogether(t *testing.T) {
	var running, most, ran atomic.Int64
	list := make([]func() error, 1000)
	for i := range list {
		list[i] = func() error {
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer running.Add(-1)
			ran.Add(1)
			runtime.Gosched()
			if i == 30 || i == 700 || i == 999 {
				return fmt.Errorf("%d", i)
			}
			return nil
		}
	}
	err := rw.Together(list...)
	expect(t, err != nil && err.Error() == "30", "%v", err)
	if ran.Load() != int64(len(list)) || most.Load() > rw.FlushWidth {
		t.Errorf("%d of %d ran, %d at a time", ran.Load(), len(list), most.Load())
	}
	noErr(t, rw.Together())
}

// TestLargeCommitsOnTheRealDisk: from several goroutines, acknowledged files exist after a reopen, and so do their earlier
// versions.
func TestLargeCommitsOnTheRealDisk(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, nil)
	var wg sync.WaitGroup
	for w := range 6 { // more than there are queues in the kernel
		wg.Go(func() {
			in := func(i int) string { return fmt.Sprintf("w%d/%s", w, nested(i)) }
			for _, text := range []string{"first", "second"} {
				_, err := s.Tx(context.Background(), many(20, overwriteOp, in, text))
				expect(t, err == nil, "%v (%v)", err, errors.Unwrap(err))
			}
		})
	}
	wg.Wait()
	s.Close(context.Background())
	s = open(t, dir, nil)
	r := s.Recovery()
	expect(t, len(r.Finished)+len(r.Aborted)+len(r.Conflicts) == 0, "%+v", r)
	for w := range 6 {
		for i := range 20 {
			fileIs(t, dir, fmt.Sprintf("w%d/%s", w, nested(i)), fmt.Sprintf("second of file %d\n", i))
		}
	}
	check(t, s, true)
}

// TestPreviousVersionThatIsStillWrittenTo: the handle by which the old file was
// read does not make a stranger's handle on it unseen.
func TestPreviousVersionThatIsStillWrittenTo(t *testing.T) {
	s, dir := opened(t, nil)
	tx(t, s, many(3, createOp, flat, "first"))
	stranger := must(os.OpenFile(filepath.Join(dir, flat(1)), os.O_WRONLY, 0))(t)
	defer stranger.Close()
	tx(t, s, many(3, overwriteOp, flat, "second"))
	stranger.WriteAt([]byte("LATE"), 0)
	for i := range 3 {
		want := fmt.Sprintf("first of file %d\n", i)
		testbed.Holds(t, filepath.Join(dir, rw.StateDirName, "history", hash(want)[:2], hash(want)), want, "file ", i, ": history holds")
		fileIs(t, dir, flat(i), fmt.Sprintf("second of file %d\n", i))
	}
	check(t, s, true)
}

// TestTransactionsDoNotReadHistory: the cost of a commit does not grow with the
// existing versions and rows, as long as no bound can be exceeded.
func TestTransactionsDoNotReadHistory(t *testing.T) {
	t.Parallel()
	fs := simfs.New()
	s := must(rw.OpenSim(fs, &rw.Options{Sync: rw.SyncOff}, rw.Sim{}))(t)
	defer s.Close(context.Background())
	fs.ResetTrace()
	for i := range 6 {
		tx(t, s, many(100, overwriteOp, flat, fmt.Sprint("version ", i)))
	}
	for _, op := range fs.Trace() {
		require(t, op.Kind != "readdir" || !strings.Contains(op.Path, "/history"), "%s", op)
	}
}

// TestBusyPathsAreBounded: the versions of a path that is written all the time
// stay bounded, by transactions too, while those of quiet paths stay.
func TestBusyPathsAreBounded(t *testing.T) {
	t.Parallel()
	dir := withHistoryPolicy(t, "{max_versions: 5}")
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	quiet := func(i int) string { return fmt.Sprintf("quiet%d.txt", i) }
	tx(t, s, many(50, createOp, quiet, "first"))
	tx(t, s, many(50, overwriteOp, quiet, "second"))
	i := 0
	next := func() {
		tx(t, s, many(10, overwriteOp, flat, fmt.Sprint("version ", i)))
		i++
	}
	for i < 60 {
		next()
	}
	noErr(t, s.Sync(background))
	// Two of each of the 50 quiet ones and 5 of each busy one remain after a sweep. One
	// that does not get the lock of history, on a busy machine, is left for later.
	until(t, "no more versions are kept than a sweep leaves and a few transactions add", func() bool {
		if kept(t, dir) <= 100+50+100 {
			return true
		}
		next()
		return false
	})
	for i := range 50 {
		must(s.Restore(background, rw.RestoreRequest{Path: quiet(i), SHA256: digest(hash(fmt.Sprintf("first of file %d\n", i)))}))(t, "the newest prior version of a quiet file is gone")
	}
	check(t, s, true)
}

// lookedAt is a context that counts how often it is checked and is canceled at check
// number end.
type lookedAt struct {
	context.Context
	cancel context.CancelFunc
	looks  atomic.Int64
	end    int64
}

func newLookedAt(end int64) *lookedAt {
	ctx, cancel := context.WithCancel(context.Background())
	return &lookedAt{Context: ctx, cancel: cancel, end: end}
}

func (c *lookedAt) Err() error {
	if c.looks.Add(1) >= c.end {
		c.cancel()
	}
	return c.Context.Err()
}

const laneBytes = 3 << 20

// laneCall is one call of the test.
type laneCall struct {
	least int64 // looks of a whole call
	call  func(context.Context) error
}

// laneCalls are calls of every tool that takes content, with so much content that none
// of them is done before the context is checked.
func laneCalls(s *rw.Store) map[string]laneCall {
	text := strings.Repeat("some ordinary words of a line\r\n", laneBytes/31)
	list := "[" + strings.TrimSuffix(strings.Repeat(`"word",`, laneBytes/7), ",") + "]"
	ops := []rw.TxOp{{Op: "write", Path: "big.txt", Mode: rw.ModeOverwrite, Content: []byte(text)}}
	for range 20 {
		ops = append(ops, rw.TxOp{Op: "write", Path: "big.txt", Mode: rw.ModeAppend, Content: []byte("x")})
	}
	return map[string]laneCall{
		"write":       {30, within(s.SafeWrite, rw.SafeWriteRequest{Path: "big.txt", Content: []byte(text), Mode: rw.ModeOverwrite, EOL: "lf"})},
		"append":      {20, within(s.SafeWrite, rw.SafeWriteRequest{Path: "old.txt", Content: []byte(text), Mode: rw.ModeAppend})},
		"validate":    {2, within(s.SafeWrite, rw.SafeWriteRequest{Path: "big.json", Content: []byte(list), Mode: rw.ModeOverwrite, Validate: true})},
		"edit":        {24, within(s.Edit, rw.EditRequest{Path: "old.txt", Edits: []rw.EditOp{{Old: "ordinary", New: "usual", Count: -1}, {Old: "usual", New: "common", Count: -1}}})},
		"tx":          {30, within(s.Tx, rw.TxRequest{Ops: ops})},
		"directories": {20, within(s.Tx, rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: strings.Repeat("d/", 20) + "f", Content: []byte("x")}}})},
		"chunk":       {5, within(s.ChunkWrite, rw.ChunkWriteRequest{Session: "s", Index: 1, Content: []byte(text)})},
		"compose":     {25, within(s.ChunkCompose, rw.ChunkComposeRequest{Session: "old", OutputPath: "big.txt", Mode: rw.ModeOverwrite})},
		"checkpoint":  {5, within(s.Checkpoint, rw.CheckpointRequest{Name: "c", Data: json.RawMessage(list)})},
		"scratch":     {3, within(s.ScratchPut, rw.ScratchPutRequest{Content: []byte(text), Label: "l"})},
		"score":       {10, within(s.RiskScore, rw.RiskScoreRequest{Content: []byte(text)})},
		"redact":      {10, within(s.Redact, rw.RedactRequest{Content: []byte(text)})},
		"check":       {1, within(s.Validate, rw.ValidateRequest{Content: []byte(list), FormatHint: "json"})},
	}
}

// laneVerbs are calls that work on existing content, which is large.
func laneVerbs(t *testing.T, s *rw.Store) map[string]laneCall {
	text := strings.Repeat("some ordinary words of a line\n", laneBytes/90)
	first := map[string]uint64{}
	for _, name := range []string{"deleted.txt", "moved.txt", "restored.txt", "undone.txt", "left.txt"} {
		r := must(s.SafeWrite(background, rw.SafeWriteRequest{Path: name, Content: []byte(text + name), Call: rw.Call{Session: name}}))(t)
		first[name] = r.Receipt.JournalSeq
		write(t, s, name, "another version of "+text, rw.ModeOverwrite)
	}
	must(s.SafeWrite(background, rw.SafeWriteRequest{Path: "undone.txt", Content: []byte(text), Mode: rw.ModeOverwrite, Call: rw.Call{Session: "undone"}}))(t)
	var drafts [2]string
	for i := range drafts {
		_, err := s.SafeWrite(rw.WithGate(background, rw.GateOfAgents), rw.SafeWriteRequest{Path: "refused.txt", Content: []byte(fmt.Sprint(text, i, "\nid ", awsID(uint64(i)), "\n"))})
		drafts[i], _ = rw.AsError("", err).Context["draft_ref"].(string)
	}
	for _, session := range []string{"seen", "reset"} {
		must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: session, Content: []byte(text)}))(t)
	}
	tx, err := s.TxBegin(background, rw.TxBeginRequest{})
	if err == nil {
		_, err = s.TxStage(background, rw.TxStageRequest{TxID: tx.TxID, Op: rw.TxOp{Op: "write", Path: "staged.txt", Content: []byte(text)}})
	}
	require(t, err == nil && drafts[1] != "", "%v %v", drafts, err)
	env := handoff.Envelope{TaskID: "t", Status: handoff.Partial, Agent: "a", Summary: "s", NextSteps: []string{"n"}, LastGoodState: []handoff.File{}}
	must(s.HandoffWrite(background, handoff.WriteRequest{Envelope: env}))(t)
	return map[string]laneCall{
		"delete":       {5, within(s.Delete, rw.DeleteRequest{Path: "deleted.txt"})},
		"move":         {8, within(s.Move, rw.MoveRequest{Path: "moved.txt", To: "to.txt"})},
		"restore":      {10, within(s.Restore, rw.RestoreRequest{Path: "restored.txt", Version: first["restored.txt"]})},
		"undo":         {10, within(s.Undo, rw.UndoRequest{Call: rw.Call{Session: "undone"}})},
		"tx commit":    {5, within(s.TxCommit, rw.TxCommitRequest{TxID: tx.TxID})},
		"handoff":      {10, within(s.HandoffWrite, handoff.WriteRequest{Envelope: env, Body: []byte(text), AutoState: "left.txt"})},
		"handoff read": {1, within(s.HandoffRead, handoff.ReadRequest{})},
		"read":         {1, within(s.Read, rw.ReadRequest{Path: "left.txt", Version: first["left.txt"]})},
		"diff":         {1, within(s.Diff, rw.DiffRequest{Path: "left.txt"})},
		"history":      {1, within(s.History, rw.HistoryRequest{Path: "left.txt"})},
		"preview":      {1, within(s.ChunkPreview, rw.ChunkPreviewRequest{Session: "seen"})},
		"reset":        {1, within(s.ChunkReset, rw.ChunkResetRequest{Session: "reset"})},
		"draft":        {1, within(s.DraftGet, rw.DraftGetRequest{DraftRef: drafts[0]})},
		"redact draft": {5, within(s.Redact, rw.RedactRequest{DraftRef: drafts[0]})},
		"delete draft": {1, within(s.DraftDelete, rw.DraftDeleteRequest{DraftRef: drafts[1]})},
	}
}

// TestCancelInTheMiddle: a call that is canceled at any check of its context ends as
// canceled, makes at most a few more checks, has changed nothing, and does not block
// the next call.
func TestCancelInTheMiddle(t *testing.T) {
	t.Parallel()
	s, dir := quick(t, nil)
	old := strings.Repeat("some ordinary words of a line\n", laneBytes/30)
	write(t, s, "old.txt", old, rw.ModeCreate)
	must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "old", Content: []byte(old)}))(t)
	calls := laneCalls(s)
	maps.Copy(calls, laneVerbs(t, s))
	for _, name := range testbed.Share(t, slices.Sorted(maps.Keys(calls)), 12, nil) {
		row, whole := calls[name], int64(1)
		for end := int64(1); ; end = max(end+1, end*2) {
			before := snapshot(t, dir)
			ctx := newLookedAt(end)
			err := row.call(rw.WithGate(ctx, rw.GateOfAgents))
			if err == nil {
				whole = ctx.looks.Load()
				break // canceled after the commit point, or not any more
			}
			isErr(t, err, rw.ErrCanceled, name, ", canceled at look ", end)
			more := ctx.looks.Load() - end
			expect(t, more <= 8, "%s, canceled at look %d: %d looks after it", name, end, more)
			equal(t, snapshot(t, dir), before, name, ", canceled at look ", end, ": the files changed")
			must(s.SafeWrite(background, rw.SafeWriteRequest{Path: "next.txt", Content: []byte(name), Mode: rw.ModeOverwrite}))(t, name, ", canceled at look ", end, ": the next write")
			noErr(t, s.ResetTask(background))
		}
		t.Logf("%s: %d looks", name, whole)
		expect(t, whole >= row.least, "%s: %d looks at the context, want %d", name, whole, row.least)
	}
}

// TestCancelInTheSearchOfAPattern: an expression of a policy that reads the same text
// repeatedly checks the context while it does.
func TestCancelInTheSearchOfAPattern(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	writePolicy(t, dir, "extend_patterns: {own: [{name: slow, regex: '(?s)a.*z|a'}]}\n")
	s := quickAt(t, dir, nil)
	text := strings.Repeat("a", 1<<18)
	must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "c", Content: []byte(text)}))(t)
	for i, call := range []func(context.Context) error{
		within(s.SafeWrite, rw.SafeWriteRequest{Path: "a.txt", Content: []byte(text)}),
		within(s.ChunkCompose, rw.ChunkComposeRequest{Session: "c", OutputPath: "a.txt"}),
		within(s.ChunkPreview, rw.ChunkPreviewRequest{Session: "c", Classify: true}),
		within(s.RiskScore, rw.RiskScoreRequest{Content: []byte(text)}),
		within(s.Redact, rw.RedactRequest{Content: []byte(text)}),
	} {
		ctx := newLookedAt(500)
		isErr(t, call(rw.WithGate(ctx, rw.GateOfAgents)), rw.ErrCanceled, "call ", i)
		more := ctx.looks.Load() - 500
		expect(t, more >= 0 && more <= 16, "call %d: %d looks at the context after it was done", i, more)
	}
}

// TestPowerCutDuringTurns: many writers, whose flushes are made in turns, and a power
// cut at any operation. What was acknowledged is there, and every version has the
// content that its name says.
func TestPowerCutDuringTurns(t *testing.T) {
	t.Parallel()
	const writers = 14
	for _, level := range []rw.SyncLevel{rw.SyncJournal, rw.SyncFull} {
		for seed := uint64(1); seed <= uint64(scale(40)); seed++ {
			fs := simfs.New()
			fs.NoSyncEach = seed%3 == 0
			opts := &rw.Options{Sync: level}
			s := must(rw.OpenSim(fs, opts, rw.Sim{Nonce: "0001", Beside: true}))(t)
			var acked, tried [writers]int
			path := func(w int) string { return fmt.Sprintf("d%d/f%d", w%2, w) }
			fs.StopAt(int(300 + seed*37))
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					for i := 1; i < 40; i++ {
						tried[w] = i
						if _, err := s.SafeWrite(background, put(path(w), fmt.Sprintf("w%d i%d\n", w, i), rw.ModeOverwrite)); err != nil {
							return
						}
						acked[w] = i
					}
				})
			}
			wg.Wait()
			for _, loss := range []simfs.Loss{simfs.All, simfs.Some, simfs.Older} {
				disk := fs.Crash(seed, loss)
				after := must(rw.OpenSim(disk, opts, rw.Sim{Nonce: "0002"}))(t)
				for w := range writers {
					data, _ := disk.ReadFile(path(w))
					var is, i int
					fmt.Sscanf(string(data), "w%d i%d", &is, &i)
					if i < acked[w] || i > tried[w] || i > 0 && is != w {
						t.Errorf("%s, seed %d, %v: %s was acknowledged up to %d and is %q", level, seed, loss, path(w), acked[w], data)
					}
				}
				check(t, after, true)
				noErr(t, after.Close(background))
			}
		}
	}
}

// TestDisplacedFileStaysInItsSlot: a file whose name cannot be restored when a call is
// rolled back, and which history cannot take at that moment, is not removed.
func TestDisplacedFileStaysInItsSlot(t *testing.T) {
	for _, full := range []bool{false, true} {
		fs := simfs.New()
		fs.WriteFile("a.txt", []byte(humansText), 0o644)
		s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001"}))(t)
		editor, blocked := fs.Foreign(), false
		fs.Before(func(op simfs.Op) {
			if blocked || !publishes(op, "bad.txt") {
				return
			}
			blocked = true
			for _, name := range []string{"bad.txt", "a.new"} {
				f, _ := editor.Open(name, fsx.Write|fsx.Create, 0o644)
				f.WriteAt([]byte(strangersText), 0)
				f.Close()
			}
			editor.Rename("a.new", editor, "a.txt")
		})
		fs.Inject(func(op simfs.Op) (fault simfs.Fault) {
			if full && strings.Contains(op.Path+op.To, "/history/") && (op.Kind == "create" || op.Kind == "rename") {
				fault.Err = syscall.ENOSPC
			}
			return fault
		})
		_, err := s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{txWrite("a.txt", longText, rw.ModeOverwrite), txWrite("bad.txt", longText, "")}})
		require(t, err != nil, "the call is not rolled back")
		fs.Inject(nil)
		fs.Before(nil)
		noErr(t, s.Close(background))
		noErr(t, must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0002"}))(t).Close(background))
		if !haveText(contents(fs, false), humansText) {
			t.Errorf("history full %v: the replaced file is lost: %v", full, files(fs))
		}
	}
}

// TestAppendKeepsTheVersionBefore: where the limits of history do not allow a copy of
// the new version, what an append has added to is a version, as with an overwrite.
func TestAppendKeepsTheVersionBefore(t *testing.T) {
	for _, limits := range []string{"{max_versions: 1}", "{keep_head_max: 1}", "{}"} {
		for _, mode := range []rw.WriteMode{rw.ModeOverwrite, rw.ModeAppend} {
			dir := withHistoryPolicy(t, limits)
			noErr(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte(humansText), 0o644))
			s := open(t, dir, nil)
			must(s.SafeWrite(background, put("a.txt", longText, mode)))(t)
			noErr(t, s.Close(background))
			noErr(t, os.Remove(filepath.Join(dir, "a.txt")))
			expect(t, kept(t, dir) != 0, "%s, %s: nothing of the file is kept", limits, mode)
		}
	}
}
