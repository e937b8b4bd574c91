package resilientwrite_test

import (
	"context"
	"errors"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// TestOpenBesideAStoppedRecovery: a process is stopped at each operation of an Open
// that completes the work of a dead writer. Another process then opens the store: it
// does not fail and does not wait for long. A path that the stopped process holds is
// busy, and the error names that process; other paths can be written. When the stopped
// process continues, everything that was committed exists.
func TestOpenBesideAStoppedRecovery(t *testing.T) {
	at, step := 0, stride(3)
	for at = phase(step); besideStoppedRecovery(t, at); at += step {
	}
	if at < 100 {
		t.Errorf("Open has %d operations only", at)
	}
}

// leftUnpublished is a disk on which a process died between the row of a commit
// and its first file.
func leftUnpublished(t *testing.T) *simfs.FS {
	t.Helper()
	fs := simfs.New()
	dead := fs.NewProcess()
	s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001", Process: dead}))(t)
	noErr(t, do(put("a.txt", longText, rw.ModeCreate), put("b.txt", "b", rw.ModeCreate))(s))
	fs.Before(func(op simfs.Op) {
		if op.Kind == "exchange" {
			dead.Kill()
		}
	})
	if together(put("a.txt", otherText, rw.ModeOverwrite), put("b.txt", longText, rw.ModeOverwrite), put("new.txt", longText, rw.ModeCreate))(s) == nil {
		t.Fatal("the process did not die")
	}
	fs.Before(nil)
	return fs
}

func besideStoppedRecovery(t *testing.T, at int) (stopped bool) {
	t.Helper()
	fs := leftUnpublished(t)
	first := fs.NewProcess()
	reached, ended := first.PauseAt(at), make(chan error, 1)
	go func() {
		s, err := rw.OpenSim(fs, nil, rw.Sim{Nonce: "0002", Process: first})
		if err == nil {
			err = s.Close(background)
		}
		ended <- err
	}()
	select {
	case <-reached:
		stopped = true
	case err := <-ended:
		noErr(t, err)
	}
	const wait = 3 * time.Millisecond
	began := time.Now()
	two, err := rw.OpenSim(fs, &rw.Options{LockTimeout: wait}, rw.Sim{Nonce: "0003", Process: fs.NewProcess(), LockWait: wait})
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("stopped at %d: Open took %s", at, took)
	}
	if errors.Is(err, rw.ErrLockTimeout) && holderOf(err) == 0 { // the lock of the journal, which names no process
		first.Continue()
		noErr(t, <-ended)
		return stopped
	}
	noErr(t, err, "stopped at ", at)
	want := map[string]string{"a.txt": otherText, "new.txt": longText, "beside.txt": ""}
	for path := range want {
		text := "written by the other one\n"
		_, err := two.SafeWrite(background, rw.SafeWriteRequest{Path: path, Content: []byte(text), Mode: rw.ModeOverwrite, AllowShrink: true})
		switch held := holderOf(err); {
		case err == nil:
			want[path] = text
		case path == "beside.txt" || !errors.Is(err, rw.ErrIOBusy) && !errors.Is(err, rw.ErrLockTimeout):
			t.Errorf("stopped at %d: %s: %v", at, path, err)
		case errors.Is(err, rw.ErrIOBusy) && held == 0:
			t.Errorf("stopped at %d: %s is busy, and nobody is named", at, path)
		}
	}
	first.Continue()
	if stopped {
		noErr(t, <-ended)
	}
	noErr(t, two.Close(background))
	s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0004"}))(t)
	for path, text := range want {
		if got := fs.Tree()[path]; got != text {
			t.Errorf("stopped at %d: %s holds %.30q, not %.30q", at, path, got, text)
		}
	}
	if r := s.Recovery(); len(r.Conflicts) > 0 {
		t.Errorf("stopped at %d: conflicts %v", at, r.Conflicts)
	}
	check(t, s, true)
	return stopped
}

// holderOf returns the process that an error names, or 0 for none.
func holderOf(err error) int {
	var e *rw.Error
	if !errors.As(err, &e) {
		return 0
	}
	holder, _ := e.Context["holder"].(map[string]any)
	pid, _ := holder["pid"].(int)
	return pid
}

// TestOpenWithinItsContext: Open waits no longer than its context allows for the
// recovery lock of a process that was stopped, and does not fail for it.
func TestOpenWithinItsContext(t *testing.T) {
	fs := leftUnpublished(t)
	first, stopped := fs.NewProcess(), make(chan struct{})
	fs.Before(func(op simfs.Op) {
		if op.Kind == "exchange" {
			close(stopped)
			fs.Before(nil)
			first.PauseAt(0)
		}
	})
	ended := make(chan error, 1)
	go func() {
		_, err := rw.OpenSim(fs, nil, rw.Sim{Nonce: "0002", Process: first})
		ended <- err
	}()
	<-stopped
	ctx, cancel := context.WithTimeout(background, 50*time.Millisecond)
	defer cancel()
	s := must(rw.OpenSimWithin(ctx, fs, &rw.Options{LockTimeout: time.Hour}, rw.Sim{Nonce: "0003", Process: fs.NewProcess()}))(t)
	if n := s.Recovery().Pending; n != 1 {
		t.Errorf("%d commits are pending", n)
	}
	first.Continue()
	noErr(t, <-ended)
}
