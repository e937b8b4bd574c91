package mcpserver_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// httpPatience is how long a test waits for what must happen.
const httpPatience = time.Minute

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
		select {
		case err := <-st.done:
			st.done <- err
			if err != nil {
				t.Errorf("Serve ended with %v", err)
			}
		case <-time.After(httpPatience):
			t.Error("Serve does not end")
		}
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
	r, err := http.NewRequest(method, s.url+path, in)
	if err != nil {
		s.t.Fatal(err)
	}
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
	res, err := s.http.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res, string(body)
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
	if res.StatusCode != 200 || id == "" || !strings.Contains(body, `"protocolVersion"`) {
		s.t.Fatalf("initialize: %d %s", res.StatusCode, body)
	}
	return id
}

// callBody is a tools/call.
func callBody(id any, tool, args string) string {
	n, _ := json.Marshal(id)
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, n, tool, args)
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":%q,"version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

// modern is a tools/call of the versions without sessions.
func (s *site) modern(id any, client, tool, args string) *http.Request {
	n, _ := json.Marshal(id)
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{`+modernMeta+`,"name":%q,"arguments":%s}}`, n, client, tool, args)
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

// messages are those of a reply, be it JSON or a stream.
func messages(t testing.TB, res *http.Response, body string) []rpc {
	t.Helper()
	lines := []string{body}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		lines = nil
		for _, line := range strings.Split(body, "\n") {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				lines = append(lines, data)
			}
		}
	}
	var list []rpc
	for _, line := range lines {
		var m rpc
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("not a message: %q in %d %q", line, res.StatusCode, body)
		}
		list = append(list, m)
	}
	return list
}

// result sends a call and returns its structured reply.
func (s *site) result(r *http.Request) map[string]any {
	s.t.Helper()
	res, body := s.do(r)
	all := messages(s.t, res, body)
	if len(all) == 0 {
		s.t.Fatalf("no reply: %d %q", res.StatusCode, body)
	}
	last := all[len(all)-1]
	var out map[string]any
	if json.Unmarshal(last.Result.StructuredContent, &out) != nil {
		s.t.Fatalf("no tool reply: %d %s", res.StatusCode, body)
	}
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
	if e == nil {
		s.t.Fatal("no stream: " + problem)
	}
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
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, 1<<26)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				e.events <- data
			}
		}
	}()
	s.t.Cleanup(cancel)
	return e, ""
}

// next is the next message; it fails when there is none.
func (e *eventStream) next(t testing.TB) string {
	t.Helper()
	select {
	case data, ok := <-e.events:
		if !ok {
			t.Fatal("the stream ended")
		}
		return data
	case <-time.After(httpPatience):
		t.Fatal("no event")
	}
	return ""
}

// waitEnd waits until the stream is over.
func (e *eventStream) waitEnd(t testing.TB) {
	t.Helper()
	late := time.After(httpPatience)
	for {
		select {
		case _, ok := <-e.events:
			if !ok {
				return
			}
		case <-late:
			t.Fatal("the stream does not end")
		}
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
	for end := time.Now().Add(httpPatience); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not in time: " + what)
		}
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
	select {
	case got := <-c:
		if got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	case <-time.After(httpPatience):
		t.Fatalf("not %s in time", want)
	}
}
