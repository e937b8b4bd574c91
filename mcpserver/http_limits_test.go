package mcpserver_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// TestHTTPBodyLimit: too long is told with the way out, before the body is
// read when its length is known, and without holding it when it is not.
func TestHTTPBodyLimit(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SSE: true, MaxBody: 1 << 20})
	id := s.initialize("t")
	post, _ := s.openSSE()
	long := callBody(1, "rw_safe_write", `{"path":"a","content":"`+strings.Repeat("x", 3<<20)+`"}`)
	fits := callBody(1, "rw_safe_write", `{"path":"a","content":"`+strings.Repeat("x", 1<<20-200)+`"}`)
	check := func(what string, r *http.Request) {
		t.Helper()
		res, body := s.insist(r)
		refused(t, what, res, body, 413)
		if !strings.Contains(body, "rw_chunk_append") || !strings.Contains(body, `"limit_bytes":1048576`) || !strings.Contains(body, `"suggested_action":"split"`) {
			t.Errorf("%s: %s", what, body)
		}
	}
	for _, path := range []string{"/mcp", post} {
		check("announced", s.request("POST", path, long, "Mcp-Session-Id", id))
		chunked := s.request("POST", path, "", "Mcp-Session-Id", id)
		chunked.ContentLength = -1
		chunked.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(long)), nil }
		check("chunked", chunked)
	}
	// Who announces too much is told so without having to send it.
	c := must(net.Dial("tcp", s.addr))(t)
	defer c.Close()
	c.SetReadDeadline(time.Now().Add(httpPatience))
	fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 100000000\r\n\r\n", s.token)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || res.StatusCode != 413 {
		t.Errorf("%v %v", res, err)
	}
	if got := s.result(s.request("POST", "/mcp", fits, "Mcp-Session-Id", id)); got["ok"] != true {
		t.Errorf("what fits is refused: %v", got)
	}
}

// insist sends a request until there is a reply. One that is refused before it
// has been read is answered while it is still on its way, and a client that is
// not quick to read may find that the connection is gone.
func (s *site) insist(r *http.Request) (*http.Response, string) {
	s.t.Helper()
	for late := time.Now().Add(httpPatience); ; {
		again := r.Clone(r.Context())
		again.Body, _ = r.GetBody()
		res, err := s.http.Do(again)
		if err == nil {
			var body []byte
			body, err = io.ReadAll(res.Body)
			res.Body.Close()
			if err == nil {
				return res, string(body)
			}
		}
		if gone := errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE); !gone || time.Now().After(late) {
			s.t.Fatal(err)
		}
	}
}

// TestHTTPOnlyArgumentsMayBeLong: the rest of a message is decoded several
// times, so that its limit is lower.
func TestHTTPOnlyArgumentsMayBeLong(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SSE: true})
	id := s.initialize("t")
	post, _ := s.openSSE()
	long := strings.Repeat("x", 2<<20)
	for _, path := range []string{"/mcp", post} {
		for name, body := range map[string]string{
			"a method":  `{"jsonrpc":"2.0","id":1,"method":"` + long + `"}`,
			"a tool":    callBody(1, long, `{"path":"a"}`),
			"meta":      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"x":"` + long + `"},"name":"rw_describe","arguments":{}}}`,
			"an id":     callBody(long, "rw_describe", `{}`),
			"an answer": `{"jsonrpc":"2.0","id":1,"result":{"x":"` + long + `"}}`,
		} {
			res, text := s.do(s.request("POST", path, body, "Mcp-Session-Id", id))
			refused(t, name, res, text, 413)
		}
	}
	if got := s.result(s.inSession(id, 1, "rw_risk_score", `{"content":"`+long+`"}`)); got["ok"] != true {
		t.Errorf("long arguments are refused: %v", got)
	}
}
