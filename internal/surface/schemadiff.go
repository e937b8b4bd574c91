package surface

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// way says who writes what a schema describes. What a caller sends may be
// accepted in more forms than before, what a server replies may come in fewer.
type way int

const (
	input way = iota
	output
)

// comparison compares two schemas.
type comparison struct {
	*collector
	way
}

// schema adds how one schema differs from another.
func (c *collector) schema(at string, old, now json.RawMessage, w way) {
	if bytes.Equal(old, now) {
		return
	}
	was, err := shapeOf(old)
	is, err2 := shapeOf(now)
	if err != nil || err2 != nil {
		c.add(Breaking, at, "a schema is not JSON")
		return
	}
	(&comparison{c, w}).shapes(at, was, is)
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

// less says that fewer values are admitted than before, more that more are.
func (c *comparison) less(at, format string, args ...any) {
	c.add(map[way]Class{input: Breaking, output: Compatible}[c.way], at, format, args...)
}

func (c *comparison) more(at, format string, args ...any) {
	c.add(map[way]Class{input: Compatible, output: Breaking}[c.way], at, format, args...)
}

func (c *comparison) shapes(at string, old, now *shape) {
	if old == now {
		return
	}
	c.words(at, old.prose, now.prose)
	if was, is := old.fallback, now.fallback; was != is {
		if c.way == input {
			c.add(Breaking, below(at, "default"), "was %s, is %s", cmp.Or(was, "none"), cmp.Or(is, "none"))
		} else {
			c.words(below(at, "default"), was, is)
		}
	}
	// What a keyword that is not understood does to a client is not known, so
	// a change of it breaks.
	for _, key := range sortedKeys(both(old.odd, now.odd)) {
		if old.odd[key] != now.odd[key] {
			c.add(Breaking, below(at, key), "the keyword is not understood by the comparison, and it changed")
		}
	}
	for _, t := range jsonTypes {
		was, is := old.kinds[t], now.kinds[t]
		switch {
		case was != nil && is != nil:
			c.values(at, t, was, is)
		case was != nil:
			c.less(below(at, "type"), "%s is no longer admitted", t)
		case is != nil:
			c.more(below(at, "type"), "%s is admitted too", t)
		}
	}
	c.union(at, old.union, now.union)
}

// both are the members of two maps; those of b win.
func both[V any](a, b map[string]V) map[string]V {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]V{}
	}
	maps.Copy(out, b)
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// values compares the values of one type.
func (c *comparison) values(at, kind string, old, now *values) {
	if old == now {
		return
	}
	c.choices(below(at, "enum"), old.enum, now.enum)
	switch {
	case now.whole && !old.whole && now.enum == nil && old.enum == nil:
		c.less(below(at, "type"), "fractions are no longer admitted")
	case old.whole && !now.whole && now.enum == nil && old.enum == nil:
		c.more(below(at, "type"), "fractions are admitted too")
	}
	what := " value"
	if kind == "string" {
		what = " length"
	}
	c.limit(below(at, "least"+what), old.low, now.low, func(a, b json.Number) bool { return less(b, a) })
	c.limit(below(at, "most"+what), old.high, now.high, less)
	if old.items != nil && now.items != nil {
		c.shapes(below(at, "[]"), old.items, now.items)
	}
	c.members(at, old, now)
}

// choices compares enums; nil admits everything.
func (c *comparison) choices(at string, old, now map[string]bool) {
	switch {
	case old == nil && now == nil:
	case old == nil:
		c.less(at, "only %s are admitted now", strings.Join(sortedKeys(now), ", "))
	case now == nil:
		c.more(at, "no longer restricted to %s", strings.Join(sortedKeys(old), ", "))
	default:
		for _, text := range sortedKeys(old) {
			if !now[text] {
				c.less(at, "%s is no longer admitted", text)
			}
		}
		for _, text := range sortedKeys(now) {
			if !old[text] {
				c.more(at, "%s is admitted too", text)
			}
		}
	}
}

// limit compares a bound; narrower reports whether one admits less than another.
func (c *comparison) limit(at string, old, now json.Number, narrower func(a, b json.Number) bool) {
	switch {
	case canonical(old) == canonical(now):
	case old == "":
		c.less(at, "is %s, was not limited", now)
	case now == "":
		c.more(at, "no longer limited, was %s", old)
	case narrower(now, old):
		c.less(at, "was %s, is %s", old, now)
	default:
		c.more(at, "was %s, is %s", old, now)
	}
}

// members compares what objects hold.
func (c *comparison) members(at string, old, now *values) {
	for _, name := range sortedKeys(both(old.props, now.props)) {
		was, is := old.props[name], now.props[name]
		at := below(at, name)
		switch {
		case was != nil && is != nil:
			c.shapes(at, was, is)
		case was != nil:
			c.add(Breaking, at, "removed")
		case c.way == input && now.required[name]:
			c.add(Breaking, at, "a new required argument")
		default:
			c.add(Compatible, at, "new")
		}
	}
	for _, name := range sortedKeys(both(old.required, now.required)) {
		was, is := old.required[name], now.required[name]
		fresh := old.props[name] == nil && now.props[name] != nil // said above
		switch at := below(at, name); {
		case was == is || fresh && c.way == input:
		case is && c.way == input:
			c.add(Breaking, at, "required now")
		case is:
			c.add(Compatible, at, "always there now")
		case c.way == input:
			c.add(Compatible, at, "no longer required")
		default:
			c.add(Breaking, at, "no longer always there")
		}
	}
	// Further members are like fields that have no name yet: a reply may gain
	// them, a caller may be allowed them; taking them away breaks both.
	switch at := below(at, "{}"); {
	case old.rest == nil && now.rest == nil:
	case old.rest == nil:
		c.add(Compatible, at, "other members are allowed now")
	case now.rest == nil:
		c.add(Breaking, at, "other members are no longer allowed")
	default:
		c.shapes(at, old.rest, now.rest)
	}
}
