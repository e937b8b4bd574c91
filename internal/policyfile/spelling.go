package policyfile

import (
	"strings"

	"github.com/goccy/go-yaml/token"
)

// spelling refuses what the lexer reads otherwise than YAML does: a tab inside
// a text, which it leaves out; signs of YAML in a text without quotes; and a
// plain key in braces without a space after its colon, which is no key.
func (w *tokenWalk) spelling(t *token.Token) {
	p := w.previous
	if strings.Contains(strings.Trim(t.Origin, space), "\t") {
		w.refuse(t, "a text must not hold a tab", `write \t in a regular expression or in double quotes, else a space`)
	}
	block := p != nil && (p.Type == token.LiteralType || p.Type == token.FoldedType)
	if t.Type == token.StringType && t.Value != "" && !block {
		if t.Value == "?" || strings.ContainsAny(t.Value[:1], ",[]{}") || w.flow > 0 && strings.ContainsAny(t.Value, "[]{}") {
			w.refuse(t, "a text without quotes must not be a ?, begin with a comma, or hold such a bracket", "put it in quotes")
		}
	}
	if w.flow > 0 && p != nil && p.Type == token.MappingValueType && w.plainKey {
		at, colon := w.c.place(t), w.c.place(p)
		end := t.Type == token.MappingEndType || t.Type == token.SequenceEndType || t.Type == token.CollectEntryType
		if !end && at.line == colon.line && at.column == colon.column+1 {
			w.refuse(p, "a space is missing after the colon", "write key: value")
		}
	}
	if t.Type == token.MappingValueType {
		w.plainKey = p != nil && p.Type != token.SingleQuoteType && p.Type != token.DoubleQuoteType
	}
}
