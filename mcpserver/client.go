package mcpserver

import (
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
)

// client is what a session was told by its other end.
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

func (c *client) SetClientInfo(info mcp.Implementation) {
	c.told.Lock()
	defer c.told.Unlock()
	c.info = info
}

func (c *client) GetClientCapabilities() mcp.ClientCapabilities {
	c.told.Lock()
	defer c.told.Unlock()
	return c.caps
}

func (c *client) SetClientCapabilities(caps mcp.ClientCapabilities) {
	c.told.Lock()
	defer c.told.Unlock()
	c.caps = caps
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
