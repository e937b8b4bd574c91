package syntax

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// maxTOMLDepth bounds the nesting of arrays and inline tables, for which the
// parser calls itself.
const maxTOMLDepth = 200

// tomlKind is the kind of value that a name has, which decides what may be added to it.
type tomlKind int

const (
	tomlImplicit tomlKind = iota // a table named only as part of a header
	tomlHeader                   // a table with its own header
	tomlDotted                   // a table made by a dotted key
	tomlArray                    // an array of tables
	tomlValue                    // any value, an inline table as well
)

// tomlNode is one name of the document.
type tomlNode struct {
	kind    tomlKind
	kids    map[string]*tomlNode
	section int // the section a tomlDotted table was made in
	offset  int
}

// child returns the name below n, which is made with the given kind if it is
// new. For an array of tables the name is below its last table.
func (n *tomlNode) child(name string, kind tomlKind, section, offset int) (kid *tomlNode, fresh bool) {
	if kid, ok := n.kids[name]; ok {
		return kid, false
	}
	kid = &tomlNode{kind: kind, section: section, offset: offset}
	if n.kids == nil {
		n.kids = map[string]*tomlNode{}
	}
	n.kids[name] = kid
	return kid, true
}

// tomlKey is one part of a dotted key.
type tomlKey struct {
	name   string
	offset int
}

// tomlReader checks the rules that the parser of go-toml leaves to its decoder. The
// decoder searches for each key among all keys of its table, which takes quadratic
// time.
type tomlReader struct {
	t       *text
	p       unstable.Parser
	root    *tomlNode
	table   *tomlNode // the table that keys go to
	section int       // of the header or the inline table
	count   int       // of the sections
}

func inspectTOML(t *text) {
	if at := tomlTooDeep(t.src); at >= 0 {
		t.errorAt(at, "nested deeper than %d levels; the text is not checked", maxTOMLDepth)
		return
	}
	root := &tomlNode{kind: tomlHeader}
	s := &tomlReader{t: t, root: root, table: root}
	s.p.Reset(t.src)
	for s.p.NextExpression() && !t.full() {
		switch n := s.p.Expression(); n.Kind {
		case unstable.Table, unstable.ArrayTable:
			s.count++
			s.section = s.count
			s.openTable(s.keys(n), n.Kind == unstable.ArrayTable)
		case unstable.KeyValue:
			s.define(s.table, s.keys(n))
			s.value(n.Value())
		}
	}
	var bad *unstable.ParserError
	if errors.As(s.p.Error(), &bad) {
		message := bad.Message
		if message == "incomplete number" {
			message = "a value is expected; strings must be in quotes"
		}
		s.t.errorAt(int(s.p.Range(bad.Highlight).Offset), "%s", message)
	}
}

// tomlBrackets finds brackets, and the strings and comments that may hold some.
var tomlBrackets = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?s)\'\'\'.*?\'\'\'|"""(?:\\.|[^\\])*?"""|\'[^\'\n]*\'|"(?:\\.|[^"\\\n])*"|#[^\n]*|[\[{\]}]`)
})

// tomlTooDeep returns the first bracket that is nested too deep, or -1.
func tomlTooDeep(src []byte) int {
	if bytes.Count(src, []byte("["))+bytes.Count(src, []byte("{")) <= maxTOMLDepth {
		return -1
	}
	depth := 0
	for pos := 0; ; {
		m := tomlBrackets().FindIndex(src[pos:])
		if m == nil {
			return -1
		}
		switch src[pos+m[0]] {
		case '[', '{':
			if depth++; depth > maxTOMLDepth {
				return pos + m[0]
			}
		case ']', '}':
			depth = max(0, depth-1)
		}
		pos += m[1]
	}
}

// keys returns the parts of the key of a header or of a value.
func (s *tomlReader) keys(n *unstable.Node) (keys []tomlKey) {
	for it := n.Key(); it.Next(); {
		keys = append(keys, tomlKey{string(it.Node().Data), int(it.Node().Raw.Offset)})
	}
	return keys
}

// value checks the numbers and times within a value, and the keys of its inline
// tables, to which dotted keys may add within their braces only.
func (s *tomlReader) value(n *unstable.Node) {
	switch n.Kind {
	case unstable.Array:
		for it := n.Children(); it.Next(); {
			s.value(it.Node())
		}
	case unstable.InlineTable:
		outer := s.section
		s.count++
		s.section = s.count
		table := &tomlNode{kind: tomlHeader}
		for it := n.Children(); it.Next(); {
			s.define(table, s.keys(it.Node()))
			s.value(it.Node().Value())
		}
		s.section = outer
	case unstable.Integer, unstable.Float, unstable.LocalDate, unstable.LocalTime, unstable.LocalDateTime, unstable.DateTime:
		var v struct{ A any }
		var bad *toml.DecodeError
		if err := toml.Unmarshal(append([]byte("A = "), n.Data...), &v); errors.As(err, &bad) {
			s.t.errorAt(int(s.p.Range(n.Data).Offset), "%s", strings.TrimPrefix(bad.Error(), "toml: "))
		}
	}
}

// openTable makes the table of a header the current one. After a mistake, keys
// go to a table of their own, so that they are still checked.
func (s *tomlReader) openTable(keys []tomlKey, array bool) {
	start := keys[0].offset
	s.table = &tomlNode{kind: tomlHeader}
	node := s.root
	for _, k := range keys[:len(keys)-1] {
		node, _ = node.child(k.name, tomlImplicit, s.section, k.offset)
		if node.kind == tomlValue {
			s.t.errorAt(k.offset, "%s is a value since line %d, so no table can be inside it", quoted(k.name), s.t.lineOf(node.offset))
			return
		}
	}
	last := keys[len(keys)-1]
	kind := tomlHeader
	if array {
		kind = tomlArray
	}
	node, fresh := node.child(last.name, kind, s.section, start)
	switch {
	case fresh:
	case array && node.kind == tomlArray:
		// A new element of the array starts empty.
		node.kids = nil
	case !array && node.kind == tomlImplicit:
		node.kind, node.offset = tomlHeader, start
	case node.kind == tomlArray:
		s.t.errorAt(start, "%s is an array of tables since line %d and cannot be a table", quotedKey(keys), s.t.lineOf(node.offset))
		return
	default:
		s.t.errorAt(start, "%s is already defined at line %d", quotedKey(keys), s.t.lineOf(node.offset))
		return
	}
	s.table = node
}

// quotedKey shows a dotted key in a message.
func quotedKey(keys []tomlKey) string {
	var names []string
	for _, k := range keys[:min(len(keys), 10)] {
		names = append(names, k.name)
	}
	return quoted(strings.Join(names, "."))
}

// define enters a key. A key may add to a table made by dotted keys, but only
// within the section that made it.
func (s *tomlReader) define(node *tomlNode, keys []tomlKey) {
	for _, k := range keys[:len(keys)-1] {
		next, fresh := node.child(k.name, tomlDotted, s.section, k.offset)
		if !fresh {
			switch {
			case next.kind == tomlImplicit:
				next.kind, next.section = tomlDotted, s.section
			case next.kind != tomlDotted || next.section != s.section:
				s.t.errorAt(k.offset, "a dotted key cannot add to %s, which is defined at line %d", quoted(k.name), s.t.lineOf(next.offset))
				return
			}
		}
		node = next
	}
	last := keys[len(keys)-1]
	if old, fresh := node.child(last.name, tomlValue, s.section, last.offset); !fresh {
		s.t.errorAt(last.offset, "duplicate key %s, first at line %d", quoted(last.name), s.t.lineOf(old.offset))
	}
}
