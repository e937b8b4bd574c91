package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/mcpserver/internal/transport"
)

// tool is one line of the table.
type tool struct {
	name, title, description string
	nature                   nature
	in, out                  reflect.Type
	call                     func(ctx context.Context, h *host, args []byte) (any, error)
}

// bind makes a tool of a method of the Store: the types of its arguments and
// of its reply come with the method expression.
func bind[In, Out any](name string, n nature, title string, method func(*rw.Store, context.Context, In) (Out, error), description string) tool {
	_, dry := reflect.TypeFor[In]().FieldByName("DryRun")
	return tool{
		name: name, title: title, description: description, nature: n,
		in: reflect.TypeFor[In](), out: reflect.TypeFor[Out](),
		call: func(ctx context.Context, h *host, args []byte) (any, error) {
			var in In
			args, aliases, err := canonical(reflect.TypeFor[In](), args)
			var notes []string
			if err == nil {
				notes, err = schema.Decode(ctx, args, &in)
			}
			callOf(ctx).aliases = aliases
			if ctx.Err() != nil {
				return nil, rw.NewError(name, rw.ErrCanceled, "", nil)
			}
			if err != nil {
				if dry && asksDryRun(args) { // which never counts
					return nil, refusal(name, err)
				}
				return nil, h.store.CountRefusal(name, args, refusal(name, err))
			}
			if host, ok := ctx.Value(hostCallKey{}).(hostCall); ok {
				host.key(&in, args)
			}
			out, err := method(h.store, ofAgents(ctx), in)
			if err != nil {
				return nil, err
			}
			for _, note := range notes {
				if w, ok := any(&out).(interface{ Warn(string) }); ok {
					w.Warn(note)
				}
			}
			return out, nil
		},
	}
}

// ofAgents is the context of the calls of agents: what holds for them where
// neither the policy nor the options of the store say anything.
func ofAgents(ctx context.Context) context.Context {
	return rw.WithProtectDefaults(rw.WithGate(ctx, rw.GateOfAgents), rw.ProtectAsk)
}

// refusal turns a problem with the arguments into the envelope of its detail.
func refusal(op string, err error) *rw.Error {
	var p *schema.Problem
	if !errors.As(err, &p) {
		return rw.NewError(op, rw.ErrInvalidArgument, "", nil)
	}
	detail, about := rw.ErrInvalidArgument, map[string]any{"argument": p.Argument, "problem": p.Code}
	switch {
	case p.Code == schema.Unknown:
		detail = rw.ErrUnknownArgument
	case p.Code == schema.Missing && p.Argument == "content":
		return rw.NewError(op, rw.ErrMissingContent, "", about)
	case p.Code == schema.UTF8:
		detail = rw.ErrNotValidUTF8
	case p.Code == schema.TooMany || p.Code == schema.TooLarge:
		detail = rw.ErrTooLarge
	}
	if p.DidYouMean != "" {
		about["did_you_mean"] = p.DidYouMean
	}
	return rw.NewError(op, detail, p.Error(), about)
}

// asksDryRun reports whether arguments that are wrong somewhere ask for a dry
// run.
func asksDryRun(args []byte) bool {
	var call struct {
		DryRun json.RawMessage `json:"dry_run"`
	}
	return json.Unmarshal(args, &call) == nil && string(call.DryRun) == "true"
}

// reply is what a tool answers: a JSON object that begins with ok. failed says
// that it is an error envelope. record is for programs.
type reply struct {
	doc    json.RawMessage
	failed bool
	record *record
}

// handler answers calls of the tool. It never fails: what goes wrong is an
// envelope.
func (of *offer) handler(h *host) server.ToolHandlerFunc {
	return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		args, err := arguments(ctx, req)
		if err != nil {
			return h.result(h.failure(of.name, h.store.CountRefusal(of.name, nil, refusal(of.name, err)))), nil
		}
		return of.converse(ctx, h, req, args), nil
	}
}

// calledKey is the name by which a client called a tool, if the tool is listed
// under another one.
type calledKey struct{}

// answer calls the tool.
func (of *offer) answer(ctx context.Context, h *host, args []byte) (out reply) {
	one := &onCall{host: h}
	defer func() {
		if out.record != nil {
			out.record.Alias = one.aliases
		}
	}()
	defer func() {
		if v := recover(); v != nil {
			h.logPanic(of.name, v)
			out = of.broken(h)
		}
	}()
	if !h.limit.take() {
		return h.failure(of.name, rw.NewError(of.name, rw.ErrRateLimited, "", nil))
	}
	called := of.name
	if name, ok := ctx.Value(calledKey{}).(string); ok {
		called = name
	}
	v, err := of.call(context.WithValue(ctx, onCallKey{}, one), h, args)
	if err != nil {
		return h.failure(called, rw.AsError(of.name, err))
	}
	return h.success(of.name, h.complete(v), one)
}

// arguments returns the bytes of the arguments as they came over the wire.
func arguments(ctx context.Context, req mcp.CallToolRequest) ([]byte, error) {
	if args, ok := transport.Arguments(ctx); ok {
		return args, nil
	}
	if len(req.Params.RawArguments) > 0 {
		return req.Params.RawArguments, nil
	}
	if req.Params.Arguments == nil {
		return nil, nil
	}
	return json.Marshal(req.Params.Arguments)
}

// success is a reply that says ok first.
func (h *host) success(tool string, v any, one *onCall) reply {
	rec := h.recordOf(receiptOf(v))
	if h.brief {
		return reply{doc: h.briefSuccess(tool, v, one), record: rec}
	}
	data, err := schema.Reply(v)
	if err != nil {
		return h.failure(tool, panicError(tool, false)) // the call is done
	}
	doc := append([]byte(`{"ok":true,`), data[1:]...)
	if len(data) == 2 { // an empty object
		doc = []byte(`{"ok":true}`)
	}
	if f := next[tool]; f != nil {
		if steps := h.set.named(f(v)); len(steps) > 0 {
			more, _ := json.Marshal(steps) // strings and numbers
			doc = append(append(append(doc[:len(doc)-1], `,"next_actions":`...), more...), '}')
		}
	}
	return h.set.hinted(reply{doc: doc, record: rec})
}

// failure is the envelope of an error. tool is the name in the table, or that
// by which the client called.
func (h *host) failure(tool string, e *rw.Error) reply {
	receipt, _ := e.Context["receipt"].(rw.Receipt)
	rec := h.recordOf(&receipt)
	rec.InvocationID, _ = e.Context["invocation_id"].(string)
	rec.Code = e.Code()
	if was, told := e.Context["journaled"].(bool); told {
		rec.Journaled = was
	}
	if h.brief {
		return reply{doc: h.briefRefusal(e), failed: true, record: rec}
	}
	env := e.Envelope()
	if of, ok := h.set.find(wireName(tool, false)); ok {
		tool = of.wire
	}
	if tool != "" {
		env.Context["tool"] = tool
	}
	env.Context["hint"] = h.set.hint(e)
	if f := remedy[e.Detail]; f != nil {
		if steps := h.set.named(f(e)); len(steps) > 0 {
			env.Context["next_actions"] = steps
		}
	}
	doc, err := json.Marshal(env)
	if err != nil {
		doc = []byte(`{"ok":false}`)
	}
	return h.set.hinted(reply{doc: doc, failed: true, record: rec})
}

// recordKey is where a result holds its record.
const recordKey = "io.github.resilientwrite/receipt"

// record is the receipt of a call, and what a program needs besides. It is in
// _meta, which hosts keep from the model.
type record struct {
	*rw.Receipt
	InvocationID string   `json:"invocation_id,omitempty"`
	Code         rw.Code  `json:"code"`
	Journaled    bool     `json:"journaled"`
	Alias        []string `json:"alias,omitempty"` // names that the call used in place of ours
}

func (h *host) recordOf(r *rw.Receipt) *record {
	if r == nil || r.Op == "" {
		return &record{}
	}
	told := *r
	told.Warnings = h.set.warnings(r.Warnings)
	return &record{Receipt: &told, InvocationID: r.InvocationID, Journaled: r.JournalSeq > 0}
}

// receiptOf is the receipt of a reply, nil when it has none.
func receiptOf(v any) *rw.Receipt {
	if s := reflect.ValueOf(v); s.Kind() == reflect.Struct {
		if f := s.FieldByName("Receipt"); f.IsValid() {
			switch r := f.Interface().(type) {
			case rw.Receipt:
				return &r
			case *rw.Receipt:
				return r
			}
		}
	}
	return nil
}

// result is a reply as the protocol carries it: text, and when replies are
// full, the same JSON as structured content.
func (h *host) result(r reply) *mcp.CallToolResult {
	if !h.brief {
		return result(r)
	}
	res := mcp.NewToolResultText(string(r.doc))
	res.IsError = r.failed
	res.Meta = r.meta()
	return res
}

// result is a full reply.
func result(r reply) *mcp.CallToolResult {
	res := mcp.NewToolResultStructured(r.doc, string(r.doc))
	res.IsError = r.failed
	res.Meta = r.meta()
	return res
}

func (r reply) meta() *mcp.Meta {
	if r.record == nil {
		return nil
	}
	return mcp.NewMetaFromMap(map[string]any{recordKey: r.record})
}
