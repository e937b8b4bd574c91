package mcpserver_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// hostile adds a tool, a prompt, a resource and a template to a server, all of
// which panic with content.
func hostile(s *server.MCPServer) {
	s.AddTool(mcp.NewTool("host_tool"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) { panic("the secret content") })
	s.AddTool(mcp.NewTool("host_later"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.SendNotificationToClient(ctx, "notifications/note", nil) // the reply has begun
		panic("the secret content")
	})
	s.AddPrompt(mcp.NewPrompt("host_prompt"), func(context.Context, mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		panic(fmt.Errorf("the secret %s", "content"))
	})
	resource := func(_ context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		return []mcp.ResourceContents{}[len(r.Params.URI):], nil
	}
	s.AddResource(mcp.NewResource("host://one", "one"), resource)
	s.AddResourceTemplate(mcp.NewResourceTemplate("host://many/{name}", "many"), resource)
	s.AddNotificationHandler("notifications/host", func(context.Context, mcp.JSONRPCNotification) { panic("the secret content") })
}

// TestAPanicOfTheHostIsAnswered: whatever a host adds may panic, over every
// transport and in both eras. The request is answered with an error, the log
// tells of it without content, and the next call works.
func TestAPanicOfTheHostIsAnswered(t *testing.T) {
	eachPeer(t, func(t *testing.T, connect func(*server.MCPServer) *peer) {
		logs := &logBuffer{}
		s := mcpserver.New(openStore(t), &mcpserver.Options{Tier: mcpserver.Full,
			Logger: slog.New(slog.NewTextHandler(logs, nil)),
			Wrap: func(i mcpserver.ToolInfo, next server.ToolHandlerFunc) server.ToolHandlerFunc {
				if i.Name != "read" {
					return next
				}
				return func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) { panic("the secret content") }
			},
		})
		hostile(s)
		p := connect(s)
		told := ""
		for _, name := range []string{"host_tool", "host_later", "rw_read"} {
			res := p.tool(name, map[string]any{"path": "a"}, nil)
			told += fmt.Sprint(res)
			doc, _ := res["structuredContent"].(map[string]any)
			about, _ := doc["context"].(map[string]any)
			if res["isError"] != true || about["reason"] != "internal_error" || name == "rw_read" && about["tool"] != name {
				t.Errorf("%s: %v", name, res)
			}
		}
		for method, params := range map[string]map[string]any{
			"prompts/get": {"name": "host_prompt"}, "resources/read": {"uri": "host://one"},
		} {
			result, problem := p.ask(method, params)
			told += fmt.Sprint(problem)
			if result != nil || problem["code"] != float64(mcp.INTERNAL_ERROR) {
				t.Errorf("%s: %v %v", method, result, problem)
			}
		}
		if _, problem := p.ask("resources/read", map[string]any{"uri": "host://many/x"}); problem == nil {
			t.Error("the template answered")
		}
		if strings.Contains(told+logs.String(), "secret") || !strings.Contains(t.Name(), "/http") && strings.Count(logs.String(), "panicked") < 6 { // that of HTTP has a logger of its own
			t.Errorf("%s\n%s", told, logs)
		}
		if doc := p.tool("rw_describe", map[string]any{}, nil); doc["isError"] == true {
			t.Errorf("the next call: %v", doc)
		}
	})
}

// TestAPanicOutsideOfHandlersIsAnswered: over stdio, a panic of a notification
// handler or of a filter costs its own message and nothing else.
func TestAPanicOutsideOfHandlersIsAnswered(t *testing.T) {
	logs := &logBuffer{}
	s := mcpserver.New(openStore(t), &mcpserver.Options{Tier: mcpserver.Full, Logger: slog.New(slog.NewTextHandler(logs, nil))})
	hostile(s)
	server.WithPromptFilter(func(context.Context, []mcp.Prompt) []mcp.Prompt { panic("the secret content") })(s)
	in := `{"jsonrpc":"2.0","method":"notifications/host"}
{"jsonrpc":"2.0","id":12345678901234567,"method":"prompts/list"}
{"jsonrpc":"2.0","id":"after","method":"tools/call","params":{"name":"rw_safe_write","arguments":{"path":"a","content":"b"}}}
`
	var out strings.Builder
	noErr(t, mcpserver.ServeStdio(ctx, s, strings.NewReader(in), &out))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"id":12345678901234567,"error":{"code":-32603`) || !strings.Contains(lines[1], `"ok":true`) {
		t.Errorf("%s", out.String())
	}
	if strings.Contains(out.String()+logs.String(), "secret") || strings.Count(logs.String(), "panicked") != 2 {
		t.Errorf("%s\n%s", out.String(), logs)
	}
}

// TestAServerOfSomebodyElseSurvivesPanicsToo: NewHTTP takes any server, and
// our tools in it contain what the host puts around them.
func TestAServerOfSomebodyElseSurvivesPanicsToo(t *testing.T) {
	s := server.NewMCPServer("somebody else's", "1")
	s.AddTools(mcpserver.Tools(openStore(t), &mcpserver.Options{Tier: mcpserver.Full, Wrap: func(mcpserver.ToolInfo, server.ToolHandlerFunc) server.ToolHandlerFunc {
		return func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) { panic("the secret content") }
	}})...)
	doc, isError := reply(t, s, "rw_read", []byte(`{}`))
	if !isError || !strings.Contains(string(doc), "internal_error") || strings.Contains(string(doc), "secret") {
		t.Errorf("%s", doc)
	}
	hostile(s)
	h := must(mcpserver.NewHTTP(s, &mcpserver.HTTPOptions{NoAuth: true, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}))(t)
	defer h.Shutdown(ctx)
	for _, m := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"host_prompt"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"host://one"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"host_tool"}}`,
	} {
		got := fmt.Sprint(jsonOf(t, s.HandleMessage(ctx, []byte(m))))
		if !strings.Contains(got, "internal") || strings.Contains(got, "secret") {
			t.Errorf("%s", got)
		}
	}
}
