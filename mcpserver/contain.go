package mcpserver

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
)

// A panic in a tool, a prompt or a resource is answered and logged, so that one
// bad handler of a host ends neither the connection of others nor the process.
// Its value may contain content and is never reported.

// errPanicked is all that a client hears of a panic outside of tools.
var errPanicked = errors.New("internal error")

// contain keeps the panics of handlers from leaving the server. It has to come
// before other middleware, which it then surrounds. log gets a record of each.
func contain(s *server.MCPServer, log func(what string)) {
	s.Use(func(next server.ToolHandlerFunc) server.ToolHandlerFunc {
		return func(ctx context.Context, req mcp.CallToolRequest) (res *mcp.CallToolResult, err error) {
			defer func() {
				if recover() != nil {
					log("tool")
					res, err = refused(s, panicError("call", false)), nil
				}
			}()
			return next(ctx, req)
		}
	})
	server.WithPromptHandlerMiddleware(func(next server.PromptHandlerFunc) server.PromptHandlerFunc {
		return func(ctx context.Context, req mcp.GetPromptRequest) (res *mcp.GetPromptResult, err error) {
			defer func() {
				if recover() != nil {
					log("prompt")
					res, err = nil, errPanicked
				}
			}()
			return next(ctx, req)
		}
	})(s)
	server.WithResourceHandlerMiddleware(func(next server.ResourceHandlerFunc) server.ResourceHandlerFunc {
		return func(ctx context.Context, req mcp.ReadResourceRequest) (res []mcp.ResourceContents, err error) {
			defer func() {
				if recover() != nil {
					log("resource")
					res, err = nil, errPanicked
				}
			}()
			return next(ctx, req)
		}
	})(s)
}

// refused is a refusal outside of any tool of ours.
func refused(s *server.MCPServer, e *rw.Error) *mcp.CallToolResult {
	if h := hostOf(s); h != nil {
		return h.result(h.failure("", e))
	}
	doc, err := json.Marshal(e.Envelope())
	if err != nil {
		doc = []byte(`{"ok":false}`)
	}
	return result(reply{doc: doc, failed: true})
}

// panicError is what a caller gets for a panic in a tool. The effect is certain
// only for a tool that changes nothing: the panic may have come after the
// commit.
func panicError(tool string, readOnly bool) *rw.Error {
	e := rw.NewError(tool, rw.ErrInternal, "", nil)
	if !readOnly {
		e.Effect = rw.EffectUnknown
		e.Hint = "internal error; the call may have been carried out: check with rw_operation before you send it again, and report the error together with the call"
	}
	return e
}

// broken is the reply of a tool of ours that panicked.
func (of *offer) broken(h *host) reply {
	return h.failure(of.name, panicError(of.name, of.nature.readOnly))
}

// contained is the handler of a tool of ours inside what the host puts around
// it, whose panics are envelopes that name the tool.
func (of *offer) contained(h *host, handler server.ToolHandlerFunc) server.ToolHandlerFunc {
	return func(ctx context.Context, req mcp.CallToolRequest) (res *mcp.CallToolResult, err error) {
		defer func() {
			if v := recover(); v != nil {
				h.logPanic(of.name, v)
				res, err = h.result(of.broken(h)), nil
			}
		}()
		return handler(ctx, req)
	}
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
