package toolbox

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"unicode/utf8"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/adapter"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// tool is one line of the table.
type tool struct {
	name, title, description string
	nature                   nature
	in, out                  reflect.Type
	call                     func(ctx context.Context, b *Toolbox, args []byte) (any, error)
}

// bind makes a tool of a method of the Store: the types of its arguments and
// of its reply come with the method expression.
func bind[In, Out any](name string, n nature, title string, method func(*rw.Store, context.Context, In) (Out, error), description string) tool {
	_, dry := reflect.TypeFor[In]().FieldByName("DryRun")
	return tool{
		name: name, title: title, description: description, nature: n,
		in: reflect.TypeFor[In](), out: reflect.TypeFor[Out](),
		call: func(ctx context.Context, b *Toolbox, args []byte) (any, error) {
			var in In
			one := callOf(ctx)
			args, aliases, err := canonical(reflect.TypeFor[In](), args)
			var wire schema.Wire
			if err == nil {
				wire, err = schema.Decode(ctx, args, &in)
			}
			if err == nil {
				err = notOfHome(reflect.ValueOf(in))
			}
			one.aliases, one.encoding = aliases, wire.Encoding
			if ctx.Err() != nil {
				return nil, rw.NewError(name, rw.ErrCanceled, "", nil)
			}
			if err != nil {
				if dry && asksDryRun(args) { // which never counts
					return nil, refusal(name, err)
				}
				return nil, count(b.store, name, args, refusal(name, err))
			}
			one.opts.key(&in, args)
			if wire.Malformed != nil {
				ctx = adapter.WithMalformed(ctx, wire.Malformed)
			}
			out, err := method(b.store, ForAgents(ctx), in)
			if err != nil {
				return nil, err
			}
			if one.encoding != "base64" && !isText(&out) {
				return nil, count(b.store, name, args, notText(name, &out))
			}
			for _, note := range wire.Notes {
				if w, ok := any(&out).(interface{ Warn(string) }); ok {
					w.Warn(note)
				}
			}
			return out, nil
		},
	}
}

// ofHome is the code of a path that a shell would take for one in the home directory.
const ofHome = "home"

// notOfHome refuses such a path of a call: it would be one of a directory named ~.
func notOfHome(in reflect.Value) error {
	for _, name := range [][2]string{{"Path", "path"}, {"To", "to"}, {"OutputPath", "output_path"}} {
		if f := in.FieldByName(name[0]); f.IsValid() && strings.HasPrefix(f.String(), "~/") {
			return &schema.Problem{Argument: name[1], Code: ofHome, Want: "relative to the workspace, because ~ is not expanded; ./~ is a directory of that name"}
		}
	}
	if op := in.FieldByName("Op"); op.IsValid() && op.Kind() == reflect.Struct {
		return notOfHome(op)
	}
	if ops := in.FieldByName("Ops"); ops.IsValid() {
		for _, op := range ops.Seq2() {
			if err := notOfHome(op); err != nil {
				return err
			}
		}
	}
	return nil
}

// count is a refusal of arguments, counted in the retry budget of the tool.
func count(s *rw.Store, verb string, args []byte, e *rw.Error) *rw.Error {
	return adapter.CountRefusal(s, verb, args, e).(*rw.Error)
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
		hint := ""
		if op != "safe_write" {
			hint = "no content arrived, as happens when a call is truncated; send less at once"
		}
		return rw.NewError(op, rw.ErrMissingContent, hint, about)
	case p.Code == ofHome:
		detail = rw.ErrAbsolutePathRejected
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
	record *Receipt
}

func (r reply) answer() Answer { return Answer{OK: !r.failed, Text: string(r.doc), Receipt: *r.record} }

// answer calls the tool, by the name that the caller used.
func (of *offer) answer(ctx context.Context, b *Toolbox, name string, args []byte, o CallOpts) (out reply) {
	one := &onCall{box: b, opts: o}
	defer func() {
		if out.record != nil {
			out.record.Alias = one.aliases
		}
	}()
	defer func() {
		if recover() != nil { // the value may hold content, so it is not logged
			b.opts.Logger.Error("a tool panicked", "tool", of.name)
			out = b.failure(of.name, PanicError(of.name, of.nature.readOnly))
		}
	}()
	if !b.limit.Allow() {
		return b.failure(of.name, rw.NewError(of.name, rw.ErrRateLimited, "", nil))
	}
	if b.store != nil {
		reported, end := adapter.ReportCall(ctx, b.store, of.name, args)
		defer end()
		ctx = reported
	}
	v, err := of.call(context.WithValue(ctx, onCallKey{}, one), b, args)
	if err != nil {
		return b.failure(name, rw.AsError(of.name, err))
	}
	return b.success(of.name, b.complete(v), one)
}

// success is a reply that says ok first.
func (b *Toolbox) success(tool string, v any, one *onCall) reply {
	rec := b.recordOf(receiptOf(v))
	if b.brief {
		return reply{doc: b.briefSuccess(tool, v, one), record: rec}
	}
	data, err := schema.Reply(v, one.encoding)
	if err != nil {
		return b.failure(tool, PanicError(tool, false)) // the call is done
	}
	doc := append([]byte(`{"ok":true,`), data[1:]...)
	if len(data) == 2 { // an empty object
		doc = []byte(`{"ok":true}`)
	}
	if f := next[tool]; f != nil {
		if steps := b.set.named(f(v)); len(steps) > 0 {
			more, _ := schema.Encode(steps) // strings and numbers
			doc = append(append(append(doc[:len(doc)-1], `,"next_actions":`...), more...), '}')
		}
	}
	return b.set.hinted(reply{doc: doc, record: rec})
}

// failure is the envelope of an error. tool is the name in the table, or that
// by which the client called.
func (b *Toolbox) failure(tool string, e *rw.Error) reply {
	receipt, _ := e.Context["receipt"].(rw.Receipt)
	rec := b.recordOf(&receipt)
	rec.InvocationID, _ = e.Context["invocation_id"].(string)
	rec.Code = e.Code()
	if was, ok := e.Context["journaled"].(bool); ok {
		rec.Journaled = was
	}
	if b.brief {
		return reply{doc: b.briefRefusal(e), failed: true, record: rec}
	}
	env := e.Envelope()
	if of, ok := b.set.find(wireName(tool, false)); ok {
		tool = of.wire
	}
	if tool != "" {
		env.Context["tool"] = tool
	}
	env.Context["hint"] = b.set.hint(e)
	if f := remedy[e.Detail]; f != nil {
		if steps := b.set.named(f(e)); len(steps) > 0 {
			env.Context["next_actions"] = steps
		}
	}
	doc, err := schema.Encode(env)
	if err != nil {
		doc = []byte(`{"ok":false}`)
	}
	return b.set.hinted(reply{doc: doc, failed: true, record: rec})
}

func (b *Toolbox) recordOf(r *rw.Receipt) *Receipt {
	if r == nil || r.Op == "" {
		return &Receipt{}
	}
	out := *r
	out.Warnings = b.set.warnings(r.Warnings)
	return &Receipt{Receipt: out, InvocationID: r.InvocationID, Journaled: r.JournalSeq > 0}
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

// unknown is the reply to a call of a tool that does not exist.
func (b *Toolbox) unknown(tool string) reply {
	about := map[string]any{"tools": b.set.names()}
	if wireForm().MatchString(tool) {
		about["unknown_tool"] = tool
	}
	hint := ""
	if near := b.set.meant(tool); near != "" {
		about["did_you_mean"] = near
		hint = "there is no such tool; did you mean " + near
	}
	e := rw.NewError("call", rw.ErrUnknownTool, hint, about)
	if b.store != nil { // tools can be listed without one
		e = count(b.store, "call", []byte(tool), e)
	}
	if name, ok := about["unknown_tool"].(string); ok {
		return b.failure(name, e)
	}
	return b.failure("", e)
}

// isText reports whether the content of a reply, if it has one, can be sent as
// text. Content that goes on in a next part never ends within a character.
func isText(out any) bool {
	v := reflect.ValueOf(out).Elem()
	if v.Kind() != reflect.Struct {
		return true
	}
	f := v.FieldByName("Content")
	if !f.IsValid() || f.Type() != reflect.TypeFor[[]byte]() {
		return true
	}
	if more := v.FieldByName("Truncated"); more.IsValid() && more.Bool() {
		f.SetBytes(wholeRunes(f.Bytes()))
	}
	return utf8.Valid(f.Bytes())
}

// notText refuses a reply whose content is not text.
func notText(op string, out any) *rw.Error {
	e := rw.NewError(op, rw.ErrNotValidUTF8, "retry_with_encoding_base64: the content is not UTF-8 text, or begins inside a character", nil)
	if f := reflect.ValueOf(out).Elem().FieldByName("Path"); f.IsValid() && f.Kind() == reflect.String {
		e.Path = f.String()
	}
	return e
}

// wholeRunes cuts a character off that the end of p splits.
func wholeRunes(p []byte) []byte {
	for back := 1; back < utf8.UTFMax && back <= len(p); back++ {
		if c := p[len(p)-back]; utf8.RuneStart(c) {
			if !utf8.FullRune(p[len(p)-back:]) {
				return p[:len(p)-back]
			}
			break
		}
	}
	return p
}
