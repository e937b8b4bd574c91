package scan

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// Span is a place of the original text that Redact replaced.
type Span struct {
	Family, Pattern string
	Line, Column    int // from 1; the column in characters
	Length          int // bytes
}

// maxRedactions bounds how often what was redacted is looked at again: cutting
// a secret out may bring together what was apart.
const maxRedactions = 8

// Redact returns the text with each finding replaced by {KIND-REDACTED}, KIND
// being the pattern in capitals. Line ends inside of what is replaced stay, so
// line numbers are those of the original. Encoded bytes that hold no secret
// and invisible characters are left. Redacting twice changes nothing more.
//
// A long text is gone through block by block, as a Stream does: besides the
// text and what becomes of it, only the spans take memory that grows with what
// is found, and those go to opt.Span where it is set.
func (s *Scanner) Redact(b []byte, opt Options) ([]byte, []Span) {
	opt = s.bounded(opt)
	spans := []Span{}
	note := opt.Span
	if note == nil {
		note = func(x Span) { spans = append(spans, x) }
	}
	for range maxRedactions {
		r := redaction{s: s, opt: opt, b: b, at: place{b: b, line: 1}, note: note}
		st := s.stream(opt)
		st.settle = r.take
		st.whole(b)
		st.judge(len(st.buf))
		st.text.free()
		r.replace(len(b))
		if r.out == nil {
			break
		}
		b = append(r.out, b[r.last:]...)
		note = func(Span) {} // reported places are those of the original
	}
	if opt.Context != nil && opt.Context.Err() != nil {
		return nil, nil // not all of it was looked at
	}
	return b, spans
}

// redaction is one pass over a text.
type redaction struct {
	s    *Scanner
	opt  Options
	b    []byte
	out  []byte // the text up to last, redacted; nil while nothing was replaced
	last int
	at   place
	note func(Span)
	wait []cut // found, and not yet replaced
}

// cut is a place to be replaced.
type cut struct {
	rule       *rule
	start, end int
	wide       bool // in UTF-16
}

// take notes the findings of the piece of the text from offset to end. Those
// of the next one begin at most a window before its end.
func (r *redaction) take(found []raw, offset, end int) {
	for i := range found {
		f := &found[i]
		start := offset + f.start
		if f.rule.family == familyBinary || f.rule.family == familyInvisible || r.s.allows(f.rule, r.b, start, r.opt) {
			continue
		}
		r.wait = append(r.wait, cut{f.rule, start, offset + f.end, strings.HasPrefix(f.from, wideText)})
	}
	r.replace(end - Window)
}

// replace replaces what waits and begins before limit.
func (r *redaction) replace(limit int) {
	slices.SortStableFunc(r.wait, func(a, b cut) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end)) })
	n := 0
	for ; n < len(r.wait) && r.wait[n].start < limit; n++ {
		c := &r.wait[n]
		if c.start < r.last {
			continue // a part of what is replaced
		}
		if r.out == nil {
			r.out = make([]byte, 0, len(r.b)+len(r.b)/8+64)
		}
		line, column := r.at.of(c.start)
		r.note(Span{Family: c.rule.family, Pattern: c.rule.id, Line: line, Column: column, Length: c.end - c.start})
		r.reserve(c.start - r.last)
		r.out = append(r.out, r.b[r.last:c.start]...)
		r.out = c.mark(r.out, r.b)
		r.last = c.end
	}
	r.wait = slices.Delete(r.wait, 0, n)
}

// mark adds the replacement of the cut to redacted text, in the encoding of b.
func (c *cut) mark(out, b []byte) []byte {
	from := len(out)
	out = append(out, '{')
	out = append(out, strings.ToUpper(strings.ReplaceAll(c.rule.id, "_", "-"))...)
	out = append(out, "-REDACTED}"...)
	out = appendLineEnds(out, b[c.start:c.end])
	if !c.wide {
		return out
	}
	narrow := bytes.Clone(out[from:])
	out = out[:from]
	for _, c := range narrow {
		out = append(out, c, 0)
	}
	return out[:len(out)-(c.end-c.start)%2] // after the last one a zero may be missing
}

// reserve makes room for n more bytes and a marker. Where there is none, room
// is made for the whole text, should it go on as it was so far: what grows bit
// by bit leaves as much again.
func (r *redaction) reserve(n int) {
	const marker = 64
	if n += marker; cap(r.out)-len(r.out) >= n {
		return
	}
	growth := float64(len(r.out)) / float64(max(r.last, 1))
	r.out = slices.Grow(r.out, n+int(growth*float64(len(r.b)-r.last)))
}

// appendLineEnds adds the line ends that old holds.
func appendLineEnds(out, old []byte) []byte {
	for {
		i := bytes.IndexByte(old, '\n')
		if i < 0 {
			return out
		}
		if i > 0 && old[i-1] == '\r' {
			out = append(out, '\r')
		}
		out = append(out, '\n')
		old = old[i+1:]
	}
}
