package surface

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
)

// way is the side that writes the data that a schema describes. A caller's data may be
// accepted in more forms than before; a server's reply may have fewer forms.
type way int

const (
	input way = iota
	output
)

// comparison compares two schemas keyword by keyword, in the form that internal/schema
// writes. It does not recognize other spellings of the same meaning: a change of
// anything else counts as breaking.
type comparison struct {
	*collector
	way
}

// node is a schema; nil admits everything.
type node map[string]any

func nodeOf(v any) node {
	switch v := v.(type) {
	case nil:
		return nil
	case map[string]any:
		return v
	case bool:
		if v {
			return nil
		}
	}
	return node{"not a schema": v}
}

// schema adds how one schema differs from another.
func (c *collector) schema(at string, old, now json.RawMessage, w way) {
	if bytes.Equal(old, now) {
		return
	}
	var was, is any
	if decodeNumbers(old, &was) != nil || decodeNumbers(now, &is) != nil {
		c.add(Breaking, at, "a schema is not JSON")
		return
	}
	(&comparison{c, w}).nodes(at, nodeOf(was), nodeOf(is))
}

func decodeNumbers(doc []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	return dec.Decode(v)
}

// CompareInput lists how the arguments that one schema admits differ from
// those of another; [CompareOutput] does so for replies.
func CompareInput(old, now json.RawMessage) []Difference { return compareSchema(old, now, input) }

// CompareOutput lists how the replies of one schema differ from another's. A
// reply may gain fields: clients ignore those they do not know.
func CompareOutput(old, now json.RawMessage) []Difference { return compareSchema(old, now, output) }

func compareSchema(old, now json.RawMessage, w way) []Difference {
	var c collector
	c.schema("schema", old, now, w)
	return c.sorted()
}

// less reports that fewer values are admitted than before, more that more are.
func (c *comparison) less(at, format string, args ...any) {
	c.add([]Class{input: Breaking, output: Compatible}[c.way], at, format, args...)
}

func (c *comparison) more(at, format string, args ...any) {
	c.add([]Class{input: Compatible, output: Breaking}[c.way], at, format, args...)
}

func (c *comparison) nodes(at string, old, now node) {
	for _, key := range unionKeys(old, now) {
		was, had := old[key]
		is, has := now[key]
		nested := key == "items" || key == "properties" || key == "additionalProperties"
		same := had == has && text(was) == text(is)
		if same && !nested {
			continue
		}
		understood := true
		switch key {
		case "title", "description":
			c.words(at, text(was), text(is))
		case "default":
			class := []Class{input: Breaking, output: Documentation}[c.way]
			c.add(class, below(at, key), "was %s, is %s", shown(was, had), shown(is, has))
		case "type":
			understood = c.sets(below(at, key), old.types(), now.types())
		case "enum", "const":
			understood = c.sets(below(at, "enum"), old.choices(), now.choices())
		case "minimum":
			understood = c.limit(below(at, "least value"), was, is, -1)
		case "maximum":
			understood = c.limit(below(at, "most value"), was, is, 1)
		case "maxLength":
			understood = c.limit(below(at, "most length"), was, is, 1)
		case "items":
			c.nodes(below(at, "[]"), nodeOf(was), nodeOf(is))
		case "properties", "required":
			understood = c.members(at, old, now)
		case "additionalProperties":
			c.rest(below(at, "{}"), was, is)
		case "anyOf":
			understood = c.alternatives(at, was, is)
		default:
			understood = false
		}
		if !understood && !same {
			c.add(Breaking, below(at, key), "the comparison does not understand the keyword, and it changed")
		}
	}
}

func unionKeys[M ~map[string]V, V any](a, b M) []string {
	all := maps.Clone(a)
	if all == nil {
		all = M{}
	}
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// text is a JSON value as text, the members of objects in order.
func text(v any) string {
	b, _ := json.Marshal(v) // it was decoded from JSON
	return string(b)
}

func shown(v any, there bool) string {
	if !there {
		return "none"
	}
	return text(v)
}

// set is a set of values as text. Without a list everything is admitted; an
// invalid one is not understood.
type set struct {
	members    map[string]bool
	all, valid bool
}

func setOf(v any, there bool, name func(any) []string) set {
	list, ok := v.([]any)
	s := set{map[string]bool{}, !there, ok || !there}
	for _, one := range list {
		names := name(one)
		s.valid = s.valid && names != nil
		for _, n := range names {
			s.members[n] = true
		}
	}
	return s
}

var jsonTypes = map[string][]string{
	"null": {"null"}, "boolean": {"boolean"}, "integer": {"integer"}, "number": {"integer", "fraction"},
	"string": {"string"}, "array": {"array"}, "object": {"object"},
}

func (n node) types() set {
	v, there := n["type"]
	if name, ok := v.(string); ok {
		v = []any{name}
	}
	return setOf(v, there, func(v any) []string { name, _ := v.(string); return jsonTypes[name] })
}

// choices are the values of an enum or a const; both are not understood.
func (n node) choices() set {
	list, there := n["enum"]
	if one, ok := n["const"]; ok {
		if there {
			return set{}
		}
		list, there = []any{one}, true
	}
	return setOf(list, there, func(v any) []string { return []string{text(v)} })
}

// sets compares the admitted values; false means that a set is not understood.
func (c *comparison) sets(at string, old, now set) bool {
	switch {
	case !old.valid || !now.valid:
		return false
	case old.all:
		c.less(at, "only %s are admitted now", strings.Join(slices.Sorted(maps.Keys(now.members)), ", "))
		return true
	case now.all:
		c.more(at, "no longer restricted to %s", strings.Join(slices.Sorted(maps.Keys(old.members)), ", "))
		return true
	}
	for _, one := range unionKeys(old.members, now.members) {
		if !now.members[one] {
			c.less(at, "%s is no longer admitted", one)
		} else if !old.members[one] {
			c.more(at, "%s is admitted too", one)
		}
	}
	return true
}

// limit compares a bound that admits the values below it or, with the sign -1, above
// it.
func (c *comparison) limit(at string, old, now any, sign float64) bool {
	was, ok := bound(old, sign)
	is, ok2 := bound(now, sign)
	switch {
	case !ok || !ok2 || was == is:
		return false
	case is < was:
		c.less(at, "was %s, is %s", shown(old, old != nil), shown(now, now != nil))
	default:
		c.more(at, "was %s, is %s", shown(old, old != nil), shown(now, now != nil))
	}
	return true
}

// bound is a limit as an upper one, false when a float64 does not hold it.
func bound(v any, sign float64) (float64, bool) {
	if v == nil {
		return math.Inf(1), true
	}
	n, _ := v.(json.Number)
	f, err := n.Float64()
	return f * sign, err == nil && math.Abs(f) < 1<<53
}

// members compares what objects hold by name.
func (c *comparison) members(at string, old, now node) bool {
	was, ok := old.properties()
	is, ok2 := now.properties()
	name := func(v any) []string {
		if s, ok := v.(string); ok {
			return []string{s}
		}
		return nil
	}
	list, there := old["required"]
	needed := setOf(list, there, name)
	list, there = now["required"]
	needs := setOf(list, there, name)
	if !ok || !ok2 || !needed.valid || !needs.valid {
		return false
	}
	for _, name := range unionKeys(was, is) {
		a, had := was[name]
		b, has := is[name]
		switch at := below(at, name); {
		case had && has:
			c.nodes(at, nodeOf(a), nodeOf(b))
		case had:
			c.add(Breaking, at, "removed")
		case c.way == input && needs.members[name]:
			c.add(Breaking, at, "a new required argument")
		default:
			c.add(Compatible, at, "new")
		}
	}
	for _, name := range unionKeys(needed.members, needs.members) {
		_, had := was[name]
		_, has := is[name]
		switch at := below(at, name); {
		case needed.members[name] == needs.members[name] || has && !had && c.way == input:
		case needs.members[name]:
			c.less(at, "required now")
		default:
			c.more(at, "no longer required")
		}
	}
	return true
}

func (n node) properties() (map[string]any, bool) {
	v, there := n["properties"]
	m, ok := v.(map[string]any)
	return m, ok || !there
}

// rest compares which further members an object may have. They are like fields
// without a name: a reply may gain them, a caller may be allowed them; taking
// them away breaks both.
func (c *comparison) rest(at string, old, now any) {
	switch {
	case old == false && now == false:
	case old == false:
		c.add(Compatible, at, "other members are allowed now")
	case now == false:
		c.add(Breaking, at, "other members are no longer allowed")
	default:
		c.nodes(at, nodeOf(old), nodeOf(now))
	}
}

// alternatives compares anyOf, in any order. An alternative is found again by
// its types and by the members that have one value only, such as ok.
func (c *comparison) alternatives(at string, old, now any) bool {
	was, ok := marked(old)
	is, ok2 := marked(now)
	switch {
	case !ok || !ok2:
		return false
	case old == nil:
		c.less(below(at, "anyOf"), "one of %d alternatives must hold now", len(is))
		return true
	case now == nil:
		c.more(below(at, "anyOf"), "none of %d alternatives need hold", len(was))
		return true
	}
	for _, mark := range unionKeys(was, is) {
		a, had := was[mark]
		b, has := is[mark]
		switch {
		case had && has:
			c.nodes(at, a, b)
		case had:
			c.less(below(at, "anyOf"), "an alternative is gone")
		default:
			c.more(below(at, "anyOf"), "an alternative is new")
		}
	}
	return true
}

// marked lists alternatives by what distinguishes them; false when nothing does.
func marked(v any) (map[string]node, bool) {
	list, ok := v.([]any)
	out := make(map[string]node, len(list))
	for _, one := range list {
		n := nodeOf(one)
		mark := text(n["type"])
		props, _ := n.properties()
		for _, name := range slices.Sorted(maps.Keys(props)) {
			if value, there := nodeOf(props[name])["const"]; there {
				mark += " " + name + "=" + text(value)
			}
		}
		out[mark] = n
	}
	return out, v == nil || ok && len(list) > 0 && len(out) == len(list)
}
