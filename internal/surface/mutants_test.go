package surface_test

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/surface"
)

// mutation is one change of a surface and what it must be called.
type mutation struct {
	name   string
	target string // what it touches: two of one target may undo each other
	class  surface.Class
	undo   surface.Class // of the way back; 0 when that is not asked
	apply  func(surface.Document) surface.Document
}

const (
	words      = surface.Documentation
	compatible = surface.Compatible
	breaking   = surface.Breaking
)

// back is what undoing must be called: nothing is free in both directions, but
// words.
func back(c surface.Class) surface.Class {
	switch c {
	case compatible:
		return breaking
	case words:
		return words
	}
	return none
}

// node is a schema within the schemas of a tool.
type node struct {
	path   string
	schema map[string]any
}

// nodes lists the schemas within one, those of a property first.
func nodes(path string, s map[string]any) []node {
	list := []node{{path, s}}
	if props, ok := s["properties"].(map[string]any); ok {
		for _, name := range keys(props) {
			list = append(list, nodes(path+"/properties/"+name, props[name].(map[string]any))...)
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if inner, ok := s[key].(map[string]any); ok && len(inner) > 0 {
			list = append(list, nodes(path+"/"+key, inner)...)
		}
	}
	return list
}

func keys(m map[string]any) []string {
	var list []string
	for key := range m {
		list = append(list, key)
	}
	slices.Sort(list)
	return list
}

// at finds a node again in a copy of the schema.
func at(s map[string]any, path string) map[string]any {
	for _, step := range strings.Split(path, "/")[1:] {
		s = s[step].(map[string]any)
	}
	return s
}

func tree(raw json.RawMessage) map[string]any {
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		panic(err)
	}
	return m
}

// clone copies a value as JSON has it, faster than through its text.
func clone[T any](v T) T {
	switch v := any(v).(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, one := range v {
			out[key] = clone(one)
		}
		return any(out).(T)
	case []any:
		out := make([]any, len(v))
		for i, one := range v {
			out[i] = clone(one)
		}
		return any(out).(T)
	}
	return v
}

// change is one way to change a schema. do returns false where it cannot.
type change struct {
	name          string
	input, output surface.Class
	do            func(s map[string]any) bool
}

func set(s map[string]any, key string, value any) bool {
	s[key] = value
	return true
}

func drop(s map[string]any, key string) bool {
	_, ok := s[key]
	delete(s, key)
	return ok
}

// scale moves a limit that is there.
func scale(key string, by float64) func(map[string]any) bool {
	return func(s map[string]any) bool {
		n, ok := s[key].(float64)
		return ok && set(s, key, n+by)
	}
}

func typed(s map[string]any, name string) bool { return s["type"] == name }

// when makes a change depend on the type of the node and on what it says.
func when(name string, without []string, do func(map[string]any) bool) func(map[string]any) bool {
	return func(s map[string]any) bool {
		for _, key := range without {
			if _, ok := s[key]; ok {
				return false
			}
		}
		return typed(s, name) && do(s)
	}
}

func setting(key string, value any) func(map[string]any) bool {
	return func(s map[string]any) bool { return set(s, key, value) }
}

func dropping(key string) func(map[string]any) bool {
	return func(s map[string]any) bool { return drop(s, key) }
}

// firstWith finds a property, by name, for which ok is true.
func firstWith(s map[string]any, ok func(name string, required bool) bool) string {
	props, _ := s["properties"].(map[string]any)
	need, _ := s["required"].([]any)
	for _, name := range keys(props) {
		if name != "ok" && ok(name, slices.Contains(need, any(name))) {
			return name
		}
	}
	return ""
}

func require(s map[string]any, name string) bool {
	need, _ := s["required"].([]any)
	return name != "" && set(s, "required", append(slices.Clone(need), any(name)))
}

func optional(string, bool) bool { return true }

// changes are all ways to change a schema of ours, with what each means for
// arguments and for replies.
var changes = []change{
	{"string to integer", breaking, breaking, when("string", []string{"enum"}, setting("type", "integer"))},
	{"integer to string", breaking, breaking, when("integer", []string{"enum", "default"}, setting("type", "string"))},
	{"boolean to string", breaking, breaking, when("boolean", []string{"enum", "default"}, setting("type", "string"))},
	{"array to object", breaking, breaking, when("array", nil, setting("type", "object"))},
	{"a text may be null", compatible, breaking, when("string", []string{"enum"}, setting("type", []any{"null", "string"}))},
	{"a number may be null", compatible, breaking, when("integer", nil, setting("type", []any{"integer", "null"}))},
	{"fractions", compatible, breaking, when("integer", []string{"enum"}, setting("type", "number"))},
	{"an enum for a text", breaking, compatible, when("string", []string{"enum"}, setting("enum", []any{"a", "b"}))},
	{"an enum for a number", breaking, compatible, when("integer", []string{"enum"}, setting("enum", []any{1, 2}))},
	{"a const", breaking, compatible, when("boolean", []string{"const"}, setting("const", true))},
	{"a choice less", breaking, compatible, func(s map[string]any) bool {
		list, _ := s["enum"].([]any)
		return len(list) > 1 && set(s, "enum", list[1:])
	}},
	{"a choice more", compatible, breaking, func(s map[string]any) bool {
		list, _ := s["enum"].([]any)
		return len(list) > 0 && set(s, "enum", append(slices.Clone(list), "one_more"))
	}},
	{"a choice renamed", breaking, breaking, func(s map[string]any) bool {
		list, _ := s["enum"].([]any)
		return len(list) > 0 && set(s, "enum", append([]any{"renamed"}, list[1:]...))
	}},
	{"no choices any more", compatible, breaking, dropping("enum")},
	{"one choice only", breaking, compatible, func(s map[string]any) bool {
		list, _ := s["enum"].([]any)
		return len(list) > 1 && drop(s, "enum") && set(s, "const", list[0])
	}},
	{"a pattern", breaking, breaking, when("string", nil, setting("pattern", "^[a-z]+$"))},
	{"a format", breaking, breaking, when("string", nil, setting("format", "date-time"))},
	{"maxLength lowered", breaking, compatible, scale("maxLength", -1)},
	{"maxLength raised", compatible, breaking, scale("maxLength", 1)},
	{"maxLength gone", compatible, breaking, dropping("maxLength")},
	{"maxLength new", breaking, compatible, when("string", []string{"maxLength"}, setting("maxLength", 10))},
	{"minLength new", breaking, breaking, when("string", nil, setting("minLength", 1))},
	{"minimum raised", breaking, compatible, scale("minimum", 1)},
	{"minimum lowered", compatible, breaking, scale("minimum", -1)},
	{"minimum gone", compatible, breaking, dropping("minimum")},
	{"minimum new", breaking, compatible, when("integer", []string{"minimum"}, setting("minimum", 0))},
	{"maximum lowered", breaking, compatible, scale("maximum", -1)},
	{"maximum raised", compatible, breaking, scale("maximum", 1)},
	{"maximum gone", compatible, breaking, dropping("maximum")},
	{"maximum new", breaking, compatible, when("integer", []string{"maximum"}, setting("maximum", 1000))},
	{"exclusive maximum", breaking, breaking, when("integer", []string{"maximum"}, setting("exclusiveMaximum", 1000))},
	{"minItems", breaking, breaking, when("array", nil, setting("minItems", 1))},
	{"maxItems", breaking, breaking, when("array", nil, setting("maxItems", 3))},
	{"unique items", breaking, breaking, when("array", nil, setting("uniqueItems", true))},
	{"items of any kind", compatible, breaking, func(s map[string]any) bool {
		items, ok := s["items"].(map[string]any)
		return ok && len(items) > 0 && items["properties"] == nil && items["anyOf"] == nil && set(s, "items", map[string]any{})
	}},
	{"opened", compatible, compatible, func(s map[string]any) bool {
		return s["additionalProperties"] == false && set(s, "additionalProperties", true)
	}},
	{"closed", breaking, breaking, func(s map[string]any) bool {
		open, ok := s["additionalProperties"]
		return ok && open != false && set(s, "additionalProperties", false)
	}},
	{"a member removed", breaking, breaking, func(s map[string]any) bool {
		name := firstWith(s, optional)
		return name != "" && drop(s["properties"].(map[string]any), name)
	}},
	{"a member renamed", breaking, breaking, func(s map[string]any) bool {
		name := firstWith(s, optional)
		if name == "" {
			return false
		}
		props := s["properties"].(map[string]any)
		props[name+"_2"] = props[name]
		return drop(props, name)
	}},
	{"an optional member", compatible, compatible, func(s map[string]any) bool {
		props, ok := s["properties"].(map[string]any)
		return ok && set(props, "brand_new", map[string]any{"type": "string", "default": "x"})
	}},
	{"a required member", breaking, compatible, func(s map[string]any) bool {
		props, ok := s["properties"].(map[string]any)
		return ok && set(props, "brand_new", map[string]any{"type": "string"}) && require(s, "brand_new")
	}},
	{"required now", breaking, compatible, func(s map[string]any) bool {
		return require(s, firstWith(s, func(_ string, required bool) bool { return !required }))
	}},
	{"no longer required", compatible, breaking, func(s map[string]any) bool {
		name := firstWith(s, func(_ string, required bool) bool { return required })
		need, _ := s["required"].([]any)
		return name != "" && set(s, "required", slices.DeleteFunc(slices.Clone(need), func(v any) bool { return v == name }))
	}},
	{"a default", breaking, words, when("string", []string{"default"}, setting("default", "x"))},
	{"another default", breaking, words, func(s map[string]any) bool { _, ok := s["default"]; return ok && set(s, "default", "other") }},
	{"no default", breaking, words, dropping("default")},
	{"another description", words, words, setting("description", "In other words.")},
	{"a title", words, words, setting("title", "Title")},
	{"a keyword nobody knows", breaking, breaking, setting("x-limit", 5)},
	{"not", breaking, breaking, setting("not", map[string]any{"const": 5})},
	{"another dialect", breaking, breaking, setting("$schema", "https://json-schema.org/draft/2020-12/schema")},
}

// schemaMutations are the changes that can be made to the schemas of a tool,
// the arguments at up to two of their nodes.
func schemaMutations(t surface.Tool) []mutation {
	var list []mutation
	for _, side := range []string{"input", "output"} {
		raw, sites := t.Input, 2
		if side == "output" {
			raw = t.Output
			if len(list) > 40 { // a tool with few arguments is changed more in its reply
				sites = 1
			}
		}
		whole := tree(raw)
		all := nodes("", whole)
		for _, c := range changes {
			class := c.input
			if side == "output" {
				class = c.output
			}
			made := 0
			for i := range all {
				n := all[(i*7+3)%len(all)] // not always the first ones
				if len(all)%7 == 0 {
					n = all[i]
				}
				if made == sites || !c.do(clone(n.schema)) {
					continue
				}
				made++
				list = append(list, schemaMutation(t.Name, side, n.path, whole, c, class))
			}
		}
	}
	return list
}

func schemaMutation(tool, side, path string, whole map[string]any, c change, class surface.Class) mutation {
	return mutation{
		name: tool + "/" + side + path + ": " + c.name, target: tool + "/" + side, class: class, undo: back(class),
		apply: onTool(tool, func(t *surface.Tool) {
			raw := &t.Input
			if side == "output" {
				raw = &t.Output
			}
			s := clone(whole)
			c.do(at(s, path))
			text, err := json.Marshal(s)
			if err != nil {
				panic(err)
			}
			*raw = text
		}),
	}
}

// onTool changes one tool of a copy.
func onTool(name string, f func(*surface.Tool)) func(surface.Document) surface.Document {
	return func(d surface.Document) surface.Document {
		d.Tools = slices.Clone(d.Tools)
		for i := range d.Tools {
			if d.Tools[i].Name == name {
				f(&d.Tools[i])
				break
			}
		}
		return d
	}
}
