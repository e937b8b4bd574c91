package mcpserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
)

// lasting is a session of ours, which is one client for as long as it is
// connected.
type lasting interface{ label() string }

// labelOf names a session in the journal. Its id would let a reader of the
// journal speak for the client, so that it does not stand there.
func labelOf(id string) string {
	sum := sha256.Sum256([]byte("resilientwrite session\x00" + id))
	return "mcp-" + hex.EncodeToString(sum[:8])
}

func (s *stdioSession) label() string { return labelOf(s.id) }
func (s *httpSession) label() string  { return labelOf(s.id) }

// named is ctx with who makes the call: what the client calls itself, and the
// session it makes the call in, "" where the protocol has none.
func named(ctx context.Context) context.Context {
	session := ""
	if s, ok := server.ClientSessionFromContext(ctx).(lasting); ok {
		session = s.label()
	}
	return rw.WithCaller(ctx, clientName(ctx), session)
}

// clientName is what the client calls itself.
func clientName(ctx context.Context) string {
	if s, ok := server.ClientSessionFromContext(ctx).(server.SessionWithClientInfo); ok {
		return s.GetClientInfo().Name
	}
	return ""
}
