package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
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
