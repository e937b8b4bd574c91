package strictyaml

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
)

// span is where a token begins, and the line on which it ends.
type span struct {
	begin  place
	offset int
	end    int
}

// cover walks through the text and the tokens together. It records where every token
// begins, and it reports the first place of the text that is in no token: the scanner
// skips some things that it does not understand.
func (r *reader) cover(tokens token.Tokens) {
	c := cursor{text: r.text, at: place{1, 1}, any: r.profile.Any}
	r.places = make(map[*token.Token]span, len(tokens))
	for _, t := range tokens {
		if t.Type == token.InvalidType {
			return // the parser reports it
		}
		c.skipSpace()
		s := span{begin: c.at, offset: len(r.text) - len(c.text)}
		problem := "not valid YAML: this cannot be read"
		var ok bool
		if t.Type == token.DoubleQuoteType {
			problem, ok = c.takeQuoted() // the token does not hold escapes as written
		} else {
			ok = c.take(t.Origin)
		}
		if t.Type == token.DocumentEndType || t.Type == token.DocumentHeaderType {
			ok = ok && (c.text == "" || strings.Contains(space, c.text[:1]))
		}
		if !ok {
			r.add(c.at, Syntax, problem, "")
			return
		}
		s.end = c.at.line
		r.places[t] = s
	}
	if c.skipSpace(); c.text != "" {
		r.add(c.at, Syntax, "not valid YAML: this cannot be read", "")
	}
}

// cursor is the rest of a text, and its position.
type cursor struct {
	text string
	at   place
	any  bool
}

// advance goes over n bytes.
func (c *cursor) advance(n int) {
	for _, r := range c.text[:n] {
		c.at = c.at.after(r)
	}
	c.text = c.text[n:]
}

const space = " \t\n"

// skipSpace goes over spaces, tabs and line ends.
func (c *cursor) skipSpace() {
	c.advance(len(c.text) - len(strings.TrimLeft(c.text, space)))
}

// take skips the same text as origin, ignoring differences in white space. It reports
// whether the text is the same.
func (c *cursor) take(origin string) bool {
	for part := range strings.FieldsFuncSeq(origin, func(r rune) bool { return strings.ContainsRune(space, r) }) {
		c.skipSpace()
		for part != "" {
			if c.text == "" || c.text[0] != part[0] {
				return false
			}
			n := 1
			for n < len(part) && n < len(c.text) && part[n] == c.text[n] {
				n++
			}
			// The text may have space where the origin has none.
			c.advance(n)
			if part = part[n:]; part != "" {
				c.skipSpace()
			}
		}
	}
	return true
}

// takeQuoted skips a text in double quotes and checks its escapes. The scanner accepts
// \xZZ and half a surrogate pair unchecked.
func (c *cursor) takeQuoted() (problem string, ok bool) {
	if !strings.HasPrefix(c.text, `"`) {
		return "not valid YAML: this cannot be read", false
	}
	for i := 1; i < len(c.text); i++ {
		switch c.text[i] {
		case '"':
			c.advance(i + 1)
			return "", true
		case '\t':
			if !c.any {
				c.advance(i)
				return "a tab in double quotes must be written as \\t", false
			}
		case '\\':
			n, ok := escape(c.text[i+1:])
			if !ok {
				letter := c.text[i+1 : i+2]
				c.advance(i)
				return "the escape \\" + letter + " must be followed by the code of a character", false
			}
			i += n
		}
	}
	return "not valid YAML: the double quotes are not closed", false
}

// escape returns the length of the escape at the beginning of s, which is after
// a backslash. Unknown ones are left to the scanner.
func escape(s string) (n int, ok bool) {
	if s == "" || !strings.Contains("xuU", s[:1]) {
		return 1, true
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[0]]
	r, ok := hexDigits(s[1:], digits)
	if !ok || r > utf8.MaxRune {
		return 0, false
	}
	if !utf16.IsSurrogate(r) {
		return 1 + digits, true
	}
	if s[0] != 'u' || !strings.HasPrefix(s[1+digits:], `\u`) {
		return 0, false
	}
	low, ok := hexDigits(s[3+digits:], 4)
	return 7 + digits, ok && utf16.DecodeRune(r, low) != utf8.RuneError
}

// hexDigits reads n hexadecimal digits at the beginning of s.
func hexDigits(s string, n int) (value rune, ok bool) {
	if len(s) < n {
		return 0, false
	}
	number, err := strconv.ParseUint(s[:n], 16, 31)
	return rune(number), err == nil
}
