package mcpserver

import (
	"context"
	"encoding/json"

	rw "github.com/resilientwrite/resilientwrite"
)

// Toolbox is the surface without a protocol: what an agent loop in Go needs of
// tools, which is a list to show the model and a way to call by name. Replies
// and refusals are the same JSON that an MCP client gets: brief ones, unless
// the options ask for full ones, which conform to [ToolInfo.Output].
//
// A program that knows at compile time what it wants to write calls the
// methods of the Store instead.
type Toolbox struct {
	host   *host
	opts   Options
	caller string
}

// NewToolbox returns the tools of the store for calls in process. caller is
// recorded in the journal for calls that name none. Of the options, Wrap has no
// effect here: a wrapper around a protocol tool cannot be put around these
// calls. The gate is that for agents, as over MCP.
func NewToolbox(store *rw.Store, caller string, opts *Options) *Toolbox {
	o := opts.orDefaults()
	return &Toolbox{host: newHost(store, o), opts: o, caller: caller}
}

// Tools lists the tools of the preset. Name is the name to call.
func (b *Toolbox) Tools() []ToolInfo {
	var list []ToolInfo
	for i := range b.host.set.offers {
		if of := &b.host.set.offers[i]; of.listed {
			info := of.shown(b.opts.Tier)
			info.Name = of.wire
			list = append(list, info)
		}
	}
	return list
}

// Call calls a tool by any of its names with arguments as JSON. ok is false
// when the reply is the envelope of a refusal; there is no other error, and no
// panic. Canceling ctx has no effect once the call has passed its commit
// point.
func (b *Toolbox) Call(ctx context.Context, name string, args json.RawMessage) (answer json.RawMessage, ok bool) {
	of, known := b.host.set.find(name)
	if !known {
		r := b.host.unknown(name)
		return r.doc, false
	}
	r := of.answer(rw.WithCaller(ctx, b.caller, ""), b.host, args)
	return r.doc, !r.failed
}
