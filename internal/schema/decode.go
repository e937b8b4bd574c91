package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
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
)

// Problem says what is wrong with one argument. It never holds its value.
type Problem struct {
	Argument   string
	Code       string
	Want       string
	Got        string
	DidYouMean string
}

func (p *Problem) Error() string {
	name := p.Argument
	switch p.Code {
	case Unknown:
		if p.DidYouMean != "" {
			return fmt.Sprintf("unknown argument %s, did you mean %s", name, p.DidYouMean)
		}
		return fmt.Sprintf("unknown argument %s", name)
	case Missing:
		return fmt.Sprintf("%s is required", name)
	case Duplicate:
		return fmt.Sprintf("%s is given twice", name)
	case UTF8:
		return fmt.Sprintf("%s is not valid Unicode", name)
	case Syntax:
		return "the arguments are not one JSON object"
	}
	s := fmt.Sprintf("%s must be %s, got %s", name, p.Want, p.Got)
	if p.DidYouMean != "" {
		s += ", did you mean " + p.DidYouMean
	}
	return s
}

// ContentWasObject is the note that a JSON value was taken for text.
const ContentWasObject = "content_was_object"

// Decode reads one JSON object of arguments into the struct that into points
// to. It is strict: no unknown names but "description", no wrong types, no
// value outside its enum or range, no half of a surrogate pair. null stands
// for an argument that is not given, but for a json.RawMessage: that takes any
// value, null among them, as the bytes that were sent.
//
// A content argument that is a JSON object or array is taken as indented JSON
// text when the path argument ends in .json; the notes tell of it.
func Decode(args []byte, into any) (notes []string, err error) {
	v := reflect.ValueOf(into).Elem()
	known := fields(v.Type())
	raw, err := members(args)
	if err != nil {
		return nil, err
	}
	for _, m := range raw {
		f := lookup(known, m.Key)
		if f == nil {
			if i := extraField(v.Type()); i >= 0 {
				keepExtra(v.Field(i), m)
				continue
			}
			if m.Key == "description" {
				continue
			}
			return nil, &Problem{Argument: clip(m.Key), Code: Unknown, DidYouMean: closest(m.Key, names(known))}
		}
		value := m.Value.(json.RawMessage)
		if f.name == "content" && f.typ.Kind() == reflect.String && isContainer(value) && strings.HasSuffix(strings.ToLower(textOf(raw, "path")), ".json") {
			text, err := indent(value)
			if err != nil {
				return nil, &Problem{Argument: "content", Code: Syntax}
			}
			v.Field(f.index).SetString(text)
			notes = append(notes, ContentWasObject)
			continue
		}
		if err := decodeValue(*f, value, v.Field(f.index)); err != nil {
			return nil, err
		}
	}
	for _, f := range known {
		must := f.required && hasTag(v.Type(), f)
		if name, value, when := strings.Cut(f.needed, "="); when && textOf(raw, name) == value {
			must = true
		}
		if must && !isGiven(f, valueOf(raw, f.name)) {
			return nil, &Problem{Argument: f.name, Code: Missing}
		}
	}
	return notes, nil
}

// hasTag reports whether the argument itself is marked as required.
func hasTag(t reflect.Type, f field) bool { return t.Field(f.index).Tag.Get("required") == "true" }

// members splits a JSON object into its members, in order.
func members(args []byte) (Object, error) {
	args = bytes.TrimSpace(args)
	if len(args) == 0 || bytes.Equal(args, []byte("null")) {
		return nil, nil
	}
	if !utf8.Valid(args) {
		return nil, &Problem{Argument: "arguments", Code: UTF8}
	}
	dec := json.NewDecoder(bytes.NewReader(args))
	tok, err := dec.Token()
	if err != nil || tok != json.Delim('{') {
		return nil, &Problem{Code: Syntax}
	}
	var out Object
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, &Problem{Code: Syntax}
		}
		key, _ := tok.(string)
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, &Problem{Code: Syntax}
		}
		if has(out, key) {
			return nil, &Problem{Argument: clip(key), Code: Duplicate}
		}
		out = append(out, Member{key, value})
	}
	if _, err := dec.Token(); err != nil {
		return nil, &Problem{Code: Syntax}
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, &Problem{Code: Syntax}
	}
	return out, nil
}

func lookup(known []field, name string) *field {
	for i := range known {
		if known[i].name == name {
			return &known[i]
		}
	}
	return nil
}

func names(known []field) []string {
	list := make([]string, len(known))
	for i, f := range known {
		list[i] = f.name
	}
	return list
}

func valueOf(raw Object, name string) json.RawMessage {
	for _, m := range raw {
		if m.Key == name {
			return m.Value.(json.RawMessage)
		}
	}
	return nil
}

func textOf(raw Object, name string) string {
	var s string
	json.Unmarshal(valueOf(raw, name), &s)
	return s
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || bytes.Equal(raw, []byte("null")) }

// isGiven reports whether a value stands for the argument f.
func isGiven(f field, raw json.RawMessage) bool {
	if f.takesAll() {
		return len(raw) > 0
	}
	return !isNull(raw)
}

func isContainer(raw json.RawMessage) bool { return len(raw) > 0 && (raw[0] == '{' || raw[0] == '[') }

func indent(raw json.RawMessage) (string, error) {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return "", err
	}
	b.WriteByte('\n')
	return b.String(), nil
}

// decodeValue reads one argument.
func decodeValue(f field, raw json.RawMessage, into reflect.Value) error {
	if !isGiven(f, raw) {
		return nil
	}
	if into.Kind() == reflect.Pointer {
		fresh := reflect.New(into.Type().Elem())
		if err := decodeValue(f, raw, fresh.Elem()); err != nil {
			return err
		}
		into.Set(fresh)
		return nil
	}
	if len(f.types) > 0 {
		return decodeChoice(f, raw, into)
	}
	if f.takesAll() {
		if loneSurrogate(raw) {
			return &Problem{Argument: f.name, Code: UTF8}
		}
		into.SetBytes(bytes.Clone(raw))
		return nil
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
		return decodeSlice(f, raw, into)
	case reflect.Struct:
		if raw[0] != '{' {
			return wrongType(f, "an object", raw)
		}
		_, err := Decode(raw, into.Addr().Interface())
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

func decodeString(f field, raw json.RawMessage, into reflect.Value) error {
	if raw[0] != '"' {
		return wrongType(f, "a string", raw)
	}
	if loneSurrogate(raw) {
		return &Problem{Argument: f.name, Code: UTF8}
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return &Problem{Argument: f.name, Code: UTF8}
	}
	if len(f.enum) > 0 && !contains(f.enum, s) {
		return &Problem{Argument: f.name, Code: Enum, Want: "one of " + strings.Join(f.enum, ", "), Got: "another word", DidYouMean: closest(s, f.enum)}
	}
	if f.maxLen > 0 && utf8.RuneCountInString(s) > f.maxLen {
		return &Problem{Argument: f.name, Code: Range, Want: fmt.Sprintf("at most %d characters long", f.maxLen), Got: "more"}
	}
	into.SetString(s)
	return nil
}

// loneSurrogate reports whether a JSON value holds an escaped half of a
// surrogate pair, which encoding/json would turn into U+FFFD.
func loneSurrogate(raw []byte) bool {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 || i+1 >= len(raw) {
			return false
		}
		if raw[i+1] != 'u' {
			raw = raw[i+2:]
			continue
		}
		unit, ok := hex4(raw[i+2:])
		if !ok {
			return false // not JSON; the decoder says so
		}
		raw = raw[i+6:]
		switch {
		case unit >= 0xdc00 && unit < 0xe000:
			return true
		case unit >= 0xd800 && unit < 0xdc00:
			if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
				return true
			}
			if low, ok := hex4(raw[2:]); !ok || low < 0xdc00 || low >= 0xe000 {
				return true
			}
			raw = raw[6:]
		}
	}
}

func hex4(b []byte) (uint64, bool) {
	if len(b) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[:4]), 16, 32)
	return n, err == nil
}

// maxExact is the largest whole number every JSON implementation keeps.
const maxExact = 1 << 53

func decodeInt(f field, raw json.RawMessage, into reflect.Value) error {
	if raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return wrongType(f, "a whole number", raw)
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil { // 3.0 and 1e3 are whole numbers as well
		x, ferr := strconv.ParseFloat(string(raw), 64)
		if ferr != nil || x != math.Trunc(x) || math.Abs(x) > maxExact {
			return &Problem{Argument: f.name, Code: Type, Want: "a whole number", Got: "a number that is none"}
		}
		n = int64(x)
	}
	low, high := f.min, f.max
	if into.Kind() == reflect.Uint64 && low == nil {
		low = new(float64)
	}
	if low != nil && float64(n) < *low {
		return &Problem{Argument: f.name, Code: Range, Want: fmt.Sprintf("at least %v", *low), Got: "less"}
	}
	if high != nil && float64(n) > *high {
		return &Problem{Argument: f.name, Code: Range, Want: fmt.Sprintf("at most %v", *high), Got: "more"}
	}
	if into.Kind() == reflect.Uint64 {
		into.SetUint(uint64(n))
	} else {
		into.SetInt(n)
	}
	return nil
}

func decodeSlice(f field, raw json.RawMessage, into reflect.Value) error {
	if raw[0] != '[' {
		return wrongType(f, "an array", raw)
	}
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return wrongType(f, "an array", raw)
	}
	out := reflect.MakeSlice(into.Type(), len(items), len(items))
	for i, item := range items {
		one := field{name: fmt.Sprintf("%s[%d]", f.name, i), typ: into.Type().Elem()}
		if err := decodeValue(one, item, out.Index(i)); err != nil {
			return err
		}
	}
	into.Set(out)
	return nil
}

func wrongType(f field, want string, raw json.RawMessage) error {
	got := "a number"
	switch raw[0] {
	case '"':
		got = "a string"
	case '{':
		got = "an object"
	case '[':
		got = "an array"
	case 't', 'f':
		got = "true or false"
	}
	return &Problem{Argument: f.name, Code: Type, Want: want, Got: got}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// clip keeps a name that a caller made up from filling a message.
func clip(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}
