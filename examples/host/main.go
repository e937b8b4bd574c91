// Host is an MCP server of another product that includes our tools: a ticket system
// whose agents also write files. It leaves out some of the tools, renames one,
// wraps all tools that change something with its own check, and adds a tool that
// has nothing to do with files.
//
// Run it with go run ./examples/host to see it called in process, or serve a
// directory to an MCP client with go run ./examples/host -serve DIR
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/examples/internal/demo"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

func main() {
	dir := flag.String("serve", "", "serve this directory on standard input and output")
	flag.Parse()
	ctx := context.Background()
	if *dir != "" {
		if err := serve(ctx, *dir, os.Stdin, os.Stdout); err != nil {
			log.Fatal(err)
		}
		return
	}
	demo.Main("host", func(out io.Writer, dir string) error { return run(ctx, out, dir) })
}

// tickets is the domain of the host: at most one ticket is open.
type tickets struct {
	open atomic.Pointer[string]
}

// newServer returns the server of the host, with its own name, version and
// additional tools.
func newServer(store *rw.Store, t *tickets) *server.MCPServer {
	s := server.NewMCPServer("acme-tickets", "2.3.0", server.WithToolCapabilities(false), server.WithInstructions(mcpserver.Instructions))
	s.AddTool(mcp.NewTool("ticket_open",
		mcp.WithDescription("Opens a ticket. Files can be changed while one is open."),
		mcp.WithString("id", mcp.Required(), mcp.Description("Number of the ticket."))), t.handleOpen)
	s.AddTools(mcpserver.Tools(store, &mcpserver.Options{
		Tier:    mcpserver.Core,
		Replies: mcpserver.FullReplies, // the client of this example is a program, which reads structured content
		Filter:  func(tool mcpserver.ToolInfo) bool { return tool.Name != "undo" && tool.Name != "tx" },
		Rename: func(name string) string {
			if name == "rw_safe_write" {
				return "acme_write_file"
			}
			return name
		},
		Wrap: t.whileOpen,
	})...)
	return s
}

// handleOpen implements the tool of the host.
func (t *tickets) handleOpen(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	id, err := req.RequireString("id")
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	t.open.Store(&id)
	return mcp.NewToolResultText("ticket " + id + " is open"), nil
}

// whileOpen lets tools change something only while a ticket is open. Its
// refusal has the form of all refusals, so that an agent sees one format.
func (t *tickets) whileOpen(tool mcpserver.ToolInfo, next server.ToolHandlerFunc) server.ToolHandlerFunc {
	if tool.ReadOnly {
		return next
	}
	return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if t.open.Load() == nil {
			return refuse(rw.NewError(tool.Name, rw.ErrDenied, "no ticket is open; call ticket_open first", nil))
		}
		return next(ctx, req)
	}
}

// refuse returns an error as a reply.
func refuse(e *rw.Error) (*mcp.CallToolResult, error) {
	doc, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	res := mcp.NewToolResultStructured(json.RawMessage(doc), string(doc))
	res.IsError = true
	return res, nil
}

// serve answers an MCP client until it disconnects. Writes that have begun are
// completed: closing the store waits for commits in progress.
func serve(ctx context.Context, dir string, in io.Reader, out io.Writer) error {
	store, err := rw.Open(ctx, dir, &rw.Options{Caller: "acme"})
	if err != nil {
		return err
	}
	err = mcpserver.ServeStdio(ctx, newServer(store, &tickets{}), in, out)
	return errors.Join(err, store.Close(context.WithoutCancel(ctx)))
}

// run plays a client of the server.
func run(ctx context.Context, out io.Writer, dir string) error {
	store, err := rw.Open(ctx, dir, &rw.Options{Caller: "acme"})
	if err != nil {
		return err
	}
	defer store.Close(ctx)
	c, err := client.NewInProcessClient(newServer(store, &tickets{}))
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Start(ctx); err != nil {
		return err
	}
	var hello mcp.InitializeRequest
	hello.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	hello.Params.ClientInfo = mcp.Implementation{Name: "agent", Version: "1"}
	welcome, err := c.Initialize(ctx, hello)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s %s lists\n", welcome.ServerInfo.Name, welcome.ServerInfo.Version)
	list, err := c.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return err
	}
	slices.SortFunc(list.Tools, func(a, b mcp.Tool) int { return strings.Compare(a.Name, b.Name) })
	for _, tool := range list.Tools {
		fmt.Fprintf(out, "  %-17s %s\n", tool.Name, tool.Title)
	}
	fmt.Fprintln(out, "an agent calls")
	for _, step := range []struct {
		tool string
		args map[string]any
	}{
		{"acme_write_file", map[string]any{"path": "fix.md", "content": "# Fix\n"}},
		{"rw_read", map[string]any{"path": "fix.md"}},
		{"ticket_open", map[string]any{"id": "4711"}},
		{"acme_write_file", map[string]any{"path": "fix.md", "content": "# Fix\n"}},
		{"rw_edit", map[string]any{"path": "fix.md", "edits": []any{map[string]any{"old": "# Fix", "new": "# Fixed"}}}},
		{"rw_undo", nil},
	} {
		fmt.Fprintf(out, "  %-17s %s\n", step.tool, answer(ctx, c, step.tool, step.args))
	}
	return nil
}

// answer calls a tool and returns one line about the reply.
func answer(ctx context.Context, c *client.Client, tool string, args map[string]any) string {
	var req mcp.CallToolRequest
	req.Params.Name, req.Params.Arguments = tool, args
	res, err := c.CallTool(ctx, req)
	if err != nil {
		return "protocol error: the server has no such tool"
	}
	text := res.Content[0].(mcp.TextContent).Text
	var a struct {
		Status, Path string
		Context      struct{ Reason, Hint string }
	}
	if json.Unmarshal([]byte(text), &a) != nil { // a tool of the host
		return text
	}
	if res.IsError {
		return a.Context.Reason + ": " + a.Context.Hint
	}
	return strings.TrimSpace(a.Status + " " + a.Path)
}
