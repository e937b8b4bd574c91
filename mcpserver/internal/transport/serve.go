package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Serve answers on the listener until ctx ends, and closes it. Calls in flight
// are completed, or canceled after ShutdownTimeout.
func (h *HTTP) Serve(ctx context.Context, l net.Listener) error {
	err := h.opts.CheckAddr(l.Addr())
	if tcp, ok := l.Addr().(*net.TCPAddr); err == nil && h.pages != nil && !(ok && tcp.IP.IsLoopback()) {
		err = errors.New("the dashboard is served on a loopback address only")
	}
	if err != nil {
		l.Close()
		return err
	}
	h.announce(l.Addr())
	if h.opts.TLS != nil {
		l = tls.NewListener(l, tlsConfig(h.opts.TLS))
	}
	s := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: h.opts.HeaderTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(h.opts.Logger.Handler(), slog.LevelDebug),
		// No ReadTimeout and no WriteTimeout: they would end streams. Each
		// request has deadlines of its own.
	}
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	select {
	case err := <-failed:
		h.stop(s)
		return err
	case <-ctx.Done():
	}
	h.opts.Logger.Info("shutting down", "calls", h.calls.n.Load(), "streams", h.streams.n.Load())
	h.stop(s)
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

const (
	closeTime = 2 * time.Second // for connections to end after their last reply
	cutTime   = 2 * time.Second // for calls to end that were canceled
)

// stop ends the calls and then the connections.
func (h *HTTP) stop(s *http.Server) {
	h.ledger.close()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	s.Shutdown(now) // no new connections from here on, and none is kept for another request
	ctx, cancel := context.WithTimeout(context.Background(), h.opts.ShutdownTimeout)
	defer cancel()
	if h.Shutdown(ctx) != nil {
		h.opts.Logger.Warn("canceled the calls that did not end in time")
	}
	ctx, cancel = context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	s.Shutdown(ctx)
	s.Close()
}

// Shutdown accepts no more requests, ends the streams, and waits for the calls
// in flight until ctx ends; then it cancels them.
func (h *HTTP) Shutdown(ctx context.Context) error {
	idle := h.ledger.close()
	h.endStreams()
	var err error
	select {
	case <-idle:
	case <-ctx.Done():
		err = ctx.Err()
		h.cutCalls()
		select {
		case <-idle:
		case <-time.After(cutTime):
		}
	}
	h.cutCalls()
	h.sessions.endAll()
	return err
}

// CheckAddr returns the reason why the server must not listen on an address.
func (o *HTTPOptions) CheckAddr(addr net.Addr) error {
	switch a := addr.(type) {
	case *net.UnixAddr:
		return nil
	case *net.TCPAddr:
		if a.IP.IsLoopback() {
			return nil
		}
	}
	if o.NoAuth {
		return errors.New("an address beyond loopback needs a token")
	}
	if o.TLS == nil && !o.AllowPlainHTTP {
		return errors.New("an address beyond loopback needs TLS, or explicit permission for plain HTTP")
	}
	return nil
}

func tlsConfig(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.MinVersion = max(c.MinVersion, tls.VersionTLS12)
	c.NextProtos = []string{"http/1.1"}
	return c
}

// announce prints where the server listens.
func (h *HTTP) announce(addr net.Addr) {
	where := addr.String()
	if _, ok := addr.(*net.UnixAddr); ok {
		where = "unix socket"
	}
	auth := "token"
	if h.opts.NoAuth {
		auth = "none"
	}
	if h.pages != nil {
		h.opts.Logger.Info("serving the dashboard", "address", where)
		return
	}
	h.opts.Logger.Info("serving", "address", where, "endpoint", h.opts.BasePath+"/mcp", "tls", h.opts.TLS != nil, "auth", auth)
	if h.opts.SSE {
		h.opts.Logger.Warn("the SSE transport is deprecated by the protocol; point clients at the other endpoint",
			"sse", h.opts.BasePath+"/sse", "instead", h.opts.BasePath+"/mcp")
	}
}

// ledger counts the requests in flight.
type ledger struct {
	mu     sync.Mutex
	open   sync.WaitGroup
	closed bool
}

// enter counts a request; false when no more are taken.
func (l *ledger) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.open.Add(1)
	}
	return !l.closed
}

// close accepts no more requests; the channel is closed when none is in flight.
func (l *ledger) close() <-chan struct{} {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	idle := make(chan struct{})
	go func() { l.open.Wait(); close(idle) }()
	return idle
}
