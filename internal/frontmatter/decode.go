package frontmatter

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/strictyaml"
	"github.com/resilientwrite/resilientwrite/internal/visible"
)

// The limits of a front matter. What exceeds one is refused as [TooLarge].
const (
	// MaxSize is the largest YAML text in bytes.
	MaxSize = 1 << 20
	// MaxDepth is how many mappings and sequences may be nested.
	MaxDepth = 64
	// MaxNodes is how many values there may be after aliases are resolved.
	MaxNodes = 100_000
)

// Decode reads one YAML document whose top level is a mapping. Order, unknown
// keys and number text are kept.
//
// Scalars follow YAML 1.2: unquoted true and false are bool and null and ~
// are nil, each also with a capital letter first or in capitals throughout;
// yes, no, on and off are strings. An unquoted scalar is a number if it is one
// in JSON. All others are strings exactly as written, among them timestamps
// such as 2026-11-21T10:00:00Z and forms like 0x1F, 007, 1_000 and .inf. Keys
// are always strings, as written. Line breaks become line feeds.
//
// Aliases are replaced by copies of their anchored values. The tags !!str, !!int,
// !!float, !!bool, !!null, !!seq and !!map are understood. Refused are all other tags,
// duplicate keys, merge keys, keys that are not scalars, directives, several documents
// and control characters.
//
// The error is [NotMapping] or an [Error]. Time and memory are bounded by the limits
// of this package.
func Decode(yaml []byte) (*Map, error) {
	if len(yaml) > MaxSize {
		return nil, &Error{Kind: TooLarge, Message: fmt.Sprintf("more than %d bytes", MaxSize)}
	}
	src := strings.ReplaceAll(strings.ReplaceAll(string(yaml), "\r\n", "\n"), "\r", "\n")
	root, problems := strictyaml.Parse(src, strictyaml.Profile{MaxDepth: MaxDepth, Before: 1, References: true})
	if len(problems) > 0 {
		p, kind := problems[0], TooLarge
		if p.Kind == strictyaml.Syntax || p.Kind == strictyaml.Duplicate {
			kind = InvalidYAML
		}
		return nil, &Error{kind, p.Line, p.Column, p.Message}
	}
	if root == nil || root.Kind != strictyaml.Map {
		return nil, NotMapping
	}
	v, err := new(converter).value(root, 1)
	if err != nil {
		return nil, err
	}
	return v.(*Map), nil
}

// shorten cuts a text that is quoted in a message.
func shorten(s string) string { return visible.Cut(s, 60) }

// converter turns nodes into values.
type converter struct {
	nodes int
	alias *strictyaml.Node // the outermost of those whose values are being converted
}

// problem returns an error at the place of a node, or at the alias that copies it.
func (c *converter) problem(n *strictyaml.Node, kind Problem, format string, args ...any) error {
	n = cmp.Or(c.alias, n)
	return &Error{kind, n.Line + 1, n.Column, fmt.Sprintf(format, args...)}
}

// value converts one node. depth is that of the collection it would be.
func (c *converter) value(n *strictyaml.Node, depth int) (v any, err error) {
	if n.Kind == strictyaml.Alias && n.Target == nil { // one that its own value names
		return nil, c.problem(n, InvalidYAML, "alias %q has no anchor before it", shorten(n.Text))
	}
	if c.nodes++; c.nodes > MaxNodes {
		return nil, c.problem(n, TooLarge, "more than %d values", MaxNodes)
	}
	switch n.Kind {
	case strictyaml.Alias:
		defer func(outer *strictyaml.Node) { c.alias = outer }(c.alias)
		c.alias = cmp.Or(c.alias, n)
		return c.value(n.Target, depth) // again, so that the copy can be changed alone
	case strictyaml.Map, strictyaml.List:
		if depth > MaxDepth {
			return nil, c.problem(n, TooLarge, "nested deeper than %d levels", MaxDepth)
		}
		if v, err = c.collection(n, depth); err != nil {
			return nil, err
		}
	default:
		v = n.Text
		if n.Tag != "!!str" && (n.Plain || n.Tag != "") {
			v = resolve(n.Text)
		}
	}
	if n.Tag != "" && !hasType(v, n.Tag) {
		return nil, c.problem(n, InvalidYAML, "the value is not what its tag %s says", n.Tag)
	}
	return v, nil
}

// collection converts a mapping or a list.
func (c *converter) collection(n *strictyaml.Node, depth int) (any, error) {
	m, list := &Map{}, make([]any, 0, len(n.Items))
	for _, item := range n.Items {
		v, err := c.value(item, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	for _, f := range n.Fields {
		if f.Key.Kind >= strictyaml.List || f.Key.Tag != "" || f.Key.Anchor != "" {
			return nil, c.problem(f.Key, InvalidYAML, "only scalars without tag and anchor can be keys")
		}
		v, err := c.value(f.Value, depth+1)
		if err != nil {
			return nil, err
		}
		m.Set(f.Key.Text, v)
	}
	if n.Kind == strictyaml.List {
		return list, nil
	}
	return m, nil
}

var (
	words = map[string]any{
		"": nil, "~": nil, "null": nil, "Null": nil, "NULL": nil,
		"true": true, "True": true, "TRUE": true, "false": false, "False": false, "FALSE": false,
	}
	// number is the grammar of a number in JSON.
	number = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
)

// resolve returns the value of an unquoted scalar.
func resolve(text string) any {
	if v, ok := words[text]; ok {
		return v
	}
	if number.MatchString(text) {
		return json.Number(text)
	}
	return text
}

// hasType reports whether a value has the type of a core tag.
func hasType(v any, tag string) bool {
	switch v := v.(type) {
	case *Map:
		return tag == "!!map"
	case []any:
		return tag == "!!seq"
	case nil:
		return tag == "!!null"
	case bool:
		return tag == "!!bool"
	case json.Number:
		return tag == "!!float" || tag == "!!int" && !strings.ContainsAny(string(v), ".eE")
	}
	return tag == "!!str"
}
