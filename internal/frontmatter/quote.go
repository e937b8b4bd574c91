package frontmatter

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// isLiteral reports whether s is written as a block literal: it has several
// lines, all its characters show, and neither its first line nor its end has
// blanks that the reader could take for indentation or drop.
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

// hidden reports whether r is always escaped: controls, line separators, the
// byte order mark, marks that turn the direction of text, and what is no
// character at all.
func hidden(r rune) bool {
	switch {
	case unicode.IsControl(r), r == '\u2028', r == '\u2029', r == '\ufeff', r == '\u061c':
		return true
	case r == '\u200e', r == '\u200f', '\u202a' <= r && r <= '\u202e', '\u2066' <= r && r <= '\u2069':
		return true
	}
	return r&0xFFFE == 0xFFFE
}

// ambiguous are words, in lower case, that readers of YAML 1.1 or 1.2 take for
// something else than a string.
var ambiguous = []string{"null", "true", "false", "yes", "no", "on", "off", "y", "n", "inf", "nan", "infinity"}

// isPlain reports whether s can stand without quotes. It begins with a letter
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

// writeString writes s plain or in double quotes.
func writeString(out *strings.Builder, s string) {
	if isPlain(s) {
		out.WriteString(s)
		return
	}
	out.WriteByte('"')
	angles := 0
	for _, r := range s {
		if r == '<' {
			angles++
		} else {
			angles = 0
		}
		switch {
		case r == '"', r == '\\':
			out.WriteByte('\\')
			out.WriteRune(r)
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		case r <= 0xFF && (hidden(r) || angles > maxAngles):
			fmt.Fprintf(out, `\x%02x`, r)
		case r <= 0xFFFF && hidden(r):
			fmt.Fprintf(out, `\u%04x`, r)
		case hidden(r):
			fmt.Fprintf(out, `\U%08x`, r)
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
}
