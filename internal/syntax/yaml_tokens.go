package syntax

import "bytes"

// yamlKind is a kind of token of the second reading of a YAML text.
type yamlKind uint8

const (
	yamlNothing yamlKind = iota // a place where a mapping and its key may turn out to start
	yamlDirective
	yamlDocument // ---
	yamlBlockSequence
	yamlBlockMapping
	yamlBlockEnd
	yamlEntry // the dash of a block sequence
	yamlKey
	yamlValue
	yamlOpenSquare
	yamlCloseSquare
	yamlOpenBrace
	yamlCloseBrace
	yamlComma
	yamlAnchor
	yamlAlias
	yamlTag
	yamlScalar
	yamlEnd
)

type yamlToken struct {
	kind   yamlKind
	offset int
}

// yamlSimpleKey is a node that may turn out to be the key of a mapping, once a
// colon follows it.
type yamlSimpleKey struct {
	possible bool
	required bool // it stands where only a key can
	tabbed   bool // there is a tab in the indentation of its line
	token    int  // the place that was left for it among the tokens
	offset   int
	column   int
	line     int
}

// yamlScanner reads one document with the rules of the YAML specification for
// where tokens may stand. The parser of the library lets much pass, such as
// brackets that close nothing and quotes that are never closed. It stops at the
// first mistake.
type yamlScanner struct {
	t         *text
	src       []byte // the document
	base      int    // its offset in the text
	pos       int
	line      int
	lineStart int

	tokens  []yamlToken
	indent  int // the column of the innermost block collection, or -1
	indents []int
	flow    int             // the number of open brackets
	keys    []yamlSimpleKey // one for the block context and one for each bracket
	keyable bool            // a simple key may start here
	tabbed  bool            // the token at hand is the first of its line, behind a tab
	json    bool            // the last token was a string in quotes or a closing bracket
	anchors map[string]bool
	failed  bool
}

// yamlShape checks the document between two offsets of a text.
func yamlShape(t *text, start, end int) {
	s := &yamlScanner{t: t, src: t.src[start:end], base: start, indent: -1, keyable: true, anchors: map[string]bool{}}
	s.keys = make([]yamlSimpleKey, 1)
	for !s.failed && s.next() {
	}
	if s.failed {
		return
	}
	s.unwind(-1)
	s.dropKey()
	s.add(yamlEnd)
	if !s.failed {
		g := yamlGrammar{s: s}
		g.document()
	}
}

// fail notes the first mistake.
func (s *yamlScanner) fail(offset int, format string, args ...any) {
	if !s.failed {
		s.t.errorAt(s.base+offset, format, args...)
	}
	s.failed = true
}

func (s *yamlScanner) at(i int) byte {
	if i < len(s.src) {
		return s.src[i]
	}
	return 0
}

func (s *yamlScanner) column() int { return s.pos - s.lineStart }

func (s *yamlScanner) add(kind yamlKind) {
	s.tokens = append(s.tokens, yamlToken{kind, s.pos})
}

// newline passes a line end: LF, CR LF or a lone CR.
func (s *yamlScanner) newline() bool {
	switch {
	case s.at(s.pos) == '\n':
		s.pos++
	case s.at(s.pos) != '\r':
		return false
	case s.at(s.pos+1) == '\n':
		s.pos += 2
	default:
		s.pos++
	}
	s.line++
	s.lineStart = s.pos
	return true
}

// blankAt reports whether a blank, a line end or the end of the document is at i.
func (s *yamlScanner) blankAt(i int) bool {
	return i >= len(s.src) || s.src[i] == ' ' || s.src[i] == '\t' || s.src[i] == '\n' || s.src[i] == '\r'
}

// endsPlain reports whether an indicator that i follows stands for itself, and
// is not the start of a plain scalar.
func (s *yamlScanner) endsPlain(i int) bool {
	return s.blankAt(i) || s.flow > 0 && bytes.IndexByte([]byte(",[]{}"), s.src[i]) >= 0
}

// gap passes blanks, comments and line ends up to the next token.
func (s *yamlScanner) gap() {
	if s.pos == 0 && bytes.HasPrefix(s.src, utf8Mark) {
		s.pos += len(utf8Mark)
		s.lineStart = s.pos
	}
	leading := s.pos == s.lineStart
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; c {
		case ' ':
			s.pos++
		case '\t':
			s.tabbed = leading
			s.pos++
		case '#':
			s.skipLine()
		case '\n', '\r':
			s.newline()
			s.tabbed, leading = false, true
			if s.flow == 0 {
				s.keyable = true
			}
		default:
			return
		}
	}
}

// skipLine moves to the end of the line.
func (s *yamlScanner) skipLine() {
	for s.pos < len(s.src) && s.src[s.pos] != '\n' && s.src[s.pos] != '\r' {
		s.pos++
	}
}

// next reads one token and says whether there was any.
func (s *yamlScanner) next() bool {
	from := s.pos
	s.gap()
	defer func() { s.t.looked(s.pos - from + 1) }()
	s.staleKey()
	s.unwind(s.column())
	if s.pos == len(s.src) || s.failed {
		return false
	}
	json := s.json
	s.json = false
	if s.column() == 0 && s.marker() {
		return true
	}
	switch c := s.src[s.pos]; {
	case c == '[' || c == '{':
		s.openBracket(c)
	case c == ']' || c == '}':
		s.closeBracket(c)
	case c == ',' && s.flow > 0:
		s.dropKey()
		s.keyable = true
		s.single(yamlComma)
	case c == '-' && s.endsPlain(s.pos+1):
		s.blockEntry()
	case c == '?' && s.endsPlain(s.pos+1):
		s.explicitKey()
	case c == ':' && (s.endsPlain(s.pos+1) || s.flow > 0 && json):
		s.value()
	case c == '*' || c == '&':
		s.reference(c)
	case c == '!':
		s.tag()
	case (c == '|' || c == '>') && s.flow == 0:
		s.blockScalar()
	case c == '"' || c == '\'':
		s.saveKey()
		s.keyable, s.json = false, true
		s.add(yamlScalar)
		s.quoted(c)
	case bytes.IndexByte([]byte(",|>@`%"), c) >= 0:
		s.fail(s.pos, "no value starts with %q here; text that does must be in quotes", c)
	default:
		s.saveKey()
		s.add(yamlScalar)
		s.plain()
	}
	s.tabbed = false
	return true
}

// single adds a token of one character.
func (s *yamlScanner) single(kind yamlKind) {
	s.add(kind)
	s.pos++
}

// marker reads what only the start of a line can hold: a directive, --- or ....
func (s *yamlScanner) marker() bool {
	rest := s.src[s.pos:]
	started := len(s.tokens) > 0 && s.tokens[len(s.tokens)-1].kind != yamlDirective
	switch {
	case rest[0] == '%' && !started && s.flow == 0:
		s.add(yamlDirective)
		s.skipLine()
	case bytes.HasPrefix(rest, []byte("---")) && s.blankAt(s.pos+3) && s.flow == 0:
		// Where lines end with a lone CR, the text has not been cut before it.
		s.unwind(-1)
		s.add(yamlDocument)
		s.anchors = map[string]bool{}
		s.pos += len("---")
		s.keyable = false
	case bytes.HasPrefix(rest, []byte("...")) && s.blankAt(s.pos+3) && s.flow == 0:
		s.unwind(-1)
		s.pos += len("...")
	default:
		return false
	}
	return true
}

// saveKey leaves room for a mapping and its key before the node at hand.
func (s *yamlScanner) saveKey() {
	if !s.keyable {
		return
	}
	s.dropKey()
	s.keys[s.flow] = yamlSimpleKey{
		possible: true, required: s.flow == 0 && s.indent == s.column(), tabbed: s.tabbed,
		token: len(s.tokens), offset: s.pos, column: s.column(), line: s.line,
	}
	s.add(yamlNothing)
	s.add(yamlNothing)
}

// staleKey gives up the possible key of the block context at the end of its
// line. Between brackets a key may go on over lines.
func (s *yamlScanner) staleKey() {
	if s.flow == 0 && s.keys[0].line != s.line {
		s.dropKey()
	}
}

func (s *yamlScanner) dropKey() {
	key := &s.keys[s.flow]
	if key.possible && key.required {
		s.fail(key.offset, "a ':' is missing after this key")
	}
	key.possible = false
}

// unwind ends the block collections that are indented further than column.
func (s *yamlScanner) unwind(column int) {
	for s.flow == 0 && s.indent > column {
		s.indent = s.indents[len(s.indents)-1]
		s.indents = s.indents[:len(s.indents)-1]
		s.add(yamlBlockEnd)
	}
}

// deeper starts a block collection at a column, unless it is at hand already.
func (s *yamlScanner) deeper(column int) bool {
	if s.flow > 0 || s.indent >= column {
		return false
	}
	s.indents = append(s.indents, s.indent)
	s.indent = column
	return true
}

func (s *yamlScanner) openBracket(c byte) {
	s.saveKey()
	kind := yamlOpenSquare
	if c == '{' {
		kind = yamlOpenBrace
	}
	s.single(kind)
	s.flow++
	s.keys = append(s.keys, yamlSimpleKey{})
	s.keyable = true
}

func (s *yamlScanner) closeBracket(c byte) {
	if s.flow == 0 {
		s.fail(s.pos, "%q closes nothing", c)
		return
	}
	s.dropKey()
	s.keys = s.keys[:s.flow]
	s.flow--
	s.keyable, s.json = false, true
	kind := yamlCloseSquare
	if c == '}' {
		kind = yamlCloseBrace
	}
	s.single(kind)
}

// indented reports a tab before what opens a block collection.
func (s *yamlScanner) indented(tabbed bool) {
	if tabbed && s.flow == 0 {
		s.fail(s.pos, "a tab in the indentation of this line; YAML indents with spaces")
	}
}

func (s *yamlScanner) blockEntry() {
	switch {
	case s.flow > 0:
		s.fail(s.pos, "a '-' entry cannot stand between brackets")
	case !s.keyable:
		s.fail(s.pos, "a '-' entry cannot start here, behind something else on its line")
	}
	s.indented(s.tabbed)
	if s.deeper(s.column()) {
		s.add(yamlBlockSequence)
	}
	s.dropKey()
	s.keyable = true
	s.single(yamlEntry)
}

func (s *yamlScanner) explicitKey() {
	if s.flow == 0 && !s.keyable {
		s.fail(s.pos, "a '?' key cannot start here, behind something else on its line")
	}
	s.indented(s.tabbed)
	if s.deeper(s.column()) {
		s.add(yamlBlockMapping)
	}
	s.dropKey()
	s.keyable = s.flow == 0
	s.single(yamlKey)
}

// value reads the colon between a key and its value.
func (s *yamlScanner) value() {
	if key := &s.keys[s.flow]; key.possible {
		key.possible = false
		s.indented(key.tabbed)
		if s.deeper(key.column) {
			s.tokens[key.token] = yamlToken{yamlBlockMapping, key.offset}
		}
		s.tokens[key.token+1] = yamlToken{yamlKey, key.offset}
		s.keyable = false
		s.single(yamlValue)
		return
	}
	if s.flow == 0 {
		if !s.keyable {
			s.fail(s.pos, "a ':' where there is no key for it; text that holds \": \" must be in quotes")
		}
		s.indented(s.tabbed)
		if s.deeper(s.column()) {
			s.add(yamlBlockMapping)
		}
	}
	s.keyable = s.flow == 0
	s.single(yamlValue)
}
