package mcpserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/mcpserver/internal/transport"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// maxReadResult is how many characters a host should show of a page.
const maxReadResult = 60_000

// definition is the tool as it is listed.
func (h *host) definition(t ToolInfo) mcp.Tool {
	input := t.Input
	if h.opts.Workspaces != nil {
		input = withWorkspace(input)
	}
	d := mcp.NewToolWithRawSchema(t.Name, t.Description, input)
	if !h.brief {
		d.Title = t.Title
		if !h.opts.OmitOutputSchemas {
			d.RawOutputSchema = t.Output
		}
	}
	no := false
	d.Annotations = mcp.ToolAnnotation{
		ReadOnlyHint: &t.ReadOnly, DestructiveHint: &t.Destructive,
		IdempotentHint: &t.Idempotent, OpenWorldHint: &no,
	}
	d.Annotations.Title = d.Title // where older clients look for it
	if t.Search != "" {           // used by hosts that defer tools
		m := map[string]any{"anthropic/searchHint": t.Search}
		if t.Load {
			m["anthropic/alwaysLoad"] = true
		}
		if t.Stem == "read" {
			m["anthropic/maxResultSizeChars"] = maxReadResult
		}
		d.Meta = mcp.NewMetaFromMap(m)
	}
	return d
}

// serverTool returns the tool with its handler, inside the wrapper of the host. The
// handler never fails: errors are envelopes.
func (h *host) serverTool(t ToolInfo) server.ServerTool {
	handler := func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return h.converse(ctx, t, req, schema.Unquoted(arguments(ctx, req), '{')), nil
	}
	if h.opts.Wrap != nil {
		info, _ := toolbox.Lookup(t.Stem)
		handler = h.opts.Wrap(info, handler)
	}
	return server.ServerTool{Tool: h.definition(t), Handler: h.contained(t, handler)}
}

// arguments returns the bytes of the arguments as they came over the wire.
func arguments(ctx context.Context, req mcp.CallToolRequest) json.RawMessage {
	if args, ok := transport.Arguments(ctx); ok {
		return args
	}
	if len(req.Params.RawArguments) > 0 {
		return req.Params.RawArguments
	}
	if req.Params.Arguments == nil {
		return nil
	}
	args, err := json.Marshal(req.Params.Arguments)
	if err != nil { // a host called with a value that is no JSON
		return json.RawMessage("?")
	}
	return args
}

// recordKey is where a result holds its receipt, which hosts keep from the
// model.
const recordKey = "io.github.resilientwrite/receipt"

// result is an answer as the protocol carries it: text, and when replies are
// full, the same JSON as structured content.
func (h *host) result(a toolbox.Answer) *mcp.CallToolResult {
	res := mcp.NewToolResultText(a.Text)
	if !h.brief {
		res.StructuredContent = json.RawMessage(a.Text)
	}
	res.IsError = !a.OK
	res.Meta = mcp.NewMetaFromMap(map[string]any{recordKey: a.Receipt})
	return res
}

// thisProcess distinguishes sessions that have the same id in every process.
var thisProcess = rand.Text()

// origin describes where a call comes from: the name of the client, the connection, ""
// if the protocol has none, and the metadata of the client's host about the call. None
// of it is an argument of the tool.
func origin(ctx context.Context, meta *mcp.Meta) *toolbox.CallOpts {
	session := server.ClientSessionFromContext(ctx)
	o := &toolbox.CallOpts{Session: metaText(meta, "threadId"), CallID: metaText(meta, "callId", "claudecode/toolUseId")}
	o.Model, o.Turn, o.Trace = metaText(meta, "model"), metaText(meta, "turnId"), metaText(meta, "traceId")
	if parts := strings.Split(metaText(meta, "traceparent"), "-"); o.Trace == "" && len(parts) >= 4 { // of W3C Trace Context
		o.Trace = parts[1]
	}
	codex, _ := attached(meta, "x-codex-turn-metadata").(map[string]any)
	model, _ := codex["model"].(string)
	turn, _ := codex["turn_id"].(string)
	o.Model, o.Turn = cmp.Or(o.Model, model), cmp.Or(o.Turn, turn)
	if s, ok := session.(server.SessionWithClientInfo); ok {
		info := s.GetClientInfo()
		o.Client, o.Version = info.Name, info.Version
	}
	if session != nil && transport.Unique(session) {
		o.Connection = session.SessionID()
	} else if session != nil && session.SessionID() != "" { // of a transport that the host brought
		o.Connection = thisProcess + session.SessionID()
	}
	return o
}

// metaText returns the first text that a host sent under one of these names. A value
// that is not a text counts as absent.
func metaText(meta *mcp.Meta, names ...string) string {
	for _, name := range names {
		if text, ok := attached(meta, name).(string); ok && text != "" {
			return text
		}
	}
	return ""
}
