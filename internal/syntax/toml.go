package syntax

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// maxTOMLDepth bounds the nesting of arrays and inline tables.
const maxTOMLDepth = 200

// tomlKind says what a name stands for, which decides what may be added to it.
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

// tomlScanner reads a document line by line.
type tomlScanner struct {
	t       *text
	src     []byte
	pos     int
	depth   int
	root    *tomlNode
	table   *tomlNode // the table that keys go to
	section int       // counts the headers
	stop    bool      // the rest makes no sense any more
}

func inspectTOML(t *text) {
	root := &tomlNode{kind: tomlHeader}
	s := &tomlScanner{t: t, src: t.src, root: root, table: root}
	for s.pos < len(s.src) && !s.stop && !t.full() {
		start := s.pos
		if s.line() && s.lineEnd() {
			continue
		}
		// A mistake inside a single line leaves the next line readable. In a
		// value of many lines there is no telling where it ends.
		if bytes.IndexByte(s.src[start:s.pos], '\n') >= 0 {
			return
		}
		if i := bytes.IndexByte(s.src[s.pos:], '\n'); i >= 0 {
			s.pos += i + 1
		} else {
			s.pos = len(s.src)
		}
	}
}

// fail notes an error and returns false, for callers that give up with it.
func (s *tomlScanner) fail(offset int, format string, args ...any) bool {
	s.t.errorAt(offset, format, args...)
	return false
}

// line reads a header or a key with its value, if the line has one.
func (s *tomlScanner) line() bool {
	s.blanks()
	switch c := s.peek(); {
	case c == 0 && s.pos == len(s.src), c == '\n', c == '\r', c == '#':
		return true
	case c == '[':
		return s.header()
	}
	return s.keyValue(s.table)
}

// lineEnd reads what may follow at the end of a line.
func (s *tomlScanner) lineEnd() bool {
	s.blanks()
	if !s.comment() {
		return false
	}
	if s.pos == len(s.src) || s.newline() {
		return true
	}
	return s.fail(s.pos, "%s where the line should end", s.shown())
}

func (s *tomlScanner) peek() byte {
	if s.pos < len(s.src) {
		return s.src[s.pos]
	}
	return 0
}

func (s *tomlScanner) has(prefix string) bool {
	return bytes.HasPrefix(s.src[s.pos:], []byte(prefix))
}

func (s *tomlScanner) blanks() {
	for s.pos < len(s.src) && (s.src[s.pos] == ' ' || s.src[s.pos] == '\t') {
		s.pos++
	}
}

// newline reads LF or CR LF. A lone CR is not a line end in TOML.
func (s *tomlScanner) newline() bool {
	switch {
	case s.peek() == '\n':
		s.pos++
	case s.has("\r\n"):
		s.pos += 2
	default:
		return false
	}
	return true
}

// shown describes the character at hand for a message.
func (s *tomlScanner) shown() string {
	if s.pos == len(s.src) {
		return "the end of the text"
	}
	if s.peek() == '\n' || s.has("\r\n") {
		return "the end of the line"
	}
	_, size := utf8.DecodeRune(s.src[s.pos:])
	return quoted(s.src[s.pos : s.pos+size])
}

// comment reads a comment if there is one, up to the end of its line.
func (s *tomlScanner) comment() bool {
	if s.peek() != '#' {
		return true
	}
	for s.pos < len(s.src) && s.peek() != '\n' && !s.has("\r\n") {
		if tomlControl(s.src[s.pos]) {
			return s.fail(s.pos, "control character 0x%02x in a comment", s.src[s.pos])
		}
		s.pos++
	}
	return true
}

// tomlControl reports whether c must not stand as such in comments and strings.
func tomlControl(c byte) bool { return c < 0x20 && c != '\t' || c == 0x7f }

// header reads [table] or [[table]].
func (s *tomlScanner) header() bool {
	start := s.pos
	closing := "]"
	if s.has("[[") {
		closing = "]]"
	}
	s.pos += len(closing)
	keys, ok := s.keys()
	if !ok {
		return false
	}
	if !s.has(closing) {
		return s.fail(s.pos, "%q is missing after the name of the table, found %s", closing, s.shown())
	}
	s.pos += len(closing)
	s.section++
	s.openTable(keys, closing == "]]", start)
	return true
}

// openTable makes the table of a header the current one. After a mistake, keys
// go to a table of their own, so that they are still checked.
func (s *tomlScanner) openTable(keys []tomlKey, array bool, start int) {
	s.table = &tomlNode{kind: tomlHeader}
	node := s.root
	for _, k := range keys[:len(keys)-1] {
		node, _ = node.child(k.name, tomlImplicit, s.section, k.offset)
		if node.kind == tomlValue {
			s.fail(k.offset, "%s is a value since line %d, so no table can be inside it", quoted([]byte(k.name)), s.t.lineOf(node.offset))
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
		s.fail(start, "%s is an array of tables since line %d and cannot be a table", quotedKey(keys), s.t.lineOf(node.offset))
		return
	default:
		s.fail(start, "%s is already defined at line %d", quotedKey(keys), s.t.lineOf(node.offset))
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
	return quoted([]byte(strings.Join(names, ".")))
}

// keys reads a key with all its parts.
func (s *tomlScanner) keys() ([]tomlKey, bool) {
	var keys []tomlKey
	for {
		s.blanks()
		start := s.pos
		var name string
		ok := true
		switch s.peek() {
		case '"', '\'':
			if s.has(`"""`) || s.has("'''") {
				return nil, s.fail(start, "a key cannot be a string of several lines")
			}
			name, ok = s.str(s.peek())
		default:
			for s.pos < len(s.src) && tomlBare(s.src[s.pos]) {
				s.pos++
			}
			name = string(s.src[start:s.pos])
			if name == "" {
				return nil, s.fail(start, "a key is expected, found %s", s.shown())
			}
		}
		if !ok {
			return nil, false
		}
		keys = append(keys, tomlKey{name, start})
		s.blanks()
		if s.peek() != '.' {
			return keys, true
		}
		s.pos++
	}
}

func tomlBare(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '-' || c == '_'
}

// keyValue reads "key = value" and puts the key into table.
func (s *tomlScanner) keyValue(table *tomlNode) bool {
	keys, ok := s.keys()
	if !ok {
		return false
	}
	if s.peek() != '=' {
		return s.fail(s.pos, "'=' is missing after the key, found %s", s.shown())
	}
	s.pos++
	s.blanks()
	s.define(table, keys)
	return s.value()
}

// define enters a key. A key may add to a table made by dotted keys, but only
// within the section that made it.
func (s *tomlScanner) define(node *tomlNode, keys []tomlKey) {
	for _, k := range keys[:len(keys)-1] {
		next, fresh := node.child(k.name, tomlDotted, s.section, k.offset)
		if !fresh {
			switch {
			case next.kind == tomlImplicit:
				next.kind, next.section = tomlDotted, s.section
			case next.kind != tomlDotted || next.section != s.section:
				s.fail(k.offset, "a dotted key cannot add to %s, which is defined at line %d", quoted([]byte(k.name)), s.t.lineOf(next.offset))
				return
			}
		}
		node = next
	}
	last := keys[len(keys)-1]
	if old, fresh := node.child(last.name, tomlValue, s.section, last.offset); !fresh {
		s.fail(last.offset, "duplicate key %s, first at line %d", quoted([]byte(last.name)), s.t.lineOf(old.offset))
	}
}

// value reads any value.
func (s *tomlScanner) value() bool {
	switch c := s.peek(); {
	case c == '"' || c == '\'':
		if s.has(`"""`) || s.has("'''") {
			return s.multiLine(c)
		}
		_, ok := s.str(c)
		return ok
	case c == '[' || c == '{':
		if s.depth == maxTOMLDepth {
			s.stop = true
			return s.fail(s.pos, "nested deeper than %d levels; the rest is not checked", maxTOMLDepth)
		}
		s.depth++
		defer func() { s.depth-- }()
		if c == '[' {
			return s.array()
		}
		return s.inlineTable()
	}
	return s.scalar()
}

// array reads an array, which may stretch over lines.
func (s *tomlScanner) array() bool {
	start := s.pos
	s.pos++
	for first := true; ; first = false {
		if !s.arrayGap() {
			return false
		}
		switch {
		case s.pos == len(s.src):
			return s.fail(start, "the array opened at line %d is never closed", s.t.lineOf(start))
		case s.peek() == ']':
			s.pos++
			return true
		case first:
		case s.peek() != ',':
			return s.fail(s.pos, "',' or ']' is expected in the array, found %s", s.shown())
		default:
			s.pos++
			if !s.arrayGap() {
				return false
			}
			if s.peek() == ']' {
				s.pos++
				return true
			}
		}
		if s.pos < len(s.src) && !s.value() {
			return false
		}
	}
}

// arrayGap skips blanks, line ends and comments between the values of an array.
func (s *tomlScanner) arrayGap() bool {
	for {
		s.blanks()
		if !s.comment() {
			return false
		}
		if !s.newline() {
			return true
		}
	}
}

// inlineTable reads an inline table, which stays on one line in TOML 1.0.
func (s *tomlScanner) inlineTable() bool {
	start := s.pos
	s.pos++
	s.blanks()
	if s.peek() == '}' {
		s.pos++
		return true
	}
	// Dotted keys may add to each other within these braces only.
	outer := s.section
	defer func() { s.section = outer }()
	s.section = -start - 1
	table := &tomlNode{kind: tomlHeader}
	for {
		s.blanks()
		if !s.keyValue(table) {
			return false
		}
		s.blanks()
		switch s.peek() {
		case '}':
			s.pos++
			return true
		case ',':
			comma := s.pos
			s.pos++
			s.blanks()
			if s.peek() == '}' {
				return s.fail(comma, "trailing comma in an inline table")
			}
		default:
			return s.fail(s.pos, "',' or '}' is expected in the inline table opened at line %d, found %s", s.t.lineOf(start), s.shown())
		}
	}
}
