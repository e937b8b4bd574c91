package edit

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf8"
)

// Closest is the stretch of a text that is most like a string not found in it.
type Closest struct {
	Line       int     // of its first character that is not white space
	Similarity float64 // above 0.5, below 1
	Why        string  // one of the constants below
}

// The ways in which the closest stretch differs.
const (
	DiffersInWhitespace = "differs_in_whitespace" // also where words are joined or parted
	DiffersInCase       = "differs_in_case"
	DiffersInLineEnds   = "differs_in_line_ends" // LF, CRLF or CR
	SimilarText         = "similar_text"         // anything else, or more than one of these
)

// maxSame bounds the number of stretches that differ only in white space and case and
// are compared.
const maxSame = 32

// preference orders the ways in which stretches differ, the best first.
var preference = map[string]int{DiffersInLineEnds: 1, DiffersInWhitespace: 2, DiffersInCase: 2, SimilarText: 3}

// closest finds the stretch of body that is most similar to old, or returns nil if none
// is more than half similar. Stretches that differ only in line ends, white space or
// case come first, in this order of preference. The time is linear in the sizes of
// both.
func closest(body []byte, old string) *Closest {
	want, have := newFolded([]byte(old)), newFolded(body)
	if len(want.text) == 0 || len(have.text) == 0 {
		return nil
	}
	lead := len(old) - len(strings.TrimLeftFunc(old, isSpace))
	trail := len(old) - len(strings.TrimRightFunc(old, isSpace))
	s := newSearch(string(want.text), false)
	var best *Closest
	at, first := 0, 0
	for range maxSame {
		start, end, ok := s.after(have.text, at)
		if !ok {
			break
		}
		at = end
		from, _ := have.source(start)
		to, size := have.source(end - 1)
		to += size
		before, after := body[max(0, from-lead):from], body[to:min(len(body), to+trail)]
		before = before[len(bytes.TrimRightFunc(before, isSpace)):]
		after = after[:len(after)-len(bytes.TrimLeftFunc(after, isSpace))]
		c := compare(old, string(body[from-len(before):to+len(after)]))
		if p, q := preference[c.Why], 0; best != nil {
			if q = preference[best.Why]; p > q || p == q && c.Similarity <= best.Similarity {
				continue
			}
		}
		best, first = &c, from
	}
	switch {
	case best == nil:
		return similar(want, have)
	case best.Similarity <= 0.5:
		return nil
	}
	best.Line = have.line(first)
	return best
}

// compare measures how two texts differ that are the same without white space and
// case. A letter weighs more than white space, and in the other case it is three
// quarters right.
func compare(a, b string) Closest {
	common, all := 0, 0
	letter, space := false, false
	for i, j := 0, 0; i < len(a) || j < len(b); {
		r, n := utf8.DecodeRuneInString(a[i:])
		q, m := utf8.DecodeRuneInString(b[j:])
		switch {
		case n > 0 && m > 0 && isSpace(r) == isSpace(q):
			weight := 8
			if isSpace(r) {
				weight = 2
			}
			all += weight
			switch {
			case r == q:
				common += weight
			case isSpace(r):
				space = true
			default:
				common += 6
				letter = true
			}
			i, j = i+n, j+m
		case n > 0 && isSpace(r):
			space, all, i = true, all+1, i+n
		default:
			space, all, j = true, all+1, j+max(m, 1)
		}
	}
	c := Closest{Similarity: float64(common) / float64(max(all, 1)), Why: DiffersInWhitespace}
	switch {
	case bare(a) == bare(b):
		c.Why = DiffersInLineEnds
	case letter && space:
		c.Why = SimilarText
	case letter:
		c.Why = DiffersInCase
	}
	return c
}

// bare is a text with every line end as a line feed.
func bare(s string) string { return strings.ReplaceAll(lineFeeds(s), "\r", "\n") }

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
