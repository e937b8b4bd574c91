package mcpserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/mcpserver/internal/dashboard"
	"github.com/resilientwrite/resilientwrite/mcpserver/internal/transport"
)

// carried is s as its transports see it.
func carried(s *server.MCPServer) *transport.Server {
	h := hostOf(s)
	if h == nil {
		return carry(s, slog.New(slog.DiscardHandler), func(text string) string { return text })
	}
	h.carrying.Do(func() {
		h.carried = carry(s, h.log, h.box.Words)
		h.carried.Raw = true
	})
	return h.carried
}

func carry(s *server.MCPServer, log *slog.Logger, words func(string) string) *transport.Server {
	return &transport.Server{
		MCPServer: s, Logger: log,
		Writes:  func(tool string) bool { return writes(s, tool) },
		Refusal: func(e *rw.Error) *mcp.CallToolResult { return refused(s, e) },
		TooLarge: func(limit int64) *rw.Error {
			hint := fmt.Sprintf("the message is longer than %d bytes; send the content in smaller parts: create the file with the first one, then use mode append", limit)
			about := map[string]any{"limit_bytes": limit}
			if pieces, whole := words("rw_chunk_append"), words("rw_chunk_compose"); pieces != whole { // they are listed
				hint += fmt.Sprintf(", or %s and then %s", pieces, whole)
				about["tools"] = []string{pieces, whole}
			}
			return rw.NewError("http", rw.ErrTooLarge, hint, about)
		},
		Interrupted: rw.NewError("http", rw.ErrRateLimited, words("the server shut down during the call; rw_operation reports whether the call was carried out"), nil),
	}
}

// writes reports whether a call of the tool may change something. The host may
// have given our tools other names, and has tools of its own.
func writes(s *server.MCPServer, tool string) bool {
	for _, alias := range []string{tool, "rw_" + strings.TrimPrefix(tool, "rw."), "rw." + strings.TrimPrefix(tool, "rw_")} {
		if t := s.GetTool(alias); t != nil {
			return t.Tool.Annotations.ReadOnlyHint == nil || !*t.Tool.Annotations.ReadOnlyHint
		}
	}
	return true // an unknown name counts as a write and waits its turn
}

// Handle answers one message. It differs from s.HandleMessage for calls of tools: their
// arguments go to the tool as the bytes that were received. They bypass the decoders of
// the protocol, which read them several times and report a number that they cannot
// represent as an error of the protocol. Tools that the host added get their arguments
// as the protocol's decoders produce them.
//
// A panic during the call, including code that the host added, is answered as an
// internal error and logged without its value, which may contain content.
func Handle(ctx context.Context, s *server.MCPServer, raw json.RawMessage) mcp.JSONRPCMessage {
	return carried(s).Handle(ctx, raw)
}

// ServeStdio answers the messages of in on out, one JSON message per line,
// until in ends or ctx does. Calls that change something run one after the
// other, in the order in which they arrive; others run concurrently. A call
// that waits for the user lets later calls pass. The number of waiting calls is
// bounded: a client that sends more is read no faster than its calls are
// answered, and if none is answered for a while, calls are refused, so that a
// cancellation, a ping or the answer to a question is always read. When in
// ends, calls in flight are completed and answered first, except that questions
// are no longer answered.
//
// A call that the client canceled is not answered. Before its commit point it
// ends and has changed nothing; after it, the commit is completed.
func ServeStdio(ctx context.Context, s *server.MCPServer, in io.Reader, out io.Writer) error {
	return carried(s).ServeStdio(ctx, in, out)
}

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

// Check validates the options.
func (o *HTTPOptions) Check() error { return (*transport.HTTPOptions)(o).Check() }

// CheckAddr returns the reason why the server must not listen on an address.
func (o *HTTPOptions) CheckAddr(addr net.Addr) error {
	return (*transport.HTTPOptions)(o).CheckAddr(addr)
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
type HTTPServer struct{ http *transport.HTTP }

// NewHTTP offers s over HTTP. A panic in a tool, a prompt or a resource of s is
// contained from then on. When the server is mounted into another one, call
// [HTTPServer.Shutdown] before the store is closed.
func NewHTTP(s *server.MCPServer, opts *HTTPOptions) (*HTTPServer, error) {
	h, err := carried(s).NewHTTP((*transport.HTTPOptions)(opts))
	if err != nil {
		return nil, err
	}
	contain(s, func(what string) {
		if opts != nil && opts.Logger != nil {
			opts.Logger.Error("a handler panicked", "what", what)
		}
	})
	return &HTTPServer{h}, nil
}

// Token is the token that was generated because none was given, else "".
func (h *HTTPServer) Token() string { return h.http.Token() }

// ServeHTTP answers one request. Every request passes the checks of Host, Origin and
// token first; a refused request is answered with a JSON-RPC error that contains
// neither content nor paths. It sets the deadlines of the connection request by
// request, so that those of a server around it do not apply.
func (h *HTTPServer) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.http.ServeHTTP(w, r) }

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
func (h *HTTPServer) Serve(ctx context.Context, l net.Listener) error { return h.http.Serve(ctx, l) }

// Shutdown accepts no more requests, ends the streams, and waits for the calls
// in flight until ctx ends. It then cancels the remaining calls, waits two more
// seconds, and returns the error of ctx. Closing the store afterwards waits for
// commits that are past their commit point.
func (h *HTTPServer) Shutdown(ctx context.Context) error { return h.http.Shutdown(ctx) }

// Dashboard is a live view of a store in a browser: the running calls of all processes,
// unfinished work, refusals with their reasons, and changes with diffs. It shows no
// secrets and no absolute paths.
type Dashboard struct {
	// Open opens the store to look at it, read-only. Each look closes it again.
	Open func(context.Context) (*rw.Store, error)
	// Undo undoes the commit that a person has chosen and confirmed. nil:
	// nothing can be undone.
	Undo *rw.Store
	// State is the state directory of the store.
	State string
}

// dashboardStreams is how many pages may be open at a time.
const dashboardStreams = 16

// NewDashboard serves a dashboard: the page at /, whose address needs the token as its
// fragment, and the requests of the page, with the token in a header. The checks of
// Host, Origin and token are those of [NewHTTP], and the token is required:
// [HTTPOptions.NoAuth] is refused. [HTTPServer.Serve] accepts loopback addresses only.
func NewDashboard(d Dashboard, opts *HTTPOptions) (*HTTPServer, error) {
	o := HTTPOptions{}
	if opts != nil {
		o = *opts
	}
	if o.NoAuth {
		return nil, errors.New("a dashboard needs a token")
	}
	o.BasePath = "" // the page is at /
	o.MaxStreams = cmp.Or(o.MaxStreams, dashboardStreams)
	h, err := transport.NewPages(dashboard.Dashboard(d).Pages(), (*transport.HTTPOptions)(&o))
	if err != nil {
		return nil, err
	}
	return &HTTPServer{h}, nil
}
