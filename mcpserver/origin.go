package mcpserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/resilientwrite/resilientwrite/mcpserver/internal/transport"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// thisProcess distinguishes sessions that have the same id in every process.
var thisProcess = rand.Text()

// origin describes where a call comes from: the name of the client, the connection, ""
// if the protocol has none, and the metadata of the client's host about the call. None
// of it is an argument of the tool.
func origin(ctx context.Context, meta *mcp.Meta) *toolbox.CallOpts {
	session := server.ClientSessionFromContext(ctx)
	o := &toolbox.CallOpts{Session: metaText(meta, "threadId"), CallID: metaText(meta, "callId", "claudecode/toolUseId")}
	o.Model, o.Turn, o.Trace = metaText(meta, "model"), metaText(meta, "turnId"), metaText(meta, "traceId")
	if parts := strings.Split(metaText(meta, "traceparent"), "-"); o.Trace == "" && len(parts) >= 4 { // of W3C Trace Context
		o.Trace = parts[1]
	}
	codex, _ := attached(meta, "x-codex-turn-metadata").(map[string]any)
	model, _ := codex["model"].(string)
	turn, _ := codex["turn_id"].(string)
	o.Model, o.Turn = cmp.Or(o.Model, model), cmp.Or(o.Turn, turn)
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

// metaText returns the first text that a host sent under one of these names. A value
// that is not a text counts as absent.
func metaText(meta *mcp.Meta, names ...string) string {
	for _, name := range names {
		if text, ok := attached(meta, name).(string); ok && text != "" {
			return text
		}
	}
	return ""
}
