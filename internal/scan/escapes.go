package scan

import (
	"bytes"
	"slices"
)

// escapeMarks are what an escape begins with.
var escapeMarks = [3][]byte{[]byte("%"), []byte("\\"), []byte("&#")}

// escapeNames say how a finding in a piece of text was wrapped, by the mark of
// the first escape in the piece; the last is for hidden characters.
var escapeNames = [len(escapeMarks) + 1]string{"percent", "escape", "entity", "zero_width"}

// escaped decodes percent-encoding, escapes of source code and character
// references, and takes out hidden characters, all kinds of a piece of text in
// one pass.
func (t *text) escaped() {
	b, joins := t.b, t.runs.joins[t.depth]
	if t.literals {
		joins = nil
	}
	var next [len(escapeNames)]int // the next place of each kind
	for i := range next {
		next[i] = -1
	}
	for p := 0; ; {
		kind := 0
		for i := range next {
			if next[i] < p {
				next[i] = t.nextEscape(p, i)
			}
			if next[i] < next[kind] {
				kind = i
			}
		}
		if p = next[kind]; p >= len(b) {
			return
		}
		start, end := region(b, p)
		for len(joins) > 0 && joins[0][1] < end {
			joins = joins[1:]
		}
		if len(joins) > 0 && joins[0][0] <= start {
			p = max(end, p+1) // unescaped with what it is joined to
			continue
		}
		if !t.settled(start, end) {
			plain := unescaped(t.room(end-start), b[start:end])
			// What no escape stood for was joined as it is, and then unescaped.
			t.revealed = quotesIn(plain) > quotesIn(b[start:end])
			t.within(plain, escapeNames[kind], start, end)
		}
		p = max(end, p+1)
	}
}

// hasEscape reports whether an escape or a hidden character is in b.
func hasEscape(b []byte) bool {
	for kind := range escapeNames {
		if nextEscape(b, 0, kind) < len(b) {
			return true
		}
	}
	return false
}

// nextEscape is what the function of that name says of the text.
func (t *text) nextEscape(p, kind int) int {
	if kind == len(escapeMarks) {
		if p = max(p, t.hidden.from); p >= t.hidden.to {
			return len(t.b)
		}
	}
	return nextEscape(t.b, p, kind)
}

// nextEscape is the place of the next escape of a kind from p; the length of b
// when there is none.
func nextEscape(b []byte, p, kind int) int {
	for p < len(b) {
		if kind == len(escapeMarks) {
			n, width := nextHidden(b[p:])
			if n < 0 {
				return len(b)
			}
			if p += n; p > 0 || width != 3 || b[0] != 0xef { // not a byte order mark
				return p
			}
			p += width
			continue
		}
		n := bytes.Index(b[p:], escapeMarks[kind])
		if n < 0 {
			return len(b)
		}
		p += n
		if _, width := unescape(b[p:]); width > 0 {
			return p
		}
		p++
	}
	return len(b)
}

const (
	maxEscape     = 12 // bytes of the longest escape
	maxByteEscape = 4  // of the longest that stands for a byte
)

// unescaped appends b to out without its escapes and hidden characters. What an
// escape stands for may complete another one, which is decoded as well: each
// byte that comes in is looked at once, and each escape makes the text shorter.
func unescaped(out, b []byte) []byte {
	mark := -1 // the last byte in out with which an escape can begin
	for i := 0; i < len(b); i++ {
		if mark < 0 || len(out)-mark >= maxEscape {
			mark = -1
			from := i
			for i < len(b) && !marks[b[i]] {
				i++
			}
			if out = append(out, b[from:i]...); i == len(b) {
				break
			}
		}
		c := b[i]
		out = append(out, c)
		switch {
		case c == '%' || c == '\\' || c == '&':
			mark = len(out) - 1
		case c >= 0x80:
			out = out[:len(out)-hiddenBehind(out)]
		case mark >= 0 && (isHex(c) || c == ';' || c == '}'):
			out, mark = unescapedEnd(out, mark)
		}
	}
	return out
}

// unescapedEnd decodes the escape that begins at mark if the end of out
// completes it, and what that completes in turn.
func unescapedEnd(out []byte, mark int) ([]byte, int) {
	for mark >= 0 && len(out)-mark <= maxEscape {
		r, width := unescape(out[mark:])
		if width == 0 || width != len(out)-mark {
			break
		}
		for mark > 0 && out[mark] == '\\' && out[mark-1] == '\\' {
			mark-- // a string within a string
		}
		if out = out[:mark]; width <= maxByteEscape {
			out = append(out, byte(r))
			out = out[:len(out)-hiddenBehind(out)]
		} else if r < 0x80 {
			out = append(out, byte(r))
		}
		for mark = len(out) - 1; mark >= 0 && !isMark(out[mark]) && len(out)-mark < maxEscape; mark-- {
		}
		if mark >= 0 && !isMark(out[mark]) {
			mark = -1
		}
	}
	return out, mark
}

// marks are the bytes that unescaped looks at where no escape has begun.
var marks = bytesThat(func(c byte) bool { return c >= 0x80 || isMark(c) })

func isMark(c byte) bool { return c == '%' || c == '\\' || c == '&' }

// unescape reads one escape at the start of b and returns its width, 0 for
// none: of a visible ASCII character, of a byte of a longer one, or of a hidden
// character.
func unescape(b []byte) (r rune, width int) {
	if len(b) < 3 {
		return 0, 0
	}
	switch {
	case b[0] == '%':
		r, width = escapedByte(b, 1, 2, 16)
	case b[0] == '&' && b[1] == '#':
		r, width = reference(b)
	case b[0] != '\\':
	case b[1] == 'x' && b[2] != '{':
		r, width = escapedByte(b, 2, 2, 16)
	case '0' <= b[1] && b[1] <= '3':
		r, width = escapedByte(b, 1, 3, 8)
	case b[2] == '{' && (b[1] == 'x' || b[1] == 'u'):
		r, width = bracedNumber(b, 3, 16, '}')
	case b[1] == 'u':
		r, width = codePoint(b, 2, 4, 16)
	case b[1] == 'U':
		r, width = codePoint(b, 2, 8, 16)
	}
	return r, width
}

// escapedByte reads n digits that stand for a visible character of ASCII, or
// for a byte of another character.
func escapedByte(b []byte, at, n, base int) (r rune, width int) {
	r, ok := digitsAt(b, at, n, base)
	if !ok || r < 0x20 || r == 0x7f || r > 0xff {
		return 0, 0
	}
	return r, at + n
}

// codePoint reads n digits that stand for a visible character of ASCII or for a
// hidden one.
func codePoint(b []byte, at, n, base int) (r rune, width int) {
	r, ok := digitsAt(b, at, n, base)
	if !ok || !plainOrHidden(r) {
		return 0, 0
	}
	return r, at + n
}

func plainOrHidden(r rune) bool { return r >= 0x20 && r < 0x7f || r >= 0x80 && isHidden(r) }

// reference reads a character reference: &#65; or &#x41;.
func reference(b []byte) (r rune, width int) {
	if b[2]|0x20 == 'x' {
		return bracedNumber(b, 3, 16, ';')
	}
	return bracedNumber(b, 2, 10, ';')
}

// bracedNumber reads up to eight digits that end with a mark.
func bracedNumber(b []byte, at, base int, end byte) (r rune, width int) {
	n := ahead(b, at, 8, func(c byte) bool { return c != end }) - at
	if n == 0 || at+n >= len(b) || b[at+n] != end {
		return 0, 0
	}
	if r, width = codePoint(b, at, n, base); width == 0 {
		return 0, 0
	}
	return r, width + 1
}

// digitsAt reads n digits.
func digitsAt(b []byte, at, n, base int) (v rune, ok bool) {
	if len(b) < at+n {
		return 0, false
	}
	for _, c := range b[at : at+n] {
		if !isHex(c) || int(nibble(c)) >= base || v > 0x10ffff {
			return 0, false
		}
		v = v*rune(base) + rune(nibble(c))
	}
	return v, true
}

// hexByte reads two hexadecimal digits that stand for a visible character.
func hexByte(b []byte, at int) (c byte, ok bool) {
	if len(b) < at+2 || !isHex(b[at]) || !isHex(b[at+1]) {
		return 0, false
	}
	c = nibble(b[at])<<4 | nibble(b[at+1])
	return c, c >= 0x20 && c < 0x7f
}

func nibble(c byte) byte { return c&0xf + c>>6*9 }

// region is the text without white space and quotes around p.
func region(b []byte, p int) (start, end int) {
	return behind(b, p, maxRegion/2, joins), ahead(b, p, maxRegion, joins)
}

func parts(c byte) bool { return byteKinds[c]&kindParts != 0 }
func joins(c byte) bool { return !parts(c) }

// maxColor bounds the parameters of a control sequence of a terminal.
const maxColor = 16

// escapeCodes are the ways in which source code spells the escape character.
var escapeCodes = []string{"\x1b", `\x1b`, `\033`, `\e`, `\u001b`, `\u{1b}`, `\27`, "^["}

// colorBefore reports whether a control sequence that colors text or erases a
// line (ECMA-48, SGR and EL) ends in front of pos, as bytes or as source code
// spells it.
func colorBefore(b []byte, pos int) bool {
	if pos < 3 || b[pos-1] != 'm' && b[pos-1] != 'K' {
		return false
	}
	i := pos - 2
	for i > 0 && pos-i < maxColor && (digit(b[i]) || b[i] == ';') {
		i--
	}
	if b[i] != '[' {
		return false
	}
	return slices.ContainsFunc(escapeCodes, func(name string) bool { return hasPrefixAt(b, i-len(name), name, true) })
}
