// Package transport carries messages between clients and a server of the Model
// Context Protocol: over standard input and output, over HTTP, and over SSE,
// which is deprecated. It does not know what the server offers.
package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
)

// Server is a server as its transports see it. All fields are required.
type Server struct {
	*server.MCPServer
	// Raw reports that the tools read their arguments with [Arguments]. A
	// call then goes to the protocol library without them.
	Raw bool
	// Writes reports whether a call of the tool may change something.
	Writes func(tool string) bool
	// Refusal is the reply to a call that was not made.
	Refusal func(*rw.Error) *mcp.CallToolResult
	// TooLarge is the refusal of a message of more than limit bytes.
	TooLarge func(limit int64) *rw.Error
	// Interrupted is the reply to a call that a shutdown canceled.
	Interrupted *rw.Error
	// Logger gets a record of each panic outside of handlers.
	Logger *slog.Logger
}

type argumentsKey struct{}

// Arguments returns the arguments of the call to which ctx belongs, as the
// bytes that came.
func Arguments(ctx context.Context) (args json.RawMessage, ok bool) {
	args, ok = ctx.Value(argumentsKey{}).(json.RawMessage)
	return args, ok
}

// Handle answers one message. A panic during the call is answered as an internal error
// and logged without its value, which may contain content.
func (s *Server) Handle(ctx context.Context, raw json.RawMessage) (reply mcp.JSONRPCMessage) {
	defer func() {
		if recover() != nil {
			reply = s.panicked(raw)
		}
	}()
	if slim, args, ok := s.split(raw); ok {
		return s.HandleMessage(context.WithValue(ctx, argumentsKey{}, args), slim)
	}
	return s.HandleMessage(ctx, raw)
}

// panicked answers a message whose handling panicked. A message that expects no reply
// gets none.
func (s *Server) panicked(raw json.RawMessage) mcp.JSONRPCMessage {
	m, err := decode(raw)
	s.Logger.Error("a request panicked", "method", knownMethod(m.Method))
	if err == nil && m.ID == nil {
		return nil
	}
	return *problem(goodID(m.ID), mcp.INTERNAL_ERROR, "internal error")
}

// knownMethod returns a method name for the log: names that a client invents are not
// repeated.
func knownMethod(method string) string {
	switch mcp.MCPMethod(method) {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead, mcp.MethodCompletionComplete, mcp.MethodInitialize,
		mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodResourcesTemplatesList:
		return method
	}
	return "other"
}

// split takes the arguments out of a call.
func (s *Server) split(raw json.RawMessage) (slim, args json.RawMessage, ok bool) {
	var m, params map[string]json.RawMessage
	var method mcp.MCPMethod // a client may write it as "tools\/call"
	if !s.Raw || json.Unmarshal(raw, &m) != nil || json.Unmarshal(m["method"], &method) != nil || method != mcp.MethodToolsCall ||
		json.Unmarshal(m["params"], &params) != nil || len(params["arguments"]) == 0 {
		return nil, nil, false
	}
	args = params["arguments"]
	delete(params, "arguments")
	var err error
	if m["params"], err = json.Marshal(params); err != nil {
		return nil, nil, false
	}
	slim, err = json.Marshal(m)
	return slim, args, err == nil
}

func isObject(doc []byte) bool {
	doc = bytes.TrimLeft(doc, " \t\r\n")
	return len(doc) > 0 && doc[0] == '{'
}
