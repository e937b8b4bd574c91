package toolbox

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/spec"
)

// effectOf is the state of the disk that a refusal reports.
func effectOf(t *testing.T, doc []byte) (reason, effect, hint string) {
	t.Helper()
	err := spec.ValidateEnvelope(doc)
	testbed.Require(t, err == nil, "%v: %s", err, doc)
	var e struct {
		Context struct{ Reason, Effect, Hint string }
	}
	testbed.NoErr(t, json.Unmarshal(doc, &e))
	return e.Context.Reason, e.Context.Effect, e.Context.Hint
}

type nothing struct{}

// TestAPanicOfAToolReportsNoFalseEffect: a tool that writes may have written when
// it panics, wherever that happens; a tool that only reads has changed nothing.
func TestAPanicOfAToolReportsNoFalseEffect(t *testing.T) {
	dir := t.TempDir()
	store := testbed.Must(rw.Open(t.Context(), dir, &rw.Options{Sync: rw.SyncOff}))(t)
	defer store.Close(t.Context())
	late := func(s *rw.Store, ctx context.Context, _ nothing) (nothing, error) {
		s.SafeWrite(ctx, rw.SafeWriteRequest{Path: "written", Content: []byte("x"), Mode: rw.ModeOverwrite})
		panic("the secret content")
	}
	box := newToolbox(store, []tool{
		bind("writes", writing, "Writes", late, "Writes."),
		bind("destroys", destructive, "Destroys", late, "Destroys."),
		bind("moves_on", cursor, "Moves on", late, "Moves on."),
		bind("reads", readOnly, "Reads", func(*rw.Store, context.Context, nothing) (nothing, error) { panic("x") }, "Reads."),
	}, (&Options{Tier: Full}).orDefaults())
	for _, of := range box.set.offers {
		a := box.Call(t.Context(), of.wire, json.RawMessage(`{}`), nil)
		want := "unknown"
		if of.name == "reads" {
			want = "none"
		}
		reason, effect, hint := effectOf(t, []byte(a.Text))
		testbed.Expect(t, !a.OK && reason == "internal_error" && effect == want && !strings.Contains(a.Text, "secret"), "%s: %s", of.name, a.Text)
		testbed.Expect(t, strings.Contains(hint, "may have been carried out") == (want == "unknown"), "%s: %s", of.name, hint)
	}
	_, err := os.Stat(filepath.Join(dir, "written"))
	testbed.Expect(t, err == nil, "nothing was written, so nothing was tried")
}

// TestAPanickingReceiptSinkIsNoRefusal: the file is written, and the reply says
// so.
func TestAPanickingReceiptSinkIsNoRefusal(t *testing.T) {
	dir := t.TempDir()
	receiptCount := 0
	store := testbed.Must(rw.Open(t.Context(), dir, &rw.Options{Sync: rw.SyncOff, ReceiptSink: func(rw.Receipt) { receiptCount++; panic("the secret content") }}))(t)
	defer store.Close(t.Context())
	box := New(store, &Options{Replies: FullReplies})
	if a := box.Call(t.Context(), "rw_safe_write", json.RawMessage(`{"path":"a","content":"b"}`), nil); !a.OK || receiptCount != 1 {
		t.Errorf("%d receipts, %s", receiptCount, a.Text)
	}
	a := box.Call(t.Context(), "rw_safe_write", json.RawMessage(`{"path":"a","content":"c"}`), nil)
	reason, effect, _ := effectOf(t, []byte(a.Text))
	testbed.Expect(t, !a.OK && reason == "file_already_exists" && effect == "none" && receiptCount == 2, "%d receipts, %s", receiptCount, a.Text)
	testbed.Holds(t, filepath.Join(dir, "a"), "b")
}

// TestDescribeReportsTheLimitOfCalls that is enforced, and none where there is
// none.
func TestDescribeReportsTheLimitOfCalls(t *testing.T) {
	store := testbed.Must(rw.Open(t.Context(), t.TempDir(), &rw.Options{Sync: rw.SyncOff}))(t)
	defer store.Close(t.Context())
	for rate, want := range map[int]int64{0: 1000, 7: 7, -1: 0} {
		box := New(store, &Options{Replies: FullReplies, CallsPerSecond: rate})
		doc := testbed.Decoded[struct{ Limits map[string]int64 }](t, []byte(box.Call(t.Context(), "rw_describe", nil, nil).Text))
		got, some := doc.Limits["calls_per_second"]
		testbed.Expect(t, got == want && some == (want > 0) && doc.Limits["calls_at_once"] == 2*want && doc.Limits["path_bytes"] != 0,
			"%d: %v", rate, doc.Limits)
		if rate == 7 { // as many as it says, and not one more
			synctest.Test(t, func(t *testing.T) { // where no time passes
				box.limit = newLimit(rate)
				n := int64(0)
				for box.Allow() {
					n++
				}
				testbed.Expect(t, n == doc.Limits["calls_at_once"] && !box.Call(t.Context(), "rw_describe", nil, nil).OK, "%d calls at once", n)
			})
		}
	}
}
