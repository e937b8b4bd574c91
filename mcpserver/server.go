// Package mcpserver offers the methods of a Store as tools of the Model
// Context Protocol. It holds no rule of its own: what a tool does, the method
// does; what is here binds, checks arguments, and wraps replies.
//
// Every reply carries structured content that conforms to the output schema,
// and the same JSON as text. Errors, those of arguments among them, are the
// envelope of [rw.Error] with isError set, never errors of the protocol.
package mcpserver

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// Options are the settings of a server. nil means the defaults.
type Options struct {
	// DottedNames lists the tools as rw.safe_write instead of rw_safe_write.
	// Some clients reject dots; both forms always work on call.
	DottedNames bool
	// Logger gets structured records without content. Default: none.
	Logger *slog.Logger
	// CallsPerSecond is the rate at which calls are answered in the long run;
	// twice as many may come at once. 0 means 1000, negative no limit.
	CallsPerSecond int
}

// Instructions tell an agent when to use the tools.
const Instructions = `Durable file writes. Use rw_safe_write, rw_edit, rw_delete, rw_move and rw_tx instead of any built-in way to change files: a crash leaves the old bytes or the new ones, versions are kept (rw_history, rw_undo), concurrent writers cannot overwrite each other unseen.
Before replacing a file call rw_read and pass its sha256 as expected_prev_sha256. Long text: rw_chunk_append piece by piece, then rw_chunk_compose. After a lost reply send the same call again with the same idempotency_key, or ask rw_operation.
Every refusal is JSON with error, suggested_action and context.hint: do what it says; the same call again is refused after a few times. suggested_action redact: call rw_redact with context.draft_ref and write the result. context.effect tells whether the disk was changed.
Keep raw material in rw_scratch_put, progress in rw_checkpoint, and leave rw_handoff_write for the next agent; read rw_handoff_read first.`

// host is what the handlers share.
type host struct {
	store *rw.Store
	log   *slog.Logger
	limit *bucket
}

func (h *host) logPanic(tool string, _ any) {
	// The value may hold content, so it is not logged.
	h.log.Error("a tool panicked", "tool", tool)
}

// unknownTool answers calls of tools that do not exist. It is not listed.
const unknownTool = "rw_unknown"

// New returns a server with all tools of the store. The caller closes the
// store after the server is done.
func New(store *rw.Store, opts *Options) *server.MCPServer {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	h := &host{store: store, log: o.Logger, limit: newBucket(o.CallsPerSecond)}
	hooks := &server.Hooks{}
	hooks.AddBeforeCallTool(func(_ context.Context, _ any, req *mcp.CallToolRequest) {
		if t, ok := find(req.Params.Name); ok {
			req.Params.Name = wireName(t.name, o.DottedNames)
			return
		}
		name, _ := json.Marshal(map[string]string{"tool": req.Params.Name})
		req.Params.Name, req.Params.RawArguments, req.Params.Arguments = unknownTool, name, nil
	})
	s := server.NewMCPServer("resilientwrite", rw.Version,
		server.WithInstructions(Instructions),
		server.WithToolCapabilities(false),
		server.WithElicitation(),
		server.WithHooks(hooks),
		server.WithToolFilter(listed),
	)
	for _, t := range table {
		s.AddTool(t.definition(o.DottedNames), t.handler(h))
	}
	s.AddTool(mcp.NewToolWithRawSchema(unknownTool, "Answers calls of tools that do not exist.", []byte(`{"type":"object"}`)), answerUnknown)
	return s
}

// listed hides the tool that answers for missing ones. The filter also sees a
// call, alone, and must let it through.
func listed(_ context.Context, tools []mcp.Tool) []mcp.Tool {
	if len(tools) == 1 {
		return tools
	}
	out := tools[:0:0]
	for _, t := range tools {
		if t.Name != unknownTool {
			out = append(out, t)
		}
	}
	return out
}

// definition is the tool as it is listed.
func (t tool) definition(dotted bool) mcp.Tool {
	d := mcp.NewToolWithRawSchema(wireName(t.name, dotted), t.description, schema.Input(t.in))
	d.Title, d.RawOutputSchema = t.title, schema.Output(t.out)
	no := false
	d.Annotations = mcp.ToolAnnotation{
		Title: t.title, ReadOnlyHint: &t.nature.readOnly, DestructiveHint: &t.nature.destructive,
		IdempotentHint: &t.nature.idempotent, OpenWorldHint: &no,
	}
	return d
}

// answerUnknown refuses a call of a tool that does not exist.
func answerUnknown(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var args struct{ Tool string }
	json.Unmarshal(req.Params.RawArguments, &args)
	names := make([]string, 0, len(table))
	for _, t := range table {
		names = append(names, wireName(t.name, false))
	}
	about := map[string]any{"tools": names}
	hint := ""
	if near := schema.Closest(args.Tool, names); near != "" {
		about["did_you_mean"] = near
		hint = "there is no such tool; did you mean " + near
	}
	return failure("", rw.NewError("call", rw.UnknownTool, hint, about)), nil
}

// bucket limits the rate of calls: it holds two seconds' worth of tokens.
type bucket struct {
	mu     sync.Mutex
	rate   float64
	tokens float64
	last   time.Time
}

const defaultRate = 1000 // calls per second

func newBucket(rate int) *bucket {
	if rate == 0 {
		rate = defaultRate
	}
	return &bucket{rate: float64(rate), tokens: 2 * float64(rate), last: time.Now()}
}

func (b *bucket) take() bool {
	if b.rate < 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.tokens = min(2*b.rate, b.tokens+b.rate*now.Sub(b.last).Seconds())
	b.last = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
