package mcpserver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/mcpserver/internal/transport"
)

// labelOf names a session in the journal. The session id itself is not
// recorded, because a reader of the journal could use it to act as the client.
func labelOf(id string) string {
	sum := sha256.Sum256([]byte("resilientwrite session\x00" + id))
	return "mcp-" + hex.EncodeToString(sum[:8])
}

// thisProcess distinguishes sessions that have the same id in every process.
var thisProcess = rand.Text()

// named is ctx with where the call comes from: what the client calls itself,
// the connection, "" where the protocol has none, and what the client's host
// says of the call. Nothing of it is an argument of the tool.
func named(ctx context.Context, meta *mcp.Meta) context.Context {
	session := server.ClientSessionFromContext(ctx)
	var via rw.Via
	if s, ok := session.(server.SessionWithClientInfo); ok {
		info := s.GetClientInfo()
		via.Client, via.Version = info.Name, info.Version
	}
	if session != nil && transport.Unique(session) {
		via.Connection = labelOf(session.SessionID())
	} else if session != nil && session.SessionID() != "" { // of a transport that the host brought
		via.Connection = labelOf(thisProcess + session.SessionID())
	}
	via.Thread, via.Call = metaText(meta, "threadId"), metaText(meta, "callId", "claudecode/toolUseId")
	ctx = context.WithValue(ctx, hostCallKey{}, hostCall{via.Client, via.Thread, via.Call})
	if session == nil && via.Thread == "" { // the host calls, and has nothing to say of itself
		return ctx
	}
	return rw.WithVia(ctx, via)
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
