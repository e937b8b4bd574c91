package mcpserver

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/resilientwrite/resilientwrite/spec"
)

// effectIn is where a refusal says that the disk stands.
func effectIn(t *testing.T, doc []byte) string {
	t.Helper()
	if err := spec.ValidateEnvelope(doc); err != nil {
		t.Fatalf("%v: %s", err, doc)
	}
	var e struct {
		Context struct{ Effect string }
	}
	noErr(t, json.Unmarshal(doc, &e))
	return e.Context.Effect
}

// TestAPanicOfAWrapperTellsNoFalseEffect: around a tool that writes the effect
// is unknown, around one that only reads nothing has changed.
func TestAPanicOfAWrapperTellsNoFalseEffect(t *testing.T) {
	h := newHost(nil, &Options{Tier: Full, Wrap: func(ToolInfo, server.ToolHandlerFunc) server.ToolHandlerFunc {
		return func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) { panic("the secret content") }
	}})
	for _, tool := range h.box.All() {
		want := "unknown"
		if tool.ReadOnly {
			want = "none"
		}
		res := must(h.serverTool(tool).Handler(t.Context(), mcp.CallToolRequest{}))(t)
		doc := res.StructuredContent.(json.RawMessage)
		if got := effectIn(t, doc); got != want || strings.Contains(string(doc), "secret") || !strings.Contains(string(doc), tool.Name) {
			t.Errorf("%s: %s", tool.Name, doc)
		}
	}
}

// TestAPanicOfAHostToolTellsNoFalseEffect: what a tool of the host did before
// it panicked is unknown.
func TestAPanicOfAHostToolTellsNoFalseEffect(t *testing.T) {
	s := server.NewMCPServer("x", "1")
	contain(s, func(string) {})
	s.AddTool(mcp.NewTool("host_tool"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) { panic("x") })
	out := must(json.Marshal(s.HandleMessage(t.Context(), json.RawMessage(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"host_tool"}}`))))(t)
	var m struct {
		Result struct {
			Doc json.RawMessage `json:"structuredContent"`
		}
	}
	if json.Unmarshal(out, &m); len(m.Result.Doc) == 0 {
		t.Fatalf("%s", out)
	}
	if got := effectIn(t, m.Result.Doc); got != "unknown" {
		t.Errorf("%s: %s", got, out)
	}
}
