package testbed

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Field returns a part of a JSON document as text, as scripts name it: the key is a path
// such as versions.0.available. len is the length of a list, * a field of each element,
// with spaces between them; what is absent is "". A text that holds JSON has fields too.
func Field(doc any, key string) string {
	name, rest, _ := strings.Cut(key, ".")
	switch x := doc.(type) {
	case nil:
		return ""
	case string:
		var inner any
		if key == "" || json.Unmarshal([]byte(x), &inner) != nil {
			return x
		}
		return Field(inner, key)
	case map[string]any:
		if key != "" {
			return Field(x[name], rest)
		}
	case []any:
		i, err := strconv.Atoi(name)
		switch {
		case name == "len":
			return strconv.Itoa(len(x))
		case name == "*":
			var all []string
			for _, one := range x {
				all = append(all, Field(one, rest))
			}
			return strings.Join(all, " ")
		case err == nil && i < len(x):
			return Field(x[i], rest)
		case key != "":
			return ""
		}
	}
	if key != "" {
		return ""
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Unmet returns the first condition that a document does not meet, with what it holds, or
// "". A condition is KEY=VALUE, KEY~TEXT (contains it) or KEY!TEXT (does not).
func Unmet(doc any, conditions []string) string {
	for _, one := range conditions {
		at := strings.IndexAny(one, "=~!")
		if at < 0 {
			return fmt.Sprintf("%q is no condition", one)
		}
		got, want := Field(doc, one[:at]), one[at+1:]
		if one[at] == '=' && got != want || one[at] != '=' && strings.Contains(got, want) != (one[at] == '~') {
			return fmt.Sprintf("%s: got %.2000q", one, got)
		}
	}
	return ""
}
