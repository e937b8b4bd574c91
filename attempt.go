package resilientwrite

import (
	"context"

	"github.com/resilientwrite/resilientwrite/internal/adapter"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
)

// attempt is a call of a verb that changes nothing in the workspace.
type attempt struct{ *budget.Attempt }

// begin counts a call in, unless its retry budget is used up. The caller ends it
// with Leave of the engine or with failed.
func (s *Store) begin(ctx context.Context, op, path string, req any) (attempt, error) {
	a, e := s.budgets.Begin(ctx, op, path, req)
	if e != nil {
		return attempt{}, errorFrom(e)
	}
	return attempt{a}, nil
}

// failed ends the call with an error.
func (a attempt) failed(err error) *Error { return errorFrom(a.Fail(err)) }

// reading runs f as a call of a verb that changes nothing in the workspace.
func reading[T any](ctx context.Context, s *Store, op, path string, req any, f func() (T, error)) (out T, err error) {
	var none T
	a, err := s.begin(ctx, op, path, req)
	if err != nil {
		return none, err
	}
	left := false
	defer func() { // also when a validator of the host panics
		if !left {
			s.engine.Leave()
		}
	}()
	if out, err = f(); err != nil {
		left = true // by failed
		return none, a.failed(err)
	}
	return out, nil
}

func init() {
	adapter.CountRefusal = func(store any, verb string, args []byte, refusal error) error {
		return errorFrom(store.(*Store).budgets.Refused(verb, args, refusal.(*Error).fault()))
	}
}

// describeCode returns a failure in the form of last_error.
func describeCode(code fault.Code) map[string]any {
	class := code.Class()
	return map[string]any{
		"error": Kind(class.Kind), "reason_hint": Reason(class.Reason), "suggested_action": Action(class.Action), "reason": Detail(code),
	}
}
