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

// storeFields are the fields that showStore adds.
var storeFields = []string{
	"version", "sync", "tier", "gate", "read_only", "poisoned", "policy_problem", "open_transactions", "recovered", "warnings", "protect_defaults", "more",
}

// showStore adds what an agent needs to know of the store.
func (h *host) showStore(o *object, r rw.DescribeResult) {
	o.add("version", r.Version)
	o.add("sync", r.Sync)
	o.add("tier", h.set.preset)
	o.add("gate", r.Policy.Gate.Mode)
	if r.ReadOnly {
		o.add("read_only", true)
	}
	if r.Poisoned {
		o.add("poisoned", true)
	}
	if p := r.Policy.Problem; p != nil {
		o.add("policy_problem", map[string]any{"file": p.File, "line": p.Line, "problem": p.Problem})
	}
	if n := len(r.Transactions); n > 0 {
		o.add("open_transactions", n)
	}
	if n := len(r.Recovery.Finished) + len(r.Recovery.Aborted) + len(r.Recovery.Conflicts); n > 0 {
		o.add("recovered", n)
	}
	var reasons []string
	for _, w := range r.Recovery.Warnings {
		if !slices.Contains(reasons, w.Reason) && len(reasons) < 5 {
			reasons = append(reasons, w.Reason)
		}
	}
	if reasons != nil {
		o.add("warnings", reasons)
	}
	o.add("protect_defaults", r.Policy.ProtectDefaults)
	o.add("more", "rw://describe")
}

// facts are the tools of this server.
func (set *toolset) facts() *rw.SurfaceFacts {
	f := &rw.SurfaceFacts{SchemaVersion: SchemaVersion, Tier: string(set.preset), Tools: []rw.ToolFacts{}}
	for _, of := range set.offers {
		f.Tools = append(f.Tools, rw.ToolFacts{Name: of.wire, Tier: string(of.tier()), Listed: of.listed})
	}
	slices.SortFunc(f.Tools, func(a, b rw.ToolFacts) int { return strings.Compare(a.Name, b.Name) })
	return f
}
