package toolbox

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// Tool describes one tool: to a model, to documents and tests, and to a host
// that filters, renames or wraps.
type Tool struct {
	Name        string // to call it; in Table and Filter without the prefix, as Stem
	Stem        string // without the prefix: safe_write
	Title       string
	Tier        Tier
	Description string
	Input       json.RawMessage // schema of the arguments
	Output      json.RawMessage // schema of the full reply
	ReadOnly    bool            // changes nothing
	Destructive bool            // may replace or remove something
	Idempotent  bool            // a second call changes nothing more
	Listed      bool            // listed by the preset
	Search      string          // words by which a host that defers tools finds it
	Load        bool            // such a host loads it at once
}

// InputMap is the schema of the arguments in the form that many libraries take.
func (t Tool) InputMap() map[string]any {
	var m map[string]any
	if err := json.Unmarshal(t.Input, &m); err != nil {
		panic(err) // the schema is ours
	}
	return m
}

// Table lists all tools, by name, with everything that is said of them.
func Table() []Tool {
	var list []Tool
	for _, t := range table {
		list = append(list, t.info(Full))
	}
	slices.SortFunc(list, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Lookup describes the tool of that name, which has no prefix.
func Lookup(name string) (Tool, bool) {
	t, ok := toolOf(name)
	if !ok {
		return Tool{}, false
	}
	return t.info(Full), true
}

func toolOf(name string) (tool, bool) {
	i := slices.IndexFunc(table, func(t tool) bool { return t.name == name })
	if i < 0 {
		return tool{}, false
	}
	return table[i], true
}

func (t tool) info(p Preset) Tool {
	info := Tool{
		Name: t.name, Stem: t.name, Title: t.title, Tier: t.tier(), Description: p.description(t),
		Input: json.RawMessage(NameTools(string(p.input(t)))), Output: t.output(),
		ReadOnly: t.nature.readOnly, Destructive: t.nature.destructive, Idempotent: t.nature.idempotent,
	}
	if l := listing[t.name]; l != nil {
		info.Search, info.Load = l.search, l.load
	}
	return info
}

// toolset is the table as the options of one server make it.
type toolset struct {
	preset   Preset
	offers   []*offer
	byName   map[string]*offer // by every name that works on call
	reworded bool              // some tool is not listed under the name that the table gives it
}

// offer is one tool of a server.
type offer struct {
	tool
	wire   string // the name under which it is registered
	listed bool
	set    *toolset
}

// wireForm is what a name on the wire may be; clients accept less than the
// protocol does.
var wireForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`) })

func newToolset(tools []tool, o Options) *toolset {
	set := &toolset{preset: o.Tier, byName: map[string]*offer{}}
	for _, t := range tools {
		if o.Filter != nil && !o.Filter(t.info(Full)) || t.nature.onlyListed && !o.lists(t) {
			continue
		}
		set.offers = append(set.offers, &offer{tool: t, wire: wireName(t.name, o.DottedNames), listed: o.lists(t), set: set})
	}
	taken := map[string]bool{}
	for _, of := range set.offers {
		taken[of.wire] = true
	}
	for _, of := range set.offers {
		if o.Rename != nil {
			if name := o.Rename(of.wire); wireForm().MatchString(name) && !taken[name] {
				taken[name] = true
				of.wire = name
			}
		}
		for _, name := range []string{wireName(of.name, false), wireName(of.name, true), of.wire} {
			set.byName[name] = of
		}
	}
	set.reworded = slices.ContainsFunc(table, func(t tool) bool {
		of, ok := set.find(wireName(t.name, false))
		return !ok || !of.listed || of.wire != wireName(t.name, false)
	})
	return set
}

// find returns the tool that a name on the wire means.
func (set *toolset) find(wire string) (*offer, bool) {
	of, ok := set.byName[wire]
	return of, ok
}

// habits are words by which other tools do the same.
var habits = map[string]string{
	"write": "safe_write", "create": "safe_write", "save": "safe_write", "append": "safe_write",
	"replace": "edit", "str_replace": "edit", "apply_patch": "edit", "multi_edit": "edit",
	"view": "read", "remove": "delete", "rename": "move",
}

// closest returns the name that was probably meant, or "". The prefix and its
// dot are easily forgotten, and some hosts put words before it, so that only
// the rest of the name counts.
func (set *toolset) closest(wire string) string {
	bare := map[string]string{}
	var list []string
	for _, of := range set.offers {
		for _, name := range []string{of.name, unprefixed(of.wire)} {
			if bare[name] == "" {
				bare[name] = of.wire
				list = append(list, name)
			}
		}
	}
	word := unprefixed(strings.ToLower(wire))
	if _, rest, ok := strings.Cut(word, "rw_"); ok {
		word = rest
	}
	word = strings.TrimSuffix(strings.TrimSuffix(word, "file"), "_")
	word = cmp.Or(habits[word], word)
	if name := bare[word]; name != "" {
		return name
	}
	return bare[schema.Closest(word, list)]
}

// meant is the listed tool that was probably meant, or the one to use instead.
func (set *toolset) meant(wire string) string {
	near := set.closest(wire)
	if of, ok := set.find(near); ok && !of.listed {
		other, known := set.find(wireName(instead[of.name].tool, false))
		if !known || !other.listed {
			return ""
		}
		return other.wire
	}
	return near
}

func unprefixed(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(name, "rw_"), "rw.")
}

// names are the names of all tools, in order.
func (set *toolset) names() []string {
	var list []string
	for _, of := range set.offers {
		list = append(list, of.wire)
	}
	slices.Sort(list)
	return list
}
