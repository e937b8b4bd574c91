package policyfile

import "time"

// build makes the File of a tree without problems. A nil tree gives the
// defaults.
func build(root *node) *File {
	f := &File{
		Version:     int(get(root.at("version"), int64(1))),
		Thresholds:  Thresholds{High: defaultHigh, Medium: defaultMedium, Low: defaultLow},
		RetryBudget: RetryBudget{Default: int(get(root.at("retry_budget").at("default"), int64(defaultBudget)))},
	}
	t := root.at("thresholds")
	f.Thresholds.High = get(t.at("high"), f.Thresholds.High)
	f.Thresholds.Medium = get(t.at("medium"), f.Thresholds.Medium)
	f.Thresholds.Low = get(t.at("low"), f.Thresholds.Low)
	g := root.at("gate")
	f.Gate = Gate{
		Mode:          get(g.at("mode"), ""),
		RejectAt:      get(g.at("reject_at"), ""),
		Overrides:     get(g.at("overrides"), ""),
		InlineMarkers: get(g.at("inline_markers"), false),
	}
	h := root.at("history")
	f.History = History{
		MaxBytes:       get(h.at("max_bytes"), int64(0)),
		MaxObjectBytes: get(h.at("max_object_bytes"), int64(0)),
		MaxAge:         get(h.at("max_age"), time.Duration(0)),
		MaxVersions:    int(get(h.at("max_versions"), int64(0))),
		KeepHeadMax:    get(h.at("keep_head_max"), int64(0)),
	}
	f.Protect = root.at("protect").texts()
	f.Placeholders = get(root.at("placeholders"), "")
	f.ProtectDefaults = get(root.at("protect_defaults"), "")
	f.ProtectExceptions = root.at("protect_exceptions").texts()
	f.DisableFamilies = f.named(root.at("disable_families"), familyName)
	f.DisablePatterns = f.named(root.at("disable_patterns"), patternName)
	f.extend(root.at("extend_patterns"))
	f.except(root.at("allow"))
	return f
}

// extend takes over the rules that the file adds.
func (f *File) extend(n *node) {
	if n == nil {
		return
	}
	for _, entry := range n.fields {
		family := Family{Name: entry.key.Text, Line: entry.key.Line}
		for _, item := range entry.value.items {
			id := item.at("name")
			family.Patterns = append(family.Patterns, Pattern{
				Name:     id.Text,
				Regex:    item.at("regex").Text,
				Weight:   get(item.at("weight"), float64(defaultWeight)),
				Keywords: item.at("keywords").texts(),
				Line:     item.Line,
			})
			f.names = append(f.names, nameUse{id.Text, addedName, id.Line, id.Column})
		}
		f.ExtendPatterns = append(f.ExtendPatterns, family)
	}
}

// except takes over the exceptions.
func (f *File) except(n *node) {
	if n == nil {
		return
	}
	for _, item := range n.items {
		f.Allow = append(f.Allow, Allow{
			Path:    get(item.at("path"), ""),
			Pattern: get(item.at("pattern"), ""),
			Reason:  get(item.at("reason"), ""),
			Line:    item.Line,
		})
		if p := item.at("pattern"); p != nil && p.Text != "*" {
			f.names = append(f.names, nameUse{p.Text, eitherName, p.Line, p.Column})
		}
	}
}

// named takes over a list of names and remembers their places.
func (f *File) named(n *node, kind nameKind) []string {
	if n == nil {
		return nil
	}
	for _, item := range n.items {
		f.names = append(f.names, nameUse{item.Text, kind, item.Line, item.Column})
	}
	return n.texts()
}

// at returns the value of a key, nil when it is not given.
func (n *node) at(key string) *node {
	if n == nil {
		return nil
	}
	return n.known[key]
}

// texts returns the items of a list of texts.
func (n *node) texts() []string {
	if n == nil {
		return nil
	}
	var out []string
	for _, item := range n.items {
		out = append(out, get(item, ""))
	}
	return out
}

// get returns what the check read of a node, or the default.
func get[T any](n *node, def T) T {
	if n == nil {
		return def
	}
	return n.value.(T)
}
