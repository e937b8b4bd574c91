package resilientwrite

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/resilientwrite/resilientwrite/internal/adapter"
	"github.com/resilientwrite/resilientwrite/internal/lock"
)

// Long calls are shown to other processes, for live views of the store.

type reportedKey struct{}

func init() {
	adapter.ReportCall = func(ctx context.Context, store any, verb string, args []byte) (context.Context, func()) {
		s := store.(*Store)
		of, via := labelsOf(ctx), Via{}
		if v, ok := ctx.Value(viaKey{}).(Via); ok {
			via = v
		}
		caller := cmp.Or(via.Client, of.caller, s.opts.Caller)
		return context.WithValue(ctx, reportedKey{}, true), s.reportCall(verb, caller, func() []string { return pathsIn(args) })
	}
}

// reportCall shows a long call to other processes, with secrets in its names
// removed.
func (s *Store) reportCall(op, caller string, paths func() []string) (end func()) {
	return s.engine.Tell(func() lock.Call {
		out := lock.Call{Op: op, Caller: s.hideName(caller)}
		list := paths()
		for _, path := range list[:min(len(list), 10)] {
			out.Paths = append(out.Paths, s.hideName(path))
		}
		return out
	})
}

// announce is [Store.reportCall] for a call that no adapter has reported.
func (c *commit) announce(ctx context.Context) (end func()) {
	if ctx.Value(reportedKey{}) != nil {
		return func() {}
	}
	paths := make([]string, len(c.Muts))
	for i, m := range c.Muts {
		paths[i] = m.Path
	}
	return c.s.reportCall(c.Req.Op, c.Req.Caller, func() []string { return paths })
}

// pathsIn returns the paths that the arguments of a tool name.
func pathsIn(args []byte) (list []string) {
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
