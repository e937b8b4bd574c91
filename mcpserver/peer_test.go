package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// note is a notification that a client got.
type note struct {
	Method string
	Params map[string]any
	At     time.Time
}

// peer is a client over one transport, in one era of the protocol.
type peer struct {
	t      testing.TB
	srv    *server.MCPServer
	modern bool
	level  string // of messages, with every request of a modern client
	caps   string
	roots  any // the answer to roots/list; nil for none

	// send sends a request and returns the whole reply; what comes before it
	// goes to notes first.
	send func(ctx context.Context, id int, msg []byte) (map[string]any, error)
	post func(msg []byte) // a notification

	mu    sync.Mutex
	id    int
	heard []note
	order []string // what came in which order: methods of notifications, "reply N"
}

// hear takes a notification.
func (p *peer) hear(n note) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n.At = time.Now()
	p.heard = append(p.heard, n)
	p.order = append(p.order, n.Method)
}

func (p *peer) replied(id any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.order = append(p.order, fmt.Sprintf("reply %v", id))
}

// got returns the notifications of a method so far.
func (p *peer) got(method string) (list []note) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.heard {
		if n.Method == method {
			list = append(list, n)
		}
	}
	return list
}

// wait returns when ok holds.
func (p *peer) wait(what string, ok func() bool) {
	p.t.Helper()
	eventually(p.t, what, ok)
}

// message makes a request; a modern one says who the client is.
func (p *peer) message(method string, params map[string]any) (id int, raw []byte) {
	p.mu.Lock()
	p.id++
	id = p.id
	p.mu.Unlock()
	params = maps.Clone(params)
	if params == nil {
		params = map[string]any{}
	}
	if p.modern {
		meta := map[string]any{}
		if m, ok := params["_meta"].(map[string]any); ok {
			meta = maps.Clone(m)
		}
		meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28"
		meta["io.modelcontextprotocol/clientInfo"] = map[string]any{"name": "peer", "version": "1"}
		meta["io.modelcontextprotocol/clientCapabilities"] = json.RawMessage(p.caps)
		if p.level != "" {
			meta["io.modelcontextprotocol/logLevel"] = p.level
		}
		params["_meta"] = meta
	}
	raw = must(json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params}))(p.t)
	return id, raw
}

// ask sends a request and returns its result, or its error.
func (p *peer) ask(method string, params map[string]any) (result, problem map[string]any) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	id, raw := p.message(method, params)
	reply := must(p.send(ctx, id, raw))(p.t, method)
	result, _ = reply["result"].(map[string]any)
	problem, _ = reply["error"].(map[string]any)
	return result, problem
}

// must is ask for what does not fail.
func (p *peer) must(method string, params map[string]any) map[string]any {
	p.t.Helper()
	result, problem := p.ask(method, params)
	require(p.t, problem == nil, "%s: %v", method, problem)
	return result
}

func (p *peer) tool(name string, args any, meta map[string]any) map[string]any {
	p.t.Helper()
	params := map[string]any{"name": name, "arguments": args}
	if meta != nil {
		params["_meta"] = meta
	}
	return p.must("tools/call", params)
}

// begin shakes hands, in the older era.
func (p *peer) begin() *peer {
	p.t.Helper()
	if p.modern {
		return p
	}
	p.must("initialize", map[string]any{"protocolVersion": "2025-06-18", "clientInfo": map[string]any{"name": "peer", "version": "1"}, "capabilities": json.RawMessage(p.caps)})
	p.post([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	return p
}

// join makes a client of the older era over one transport.
func join(t testing.TB, over func(*peer, *server.MCPServer), s *server.MCPServer) *peer {
	t.Helper()
	p := &peer{t: t, caps: "{}"}
	over(p, s)
	return p.begin()
}

// eachPeer runs a test with a client of a store over every transport and in both eras.
func eachPeer(t *testing.T, s *rw.Store, test func(t *testing.T, p *peer)) {
	srv := mcpserver.New(s, full)
	eachWay(t, func(t *testing.T, connect func(*server.MCPServer) *peer) { test(t, connect(srv)) })
}

// eachWay is eachPeer where the test connects the client.
func eachWay(t *testing.T, test func(t *testing.T, connect func(*server.MCPServer) *peer)) {
	for _, over := range []struct {
		name string
		join func(*peer, *server.MCPServer)
	}{{"inprocess", (*peer).inProcess}, {"stdio", (*peer).stdio}, {"http", (*peer).http}} {
		for _, modern := range []bool{false, true} {
			name := over.name + "/legacy"
			if modern {
				name = over.name + "/modern"
			}
			t.Run(name, func(t *testing.T) {
				test(t, func(s *server.MCPServer) *peer {
					p := &peer{t: t, modern: modern, caps: "{}"}
					over.join(p, s)
					return p.begin()
				})
			})
		}
	}
}

// inProcess joins through the transport of the in-process client.
func (p *peer) inProcess(s *server.MCPServer) {
	p.srv = s
	tr := transport.NewInProcessTransport(s)
	tr.SetNotificationHandler(func(n mcp.JSONRPCNotification) {
		raw, _ := json.Marshal(n)
		var got struct {
			Method string
			Params map[string]any
		}
		json.Unmarshal(raw, &got)
		p.hear(note{Method: got.Method, Params: got.Params})
	})
	noErr(p.t, tr.Start(context.Background()))
	p.t.Cleanup(func() { tr.Close() })
	p.send = func(ctx context.Context, id int, raw []byte) (map[string]any, error) {
		var req transport.JSONRPCRequest
		if err := json.Unmarshal(raw, &req); err != nil {
			return nil, err
		}
		res, err := tr.SendRequest(ctx, req)
		if err != nil {
			return nil, err
		}
		p.replied(id)
		return asMap(res)
	}
	p.post = func(raw []byte) {
		var n mcp.JSONRPCNotification
		json.Unmarshal(raw, &n)
		tr.SendNotification(context.Background(), n)
	}
}

func asMap(v any) (m map[string]any, err error) {
	raw, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	return m, err
}

// stdio joins over a pair of pipes.
func (p *peer) stdio(s *server.MCPServer) {
	p.srv = s
	w := connectTo(p.t, s)
	var mu sync.Mutex
	waiting := map[int]chan map[string]any{}
	write := func(raw []byte) error {
		mu.Lock()
		defer mu.Unlock()
		_, err := w.in.Write(append(raw, '\n'))
		return err
	}
	go func() {
		for m := range w.lines {
			p.line(m, write, func(id int, reply map[string]any) {
				mu.Lock()
				c := waiting[id]
				delete(waiting, id)
				mu.Unlock()
				p.replied(id)
				if c != nil {
					c <- reply
				}
			})
		}
	}()
	p.send = func(ctx context.Context, id int, raw []byte) (map[string]any, error) {
		c := make(chan map[string]any, 1)
		mu.Lock()
		waiting[id] = c
		mu.Unlock()
		if err := write(raw); err != nil {
			return nil, err
		}
		select {
		case reply := <-c:
			return reply, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	p.post = func(raw []byte) { write(raw) }
}

// line takes a message of the server.
func (p *peer) line(m map[string]any, write func([]byte) error, reply func(int, map[string]any)) {
	method, _ := m["method"].(string)
	id, hasID := m["id"]
	switch {
	case method != "" && hasID: // a request of the server
		p.hear(note{Method: method})
		p.mu.Lock()
		roots := p.roots
		p.mu.Unlock()
		if method == "roots/list" && roots != nil {
			answer, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "result": roots})
			go write(answer)
		}
	case method != "":
		params, _ := m["params"].(map[string]any)
		p.hear(note{Method: method, Params: params})
	default:
		n, _ := id.(float64)
		reply(int(n), m)
	}
}

// http joins over streamable HTTP, in the older era with a stream for what
// belongs to no call.
func (p *peer) http(s *server.MCPServer) {
	p.srv = s
	site := siteOf(p.t, nil, s, mcpserver.HTTPOptions{NoAuth: true})
	session := ""
	request := func(ctx context.Context, verb string, raw []byte) (*http.Response, error) {
		r := site.request(verb, "/mcp", string(raw)).WithContext(ctx)
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		if p.modern && raw != nil {
			var m struct {
				Method string
				Params struct{ Name, URI string }
			}
			json.Unmarshal(raw, &m)
			r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
			r.Header.Set("Mcp-Method", m.Method)
			if name := m.Params.Name + m.Params.URI; name != "" {
				r.Header.Set("Mcp-Name", name)
			}
		}
		return site.http.Do(r)
	}
	p.send = func(ctx context.Context, id int, raw []byte) (map[string]any, error) {
		res, err := request(ctx, "POST", raw)
		if err != nil {
			return nil, err
		}
		defer res.Body.Close()
		if s := res.Header.Get("Mcp-Session-Id"); s != "" {
			session = s
			go p.stream(request)
		}
		return p.answer(res, id)
	}
	p.post = func(raw []byte) {
		if res, err := request(context.Background(), "POST", raw); err == nil {
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
	}
}

// answer reads the reply to a request, plain or as a stream of events.
func (p *peer) answer(res *http.Response, id int) (reply map[string]any, err error) {
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		err = json.NewDecoder(res.Body).Decode(&reply)
		p.replied(id)
		return reply, err
	}
	err = io.ErrUnexpectedEOF
	p.events(res.Body, func(_ int, m map[string]any) {
		p.replied(id)
		reply, err = m, nil
	})
	return reply, err
}

func (p *peer) stream(request func(context.Context, string, []byte) (*http.Response, error)) {
	res, err := request(context.Background(), "GET", nil)
	if err != nil {
		return
	}
	defer res.Body.Close()
	p.events(res.Body, func(int, map[string]any) {})
}

func (p *peer) events(body io.Reader, reply func(int, map[string]any)) {
	for data := range events(body) {
		m := testbed.Decoded[map[string]any](p.t, []byte(data), data)
		p.line(m, func([]byte) error { return nil }, reply)
	}
}
