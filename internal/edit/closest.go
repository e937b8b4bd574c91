package edit

import (
	"bytes"
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
