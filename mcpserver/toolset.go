package mcpserver

import (
	"encoding/json"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// ToolInfo describes one tool: to documents, to tests, and to a host that
// filters, renames or wraps.
type ToolInfo struct {
	Name        string // without the prefix
	Title       string
	Tier        Tier
	Description string
	Input       json.RawMessage // schema of the arguments
	Output      json.RawMessage // schema of the reply
	ReadOnly    bool            // changes nothing
	Destructive bool            // may replace or remove something
	Idempotent  bool            // a second call changes nothing more
}

// Table lists all tools, by name, with everything that is said of them.
func Table() []ToolInfo {
	var list []ToolInfo
	for _, t := range table {
		list = append(list, t.info(Full))
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}

// Tool describes the tool of that name, which has no prefix.
func Tool(name string) (ToolInfo, bool) {
	t, ok := toolOf(name)
	if !ok {
		return ToolInfo{}, false
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

func (t tool) info(p Preset) ToolInfo {
	return ToolInfo{
		Name: t.name, Title: t.title, Tier: t.tier(), Description: p.description(t),
		Input: p.input(t), Output: t.output(),
		ReadOnly: t.nature.readOnly, Destructive: t.nature.destructive, Idempotent: t.nature.idempotent,
	}
}

// toolset is the table as the options of one server make it.
type toolset struct {
	preset   Preset
	offers   []offer
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
var wireForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

func newToolset(tools []tool, o Options) *toolset {
	set := &toolset{preset: o.Tier, byName: map[string]*offer{}}
	for _, t := range tools {
		if o.Filter != nil && !o.Filter(t.info(Full)) {
			continue
		}
		set.offers = append(set.offers, offer{tool: t, wire: wireName(t.name, o.DottedNames), listed: o.lists(t), set: set})
	}
	taken := map[string]bool{}
	for _, of := range set.offers {
		taken[of.wire] = true
	}
	for i := range set.offers {
		of := &set.offers[i]
		if o.Rename != nil {
			if name := o.Rename(of.wire); wireForm.MatchString(name) && !taken[name] {
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

// closest returns the name that was probably meant, or "". The prefix and its
// dot are easily forgotten, so that only the rest of the name counts.
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

// definition is the tool as it is listed.
func (of *offer) definition(o Options) mcp.Tool {
	info := of.shown(o.Tier)
	d := mcp.NewToolWithRawSchema(of.wire, info.Description, info.Input)
	if o.Replies == FullReplies {
		d.Title = info.Title
		if !o.OmitOutputSchemas {
			d.RawOutputSchema = info.Output
		}
	}
	no := false
	d.Annotations = mcp.ToolAnnotation{
		ReadOnlyHint: &info.ReadOnly, DestructiveHint: &info.Destructive,
		IdempotentHint: &info.Idempotent, OpenWorldHint: &no,
	}
	d.Annotations.Title = d.Title // where older clients look for it
	d.Meta = of.meta()
	return d
}

// meta is what hosts that defer tools go by.
func (of *offer) meta() *mcp.Meta {
	l := listing[of.name]
	if l == nil {
		return nil
	}
	m := map[string]any{"anthropic/searchHint": l.search}
	if l.load {
		m["anthropic/alwaysLoad"] = true
	}
	if of.name == "read" {
		m["anthropic/maxResultSizeChars"] = maxReadResult
	}
	return mcp.NewMetaFromMap(m)
}

// serverTool is the tool with its handler, inside what the host puts around
// it.
func (of *offer) serverTool(h *host, o Options) server.ServerTool {
	handler := of.handler(h)
	if o.Wrap != nil {
		handler = o.Wrap(of.info(Full), handler)
	}
	return server.ServerTool{Tool: of.definition(o), Handler: of.contained(h, handler)}
}
