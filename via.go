package resilientwrite

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
	"github.com/resilientwrite/resilientwrite/internal/visible"
)

// Via is what an adapter knows of a call, whatever the call says of itself. It
// comes with the context ([WithVia]) and never from an argument.
type Via struct {
	Client  string `json:"client,omitempty"`  // Client name, as given when it connected.
	Version string `json:"version,omitempty"` // Client version, as given when it connected.
	// Name of the connection; it begins with mcp-. Absent when the protocol has
	// no sessions.
	Connection string `json:"connection,omitempty"`
	// The conversation, as named by the host of the client.
	Thread string `json:"thread,omitempty"`
	Call   string `json:"call,omitempty"` // The call, as named by the host of the client.
	// The language model, as named by the host of the client.
	Model string `json:"model,omitempty"`
	// The turn of the conversation, as named by the host of the client.
	Turn string `json:"turn,omitempty"`
	// The trace, as its identifier in the traceparent of the host of the client.
	Trace string `json:"trace,omitempty"`
}

type viaKey struct{}

// WithVia returns a context whose calls came through the adapter that via
// describes. via is recorded with every row in addition to the caller and the
// session in the request, and selects the commits of [Store.Undo] when the
// request names neither. A thread is the session of the call whatever the request
// names.
//
// A text of more than 200 bytes is truncated, invisible and control characters
// are replaced, and so are secrets when it is recorded. A thread that is too
// long, contains such characters, or begins with mcp- counts as absent: after the
// change it could be equal to the name of another one.
func WithVia(ctx context.Context, via Via) context.Context {
	if !clean(via.Thread) || ofAdapter(via.Thread) {
		via.Thread = ""
	}
	for _, text := range []*string{&via.Client, &via.Version, &via.Connection, &via.Call, &via.Model, &via.Turn, &via.Trace} {
		*text = visible.Line(asLabel(*text), utf8.RuneError)
	}
	return context.WithValue(ctx, viaKey{}, via)
}

// via returns what is recorded about the origin of the call; nil if no adapter
// was used.
func (s *Store) via(ctx context.Context) *journal.Via {
	via, ok := ctx.Value(viaKey{}).(Via)
	if !ok {
		return nil
	}
	return s.gate.Via(journal.Via(via))
}

// viaOf returns a row's origin in the form for readers.
func viaOf(v *journal.Via) *Via {
	if v == nil {
		return nil
	}
	via := Via(*v)
	return &via
}

// adapterPrefix begins the session names that an adapter assigns.
const adapterPrefix = "mcp-"

// ofAdapter reports whether a session name is reserved for adapters, in any
// letter case, because other spellings would look alike.
func ofAdapter(session string) bool {
	return len(session) >= len(adapterPrefix) && strings.EqualFold(session[:len(adapterPrefix)], adapterPrefix)
}

// clean reports whether a name can be kept unchanged.
func clean(name string) bool {
	return len(name) <= maxLabel && utf8.ValidString(name) && !strings.ContainsRune(name, utf8.RuneError) && visible.Line(name, utf8.RuneError) == name
}

// whose selects commits. An empty field excludes nothing.
type whose struct {
	caller  string // as the commit claims
	session string
	origin  *journal.Via // what the adapter must have known of it
	client  *journal.Via // the same, of the client alone
	none    bool
	row     uint64 // this commit alone; 0: any
	group   string // this group of observed changes alone; "": any commit
}

// whose returns the commits that a call with this caller and this session refers
// to: its own when both are empty. What the adapter knows of a commit cannot be
// claimed by another client; what the commit itself declares can.
func (c *commit) whose(caller, session string) whose {
	switch {
	case caller != "" || c.Via == nil && session != "":
		return whose{caller: c.Req.Caller, session: session}
	case c.Via == nil:
		return whose{caller: c.Req.Caller, session: c.Req.Session}
	case session != "":
		return whose{session: session, client: c.Via, caller: c.Req.Caller}
	}
	return whose{session: c.Req.Session, origin: c.Via, none: c.Via.Thread == "" && c.Via.Connection == ""}
}

// made reports whether a commit is selected.
func (w whose) made(rec *journal.Record) bool {
	switch {
	case w.group != "":
		return observe.InGroup(rec, w.group)
	case w.row != 0:
		return rec.Seq == w.row
	case w.none || w.session != "" && rec.Session != w.session:
		return false
	case w.origin != nil:
		return sameOrigin(rec.Via, w.origin)
	case w.client != nil && rec.Via != nil:
		return rec.Via.Client == w.client.Client
	}
	return w.caller == "" || rec.Caller == w.caller
}

// sameOrigin reports whether an adapter recorded the same origin for a commit and
// a call: the same client in the same thread or, if the host names none, over the
// same connection.
func sameOrigin(commit, call *journal.Via) bool {
	return commit != nil && commit.Client == call.Client && commit.Thread == call.Thread &&
		(call.Thread != "" || commit.Connection == call.Connection)
}

// wroteItself returns a function that reports whether a commit was made by the
// caller of this call, under the given name. Without an adapter only the name is
// compared. With an adapter that knows neither thread nor connection, no commit
// matches.
func (s *Store) wroteItself(ctx context.Context, caller string) func(*journal.Record) bool {
	via := s.via(ctx)
	return func(rec *journal.Record) bool {
		switch {
		case rec.Caller != caller:
			return false
		case via == nil:
			return rec.Via == nil
		}
		return (via.Thread != "" || via.Connection != "") && sameOrigin(rec.Via, via)
	}
}
