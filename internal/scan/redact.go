package scan

import (
	"bytes"
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
func (s *Scanner) Redact(b []byte, opt Options) ([]byte, []Span) {
	spans := []Span{}
	for round := range maxRedactions {
		found := s.newText(b).findings()
		var out []byte
		at, last := place{b: b, line: 1}, 0
		for i := range found {
			f := &found[i]
			if f.rule.family == familyBinary || f.rule.family == familyInvisible || f.start < last ||
				opt.Allow != nil && opt.Allow(f.rule.family, f.rule.id) || s.markers && marked(b, f.start) {
				continue
			}
			if round == 0 {
				line, column := at.of(f.start)
				spans = append(spans, Span{Family: f.rule.family, Pattern: f.rule.id, Line: line, Column: column, Length: f.end - f.start})
			}
			out = append(out, b[last:f.start]...)
			out = append(out, '{')
			out = append(out, strings.ToUpper(strings.ReplaceAll(f.rule.id, "_", "-"))...)
			out = append(out, "-REDACTED}"...)
			out = appendLineEnds(out, b[f.start:f.end])
			last = f.end
		}
		if out == nil {
			break
		}
		b = append(out, b[last:]...)
	}
	return b, spans
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
