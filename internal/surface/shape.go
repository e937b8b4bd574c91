package surface

import (
	"bytes"
	"encoding/json"
	"math/big"
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
	choice   []*shape           // oneOf, likewise
	ref      *shape             // where a $ref leads; then prose and fallback are all there is besides
	odd      map[string]string  // keywords that are not understood, canonical
}

// values are the values of one JSON type that are admitted.
type values struct {
	enum     map[string]bool // canonical; nil when all are
	whole    bool            // numbers: integers only
	low      map[string]bound
	high     map[string]bound
	texts    map[string]string // pattern, format, multipleOf
	unique   bool
	items    *shape
	props    map[string]*shape
	required map[string]bool
	rest     *shape // further members; nil when there may be none
}

// bound is a limit; open says that the limit itself is outside.
type bound struct {
	at   *big.Rat
	open bool
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

// parser makes shapes of one document.
type parser struct {
	root any
	refs map[string]*shape
}

// shapeOf reads a schema.
func shapeOf(doc json.RawMessage) (*shape, error) {
	var v any
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	p := &parser{root: v, refs: map[string]*shape{}}
	return p.shape(v), nil
}

func (p *parser) shape(v any) *shape {
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
		if ref, ok := v["$ref"].(string); ok {
			return p.reference(ref, v)
		}
		return p.object(v)
	}
	return &shape{kinds: all(anything), odd: map[string]string{"a schema that is no object": canonical(v)}}
}

// reference follows a $ref within the document. What leads out of it, and what
// stands beside it, is not understood.
func (p *parser) reference(ref string, v map[string]any) *shape {
	s := &shape{}
	for key, value := range v {
		switch key {
		case "$ref", "$defs", "definitions":
		case "default":
			s.fallback = canonical(value)
		default:
			if !s.prosaic(key, value) {
				s.strange(key+" beside $ref", canonical(value))
			}
		}
	}
	s.sortProse()
	target, ok := p.refs[ref]
	if !ok {
		at, found := resolve(p.root, ref)
		if !found {
			s.kinds = all(anything)
			s.strange("$ref", canonical(ref))
			return s
		}
		target = &shape{}
		p.refs[ref] = target // before it is read: it may lead to itself
		*target = *p.shape(at)
	}
	s.ref = target
	return s
}

// resolve finds what a JSON pointer within the document names.
func resolve(root any, ref string) (any, bool) {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok || path != "" && path[0] != '/' {
		return nil, false
	}
	v := root
	for _, name := range strings.Split(path, "/")[1:] {
		m, _ := v.(map[string]any)
		if v, ok = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]; !ok {
			return nil, false
		}
	}
	return v, true
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

// object reads a schema that is an object without $ref.
func (p *parser) object(v map[string]any) *shape {
	s := &shape{kinds: all(anything)}
	for key, value := range v {
		switch key {
		case "$defs", "definitions":
		case "default":
			s.fallback = canonical(value)
		case "type", "nullable", "anyOf", "oneOf", "enum", "const":
		default:
			if !s.prosaic(key, value) && !p.keyword(s, key, value) {
				s.strange(key, canonical(value))
			}
		}
	}
	s.sortProse()
	s.restrict(v)
	p.alternatives(s, v)
	s.tidy()
	return s
}

// restrict applies type, nullable, enum and const.
func (s *shape) restrict(v map[string]any) {
	nullable, given := v["nullable"]
	if _, ok := nullable.(bool); given && !ok {
		s.strange("nullable", canonical(nullable))
	}
	if t, ok := v["type"]; ok {
		s.only(t, nullable == true)
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
func (s *shape) only(t any, orNull bool) {
	names, ok := t.([]any)
	if !ok {
		names = []any{t}
	}
	admitted := map[string]bool{"null": orNull}
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

// alternatives reads anyOf and oneOf. Where each alternative has JSON types of
// its own and nothing else is said, they are the kinds of the shape.
func (p *parser) alternatives(s *shape, v map[string]any) {
	for _, key := range []string{"anyOf", "oneOf"} {
		value, ok := v[key]
		if !ok {
			continue
		}
		list, ok := value.([]any)
		if !ok || len(list) == 0 {
			s.strange(key, canonical(value))
			continue
		}
		var shapes []*shape
		for _, one := range list {
			shapes = append(shapes, p.shape(one))
		}
		if says(v) == 1 && s.merge(shapes) {
			continue
		}
		if key == "anyOf" {
			s.union = shapes
		} else {
			s.choice = shapes
		}
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

// real follows $ref to where something is said. What leads to itself alone
// says nothing.
func (s *shape) real() *shape {
	for hops := 0; s.ref != nil; hops++ {
		if hops > 100 {
			return &shape{kinds: all(anything), odd: map[string]string{"$ref": "leads to itself"}}
		}
		s = s.ref
	}
	return s
}

// merge puts alternatives of different types into the kinds of s.
func (s *shape) merge(list []*shape) bool {
	kinds := map[string]*values{}
	for _, one := range list {
		if one.ref != nil || one.union != nil || one.choice != nil || one.fallback != "" {
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
