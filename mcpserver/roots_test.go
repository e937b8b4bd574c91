package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

func rootsOf(dirs ...string) any {
	list := []any{}
	for _, d := range dirs {
		if !strings.Contains(d, ":") {
			d = (&url.URL{Scheme: "file", Path: d}).String()
		}
		list = append(list, map[string]any{"uri": d, "name": "root"})
	}
	return map[string]any{"roots": list}
}

func (p *peer) answerRoots(roots any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roots = roots
}

// saysOutside reports whether describe warns of the roots.
func saysOutside(p *peer) bool {
	return strings.Contains(fmt.Sprint(p.tool("rw_describe", map[string]any{}, nil)["structuredContent"]), rw.WarnOutsideRoots)
}

// TestRootsOnlyWarn: the workspace stays what it is; a client that works
// elsewhere hears of it once, and describe says so.
func TestRootsOnlyWarn(t *testing.T) {
	s, dir := storeIn(t, nil)
	elsewhere := t.TempDir()
	srv := mcpserver.New(s, full)
	for name, c := range map[string]struct {
		roots any
		warns bool
	}{
		"the workspace":            {rootsOf(dir), false},
		"a directory above it":     {rootsOf(elsewhere, filepath.Dir(dir)), false},
		"elsewhere":                {rootsOf(elsewhere), true},
		"a name that begins alike": {rootsOf(dir[:len(dir)-1], dir+"x"), true},
		"none":                     {rootsOf(), false},
		"not local":                {rootsOf("https://example.com/x", "file://host/x", "file:x", "rw://journal"), false},
		"no roots at all":          {map[string]any{"roots": "no"}, false},
		"no answer":                {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := &peer{t: t, caps: `{"roots":{"listChanged":true}}`}
			p.roots = c.roots
			p.stdio(srv)
			p.begin()
			p.must("logging/setLevel", map[string]any{"level": "warning"})
			p.wait("the roots are asked for", func() bool { return len(p.got("roots/list")) == 1 })
			if !c.warns {
				p.answerRoots(rootsOf(dir))
				p.post([]byte(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`))
				p.wait("they are asked for again", func() bool { return len(p.got("roots/list")) == 2 })
				if saysOutside(p) || len(p.got("notifications/message")) > 0 {
					t.Errorf("a warning: %v", p.got("notifications/message"))
				}
				return
			}
			p.wait("describe warns", func() bool { return saysOutside(p) })
			p.wait("a message", func() bool { return len(p.got("notifications/message")) == 1 })
			m := p.got("notifications/message")[0].Params
			if text := fmt.Sprint(m); m["level"] != "warning" || !strings.Contains(text, rw.WarnOutsideRoots) || strings.Contains(text, elsewhere) || strings.Contains(text, dir) {
				t.Errorf("%v", m)
			}
			p.answerRoots(rootsOf(dir))
			p.post([]byte(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`))
			p.wait("the warning goes away", func() bool { return !saysOutside(p) })
		})
	}
	// The clients are gone, and so is what they said.
	p := &peer{t: t, caps: "{}"}
	p.stdio(srv)
	p.begin()
	if saysOutside(p) || len(p.got("roots/list")) > 0 {
		t.Error("a client without roots is asked or warned")
	}
	rootsInProcess(t, srv)
}

type rootsHandler struct{ dir string }

func (h rootsHandler) ListRoots(context.Context, mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	return &mcp.ListRootsResult{Roots: []mcp.Root{{URI: (&url.URL{Scheme: "file", Path: h.dir}).String()}}}, nil
}

// rootsInProcess: the client of the protocol library is asked as well.
func rootsInProcess(t *testing.T, srv *server.MCPServer) {
	//lint:ignore SA1019 clients of the earlier versions of the protocol are supported
	c := must(client.NewInProcessClientWithOptions(srv, client.WithRootsHandler(rootsHandler{t.TempDir()}), client.WithLegacyProtocolOnly()))(t)
	defer c.Close()
	noErr(t, c.Start(ctx))
	must(c.Initialize(ctx, mcp.InitializeRequest{Params: mcp.InitializeParams{
		ProtocolVersion: "2025-06-18", ClientInfo: mcp.Implementation{Name: "t", Version: "1"},
	}}))(t)
	p := &peer{t: t}
	p.wait("describe warns", func() bool {
		var req mcp.CallToolRequest
		req.Params.Name = "rw_describe"
		res := must(c.CallTool(ctx, req))(t)
		doc, _ := json.Marshal(res.StructuredContent)
		return strings.Contains(string(doc), rw.WarnOutsideRoots)
	})
}
