package edit

import (
	"bytes"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
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

// isSpace reports whether a character is white space. A byte order mark inside a text
// counts as white space.
func isSpace(r rune) bool { return r == '\ufeff' || unicode.IsSpace(r) }

// asciiFold is what each byte below 0x80 folds to, 0 for white space.
var asciiFold = func() (t [utf8.RuneSelf]byte) {
	for c := range t {
		if r := rune(c); !isSpace(r) {
			t[c] = byte(unicode.ToLower(r))
		}
	}
	return t
}()

// fold appends src to dst without white space and with letters in lower case,
// unless that takes more room.
func fold(dst, src []byte) []byte {
	for i := 0; i < len(src); {
		c := src[i]
		if c < utf8.RuneSelf {
			if low := asciiFold[c]; low != 0 || c == 0 {
				dst = append(dst, low)
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(src[i:])
		if low := unicode.ToLower(r); utf8.RuneLen(low) <= size {
			r = low
		}
		switch {
		case r == utf8.RuneError && size == 1: // no character, and as short as it was
			dst = append(dst, c)
		case !isSpace(r):
			dst = utf8.AppendRune(dst, r)
		}
		i += size
	}
	return dst
}

// folded is a text without white space and case, and the way back from it.
type folded struct {
	src  []byte
	text []byte // has room for slack more bytes
	// marks[i] is how much of text comes from before chunk i of src.
	marks []int
}

const (
	chunk = 4096 // bytes of the source from one mark to the next
	slack = 8    // so that eight bytes can be read at any place of the text
)

func newFolded(src []byte) *folded {
	f := &folded{src: src, text: make([]byte, 0, len(src)+slack)}
	for i := 0; i*chunk < len(src); i++ {
		f.marks = append(f.marks, len(f.text))
		f.text = fold(f.text, src[f.chunkAt(i):f.chunkAt(i+1)])
	}
	return f
}

// chunkAt is where a chunk begins: at a character.
func (f *folded) chunkAt(i int) int {
	p := min(i*chunk, len(f.src))
	for p < len(f.src) && !utf8.RuneStart(f.src[p]) {
		p--
	}
	return p
}

// source returns the position in the source of the character that contains the byte at
// off of the text, and its size there in bytes.
func (f *folded) source(off int) (at, size int) {
	i := sort.Search(len(f.marks), func(i int) bool { return f.marks[i] > off }) - 1
	w, p := f.marks[i], f.chunkAt(i)
	var one [utf8.UTFMax]byte
	for {
		_, size := utf8.DecodeRune(f.src[p:])
		w += len(fold(one[:0], f.src[p:p+size]))
		if w > off {
			return p, size
		}
		p += size
	}
}

// line is the number of the line at a position of the source.
func (f *folded) line(at int) int { return 1 + bytes.Count(f.src[:at], []byte{'\n'}) }
