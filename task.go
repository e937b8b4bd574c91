package resilientwrite

import (
	"context"

	"github.com/resilientwrite/resilientwrite/internal/fault"
)

// ResetTask begins a new task: every call gets its full retry budget again, and
// hooks with a method ResetTask are reset. A panic in one is contained: the
// others and the budgets are reset, and the error reports it.
func (s *Store) ResetTask(ctx context.Context) error {
	if err := s.engine.EnterReader(); err != nil {
		return s.verbError("reset_task", err)
	}
	defer s.engine.Leave()
	failed := s.resetHooks()
	if err := s.budgets.Reset(); err != nil {
		return s.verbError("reset_task", err)
	}
	return failed
}

// resetHooks begins a new task for the hooks that count. One that panics keeps
// the counts of the old task, which the error reports.
func (s *Store) resetHooks() (failed error) {
	for i, t := range s.opts.Hooks.resetters() {
		func() {
			defer func() {
				if recover() != nil {
					e := fault.New(fault.Internal).With("index", i).Hintf("a hook of the host could not start a new task; everything else was reset")
					failed = s.verbError("reset_task", e)
				}
			}()
			t.ResetTask()
		}()
	}
	return failed
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
