package frontmatter

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

// The limits of a front matter. What exceeds one is refused as [TooLarge].
const (
	// MaxSize is the largest YAML text in bytes.
	MaxSize = 1 << 20
	// MaxDepth is how many mappings and sequences may be nested.
	MaxDepth = 64
	// MaxNodes is how many values there may be after aliases are resolved.
	MaxNodes = 100_000
	// MaxMembers is how many keys one mapping in block style may have.
	MaxMembers = 4096
	// maxTokens bounds the text before that: one entry of a mapping has three
	// tokens, its key, the colon and its value.
	maxTokens = 30_000
	// maxProperties bounds the tags and anchors, which nest without indent.
	maxProperties = 1000
	// maxPaths bounds the memory of the paths that the parser builds: depth x
	// longest key x number of keys.
	maxPaths = 256 << 20
)

// Decode reads one YAML document whose top level is a mapping. Order, unknown
// keys and number text are kept.
//
// Scalars follow YAML 1.2: unquoted true and false are bool and null and ~
// are nil, each also with a capital letter first or in capitals throughout;
// yes, no, on and off are strings. An unquoted scalar is a number if it is one
// in JSON. All others are strings exactly as written, among them timestamps
// such as 2026-11-21T10:00:00Z and forms like 0x1F, 007, 1_000 and .inf. Keys
// are always strings, as written. Line breaks become line feeds.
//
// Aliases are replaced by copies of what they stand for. The tags !!str,
// !!int, !!float, !!bool, !!null, !!seq and !!map are understood. Refused are
// all other tags, duplicate keys, merge keys, keys that are not scalars,
// directives, several documents, control characters, and what the parser
// is known to misread.
//
// The error is [NotMapping], a [LimitError] or a [SyntaxError]. Time and memory
// are bounded by the limits of this package.
func Decode(yaml []byte) (*Map, error) {
	src, err := source(yaml)
	if err != nil {
		return nil, err
	}
	runs, err := tokenize(src)
	if err != nil {
		return nil, err
	}
	body, err := parse(runs[0].tokens)
	if err != nil {
		return nil, err
	}
	switch body.(type) {
	case *ast.MappingNode, *ast.MappingValueNode, *ast.AnchorNode, *ast.TagNode:
	default:
		return nil, NotMapping
	}
	c := converter{}
	if c.rest, err = parseRest(runs[1:]); err != nil {
		return nil, err
	}
	v, err := c.value(body, 1, 0)
	if err != nil {
		return nil, err
	}
	for _, r := range runs[1:] {
		if c.rest[r.first] != nil {
			return nil, syntaxError(r.tokens[0], "value is not allowed in this context")
		}
	}
	m, ok := v.(*Map)
	if !ok {
		return nil, NotMapping
	}
	return m, nil
}

// source returns the text with uniform line breaks, after the checks that can
// be made on it.
func source(yaml []byte) (string, error) {
	if len(yaml) > MaxSize {
		return "", tooLarge("more than %d bytes", MaxSize)
	}
	if !utf8.Valid(yaml) {
		return "", notUTF8(yaml)
	}
	src := uniform(string(yaml))
	if !strings.HasSuffix(src, "\n") {
		src += "\n" // the scanner drops a tag at the very end
	}
	return src, checkText(src)
}

// tokenize scans and checks the tokens. Unlike the scanner's own loop it stops
// at the first error.
func tokenize(src string) ([]run, error) {
	var s scanner.Scanner
	s.Init(src)
	scanned, scanErr := s.Scan()
	if len(scanned) > maxTokens {
		return nil, tooLargeAt(scanned[maxTokens], "more than %d tokens", maxTokens)
	}
	var tokens token.Tokens
	tokens.Add(scanned...)
	runs, err := checkTokens(src, tokens)
	if err != nil {
		return nil, err
	}
	if scanErr != nil {
		return nil, syntaxError(endOf(tokens), "%s", scanErr.Error())
	}
	return runs, nil
}

// parseRest parses the runs after the document. It returns the entries in them
// by the first key of the mapping that they belong to.
func parseRest(runs []run) (map[*token.Token][]*ast.MappingValueNode, error) {
	rest := map[*token.Token][]*ast.MappingValueNode{}
	for _, r := range runs {
		body, err := parse(r.tokens)
		if err != nil {
			return nil, err
		}
		n, ok := body.(*ast.MappingNode)
		if !ok {
			return nil, syntaxError(r.tokens[0], "a key was expected")
		}
		rest[r.first] = append(rest[r.first], n.Values...)
	}
	return rest, nil
}

// parse returns the top level of the only document, nil if there is none. A
// panic of the parser becomes an error: its input is anyone's.
func parse(tokens token.Tokens) (body ast.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			body, err = nil, &SyntaxError{Message: brief(fmt.Sprint("the parser failed: ", p))}
		}
	}()
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var told interface {
			GetMessage() string
			GetToken() *token.Token
		}
		if errors.As(err, &told) {
			return nil, syntaxError(told.GetToken(), "%s", told.GetMessage())
		}
		return nil, &SyntaxError{Message: brief(err.Error())}
	}
	switch len(file.Docs) {
	case 0:
		return nil, nil
	case 1:
		return file.Docs[0].Body, nil
	}
	return nil, &SyntaxError{Message: "there is more than one document"}
}

// tooLarge returns a [TooLarge] problem and its reason.
func tooLarge(format string, args ...any) error {
	return &LimitError{Message: fmt.Sprintf(format, args...)}
}

// tooLargeAt is tooLarge with the place of tk, which may be nil.
func tooLargeAt(tk *token.Token, format string, args ...any) error {
	e := &LimitError{Message: fmt.Sprintf(format, args...)}
	if tk != nil && tk.Position != nil {
		e.Line, e.Column = max(tk.Position.Line, 1), max(tk.Position.Column, 1)
	}
	return e
}

// endOf is the place of the last token, the nearest one to a problem of which
// no place is known.
func endOf(tokens token.Tokens) *token.Token {
	if len(tokens) == 0 {
		return nil
	}
	return tokens[len(tokens)-1]
}

// notUTF8 is the problem of a text that is not UTF-8, at its first byte that is
// not.
func notUTF8(yaml []byte) error {
	good := 0
	for good < len(yaml) {
		r, size := utf8.DecodeRune(yaml[good:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		good += size
	}
	before := uniform(string(yaml[:good]))
	line := before[strings.LastIndexByte(before, '\n')+1:]
	return &SyntaxError{1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(line), "the text is not UTF-8 here"}
}

// uniform is a text with line feeds as its line breaks.
func uniform(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}

// syntaxError returns an error at the place of tk, which may be nil.
func syntaxError(tk *token.Token, format string, args ...any) error {
	e := &SyntaxError{Message: brief(fmt.Sprintf(format, args...))}
	if tk != nil && tk.Position != nil {
		e.Line, e.Column = max(tk.Position.Line, 1), max(tk.Position.Column, 1)
	}
	return e
}

// brief shortens a message to three lines and 240 bytes.
func brief(message string) string {
	lines := strings.SplitN(message, "\n", 4)
	message = strings.Join(lines[:min(len(lines), 3)], "\n")
	if len(message) > 240 {
		message = strings.ToValidUTF8(message[:237], "") + "..."
	}
	return message
}

// shorten cuts a text that is quoted in a message.
func shorten(s string) string {
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:57], "") + "..."
	}
	return s
}
