package scan

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// wordSet finds any of some dozen words in one pass, without regard to ASCII
// case. Values are asked about dozens of words at a time, on texts that may be
// made to ask often: with words of n bytes and more, two bytes of each n-1 are
// looked at, and a word is compared only where it has those two.
type wordSet struct {
	step   int
	pairs  [1 << pairBits]uint8 // by the hash of two bytes: 1 + their place in places
	places [][]wordAt
	fold   *[256]byte
}

// wordAt is a word, and where in it its two bytes are.
type wordAt struct {
	text string
	off  int
}

// newWordSet prepares words of at least two bytes, which are in lower case.
func newWordSet(words []string) *wordSet { return newFoldedSet(&lowers, words) }

// newFoldedSet does the same for a text whose bytes are read as fold has them.
func newFoldedSet(fold *[256]byte, words []string) *wordSet {
	s := &wordSet{step: len(words[0]) - 1, fold: fold}
	for _, w := range words {
		s.step = min(s.step, len(w)-1)
	}
	var read [256][]byte // as what the bytes are read that are not letters
	for c := range 256 {
		if !letter(byte(c)) {
			read[fold[c]] = append(read[fold[c]], byte(c))
		}
	}
	for c := byte('a'); c <= 'z'; c++ {
		read[c] = append(read[c], c)
	}
	for _, w := range words {
		for off := range s.step {
			for _, a := range read[w[off]] {
				for _, b := range read[w[off+1]] {
					s.add(pairHash(uint16(a)|uint16(b)<<8), wordAt{w, off})
				}
			}
		}
	}
	return s
}

func (s *wordSet) add(hash uint32, at wordAt) {
	n := &s.pairs[hash]
	if *n == 0 {
		s.places = append(s.places, nil)
		if *n = uint8(len(s.places)); int(*n) != len(s.places) {
			panic(fmt.Sprintf("scan: too many words with %q", at.text))
		}
	}
	if !slices.Contains(s.places[*n-1], at) {
		s.places[*n-1] = append(s.places[*n-1], at)
	}
}

const pairBits = 12

// pairHash is the hash of two bytes without their ASCII case.
func pairHash(x uint16) uint32 { return uint32(x|0x2020) * 0x9E3779B1 >> (32 - pairBits) }

// in reports whether one of the words is in b. It looks from the end, since what
// is asked for is most often right in front of a value.
func (s *wordSet) in(b []byte) bool {
	for i := len(b) - 2; i >= 0; i -= s.step {
		if n := s.pairs[pairHash(binary.LittleEndian.Uint16(b[i:]))]; n != 0 {
			for _, w := range s.places[n-1] {
				if s.at(b, i-w.off, w.text) {
					return true
				}
			}
		}
	}
	return false
}

// at reports whether a word is at pos of b.
func (s *wordSet) at(b []byte, pos int, w string) bool {
	if pos < 0 || len(b)-pos < len(w) {
		return false
	}
	for i := range len(w) {
		if s.fold[b[pos+i]] != w[i] {
			return false
		}
	}
	return true
}

// foldedPrefix reports whether b begins with a word, which is in lower case,
// without regard to ASCII case.
func foldedPrefix(b []byte, w string) bool {
	if len(b) < len(w) {
		return false
	}
	for i := range len(w) {
		if lowers[b[i]] != w[i] {
			return false
		}
	}
	return true
}
