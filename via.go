package resilientwrite

import (
	"context"

	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
)

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
