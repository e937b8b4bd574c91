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
)

// tool is one line of the table.
type tool struct {
	name, title, description string
	tier                     Tier
	nature                   nature
	in, out                  reflect.Type
	call                     func(ctx context.Context, s *rw.Store, args []byte, caller string) (any, error)
}

// bind makes a tool of a method of the Store: the types of its arguments and
// of its reply come with the method expression.
func bind[In, Out any](name string, tier Tier, n nature, title string, method func(*rw.Store, context.Context, In) (Out, error), description string) tool {
	return tool{
		name: name, title: title, description: description, tier: tier, nature: n,
		in: reflect.TypeFor[In](), out: reflect.TypeFor[Out](),
		call: func(ctx context.Context, s *rw.Store, args []byte, caller string) (any, error) {
			var in In
			notes, err := schema.Decode(args, &in)
			if err != nil {
				return nil, refusal(name, err)
			}
			setCaller(&in, caller)
			out, err := method(s, rw.WithGate(withAsk(ctx), rw.GateOfAgents), in)
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

// setCaller fills in who is calling where the arguments do not say.
func setCaller(in any, caller string) {
	f := reflect.ValueOf(in).Elem().FieldByName("Caller")
	if caller != "" && f.IsValid() && f.Kind() == reflect.String && f.String() == "" {
		f.SetString(caller)
	}
}

// refusal turns a problem with the arguments into the envelope of its detail.
func refusal(op string, err error) *rw.Error {
	var p *schema.Problem
	if !errors.As(err, &p) {
		return rw.NewError(op, rw.InvalidArgument, "", nil)
	}
	detail, about := rw.InvalidArgument, map[string]any{"argument": p.Argument, "problem": p.Code}
	switch {
	case p.Code == schema.Unknown:
		detail = rw.UnknownArgument
	case p.Code == schema.Missing && p.Argument == "content":
		return rw.NewError(op, rw.MissingContent, "", about)
	case p.Code == schema.UTF8:
		detail = rw.NotValidUTF8
	}
	if p.DidYouMean != "" {
		about["did_you_mean"] = p.DidYouMean
	}
	return rw.NewError(op, detail, p.Error(), about)
}

// handler answers calls of t. It never fails: what goes wrong is an envelope.
func (t tool) handler(h *host) server.ToolHandlerFunc {
	return func(ctx context.Context, req mcp.CallToolRequest) (res *mcp.CallToolResult, _ error) {
		defer func() {
			if v := recover(); v != nil {
				h.logPanic(t.name, v)
				res = failure(t.name, rw.NewError(t.name, rw.DetailInternal, "", nil))
			}
		}()
		if !h.limit.take() {
			return failure(t.name, rw.NewError(t.name, rw.RateLimited, "", nil)), nil
		}
		args, err := arguments(ctx, req)
		if err != nil {
			return failure(t.name, refusal(t.name, err)), nil
		}
		out, err := t.call(ctx, h.store, args, clientName(ctx))
		if err != nil {
			return failure(t.name, rw.AsError(t.name, err)), nil
		}
		return success(out)
	}
}

// arguments returns the bytes of the arguments as they came over the wire.
func arguments(ctx context.Context, req mcp.CallToolRequest) ([]byte, error) {
	if args, ok := ctx.Value(argumentsKey{}).(json.RawMessage); ok {
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
func success(out any) (*mcp.CallToolResult, error) {
	data, err := schema.Reply(out)
	if err != nil {
		return failure("", rw.NewError("", rw.DetailInternal, "", nil)), nil
	}
	doc := append([]byte(`{"ok":true`), ',')
	if len(data) == 2 { // an empty object
		doc = doc[:len(doc)-1]
	}
	doc = append(doc, data[1:]...)
	return mcp.NewToolResultStructured(json.RawMessage(doc), string(doc)), nil
}

// failure is the envelope of an error, both structured and as text.
func failure(name string, e *rw.Error) *mcp.CallToolResult {
	env := e.Envelope()
	if name != "" {
		env.Context["tool"] = wireName(name, false)
	}
	doc, err := json.Marshal(env)
	if err != nil {
		doc = []byte(`{"ok":false}`)
	}
	res := mcp.NewToolResultStructured(json.RawMessage(doc), string(doc))
	res.IsError = true
	return res
}

// clientName is what the client calls itself.
func clientName(ctx context.Context) string {
	if s, ok := server.ClientSessionFromContext(ctx).(server.SessionWithClientInfo); ok {
		return s.GetClientInfo().Name
	}
	return ""
}
