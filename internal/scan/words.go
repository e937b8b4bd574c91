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

// in reports whether one of the words is in b. It looks from the end, since what
// is asked for is most often right in front of a value.
func (s *wordSet) in(b []byte) bool {
	code := 0
	for i := len(b) - 1; i >= 0; i-- {
		code = code>>6 | int(pairCodes[b[i]])<<6
		if n := s.pairs[code&0xfff]; n != 0 {
			for _, w := range s.starts[n-1] {
				if foldedPrefix(b[i:], w) {
					return true
				}
			}
		}
	}
	return false
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
