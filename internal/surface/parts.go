package surface

import (
	"bytes"
	"encoding/json"
	"slices"
)

// visibility ranks the tiers: the more agents see a tool, the higher. A tier
// that is not known counts as the least.
var visibility = map[string]int{"internal": 1, "advanced": 2, "standard": 3, "facade": 4}

// tool compares one tool with what it was.
func (c *collector) tool(at string, old, now Tool) {
	c.words(below(at, "title"), old.Title, now.Title)
	c.words(below(at, "description"), old.Description, now.Description)
	switch was, is := visibility[old.Tier], visibility[now.Tier]; {
	case is < was:
		c.add(Breaking, below(at, "tier"), "lowered from %s to %s", old.Tier, now.Tier)
	case is > was:
		c.add(Compatible, below(at, "tier"), "raised from %s to %s", old.Tier, now.Tier)
	case old.Tier != now.Tier:
		c.add(Breaking, below(at, "tier"), "was %s, is %s", old.Tier, now.Tier)
	}
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
	switch {
	case old && !now:
		c.add(Breaking, at, "a client trusted the tool more than it may now")
	case now && !old:
		c.add(Compatible, at, "a client may trust the tool more")
	}
}

// deprecation compares what is said of the end of a tool. A later end is good
// news, an earlier one is not.
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
		switch {
		case old.RemoveIn == now.RemoveIn:
		case err != nil || err2 != nil || is.Compare(was) < 0:
			c.add(Breaking, at, "goes away in %s, was to in %s", now.RemoveIn, old.RemoveIn)
		default:
			c.add(Compatible, at, "goes away in %s, was to in %s", now.RemoveIn, old.RemoveIn)
		}
		c.words(at, old.Replacement+" "+old.Since, now.Replacement+" "+now.Since)
	}
}

// presets compares which tools are shown. That a tool went with its tier, or is
// gone, is told already, and so is that it came with its tier, or is new.
func (c *collector) presets(old, now Document) {
	byName(c, "presets", old.Presets, now.Presets, func(p Preset) string { return p.Name }, func(at string, was, is Preset) {
		keep := func(list []PresetTool, told func(before, after int) bool) []PresetTool {
			return slices.DeleteFunc(slices.Clone(list), func(t PresetTool) bool {
				both := was.lists(t.Name) && is.lists(t.Name)
				return !both && told(old.visible(t.Name), now.visible(t.Name))
			})
		}
		went := keep(was.Tools, func(before, after int) bool { return after < before })
		came := keep(is.Tools, func(before, after int) bool { return after > before })
		byName(c, at, went, came, func(t PresetTool) string { return t.Name }, c.shown)
	})
}

func (p Preset) lists(tool string) bool {
	return slices.ContainsFunc(p.Tools, func(t PresetTool) bool { return t.Name == tool })
}

// visible is the rank of the tier of a tool, -1 when there is no such tool.
func (d Document) visible(tool string) int {
	if t := d.find(tool); t != nil {
		return visibility[t.Tier]
	}
	return -1
}

// shown compares which arguments a preset tells of: none named stands for all.
func (c *collector) shown(at string, old, now PresetTool) {
	same := func(string, string, string) {}
	switch {
	case len(old.Arguments) == 0 && len(now.Arguments) > 0:
		c.add(Breaking, at, "tells of a part of the arguments only")
	case len(now.Arguments) == 0 && len(old.Arguments) > 0:
		c.add(Compatible, at, "tells of all arguments")
	default:
		byName(c, at, old.Arguments, now.Arguments, func(s string) string { return s }, same)
	}
}

// codes compares the numeric classes, which are a closed set.
func (c *collector) codes(old, now []Code) {
	numbers := map[string]int{}
	var was, is []string
	for _, o := range old {
		numbers[o.Name] = o.Number
		was = append(was, o.Name)
	}
	for _, n := range now {
		if number, ok := numbers[n.Name]; ok && number != n.Number {
			c.add(Breaking, below("codes", n.Name), "was %d, is %d", number, n.Number)
		}
		is = append(is, n.Name)
	}
	c.closed("codes", was, is)
}

func (c *collector) detail(at string, old, now Detail) {
	for _, f := range []struct{ name, old, now string }{
		{"error", old.Kind, now.Kind}, {"reason_hint", old.Reason, now.Reason}, {"suggested_action", old.Action, now.Action},
	} {
		if f.old != f.now {
			c.add(Breaking, below(at, f.name), "was %s, is %s", f.old, f.now)
		}
	}
	if old.Code != now.Code {
		c.add(Breaking, below(at, "code"), "was %d, is %d", old.Code, now.Code)
	}
	c.words(below(at, "hint"), old.Hint, now.Hint)
}

func (c *collector) warning(at string, old, now Warning) {
	c.words(below(at, "hint"), old.Hint, now.Hint)
}

func (c *collector) variable(at string, old, now Variable) {
	if old.Default != now.Default {
		c.add(Breaking, below(at, "default"), "was %q, is %q", old.Default, now.Default)
	}
	switch {
	case old.Flag == now.Flag:
	case old.Flag == "":
		c.add(Compatible, below(at, "flag"), "the flag %s wins over it", now.Flag)
	default:
		c.add(Breaking, below(at, "flag"), "was %q, is %q", old.Flag, now.Flag)
	}
	c.words(below(at, "meaning"), old.Meaning, now.Meaning)
}

func (c *collector) resource(at string, old, now Resource) {
	if old.MIMEType != now.MIMEType {
		c.add(Breaking, below(at, "mime_type"), "was %q, is %q", old.MIMEType, now.MIMEType)
	}
	if old.Template != now.Template {
		c.add(Breaking, below(at, "template"), "was a template: %t, is one: %t", old.Template, now.Template)
	}
	c.trust(below(at, "updates"), old.Updates, now.Updates)
	c.words(below(at, "name"), old.Name+old.Title, now.Name+now.Title)
	c.words(below(at, "description"), old.Description, now.Description)
}

func (c *collector) prompt(at string, old, now Prompt) {
	c.words(below(at, "title"), old.Title, now.Title)
	c.words(below(at, "description"), old.Description, now.Description)
	known := map[string]bool{}
	for _, a := range old.Arguments {
		known[a.Name] = true
	}
	byName(c, at, old.Arguments, now.Arguments, func(a Argument) string { return a.Name }, func(at string, old, now Argument) {
		switch {
		case now.Required && !old.Required:
			c.add(Breaking, at, "required now")
		case old.Required && !now.Required:
			c.add(Compatible, at, "no longer required")
		}
		c.words(below(at, "description"), old.Description, now.Description)
	})
	for _, a := range now.Arguments {
		if a.Required && !known[a.Name] {
			c.add(Breaking, below(at, a.Name), "a new required argument")
		}
	}
}

// envelope compares the schema of a refusal. The details stand in it as an
// enum and in a list of their own. They are a set that may grow, so the list is
// what is compared, as long as the enum says the same.
func (c *collector) envelope(old, now Document) {
	if bytes.Equal(old.Envelope, now.Envelope) {
		return
	}
	was, ok := withoutDetails(old)
	is, ok2 := withoutDetails(now)
	if !ok || !ok2 {
		was, is = old.Envelope, now.Envelope
	}
	c.schema("envelope", was, is, output)
}

// withoutDetails is the schema of the envelope without the enum of
// context.reason. false says that the enum is not the list of details.
func withoutDetails(d Document) (json.RawMessage, bool) {
	var doc map[string]any
	dec := json.NewDecoder(bytes.NewReader(d.Envelope))
	dec.UseNumber()
	if dec.Decode(&doc) != nil {
		return nil, false
	}
	reason, _ := dig(doc, "properties", "context", "properties", "reason").(map[string]any)
	list, _ := reason["enum"].([]any)
	if len(list) != len(d.Details) {
		return nil, false
	}
	for _, detail := range d.Details {
		if !slices.Contains(list, any(detail.Name)) {
			return nil, false
		}
	}
	delete(reason, "enum")
	out, err := json.Marshal(doc)
	return out, err == nil
}

// dig goes down into objects by name.
func dig(v any, names ...string) any {
	for _, name := range names {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}
