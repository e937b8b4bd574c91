package edit

import (
	"bytes"
	"sort"
	"unicode"
	"unicode/utf8"
)

// ascii tells for each byte below 0x80 what it folds to and how many bytes that
// is: none for white space.
var ascii = func() (t struct{ low, size [256]byte }) {
	for c := range utf8.RuneSelf {
		t.low[c] = byte(unicode.ToLower(rune(c)))
		if !isSpace(rune(c)) {
			t.size[c] = 1
		}
	}
	return t
}()

// isSpace reports whether a character is white space, to which a byte order
// mark inside a text counts.
func isSpace(r rune) bool { return r == '\ufeff' || unicode.IsSpace(r) }

// plain reports whether a three-byte character that begins with c is neither
// white space nor a letter with case: most of CJK and Hangul.
func plain(c byte) bool { return 0xe4 <= c && c <= 0xe9 || c == 0xeb || c == 0xec }

// fold writes src to dst without white space and with letters in lower case,
// and returns the length. It never takes more room than src.
func fold(dst, src []byte) int {
	w := 0
	for i := 0; i < len(src); {
		c := src[i]
		switch {
		case c < utf8.RuneSelf:
			dst[w] = ascii.low[c]
			w += int(ascii.size[c])
			i++
		case plain(c):
			w += copy(dst[w:], src[i:i+3])
			i += 3
		default:
			r, size := utf8.DecodeRune(src[i:])
			i += size
			if !isSpace(r) {
				w += utf8.EncodeRune(dst[w:w+size], foldRune(r, size))
			}
		}
	}
	return w
}

// foldRune is the lower case of a character that has size bytes, or itself when
// that would need more of them.
func foldRune(r rune, size int) rune {
	if r >= 0x1f000 {
		return r
	}
	if low := unicode.ToLower(r); utf8.RuneLen(low) <= size {
		return low
	}
	return r
}

// folded is a text without white space and case, and the way back from it.
type folded struct {
	src  []byte
	text []byte // has room for slack more bytes, which are 0
	// marks[i] is how much of text comes from before chunk i of src.
	marks []int
}

const (
	chunk = 4096 // bytes of the source from one mark to the next
	slack = 8    // so that eight bytes can be read at any place of the text
)

func newFolded(src []byte) *folded {
	f := &folded{src: src, marks: make([]int, 0, len(src)/chunk+1)}
	buf := make([]byte, len(src)+slack)
	w := 0
	for i := 0; i*chunk < len(src); i++ {
		f.marks = append(f.marks, w)
		w += fold(buf[w:len(src)], src[f.chunkAt(i):f.chunkAt(i+1)])
	}
	clear(buf[w : w+slack])
	f.text = buf[:w]
	return f
}

// chunkAt is where a chunk begins: at a character.
func (f *folded) chunkAt(i int) int {
	p := i * chunk
	if p >= len(f.src) {
		return len(f.src)
	}
	for !utf8.RuneStart(f.src[p]) {
		p--
	}
	return p
}

// source is where in the source the character begins of which the byte at off
// of the text is part, and how many bytes it has there.
func (f *folded) source(off int) (at, size int) {
	i := sort.Search(len(f.marks), func(i int) bool { return f.marks[i] > off }) - 1
	w, p := f.marks[i], f.chunkAt(i)
	var one [utf8.UTFMax]byte
	for {
		_, size := utf8.DecodeRune(f.src[p:])
		w += fold(one[:], f.src[p:p+size])
		if w > off {
			return p, size
		}
		p += size
	}
}

// offset is how much of the text comes from before a position of the source
// that begins a character.
func (f *folded) offset(at int) int {
	i := min(at/chunk, len(f.marks)-1)
	p := f.chunkAt(i)
	var buf [chunk + utf8.UTFMax]byte
	return f.marks[i] + fold(buf[:], f.src[p:at])
}

// line is the number of the line at a position of the source.
func (f *folded) line(at int) int { return 1 + bytes.Count(f.src[:at], []byte{'\n'}) }
