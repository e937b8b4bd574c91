package scan

import "bytes"

// overLines tries an expression that did not fit where a line ends again
// over the end of the line.
func (r *rule) overLines(t *text, start int) {
	stop := t.stuck
	if stop-start < 8 || stop-start >= r.x.most || !lineBreak(t.b, stop) {
		return
	}
	if r.x.literal != "" && t.nextLineBegins(stop, r.x.literal) {
		return // another one begins there
	}
	r.overBreaks(t, start, r.x.most, func(inner *text) bool {
		m, ok := r.x.match(inner, 0)
		if ok = ok && (m.end == len(inner.b) || inner.ends(m.end)); ok {
			r.report(inner, m, r.grade())
		}
		return ok
	})
}

// overBreaks looks for the rule's secret in the text that begins at start with its
// line breaks taken out, once up to the end of each line but the first, until look
// reports that it is done, something is confirmed, or most bytes were looked at.
func (r *rule) overBreaks(t *text, start, most int, look func(inner *text) bool) {
	inner := t.withoutBreaks(start)
	whole := inner.b
	for _, cut := range t.runs.breaks[1:t.runs.broken] {
		if cut.at < r.x.least {
			continue
		}
		inner.cutAt(whole, cut.at)
		done := look(inner)
		for _, f := range inner.found {
			if f.confidence == Confirmed {
				t.keep(raw{rule: r, start: start, end: cut.end, secret: bytes.Clone(f.secret), confidence: f.confidence, from: "whitespace", at: start})
				done = true
			}
		}
		inner.found = inner.found[:0]
		if done || cut.at >= most {
			break
		}
	}
	inner.b = whole
}

// tooShort reports whether what begins at pos ends before the rule can fit, and
// does not go on in the next line either.
func (t *text) tooShort(r *rule, pos int) bool {
	stop := t.pieceEnd(pos)
	switch {
	case stop-pos >= r.x.least, stop-pos == r.x.least-1 && stop < len(t.b) && t.b[stop] == '=':
		return false
	case t.spaced || !lineBreak(t.b, stop) || !r.cut && t.b[stop] != '\\' && t.b[stop] != '=':
		return true
	}
	return r.x.literal != "" && t.nextLineBegins(stop, r.x.literal)
}

// nextLineBegins reports whether the line after the one that ends at stop
// begins with word.
func (t *text) nextLineBegins(stop int, word string) bool {
	for stop < len(t.b) && (t.b[stop] == '\\' || isSpace(t.b[stop])) {
		stop++
	}
	return hasPrefixAt(t.b, stop, word, true)
}

// withoutBreaks is the text that begins at start with its line breaks taken out;
// where they were is recorded in breaks. It stays until the next call.
func (t *text) withoutBreaks(start int) *text {
	m := t.runs
	m.joined.found = nil
	if m.joinAt == start && m.joinOf == t.id {
		return &m.joined
	}
	buf := m.pieces[:0]
	end := start
	m.broken = 0
	for end < len(t.b) && len(buf) < len(m.pieces) {
		c := t.b[end]
		if lineBreak(t.b, end) {
			m.breaks[m.broken] = lineCut{len(buf), end}
			if m.broken++; m.broken == len(m.breaks)-1 {
				break
			}
			for end++; end < len(t.b) && isSpace(t.b[end]); end++ {
			}
			continue
		}
		if ends(c) {
			break
		}
		buf = append(buf, c)
		end++
	}
	t.runs.work += end - start
	m.breaks[m.broken] = lineCut{len(buf), end}
	m.broken++
	m.joined = t.inner(buf)
	m.joined.spaced = true
	m.joinAt, m.joinOf = start, t.id
	return &m.joined
}

// ends reports whether a byte cannot be part of a credential.
func ends(c byte) bool { return byteKinds[c]&kindEnds != 0 }

func goesOn(c byte) bool { return !ends(c) }

// lineBreak reports whether a line ends at pos, or is continued in the next
// one with a backslash or, in quoted-printable, with an equals sign.
func lineBreak(b []byte, pos int) bool {
	if pos < len(b) && (b[pos] == '\\' || b[pos] == '=') {
		pos++
	}
	return pos < len(b) && (b[pos] == '\n' || b[pos] == '\r')
}

// pieceEnd is where the characters of a credential that go on from start end.
// It is remembered, because many rules ask from the same place.
func (t *text) pieceEnd(start int) int {
	if start >= t.piece[0] && start < t.piece[1] {
		return t.piece[1]
	}
	end := start
	for end < len(t.b) && !ends(t.b[end]) && !lineBreak(t.b, end) {
		end++
	}
	t.piece = [2]int{start, end}
	return end
}
