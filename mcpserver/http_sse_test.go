package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/resilientwrite/resilientwrite/mcpserver"
)

func contextWithCancel() (context.Context, context.CancelFunc) {
	return context.WithCancel(context.Background())
}

// openSSE opens a stream of the older transport, initialized, and returns the
// path to which it wants messages posted.
func (s *site) openSSE() (post string, stream *eventStream) {
	s.t.Helper()
	stream = s.open(s.request("GET", "/sse", ""))
	post = stream.next(s.t)
	if !strings.HasPrefix(post, "/messages/?session_id=") {
		s.t.Fatalf("the endpoint is %q", post)
	}
	if res, body := s.do(s.request("POST", post, fmt.Sprintf(initBody, "sse"))); res.StatusCode != 202 || body != "" {
		s.t.Fatalf("%d %s", res.StatusCode, body)
	}
	if data := stream.next(s.t); !strings.Contains(data, `"protocolVersion"`) {
		s.t.Fatalf("initialize: %s", data)
	}
	return post, stream
}

// TestSSEKeepsOrder: appends that are posted one after the other, without
// waiting for replies, arrive in that order.
func TestSSEKeepsOrder(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SSE: true})
	post, stream := s.openSSE()
	var want strings.Builder
	const n = 60
	for i := range n {
		line := fmt.Sprintf("line %d\n", i)
		want.WriteString(line)
		args, _ := json.Marshal(map[string]any{"path": "log.txt", "content": line, "mode": "append"})
		// Pretty JSON has line breaks, which the transport must not take for
		// the end of the message.
		body := strings.Replace(callBody(i, "rw_safe_write", string(args)), `,"method"`, ",\r\n  \"method\"", 1)
		if res, text := s.do(s.request("POST", post, body)); res.StatusCode != 202 {
			t.Fatalf("%d %s", res.StatusCode, text)
		}
	}
	for i := range n {
		var m rpc
		json.Unmarshal([]byte(stream.next(t)), &m)
		if m.ID != float64(i) || m.Result.IsError {
			t.Fatalf("reply %d is %+v", i, m)
		}
	}
	if got := s.result(s.modern(1, "m", "rw_read", `{"path":"log.txt"}`)); got["content"] != want.String() {
		t.Errorf("the file holds %q", got["content"])
	}
}

// TestSSEManyCalls: a stream gives back what its calls took, also when they
// were refused, canceled or repeated, so that it never runs full.
func TestSSEManyCalls(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SSE: true, MaxInFlight: 2, MaxBody: 256 << 10})
	post, stream := s.openSSE()
	content := strings.Repeat("x", 150<<10) // two at a time would pass the budget of bodies after a few
	for i := range 60 {
		body := callBody(i, "rw_risk_score", `{"content":"`+content+`"}`)
		if i%2 == 1 {
			body = callBody("same", "rw_no_such_tool", `{}`)
		}
		if res, text := s.do(s.request("POST", post, body)); res.StatusCode != 202 {
			t.Fatalf("call %d: %d %s", i, res.StatusCode, text)
		}
		stream.next(t)
	}
}

// TestSSESameNumberTwice: a client that gives two calls one number gets two
// replies, and the places of both are free again.
func TestSSESameNumberTwice(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SSE: true, MaxInFlight: 3})
	running, release := s.addHold("hold", mcp.WithReadOnlyHintAnnotation(true))
	post, stream := s.openSSE()
	for _, id := range []any{7, 7} {
		if res, body := s.do(s.request("POST", post, callBody(id, "hold", `{}`))); res.StatusCode != 202 {
			t.Fatalf("%d %s", res.StatusCode, body)
		}
		await(t, running, "running")
	}
	release()
	stream.next(t)
	stream.next(t)
	s.wantPlaces(3)
}

// wantPlaces waits until so many calls can run at a time.
func (s *site) wantPlaces(n int) {
	s.t.Helper()
	running, release := s.addHold("places", mcp.WithReadOnlyHintAnnotation(true))
	var wg sync.WaitGroup
	for i := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for end := time.Now().Add(httpPatience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				if res, _ := s.do(s.modern(i, "m", "places", `{}`)); res.StatusCode == 200 {
					return
				}
			}
			s.t.Errorf("fewer than %d calls run at a time", n)
		}()
	}
	defer wg.Wait()
	defer release()
	for range n {
		await(s.t, running, "running")
	}
}

// TestSSEEndGivesEverythingBack: a client leaves while calls run, wait for
// their turn, and have not even been looked at.
func TestSSEEndGivesEverythingBack(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SSE: true, MaxInFlight: 24})
	running, _ := s.addHold("hold", mcp.WithReadOnlyHintAnnotation(true))
	post, stream := s.openSSE()
	var posts sync.WaitGroup
	for i := range 24 { // more than run at a time on one stream
		posts.Add(1)
		go func() {
			defer posts.Done()
			if res, err := s.http.Do(s.request("POST", post, callBody(i, "hold", `{}`))); err == nil {
				res.Body.Close()
			}
		}()
	}
	for range 16 {
		await(t, running, "running")
	}
	stream.cancel()
	posts.Wait()
	s.wantPlaces(24)
}

func TestSSEOffUnlessAsked(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{})
	for _, path := range []string{"/sse", "/messages/?session_id=x", "/", "/mcp/x", "/mcpx"} {
		for _, method := range []string{"GET", "POST"} {
			if res, _ := s.do(s.request(method, path, "")); res.StatusCode != 404 {
				t.Errorf("%s %s: %d", method, path, res.StatusCode)
			}
		}
	}
	if strings.Contains(s.logs.String(), "deprecated") {
		t.Error("a warning about SSE though it is off")
	}
}

func TestSSEIsDeprecated(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SSE: true, BasePath: "/a/b"})
	stream := s.open(s.request("GET", "/a/b/sse", ""))
	if post := stream.next(t); !strings.HasPrefix(post, "/a/b/messages/?session_id=") {
		t.Errorf("behind a base path the endpoint is %q", post)
	}
	if !strings.Contains(s.logs.String(), "deprecated") {
		t.Error("no warning")
	}
	if res, _ := s.do(s.request("GET", "/sse", "")); res.StatusCode != 404 {
		t.Errorf("outside of the base path: %d", res.StatusCode)
	}
	if res, _ := s.do(s.request("POST", "/a/b/messages/?session_id=x", "{}")); res.StatusCode != 404 {
		t.Errorf("a stream that never was: %d", res.StatusCode)
	}
}
