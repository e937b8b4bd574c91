package scan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

const (
	leastSpread = 16  // letters below which what was spread holds no secret
	mostTrials  = 300 // letters up to which a neighbor is tried as a word of its own
)

const eachByte = 0x0101010101010101

// same marks, with its highest bit, each of eight bytes that is c. Above the
// first it may mark one too many.
func same(x uint64, c byte) uint64 {
	x ^= eachByte * uint64(c)
	return (x - eachByte) &^ x & (0x80 * eachByte)
}

const (
	highBits = 0x80 * eachByte
	lowBits  = 0x7f * eachByte
)

// inRun8 reports whether all of eight bytes are letters, digits or one of
// "+/-_"; it takes DEL for one, too.
func inRun8(x uint64) bool {
	y := x | caseBits // '_' becomes 0x7f
	// The highest bit of each sum says that the byte is not below a bound.
	digits := (y + (0x80-'+')*eachByte) &^ (y + (0x80-':')*eachByte)
	letters := (y + (0x80-'a')*eachByte) &^ (y + (0x80-'{')*eachByte)
	joints := ((y ^ ','*eachByte) + lowBits) & ((y ^ '.'*eachByte) + lowBits)
	shown := (x | x<<1) << 1 // no byte is below 0x20
	return (digits|letters|(y+eachByte))&joints&shown&highBits == highBits && x&highBits == 0
}

// runEnd is the end of the characters of base64 in both alphabets that go on
// from i.
func runEnd(b []byte, i int) int {
	for i+8 <= len(b) && inRun8(binary.LittleEndian.Uint64(b[i:])) {
		i += 8
	}
	for i < len(b) && inRun[b[i]] {
		i++
	}
	return i
}

// encodedIn decodes the runs of base64 and of hexadecimal digits in the token
// between two places, and those that begin there and go on in the next line. A
// run that is long enough to hold a secret shows in eight bytes of each sixteen.
func (t *text) encodedIn(start, end int) {
	b := t.b
	if end <= t.lines && start >= t.encoded && !beginsRun(b[start:]) {
		return // a later line of a run
	}
	for p := max(start, t.encoded); p+8 <= end; {
		x := binary.LittleEndian.Uint64(b[p:])
		if same(x, '.')|same(x, ':') == 0 && inRun8(x) {
			t.encoded = max(p+16, t.encodedAt(p))
			p = t.encoded
			continue
		}
		p += 16
	}
}

// spread finds, between two places, what shows in eight bytes of each 24: what
// was written with something between the characters, as blanks after every
// letter, blanks or colons between hexadecimal digits, dumps, and lists of bytes.
// None of those is shorter than 31 bytes if a secret is to be in it.
func (t *text) spread(from, to int) {
	b := t.b
	p := max(from, t.spreadTo, 0)
	for p < to && p+13 <= len(b) {
		next := p + 24
		x := binary.LittleEndian.Uint64(b[p:])
		blanks := same(x, ' ')
		words := blanks & same(binary.LittleEndian.Uint64(b[p+5:]), ' ')
		parted := blanks | same(x, ':') | same(x, '=')
		switch {
		case blanks&(blanks>>16)&(blanks>>32) != 0:
			next = max(next, t.letters(p))
		case parted&(parted>>24) != 0:
			if first := p + bits.TrailingZeros64(parted&(parted>>24))>>3; isHex(b[first+1]) && isHex(b[first+2]) {
				if next = max(next, t.dump(p)); next == p+24 {
					next = max(next, t.pairs(p))
				}
			}
		case words != 0:
			if first := p + bits.TrailingZeros64(words)>>3; isHex(b[first+1]) && isHex(b[first+2]) && isHex(b[first+3]) && isHex(b[first+4]) {
				next = max(next, t.dump(p))
			}
		case same(x|caseBits, 'x')&(same(x, '0')<<8) != 0:
			next = max(next, t.list(p))
		}
		p = next
	}
	t.spreadTo = p
}

// letters scans the letters around p that a blank each parts, and returns where
// they end.
func (t *text) letters(p int) int {
	if t.spaced {
		return p
	}
	b, stop := t.b, p+4
	for p < stop && (b[p] != ' ' || b[p+2] != ' ' || b[p+4] != ' ') {
		p++
	}
	if p == stop {
		return p
	}
	// From here on start and end are blanks.
	start, end := p, p
	for start >= 2 && p-start < maxRegion && b[start-2] == ' ' && b[start-1] > ' ' {
		start -= 2
	}
	for end+2 < len(b) && end-p < maxRegion && b[end+2] == ' ' && b[end+1] > ' ' {
		end += 2
	}
	if end-start < 2*leastSpread-2 {
		return end
	}
	from, to := start-1, min(len(b), end+2)
	if from < 0 || b[from] <= ' ' || from > 0 && isWord(b[from-1]) && isWord(b[from]) && !t.begins(from) {
		from += 2 // a blank more, or the end of a word
	}
	if b[to-1] <= ' ' || to < len(b) && isWord(b[to]) && isWord(b[to-1]) {
		to -= 2 // a blank more, or the start of a word
	}
	t.lettersIn(from, to)
	return end
}

// lettersIn scans the letters from from to to, with a blank after each; where
// nothing is found it tries without the first and without the last one too,
// which may be words of their own.
func (t *text) lettersIn(from, to int) {
	before := len(t.found)
	for _, less := range [][2]int{{0, 0}, {2, 0}, {0, 2}, {2, 2}} {
		plain := t.room((to-from)/2 + 1)
		for _, c := range t.b[from+less[0] : to-less[1]] {
			if c != ' ' {
				plain = append(plain, c)
			}
		}
		t.within(plain, "whitespace", from+less[0], to-less[1])
		if len(plain) > mostTrials || len(t.found) > before && t.found[len(t.found)-1].confidence == Confirmed {
			return
		}
	}
}

// pairs decodes the pairs of hexadecimal digits around p that a blank, a colon
// or, in quoted-printable, an equals sign each parts, and returns where they
// end.
func (t *text) pairs(p int) int {
	b := t.b
	stop := min(p+8, len(b))
	for p < stop && !(p+3 < len(b) && (b[p] == ' ' || b[p] == ':' || b[p] == '=') && b[p+3] == b[p] && isHex(b[p+1]) && isHex(b[p+2])) {
		p++
	}
	if p == stop {
		return p
	}
	sep, start, end := b[p], p+1, p+3
	for start >= 3 && p-start < maxRegion && b[start-1] == sep && isHex(b[start-2]) && isHex(b[start-3]) {
		start -= 3
	}
	for end+2 < len(b) && end-p < maxRegion && b[end] == sep && isHex(b[end+1]) && isHex(b[end+2]) {
		end += 3
	}
	if end-start < 3*leastSpread {
		return end
	}
	plain := t.room((end - start + 1) / 3)
	for i := start; i+1 < end; i += 3 {
		plain = append(plain, nibble(b[i])<<4|nibble(b[i+1]))
	}
	if textual(plain[:leastSpread]) {
		how := "hex"
		if sep == '=' {
			how, start = "quoted_printable", start-1
		}
		t.within(plain, how, start, end)
	}
	return end
}

// list decodes the list of bytes around p, as source code writes them: 0x67,
// 0x68, … over any number of lines. It returns where the list ends.
func (t *text) list(p int) int {
	b := t.b
	stop := min(p+8, len(b))
	for p < stop && listedByte(b, p) == 0 {
		p++
	}
	if p == stop {
		return p
	}
	start, end := p, p
	for p-start < maxRegion {
		at := behind(b, start, 24, separates)
		if at == start || listedByte(b, at-4) == 0 {
			break
		}
		start = at - 4
	}
	plain := t.room(maxRegion)
	for at := start; len(plain) < maxRegion; {
		c := listedByte(b, at)
		if c == 0 {
			break
		}
		plain = append(plain, c)
		end = at + 4
		if at = ahead(b, end, 24, separates); at == end {
			break
		}
	}
	if len(plain) >= leastSpread {
		t.within(plain, "hex", start, end)
	}
	return end
}

// separates reports whether a byte separates two of a list.
func separates(c byte) bool { return c == ',' || isSpace(c) }

// listedByte is the visible character that 0x and two digits at pos stand for; 0
// when it is not one.
func listedByte(b []byte, pos int) byte {
	if pos < 0 || pos+4 > len(b) || b[pos] != '0' || b[pos+1]|0x20 != 'x' {
		return 0
	}
	c, ok := hexByte(b, pos+2)
	if !ok {
		return 0
	}
	return c
}

// wideText is what a finding in UTF-16 was decoded from.
const wideText = "utf-16"

// wide scans text in UTF-16 that is there as bytes: in either order, with
// or without a mark, a whole file or a part of one.
func (t *text) wide() {
	b := t.b
	for p := 1; p+4 < len(b); {
		n := bytes.IndexByte(b[p:], 0)
		if n < 0 {
			return
		}
		p += n
		if p+4 >= len(b) || b[p+2] != 0 || b[p+4] != 0 || !visible(b[p-1]) || !visible(b[p+1]) || !visible(b[p+3]) {
			p++
			continue
		}
		start := p - 1
		for start >= 2 && p-start < maxRegion && b[start-1] == 0 && visible(b[start-2]) {
			start -= 2
		}
		end := start
		for end-start < maxJoined && end+1 < len(b) && b[end+1] == 0 && visible(b[end]) {
			end += 2
		}
		if start > 0 && b[start-1] == 0 && end < len(b) && visible(b[end]) {
			end++ // the last one of the other order, whose zero came first
		}
		if plain := t.room((end - start + 1) / 2); end-start >= 2*leastSpread {
			for i := start; i < end; i += 2 {
				plain = append(plain, b[i])
			}
			first := len(t.found)
			t.decoded(plain, wideText, func(from, to int) (int, int) { return start + 2*from, min(end, start+2*to) })
			for i := first; i < len(t.found); i++ {
				t.found[i].at = t.found[i].start
			}
		}
		if p = end + 1; end-start >= maxJoined {
			p -= maxRegion // what extends over the end is seen whole with what follows
		}
	}
}

// visible reports whether a byte is one of plain text.
func visible(c byte) bool { return c >= ' ' && c < 0x7f || isSpace(c) }
