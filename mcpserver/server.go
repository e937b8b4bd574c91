// Package mcpserver offers the methods of a Store as tools of the Model Context
// Protocol. The behavior is that of the methods; this package binds them,
// checks arguments, and wraps replies.
//
// Replies have two forms. A brief reply is one block of text, JSON with what a
// model needs; a full one is structured content that conforms to the output
// schema, and the same JSON as text. [Options] choose. The receipt of a call is
// in _meta. Errors, including those of arguments, are the envelope of
// [rw.Error] with isError set, never errors of the protocol.
//
// The smallest server:
//
//	store, err := rw.Open(ctx, "workspace", nil)
//	if err != nil {
//		return err
//	}
//	err = mcpserver.ServeStdio(ctx, mcpserver.New(store, nil), os.Stdin, os.Stdout)
//	return errors.Join(err, store.Close(context.WithoutCancel(ctx)))
//
// # Where to begin
//
// [New] makes a server for a store, [ServeStdio] and [NewHTTP] serve it. An
// existing server takes the tools with [Tools]; a loop around a language model
// needs no protocol and uses a [Toolbox]. [Options] select the listed tools and
// wrap them. [Table], [Resources], [Prompts] and [Surface] describe everything
// a client can see; docs/governance.md says how that may change.
//
// # What it adds
//
// The gate is stricter than the library's where neither the policy file nor the
// host configures it: [rw.GateOfAgents]. Replies name the next step where it is
// clear ([NextAction]). Questions of the host's hooks reach the user of a
// client that supports elicitation, progress reaches a client that asks for it,
// and a call that is canceled before its commit point has changed nothing.
package mcpserver

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"golang.org/x/time/rate"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/mcpserver/internal/transport"
)

// Instructions tell an agent when to use the tools, where all of them are
// listed. A server whose list is shorter says so with those that it lists.
const Instructions = useTools + readFirstOf + longText + lostReply + refusals + rawMaterial + handoffs

const (
	useTools    = "Durable file writes. Use rw_safe_write, rw_edit, rw_delete, rw_move and rw_tx instead of any built-in way to change files: a crash leaves the old content or the new one, versions are kept (rw_history, rw_undo), and concurrent writers cannot silently overwrite each other.\n"
	readFirstOf = "Before replacing a file call rw_read and pass its sha256 as expected_prev_sha256."
	longText    = " For long text use rw_chunk_append, then rw_chunk_compose."
	lostReply   = " After a lost reply send the same call again with the same idempotency_key, or ask rw_operation.\n"
	refusals    = "Every refusal is JSON with error, suggested_action and context.hint; follow the hint. Repeating the same call is refused after a few attempts. suggested_action redact: call rw_redact with context.draft_ref and write the result. context.effect says whether the disk was changed.\n"
	rawMaterial = "Keep raw material with rw_scratch_put and progress with rw_checkpoint."
	handoffs    = " Call rw_handoff_read first, and rw_handoff_write when you stop."
	briefly     = "fix_call: correct the call and send it. read_again: look at the file, then make the call anew. ask_user: only then ask a person.\n"
)

// instructions are Instructions without the tools that are not listed.
func (h *host) instructions() string {
	text := ""
	for _, one := range []struct{ say, or string }{
		{useTools, "Durable file writes. Use rw_safe_write, rw_edit and rw_tx, which also deletes, moves and renames, instead of any built-in way to change files: a crash leaves the old content or the new one, versions are kept (rw_history, rw_undo), and concurrent writers cannot silently overwrite each other.\n"},
		{readFirstOf, readFirstOf},
		{longText, " For long text create the file with the first part and append the others."},
		{lostReply, " After a lost reply look at rw_history before you send the call again.\n"},
		{refusals, refusals},
		{rawMaterial, ""},
		{handoffs, ""},
	} {
		switch {
		case h.set.listsAll(one.say):
			text += one.say
		default:
			text += one.or
		}
		if one.say == refusals && h.brief {
			text += briefly
		}
	}
	return strings.ReplaceAll(h.set.words(text), "\n ", "\n")
}

// host is what the handlers share.
type host struct {
	store *rw.Store
	set   *toolset
	log   *slog.Logger
	limit *bucket
	brief bool // the form of replies
	lines lineNumbers
	live  *live // nil without a server of our own
}

func newHost(store *rw.Store, o Options) *host {
	return &host{store: store, set: newToolset(table, o), log: o.Logger, limit: newBucket(o.CallsPerSecond), brief: o.Replies == BriefReplies}
}

func (h *host) logPanic(tool string, _ any) {
	// The value may hold content, so it is not logged.
	h.log.Error("a tool panicked", "tool", tool)
}

// New returns a server with all tools of the store. A host may add tools of
// its own to it, and prompts and resources as well: a panic in one of them is
// answered as an internal error and logged without its value. The caller
// closes the store after the server is done.
func New(store *rw.Store, opts *Options) *server.MCPServer {
	o := opts.orDefaults()
	h := newHost(store, o)
	hooks := &server.Hooks{}
	s := server.NewMCPServer("resilientwrite", rw.Version,
		server.WithInstructions(h.instructions()),
		server.WithToolCapabilities(false),
		server.WithElicitation(),
		server.WithHooks(hooks),
		server.WithToolFilter(h.listed),
	)
	contain(s, func(what string) { h.log.Error("a handler panicked", "what", what) })
	hooks.AddBeforeCallTool(func(ctx context.Context, _ any, req *mcp.CallToolRequest) {
		h.redirect(ctx, s, &req.Params)
	})
	for i := range h.set.offers {
		s.AddTools(h.set.offers[i].serverTool(h, o))
	}
	unknown := mcp.NewToolWithRawSchema(unknownTool, "Answers calls to tools that do not exist.", []byte(`{"type":"object"}`))
	unknown.Meta = mcp.NewMetaFromMap(map[string]any{hostField: h})
	s.AddTool(unknown, h.answerUnknown)
	h.accompany(s, hooks)
	return s
}

// Tools returns the tools of the store for another MCP server: those that the
// preset lists, under the names that the options give them. What [New] does for
// a whole server (other names on call, an envelope for a tool that does not
// exist) is then up to that server.
func Tools(store *rw.Store, opts *Options) []server.ServerTool {
	o := opts.orDefaults()
	h := newHost(store, o)
	var list []server.ServerTool
	for i := range h.set.offers {
		if of := &h.set.offers[i]; of.listed {
			list = append(list, of.serverTool(h, o))
		}
	}
	return list
}

// unknownTool answers calls of tools that do not exist. It is not listed.
const unknownTool = "rw_unknown"

// calledAs is where the name is kept by which a client called a tool, if the
// tool is listed under another one.
const calledAs = "io.github.resilientwrite/called"

// redirect leads a call to the tool that its name means, under any of its
// names; what neither we nor the host have goes to the tool that says so.
func (h *host) redirect(ctx context.Context, s *server.MCPServer, call *mcp.CallToolParams) {
	if of, ok := h.set.find(call.Name); ok {
		if call.Name != of.wire {
			if call.Meta == nil {
				call.Meta = &mcp.Meta{}
			}
			if call.Meta.AdditionalFields == nil {
				call.Meta.AdditionalFields = map[string]any{}
			}
			call.Meta.AdditionalFields[calledAs] = call.Name
		}
		call.Name = of.wire
		return
	}
	if s.GetTool(call.Name) != nil {
		if args, ok := transport.Arguments(ctx); ok {
			call.RawArguments = args
			json.Unmarshal(args, &call.Arguments) // what cannot be held the tool reads for itself
		}
		return
	}
	name, _ := json.Marshal(map[string]string{"tool": call.Name})
	call.Name, call.RawArguments, call.Arguments = unknownTool, name, nil
}

// listed hides the tools that the preset leaves out. The filter also sees a
// call, alone, and must let it through.
func (h *host) listed(_ context.Context, tools []mcp.Tool) []mcp.Tool {
	if len(tools) == 1 {
		return tools
	}
	out := tools[:0:0]
	for _, t := range tools {
		of, ours := h.set.find(t.Name)
		if t.Name != unknownTool && (!ours || of.listed) {
			out = append(out, t)
		}
	}
	return out
}

// answerUnknown refuses a call of a tool that does not exist.
// Its arguments are those that redirect made, not those of the call.
func (h *host) answerUnknown(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var call struct{ Tool string }
	json.Unmarshal(req.Params.RawArguments, &call)
	return h.result(h.unknown(call.Tool)), nil
}

// unknown is the reply to a call of a tool that does not exist.
func (h *host) unknown(tool string) reply {
	about := map[string]any{"tools": h.set.names()}
	if wireForm.MatchString(tool) {
		about["unknown_tool"] = tool
	}
	hint := ""
	if near := h.set.meant(tool); near != "" {
		about["did_you_mean"] = near
		hint = "there is no such tool; did you mean " + near
	}
	e := rw.NewError("call", rw.ErrUnknownTool, hint, about)
	if h.store != nil { // tools can be listed without one
		e = h.store.CountRefusal("call", []byte(tool), e)
	}
	if name, ok := about["unknown_tool"].(string); ok {
		return h.failure(name, e)
	}
	return h.failure("", e)
}

// bucket limits the rate of calls: it holds two seconds' worth of tokens.
type bucket struct {
	*rate.Limiter
	now func() time.Time
}

const defaultRate = 1000 // calls per second

func newBucket(perSecond int) *bucket {
	if perSecond == 0 {
		perSecond = defaultRate
	}
	limit := rate.Limit(perSecond)
	if perSecond < 0 {
		limit = rate.Inf
	}
	return &bucket{rate.NewLimiter(limit, 2*perSecond), time.Now}
}

func (b *bucket) take() bool { return b.AllowN(b.now(), 1) }
