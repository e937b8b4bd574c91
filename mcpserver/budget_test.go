package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/mcpserver"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// inProcess is the tools of a store without a protocol.
type inProcess struct{ box *toolbox.Toolbox }

func newInProcess(store *rw.Store) inProcess {
	return inProcess{toolbox.New(store, &toolbox.Options{Caller: "agent", Tier: toolbox.Full})}
}

func (b inProcess) Call(ctx context.Context, tool string, args json.RawMessage) (json.RawMessage, bool) {
	a := b.box.Call(ctx, tool, args, nil)
	return json.RawMessage(a.Text), a.OK
}

// box is a store and its tools in process.
func box(t *testing.T, opts *rw.Options) (*rw.Store, inProcess, string) {
	t.Helper()
	store, dir := storeIn(t, opts)
	return store, newInProcess(store), dir
}

// refusalOf returns the reason of a refusal, and how many attempts are left.
func refusalOf(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var doc struct {
		Budget  int `json:"retry_budget"`
		Context struct{ Reason string }
	}
	noErr(t, json.Unmarshal(raw, &doc))
	return fmt.Sprint(doc.Context.Reason, " ", doc.Budget)
}

// countsDown makes one call five times and wants the budget to end.
func countsDown(t *testing.T, reason string, call func() json.RawMessage) {
	t.Helper()
	want := []string{reason + " 2", reason + " 1", reason + " 0", "retry_exhausted 0", "retry_exhausted 0"}
	for i := range want {
		equal(t, refusalOf(t, call()), want[i], "attempt ", i+1)
	}
}

// wrong are calls whose arguments no verb ever sees.
var wrong = []struct{ tool, args, reason string }{
	{"rw_safe_write", `{"path":"a.txt","bogus":1}`, "unknown_argument"},
	{"rw_safe_write", `{"path":"a.txt"}`, "missing_content"},
	{"rw_safe_write", `{"path":"a.txt","content":5}`, "invalid_argument"},
	{"rw_safe_write", `{"path":"a.txt","content":"x","mode":"ovrwrite"}`, "invalid_argument"},
	{"rw_read", `{"path":7}`, "invalid_argument"},
	{"rw_read", `{"path":"a.txt","dry_run":true}`, "unknown_argument"}, // it has none
	{"rw_read", `[]`, "invalid_argument"},
	{"rw_made_up", `{}`, "unknown_tool"},
}

// TestWrongArgumentsHaveARetryBudget (issue 3): what is refused before any verb
// runs counts down as a failure of the verb does, changes nothing, and ends
// with the answer that still says what is wrong.
func TestWrongArgumentsHaveARetryBudget(t *testing.T) {
	t.Parallel()
	_, b, dir := box(t, nil)
	for _, c := range wrong {
		t.Run(c.tool+c.args, func(t *testing.T) {
			countsDown(t, c.reason, func() json.RawMessage {
				raw, ok := b.Call(ctx, c.tool, []byte(c.args))
				if ok {
					t.Fatalf("%s", raw)
				}
				return raw
			})
		})
	}
	raw, _ := b.Call(ctx, "rw_safe_write", []byte(wrong[0].args))
	var doc struct{ Context map[string]any }
	noErr(t, json.Unmarshal(raw, &doc))
	last, _ := doc.Context["last_error"].(map[string]any)
	if doc.Context["argument"] != "bogus" || doc.Context["problem"] != "unknown" || last["reason"] != "unknown_argument" {
		t.Errorf("the reason is not reported any more: %s", raw)
	}
	if _, err := os.Stat(filepath.Join(dir, "a.txt")); err == nil {
		t.Error("a file was written")
	}
}

// TestWrongArgumentsCountOnEveryTransport: each counts down, and what one has
// spent is spent for all, because the Store counts.
func TestWrongArgumentsCountOnEveryTransport(t *testing.T) {
	t.Parallel()
	s := newSite(t, mcpserver.HTTPOptions{SSE: true})
	box := newInProcess(s.store)
	callers := map[string]caller{
		"session": s.sessionCaller("a"), "modern": s.modernCaller("b"), "sse": s.sseCaller(), "stdio": s.stdioCaller(),
		"in process": func(_ int, tool string, args any) (doc map[string]any) {
			raw, _ := box.Call(ctx, tool, []byte(asJSON(args)))
			json.Unmarshal(raw, &doc)
			return doc
		},
	}
	for name, call := range callers {
		for _, tool := range []string{"rw_safe_write", "rw_made_up_" + name} {
			id, reason := 10, "invalid_argument"
			if tool != "rw_safe_write" {
				id, reason = 20, "unknown_tool"
			}
			args := map[string]any{"path": name + ".txt", "content": "x", "mode": "ovrwrite"}
			t.Run(name+" "+tool, func(t *testing.T) {
				countsDown(t, reason, func() json.RawMessage {
					id++
					return json.RawMessage(asJSON(call(id, tool, args)))
				})
			})
			for other, call := range callers {
				equal(t, refusalOf(t, json.RawMessage(asJSON(call(30+len(other)+id, tool, args)))), "retry_exhausted 0", other, ", spent over ", name)
			}
		}
	}
}

// TestWrongDryRunsDoNotCount, as no dry run does.
func TestWrongDryRunsDoNotCount(t *testing.T) {
	t.Parallel()
	_, b, _ := box(t, nil)
	for range 6 {
		raw, _ := b.Call(ctx, "rw_safe_write", []byte(`{"path":"a.txt","content":5,"dry_run":true}`))
		mustEqual(t, refusalOf(t, raw), "invalid_argument 3")
	}
}
