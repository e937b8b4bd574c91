package surface

import "strings"

// union compares alternatives of which at least one must hold, in any order.
// An alternative that changed is found by what tells it from the others.
func (c *comparison) union(at string, old, now []*shape) {
	switch {
	case len(old) == 0 && len(now) == 0:
		return
	case len(old) == 0:
		c.less(below(at, "anyOf"), "one of %d alternatives must hold now", len(now))
		return
	case len(now) == 0:
		c.more(below(at, "anyOf"), "none of %d alternatives need hold", len(old))
		return
	}
	old, now = unmatched(old, now, func(a, b *shape) bool { return Worst(c.quietly(a, b)) == 0 })
	for _, mark := range []func(*shape) string{(*shape).mark, (*shape).types} {
		old, now = unmatched(old, now, func(a, b *shape) bool {
			if m := mark(a); m == "" || m != mark(b) || occurs(old, mark, m) > 1 || occurs(now, mark, m) > 1 {
				return false
			}
			c.shapes(at, a, b)
			return true
		})
	}
	for range old {
		c.less(below(at, "anyOf"), "an alternative is gone")
	}
	for range now {
		c.more(below(at, "anyOf"), "an alternative is new")
	}
}

// quietly compares two shapes without adding to what was found.
func (c *comparison) quietly(old, now *shape) []Difference {
	var into collector
	(&comparison{&into, c.way}).shapes("", old, now)
	return into.list
}

// unmatched drops the pairs that match says belong together.
func unmatched(old, now []*shape, match func(a, b *shape) bool) (oldLeft, nowLeft []*shape) {
	taken := make([]bool, len(now))
search:
	for _, a := range old {
		for i, b := range now {
			if !taken[i] && match(a, b) {
				taken[i] = true
				continue search
			}
		}
		oldLeft = append(oldLeft, a)
	}
	for i, b := range now {
		if !taken[i] {
			nowLeft = append(nowLeft, b)
		}
	}
	return oldLeft, nowLeft
}

func occurs(list []*shape, mark func(*shape) string, m string) int {
	n := 0
	for _, s := range list {
		if mark(s) == m {
			n++
		}
	}
	return n
}

// mark is what tells an alternative from others: the members that have one
// value only, such as ok.
func (s *shape) mark() string {
	k := s.kinds["object"]
	if k == nil {
		return ""
	}
	var parts []string
	for _, name := range sortedKeys(k.props) {
		p := k.props[name]
		if len(p.kinds) != 1 {
			continue
		}
		for _, v := range p.kinds {
			if len(v.enum) == 1 {
				parts = append(parts, name+"="+sortedKeys(v.enum)[0])
			}
		}
	}
	return strings.Join(parts, " ")
}

// types are the JSON types that an alternative admits.
func (s *shape) types() string { return strings.Join(sortedKeys(s.kinds), " ") }
