package syntax

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

var (
	tomlInteger = regexp.MustCompile(`^(?:[-+]?(?:0|[1-9](?:_?[0-9])*)|0x[0-9A-Fa-f](?:_?[0-9A-Fa-f])*|0o[0-7](?:_?[0-7])*|0b[01](?:_?[01])*)$`)
	tomlFloat   = regexp.MustCompile(`^[-+]?(?:0|[1-9](?:_?[0-9])*)(?:\.[0-9](?:_?[0-9])*)?(?:[eE][-+]?[0-9](?:_?[0-9])*)?$`)
	tomlDate    = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}`)
	tomlTime    = regexp.MustCompile(`^([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(?:\.[0-9]+)?`)
	tomlZone    = regexp.MustCompile(`^(?:[zZ]|[-+](?:[01][0-9]|2[0-3]):[0-5][0-9])$`)
)

// str reads a string of one line, in double or single quotes. Only the first
// kind has escapes.
func (s *tomlScanner) str(quote byte) (string, bool) {
	start := s.pos
	s.pos++
	var value []byte
	for s.pos < len(s.src) {
		c := s.src[s.pos]
		switch {
		case c == quote:
			s.pos++
			return string(value), true
		case c == '\n' || s.has("\r\n"):
			return "", s.fail(start, "the string is not closed on its line")
		case tomlControl(c):
			return "", s.fail(s.pos, "control character 0x%02x in a string", c)
		case c == '\\' && quote == '"':
			r, ok := s.escape()
			if !ok {
				return "", false
			}
			value = utf8.AppendRune(value, r)
		default:
			value = append(value, c)
			s.pos++
		}
	}
	return "", s.fail(start, "the string is never closed")
}

// multiLine reads a string between three quotes on either side.
func (s *tomlScanner) multiLine(quote byte) bool {
	start := s.pos
	closing := strings.Repeat(string(quote), 3)
	s.pos += 3
	for s.pos < len(s.src) {
		c := s.src[s.pos]
		switch {
		case s.has(closing):
			s.pos += 3
			// One or two more quotes belong to the string, before its end.
			for extra := 0; extra < 2 && s.peek() == quote; extra++ {
				s.pos++
			}
			return true
		case s.newline():
		case tomlControl(c):
			return s.fail(s.pos, "control character 0x%02x in a string", c)
		case c == '\\' && quote == '"':
			if s.lineContinued() {
				continue
			}
			if _, ok := s.escape(); !ok {
				return false
			}
		default:
			s.pos++
		}
	}
	s.stop = true
	return s.fail(start, "the string opened at line %d is never closed", s.t.lineOf(start))
}

// lineContinued reads a backslash at the end of a line of a string.
func (s *tomlScanner) lineContinued() bool {
	start := s.pos
	s.pos++
	s.blanks()
	if s.newline() {
		return true
	}
	s.pos = start
	return false
}

// escape reads a backslash with what belongs to it.
func (s *tomlScanner) escape() (rune, bool) {
	start := s.pos
	s.pos++
	c := s.peek()
	if i := strings.IndexByte(`btnfr"\`, c); i >= 0 {
		s.pos++
		return rune("\b\t\n\f\r\"\\"[i]), true
	}
	digits := 0
	switch c {
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	default:
		return 0, s.fail(start, "unknown escape in a string: a backslash before %s", s.shown())
	}
	end := min(len(s.src), s.pos+1+digits)
	piece := s.src[s.pos+1 : end]
	n, err := strconv.ParseUint(string(piece), 16, 32)
	if err != nil || len(piece) < digits {
		return 0, s.fail(start, "\\%c needs %d hexadecimal digits", c, digits)
	}
	if n > utf8.MaxRune || !utf8.ValidRune(rune(n)) {
		return 0, s.fail(start, "\\%c%s is no Unicode character", c, piece)
	}
	s.pos = end
	return rune(n), true
}

// scalar reads a number, a date or one of the names.
func (s *tomlScanner) scalar() bool {
	start := s.pos
	word := s.word()
	// A date and its time may have a blank between them.
	if len(word) == len("1979-05-27") && tomlDate.Match(word) && s.peek() == ' ' && s.pos+1 < len(s.src) && s.src[s.pos+1] >= '0' && s.src[s.pos+1] <= '9' {
		s.pos++
		s.word()
		word = s.src[start:s.pos]
	}
	text := string(word)
	switch text {
	case "":
		return s.fail(start, "a value is expected, found %s", s.shown())
	case "true", "false", "inf", "+inf", "-inf", "nan", "+nan", "-nan":
		return true
	}
	if tomlDate.Match(word) || len(word) > 2 && word[2] == ':' {
		if why := badMoment(word); why != "" {
			s.fail(start, "%s is not a date or time: %s", quoted(word), why)
		}
		return true
	}
	switch {
	case tomlInteger.Match(word):
		// The prefixes mean the same in Go; a plain number must not be
		// taken for an octal one, but it has no leading zero here.
		if _, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 0, 64); err != nil {
			s.fail(start, "%s does not fit into 64 bits", quoted(word))
		}
	case tomlFloat.Match(word):
	default:
		why := "strings must be in quotes"
		if c := text[0]; c == '+' || c == '-' || c == '.' || c >= '0' && c <= '9' {
			why = "as a number it is malformed"
		}
		return s.fail(start, "%s is not a value: %s", quoted(word), why)
	}
	return true
}

// word reads up to where a value without quotes must end.
func (s *tomlScanner) word() []byte {
	start := s.pos
	if i := bytes.IndexAny(s.src[s.pos:min(len(s.src), s.pos+1<<10)], " \t\r\n,]}#=\"'[{"); i >= 0 {
		s.pos += i
	} else {
		for s.pos < len(s.src) && strings.IndexByte(" \t\r\n,]}#=\"'[{", s.src[s.pos]) < 0 {
			s.pos++
		}
	}
	return s.src[start:s.pos]
}

// badMoment says what is wrong with a date, a time or both, or "".
func badMoment(w []byte) string {
	if tomlDate.Match(w) {
		if _, err := time.Parse("2006-01-02", string(w[:10])); err != nil {
			return "there is no such day"
		}
		if w = w[10:]; len(w) == 0 {
			return ""
		}
		if len(w) == 1 || strings.IndexByte("Tt ", w[0]) < 0 {
			return "'T' or a blank and a time are expected after the day"
		}
		clock := tomlTime.Find(w[1:])
		if clock == nil {
			return "the time must be hours, minutes and seconds"
		}
		if zone := w[1+len(clock):]; len(zone) > 0 && !tomlZone.Match(zone) {
			return "the time zone must be Z or +hh:mm"
		}
		return ""
	}
	if clock := tomlTime.Find(w); len(clock) != len(w) {
		return "the time must be hours, minutes and seconds"
	}
	return ""
}
