package main

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

// TestFormsOfReplies checks what the binary lists and replies by default, and
// what its flags and its variable change.
func TestFormsOfReplies(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		args, env string
		tools     int
		full      bool
	}{
		{"", "", 12, false},
		{"--tier core", "", 7, false},
		{"--tier full", "", 46, true},
		{"--dotted-names", "", 12, true},
		{"--replies full", "", 12, true},
		{"--tier full --replies brief", "", 46, false},
		{"", "full", 12, true},
		{"--replies brief", "full", 12, false},
		{"--tools scratch_put,rw_checkpoint", "", 14, false},
	} {
		env := []string{"RW_WORKSPACE=" + t.TempDir(), "RW_SYNC=off", "PATH=" + os.Getenv("PATH"), "RW_REPLIES=" + row.env}
		c := must(client.NewStdioMCPClient(build(t), env, strings.Fields(row.args)...))(t)
		var hello mcp.InitializeRequest
		hello.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
		must(c.Initialize(context.Background(), hello))(t)
		list, err := c.ListTools(context.Background(), mcp.ListToolsRequest{})
		require(t, err == nil && len(list.Tools) == row.tools, "%s: %d tools, %v", row.args, len(list.Tools), err)
		doc, err := json.Marshal(list)
		expect(t, err == nil && strings.Contains(string(doc), `"outputSchema"`) == row.full,
			"%s: schemas of replies are listed: %t (%v)", row.args, !row.full, err)
		for _, want := range []bool{true, false} { // the second is refused
			var call mcp.CallToolRequest
			call.Params.Name, call.Params.Arguments = "rw_safe_write", map[string]any{"path": "a.txt", "content": "x"}
			res := must(c.CallTool(context.Background(), call))(t)
			text := res.Content[0].(mcp.TextContent).Text
			if (res.StructuredContent != nil) != row.full || res.IsError == want || strings.Contains(text, `"receipt"`) != row.full ||
				res.Meta == nil || res.Meta.AdditionalFields["io.github.resilientwrite/receipt"] == nil {
				t.Errorf("%s %s: %s %v", row.args, row.env, text, res.Meta)
			}
		}
		c.Close()
	}
}
