package mcpserver

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// A panic in a tool, a prompt or a resource is answered and logged, so that one
// bad handler of a host ends neither the connection of others nor the process.
// Its value may contain content and is never reported.

// errPanicked is the only error that a client gets for a panic outside of tools.
var errPanicked = errors.New("internal error")

// caught is a handler whose panic becomes another answer.
func caught[Req, Res any](next func(context.Context, Req) (Res, error), panicked func() (Res, error)) func(context.Context, Req) (Res, error) {
	return func(ctx context.Context, req Req) (res Res, err error) {
		defer func() {
			if recover() != nil {
				res, err = panicked()
			}
		}()
		return next(ctx, req)
	}
}

// contain keeps the panics of handlers from leaving the server. It has to come
// before other middleware, which it then surrounds. log gets a record of each.
func contain(s *server.MCPServer, log func(what string)) {
	s.Use(func(next server.ToolHandlerFunc) server.ToolHandlerFunc {
		return caught(next, func() (*mcp.CallToolResult, error) {
			log("tool")
			return refused(s, toolbox.PanicError("call", false)), nil
		})
	})
	server.WithPromptHandlerMiddleware(func(next server.PromptHandlerFunc) server.PromptHandlerFunc {
		return caught(next, func() (*mcp.GetPromptResult, error) {
			log("prompt")
			return nil, errPanicked
		})
	})(s)
	server.WithResourceHandlerMiddleware(func(next server.ResourceHandlerFunc) server.ResourceHandlerFunc {
		return caught(next, func() ([]mcp.ResourceContents, error) {
			log("resource")
			return nil, errPanicked
		})
	})(s)
}

// refused is a refusal outside of any tool of ours.
func refused(s *server.MCPServer, e *rw.Error) *mcp.CallToolResult {
	if h := hostOf(s); h != nil {
		return h.result(h.box.Refuse("", e))
	}
	doc, err := schema.Encode(e.Envelope())
	if err != nil {
		doc = []byte(`{"ok":false}`)
	}
	res := mcp.NewToolResultStructured(json.RawMessage(doc), string(doc))
	res.IsError = true
	return res
}

// contained is the handler of one of our tools inside the wrapper of the host. Its
// panics become envelopes that name the tool.
func (h *host) contained(t ToolInfo, handler server.ToolHandlerFunc) server.ToolHandlerFunc {
	return caught(handler, func() (*mcp.CallToolResult, error) {
		h.logPanic(t.Stem)
		return h.result(h.box.Refuse(t.Stem, toolbox.PanicError(t.Stem, t.ReadOnly))), nil
	})
}

// hostField is where the server that New made keeps its host: in the tool that
// is never listed.
const hostField = "host"

// hostOf is the host of a server that [New] made, nil for other servers.
func hostOf(s *server.MCPServer) *host {
	t := s.GetTool(unknownTool)
	if t == nil || t.Tool.Meta == nil {
		return nil
	}
	h, _ := t.Tool.Meta.AdditionalFields[hostField].(*host)
	return h
}
