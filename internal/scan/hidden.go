package scan

import (
	"encoding/binary"
	"math/bits"
	"unicode"
	"unicode/utf8"
)

// A hidden character shows nothing, or only space that is not ASCII: those with
// the Unicode property Default_Ignorable_Code_Point, and those of the
// categories Cf (format), Zs, Zl and Zp (separators).
var hiddenTables = []*unicode.RangeTable{
	unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Cf, unicode.Zs, unicode.Zl, unicode.Zp,
}

// isHidden reports whether a character is hidden.
func isHidden(r rune) bool {
	if uint32(r) < 0x10000 {
		return hiddenRunes[uint32(r)>>6]>>(r&63)&1 == 1
	}
	return unicode.IsOneOf(hiddenTables, r)
}

// hiddenRunes has a bit for each character of the basic plane that is hidden.
var hiddenRunes [0x10000 / 64]uint64

// hiddenBytes has, by the first byte of a character, a bit for the low six bits
// of each second byte that a hidden one has.
var hiddenBytes [256]uint64

func init() {
	mark := func(low, high, stride rune) {
		for r := low; r <= high; r += stride {
			if r < 0x80 {
				continue
			}
			var buf [utf8.UTFMax]byte
			utf8.EncodeRune(buf[:], r)
			hiddenBytes[buf[0]] |= 1 << (buf[1] & 0x3f)
			if r < 0x10000 {
				hiddenRunes[r>>6] |= 1 << (r & 63)
			}
		}
	}
	for _, table := range hiddenTables {
		for _, r := range table.R16 {
			mark(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
		for _, r := range table.R32 {
			mark(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
	}
}

// nextHidden finds the next hidden character: nothing in ASCII is one, so eight
// bytes are passed over at a time where all of them are.
func nextHidden(b []byte) (at, width int) {
	for i := 0; i < len(b); {
		for i+32 <= len(b) && (binary.LittleEndian.Uint64(b[i:])|binary.LittleEndian.Uint64(b[i+8:])|binary.LittleEndian.Uint64(b[i+16:])|binary.LittleEndian.Uint64(b[i+24:]))&highBits == 0 {
			i += 32
		}
		if i+8 <= len(b) {
			high := binary.LittleEndian.Uint64(b[i:]) & highBits
			if high == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(high) >> 3
		}
		if w := hiddenWidth(b[i:]); w > 0 {
			return i, w
		}
		i++
	}
	return -1, 0
}

// hiddenWidth is the number of bytes of a hidden character at the start of b; 0
// for others.
func hiddenWidth(b []byte) int {
	if len(b) < 2 || hiddenBytes[b[0]]>>(b[1]&0x3f)&1 == 0 {
		return 0
	}
	if r, n := utf8.DecodeRune(b); isHidden(r) {
		return n
	}
	return 0
}

// hiddenBehind is the number of bytes of a hidden character at the end of b; 0
// for others.
func hiddenBehind(b []byte) int {
	if r, n := utf8.DecodeLastRune(b); n > 1 && isHidden(r) {
		return n
	}
	return 0
}
