package transport

import (
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"time"
)

// Pages are a page for a browser and its resources, served after the checks of
// the protocol: Host, Origin, and the token for all but the page itself, which
// holds no data.
type Pages struct {
	Page   []byte            // of HTML, at /
	Header map[string]string // of the page
	// Events sends messages at /events until send fails or ctx ends.
	Events func(ctx context.Context, send func(message []byte) error) error
	// Posts answer JSON with JSON, by path.
	Posts map[string]func(ctx context.Context, body []byte) (status int, reply any)
}

// NewPages offers pages over HTTP.
func NewPages(pages Pages, opts *HTTPOptions) (*HTTP, error) {
	h, err := newHTTP(opts, nil)
	if err != nil {
		return nil, err
	}
	h.pages = &pages
	return h, nil
}

// open answers what needs no token.
func (p *Pages) open(w *guardWriter, r *http.Request) bool {
	if r.URL.Path != "/" || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	head := w.Header()
	for name, value := range p.Header {
		head.Set(name, value)
	}
	head.Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		w.Write(p.Page)
	}
	return true
}

// servePages answers what needs one.
func (h *HTTP) servePages(w *guardWriter, r *http.Request, path string) *refusal {
	post := h.pages.Posts[path]
	switch {
	case path == "/events" && r.Method == http.MethodGet:
		return h.sendEvents(w, r)
	case path == "/events":
		return onlyMethods("GET")
	case path == "/":
		return onlyMethods("GET, HEAD")
	case post == nil:
		return nothingHere
	case r.Method != http.MethodPost:
		return onlyMethods("POST")
	}
	return h.answerPage(w, r, post)
}

// pageBody is the maximum size of a request of a page.
const pageBody = 4 << 10

func (h *HTTP) answerPage(w *guardWriter, r *http.Request, post func(context.Context, []byte) (int, any)) *refusal {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return &refusal{status: http.StatusUnsupportedMediaType, message: "the body must be application/json"}
	}
	if !h.calls.take(1) {
		return tooBusy
	}
	defer h.calls.give(1)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, pageBody))
	if err != nil {
		return &refusal{status: http.StatusRequestEntityTooLarge, message: "the body is too long, or did not come in time"}
	}
	w.arrived()
	ctx, end := bounded(r.Context(), h.callsDone)
	defer end()
	status, reply := post(ctx, body)
	data, err := json.Marshal(reply)
	if err != nil {
		return &refusal{status: http.StatusInternalServerError, message: "the reply cannot be written"}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(data)
	return nil
}

// sendEvents keeps a stream of events open. Events that a slow reader misses are not
// kept for it.
func (h *HTTP) sendEvents(w *guardWriter, r *http.Request) *refusal {
	if !h.streams.take(1) {
		return tooBusy
	}
	defer h.streams.give(1)
	ctx, end := bounded(r.Context(), h.streamsDone)
	defer end()
	if w.startEvents() != nil {
		return nil
	}
	last := time.Now()
	err := h.pages.Events(ctx, func(message []byte) error {
		switch {
		case message != nil:
			last = time.Now()
			return w.event(message)
		case time.Since(last) >= h.opts.Heartbeat:
			last = time.Now()
			return w.comment()
		}
		return ctx.Err()
	})
	if err != nil && ctx.Err() == nil {
		h.opts.Logger.Warn("a stream of the dashboard ended")
	}
	return nil
}
