package mcpserver

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

// Serve answers on the listener until ctx ends, and closes it. It then accepts
// no more requests, ends the open streams, and waits for the calls in flight: a
// running write is completed and answered. A call that takes longer than
// [HTTPOptions.ShutdownTimeout] is canceled, which has no effect on a commit
// past its commit point. Serve then returns nil; it can be called once per
// HTTPServer.
//
// A listener beyond loopback is refused without a token, and without TLS unless
// [HTTPOptions.AllowPlainHTTP] is set. A unix socket counts as loopback; its
// mode decides who may connect.
func (h *HTTPServer) Serve(ctx context.Context, l net.Listener) error {
	if err := h.opts.CheckAddr(l.Addr()); err != nil {
		l.Close()
		return err
	}
	h.announce(l.Addr())
	if h.opts.TLS != nil {
		l = tls.NewListener(l, tlsConfig(h.opts.TLS))
	}
	var busy busyConns
	s := &http.Server{
		Handler:           h,
		ConnState:         busy.note,
		ReadHeaderTimeout: h.opts.HeaderTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
		// No ReadTimeout and no WriteTimeout: they would end streams. Each
		// request has deadlines of its own.
	}
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	select {
	case err := <-failed:
		h.stop(s, &busy)
		return err
	case <-ctx.Done():
	}
	h.log.Info("shutting down", "calls", h.calls.n.Load(), "streams", h.streams.n.Load())
	h.stop(s, &busy)
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
func (h *HTTPServer) stop(s *http.Server, busy *busyConns) {
	h.ledger.close()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	// No new connections from here on, and none is kept for another request.
	// It would wait for those that never sent one, so that we wait ourselves.
	s.Shutdown(now)
	ctx, cancel := context.WithTimeout(context.Background(), h.opts.ShutdownTimeout)
	defer cancel()
	if h.Shutdown(ctx) != nil {
		h.log.Warn("canceled the calls that did not end in time")
	}
	for end := time.Now().Add(closeTime); busy.count() > 0 && time.Now().Before(end); {
		time.Sleep(2 * time.Millisecond)
	}
	s.Close()
}

// busyConns counts the connections with a request in flight.
type busyConns struct {
	mu    sync.Mutex
	conns map[net.Conn]bool
}

func (b *busyConns) note(c net.Conn, state http.ConnState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conns == nil {
		b.conns = map[net.Conn]bool{}
	}
	if state == http.StateActive {
		b.conns[c] = true
	} else {
		delete(b.conns, c)
	}
}

func (b *busyConns) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.conns)
}

// Shutdown accepts no more requests, ends the streams, and waits for the calls
// in flight until ctx ends. It then cancels the remaining calls, waits two more
// seconds, and returns the error of ctx. Closing the store afterwards waits for
// commits that are past their commit point.
func (h *HTTPServer) Shutdown(ctx context.Context) error {
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

// CheckAddr says why the server must not listen on an address.
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
func (h *HTTPServer) announce(addr net.Addr) {
	where := addr.String()
	if _, ok := addr.(*net.UnixAddr); ok {
		where = "unix socket"
	}
	auth := "token"
	if h.opts.NoAuth {
		auth = "none"
	}
	h.log.Info("serving", "address", where, "endpoint", h.opts.BasePath+"/mcp", "tls", h.opts.TLS != nil, "auth", auth)
	if h.opts.SSE {
		h.log.Warn("the SSE transport is deprecated by the protocol; point clients at the other endpoint",
			"sse", h.opts.BasePath+"/sse", "instead", h.opts.BasePath+"/mcp")
	}
}

// ledger counts the requests in flight.
type ledger struct {
	mu     sync.Mutex
	open   int
	closed bool
	idle   chan struct{} // closed when closed and nothing is open
}

// enter counts a request; false when no more are taken.
func (l *ledger) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.open++
	return true
}

func (l *ledger) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.closed && l.open == 0 {
		close(l.idle)
	}
}

// close accepts no more requests; the channel is closed when none is in flight.
func (l *ledger) close() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed, l.idle = true, make(chan struct{})
		if l.open == 0 {
			close(l.idle)
		}
	}
	return l.idle
}
