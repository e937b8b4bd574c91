package surface

import (
	"cmp"
	"encoding/json"
	"fmt"
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
	c.changed(Breaking, "envelope_version", old.EnvelopeVersion, now.EnvelopeVersion)
	byName(&c, "names", old.Names, now.Names, itself, nil)
	byName(&c, "tools", old.Tools, now.Tools, func(t Tool) string { return t.Name }, c.tool)
	byName(&c, "presets", old.Presets, now.Presets, func(p Preset) string { return p.Name }, func(at string, was, is Preset) {
		byName(&c, at, was.Tools, is.Tools, func(t PresetTool) string { return t.Name }, c.shown)
		c.changed(Breaking, below(at, "brief"), was.Brief, is.Brief)
	})
	c.closed("kinds", old.Kinds, now.Kinds)
	c.closed("reasons", old.Reasons, now.Reasons)
	c.closed("actions", old.Actions, now.Actions)
	c.closed("effects", old.Effects, now.Effects)
	c.codes(old.Codes, now.Codes)
	byName(&c, "details", old.Details, now.Details, func(d Detail) string { return d.Name }, c.detail)
	byName(&c, "warnings", old.Warnings, now.Warnings, func(w Warning) string { return w.Name }, c.warning)
	c.envelope("envelope", old.Envelope, now.Envelope)
	c.brief(old.Brief, now.Brief)
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

// byName compares two lists of named things: a removed one is breaking, a new one is
// not, and those in both lists are compared.
func byName[T any](c *collector, at string, old, now []T, name func(T) string, compare func(at string, old, now T)) {
	index := make(map[string]T, len(now))
	for _, n := range now {
		index[name(n)] = n
	}
	known := make(map[string]bool, len(old))
	for _, o := range old {
		known[name(o)] = true
		if n, ok := index[name(o)]; !ok {
			c.add(Breaking, below(at, name(o)), "removed")
		} else if compare != nil {
			compare(below(at, name(o)), o, n)
		}
	}
	for _, n := range now {
		if !known[name(n)] {
			c.add(Compatible, below(at, name(n)), "new")
		}
	}
}

func itself(s string) string { return s }

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

// visibility ranks the tiers: the more agents see a tool, the higher. An unknown tier
// has the lowest rank.
var visibility = map[string]int{"internal": 1, "advanced": 2, "standard": 3, "facade": 4}

// tool compares one tool with its older version.
func (c *collector) tool(at string, old, now Tool) {
	c.words(below(at, "title"), old.Title, now.Title)
	c.words(below(at, "description"), old.Description, now.Description)
	tier := Breaking
	if visibility[now.Tier] > visibility[old.Tier] {
		tier = Compatible
	}
	c.changed(tier, below(at, "tier"), old.Tier, now.Tier)
	was, is := old.Annotations, now.Annotations
	c.trust(below(at, "read_only"), was.ReadOnly, is.ReadOnly)
	c.trust(below(at, "destructive"), !was.Destructive, !is.Destructive)
	c.trust(below(at, "idempotent"), was.Idempotent, is.Idempotent)
	c.trust(below(at, "open_world"), !was.OpenWorld, !is.OpenWorld)
	c.deprecation(below(at, "deprecated"), old.Deprecated, now.Deprecated)
	c.schema(below(at, "input"), old.Input, now.Input, input)
	c.schema(below(at, "output"), old.Output, now.Output, output)
}

// trust compares an annotation, true when it lets a client call with less
// care.
func (c *collector) trust(at string, old, now bool) {
	class := Breaking
	if now {
		class = Compatible
	}
	c.changed(class, at, old, now)
}

// deprecation compares when a tool goes away: an earlier end breaks.
func (c *collector) deprecation(at string, old, now *Deprecation) {
	switch {
	case old == nil && now == nil:
	case old == nil:
		c.add(Compatible, at, "deprecated in favor of %s, goes away in %s", now.Replacement, now.RemoveIn)
	case now == nil:
		c.add(Compatible, at, "no longer deprecated")
	default:
		was, err := ParseVersion(old.RemoveIn)
		is, err2 := ParseVersion(now.RemoveIn)
		class := Compatible
		if err != nil || err2 != nil || is.Compare(was) < 0 {
			class = Breaking
		}
		c.changed(class, at, old.RemoveIn, now.RemoveIn)
		c.words(at, old.Replacement+" "+old.Since, now.Replacement+" "+now.Since)
	}
}

// shown compares which arguments a preset lists: an empty list means all.
func (c *collector) shown(at string, old, now PresetTool) {
	switch {
	case len(old.Arguments) == 0 && len(now.Arguments) > 0:
		c.add(Breaking, at, "lists only some of the arguments")
	case len(now.Arguments) == 0 && len(old.Arguments) > 0:
		c.add(Compatible, at, "lists all arguments")
	default:
		byName(c, at, old.Arguments, now.Arguments, itself, nil)
	}
}

// codes compares the numeric classes, which are a closed set.
func (c *collector) codes(old, now []Code) {
	names := func(list []Code) (out []string) {
		for _, code := range list {
			out = append(out, fmt.Sprintf("%s=%d", code.Name, code.Number))
		}
		return out
	}
	c.closed("codes", names(old), names(now))
}

func (c *collector) detail(at string, old, now Detail) {
	c.changed(Breaking, below(at, "error"), old.Kind, now.Kind)
	c.changed(Breaking, below(at, "reason_hint"), old.Reason, now.Reason)
	c.changed(Breaking, below(at, "suggested_action"), old.Action, now.Action)
	c.changed(Breaking, below(at, "code"), old.Code, now.Code)
	c.words(below(at, "hint"), old.Hint, now.Hint)
}

func (c *collector) warning(at string, old, now Warning) {
	c.words(below(at, "hint"), old.Hint, now.Hint)
}

func (c *collector) variable(at string, old, now Variable) {
	c.changed(Breaking, below(at, "default"), old.Default, now.Default)
	flag := Breaking
	if old.Flag == "" {
		flag = Compatible
	}
	c.changed(flag, below(at, "flag"), old.Flag, now.Flag)
	c.words(below(at, "meaning"), old.Meaning, now.Meaning)
}

func (c *collector) resource(at string, old, now Resource) {
	c.changed(Breaking, below(at, "mime_type"), old.MIMEType, now.MIMEType)
	c.changed(Breaking, below(at, "template"), old.Template, now.Template)
	c.trust(below(at, "updates"), old.Updates, now.Updates)
	c.words(below(at, "name"), old.Name+old.Title, now.Name+now.Title)
	c.words(below(at, "description"), old.Description, now.Description)
}

func (c *collector) prompt(at string, old, now Prompt) {
	c.words(below(at, "title"), old.Title, now.Title)
	c.words(below(at, "description"), old.Description, now.Description)
	required := func(p Prompt) (list []string) {
		for _, a := range p.Arguments {
			if a.Required {
				list = append(list, a.Name)
			}
		}
		return list
	}
	was, is := required(old), required(now)
	for _, name := range is {
		if !slices.Contains(was, name) {
			c.add(Breaking, below(at, name), "required now")
		}
	}
	byName(c, at, old.Arguments, now.Arguments, func(a Argument) string { return a.Name }, func(at string, old, now Argument) {
		if old.Required && !now.Required {
			c.add(Compatible, at, "no longer required")
		}
		c.words(below(at, "description"), old.Description, now.Description)
	})
}

// brief compares brief replies. Clients cannot rely on them before there are any.
func (c *collector) brief(old, now *Brief) {
	switch {
	case now == nil && old == nil:
	case now == nil:
		c.add(Breaking, "brief", "removed")
	case old == nil:
		c.add(Compatible, "brief", "new")
	default:
		c.envelope("brief/envelope", old.Envelope, now.Envelope)
		byName(c, "brief/replies", old.Replies, now.Replies, func(r BriefReply) string { return r.Name }, func(at string, was, is BriefReply) {
			byName(c, at, was.Fields, is.Fields, itself, nil)
		})
		byName(c, "brief/actions", old.Actions, now.Actions, func(a BriefAction) string { return a.Name }, func(at string, was, is BriefAction) {
			c.changed(Breaking, at, was.Action, is.Action)
		})
	}
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
