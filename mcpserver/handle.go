package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// Handle answers one message. It differs from s.HandleMessage for calls of
// tools: their arguments go to the tool as the bytes that came, and past the
// decoders of the protocol, which read them several times and make a number
// they cannot hold an error of the protocol. Tools that the host added get
// their arguments as the protocol's decoders make them.
//
// A panic on the way, also in what the host added, is answered as an internal
// error and logged without its value, which may hold content.
func Handle(ctx context.Context, s *server.MCPServer, raw json.RawMessage) (reply mcp.JSONRPCMessage) {
	defer func() {
		if recover() != nil {
			reply = panicked(s, raw)
		}
	}()
	if slim, args, ok := withoutArguments(s, raw); ok {
		return s.HandleMessage(context.WithValue(ctx, argumentsKey{}, args), slim)
	}
	return s.HandleMessage(ctx, raw)
}

// panicked answers a message whose handling panicked. What awaits no reply
// gets none.
func panicked(s *server.MCPServer, raw json.RawMessage) mcp.JSONRPCMessage {
	var m struct {
		ID     any    `json:"id"`
		Method string `json:"method"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // the id goes back as it came
	known := d.Decode(&m) == nil
	if h := hostOf(s); h != nil {
		h.log.Error("a request panicked", "method", knownMethod(m.Method))
	}
	if known && m.ID == nil {
		return nil
	}
	return mcp.NewJSONRPCError(mcp.NewRequestId(m.ID), mcp.INTERNAL_ERROR, errPanicked.Error(), nil)
}

// knownMethod is a method as it may be logged: what a client makes up is not
// repeated.
func knownMethod(method string) string {
	switch mcp.MCPMethod(method) {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead, mcp.MethodCompletionComplete, mcp.MethodInitialize,
		mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodResourcesTemplatesList:
		return method
	}
	return "other"
}

type argumentsKey struct{}

// withoutArguments takes the arguments out of a tools/call to a server that
// [New] made: its hook gives them back to tools that are not ours.
func withoutArguments(s *server.MCPServer, raw json.RawMessage) (slim, args json.RawMessage, ok bool) {
	if s.GetTool(unknownTool) == nil {
		return nil, nil, false
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || string(m["method"]) != `"tools/call"` {
		return nil, nil, false
	}
	var params map[string]json.RawMessage
	if json.Unmarshal(m["params"], &params) != nil || len(params["arguments"]) == 0 {
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
