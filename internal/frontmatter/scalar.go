package frontmatter

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// coreTags are the tags of YAML's core schema.
var coreTags = map[string]bool{
	"!!str": true, "!!int": true, "!!float": true, "!!bool": true, "!!null": true, "!!seq": true, "!!map": true,
}

var (
	trueWords  = []string{"true", "True", "TRUE"}
	falseWords = []string{"false", "False", "FALSE"}
	nullWords  = []string{"", "~", "null", "Null", "NULL"}
)

// number is the grammar of a number in JSON.
var number = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// isNumber reports whether text is a number in JSON.
func isNumber(text string) bool {
	return text != "" && (text[0] == '-' || '0' <= text[0] && text[0] <= '9') && number.MatchString(text)
}

// resolve returns the value of an unquoted scalar.
func resolve(text string) any {
	switch {
	case slices.Contains(nullWords, text):
		return nil
	case slices.Contains(trueWords, text):
		return true
	case slices.Contains(falseWords, text):
		return false
	case isNumber(text):
		return json.Number(text)
	}
	return text
}

// resolveAs returns the value of a scalar with a core tag, quoted or not. It
// reports whether the text is of the kind that the tag says.
func resolveAs(tag, text string) (v any, ok bool) {
	v = resolve(text)
	switch tag {
	case "!!str":
		return text, true
	case "!!null":
		return nil, v == nil
	case "!!bool":
		_, ok = v.(bool)
	case "!!int":
		_, ok = v.(json.Number)
		ok = ok && !strings.ContainsAny(text, ".eE")
	case "!!float":
		_, ok = v.(json.Number)
	}
	return v, ok
}
