package resilientwrite

import (
	"cmp"
	"context"
	"errors"

	"github.com/resilientwrite/resilientwrite/hook"
	"github.com/resilientwrite/resilientwrite/internal/fault"
)

type askKey struct{}

// WithAsk returns a context whose calls put the questions of authorizers to ask
// where [Options.Ask] is not set. An adapter uses it to provide its channel to
// the user.
func WithAsk(ctx context.Context, ask hook.AskFunc) context.Context {
	return context.WithValue(ctx, askKey{}, ask)
}

// channelTo returns the function that asks the user for one call, nil if there is
// none.
func (s *Store) channelTo(ctx context.Context) hook.AskFunc {
	ask := s.opts.Ask
	if ask == nil {
		ask, _ = ctx.Value(askKey{}).(hook.AskFunc)
	}
	if ask == nil {
		return nil
	}
	return func(ctx context.Context, c hook.Call, question string) (hook.Answer, error) {
		answer, err := ask(ctx, c, question)
		if errors.Is(err, ErrInputRequired) {
			err = fault.New(fault.InputRequired).Because(err)
		}
		return answer, err
	}
}

// ResetTask begins a new task: every call gets its full retry budget again, and
// hooks with a method ResetTask are reset. A panic in one is contained: the
// others and the budgets are reset, and the error reports it.
func (s *Store) ResetTask(ctx context.Context) error {
	_, err := looking(ctx, s, "reset_task", func() (none struct{}, err error) {
		failed := s.hooks.ResetTask()
		return none, cmp.Or(s.budgets.Reset(), failed)
	})
	return err
}
