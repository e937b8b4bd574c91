package mcpserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

var (
	noSession    = &httpRefusal{status: http.StatusNotFound, message: "there is no such session, or it has ended; send initialize again"}
	needsSession = &httpRefusal{status: http.StatusBadRequest, message: "the header Mcp-Session-Id is missing; use the one from initialize, or protocol version 2026-07-28, which has no sessions"}
)

// session returns the session that a request belongs to, marked as busy until
// its done is called.
func (h *HTTPServer) session(r *http.Request) (*httpSession, *httpRefusal) {
	id := r.Header.Get(server.HeaderKeySessionID)
	if id == "" {
		return nil, needsSession
	}
	if s := h.sessions.find(id); s != nil {
		return s, nil
	}
	return nil, noSession
}

// httpSessions are the sessions of a server. One that is idle for too long is
// ended; no goroutine waits for that.
type httpSessions struct {
	max   int
	ttl   time.Duration
	ended func(id string)

	mu    sync.Mutex
	byID  map[string]*httpSession
	timer *time.Timer // while there are sessions
}

func newHTTPSessions(limit int, ttl time.Duration, ended func(id string)) *httpSessions {
	return &httpSessions{max: limit, ttl: ttl, ended: ended, byID: map[string]*httpSession{}}
}

// open makes a session, busy; nil when there are too many.
func (t *httpSessions) open() *httpSession {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byID) >= t.max {
		return nil
	}
	s := &httpSession{
		id: rand.Text(), notes: make(chan mcp.JSONRPCNotification, 256), asks: make(chan any, 16), ended: make(chan struct{}),
		client: client{level: mcp.LoggingLevelError}, questions: map[string]chan clientAnswer{}, busy: 1,
	}
	t.byID[s.id] = s
	if t.timer == nil {
		t.timer = time.AfterFunc(t.pause(), t.sweep)
	}
	return s
}

func (t *httpSessions) pause() time.Duration { return max(t.ttl/2, time.Millisecond) }

// find returns a session, marked as busy.
func (t *httpSessions) find(id string) *httpSession {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.byID[id]
	if s != nil {
		s.mu.Lock()
		s.busy++
		s.mu.Unlock()
	}
	return s
}

// end ends a session and its stream. Its calls in flight continue.
func (t *httpSessions) end(id string) {
	t.mu.Lock()
	s := t.byID[id]
	delete(t.byID, id)
	t.mu.Unlock()
	if s != nil {
		close(s.ended)
		t.ended(id)
	}
}

// sweep ends the sessions that were idle for too long.
func (t *httpSessions) sweep() {
	t.mu.Lock()
	var idle []string
	for id, s := range t.byID {
		if s.idle() >= t.ttl {
			idle = append(idle, id)
		}
	}
	if len(idle) == len(t.byID) {
		t.timer = nil
	} else {
		t.timer.Reset(t.pause())
	}
	t.mu.Unlock()
	for _, id := range idle {
		t.end(id)
	}
}

// endAll ends every session.
func (t *httpSessions) endAll() {
	t.mu.Lock()
	var all []string
	for id := range t.byID {
		all = append(all, id)
	}
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	t.mu.Unlock()
	for _, id := range all {
		t.end(id)
	}
}

// httpSession is one client of the versions of the protocol that have
// sessions.
type httpSession struct {
	client
	id    string
	notes chan mcp.JSONRPCNotification // outside of calls; the stream of the session takes them
	asks  chan any                     // the same for questions
	ended chan struct{}

	mu        sync.Mutex
	ready     bool
	asked     int
	questions map[string]chan clientAnswer // that wait, by id
	stream    *sessionStream               // that is open
	busy      int                          // requests and streams in flight
	used      time.Time                    // when the last one ended
}

// done ends what open or find began.
func (s *httpSession) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	s.used = time.Now()
}

func (s *httpSession) idle() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy > 0 {
		return 0
	}
	return time.Since(s.used)
}

// sessionStream is the open stream of a session.
type sessionStream struct{ end context.CancelFunc }

// takeStream makes the caller the one stream of the session: the one before
// ends, since its client has probably gone and come back.
func (s *httpSession) takeStream(ctx context.Context) (_ context.Context, leave func()) {
	ctx, cancel := context.WithCancel(ctx)
	mine := &sessionStream{cancel}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream != nil {
		s.stream.end()
	}
	s.stream = mine
	return ctx, func() {
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.stream == mine {
			s.stream = nil
		}
	}
}

// What follows makes it a session of the protocol library.

func (s *httpSession) SessionID() string { return s.id }

func (s *httpSession) NotificationChannel() chan<- mcp.JSONRPCNotification { return s.notes }

func (s *httpSession) Initialize() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = true
}

func (s *httpSession) Initialized() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}

// clientAnswer is what a client sends back to a question.
type clientAnswer struct {
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// RequestElicitation asks outside of a call, on the stream of the session. It
// fails when the session has no stream.
func (s *httpSession) RequestElicitation(ctx context.Context, req mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return s.elicit(ctx, req, func(q any) bool {
		s.mu.Lock()
		open := s.stream != nil
		s.mu.Unlock()
		return open && s.askLater(q)
	})
}

// ListRoots asks for the roots of the client, as soon as there is a stream on
// which it can be asked.
func (s *httpSession) ListRoots(ctx context.Context, _ mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	res := new(mcp.ListRootsResult)
	return res, s.ask(ctx, string(mcp.MethodListRoots), nil, res, s.askLater)
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

func (s *httpSession) elicit(ctx context.Context, req mcp.ElicitationRequest, send func(any) bool) (*mcp.ElicitationResult, error) {
	res := new(mcp.ElicitationResult)
	if err := s.ask(ctx, string(mcp.MethodElicitationCreate), req.Params, res, send); err != nil {
		return nil, err
	}
	return res, nil
}

// ask sends a question and waits until the client answers, the call is
// canceled, or the session ends.
func (s *httpSession) ask(ctx context.Context, method string, params, into any, send func(any) bool) error {
	came := make(chan clientAnswer, 1)
	s.mu.Lock()
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
		return errors.New("the client has no open stream to be asked on")
	}
	select {
	case a := <-came:
		if len(a.Error) > 0 || json.Unmarshal(a.Result, into) != nil {
			return errors.New("the client's answer could not be read")
		}
		return nil
	case <-ctx.Done():
		// The user need not think about it any more.
		send(map[string]any{"jsonrpc": mcp.JSONRPC_VERSION, "method": mcp.MethodNotificationCancelled, "params": map[string]any{
			"requestId": id, "reason": "the call was canceled",
		}})
		return ctx.Err()
	case <-s.ended:
		return errors.New("the client has disconnected")
	}
}

// answered hands an answer to the question that waits for it. An answer to a
// question of another session finds none.
func (s *httpSession) answered(id json.RawMessage, a clientAnswer) {
	var name string
	if json.Unmarshal(id, &name) != nil {
		return
	}
	s.mu.Lock()
	came := s.questions[name]
	s.mu.Unlock()
	select {
	case came <- a:
	default: // not asked, or answered already
	}
}

// sessionNames gives the protocol library the names of our sessions. It is
// asked only about requests that belong to one.
type sessionNames struct{}

func (sessionNames) ResolveSessionIdManager(r *http.Request) server.SessionIdManager {
	var name sessionName
	if r != nil {
		if ex, ok := r.Context().Value(exchangeKey{}).(*exchange); ok && ex.session != nil {
			name = sessionName(ex.session.id)
		}
	}
	return name
}

type sessionName string

func (n sessionName) Generate() string { return string(n) }

func (n sessionName) Validate(id string) (ended bool, err error) {
	if n == "" || string(n) != id {
		return false, errors.New("no such session")
	}
	return false, nil
}

func (sessionName) Terminate(string) (notAllowed bool, err error) { return true, nil }
