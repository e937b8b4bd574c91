package mcpserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"reflect"

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
