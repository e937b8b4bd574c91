package schema

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// Arg is an argument that a short list names: "path", or "ops.op" for a field
// of the objects in ops. Text replaces the first sentence of its description;
// fields of objects in a list have no description but this.
type Arg struct{ Name, Text string }

// BriefInput is Input for callers that pay for each byte: only the named arguments,
// without defaults and bounds. The objects are open, so that a client that validates
// does not reject arguments that the server accepts.
func BriefInput(t reflect.Type, args []Arg) json.RawMessage {
	return marshal(brief(t, args, true))
}

// listedValues is how many values an argument may have that are listed: a longer list
// costs more than it is worth.
const listedValues = 12

func brief(t reflect.Type, args []Arg, prose bool) Object {
	props, need := Object{}, []string{}
	for _, a := range args {
		f := fields(t).named(a.Name)
		if f == nil {
			continue // part of an argument
		}
		p := f.schema()
		if inner := below(args, a.Name); len(inner) > 0 {
			p = briefObject(base(f.typ), inner)
		}
		if len(f.enum) > 0 && len(f.enum) <= listedValues {
			p = append(p, Member{"enum", f.enum})
		}
		text := a.Text
		if text == "" && prose {
			text, _, _ = strings.Cut(f.desc, ". ")
			text = strings.TrimSuffix(text, ".")
		}
		if text != "" && text != "-" {
			p = append(p, Member{"description", text})
		}
		props = append(props, Member{f.name, p})
		if f.required {
			need = append(need, f.name)
		}
	}
	return objectOf(props, need)
}

// briefObject returns the schema of an object, or of a list of objects, of which only
// some fields are listed.
func briefObject(t reflect.Type, inner []Arg) Object {
	if t.Kind() == reflect.Slice {
		return Object{{"type", "array"}, {"items", brief(base(t.Elem()), inner, false)}}
	}
	return brief(t, inner, false)
}

// below are the arguments that begin with "prefix.".
func below(args []Arg, prefix string) []Arg {
	var list []Arg
	for _, a := range args {
		if rest, ok := strings.CutPrefix(a.Name, prefix+"."); ok {
			list = append(list, Arg{rest, a.Text})
		}
	}
	return list
}

// Arguments are the names of the arguments that decode into t, except some.
func Arguments(t reflect.Type, except []string) []Arg {
	var list []Arg
	for _, name := range fields(t).names() {
		if !slices.Contains(except, name) {
			list = append(list, Arg{Name: name})
		}
	}
	return list
}
