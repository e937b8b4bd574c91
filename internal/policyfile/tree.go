package policyfile

import (
	"errors"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// nodeKind is what a value of YAML is.
type nodeKind int

const (
	nothing nodeKind = iota
	text
	wholeNumber
	decimal
	boolean
	otherNumber // infinity, not a number
	list
	mapping
)

// String names the kind for a message.
func (k nodeKind) String() string {
	return [...]string{"nothing", "text", "a number", "a number with a fraction", "true or false", "a special number", "a list", "a mapping"}[k]
}

// node is one value of the file, with its position and with what the check
// made of it.
type node struct {
	kind         nodeKind
	line, column int
	text         string // of a scalar
	folded       bool   // plain text over more than one line
	fields       []field
	items        []*node

	value any              // what the check read: string, int64, float64, bool or time.Duration
	known map[string]*node // the fields that have a key of the table, or a family's name
}

// field is one key of a mapping and its value.
type field struct{ key, value *node }

// read makes the tree of the file. It returns nil when there is no document,
// and when there are problems.
func (c *checker) read() (root *node) {
	defer func() {
		if r := recover(); r != nil {
			root = nil
			c.addAt(1, 1, BadYAML, "the YAML parser could not read the file", "")
		}
	}()
	tokens, ok := c.tokens()
	if !ok {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		c.syntax(err)
		return nil
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil && body == nil {
			body = doc.Body
		} else if doc.Body != nil {
			return c.unreadable(doc.Body.GetToken())
		}
	}
	t := treeMaker{c: c, seen: map[*token.Token]bool{}}
	if body != nil {
		root = t.node(body, nil, 0)
	}
	if len(c.problems) == 0 {
		t.complete(tokens)
	}
	return root
}

// syntax reports an error of the YAML parser.
func (c *checker) syntax(err error) {
	var at interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if !errors.As(err, &at) || at.GetToken() == nil || at.GetToken().Position == nil {
		message, _, _ := strings.Cut(err.Error(), "\n")
		c.addAt(1, 1, BadYAML, "not valid YAML: "+message, "")
		return
	}
	t, hint := at.GetToken(), ""
	switch p := t.Prev; {
	case strings.Contains(at.GetMessage(), "escape"):
		hint = "write regular expressions in single quotes"
	case strings.Contains(at.GetMessage(), "cannot start any token") && strings.Contains(t.Origin, "\t"):
		hint = "indent with spaces"
	case p != nil && (p.Type == token.SequenceEndType || p.Type == token.MappingEndType) && p.Position.Line == t.Position.Line:
		hint = "put a text that begins with [ or { in quotes"
	}
	c.addToken(t, BadYAML, "not valid YAML: "+at.GetMessage(), hint)
}

// unreadable reports a token that did not come into the tree.
func (c *checker) unreadable(t *token.Token) *node {
	c.addToken(t, BadYAML, "not valid YAML: this cannot stand here", "")
	return nil
}

// treeMaker makes the tree and remembers which tokens are in it.
type treeMaker struct {
	c    *checker
	seen map[*token.Token]bool
}

// node makes the tree of one value; key is the key or the dash it belongs to,
// if any. It returns nil after reporting what a policy cannot contain.
func (t *treeMaker) node(n ast.Node, key *node, depth int) *node {
	tk := n.GetToken()
	at := t.c.place(tk)
	out := &node{line: at.line, column: at.column}
	if depth > 2*MaxDepth {
		t.c.tooDeep(out.line, out.column)
		return nil
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		return t.mapping(out, n.Values, n.IsFlowStyle, depth)
	case *ast.MappingValueNode:
		return t.mapping(out, []*ast.MappingValueNode{n}, n.IsFlowStyle, depth)
	case *ast.SequenceNode:
		out.kind = list
		for i, v := range n.Values {
			var dash *node
			if !n.IsFlowStyle && i < len(n.Entries) {
				at := t.c.place(n.Entries[i].Start)
				dash = &node{line: at.line, column: at.column}
			}
			if item := t.node(v, dash, depth+1); item != nil {
				if dash != nil && item.line > dash.line && item.column <= dash.column {
					t.c.add(item, BadYAML, "not valid YAML: the item of a list is not indented", "indent it deeper than its dash")
				}
				out.items = append(out.items, item)
			}
		}
		return out
	}
	return t.scalar(out, n, key)
}

// mapping makes the tree of a mapping. A block mapping has the position of
// its first key, as its own token is the first colon.
func (t *treeMaker) mapping(out *node, values []*ast.MappingValueNode, flow bool, depth int) *node {
	out.kind = mapping
	for i, v := range values {
		if _, block := v.Key.(*ast.LiteralNode); block {
			return t.c.unreadable(v.Key.GetToken())
		}
		key := t.node(v.Key, nil, depth+1)
		if key == nil {
			continue
		}
		value := t.node(v.Value, key, depth+1)
		if value == nil {
			continue
		}
		if i == 0 && !flow {
			out.line, out.column = key.line, key.column
		}
		least := key.column + 1
		if s, ok := v.Value.(*ast.SequenceNode); ok && !s.IsFlowStyle {
			least = key.column
		}
		if !flow && value.line > key.line && value.column < least {
			t.c.add(value, BadYAML, "not valid YAML: the value of "+clip(key.text)+" is not indented", "indent it deeper than its key")
		}
		out.fields = append(out.fields, field{key, value})
	}
	return out
}

// scalar makes a node of a single value.
func (t *treeMaker) scalar(out *node, n ast.Node, key *node) *node {
	tk := n.GetToken()
	out.text = tk.Value
	switch n := n.(type) {
	case *ast.StringNode:
		out.kind, out.text = text, n.Value
		plain := tk.Type == token.StringType
		out.folded = plain && strings.Contains(strings.TrimSpace(tk.Origin), "\n")
	case *ast.LiteralNode:
		out.kind, out.text = text, n.Value.Value
		tk = n.Value.GetToken()
	case *ast.IntegerNode:
		out.kind = wholeNumber
	case *ast.FloatNode:
		out.kind = decimal
	case *ast.BoolNode:
		out.kind = boolean
	case *ast.InfinityNode, *ast.NanNode:
		out.kind = otherNumber
	case *ast.NullNode:
		out.kind = nothing
		if key != nil && tk.Type == token.ImplicitNullType {
			out.line, out.column = key.line, key.column // there is nothing to point at
		}
	default:
		return t.c.unreadable(tk)
	}
	t.seen[tk] = true
	return out
}

// complete reports the first value that the parser left out of its tree, if
// it did so: nothing of a policy may be passed over.
func (t *treeMaker) complete(tokens token.Tokens) {
	for _, tk := range tokens {
		switch tk.Type {
		case token.StringType, token.SingleQuoteType, token.DoubleQuoteType, token.BoolType, token.NullType,
			token.IntegerType, token.BinaryIntegerType, token.OctetIntegerType, token.HexIntegerType,
			token.FloatType, token.InfinityType, token.NanType:
			if !t.seen[tk] {
				t.c.unreadable(tk)
				return
			}
		}
	}
}
