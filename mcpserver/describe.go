package mcpserver

import (
	"slices"
	"strings"

	"golang.org/x/time/rate"

	rw "github.com/resilientwrite/resilientwrite"
)

// complete adds to a reply what only the server knows.
func (h *host) complete(v any) any {
	if r, ok := v.(rw.DescribeResult); ok {
		r.Surface, r.Recovery = h.set.facts(), h.withRoots(r.Recovery)
		if h.limit.Limit() != rate.Inf {
			r.Limits["calls_per_second"], r.Limits["calls_at_once"] = int64(h.limit.Limit()), int64(h.limit.Burst())
		}
		return r
	}
	return v
}

// facts are the tools of this server.
func (set *toolset) facts() *rw.SurfaceFacts {
	f := &rw.SurfaceFacts{SchemaVersion: SchemaVersion, Tier: string(set.preset), Tools: []rw.ToolFacts{}}
	for _, of := range set.offers {
		f.Tools = append(f.Tools, rw.ToolFacts{Name: of.wire, Tier: string(of.tier), Listed: of.listed})
	}
	slices.SortFunc(f.Tools, func(a, b rw.ToolFacts) int { return strings.Compare(a.Name, b.Name) })
	return f
}
