package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// TestHTTPRealClients: the library's own client works in both eras and over
// SSE, and its name stands in the receipt.
func TestHTTPRealClients(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SSE: true})
	auth := map[string]string{"Authorization": "Bearer " + s.token}
	sse := must(client.NewSSEMCPClient(s.url+"/sse", client.WithHeaders(auth)))(t)
	modern := must(client.NewStreamableHttpClient(s.url+"/mcp", transport.WithHTTPHeaders(auth)))(t)
	//lint:ignore SA1019 clients of the earlier versions of the protocol are supported
	listening := must(client.NewStreamableHttpClient(s.url+"/mcp", transport.WithHTTPHeaders(auth), transport.WithContinuousListening()))(t)
	for name, c := range map[string]*client.Client{"sse": sse, "modern": modern, "listening": listening} {
		noErr(t, c.Start(ctx), name)
		var req mcp.InitializeRequest
		req.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
		req.Params.ClientInfo = mcp.Implementation{Name: name, Version: "1"}
		must(c.Initialize(ctx, req))(t, name)
		var call mcp.CallToolRequest
		call.Params.Name = "rw_safe_write"
		call.Params.Arguments = map[string]any{"path": name + ".txt", "content": strings.Repeat("x", 100_000)}
		res, err := c.CallTool(ctx, call)
		if err != nil || res.IsError {
			t.Fatalf("%s: %v %v", name, err, res)
		}
		data, _ := json.Marshal(res.StructuredContent)
		if !strings.Contains(string(data), fmt.Sprintf(`"caller":%q`, name)) {
			t.Errorf("%s: the receipt does not name the client: %s", name, data)
		}
		if list, err := c.ListTools(ctx, mcp.ListToolsRequest{}); err != nil || len(list.Tools) == 0 {
			t.Errorf("%s: %v", name, err)
		}
		noErr(t, c.Close(), name)
	}
}

// TestHTTPSameEnvelopes: whatever the arguments, the reply over HTTP is that
// of stdio, in both eras and over SSE.
func TestHTTPSameEnvelopes(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SSE: true})
	session := s.initialize("t")
	post, stream := s.openSSE()
	for _, row := range []struct{ tool, args string }{
		{"rw_journal_tail", `{"n":1e9999}`},
		{"rw_journal_tail", `{"n":1e400}`},
		{"rw_journal_since", `{"after_seq":18446744073709551616}`},
		{"rw_safe_write", `{"path":"\ud800","content":"x"}`},
		{"rw_safe_write", `{"path":"a","content":"\udfff"}`},
		{"rw_safe_write", "{\"path\":\"a\",\"content\":\"\xff\"}"},
		{"rw_safe_write", `{"path":"a","path":"b","content":"x"}`},
		{"rw_safe_write", `{"path":"a","content":null}`},
		{"rw_safe_write", `{"path":1.0000000000000001,"content":"x"}`},
		{"rw_safe_wirte", `{"path":"a"}`},
		{"rw.journal_tail", `{"n":-0.5}`},
		{"rw_describe", `[]`},
		{"rw_describe", `7`},
		{"rw_describe", `null`},
		{"rw_read", `{"path":"../../etc/passwd"}`},
		{"rw_read", strings.Repeat(`{"a":`, 500) + "1" + strings.Repeat("}", 500)},
	} {
		want, _ := reply(t, s.mcp, row.tool, json.RawMessage(row.args))
		over := map[string]string{}
		for era, req := range map[string]*http.Request{
			"session": s.inSession(session, 1, row.tool, row.args),
			"modern":  s.modern(1, "t", row.tool, row.args),
		} {
			s.store.ResetTask(ctx) // or the budget of retries would change the reply
			res, body := s.do(req)
			over[era] = string(messages(t, res, body)[0].Result.StructuredContent)
		}
		s.store.ResetTask(ctx)
		if res, body := s.do(s.request("POST", post, callBody(1, row.tool, row.args))); res.StatusCode != 202 {
			t.Fatalf("%d %s", res.StatusCode, body)
		}
		var m rpc
		json.Unmarshal([]byte(stream.next(t)), &m)
		over["sse"] = string(m.Result.StructuredContent)
		for era, got := range over {
			if diff := cmp.Diff(steady(t, string(want)), steady(t, got)); diff != "" {
				t.Errorf("%s %.60s over %s:\n%s", row.tool, row.args, era, diff)
			}
		}
	}
}

// steady is a reply without what differs from call to call.
func steady(t *testing.T, doc string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(doc), &m); err != nil {
		t.Fatalf("%v: %q", err, doc)
	}
	delete(m, "retry_budget")
	if c, ok := m["context"].(map[string]any); ok {
		delete(c, "invocation_id")
		delete(c, "receipt")
		delete(c, "journal_seq")
	}
	delete(m, "open_stores")
	return m
}

func TestHTTPSessions(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{MaxSessions: 3})
	id := s.initialize("a")
	ping := func(session string) int {
		res, _ := s.do(s.request("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id", session))
		return res.StatusCode
	}
	if code := ping(id); code != 200 {
		t.Errorf("ping in a session: %d", code)
	}
	if code := ping("mcp-session-00000000-0000-4000-8000-000000000000"); code != 404 {
		t.Errorf("a session that never was: %d", code)
	}
	if res, body := s.do(s.request("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`)); res.StatusCode != 400 || !strings.Contains(body, "Mcp-Session-Id") {
		t.Errorf("no session: %d %s", res.StatusCode, body)
	}
	for _, method := range []string{"GET", "DELETE"} {
		if res, _ := s.do(s.request(method, "/mcp", "", "Mcp-Session-Id", "invented")); res.StatusCode != 404 {
			t.Errorf("%s with an invented session: %d", method, res.StatusCode)
		}
		if res, _ := s.do(s.request(method, "/mcp", "")); res.StatusCode != 400 {
			t.Errorf("%s without a session: %d", method, res.StatusCode)
		}
		if res, _ := s.do(s.request(method, "/mcp", "", "Mcp-Protocol-Version", "2026-07-28")); res.StatusCode != 405 || res.Header.Get("Allow") != "POST" {
			t.Errorf("%s of a version without sessions: %d", method, res.StatusCode)
		}
	}
	stream := s.listen(id)
	if res, _ := s.do(s.request("DELETE", "/mcp", "", "Mcp-Session-Id", id)); res.StatusCode != 200 {
		t.Errorf("DELETE: %d", res.StatusCode)
	}
	stream.waitEnd(t)
	if code := ping(id); code != 404 {
		t.Errorf("an ended session answers with %d", code)
	}
	for range 3 {
		s.initialize("b")
	}
	if res, body := s.do(s.request("POST", "/mcp", fmt.Sprintf(initBody, "c"))); res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !strings.Contains(body, "too many sessions") {
		t.Errorf("the fourth session: %d %s", res.StatusCode, body)
	}
}

// TestHTTPRefusedInitializeLeavesNoSession: the place of a session that was not
// begun is free again.
func TestHTTPRefusedInitializeLeavesNoSession(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{MaxInFlight: 1, MaxSessions: 1})
	running, release := s.addHold("hold")
	reply := s.later(s.modern(1, "m", "hold", `{}`))
	await(t, running, "running")
	if res, body := s.do(s.request("POST", "/mcp", fmt.Sprintf(initBody, "c"))); res.StatusCode != 503 || res.Header.Get("Mcp-Session-Id") != "" {
		t.Errorf("%d %v %s", res.StatusCode, res.Header, body)
	}
	release()
	<-reply
	eventually(t, "a session", func() bool {
		res, _ := s.do(s.request("POST", "/mcp", fmt.Sprintf(initBody, "c")))
		return res.StatusCode == 200
	})
}

// TestHTTPIdleSessionEnds: a session that nobody uses is ended, one with an
// open stream is not.
func TestHTTPIdleSessionEnds(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SessionIdleTTL: 40 * time.Millisecond})
	kept, stream := "", (*eventStream)(nil)
	eventually(t, "a session with a stream", func() bool { // on a slow machine it ends before it is used
		kept = s.initialize("kept")
		stream, _ = s.tryOpen(s.request("GET", "/mcp", "", "Mcp-Session-Id", kept))
		return stream != nil
	})
	idle := s.initialize("idle")
	eventually(t, "the idle session ends", func() bool {
		// Asking would use it.
		return !knows(s, idle)
	})
	if res, _ := s.do(s.request("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id", idle)); res.StatusCode != 404 {
		t.Errorf("the idle session answers with %d", res.StatusCode)
	}
	time.Sleep(100 * time.Millisecond) // longer than the limit; more only makes the test stronger
	if !knows(s, kept) {
		t.Error("the session with a stream was ended")
	}
	stream.cancel()
	eventually(t, "the other session ends after its stream", func() bool { return !knows(s, kept) })
}

// knows tells whether the server would send something to a session.
func knows(s *site, session string) bool {
	return s.mcp.SendNotificationToSpecificClient(session, "notifications/nothing", nil) == nil
}

// TestHTTPNewStreamTakesOver: a client that comes back gets the stream, though
// its old connection still looks alive.
func TestHTTPNewStreamTakesOver(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{})
	id := s.initialize("a")
	old := s.listen(id)
	fresh := s.listen(id)
	old.waitEnd(t)
	s.mcp.SendNotificationToAllClients("notifications/note", map[string]any{"n": 1})
	if data := fresh.next(t); !strings.Contains(data, "notifications/note") {
		t.Error(data)
	}
}

// TestHTTPCancel: a session cancels its own calls, by the protocol or by
// leaving, and nobody else's.
func TestHTTPCancel(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{MaxInFlight: 2}) // a cancellation needs no place
	running, release := s.addHold("hold")
	a, b := s.initialize("a"), s.initialize("b")
	cancelBody := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{%s"requestId":7}}`

	replies := make(chan string, 2)
	send := func(r *http.Request) {
		go func() {
			res, err := s.http.Do(r)
			if err != nil {
				replies <- "gone"
				return
			}
			res.Body.Close()
			replies <- "answered"
		}()
		await(t, running, "running")
	}
	send(s.inSession(a, 7, "hold", `{}`))
	send(s.modern(7, "m", "hold", `{}`))
	// Neither another session nor a client without one reaches these calls.
	s.do(s.request("POST", "/mcp", fmt.Sprintf(cancelBody, ""), "Mcp-Session-Id", b))
	s.do(s.request("POST", "/mcp", fmt.Sprintf(cancelBody, fmt.Sprintf(modernMeta, "n")+","), "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "notifications/cancelled"))
	select {
	case what := <-running:
		t.Fatalf("a stranger reached the call: %s", what)
	case <-time.After(50 * time.Millisecond):
	}
	s.do(s.request("POST", "/mcp", fmt.Sprintf(cancelBody, ""), "Mcp-Session-Id", a))
	await(t, running, "canceled")
	await(t, replies, "answered")
	release()
	await(t, replies, "answered")
}

// TestHTTPLeavingCancels: a closed connection cancels the call it asked for.
func TestHTTPLeavingCancels(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SSE: true})
	running, _ := s.addHold("hold")
	for _, r := range []*http.Request{s.inSession(s.initialize("a"), 1, "hold", `{}`), s.modern(1, "m", "hold", `{}`)} {
		c, cancel := contextWithCancel()
		go func() {
			if res, err := s.http.Do(r.WithContext(c)); err == nil {
				res.Body.Close()
			}
		}()
		await(t, running, "running")
		cancel()
		await(t, running, "canceled")
	}
	post, stream := s.openSSE()
	s.do(s.request("POST", post, callBody(1, "hold", `{}`)))
	await(t, running, "running")
	stream.cancel()
	await(t, running, "canceled")
}
