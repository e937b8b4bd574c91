package mcpserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"sync"

	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
)

// origin is who makes a call: what the client calls itself, and the session it
// makes the call in, "" where the protocol has none.
type origin struct{ caller, session string }

// lasting is a session of ours, which is one client for as long as it is
// connected.
type lasting interface{ label() string }

// labelOf names a session in the journal. Its id would let a reader of the
// journal speak for the client, so that it does not stand there.
func labelOf(id string) string {
	sum := sha256.Sum256([]byte("resilientwrite session\x00" + id))
	return "mcp-" + hex.EncodeToString(sum[:8])
}

func (s *stdioSession) label() string { return labelOf(s.id) }
func (s *httpSession) label() string  { return labelOf(s.id) }

// originOf is who makes the call of a context.
func originOf(ctx context.Context) origin {
	from := origin{caller: clientName(ctx)}
	if s, ok := server.ClientSessionFromContext(ctx).(lasting); ok {
		from.session = s.label()
	}
	return from
}

// fill says who is calling where the arguments do not: the caller, and in what
// writes the working session. An undo of another caller is not narrowed to the
// session. It reports whether the session is ours.
func (from origin) fill(in any, n nature) (ours bool) {
	v := reflect.ValueOf(in).Elem()
	caller := v.FieldByName("Caller")
	named := caller.IsValid() && caller.Kind() == reflect.String && caller.String() != ""
	if !named && caller.IsValid() && caller.Kind() == reflect.String {
		caller.SetString(from.caller)
	}
	if _, undo := in.(*rw.UndoRequest); n.idempotent || from.session == "" || undo && named {
		return false
	}
	f := workingSession(v.Type())
	if f == nil || v.FieldByIndex(f.Index).String() != "" {
		return false
	}
	v.FieldByIndex(f.Index).SetString(from.session)
	return true
}

// workingSession is the field of a request that names the working session. The
// session of a chunk tool is another thing, and required.
func workingSession(t reflect.Type) *reflect.StructField {
	for _, name := range []string{"Session", "WorkSession"} {
		if f, ok := t.FieldByName(name); ok && f.Type.Kind() == reflect.String && f.Tag.Get("required") != "true" {
			return &f
		}
	}
	return nil
}

// unlabeled remembers which sessions made commits whose rows cannot name them,
// because the request has no place for it: those of a compose. An undo of the
// session alone would pass over such a commit and take an older one.
type unlabeled struct {
	mu       sync.Mutex
	sessions map[string]bool            // that made such a commit
	callers  map[string]map[string]bool // the sessions of each caller that wrote
}

// maxUnlabeled is how many sessions are remembered of one caller; with two the
// answer is known.
const maxUnlabeled = 2

// wrote notes a call that changed something.
func (u *unlabeled) wrote(from origin, in any) {
	if from.session == "" {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.callers == nil || len(u.callers) >= maxGreeted { // who is forgotten is asked to name the caller
		u.callers = map[string]map[string]bool{}
	}
	if u.callers[from.caller] == nil {
		u.callers[from.caller] = map[string]bool{}
	}
	if of := u.callers[from.caller]; len(of) < maxUnlabeled {
		of[from.session] = true
	}
	if _, composed := in.(*rw.ChunkComposeRequest); composed && workingSession(reflect.TypeFor[rw.ChunkComposeRequest]()) == nil {
		if u.sessions == nil {
			u.sessions = map[string]bool{}
		}
		u.sessions[from.session] = true
	}
}

func (u *unlabeled) forget(session string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.sessions, session)
}

// settle decides what an undo means that names neither caller nor session, in
// a session with such commits: those of the caller, as long as no other session
// of the same name has written here, else nobody knows whose they are.
func (u *unlabeled) settle(from origin, r *rw.UndoRequest) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.sessions[from.session] {
		return nil
	}
	if others := u.callers[from.caller]; len(others) > 1 || !others[from.session] {
		return rw.NewError("undo", rw.InvalidArgument,
			"this session composed a file, and another session of the same client name writes here too: name caller to take back the newest commits of both, or session to pass over what was composed",
			map[string]any{"argument": "session", "caller": from.caller, "session": from.session})
	}
	r.Session = ""
	return nil
}
