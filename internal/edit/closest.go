package edit

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Closest is the stretch of a text that is most like a string not found in it.
type Closest struct {
	Line       int     // on which the stretch begins
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

// maxSame bounds how many stretches that differ in white space and case alone
// are looked at.
const maxSame = 32

// closest finds the stretch of body that is most like old, nil when there is
// none that is more than half similar. Stretches that differ in line ends,
// white space or case alone come first, in this order of preference. The time
// is linear in the sizes of both.
func closest(body []byte, old string) *Closest {
	want := newFolded([]byte(old))
	if len(want.text) == 0 || len(body) == 0 {
		return nil
	}
	have := newFolded(body)
	if len(have.text) == 0 {
		return nil
	}
	s := newSearch(string(want.text), false)
	var best *Closest
	at := 0
	for range maxSame {
		start, end, ok := s.after(have.text, at)
		if !ok {
			break
		}
		at = end
		from, _ := have.source(start)
		last, size := have.source(end - 1)
		if c := compare(old, body, from, last+size); best == nil || c.before(best) {
			best = &c
		}
	}
	if best == nil {
		return similar(want, have)
	}
	if best.Similarity <= 0.5 {
		return nil
	}
	best.Line = have.line(best.Line)
	return best
}

// before reports whether c is to be preferred to d.
func (c *Closest) before(d *Closest) bool {
	rank := func(why string) int {
		switch why {
		case DiffersInLineEnds:
			return 0
		case SimilarText:
			return 2
		}
		return 1
	}
	if r, s := rank(c.Why), rank(d.Why); r != s {
		return r < s
	}
	return c.Similarity > d.Similarity
}

// What the parts of a text weigh when two are compared. A letter in the other
// case is three quarters right.
const (
	letterWeight = 4
	caseWeight   = 3
	spaceWeight  = 1
)

// compare tells how old differs from the stretch of body from its first to its
// last character that is not white space, when both are the same without white
// space and case. Line of the result is the position where the stretch begins.
func compare(old string, body []byte, from, to int) Closest {
	var c comparison
	core := strings.TrimLeftFunc(old, isSpace)
	lead := old[:len(old)-len(core)]
	core = strings.TrimRightFunc(core, isSpace)
	trail := old[len(lead)+len(core):]

	begin := leadBefore(body[:from], lead)
	c.spaces(lead, string(body[begin:from]), true)
	text := body[from:to]
	for core != "" && len(text) > 0 {
		r, n := utf8.DecodeRuneInString(core)
		q, m := utf8.DecodeRune(text)
		if !isSpace(r) && !isSpace(q) {
			c.letters(r == q)
			core, text = core[n:], text[m:]
			continue
		}
		a := core[:len(core)-len(strings.TrimLeftFunc(core, isSpace))]
		b := text[:len(text)-len(bytes.TrimLeftFunc(text, isSpace))]
		c.spaces(a, string(b), false)
		core, text = core[len(a):], text[len(b):]
	}
	c.spaces(trail, trailBehind(body[to:], trail), false)
	return Closest{Line: begin, Similarity: float64(c.common) / float64(max(c.all, 1)), Why: c.why()}
}

// leadBefore is where the white space begins, at the end of text, that stands
// for the white space lead: as many lines of it.
func leadBefore(text []byte, lead string) int {
	if lead == "" {
		return len(text)
	}
	begin := len(bytes.TrimRightFunc(text, isSpace))
	lines := strings.Count(lead, "\n")
	for i := len(text); ; lines-- {
		i = bytes.LastIndexByte(text[begin:i], '\n')
		if i < 0 {
			return begin
		}
		i += begin
		if lines == 0 {
			return i + 1
		}
	}
}

// trailBehind is the white space, at the start of text, that stands for the
// white space trail: as many lines of it.
func trailBehind(text []byte, trail string) string {
	if trail == "" {
		return ""
	}
	run := text[:len(text)-len(bytes.TrimLeftFunc(text, isSpace))]
	end := 0
	for range strings.Count(trail, "\n") {
		i := bytes.IndexByte(run[end:], '\n')
		if i < 0 {
			return string(run)
		}
		end += i + 1
	}
	if end == 0 {
		if end = bytes.IndexByte(run, '\n'); end < 0 {
			end = len(run)
		}
	}
	return string(run[:end])
}

// A comparison sums up what two texts have in common, as a share of all.
type comparison struct {
	common, all         int
	ends, space, letter bool // what they differ in
}

func (c *comparison) letters(same bool) {
	c.all += 2 * letterWeight
	if same {
		c.common += 2 * letterWeight
		return
	}
	c.common += 2 * caseWeight
	c.letter = true
}

// spaces compares two runs of white space, either of which may be empty: from
// their ends when what follows them is the same, else from their beginnings.
func (c *comparison) spaces(a, b string, fromEnd bool) {
	c.all += spaceWeight * (len(a) + len(b))
	if a != b {
		if bare(a) == bare(b) {
			c.ends = true
		} else {
			c.space = true
		}
	}
	for a != "" && b != "" {
		i, j := 0, 0
		if fromEnd {
			i, j = len(a)-1, len(b)-1
		}
		if a[i] != b[j] {
			return
		}
		c.common += 2 * spaceWeight
		if fromEnd {
			a, b = a[:i], b[:j]
		} else {
			a, b = a[1:], b[1:]
		}
	}
}

// bare is white space with every line end as a line feed.
func bare(s string) string { return strings.ReplaceAll(lineFeeds(s), "\r", "\n") }

func (c *comparison) why() string {
	switch {
	case c.letter && !c.space && !c.ends:
		return DiffersInCase
	case c.letter:
		return SimilarText
	case c.space:
		return DiffersInWhitespace
	}
	return DiffersInLineEnds
}
