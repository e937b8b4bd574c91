package transport

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// The older transport, which the protocol has deprecated: a stream of events at
// /sse, whose first event names the address to which the client posts its
// messages. They go through the same loop as those over standard input, so that
// order, cancellation and questions are the same.
//
// Deprecated: kept for clients that are configured for it. It gets no new
// features.

// sseStream is one client of the older transport.
type sseStream struct {
	mu  sync.Mutex // of out
	out *guardWriter

	taking sync.Mutex // of what follows, so that messages keep their order
	loop   *loop      // nil when the stream has ended
}

// serveSSE is the stream. It lasts until the client leaves or the server shuts
// down; then the calls that were posted are answered first.
func (h *HTTP) serveSSE(w *guardWriter, r *http.Request) *refusal {
	if r.Method != http.MethodGet {
		return onlyMethods("GET")
	}
	if !h.streams.take(1) {
		return tooBusy
	}
	defer h.streams.give(1)
	ctx, cancel := bounded(r.Context(), h.callsDone)
	defer cancel()
	id, s := rand.Text(), &sseStream{out: w}
	var err error
	if s.loop, err = h.server.newLoop(ctx, s); err != nil {
		return tooBusy
	}
	h.sse.Store(id, s)
	defer s.end()
	defer h.sse.Delete(id)
	if s.greet(h.opts.BasePath+"/messages/?session_id="+id) != nil {
		return nil
	}
	beat := time.NewTicker(h.opts.Heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-beat.C:
			s.mu.Lock()
			s.out.comment()
			s.mu.Unlock()
		case <-ctx.Done():
			return nil
		case <-h.streamsDone.Done():
			return nil
		case <-s.loop.out.broken:
			return nil
		}
	}
}

// end takes no more messages, and waits for the calls in flight.
func (s *sseStream) end() {
	s.taking.Lock()
	loop := s.loop
	s.loop = nil
	s.taking.Unlock()
	loop.close()
}

// greet sends the client the address to post to.
func (s *sseStream) greet(address string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.out.startEvents(); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(s.out, "event: endpoint\ndata: %s\n\n", address); err != nil {
		return err
	}
	return s.out.flush()
}

// Write takes one line of the loop, a message to the client.
func (s *sseStream) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(line), s.out.event(bytes.TrimSuffix(line, []byte("\n")))
}

var streamEnded = &refusal{status: http.StatusNotFound, message: "there is no such stream, or it has ended; open /sse again"}

// serveMessages receives the messages that the client of a stream posts.
func (h *HTTP) serveMessages(w *guardWriter, r *http.Request) *refusal {
	if r.Method != http.MethodPost {
		return onlyMethods("POST")
	}
	s, ok := h.sse.Load(r.URL.Query().Get("session_id"))
	if !ok {
		return streamEnded
	}
	m, no := h.receive(w, r)
	if no != nil {
		return no
	}
	counted := m.wantsReply()
	if counted && !h.calls.take(1) {
		h.release(m)
		return tooBusy
	}
	release := func() {
		if counted {
			h.calls.give(1)
		}
		h.release(m)
	}
	if s.(*sseStream).take(m.raw, release) {
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	if h.streamsDone.Err() != nil {
		return goingDown
	}
	return streamEnded
}

// take hands a message to the loop, which calls release when it is done, unless
// the stream has ended.
func (s *sseStream) take(raw []byte, release func()) bool {
	s.taking.Lock()
	defer s.taking.Unlock()
	if s.loop == nil {
		release()
		return false
	}
	s.loop.take(raw, release)
	return true
}
