package resilientwrite_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
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
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
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
	if _, err := s.SafeWrite(ctx, rw.SafeWriteRequest{Path: "a.txt", Content: []byte("two")}); err == nil {
		t.Fatal("created twice")
	}
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
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("receipts (-want +got):\n%s", diff)
	}
	stop()
	stop()
	write(t, s, "d.txt", "d", rw.ModeCreate)
	other := &seen{}
	defer s.Watch(other.take)()
	write(t, s, "e.txt", "e", rw.ModeCreate)
	until(t, "the other watcher hears", func() bool { return len(other.all()) == 1 })
	if n := len(got.all()); n != len(want) {
		t.Errorf("%d receipts after stop", n-len(want))
	}
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
	if len(list) != 1+256+1+1 {
		t.Fatalf("%d receipts", len(list))
	}
	for i, r := range list {
		if (r.Op == rw.OpMissed) != (i == 257) {
			t.Errorf("receipt %d is of %s", i, r.Op)
		}
		if i > 1 && i < 257 && r.JournalSeq != list[i-1].JournalSeq+1 {
			t.Errorf("receipt %d has seq %d behind %d", i, r.JournalSeq, list[i-1].JournalSeq)
		}
	}
	missed := list[257]
	if len(missed.Warnings) != 1 || missed.Warnings[0].Reason != rw.WarnReceiptsMissed || !strings.HasPrefix(missed.Warnings[0].Hint, fmt.Sprint(more-256)+" ") {
		t.Errorf("%+v", missed)
	}
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
	write(t, s, "f", "behind what is dropped", rw.ModeOverwrite)
	for range 256 {
		next <- struct{}{}
		<-entered
	}
	next <- struct{}{}
	until(t, "all that was kept", func() bool { return len(got.all()) == 1+256+1 })
	last := got.all()[257]
	if last.Op != rw.OpMissed || !strings.HasPrefix(last.Warnings[0].Hint, "2 ") {
		t.Errorf("the last of them is %+v", last)
	}
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
	if _, err := s.SafeWrite(ctx, rw.SafeWriteRequest{Path: "a.txt", Content: []byte("y")}); err == nil {
		t.Fatal("created twice")
	}
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
		if took := time.Since(began); took != time.Second {
			t.Errorf("Close waited %v for the one that hangs", took)
		}
		if n := len(got.all()); n != 20 {
			t.Errorf("%d receipts of 20 before Close returned", n)
		}
		stop()
		late := &seen{}
		s.Watch(late.take)()
		if _, err := s.SafeWrite(ctx, rw.SafeWriteRequest{Path: "z", Content: []byte("x")}); err == nil {
			t.Error("a closed store wrote")
		}
		if len(late.all()) > 0 {
			t.Error("a watcher of a closed store was called")
		}
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
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("a watcher that closes the store hangs")
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls after it stopped itself", n-1)
	}
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
				if _, err := s.SafeWrite(context.Background(), rw.SafeWriteRequest{Path: fmt.Sprint(i), Content: []byte(fmt.Sprint(n)), Mode: rw.ModeOverwrite}); err != nil {
					t.Error(err)
				}
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
