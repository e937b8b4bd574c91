package schema

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// Encode writes a value as JSON in the form of replies, envelopes and the documents
// of the store. It follows the tags of this package at every level of structs, lists
// and maps:
//
//   - An embedded struct that has a name is a field, and its copies are fields too.
//     An open struct has its unknown members after its own fields, without those that
//     have the name of a field.
//   - A json.RawMessage is copied unchanged; encoding/json would remove its blanks
//     and escape it again.
//   - The []byte fields of a struct are text, or base64 where one of them is not UTF-8.
//   - A time has exactly six fractional digits, and the zero time is empty. Any other
//     type that writes itself as text is a string.
//
// Only a type that writes itself as JSON, text, numbers and truth values are left to
// encoding/json.
func Encode(v any) ([]byte, error) { return Reply(v, "") }

// Reply is [Encode] for the reply of a tool. encoding applies to its []byte fields:
// utf-8 if they are text, base64, or "" for the one that fits.
func Reply(v any, encoding string) ([]byte, error) { return encodeAs(v, encoding, true) }

// Plain is [Encode] for text that a model reads: <, > and & are not escaped.
func Plain(v any) ([]byte, error) { return encodeAs(v, "", false) }

func encodeAs(v any, encoding string, escape bool) ([]byte, error) {
	var e encoder
	e.plain = json.NewEncoder(&e.out)
	e.plain.SetEscapeHTML(escape)
	if s := reflect.ValueOf(v); encoding != "" && s.Kind() == reflect.Struct {
		e.object(s, encoding)
	} else {
		e.value(s)
	}
	return e.out.Bytes(), e.err
}

// An encoder writes one value.
type encoder struct {
	out   bytes.Buffer
	plain *json.Encoder // writes to out
	err   error         // the first one
}

func (e *encoder) fail(err error) { e.err = cmp.Or(e.err, err) }

// add writes a value as encoding/json does.
func (e *encoder) add(v any) {
	if err := e.plain.Encode(v); err != nil {
		e.fail(err)
		return
	}
	e.out.Truncate(e.out.Len() - 1) // the end of the line
}

// exact writes JSON to the letter.
func (e *encoder) exact(raw []byte) {
	if len(raw) == 0 {
		raw = []byte("null")
	}
	if !json.Valid(raw) {
		e.fail(errors.New("a value is not JSON"))
	}
	e.out.Write(raw)
}

var (
	objectType    = reflect.TypeFor[Object]()
	timeType      = reflect.TypeFor[time.Time]()
	marshalerType = reflect.TypeFor[json.Marshaler]()
	textType      = reflect.TypeFor[encoding.TextMarshaler]()
)

func (e *encoder) value(v reflect.Value) {
	if !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && v.IsNil() {
		e.add(nil)
		return
	}
	switch t := v.Type(); {
	case v.Kind() == reflect.Interface:
		e.value(v.Elem())
	case t == anyJSON:
		e.exact(v.Bytes())
	case t == bytesType:
		e.add(bytesText(v.Bytes(), formOf(v.Bytes())))
	case t == objectType:
		e.members(v.Interface().(Object))
	case t == timeType:
		e.add(stamp.Text(v.Interface().(time.Time)))
	case t.Kind() == reflect.Struct && extraField(t) >= 0:
		e.object(v, "")
	case t.Implements(textType):
		text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		if err != nil {
			e.fail(err)
		}
		e.add(string(text))
	case t.Implements(marshalerType):
		e.add(v.Interface())
	default:
		e.kind(v)
	}
}

// kind writes a value as its kind is written.
func (e *encoder) kind(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		e.value(v.Elem())
	case reflect.Struct:
		e.object(v, "")
	case reflect.Map:
		e.mapping(v)
	case reflect.Slice, reflect.Array:
		e.list(v)
	default:
		e.add(v.Interface())
	}
}

func (e *encoder) list(v reflect.Value) {
	if v.Kind() == reflect.Slice && v.IsNil() {
		e.add(nil)
		return
	}
	e.out.WriteByte('[')
	for i := range v.Len() {
		if i > 0 {
			e.out.WriteByte(',')
		}
		e.value(v.Index(i))
	}
	e.out.WriteByte(']')
}

// mapping writes a map with its names in order.
func (e *encoder) mapping(v reflect.Value) {
	if v.IsNil() {
		e.add(nil)
		return
	}
	if v.Type().Key().Kind() != reflect.String {
		e.fail(fmt.Errorf("the keys of %s are not names", v.Type()))
		return
	}
	names := v.MapKeys()
	slices.SortFunc(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	e.out.WriteByte('{')
	for _, name := range names {
		e.name(name.String())
		e.value(v.MapIndex(name))
	}
	e.out.WriteByte('}')
}

// members writes an object with its members in their order.
func (e *encoder) members(o Object) {
	e.out.WriteByte('{')
	for _, m := range o {
		e.name(m.Key)
		e.value(reflect.ValueOf(m.Value))
	}
	e.out.WriteByte('}')
}

// name begins a member of an object.
func (e *encoder) name(name string) {
	if b := e.out.Bytes(); b[len(b)-1] != '{' {
		e.out.WriteByte(',')
	}
	e.add(name)
	e.out.WriteByte(':')
}

// object writes a struct. encoding is that of its []byte fields.
func (e *encoder) object(v reflect.Value, encoding string) {
	known := fields(v.Type())
	if len(known.list) == 0 && v.NumField() > 0 {
		e.fail(fmt.Errorf("%s has no fields in JSON", v.Type()))
	}
	encoding = cmp.Or(encoding, FormOf(v))
	e.out.WriteByte('{')
	for i := range known.list {
		f := &known.list[i]
		value, err := v.FieldByIndexErr(f.index)
		if err != nil { // the embedded pointer is nil
			continue
		}
		isForm := f.typ == encodingType || f.name == encodingName && encoding == base64Form && hasBytes(v.Type())
		if f.omit && !isForm && IsEmpty(value) {
			continue
		}
		e.name(f.name)
		switch {
		case isForm:
			e.add(encoding)
		case f.typ == bytesType:
			e.add(bytesText(value.Bytes(), encoding))
		default:
			e.value(value)
		}
	}
	if i := extraField(v.Type()); i >= 0 {
		e.extra(known, v.Field(i))
	}
	e.out.WriteByte('}')
}

// extra writes the members that have no field.
func (e *encoder) extra(known *fieldSet, list reflect.Value) {
	seen := map[string]bool{}
	for i := range list.Len() {
		name := list.Index(i).Field(0).String()
		if known.named(name) != nil || seen[name] {
			continue
		}
		seen[name] = true
		e.name(name)
		e.exact(list.Index(i).Field(1).Bytes())
	}
}

// IsEmpty reports whether a field that can be omitted is.
func IsEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.String:
		return v.Len() == 0
	}
	if zero, ok := v.Interface().(interface{ IsZero() bool }); ok && v.Kind() != reflect.Pointer {
		return zero.IsZero()
	}
	return v.IsZero()
}
