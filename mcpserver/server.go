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
// needs no protocol and uses package toolbox. [Options] select the listed tools and
// wrap them. [toolbox.Table], [Resources], [Prompts] and [Surface] describe everything
// a client can see; docs/governance.md says how that may change.
//
// # What it adds
//
// The gate is stricter than the library's where neither the policy file nor the
// host configures it: [rw.GateOfAgents]. Replies name the next step where it is
// clear ([toolbox.NextAction]). Questions of the host's hooks reach the user of a
// client that supports elicitation, progress reaches a client that asks for it,
// and a call that is canceled before its commit point has changed nothing.
package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/mcpserver/internal/transport"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// host is the state that the handlers share.
type host struct {
	store *rw.Store
	box   *toolbox.Toolbox
	tools map[string]ToolInfo // by the name under which they are registered
	opts  Options
	log   *slog.Logger
	brief bool  // the form of replies
	live  *live // nil without a server of our own

	carrying sync.Once
	carried  *transport.Server // that server as its transports see it
}

// boxOptions are the options of the tools of every workspace.
func (h *host) boxOptions() *toolbox.Options {
	o := &h.opts
	return &toolbox.Options{
		Tier: o.Tier, Tools: o.Tools, Replies: o.Replies, DottedNames: o.DottedNames, Filter: o.Filter, Rename: o.Rename,
		Warnings: h.warnings, Logger: o.Logger, CallsPerSecond: o.CallsPerSecond,
	}
}

func newHost(store *rw.Store, opts *Options) *host {
	o := opts.orDefaults()
	h := &host{store: store, opts: o, log: o.Logger, tools: map[string]ToolInfo{}}
	h.box = toolbox.New(store, h.boxOptions())
	h.brief = h.box.Replies() == BriefReplies
	for _, t := range h.box.All() {
		h.tools[t.Name] = t
	}
	return h
}

// tool returns the tool that a name means.
func (h *host) tool(name string) (t ToolInfo, ok bool) {
	if name, ok = h.box.Resolve(name); ok {
		t = h.tools[name]
	}
	return t, ok
}

// lists reports whether the tool is listed; stem is its name in the table.
func (h *host) lists(stem string) bool {
	t, _ := h.tool("rw_" + stem)
	return t.Listed
}

func (h *host) logPanic(tool string) {
	// The value may hold content, so it is not logged.
	h.log.Error("a tool panicked", "tool", tool)
}

// New returns a server with all tools of the store. A host may add tools of
// its own to it, and prompts and resources as well: a panic in one of them is
// answered as an internal error and logged without its value. The caller
// closes the store after the server is done.
func New(store *rw.Store, opts *Options) *server.MCPServer {
	h := newHost(store, opts)
	hooks := &server.Hooks{}
	s := server.NewMCPServer("resilientwrite", rw.Version,
		server.WithInstructions(h.box.Instructions()),
		server.WithToolCapabilities(false),
		server.WithElicitation(),
		server.WithHooks(hooks),
		server.WithToolFilter(h.listed),
	)
	contain(s, func(what string) { h.log.Error("a handler panicked", "what", what) })
	hooks.AddBeforeCallTool(func(ctx context.Context, _ any, req *mcp.CallToolRequest) {
		h.redirect(ctx, s, &req.Params)
	})
	for _, t := range h.box.All() {
		s.AddTools(h.serverTool(t))
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
	h := newHost(store, opts)
	var list []server.ServerTool
	for _, t := range h.box.Tools() {
		list = append(list, h.serverTool(t))
	}
	return list
}

// unknownTool answers calls of tools that do not exist. It is not listed.
const unknownTool = "rw_unknown"

// calledAs is where the name is kept by which a client called a tool, if the
// tool is listed under another one.
const calledAs = "io.github.resilientwrite/called"

// redirect sends a call to the tool that its name refers to, under any of its names. A
// name that neither we nor the host have goes to the tool that reports it.
func (h *host) redirect(ctx context.Context, s *server.MCPServer, call *mcp.CallToolParams) {
	if name, ok := h.box.Resolve(call.Name); ok {
		if call.Name != name {
			attach(&call.Meta, calledAs, call.Name)
		}
		call.Name = name
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
		of, ours := h.tool(t.Name)
		if t.Name != unknownTool && (!ours || of.Listed) {
			out = append(out, t)
		}
	}
	return out
}

// answerUnknown refuses a call of a tool that does not exist.
// Its arguments are those that redirect made, not those of the call.
func (h *host) answerUnknown(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var call struct{ Tool string }
	json.Unmarshal(req.Params.RawArguments, &call)
	return h.result(h.box.Call(ctx, call.Tool, nil, nil)), nil
}

// live is the features of a server besides its tools: resources, prompts, completions,
// and notifications.
type live struct {
	host  *host
	subs  *subscriptions
	sent  onceMessages
	roots sync.Map // by session, whether the workspace is outside the roots of the client
}

// accompany adds all of it to the server.
func (h *host) accompany(s *server.MCPServer, hooks *server.Hooks) {
	l := &live{host: h}
	h.live = l
	l.offerResources(s, hooks)
	l.offerPrompts(s, hooks)
	l.offerCompletions(s)
	l.offerUpdates(s, hooks)
	l.offerLogging(s, hooks)
	l.offerRoots(s, hooks)
	s.Use(l.aroundTools)
}

// prepared is the member of the metadata of a request in which a hook leaves its result
// for the handler. It is of a type of ours, which no value from outside has.
const prepared = "io.github.resilientwrite/prepared"

// attach sets a member of the metadata of a request.
func attach(meta **mcp.Meta, name string, value any) {
	if *meta == nil {
		*meta = &mcp.Meta{}
	}
	if (*meta).AdditionalFields == nil {
		(*meta).AdditionalFields = map[string]any{}
	}
	(*meta).AdditionalFields[name] = value
}

// attached returns a member of the metadata of a request.
func attached(meta *mcp.Meta, name string) any {
	if meta == nil {
		return nil
	}
	return meta.AdditionalFields[name]
}

// A panic in a tool, a prompt or a resource is answered and logged, so that one
// bad handler of a host ends neither the connection of others nor the process.
// Its value may contain content and is never reported.

// errPanicked is the only error that a client gets for a panic outside of tools.
var errPanicked = errors.New("internal error")

// caught is a handler whose panic becomes another answer.
func caught[Req, Res any](next func(context.Context, Req) (Res, error), panicked func() (Res, error)) func(context.Context, Req) (Res, error) {
	return func(ctx context.Context, req Req) (res Res, err error) {
		defer func() {
			if recover() != nil {
				res, err = panicked()
			}
		}()
		return next(ctx, req)
	}
}

// contain keeps the panics of handlers from leaving the server. It has to come
// before other middleware, which it then surrounds. log gets a record of each.
func contain(s *server.MCPServer, log func(what string)) {
	s.Use(func(next server.ToolHandlerFunc) server.ToolHandlerFunc {
		return caught(next, func() (*mcp.CallToolResult, error) {
			log("tool")
			return refused(s, toolbox.PanicError("call", false)), nil
		})
	})
	server.WithPromptHandlerMiddleware(func(next server.PromptHandlerFunc) server.PromptHandlerFunc {
		return caught(next, func() (*mcp.GetPromptResult, error) {
			log("prompt")
			return nil, errPanicked
		})
	})(s)
	server.WithResourceHandlerMiddleware(func(next server.ResourceHandlerFunc) server.ResourceHandlerFunc {
		return caught(next, func() ([]mcp.ResourceContents, error) {
			log("resource")
			return nil, errPanicked
		})
	})(s)
}

// refused is a refusal outside of any tool of ours.
func refused(s *server.MCPServer, e *rw.Error) *mcp.CallToolResult {
	if h := hostOf(s); h != nil {
		return h.result(h.box.Refuse("", e))
	}
	doc, err := schema.Encode(e.Envelope())
	if err != nil {
		doc = []byte(`{"ok":false}`)
	}
	res := mcp.NewToolResultStructured(json.RawMessage(doc), string(doc))
	res.IsError = true
	return res
}

// contained is the handler of one of our tools inside the wrapper of the host. Its
// panics become envelopes that name the tool.
func (h *host) contained(t ToolInfo, handler server.ToolHandlerFunc) server.ToolHandlerFunc {
	return caught(handler, func() (*mcp.CallToolResult, error) {
		h.logPanic(t.Stem)
		return h.result(h.box.Refuse(t.Stem, toolbox.PanicError(t.Stem, t.ReadOnly))), nil
	})
}

// hostField is where the server that New made keeps its host: in the tool that
// is never listed.
const hostField = "host"

// hostOf is the host of a server that [New] made, nil for other servers.
func hostOf(s *server.MCPServer) *host {
	t := s.GetTool(unknownTool)
	if t == nil || t.Tool.Meta == nil {
		return nil
	}
	h, _ := t.Tool.Meta.AdditionalFields[hostField].(*host)
	return h
}
