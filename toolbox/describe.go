package toolbox

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"golang.org/x/time/rate"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// SurfaceFacts says which tools there are over the store.
type SurfaceFacts struct {
	// Version of the tools, their arguments and replies.
	SchemaVersion string `json:"schema_version"`
	// Which tools are listed: core, standard or full.
	Tier string `json:"tier"`
	// Every callable tool, listed or not, by name.
	Tools []ToolFacts `json:"tools"`
}

// ToolFacts is one tool of a server.
type ToolFacts struct {
	// Name of the tool.
	Name string `json:"name"`
	// Audience of the tool: facade, standard or advanced.
	Tier string `json:"tier"`
	// False when the tool is callable but not listed.
	Listed bool `json:"listed"`
	// The replacement, when the tool is deprecated.
	Deprecated string `json:"deprecated,omitempty"`
}

// description is that of the store, and of the tools over it.
type description struct {
	rw.DescribeResult
	// The tools of the server that answers; absent when there is no server.
	Surface *SurfaceFacts `json:"surface,omitempty"`
}

func describe(s *rw.Store, ctx context.Context, in rw.DescribeRequest) (description, error) {
	r, err := s.Describe(ctx, in)
	return description{DescribeResult: r}, err
}

// complete adds to a reply what only the server knows.
func (b *Toolbox) complete(v any) any {
	if r, ok := v.(description); ok {
		r.Surface = b.set.facts()
		if b.opts.Warnings != nil {
			r.Recovery.Warnings = append(slices.Clone(r.Recovery.Warnings), b.opts.Warnings()...)
		}
		if b.limit.Limit() != rate.Inf {
			r.Limits.CallsPerSecond, r.Limits.CallsAtOnce = int64(b.limit.Limit()), int64(b.limit.Burst())
		}
		return r
	}
	return v
}

// Describe returns what the tool describe does in a full reply, without ok.
func (b *Toolbox) Describe(ctx context.Context) (json.RawMessage, error) {
	r, err := describe(b.store, ctx, rw.DescribeRequest{})
	if err != nil {
		return nil, err
	}
	doc, err := schema.Reply(b.complete(r), "")
	return b.set.hinted(reply{doc: doc}).doc, err
}

// storeFields are the fields that showStore adds.
var storeFields = []string{
	"version", "sync", "tier", "gate", "read_only", "poisoned", "policy_problem", "open_transactions", "recovered", "warnings", "protect_defaults", "hub", "more",
}

// showStore adds what an agent needs to know of the store.
func (b *Toolbox) showStore(o *object, r rw.DescribeResult) {
	o.add("version", r.Version)
	o.add("sync", r.Sync)
	o.add("tier", b.set.preset)
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
	if h := r.Hub; h != nil {
		o.add("hub", hubLag{h.Seq, h.Waiting, h.LostTask != "", h.Forked})
	}
	o.add("more", "rw://describe")
}

// hubLag is admin.HubFacts without names.
type hubLag struct {
	Seq      uint64 `json:"seq"`
	Waiting  uint64 `json:"waiting"`
	TaskLost bool   `json:"task_lost,omitempty"`
	Forked   bool   `json:"forked,omitempty"`
}

// facts are the tools of this server.
func (set *toolset) facts() *SurfaceFacts {
	f := &SurfaceFacts{SchemaVersion: SchemaVersion, Tier: string(set.preset), Tools: []ToolFacts{}}
	for _, of := range set.offers {
		f.Tools = append(f.Tools, ToolFacts{Name: of.wire, Tier: string(of.tier()), Listed: of.listed})
	}
	slices.SortFunc(f.Tools, func(a, b ToolFacts) int { return strings.Compare(a.Name, b.Name) })
	return f
}
