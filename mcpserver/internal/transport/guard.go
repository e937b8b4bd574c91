package transport

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	rw "github.com/resilientwrite/resilientwrite"
)

// refusal is why a request is not answered.
type refusal struct {
	status  int
	message string
	err     *rw.Error // the envelope that goes with it, if any
	allow   string    // the methods that would do
	parse   bool      // the body is no JSON
}

var (
	badHost     = &refusal{status: http.StatusForbidden, message: "the Host header names a host that is not allowed; the operator can allow it"}
	badOrigin   = &refusal{status: http.StatusForbidden, message: "requests of this origin are not allowed; the operator can allow it"}
	badToken    = &refusal{status: http.StatusUnauthorized, message: "a valid bearer token is needed"}
	nothingHere = &refusal{status: http.StatusNotFound, message: "not found"}
	goingDown   = unavailable("the server is shutting down")
	tooBusy     = unavailable("too many requests at a time; send it again in a moment")
)

func unavailable(message string) *refusal {
	return because(http.StatusServiceUnavailable, rw.NewError("http", rw.ErrRateLimited, message, nil))
}

func because(status int, e *rw.Error) *refusal {
	return &refusal{status: status, message: e.Hint, err: e}
}

func onlyMethods(allow string) *refusal {
	return &refusal{status: http.StatusMethodNotAllowed, message: "this method is not supported here", allow: allow}
}

// refuse answers with a JSON-RPC error. What went wrong is said in our words
// only.
func (h *HTTP) refuse(w *guardWriter, no *refusal) {
	if h.refusals.Allow() {
		h.opts.Logger.Warn("refused a request", "status", no.status, "reason", no.message)
	}
	w.refuse(no)
}

func (w *guardWriter) refuse(no *refusal) {
	code := mcp.INVALID_REQUEST
	switch {
	case no.parse:
		code = mcp.PARSE_ERROR
	case no.status >= 500:
		code = mcp.INTERNAL_ERROR
	}
	problem := map[string]any{"code": code, "message": no.message}
	if no.err != nil {
		problem["data"] = no.err.Envelope()
	}
	body, _ := json.Marshal(map[string]any{"jsonrpc": mcp.JSONRPC_VERSION, "id": nil, "error": problem})
	head := w.Header()
	if w.unread && no.status != http.StatusRequestTimeout {
		w.control.SetReadDeadline(time.Now().Add(w.rest))
	}
	if w.unread && !w.short {
		head.Set("Connection", "close") // the reply does not wait for the body
	}
	head.Set("Content-Type", "application/json")
	head.Del("Content-Length")
	switch no.status {
	case http.StatusUnauthorized:
		head.Set("WWW-Authenticate", `Bearer realm="resilientwrite"`)
		head.Set("Connection", "close") // a stranger holds no idle connection
	case http.StatusForbidden:
		head.Set("Connection", "close")
	case http.StatusServiceUnavailable:
		head.Set("Retry-After", "1")
	}
	if no.allow != "" {
		head.Set("Allow", no.allow)
	}
	w.WriteHeader(no.status)
	w.Write(append(body, '\n'))
}

// admit refuses requests that a page in a browser could send without its user: from
// other origins, or to names that an attacker points at this machine.
func (h *HTTP) admit(w *guardWriter, r *http.Request) *refusal {
	if !h.knowsHost(r) {
		return badHost
	}
	origins := r.Header.Values("Origin")
	judged := *r
	judged.Method = http.MethodPost // a page must not read a stream either
	if len(origins) > 1 || h.cross.Check(&judged) != nil {
		return badOrigin
	}
	if len(origins) == 1 {
		origin, ok := normalOrigin(origins[0])
		if !ok {
			return badOrigin
		}
		if h.origins[origin] {
			w.origin = origins[0]
			return nil
		}
		// The check above leaves out the scheme.
		scheme := "http://"
		if r.TLS != nil {
			scheme = "https://"
		}
		if own, ok := normalOrigin(scheme + r.Host); !ok || origin != own {
			return badOrigin
		}
	}
	return nil
}

// knowsHost checks the Host header. A page whose name was pointed at this machine sends
// its own name there.
func (h *HTTP) knowsHost(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if _, ok := local.(*net.UnixAddr); ok {
		return true // out of reach of browsers
	}
	name, port, ok := splitHost(r.Host)
	if !ok {
		return false
	}
	if h.hosts[name] || h.hosts[joinHost(name, port)] || name == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	if ip.IsLoopback() {
		return true
	}
	tcp, ok := local.(*net.TCPAddr)
	return ok && tcp.AddrPort().Addr().Unmap().WithZone("") == ip.Unmap().WithZone("")
}

// splitHost takes a Host header apart. The name is in lower case, without a
// final dot and without brackets.
func splitHost(host string) (name, port string, ok bool) {
	u, err := url.Parse("http://" + host)
	if host == "" || err != nil || u.Host != host || u.User != nil {
		return "", "", false
	}
	name = strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if name == "" || strings.ContainsAny(name, "*%, ") {
		return "", "", false
	}
	return name, u.Port(), true
}

func joinHost(name, port string) string {
	if port == "" {
		return name
	}
	return net.JoinHostPort(name, port)
}

// normalOrigin is a web origin in one spelling: scheme://host[:port], lower
// case, without the port that the scheme implies.
func normalOrigin(origin string) (string, bool) {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.ForceQuery ||
		u.Fragment != "" || strings.HasSuffix(origin, "#") {
		return "", false
	}
	name, port, ok := splitHost(u.Host)
	if !ok {
		return "", false
	}
	scheme := strings.ToLower(u.Scheme)
	if scheme == "http" && port == "80" || scheme == "https" && port == "443" {
		port = ""
	}
	return scheme + "://" + joinHost(name, port), true
}

// preflight answers a browser that checks whether a page of an allowed origin may send
// a request. Such a check has no token.
func preflight(w *guardWriter, r *http.Request) bool {
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" || w.origin == "" {
		return false
	}
	head := w.Header()
	head.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	head.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Accept, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name, Last-Event-ID")
	head.Set("Access-Control-Max-Age", "600")
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		head.Set("Access-Control-Allow-Private-Network", "true")
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}

// authorize compares the token in a time that does not depend on it.
func (h *HTTP) authorize(r *http.Request) *refusal {
	if h.opts.NoAuth {
		return nil
	}
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return badToken
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	given := sha256.Sum256([]byte(strings.TrimSpace(token)))
	if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(given[:], h.token[:]) != 1 {
		return badToken
	}
	return nil
}
