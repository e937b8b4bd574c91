package mcpserver

import (
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// live is the features of a server besides its tools: resources, prompts, completions,
// and notifications.
type live struct {
	host  *host
	subs  *subscriptions
	sent  onceMessages
	roots rootsSeen
}

// accompany adds all of it to the server.
func (h *host) accompany(s *server.MCPServer, hooks *server.Hooks) {
	l := &live{host: h}
	h.live = l
	l.offerResources(s, hooks)
	l.offerPrompts(s, hooks)
	l.offerCompletions(s)
	l.offerUpdates(s, hooks)
	l.offerLogging(s, hooks)
	l.offerRoots(s, hooks)
	s.Use(l.aroundTools)
}

// prepared is the member of the metadata of a request in which a hook leaves its result
// for the handler. It is of a type of ours, which no value from outside has.
const prepared = "io.github.resilientwrite/prepared"

// attach sets a member of the metadata of a request.
func attach(meta **mcp.Meta, name string, value any) {
	if *meta == nil {
		*meta = &mcp.Meta{}
	}
	if (*meta).AdditionalFields == nil {
		(*meta).AdditionalFields = map[string]any{}
	}
	(*meta).AdditionalFields[name] = value
}

// attached returns a member of the metadata of a request.
func attached(meta *mcp.Meta, name string) any {
	if meta == nil {
		return nil
	}
	return meta.AdditionalFields[name]
}
