package transport

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"golang.org/x/time/rate"

	rw "github.com/resilientwrite/resilientwrite"
)

// HTTPOptions are the settings of [HTTP]. mcpserver.HTTPOptions, which has the
// same fields, documents them.
type HTTPOptions struct {
	Token          string
	NoAuth         bool
	AllowedOrigins []string
	AllowedHosts   []string
	TLS            *tls.Config
	AllowPlainHTTP bool

	SSE      bool
	BasePath string

	MaxBody         int64
	HeaderTimeout   time.Duration
	BodyTimeout     time.Duration
	WriteTimeout    time.Duration
	MaxInFlight     int
	MaxStreams      int
	MaxSessions     int
	SessionIdleTTL  time.Duration
	Heartbeat       time.Duration
	ShutdownTimeout time.Duration

	Logger *slog.Logger
}

// HTTP answers the protocol over HTTP: streamable HTTP at /mcp and, if
// [HTTPOptions.SSE] is set, the older transport at /sse and /messages/.
type HTTP struct {
	server   *Server
	library  *server.StreamableHTTPServer
	pages    *Pages // in place of the protocol
	opts     HTTPOptions
	refusals *rate.Limiter // limits their records

	token   [sha256.Size]byte
	plain   string // the token when it was generated here
	cross   *http.CrossOriginProtection
	origins map[string]bool
	hosts   map[string]bool

	sessions *sessions
	sse      sync.Map // *sseStream, by the name in the address
	ledger   ledger
	reading  gauge // bodies on their way in
	calls    gauge
	streams  gauge
	held     gauge // bytes of bodies
	conns    gauge

	streamsDone context.Context // ends with the streams
	endStreams  context.CancelFunc
	callsDone   context.Context // ends calls that outlast a shutdown
	cutCalls    context.CancelFunc
}

// bodiesHeld is how many bodies of full size are in memory at most.
const bodiesHeld = 8

// NewHTTP offers s over HTTP.
func (s *Server) NewHTTP(opts *HTTPOptions) (*HTTP, error) {
	h, err := newHTTP(opts, s.MCPServer)
	if err != nil {
		return nil, err
	}
	h.server = s
	h.library = server.NewStreamableHTTPServer(s.MCPServer,
		server.WithStateLess(true), // the sessions are ours
		server.WithHTTPContextFunc(h.enter),
		server.WithDisableLocalhostProtection(true), // ours is stricter
		server.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler)),
	)
	return h, nil
}

// newHTTP is what every server over HTTP needs: the checks and the limits.
func newHTTP(opts *HTTPOptions, of *server.MCPServer) (*HTTP, error) {
	if err := opts.Check(); err != nil {
		return nil, err
	}
	o := opts.orDefaults()
	h := &HTTP{
		opts: o, refusals: rate.NewLimiter(5, 10), cross: http.NewCrossOriginProtection(), origins: map[string]bool{}, hosts: map[string]bool{},
		sessions: &sessions{max: o.MaxSessions, ttl: o.SessionIdleTTL, server: of, byID: map[string]*httpSession{}},
		reading:  gauge{max: int64(o.MaxInFlight)}, calls: gauge{max: int64(o.MaxInFlight)},
		streams: gauge{max: int64(o.MaxStreams)}, held: gauge{max: bodiesHeld * o.MaxBody},
		conns: gauge{max: int64(o.MaxSessions + o.MaxStreams + o.MaxInFlight)},
	}
	if o.Token == "" && !o.NoAuth {
		h.plain = rand.Text() + rand.Text()
		h.opts.Token = h.plain
	}
	h.token = sha256.Sum256([]byte(h.opts.Token))
	for _, origin := range o.AllowedOrigins {
		name, _ := normalOrigin(origin)
		h.origins[name] = true
		if err := h.cross.AddTrustedOrigin(name); err != nil {
			return nil, err
		}
	}
	for _, host := range o.AllowedHosts {
		name, port, _ := splitHost(host)
		h.hosts[joinHost(name, port)] = true
	}
	h.streamsDone, h.endStreams = context.WithCancel(context.Background())
	h.callsDone, h.cutCalls = context.WithCancel(context.Background())
	return h, nil
}

// Token is the token that was generated because none was given, else "".
func (h *HTTP) Token() string { return h.plain }

// Check validates the options.
func (o *HTTPOptions) Check() error {
	switch {
	case o == nil:
		return nil
	case o.NoAuth && o.Token != "":
		return errors.New("a token and no authentication were both configured")
	case o.Token != "" && !goodToken.MatchString(o.Token):
		return errors.New("a token needs at least 16 characters, only letters, digits and -._~+/=")
	case o.MaxBody < 0 || o.MaxInFlight < 0 || o.MaxStreams < 0 || o.MaxSessions < 0 ||
		o.HeaderTimeout < 0 || o.BodyTimeout < 0 || o.WriteTimeout < 0 || o.SessionIdleTTL < 0 || o.Heartbeat < 0 || o.ShutdownTimeout < 0:
		return errors.New("a limit is negative")
	case o.TLS != nil && len(o.TLS.Certificates) == 0 && o.TLS.GetCertificate == nil && o.TLS.GetConfigForClient == nil:
		return errors.New("TLS needs a certificate")
	case o.BasePath != "" && (!strings.HasPrefix(o.BasePath, "/") || strings.HasSuffix(o.BasePath, "/")):
		return errors.New("a base path begins with / and does not end with it")
	}
	for _, origin := range o.AllowedOrigins {
		if _, ok := normalOrigin(origin); !ok {
			return fmt.Errorf("%q is no web origin; write scheme://host or scheme://host:port, without a path; there is no wildcard", origin)
		}
	}
	for _, host := range o.AllowedHosts {
		if _, _, ok := splitHost(host); !ok {
			return fmt.Errorf("%q is no host; write name or name:port; there is no wildcard", host)
		}
	}
	return nil
}

var goodToken = regexp.MustCompile(`^[A-Za-z0-9._~+/=-]{16,}$`)

// orDefaults sets missing options to their defaults.
func (o *HTTPOptions) orDefaults() HTTPOptions {
	var out HTTPOptions
	if o != nil {
		out = *o
	}
	out.Logger = cmp.Or(out.Logger, slog.New(slog.DiscardHandler))
	out.MaxBody = cmp.Or(out.MaxBody, 32<<20)
	out.HeaderTimeout = cmp.Or(out.HeaderTimeout, 5*time.Second)
	out.BodyTimeout = cmp.Or(out.BodyTimeout, time.Minute)
	out.WriteTimeout = cmp.Or(out.WriteTimeout, time.Minute)
	out.MaxInFlight = cmp.Or(out.MaxInFlight, 64)
	out.MaxStreams = cmp.Or(out.MaxStreams, 128)
	out.MaxSessions = cmp.Or(out.MaxSessions, 1024)
	out.SessionIdleTTL = cmp.Or(out.SessionIdleTTL, time.Hour)
	out.Heartbeat = cmp.Or(out.Heartbeat, 30*time.Second)
	out.ShutdownTimeout = cmp.Or(out.ShutdownTimeout, 10*time.Second)
	return out
}

// ServeHTTP answers one request. It sets the deadlines of the connection request
// by request, so that those of a server around it do not apply.
func (h *HTTP) ServeHTTP(under http.ResponseWriter, r *http.Request) {
	w := newGuardWriter(under, r, &h.opts)
	defer w.close()
	defer h.contain(w)
	if no := h.serve(w, r); no != nil {
		h.refuse(w, no)
	}
}

// serve answers a request, or returns why it does not.
func (h *HTTP) serve(w *guardWriter, r *http.Request) *refusal {
	if no := h.admit(w, r); no != nil {
		return no
	}
	if preflight(w, r) || h.pages != nil && h.pages.open(w, r) {
		return nil
	}
	if no := h.authorize(r); no != nil {
		return no
	}
	if !h.ledger.enter() {
		return goingDown
	}
	defer h.ledger.open.Done()
	switch path, _ := strings.CutPrefix(r.URL.Path, h.opts.BasePath); {
	case w.unread && r.Method != http.MethodPost:
		return &refusal{status: http.StatusBadRequest, message: "this method takes no body"}
	case h.opts.BasePath != "" && !strings.HasPrefix(r.URL.Path, h.opts.BasePath+"/"):
		return nothingHere
	case h.pages != nil:
		return h.servePages(w, r, path)
	case path == "/mcp" || path == "/mcp/":
		return h.serveMCP(w, r)
	case h.opts.SSE && path == "/sse":
		return h.serveSSE(w, r)
	case h.opts.SSE && (path == "/messages/" || path == "/messages"):
		return h.serveMessages(w, r)
	}
	return nothingHere
}

// serveMCP answers at the endpoint of streamable HTTP.
func (h *HTTP) serveMCP(w *guardWriter, r *http.Request) *refusal {
	modern := mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion))
	switch {
	case r.Method == http.MethodPost:
		return h.post(w, r)
	case modern: // it has neither separate streams nor sessions
		return onlyMethods("POST")
	case r.Method == http.MethodGet:
		return h.listen(w, r)
	case r.Method == http.MethodDelete:
		session, no := h.session(r)
		if no != nil {
			return no
		}
		h.sessions.leave(session)
		h.sessions.end(session)
		w.WriteHeader(http.StatusOK)
		return nil
	}
	return onlyMethods("GET, POST, DELETE")
}

// contain keeps a panic from ending the connection without an answer. Its value
// may contain content and is never reported.
func (h *HTTP) contain(w *guardWriter) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler {
		panic(v)
	}
	h.opts.Logger.Error("a request panicked")
	if w.begun {
		panic(http.ErrAbortHandler) // a reply that breaks off must not look whole
	}
	e := rw.NewError("http", rw.ErrInternal, "internal error", nil)
	e.Effect = rw.EffectUnknown // the panic may have come after the call
	h.refuse(w, because(http.StatusInternalServerError, e))
}

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
		ConnState:         h.connected,
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

// connected counts a connection, and closes it if there is more than one for each session,
// stream and call.
func (h *HTTP) connected(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if h.conns.n.Add(1) > h.conns.max {
			c.Close()
		}
	case http.StateClosed:
		h.conns.give(1)
	}
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
