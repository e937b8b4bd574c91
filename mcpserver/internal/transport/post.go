package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// gauge counts things whose number is bounded.
type gauge struct {
	n   atomic.Int64
	max int64
}

func (g *gauge) take(n int64) bool {
	if g.n.Add(n) > g.max {
		g.n.Add(-n)
		return false
	}
	return true
}

func (g *gauge) give(n int64) { g.n.Add(-n) }

// posted is one message that came over HTTP.
type posted struct {
	message
	raw    json.RawMessage // as it came
	slim   json.RawMessage // without the arguments of a call
	args   json.RawMessage // nil when it is no call, or one without arguments
	modern bool            // of a version without sessions
	size   int64           // held of the budget of bodies
}

// slimBytes is the maximum size of a message without the arguments of a call, which the
// protocol library decodes several times.
const slimBytes = 1 << 20

// receive reads one message. The caller calls release when it is done with it.
func (h *HTTP) receive(w *guardWriter, r *http.Request) (*posted, *refusal) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, &refusal{status: http.StatusUnsupportedMediaType, message: "the content type must be application/json"}
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return nil, &refusal{status: http.StatusUnsupportedMediaType, message: "the body must not be compressed"}
	}
	if !h.reading.take(1) {
		return nil, tooBusy
	}
	defer h.reading.give(1)
	m := new(posted)
	if no := h.readBody(w, r, m); no != nil {
		h.release(m)
		return nil, no
	}
	if no := h.parse(r, m); no != nil {
		h.release(m)
		return nil, no
	}
	return m, nil
}

func (h *HTTP) release(m *posted) { h.held.give(m.size) }

// readBody reads a body that is bounded in size and in time, and takes its share of the
// budget of all bodies while it grows, so that announcing a large body costs nothing.
func (h *HTTP) readBody(w *guardWriter, r *http.Request, m *posted) *refusal {
	if r.ContentLength > h.opts.MaxBody {
		return h.tooLarge(h.opts.MaxBody)
	}
	body := http.MaxBytesReader(w.ResponseWriter, r.Body, h.opts.MaxBody)
	var buf []byte
	for {
		if len(buf) == cap(buf) {
			more := max(int64(cap(buf)), 64<<10)
			if !h.held.take(more) {
				return tooBusy
			}
			m.size += more
			grown := make([]byte, len(buf), int64(cap(buf))+more)
			copy(grown, buf)
			buf = grown
		}
		n, err := body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		var over *http.MaxBytesError
		switch {
		case errors.Is(err, io.EOF):
			m.raw = buf
			w.arrived()
			return nil
		case errors.As(err, &over):
			return h.tooLarge(h.opts.MaxBody)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return &refusal{status: http.StatusRequestTimeout, message: "the request took too long to arrive"}
		case err != nil:
			return &refusal{status: http.StatusBadRequest, message: "the request was interrupted"}
		}
	}
}

func (h *HTTP) tooLarge(limit int64) *refusal {
	return because(http.StatusRequestEntityTooLarge, h.server.TooLarge(limit))
}

// parse determines the kind of a message.
func (h *HTTP) parse(r *http.Request, m *posted) *refusal {
	m.slim = m.raw
	if slim, args, ok := h.server.split(m.raw); ok {
		m.slim, m.args = slim, args
	}
	var wrong *mcp.JSONRPCError
	if m.message, wrong = parse(m.slim); wrong != nil {
		return &refusal{status: http.StatusBadRequest, message: wrong.Error.Message, parse: wrong.Error.Code == mcp.PARSE_ERROR}
	}
	whole := !h.server.Raw && m.Method == string(mcp.MethodToolsCall)
	if len(m.slim) > slimBytes && !whole {
		return h.tooLarge(slimBytes)
	}
	m.modern = mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion)) || mcp.IsModernProtocol(m.Params.Meta.Version)
	return nil
}

var tooManySessions = unavailable("too many sessions; end those that are not needed with DELETE, or try later")

// takesStream reports whether the client accepts a stream as a reply.
func takesStream(r *http.Request) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	return accept == "" || strings.Contains(accept, "text/event-stream") || strings.Contains(accept, "*/*") || strings.Contains(accept, "text/*")
}

// post answers one message of streamable HTTP.
func (h *HTTP) post(w *guardWriter, r *http.Request) *refusal {
	m, no := h.receive(w, r)
	if no != nil {
		return no
	}
	defer h.release(m)
	ex := &exchange{}
	if !m.modern {
		if ex.session, no = h.sessionOf(r, m); no != nil {
			return no
		}
		defer h.sessions.leave(ex.session)
	}
	if m.Method == string(mcp.MethodInitialize) && ex.session != nil {
		defer func() {
			if !ex.session.Initialized() { // it was refused
				h.sessions.end(ex.session)
			}
		}()
	}
	switch {
	case m.Method == "" && ex.session != nil: // an answer to a question of ours
		ex.session.answered(&m.message)
		w.WriteHeader(http.StatusAccepted)
		return nil
	case m.modern && m.Method == "notifications/cancelled":
		// A call of these versions is canceled by closing its stream. Their
		// calls have no session that distinguishes their ids, so this could
		// cancel the call of another client.
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	room, until := &h.calls, h.callsDone
	if m.modern && m.Method == string(mcp.MethodSubscriptionsListen) {
		room, until = &h.streams, h.streamsDone
	}
	if m.wantsReply() {
		if !room.take(1) {
			return tooBusy
		}
		defer room.give(1)
	}
	if m.Method == string(mcp.MethodInitialize) && ex.session != nil {
		w.Header().Set(server.HeaderKeySessionID, ex.session.id)
	}
	ctx, cancel := bounded(r.Context(), until)
	defer cancel()
	return h.pass(w, r.WithContext(ctx), m, ex)
}

// sessionOf finds the session of a message, or makes it for initialize.
func (h *HTTP) sessionOf(r *http.Request, m *posted) (*httpSession, *refusal) {
	if m.Method != string(mcp.MethodInitialize) {
		if version := r.Header.Get(mcp.HeaderProtocolVersion); version != "" && !mcp.IsValidProtocolVersion(version) {
			return nil, &refusal{status: http.StatusBadRequest, message: "this protocol version is not supported; supported versions are " + strings.Join(mcp.ValidProtocolVersions, ", ")}
		}
		return h.session(r)
	}
	s := h.sessions.open()
	if s == nil {
		return nil, tooManySessions
	}
	if err := h.server.RegisterSession(r.Context(), s); err != nil {
		h.sessions.end(s)
		return nil, tooBusy
	}
	return s, nil
}

// pass hands a message to the protocol library. The arguments of a call go
// past its decoders to the tool as the bytes that came.
func (h *HTTP) pass(w *guardWriter, r *http.Request, m *posted, ex *exchange) *refusal {
	ctx := r.Context()
	if m.args != nil {
		ctx = context.WithValue(ctx, argumentsKey{}, m.args)
	}
	var out http.ResponseWriter = w
	finish := func() bool { return w.begun }
	if m.Method == string(mcp.MethodToolsCall) && m.wantsReply() {
		c := newCallWriter(w, takesStream(r))
		ex.relay = c.relay
		out, finish = c, c.finish
	}
	defer finish() // also when it panics
	if other := asFloat(m.ID); other != "" {
		out = idWriter{out, other, m.ID}
	}
	r = r.WithContext(context.WithValue(ctx, exchangeKey{}, ex))
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(m.slim)), int64(len(m.slim))
	m.raw = nil // the tool has its own copy of long arguments
	h.library.ServeHTTP(out, r)
	if !finish() && h.callsDone.Err() != nil {
		return because(http.StatusServiceUnavailable, h.server.Interrupted)
	}
	return nil
}

// asFloat is the number by which the protocol library answers one that no float64 holds, or
// "" if it answers by the number that came.
func asFloat(id json.RawMessage) string {
	var number float64
	if json.Unmarshal(id, &number) != nil {
		return ""
	}
	if text, err := json.Marshal(number); err == nil && !bytes.Equal(text, id) {
		return string(text)
	}
	return ""
}

// idWriter puts the number that came back into the reply.
type idWriter struct {
	http.ResponseWriter
	other string
	id    json.RawMessage
}

func (w idWriter) Write(p []byte) (int, error) {
	const event, head = "event: message\ndata: ", `{"jsonrpc":"2.0","id":`
	rest, isEvent := bytes.CutPrefix(p, []byte(event))
	rest, ok := bytes.CutPrefix(rest, []byte(head+w.other+","))
	if !ok {
		return w.ResponseWriter.Write(p)
	}
	begin := head + string(w.id) + ","
	if isEvent {
		begin = event + begin
	}
	if _, err := io.WriteString(w.ResponseWriter, begin); err != nil {
		return 0, err
	}
	_, err := w.ResponseWriter.Write(rest)
	return len(p), err
}

func (w idWriter) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

// bounded is a context that also ends with another one.
func bounded(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(other, cancel)
	return ctx, func() { stop(); cancel() }
}

// listen serves the stream of a session, for messages that belong to no call.
func (h *HTTP) listen(w *guardWriter, r *http.Request) *refusal {
	session, no := h.session(r)
	if no != nil {
		return no
	}
	defer h.sessions.leave(session)
	if !takesStream(r) {
		return &refusal{status: http.StatusNotAcceptable, message: "a stream needs Accept: text/event-stream"}
	}
	if !h.streams.take(1) {
		return tooBusy
	}
	defer h.streams.give(1)
	ctx, end := bounded(r.Context(), h.streamsDone)
	defer end()
	ctx, leave := session.takeStream(ctx)
	defer leave()
	if w.startEvents() != nil {
		return nil
	}
	beat := time.NewTicker(h.opts.Heartbeat)
	defer beat.Stop()
	for err := error(nil); err == nil; {
		select {
		case n := <-session.notes:
			err = sendEvent(w, n)
		case q := <-session.asks:
			err = sendEvent(w, q)
		case <-beat.C:
			err = w.comment()
		case <-session.ended:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

func sendEvent(w *guardWriter, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return nil // our messages never fail to marshal; the stream continues
	}
	return w.event(data)
}

var _ server.SessionWithElicitation = callSession{}
