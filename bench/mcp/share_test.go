package mcp

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	wire "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/mcpserver"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// BenchmarkShare measures what a call costs in addition to the method of the
// Store that it calls: for the tools, which decode the arguments and make the
// reply; for the protocol library, in a bare server whose only tool calls ours
// and returns the text; and for our server. The four take turns on one Store, and
// medians are compared, so that variations of the disk and the machine affect all
// of them.
func BenchmarkShare(b *testing.B) {
	for _, w := range works() {
		if w.name == "write_1MiB" {
			continue
		}
		b.Run(w.name, func(b *testing.B) {
			s := openLocal(b)
			box := toolbox.New(s, &toolbox.Options{Caller: "bench", CallsPerSecond: -1})
			bare, ours, own := bareOf(box), mcpserver.New(s, unlimited), method{s}
			arms := []func(tool string, args any, data json.RawMessage, msg json.RawMessage){
				func(tool string, args any, _, _ json.RawMessage) { own.call(b, tool, args, 1) },
				func(tool string, _ any, data, _ json.RawMessage) {
					a := box.Call(context.Background(), tool, data, nil)
					testbed.Require(b, a.OK, "%.300s", a.Text)
				},
				func(_ string, _ any, _, msg json.RawMessage) {
					replied(b, bare.HandleMessage(context.Background(), msg))
				},
				func(_ string, _ any, _, msg json.RawMessage) {
					replied(b, mcpserver.Handle(context.Background(), ours, msg))
				},
			}
			taken := make([][]time.Duration, len(arms))
			i := 0
			for b.Loop() {
				for arm, call := range arms {
					i++
					args := w.args(i)
					data := testbed.Must(json.Marshal(args))(b)
					msg := message(i, w.tool, args)
					began := time.Now()
					call(w.tool, args, data, msg)
					taken[arm] = append(taken[arm], time.Since(began))
				}
			}
			median := make([]float64, len(arms))
			for arm, list := range taken {
				slices.Sort(list)
				median[arm] = float64(list[len(list)/2].Nanoseconds()) / 1000
			}
			b.ReportMetric(median[0], "store-µs")
			b.ReportMetric(median[1]-median[0], "tools-µs")
			b.ReportMetric(median[2]-median[1], "library-µs")
			b.ReportMetric(median[3]-median[2], "server-µs")
			b.ReportMetric(median[1]-median[0]+median[3]-median[2], "ours-µs")
		})
	}
}

// bareOf returns a server of the protocol library with our tools and nothing
// else.
func bareOf(box *toolbox.Toolbox) *server.MCPServer {
	s := server.NewMCPServer("bare", "1")
	for _, t := range box.Tools() {
		s.AddTool(wire.NewToolWithRawSchema(t.Name, t.Description, t.Input), func(ctx context.Context, req wire.CallToolRequest) (*wire.CallToolResult, error) {
			a := box.Call(ctx, req.Params.Name, req.Params.RawArguments, nil)
			res := wire.NewToolResultText(a.Text)
			res.IsError = !a.OK
			return res, nil
		})
	}
	return s
}

// replied encodes a reply, as every transport does.
func replied(b *testing.B, reply wire.JSONRPCMessage) {
	doc, err := json.Marshal(reply)
	testbed.Require(b, err == nil && succeeded(doc), "%v %.300s", err, doc)
}
