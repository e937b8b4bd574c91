package transport

import (
	"context"
	"net/http"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// exchange is one request on its way through the protocol library.
type exchange struct {
	session *httpSession // of the versions that have sessions, else nil
	relay   *relay       // of a call, else nil
}

type exchangeKey struct{}

// enter replaces the session that the library makes for each request with ours,
// including the call's own channel to the client. The library would let every request
// of a session take notifications off one channel, and a request that is just ending
// would lose the ones it took.
func (h *HTTP) enter(ctx context.Context, r *http.Request) context.Context {
	ex, _ := r.Context().Value(exchangeKey{}).(*exchange)
	switch {
	case ex == nil:
		return ctx
	case ex.session != nil && ex.relay != nil:
		return h.server.WithContext(ctx, callSession{ex.session, ex.relay})
	case ex.session != nil:
		return h.server.WithContext(ctx, ex.session)
	case ex.relay != nil:
		if s, ok := server.ClientSessionFromContext(ctx).(requestSession); ok {
			return h.server.WithContext(ctx, requestCall{s, ex.relay})
		}
	}
	return ctx
}

// callSession is a session as one of its calls sees it: messages and questions
// of the call are sent on its own reply.
type callSession struct {
	*httpSession
	relay *relay
}

func (c callSession) NotificationChannel() chan<- mcp.JSONRPCNotification {
	return c.relay.channel(c.notes)
}

func (c callSession) RequestElicitation(ctx context.Context, req mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	if !c.relay.open {
		return c.httpSession.RequestElicitation(ctx, req)
	}
	return c.elicit(ctx, req, c.relay.ask)
}

// requestSession is the session that the library makes for a request without one.
type requestSession interface {
	server.SessionWithLogging
	server.SessionWithClientInfo
	server.SessionWithElicitation
	server.SessionWithSampling
	server.SessionWithRoots
	server.SessionWithTools
	server.SessionWithResources
	server.SessionWithResourceTemplates
}

// requestCall is the same for a call.
type requestCall struct {
	requestSession
	relay *relay
}

func (c requestCall) NotificationChannel() chan<- mcp.JSONRPCNotification {
	return c.relay.channel(nil)
}

// relay carries the messages that a call sends while it runs. It loses nothing:
// when settle returns, every earlier message has been delivered.
type relay struct {
	*pump
	open bool // the client takes a stream for a reply

	mu      sync.Mutex
	running bool
	settled bool
}

// channel carries the messages of the call; otherwise replaces it when the
// client does not accept a stream as a reply, and nil then means that they are
// dropped.
func (r *relay) channel(otherwise chan mcp.JSONRPCNotification) chan<- mcp.JSONRPCNotification {
	if !r.open && otherwise != nil {
		return otherwise
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.running && !r.settled { // most calls need no goroutine
		r.running = true
		go r.run()
	}
	return r.notes
}

// ask sends a question; false when the call has been answered.
func (r *relay) ask(q any) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.settled {
		return false
	}
	if r.running {
		r.flush()
	}
	r.deliver(q)
	return true
}

// settle delivers the remaining messages and ends the relay.
func (r *relay) settle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running && !r.settled {
		r.stop()
	}
	r.settled = true
}
