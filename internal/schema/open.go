package schema

import (
	"encoding/json"
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
