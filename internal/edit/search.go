package edit

import (
	"bytes"
	"strings"
)

// leadSize is how many bytes of a string are looked for in one go. More would
// help little, and the cost of a hostile text grows with it.
const leadSize = 32

// A search searches for one string. Its time is linear in the text and the string.
type search struct {
	old   string
	loose bool   // a line feed of old matches a CRLF too
	lead  []byte // the beginning of old that is looked for first
	// borders[k] is the length of the longest proper prefix of old[:k+1] that
	// is also its suffix. Made when first needed, which is hardly ever.
	borders []int
}

// newSearch prepares the search for old in a text with or without CRLF.
func newSearch(old string, crlf bool) *search {
	s := &search{old: old}
	s.loose = crlf && strings.Contains(old, "\n") && !strings.Contains(old, "\r")
	n := min(len(old), leadSize)
	if s.loose {
		if i := strings.IndexByte(old[:n], '\n'); i >= 0 {
			n = max(i, 1)
		}
	}
	s.lead = []byte(old[:n])
	return s
}

// after finds the first match that begins at or after position i.
func (s *search) after(text []byte, i int) (start, end int, ok bool) {
	k := 0 // bytes of old that match the bytes before i
	for {
		if k == 0 {
			j := bytes.Index(text[i:], s.lead)
			if j < 0 {
				return 0, 0, false
			}
			i += j + len(s.lead)
			k = len(s.lead)
		}
		for k < len(s.old) && i < len(text) && text[i] == s.old[k] {
			i++
			k++
		}
		switch {
		case k == len(s.old):
			return s.start(text, i), i, true
		case i == len(text):
			return 0, 0, false
		case s.loose && text[i] == '\r' && i+1 < len(text) && text[i+1] == '\n':
			i++ // the line feed that follows represents both
		default:
			if s.borders == nil {
				s.borders = borders(s.old)
			}
			k = s.borders[k-1]
		}
	}
}

// start is where the match that ends at i begins.
func (s *search) start(text []byte, i int) int {
	if !s.loose {
		return i - len(s.old)
	}
	for range len(s.old) {
		i--
		if text[i] == '\n' && i > 0 && text[i-1] == '\r' {
			i--
		}
	}
	return i
}

// borders is the table of the Knuth-Morris-Pratt search.
func borders(old string) []int {
	b := make([]int, len(old))
	k := 0
	for i := 1; i < len(old); i++ {
		for k > 0 && old[i] != old[k] {
			k = b[k-1]
		}
		if old[i] == old[k] {
			k++
		}
		b[i] = k
	}
	return b
}

// count finds how many matches there are, and where the first ones begin.
func (s *search) count(text []byte) (total int, first []int) {
	for at := 0; ; total++ {
		start, end, ok := s.after(text, at)
		if !ok {
			return total, first
		}
		if len(first) < maxLines {
			first = append(first, start)
		}
		at = end
	}
}

// misses is the reason why a number of matches is not the one asked for, or
// empty when it is.
func misses(total, count int) string {
	switch {
	case total == 0:
		return OldStringNotFound
	case count < 0 || total == count:
		return ""
	case total < count:
		return InsufficientMatches
	case count == 1:
		return AmbiguousMatch
	}
	return TooManyMatches
}
