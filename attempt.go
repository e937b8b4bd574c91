package resilientwrite

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/resilientwrite/resilientwrite/internal/adapter"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
)

// attempt is a call of a verb that changes nothing in the workspace.
type attempt struct {
	s    *Store
	call budget.Call
	req  any
}

// begin counts a call in, unless its retry budget is used up. The caller ends it
// with leave or failed.
func (s *Store) begin(ctx context.Context, op, path string, req any) (*attempt, error) {
	enter := s.engine.EnterReader
	if engine.Stateless[op] {
		enter = s.engine.EnterAny
	}
	if err := enter(); err != nil {
		return nil, s.verbError(op, err)
	}
	a := &attempt{s: s, call: budget.Call{Op: op, Reads: true}, req: req}
	if path != "" {
		a.call.Paths = []string{path}
	}
	if err := ctx.Err(); err != nil {
		return nil, a.failed(err)
	}
	if s.budgets.Known() {
		a.call.Hash = requestHash(req)
		if e := s.budgets.Exhausted(a.call); e != nil {
			return nil, a.failed(e)
		}
	}
	return a, nil
}

// reading runs f as a call of a verb that changes nothing in the workspace.
func reading[T any](ctx context.Context, s *Store, op, path string, req any, f func() (T, error)) (T, error) {
	var none T
	a, err := s.begin(ctx, op, path, req)
	if err != nil {
		return none, err
	}
	out, err := f()
	if err != nil {
		return none, a.failed(err)
	}
	s.engine.Leave()
	return out, nil
}

func init() {
	adapter.CountRefusal = func(store any, verb string, args []byte, refusal error) error {
		return store.(*Store).countRefusal(verb, args, refusal.(*Error))
	}
}

// countRefusal is [adapter.CountRefusal].
func (s *Store) countRefusal(verb string, args []byte, refusal *Error) *Error {
	if err := s.engine.EnterReader(); err != nil {
		return s.verbError(verb, err)
	}
	a := &attempt{s: s, call: budget.Call{Op: verb, Hash: "refused " + engine.HashOf(args), Reads: true}}
	e := s.budgets.Exhausted(a.call)
	if e == nil {
		return a.failed(refusal.fault())
	}
	for name, value := range refusal.Context {
		if _, taken := e.Context[name]; !taken {
			e.With(name, value)
		}
	}
	return a.failed(e)
}

// failed ends the call with an error.
func (a *attempt) failed(err error) *Error {
	defer a.s.engine.Leave()
	e := a.s.engine.VerbFault(a.call.Op, err)
	if e.Code == fault.RetryExhausted {
		return errorFrom(e)
	}
	if a.call.Hash == "" {
		a.call.Hash = requestHash(a.req)
	}
	e.RetryBudget = a.s.budgets.Strike(a.call, e)
	return errorFrom(e)
}

// requestHash returns the identity of a request. It uses Go syntax, which
// distinguishes texts that JSON does not, because JSON replaces invalid UTF-8.
func requestHash(req any) string {
	data, err := json.Marshal(req)
	if err != nil { // a json.RawMessage that is not JSON
		data = []byte(`\ufffd`)
	}
	if bytes.Contains(data, []byte(`\ufffd`)) || bytes.Contains(data, []byte("\ufffd")) {
		data = append(data, fmt.Sprintf("%+q", fmt.Sprint(req))...)
	}
	return engine.HashOf(data)
}

// budget returns how many times the policy lets a call fail.
func (s *Store) budget() int { return s.policy().File.RetryBudget.Default }

// describeCode returns a failure in the form of last_error.
func describeCode(code fault.Code) map[string]any {
	class := code.Class()
	return map[string]any{
		"error": Kind(class.Kind), "reason_hint": Reason(class.Reason), "suggested_action": Action(class.Action), "reason": Detail(code),
	}
}
