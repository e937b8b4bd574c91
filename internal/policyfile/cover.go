package policyfile

import (
	"strings"

	"github.com/goccy/go-yaml/token"
)

// cover goes over the text and the tokens side by side. It notes where every
// token begins, and it reports the first place of the text that came into no
// token: the lexer passes over some things that it does not understand, and
// nothing of a policy may be passed over.
func (c *checker) cover(tokens token.Tokens) {
	cur := cursor{text: c.src.text, at: place{1, 1}}
	c.places = make(map[*token.Token]place, len(tokens))
	for _, t := range tokens {
		if t.Type == token.InvalidType {
			return // the parser reports it
		}
		cur.skipSpace()
		c.places[t] = cur.at
		ok := false
		if t.Type == token.DoubleQuoteType {
			ok = cur.takeQuoted() // escapes are not in the token as they were written
		} else {
			ok = cur.take(t.Origin)
		}
		if t.Type == token.DocumentEndType || t.Type == token.DocumentHeaderType {
			ok = ok && (cur.text == "" || strings.Contains(space, cur.text[:1]))
		}
		if !ok {
			c.addAt(cur.at.line, cur.at.column, BadYAML, "not valid YAML: this cannot be read", "")
			return
		}
	}
	if cur.skipSpace(); cur.text != "" {
		c.addAt(cur.at.line, cur.at.column, BadYAML, "not valid YAML: this cannot be read", "")
	}
}

// place returns where a token begins.
func (c *checker) place(t *token.Token) place {
	if at, ok := c.places[t]; ok {
		return at
	}
	return place{t.Position.Line, t.Position.Column} // one that the parser made
}

// cursor is what is left of a text, and where that begins.
type cursor struct {
	text string
	at   place
}

// advance goes over n bytes.
func (c *cursor) advance(n int) {
	for _, r := range c.text[:n] {
		if c.at.column++; r == '\n' {
			c.at = place{c.at.line + 1, 1}
		}
	}
	c.text = c.text[n:]
}

const space = " \t\n"

// skipSpace goes over spaces, tabs and line ends.
func (c *cursor) skipSpace() {
	c.advance(len(c.text) - len(strings.TrimLeft(c.text, space)))
}

// take goes over the same text as origin, whatever the space in both. It
// reports whether the text is the same.
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

// hexDigits is how many digits follow the letter of an escape.
var hexDigits = map[byte]int{'x': 2, 'u': 4, 'U': 8}

// takeQuoted goes over a text in double quotes. It reports false when an
// escape in it lacks digits.
func (c *cursor) takeQuoted() bool {
	if !strings.HasPrefix(c.text, `"`) {
		return false
	}
	for i := 1; i < len(c.text); i++ {
		switch c.text[i] {
		case '\\':
			i++
			for n := 0; i < len(c.text) && n < hexDigits[c.text[i]]; n++ {
				if j := i + 1 + n; j >= len(c.text) || !strings.ContainsRune("0123456789abcdefABCDEF", rune(c.text[j])) {
					return false
				}
			}
		case '"':
			c.advance(i + 1)
			return true
		}
	}
	return false
}
