package frontmatter

import (
	"fmt"
	"strings"
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
	if err := check(m, 1); err != nil {
		return nil, err
	}
	for _, literals := range []bool{true, false} {
		e := encoder{literals: literals}
		e.collection(m, 0)
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

// encoder writes one document that check accepted. What follows the first
// MaxSize bytes, which Decode refuses, it leaves out.
type encoder struct {
	out      strings.Builder
	literals bool // write block literals
}

// collection writes a mapping or a list whose lines are indented by indent spaces; the
// first line is already indented. Every line ends with a line feed.
func (e *encoder) collection(v any, indent int) {
	switch v := v.(type) {
	case *Map:
		if v.Len() == 0 {
			e.out.WriteString("{}\n")
		}
		for i, key := range v.Keys() {
			e.indent(min(i, 1) * indent)
			writeString(&e.out, key)
			e.out.WriteByte(':')
			value := v.values[key]
			if isCollection(value) && !isEmpty(value) {
				e.out.WriteByte('\n')
				e.indent(indent + 1)
			}
			e.value(value, indent)
		}
	case []any:
		if len(v) == 0 {
			e.out.WriteString("[]\n")
		}
		for i, item := range v {
			e.indent(min(i, 1) * indent)
			e.out.WriteByte('-')
			e.value(item, indent)
		}
	}
}

func isEmpty(v any) bool {
	m, ok := v.(*Map)
	list, _ := v.([]any)
	return ok && m.Len() == 0 || !ok && len(list) == 0
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
	case isCollection(v):
		e.collection(v, indent+2)
	case !isText:
		e.out.WriteString(scalarText(v) + "\n")
	case e.literals && isLiteral(text):
		e.literal(text, indent+2)
	default:
		writeString(&e.out, text)
		e.out.WriteByte('\n')
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
