package syntax

import (
	"bytes"
	"strings"
)

// maxPythonStrings is how deep f-strings may stand inside each other, which is
// the limit of CPython.
const maxPythonStrings = 150

// pyQuote is the string that is being read.
type pyQuote struct {
	start  int    // where it starts, with its prefix
	mark   []byte // one or three quotes
	format bool   // an f-string or t-string
	raw    bool
	level  int // how many f-strings it stands in
}

// str reads a string whose quotes are at the current position.
func (s *pyScanner) str(start int, prefix string) {
	if !s.strAt(start, prefix, 0) && !s.stop {
		s.pos = s.lineEnd(s.pos)
	}
}

// strAt reads a string. It reports a mistake itself and then returns false.
func (s *pyScanner) strAt(start int, prefix string, level int) bool {
	q := pyQuote{start: start, level: level, format: strings.ContainsAny(prefix, "ft"), raw: strings.Contains(prefix, "r")}
	q.mark = s.src[s.pos : s.pos+1]
	if triple := bytes.Repeat(q.mark, 3); bytes.HasPrefix(s.src[s.pos:], triple) {
		q.mark = triple
	}
	if level > maxPythonStrings {
		s.fail(start, "f-strings nested deeper than %d levels; the rest is not checked", maxPythonStrings)
		s.stop = true
		return false
	}
	s.pos += len(q.mark)
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; {
		case bytes.HasPrefix(s.src[s.pos:], q.mark):
			s.pos += len(q.mark)
			return true
		case c == '\\':
			s.escape(q)
		case (c == '\n' || c == '\r') && len(q.mark) == 1:
			s.fail(start, "the string is not closed on its line")
			return false
		case q.format && (c == '{' || c == '}'):
			if !s.brace(q) {
				return false
			}
		default:
			s.pos++
		}
	}
	s.unclosed(q)
	return false
}

// unclosed reports a string that goes on to the end of the text.
func (s *pyScanner) unclosed(q pyQuote) {
	s.fail(q.start, "the string opened at line %d is never closed", s.t.lineOf(q.start))
}

// escape reads a backslash with the character it protects.
func (s *pyScanner) escape(q pyQuote) {
	if q.format && !q.raw && bytes.HasPrefix(s.src[s.pos:], []byte(`\N{`)) {
		// The braces belong to the name of a character.
		s.pos += 3
		for c := s.at(s.pos); c == ' ' || c == '-' || isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'z'; c = s.at(s.pos) {
			s.pos++
		}
		if s.at(s.pos) == '}' {
			s.pos++
		}
		return
	}
	s.pos++
	if c := s.at(s.pos); q.format && (c == '{' || c == '}') {
		// A backslash does not protect the braces of an f-string.
		return
	}
	if n := s.newline(s.pos); n > 0 {
		s.pos += n
	} else if s.pos < len(s.src) {
		s.pos++
	}
}

// brace reads a brace of an f-string: a doubled one, or a replacement field.
func (s *pyScanner) brace(q pyQuote) bool {
	c := s.src[s.pos]
	if s.at(s.pos+1) == c {
		s.pos += 2
		return true
	}
	if c == '}' {
		s.fail(s.pos, "a single '}' in an f-string; as a character it is written }}")
		s.pos++
		return true
	}
	return s.field(q, 0)
}

// field reads a replacement field: an expression, perhaps a conversion and a
// format, which may hold fields itself.
func (s *pyScanner) field(q pyQuote, nested int) bool {
	open := s.pos
	s.pos++
	if q.level+nested > maxPythonStrings {
		s.fail(open, "fields nested deeper than %d levels; the rest is not checked", maxPythonStrings)
		s.stop = true
		return false
	}
	if !s.fieldExpression(q, open) {
		return false
	}
	if s.at(s.pos) == '!' {
		s.pos++
		for c := s.at(s.pos); c == ' ' || c|0x20 >= 'a' && c|0x20 <= 'z'; c = s.at(s.pos) {
			s.pos++
		}
	}
	if s.at(s.pos) == ':' {
		s.pos++
		if !s.fieldFormat(q, nested) {
			return false
		}
	}
	if s.at(s.pos) != '}' {
		s.fail(open, "the '{' in the f-string is not closed")
		return false
	}
	s.pos++
	return true
}

// fieldExpression reads tokens up to what ends the expression of a field. The
// tokens themselves are not kept, since they belong to no statement.
func (s *pyScanner) fieldExpression(q pyQuote, open int) bool {
	outer, kept := s.brackets, len(s.line)
	s.brackets = nil
	defer func() { s.brackets, s.line = outer, s.line[:kept] }()
	for s.pos < len(s.src) && !s.stop {
		c := s.src[s.pos]
		if len(s.brackets) == 0 {
			switch {
			case c == '}', c == ':', c == '!' && s.at(s.pos+1) != '=':
				if len(s.line) == kept {
					s.fail(open, "an empty expression in an f-string")
				}
				return true
			}
		}
		if n := s.newline(s.pos); n > 0 {
			s.pos += n
			continue
		}
		if c == '"' || c == '\'' || c|0x20 >= 'a' && c|0x20 <= 'z' {
			start := s.pos
			prefix, ok := s.stringPrefix()
			if ok {
				s.pos += len(prefix)
				if !s.strAt(start, strings.ToLower(prefix), q.level+1) {
					return false
				}
				s.add(pyString, start)
				continue
			}
		}
		s.token()
	}
	if !s.stop {
		s.fail(open, "the '{' in the f-string is not closed")
	}
	return false
}

// stringPrefix returns the letters in front of the quotes of a string, if one
// starts here.
func (s *pyScanner) stringPrefix() (string, bool) {
	for n := 0; n <= 2; n++ {
		switch c := s.at(s.pos + n); {
		case c == '"' || c == '\'':
			return string(s.src[s.pos : s.pos+n]), true
		case strings.IndexByte("rRuUbBfFtT", c) < 0 || c == 0:
			return "", false
		}
	}
	return "", false
}

// fieldFormat reads the format after the colon of a field.
func (s *pyScanner) fieldFormat(q pyQuote, nested int) bool {
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; {
		case c == '}':
			return true
		case c == '{':
			if !s.field(q, nested+1) {
				return false
			}
		case c == '\\':
			s.escape(q)
		case (c == '\n' || c == '\r') && len(q.mark) == 1, bytes.HasPrefix(s.src[s.pos:], q.mark):
			return true
		default:
			s.pos++
		}
	}
	s.unclosed(q)
	return false
}
