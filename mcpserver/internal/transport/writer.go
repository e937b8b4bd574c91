package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// guardWriter is the response writer of every request: it sets the headers of all
// replies, gives each piece of a reply its own deadline, and replaces the plain-text
// errors of the handlers below with ours.
type guardWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	origin  string // of another site that may read the reply
	unread  bool   // there is a body that has not come yet
	short   bool   // and it is not worth a new connection
	rest    time.Duration
	begun   bool
	mute    bool // the reply is written already
}

func newGuardWriter(w http.ResponseWriter, r *http.Request, o *HTTPOptions) *guardWriter {
	g := &guardWriter{
		ResponseWriter: w, control: http.NewResponseController(w), timeout: o.WriteTimeout,
		unread: r.Body != nil && r.Body != http.NoBody, short: r.ContentLength > 0 && r.ContentLength <= 64<<10, rest: min(restTime, o.BodyTimeout),
	}
	g.control.SetWriteDeadline(time.Time{}) // of the request before on this connection
	if g.unread {
		g.control.SetReadDeadline(time.Now().Add(o.BodyTimeout))
	}
	return g
}

// arrived takes the limit off a body that is here.
func (w *guardWriter) arrived() {
	w.unread = false
	w.control.SetReadDeadline(time.Time{})
}

// restTime is the most that the rest of a refused body may take: the server
// reads some of it before it answers, so that the connection can be kept.
const restTime = 2 * time.Second

// Unwrap lets a ResponseController find the connection.
func (w *guardWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *guardWriter) WriteHeader(status int) {
	if w.begun {
		return
	}
	head := w.Header()
	if status >= 400 && strings.HasPrefix(head.Get("Content-Type"), "text/plain") {
		w.refuse(inOurWords(status, head.Get("Allow")))
		w.mute = true
		return
	}
	w.begun = true
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Cache-Control", "no-store")
	head.Set("X-Accel-Buffering", "no")
	head.Add("Vary", "Origin")
	head.Del("Access-Control-Allow-Origin")
	if w.origin != "" {
		head.Set("Access-Control-Allow-Origin", w.origin)
		head.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, Retry-After, WWW-Authenticate")
	}
	w.ResponseWriter.WriteHeader(status)
}

// inOurWords replaces a refusal of the protocol library, whose text may contain input
// of the client.
func inOurWords(status int, allow string) *refusal {
	switch status {
	case http.StatusNotFound:
		return noSession
	case http.StatusMethodNotAllowed:
		return onlyMethods(allow)
	case http.StatusBadRequest:
		return &refusal{status: status, message: "this is not a protocol request; check the headers Mcp-Protocol-Version and Content-Type"}
	}
	return &refusal{status: status, message: "the request cannot be answered"}
}

// pieceBytes is how much is written under one deadline.
const pieceBytes = 256 << 10

func (w *guardWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.mute {
		return len(p), nil
	}
	done := 0
	for {
		piece := p[done:min(done+pieceBytes, len(p))]
		w.control.SetWriteDeadline(time.Now().Add(w.timeout))
		n, err := w.ResponseWriter.Write(piece)
		w.control.SetWriteDeadline(time.Time{})
		done += n
		if err != nil || done == len(p) {
			return done, err
		}
	}
}

func (w *guardWriter) Flush() { w.flush() }

func (w *guardWriter) flush() error {
	w.WriteHeader(http.StatusOK)
	w.control.SetWriteDeadline(time.Now().Add(w.timeout))
	err := w.control.Flush()
	w.control.SetWriteDeadline(time.Time{})
	if errors.Is(err, http.ErrNotSupported) {
		return nil // an outer handler buffers; the reply is still delivered
	}
	return err
}

// close sets a deadline for the data that the server flushes after the handler.
func (w *guardWriter) close() { w.control.SetWriteDeadline(time.Now().Add(w.timeout)) }

// startEvents begins a stream of events.
func (w *guardWriter) startEvents() error {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Del("Content-Length")
	w.WriteHeader(http.StatusOK)
	return w.flush()
}

// event sends one message on a stream of events. The message is one line.
func (w *guardWriter) event(message []byte) error {
	frame := make([]byte, 0, len(message)+32)
	frame = append(frame, "event: message\ndata: "...)
	frame = append(append(frame, message...), "\n\n"...)
	if _, err := w.Write(frame); err != nil {
		return err
	}
	return w.flush()
}

// comment sends what every client passes over.
func (w *guardWriter) comment() error {
	if _, err := w.Write([]byte(": still here\n\n")); err != nil {
		return err
	}
	return w.flush()
}

// callWriter writes the reply of one call. Messages sent during the call turn
// the reply into a stream of events that ends with the reply; otherwise the
// answer is plain JSON.
type callWriter struct {
	to     *guardWriter
	relay  *relay
	header http.Header // the headers that the handler sets, which apply to plain JSON only
	status int

	mu        sync.Mutex
	streaming bool
	broken    bool
	last      bytes.Buffer // the reply, while streaming
}

func newCallWriter(w *guardWriter, streams bool) *callWriter {
	c := &callWriter{to: w, header: http.Header{}, status: http.StatusOK}
	c.relay = &relay{open: streams, pump: newPump(make(chan mcp.JSONRPCNotification, maxNotes), c.send)}
	return c
}

func (c *callWriter) Header() http.Header    { return c.header }
func (c *callWriter) WriteHeader(status int) { c.status = status }
func (c *callWriter) Flush()                 {}

// send sends a message during the call, to a client that takes a stream.
func (c *callWriter) send(v any) {
	data, err := json.Marshal(v)
	if err != nil || !c.relay.open {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.streaming {
		c.streaming = true
		c.broken = c.to.startEvents() != nil
	}
	if !c.broken {
		c.broken = c.to.event(data) != nil
	}
}

func (c *callWriter) Write(p []byte) (int, error) {
	c.relay.settle() // earlier messages precede the reply
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streaming {
		return c.last.Write(p)
	}
	c.begin()
	return c.to.Write(p)
}

// begin sends the head of a plain reply.
func (c *callWriter) begin() {
	if c.to.begun {
		return
	}
	maps.Copy(c.to.Header(), c.header)
	c.to.WriteHeader(c.status)
}

// finish sends the rest. It reports whether there was a reply.
func (c *callWriter) finish() bool {
	c.relay.settle()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.streaming {
		return c.to.begun
	}
	if reply := bytes.TrimSpace(c.last.Bytes()); len(reply) > 0 && !c.broken {
		c.to.event(reply)
		c.last.Reset()
	}
	return true
}

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
