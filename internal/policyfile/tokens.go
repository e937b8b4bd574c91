package policyfile

import (
	"fmt"

	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"
)

// What the tokens are bounded by, so that the parser, which calls itself for
// every level and for every key of a mapping, cannot be made slow or deep.
const (
	maxTokens   = 100_000
	maxKeys     = 1000 // of one mapping
	maxKeyBytes = 128
)

// tokens cuts the text into tokens and checks them before the parser sees
// them. It returns false when the parser must not see them.
func (c *checker) tokens() (token.Tokens, bool) {
	if at, ok := bracketRun(c.src.text); ok {
		c.tooDeep(at.line, at.column)
		return nil, false
	}
	all := lexer.Tokenize(c.src.text)
	if len(all) <= maxTokens {
		c.cover(all)
	}
	w := tokenWalk{c: c}
	for i, t := range all {
		if t.Type == token.InvalidType {
			break // the parser reports it; what follows is not reliable
		}
		if i == maxTokens {
			c.addToken(t, TooLarge, fmt.Sprintf("the file has more than %d tokens", maxTokens), "")
		} else if t.Type != token.CommentType {
			w.token(t)
		}
		if w.stop || len(c.problems) >= MaxProblems || i == maxTokens {
			break
		}
	}
	return all, len(c.problems) == 0
}

// tooDeep reports what is nested deeper than allowed.
func (c *checker) tooDeep(line, column int) {
	c.addAt(line, column, BadYAML, fmt.Sprintf("nested deeper than %d levels", MaxDepth), "")
}

// place is a position in the text.
type place struct{ line, column int }

// bracketRun finds a run of brackets that is so long that it can only be an
// attack, whether it is quoted or not, so that the lexer need not be run for
// it. The place is that of the first bracket that is too deep.
func bracketRun(text string) (place, bool) {
	at, first, deep := place{1, 1}, place{}, 0
	for _, r := range text {
		switch r {
		case '[', '{':
			if deep++; deep == MaxDepth+1 {
				first = at
			} else if deep > 4*MaxDepth {
				return first, true
			}
		case ' ', '\n', '\t':
		default:
			deep = 0
		}
		if at.column++; r == '\n' {
			at = place{at.line + 1, 1}
		}
	}
	return place{}, false
}

// tokenWalk goes over the tokens and knows how deep they are nested.
type tokenWalk struct {
	c        *checker
	open     []level // block mappings and lists that are open
	flow     int     // brackets and braces that are open
	content  bool    // a token of the document itself was seen
	headers  int
	ended    bool // a document end was seen
	aside    int  // the line of the last directive
	previous *token.Token
	plainKey bool // the last colon follows a text without quotes
	stop     bool // what follows need not be looked at
}

// level is a block mapping or list: the column of its keys or dashes.
type level struct {
	column int
	list   bool
	keys   int
}

// token looks at one token that is not a comment.
func (w *tokenWalk) token(t *token.Token) {
	w.document(t)
	w.spelling(t)
	switch t.Type {
	case token.AnchorType:
		w.refuse(t, "anchors are not allowed", "put a text that begins with & in quotes")
	case token.AliasType:
		if p := w.previous; p == nil || p.Type != token.AliasType || p.Position.Line != t.Position.Line {
			w.refuse(t, "aliases are not allowed", `put a text that begins with * in quotes, such as "**/*.md"`)
		}
	case token.TagType:
		w.refuse(t, "tags are not allowed", "put a text that begins with ! in quotes")
	case token.MergeKeyType:
		w.refuse(t, "merge keys are not allowed", "")
	case token.MappingKeyType:
		w.refuse(t, "keys that begin with ? are not allowed", "write key: value")
	case token.DirectiveType:
		w.refuse(t, "directives are not allowed", "leave out the line that begins with %")
	case token.SequenceStartType, token.MappingStartType:
		w.flow++
	case token.SequenceEndType, token.MappingEndType:
		w.flow = max(0, w.flow-1)
	case token.SequenceEntryType:
		if w.flow > 0 {
			w.refuse(t, "not valid YAML: a dash within brackets", "put a text that begins with - in quotes")
		} else {
			w.enter(true, t)
		}
	case token.MappingValueType:
		w.key(w.previous)
	}
	if !w.stop && len(w.open)+w.flow > MaxDepth {
		at := w.c.place(t)
		w.c.tooDeep(at.line, at.column)
		w.stop = true
	}
	w.previous = t
}

// document refuses a second document.
func (w *tokenWalk) document(t *token.Token) {
	header := t.Type == token.DocumentHeaderType
	if header {
		w.headers++
	}
	if w.ended || header && (w.content || w.headers > 1) {
		w.refuse(t, "the file holds more than one YAML document", "leave out what stands from here on")
		w.stop = true
	}
	w.ended = w.ended || t.Type == token.DocumentEndType
	if t.Type == token.DirectiveType {
		w.aside = t.Position.Line
	}
	w.content = w.content || !header && w.aside != t.Position.Line
}

// key looks at the token before a colon.
func (w *tokenWalk) key(t *token.Token) {
	if t == nil {
		return
	}
	if len(t.Value) > maxKeyBytes {
		w.c.addToken(t, UnknownKey, "unknown key "+clip(t.Value), "")
	}
	if w.flow == 0 {
		w.enter(false, t)
	}
}

// enter opens a block mapping or list at the column of a token, or goes on
// with the one that is open there.
func (w *tokenWalk) enter(list bool, t *token.Token) {
	column, n := w.c.place(t).column, len(w.open)
	for n > 0 && w.open[n-1].column > column {
		n--
	}
	if !list && n > 0 && w.open[n-1] == (level{column: column, list: true}) {
		n-- // a list may be in the column of the key that holds it
	}
	w.open = w.open[:n]
	if n == 0 || w.open[n-1].column != column || w.open[n-1].list != list {
		w.open = append(w.open, level{column: column, list: list})
	}
	if list {
		return
	}
	top := &w.open[len(w.open)-1]
	if top.keys++; top.keys > maxKeys && !w.stop {
		w.c.addToken(t, TooLarge, fmt.Sprintf("a mapping has more than %d keys", maxKeys), "")
		w.stop = true
	}
}

// refuse reports a token that is YAML but not allowed here.
func (w *tokenWalk) refuse(t *token.Token, message, hint string) {
	w.c.addToken(t, BadYAML, message, hint)
}
