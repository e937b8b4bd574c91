package resilientwrite_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/hook"
)

// seen collects receipts.
type seen struct {
	mu   sync.Mutex
	list []rw.Receipt
}

func (s *seen) take(r rw.Receipt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, r)
}

func (s *seen) all() []rw.Receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]rw.Receipt(nil), s.list...)
}

// until polls, generously.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
		require(t, !time.Now().After(end), "never: %s", what)
	}
}

// TestWatchHearsOfEveryCall: successful calls, calls without a change, refused calls
// and dry runs, in the order of the calls.
func TestWatchHearsOfEveryCall(t *testing.T) {
	ctx := context.Background()
	s := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff})
	got := &seen{}
	stop := s.Watch(got.take)
	write(t, s, "a.txt", "one", rw.ModeCreate)
	write(t, s, "a.txt", "one", rw.ModeOverwrite)
	require(t, errorOf(s.SafeWrite(ctx, rw.SafeWriteRequest{Path: "a.txt", Content: []byte("two")})) != nil, "created twice")
	must(s.SafeWrite(ctx, rw.SafeWriteRequest{Path: "b.txt", Content: []byte("b"), Call: rw.Call{DryRun: true}}))(t)
	for range 2 {
		must(s.ChunkAppend(ctx, rw.ChunkAppendRequest{Session: "s", Content: []byte("piece")}))(t)
	}
	must(s.ChunkCompose(ctx, rw.ChunkComposeRequest{Session: "s", OutputPath: "c.txt"}))(t)
	must(s.Undo(ctx, rw.UndoRequest{}))(t)
	want := []string{
		"safe_write succeeded a.txt", "safe_write unchanged a.txt", "safe_write refused a.txt", "safe_write succeeded b.txt dry",
		"chunk_append succeeded", "chunk_append succeeded", "chunk_compose succeeded c.txt", "undo succeeded c.txt",
	}
	until(t, "all receipts", func() bool { return len(got.all()) >= len(want) })
	var lines []string
	for _, r := range got.all() {
		line := r.Op + " " + string(r.Status)
		if !strings.HasPrefix(r.Path, rw.StateDirName) {
			line += " " + r.Path
		}
		if r.DryRun {
			line += " dry"
		}
		lines = append(lines, line)
	}
	equal(t, cmp.Diff(want, lines), "", "receipts (-want +got)")
	stop()
	stop()
	write(t, s, "d.txt", "d", rw.ModeCreate)
	other := &seen{}
	defer s.Watch(other.take)()
	write(t, s, "e.txt", "e", rw.ModeCreate)
	until(t, "the other watcher hears", func() bool { return len(other.all()) == 1 })
	n := len(got.all())
	expect(t, n == len(want), "%d receipts after stop", n-len(want))
}

// TestWatchNeverHoldsAWriterUp: a watcher that hangs costs the writers nothing;
// it learns that it missed something, once, in its place in the order.
func TestWatchNeverHoldsAWriterUp(t *testing.T) {
	s := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff})
	got, entered, goOn := &seen{}, make(chan struct{}), make(chan struct{})
	var once sync.Once
	defer s.Watch(func(r rw.Receipt) {
		once.Do(func() { close(entered); <-goOn })
		got.take(r)
	})()
	write(t, s, "first", "x", rw.ModeCreate)
	<-entered
	const more = 400
	for i := range more {
		write(t, s, "f", fmt.Sprint(i), rw.ModeOverwrite)
	}
	close(goOn)
	until(t, "the receipt of what was missed", func() bool {
		list := got.all()
		return len(list) > 0 && list[len(list)-1].Op == rw.OpMissed
	})
	write(t, s, "last", "x", rw.ModeCreate)
	until(t, "the last receipt", func() bool {
		list := got.all()
		return list[len(list)-1].Path == "last"
	})
	list := got.all()
	mustEqual(t, len(list), 1+256+1+1, "receipts")
	for i, r := range list {
		equal(t, r.Op == rw.OpMissed, i == 257, "receipt ", i, " is of ", r.Op)
		if i > 1 && i < 257 && r.JournalSeq != list[i-1].JournalSeq+1 {
			t.Errorf("receipt %d has seq %d after %d", i, r.JournalSeq, list[i-1].JournalSeq)
		}
	}
	missed := list[257]
	expect(t, len(missed.Warnings) == 1 && missed.Warnings[0].Reason == call.WarnReceiptsMissed &&
		strings.HasPrefix(missed.Warnings[0].Hint, fmt.Sprint(more-256)+" "), "%+v", missed)
}

// TestWatchKeepsTheOrder: events after a dropped one wait until the watcher knows of
// the loss, even if there is space again.
func TestWatchKeepsTheOrder(t *testing.T) {
	s := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff})
	got, entered, next := &seen{}, make(chan struct{}), make(chan struct{})
	stop := s.Watch(func(r rw.Receipt) {
		entered <- struct{}{}
		<-next
		got.take(r)
	})
	defer stop()
	write(t, s, "f", "first", rw.ModeCreate)
	<-entered
	for i := range 256 + 1 {
		write(t, s, "f", fmt.Sprint(i), rw.ModeOverwrite)
	}
	next <- struct{}{}
	<-entered // there is room for one
	write(t, s, "f", "after what is dropped", rw.ModeOverwrite)
	for range 256 {
		next <- struct{}{}
		<-entered
	}
	next <- struct{}{}
	until(t, "all that was kept", func() bool { return len(got.all()) == 1+256+1 })
	last := got.all()[257]
	expect(t, last.Op == rw.OpMissed && strings.HasPrefix(last.Warnings[0].Hint, "2 "), "the last of them is %+v", last)
}

// TestWatchRunsWithoutLocks: a watcher may write to the file of the event, also if the
// call was refused; a watcher that panics still gets later events.
func TestWatchRunsWithoutLocks(t *testing.T) {
	ctx := context.Background()
	s := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff})
	var panics, echoes atomic.Int32
	defer s.Watch(func(r rw.Receipt) {
		panics.Add(1)
		panic("watcher")
	})()
	defer s.Watch(func(r rw.Receipt) {
		if r.Caller == "echo" {
			return
		}
		_, err := s.SafeWrite(ctx, rw.SafeWriteRequest{Path: r.Path, Content: []byte("echo of " + string(r.Status)), Mode: rw.ModeOverwrite, Call: rw.Call{Caller: "echo"}})
		if err == nil {
			echoes.Add(1)
		}
	})()
	write(t, s, "a.txt", "x", rw.ModeCreate)
	require(t, errorOf(s.SafeWrite(ctx, rw.SafeWriteRequest{Path: "a.txt", Content: []byte("y")})) != nil, "created twice")
	until(t, "both are echoed", func() bool { return echoes.Load() == 2 })
	until(t, "the one that panics hears of all", func() bool { return panics.Load() == 4 })
}

// TestWatchEndsWithTheStore: Close lets a watcher take what waits, waits a second for
// one that hangs, and nothing comes afterwards. The clock advances only while all
// goroutines wait for it, so the speed of the machine does not matter.
func TestWatchEndsWithTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := must(rw.Open(ctx, workspace(t), &rw.Options{Sync: rw.SyncOff}))(t)
		got, hang := &seen{}, make(chan struct{})
		defer close(hang)
		stop := s.Watch(func(r rw.Receipt) { time.Sleep(time.Millisecond); got.take(r) })
		s.Watch(func(rw.Receipt) { <-hang })
		for i := range 20 {
			write(t, s, fmt.Sprint(i), "x", rw.ModeCreate)
		}
		began := time.Now()
		noErr(t, s.Close(ctx))
		equal(t, time.Since(began), time.Second, "Close waited for the one that hangs")
		equal(t, len(got.all()), 20, "receipts of 20 before Close returned")
		stop()
		late := &seen{}
		s.Watch(late.take)()
		expect(t, errorOf(s.SafeWrite(ctx, rw.SafeWriteRequest{Path: "z", Content: []byte("x")})) != nil, "a closed store wrote")
		length(t, late.all(), 0, "a watcher of a closed store was called")
	})
}

// TestWatchFromInside: a watcher may stop itself and close the store.
func TestWatchFromInside(t *testing.T) {
	ctx := context.Background()
	s := must(rw.Open(ctx, workspace(t), &rw.Options{Sync: rw.SyncOff}))(t)
	var stop func()
	var calls atomic.Int32
	ready, closed := make(chan struct{}), make(chan error, 1)
	stop = s.Watch(func(rw.Receipt) {
		<-ready
		if calls.Add(1) == 1 {
			stop()
			closed <- s.Close(ctx)
		}
	})
	write(t, s, "a", "x", rw.ModeCreate)
	write(t, s, "b", "x", rw.ModeCreate)
	close(ready)
	select {
	case err := <-closed:
		expect(t, err == nil, "%v", err)
	case <-time.After(2 * time.Minute):
		t.Fatal("a watcher that closes the store hangs")
	}
	equal(t, calls.Load(), 1, "calls after it stopped itself")
}

// TestWatchersComeAndGo during writes, without a data race.
func TestWatchersComeAndGo(t *testing.T) {
	s := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Add(2)
		go func() {
			defer wg.Done()
			for n := range 25 {
				_, err := s.SafeWrite(context.Background(), rw.SafeWriteRequest{Path: fmt.Sprint(i), Content: []byte(fmt.Sprint(n)), Mode: rw.ModeOverwrite})
				expect(t, err == nil, "%v", err)
			}
		}()
		go func() {
			defer wg.Done()
			for range 25 {
				got := &seen{}
				stop := s.Watch(got.take)
				runtime.Gosched()
				stop()
			}
		}()
	}
	wg.Wait()
	check(t, s, true)
}

// The tests below run with a clock that advances only if all goroutines wait for it, so
// that a call is as quick on a slow machine as on a fast one.

// reports collects the progress reports of calls.
type reports struct {
	mu   sync.Mutex
	list []rw.Progress
	at   []time.Time
	now  int // listeners at work
	both bool
}

func (r *reports) take(p rw.Progress) {
	r.mu.Lock()
	r.now++
	r.both = r.both || r.now > 1
	r.list, r.at = append(r.list, p), append(r.at, time.Now())
	r.mu.Unlock()
	for range 100 { // no sleep: while a goroutine waits for a mutex, the clock does not advance
		runtime.Gosched()
	}
	r.mu.Lock()
	r.now--
	r.mu.Unlock()
}

func (r *reports) all() []rw.Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]rw.Progress(nil), r.list...)
}

// wait returns when a report is there for which ok holds.
func (r *reports) wait(t *testing.T, what string, ok func(rw.Progress) bool) {
	t.Helper()
	until(t, "report of "+what, func() bool { return slices.ContainsFunc(r.all(), ok) })
}

// sound checks the guarantees for the reports of one call.
func (r *reports) sound(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	expect(t, !r.both, "two reports at a time")
	for i, p := range r.list {
		expect(t, p.Stage != "" && p.Done >= 0 && (p.Total == 0 || p.Total >= p.Done), "report %d: %+v", i, p)
		if i == 0 {
			continue
		}
		expect(t, p.Done >= r.list[i-1].Done, "Done falls from %d to %d", r.list[i-1].Done, p.Done)
		gap := r.at[i].Sub(r.at[i-1])
		expect(t, gap >= 100*time.Millisecond, "reports %d and %d are %v apart", i-1, i, gap)
	}
}

// slowed is a stream that continues each time it was reported.
type slowed struct {
	io.Reader
	t     *testing.T
	r     *reports
	pause []int64 // bytes after which it waits for a report of as many
	read  int64
}

func (g *slowed) Read(p []byte) (int, error) {
	if len(g.pause) > 0 && g.read >= g.pause[0] {
		want := g.read
		g.r.wait(g.t, fmt.Sprint(want, " bytes"), func(p rw.Progress) bool { return p.Done >= want })
		g.pause = g.pause[1:]
	}
	n, err := g.Reader.Read(p)
	g.read += int64(n)
	return n, err
}

// patient is an authorizer that waits, in calls of one verb, until its stage was
// reported.
type patient struct {
	t    *testing.T
	r    *reports
	verb string
	held *context.Context // of the call, for longer than it should be
}

func (p patient) Authorize(ctx context.Context, op hook.Call) (hook.Decision, error) {
	if op.Verb != p.verb {
		return hook.Allow(), nil
	}
	*p.held = ctx
	p.r.wait(p.t, "a step that only waits", func(r rw.Progress) bool { return r.Stage == rw.StageAuthorize })
	return hook.Allow(), nil
}

// TestProgressOfAStream: reports while the bytes arrive, in order and at intervals, and
// none after the call.
func TestProgressOfAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff})
		r := &reports{}
		ctx := rw.WithProgress(context.Background(), r.take)
		src := &slowed{Reader: bytes.NewReader(bytes.Repeat([]byte("progress\n"), 1<<19)), t: t, r: r, pause: []int64{2 << 20, 3 << 20, 4 << 20}}
		must(s.SafeWriteFrom(ctx, rw.SafeWriteRequest{Path: "big.txt"}, src))(t)
		n := len(r.all())
		r.sound(t)
		first := r.all()[0]
		expect(t, first.Stage == rw.StepRead && n >= 3, "%d reports, the first %+v", n, first)
		time.Sleep(250 * time.Millisecond)
		late := len(r.all()) - n
		expect(t, late == 0, "%d reports after the call", late)
	})
}

// TestProgressKnowsTheTotal: of a stream that knows its length, and of a
// composition.
func TestProgressKnowsTheTotal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff})
		r := &reports{}
		ctx := rw.WithProgress(context.Background(), r.take)
		const size = 3 << 20
		must(s.SafeWriteFrom(ctx, rw.SafeWriteRequest{Path: "big.txt"}, strings.NewReader(strings.Repeat("x", size))))(t)
		got := r.all()
		expect(t, len(got) != 0 && got[0].Total == size, "a stream of %d bytes: %+v", size, got)
		for i := range 3 {
			must(s.ChunkAppend(context.Background(), rw.ChunkAppendRequest{Session: "s", Content: []byte(strings.Repeat(fmt.Sprint(i), 1<<20))}))(t)
		}
		c := &reports{}
		must(s.ChunkCompose(rw.WithProgress(context.Background(), c.take), rw.ChunkComposeRequest{Session: "s", OutputPath: "out.txt", Cleanup: true}))(t)
		c.sound(t)
		got = c.all()
		expect(t, len(got) != 0 && got[0] == (rw.Progress{Stage: rw.StageCompose, Total: 3 << 20, Message: "joining 3 chunks"}), "composing: %+v", got)
	})
}

// TestProgressOfASlowBeginning: a stream whose first bytes are late is reported as
// such.
func TestProgressOfASlowBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff})
		r := &reports{}
		ctx := rw.WithProgress(context.Background(), r.take)
		const size = 2 << 20
		src := &slowed{Reader: strings.NewReader(strings.Repeat("x", size)), t: t, r: r, pause: []int64{0, 1 << 10}}
		must(s.SafeWriteFrom(ctx, rw.SafeWriteRequest{Path: "big.txt"}, sizedReader{src, size}))(t)
		r.sound(t)
		equal(t, r.all()[0], (rw.Progress{Stage: rw.StepRead, Total: size}), "the first report")
	})
}

// sizedReader is a stream that knows how much there is left at first.
type sizedReader struct {
	io.Reader
	size int
}

func (r sizedReader) Len() int { return r.size }

// TestProgressReportsAStepThatOnlyWaits: no byte is transferred, and the client still
// learns what the call is doing.
func TestProgressReportsAStepThatOnlyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reports{}
		var held context.Context
		s := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff, Hooks: roles(patient{t, r, "safe_write", &held})})
		ctx := rw.WithProgress(context.Background(), r.take)
		must(s.SafeWrite(ctx, rw.SafeWriteRequest{Path: "a.txt", Content: []byte("x")}))(t)
		r.sound(t)
		// A rule that keeps the context of a call does not make the call report
		// after its end.
		n := len(r.all())
		_, err := s.Check(held, admin.CheckRequest{Deep: true})
		require(t, err == nil || held.Err() != nil, "%v", err)
		late := len(r.all()) - n
		expect(t, late == 0, "%d reports after the call", late)
	})
}

// TestProgressOfChecking: every part of a check is announced, things are
// counted, and the bytes that are hashed are not mixed in.
func TestProgressOfChecking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff})
		for i := range 30 {
			write(t, s, fmt.Sprintf("f%d.txt", i), "x", rw.ModeCreate)
		}
		r := &reports{}
		res, err := s.Check(rw.WithProgress(context.Background(), r.take), admin.CheckRequest{Deep: true})
		require(t, err == nil && res.Clean, "%v %v", res, err)
		r.sound(t)
		most := int64(res.Counters.Rows + res.Counters.Objects + res.Counters.Paths)
		got := r.all()
		require(t, len(got) != 0 && got[0].Stage == rw.StepJournal && got[0].Message != "", "%+v", got)
		for _, p := range got {
			expect(t, p.Done <= most, "%+v, of %d things", p, most)
		}
	})
}

// TestProgressOfUndoingMany: the account is in files, however many bytes they
// have.
func TestProgressOfUndoingMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reports{}
		var held context.Context
		s := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff, Hooks: roles(patient{t, r, "undo", &held})})
		const files = 20
		for _, content := range []string{"old", "new"} {
			var ops []rw.TxOp
			for i := range files {
				ops = append(ops, rw.TxOp{Op: "write", Path: fmt.Sprintf("f%d.txt", i), Content: []byte(strings.Repeat(content, 1000)), Mode: rw.ModeOverwrite})
			}
			must(s.Tx(context.Background(), rw.TxRequest{Ops: ops}))(t)
		}
		must(s.Undo(rw.WithProgress(context.Background(), r.take), rw.UndoRequest{}))(t)
		r.sound(t)
		got := r.all()
		require(t, len(got) != 0 && got[0].Stage == rw.StepVersions && got[0].Total == files, "%+v", got)
		last := got[len(got)-1]
		expect(t, last.Done == files && last.Stage == rw.StageAuthorize, "in the end %+v, of %d files", last, files)
	})
}

// TestProgressOfAQuickCall: a call that ends at once reports nothing.
func TestProgressOfAQuickCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff})
		for i := range 20 {
			r := &reports{}
			must(s.SafeWrite(rw.WithProgress(context.Background(), r.take), rw.SafeWriteRequest{Path: fmt.Sprint(i), Content: []byte("x")}))(t)
			length(t, r.all(), 0)
		}
	})
}

// TestProgressListenerBreaksNothing: a listener that panics, and no listener.
func TestProgressListenerBreaksNothing(t *testing.T) {
	s := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff})
	for i, f := range []func(rw.Progress){nil, func(rw.Progress) { panic("listener") }} {
		ctx := rw.WithProgress(context.Background(), f)
		must(s.SafeWriteFrom(ctx, rw.SafeWriteRequest{Path: fmt.Sprint(i)}, strings.NewReader(strings.Repeat("x", 2<<20))))(t)
	}
	check(t, s, true)
}

// TestProgressOfCallsSideBySide: two calls with one context have an account
// each.
func TestProgressOfCallsSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff})
		var mu sync.Mutex
		totals := map[int64]bool{}
		ctx := rw.WithProgress(context.Background(), func(p rw.Progress) {
			mu.Lock()
			defer mu.Unlock()
			if p.Stage == rw.StepRead {
				totals[p.Total] = true
			}
		})
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				_, err := s.SafeWriteFrom(ctx, rw.SafeWriteRequest{Path: fmt.Sprint(i)}, strings.NewReader(strings.Repeat("x", 2<<20+i)))
				expect(t, err == nil, "%v", err)
			})
		}
		wg.Wait()
		for i := range int64(4) {
			expect(t, totals[2<<20+i], "no report with the total of call %d: %v", i, totals)
		}
	})
}

// BenchmarkProgressAccount measures the cost of the accounting itself, for a write of
// ten stages: with and without a listener.
func BenchmarkProgressAccount(b *testing.B) {
	for _, listened := range []bool{false, true} {
		b.Run(fmt.Sprintf("listened=%v", listened), func(b *testing.B) {
			ctx := context.Background()
			for range 8 { // as deep as a request of a server
				ctx = context.WithValue(ctx, new(int), 0)
			}
			if listened {
				ctx = rw.WithProgress(ctx, func(rw.Progress) {})
			}
			b.ReportAllocs()
			for b.Loop() {
				rw.Account(ctx)
			}
		})
	}
}

// BenchmarkProgressWrite is a write with and without a listener.
func BenchmarkProgressWrite(b *testing.B) {
	for _, listened := range []bool{false, true} {
		b.Run(fmt.Sprintf("listened=%v", listened), func(b *testing.B) {
			s := must(rw.Open(context.Background(), b.TempDir(), &rw.Options{Sync: rw.SyncOff}))(b)
			defer s.Close(context.Background())
			ctx := context.Background()
			if listened {
				ctx = rw.WithProgress(ctx, func(rw.Progress) {})
			}
			for i := 0; b.Loop(); i++ {
				must(s.SafeWrite(ctx, rw.SafeWriteRequest{Path: "a.txt", Content: []byte(fmt.Sprint(i)), Mode: rw.ModeOverwrite}))(b)
			}
		})
	}
}
