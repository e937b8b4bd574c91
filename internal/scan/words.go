package scan

// wordSet finds any of some dozen words in one pass, without regard to ASCII
// case (A. V. Aho, M. J. Corasick, Efficient String Matching, 1975). Values are
// asked about dozens of words at a time, on texts that may be made to ask often.
type wordSet struct {
	class [256]uint8 // of a byte; 0 for those in no word
	width int
	next  []uint16 // by state*width + class: the next state, times width
	found []bool   // by state, while the set is made: a word ends there
	end   int      // what next holds where a word ends
}

// newWordSet prepares words, which are in lower case.
func newWordSet(words []string) *wordSet {
	s := &wordSet{width: 1}
	for _, w := range words {
		for _, c := range []byte(w) {
			if s.class[c] == 0 {
				s.class[c] = uint8(s.width)
				s.width++
			}
		}
	}
	for c := byte('A'); c <= 'Z'; c++ {
		s.class[c] = s.class[c|0x20]
	}
	state := func() uint16 {
		s.next = append(s.next, make([]uint16, s.width)...)
		s.found = append(s.found, false)
		return uint16(len(s.found) - 1)
	}
	state()
	for _, w := range words {
		at := 0
		for _, c := range []byte(w) {
			i := at*s.width + int(s.class[c])
			if s.next[i] == 0 {
				to := state()
				s.next[i] = to
			}
			at = int(s.next[i])
		}
		s.found[at] = true
	}
	s.link()
	s.end = len(s.next)
	for i, to := range s.next {
		if s.next[i] = to * uint16(s.width); s.found[to] {
			s.next[i] = uint16(s.end)
		}
	}
	return s
}

// link completes the automaton: where a word cannot go on, the longest other
// beginning of a word does.
func (s *wordSet) link() {
	fail := make([]uint16, len(s.found))
	var queue []uint16
	for _, to := range s.next[:s.width] {
		if to != 0 {
			queue = append(queue, to)
		}
	}
	for len(queue) > 0 {
		at := int(queue[0])
		queue = queue[1:]
		back := int(fail[at])
		s.found[at] = s.found[at] || s.found[back]
		for c := range s.width {
			i, other := at*s.width+c, s.next[back*s.width+c]
			if s.next[i] == 0 {
				s.next[i] = other
				continue
			}
			fail[s.next[i]] = other
			queue = append(queue, s.next[i])
		}
	}
}

// in reports whether one of the words stands in b.
func (s *wordSet) in(b []byte) bool {
	at := 0
	for _, c := range b {
		at = int(s.next[at+int(s.class[c])])
		if at >= s.end {
			return true
		}
	}
	return false
}
