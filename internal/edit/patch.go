package edit

import (
	"bytes"
	"strings"
)

// A patch is the text that takes the place of the matches of one edit. Where
// the file has CRLF, its line ends depend on those of the match.
type patch struct {
	text string // New; with plain line feeds when there are ends
	ends int    // line ends that take a style, 0 when text is inserted unchanged
	tail int    // of these, the last ones that belong to what Old ends with too
	crlf bool   // most lines of the file end with CRLF

	was []bool // for the ends of one match, whether they are CRLF
}

// newPatch prepares the text of an edit of a body that has CRLF or has none.
func newPatch(e *Edit, body []byte, crlf bool) *patch {
	if !crlf || !strings.Contains(e.New, "\n") {
		return &patch{text: e.New}
	}
	was, is := lineFeeds(e.Old), lineFeeds(e.New)
	p := &patch{text: is, ends: strings.Count(is, "\n"), tail: commonTailEnds(was, is)}
	pairs := bytes.Count(body, []byte("\r\n"))
	p.crlf = pairs > bytes.Count(body, []byte{'\n'})-pairs
	return p
}

// lineFeeds is a text with its CRLF replaced by line feeds.
func lineFeeds(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

// commonTailEnds counts the line ends in the common suffix of both texts, without their
// common prefix.
func commonTailEnds(a, b string) int {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	ends := 0
	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		if a[len(a)-1] == '\n' {
			ends++
		}
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return ends
}

// appendTo appends the text in the place of a match.
func (p *patch) appendTo(dst, match []byte) []byte {
	if p.ends == 0 {
		return append(dst, p.text...)
	}
	same, crlf := p.read(match)
	if same && !crlf {
		return append(dst, p.text...)
	}
	rest := p.text
	for k := range p.ends {
		i := strings.IndexByte(rest, '\n')
		dst = append(dst, rest[:i]...)
		if same || p.endAt(k) {
			dst = append(dst, '\r')
		}
		dst = append(dst, '\n')
		rest = rest[i+1:]
	}
	return append(dst, rest...)
}

// read takes the line ends of a match. When all ends of the text have the same
// style, it says which.
func (p *patch) read(match []byte) (same, crlf bool) {
	p.was = p.was[:0]
	pairs := 0
	for i := 0; ; i++ {
		j := bytes.IndexByte(match[i:], '\n')
		if j < 0 {
			break
		}
		i += j
		pair := i > 0 && match[i-1] == '\r'
		p.was = append(p.was, pair)
		if pair {
			pairs++
		}
	}
	switch {
	case len(p.was) == 0:
		return true, p.crlf
	case pairs == 0:
		return true, false
	}
	return pairs == len(p.was), true
}

// endAt says whether line end k of the text is to be CRLF: those of a common
// tail stay what they were, the others take the style of the one at the same
// place in the match, or of the last before the tail.
func (p *patch) endAt(k int) bool {
	if left := p.ends - k; left <= p.tail {
		return p.was[len(p.was)-left]
	}
	return p.was[max(0, min(k, len(p.was)-p.tail-1))]
}
