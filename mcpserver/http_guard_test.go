package mcpserver_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/mcpserver"
	"github.com/resilientwrite/resilientwrite/spec"
)

// everywhere are requests to every endpoint with every method.
func everywhere(s *site, each func(name string, r *http.Request)) {
	for _, path := range []string{"/mcp", "/sse", "/messages/?session_id=x", "/nothing"} {
		for _, method := range []string{"GET", "POST", "DELETE", "OPTIONS", "PUT", "HEAD"} {
			body := ""
			if method == "POST" {
				body = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
			}
			each(method+" "+path, s.request(method, path, body))
		}
	}
}

// refused checks the form of a refusal: JSON, short, without paths.
func refused(t *testing.T, what string, res *http.Response, body string, status int) {
	t.Helper()
	if res.StatusCode != status {
		t.Errorf("%s: %d, want %d: %.200s", what, res.StatusCode, status, body)
		return
	}
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "X-Accel-Buffering": "no", "Content-Type": "application/json",
	} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s: %s is %q", what, name, got)
		}
	}
	if res.Request.Method == "HEAD" {
		return
	}
	var m rpc
	if err := json.Unmarshal([]byte(body), &m); err != nil || m.Error == nil || m.Error.Message == "" || m.ID != nil {
		t.Errorf("%s: not a JSON-RPC error: %q", what, body)
		return
	}
	if len(m.Error.Data) > 0 {
		noErr(t, spec.Validate("errors", m.Error.Data), what)
	}
	for _, path := range []string{"/tmp/", "/root", "/home", "goroutine"} {
		if strings.Contains(body, path) {
			t.Errorf("%s: tells %s: %s", what, path, body)
		}
	}
}

func TestHTTPForeignHostIsRefused(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SSE: true, AllowedHosts: []string{"Proxy.Example", "other.example:8443"}})
	port := s.addr[strings.LastIndex(s.addr, ":"):]
	for _, host := range []string{
		"evil.example", "evil.example" + port, "localhost.evil.example", "127.0.0.1.evil.example", "user@localhost", "localhost@evil.example",
		"0.0.0.0", "[::]", "10.1.2.3", "local host", "localhost:port", "other.example", "other.example:80", "[::1", "*", "127.1",
	} {
		everywhere(s, func(name string, r *http.Request) {
			r.Host = host
			res, err := s.http.Do(r)
			if err != nil {
				return // net/http does not send such a host
			}
			body, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode == 400 && strings.Contains(string(body), "malformed Host") {
				return // nor takes it
			}
			refused(t, name+" of "+host, res, string(body), 403)
		})
	}
	for _, host := range []string{"localhost", "LOCALHOST" + port, "localhost.", "127.0.0.1", "127.9.9.9:1", "[::1]", "[::1]" + port, "proxy.example", "proxy.example:99", "other.example:8443"} {
		r := s.request("POST", "/mcp", fmt.Sprintf(initBody, "t"))
		r.Host = host
		if res, body := s.do(r); res.StatusCode != 200 {
			t.Errorf("%s: %d %s", host, res.StatusCode, body)
		}
	}
}

// TestHTTPHostBeyondLoopback: the same where the connection came over the
// network, whose own address is then a good name too.
func TestHTTPHostBeyondLoopback(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{AllowedHosts: []string{"box.example"}})
	for host, want := range map[string]int{
		"192.0.2.7:8000": 200, "192.0.2.7": 200, "box.example:8000": 200, "localhost:8000": 200,
		"192.0.2.8:8000": 403, "evil.example:8000": 403, "box.example.evil.example": 403, "": 403,
	} {
		r := httptest.NewRequest("POST", "/mcp", strings.NewReader(fmt.Sprintf(initBody, "t")))
		r.Host = host
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+s.token)
		local := &net.TCPAddr{IP: net.ParseIP("192.0.2.7"), Port: 8000}
		w := httptest.NewRecorder()
		s.h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(local))))
		if w.Code != want {
			t.Errorf("%q: %d, want %d", host, w.Code, want)
		}
	}
}

func TestHTTPForeignOriginIsRefused(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SSE: true, AllowedOrigins: []string{"https://App.Example:443", "vscode-webview://panel"}})
	own := "http://" + s.addr
	for _, origin := range []string{
		"https://evil.example", "null", "", "http://localhost:3000", "http://localhost", "http://127.0.0.1", "https://" + s.addr, own + "/", own + "/x", own + "?", own + "#",
		"http://evil@" + s.addr, own + ".evil.example", "http://app.example", "https://app.example:8443", "https://app.example.evil.example", "file://", "*", own + " https://evil.example",
	} {
		everywhere(s, func(name string, r *http.Request) {
			r.Header["Origin"] = []string{origin}
			res, body := s.do(r)
			refused(t, name+" from "+origin, res, body, 403)
			if res.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s from %s: may be read", name, origin)
			}
		})
	}
	everywhere(s, func(name string, r *http.Request) {
		r.Header["Origin"] = []string{own, "https://evil.example"}
		res, body := s.do(r)
		refused(t, name+" from two", res, body, 403)
	})
	for origin, readable := range map[string]bool{own: false, "https://app.example": true, "vscode-webview://panel": true} {
		res, body := s.do(s.request("POST", "/mcp", fmt.Sprintf(initBody, "t"), "Origin", origin))
		if got := res.Header.Get("Access-Control-Allow-Origin"); res.StatusCode != 200 || (got == origin) != readable || got == "*" {
			t.Errorf("%s: %d %q %s", origin, res.StatusCode, got, body)
		}
	}
	// A page that embeds the address sends no origin, but the browser tells.
	for _, site := range []string{"cross-site", "same-site"} {
		everywhere(s, func(name string, r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", site)
			res, body := s.do(r)
			refused(t, name+" embedded", res, body, 403)
		})
	}
}

// TestHTTPStreamsAreNotForEveryOrigin: no stream says that any page may read
// it.
func TestHTTPStreamsAreNotForEveryOrigin(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SSE: true, AllowedOrigins: []string{"https://app.example"}})
	for _, r := range []*http.Request{s.request("GET", "/sse", ""), s.request("GET", "/mcp", "", "Mcp-Session-Id", s.initialize("a"))} {
		if got := s.open(r).res.Header.Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("%s: %q", r.URL.Path, got)
		}
	}
}

// TestHTTPPreflight: a page of an allowed origin may ask without the token
// what it may send; others may not.
func TestHTTPPreflight(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{AllowedOrigins: []string{"https://app.example"}})
	ask := func(origin string) *http.Response {
		r := s.request("OPTIONS", "/mcp", "", "Origin", origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization")
		r.Header.Del("Authorization")
		res, _ := s.do(r)
		return res
	}
	res := ask("https://app.example")
	if res.StatusCode != 204 || res.Header.Get("Access-Control-Allow-Origin") != "https://app.example" || !strings.Contains(res.Header.Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	if res := ask("https://evil.example"); res.StatusCode != 403 || res.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	if res, body := s.do(s.request("OPTIONS", "/mcp", "")); res.StatusCode != 405 {
		t.Errorf("OPTIONS that is no preflight: %d %s", res.StatusCode, body)
	}
}

func TestHTTPNeedsTheToken(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SSE: true})
	if len(s.token) < 40 {
		t.Fatalf("the generated token has %d characters", len(s.token))
	}
	for _, auth := range [][]string{
		nil, {""}, {"Bearer"}, {"Bearer "}, {"Bearer x"}, {"Basic " + s.token}, {s.token}, {"Bearer " + s.token + "x"}, {"Bearer " + s.token[:len(s.token)-1]},
		{"Bearer " + strings.ToLower(s.token)}, {"Bearer " + s.token, "Bearer x"}, {"Bearer x", "Bearer " + s.token},
	} {
		everywhere(s, func(name string, r *http.Request) {
			r.Header["Authorization"] = auth
			res, body := s.do(r)
			refused(t, fmt.Sprint(name, auth != nil), res, body, 401)
			if res.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s: no challenge", name)
			}
		})
	}
	// A token in the address would end in logs.
	r := s.request("POST", "/mcp?token="+s.token, fmt.Sprintf(initBody, "t"))
	r.Header.Del("Authorization")
	if res, _ := s.do(r); res.StatusCode != 401 {
		t.Errorf("a token in the address: %d", res.StatusCode)
	}
	if res, body := s.do(s.request("POST", "/mcp", fmt.Sprintf(initBody, "t"), "Authorization", "bearer  "+s.token)); res.StatusCode != 200 {
		t.Errorf("another spelling: %d %s", res.StatusCode, body)
	}
	if strings.Contains(s.logs.String(), s.token) {
		t.Error("the token stands in the log")
	}
}

func TestHTTPOptionsAreChecked(t *testing.T) {
	store := openStore(t)
	for name, o := range map[string]mcpserver.HTTPOptions{
		"a token":       {Token: "short"},
		"characters":    {Token: "sixteen and more characters"},
		"both":          {Token: strings.Repeat("x", 20), NoAuth: true},
		"wildcard":      {AllowedOrigins: []string{"*"}},
		"no web origin": {AllowedOrigins: []string{"app.example"}},
		"a path":        {AllowedOrigins: []string{"https://app.example/x"}},
		"any host":      {AllowedHosts: []string{"*.example"}},
		"no host":       {AllowedHosts: []string{"https://box.example"}},
		"negative":      {MaxBody: -1},
		"TLS":           {TLS: &tls.Config{}},
		"base path":     {BasePath: "api/"},
	} {
		if _, err := mcpserver.NewHTTP(mcpserver.New(store, full), &o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	must(mcpserver.NewHTTP(mcpserver.New(store, full), nil))(t)
}

func TestHTTPBindsLoopbackOnly(t *testing.T) {
	store := openStore(t)
	token := strings.Repeat("x", 20)
	for _, row := range []struct {
		addr string
		o    mcpserver.HTTPOptions
		ok   bool
	}{
		{"0.0.0.0:0", mcpserver.HTTPOptions{NoAuth: true, AllowPlainHTTP: true}, false},
		{"0.0.0.0:0", mcpserver.HTTPOptions{Token: token}, false},
		{"0.0.0.0:0", mcpserver.HTTPOptions{Token: token, AllowPlainHTTP: true}, true},
		{"127.0.0.1:0", mcpserver.HTTPOptions{NoAuth: true}, true},
		{"127.0.0.1:0", mcpserver.HTTPOptions{Token: token}, true},
	} {
		h := must(mcpserver.NewHTTP(mcpserver.New(store, full), &row.o))(t)
		l := must(net.Listen("tcp", row.addr))(t)
		c, cancel := contextWithCancel()
		if row.ok {
			cancel()
		}
		if err := h.Serve(c, l); (err == nil) != row.ok {
			t.Errorf("%s %+v: %v", row.addr, row.o, err)
		}
		cancel()
		if _, err := l.Accept(); err == nil {
			t.Error("the listener is still open")
		}
	}
}

// TestHTTPNoAuth: on loopback it is possible to do without a token; the other
// checks stay.
func TestHTTPNoAuth(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{NoAuth: true})
	if s.token != "" {
		t.Error("there is a token all the same")
	}
	s.initialize("t")
	res, body := s.do(s.request("POST", "/mcp", "{}", "Origin", "https://evil.example"))
	refused(t, "foreign origin", res, body, 403)
}

// TestHTTPKinds: what is no message of the protocol is refused in JSON.
func TestHTTPKinds(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{})
	id := s.initialize("t")
	for _, row := range []struct {
		name   string
		r      *http.Request
		status int
	}{
		{"text", s.request("POST", "/mcp", "{}", "Content-Type", "text/plain"), 415},
		{"form", s.request("POST", "/mcp", "{}", "Content-Type", "application/x-www-form-urlencoded"), 415},
		{"no type", s.request("POST", "/mcp", "{}", "Content-Type", ""), 415},
		{"gzip", s.request("POST", "/mcp", "{}", "Content-Encoding", "gzip"), 415},
		{"PUT", s.request("PUT", "/mcp", ""), 405},
		{"HEAD", s.request("HEAD", "/mcp", ""), 405},
		{"GET with a body", s.request("GET", "/mcp", "{}", "Mcp-Session-Id", id), 400},
		{"GET without a stream", s.request("GET", "/mcp", "", "Mcp-Session-Id", id, "Accept", "application/json"), 406},
		{"empty", s.request("POST", "/mcp", " ", "Mcp-Session-Id", id), 400},
		{"garbage", s.request("POST", "/mcp", `{"jsonrpc":`, "Mcp-Session-Id", id), 400},
		{"batch", s.request("POST", "/mcp", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "Mcp-Session-Id", id), 400},
		{"string", s.request("POST", "/mcp", `"x"`, "Mcp-Session-Id", id), 400},
		{"nothing", s.request("POST", "/mcp", `{"jsonrpc":"2.0","id":1}`, "Mcp-Session-Id", id), 400},
		{"version", s.request("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id", id, "Mcp-Protocol-Version", "1999-01-01"), 400},
	} {
		res, body := s.do(row.r)
		refused(t, row.name, res, body, row.status)
	}
	// The protocol library's own refusals are JSON as well.
	for name, r := range map[string]*http.Request{
		"header only":   s.request("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Mcp-Protocol-Version", "2026-07-28"),
		"other version": s.request("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+fmt.Sprintf(modernMeta, "x")+`}}`, "Mcp-Protocol-Version", "2025-06-18"),
		"an answer":     s.request("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"result":{"a":1}}`, "Mcp-Protocol-Version", "2026-07-28"),
	} {
		res, body := s.do(r)
		if kind := res.Header.Get("Content-Type"); res.StatusCode != 400 || kind != "application/json" || !json.Valid([]byte(body)) {
			t.Errorf("%s: %d %s %s", name, res.StatusCode, kind, body)
		}
	}
}

// TestHTTPMounted: the handler works inside another server, with all its
// checks.
func TestHTTPMounted(t *testing.T) {
	store := openStore(t)
	h := must(mcpserver.NewHTTP(mcpserver.New(store, full), &mcpserver.HTTPOptions{BasePath: "/tools"}))(t)
	mux := http.NewServeMux()
	mux.Handle("/tools/", h)
	outer := httptest.NewServer(mux)
	defer outer.Close()
	s := &site{t: t, url: outer.URL + "/tools", token: h.Token(), http: outer.Client()}
	id := s.initialize("t")
	stream := s.listen(id)
	if got := s.result(s.inSession(id, 1, "rw_safe_write", `{"path":"a","content":"b"}`)); got["ok"] != true {
		t.Error(got)
	}
	s.token = ""
	if res, _ := s.do(s.request("POST", "/mcp", "{}")); res.StatusCode != 401 {
		t.Errorf("%d", res.StatusCode)
	}
	noErr(t, h.Shutdown(ctx))
	stream.waitEnd(t)
	s.token = h.Token()
	if res, body := s.do(s.request("POST", "/mcp", "{}")); res.StatusCode != 503 || !bytes.Contains([]byte(body), []byte("shutting down")) {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}
