package resilientwrite_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestAPanickingReceiptSinkChangesNothing: a completed call is reported as completed, a
// refused one as refused, and all other observers are notified.
func TestAPanickingReceiptSinkChangesNothing(t *testing.T) {
	var told []rw.Status
	s, dir := quick(t, &rw.Options{ReceiptSink: func(r rw.Receipt) {
		told = append(told, r.Status)
		panic("the secret content")
	}})
	watched := make(chan rw.Receipt, 8)
	defer s.Watch(func(r rw.Receipt) { watched <- r })()
	out, err := s.SafeWrite(background, put("a.txt", "x", rw.ModeCreate))
	if err != nil || out.Status != rw.StatusSucceeded {
		t.Fatalf("%v %+v", err, out)
	}
	fileIs(t, dir, "a.txt", "x")
	_, err = s.SafeWrite(background, put("a.txt", "y", rw.ModeCreate))
	if e := rw.AsError("", err); !errors.Is(err, rw.ErrFileAlreadyExists) || e.Effect != rw.EffectNone || strings.Contains(e.Error(), "secret") {
		t.Errorf("%v", err)
	}
	noErr(t, transact(s, rw.TxOp{Op: "delete", Path: "a.txt"}))
	gone(t, dir, "a.txt")
	if len(told) != 3 || told[0] != rw.StatusSucceeded || told[1] != rw.StatusRefused || told[2] != rw.StatusSucceeded {
		t.Errorf("told %v", told)
	}
	for _, want := range told {
		if r := <-watched; r.Status != want {
			t.Errorf("a watcher is told %s, not %s", r.Status, want)
		}
	}
	write(t, s, "b.txt", "locks are free", rw.ModeCreate)
	check(t, s, true)
}

// TestALateVerifierHoldsNoLocks: it has its time and a quarter of it, within bounds;
// then the commit is refused and others write while it is still running. Its later
// changes to its staged files have no effect.
func TestALateVerifierHoldsNoLocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for limit, grace := range map[time.Duration]time.Duration{
			time.Millisecond: 100 * time.Millisecond, time.Second: 250 * time.Millisecond, 0: 2 * time.Second, 10 * time.Minute: 2 * time.Second,
		} {
			dir := ramspace(t)
			goOn, ended := make(chan struct{}), make(chan error, 1)
			s := open(t, dir, &rw.Options{VerifyTimeout: limit, Hooks: roles(verifier(func(_ context.Context, c rw.StagedCommit) error {
				if c.Files[0].Path != "a.txt" {
					return nil
				}
				<-goOn // independent of its context
				_, err := os.ReadFile(c.Files[0].Staged)
				os.WriteFile(c.Files[0].Staged, []byte("late"), 0o600)
				ended <- err
				return nil
			}))})
			if limit == 0 {
				limit = time.Minute
			}
			began := time.Now()
			e := turnedDown(t, s, dir, put("a.txt", "x", rw.ModeCreate), rw.ErrVerifyFailed)
			if took := time.Since(began); took != limit+grace {
				t.Errorf("%v: the caller waited for %v", limit, took)
			}
			if text, _ := e.Context["output"].(string); e.Effect != rw.EffectNone || !strings.Contains(text, "continues") {
				t.Errorf("%v: %s %q", limit, e.Effect, text)
			}
			// The verifier is still there. Another store takes the lock at once.
			other := open(t, dir, &rw.Options{LockTimeout: time.Millisecond})
			write(t, other, "a.txt", "others", rw.ModeCreate)
			if left, err := s.Unfinished(); err != nil || len(left) > 0 {
				t.Errorf("left in staging: %v %v", left, err)
			}
			close(goOn)
			isErr(t, <-ended, os.ErrNotExist, "what was staged is still there")
			synctest.Wait()
			write(t, s, "b.txt", "the store goes on", rw.ModeCreate)
			noErr(t, other.Close(background))
			noErr(t, s.Close(background))
			s = open(t, dir, nil)
			if r := s.Recovery(); len(r.Finished)+len(r.Conflicts) > 0 {
				t.Errorf("%+v", r)
			}
			if left, err := s.Unfinished(); err != nil || len(left) > 0 {
				t.Errorf("left in staging after an open: %v %v", left, err)
			}
			fileIs(t, dir, "a.txt", "others")
			check(t, s, true)
		}
	})
}
