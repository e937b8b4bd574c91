package mcpserver

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/spec"
)

// effectOf is where a refusal says that the disk stands.
func effectOf(t *testing.T, doc []byte) (reason, effect, hint string) {
	t.Helper()
	if err := spec.ValidateEnvelope(doc); err != nil {
		t.Fatalf("%v: %s", err, doc)
	}
	var e struct {
		Context struct{ Reason, Effect, Hint string }
	}
	if err := json.Unmarshal(doc, &e); err != nil {
		t.Fatal(err)
	}
	return e.Context.Reason, e.Context.Effect, e.Context.Hint
}

type nothing struct{}

// TestAPanicOfAToolTellsNoFalseEffect: a tool that writes may have written when
// it panics, wherever that happens; a tool that only reads has changed nothing.
func TestAPanicOfAToolTellsNoFalseEffect(t *testing.T) {
	dir := t.TempDir()
	store, err := rw.Open(t.Context(), dir, &rw.Options{Sync: rw.SyncOff})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close(t.Context())
	late := func(s *rw.Store, ctx context.Context, _ nothing) (nothing, error) {
		s.SafeWrite(ctx, rw.SafeWriteRequest{Path: "written", Content: "x", Mode: rw.ModeOverwrite})
		panic("the secret content")
	}
	o := Options{Tier: Full, Replies: FullReplies, Logger: slog.New(slog.DiscardHandler)}
	h := newHost(store, o)
	h.set = newToolset([]tool{
		bind("writes", writing, "Writes", late, "Writes."),
		bind("destroys", destructive, "Destroys", late, "Destroys."),
		bind("moves_on", cursor, "Moves on", late, "Moves on."),
		bind("reads", readOnly, "Reads", func(*rw.Store, context.Context, nothing) (nothing, error) { panic("x") }, "Reads."),
	}, o)
	box := &Toolbox{host: h, opts: o}
	wrapped := o
	wrapped.Wrap = func(i ToolInfo, next server.ToolHandlerFunc) server.ToolHandlerFunc {
		return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			next(ctx, req)
			panic("the secret content")
		}
	}
	for i := range h.set.offers {
		of := &h.set.offers[i]
		doc, ok := box.Call(t.Context(), of.wire, json.RawMessage(`{}`))
		around, _ := of.serverTool(h, wrapped).Handler(t.Context(), mcp.CallToolRequest{})
		for where, doc := range map[string][]byte{"inside": doc, "around": around.StructuredContent.(json.RawMessage)} {
			want := "unknown"
			if of.name == "reads" {
				want = "none"
			}
			reason, effect, hint := effectOf(t, doc)
			if ok || reason != "internal_error" || effect != want || strings.Contains(string(doc), "secret") {
				t.Errorf("%s %s: %s", of.name, where, doc)
			}
			if strings.Contains(hint, "may have been carried out") != (want == "unknown") {
				t.Errorf("%s %s: %s", of.name, where, hint)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "written")); err != nil {
		t.Error("nothing was written, so nothing was tried")
	}
}

// TestAPanicOfAHostToolTellsNoFalseEffect: what a tool of the host did before
// it panicked is unknown.
func TestAPanicOfAHostToolTellsNoFalseEffect(t *testing.T) {
	s := server.NewMCPServer("x", "1")
	contain(s, func(string) {})
	s.AddTool(mcp.NewTool("host_tool"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) { panic("x") })
	out, err := json.Marshal(s.HandleMessage(t.Context(), json.RawMessage(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"host_tool"}}`)))
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Result struct {
			Doc json.RawMessage `json:"structuredContent"`
		}
	}
	if json.Unmarshal(out, &m); len(m.Result.Doc) == 0 {
		t.Fatalf("%s", out)
	}
	if _, effect, _ := effectOf(t, m.Result.Doc); effect != "unknown" {
		t.Errorf("%s", out)
	}
}

// TestAPanickingReceiptSinkIsNoRefusal: the file is written, and the reply says
// so.
func TestAPanickingReceiptSinkIsNoRefusal(t *testing.T) {
	dir := t.TempDir()
	told := 0
	store, err := rw.Open(t.Context(), dir, &rw.Options{Sync: rw.SyncOff, ReceiptSink: func(rw.Receipt) { told++; panic("the secret content") }})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close(t.Context())
	box := NewToolbox(store, "", &Options{Replies: FullReplies})
	if doc, ok := box.Call(t.Context(), "rw_safe_write", json.RawMessage(`{"path":"a","content":"b"}`)); !ok || told != 1 {
		t.Errorf("%d receipts, %s", told, doc)
	}
	doc, ok := box.Call(t.Context(), "rw_safe_write", json.RawMessage(`{"path":"a","content":"c"}`))
	if reason, effect, _ := effectOf(t, doc); ok || reason != "file_already_exists" || effect != "none" || told != 2 {
		t.Errorf("%d receipts, %s", told, doc)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "a")); err != nil || string(data) != "b" {
		t.Errorf("%q %v", data, err)
	}
}

// TestDescribeTellsTheLimitOfCalls that is enforced, and none where there is
// none.
func TestDescribeTellsTheLimitOfCalls(t *testing.T) {
	store, err := rw.Open(t.Context(), t.TempDir(), &rw.Options{Sync: rw.SyncOff})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close(t.Context())
	for rate, want := range map[int]int64{0: 1000, 7: 7, -1: 0} {
		s := New(store, &Options{Replies: FullReplies, CallsPerSecond: rate})
		out, err := json.Marshal(s.HandleMessage(t.Context(), json.RawMessage(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rw_describe"}}`)))
		if err != nil {
			t.Fatal(err)
		}
		var m struct {
			Result struct {
				Doc struct{ Limits map[string]int64 } `json:"structuredContent"`
			}
		}
		json.Unmarshal(out, &m)
		got, some := m.Result.Doc.Limits["calls_per_second"]
		if got != want || some != (want > 0) || m.Result.Doc.Limits["calls_at_once"] != 2*want || m.Result.Doc.Limits["path_bytes"] == 0 {
			t.Errorf("%d: %v", rate, m.Result.Doc.Limits)
		}
		if rate == 7 { // as many as it says, and not one more
			limit := hostOf(s).limit
			*limit = *newBucket(rate)
			StopRefill(s)
			n := int64(0)
			for limit.take() {
				n++
			}
			if n != m.Result.Doc.Limits["calls_at_once"] {
				t.Errorf("%d calls at once", n)
			}
		}
	}
}
