package mcpserver

import (
	"encoding/json"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	maxClientText = 200     // bytes of a name or version that are kept
	maxExtras     = 4 << 10 // bytes of JSON of capabilities that are not ours
)

// client holds the facts about the other end of a session that are used. A
// client may send much more, which would be kept for the life of the session.
type client struct {
	told  sync.Mutex
	info  mcp.Implementation
	caps  mcp.ClientCapabilities
	level mcp.LoggingLevel
}

func (c *client) GetClientInfo() mcp.Implementation {
	c.told.Lock()
	defer c.told.Unlock()
	return c.info
}

// SetClientInfo keeps the name and the version, cut.
func (c *client) SetClientInfo(info mcp.Implementation) {
	c.told.Lock()
	defer c.told.Unlock()
	c.info = mcp.Implementation{Name: cut(info.Name), Version: cut(info.Version)}
}

// cut is the beginning of a text, which does not keep the rest in memory.
func cut(text string) string {
	if len(text) > maxClientText {
		text = text[:maxClientText]
	}
	return strings.Clone(strings.ToValidUTF8(text, ""))
}

func (c *client) GetClientCapabilities() mcp.ClientCapabilities {
	c.told.Lock()
	defer c.told.Unlock()
	return c.caps
}

// SetClientCapabilities keeps those of the protocol, and others that are short.
func (c *client) SetClientCapabilities(caps mcp.ClientCapabilities) {
	c.told.Lock()
	defer c.told.Unlock()
	caps.Extensions, caps.Experimental = ifShort(caps.Extensions), ifShort(caps.Experimental)
	c.caps = caps
}

func ifShort(extras map[string]any) map[string]any {
	if doc, err := json.Marshal(extras); err != nil || len(doc) > maxExtras {
		return nil
	}
	return extras
}

func (c *client) GetLogLevel() mcp.LoggingLevel {
	c.told.Lock()
	defer c.told.Unlock()
	return c.level
}

func (c *client) SetLogLevel(level mcp.LoggingLevel) {
	c.told.Lock()
	defer c.told.Unlock()
	c.level = level
}
