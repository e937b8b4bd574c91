package scan

import "bytes"

// escaped decodes percent-encoding, \x and \u escapes, and character
// references, each with the text around it.
func (t *text) escaped() {
	for _, e := range []struct {
		mark byte
		how  string
	}{{'%', "percent"}, {'\\', "escape"}, {'&', "entity"}} {
		t.escapedBy(e.mark, e.how)
	}
}

func (t *text) escapedBy(mark byte, how string) {
	b := t.b
	for p := 0; p < len(b); {
		n := bytes.IndexByte(b[p:], mark)
		if n < 0 {
			return
		}
		p += n
		if _, width := unescape(b[p:]); width == 0 {
			p++
			continue
		}
		start, end := region(b, p)
		plain := t.room(end - start)
		for i := start; i < end; {
			if b[i] == mark {
				if c, width := unescape(b[i:end]); width > 0 {
					plain = append(plain, c)
					i += width
					continue
				}
			}
			plain = append(plain, b[i])
			i++
		}
		t.within(plain, how, start, end)
		p = max(end, p+1)
	}
}

// unescape reads one escape of an ASCII character at the start of b and
// returns its width, 0 for none.
func unescape(b []byte) (c byte, width int) {
	if len(b) < 3 {
		return 0, 0
	}
	switch {
	case b[0] == '%':
		if c, ok := hexByte(b, 1); ok {
			return c, 3
		}
		if b[1] == '2' && b[2] == '5' { // encoded twice
			if c, ok := hexByte(b, 3); ok {
				return c, 5
			}
		}
	case b[0] == '\\' && b[1] == 'x':
		if c, ok := hexByte(b, 2); ok {
			return c, 4
		}
	case b[0] == '\\' && b[1] == 'u' && b[2] == '0' && len(b) > 3 && b[3] == '0':
		if c, ok := hexByte(b, 4); ok {
			return c, 6
		}
	case b[0] == '&' && b[1] == '#':
		return reference(b)
	}
	return 0, 0
}

// reference reads a character reference: &#65; or &#x41;.
func reference(b []byte) (c byte, width int) {
	v, i := 0, 2
	for i < len(b) && i < 6 && digit(b[i]) {
		v = v*10 + int(b[i]-'0')
		i++
	}
	if i > 2 && i < len(b) && b[i] == ';' && v >= 0x20 && v < 0x7f {
		return byte(v), i + 1
	}
	if b[2]|0x20 == 'x' && len(b) > 5 && b[5] == ';' {
		if c, ok := hexByte(b, 3); ok {
			return c, 6
		}
	}
	return 0, 0
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
	start, end = p, p
	for start > 0 && p-start < maxRegion/2 && !parts(b[start-1]) {
		start--
	}
	for end < len(b) && end-p < maxRegion && !parts(b[end]) {
		end++
	}
	return start, end
}

func parts(c byte) bool { return byteKinds[c]&kindParts != 0 }

// maxColor bounds the parameters of a control sequence of a terminal.
const maxColor = 16

// escapeNames are the ways in which source code spells the escape character.
var escapeNames = []string{"\x1b", `\x1b`, `\033`, `\e`, `\u001b`, `\u{1b}`, `\27`, "^["}

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
	for _, name := range escapeNames {
		if hasPrefixAt(b, i-len(name), name, true) {
			return true
		}
	}
	return false
}
