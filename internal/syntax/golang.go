package syntax

import (
	"errors"
	"go/parser"
	"go/scanner"
	"go/token"
)

// maxGoDepth is far above what people write and keeps the recursion of the
// parser of the standard library small.
const maxGoDepth = 1000

// inspectGo uses the parser of the standard library, which stops by itself
// after ten mistakes.
func inspectGo(t *text) {
	if goTooDeep(t) {
		return
	}
	_, err := parser.ParseFile(token.NewFileSet(), "", t.src, parser.SkipObjectResolution)
	if err == nil {
		return
	}
	var list scanner.ErrorList
	if !errors.As(err, &list) {
		t.errorAt(0, "%v", err)
		return
	}
	for _, e := range list {
		// The offset stays right where a //line comment changes the line.
		t.errorAt(e.Pos.Offset, "%s", e.Msg)
	}
}

// goTooDeep searches for brackets and chains of prefix operators, for which the parser
// recurses.
func goTooDeep(t *text) bool {
	set := token.NewFileSet()
	file := set.AddFile("", set.Base(), len(t.src))
	var s scanner.Scanner
	s.Init(file, t.src, nil, 0)
	open, prefixes := 0, 0
	for {
		pos, tok, _ := s.Scan()
		switch tok {
		case token.EOF:
			return false
		case token.LPAREN, token.LBRACK, token.LBRACE:
			open++
		case token.RPAREN, token.RBRACK, token.RBRACE:
			open--
		}
		switch tok {
		case token.ADD, token.SUB, token.MUL, token.AND, token.XOR, token.NOT, token.TILDE, token.ARROW,
			token.CHAN, token.FUNC, token.MAP, token.LBRACK, token.RBRACK, token.LPAREN, token.RPAREN:
			prefixes++
		default:
			prefixes = 0
		}
		if open > maxGoDepth || prefixes > 4*maxGoDepth {
			t.errorAt(file.Offset(pos), "nested deeper than %d levels; the text is not checked", maxGoDepth)
			return true
		}
	}
}
