package mcpserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// The older transport: a stream of events at /sse, whose first event names the
// address to which the client posts its messages. Behind it runs the same loop
// as over standard input and output, with a pipe for input and the stream for
// output, so that order, cancellation and questions are the same.

// sseStreams are the open streams, by the name in the address.
type sseStreams struct {
	mu   sync.Mutex
	byID map[string]*sseStream
}

func (t *sseStreams) add(s *sseStream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID == nil {
		t.byID = map[string]*sseStream{}
	}
	t.byID[s.id] = s
}

func (t *sseStreams) remove(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byID, id)
}

func (t *sseStreams) find(id string) *sseStream {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// sseStream is one client of the older transport.
type sseStream struct {
	id   string
	feed *io.PipeWriter // to the loop

	mu      sync.Mutex
	out     *guardWriter
	waiting map[string]func() // calls in flight, by id: releases what each holds
}

// serveSSE is the stream. It lasts until the client leaves or the server shuts
// down; then the calls that were posted are answered first.
func (h *HTTPServer) serveSSE(w *guardWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		h.refuse(w, onlyMethods("GET"))
		return
	}
	if !h.streams.take(1) {
		h.refuse(w, tooBusy)
		return
	}
	defer h.streams.give(1)
	ctx, cancel := bounded(r.Context(), h.callsDone)
	defer cancel()
	in, feed := io.Pipe()
	s := &sseStream{id: rand.Text(), feed: feed, out: w, waiting: map[string]func(){}}
	h.sse.add(s)
	defer s.settle()
	defer h.sse.remove(s.id)
	defer in.Close()
	defer context.AfterFunc(h.streamsDone, func() { feed.Close() })()
	if s.greet(h.opts.BasePath) != nil {
		return
	}
	defer s.beat(h.opts.Heartbeat)()
	ServeStdio(ctx, h.mcp, in, s)
}

// greet tells the client the address to post to.
func (s *sseStream) greet(base string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.out.startEvents(); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(s.out, "event: endpoint\ndata: %s/messages/?session_id=%s\n\n", base, s.id); err != nil {
		return err
	}
	return s.out.flush()
}

// beat keeps the stream alive until the returned function has returned.
func (s *sseStream) beat(pause time.Duration) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.mu.Lock()
				s.out.comment()
				s.mu.Unlock()
			case <-end:
				return
			}
		}
	}()
	return func() { close(end); <-ended }
}

// Write takes one line of the loop, a message to the client.
func (s *sseStream) Write(line []byte) (int, error) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.Unmarshal(line, &m) == nil && m.Method == "" {
		s.answered(m.ID) // before the client knows, and uses the free place
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.out.event(bytes.TrimSuffix(line, []byte("\n"))); err != nil {
		return 0, err
	}
	return len(line), nil
}

// await notes what a call takes until it is answered.
func (s *sseStream) await(id json.RawMessage, give func()) {
	s.answered(id) // the same number again: the one before counts no more
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[idOf(id)] = give
}

// answered gives back what a call took, if it still waited.
func (s *sseStream) answered(id json.RawMessage) {
	s.mu.Lock()
	give := s.waiting[idOf(id)]
	delete(s.waiting, idOf(id))
	s.mu.Unlock()
	if give != nil {
		give()
	}
}

// settle gives everything back.
func (s *sseStream) settle() {
	s.mu.Lock()
	all := s.waiting
	s.waiting = map[string]func(){}
	s.mu.Unlock()
	for _, give := range all {
		give()
	}
}

// serveMessages takes what the client of a stream posts.
func (h *HTTPServer) serveMessages(w *guardWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		h.refuse(w, onlyMethods("POST"))
		return
	}
	s := h.sse.find(r.URL.Query().Get("session_id"))
	if s == nil {
		h.refuse(w, &httpRefusal{status: http.StatusNotFound, message: "there is no such stream, or it has ended; open /sse again"})
		return
	}
	m, no := h.receive(w, r)
	if no != nil {
		h.refuse(w, no)
		return
	}
	if !json.Valid(m.raw) {
		h.release(m)
		h.refuse(w, notJSON)
		return
	}
	if m.wantsReply() {
		if !h.calls.take(1) {
			h.release(m)
			h.refuse(w, tooBusy)
			return
		}
		s.await(m.ID, func() { h.calls.give(1); h.release(m) })
	} else {
		defer h.release(m)
	}
	if m.Method == "notifications/cancelled" {
		defer s.answered(m.Params.RequestID) // a canceled call is not answered
	}
	if _, err := s.feed.Write(oneLine(m.raw)); err != nil {
		if m.wantsReply() {
			s.answered(m.ID)
		}
		no := goingDown
		if !errors.Is(err, io.ErrClosedPipe) || h.streamsDone.Err() == nil {
			no = &httpRefusal{status: http.StatusNotFound, message: "the stream has ended; open /sse again"}
		}
		h.refuse(w, no)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// oneLine ends a message with a line break, its only one: those between values
// become spaces, and strings hold none in valid JSON.
func oneLine(doc []byte) []byte {
	for i, c := range doc {
		if c == '\n' || c == '\r' {
			doc[i] = ' '
		}
	}
	return append(doc, '\n')
}
