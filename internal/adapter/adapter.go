// Package adapter is what the adapters of this module ask of a Store besides
// its methods: it is not for callers of the library.
package adapter

import (
	"context"
	"slices"
)

type malformedKey struct{}

// WithMalformed is ctx for a call of which these arguments arrived as text that
// cannot be decoded, base64 or a digest: the verb refuses them when it comes to
// them.
func WithMalformed(ctx context.Context, arguments []string) context.Context {
	return context.WithValue(ctx, malformedKey{}, arguments)
}

// Malformed lists the arguments of the call that cannot be decoded.
func Malformed(ctx context.Context) []string {
	list, _ := ctx.Value(malformedKey{}).([]string)
	return list
}

// IsMalformed reports whether an argument of the call cannot be decoded.
func IsMalformed(ctx context.Context, argument string) bool {
	return slices.Contains(Malformed(ctx), argument)
}

// CountRefusal counts a call whose arguments an adapter refused, so that no
// verb has run, in the retry budget of the verb, and returns the refusal with
// what is left of the budget. args identify the call: any change of a byte is
// another call. When the budget is used up, the answer is retry_exhausted, which
// keeps the context of the refusal. There is no row in the journal, and no
// observer hears of it.
//
// Like all counts it is forgotten after a day, or for a thousand newer ones,
// and when the task is reset. Of a closed store the answer is store_closed.
//
// The root package sets it; store is its *Store, the errors are its *Error.
var CountRefusal func(store any, verb string, args []byte, refusal error) error

// ReportCall lets other processes see a long call of a tool, for those who
// watch the store. args are read only if the call lasts. The caller calls end when the call
// ends; calls under the returned context are not reported again.
//
// The root package sets it; store is its *Store.
var ReportCall func(ctx context.Context, store any, verb string, args []byte) (reported context.Context, end func())
