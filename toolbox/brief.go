package toolbox

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/internal/visible"
)

// A brief reply is one block of text: what a model needs, and nothing that it
// sent or that only programs read. The receipt is in _meta.

const (
	maxBriefDiff    = 1000 // bytes of a diff in a success
	maxBriefRefusal = 500  // bytes of a refusal
	maxExcerpts     = 1500 // bytes of what a refusal shows besides
	briefVersion    = "2"  // schema_version of a brief refusal
)

// An object is a JSON object in the making, with the members in their order.
type object struct {
	bytes.Buffer
	encoding string // of []byte
}

func (o *object) add(name string, value any) {
	o.raw(name, plain(value))
}

func (o *object) raw(name string, value []byte) {
	sep := byte(',')
	if o.Len() == 0 {
		sep = '{'
	}
	o.WriteByte(sep)
	o.Write(plain(name))
	o.WriteByte(':')
	o.Write(value)
}

func (o *object) end() json.RawMessage {
	if o.Len() == 0 {
		o.WriteByte('{')
	}
	o.WriteByte('}')
	return o.Bytes()
}

// plain is JSON as a model reads it: <, > and & stay what they are.
func plain(v any) []byte {
	text, err := schema.Plain(v)
	if err != nil {
		return []byte("null")
	}
	return text
}

// briefSuccess is the brief reply of a tool.
func (b *Toolbox) briefSuccess(tool string, v any, one *onCall) json.RawMessage {
	o := object{encoding: one.encoding}
	o.add("ok", true)
	if r := receiptOf(v); r != nil && r.DryRun {
		o.add("dry_run", true)
	}
	switch v := v.(type) {
	case readReply:
		b.showPage(&o, v)
		return o.end()
	case description:
		b.showStore(&o, v.DescribeResult)
		return o.end()
	case handoffFound:
		if v.HandoffPath == "" {
			o.add("exists", false)
			return o.end()
		}
	case historyReply:
		if v.Diff != "" || v.Omitted != "" {
			b.pick(&o, reflect.ValueOf(v), []string{"path", "omitted"})
			o.add("diff", v.Diff)
			return o.end()
		}
	}
	names := "*"
	if l := listing[tool]; l != nil {
		names = l.reply
	}
	b.pick(&o, reflect.ValueOf(v), strings.Fields(names))
	return o.end()
}

// noise are fields that only programs read.
var noise = []string{"receipt", "journal_id", "wrote_at", "mode_applied", "scratch_path", "chunk_path", "chunk_dir", "checkpoint_path"}

// pick adds fields of a reply. An empty field is left out, unless its name ends
// with "!"; "results.path" is a field of the objects in results; "*" stands for
// all but noise, where an empty number or truth value says something.
func (b *Toolbox) pick(o *object, v reflect.Value, names []string) {
	o.encoding = cmp.Or(o.encoding, schema.FormOf(v))
	for name, f := range schema.Members(v) {
		if names[0] == "*" && !slices.Contains(noise, name) {
			b.put(o, name, f, f.Kind() != reflect.Pointer && !canBeEmpty(f))
		}
	}
	for i, name := range names {
		bare, keep := strings.CutSuffix(name, "!")
		list, _, nested := strings.Cut(bare, ".")
		switch field, ok := fieldOf(v, list); {
		case !ok:
		case nested:
			if before := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, list+".") }); before == i {
				b.pickEach(o, list, field, names)
			}
		default:
			b.put(o, bare, field, keep)
		}
	}
}

// pickEach adds a list of objects.
func (b *Toolbox) pickEach(o *object, list string, v reflect.Value, names []string) {
	var inner []string
	for _, name := range names {
		if rest, ok := strings.CutPrefix(name, list+"."); ok {
			inner = append(inner, rest)
		}
	}
	if v.Len() == 0 {
		return
	}
	all := make([]json.RawMessage, v.Len())
	for i := range all {
		var one object
		b.pick(&one, v.Index(i), inner)
		all[i] = one.end()
	}
	o.add(list, all)
}

// put adds a field.
func (b *Toolbox) put(o *object, name string, v reflect.Value, keep bool) {
	if v.Type() == reflect.TypeFor[schema.Encoding]() {
		v = reflect.ValueOf(o.encoding)
	}
	switch value := v.Interface().(type) {
	case rw.Status:
		keep = value != rw.StatusSucceeded
		if !keep {
			return
		}
	case []rw.Warning:
		if len(value) > 0 {
			o.add(name, b.set.warnings(value))
		}
		return
	case []byte:
		if o.encoding == "base64" {
			v = reflect.ValueOf(base64.StdEncoding.EncodeToString(value))
		} else {
			v = reflect.ValueOf(string(value))
		}
	case string:
		if value == "utf-8" { // the usual encoding
			return
		}
		if name == "diff" || name == "others_diff" {
			v = reflect.ValueOf(cutLines(value, maxBriefDiff))
		}
	}
	if keep || !schema.IsEmpty(v) {
		o.add(name, v.Interface())
	}
}

// canBeEmpty reports whether a value is a text, a list or a map, which says nothing
// when it is empty.
func canBeEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String, reflect.Slice, reflect.Map, reflect.Array:
		return true
	}
	return v.Type().Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// fieldOf is the field of a struct that has the name in JSON.
func fieldOf(v reflect.Value, name string) (reflect.Value, bool) {
	for has, f := range schema.Members(v) {
		if has == name {
			return f, true
		}
	}
	return reflect.Value{}, false
}

// cutLines is the beginning of a text that ends with a line.
func cutLines(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const mark = "… cut off\n"
	text = visible.Prefix(text, limit-len(mark))
	return text[:strings.LastIndexByte(text, '\n')+1] + mark
}

// facts are the members of the context of a refusal that are needed to repair
// the call, those first that are needed most. The hash of the file has two
// names.
var facts = []string{
	"draft_ref", "unknown_tool", "actual_prev_sha256", "existing_sha256", "did_you_mean", "op_index", "edit", "expect_index", "next_index",
	"have", "total_expected", "missing_fields", "cycle", "field", "max_bytes", "max_ops", "part", "line", "column", "col", "rule", "policy_line",
	"owner", "choices", "format", "same_as",
}

// excerpts show something of the workspace, or of an earlier refusal.
var excerpts = []string{"questions", "missing", "unexpected", "closest", "diff", "your_diff", "conflict_lines", "output", "errors", "problems", "drift_warnings", "last_error", "also_refused"}

// briefRefusal is the envelope of an error, version 2: the members of version
// 1, and of the context only what repairs the call.
func (b *Toolbox) briefRefusal(e *rw.Error) json.RawMessage {
	patterns := e.Patterns
	if patterns == nil {
		patterns = []string{}
	}
	var o, about object
	o.add("ok", false)
	o.add("schema_version", briefVersion)
	o.add("error", e.Kind)
	o.add("reason_hint", e.Reason)
	o.add("detected_patterns", patterns)
	o.add("suggested_action", e.Action)
	o.add("retry_budget", e.RetryBudget)
	about.add("reason", e.Detail)
	about.add("hint", b.set.hint(e))
	if e.Effect != rw.EffectNone && e.Effect != "" {
		about.add("effect", e.Effect)
	}
	room := maxBriefRefusal - o.Len() - about.Len() - len(`,"context":}}`)
	if _, ok := e.Context["op_index"]; ok && e.Path != "" {
		about.add("path", e.Path)
	}
	hashed := false
	for _, name := range facts {
		value, ok := e.Context[name]
		if hash := strings.HasSuffix(name, "_sha256"); !ok || value == nil || value == "" || hash && hashed {
			continue
		} else if hash {
			hashed = true
		}
		if text := plain(value); len(text)+len(name)+4 <= room {
			room -= len(text) + len(name) + 4
			about.raw(name, text)
		}
	}
	if text := b.nextOf(e); len(text) > 0 && len(text)+len(`,"next_action":`) <= room {
		about.raw("next_action", text)
	}
	room = maxExcerpts
	for _, name := range excerpts {
		value, ok := e.Context[name]
		if !ok || room < 100 {
			continue
		}
		text := excerpt(b.set.worded(value), room-len(name)-4)
		room -= len(text) + len(name) + 4
		about.raw(name, text)
	}
	o.raw("context", about.end())
	return o.end()
}

// nextOf is the one next step of a refusal, without the arguments that the call
// had already.
func (b *Toolbox) nextOf(e *rw.Error) json.RawMessage {
	var o object
	if args := corrected(e); args != nil && e.Action == rw.ActionFixCall {
		if of, ok := b.set.find(wireName(e.Op, false)); ok {
			o.add("tool", of.wire)
			o.add("args", args)
			return o.end()
		}
	}
	f := remedy[e.Detail]
	if f == nil {
		return nil
	}
	steps := b.set.named(f(e))
	if len(steps) == 0 {
		return nil
	}
	for _, name := range []string{"path", "session", "draft_ref"} { // the call had them, or context does
		delete(steps[0].Args, name)
	}
	o.add("tool", steps[0].Tool)
	if len(steps[0].Args) > 0 {
		o.add("args", steps[0].Args)
	}
	return o.end()
}

// excerpt is JSON of at most so many bytes: a text is cut, of a list the first
// items stay, and what is neither becomes a text.
func excerpt(v any, limit int) []byte {
	doc := plain(v)
	if len(doc) <= limit {
		return doc
	}
	var list []json.RawMessage
	if json.Unmarshal(doc, &list) == nil && len(list) > 0 {
		n, size := 0, len("[]")
		for n < len(list) && size+len(list[n])+1 <= limit {
			size, n = size+len(list[n])+1, n+1
		}
		if n > 0 {
			return plain(list[:n])
		}
		doc = list[0]
	}
	var text string
	if json.Unmarshal(doc, &text) != nil {
		text = string(doc)
	}
	return plain(text[:jsonPrefix(text, limit-len(`"…"`))] + "…")
}

// EnvelopeSchema is the JSON Schema of the envelope of a refusal with its
// closed enums: that of full replies, version 1, of which
// spec/errors.schema.json is made.
func EnvelopeSchema() (json.RawMessage, error) {
	return envelopeSchema(rw.EnvelopeVersion, EnvelopeActions(), "reason", "code")
}

// BriefEnvelopeSchema is the same for brief replies, version 2. It has two
// actions more, and of the context only what repairs the call.
func BriefEnvelopeSchema() (json.RawMessage, error) {
	return envelopeSchema(briefVersion, rw.Actions(), "reason", "hint")
}

// EnvelopeActions lists the actions of version 1.
func EnvelopeActions() []rw.Action {
	return slices.DeleteFunc(rw.Actions(), func(a rw.Action) bool { return a == rw.ActionFixCall || a == rw.ActionReadAgain })
}

func envelopeSchema(version string, suggested []rw.Action, required ...string) (json.RawMessage, error) {
	text := schema.Object{{Key: "type", Value: "string"}}
	enum := func(list any) schema.Object {
		return append(append(schema.Object{}, text...), schema.Member{Key: "enum", Value: list})
	}
	count := func(limits ...schema.Member) schema.Object {
		return append(schema.Object{{Key: "type", Value: "integer"}, {Key: "minimum", Value: 0}}, limits...)
	}
	context := schema.Object{{Key: "type", Value: "object"}, {Key: "properties", Value: schema.Object{
		{Key: "reason", Value: enum(rw.Details())},
		{Key: "effect", Value: enum(rw.Effects())},
		{Key: "code", Value: count(schema.Member{Key: "maximum", Value: rw.CodePolicy})},
		{Key: "hint", Value: text}, {Key: "op", Value: text}, {Key: "path", Value: text}, {Key: "stage", Value: text},
		{Key: "tool", Value: text}, {Key: "invocation_id", Value: text},
	}}, {Key: "required", Value: required}, {Key: "additionalProperties", Value: true}}
	return schema.Encode(schema.Object{
		{Key: "$schema", Value: "http://json-schema.org/draft-07/schema#"},
		{Key: "title", Value: "resilientwrite error envelope"},
		{Key: "type", Value: "object"},
		{Key: "properties", Value: schema.Object{
			{Key: "ok", Value: schema.Object{{Key: "const", Value: false}}},
			{Key: "schema_version", Value: schema.Object{{Key: "const", Value: version}}},
			{Key: "error", Value: enum(rw.Kinds())},
			{Key: "reason_hint", Value: enum(rw.Reasons())},
			{Key: "detected_patterns", Value: schema.Object{{Key: "type", Value: "array"}, {Key: "items", Value: text}}},
			{Key: "suggested_action", Value: enum(suggested)},
			{Key: "retry_budget", Value: count()},
			{Key: "context", Value: context},
		}},
		{Key: "required", Value: schema.EnvelopeFields()},
		{Key: "additionalProperties", Value: false},
	})
}
