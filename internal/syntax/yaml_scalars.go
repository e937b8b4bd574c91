package syntax

import "bytes"

// reference reads an anchor or an alias. An alias must name an anchor before it.
func (s *yamlScanner) reference(c byte) {
	s.saveKey()
	s.keyable = false
	start := s.pos
	kind := yamlAnchor
	if c == '*' {
		kind = yamlAlias
	}
	s.single(kind)
	for !s.endsPlain(s.pos) {
		s.pos++
	}
	name := s.src[start+1 : s.pos]
	if len(name) == 0 {
		s.fail(start, "a name is missing after %q", c)
		return
	}
	if c == '&' {
		s.anchors[string(name)] = true
		return
	}
	if !s.anchors[string(name)] && name[len(name)-1] == ':' {
		// Many readers take the colon for the one of a mapping.
		name = name[:len(name)-1]
		s.pos--
	}
	if !s.anchors[string(name)] {
		s.fail(start, "there is no anchor &%s before this alias", shorten(string(name)))
	}
}

// tag reads a tag, which is not resolved.
func (s *yamlScanner) tag() {
	s.saveKey()
	s.keyable = false
	s.add(yamlTag)
	if s.at(s.pos+1) == '<' {
		for !s.blankAt(s.pos) && s.src[s.pos] != '>' {
			s.pos++
		}
		if s.at(s.pos) == '>' {
			s.pos++
		}
		return
	}
	for !s.endsPlain(s.pos) {
		s.pos++
	}
}

// quoted reads a string in quotes, which may stretch over lines.
func (s *yamlScanner) quoted(quote byte) {
	start := s.pos
	s.pos++
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; {
		case c == quote && quote == '\'' && s.at(s.pos+1) == quote:
			s.pos += 2
		case c == quote:
			s.pos++
			return
		case c == '\\' && quote == '"':
			s.escape()
		case s.newline():
		default:
			s.pos++
		}
	}
	s.fail(start, "the string opened at line %d is never closed", s.t.lineOf(s.base+start))
}

// escape reads a backslash with what belongs to it.
func (s *yamlScanner) escape() {
	start := s.pos
	s.pos++
	if s.pos == len(s.src) || s.newline() {
		return
	}
	c := s.src[s.pos]
	s.pos++
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
	if digits == 0 {
		if bytes.IndexByte([]byte("0abt\tnvfre \"/\\N_LP"), c) < 0 {
			s.fail(start, "unknown escape in a string: a backslash before %q", c)
		}
		return
	}
	for range digits {
		if d := s.at(s.pos); !isDigit(d) && (d|0x20 < 'a' || d|0x20 > 'f') {
			s.fail(start, "\\%c needs %d hexadecimal digits", c, digits)
			return
		}
		s.pos++
	}
}

// plain reads a scalar without quotes. It goes on over the lines that are
// indented further than the collection it stands in.
func (s *yamlScanner) plain() {
	for {
		from := s.pos
		for !s.blankAt(s.pos) && !(s.src[s.pos] == ':' && s.endsPlain(s.pos+1)) && (s.flow == 0 || !s.endsPlain(s.pos)) {
			s.pos++
		}
		if s.pos == from {
			return
		}
		s.keyable = false
		// What follows belongs to the scalar only if more of it comes.
		end, line, lineStart := s.pos, s.line, s.lineStart
		for {
			if c := s.at(s.pos); c == ' ' || c == '\t' {
				s.pos++
			} else if !s.newline() {
				break
			}
		}
		if s.pos == end {
			return
		}
		wrapped := s.line != line
		if s.pos == len(s.src) || s.src[s.pos] == '#' || wrapped && s.flow == 0 && s.column() <= s.indent {
			s.pos, s.line, s.lineStart = end, line, lineStart
			return
		}
		if wrapped && s.column() == 0 && bytes.HasPrefix(s.src[s.pos:], []byte("...")) && s.blankAt(s.pos+3) {
			return
		}
	}
}

// blockScalar reads | or > with its text, which ends before the first line that
// is indented less.
func (s *yamlScanner) blockScalar() {
	s.dropKey()
	s.keyable = true
	start := s.pos
	s.single(yamlScalar)
	deep := 0
	for range 2 {
		if c := s.at(s.pos); c == '+' || c == '-' {
			s.pos++
		} else if c >= '1' && c <= '9' {
			deep = int(c - '0')
			s.pos++
		}
	}
	if !s.blankAt(s.pos) {
		s.fail(start, "only indentation and chomping indicators can follow %q", s.src[start])
		return
	}
	for s.at(s.pos) == ' ' || s.at(s.pos) == '\t' {
		s.pos++
	}
	if s.at(s.pos) == '#' {
		s.skipLine()
	}
	if s.pos < len(s.src) && !s.newline() {
		s.fail(s.pos, "text behind the %q that starts a block of text; it begins on the next line", s.src[start])
		return
	}
	if deep > 0 {
		deep += max(s.indent, 0)
	}
	s.blockLines(deep)
}

// blockLines reads the lines of a block of text. Its first line that is not
// blank tells its indentation, unless that was given.
func (s *yamlScanner) blockLines(deep int) {
	known := deep > 0
	for s.pos < len(s.src) {
		for s.at(s.pos) == ' ' {
			s.pos++
		}
		spaces := s.column()
		if !known && s.at(s.pos) != '\n' && s.at(s.pos) != '\r' && s.pos < len(s.src) {
			deep, known = max(spaces, s.indent+1), true
		}
		if known && spaces < deep {
			// A line of blanks only is part of it all the same.
			for s.at(s.pos) == '\t' || s.at(s.pos) == ' ' {
				s.pos++
			}
			if s.pos < len(s.src) && s.src[s.pos] != '\n' && s.src[s.pos] != '\r' {
				s.pos = s.lineStart
				return
			}
		}
		s.skipLine()
		s.newline()
	}
}
