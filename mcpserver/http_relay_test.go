package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// addTeller adds a tool that reports progress right before it returns, which
// is when reports get lost.
func (s *site) addTeller(reports int) {
	s.addTool("tell", func(ctx context.Context, r mcp.CallToolRequest) *mcp.CallToolResult {
		for i := range reports {
			s.mcp.SendNotificationToClient(ctx, "notifications/progress", map[string]any{"progress": i + 1, "progressToken": r.Params.Meta.ProgressToken})
		}
		return mcp.NewToolResultStructured(map[string]any{"ok": true}, "done")
	})
}

func tellBody(id int, meta string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"_meta":{%s"progressToken":%d},"name":"tell","arguments":{}}}`, id, meta, id)
}

// TestHTTPLosesNoReport: what a call reports arrives with its reply, before
// it, and in order – also when many calls of one session run at a time.
func TestHTTPLosesNoReport(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{})
	const reports, calls, workers = 5, 25, 4
	s.addTeller(reports)
	id := s.initialize("t")
	stream := s.listen(id) // takes what goes astray
	meta := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf(modernMeta, "m"), `"_meta":{`), "}") + ","
	var wg sync.WaitGroup
	for w := range workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range calls {
				n := 1 + w*calls + i
				for _, r := range []*http.Request{
					s.request("POST", "/mcp", tellBody(n, ""), "Mcp-Session-Id", id),
					s.request("POST", "/mcp", tellBody(n, meta), "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "tell"),
				} {
					res, body := s.do(r)
					all := messages(t, res, body)
					if len(all) != reports+1 || all[reports].ID != float64(n) {
						t.Errorf("call %d: %d messages: %s", n, len(all), body)
						return
					}
					for k, m := range all[:reports] {
						if m.Params.Progress != float64(k+1) || m.Params.Token != float64(n) {
							t.Errorf("call %d: report %d is %+v", n, k, m)
						}
					}
				}
			}
		}()
	}
	wg.Wait()
	select {
	case data := <-stream.events:
		t.Errorf("a report went astray: %s", data)
	default:
	}
}

// TestSSELosesNoReport: the same over the older transport.
func TestSSELosesNoReport(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SSE: true})
	s.addTeller(5)
	post, stream := s.openSSE()
	for n := range 40 {
		if res, body := s.do(s.request("POST", post, tellBody(n+1, ""))); res.StatusCode != 202 {
			t.Fatalf("%d %s", res.StatusCode, body)
		}
		for k := range 6 {
			var m rpc
			json.Unmarshal([]byte(stream.next(t)), &m)
			if k < 5 && m.Params.Progress != float64(k+1) || k == 5 && m.ID != float64(n+1) {
				t.Fatalf("call %d: message %d is %+v", n, k, m)
			}
		}
	}
}

// TestHTTPPlainReplyStaysJSON: a client that takes no stream gets plain JSON,
// and what the call reports goes to the stream of its session.
func TestHTTPPlainReplyStaysJSON(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{})
	s.addTeller(2)
	id := s.initialize("t")
	stream := s.listen(id)
	res, body := s.do(s.request("POST", "/mcp", tellBody(1, ""), "Mcp-Session-Id", id, "Accept", "application/json"))
	if kind := res.Header.Get("Content-Type"); kind != "application/json" || !strings.Contains(body, `"ok":true`) {
		t.Errorf("%s %s", kind, body)
	}
	for range 2 {
		if data := stream.next(t); !strings.Contains(data, "notifications/progress") {
			t.Error(data)
		}
	}
}

// TestHTTPBroadcastsReachTheStream: what is sent to everybody is not taken
// away by the calls that are just running.
func TestHTTPBroadcastsReachTheStream(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{})
	s.addTool("shout", func(_ context.Context, r mcp.CallToolRequest) *mcp.CallToolResult {
		s.mcp.SendNotificationToAllClients("notifications/note", map[string]any{"n": 1})
		return mcp.NewToolResultStructured(map[string]any{"ok": true}, "done")
	})
	a, b := s.initialize("a"), s.initialize("b")
	streams := []*eventStream{s.listen(a), s.listen(b)}
	const calls = 100
	for i := range calls {
		s.result(s.inSession(a, i, "shout", `{}`))
	}
	for _, stream := range streams {
		for range calls {
			if data := stream.next(t); !strings.Contains(data, "notifications/note") {
				t.Fatal(data)
			}
		}
	}
}

// asking adds a tool that asks the user and tells what came.
func (s *site) asking() {
	s.addTool("ask", func(ctx context.Context, _ mcp.CallToolRequest) *mcp.CallToolResult {
		var req mcp.ElicitationRequest
		req.Params.Message = "really?"
		req.Params.RequestedSchema = map[string]any{"type": "object", "properties": map[string]any{"yes": map[string]any{"type": "boolean"}}}
		res, err := server.ServerFromContext(ctx).RequestElicitation(ctx, req)
		out := map[string]any{"ok": true, "failed": err != nil}
		if err == nil {
			out["action"] = res.Action
		}
		return mcp.NewToolResultStructured(out, "done")
	})
}

// TestHTTPAsk: a question goes out on the reply of the call that asks, and
// only its own session can answer.
func TestHTTPAsk(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{MaxInFlight: 1})
	s.asking()
	id, other := s.initialize("t"), s.initialize("other")
	for _, accept := range []string{"application/json, text/event-stream", "application/json"} {
		var asks *eventStream
		reply := make(chan string, 1)
		call := s.inSession(id, 1, "ask", `{}`)
		call.Header.Set("Accept", accept)
		if strings.Contains(accept, "stream") {
			asks = s.open(call)
		} else {
			asks = s.listen(id) // the only way left
			go func() {
				_, body := s.do(call)
				reply <- body
			}()
		}
		var q struct {
			ID     string `json:"id"`
			Method string `json:"method"`
		}
		if data := asks.next(t); json.Unmarshal([]byte(data), &q) != nil || q.Method != "elicitation/create" {
			t.Fatalf("no question: %s", data)
		}
		answer := `{"jsonrpc":"2.0","id":"` + q.ID + `","result":{"action":%q,"content":{"yes":true}}}`
		// The call holds the only place for calls; answers need none.
		if res, body := s.do(s.request("POST", "/mcp", fmt.Sprintf(answer, "decline"), "Mcp-Session-Id", other)); res.StatusCode != 202 {
			t.Errorf("%d %s", res.StatusCode, body)
		}
		if res, body := s.do(s.request("POST", "/mcp", fmt.Sprintf(answer, "accept"), "Mcp-Session-Id", id)); res.StatusCode != 202 {
			t.Errorf("%d %s", res.StatusCode, body)
		}
		got := ""
		if strings.Contains(accept, "stream") {
			got = asks.next(t)
			asks.waitEnd(t) // only then is its place free
		} else {
			got = <-reply
		}
		if !strings.Contains(got, `"action":"accept"`) {
			t.Errorf("%s: %s", accept, got)
		}
	}
}

// TestHTTPAskNobody: without a stream the question fails, and so it does when
// the session ends while it waits.
func TestHTTPAskNobody(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{})
	s.asking()
	id := s.initialize("t")
	if got := s.result(s.request("POST", "/mcp", callBody(1, "ask", `{}`), "Mcp-Session-Id", id, "Accept", "application/json")); got["failed"] != true {
		t.Errorf("%v", got)
	}
	asks := s.open(s.inSession(id, 1, "ask", `{}`))
	asks.next(t)
	s.do(s.request("DELETE", "/mcp", "", "Mcp-Session-Id", id))
	if data := asks.next(t); !strings.Contains(data, `"failed":true`) {
		t.Error(data)
	}
	if got := s.result(s.modern(1, "m", "ask", `{}`)); got["failed"] != true {
		t.Errorf("a version without questions: %v", got)
	}
}

// TestHTTPRoots: a client that has roots is asked for them on the stream of
// its session, also when it opens that after it is ready.
func TestHTTPRoots(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{})
	res, _ := s.do(s.request("POST", "/mcp", strings.Replace(fmt.Sprintf(initBody, "t"), `"elicitation":{}`, `"roots":{}`, 1)))
	id := res.Header.Get("Mcp-Session-Id")
	if res, body := s.do(s.request("POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Mcp-Session-Id", id)); res.StatusCode != 202 || body != "" {
		t.Fatalf("%d %s", res.StatusCode, body)
	}
	stream := s.listen(id)
	var q struct{ ID, Method string }
	if data := stream.next(t); json.Unmarshal([]byte(data), &q) != nil || q.Method != "roots/list" {
		t.Fatal(data)
	}
	s.do(s.request("POST", "/mcp", `{"jsonrpc":"2.0","id":"`+q.ID+`","result":{"roots":[{"uri":"file:///somewhere/else"}]}}`, "Mcp-Session-Id", id))
	eventually(t, "the server has noticed", func() bool {
		got := s.result(s.inSession(id, 1, "rw_describe", `{}`))
		data, _ := json.Marshal(got)
		return strings.Contains(string(data), "roots")
	})
}
