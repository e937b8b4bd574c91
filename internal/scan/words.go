package scan

// wordSet finds any of some dozen words in one pass, without regard to ASCII
// case. Values are asked about dozens of words at a time, on texts that may be
// made to ask often: a word is compared only where its first two bytes are.
type wordSet struct {
	pairs  [1 << 12]uint8 // by the low bits of two bytes: 1 + their place in starts
	starts [][]string
}

// newWordSet prepares words of at least two bytes, which are in lower case.
func newWordSet(words []string) *wordSet {
	s := &wordSet{}
	for _, w := range words {
		n := &s.pairs[pair(w[0], w[1])]
		if *n == 0 {
			s.starts = append(s.starts, nil)
			*n = uint8(len(s.starts))
		}
		s.starts[*n-1] = append(s.starts[*n-1], w)
	}
	return s
}

func pair(a, b byte) int { return int(pairCodes[a])<<6 | int(pairCodes[b]) }

// pairCodes are the low bits of a byte without its ASCII case.
var pairCodes = func() (t [256]uint8) {
	for c := range t {
		t[c] = lower(byte(c)) & 0x3f
	}
	return t
}()

// in reports whether one of the words is in b.
func (s *wordSet) in(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	code := int(pairCodes[b[0]])
	for i, c := range b[1:] {
		code = code<<6&0xfff | int(pairCodes[c])
		if n := s.pairs[code]; n != 0 {
			for _, w := range s.starts[n-1] {
				if hasPrefixAt(b, i, w, true) {
					return true
				}
			}
		}
	}
	return false
}
