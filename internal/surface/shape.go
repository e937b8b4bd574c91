package surface

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// A shape is a schema by what it admits: for each JSON type the values of that
// type, or nothing. Two schemas that say the same in other ways have the same
// shape.
type shape struct {
	prose    string             // title, description and the like, as one text
	fallback string             // the default, canonical; "" when there is none
	kinds    map[string]*values // by JSON type; a type that is absent is not admitted
	union    []*shape           // anyOf, where it could not be put into kinds
	odd      map[string]string  // keywords that are not understood, canonical
}

// values are the values of one JSON type that are admitted.
type values struct {
	enum     map[string]bool // canonical; nil when all are
	whole    bool            // numbers: integers only
	low      json.Number     // minimum; "" when there is none
	high     json.Number     // maximum, or maxLength of texts
	items    *shape
	props    map[string]*shape
	required map[string]bool
	rest     *shape // further members; nil when there may be none
}

var jsonTypes = []string{"null", "boolean", "number", "string", "array", "object"}

// anything is the shape of a schema that says nothing.
var anything = func() *shape {
	s := &shape{}
	s.kinds = all(s)
	return s
}()

// all are all values, with items and members of the shape within.
func all(within *shape) map[string]*values {
	kinds := make(map[string]*values, len(jsonTypes))
	for _, t := range jsonTypes {
		kinds[t] = &values{}
	}
	kinds["array"].items = within
	kinds["object"].rest = within
	return kinds
}

// shapeOf reads a schema.
func shapeOf(doc json.RawMessage) (*shape, error) {
	var v any
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	return newShape(v), nil
}

func newShape(v any) *shape {
	switch v := v.(type) {
	case bool:
		if v {
			return anything
		}
		return &shape{kinds: map[string]*values{}}
	case map[string]any:
		if len(v) == 0 {
			return anything
		}
		return newObject(v)
	}
	return &shape{kinds: all(anything), odd: map[string]string{"a schema that is no object": canonical(v)}}
}

// prosaic takes a keyword that admits and refuses nothing.
func (s *shape) prosaic(key string, value any) bool {
	switch key {
	case "title", "description", "examples", "$comment", "$id", "deprecated":
		s.prose += "\n" + key + " " + canonical(value)
		return true
	}
	return false
}

// strange notes a keyword that is not understood.
func (s *shape) strange(key, value string) {
	put(&s.odd, key, value)
}

// put sets a member of a map, which is made when there is none.
func put[V any](m *map[string]V, key string, value V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = value
}

// sortProse makes the prose independent of the order in which it was read.
func (s *shape) sortProse() {
	if strings.Count(s.prose, "\n") < 2 {
		return
	}
	lines := strings.Split(s.prose, "\n")
	slices.Sort(lines)
	s.prose = strings.Join(lines, "\n")
}

// newObject reads a schema that is an object. What our generator does not emit
// is not understood, among it $ref, oneOf, patterns and exclusive bounds.
func newObject(v map[string]any) *shape {
	s := &shape{kinds: all(anything)}
	for key, value := range v {
		switch key {
		case "$defs", "definitions":
		case "default":
			s.fallback = canonical(value)
		case "type", "anyOf", "enum", "const":
		default:
			if !s.prosaic(key, value) && !s.keyword(key, value) {
				s.strange(key, canonical(value))
			}
		}
	}
	s.sortProse()
	s.restrict(v)
	s.alternatives(v)
	s.tidy()
	return s
}

// restrict applies type, enum and const.
func (s *shape) restrict(v map[string]any) {
	if t, ok := v["type"]; ok {
		s.only(t)
	}
	for key, list := range map[string]any{"enum": v["enum"], "const": []any{v["const"]}} {
		if _, ok := v[key]; !ok {
			continue
		}
		choices, ok := list.([]any)
		if !ok {
			s.strange(key, canonical(list))
			continue
		}
		s.choose(choices)
	}
}

// only drops the types that are not named.
func (s *shape) only(t any) {
	names, ok := t.([]any)
	if !ok {
		names = []any{t}
	}
	admitted := map[string]bool{}
	for _, name := range names {
		text, _ := name.(string)
		switch {
		case text == "integer":
			s.kinds["number"].whole = !slices.Contains(names, any("number"))
			text = "number"
		case !slices.Contains(jsonTypes, text):
			s.strange("type", canonical(t))
		}
		admitted[text] = true
	}
	for name := range s.kinds {
		if !admitted[name] {
			delete(s.kinds, name)
		}
	}
}

// choose keeps the listed values only.
func (s *shape) choose(list []any) {
	members := map[string]map[string]bool{}
	for _, v := range list {
		t := typeName(v)
		if members[t] == nil {
			members[t] = map[string]bool{}
		}
		members[t][canonical(v)] = true
	}
	for name, k := range s.kinds {
		kept := map[string]bool{}
		for text := range members[name] {
			if k.enum == nil || k.enum[text] {
				kept[text] = true
			}
		}
		k.enum = kept
	}
}

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}

// alternatives reads anyOf. Where each alternative has JSON types of its own and
// nothing else is said, they are the kinds of the shape.
func (s *shape) alternatives(v map[string]any) {
	value, ok := v["anyOf"]
	if !ok {
		return
	}
	list, ok := value.([]any)
	if !ok || len(list) == 0 {
		s.strange("anyOf", canonical(value))
		return
	}
	var shapes []*shape
	for _, one := range list {
		shapes = append(shapes, newShape(one))
	}
	if says(v) > 1 || !s.merge(shapes) {
		s.union = shapes
	}
}

// says counts the keywords that admit or refuse something.
func says(v map[string]any) int {
	n := 0
	for key, value := range v {
		if key != "default" && key != "$defs" && key != "definitions" && !(&shape{}).prosaic(key, value) {
			n++
		}
	}
	return n
}

// merge puts alternatives of different types into the kinds of s.
func (s *shape) merge(list []*shape) bool {
	kinds := map[string]*values{}
	for _, one := range list {
		if one.union != nil || one.fallback != "" {
			return false
		}
		for name, k := range one.kinds {
			if kinds[name] != nil {
				return false
			}
			kinds[name] = k
		}
	}
	s.kinds = kinds
	for _, one := range list {
		s.prose += one.prose
		for key, value := range one.odd {
			s.strange(key+" of an alternative", s.odd[key+" of an alternative"]+value)
		}
	}
	s.sortProse()
	return true
}
