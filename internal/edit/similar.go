package edit

import (
	"bytes"
	"encoding/binary"
)

const (
	headSize  = 64 << 10 // bytes of a folded string that are compared
	gramPrime = 0x9e3779b97f4a7c15
)

// similar finds the stretch of have that is most similar to want, or returns nil if
// none is more than half similar. Of a long want, only the beginning is compared.
//
// Texts are compared by their grams, which are the runs of a few bytes in them:
// a window of the length of the string slides over the text. Where the stretch
// begins is then found by the first half of the string, by the first half of
// that, and so on.
func similar(want, have *folded) *Closest {
	head := want.text[:min(len(want.text), headSize)]
	at, similarity := 0, 0.0
	for from, to := 0, len(have.text); ; {
		w := newWindow(have.text, head)
		if w == nil {
			break
		}
		a, common := w.slide(from, to)
		share := min(2*float64(common)/float64(w.grams+w.width), 0.99)
		if share <= 0.5 {
			break
		}
		at, similarity = a, max(similarity, share)
		if len(head) < 64 {
			break
		}
		head = head[:len(head)/2]
		from, to = at-len(head), at+len(head)
	}
	if similarity == 0 {
		return nil
	}
	pos, _ := have.source(at)
	// A stretch that begins near the end of a line is likely the next one.
	begin := bytes.LastIndexByte(have.src[:pos], '\n') + 1
	if next := bytes.IndexByte(have.src[pos:], '\n') + 1; next > 0 && pos-begin > next && next <= max(8, len(head)/8) {
		pos += next
	}
	return &Closest{Line: have.line(pos), Similarity: similarity, Why: SimilarText}
}

// A window slides over a text and counts the grams that it has in common with a
// string. Both have slack.
type window struct {
	text  []byte
	grams int // how many the string has
	width int // how many the window has: less when the text is shorter
	mask  uint64
	shift int     // from the hash of a gram to its place in left
	left  []int32 // for each gram, how many more of it the string has than the window
}

// newWindow returns nil when the texts are shorter than a gram. The longer a
// string is the longer are its grams, because two long texts have most short
// ones in common.
func newWindow(text, head []byte) *window {
	size := 6
	switch n := len(head); {
	case n < 12:
		size = 2
	case n < 128:
		size = 3
	case n < 1024:
		size = 4
	}
	w := &window{text: text, mask: 1<<(8*size) - 1, grams: len(head) - size + 1, width: min(len(head), len(text)) - size + 1}
	if w.width <= 0 {
		return nil
	}
	bits := 10
	for bits < 18 && 1<<bits < 4*w.grams {
		bits++
	}
	w.shift, w.left = 64-bits, make([]int32, 1<<bits)
	for i := range w.grams {
		*w.slot(head, i)++
	}
	return w
}

// slot is the count of the gram at a position.
func (w *window) slot(text []byte, i int) *int32 {
	g := binary.LittleEndian.Uint64(text[i:i+8:cap(text)]) & w.mask
	return &w.left[g*gramPrime>>w.shift]
}

// slide finds the window with the most grams in common among the windows that begin in
// a part of the text, and counts these grams. Of consecutive equal windows it returns
// the last one.
func (w *window) slide(from, to int) (at, common int) {
	from = max(0, from)
	to = min(to, len(w.text)) + w.width
	now := 0
	at = from
	for i := from; i < to && i <= len(w.text)-1; i++ {
		if n := w.slot(w.text, i); *n > 0 {
			*n--
			now++
		} else {
			*n--
		}
		begin := i - w.width + 1
		if begin < from {
			continue
		}
		if now > common || now == common && at == begin-1 {
			at, common = begin, now
		}
		if n := w.slot(w.text, begin); *n >= 0 {
			*n++
			now--
		} else {
			*n++
		}
	}
	return at, common
}
