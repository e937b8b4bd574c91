package mcpserver_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/failpoint"
	"github.com/resilientwrite/resilientwrite/internal/place"
)

// stopping is a hook that stops at a place until its context ends or it is let
// go. Only paths that begin with "stop" stop it.
type stopping struct {
	at      string // authorize or verify
	inside  chan string
	goOn    chan struct{}
	entered atomic.Int32
}

func newStopping(at string) *stopping {
	return &stopping{at: at, inside: make(chan string, 100), goOn: make(chan struct{})}
}

func (s *stopping) stop(ctx context.Context, at string, op rw.HookCall) error {
	path := op.Changes[0].Path
	if at != s.at || !strings.HasPrefix(path, "stop") {
		return nil
	}
	s.entered.Add(1)
	s.inside <- path
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.goOn:
		return nil
	}
}

func (s *stopping) Authorize(ctx context.Context, op rw.HookCall) (rw.Decision, error) {
	return rw.Allow(), s.stop(ctx, "authorize", op)
}

func (s *stopping) Verify(ctx context.Context, c rw.StagedCommit) error {
	return s.stop(ctx, "verify", c.HookCall)
}

func soon[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("%s: nothing happens", what)
	}
	panic("unreachable")
}

// each runs a test with a client of either protocol.
func each(t *testing.T, opts func() *rw.Options, test func(t *testing.T, w *wire)) {
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			w := connect(t, opts())
			if era == "modern" {
				w.modern(`{"elicitation":{}}`)
			} else {
				w.initialize(`{"elicitation":{}}`)
			}
			test(t, w)
		})
	}
}

func (w *wire) cancel(id any) {
	w.t.Helper()
	w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%v,"reason":"changed my mind"}}`, id)
}

// operation asks what became of a call.
func (w *wire) operation(key string) (happened, refused bool) {
	w.t.Helper()
	res := w.result(w.call("rw_operation", map[string]any{"idempotency_key": key}))
	doc, _ := res["structuredContent"].(map[string]any)
	if doc["ok"] != true {
		w.t.Fatalf("%v", res)
	}
	return doc["happened"] == true, doc["refused"] == true
}

// TestACanceledCallChangesNothingAndIsNotAnswered: wherever it is in front of
// the commit point, it ends there, its context with it, and the calls behind
// it go on.
func TestACanceledCallChangesNothingAndIsNotAnswered(t *testing.T) {
	for _, at := range []string{"authorize", "verify"} {
		hook := newStopping(at)
		each(t, func() *rw.Options { return &rw.Options{Hooks: roles(hook)} }, func(t *testing.T, w *wire) {
			r := create("stop.txt", "x")
			r.IdempotencyKey = "k"
			id := w.call("rw_safe_write", r)
			soon(t, hook.inside, at)
			behind := w.call("rw_safe_write", create("behind.txt", "x"))
			w.cancel(id)
			if got := reasonOf(t, w.result(behind)); got != "ok" { // the very next reply
				t.Errorf("the call behind: %s", got)
			}
			if w.file("stop.txt") != "none" {
				t.Error("it was written")
			}
			w.nothingStaged(t)
			if happened, _ := w.operation("k"); happened {
				t.Error("the key says that it happened")
			}
			// The key is free, and the call can come again.
			hook.at = "nowhere"
			if got := reasonOf(t, w.result(w.call("rw_safe_write", r))); got != "ok" {
				t.Errorf("the same call again: %s", got)
			}
			hook.at = at
		})
	}
}

// TestTheCommitPointDecides: a call that is canceled at the beginning of any
// stage happens as a whole, with a row that tells, or not at all. In either
// case it is not answered.
func TestTheCommitPointDecides(t *testing.T) {
	behind := false
	for _, at := range []rw.Stage{
		rw.StageResolve, rw.StageAuthorize, rw.StageLock, rw.StagePrecondition, rw.StageCompose, rw.StageClassify, rw.StageStage,
		rw.StageRecord, rw.StagePublish, rw.StageSettle,
	} {
		behind = behind || at == rw.StageRecord
		t.Run(string(at), func(t *testing.T) {
			w := connect(t, nil).initialize(`{}`)
			inside, goOn := make(chan string, 1), make(chan struct{})
			var once atomic.Bool
			disarm := failpoint.Arm(func(point string) {
				if point == string(at) && !once.Swap(true) {
					inside <- point
					<-goOn
				}
			})
			defer disarm()
			r := create("a.txt", "whole")
			r.IdempotencyKey = "k"
			id := w.call("rw_safe_write", r)
			soon(t, inside, string(at))
			next := w.call("rw_safe_write", create("next.txt", "x"))
			w.cancel(id)
			w.result(w.call("rw_describe", map[string]any{})) // the cancellation was read
			close(goOn)
			if got := reasonOf(t, w.result(next)); got != "ok" {
				t.Errorf("the call behind: %s", got)
			}
			happened, _ := w.operation("k")
			if written := w.file("a.txt") == "whole"; written != behind || happened != behind {
				t.Errorf("%q, happened: %v", w.file("a.txt"), happened)
			}
			w.nothingStaged(t)
		})
	}
}

// TestAWaitingCallThatIsCanceledNeverBegins: no hook hears of it.
func TestAWaitingCallThatIsCanceledNeverBegins(t *testing.T) {
	hook := newStopping("authorize")
	each(t, func() *rw.Options { return &rw.Options{Hooks: roles(hook)} }, func(t *testing.T, w *wire) {
		hook.entered.Store(0)
		first := w.call("rw_safe_write", create("stop1.txt", "x"))
		soon(t, hook.inside, "the first call")
		second := w.call("rw_safe_write", create("stop2.txt", "x"))
		third := w.call("rw_safe_write", create("third.txt", "x"))
		w.cancel(second)
		w.cancel(first)
		if got := reasonOf(t, w.result(third)); got != "ok" {
			t.Errorf("%s", got)
		}
		if hook.entered.Load() != 1 || w.file("stop1.txt") != "none" || w.file("stop2.txt") != "none" {
			t.Errorf("%d calls began", hook.entered.Load())
		}
		if rows := w.rows(); rows != 2 { // the first, refused, and the third
			t.Errorf("%d rows", rows)
		}
	})
}

// TestOnlyTheCallThatIsMeantIsCanceled: the number 1, the text "1" and ids
// that nobody has are different things.
func TestOnlyTheCallThatIsMeantIsCanceled(t *testing.T) {
	hook := newStopping("verify")
	each(t, func() *rw.Options { return &rw.Options{Hooks: roles(hook)} }, func(t *testing.T, w *wire) {
		for i, c := range []struct {
			id, cancel string
			meant      bool
		}{
			{`1`, `1`, true}, {`1`, `"1"`, false}, {`"1"`, `1`, false}, {`"1"`, `"1"`, true}, {`7`, `7.0`, true}, {`100`, `1e2`, true},
			{`"é"`, `"\u00e9"`, true}, {`9007199254740993`, `9007199254740992`, false}, {`5`, `null`, false}, {`5`, `[5]`, false}, {`5`, `{"a":5}`, false}, {`5`, `6`, false},
		} {
			path := fmt.Sprintf("stop%d.txt", i)
			w.send(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"rw_safe_write","arguments":{"path":%q,"content":"x","mode":"create"}%s}}`, c.id, path, w.meta)
			soon(t, hook.inside, path)
			w.cancel(c.cancel)
			w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}`)
			w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`)
			if !c.meant {
				w.result(w.call("rw_describe", map[string]any{})) // it was read, and had no effect
				hook.goOn <- struct{}{}
				if m := w.read(); m["result"] == nil {
					t.Errorf("%s canceled by %s: %v", c.id, c.cancel, m)
				}
			}
			last := w.call("rw_safe_write", create(fmt.Sprintf("last%d.txt", i), "x"))
			w.result(last)
			if written := w.file(path) == "x"; written == c.meant {
				t.Errorf("%s canceled by %s: written %v", c.id, c.cancel, written)
			}
			w.cancel(last) // it is over
		}
	})
}

// TestACanceledQuestionIsWithdrawn: the user need not answer any more, the
// call is not answered either, and a late answer harms nobody.
func TestACanceledQuestionIsWithdrawn(t *testing.T) {
	t.Parallel()
	w := connect(t, &rw.Options{Hooks: roles(rw.Permission{AutoApprove: []string{"docs"}})}).initialize(`{"elicitation":{}}`)
	id := w.call("rw_safe_write", create("a.txt", "x"))
	q := w.message()
	if q["method"] != "elicitation/create" {
		t.Fatalf("%v", q)
	}
	w.cancel(id)
	m := w.message()
	if params, _ := m["params"].(map[string]any); m["method"] != "notifications/cancelled" || params["requestId"] != q["id"] {
		t.Errorf("%v", m)
	}
	w.send(`{"jsonrpc":"2.0","id":%q,"result":{"action":"accept","content":{"allow":true,"always":true}}}`, q["id"])
	if got := reasonOf(t, w.result(w.call("rw_safe_write", create("docs/b.txt", "x")))); got != "ok" || w.file("a.txt") != "none" {
		t.Errorf("%s", got)
	}
	// A modern client cancels by not coming back.
	w = connect(t, &rw.Options{Hooks: roles(rw.Permission{})}).modern(`{"elicitation":{}}`)
	pending(t, w.result(w.call("rw_safe_write", create("a.txt", "x"))))
	if w.rows() != 0 {
		t.Errorf("%d rows", w.rows())
	}
}

// TestAStreamHoldsNobodyUp: a request that stays open until the client ends it
// keeps no other from being answered, nor the server from ending.
func TestAStreamHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	w := connect(t, nil).modern(`{}`)
	listen := func(id int) {
		w.send(`{"jsonrpc":"2.0","id":%d,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["rw://journal"]}%s}}`, id, w.meta)
	}
	listen(900)
	listen(901)
	call := func() (others []any) {
		id := w.call("rw_safe_write", create(fmt.Sprint("f", w.next), "x"))
		for m := w.read(); m["id"] != float64(id); m = w.read() {
			others = append(others, m["id"])
		}
		return others
	}
	if early := call(); len(early) > 0 {
		t.Fatalf("nothing can be subscribed to: %v", early)
	}
	w.cancel(900)
	if late := call(); len(late) > 0 {
		t.Errorf("a canceled stream was answered: %v", late)
	}
	// The other one is open when the input ends.
}

// nothingStaged fails the test when a slot holds something.
func (w *wire) nothingStaged(t *testing.T) {
	t.Helper()
	left, _ := filepath.Glob(filepath.Join(place.At(w.dir), "staging", "*"))
	for _, p := range left {
		if st, err := os.Stat(p); err == nil && st.Size() > 0 {
			t.Errorf("left in staging: %s", p)
		}
	}
}
