package scan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// joined puts string literals together that the program would join: "a" + "b",
// also over lines, "a" "b" where white space is enough, and "a""b" where
// nothing is. Only joints inside of a word are followed.
func (t *text) joined() {
	for _, quote := range []byte{'"', '\'', '`'} {
		for p := 0; p < len(t.b); {
			n := bytes.IndexByte(t.b[p:], quote)
			if n < 0 {
				break
			}
			p += n
			if p == 0 || !inRun[t.b[p-1]] && t.b[p-1] != '.' && t.b[p-1] != '~' {
				p++
				continue
			}
			if next := joint(t.b, p); next > 0 {
				p = t.join(p)
				continue
			}
			p++
		}
	}
}

// joint returns the start of the literal that is joined to the one that ends
// with the quote at p; 0 for none.
func joint(b []byte, p int) int {
	i, ops := p+1, 0
	for n := 0; i < len(b) && n < 64; n++ {
		switch c := b[i]; {
		case isSpace(c):
		case c == '+' || c == '.' || c == '&' || c == '~' || c == '\\':
			if ops++; ops > 2 {
				return 0
			}
		case c == '"' || c == '\'' || c == '`':
			if i+1 >= len(b) || !inRun[b[i+1]] && b[i+1] != '.' && b[i+1] != '~' {
				return 0
			}
			return i + 1
		case (c == 'f' || c == 'r' || c == 'b' || c == 'u') && i+1 < len(b) && (b[i+1] == '"' || b[i+1] == '\''):
		default:
			return 0
		}
		i++
	}
	return 0
}

// join scans the literals that are joined from the one whose end is the quote
// at p, and returns where they end.
func (t *text) join(p int) int {
	start := p
	for start > 0 && p-start < maxRegion && !parts(t.b[start-1]) {
		start--
	}
	plain := append(t.room(maxRegion), t.b[start:p]...)
	end := p
	for len(plain) < maxJoined {
		next := joint(t.b, end)
		if next == 0 {
			break
		}
		stop := next
		for stop < len(t.b) && stop-next < maxRegion && !parts(t.b[stop]) {
			stop++
		}
		plain = append(plain, t.b[next:stop]...)
		end = stop
		if stop >= len(t.b) || t.b[stop] <= ' ' || t.b[stop] == '<' || t.b[stop] == '>' {
			break
		}
	}
	t.within(plain, "concat", start, end)
	return max(end, p+1)
}

// hidden takes out characters of no width and scans the words they were in.
func (t *text) hidden() {
	for p := 0; p < len(t.b); {
		n, width := nextHidden(t.b[p:])
		if n < 0 {
			return
		}
		p += n
		start, end := region(t.b, p)
		if p == 0 && width == 3 && t.b[0] == 0xef { // a byte order mark
			p += width
			continue
		}
		plain := t.room(end - start)
		for i := start; i < end; {
			if t.b[i] >= 0xc2 {
				if w := hiddenWidth(t.b[i:]); w > 0 {
					i += w
					continue
				}
			}
			plain = append(plain, t.b[i])
			i++
		}
		t.within(plain, "zero_width", start, end)
		p = max(end, p+width)
	}
}

// nextHidden finds the next character of no width: nothing in ASCII is one, so
// eight bytes are passed over at a time where all of them are.
func nextHidden(b []byte) (at, width int) {
	for i := 0; i < len(b); {
		if i+8 <= len(b) {
			high := binary.LittleEndian.Uint64(b[i:]) & 0x8080808080808080
			if high == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(high) >> 3
		}
		if hiddenLead[b[i]] {
			if w := hiddenWidth(b[i:]); w > 0 {
				return i, w
			}
		}
		i++
	}
	return -1, 0
}

// hiddenLead marks the bytes with which such a character begins.
var hiddenLead = [256]bool{0xc2: true, 0xcd: true, 0xe1: true, 0xe2: true, 0xef: true, 0xf3: true}

// hiddenWidth is the number of bytes of a character at the start of b that
// shows nothing: U+00AD, U+034F, U+180B–E, U+200B–F, U+202A–E, U+2060–F,
// U+FE00–F, U+FEFF, U+E0000–E01EF; 0 for others.
func hiddenWidth(b []byte) int {
	if len(b) < 2 || b[0] < 0xc2 {
		return 0
	}
	r, n := utf8.DecodeRune(b)
	switch {
	case r == 0xad, r == 0x34f, r >= 0x180b && r <= 0x180e, r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e,
		r >= 0x2060 && r <= 0x206f, r >= 0xfe00 && r <= 0xfe0f, r == 0xfeff, r >= 0xe0000 && r <= 0xe01ef:
		return n
	}
	return 0
}
