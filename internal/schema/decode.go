package schema

import (
	"bytes"
	"cmp"
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/jsontext"
	"github.com/resilientwrite/resilientwrite/internal/visible"
)

// The ways in which arguments can be wrong.
const (
	Unknown   = "unknown"   // no such argument
	Missing   = "missing"   // a required argument is not there
	Type      = "type"      // another JSON type
	Enum      = "enum"      // not one of the choices
	Range     = "range"     // too small, too large, too long
	UTF8      = "utf8"      // not valid Unicode
	Syntax    = "syntax"    // not a JSON object
	Duplicate = "duplicate" // given twice
	TooMany   = "too_many"  // more members or items than one value may have
	TooLarge  = "too_large" // nested too deeply, or too long as indented text
)

// What one call may hold. A json.RawMessage and what content holds as an
// object are opaque: their members are not counted.
const (
	MaxMembers = 4096     // of one object
	MaxItems   = 65536    // of one array
	MaxDepth   = 200      // of content that is an object or an array
	MaxIndent  = 64 << 20 // bytes of such content as text
)

// How many names an error lists: unknown ones, and those that there are.
const (
	shownUnknown = 3
	shownKnown   = 8
)

// Problem describes what is wrong with one argument. It never contains its value.
type Problem struct {
	Argument   string
	Code       string
	Want       string
	Got        string // of a wrong type
	DidYouMean string
	Others     []string // further unknown names, the first few
	More       int      // unknown names that are not listed
}

func (p *Problem) Error() string {
	name := p.Argument
	switch p.Code {
	case Unknown:
		return p.unknown()
	case Missing:
		return fmt.Sprintf("%s is required", name)
	case Duplicate:
		return fmt.Sprintf("%s is given twice", name)
	case UTF8:
		return fmt.Sprintf("invalid UTF-8 or half of a surrogate pair in %s; correct it", name)
	case Syntax:
		return "the arguments are not one JSON object"
	case TooMany, TooLarge:
		name = cmp.Or(name, "the arguments")
		return fmt.Sprintf("%s must have %s", name, p.Want)
	}
	s := fmt.Sprintf("%s must be %s", name, p.Want)
	if p.Got != "" {
		s += ", got " + p.Got
	}
	if p.DidYouMean != "" {
		s += ", did you mean " + p.DidYouMean
	}
	return s
}

// unknown lists names that no argument has.
func (p *Problem) unknown() string {
	s := "unknown argument " + p.Argument
	if p.DidYouMean != "" {
		s += ", did you mean " + p.DidYouMean
	}
	for _, name := range p.Others {
		s += "; unknown argument " + name
	}
	if p.More > 0 {
		s += fmt.Sprintf("; and %d more", p.More)
	}
	if p.Want != "" {
		s += "; take " + p.Want
	}
	return s
}

// ContentWasObject is the note that a JSON value was taken for text.
const ContentWasObject = "content_was_object"

// Decode reads one JSON object of arguments into the struct that into points to. It is
// strict: no unknown names but "description", no wrong types, no value outside its enum
// or range, no half of a surrogate pair, no more than [MaxMembers] members and
// [MaxItems] items. null means that an argument is not given, except for a
// json.RawMessage, which takes any value including null, as the bytes that were sent.
//
// A content argument that is a JSON object or array is taken as indented JSON
// text when the path argument ends in .json; the notes say so. Where an object or an
// array is expected, a string that holds one as JSON text is read as [Unquoted] does.
//
// The time is linear in the length of args. When ctx is done, Decode returns its error.
func Decode(ctx context.Context, args []byte, into any) (Wire, error) {
	v := reflect.ValueOf(into).Elem()
	d := decoder{ctx: ctx}
	if err := d.object(args, v); err != nil {
		return Wire{}, err
	}
	return d.wire, nil
}

// Wire is what [Decode] read that the struct does not hold.
type Wire struct {
	Notes     []string // arguments that were converted to another type
	Encoding  string   // that the arguments name, see [Encoding]
	Malformed []string // arguments that are not what their type takes: base64, which stays as sent, or a text
}

// A decoder reads the arguments of one call.
type decoder struct {
	ctx   context.Context
	wire  Wire
	in    string // the name of the object that is read, with a dot
	steps int    // members and items so far
}

// step counts a member or an item, and checks the context at intervals.
func (d *decoder) step() error {
	if d.steps++; d.steps%256 == 1 {
		return d.ctx.Err()
	}
	return nil
}

// object reads the members of one JSON object.
func (d *decoder) object(args []byte, v reflect.Value) error {
	known := fields(v.Type())
	raw, err := d.split(args)
	if err != nil {
		return err
	}
	for i, m := range raw.list {
		f := known.named(m.Name)
		if f == nil {
			if i := extraField(v.Type()); i >= 0 {
				keepExtra(v.Field(i), m)
				continue
			}
			if m.Name == "description" {
				continue
			}
			return unknown(known, raw, raw.list[i:], v.Type())
		}
		if err := d.member(f, raw, v); err != nil {
			return err
		}
	}
	for i := range known.list {
		f := &known.list[i]
		must := f.required && hasTag(v.Type(), f)
		if name, value, when := strings.Cut(f.needed, "="); when && raw.text(name) == value {
			must = true
		}
		if must && !isGiven(f, raw.value(f.name)) {
			return &Problem{Argument: f.name, Code: Missing}
		}
	}
	return nil
}

// member reads the member of the field f.
func (d *decoder) member(f *field, raw *members, v reflect.Value) error {
	value := raw.value(f.name)
	switch {
	case f.typ == bytesType:
		return d.bytes(f, raw, v)
	case f.typ == encodingType:
		if isNull(value) {
			return nil
		}
		var word string
		err := decodeString(f, value, reflect.ValueOf(&word).Elem())
		if d.in == "" {
			d.wire.Encoding = word
		}
		return err
	case f.name == encodingName && raw.text(f.name) == base64Form && raw.givesBytes(v.Type()):
		return nil
	}
	return d.value(f, value, v.FieldByIndex(f.index))
}

// unknown returns the problem of members, the first of which has no field. If no
// name is similar, the only required argument that is not given is meant, or any of
// those that there are.
func unknown(known *fieldSet, raw *members, rest []jsontext.Member, t reflect.Type) *Problem {
	p := &Problem{Argument: clip(rest[0].Name), Code: Unknown, DidYouMean: Closest(rest[0].Name, known.names())}
	if p.DidYouMean == "" {
		missing := slices.DeleteFunc(known.names(), func(name string) bool {
			f := known.named(name)
			return !f.required || !hasTag(t, f) || isGiven(f, raw.value(name))
		})
		if len(missing) == 1 {
			p.DidYouMean = missing[0]
		} else {
			p.Want = strings.Join(known.names()[:min(shownKnown, len(known.list))], ", ")
		}
	}
	for _, m := range rest[1:] {
		switch {
		case known.named(m.Name) != nil || m.Name == "description":
		case len(p.Others) < shownUnknown-1:
			p.Others = append(p.Others, clip(m.Name))
		default:
			p.More++
		}
	}
	return p
}

// hasTag reports whether the argument itself is marked as required.
func hasTag(t reflect.Type, f *field) bool {
	return t.FieldByIndex(f.index).Tag.Get("required") == "true"
}

// members is a JSON object in which members are found by their names.
type members struct {
	list []jsontext.Member
	at   map[string]int
}

// split splits a JSON object into its members, in order.
func (d *decoder) split(args []byte) (*members, error) {
	args = bytes.TrimSpace(args)
	out := &members{at: map[string]int{}}
	if len(args) == 0 || bytes.Equal(args, []byte("null")) {
		return out, nil
	}
	if !utf8.Valid(args) {
		return nil, &Problem{Argument: "arguments", Code: UTF8}
	}
	for m, err := range jsontext.Each(args) {
		if err != nil {
			return nil, &Problem{Code: Syntax}
		}
		if err := d.step(); err != nil {
			return nil, err
		}
		if _, again := out.at[m.Name]; again {
			return nil, &Problem{Argument: clip(m.Name), Code: Duplicate}
		}
		if len(out.list) == MaxMembers {
			return nil, &Problem{Code: TooMany, Want: fmt.Sprintf("at most %d members; leave the others out", MaxMembers)}
		}
		out.at[m.Name] = len(out.list)
		out.list = append(out.list, m)
	}
	return out, nil
}

// value returns the value of a member, or nil if there is none of this name.
func (o *members) value(name string) json.RawMessage {
	if i, ok := o.at[name]; ok {
		return o.list[i].Value
	}
	return nil
}

// text is the value of a member that is a string, "" for any other.
func (o *members) text(name string) string {
	raw := o.value(name)
	if len(raw) == 0 || raw[0] != '"' {
		return ""
	}
	var s string
	json.Unmarshal(raw, &s)
	return s
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || bytes.Equal(raw, []byte("null")) }

// isGiven reports whether a value sets the argument f.
func isGiven(f *field, raw json.RawMessage) bool {
	if f.takesAll() {
		return len(raw) > 0
	}
	return !isNull(raw)
}

// indent writes a value as text. Every level that it is nested makes each of
// its lines longer, so both the depth and the text are bounded.
func indent(raw json.RawMessage) (string, error) {
	size, deepest, _ := measure(raw)
	if deepest > MaxDepth {
		return "", &Problem{Argument: "content", Code: TooLarge, Want: fmt.Sprintf("at most %d levels as an object; send it as a string", MaxDepth)}
	}
	if size > MaxIndent {
		return "", &Problem{Argument: "content", Code: TooLarge, Want: fmt.Sprintf("at most %d bytes of indented text as an object; send it as a string", MaxIndent)}
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return "", &Problem{Argument: "content", Code: Syntax}
	}
	b.WriteByte('\n')
	return b.String(), nil
}

// measure is at least the size that a value has when it is indented, how deep
// it is nested, and how many items it has if it is an array.
func measure(raw []byte) (size, deepest, items int) {
	depth, inString := 0, false
	items = 1
	for i := 0; i < len(raw); i++ {
		size++
		switch c := raw[i]; {
		case inString && c == '\\':
			i, size = i+1, size+1
		case c == '"':
			inString = !inString
		case inString:
		case c == '{', c == '[':
			depth++
			deepest = max(deepest, depth)
			size += 1 + 2*depth
		case c == '}', c == ']':
			depth--
			size += 1 + 2*depth
		case c == ',':
			size += 1 + 2*depth
			if depth == 1 {
				items++
			}
		case c == ':':
			size++
		}
	}
	return size, deepest, items
}

// value reads one argument.
func (d *decoder) value(f *field, raw json.RawMessage, into reflect.Value) error {
	if !isGiven(f, raw) {
		return nil
	}
	if into.Kind() == reflect.Pointer {
		fresh := reflect.New(into.Type().Elem())
		if err := d.value(f, raw, fresh.Elem()); err != nil {
			return err
		}
		into.Set(fresh)
		return nil
	}
	if len(f.types) > 0 {
		return decodeChoice(f, raw, into)
	}
	if f.takesAll() {
		if LoneSurrogate(raw) >= 0 {
			return &Problem{Argument: f.name, Code: UTF8}
		}
		into.SetBytes(bytes.Clone(raw))
		return nil
	}
	if t, ok := into.Addr().Interface().(*time.Time); ok {
		return d.text(f, raw, (*instant)(t))
	}
	if t, ok := into.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return d.text(f, raw, t)
	}
	switch into.Kind() {
	case reflect.String:
		return decodeString(f, raw, into)
	case reflect.Bool:
		if string(raw) != "true" && string(raw) != "false" {
			return wrongType(f, "true or false", raw)
		}
		into.SetBool(string(raw) == "true")
		return nil
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return decodeInt(f, raw, into)
	case reflect.Slice:
		return d.slice(f, Unquoted(raw, '['), into)
	case reflect.Struct:
		if raw = Unquoted(raw, '{'); raw[0] != '{' {
			return wrongType(f, "an object", raw)
		}
		in := d.in
		d.in += f.name + "."
		err := d.object(raw, into)
		d.in = in
		if p, ok := err.(*Problem); ok {
			p.Argument = strings.TrimSuffix(f.name+"."+p.Argument, ".")
		}
		return err
	}
	if json.Unmarshal(raw, into.Addr().Interface()) != nil {
		return wrongType(f, "valid", raw)
	}
	return nil
}

func decodeString(f *field, raw json.RawMessage, into reflect.Value) error {
	if raw[0] != '"' {
		return wrongType(f, "a string", raw)
	}
	if LoneSurrogate(raw) >= 0 {
		return &Problem{Argument: f.name, Code: UTF8}
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return &Problem{Argument: f.name, Code: UTF8}
	}
	if len(f.enum) > 0 && !slices.Contains(f.enum, s) {
		return &Problem{Argument: f.name, Code: Enum, Want: "one of " + strings.Join(f.enum, ", "), DidYouMean: Closest(s, f.enum)}
	}
	if f.maxLen > 0 && utf8.RuneCountInString(s) > f.maxLen {
		return &Problem{Argument: f.name, Code: Range, Want: fmt.Sprintf("at most %d characters long", f.maxLen)}
	}
	into.SetString(s)
	return nil
}

// text reads a value that reads itself from text.
func (d *decoder) text(f *field, raw json.RawMessage, into encoding.TextUnmarshaler) error {
	var text string
	if err := decodeString(f, raw, reflect.ValueOf(&text).Elem()); err != nil {
		return err
	}
	if into.UnmarshalText([]byte(text)) != nil {
		d.wire.Malformed = append(d.wire.Malformed, d.in+f.name)
	}
	return nil
}

// An instant is a time as it is read. The empty text is that of the zero time.
type instant time.Time

func (i *instant) UnmarshalText(text []byte) (err error) {
	var t time.Time
	if len(text) > 0 {
		t, err = time.Parse(time.RFC3339, string(text))
	}
	*i = instant(t)
	return err
}

// maxExact is the largest whole number every JSON implementation keeps.
const maxExact = 1 << 53

func decodeInt(f *field, raw json.RawMessage, into reflect.Value) error {
	if raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return wrongType(f, "a whole number", raw)
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil { // 3.0 and 1e3 are whole numbers as well
		x, ferr := strconv.ParseFloat(string(raw), 64)
		if ferr != nil || x != math.Trunc(x) || math.Abs(x) > maxExact {
			return &Problem{Argument: f.name, Code: Type, Want: "a whole number"}
		}
		n = int64(x)
	}
	low, high := f.min, f.max
	if into.Kind() == reflect.Uint64 && low == nil {
		low = new(float64)
	}
	if low != nil && float64(n) < *low {
		return &Problem{Argument: f.name, Code: Range, Want: fmt.Sprintf("at least %v", *low)}
	}
	if high != nil && float64(n) > *high {
		return &Problem{Argument: f.name, Code: Range, Want: fmt.Sprintf("at most %v", *high)}
	}
	if into.Kind() == reflect.Uint64 {
		into.SetUint(uint64(n))
	} else {
		into.SetInt(n)
	}
	return nil
}

func (d *decoder) slice(f *field, raw json.RawMessage, into reflect.Value) error {
	if raw[0] != '[' {
		return wrongType(f, "an array", raw)
	}
	_, _, n := measure(raw)
	if n > MaxItems {
		return &Problem{Argument: f.name, Code: TooMany, Want: fmt.Sprintf("at most %d items; make several calls of it", MaxItems)}
	}
	items := make([]json.RawMessage, 0, n)
	if json.Unmarshal(raw, &items) != nil {
		return wrongType(f, "an array", raw)
	}
	out := reflect.MakeSlice(into.Type(), len(items), len(items))
	for i, item := range items {
		if err := d.step(); err != nil {
			return err
		}
		one := field{name: fmt.Sprintf("%s[%d]", f.name, i), typ: into.Type().Elem()}
		if err := d.value(&one, item, out.Index(i)); err != nil {
			return err
		}
	}
	into.Set(out)
	return nil
}

func wrongType(f *field, want string, raw json.RawMessage) error {
	got := jsonType(raw)
	switch got {
	case "object", "array":
		got = "an " + got
	case "boolean":
		got = "true or false"
	default:
		got = "a " + got
	}
	return &Problem{Argument: f.name, Code: Type, Want: want, Got: got}
}

// clip keeps a name that a caller made up from filling a message.
func clip(s string) string { return visible.Cut(s, 60) }
