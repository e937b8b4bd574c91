package frontmatter

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// isLiteral reports whether s is written as a block literal: it has several lines, all
// its characters are visible, and neither its first line nor its end has blanks that a
// reader could drop or take for indentation.
func isLiteral(s string) bool {
	if strings.Trim(s, "\n") == "" || !strings.Contains(s, "\n") {
		return false
	}
	if strings.ContainsRune(" \t\n", rune(s[0])) || strings.ContainsRune(" \t", rune(s[len(s)-1])) {
		return false
	}
	for line := range strings.Lines(s) {
		text := strings.TrimSuffix(line, "\n")
		if text != "" && strings.Trim(text, " \t") == "" {
			return false
		}
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && hidden(r) }) && !strings.Contains(s, strings.Repeat("<", maxAngles))
}

// hidden reports whether r is always escaped: what does not show, except for the
// joiners of words and of symbols.
func hidden(r rune) bool { return !unicode.IsGraphic(r) && r != '\u200c' && r != '\u200d' }

// ambiguous are words, in lower case, that readers of YAML 1.1 or 1.2 take for
// something else than a string.
var ambiguous = []string{"null", "true", "false", "yes", "no", "on", "off", "y", "n", "inf", "nan", "infinity"}

// isPlain reports whether s can be written without quotes. It begins with a letter
// or a symbol outside ASCII, or with a digit if it does not look like a number
// or a time.
func isPlain(s string) bool {
	if s == "" || slices.Contains(ambiguous, strings.ToLower(s)) {
		return false
	}
	first := []rune(s[:min(len(s), 4)])[0]
	switch {
	case '0' <= first && first <= '9':
		if strings.Trim(strings.ToLower(s), "0123456789abcdefotxz_+-:., ") == "" {
			return false
		}
	case first >= 0x80, 'a' <= first && first <= 'z', 'A' <= first && first <= 'Z':
	default:
		return false
	}
	before := rune(0)
	for _, r := range s {
		switch {
		case r == '<' || r == '#' && before == ' ' || r == ' ' && before == ':':
			return false
		case hidden(r) || r != ' ' && unicode.IsSpace(r):
			return false
		}
		before = r
	}
	return before != ' ' && before != ':'
}

// maxAngles bounds the < that are written in a row, below what Decode refuses.
const maxAngles = 500

// joiners puts back what strconv escapes and hidden does not.
var joiners = strings.NewReplacer(`\\`, `\\`, `\u200c`, "\u200c", `\u200d`, "\u200d")

// writeString writes s plain or in double quotes.
func writeString(out *strings.Builder, s string) {
	if isPlain(s) {
		out.WriteString(s)
		return
	}
	s = joiners.Replace(strconv.QuoteToGraphic(s)) // all its escapes are those of YAML too
	if strings.Contains(s, strings.Repeat("<", maxAngles)) {
		s = strings.ReplaceAll(s, "<", `\x3c`)
	}
	out.WriteString(s)
}
