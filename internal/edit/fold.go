package edit

import (
	"bytes"
	"sort"
	"unicode"
	"unicode/utf8"
)

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
