package transport

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

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
