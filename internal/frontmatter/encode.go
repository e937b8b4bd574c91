package frontmatter

import (
	"fmt"
	"strings"
	"unicode/utf8"
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
	if m == nil {
		m = &Map{}
	}
	for _, literals := range []bool{true, false} {
		e := encoder{literals: literals}
		if err := e.block(m, 0, 1); err != nil {
			return nil, err
		}
		yaml := []byte(e.out.String())
		back, err := Decode(yaml)
		if err == nil && back.Equal(m) {
			return yaml, nil
		}
		if !literals && err != nil {
			return nil, fmt.Errorf("%w: %w", NotEncodable, err)
		}
	}
	return nil, notEncodable("the YAML text would be read back as something else")
}

// notEncodable returns a [NotEncodable] problem and its reason.
func notEncodable(format string, args ...any) error {
	return fmt.Errorf("%w: %s", NotEncodable, fmt.Sprintf(format, args...))
}

// encoder writes one document.
type encoder struct {
	out      strings.Builder
	literals bool // write block literals
}

// block writes a collection whose lines are indented by indent spaces; the
// first line is already indented. Every line is ended.
func (e *encoder) block(v any, indent, depth int) error {
	if depth > MaxDepth {
		return notEncodable("nested deeper than %d", MaxDepth)
	}
	if e.out.Len() > MaxSize {
		return tooLarge("more than %d bytes", MaxSize)
	}
	switch v := v.(type) {
	case *Map:
		if v.Len() == 0 {
			e.out.WriteString("{}\n")
		}
		for i, key := range v.Keys() {
			if i > 0 {
				e.indent(indent)
			}
			if !utf8.ValidString(key) {
				return notEncodable("key %q is not UTF-8", shorten(key))
			}
			writeString(&e.out, key)
			e.out.WriteByte(':')
			if err := e.member(v.values[key], indent, depth); err != nil {
				return err
			}
		}
	case []any:
		if len(v) == 0 {
			e.out.WriteString("[]\n")
		}
		for i, item := range v {
			if i > 0 {
				e.indent(indent)
			}
			e.out.WriteByte('-')
			if err := e.item(item, indent, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// member writes the value after "key:", where key is indented by indent.
func (e *encoder) member(v any, indent, depth int) error {
	if isCollection(v) {
		e.out.WriteByte('\n')
		e.indent(indent + 2)
		return e.block(v, indent+2, depth+1)
	}
	return e.scalar(v, indent, depth)
}

// item writes the value after "-", where that is indented by indent.
func (e *encoder) item(v any, indent, depth int) error {
	if isCollection(v) {
		e.out.WriteByte(' ')
		return e.block(v, indent+2, depth+1)
	}
	return e.scalar(v, indent, depth)
}

// isCollection reports whether v is written in several lines.
func isCollection(v any) bool {
	switch v := v.(type) {
	case *Map:
		return v.Len() > 0
	case []any:
		return len(v) > 0
	}
	return false
}

// scalar writes a blank, the value and the end of the line. Empty collections
// count as scalars here. The line is indented by indent.
func (e *encoder) scalar(v any, indent, depth int) error {
	e.out.WriteByte(' ')
	if isNull(v) {
		e.out.WriteString("null\n")
		return nil
	}
	switch v := v.(type) {
	case bool:
		fmt.Fprintln(&e.out, v)
	case string:
		if !utf8.ValidString(v) {
			return notEncodable("%q is not UTF-8", shorten(v))
		}
		if len(v) > MaxSize {
			return tooLarge("a text of more than %d bytes", MaxSize)
		}
		if e.literals && isLiteral(v) {
			e.literal(v, indent+2)
			return nil
		}
		writeString(&e.out, v)
		e.out.WriteByte('\n')
	case *Map, []any:
		return e.block(v, indent, depth+1)
	default:
		text, err := numberText(v)
		if err != nil {
			return err
		}
		e.out.WriteString(text)
		e.out.WriteByte('\n')
	}
	return nil
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

func (e *encoder) indent(n int) {
	for range n {
		e.out.WriteByte(' ')
	}
}
