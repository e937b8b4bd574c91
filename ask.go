package resilientwrite

import "context"

// AskFunc puts a question to the user.
type AskFunc func(ctx context.Context, op Operation, question string) (Answer, error)

type askKey struct{}

// WithAsk returns a context whose calls put the questions of authorizers to
// ask where [Options.Ask] is not set: the channel to the user that an adapter
// has.
func WithAsk(ctx context.Context, ask AskFunc) context.Context {
	return context.WithValue(ctx, askKey{}, ask)
}

// channelTo is the way to the user for one call, nil when there is none.
func (s *Store) channelTo(ctx context.Context) AskFunc {
	if s.opts.Ask != nil {
		return s.opts.Ask
	}
	ask, _ := ctx.Value(askKey{}).(AskFunc)
	return ask
}
