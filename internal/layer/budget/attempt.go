package budget

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
)

// Attempt is a call of a verb that changes nothing in the workspace.
type Attempt struct {
	l    *Layer
	call Call
	req  any
}

// Begin counts a call in, unless its retry budget is used up. The caller ends it
// with Leave of the engine or with Fail.
func (l *Layer) Begin(ctx context.Context, op, path string, req any) (*Attempt, *fault.Fault) {
	canceled, enter := ctx.Err(), l.EnterReader // a nil context panics before it is counted in
	if engine.Stateless[op] {
		enter = l.EnterAny
	}
	if err := enter(); err != nil {
		return nil, l.VerbFault(op, err)
	}
	a := &Attempt{l: l, call: Call{Op: op, Reads: true}, req: req}
	if path != "" {
		a.call.Paths = []string{path}
	}
	if canceled != nil {
		return nil, a.Fail(canceled)
	}
	if l.Known() {
		a.call.Hash = RequestHash(req)
		if e := l.Exhausted(a.call); e != nil {
			return nil, a.Fail(e)
		}
	}
	return a, nil
}

// Fail ends the call with an error.
func (a *Attempt) Fail(err error) *fault.Fault {
	defer a.l.Leave()
	e := a.l.VerbFault(a.call.Op, err)
	if e.Code == fault.RetryExhausted {
		return e
	}
	if a.call.Hash == "" {
		a.call.Hash = RequestHash(a.req)
	}
	e.RetryBudget = a.l.Strike(a.call, e)
	return e
}

// Refused counts a call that an adapter refused because of its arguments.
func (l *Layer) Refused(verb string, args []byte, refusal *fault.Fault) *fault.Fault {
	if err := l.EnterReader(); err != nil {
		return l.VerbFault(verb, err)
	}
	a := &Attempt{l: l, call: Call{Op: verb, Hash: "refused " + engine.HashOf(args), Reads: true}}
	e := l.Exhausted(a.call)
	if e == nil {
		return a.Fail(refusal)
	}
	for name, value := range refusal.Context {
		if _, taken := e.Context[name]; !taken {
			e.With(name, value)
		}
	}
	return a.Fail(e)
}

// RequestHash returns the identity of a request. It uses Go syntax, which
// distinguishes texts that JSON does not, because JSON replaces invalid UTF-8.
func RequestHash(req any) string {
	data, err := json.Marshal(req)
	if err != nil { // a json.RawMessage that is not JSON
		data = []byte(`\ufffd`)
	}
	if bytes.Contains(data, []byte(`\ufffd`)) || bytes.Contains(data, []byte("\ufffd")) {
		data = append(data, fmt.Sprintf("%+q", fmt.Sprint(req))...)
	}
	return engine.HashOf(data)
}

// About combines a request with the state of the objects that it refers to: a call
// that failed because an object did not exist counts as another call once it
// exists.
func (l *Layer) About(req any, objects ...string) any { return about{l, req, objects} }

type about struct {
	l       *Layer
	req     any
	objects []string
}

// MarshalJSON reads the objects when the budget of the call is checked.
func (a about) MarshalJSON() ([]byte, error) {
	var states []string
	for _, object := range a.objects {
		states = append(states, a.l.StateOf(strings.TrimPrefix(object, engine.StateDirName+"/")))
	}
	return json.Marshal(map[string]any{"req": a.req, "states": states})
}
