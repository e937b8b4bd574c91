// Package visible makes untrusted text safe to display: nothing in it controls a
// terminal, reorders the adjacent text, or is hidden.
package visible

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Rune reports whether a reader sees r and it changes nothing but its own
// place. Control and format characters, bidirectional controls, variation
// selectors, separators of lines, and letters and marks without a shape of
// their own do not count.
func Rune(r rune) bool {
	if r < 0x7f {
		return r >= ' '
	}
	return unicode.IsGraphic(r) && !unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) && r != '\u2800'
}

// Line is s with every other character replaced by instead; invalid UTF-8 as
// well. A newline is replaced too.
func Line(s string, instead rune) string {
	return strings.Map(func(r rune) rune {
		if Rune(r) {
			return r
		}
		return instead
	}, s)
}

// Text is Line for text of several lines: newlines and tabs stay.
func Text(s string, instead rune) string {
	return strings.Map(func(r rune) rune {
		if Rune(r) || r == '\n' || r == '\t' {
			return r
		}
		return instead
	}, s)
}

// Prefix is the beginning of s: at most n bytes, ending between two characters.
func Prefix(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Cut is s if it has at most n bytes, and otherwise its beginning with a mark that more
// follows.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Prefix(s, n) + "…"
}

// Name is a path, or another name that a caller chooses, for use in a sentence: it
// must not read as part of the sentence, nor push the rest out of view.
func Name(path string) string {
	if r := []rune(path); len(r) > 120 {
		path = string(r[:50]) + "…" + string(r[len(r)-60:])
	}
	if strings.ContainsFunc(path, func(r rune) bool {
		return !Rune(r) || !(unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-/+@~#…", r))
	}) {
		return strconv.QuoteToGraphic(path)
	}
	return path
}
