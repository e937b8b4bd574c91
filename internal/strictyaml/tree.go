package strictyaml

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/resilientwrite/resilientwrite/internal/visible"
)

type document = ast.DocumentNode

// treeMaker makes the tree and remembers which tokens are in it.
type treeMaker struct {
	r     *reader
	seen  map[*token.Token]bool
	named map[string]*Node                         // the last value of each anchor
	rest  map[*token.Token][]*ast.MappingValueNode // entries by the first key of their mapping
	depth int
}

// document makes the tree of the document and of the runs after it.
func (t *treeMaker) document(tokens token.Tokens, runs []run) (root *Node) {
	docs, ok := t.r.parse(runs[0].tokens)
	if !ok || !t.parseRest(runs[1:]) {
		return nil
	}
	for _, doc := range docs {
		if root != nil && !t.r.profile.Any {
			t.unreadable(doc.Body.GetToken())
			return nil
		}
		root = t.node(doc.Body, nil)
	}
	for _, r := range runs[1:] {
		if t.rest[r.first] != nil {
			t.unreadable(r.tokens[0])
			return nil
		}
	}
	if len(t.r.problems) == 0 {
		t.complete(tokens)
	}
	return root
}

// parseRest parses the runs after the document.
func (t *treeMaker) parseRest(runs []run) bool {
	t.rest = map[*token.Token][]*ast.MappingValueNode{}
	for _, r := range runs {
		docs, ok := t.r.parse(r.tokens)
		if !ok {
			return false
		}
		if len(docs) == 1 {
			switch n := docs[0].Body.(type) {
			case *ast.MappingNode:
				t.rest[r.first] = append(t.rest[r.first], n.Values...)
				continue
			case *ast.MappingValueNode:
				t.rest[r.first] = append(t.rest[r.first], n)
				continue
			}
		}
		t.unreadable(r.tokens[0])
		return false
	}
	return true
}

// unreadable reports a token that is not in the tree.
func (t *treeMaker) unreadable(tk *token.Token) *Node {
	t.r.refuse(tk, "not valid YAML: this is not allowed here", "")
	return nil
}

// node makes the tree of one value; key is the key or the dash it belongs to, if any.
// It returns nil after reporting a value that cannot be read.
func (t *treeMaker) node(n ast.Node, key *Node) *Node {
	if n == nil || n.GetToken() == nil {
		t.r.add(place{1, 1}, Syntax, "not valid YAML: a value is missing", "")
		return nil
	}
	if most := t.r.profile.MaxDepth; most > 0 && t.depth > 2*most+maxProperties {
		t.r.add(t.r.at(n.GetToken()), TooDeep, fmt.Sprintf("nested deeper than %d levels", most), "")
		return nil
	}
	t.depth++
	defer func() { t.depth-- }()
	at := t.r.at(n.GetToken())
	out := &Node{Line: at.line, Column: at.column}
	switch n := n.(type) {
	case *ast.MappingNode:
		return t.mapping(out, n.Values, n.IsFlowStyle)
	case *ast.MappingValueNode:
		return t.mapping(out, []*ast.MappingValueNode{n}, n.IsFlowStyle)
	case *ast.SequenceNode:
		return t.list(out, n)
	case *ast.AnchorNode:
		return t.property(n.Value, key, n.Start, func(v *Node) {
			v.Anchor = t.name(n.Name)
			t.named[v.Anchor] = v
		})
	case *ast.TagNode:
		return t.property(n.Value, key, n.Start, func(v *Node) { v.Tag = n.Start.Value })
	case *ast.MappingKeyNode:
		v := t.node(n.Value, nil)
		if v != nil {
			v.Line, v.Column = at.line, at.column
		}
		return v
	case *ast.AliasNode:
		out.Kind, out.Text = Alias, t.name(n.Value)
		out.Target = t.named[out.Text]
		return out
	}
	return t.scalar(out, n, key)
}

// name returns the name of an anchor or of an alias.
func (t *treeMaker) name(n ast.Node) string {
	if n == nil || n.GetToken() == nil {
		return ""
	}
	t.seen[n.GetToken()] = true
	return strings.TrimSpace(n.GetToken().Value)
}

// property makes the tree of a value with an anchor or a tag.
func (t *treeMaker) property(n ast.Node, key *Node, start *token.Token, set func(*Node)) *Node {
	at := t.r.at(start)
	v := &Node{Plain: true}
	if n != nil && n.GetToken() != nil {
		if _, real := t.r.places[n.GetToken()]; real || n.Type() == ast.MappingType || n.Type() == ast.SequenceType {
			if v = t.node(n, key); v == nil || key != nil && t.misplaced(key, v) {
				return nil
			}
		}
	}
	v.Line, v.Column = at.line, at.column
	set(v)
	return v
}

// misplaced reports a value after a tag or an anchor that is not indented: the parser
// takes the next keys at any column. With Any, these are left to it: the value is
// empty.
func (t *treeMaker) misplaced(key, v *Node) bool {
	bad := v.Line > key.Line && (v.Column < key.Column || v.Column == key.Column && v.Kind != List) && !(t.r.profile.Any && v.Kind == Map)
	if bad {
		t.notIndented(key, v)
	}
	return bad
}

func (t *treeMaker) notIndented(key, v *Node) {
	t.r.add(place{v.Line, v.Column}, Syntax, fmt.Sprintf("not valid YAML: the value of %q is not indented", visible.Cut(key.Text, 60)), "indent it deeper than its key")
}

// list makes the tree of a list.
func (t *treeMaker) list(out *Node, n *ast.SequenceNode) *Node {
	out.Kind = List
	if len(n.Values) == 0 && !n.IsFlowStyle {
		return t.unreadable(n.GetToken())
	}
	for i, v := range n.Values {
		var dash *Node
		if !n.IsFlowStyle && i < len(n.Entries) {
			at := t.r.at(n.Entries[i].Start)
			dash = &Node{Line: at.line, Column: at.column}
		}
		item := t.node(v, dash)
		if item == nil {
			continue
		}
		if dash != nil && item.Line > dash.Line && item.Column <= dash.Column {
			t.r.add(place{item.Line, item.Column}, Syntax, "not valid YAML: the item of a list is not indented", "indent it deeper than its dash")
		}
		out.Items = append(out.Items, item)
	}
	return out
}

// mapping makes the tree of a mapping. A block mapping has the position of its
// first key, as its own token is the first colon.
func (t *treeMaker) mapping(out *Node, values []*ast.MappingValueNode, flow bool) *Node {
	out.Kind = Map
	if len(values) > 0 {
		first := values[0].Key.GetToken()
		values = append(values, t.rest[first]...)
		delete(t.rest, first)
	}
	lines := map[string]int{}
	for i, v := range values {
		if _, block := v.Key.(*ast.LiteralNode); block {
			return t.unreadable(v.Key.GetToken())
		}
		if _, merge := v.Key.(*ast.MergeKeyNode); merge {
			t.node(v.Value, nil)
			continue
		}
		key := t.node(v.Key, nil)
		if key == nil {
			continue
		}
		value := t.node(v.Value, key)
		if value == nil {
			continue
		}
		if i == 0 && !flow {
			out.Line, out.Column = key.Line, key.Column
		}
		least := key.Column + 1
		if s, ok := v.Value.(*ast.SequenceNode); ok && !s.IsFlowStyle {
			least = key.Column
		}
		if !flow && value.Line > key.Line && value.Column < least && (value.Kind < List || !t.r.profile.Any) {
			t.notIndented(key, value)
		}
		if key.Kind < List {
			if line, twice := lines[key.Text]; twice {
				t.r.add(place{key.Line, key.Column}, Duplicate, fmt.Sprintf("mapping key %q is already defined at line %d", visible.Cut(key.Text, 60), t.r.line(line)), "keep one of them")
				continue
			}
			lines[key.Text] = key.Line
		}
		out.Fields = append(out.Fields, Field{key, value})
	}
	return out
}

// scalar makes a node of a single value.
func (t *treeMaker) scalar(out *Node, n ast.Node, key *Node) *Node {
	tk := n.GetToken()
	out.Text, out.Plain = tk.Value, true
	switch n := n.(type) {
	case *ast.StringNode:
		out.Kind, out.Text = Text, n.Value
		out.Plain = tk.Type != token.SingleQuoteType && tk.Type != token.DoubleQuoteType
		out.Folded = out.Plain && strings.Contains(strings.TrimSpace(tk.Origin), "\n")
	case *ast.LiteralNode:
		out.Kind, out.Text, out.Plain = Text, "", false
		if n.Value != nil {
			out.Text, tk = n.Value.Value, n.Value.GetToken()
		}
	case *ast.IntegerNode:
		out.Kind = Integer
	case *ast.FloatNode:
		out.Kind = Decimal
	case *ast.BoolNode:
		out.Kind = Bool
	case *ast.InfinityNode, *ast.NanNode:
		out.Kind = Special
	case *ast.NullNode:
		if tk.Type == token.ImplicitNullType {
			out.Text = ""
			if key != nil { // there is nothing to point at
				out.Line, out.Column = key.Line, key.Column
			}
		}
	case *ast.DirectiveNode:
	default:
		return t.unreadable(tk)
	}
	t.seen[tk] = true
	return out
}

// complete reports the first value that the parser left out of its tree.
func (t *treeMaker) complete(tokens token.Tokens) {
	aside := 0
	for _, tk := range tokens {
		switch tk.Type {
		case token.DirectiveType:
			aside = tk.Position.Line
		case token.StringType, token.SingleQuoteType, token.DoubleQuoteType, token.BoolType, token.NullType,
			token.IntegerType, token.BinaryIntegerType, token.OctetIntegerType, token.HexIntegerType,
			token.FloatType, token.InfinityType, token.NanType:
			if !t.seen[tk] && aside != tk.Position.Line {
				t.unreadable(tk)
				return
			}
		}
	}
}
