package mcpserver_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// list asks a server for its tools, as a client does.
func list(t testing.TB, s *server.MCPServer) []mcp.Tool {
	t.Helper()
	out := s.HandleMessage(ctx, json.RawMessage(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	res, ok := out.(mcp.JSONRPCResponse)
	if !ok {
		t.Fatalf("tools/list: %v", out)
	}
	data := must(json.Marshal(res.Result))(t)
	var doc struct{ Tools []mcp.Tool }
	noErr(t, json.Unmarshal(data, &doc))
	return doc.Tools
}

func names(tools []mcp.Tool) []string {
	var out []string
	for _, t := range tools {
		out = append(out, t.Name)
	}
	slices.Sort(out)
	return out
}

// TestHostChangesTools: a host renames, filters, wraps and adds.
func TestHostChangesTools(t *testing.T) {
	wrapped := 0
	s := mcpserver.New(openStore(t), &mcpserver.Options{Tier: mcpserver.Full,
		Filter: func(i mcpserver.ToolInfo) bool { return i.Name != "delete" },
		Rename: func(name string) string {
			switch name {
			case "rw_safe_write":
				return "write_file"
			case "rw_read":
				return "rw_edit" // taken
			case "rw_move":
				return "no spaces please"
			}
			return name
		},
		Wrap: func(i mcpserver.ToolInfo, next server.ToolHandlerFunc) server.ToolHandlerFunc {
			if i.Name != "edit" {
				return next
			}
			return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				wrapped++
				return next(ctx, req)
			}
		},
	})
	s.AddTool(mcp.NewTool("host_tool", mcp.WithDescription("of the host")), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultStructured(map[string]any{"host": req.GetString("name", "")}, "{}"), nil
	})
	got := names(list(t, s))
	for _, want := range []string{"write_file", "rw_read", "rw_edit", "rw_move", "host_tool"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not listed: %v", want, got)
		}
	}
	for _, gone := range []string{"rw_safe_write", "rw_delete", "rw_unknown"} {
		if slices.Contains(got, gone) {
			t.Errorf("%s is listed", gone)
		}
	}
	for _, name := range []string{"write_file", "rw_safe_write", "rw.safe_write"} {
		if doc, isError := reply(t, s, name, json.RawMessage(`{"path":"a.txt","content":"x","mode":"overwrite"}`)); isError {
			t.Errorf("%s: %s", name, doc)
		}
	}
	if doc, _ := reply(t, s, "host_tool", json.RawMessage(`{"name":"argument of the host"}`)); !strings.Contains(string(doc), "argument of the host") {
		t.Errorf("the host's tool: %s", doc)
	}
	if reply(t, s, "rw_edit", json.RawMessage(`{}`)); wrapped != 1 {
		t.Errorf("wrapped %d times", wrapped)
	}
	doc, isError := reply(t, s, "rw_delete", json.RawMessage(`{"path":"a.txt"}`))
	if !isError || !strings.Contains(string(doc), "unknown_tool") {
		t.Errorf("a filtered tool: %s", doc)
	}
	if doc, _ := reply(t, s, "write_file", json.RawMessage(`{"path":"a.txt","content":"y"}`)); !strings.Contains(string(doc), `"tool":"write_file"`) {
		t.Errorf("the envelope has another name: %s", doc)
	}
}

// TestToolsForAnotherServer: our tools work in a server that is not ours.
func TestToolsForAnotherServer(t *testing.T) {
	s := server.NewMCPServer("somebody else's", "1")
	s.AddTools(mcpserver.Tools(openStore(t), &mcpserver.Options{Tier: mcpserver.Core})...)
	if got := names(list(t, s)); len(got) != 7 {
		t.Errorf("%v", got)
	}
	if doc, isError := reply(t, s, "rw_safe_write", json.RawMessage(`{"path":"a","content":"x"}`)); isError {
		t.Errorf("%s", doc)
	}
}
