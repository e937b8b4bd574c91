package edit

import (
	"bytes"
	"encoding/binary"
)

const (
	headSize  = 64 << 10 // bytes of a folded string that are compared
	gramPrime = 0x9e3779b97f4a7c15
)

// similar finds the stretch of have most like want, nil when there is none that
// is more than half similar. Of a long want, only the beginning is compared.
//
// Texts are compared by their grams, which are the runs of a few bytes in them.
// First the whole text is searched for a sample of the grams of the string,
// which is one look at each byte. Then a window of the length of the string
// slides over the few places that have most of these.
func similar(want, have *folded) *Closest {
	head := want.text[:min(len(want.text), headSize)]
	size := gramSize(len(head))
	if len(head) < size || len(have.text) < size {
		return nil
	}
	w := newWindow(have.text, head, size)
	at, common := -1, 0
	for _, p := range newSample(head, size).places(have.text) {
		if a, c := w.slide(p.from, p.to); c > common {
			at, common = a, c
		}
	}
	similarity := min(w.share(common), 0.99)
	if similarity <= 0.5 {
		return nil
	}
	return &Closest{Line: w.line(have, at, common), Similarity: similarity, Why: SimilarText}
}

// gramSize is the length of the grams of a string. The longer it is the longer
// they are, because two long texts have most short ones in common.
func gramSize(n int) int {
	switch {
	case n < 12:
		return 2
	case n < 128:
		return 3
	case n < 1024:
		return 4
	}
	return 6
}

// gramMask is for the bytes of a gram among eight.
func gramMask(size int) uint64 { return 1<<(8*size) - 1 }

// A window slides over a text and counts the grams that it has in common with a
// string. Both have slack.
type window struct {
	text  []byte
	head  []byte // the string
	grams int    // how many head has
	width int    // how many the window has: less when the text is shorter
	mask  uint64
	shift int     // from the hash of a gram to its place in left
	left  []int32 // for each gram, how many more of it head has than the window
}

func newWindow(text, head []byte, size int) *window {
	w := &window{text: text, head: head, mask: gramMask(size)}
	w.grams = len(head) - size + 1
	w.width = min(len(head), len(text)) - size + 1
	width := 10
	for width < 18 && 1<<width < 4*w.grams {
		width++
	}
	w.shift = 64 - width
	w.left = make([]int32, 1<<width)
	for i := range w.grams {
		w.left[w.slot(head, i)]++
	}
	return w
}

// slot is the place in left of the gram at a position.
func (w *window) slot(text []byte, i int) uint64 {
	g := binary.LittleEndian.Uint64(text[i:i+8:cap(text)]) & w.mask
	return g * gramPrime >> w.shift
}

// share is the similarity that goes with a number of grams in common.
func (w *window) share(common int) float64 {
	return 2 * float64(common) / float64(w.grams+w.width)
}

// slide finds the window with most grams in common among those that begin in a
// part of the text, the last one of equals that follow each other, and counts
// these grams.
func (w *window) slide(from, to int) (at, common int) {
	last := len(w.text) - len(w.head) + w.grams - w.width
	from, to = min(max(0, from), last), min(to, last)
	now := w.fill(from)
	at, common = from, now
	for i := from; i < to; i++ {
		now += w.enter(i+w.width) - w.leave(i)
		if now > common || now == common && at == i {
			at, common = i+1, now
		}
	}
	w.empty(max(from, to))
	return at, common
}

// fill counts the grams in common when the window begins at i.
func (w *window) fill(i int) (common int) {
	for end := i + w.width; i < end; i++ {
		common += w.enter(i)
	}
	return common
}

// empty takes out the grams of the window that begins at i.
func (w *window) empty(i int) {
	for end := i + w.width; i < end; i++ {
		w.leave(i)
	}
}

// enter adds the gram at i to the window: 1 when it is one in common.
func (w *window) enter(i int) int {
	left := &w.left[w.slot(w.text, i)]
	*left--
	if *left >= 0 {
		return 1
	}
	return 0
}

// leave takes the gram at i out of the window: 1 when it was one in common.
func (w *window) leave(i int) int {
	left := &w.left[w.slot(w.text, i)]
	*left++
	if *left > 0 {
		return 1
	}
	return 0
}

// narrow finds out better where the stretch begins, from a window that begins
// about there: by the first half of the string, then by the first half of that,
// as long as they are more than half similar to something near.
func (w *window) narrow(at, common int) (*window, int, int) {
	for len(w.head) >= 64 {
		head := w.head[:len(w.head)/2]
		next := newWindow(w.text, head, gramSize(len(head)))
		a, c := next.slide(at-len(w.head)/2, at+len(w.head)/2)
		if next.share(c) <= 0.5 {
			break
		}
		w, at, common = next, a, c
	}
	return w, at, common
}

// line is the number of the line where the stretch begins. When that is not at
// the start of a line, but one starts a little later and the window there has
// nearly as much in common, it is this one.
func (w *window) line(have *folded, at, common int) int {
	w, at, common = w.narrow(at, common)
	pos, _ := have.source(at)
	line := have.line(pos)
	if have.offset(bytes.LastIndexByte(have.src[:pos], '\n')+1) == at {
		return line
	}
	skip := bytes.IndexByte(have.src[pos:], '\n')
	if skip < 0 {
		return line
	}
	start := have.offset(pos + skip + 1)
	if start-at > max(8, len(w.head)/8) || start+len(w.head) > len(w.text) {
		return line
	}
	now := w.fill(start)
	w.empty(start)
	if 10*now < 9*common {
		return line
	}
	pos, _ = have.source(start)
	return have.line(pos)
}
