package surface

import (
	"bytes"
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
	under map[[2]*shape]bool // pairs that are being compared
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
	(&comparison{c, w, map[[2]*shape]bool{}}).shapes(at, was, is)
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
	if old == now || c.under[[2]*shape{old, now}] {
		return
	}
	c.under[[2]*shape{old, now}] = true
	defer delete(c.under, [2]*shape{old, now})
	c.words(at, old.allProse(), now.allProse())
	if was, is := old.allFallback(), now.allFallback(); was != is {
		if c.way == input {
			c.add(Breaking, below(at, "default"), "was %s, is %s", orNone(was), orNone(is))
		} else {
			c.words(below(at, "default"), was, is)
		}
	}
	c.unknown(at, old, now)
	old, now = old.real(), now.real()
	for _, t := range jsonTypes {
		was, is := old.kinds[t], now.kinds[t]
		switch {
		case was != nil && is != nil:
			c.values(at, was, is)
		case was != nil:
			c.less(below(at, "type"), "%s is no longer admitted", t)
		case is != nil:
			c.more(below(at, "type"), "%s is admitted too", t)
		}
	}
	c.union(at, old.union, now.union)
	c.choice(at, old.choice, now.choice)
}

// allProse is the prose of a shape and of where it leads.
func (s *shape) allProse() string {
	if s.ref == nil {
		return s.prose
	}
	return strings.TrimSpace(s.prose + "\n" + s.real().prose)
}

// allFallback is the default of a shape, or of where it leads.
func (s *shape) allFallback() string {
	if s.fallback != "" || s.ref == nil {
		return s.fallback
	}
	return s.real().fallback
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// unknown compares keywords that are not understood: what they do to a client
// is not known, so a change of them breaks.
func (c *comparison) unknown(at string, old, now *shape) {
	was, is := old.allOdd(), now.allOdd()
	for _, key := range sortedKeys(both(was, is)) {
		if was[key] != is[key] {
			c.add(Breaking, below(at, key), "the keyword is not understood by the comparison, and it changed")
		}
	}
}

// allOdd are the odd keywords of a shape and of where it leads.
func (s *shape) allOdd() map[string]string {
	if s.ref == nil {
		return s.odd
	}
	return both(s.odd, s.real().odd)
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
func (c *comparison) values(at string, old, now *values) {
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
	c.limits(at, "least", old.low, now.low, false)
	c.limits(at, "most", old.high, now.high, true)
	for _, key := range sortedKeys(both(old.texts, now.texts)) {
		c.text(below(at, key), old.texts[key], now.texts[key])
	}
	switch {
	case now.unique && !old.unique:
		c.less(below(at, "uniqueItems"), "items must be unique now")
	case old.unique && !now.unique:
		c.more(below(at, "uniqueItems"), "items need not be unique")
	}
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

func (c *comparison) limits(at, side string, old, now map[string]bound, upper bool) {
	for _, what := range sortedKeys(both(old, now)) {
		was, had := old[what]
		is, has := now[what]
		at := below(at, side+" "+what)
		switch {
		case had && has && was.at.Cmp(is.at) == 0 && was.open == is.open:
		case had && has && narrower(is, was, upper):
			c.less(at, "was %s, is %s", was, is)
		case had && has:
			c.more(at, "was %s, is %s", was, is)
		case has:
			c.less(at, "is %s, was not limited", is)
		default:
			c.more(at, "no longer limited, was %s", was)
		}
	}
}

func (b bound) String() string {
	if b.open {
		return b.at.RatString() + " exclusive"
	}
	return b.at.RatString()
}

// text compares pattern, format and multipleOf. Whether another one admits
// more or less is not computed: it breaks.
func (c *comparison) text(at, old, now string) {
	switch {
	case old == now:
	case old == "":
		c.less(at, "is %s now", now)
	case now == "":
		c.more(at, "was %s, is gone", old)
	default:
		c.add(Breaking, at, "was %s, is %s", old, now)
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
