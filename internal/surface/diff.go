package surface

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Class says what a difference means to a client that was written for the
// older surface.
type Class int

// The classes, the worst last.
const (
	Documentation Class = iota + 1 // told in other words
	Compatible                     // what worked works
	Breaking                       // what worked may fail
)

func (c Class) String() string {
	switch c {
	case Documentation:
		return "documentation"
	case Compatible:
		return "compatible"
	case Breaking:
		return "breaking"
	}
	return "none"
}

// Difference is one thing that is not as it was.
type Difference struct {
	Class   Class
	Address string // where, from the part of the document down: tools/tx/input/ops
	What    string // in words
}

func (d Difference) String() string {
	return fmt.Sprintf("%s: %s: %s", d.Class, d.Address, d.What)
}

// Worst is the class of the worst difference, 0 when there is none.
func Worst(list []Difference) Class {
	var worst Class
	for _, d := range list {
		worst = max(worst, d.Class)
	}
	return worst
}

// Compare lists how now differs from old, by address. The version of the
// schema itself is no difference. Schemas are compared by what they admit, not
// by how they say it: the order of names, const or an enum of one, a list of
// types or anyOf make no difference. What Compare does not understand is
// breaking.
func Compare(old, now Document) []Difference {
	var c collector
	if old.EnvelopeVersion != now.EnvelopeVersion {
		c.add(Breaking, "envelope_version", "was %s, is %s", old.EnvelopeVersion, now.EnvelopeVersion)
	}
	byName(&c, "names", old.Names, now.Names, func(s string) string { return s }, func(string, string, string) {})
	byName(&c, "tools", old.Tools, now.Tools, func(t Tool) string { return t.Name }, c.tool)
	c.presets(old, now)
	c.closed("kinds", old.Kinds, now.Kinds)
	c.closed("reasons", old.Reasons, now.Reasons)
	c.closed("actions", old.Actions, now.Actions)
	c.closed("effects", old.Effects, now.Effects)
	c.codes(old.Codes, now.Codes)
	byName(&c, "details", old.Details, now.Details, func(d Detail) string { return d.Name }, c.detail)
	byName(&c, "warnings", old.Warnings, now.Warnings, func(w Warning) string { return w.Name }, c.warning)
	c.envelope(old, now)
	byName(&c, "environment", old.Environment, now.Environment, func(v Variable) string { return v.Name }, c.variable)
	byName(&c, "resources", old.Resources, now.Resources, func(r Resource) string { return r.Address }, c.resource)
	byName(&c, "prompts", old.Prompts, now.Prompts, func(p Prompt) string { return p.Name }, c.prompt)
	return c.sorted()
}

// collector gathers differences.
type collector struct{ list []Difference }

func (c *collector) add(class Class, at, format string, args ...any) {
	c.list = append(c.list, Difference{class, at, fmt.Sprintf(format, args...)})
}

// sorted are the differences by address, each once.
func (c *collector) sorted() []Difference {
	slices.SortStableFunc(c.list, func(a, b Difference) int {
		return cmp.Or(strings.Compare(a.Address, b.Address), cmp.Compare(b.Class, a.Class), strings.Compare(a.What, b.What))
	})
	return slices.Compact(c.list)
}

// words adds a difference of documentation.
func (c *collector) words(at, old, now string) {
	if old != now {
		c.add(Documentation, at, "other words")
	}
}

// below is an address one step down. A slash in a name must not look like a
// step.
func below(at, name string) string {
	if strings.ContainsAny(name, "~/") {
		name = strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
	}
	return at + "/" + name
}

// byName compares two lists of things that have names: what is gone breaks,
// what is new does not, what is in both is compared.
func byName[T any](c *collector, at string, old, now []T, name func(T) string, compare func(at string, old, now T)) {
	index := make(map[string]T, len(now))
	for _, n := range now {
		index[name(n)] = n
	}
	known := make(map[string]bool, len(old))
	for _, o := range old {
		known[name(o)] = true
		if n, ok := index[name(o)]; ok {
			compare(below(at, name(o)), o, n)
		} else {
			c.add(Breaking, below(at, name(o)), "removed")
		}
	}
	for _, n := range now {
		if !known[name(n)] {
			c.add(Compatible, below(at, name(n)), "new")
		}
	}
}

// closed compares the values of a closed set: clients branch on each of them,
// so a new one breaks as much as one that is gone.
func (c *collector) closed(at string, old, now []string) {
	for _, o := range old {
		if !slices.Contains(now, o) {
			c.add(Breaking, below(at, o), "removed from a closed set")
		}
	}
	for _, n := range now {
		if !slices.Contains(old, n) {
			c.add(Breaking, below(at, n), "added to a closed set")
		}
	}
}
