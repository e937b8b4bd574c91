// Package rwgosdk adds the tools of a store to a server of the official Go MCP
// SDK.
package rwgosdk

import (
	"context"
	"crypto/rand"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/resilientwrite/resilientwrite/toolbox"
)

// AddTools adds the tools of the box to the server.
func AddTools(s *mcp.Server, box *toolbox.Toolbox) {
	server := rand.Text() // distinguishes connections of several servers, whose ids may be equal
	for _, t := range box.Tools() {
		s.AddTool(&mcp.Tool{
			Name: t.Name, Description: t.Description, InputSchema: t.Input,
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: t.ReadOnly, DestructiveHint: &t.Destructive, IdempotentHint: t.Idempotent},
		}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			opts := &toolbox.CallOpts{Connection: server + req.Session.ID()}
			if p := req.Session.InitializeParams(); p != nil && p.ClientInfo != nil {
				opts.Client, opts.Version = p.ClientInfo.Name, p.ClientInfo.Version
			}
			a := box.Call(ctx, t.Name, req.Params.Arguments, opts)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: a.Text}}, IsError: !a.OK}, nil
		})
	}
}
