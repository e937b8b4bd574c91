package syntax

import "bytes"

// known applies the effect of a command on the rest of the scan.
func (s *latexScanner) known(start int, name string) {
	defined := s.command == "let" || latexDefiners[s.command] > 0
	if n, ok := latexDefiners[name]; ok {
		s.definitions, s.defDepth = n, len(s.stack)
		return
	}
	if defined {
		// This is the name being defined, not a use of it.
		return
	}
	switch name {
	case "documentclass", "documentstyle":
		s.class = true
	case "ProvidesPackage", "ProvidesClass", "ProvidesExplPackage", "NeedsTeXFormat", "makeatletter":
		s.pkg = s.pkg || name != "NeedsTeXFormat"
	case "makeatother":
		s.pkg = false
	case "ExplSyntaxOn", "underscoreoff":
		s.underscore = true
	case "usepackage":
		s.underscore = s.underscore || s.loads("underscore")
	case "catcode":
		s.recoded = true
	case "string":
		// The character after it loses its meaning.
		if s.pos < len(s.src) && bytes.IndexByte([]byte("{}$%_"), s.src[s.pos]) >= 0 {
			s.pos++
		}
	case "iffalse":
		s.skipFalse()
	case "verb", "Verb", "lstinline", "mintinline":
		s.verb(start, name)
	default:
		if latexLiteral[name] && !s.inBody() {
			s.address(start, name)
		}
	}
}

// loads reports whether the current arguments name a package.
func (s *latexScanner) loads(name string) bool {
	line := s.src[s.pos:min(s.lineEnd(), s.pos+200)]
	return bytes.Contains(line, []byte(name))
}

// skipFalse skips text that has been commented out with \iffalse.
func (s *latexScanner) skipFalse() {
	if i := bytes.Index(s.src[s.pos:], []byte(`\fi`)); i >= 0 {
		s.pos += i + len(`\fi`)
		return
	}
	s.fail(s.pos, `\iffalse has no \fi`)
	s.stop = true
}

// verb reads \verb and its likes: the text between two equal characters is taken
// literally.
func (s *latexScanner) verb(start int, name string) {
	end := s.lineEnd()
	if s.pos < end && s.src[s.pos] == '*' {
		s.pos++
	}
	if name != "verb" {
		s.skipBetween('[', ']', end)
	}
	if name == "mintinline" {
		s.skipBetween('{', '}', end)
	}
	if s.pos >= end || s.inBody() {
		return
	}
	mark := s.src[s.pos]
	if mark == '{' {
		if name == "verb" || !s.skipBetween('{', '}', end) {
			return
		}
		return
	}
	if i := bytes.IndexByte(s.src[s.pos+1:end], mark); i >= 0 {
		s.t.looked(i)
		s.pos += i + 2
		return
	}
	s.fail(start, `\%s is not closed by a second %q on its line`, name, mark)
	s.pos = end
}

// latexPairs holds, for the line that ends at end, the closing offset of every
// opening bracket that is closed on the line, by kind of bracket.
type latexPairs struct {
	end     int
	squares map[int]int
	braces  map[int]int
}

// skipBetween skips a pair of brackets and its content, if one starts here and is
// closed before the end of the line. The pairs of a line are looked for once: a line
// may hold any number of brackets that are never closed.
func (s *latexScanner) skipBetween(open, closing byte, end int) bool {
	if s.pos >= end || s.src[s.pos] != open {
		return false
	}
	if s.pairs.end != end {
		s.pairs = latexPairs{end: end}
	}
	known := &s.pairs.squares
	if open == '{' {
		known = &s.pairs.braces
	}
	if *known == nil {
		*known = map[int]int{}
		var opened []int
		for i := s.pos; i < end; i++ {
			switch n := len(opened); {
			case s.src[i] == open:
				opened = append(opened, i)
			case s.src[i] == closing && n > 0:
				(*known)[opened[n-1]] = i
				opened = opened[:n-1]
			}
		}
		s.t.looked(end - s.pos)
	}
	at, closed := (*known)[s.pos]
	if closed {
		s.pos = at + 1
	}
	return closed
}

// address reads the argument of \url and similar commands, in which most characters are
// literal. A percent sign is literal only if the command is not inside the argument of
// another one, hence the warning.
func (s *latexScanner) address(start int, name string) {
	s.skipBetween('[', ']', s.lineEnd())
	if s.pos >= len(s.src) || s.src[s.pos] != '{' {
		return
	}
	depth, from := 0, s.pos
	defer func() { s.t.looked(s.pos - from) }()
	for ; s.pos < len(s.src); s.pos++ {
		switch s.src[s.pos] {
		case '\\':
			s.pos++
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				s.pos++
				return
			}
		case '%':
			s.t.warnAt(s.pos, `unescaped '%%' in the argument of \%s; write \%%`, name)
		case '\n':
			line, size := nextLine(s.src[s.pos+1:])
			s.t.looked(size)
			if len(bytes.TrimSpace(line)) == 0 {
				s.fail(start, `the argument of \%s is never closed`, name)
				return
			}
		}
	}
	s.pos = len(s.src)
	s.fail(start, `the argument of \%s is never closed`, name)
}
