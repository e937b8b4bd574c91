// Package schema derives JSON Schemas from Go structs and decodes arguments
// against the same structs, so that the schema and the check cannot
// differ.
//
// The schemas stay in the subset that draft-07 and 2020-12 have in common:
// type, properties, required, enum, const, default, minimum, maximum,
// maxLength, items, anyOf, description, additionalProperties. Every object is
// closed, unless its struct keeps what is unknown, and every array says what it
// holds. A json.RawMessage is any JSON value, null included, kept to the letter.
// A field is described by its doc comment, or by the tag desc where it has one. Its
// other tags are json, required:"true", enum:"a,b", default, min, max, maxlen,
// requiredif:"op=write" for one that is required when another one has that value,
// types:"boolean,string" for a type that reads JSON itself, and extra:"true" for the
// field that keeps what is unknown, values:"integer" for a struct that the schema
// shows as a map. The fields of an embedded struct are those of the struct around
// it, without those that the tag omit of the embedded field names; json:",inline"
// keeps their place, they are last otherwise. An embedded
// struct that has a name in JSON is one field, and the fields that its tag copies
// names are fields of the struct around it as well; a field with the tag copy has
// that name there and is nowhere else, and copied:"3" says that a copy has only the
// first three values of the enum. A []byte is a string, see [Encoding], and so is a
// type that reads itself from text.
package schema

import (
	"cmp"
	_ "embed"
	"encoding"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/resilientwrite/resilientwrite/internal/edit"
	"github.com/resilientwrite/resilientwrite/internal/jsontext"
)

// Object is a JSON object that keeps the order of its keys.
type Object []Member

// Member is one key of an Object.
type Member struct {
	Key   string
	Value any
}

// MarshalJSON writes the members in their order.
func (o Object) MarshalJSON() ([]byte, error) { return Encode(o) }

// field is one argument or reply field.
type field struct {
	name     string
	index    []int // as reflect.Value.FieldByIndex takes it
	typ      reflect.Type
	required bool // of arguments: by tag; of replies: not omitted when empty
	nullable bool // a pointer that is not omitted when it is nil
	omit     bool // when it is empty
	enum     []string
	fallback string
	desc     string
	min, max *float64
	maxLen   int
	types    []string // of a type that reads JSON itself
	values   string   // JSON type of the members of a struct that is described as a map
	needed   string   // "name=value": required when that field has that value
}

// takesAll reports whether every JSON value, null included, is a value of the
// field.
func (f field) takesAll() bool { return base(f.typ) == anyJSON && len(f.types) == 0 }

// A fieldSet is the fields of a struct in their order, also by their names.
type fieldSet struct {
	list []field
	at   map[string]int
}

// named returns the field with a name, or nil if there is none.
func (s *fieldSet) named(name string) *field {
	if i, ok := s.at[name]; ok {
		return &s.list[i]
	}
	return nil
}

func (s *fieldSet) names() []string {
	list := make([]string, len(s.list))
	for i, f := range s.list {
		list[i] = f.name
	}
	return list
}

// fieldSets caches the fields of each struct: an array of objects needs the fields of
// its items repeatedly.
var fieldSets sync.Map // reflect.Type to *fieldSet

// fields are the fields of a struct. The set is shared and never changed.
func fields(t reflect.Type) *fieldSet {
	if set, ok := fieldSets.Load(t); ok {
		return set.(*fieldSet)
	}
	set := &fieldSet{list: readFields(t), at: map[string]int{}}
	for i, f := range set.list {
		if _, taken := set.at[f.name]; !taken {
			set.at[f.name] = i
		}
	}
	kept, _ := fieldSets.LoadOrStore(t, set)
	return kept.(*fieldSet)
}

// readFields lists the fields of a struct in their order, those of embedded
// structs last unless they are inline.
func readFields(t reflect.Type) []field {
	var list, last []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		embedded := f.Type
		if embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		if f.Anonymous && embedded.Kind() == reflect.Struct && name == "" {
			into := &last
			if opts == "inline" {
				into = &list
			}
			omit := strings.Split(f.Tag.Get("omit"), ",")
			for _, inner := range readFields(embedded) { // an outer field hides an embedded one of the same name
				if !hides(t, inner.name) && !slices.Contains(omit, inner.name) {
					inner.index = append([]int{i}, inner.index...)
					*into = append(*into, inner)
				}
			}
			continue
		}
		if f.Type == encodingType {
			name, opts, _ = strings.Cut(f.Tag.Get("wire"), ",")
		}
		if name == "" || name == "-" {
			continue
		}
		out := newField(t, f, name, opts)
		out.index = []int{i}
		if f.Anonymous {
			out.desc = cmp.Or(out.desc, "The full record of the call.")
			if f.Tag.Get("copies") != "" {
				list = append(list, copies(i, f)...)
			}
			last = append(last, out)
			continue
		}
		list = append(list, out)
	}
	return append(list, last...)
}

// newField returns the field f of the struct t, without its index.
func newField(t reflect.Type, f reflect.StructField, name, opts string) field {
	out := field{
		name: name, typ: f.Type, desc: description(t, f), fallback: f.Tag.Get("default"),
		required: f.Tag.Get("required") == "true", min: number(f.Tag.Get("min")), max: number(f.Tag.Get("max")),
	}
	out.needed, out.values = f.Tag.Get("requiredif"), f.Tag.Get("values")
	out.maxLen, _ = strconv.Atoi(f.Tag.Get("maxlen"))
	if enum := f.Tag.Get("enum"); enum != "" {
		out.enum = Words(enum)
	}
	if types := f.Tag.Get("types"); types != "" {
		out.types = strings.Split(types, ",")
	}
	out.omit = strings.Contains(opts, "omit")
	if !out.omit && f.Tag.Get("required") == "" {
		out.required = true
		out.nullable = f.Type.Kind() == reflect.Pointer
	}
	return out
}

// copies lists the fields of the embedded struct f, with the index i, that the struct
// around it has too. A copy is left out when it is empty only if it is omitempty.
func copies(i int, f reflect.StructField) (list []field) {
	names := strings.Split(f.Tag.Get("copies"), ",")
	list = make([]field, len(names))
	for j := range f.Type.NumField() {
		inner := f.Type.Field(j)
		name, opts, _ := strings.Cut(cmp.Or(inner.Tag.Get("copy"), inner.Tag.Get("json")), ",")
		at := slices.Index(names, name)
		if at < 0 || name == "" {
			continue
		}
		list[at] = newField(f.Type, inner, name, strings.ReplaceAll(opts, "omitzero", ""))
		list[at].index = []int{i, j}
		if n, err := strconv.Atoi(inner.Tag.Get("copied")); err == nil {
			list[at].enum = list[at].enum[:n]
		}
	}
	return list
}

// Members passes the names and values of the fields that a struct has on the wire.
func Members(v reflect.Value) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		for _, f := range fields(v.Type()).list {
			if !yield(f.name, v.FieldByIndex(f.index)) {
				return
			}
		}
	}
}

// modes are the operations that rows of the journal name.
var modes = strings.Fields("create overwrite append edit delete move restore undo compose chunk manifest scratch scratch_index " +
	"checkpoint handoff handoff_archive handoff_read tx_begin tx_stage tx_commit tx_rollback")

// Words are the values that an enum tag lists. In it @charsets means the
// encodings, other than UTF-8, in which files are edited, and @modes for the
// operations of rows.
func Words(tag string) (list []string) {
	for word := range strings.SplitSeq(tag, ",") {
		switch word {
		case "@charsets":
			list = append(list, edit.Encodings()[1:]...)
		case "@modes":
			list = append(list, modes...)
		default:
			list = append(list, word)
		}
	}
	return list
}

// hides reports whether a struct has a field of its own with the name in JSON.
func hides(t reflect.Type, name string) bool {
	for i := range t.NumField() {
		if tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); tag == name {
			return true
		}
	}
	return false
}

func number(s string) *float64 {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil
	}
	return &n
}

// Input is the schema of the arguments that decode into t.
func Input(t reflect.Type) json.RawMessage {
	return marshal(object(t))
}

// Output is the schema of a tool's reply: the fields of t with ok true, or the
// error envelope with ok false. more are optional fields that the reply may
// have besides.
func Output(t reflect.Type, more ...Member) json.RawMessage {
	props := Object{{"ok", Object{{"type", "boolean"}, {"description", "True on success, false when the other fields are an error envelope."}}}}
	own, need := properties(t)
	props, need = append(append(props, own...), more...), append([]string{"ok"}, need...)
	for _, m := range envelope {
		if !slices.ContainsFunc(props, func(p Member) bool { return p.Key == m.Key }) {
			props = append(props, m)
		}
	}
	return marshal(Object{
		{"type", "object"},
		{"properties", props},
		{"required", []string{"ok"}},
		{"additionalProperties", false},
		{"anyOf", []Object{
			{{"properties", Object{{"ok", Object{{"const", true}}}}}, {"required", need}},
			{{"properties", Object{{"ok", Object{{"const", false}}}}}, {"required", EnvelopeFields()}},
		}},
	})
}

// Field is the schema of a field that no struct has, for [Output].
func Field[T any](name, desc string) Member {
	return Member{name, append(typeOf(reflect.TypeFor[T]()), Member{"description", desc})}
}

// envelope describes the error envelope as every reply schema admits it.
var envelope = Object{
	{"schema_version", Object{{"type", "string"}, {"description", "Errors only: version of the envelope."}}},
	{"error", Object{{"type", "string"}, {"description", "Errors only: the class of the failure."}}},
	{"reason_hint", Object{{"type", "string"}, {"description", "Errors only: what about the request made it fail."}}},
	{"detected_patterns", Object{{"type", "array"}, {"items", Object{{"type", "string"}}}, {"description", "Errors only: what the content gate found."}}},
	{"suggested_action", Object{{"type", "string"}, {"description", "Errors only: what to do next."}}},
	{"retry_budget", Object{{"type", "integer"}, {"description", "Errors only: identical attempts that are left."}}},
	{"context", Object{{"type", "object"}, {"additionalProperties", true}, {"description", "Errors only: details of the failure."}}},
}

// EnvelopeFields are the fields that every error envelope has.
func EnvelopeFields() []string {
	list := []string{"ok"}
	for _, m := range envelope {
		list = append(list, m.Key)
	}
	return list
}

func marshal(v any) json.RawMessage {
	b, err := Encode(v)
	if err != nil {
		panic(fmt.Sprintf("schema: %v", err)) // the types are ours
	}
	return b
}

// properties are the schemas of the fields of a struct, and the names of those
// that are required.
func properties(t reflect.Type) (props Object, need []string) {
	props = Object{}
	for _, f := range fields(t).list {
		props = append(props, Member{f.name, property(f)})
		if f.required {
			need = append(need, f.name)
		}
	}
	return props, need
}

// objectOf is the schema of an object.
func objectOf(props Object, need []string) Object {
	out := Object{{"type", "object"}, {"properties", props}}
	if len(need) > 0 {
		out = append(out, Member{"required", need})
	}
	return out
}

func object(t reflect.Type) Object {
	return append(objectOf(properties(t)), Member{"additionalProperties", extraField(t) >= 0})
}

func property(f field) Object {
	out := f.schema()
	if f.values != "" {
		out = Object{{"type", "object"}, {"additionalProperties", Object{{"type", f.values}}}}
	}
	if f.nullable {
		out = orNull(out)
	}
	if len(f.enum) > 0 {
		out = append(out, Member{"enum", enumOf(f)})
	}
	if f.fallback != "" {
		out = append(out, Member{"default", fallback(f)})
	}
	if f.min != nil {
		out = append(out, Member{"minimum", *f.min})
	}
	if f.max != nil {
		out = append(out, Member{"maximum", *f.max})
	}
	if f.maxLen > 0 {
		out = append(out, Member{"maxLength", f.maxLen})
	}
	if f.desc != "" {
		out = append(out, Member{"description", f.desc})
	}
	return out
}

// orNull is a schema that admits null as well.
func orNull(o Object) Object {
	if o[0].Key == "type" {
		o[0].Value = []any{o[0].Value, "null"}
		return o
	}
	null, list := Object{{"type", "null"}}, o[0].Value.([]Object)
	if !slices.ContainsFunc(list, func(one Object) bool { return reflect.DeepEqual(one, null) }) {
		o[0].Value = append(append([]Object{}, list...), null)
	}
	return o
}

// enumOf are the choices of a field.
func enumOf(f field) any {
	if !f.nullable {
		return f.enum
	}
	var list []any
	for _, word := range f.enum {
		list = append(list, word)
	}
	return append(list, nil)
}

// fallback is the default in the type of the field.
func fallback(f field) any {
	switch t := base(f.typ); {
	case t == anyJSON:
		return json.RawMessage(f.fallback)
	case t == encodingType || isText(t):
		return f.fallback
	}
	switch base(f.typ).Kind() {
	case reflect.String:
		return f.fallback
	case reflect.Bool:
		return f.fallback == "true"
	}
	return *number(f.fallback)
}

func base(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// anyJSON is the type that holds any JSON value.
var anyJSON = reflect.TypeFor[json.RawMessage]()

// anything lists the JSON types one by one: some clients do not accept an empty schema.
var anything = Object{{"anyOf", []Object{
	{{"type", "string"}}, {{"type", "number"}}, {{"type", "boolean"}}, {{"type", "null"}},
	{{"type", "object"}, {"additionalProperties", true}}, {{"type", "array"}, {"items", Object{}}},
}}}

// isText reports whether a type reads itself from text.
func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func typeOf(t reflect.Type) Object {
	switch t = base(t); {
	case t == anyJSON:
		return append(Object{}, anything...)
	case t == bytesType || t == encodingType || isText(t):
		return Object{{"type", "string"}}
	}
	switch t.Kind() {
	case reflect.String:
		return Object{{"type", "string"}}
	case reflect.Bool:
		return Object{{"type", "boolean"}}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return Object{{"type", "integer"}}
	case reflect.Float32, reflect.Float64:
		return Object{{"type", "number"}}
	case reflect.Slice:
		return Object{{"type", "array"}, {"items", typeOf(t.Elem())}}
	case reflect.Map:
		return Object{{"type", "object"}, {"additionalProperties", typeOf(t.Elem())}}
	case reflect.Struct:
		return object(t)
	}
	return append(Object{}, anything...)
}

// A struct with a field tagged extra:"true" is open: the field keeps the members of an
// object that have no other field, in their order. It has json:"-" and is a slice of
// structs of a string and a json.RawMessage, a name and its value.

// extraField returns the index of the field that keeps unknown members, or -1 if the
// struct is closed.
func extraField(t reflect.Type) int {
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("extra") == "true" {
			return i
		}
	}
	return -1
}

// keepExtra adds a member without a field.
func keepExtra(into reflect.Value, m jsontext.Member) {
	one := reflect.New(into.Type().Elem()).Elem()
	one.Field(0).SetString(m.Name)
	one.Field(1).SetBytes(m.Value)
	into.Set(reflect.Append(into, one))
}

// schema is the schema of the type of a field, which may take several JSON
// types.
func (f *field) schema() Object {
	if len(f.types) == 0 {
		return typeOf(f.typ)
	}
	var list []Object
	for _, t := range f.types {
		list = append(list, Object{{"type", t}})
	}
	return Object{{"anyOf", list}}
}

// decodeChoice reads an argument of a type that reads JSON itself, when it is
// of one of the JSON types that the field takes.
func decodeChoice(f *field, raw json.RawMessage, into reflect.Value) error {
	takes := slices.Contains(f.types, jsonType(raw))
	if takes && LoneSurrogate(raw) >= 0 {
		return &Problem{Argument: f.name, Code: UTF8}
	}
	if !takes || json.Unmarshal(raw, into.Addr().Interface()) != nil {
		return wrongType(f, strings.Join(f.types, " or "), raw)
	}
	return nil
}

func jsonType(raw json.RawMessage) string {
	switch raw[0] {
	case '"':
		return "string"
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "boolean"
	}
	return "number"
}

// descriptions.txt holds the doc comments of the fields of arguments and
// replies, which a program cannot read at run time. The command internal/gen
// writes it from the Go source: a line for each field, its name and its text.
//
//go:embed descriptions.txt
var descriptionsText string

const module = "github.com/resilientwrite/resilientwrite"

// descriptions maps "Type.Field", of another package than the root
// "dir.Type.Field", to the doc comment of the field.
var descriptions = sync.OnceValue(func() map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(descriptionsText) {
		if name, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
			m[name] = text
		}
	}
	return m
})

// description returns the description of a field: its tag desc, or else its doc
// comment.
func description(t reflect.Type, f reflect.StructField) string {
	if text := f.Tag.Get("desc"); text != "" {
		return text
	}
	name := t.Name() + "." + f.Name
	if dir, ok := strings.CutPrefix(t.PkgPath(), module+"/"); ok {
		name = dir + "." + name
	}
	return descriptions()[name]
}
