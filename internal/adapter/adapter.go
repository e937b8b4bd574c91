// Package adapter contains what the adapters of this module need from a Store besides
// its methods. It is not for callers of the library.
package adapter

import (
	"context"
	"encoding/json"
	"slices"
)

type malformedKey struct{}

// WithMalformed returns ctx for a call in which these arguments arrived as text that
// cannot be decoded, base64 or a digest. The verb refuses them when it reaches them.
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

// CountRefusal counts a call whose arguments an adapter refused, so that no verb has
// run, in the retry budget of the verb, and returns the refusal with the rest of the
// budget. args identify the call: any change of a byte is another call. When the budget
// is used up, the answer is retry_exhausted, which keeps the context of the refusal.
// There is no row in the journal, and no observer is notified.
//
// Like all counts it is discarded after a day, when a thousand newer ones exist, and
// when the task is reset. For a closed store the answer is store_closed.
//
// The root package sets it; store is its *Store, the errors are its *Error.
var CountRefusal func(store any, verb string, args []byte, refusal error) error

// ReportCall lets other processes see a long call of a tool, for those who
// watch the store. args are read only if the call lasts. The caller calls end when the call
// ends; calls under the returned context are not reported again.
//
// The root package sets it; store is its *Store.
var ReportCall func(ctx context.Context, store any, verb string, args []byte) (reported context.Context, end func())

type reportedKey struct{}

// WithReported returns ctx for calls that ReportCall has reported.
func WithReported(ctx context.Context) context.Context {
	return context.WithValue(ctx, reportedKey{}, true)
}

// IsReported reports whether ReportCall has reported the call.
func IsReported(ctx context.Context) bool { return ctx.Value(reportedKey{}) != nil }

// PathsIn returns the paths that the arguments of a tool name.
func PathsIn(args []byte) (list []string) {
	type names struct {
		Path       string `json:"path"`
		FilePath   string `json:"file_path"`
		OutputPath string `json:"output_path"`
		To         string `json:"to"`
	}
	var call struct {
		names
		Ops []names `json:"ops"`
	}
	json.Unmarshal(args, &call) // a value of another type is ignored
	for _, n := range append([]names{call.names}, call.Ops...) {
		for _, path := range []string{n.Path, n.FilePath, n.OutputPath, n.To} {
			if path != "" {
				list = append(list, path)
			}
		}
	}
	return list
}
