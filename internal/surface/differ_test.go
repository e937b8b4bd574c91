package surface

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Class is the effect of a difference on a client that was written for the older
// surface.
type Class int

// The classes, the worst last.
const (
	Documentation Class = iota + 1 // other wording
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

// Worst returns the class of the worst difference, or 0 if there is none.
func Worst(list []Difference) Class {
	var worst Class
	for _, d := range list {
		worst = max(worst, d.Class)
	}
	return worst
}

// Compare lists how now differs from old, by address. The version of the
// schema itself is no difference. What Compare does not understand is breaking.
func Compare(old, now Document) []Difference {
	var c collector
	c.fields("", reflect.ValueOf(old), reflect.ValueOf(now))
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

// changed adds a difference of the class when a value is not as it was.
func (c *collector) changed(class Class, at string, old, now any) {
	if old != now {
		c.add(class, at, "was %v, is %v", old, now)
	}
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

// fields compares two structs by the tags of their fields.
func (c *collector) fields(at string, old, now reflect.Value) {
	for i := range old.NumField() {
		tag := old.Type().Field(i).Tag
		name, _, _ := strings.Cut(tag.Get("json"), ",")
		c.field(tag.Get("differs"), at, strings.TrimPrefix(below(at, name), "/"), old.Field(i), now.Field(i))
	}
}

// field compares a field of the struct at outer.
func (c *collector) field(how, outer, at string, old, now reflect.Value) {
	was, is := old.Interface(), now.Interface()
	switch how {
	case "": // the name, or the version of the schema
	case "words":
		c.words(at, was.(string), is.(string))
	case "inside": // its parts have addresses below the struct
		if old.Kind() == reflect.Struct {
			c.fields(outer, old, now)
		} else {
			c.lists(outer, old, now, Compatible)
		}
	case "list":
		c.lists(at, old, now, Compatible)
	case "closed": // clients branch on each value, so a new one breaks as much as one that is gone
		c.lists(at, old, now, Breaking)
	case "optional": // clients cannot rely on it before there is any
		switch {
		case old.IsNil() && !now.IsNil():
			c.add(Compatible, at, "new")
		case now.IsNil() && !old.IsNil():
			c.add(Breaking, at, "removed")
		case !now.IsNil():
			c.fields(at, old.Elem(), now.Elem())
		}
	case "shown": // an empty list means all
		switch {
		case old.Len() == 0 && now.Len() > 0:
			c.add(Breaking, outer, "lists only some of the arguments")
		case now.Len() == 0 && old.Len() > 0:
			c.add(Compatible, outer, "lists all arguments")
		default:
			c.lists(outer, old, now, Compatible)
		}
	case "input":
		c.schema(at, was.(json.RawMessage), is.(json.RawMessage), input)
	case "output":
		c.schema(at, was.(json.RawMessage), is.(json.RawMessage), output)
	case "envelope":
		c.envelope(at, was.(json.RawMessage), is.(json.RawMessage))
	case "here":
		c.changed(Breaking, outer, was, is)
	default:
		c.changed(classOf(how, old, now), at, was, is)
	}
}

// visibility ranks the tiers: the more agents see a tool, the higher. An unknown tier
// has the lowest rank.
var visibility = map[string]int{"internal": 1, "advanced": 2, "standard": 3, "facade": 4}

// classOf is the class of the change of a value.
func classOf(how string, old, now reflect.Value) Class {
	fine := false
	switch how {
	case "freer": // true lets a client call with less care
		fine = now.Bool()
	case "stricter":
		fine = !now.Bool()
	case "flag":
		fine = old.String() == ""
	case "tier":
		fine = visibility[now.String()] > visibility[old.String()]
	}
	if fine {
		return Compatible
	}
	return Breaking
}

// lists compares two lists of named things: a removed one is breaking, a new one is of
// the class more or, if it is required of the caller, breaking; those in both lists are
// compared.
func (c *collector) lists(at string, old, now reflect.Value, more Class) {
	index := map[string]reflect.Value{}
	for i := range now.Len() {
		index[nameOf(now.Index(i))] = now.Index(i)
	}
	known := map[string]bool{}
	for i := range old.Len() {
		name := nameOf(old.Index(i))
		known[name] = true
		if n, ok := index[name]; !ok {
			c.add(Breaking, below(at, name), "removed")
		} else if n.Kind() == reflect.Struct {
			c.fields(below(at, name), old.Index(i), n)
		}
	}
	for i := range now.Len() {
		name := nameOf(now.Index(i))
		if a, ok := now.Index(i).Interface().(Argument); known[name] {
			continue
		} else if ok && a.Required {
			c.add(Breaking, below(at, name), "required now")
		}
		c.add(more, below(at, name), "new")
	}
}

// nameOf is the name of an item of a list.
func nameOf(v reflect.Value) string {
	switch v := v.Interface().(type) {
	case string:
		return v
	case Code:
		return fmt.Sprintf("%s=%d", v.Name, v.Number)
	}
	return v.Field(0).String()
}

// envelope compares the schema of a refusal. Its reasons are the details, a set
// that may grow, which are compared by themselves.
func (c *collector) envelope(at string, old, now json.RawMessage) {
	var own collector
	own.schema(at, old, now, output)
	c.list = append(c.list, slices.DeleteFunc(own.list, func(d Difference) bool {
		return d.Address == at+"/context/reason/enum" && strings.HasSuffix(d.What, " is admitted too")
	})...)
}
