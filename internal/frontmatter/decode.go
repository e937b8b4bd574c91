package frontmatter

import (
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
	// MaxMembers is how many keys one mapping in block style may have.
	MaxMembers = 4096
	// maxTokens bounds the text before that: one entry of a mapping has three
	// tokens, its key, the colon and its value.
	maxTokens = 30_000
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
// duplicate keys, merge keys, keys that are not scalars, directives, several documents,
// control characters, and what the parser is known to misread.
//
// The error is [NotMapping] or an [Error]. Time and memory are bounded by the limits
// of this package.
func Decode(yaml []byte) (*Map, error) {
	if len(yaml) > MaxSize {
		return nil, &Error{Kind: TooLarge, Message: fmt.Sprintf("more than %d bytes", MaxSize)}
	}
	src := strings.ReplaceAll(strings.ReplaceAll(string(yaml), "\r\n", "\n"), "\r", "\n")
	root, problems := strictyaml.Parse(src, strictyaml.Profile{MaxDepth: MaxDepth, MaxTokens: maxTokens, MaxMembers: MaxMembers, Before: 1, References: true})
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
	c := converter{anchors: map[string]anchored{}}
	v, err := c.value(root, 1)
	if err != nil {
		return nil, err
	}
	return v.(*Map), nil
}

// problemAt returns an error at the place of a node.
func problemAt(n *strictyaml.Node, kind Problem, format string, args ...any) error {
	return &Error{kind, n.Line + 1, n.Column, fmt.Sprintf(format, args...)}
}

// shorten cuts a text that is quoted in a message.
func shorten(s string) string { return visible.Cut(s, 60) }

// converter turns nodes into values.
type converter struct {
	nodes   int
	anchors map[string]anchored
}

// anchored is the value of an anchor.
type anchored struct {
	value any
	nodes int
}

// value converts one node. depth is that of the collection it would be.
func (c *converter) value(n *strictyaml.Node, depth int) (v any, err error) {
	before := c.nodes
	if c.nodes++; c.nodes > MaxNodes {
		return nil, problemAt(n, TooLarge, "more than %d values", MaxNodes)
	}
	wrong := false
	switch n.Kind {
	case strictyaml.Alias:
		a, known := c.anchors[n.Text]
		if !known { // one that its own value names
			return nil, problemAt(n, InvalidYAML, "alias %q has no anchor before it", shorten(n.Text))
		}
		if c.nodes += a.nodes; c.nodes > MaxNodes {
			return nil, problemAt(n, TooLarge, "more than %d values", MaxNodes)
		}
		if check(a.value, depth) != nil {
			return nil, problemAt(n, TooLarge, "nested deeper than %d levels", MaxDepth)
		}
		return clone(a.value), nil
	case strictyaml.Map, strictyaml.List:
		tag := "!!map"
		if n.Kind == strictyaml.List {
			tag = "!!seq"
		}
		wrong = n.Tag != "" && n.Tag != tag
		v, err = c.collection(n, depth)
	default:
		v = n.Text
		if n.Tag != "" {
			var ok bool
			v, ok = resolveAs(n.Tag, n.Text)
			wrong = !ok
		} else if n.Plain {
			v = resolve(n.Text)
		}
	}
	if err == nil && wrong {
		err = problemAt(n, InvalidYAML, "the value is not what its tag %s says", n.Tag)
	}
	if n.Anchor != "" {
		c.anchors[n.Anchor] = anchored{v, c.nodes - before}
	}
	return v, err
}

// collection converts a mapping or a list.
func (c *converter) collection(n *strictyaml.Node, depth int) (any, error) {
	if n.Kind == strictyaml.List {
		list := make([]any, 0, len(n.Items))
		for _, item := range n.Items {
			v, err := c.value(item, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	}
	m := &Map{}
	for _, f := range n.Fields {
		if f.Key.Kind >= strictyaml.List || f.Key.Tag != "" || f.Key.Anchor != "" {
			return nil, problemAt(f.Key, InvalidYAML, "only scalars without tag and anchor can be keys")
		}
		v, err := c.value(f.Value, depth+1)
		if err != nil {
			return nil, err
		}
		m.Set(f.Key.Text, v)
	}
	return m, nil
}

// clone copies a value, so that what an alias gives can be changed alone.
func clone(v any) any {
	switch v := v.(type) {
	case *Map:
		m := &Map{}
		for _, key := range v.keys {
			m.Set(key, clone(v.values[key]))
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = clone(item)
		}
		return list
	}
	return v
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

// resolveAs returns the value of a scalar with a core tag, quoted or not. It reports
// whether the text has the type of the tag.
func resolveAs(tag, text string) (v any, ok bool) {
	v = resolve(text)
	switch tag {
	case "!!str":
		return text, true
	case "!!null":
		return nil, v == nil
	case "!!bool":
		_, ok = v.(bool)
	case "!!int":
		_, ok = v.(json.Number)
		ok = ok && !strings.ContainsAny(text, ".eE")
	case "!!float":
		_, ok = v.(json.Number)
	}
	return v, ok
}
