package syntax

import "strings"

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
