package transport

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

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
