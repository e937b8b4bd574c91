package mcpserver_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// unhurried is a hook that holds every call up, in front of its writes and
// behind them, until its client has heard of it once and once more: a report
// comes when a call takes long, and how long is for the test to say, not for
// the machine.
type unhurried struct {
	mu    sync.Mutex
	heard map[string]func(reports int) // by path; waits until so many came
}

func (u *unhurried) hold(path string, heard func(int)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.heard == nil {
		u.heard = map[string]func(int){}
	}
	u.heard[path] = heard
}

func (u *unhurried) wait(op rw.HookCall, reports int) {
	u.mu.Lock()
	heard := u.heard[op.Changes[0].Path]
	u.mu.Unlock()
	if heard != nil {
		heard(reports)
	}
}

func (u *unhurried) Authorize(_ context.Context, op rw.HookCall) (rw.Decision, error) {
	u.wait(op, 1)
	return rw.Allow(), nil
}

func (u *unhurried) Verify(_ context.Context, c rw.StagedCommit) error {
	u.wait(c.HookCall, 2)
	return nil
}

// composable is a store with a session of three pieces.
func composable(t testing.TB, hooks ...any) *rw.Store {
	t.Helper()
	s, _ := storeIn(t, &rw.Options{Hooks: roles(hooks...)})
	for i := range 3 {
		must(s.ChunkAppend(ctx, rw.ChunkAppendRequest{Session: "s", Content: []byte(strings.Repeat(fmt.Sprint(i), 1<<20))}))(t)
	}
	return s
}

// reports are those of one call so far.
func (p *peer) reports(token any) (list []note) {
	for _, n := range p.got("notifications/progress") {
		if n.Params["progressToken"] == token {
			list = append(list, n)
		}
	}
	return list
}

// reportsAre checks the reports of one call.
func (p *peer) reportsAre(token any, least int) {
	p.t.Helper()
	list := p.reports(token)
	if len(list) < least {
		p.t.Errorf("%d reports: %v", len(list), p.got("notifications/progress"))
	}
	last := -1.0
	for _, n := range list {
		at, _ := n.Params["progress"].(float64)
		if total, ok := n.Params["total"].(float64); at <= last || ok && total < at || n.Params["message"] == "" {
			p.t.Errorf("behind %v: %v", last, n.Params)
		}
		last = at
	}
}

// TestProgressReachesTheClient: with the token of the call, growing, before
// the reply, over every transport; and only when it is asked for.
func TestProgressReachesTheClient(t *testing.T) {
	hook := &unhurried{}
	s := composable(t, hook)
	srv := mcpserver.New(s, full)
	eachPeer(t, func(t *testing.T, connect func(*server.MCPServer) *peer) {
		t.Parallel()
		p := connect(srv)
		ordered := !strings.Contains(t.Name(), "inprocess") // there, reports are delivered beside the reply
		name := strings.ReplaceAll(t.Name(), "/", "-") + ".txt"
		for i, token := range []any{"a token", 7.0} {
			path := fmt.Sprint(i, name) // a file of its own, or there would be nothing to write
			hook.hold(path, func(n int) {
				for late := time.Now().Add(peerTime); len(p.reports(token)) < n && time.Now().Before(late); {
					time.Sleep(2 * time.Millisecond)
				}
			})
			res := p.tool("rw_chunk_compose", map[string]any{"session": "s", "output_path": path, "mode": "overwrite", "validate": token == 7.0}, map[string]any{"progressToken": token})
			if res["isError"] == true {
				t.Fatal(res)
			}
			p.reportsAre(token, 2)
			if order := p.sequence(); ordered && order[len(order)-1] != fmt.Sprint("reply ", p.id) {
				t.Errorf("the reply does not come last: %v", order)
			}
		}
		if ordered {
			p.forget()
		}
		p.tool("rw_chunk_compose", map[string]any{"session": "s", "output_path": "quiet-" + name}, nil)
		p.tool("rw_check", map[string]any{"deep": true}, nil)
		if got := p.got("notifications/progress"); len(got) > len(p.reports("a token"))+len(p.reports(7.0)) || ordered && len(got) > 0 {
			t.Errorf("nobody asked: %v", got)
		}
	})
}

// TestProgressGrowsThroughARepeatedCall: the protocol wants the number to grow
// even when the call begins anew, as it does after a question to the user.
func TestProgressGrowsThroughARepeatedCall(t *testing.T) {
	s := composable(t)
	srv := mcpserver.New(s, full)
	twice := mcp.NewTool("twice")
	srv.AddTool(twice, func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for range 2 {
			if _, err := s.ChunkCompose(ctx, rw.ChunkComposeRequest{Session: "s", OutputPath: "twice.txt"}); err != nil {
				return nil, err
			}
		}
		return mcp.NewToolResultText("done"), nil
	})
	p := &peer{t: t, caps: "{}"}
	p.stdio(srv)
	p.begin()
	p.tool("twice", map[string]any{}, map[string]any{"progressToken": 1})
	p.reportsAre(1.0, 2)
}

// TestProgressOverTheLibrarysTransport: a host may serve us with the HTTP
// transport of the protocol library, in which a reply overtakes what was told
// before it, unless the call rests for a moment. How long that must be is up to
// the machine, so here it rests until the client has heard.
func TestProgressOverTheLibrarysTransport(t *testing.T) {
	heard := make(chan bool, 1)
	mcpserver.Rest(t, func() {
		select {
		case <-heard:
		case <-time.After(peerTime):
		}
	})
	s, _ := storeIn(t, nil)
	srv := mcpserver.New(s, full)
	srv.AddTool(mcp.NewTool("last_words"), func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		err := server.ServerFromContext(ctx).SendNotificationToClient(ctx, "notifications/progress", map[string]any{"progressToken": "p", "progress": 1})
		return mcp.NewToolResultText(`"ok":true`), err
	})
	site := httptest.NewServer(server.NewStreamableHTTPServer(srv, server.WithStateful(true)))
	defer site.Close()
	session := ""
	post := func(body string) (text string) {
		r := must(http.NewRequest("POST", site.URL+"/mcp", strings.NewReader(body)))(t)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Mcp-Session-Id", session)
		res := must(site.Client().Do(r))(t)
		defer res.Body.Close()
		session = res.Header.Get("Mcp-Session-Id") + session
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() {
			text += lines.Text() + "\n"
			if strings.Contains(lines.Text(), "notifications/progress") {
				select {
				case heard <- true:
				default: // the call did not wait for it
				}
			}
		}
		noErr(t, lines.Err())
		return text
	}
	post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","clientInfo":{"name":"t","version":"1"},"capabilities":{}}}`)
	for i := range 40 {
		got := post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"_meta":{"progressToken":"p"},"name":"last_words","arguments":{}}}`, i+1))
		if !strings.Contains(got, "notifications/progress") || !strings.Contains(got, "result") {
			t.Fatalf("call %d: %.300s", i, got)
		}
	}
}
