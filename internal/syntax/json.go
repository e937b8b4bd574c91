package syntax

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// maxJSONDepth is about where the recursive parsers that read the file later
// give up, the one of Python for example.
const maxJSONDepth = 1000

func inspectJSON(t *text) {
	if len(bytes.Trim(t.src, jsonBlanks)) == 0 {
		t.errorAt(0, "the text is empty; JSON needs a value")
		return
	}
	inspectJSONValue(t, 0, len(t.src))
}

// inspectJSONLines checks one value a line. Blank lines are let pass, as the
// readers of the format do.
func inspectJSONLines(t *text) {
	for start := 0; start < len(t.src); {
		end := len(t.src)
		if i := bytes.IndexByte(t.src[start:], '\n'); i >= 0 {
			end = start + i
		}
		if line := bytes.TrimRight(t.src[start:end], jsonBlanks); len(bytes.TrimSpace(line)) > 0 {
			inspectJSONValue(t, start, start+len(line))
		}
		start = end + 1
	}
}

const jsonBlanks = " \t\r\n"

// jsonFrame is an array or object that is still open.
type jsonFrame struct {
	open  int            // offset of its bracket
	keys  map[string]int // offsets of the keys seen; nil for an array
	value bool           // a value comes next, not a key
}

// inspectJSONValue reads the tokens of one value. The decoder keeps its own
// stack, so deep nesting costs no goroutine stack.
func inspectJSONValue(t *text, from, to int) {
	src := t.src[from:to]
	d := json.NewDecoder(bytes.NewReader(src))
	d.UseNumber()
	var stack []jsonFrame
	for begun := false; !begun || len(stack) > 0; begun = true {
		last := int(d.InputOffset())
		token, err := d.Token()
		if err != nil {
			jsonMistake(t, from, last, to, stack)
			return
		}
		start := last + len(src[last:]) - len(bytes.TrimLeft(src[last:], jsonBlanks+",:"))
		var top *jsonFrame
		if len(stack) > 0 {
			top = &stack[len(stack)-1]
		}
		switch token := token.(type) {
		case json.Delim:
			if token == ']' || token == '}' {
				stack = stack[:len(stack)-1]
				continue
			}
			if len(stack) == maxJSONDepth {
				t.errorAt(from+start, "nested deeper than %d levels; the rest is not checked", maxJSONDepth)
				return
			}
			next := jsonFrame{open: from + start}
			if token == '{' {
				next.keys = map[string]int{}
			}
			stack = append(stack, next)
		case string:
			if at := schema.LoneSurrogate(src[start:d.InputOffset()]); at >= 0 {
				t.errorAt(from+start+at, "the escape is half of a surrogate pair")
			}
			if top != nil && top.keys != nil && !top.value {
				if first, twice := top.keys[token]; twice {
					t.errorAt(from+start, "duplicate key %s, first at line %d", quoted(token), t.lineOf(first))
				} else {
					top.keys[token] = from + start
				}
				top.value = true
				continue
			}
		}
		if top != nil {
			top.value = false
		}
	}
	if rest := bytes.TrimLeft(src[d.InputOffset():], jsonBlanks); len(rest) > 0 {
		t.errorAt(to-len(rest), "text after the end of the JSON value")
	}
}

// jsonMistake reports the error that stopped the decoder, in its words with a hint. The
// previous token ends at last. Only Unmarshal reports the exact position.
func jsonMistake(t *text, from, last, to int, stack []jsonFrame) {
	src := t.src[from:to]
	var raw json.RawMessage
	var bad *json.SyntaxError
	if !errors.As(json.Unmarshal(src, &raw), &bad) {
		t.errorAt(from+last, "this is not JSON")
		return
	}
	at := int(bad.Offset) - 1
	before := bytes.TrimRight(src[:max(at, 0)], jsonBlanks)
	if ended := strings.Contains(bad.Error(), "character ' '") && src[at] != ' '; ended || bad.Error() == "unexpected end of JSON input" {
		rest := bytes.TrimLeft(src[last:], jsonBlanks+",:")
		switch n := len(stack); {
		case len(rest) > 0 && rest[0] == '"':
			t.errorAt(to-len(rest), "the string is never closed")
		case n > 0:
			t.errorAt(stack[n-1].open, "%q opened at line %d is never closed", t.src[stack[n-1].open], t.lineOf(stack[n-1].open))
		default:
			t.errorAt(to, "a value is missing")
		}
		return
	}
	hint := jsonHints[src[at]]
	switch {
	case strings.Contains(bad.Error(), "string literal"):
		hint = "; control characters and line ends are written as escapes"
	case bytes.HasSuffix(before, []byte(",")) && (src[at] == ']' || src[at] == '}'):
		at, hint = len(before)-1, "; a trailing comma"
	case strings.Contains(bad.Error(), " after "):
		hint = "; a comma, a colon or a bracket is missing, or there is one too many"
	}
	t.errorAt(from+at, "%s%s", bad.Error(), hint)
}

// jsonHints are the hints by the first character of an invalid value.
var jsonHints = map[byte]string{
	'\'': "; strings and keys are in double quotes", '/': "; JSON has no comments", 'N': "; JSON has no NaN", 'I': "; JSON has no Infinity",
	'T': "; JSON has true", 'F': "; JSON has false", '.': "; a digit is before the point", '+': "; a number has no plus sign",
}
