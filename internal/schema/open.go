package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

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
func keepExtra(into reflect.Value, m Member) {
	one := reflect.New(into.Type().Elem()).Elem()
	one.Field(0).SetString(m.Key)
	one.Field(1).SetBytes(m.Value.(json.RawMessage))
	into.Set(reflect.Append(into, one))
}

// Encode writes a struct as JSON, with its unknown members after its own fields, so
// that it restores an open object that [Decode] read. Unknown members that have the
// name of a field are left out. A field that is a json.RawMessage is copied unchanged.
//
// []byte fields are text, or base64 where one of them is not UTF-8.
func Encode(from any) ([]byte, error) { return encode(reflect.ValueOf(from), "") }

func encode(v reflect.Value, encoding string) ([]byte, error) {
	encoding = cmp.Or(encoding, FormOf(v))
	var out Object
	known := fields(v.Type())
	for i := range known.list {
		f := &known.list[i]
		value := v.FieldByIndex(f.index)
		if f.name == encodingName && encoding == base64Form && hasBytes(v.Type()) {
			out = append(out, Member{f.name, encoding})
			continue
		}
		if f.omit && f.typ != encodingType && isEmpty(value) {
			continue
		}
		switch f.typ {
		case anyJSON:
			out = append(out, Member{f.name, exact(value.Bytes())})
		case bytesType:
			out = append(out, Member{f.name, bytesText(value.Bytes(), encoding)})
		case encodingType:
			out = append(out, Member{f.name, encoding})
		default:
			out = append(out, Member{f.name, value.Interface()})
		}
	}
	if i := extraField(v.Type()); i >= 0 {
		seen := map[string]bool{}
		for j := range v.Field(i).Len() {
			one := v.Field(i).Index(j)
			name := one.Field(0).String()
			if known.named(name) != nil || seen[name] {
				continue
			}
			seen[name] = true
			raw := json.RawMessage(one.Field(1).Bytes())
			if !json.Valid(raw) {
				return nil, fmt.Errorf("the value of %s is not JSON", clip(name))
			}
			out = append(out, Member{name, raw})
		}
	}
	return out.MarshalJSON()
}

// isEmpty reports whether a field that can be omitted is.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.String:
		return v.Len() == 0
	}
	return v.IsZero()
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
