package transport

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

const (
	maxClientText = 200     // bytes of a name or version that are kept
	maxExtras     = 4 << 10 // bytes of JSON of capabilities that are not ours
	maxQuestions  = 64      // that a client may have open
	maxNotes      = 256     // notifications that wait to be sent
)

// session is one client for as long as it is connected.
type session struct {
	id    string
	notes chan mcp.JSONRPCNotification
	ended chan struct{}
	ready atomic.Bool

	mu        sync.Mutex
	info      mcp.Implementation
	caps      mcp.ClientCapabilities
	level     mcp.LoggingLevel
	asked     int
	questions map[string]chan answer // that wait, by id
}

// answer is the reply of a client to a question.
type answer struct{ result, err json.RawMessage }

func newSession() *session {
	return &session{
		id: rand.Text(), notes: make(chan mcp.JSONRPCNotification, maxNotes), ended: make(chan struct{}),
		level: mcp.LoggingLevelError, questions: map[string]chan answer{},
	}
}

// Unique reports whether no other session has the id of s, in any process.
func Unique(s server.ClientSession) bool {
	_, ok := s.(interface{ unique() })
	return ok
}

func (s *session) unique() {}

// What follows makes it a session of the protocol library.

func (s *session) SessionID() string                                   { return s.id }
func (s *session) Initialize()                                         { s.ready.Store(true) }
func (s *session) Initialized() bool                                   { return s.ready.Load() }
func (s *session) NotificationChannel() chan<- mcp.JSONRPCNotification { return s.notes }
func (s *session) GetClientInfo() mcp.Implementation                   { return locked(s, &s.info) }
func (s *session) GetClientCapabilities() mcp.ClientCapabilities       { return locked(s, &s.caps) }
func (s *session) GetLogLevel() mcp.LoggingLevel                       { return locked(s, &s.level) }
func (s *session) SetLogLevel(level mcp.LoggingLevel)                  { set(s, &s.level, level) }

func locked[T any](s *session, field *T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *field
}

func set[T any](s *session, field *T, v T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*field = v
}

// SetClientInfo keeps the name and the version, cut: a client may send much
// more, which would be kept for the life of the session.
func (s *session) SetClientInfo(info mcp.Implementation) {
	set(s, &s.info, mcp.Implementation{Name: cut(info.Name), Version: cut(info.Version)})
}

// cut is the beginning of a text, which does not keep the rest in memory.
func cut(text string) string {
	return strings.Clone(strings.ToValidUTF8(text[:min(len(text), maxClientText)], ""))
}

// SetClientCapabilities keeps those of the protocol, and others that are short.
func (s *session) SetClientCapabilities(caps mcp.ClientCapabilities) {
	caps.Extensions, caps.Experimental = ifShort(caps.Extensions), ifShort(caps.Experimental)
	set(s, &s.caps, caps)
}

func ifShort(extras map[string]any) map[string]any {
	if doc, err := json.Marshal(extras); err != nil || len(doc) > maxExtras {
		return nil
	}
	return extras
}

// elicit asks the user.
func (s *session) elicit(ctx context.Context, req mcp.ElicitationRequest, send func(any) bool) (*mcp.ElicitationResult, error) {
	return ask[mcp.ElicitationResult](ctx, s, mcp.MethodElicitationCreate, req.Params, send)
}

// listRoots requests the roots of the client.
func (s *session) listRoots(ctx context.Context, send func(any) bool) (*mcp.ListRootsResult, error) {
	return ask[mcp.ListRootsResult](ctx, s, mcp.MethodListRoots, nil, send)
}

// ask sends a question and waits until the client answers, ctx ends, or the
// client disconnects. send reports whether a message can reach the client.
func ask[T any](ctx context.Context, s *session, method mcp.MCPMethod, params any, send func(any) bool) (*T, error) {
	came := make(chan answer, 1)
	s.mu.Lock()
	if len(s.questions) >= maxQuestions {
		s.mu.Unlock()
		return nil, errors.New("too many questions wait for an answer")
	}
	s.asked++
	id := fmt.Sprintf("rw-ask-%d", s.asked)
	s.questions[id] = came
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.questions, id)
		s.mu.Unlock()
	}()
	question := map[string]any{"jsonrpc": mcp.JSONRPC_VERSION, "id": id, "method": method}
	if params != nil {
		question["params"] = params
	}
	if !send(question) {
		return nil, errors.New("the client has no open stream to be asked on")
	}
	select {
	case a := <-came:
		res := new(T)
		if len(a.err) > 0 && string(a.err) != "null" || json.Unmarshal(a.result, res) != nil {
			return nil, errors.New("the client's answer cannot be read")
		}
		return res, nil
	case <-ctx.Done():
		// The user need not think about it any more.
		send(map[string]any{"jsonrpc": mcp.JSONRPC_VERSION, "method": mcp.MethodNotificationCancelled, "params": map[string]any{
			"requestId": id, "reason": "the call was canceled",
		}})
		return nil, ctx.Err()
	case <-s.ended:
		return nil, errors.New("the client has disconnected")
	}
}

// answered hands an answer to the question that waits for it. An answer to a
// question of another session finds none.
func (s *session) answered(m *message) {
	var id string
	if json.Unmarshal(m.ID, &id) != nil {
		return
	}
	s.mu.Lock()
	came := s.questions[id]
	s.mu.Unlock()
	select {
	case came <- answer{m.Result, m.Error}:
	default: // not asked, or answered already
	}
}

// pump delivers notifications in order. One goroutine handles all of them, so
// that none is between the channel and the client when flush returns.
type pump struct {
	notes   chan mcp.JSONRPCNotification
	deliver func(any)
	flushes chan chan struct{}
	ended   chan struct{}
}

func newPump(notes chan mcp.JSONRPCNotification, deliver func(any)) *pump {
	return &pump{notes: notes, deliver: deliver, flushes: make(chan chan struct{}), ended: make(chan struct{})}
}

func (p *pump) run() {
	defer close(p.ended)
	for {
		select {
		case n := <-p.notes:
			p.deliver(n)
		case done, open := <-p.flushes:
			for len(p.notes) > 0 {
				p.deliver(<-p.notes)
			}
			if !open {
				return
			}
			close(done)
		}
	}
}

// flush returns when all earlier notifications are delivered.
func (p *pump) flush() {
	done := make(chan struct{})
	p.flushes <- done
	<-done
}

// stop flushes and ends the goroutine.
func (p *pump) stop() {
	close(p.flushes)
	<-p.ended
}

var (
	noSession    = &refusal{status: http.StatusNotFound, message: "there is no such session, or it has ended; send initialize again"}
	needsSession = &refusal{status: http.StatusBadRequest, message: "the header Mcp-Session-Id is missing; use the one from initialize, or protocol version 2026-07-28, which has no sessions"}
)

// session returns the session that a request belongs to, marked as busy until
// leave is called.
func (h *HTTP) session(r *http.Request) (*httpSession, *refusal) {
	id := r.Header.Get(server.HeaderKeySessionID)
	if id == "" {
		return nil, needsSession
	}
	if s := h.sessions.find(id); s != nil {
		return s, nil
	}
	return nil, noSession
}

// sessions are those of a server. One that is idle for too long is ended.
type sessions struct {
	max    int
	ttl    time.Duration
	server *server.MCPServer

	mu   sync.Mutex
	byID map[string]*httpSession
}

// open makes a session, busy; nil when there are too many.
func (t *sessions) open() *httpSession {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byID) >= t.max {
		return nil
	}
	s := &httpSession{session: newSession(), asks: make(chan any, maxAsks), busy: 1}
	s.expiry = time.AfterFunc(t.ttl, func() { t.expire(s) })
	t.byID[s.id] = s
	return s
}

// find returns a session, marked as busy until leave is called.
func (t *sessions) find(id string) *httpSession {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.byID[id]
	if s != nil {
		s.busy++
	}
	return s
}

func (t *sessions) leave(s *httpSession) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.busy--
	s.used = time.Now()
	if t.byID[s.id] == s {
		s.expiry.Reset(t.ttl)
	}
}

// expire ends a session that was not used since its timer was set.
func (t *sessions) expire(s *httpSession) {
	t.mu.Lock()
	idle := s.busy == 0 && time.Since(s.used) >= t.ttl
	t.mu.Unlock()
	if idle {
		t.end(s)
	}
}

// end ends a session and its stream. Its calls in flight continue.
func (t *sessions) end(s *httpSession) {
	t.mu.Lock()
	known := t.byID[s.id] == s
	delete(t.byID, s.id)
	s.expiry.Stop()
	t.mu.Unlock()
	if known {
		close(s.ended)
		t.server.UnregisterSession(context.Background(), s.id)
	}
}

// endAll ends every session.
func (t *sessions) endAll() {
	t.mu.Lock()
	all := slices.Collect(maps.Values(t.byID))
	t.mu.Unlock()
	for _, s := range all {
		t.end(s)
	}
}

// maxAsks is how many questions wait for the stream of a session.
const maxAsks = 16

// httpSession is one client of the versions of the protocol that have
// sessions. Its notifications and questions outside of calls go to its stream.
type httpSession struct {
	*session
	asks chan any

	// Guarded by the lock of the sessions.
	busy   int       // requests and streams in flight
	used   time.Time // when the last one ended
	expiry *time.Timer

	streamMu sync.Mutex
	stream   *context.CancelFunc // ends the one that is open
}

// takeStream makes the caller the one stream of the session: the one before
// ends, since its client has probably gone and come back.
func (s *httpSession) takeStream(ctx context.Context) (_ context.Context, leave func()) {
	ctx, cancel := context.WithCancel(ctx)
	s.streamMu.Lock()
	defer s.streamMu.Unlock()
	if s.stream != nil {
		(*s.stream)()
	}
	s.stream = &cancel
	return ctx, func() {
		cancel()
		s.streamMu.Lock()
		defer s.streamMu.Unlock()
		if s.stream == &cancel {
			s.stream = nil
		}
	}
}

// RequestElicitation asks outside of a call, on the stream of the session. It
// fails when the session has no stream.
func (s *httpSession) RequestElicitation(ctx context.Context, req mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return s.elicit(ctx, req, func(q any) bool {
		s.streamMu.Lock()
		open := s.stream != nil
		s.streamMu.Unlock()
		return open && s.askLater(q)
	})
}

// ListRoots requests the roots of the client, as soon as there is a stream for the
// request.
func (s *httpSession) ListRoots(ctx context.Context, _ mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	return s.listRoots(ctx, s.askLater)
}

// askLater leaves a question to the stream of the session.
func (s *httpSession) askLater(q any) bool {
	select {
	case s.asks <- q:
		return true
	default:
		return false
	}
}
