package frontmatter

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// Encode writes m as YAML in block style. Equal maps give the same bytes, and
// [Decode] reads the result back as a Map equal to m; that is checked on every
// call. No line of the result is --- or ....
//
// Strings of several lines are block literals where these are exact, all
// others that need it are double-quoted: those which some reader of YAML, old
// ones included, would take for something else, and those with characters
// that do not show. Text that is not UTF-8 is refused, as are values of types
// that a [Map] may not hold, numbers that JSON does not have, nesting deeper
// than [MaxDepth] (all of these [NotEncodable]), and what exceeds the other
// limits of Decode ([TooLarge]).
func Encode(m *Map) ([]byte, error) {
	if m.Len() == 0 {
		return []byte("{}\n"), nil
	}
	if err := check(m, 1); err != nil {
		return nil, err
	}
	var e encoder
	e.collection(m, 0)
	yaml := []byte(e.out.String())
	back, err := Decode(yaml)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", NotEncodable, err)
	}
	if back.Equal(m) {
		return yaml, nil
	}
	return nil, notEncodable("the YAML text would be read back as something else")
}

// encoder writes one document that check accepted. What follows the first
// MaxSize bytes, which Decode refuses, it leaves out.
type encoder struct{ out strings.Builder }

// collection writes a mapping or a list whose lines are indented by indent spaces; the
// first line is already indented. Every line ends with a line feed.
func (e *encoder) collection(v any, indent int) {
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			e.indent(min(i, 1) * indent)
			e.out.WriteByte('-')
			e.value(item, indent)
		}
	case *Map:
		for i, key := range v.keys {
			e.indent(min(i, 1) * indent)
			writeString(&e.out, key)
			e.out.WriteByte(':')
			value := v.values[key]
			if members(value) > 0 {
				e.out.WriteByte('\n')
				e.indent(indent + 1)
			}
			e.value(value, indent)
		}
	}
}

// value writes a blank and a value, which ends the line. The line of its key or
// dash is indented by indent.
func (e *encoder) value(v any, indent int) {
	e.out.WriteByte(' ')
	if e.out.Len() > MaxSize {
		return
	}
	text, isText := v.(string)
	switch {
	case members(v) > 0:
		e.collection(v, indent+2)
	case isLiteral(text):
		e.literal(text, indent+2)
	case isText:
		writeString(&e.out, text)
		e.out.WriteByte('\n')
	default: // null, a bool, a number, or an empty collection
		data, _ := schema.Plain(v)
		e.out.Write(append(data, '\n'))
	}
}

// literal writes s as a block literal. Lines without text are not indented.
func (e *encoder) literal(s string, indent int) {
	e.out.WriteByte('|')
	switch {
	case !strings.HasSuffix(s, "\n"):
		e.out.WriteByte('-')
	case strings.HasSuffix(s, "\n\n"):
		e.out.WriteByte('+')
	}
	e.out.WriteByte('\n')
	for line := range strings.Lines(s) {
		if line != "\n" {
			e.indent(indent)
		}
		e.out.WriteString(line)
	}
	if !strings.HasSuffix(s, "\n") {
		e.out.WriteByte('\n')
	}
}

func (e *encoder) indent(n int) { e.out.WriteString(strings.Repeat(" ", n)) }

var (
	// blanked matches text whose blanks a reader of a block literal could drop or take
	// for indentation: at the beginning, in a line without text, or at the end.
	blanked = regexp.MustCompile(`(?m)\A[ \t\n]|^[ \t]+$|[ \t]\z`)
	// ambiguous matches what cannot be without quotes, or what some reader of YAML 1.1 or
	// 1.2 takes for something else than a string: text that begins with a sign or holds
	// syntax, words, and what looks like a number or a time. Folding the case of the first
	// class, which has a million characters, would take each process 2 ms.
	ambiguous = regexp.MustCompile(`^([^a-zA-Z0-9\x{80}-\x{10ffff}]|$)|<| #|: |[ :]$|(?i)^[0-9][0-9a-fotxz_+\-:., ]*$|^(null|true|false|yes|no|on|off|y|n|inf|nan|infinity)$`)
)

// isLiteral reports whether s is written as a block literal: it has several lines, and
// all its characters are visible.
func isLiteral(s string) bool {
	return strings.Contains(s, "\n") && !blanked.MatchString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && hidden(r) })
}

// hidden reports whether r is always escaped: what does not show, except for the
// joiners of words and of symbols.
func hidden(r rune) bool { return !unicode.IsGraphic(r) && r != '\u200c' && r != '\u200d' }

// isPlain reports whether s can be written without quotes.
func isPlain(s string) bool {
	return !ambiguous.MatchString(s) && !strings.ContainsFunc(s, func(r rune) bool { return hidden(r) || r != ' ' && unicode.IsSpace(r) })
}

// joiners puts back what strconv escapes and hidden does not.
var joiners = strings.NewReplacer(`\\`, `\\`, `\u200c`, "\u200c", `\u200d`, "\u200d")

// writeString writes s plain or in double quotes.
func writeString(out *strings.Builder, s string) {
	if isPlain(s) {
		out.WriteString(s)
		return
	}
	out.WriteString(joiners.Replace(strconv.QuoteToGraphic(s))) // all its escapes are those of YAML too
}
