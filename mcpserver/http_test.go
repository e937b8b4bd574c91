package mcpserver_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/failpoint"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/mcpserver"
	"github.com/resilientwrite/resilientwrite/spec"
)

// site is a server that listens, as a test sees it.
type site struct {
	t     testing.TB
	url   string // without the endpoint
	addr  string
	token string
	store *rw.Store
	mcp   *server.MCPServer
	h     *mcpserver.HTTPServer
	http  *http.Client
	logs  *logBuffer
	stop  func() // asks it to shut down
	done  chan error
}

// logBuffer collects records.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// newSite serves a new store on loopback until the test ends.
func newSite(t testing.TB, o mcpserver.HTTPOptions) *site {
	t.Helper()
	store := openStore(t)
	return siteOf(t, store, mcpserver.New(store, &mcpserver.Options{Tier: mcpserver.Full, CallsPerSecond: -1}), o)
}

func siteOf(t testing.TB, store *rw.Store, s *server.MCPServer, o mcpserver.HTTPOptions) *site {
	t.Helper()
	logs := &logBuffer{}
	o.Logger = slog.New(slog.NewJSONHandler(logs, nil))
	h := must(mcpserver.NewHTTP(s, &o))(t)
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, stop := context.WithCancel(context.Background())
	st := &site{
		t: t, url: "http://" + l.Addr().String(), addr: l.Addr().String(), token: h.Token(), store: store, mcp: s, h: h,
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}, logs: logs, stop: stop, done: make(chan error, 1),
	}
	if o.Token != "" {
		st.token = o.Token
	}
	go func() { st.done <- h.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		st.http.CloseIdleConnections()
		err := soon(t, st.done, "Serve ends")
		st.done <- err
		noErr(t, err, "Serve ended")
	})
	return st
}

// request makes a request with the token; header is name, value, ….
func (s *site) request(method, path, body string, header ...string) *http.Request {
	s.t.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	r := must(http.NewRequest(method, s.url+path, in))(s.t)
	r.Header.Set("Accept", "application/json, text/event-stream")
	if method == "POST" {
		r.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// do sends a request and reads the whole reply.
func (s *site) do(r *http.Request) (*http.Response, string) {
	s.t.Helper()
	res := must(s.http.Do(r))(s.t)
	defer res.Body.Close()
	body := must(io.ReadAll(res.Body))(s.t)
	return res, string(body)
}

// want sends a request and checks the status of the reply and what its body holds.
func (s *site) want(r *http.Request, status int, parts ...string) http.Header {
	s.t.Helper()
	res, body := s.do(r)
	for _, part := range parts {
		expect(s.t, strings.Contains(body, part), "%s %s %v: %q is not in %d %s", r.Method, r.URL.Path, r.Header, part, res.StatusCode, body)
	}
	require(s.t, res.StatusCode == status, "%s %s of %s %v: %d, want %d: %s", r.Method, r.URL.Path, r.Host, r.Header, res.StatusCode, status, body)
	return res.Header
}

// works is a call that succeeds.
func (s *site) works(r *http.Request) {
	s.t.Helper()
	got := s.result(r)
	expect(s.t, got["ok"] == true, "%v", got)
}

// try is do where the connection may break off: status 0 says that it did.
func (s *site) try(r *http.Request) (status int, body string) {
	res, err := s.http.Do(r)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, ""
	}
	return res.StatusCode, string(data)
}

// later sends a request in the background. What comes is status and body, or
// what went wrong.
func (s *site) later(r *http.Request) chan string {
	came := make(chan string, 1)
	go func() {
		res, err := s.http.Do(r)
		if err != nil {
			came <- err.Error()
			return
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		came <- fmt.Sprintln(res.StatusCode, string(body), err)
	}()
	return came
}

const initBody = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"elicitation":{}},"clientInfo":{"name":%q,"version":"1"}}}`

// initialize begins a session and returns its name.
func (s *site) initialize(client string) string {
	s.t.Helper()
	res, body := s.do(s.request("POST", "/mcp", fmt.Sprintf(initBody, client)))
	id := res.Header.Get("Mcp-Session-Id")
	require(s.t, res.StatusCode == 200 && id != "" && strings.Contains(body, `"protocolVersion"`), "initialize: %d %s", res.StatusCode, body)
	return id
}

// callBody is a tools/call.
func callBody(id any, tool, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, asJSON(id), tool, args)
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":%q,"version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

// modern is a tools/call of the versions without sessions.
func (s *site) modern(id any, client, tool, args string) *http.Request {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{`+modernMeta+`,"name":%q,"arguments":%s}}`, asJSON(id), client, tool, args)
	return s.request("POST", "/mcp", body, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool)
}

// inSession is a tools/call of a session.
func (s *site) inSession(session string, id any, tool, args string) *http.Request {
	return s.request("POST", "/mcp", callBody(id, tool, args), "Mcp-Session-Id", session, "Mcp-Protocol-Version", "2025-06-18")
}

// rpc is one message from the server.
type rpc struct {
	ID     any    `json:"id"`
	Method string `json:"method"`
	Params struct {
		Progress float64 `json:"progress"`
		Token    any     `json:"progressToken"`
		N        float64 `json:"n"`
	} `json:"params"`
	Result struct {
		StructuredContent json.RawMessage `json:"structuredContent"`
		IsError           bool            `json:"isError"`
	} `json:"result"`
	Error *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

// events returns the data of each event of a stream.
func events(stream io.Reader) iter.Seq[string] {
	return func(yield func(string) bool) {
		lines := bufio.NewScanner(stream)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && !yield(data) {
				return
			}
		}
	}
}

// messages are those of a reply, be it JSON or a stream.
func messages(t testing.TB, res *http.Response, body string) []rpc {
	t.Helper()
	lines := []string{body}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		lines = slices.Collect(events(strings.NewReader(body)))
	}
	var list []rpc
	for _, line := range lines {
		var m rpc
		noErr(t, json.Unmarshal([]byte(line), &m), body)
		list = append(list, m)
	}
	return list
}

// result sends a call and returns its structured reply.
func (s *site) result(r *http.Request) map[string]any {
	s.t.Helper()
	res, body := s.do(r)
	var out map[string]any
	all := messages(s.t, res, body)
	require(s.t, len(all) != 0 && json.Unmarshal(all[len(all)-1].Result.StructuredContent, &out) == nil, "no tool reply: %d %q", res.StatusCode, body)
	return out
}

// eventStream reads a stream message by message.
type eventStream struct {
	res    *http.Response
	events chan string // data of each, closed at the end
	cancel func()
}

// open sends a request whose reply is a stream.
func (s *site) open(r *http.Request) *eventStream {
	s.t.Helper()
	e, problem := s.tryOpen(r)
	require(s.t, e != nil, "no stream: %s", problem)
	return e
}

func (s *site) tryOpen(r *http.Request) (*eventStream, string) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	res, err := s.http.Do(r.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err.Error()
	}
	if kind := res.Header.Get("Content-Type"); res.StatusCode != 200 || kind != "text/event-stream" {
		body, _ := io.ReadAll(res.Body)
		cancel()
		return nil, fmt.Sprintf("%d %s %s", res.StatusCode, kind, body)
	}
	e := &eventStream{res: res, events: make(chan string, 4096), cancel: cancel}
	go func() {
		defer close(e.events)
		defer res.Body.Close()
		for data := range events(res.Body) {
			e.events <- data
		}
	}()
	s.t.Cleanup(cancel)
	return e, ""
}

// next is the next message; it fails without one.
func (e *eventStream) next(t testing.TB) string {
	t.Helper()
	data := soon(t, e.events, "an event")
	require(t, data != "", "the stream ended")
	return data
}

// waitEnd waits until the stream is over.
func (e *eventStream) waitEnd(t testing.TB) {
	t.Helper()
	for soon(t, e.events, "the stream ends") != "" {
	}
}

// listen opens the stream of a session.
func (s *site) listen(session string) *eventStream {
	s.t.Helper()
	return s.open(s.request("GET", "/mcp", "", "Mcp-Session-Id", session))
}

// eventually polls.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(2 * time.Millisecond) {
		require(t, !time.Now().After(end), "not in time: %s", what)
	}
}

// addTool adds a tool of the host.
func (s *site) addTool(name string, h func(context.Context, mcp.CallToolRequest) *mcp.CallToolResult) {
	s.mcp.AddTool(mcp.NewTool(name), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return h(ctx, r), nil
	})
}

// addHold adds a tool that says when it runs and ends when it is let go or
// canceled. The returned release may be called twice.
func (s *site) addHold(name string, options ...mcp.ToolOption) (running chan string, release func()) {
	running = make(chan string, 1024)
	free := make(chan struct{})
	s.mcp.AddTool(mcp.NewTool(name, options...), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		running <- "running"
		select {
		case <-free:
		case <-ctx.Done():
			running <- "canceled"
		}
		return mcp.NewToolResultStructured(map[string]any{"ok": true}, "done"), nil
	})
	release = sync.OnceFunc(func() { close(free) })
	s.t.Cleanup(release)
	return running, release
}

func await(t testing.TB, c chan string, want string) {
	t.Helper()
	mustEqual(t, soon(t, c, want), want)
}

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
func refused(t testing.TB, what string, res *http.Response, body string, status int) {
	t.Helper()
	if res.StatusCode != status {
		t.Errorf("%s: %d, want %d: %.200s", what, res.StatusCode, status, body)
		return
	}
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "X-Accel-Buffering": "no", "Content-Type": "application/json",
	} {
		equal(t, res.Header.Get(name), want, what, ": ", name, " is")
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
		expect(t, !strings.Contains(body, path), "%s: names %s: %s", what, path, body)
	}
}

// refuses sends what is to be refused.
func (s *site) refuses(what string, r *http.Request, status int) (http.Header, string) {
	s.t.Helper()
	res, body := s.do(r)
	refused(s.t, what, res, body, status)
	return res.Header, body
}

func TestHTTPForeignHostIsRefused(t *testing.T) {
	t.Parallel()
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
		s.want(r, 200)
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
		equal(t, w.Code, want, host)
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
			header, _ := s.refuses(name+" from "+origin, r, 403)
			equal(t, header.Get("Access-Control-Allow-Origin"), "", name, " from ", origin, ": may be read")
		})
	}
	everywhere(s, func(name string, r *http.Request) {
		r.Header["Origin"] = []string{own, "https://evil.example"}
		s.refuses(name+" from two", r, 403)
	})
	for origin, readable := range map[string]bool{own: false, "https://app.example": true, "vscode-webview://panel": true} {
		res, body := s.do(s.request("POST", "/mcp", fmt.Sprintf(initBody, "t"), "Origin", origin))
		got := res.Header.Get("Access-Control-Allow-Origin")
		expect(t, res.StatusCode == 200 && (got == origin) == readable && got != "*", "%s: %d %q %s", origin, res.StatusCode, got, body)
	}
	// A page that embeds the address sends no origin, but the browser sends Sec-Fetch-Site.
	for _, site := range []string{"cross-site", "same-site"} {
		everywhere(s, func(name string, r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", site)
			s.refuses(name+" embedded", r, 403)
		})
	}
}

// TestHTTPStreamsAreNotForEveryOrigin: no stream says that any page may read
// it.
func TestHTTPStreamsAreNotForEveryOrigin(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SSE: true, AllowedOrigins: []string{"https://app.example"}})
	for _, r := range []*http.Request{s.request("GET", "/sse", ""), s.request("GET", "/mcp", "", "Mcp-Session-Id", s.initialize("a"))} {
		equal(t, s.open(r).res.Header.Get("Access-Control-Allow-Origin"), "", r.URL.Path)
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
	expect(t, res.StatusCode == 204 && res.Header.Get("Access-Control-Allow-Origin") == "https://app.example" && strings.Contains(res.Header.Get("Access-Control-Allow-Headers"), "Authorization"), "%d %v", res.StatusCode, res.Header)
	res = ask("https://evil.example")
	expect(t, res.StatusCode == 403 && res.Header.Get("Access-Control-Allow-Origin") == "", "%d %v", res.StatusCode, res.Header)
	s.want(s.request("OPTIONS", "/mcp", ""), 405)
}

func TestHTTPNeedsTheToken(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SSE: true})
	require(t, len(s.token) >= 40, "the generated token has %d characters", len(s.token))
	for _, auth := range [][]string{
		nil, {""}, {"Bearer"}, {"Bearer "}, {"Bearer x"}, {"Basic " + s.token}, {s.token}, {"Bearer " + s.token + "x"}, {"Bearer " + s.token[:len(s.token)-1]},
		{"Bearer " + strings.ToLower(s.token)}, {"Bearer " + s.token, "Bearer x"}, {"Bearer x", "Bearer " + s.token},
	} {
		everywhere(s, func(name string, r *http.Request) {
			r.Header["Authorization"] = auth
			header, _ := s.refuses(fmt.Sprint(name, auth != nil), r, 401)
			expect(t, header.Get("WWW-Authenticate") != "", "%s: no challenge", name)
		})
	}
	// A token in the address would end in logs.
	r := s.request("POST", "/mcp?token="+s.token, fmt.Sprintf(initBody, "t"))
	r.Header.Del("Authorization")
	s.want(r, 401)
	s.want(s.request("POST", "/mcp", fmt.Sprintf(initBody, "t"), "Authorization", "bearer  "+s.token), 200)
	expect(t, !strings.Contains(s.logs.String(), s.token), "the token is in the log")
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
		_, err := mcpserver.NewHTTP(mcpserver.New(store, full), &o)
		expect(t, err != nil, "%s: accepted", name)
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
		c, cancel := context.WithCancel(ctx)
		if row.ok {
			cancel()
		}
		err := h.Serve(c, l)
		expect(t, (err == nil) == row.ok, "%s %+v: %v", row.addr, row.o, err)
		cancel()
		_, err = l.Accept()
		expect(t, err != nil, "the listener is still open")
	}
}

// TestHTTPNoAuth: on loopback it is possible to do without a token; the other
// checks stay.
func TestHTTPNoAuth(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{NoAuth: true})
	equal(t, s.token, "", "there is a token anyway")
	s.initialize("t")
	s.refuses("foreign origin", s.request("POST", "/mcp", "{}", "Origin", "https://evil.example"), 403)
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
		{"id", s.request("POST", "/mcp", `{"jsonrpc":"2.0","id":true,"method":"ping"}`, "Mcp-Session-Id", id), 400},
		{"null id", s.request("POST", "/mcp", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, "Mcp-Session-Id", id), 400},
		{"JSON-RPC 1.0", s.request("POST", "/mcp", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, "Mcp-Session-Id", id), 400},
		{"version", s.request("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id", id, "Mcp-Protocol-Version", "1999-01-01"), 400},
	} {
		s.refuses(row.name, row.r, row.status)
	}
	res, body := s.do(s.request("POST", "/mcp", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"rw_describe"}}`, "Mcp-Session-Id", id))
	expect(t, res.StatusCode == 202 && body == "" && res.Header.Get("Cache-Control") == "no-store", "a call without an id: %d %s %v", res.StatusCode, body, res.Header)
	// The protocol library's own refusals are JSON as well.
	for name, r := range map[string]*http.Request{
		"header only":   s.request("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Mcp-Protocol-Version", "2026-07-28"),
		"other version": s.request("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+fmt.Sprintf(modernMeta, "x")+`}}`, "Mcp-Protocol-Version", "2025-06-18"),
		"an answer":     s.request("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"result":{"a":1}}`, "Mcp-Protocol-Version", "2026-07-28"),
	} {
		res, body := s.do(r)
		kind := res.Header.Get("Content-Type")
		expect(t, res.StatusCode == 400 && kind == "application/json" && json.Valid([]byte(body)), "%s: %d %s %s", name, res.StatusCode, kind, body)
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
	s.works(s.inSession(id, 1, "rw_safe_write", `{"path":"a","content":"b"}`))
	s.token = ""
	s.want(s.request("POST", "/mcp", "{}"), 401)
	noErr(t, h.Shutdown(ctx))
	stream.waitEnd(t)
	s.token = h.Token()
	res, body := s.do(s.request("POST", "/mcp", "{}"))
	expect(t, res.StatusCode == 503 && bytes.Contains([]byte(body), []byte("shutting down")), "%d %s", res.StatusCode, body)
}

// TestHTTPBodyLimit: a body that is too long is refused with a hint, before it is
// read when its length is known, and without holding it when it is not.
func TestHTTPBodyLimit(t *testing.T) {
	t.Parallel()
	s := newSite(t, mcpserver.HTTPOptions{SSE: true, MaxBody: 1 << 20})
	id := s.initialize("t")
	post, _ := s.openSSE()
	long := callBody(1, "rw_safe_write", `{"path":"a","content":"`+strings.Repeat("x", 3<<20)+`"}`)
	fits := callBody(1, "rw_safe_write", `{"path":"a","content":"`+strings.Repeat("x", 1<<20-200)+`"}`)
	check := func(what string, r *http.Request) {
		t.Helper()
		res, body := s.insist(r)
		refused(t, what, res, body, 413)
		expect(t, strings.Contains(body, "rw_chunk_append") && strings.Contains(body, `"limit_bytes":1048576`) &&
			strings.Contains(body, `"suggested_action":"split"`), "%s: %s", what, body)
	}
	for _, path := range []string{"/mcp", post} {
		check("announced", s.request("POST", path, long, "Mcp-Session-Id", id))
		chunked := s.request("POST", path, "", "Mcp-Session-Id", id)
		chunked.ContentLength = -1
		chunked.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(long)), nil }
		check("chunked", chunked)
	}
	// A Content-Length over the limit is refused without the body.
	c := must(net.Dial("tcp", s.addr))(t)
	defer c.Close()
	c.SetReadDeadline(time.Now().Add(patience))
	fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 100000000\r\n\r\n", s.token)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	expect(t, err == nil && res.StatusCode == 413, "%v %v", res, err)
	s.works(s.request("POST", "/mcp", fits, "Mcp-Session-Id", id))
}

// insist sends a request until there is a reply. One that is refused before it
// has been read is answered while it is still on its way, and a client that is
// not quick to read may find that the connection is gone.
func (s *site) insist(r *http.Request) (*http.Response, string) {
	s.t.Helper()
	for late := time.Now().Add(patience); ; {
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
		require(s.t, (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)) && !time.Now().After(late), "%v", err)
	}
}

// TestHTTPOnlyArgumentsMayBeLong: the rest of a message is decoded several
// times, so that its limit is lower.
func TestHTTPOnlyArgumentsMayBeLong(t *testing.T) {
	t.Parallel()
	s := newSite(t, mcpserver.HTTPOptions{SSE: true})
	id := s.initialize("t")
	post, _ := s.openSSE()
	long := strings.Repeat("x", 1<<20+1)
	for _, path := range []string{"/mcp", post} {
		for name, body := range map[string]string{
			"a method":  `{"jsonrpc":"2.0","id":1,"method":"` + long + `"}`,
			"a tool":    callBody(1, long, `{"path":"a"}`),
			"meta":      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"x":"` + long + `"},"name":"rw_describe","arguments":{}}}`,
			"an id":     callBody(long, "rw_describe", `{}`),
			"an answer": `{"jsonrpc":"2.0","id":1,"result":{"x":"` + long + `"}}`,
			"capitals":  `{"jsonrpc":"2.0","id":1,"METHOD":"tools/call","params":{"name":"rw_describe","arguments":{"x":"` + long + `"}}}`,
		} {
			res, text := s.do(s.request("POST", path, body, "Mcp-Session-Id", id))
			refused(t, name, res, text, 413)
		}
	}
	call := callBody(1, "rw_risk_score", `{"content":"`+long+`"}`)
	s.works(s.request("POST", "/mcp", call, "Mcp-Session-Id", id))
	s.works(s.request("POST", "/mcp", strings.Replace(call, "/", `\/`, 1), "Mcp-Session-Id", id))
}

// TestSessionsKeepLittle: what 100 clients say of themselves, as much as a
// request may hold, and addresses as long, leave little in memory for as long
// as the sessions last.
func TestSessionsKeepLittle(t *testing.T) {
	const clients, each = 6, 64 << 10
	s := newSite(t, mcpserver.HTTPOptions{})
	huge := strings.Repeat("n", 130<<10)
	extra := asJSON(map[string]any{"x": strings.Repeat("[1,2,3]", 20<<10)})
	begin := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"experimental":{"a":%s},"extensions":{"b":%s},"elicitation":{}},`+
		`"clientInfo":{"name":%q,"version":%q,"title":%q,"description":%q,"websiteUrl":%q,"icons":[{"src":"data:,x"}]}}}`, extra, extra, huge, huge, huge, huge, huge[:1<<10])
	require(t, len(begin) <= 1<<20, "%v", len(begin))
	heap := func() uint64 {
		s.http.CloseIdleConnections()
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	s.initialize("warm")
	before := heap()
	var sessions []string
	for range clients {
		res, body := s.do(s.request("POST", "/mcp", begin))
		id := res.Header.Get("Mcp-Session-Id")
		require(t, res.StatusCode == 200 && id != "", "%d %.200s", res.StatusCode, body)
		sessions = append(sessions, id)
	}
	for _, id := range sessions { // the sessions live, and each was notified of addresses
		for i := range 3 {
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"rw://file/%d%s"}}`, i, strings.Repeat("p", 300<<10))
			res, reply := s.do(s.request("POST", "/mcp", body, "Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-06-18"))
			require(t, res.StatusCode == 200 && strings.Contains(reply, `"error"`), "%d %.200s", res.StatusCode, reply)
		}
	}
	if after := heap(); after > before+clients*each {
		t.Errorf("each of %d sessions keeps %d bytes", clients, (after-before)/clients)
	} else {
		t.Logf("each of %d sessions keeps %d bytes", clients, max(int64(after)-int64(before), 0)/clients)
	}
	doc := s.doc(sessions[0], "rw_safe_write", `{"path":"a","content":"x"}`)
	receipt, _ := doc["receipt"].(map[string]any)
	expect(t, receipt["caller"] == huge[:200], "%.300v", doc)
}

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
	t.Parallel()
	s := newSite(t, mcpserver.HTTPOptions{})
	const reports, calls, workers = 5, 25, 4
	s.addTeller(reports)
	id := s.initialize("t")
	stream := s.listen(id) // takes what goes astray
	meta := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf(modernMeta, "m"), `"_meta":{`), "}") + ","
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
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
						expect(t, m.Params.Progress == float64(k+1) && m.Params.Token == float64(n), "call %d: report %d is %+v", n, k, m)
					}
				}
			}
		})
	}
	wg.Wait()
	select {
	case data := <-stream.events:
		t.Errorf("a report went astray: %s", data)
	default:
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
	kind := res.Header.Get("Content-Type")
	expect(t, kind == "application/json" && strings.Contains(body, `"ok":true`), "%s %s", kind, body)
	for range 2 {
		testbed.Contains(t, stream.next(t), "notifications/progress")
	}
}

// TestHTTPBroadcastsReachTheStream: what is sent to everybody is not taken
// away by the calls that are just running.
func TestHTTPBroadcastsReachTheStream(t *testing.T) {
	t.Parallel()
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
			data := stream.next(t)
			require(t, strings.Contains(data, "notifications/note"), "%v", data)
		}
	}
}

// asking adds a tool that asks the user and returns the answer.
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
		var reply chan string
		call := s.inSession(id, 1, "ask", `{}`)
		call.Header.Set("Accept", accept)
		if strings.Contains(accept, "stream") {
			asks = s.open(call)
		} else {
			asks = s.listen(id) // the only way left
			reply = s.later(call)
		}
		var q struct {
			ID     string `json:"id"`
			Method string `json:"method"`
		}
		data := asks.next(t)
		require(t, json.Unmarshal([]byte(data), &q) == nil && q.Method == "elicitation/create", "no question: %s", data)
		answer := `{"jsonrpc":"2.0","id":"` + q.ID + `","result":{"action":%q,"content":{"yes":true}}}`
		// The call holds the only place for calls; answers need none.
		s.want(s.request("POST", "/mcp", fmt.Sprintf(answer, "decline"), "Mcp-Session-Id", other), 202)
		s.want(s.request("POST", "/mcp", fmt.Sprintf(answer, "accept"), "Mcp-Session-Id", id), 202)
		got := ""
		if strings.Contains(accept, "stream") {
			got = asks.next(t)
			asks.waitEnd(t) // only then is its place free
		} else {
			got = <-reply
		}
		expect(t, strings.Contains(got, `"action":"accept"`), "%s: %s", accept, got)
	}
}

// TestHTTPAskWithoutUser: without a stream the question fails, and so it does when
// the session ends while it waits.
func TestHTTPAskWithoutUser(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{})
	s.asking()
	id := s.initialize("t")
	got := s.result(s.request("POST", "/mcp", callBody(1, "ask", `{}`), "Mcp-Session-Id", id, "Accept", "application/json"))
	expect(t, got["failed"] == true, "%v", got)
	asks := s.open(s.inSession(id, 1, "ask", `{}`))
	asks.next(t)
	s.do(s.request("DELETE", "/mcp", "", "Mcp-Session-Id", id))
	testbed.Contains(t, asks.next(t), `"failed":true`)
	got = s.result(s.modern(1, "m", "ask", `{}`))
	expect(t, got["failed"] == true, "a version without questions: %v", got)
}

// TestHTTPRoots: a client that has roots is asked for them on the stream of
// its session, also when it opens that after it is ready.
func TestHTTPRoots(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{})
	res, _ := s.do(s.request("POST", "/mcp", strings.Replace(fmt.Sprintf(initBody, "t"), `"elicitation":{}`, `"roots":{}`, 1)))
	id := res.Header.Get("Mcp-Session-Id")
	res, body := s.do(s.request("POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Mcp-Session-Id", id))
	require(t, res.StatusCode == 202 && body == "", "%d %s", res.StatusCode, body)
	stream := s.listen(id)
	var q struct{ ID, Method string }
	data := stream.next(t)
	require(t, json.Unmarshal([]byte(data), &q) == nil && q.Method == "roots/list", "%v", data)
	s.do(s.request("POST", "/mcp", `{"jsonrpc":"2.0","id":"`+q.ID+`","result":{"roots":[{"uri":"file:///somewhere/else"}]}}`, "Mcp-Session-Id", id))
	eventually(t, "the server has noticed", func() bool {
		return strings.Contains(asJSON(s.result(s.inSession(id, 1, "rw_describe", `{}`))), "roots")
	})
}

// TestHTTPSlowClients: who sends slowly, or sends nothing, is let go; an idle
// stream is not. What is not tested has no limit of time, so that a slow machine
// ends nothing.
func TestHTTPSlowClients(t *testing.T) {
	header := newSite(t, mcpserver.HTTPOptions{HeaderTimeout: 200 * time.Millisecond})
	body := newSite(t, mcpserver.HTTPOptions{HeaderTimeout: time.Hour, BodyTimeout: 200 * time.Millisecond, Heartbeat: 50 * time.Millisecond, SSE: true})
	stream := body.open(body.request("GET", "/sse", ""))
	post := stream.next(t)
	head := "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"
	auth := "Authorization: Bearer " + body.token + "\r\n"
	for _, row := range []struct {
		name       string
		s          *site
		sent, want string
	}{
		{"slow header", header, head[:30], ""},
		{"silence", header, "", ""},
		{"endless header", body, head + strings.Repeat("X-More: "+strings.Repeat("x", 1000)+"\r\n", 100), "431 "},
		{"slow body", body, head + auth + "\r\n{", "408 "},
		{"slow body without a token", body, head + "\r\n{", "401 "},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c := must(net.Dial("tcp", row.s.addr))(t)
			defer c.Close()
			io.WriteString(c, row.sent)
			c.SetReadDeadline(time.Now().Add(patience))
			// What was not read resets the connection, after the reply.
			got, err := io.ReadAll(c)
			expect(t, !errors.Is(err, os.ErrDeadlineExceeded) && strings.Contains(string(got), row.want), "%v %q", err, got)
		})
	}
	t.Cleanup(func() {
		eventually(t, "a message to the stream is taken", func() bool {
			status, _ := body.try(body.request("POST", post, `{"jsonrpc":"2.0","id":1,"method":"ping"}`))
			return status == 202
		})
		data := stream.next(t)
		expect(t, strings.Contains(data, `"id":1`), "the stream did not live through it: %s", data)
		stream.cancel()
	})
}

// TestHTTPSlowReader: a client that does not read its reply does not keep the
// call for ever. Nor does any other client that the machine keeps from reading,
// so that each asks until it is answered.
func TestHTTPSlowReader(t *testing.T) {
	t.Parallel()
	s := newSite(t, mcpserver.HTTPOptions{WriteTimeout: 200 * time.Millisecond, MaxInFlight: 1})
	save(t, s.store, "big", strings.Repeat("0123456789abcde\n", 400_000))
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+modernMeta+`,"name":"rw_read","arguments":{"path":"big","max_bytes":8000000}}}`, "slow")
	eventually(t, "the slow client gets the beginning of its reply", func() bool {
		c := must(net.Dial("tcp", s.addr))(t)
		t.Cleanup(func() { c.Close() }) // not before: it stays and does not read
		c.(*net.TCPConn).SetReadBuffer(4 << 10)
		fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nAccept: */*\r\nMcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: rw_read\r\nContent-Length: %d\r\n\r\n%s", s.token, len(body), body)
		line, _ := bufio.NewReaderSize(c, 16).ReadString('\n')
		return strings.Contains(line, "200")
	})
	eventually(t, "the place of the slow call is free", func() bool {
		status, _ := s.try(s.modern(2, "m", "rw_describe", `{}`))
		return status == 200
	})
}

// TestHTTPTooManyAtATime: what is over a limit is asked to retry, and
// everything works again afterwards.
func TestHTTPTooManyAtATime(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{MaxInFlight: 3, MaxStreams: 2, SSE: true})
	running, release := s.addHold("hold")
	id := s.initialize("t")
	post, sse := s.openSSE()
	var replies []chan string
	for i := range 2 {
		replies = append(replies, s.later(s.inSession(id, i, "hold", `{}`)))
		await(t, running, "running")
	}
	s.do(s.request("POST", post, callBody(9, "hold", `{}`)))
	await(t, running, "running")
	for name, r := range map[string]*http.Request{
		"a call":       s.inSession(id, 10, "rw_describe", `{}`),
		"modern":       s.modern(10, "m", "rw_describe", `{}`),
		"sse":          s.request("POST", post, callBody(10, "rw_describe", `{}`)),
		"a new client": s.request("POST", "/mcp", fmt.Sprintf(initBody, "x")),
	} {
		header, body := s.refuses(name, r, 503)
		expect(t, header.Get("Retry-After") != "" && strings.Contains(body, "retry_later"), "%s: %s", name, body)
	}
	stream := s.listen(id)
	for name, r := range map[string]*http.Request{
		"a stream": s.request("GET", "/mcp", "", "Mcp-Session-Id", id),
		"sse":      s.request("GET", "/sse", ""),
		"listen": s.request("POST", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{`+modernMeta+`,"notifications":{}}}`, "m"),
			"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen"),
	} {
		s.refuses(name, r, 503)
	}
	release()
	for _, reply := range replies {
		body := <-reply
		expect(t, strings.Contains(body, `"ok":true`), "%v", body)
	}
	sse.next(t)
	s.works(s.inSession(id, 11, "rw_describe", `{}`))
	stream.cancel()
	eventually(t, "the stream's place is free", func() bool {
		res := must(s.http.Do(s.request("GET", "/sse", "")))(t)
		res.Body.Close()
		return res.StatusCode == 200
	})
}

// TestHTTPConnectionsAreBounded: clients without a token keep no connection, and of all others
// there is a number.
func TestHTTPConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t, mcpserver.HTTPOptions{MaxInFlight: 2, MaxStreams: 2, MaxSessions: 2, HeaderTimeout: time.Hour})
	c := must(net.Dial("tcp", s.addr))(t)
	defer c.Close()
	io.WriteString(c, "GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
	c.SetReadDeadline(time.Now().Add(patience))
	got, err := io.ReadAll(c)
	expect(t, err == nil && strings.Contains(string(got), "401 "), "%v %q", err, got)
	var silent []net.Conn
	for range 6 {
		silent = append(silent, must(net.Dial("tcp", s.addr))(t))
		defer silent[len(silent)-1].Close()
	}
	eventually(t, "one too many is closed", func() bool {
		c := must(net.Dial("tcp", s.addr))(t)
		defer c.Close()
		c.SetReadDeadline(time.Now().Add(patience))
		_, err := c.Read(make([]byte, 1))
		return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
	})
	silent[0].Close()
	eventually(t, "another one is served", func() bool {
		status, _ := s.try(s.modern(1, "m", "rw_describe", `{}`))
		return status == 200
	})
}

// TestHTTPBodiesShareABudget: many long requests at a time do not use up the
// memory, also when they only announce to be long.
func TestHTTPBodiesShareABudget(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{MaxBody: 256 << 10})
	id := s.initialize("t")
	half := callBody(1, "rw_risk_score", `{"content":"`+strings.Repeat("x", 200<<10))
	var waiting []*io.PipeWriter
	replies := make(chan int, 32)
	full := false
	for range 32 {
		in, out := io.Pipe()
		r := s.request("POST", "/mcp", "", "Mcp-Session-Id", id)
		r.Body, r.ContentLength = in, -1
		go func() {
			res, err := s.http.Do(r)
			if err != nil {
				replies <- 0
				return
			}
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
			replies <- res.StatusCode
		}()
		waiting = append(waiting, out)
		go io.WriteString(out, half)
	}
	for !full {
		select {
		case code := <-replies:
			full = code == 503
			if !full && code != 0 { // 0 is one that was refused while it was sent
				t.Fatalf("%d", code)
			}
		case <-time.After(patience):
			t.Fatal("32 bodies of 200 KiB are held where 2 MiB are allowed")
		}
	}
	for _, out := range waiting {
		out.CloseWithError(io.ErrUnexpectedEOF)
	}
	eventually(t, "the budget is free again", func() bool {
		status, _ := s.try(s.request("POST", "/mcp", half+`"}}}`, "Mcp-Session-Id", id))
		return status == 200
	})
}

// TestHTTPShutdown: a write that runs is finished and answered, streams end,
// nothing new is taken, and it does not take long.
func TestHTTPShutdown(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SSE: true, ShutdownTimeout: 5 * time.Minute})
	id := s.initialize("t")
	post, sse := s.openSSE()
	stream := s.listen(id)
	listen := s.open(s.request("POST", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{`+modernMeta+`,"notifications":{"toolsListChanged":true,"resourceSubscriptions":["rw://journal"]}}}`, "m"),
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen"))

	entered, goOn := make(chan string, 64), make(chan struct{})
	disarm := failpoint.Arm(func(point string) {
		if point == "stage" {
			entered <- "in the middle"
			<-goOn
		}
	})
	defer disarm()
	var replies []chan string
	for _, r := range []*http.Request{s.inSession(id, 1, "rw_safe_write", `{"path":"a","content":"1"}`), s.modern(1, "m", "rw_safe_write", `{"path":"b","content":"2"}`)} {
		replies = append(replies, s.later(r))
		await(t, entered, "in the middle")
	}
	s.do(s.request("POST", post, callBody(5, "rw_safe_write", `{"path":"c","content":"3"}`)))
	await(t, entered, "in the middle")

	s.stop()
	stream.waitEnd(t)
	listen.waitEnd(t)
	eventually(t, "no new connection", func() bool {
		c, err := net.Dial("tcp", s.addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	select {
	case err := <-s.done:
		t.Fatalf("Serve ended with %v while calls run", err)
	default:
	}
	disarm()
	close(goOn)
	for _, reply := range replies {
		body := <-reply
		expect(t, strings.Contains(body, `"ok":true`), "a running write was answered with %s", body)
	}
	data := sse.next(t)
	expect(t, strings.Contains(data, `"ok":true`), "over SSE: %s", data)
	sse.waitEnd(t)
	err := <-s.done
	s.done <- err
	noErr(t, err)
	for _, name := range []string{"a", "b", "c"} {
		got, _ := s.store.Read(ctx, rw.ReadRequest{Path: name})
		expect(t, got.Bytes == 1, "%s was not written", name)
	}
}

// TestHTTPShutdownIsBounded: what does not end by itself is canceled and reported
// so, and what ignores that is left.
func TestHTTPShutdownIsBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t, mcpserver.HTTPOptions{ShutdownTimeout: 100 * time.Millisecond, SSE: true})
	running, _ := s.addHold("hold")
	post, _ := s.openSSE()
	reply := s.later(s.modern(1, "m", "hold", `{}`))
	await(t, running, "running")
	s.do(s.request("POST", post, callBody(5, "hold", `{}`)))
	await(t, running, "running")
	c, err := net.Dial("tcp", s.addr) // says nothing
	noErr(t, err)
	defer c.Close()
	s.stop()
	await(t, running, "canceled")
	await(t, running, "canceled")
	got := <-reply
	expect(t, strings.HasPrefix(got, "503") && strings.Contains(got, "rw_operation"), "the canceled call was answered with %s", got)
	s.done <- soon(t, s.done, "Serve ends")
}

// TestHTTPLeavesNothing: fifty clients come and go, some properly and
// some not, and no goroutine stays.
func TestHTTPLeavesNothing(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SSE: true})
	s.asking()
	visit := func(i int) {
		id := s.initialize("t")
		stream := s.listen(id)
		s.result(s.inSession(id, 1, "rw_describe", `{}`))
		s.result(s.modern(1, "m", "rw_describe", `{}`))
		_, sse := s.openSSE()
		asks := s.open(s.inSession(id, 1, "ask", `{}`)) // and leaves while it is asked
		asks.next(t)
		if i%2 == 0 {
			s.do(s.request("DELETE", "/mcp", "", "Mcp-Session-Id", id))
		}
		asks.cancel()
		stream.cancel()
		sse.cancel()
	}
	visit(0)
	s.http.CloseIdleConnections()
	settled := func() int {
		n := runtime.NumGoroutine()
		for range 20 {
			time.Sleep(5 * time.Millisecond)
			n = min(n, runtime.NumGoroutine())
		}
		return n
	}
	before := settled()
	for i := range 50 {
		visit(i)
	}
	eventually(t, fmt.Sprintf("no more than %d goroutines", before), func() bool {
		s.http.CloseIdleConnections()
		return runtime.NumGoroutine() <= before+2
	})
}

// TestHTTPS: TLS of a version that is still good, HTTP/1.1 inside.
func TestHTTPS(t *testing.T) {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	s := newSite(t, mcpserver.HTTPOptions{TLS: &tls.Config{MinVersion: tls.VersionTLS10, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}})
	roots := x509.NewCertPool()
	cert, _ := x509.ParseCertificate(der)
	roots.AddCert(cert)
	s.url = "https://" + s.addr
	s.http.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	id := s.initialize("t")
	res, body := s.do(s.request("POST", "/mcp", callBody(1, "rw_describe", `{}`), "Mcp-Session-Id", id, "Origin", s.url))
	expect(t, res.StatusCode == 200 && res.ProtoMajor == 1 && res.TLS.Version >= tls.VersionTLS12, "%d %s %s", res.StatusCode, res.Proto, body)
	// The same address without TLS is another origin.
	s.refuses("plain origin", s.request("POST", "/mcp", "{}", "Origin", "http://"+s.addr), 403)
	_, err := tls.Dial("tcp", s.addr, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	expect(t, err != nil, "TLS 1.1 is still taken")
}

// TestHTTPRealClients: the library's own client works in both eras and over
// SSE, and its name is in the receipt.
func TestHTTPRealClients(t *testing.T) {
	t.Parallel()
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
		require(t, err == nil && !res.IsError, "%s: %v %v", name, err, res)
		data := asJSON(res.StructuredContent)
		expect(t, strings.Contains(data, fmt.Sprintf(`"caller":%q`, name)), "%s: the receipt does not name the client: %s", name, data)
		list, err := c.ListTools(ctx, mcp.ListToolsRequest{})
		expect(t, err == nil && len(list.Tools) != 0, "%s: %v", name, err)
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
		s.want(s.request("POST", post, callBody(1, row.tool, row.args)), 202)
		var m rpc
		json.Unmarshal([]byte(stream.next(t)), &m)
		over["sse"] = string(m.Result.StructuredContent)
		for era, got := range over {
			equal(t, cmp.Diff(steady(t, string(want)), steady(t, got)), "", row.tool, " ", row.args, " over ", era)
		}
	}
}

// steady is a reply without what differs from call to call.
func steady(t *testing.T, doc string) map[string]any {
	t.Helper()
	m := testbed.Decoded[map[string]any](t, []byte(doc), doc)
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
	equal(t, ping(id), 200, "ping in a session")
	equal(t, ping("mcp-session-00000000-0000-4000-8000-000000000000"), 404, "a session that never was")
	s.want(s.request("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`), 400, "Mcp-Session-Id")
	for _, method := range []string{"GET", "DELETE"} {
		s.want(s.request(method, "/mcp", "", "Mcp-Session-Id", "invented"), 404)
		s.want(s.request(method, "/mcp", ""), 400)
		res, _ := s.do(s.request(method, "/mcp", "", "Mcp-Protocol-Version", "2026-07-28"))
		expect(t, res.StatusCode == 405 && res.Header.Get("Allow") == "POST", "%s of a version without sessions: %d", method, res.StatusCode)
	}
	stream := s.listen(id)
	s.want(s.request("DELETE", "/mcp", "", "Mcp-Session-Id", id), 200)
	stream.waitEnd(t)
	equal(t, ping(id), 404, "an ended session answers with")
	for range 3 {
		s.initialize("b")
	}
	if res, body := s.do(s.request("POST", "/mcp", fmt.Sprintf(initBody, "c"))); res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !strings.Contains(body, "too many sessions") {
		t.Errorf("the fourth session: %d %s", res.StatusCode, body)
	}
}

// TestHTTPRepliesCarryTheNumberThatCame: a number that no float64 holds comes back to the
// digit, also on a reply that became a stream.
func TestHTTPRepliesCarryTheNumberThatCame(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{})
	for _, id := range []string{`9007199254740993`, `1763736000123456789`, `99999999999999999999999`, `-9007199254740995`, `1.5`, `1.0`, `0`, `"9007199254740993"`} {
		res, body := s.do(s.request("POST", "/mcp", strings.Replace(fmt.Sprintf(initBody, "c"), `"id":"init"`, `"id":`+id, 1)))
		expect(t, strings.Contains(body, `"id":`+id+`,`), "initialize %s: %s", id, body)
		for _, call := range []string{
			`"method":"ping"`, `"method":"no/such"`, `"method":"tools/call","params":{"name":"rw_validate","arguments":{"content":"{}"}}`,
			`"method":"tools/call","params":{"name":"rw_safe_write","arguments":{"path":` + fmt.Sprintf("%q", strings.Trim(id, `"`)+"a") + `,"content":"x"},"_meta":{"progressToken":1}}`,
		} {
			_, body := s.do(s.request("POST", "/mcp", `{"jsonrpc":"2.0","id":`+id+`,`+call+`}`, "Mcp-Session-Id", res.Header.Get("Mcp-Session-Id")))
			expect(t, strings.Contains(body, `"id":`+id+`,`), "%s %s: %s", call, id, body)
		}
		s.want(s.request("DELETE", "/mcp", "", "Mcp-Session-Id", res.Header.Get("Mcp-Session-Id")), 200)
	}
}

// TestHTTPRefusedInitializeLeavesNoSession: the place of a session that was not
// begun is free again.
func TestHTTPRefusedInitializeLeavesNoSession(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{MaxInFlight: 1, MaxSessions: 1})
	running, release := s.addHold("hold")
	reply := s.later(s.modern(1, "m", "hold", `{}`))
	await(t, running, "running")
	res, body := s.do(s.request("POST", "/mcp", fmt.Sprintf(initBody, "c")))
	expect(t, res.StatusCode == 503 && res.Header.Get("Mcp-Session-Id") == "", "%d %v %s", res.StatusCode, res.Header, body)
	release()
	<-reply
	eventually(t, "a session", func() bool {
		res, _ := s.do(s.request("POST", "/mcp", fmt.Sprintf(initBody, "c")))
		return res.StatusCode == 200
	})
}

// TestHTTPIdleSessionEnds: an idle session is ended, one with an
// open stream is not.
func TestHTTPIdleSessionEnds(t *testing.T) {
	t.Parallel()
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
	s.want(s.request("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id", idle), 404)
	time.Sleep(100 * time.Millisecond) // longer than the limit; more only makes the test stronger
	expect(t, knows(s, kept), "the session with a stream was ended")
	stream.cancel()
	eventually(t, "the other session ends after its stream", func() bool { return !knows(s, kept) })
}

// knows reports whether the server would send something to a session.
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
	testbed.Contains(t, fresh.next(t), "notifications/note")
}

// TestHTTPCancel: a session cancels its own calls, by the protocol or by
// leaving, and no other's.
func TestHTTPCancel(t *testing.T) {
	t.Parallel()
	s := newSite(t, mcpserver.HTTPOptions{MaxInFlight: 2}) // a cancellation needs no place
	running, release := s.addHold("hold")
	a, b := s.initialize("a"), s.initialize("b")
	cancelBody := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{%s"requestId":7}}`

	inSession := s.later(s.inSession(a, 7, "hold", `{}`))
	await(t, running, "running")
	alone := s.later(s.modern(7, "m", "hold", `{}`))
	await(t, running, "running")
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
	soon(t, inSession, "the canceled call is answered")
	release()
	testbed.Contains(t, soon(t, alone, "the other call is answered"), `"ok":true`)
}

// TestHTTPLeavingCancels: a closed connection cancels the call it asked for.
func TestHTTPLeavingCancels(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SSE: true})
	running, _ := s.addHold("hold")
	for _, r := range []*http.Request{s.inSession(s.initialize("a"), 1, "hold", `{}`), s.modern(1, "m", "hold", `{}`)} {
		c, cancel := context.WithCancel(ctx)
		s.later(r.WithContext(c))
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

// openSSE opens a stream of the older transport, initialized, and returns the
// path to which it wants messages posted.
func (s *site) openSSE() (post string, stream *eventStream) {
	s.t.Helper()
	stream = s.open(s.request("GET", "/sse", ""))
	post = stream.next(s.t)
	require(s.t, strings.HasPrefix(post, "/messages/?session_id="), "the endpoint is %q", post)
	res, body := s.do(s.request("POST", post, fmt.Sprintf(initBody, "sse")))
	require(s.t, res.StatusCode == 202 && body == "", "%d %s", res.StatusCode, body)
	data := stream.next(s.t)
	require(s.t, strings.Contains(data, `"protocolVersion"`), "initialize: %s", data)
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
		args := asJSON(map[string]any{"path": "log.txt", "content": line, "mode": "append"})
		// Pretty JSON has line breaks, which the transport must not take for
		// the end of the message.
		body := strings.Replace(callBody(i, "rw_safe_write", args), `,"method"`, ",\r\n  \"method\"", 1)
		s.want(s.request("POST", post, body), 202)
	}
	for i := range n {
		var m rpc
		json.Unmarshal([]byte(stream.next(t)), &m)
		require(t, m.ID == float64(i) && !m.Result.IsError, "reply %d is %+v", i, m)
	}
	got := s.result(s.modern(1, "m", "rw_read", `{"path":"log.txt"}`))
	expect(t, got["content"] == want.String(), "the file holds %q", got["content"])
}

// TestSSEManyCalls: a stream gives back what its calls took, also when they
// were refused, canceled or repeated, so that it never runs full.
func TestSSEManyCalls(t *testing.T) {
	t.Parallel()
	s := newSite(t, mcpserver.HTTPOptions{SSE: true, MaxInFlight: 2, MaxBody: 256 << 10})
	post, stream := s.openSSE()
	content := strings.Repeat("x", 150<<10) // two at a time would pass the budget of bodies after a few
	for i := range 60 {
		body := callBody(i, "rw_risk_score", `{"content":"`+content+`"}`)
		if i%2 == 1 {
			body = callBody("same", "rw_no_such_tool", `{}`)
		}
		s.want(s.request("POST", post, body), 202)
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
		s.want(s.request("POST", post, callBody(id, "hold", `{}`)), 202)
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
		wg.Go(func() {
			for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				if res, _ := s.do(s.modern(i, "m", "places", `{}`)); res.StatusCode == 200 {
					return
				}
			}
			s.t.Errorf("fewer than %d calls run at a time", n)
		})
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
		posts.Go(func() {
			if res, err := s.http.Do(s.request("POST", post, callBody(i, "hold", `{}`))); err == nil {
				res.Body.Close()
			}
		})
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
			s.want(s.request(method, path, ""), 404)
		}
	}
	expect(t, !strings.Contains(s.logs.String(), "deprecated"), "a warning about SSE though it is off")
}

func TestSSEIsDeprecated(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SSE: true, BasePath: "/a/b"})
	stream := s.open(s.request("GET", "/a/b/sse", ""))
	post := stream.next(t)
	expect(t, strings.HasPrefix(post, "/a/b/messages/?session_id="), "under a base path the endpoint is %q", post)
	expect(t, strings.Contains(s.logs.String(), "deprecated"), "no warning")
	s.want(s.request("GET", "/sse", ""), 404)
	s.want(s.request("POST", "/a/b/messages/?session_id=x", "{}"), 404)
}

// caller calls tools over some transport.
type caller func(id int, tool string, args any) map[string]any

func (s *site) sessionCaller(name string) caller {
	session := s.initialize(name)
	return func(id int, tool string, args any) map[string]any {
		return s.result(s.inSession(session, id, tool, asJSON(args)))
	}
}

func (s *site) sseCaller() caller {
	post, stream := s.openSSE()
	return func(id int, tool string, args any) map[string]any {
		s.do(s.request("POST", post, callBody(id, tool, asJSON(args))))
		return structured(s.t, stream.next(s.t))
	}
}

func structured(t testing.TB, message string) map[string]any {
	var m rpc
	var out map[string]any
	expect(t, json.Unmarshal([]byte(message), &m) == nil && json.Unmarshal(m.Result.StructuredContent, &out) == nil, "no reply: %s", message)
	return out
}

// TestHTTPCursorsDoNotMix: two agents in two sessions, over any transport,
// each follow the journal at their own pace; what one has acknowledged the
// other still gets.
func TestHTTPCursorsDoNotMix(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SSE: true})
	a, b, c := s.sessionCaller("same name"), s.sessionCaller("same name"), s.sseCaller()
	for i := range 6 {
		a(i, "rw_safe_write", map[string]any{"path": fmt.Sprint("f", i), "content": "x", "caller": "writer"})
	}
	since := func(call caller, agent string, ack any) (n int, last float64) {
		args := map[string]any{"agent": agent}
		if ack != nil {
			args["after_seq"] = ack
		}
		got := call(100, "rw_journal_since", args)
		entries, ok := got["entries"].([]any)
		require(t, ok, "%v", got)
		for _, e := range entries {
			last = e.(map[string]any)["seq"].(float64)
		}
		return len(entries), last
	}
	n, last := since(a, "alpha", nil)
	mustEqual(t, n, 6, "alpha sees rows")
	n, _ = since(a, "alpha", last)
	expect(t, n == 0, "alpha has acknowledged and still sees %d rows", n)
	for name, call := range map[string]caller{"b": b, "c": c} {
		n, _ := since(call, "beta-"+name, nil)
		expect(t, n == 6, "%s sees %d of 6 rows, because alpha has acknowledged", name, n)
	}
	n, _ = since(b, "alpha", nil)
	expect(t, n == 0, "the cursor of alpha depends on the session")
	a(200, "rw_safe_write", map[string]any{"path": "more", "content": "x", "caller": "writer"})
	n, _ = since(b, "alpha", nil)
	expect(t, n == 1, "alpha misses the new row")
	// Without an agent's name there is no cursor that could be shared.
	got := b(300, "rw_journal_since", map[string]any{})
	expect(t, got["ok"] == false, "%v", got)
}

// sites of one store: what a session makes of a call.
func (s *site) doc(session, tool, args string) map[string]any {
	s.t.Helper()
	return s.result(s.inSession(session, 1, tool, args))
}
