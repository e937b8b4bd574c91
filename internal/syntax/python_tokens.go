package syntax

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// maxPythonDepth is the number of open brackets at which CPython stops.
const maxPythonDepth = 200

type pyKind uint8

const (
	pyName pyKind = iota
	pyKeyword
	pyNumber
	pyString
	pyOp
)

// pyToken is one token of a logical line.
type pyToken struct {
	kind       pyKind
	start, end int
	depth      int    // of the brackets around it; a bracket is outside itself
	text       string // "" for a string
}

// pyBracket is a bracket that is still open.
type pyBracket struct {
	closing byte
	offset  int
}

// pyScanner cuts the text into logical lines of tokens.
type pyScanner struct {
	t        *text
	src      string
	pos      int
	level    int // of the f-strings around the place
	brackets []pyBracket
	line     []pyToken
	broken   bool // the logical line has a mistake in its tokens
	stop     bool // the rest makes no sense any more
}

var pyKeywords = nameSet(`False None True and as assert async await break class continue def del elif else
	except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield`)

// pyOperators lists the operators of more than one character, longest first.
var pyOperators = []string{
	"**=", "//=", ">>=", "<<=", "...",
	"**", "//", ">>", "<<", "->", ":=", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "@=",
}

// fail notes an error in the tokens of the current line.
func (s *pyScanner) fail(offset int, format string, args ...any) {
	s.broken = true
	s.t.errorAt(offset, format, args...)
}

func (s *pyScanner) at(i int) byte {
	if i < len(s.src) {
		return s.src[i]
	}
	return 0
}

// newline returns the length of the line end at i: LF, CR LF or a lone CR.
func (s *pyScanner) newline(i int) int {
	switch {
	case s.at(i) == '\n':
		return 1
	case s.at(i) != '\r':
		return 0
	case s.at(i+1) == '\n':
		return 2
	}
	return 1
}

// lineEnd returns the offset of the end of the line that i is in.
func (s *pyScanner) lineEnd(i int) int {
	for i < len(s.src) && s.src[i] != '\n' && s.src[i] != '\r' {
		i++
	}
	return i
}

// next reads the next logical line that is not blank. Its indentation is
// measured twice, with tabs of eight columns and of one, as CPython does: where
// the two measures disagree, the text mixes tabs and spaces.
func (s *pyScanner) next() (wide, narrow int, ok bool) {
	s.line, s.broken = s.line[:0], false
	for s.pos < len(s.src) && !s.stop {
		wide, narrow = s.indentation()
		switch n := s.newline(s.pos); {
		case n > 0:
			s.pos += n
		case s.at(s.pos) == '#':
			s.pos = s.lineEnd(s.pos)
		case s.pos < len(s.src):
			s.logicalLine()
			if len(s.line) > 0 || s.broken {
				return wide, narrow, !s.stop
			}
		}
	}
	return 0, 0, false
}

func (s *pyScanner) indentation() (wide, narrow int) {
	for ; s.pos < len(s.src); s.pos++ {
		switch s.src[s.pos] {
		case ' ':
			wide++
			narrow++
		case '\t':
			wide = (wide/8 + 1) * 8
			narrow++
		case '\f':
			wide, narrow = 0, 0
		case '\\':
			// A line may be continued before its first token.
			if n := s.newline(s.pos + 1); n == 0 {
				return wide, narrow
			} else {
				s.pos += n
			}
		default:
			return wide, narrow
		}
	}
	return wide, narrow
}

// logicalLine reads tokens up to the line end outside of all brackets.
func (s *pyScanner) logicalLine() {
	for s.pos < len(s.src) && !s.stop {
		if n := s.newline(s.pos); n > 0 {
			s.pos += n
			if len(s.brackets) == 0 {
				return
			}
			continue
		}
		if !s.token() {
			s.pos = s.lineEnd(s.pos)
		}
	}
	if s.stop {
		return
	}
	for _, b := range s.brackets {
		s.fail(b.offset, "%q opened at line %d is never closed", s.src[b.offset], s.t.lineOf(b.offset))
	}
	s.brackets = nil
}

// token reads one token. It returns false in a string that is not closed.
func (s *pyScanner) token() bool {
	start := s.pos
	c := s.src[s.pos]
	switch {
	case c == ' ' || c == '\t' || c == '\f':
		s.pos++
	case c == '#':
		s.pos = s.lineEnd(s.pos)
	case c == '\\':
		s.continuation()
	case c == '"' || c == '\'':
		return s.str(start, "")
	case c >= '0' && c <= '9' || c == '.' && isDigit(s.at(s.pos+1)):
		s.number()
	case c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80:
		return s.word()
	default:
		s.operator(c)
	}
	return true
}

func (s *pyScanner) add(kind pyKind, start int) {
	text := ""
	if kind != pyString {
		text = s.src[start:s.pos]
	}
	s.line = append(s.line, pyToken{kind, start, s.pos, len(s.brackets), text})
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// continuation reads a backslash, which must be the last character of its line.
func (s *pyScanner) continuation() {
	if n := s.newline(s.pos + 1); n > 0 {
		s.pos += 1 + n
		if s.pos == len(s.src) {
			s.fail(s.pos, "the text ends after a line continuation")
		}
		return
	}
	s.fail(s.pos, "a backslash outside of a string must be the last character of its line")
	s.pos = s.lineEnd(s.pos)
}

// word reads a name or keyword, or a string with a prefix.
func (s *pyScanner) word() bool {
	start := s.pos
	for s.pos < len(s.src) {
		r, size := utf8.DecodeRuneInString(s.src[s.pos:])
		if !pyLetter(r) {
			break
		}
		s.pos += size
	}
	word := s.src[start:s.pos]
	c := s.at(s.pos)
	switch {
	case word == "":
		r, size := utf8.DecodeRuneInString(s.src[s.pos:])
		s.fail(start, "invalid character %q (U+%04X)", r, r)
		s.pos += size
	case (c == '"' || c == '\'') && len(word) <= 2 && pyPrefixes[strings.ToLower(word)]:
		return s.str(start, strings.ToLower(word))
	case pyKeywords[word]:
		s.add(pyKeyword, start)
	default:
		s.add(pyName, start)
	}
	return true
}

var pyPrefixes = nameSet("r u b f t br rb fr rf tr rt")

// pyLetter reports whether r may be part of a name.
func pyLetter(r rune) bool {
	if r < 0x80 {
		return r == '_' || r|0x20 >= 'a' && r|0x20 <= 'z' || r >= '0' && r <= '9'
	}
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.In(r, unicode.Nl, unicode.Nd, unicode.Mn, unicode.Mc, unicode.Pc,
		unicode.Other_ID_Start, unicode.Other_ID_Continue))
}

var (
	pyNumberForm = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:0[xX](?:_?[0-9a-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+|` +
			`(?:[0-9](?:_?[0-9])*\.?(?:[0-9](?:_?[0-9])*)?|\.[0-9](?:_?[0-9])*)(?:[eE][+-]?[0-9](?:_?[0-9])*)?[jJ]?)`)
	})
	pyLeadingZeros = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^0[0-9_]*[1-9][0-9_]*$`) })
	// pyAfterNumber are the keywords that CPython lets follow without a blank, as
	// in "1if x else 2".
	pyAfterNumber = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:and|else|for|if|in|is|not|or)`) })
)

// number reads a number.
func (s *pyScanner) number() {
	start := s.pos
	s.pos += len(pyNumberForm().FindString(s.src[s.pos:]))
	if r, _ := utf8.DecodeRuneInString(s.src[s.pos:]); s.pos < len(s.src) && pyLetter(r) && !pyAfterNumber().MatchString(s.src[s.pos:]) {
		for s.pos < len(s.src) && s.src[s.pos] < 0x80 && pyLetter(rune(s.src[s.pos])) {
			s.pos++
		}
		s.fail(start, "invalid number %s: letters or digits follow that do not belong to it", quoted(s.src[start:s.pos]))
	} else if text := s.src[start:s.pos]; pyLeadingZeros().MatchString(text) {
		s.fail(start, "invalid number %s: leading zeros; octal numbers start with 0o", quoted(text))
	}
	s.add(pyNumber, start)
}

func (s *pyScanner) operator(c byte) {
	start := s.pos
	if i := strings.IndexByte("([{", c); i >= 0 {
		if len(s.brackets) == maxPythonDepth {
			s.fail(start, "nested deeper than %d brackets; the rest is not checked", maxPythonDepth)
			s.stop = true
			return
		}
		s.pos++
		s.add(pyOp, start)
		s.brackets = append(s.brackets, pyBracket{")]}"[i], start})
		return
	}
	if strings.IndexByte(")]}", c) >= 0 {
		s.closeBracket(c)
		return
	}
	for _, op := range pyOperators {
		if strings.HasPrefix(s.src[s.pos:], op) {
			s.pos += len(op)
			s.add(pyOp, start)
			return
		}
	}
	s.pos++
	if strings.IndexByte("+-*/%@&|^~<>=.,:;", c) < 0 {
		s.fail(start, "invalid character %q", c)
		return
	}
	s.add(pyOp, start)
}

func (s *pyScanner) closeBracket(c byte) {
	start := s.pos
	s.pos++
	n := len(s.brackets)
	if n == 0 {
		s.fail(start, "%q closes nothing", c)
		return
	}
	top := s.brackets[n-1]
	s.brackets = s.brackets[:n-1]
	if top.closing != c {
		s.fail(start, "%q does not match %q opened at line %d", c, s.src[top.offset], s.t.lineOf(top.offset))
	}
	s.add(pyOp, start)
}

// maxPythonStrings is how deep f-strings may be nested, which is
// the limit of CPython.
const maxPythonStrings = 150

// str reads a string whose quotes are at the current position; start is that of
// its prefix. It returns false if the string is not closed.
func (s *pyScanner) str(start int, prefix string) bool {
	mark := s.src[s.pos : s.pos+1]
	if triple := strings.Repeat(mark, 3); strings.HasPrefix(s.src[s.pos:], triple) {
		mark = triple
	}
	format, raw := strings.ContainsAny(prefix, "ft"), strings.Contains(prefix, "r")
	for s.pos += len(mark); s.pos < len(s.src); {
		switch c := s.src[s.pos]; {
		case strings.HasPrefix(s.src[s.pos:], mark):
			s.pos += len(mark)
			s.add(pyString, start)
			return true
		case c == '\\':
			s.escape(format, raw)
		case (c == '\n' || c == '\r') && len(mark) == 1:
			s.fail(start, "the string is not closed on its line")
			return false
		case !format || c != '{' && c != '}':
			s.pos++
		case s.at(s.pos+1) == c:
			s.pos += 2
		case c == '}':
			s.fail(s.pos, "a single '}' in an f-string; as a character it is written }}")
			s.pos++
		case !s.field(mark, raw):
			return false
		}
	}
	s.fail(start, "the string opened at line %d is never closed", s.t.lineOf(start))
	return false
}

// escape reads a backslash with the character it protects, which a brace of an
// f-string is not.
func (s *pyScanner) escape(format, raw bool) {
	if name, ok := strings.CutPrefix(s.src[s.pos:], `\N{`); ok && format && !raw {
		// The braces belong to the name of a character.
		s.pos += len(`\N{`)
		if end := strings.IndexAny(name[:min(len(name), 100)], "{}\"'\\\r\n"); end >= 0 && name[end] == '}' {
			s.pos += end + 1
		}
		return
	}
	s.pos++
	if c := s.at(s.pos); format && (c == '{' || c == '}') {
		return
	}
	s.pos = min(len(s.src), s.pos+max(1, s.newline(s.pos)))
}

// field reads a replacement field of an f-string: an expression, perhaps a
// conversion and a format, which may hold fields itself.
func (s *pyScanner) field(mark string, raw bool) bool {
	open := s.pos
	s.pos++
	if s.level++; s.level > maxPythonStrings {
		s.fail(open, "f-strings nested deeper than %d levels; the rest is not checked", maxPythonStrings)
		s.stop = true
		return false
	}
	defer func() { s.level-- }()
	if !s.expression(open) {
		return false
	}
	if s.at(s.pos) == '!' {
		s.pos++
		s.pos += len(s.src[s.pos:]) - len(strings.TrimLeft(s.src[s.pos:], " rsaRSA"))
	}
	if s.at(s.pos) == ':' {
		for s.pos++; s.pos < len(s.src) && s.src[s.pos] != '}'; {
			switch c := s.src[s.pos]; {
			case c == '{':
				if !s.field(mark, raw) {
					return false
				}
			case c == '\\':
				s.escape(true, raw)
			case (c == '\n' || c == '\r') && len(mark) == 1, strings.HasPrefix(s.src[s.pos:], mark):
				s.fail(open, "the '{' in the f-string is not closed")
				return false
			default:
				s.pos++
			}
		}
	}
	if s.at(s.pos) != '}' {
		s.fail(open, "the '{' in the f-string is not closed")
		return false
	}
	s.pos++
	return true
}

// expression reads tokens up to what ends the expression of a field. The tokens
// themselves are not kept, since they belong to no statement.
func (s *pyScanner) expression(open int) bool {
	outer, kept := s.brackets, len(s.line)
	s.brackets = nil
	defer func() { s.brackets, s.line = outer, s.line[:kept] }()
	for s.pos < len(s.src) && !s.stop {
		c := s.src[s.pos]
		if len(s.brackets) == 0 && (c == '}' || c == ':' || c == '!' && s.at(s.pos+1) != '=') {
			if len(s.line) == kept {
				s.fail(open, "an empty expression in an f-string")
			}
			return true
		}
		if n := s.newline(s.pos); n > 0 {
			s.pos += n
		} else if !s.token() {
			return false
		}
	}
	if !s.stop {
		s.fail(open, "the '{' in the f-string is not closed")
	}
	return false
}
