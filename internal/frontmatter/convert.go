package frontmatter

import (
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// converter turns the parser's nodes into values.
type converter struct {
	nodes   int
	anchors map[string]anchored
	rest    map[*token.Token][]*ast.MappingValueNode // entries by the first key of their mapping
}

// anchored is what an alias stands for.
type anchored struct {
	value any
	nodes int
}

// value converts one node. depth is that of the collection it would be, parent
// the column of the key it is the value of, zero if it is none's.
func (c *converter) value(n ast.Node, depth, parent int) (any, error) {
	if n == nil {
		return nil, &SyntaxError{Message: "a value is missing"}
	}
	if err := c.count(1); err != nil {
		return nil, err
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		return c.mapping(n, depth, parent)
	case *ast.SequenceNode:
		return c.sequence(n, depth)
	case *ast.LiteralNode:
		if n.Value == nil {
			return "", nil
		}
		return n.Value.Value, nil
	case *ast.AnchorNode:
		return c.anchor(n, depth, parent)
	case *ast.AliasNode:
		return c.alias(n, depth)
	case *ast.TagNode:
		return c.tag(n, depth, parent)
	}
	text, plain, ok := scalar(n)
	if !ok {
		return nil, syntaxError(n.GetToken(), "%s is not supported here", n.Type())
	}
	if plain {
		return resolve(text), nil
	}
	return text, nil
}

// count adds to the number of values, which is limited.
func (c *converter) count(n int) error {
	if c.nodes += n; c.nodes > MaxNodes {
		return tooLarge("more than %d values", MaxNodes)
	}
	return nil
}

// scalar returns the text of a scalar and whether it was written without
// quotes. A value that was left out is an empty plain text.
func scalar(n ast.Node) (text string, plain, ok bool) {
	tk := n.GetToken()
	if tk == nil {
		return "", false, false
	}
	switch n := n.(type) {
	case *ast.StringNode:
		plain = tk.Type != token.SingleQuoteType && tk.Type != token.DoubleQuoteType
		return n.Value, plain, true
	case *ast.NullNode:
		if tk.Type == token.ImplicitNullType {
			return "", true, true
		}
		return tk.Value, true, true
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return tk.Value, true, true
	}
	return "", false, false
}

func (c *converter) mapping(n *ast.MappingNode, depth, parent int) (any, error) {
	if depth > MaxDepth {
		return nil, tooLargeAt(n.GetToken(), "nested deeper than %d", MaxDepth)
	}
	m, entries := &Map{}, n.Values
	if len(entries) > 0 {
		first := entries[0].Key.GetToken()
		entries = append(entries, c.rest[first]...)
		delete(c.rest, first)
	}
	for _, entry := range entries {
		tk := entry.Key.GetToken()
		key, _, ok := scalar(entry.Key)
		if !ok {
			return nil, syntaxError(tk, "only scalars without tag and anchor can be keys")
		}
		if !n.IsFlowStyle && tk.Position.Column <= parent {
			// After a tag or an anchor the parser takes the next keys, however
			// little they are indented.
			return nil, syntaxError(tk, "value is not allowed in this context")
		}
		if _, known := m.Get(key); known {
			return nil, syntaxError(tk, "mapping key %q is already defined", shorten(key))
		}
		column := 0
		if !n.IsFlowStyle {
			column = tk.Position.Column
		}
		v, err := c.value(entry.Value, depth+1, column)
		if err != nil {
			return nil, err
		}
		m.Set(key, v)
	}
	return m, nil
}

func (c *converter) sequence(n *ast.SequenceNode, depth int) (any, error) {
	if depth > MaxDepth {
		return nil, tooLargeAt(n.GetToken(), "nested deeper than %d", MaxDepth)
	}
	if len(n.Values) == 0 && !n.IsFlowStyle {
		return nil, syntaxError(n.GetToken(), "sequence entries are missing")
	}
	list := make([]any, 0, len(n.Values))
	for _, item := range n.Values {
		v, err := c.value(item, depth+1, 0)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// anchor converts the value of an anchor, which aliases after it can name.
func (c *converter) anchor(n *ast.AnchorNode, depth, parent int) (any, error) {
	before := c.nodes
	v, err := c.value(n.Value, depth, parent)
	if err != nil {
		return nil, err
	}
	if c.anchors == nil {
		c.anchors = map[string]anchored{}
	}
	c.anchors[anchorName(n.Name)] = anchored{v, c.nodes - before}
	return v, nil
}

func (c *converter) alias(n *ast.AliasNode, depth int) (any, error) {
	name := anchorName(n.Value)
	a, known := c.anchors[name]
	if !known {
		return nil, syntaxError(n.GetToken(), "alias %q has no anchor before it", shorten(name))
	}
	if err := c.count(a.nodes); err != nil {
		return nil, err
	}
	return copyOf(a.value, depth)
}

// anchorName returns the name of an anchor or of an alias.
func anchorName(n ast.Node) string {
	if n == nil || n.GetToken() == nil {
		return ""
	}
	return strings.TrimSpace(n.GetToken().Value)
}

// copyOf copies a value to the given depth.
func copyOf(v any, depth int) (any, error) {
	switch v := v.(type) {
	case *Map:
		if depth > MaxDepth {
			return nil, tooLarge("nested deeper than %d", MaxDepth)
		}
		m := &Map{}
		for _, key := range v.keys {
			item, err := copyOf(v.values[key], depth+1)
			if err != nil {
				return nil, err
			}
			m.Set(key, item)
		}
		return m, nil
	case []any:
		if depth > MaxDepth {
			return nil, tooLarge("nested deeper than %d", MaxDepth)
		}
		list := make([]any, 0, len(v))
		for _, item := range v {
			item, err := copyOf(item, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, item)
		}
		return list, nil
	}
	return v, nil
}

// tag converts a value with one of the core tags, which must be of that kind.
func (c *converter) tag(n *ast.TagNode, depth, parent int) (any, error) {
	tag := n.Start.Value
	if inner, ok := n.Value.(*ast.AnchorNode); ok { // !!str &name value
		return c.anchor(&ast.AnchorNode{BaseNode: inner.BaseNode, Start: inner.Start, Name: inner.Name,
			Value: &ast.TagNode{BaseNode: n.BaseNode, Start: n.Start, Value: inner.Value}}, depth, parent)
	}
	wrong := syntaxError(n.Start, "the value is not what its tag %s says", shorten(tag))
	var v any
	var ok bool
	switch inner := n.Value.(type) {
	case *ast.MappingNode, *ast.SequenceNode:
		v, err := c.value(inner, depth, parent)
		if err != nil {
			return nil, err
		}
		_, isMap := v.(*Map)
		if isMap != (tag == "!!map") || !isMap && tag != "!!seq" {
			return nil, wrong
		}
		return v, nil
	case *ast.LiteralNode:
		text, err := c.value(inner, depth, parent)
		if err != nil {
			return nil, err
		}
		v, ok = text, tag == "!!str"
	default:
		if n.Value == nil || n.Value.GetToken() == nil {
			return nil, wrong
		}
		text, _, isScalar := scalar(n.Value)
		at := n.Value.GetToken().Position
		if at.Line == n.Start.Position.Line && at.Column == n.Start.Position.Column+1 {
			text = "" // the parser made this value up
		}
		v, ok = resolveAs(tag, text)
		ok = ok && isScalar
	}
	if !ok {
		return nil, wrong
	}
	return v, nil
}
