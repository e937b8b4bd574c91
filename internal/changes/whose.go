package changes

import (
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
)

// Whose selects commits. An empty field excludes nothing.
type Whose struct {
	Caller  string // as the commit claims
	Session string
	Origin  *journal.Via // what the adapter must have known of it
	Client  *journal.Via // the same, of the client alone
	None    bool
	Row     uint64 // this commit alone; 0: any
	Group   string // this group of observed changes alone; "": any commit
}

// WhoseOf returns the commits that a call with this caller and this session refers
// to: its own when both are empty. What the adapter knows of a commit cannot be
// claimed by another client; what the commit itself declares can.
func WhoseOf(c *engine.Commit, caller, session string) Whose {
	switch {
	case caller != "" || c.Via == nil && session != "":
		return Whose{Caller: c.Req.Caller, Session: session}
	case c.Via == nil:
		return Whose{Caller: c.Req.Caller, Session: c.Req.Session}
	case session != "":
		return Whose{Session: session, Client: c.Via, Caller: c.Req.Caller}
	}
	return Whose{Session: c.Req.Session, Origin: c.Via, None: c.Via.Thread == "" && c.Via.Connection == ""}
}

// HandedOver returns the commits that a handoff refers to: the call's own, those of the
// session that it names, or those of the caller if there is no session. session is that
// of the request.
func HandedOver(c *engine.Commit, session string) Whose {
	own := WhoseOf(c, "", "")
	switch {
	case c.Via != nil && session == "" && !own.None:
		return own
	case c.Req.Session != "":
		return Whose{Session: c.Req.Session}
	}
	return Whose{Caller: c.Req.Caller}
}

// Made reports whether a commit is selected.
func (w Whose) Made(rec *journal.Record) bool {
	switch {
	case w.Group != "":
		return observe.InGroup(rec, w.Group)
	case w.Row != 0:
		return rec.Seq == w.Row
	case w.None || w.Session != "" && rec.Session != w.Session:
		return false
	case w.Origin != nil:
		return sameOrigin(rec.Via, w.Origin)
	case w.Client != nil && rec.Via != nil:
		return rec.Via.Client == w.Client.Client
	}
	return w.Caller == "" || rec.Caller == w.Caller
}

// sameOrigin reports whether an adapter recorded the same origin for a commit and
// a call: the same client in the same thread or, if the host names none, over the
// same connection.
func sameOrigin(commit, call *journal.Via) bool {
	return commit != nil && commit.Client == call.Client && commit.Thread == call.Thread &&
		(call.Thread != "" || commit.Connection == call.Connection)
}

// Itself returns a function that reports whether a commit was made by the caller of
// this call, under the given name. Without an adapter only the name is compared. With
// an adapter that knows neither thread nor connection, no commit matches.
func Itself(via *journal.Via, caller string) func(*journal.Record) bool {
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
