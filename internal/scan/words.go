package scan

import "fmt"

// wordSet finds any of some dozen words in one pass, without regard to ASCII
// case. Values are asked about dozens of words at a time, on texts that may be
// made to ask often: with words of n bytes and more, two bytes of each n-1 are
// looked at, and a word is compared only where it has those two.
type wordSet struct {
	step   int
	codes  [256]uint8     // the low bits of a byte without its ASCII case
	pairs  [1 << 12]uint8 // by the codes of two bytes: 1 + their place in places
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
	for c := range s.codes {
		s.codes[c] = fold[c] & 0x3f
	}
	for _, w := range words {
		for off := range s.step {
			n := &s.pairs[s.pair(w[off], w[off+1])]
			if *n == 0 {
				s.places = append(s.places, nil)
				if *n = uint8(len(s.places)); int(*n) != len(s.places) {
					panic(fmt.Sprintf("scan: too many words with %q", w))
				}
			}
			s.places[*n-1] = append(s.places[*n-1], wordAt{w, off})
		}
	}
	return s
}

func (s *wordSet) pair(a, b byte) int { return int(s.codes[a])<<6 | int(s.codes[b]) }

// in reports whether one of the words is in b. It looks from the end, since what
// is asked for is most often right in front of a value.
func (s *wordSet) in(b []byte) bool {
	for i := len(b) - 2; i >= 0; i -= s.step {
		if n := s.pairs[s.pair(b[i], b[i+1])&0xfff]; n != 0 {
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
