package mcpserver

import (
	"context"
	"crypto/rand"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/resilientwrite/resilientwrite/mcpserver/internal/transport"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// thisProcess distinguishes sessions that have the same id in every process.
var thisProcess = rand.Text()

// origin is where a call comes from: what the client calls itself, the
// connection, "" where the protocol has none, and what the client's host says of
// the call. Nothing of it is an argument of the tool.
func origin(ctx context.Context, meta *mcp.Meta) *toolbox.CallOpts {
	session := server.ClientSessionFromContext(ctx)
	o := &toolbox.CallOpts{Session: metaText(meta, "threadId"), CallID: metaText(meta, "callId", "claudecode/toolUseId")}
	if s, ok := session.(server.SessionWithClientInfo); ok {
		info := s.GetClientInfo()
		o.Client, o.Version = info.Name, info.Version
	}
	if session != nil && transport.Unique(session) {
		o.Connection = session.SessionID()
	} else if session != nil && session.SessionID() != "" { // of a transport that the host brought
		o.Connection = thisProcess + session.SessionID()
	}
	return o
}

// metaText is the first text that a host sent under one of these names. What
// is no text counts as absent.
func metaText(meta *mcp.Meta, names ...string) string {
	if meta == nil {
		return ""
	}
	for _, name := range names {
		if text, ok := meta.AdditionalFields[name].(string); ok && text != "" {
			return text
		}
	}
	return ""
}
