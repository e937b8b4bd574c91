package scan

import (
	"encoding/binary"
	"fmt"
)

// folded is a word, in lower case, that is compared without regard to ASCII case.
type folded struct {
	text string
	head uint64 // its first bytes
	mask uint64 // of head
	fold uint64 // the case bits of the letters in head
}

func fold(text string) folded {
	var head [8]byte
	n := copy(head[:], text)
	w := folded{text: text, mask: uint64(1)<<(8*n-1)<<1 - 1, head: binary.LittleEndian.Uint64(head[:])}
	for i, c := range head {
		if letter(c) {
			w.fold |= 0x20 << (8 * i)
		}
	}
	return w
}

// at reports whether the word is at pos of b.
func (w *folded) at(b []byte, pos int) bool { return w.mayBeAt(b, pos) && w.isAt(b, pos) }

// mayBeAt looks at the first bytes, in code that is inlined.
func (w *folded) mayBeAt(b []byte, pos int) bool {
	return pos < 0 || pos+8 > len(b) || (binary.LittleEndian.Uint64(b[pos:])|w.fold)&w.mask == w.head
}

// isAt looks at the others.
func (w *folded) isAt(b []byte, pos int) bool {
	if pos < 0 || pos+8 > len(b) {
		return hasPrefixAt(b, pos, w.text, true)
	}
	return len(w.text) <= 8 || hasPrefixAt(b, pos+8, w.text[8:], true)
}

// wordSet finds any of some dozen words in one pass, without regard to ASCII
// case. Values are compared with dozens of words at a time, in texts that may be
// made to ask often: of words of n bytes and more, two bytes of each n-1 are
// looked at, and a word is compared only where it has those two. It is known by
// n-1 of its pairs in a row, the rarest ones.
type wordSet struct {
	step   int
	pairs  [1 << pairBits]uint8 // by the hash of two bytes: 1 + their place in places
	next   [256]uint8           // by that number, a bit for the low bits of each byte that may follow
	places [][]wordAt
}

// wordAt is a word, and where in it its two bytes are.
type wordAt struct {
	folded
	off int
}

const pairBits = 12

// pairHash is the hash of two bytes without their ASCII case.
func pairHash(x uint16) uint32 { return uint32(x|0x2020) * 0x9E3779B1 >> (32 - pairBits) }

// newWordSet prepares words of at least two bytes, which are in lower case.
func newWordSet(words []string) *wordSet {
	s := &wordSet{step: len(words[0]) - 1}
	for _, w := range words {
		s.step = min(s.step, len(w)-1)
	}
	pair := func(w string, off int) uint32 { return pairHash(uint16(w[off]) | uint16(w[off+1])<<8) }
	known := map[uint32]int{} // in how many places of words
	for _, w := range words {
		for off := range len(w) - 1 {
			known[pair(w, off)]++
		}
	}
	for _, w := range words {
		first, least := 0, 1<<30 // those of a row of step pairs that are rarest
		for from := range len(w) - s.step {
			n := 0
			for off := from; off < from+s.step; off++ {
				n += known[pair(w, off)]
			}
			if n < least {
				first, least = from, n
			}
		}
		for off := first; off < first+s.step; off++ {
			n := &s.pairs[pair(w, off)]
			if *n == 0 {
				s.places = append(s.places, nil)
				if *n = uint8(len(s.places)); int(*n) != len(s.places) {
					panic(fmt.Sprintf("scan: too many words with %q", w))
				}
			}
			s.places[*n-1] = append(s.places[*n-1], wordAt{fold(w), off})
			if off+2 < len(w) {
				s.next[*n] |= 1 << (w[off+2] & 7)
			} else {
				s.next[*n] = 0xff
			}
		}
	}
	return s
}

// in reports whether one of the words is in b. It looks from the end, since what
// is asked for is most often right in front of a value.
func (s *wordSet) in(b []byte) bool {
	for i := len(b) - 2; i >= 0; i -= s.step {
		if n := s.pairs[pairHash(binary.LittleEndian.Uint16(b[i:]))]; n != 0 && (i+2 >= len(b) || s.next[n]>>(b[i+2]&7)&1 != 0) {
			places := s.places[n-1]
			for k := range places {
				if w := &places[k]; w.at(b, i-w.off) {
					return true
				}
			}
		}
	}
	return false
}
