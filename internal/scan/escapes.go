package scan

import (
	"bytes"
	"unicode/utf8"
)

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
		plain := make([]byte, 0, end-start)
		for i := start; i < end; {
			if b[i] == mark {
				if c, width := unescape(b[i:end]); width > 0 {
					plain = utf8Append(plain, c)
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

func utf8Append(b []byte, r rune) []byte {
	if r < 0x80 {
		return append(b, byte(r))
	}
	return utf8.AppendRune(b, r)
}

// unescape reads one escape of an ASCII character at the start of b and
// returns its width, 0 for none.
func unescape(b []byte) (rune, int) {
	if len(b) < 3 {
		return 0, 0
	}
	hexAt := func(from, n int) (rune, bool) {
		if len(b) < from+n {
			return 0, false
		}
		v := rune(0)
		for _, c := range b[from : from+n] {
			switch {
			case digit(c):
				v = v<<4 | rune(c-'0')
			case isHex(c):
				v = v<<4 | rune(c|0x20-'a'+10)
			default:
				return 0, false
			}
		}
		return v, v >= 0x20 && v < 0x7f
	}
	switch {
	case b[0] == '%':
		if v, ok := hexAt(1, 2); ok {
			return v, 3
		}
		if hasPrefixAt(b, 1, "25", false) { // encoded twice
			if v, ok := hexAt(3, 2); ok {
				return v, 5
			}
		}
	case b[0] == '\\' && b[1] == 'x':
		if v, ok := hexAt(2, 2); ok {
			return v, 4
		}
	case b[0] == '\\' && b[1] == 'u':
		if v, ok := hexAt(2, 4); ok {
			return v, 6
		}
	case b[0] == '&' && b[1] == '#':
		v, i := rune(0), 2
		for i < len(b) && i < 6 && digit(b[i]) {
			v = v*10 + rune(b[i]-'0')
			i++
		}
		if i > 2 && i < len(b) && b[i] == ';' && v >= 0x20 && v < 0x7f {
			return v, i + 1
		}
		if b[2] == 'x' || b[2] == 'X' {
			if v, ok := hexAt(3, 2); ok && len(b) > 5 && b[5] == ';' {
				return v, 6
			}
		}
	}
	return 0, 0
}

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

func parts(c byte) bool { return c <= ' ' || c == '"' || c == '\'' || c == '`' || c == '<' || c == '>' }
