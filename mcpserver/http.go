package mcpserver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
)

// HTTPOptions are the settings of the transports over HTTP. nil means the
// defaults: a generated token, which [HTTPServer.Token] returns, and browsers
// only from the same origin.
type HTTPOptions struct {
	// Token is what a request must carry as "Authorization: Bearer <token>",
	// at least 16 characters. Empty means that one is generated.
	Token string
	// NoAuth takes requests without a token. [HTTPServer.Serve] then refuses
	// any listener but a loopback one or a unix socket.
	NoAuth bool
	// AllowedOrigins are web origins besides the server's own whose pages may
	// send requests, such as https://app.example.com. There is no wildcard.
	AllowedOrigins []string
	// AllowedHosts are names, or name:port, besides localhost and the address
	// of the connection, that the Host header may hold. A reverse proxy that
	// keeps the Host header needs its name here.
	AllowedHosts []string
	// TLS makes [HTTPServer.Serve] speak HTTPS, HTTP/1.1 inside. nil means
	// plain HTTP.
	TLS *tls.Config
	// AllowPlainHTTP lets Serve take a listener beyond loopback without TLS:
	// the token and the content then cross the network in the clear.
	AllowPlainHTTP bool

	// SSE also serves the older transport with its two endpoints, /sse and
	// /messages/. The protocol has deprecated it.
	SSE bool
	// BasePath is the prefix of every endpoint. Default "": the endpoint is
	// /mcp.
	BasePath string

	// MaxBody is the size of one request, in bytes. Default 32 MiB.
	MaxBody int64
	// HeaderTimeout is how long the header of a request may take to arrive at
	// Serve. Default 5 s.
	HeaderTimeout time.Duration
	// BodyTimeout is how long a request may take to arrive. Default 60 s.
	BodyTimeout time.Duration
	// WriteTimeout is how long a client may leave a reply unread while nothing
	// of it gets through; it is no limit for a stream. Default 60 s.
	WriteTimeout time.Duration
	// MaxInFlight is how many calls are answered at a time. Default 64.
	MaxInFlight int
	// MaxStreams is how many streams may be open at a time. Default 128.
	MaxStreams int
	// MaxSessions is how many sessions are kept. Default 1024.
	MaxSessions int
	// SessionIdleTTL is how long a session without requests and without a
	// stream is kept. Default 1 h.
	SessionIdleTTL time.Duration
	// Heartbeat is how often an idle stream carries a comment, so that proxies
	// keep it and a lost client is noticed. Default 30 s.
	Heartbeat time.Duration
	// ShutdownTimeout is how long Serve waits for calls in flight before it
	// cancels them. Default 10 s.
	ShutdownTimeout time.Duration

	// Logger gets structured records without content, tokens, addresses of
	// pages or session names. Default: none.
	Logger *slog.Logger
}

// HTTPServer answers the protocol over HTTP: streamable HTTP at /mcp, with
// sessions for the older versions of the protocol and without for those since
// 2026-07-28, and optionally SSE. It is an [http.Handler] that includes all its
// checks, so that it can be mounted into another server; [HTTPServer.Serve]
// runs it by itself and adds the limits of connections.
//
// A client that closes the connection of a call cancels it: before the commit
// point nothing is changed, after it the call is completed, and rw_operation
// reports which of the two happened. Calls that are sent without waiting for
// replies run concurrently and in no promised order, except over SSE, where
// calls that change something run one after the other. Each is still atomic,
// and exactly one of several with the same expected_prev_sha256 succeeds.
type HTTPServer struct {
	mcp  *server.MCPServer
	http *server.StreamableHTTPServer
	opts HTTPOptions
	log  *slog.Logger
	told *bucket // limits the records of refusals

	token   [sha256.Size]byte
	plain   string // the token when it was generated here
	cross   *http.CrossOriginProtection
	origins map[string]bool
	hosts   map[string]bool

	sessions *httpSessions
	sse      sseStreams
	ledger   ledger
	reading  gauge // bodies on their way in
	calls    gauge
	streams  gauge
	held     gauge // bytes of bodies

	streamsDone context.Context // ends with the streams
	endStreams  context.CancelFunc
	callsDone   context.Context // ends calls that outlast a shutdown
	cutCalls    context.CancelFunc
}

// bodiesHeld is how many bodies of full size are in memory at most.
const bodiesHeld = 8

// NewHTTP offers s over HTTP. A panic in a tool, a prompt or a resource of s is
// contained from then on. When the server is mounted into another one, call
// [HTTPServer.Shutdown] before the store is closed.
func NewHTTP(s *server.MCPServer, opts *HTTPOptions) (*HTTPServer, error) {
	o := opts.orDefaults()
	if err := o.Check(); err != nil {
		return nil, err
	}
	h := &HTTPServer{
		mcp: s, opts: o, log: o.Logger, told: newBucket(5), cross: http.NewCrossOriginProtection(), origins: map[string]bool{}, hosts: map[string]bool{},
		reading: gauge{max: int64(o.MaxInFlight)}, calls: gauge{max: int64(o.MaxInFlight)},
		streams: gauge{max: int64(o.MaxStreams)}, held: gauge{max: bodiesHeld * o.MaxBody},
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
	h.sessions = newHTTPSessions(o.MaxSessions, o.SessionIdleTTL, func(id string) {
		s.UnregisterSession(context.Background(), id)
	})
	h.streamsDone, h.endStreams = context.WithCancel(context.Background())
	h.callsDone, h.cutCalls = context.WithCancel(context.Background())
	h.http = server.NewStreamableHTTPServer(s,
		server.WithSessionIdManagerResolver(sessionNames{}),
		server.WithHTTPContextFunc(h.enter),
		server.WithDisableLocalhostProtection(true), // ours is stricter
		server.WithStreamableHTTPLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
	)
	contain(s, func(what string) { o.Logger.Error("a handler panicked", "what", what) })
	return h, nil
}

// Token is the token that was generated because none was given, else "".
func (h *HTTPServer) Token() string { return h.plain }

// Check validates the options.
func (o *HTTPOptions) Check() error {
	switch {
	case o == nil:
		return nil
	case o.NoAuth && o.Token != "":
		return errors.New("a token and no authentication were both configured")
	case o.Token != "" && !goodToken(o.Token):
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

func goodToken(token string) bool {
	for _, c := range []byte(token) {
		alnum := c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		if !alnum && !strings.ContainsRune("-._~+/=", rune(c)) {
			return false
		}
	}
	return len(token) >= 16
}

// orDefaults fills in what is not set.
func (o *HTTPOptions) orDefaults() HTTPOptions {
	var out HTTPOptions
	if o != nil {
		out = *o
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	out.MaxBody = orDefault(out.MaxBody, 32<<20)
	out.HeaderTimeout = orDefault(out.HeaderTimeout, 5*time.Second)
	out.BodyTimeout = orDefault(out.BodyTimeout, time.Minute)
	out.WriteTimeout = orDefault(out.WriteTimeout, time.Minute)
	out.MaxInFlight = orDefault(out.MaxInFlight, 64)
	out.MaxStreams = orDefault(out.MaxStreams, 128)
	out.MaxSessions = orDefault(out.MaxSessions, 1024)
	out.SessionIdleTTL = orDefault(out.SessionIdleTTL, time.Hour)
	out.Heartbeat = orDefault(out.Heartbeat, 30*time.Second)
	out.ShutdownTimeout = orDefault(out.ShutdownTimeout, 10*time.Second)
	return out
}

func orDefault[T int | int64 | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

// ServeHTTP answers one request. Every request passes the checks of Host,
// Origin and token first; what is refused is answered with a JSON-RPC error
// that holds neither content nor paths. It sets the deadlines of the connection
// request by request, so that those of a server around it do not apply.
func (h *HTTPServer) ServeHTTP(under http.ResponseWriter, r *http.Request) {
	w := newGuardWriter(under, r, &h.opts)
	defer w.close()
	defer h.contain(w)
	if no := h.admit(w, r); no != nil {
		h.refuse(w, no)
		return
	}
	if preflight(w, r) {
		return
	}
	if no := h.authorize(r); no != nil {
		h.refuse(w, no)
		return
	}
	if !h.ledger.enter() {
		h.refuse(w, goingDown)
		return
	}
	defer h.ledger.leave()
	switch path, _ := strings.CutPrefix(r.URL.Path, h.opts.BasePath); {
	case w.unread && r.Method != http.MethodPost:
		h.refuse(w, &httpRefusal{status: http.StatusBadRequest, message: "this method takes no body"})
	case h.opts.BasePath != "" && !strings.HasPrefix(r.URL.Path, h.opts.BasePath+"/"):
		h.refuse(w, nothingHere)
	case path == "/mcp" || path == "/mcp/":
		h.serveMCP(w, r)
	case h.opts.SSE && path == "/sse":
		h.serveSSE(w, r)
	case h.opts.SSE && (path == "/messages/" || path == "/messages"):
		h.serveMessages(w, r)
	default:
		h.refuse(w, nothingHere)
	}
}

// serveMCP answers at the endpoint of streamable HTTP.
func (h *HTTPServer) serveMCP(w *guardWriter, r *http.Request) {
	modern := mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion))
	switch {
	case r.Method == http.MethodPost:
		h.post(w, r)
	case modern: // it has neither streams of their own nor sessions
		h.refuse(w, onlyMethods("POST"))
	case r.Method == http.MethodGet:
		h.listen(w, r)
	case r.Method == http.MethodDelete:
		session, no := h.session(r)
		if no != nil {
			h.refuse(w, no)
			return
		}
		session.done()
		h.sessions.end(session.id)
		w.WriteHeader(http.StatusOK)
	default:
		h.refuse(w, onlyMethods("GET, POST, DELETE"))
	}
}

// contain keeps a panic from ending the connection without an answer. Its value
// may contain content and is never reported.
func (h *HTTPServer) contain(w *guardWriter) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler {
		panic(v)
	}
	h.log.Error("a request panicked")
	if w.begun {
		panic(http.ErrAbortHandler) // a reply that breaks off must not look whole
	}
	h.refuse(w, &httpRefusal{status: http.StatusInternalServerError, message: "internal error", detail: rw.DetailInternal})
}
