package syntax

import (
	"bytes"
	"strconv"
	"unicode/utf16"
)

// maxJSONDepth is about where the recursive parsers that read the file later
// give up, the one of Python for example.
const maxJSONDepth = 1000

// jsonState says what may come next.
type jsonState int

const (
	jsonValue      jsonState = iota // a value
	jsonFirstValue                  // a value or the end of the array
	jsonFirstKey                    // a key or the end of the object
	jsonKey                         // a key
	jsonColon                       // the colon after a key
	jsonNext                        // a comma or the end
	jsonDone                        // nothing more
	jsonStop                        // the rest makes no sense any more
)

// jsonFrame is an array or object that is still open.
type jsonFrame struct {
	open  int            // offset of its bracket
	keys  map[string]int // offsets of the keys seen; nil for an array
	comma int            // offset of the last comma
}

// jsonScanner keeps its own stack, so deep nesting costs no goroutine stack.
type jsonScanner struct {
	t     *text
	src   []byte // up to the end of the value's text
	pos   int
	stack []jsonFrame
}

func inspectJSON(t *text) {
	s := &jsonScanner{t: t, src: t.src}
	s.skipBlank()
	if s.pos == len(s.src) && t.errors.total == 0 {
		t.errorAt(0, "the text is empty; JSON needs a value")
		return
	}
	s.document()
}

// inspectJSONLines checks one value a line. Blank lines are let pass, as the
// readers of the format do.
func inspectJSONLines(t *text) {
	for start := 0; start < len(t.src); {
		end := len(t.src)
		if i := bytes.IndexByte(t.src[start:], '\n'); i >= 0 {
			end = start + i
		}
		if len(bytes.TrimSpace(t.src[start:end])) > 0 {
			s := &jsonScanner{t: t, src: t.src[:end], pos: start}
			s.document()
		}
		start = end + 1
	}
}

func (s *jsonScanner) document() {
	state := jsonValue
	for state != jsonStop {
		s.skipBlank()
		if s.pos >= len(s.src) {
			s.atEnd(state)
			return
		}
		state = s.step(state)
	}
}

func (s *jsonScanner) atEnd(state jsonState) {
	if n := len(s.stack); n > 0 {
		open := s.stack[n-1].open
		s.t.errorAt(open, "%q opened at line %d is never closed", s.src[open], s.t.lineOf(open))
	} else if state != jsonDone {
		s.t.errorAt(len(s.src), "a value is missing")
	}
}

// step reads one token.
func (s *jsonScanner) step(state jsonState) jsonState {
	c := s.src[s.pos]
	switch state {
	case jsonDone:
		s.t.errorAt(s.pos, "text after the end of the JSON value")
		return jsonStop
	case jsonColon:
		if c != ':' {
			s.t.errorAt(s.pos, "a ':' is missing after the key, found %s", s.shown())
			return jsonStop
		}
		s.pos++
		return jsonValue
	case jsonNext:
		return s.afterValue(c)
	}
	if c == '}' || c == ']' {
		return s.closeBracket(c, state)
	}
	if c == ',' {
		s.t.errorAt(s.pos, "a comma where a value is expected")
		s.pos++
		return state
	}
	if state == jsonKey || state == jsonFirstKey {
		return s.key(c)
	}
	return s.value(c)
}

// afterValue reads what follows a value inside an array or object.
func (s *jsonScanner) afterValue(c byte) jsonState {
	top := &s.stack[len(s.stack)-1]
	switch {
	case c == ',':
		top.comma = s.pos
		s.pos++
	case c == '}' || c == ']':
		return s.closeBracket(c, jsonNext)
	case c == ':':
		s.t.errorAt(s.pos, "':' after a value")
		return jsonStop
	default:
		s.t.errorAt(s.pos, "a comma is missing before %s", s.shown())
	}
	if top.keys != nil {
		return jsonKey
	}
	return jsonValue
}

func (s *jsonScanner) closeBracket(c byte, state jsonState) jsonState {
	n := len(s.stack)
	if n == 0 {
		s.t.errorAt(s.pos, "%q closes nothing", c)
		return jsonStop
	}
	top := s.stack[n-1]
	if (top.keys != nil) != (c == '}') {
		s.t.errorAt(s.pos, "%q does not match %q opened at line %d", c, s.src[top.open], s.t.lineOf(top.open))
		return jsonStop
	}
	switch {
	case state == jsonKey, state == jsonValue && top.keys == nil:
		s.t.errorAt(top.comma, "trailing comma before %q", c)
	case state == jsonValue:
		s.t.errorAt(s.pos, "a value is missing after the ':'")
	}
	s.pos++
	s.stack = s.stack[:n-1]
	return s.afterToken()
}

// afterToken returns the state after a complete value.
func (s *jsonScanner) afterToken() jsonState {
	if len(s.stack) == 0 {
		return jsonDone
	}
	return jsonNext
}

func (s *jsonScanner) key(c byte) jsonState {
	start := s.pos
	name := ""
	switch {
	case c == '"':
		decoded, ok := s.str(true)
		if !ok {
			return jsonStop
		}
		name = decoded
	case c == '\'':
		if !s.singleQuoted() {
			return jsonStop
		}
		name = string(s.src[start+1 : s.pos-1])
	default:
		word := s.word()
		if len(word) == 0 {
			s.t.errorAt(start, "an object key in double quotes is expected, found %s", s.shown())
			return jsonStop
		}
		s.t.errorAt(start, "the object key %s is not in double quotes", quoted(word))
		name = string(word)
	}
	keys := s.stack[len(s.stack)-1].keys
	if first, seen := keys[name]; seen {
		s.t.errorAt(start, "duplicate key %s, first at line %d", quoted([]byte(name)), s.t.lineOf(first))
	} else {
		keys[name] = start
	}
	return jsonColon
}

func (s *jsonScanner) value(c byte) jsonState {
	switch {
	case c == '{' || c == '[':
		if len(s.stack) == maxJSONDepth {
			s.t.errorAt(s.pos, "nested deeper than %d levels; the rest is not checked", maxJSONDepth)
			return jsonStop
		}
		frame := jsonFrame{open: s.pos}
		s.pos++
		next := jsonFirstValue
		if c == '{' {
			frame.keys, next = map[string]int{}, jsonFirstKey
		}
		s.stack = append(s.stack, frame)
		return next
	case c == '"':
		if _, ok := s.str(false); !ok {
			return jsonStop
		}
	case c == '\'':
		if !s.singleQuoted() {
			return jsonStop
		}
	default:
		if !s.scalar() {
			return jsonStop
		}
	}
	return s.afterToken()
}

// scalar reads a number or one of the literal names.
func (s *jsonScanner) scalar() bool {
	start := s.pos
	word := s.word()
	switch text := string(word); text {
	case "true", "false", "null":
	case "":
		s.t.errorAt(start, "a value is expected, found %s", s.shown())
		return false
	case "NaN", "Infinity", "-Infinity", "+Infinity", "-NaN":
		s.t.errorAt(start, "%s is not a JSON value", text)
	case "True", "False", "None", "undefined", "nil":
		s.t.errorAt(start, "%s is not a JSON value; JSON has true, false and null", text)
	default:
		if c := word[0]; c != '-' && c != '+' && c != '.' && (c < '0' || c > '9') {
			s.t.errorAt(start, "%s is neither a JSON value nor in double quotes", quoted(word))
		} else if why := badNumber(word); why != "" {
			s.t.errorAt(start, "%s is not a JSON number: %s", quoted(word), why)
		}
	}
	return true
}

// badNumber says what is wrong with a number, or "".
func badNumber(w []byte) string {
	digits := func() int {
		n := 0
		for n < len(w) && w[n] >= '0' && w[n] <= '9' {
			n++
		}
		w = w[n:]
		return n
	}
	if w[0] == '+' {
		return "a plus sign in front"
	}
	if w[0] == '-' {
		w = w[1:]
	}
	zero := len(w) > 1 && w[0] == '0'
	n := digits()
	if n == 0 {
		return "no digit in front"
	}
	if zero && n > 1 {
		return "a leading zero"
	}
	if len(w) > 0 && w[0] == '.' {
		w = w[1:]
		if digits() == 0 {
			return "no digit after the point"
		}
	}
	if len(w) > 0 && (w[0] == 'e' || w[0] == 'E') {
		w = w[1:]
		if len(w) > 0 && (w[0] == '+' || w[0] == '-') {
			w = w[1:]
		}
		if digits() == 0 {
			return "no digit in the exponent"
		}
	}
	if len(w) > 0 {
		return "it ends in " + strconv.Quote(string(w[:1]))
	}
	return ""
}

// word reads the characters that numbers and names are made of.
func (s *jsonScanner) word() []byte {
	start := s.pos
	for s.pos < len(s.src) {
		c := s.src[s.pos]
		if c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '+' || c == '-' || c == '.' || c == '_' || c == '$' || c >= 0x80 {
			s.pos++
			continue
		}
		break
	}
	return s.src[start:s.pos]
}

// shown describes the character at hand for a message.
func (s *jsonScanner) shown() string {
	rest := s.src[s.pos:min(len(s.src), s.pos+8)]
	for _, r := range string(rest) {
		return strconv.QuoteRune(r)
	}
	return "the end"
}

// singleQuoted skips a string in single quotes, which JSON does not have, so
// that the rest can still be checked.
func (s *jsonScanner) singleQuoted() bool {
	s.t.errorAt(s.pos, "a string in single quotes; JSON has double quotes only")
	for s.pos++; s.pos < len(s.src) && s.src[s.pos] != '\n'; s.pos++ {
		switch s.src[s.pos] {
		case '\\':
			s.pos++
		case '\'':
			s.pos++
			return true
		}
	}
	return false
}

// str reads a string. Its decoded value is returned only if it is wanted.
func (s *jsonScanner) str(wanted bool) (decoded string, ok bool) {
	start := s.pos
	var value []byte
	from := s.pos + 1
	for s.pos++; s.pos < len(s.src); {
		c := s.src[s.pos]
		switch {
		case c == '"':
			if wanted {
				value = append(value, s.src[from:s.pos]...)
			}
			s.pos++
			return string(value), true
		case c == '\n' || c == '\r':
			s.t.errorAt(start, "the string is not closed on its line")
			return "", false
		case c < 0x20:
			s.t.errorAt(s.pos, "control character 0x%02x in a string; it must be written as an escape", c)
			s.pos++
		case c == '\\':
			if wanted {
				value = append(value, s.src[from:s.pos]...)
			}
			value = append(value, s.escape()...)
			from = s.pos
		default:
			s.pos++
		}
	}
	s.t.errorAt(start, "the string is never closed")
	return "", false
}

// escape reads one escape, or two that make up a surrogate pair.
func (s *jsonScanner) escape() string {
	start := s.pos
	s.pos++
	if s.pos >= len(s.src) {
		return ""
	}
	c := s.src[s.pos]
	if i := bytes.IndexByte([]byte(`"\/bfnrt`), c); i >= 0 {
		s.pos++
		return "\"\\/\b\f\n\r\t"[i : i+1]
	}
	if c != 'u' {
		s.t.errorAt(start, "unknown escape \\%s in a string", bytes.Trim([]byte(s.shown()), "'"))
		return `\`
	}
	first, ok := s.hex4(s.pos + 1)
	if !ok {
		s.t.errorAt(start, "\\u needs four hexadecimal digits")
		return `\`
	}
	s.pos += 5
	if !utf16.IsSurrogate(first) {
		return string(first)
	}
	if bytes.HasPrefix(s.src[s.pos:], []byte(`\u`)) {
		if second, ok := s.hex4(s.pos + 2); ok {
			if r := utf16.DecodeRune(first, second); r != 0xfffd {
				s.pos += 6
				return string(r)
			}
		}
	}
	s.t.errorAt(start, "%s is half of a surrogate pair", s.src[start:start+6])
	// The halves must stay different from each other when keys are compared.
	return string(s.src[start : start+6])
}

func (s *jsonScanner) hex4(at int) (rune, bool) {
	if at+4 > len(s.src) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s.src[at:at+4]), 16, 16)
	return rune(n), err == nil && s.src[at] != '+'
}

// skipBlank moves to the next token. Comments are reported and passed over, so
// that the rest can still be checked.
func (s *jsonScanner) skipBlank() {
	for s.pos < len(s.src) {
		rest := s.src[s.pos:]
		switch {
		case bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0:
			s.pos++
		case bytes.HasPrefix(rest, []byte("//")), rest[0] == '#':
			s.t.errorAt(s.pos, "a comment; JSON has none")
			if i := bytes.IndexByte(rest, '\n'); i >= 0 {
				s.pos += i
			} else {
				s.pos = len(s.src)
			}
		case bytes.HasPrefix(rest, []byte("/*")):
			s.t.errorAt(s.pos, "a comment; JSON has none")
			if i := bytes.Index(rest[2:], []byte("*/")); i >= 0 {
				s.pos += i + 4
			} else {
				s.pos = len(s.src)
			}
		default:
			return
		}
	}
}
