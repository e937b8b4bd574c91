package surface

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// keyword applies one keyword to the values that it speaks of. false says that
// the keyword, or what it is given, is not understood.
func (s *shape) keyword(key string, value any) bool {
	number, isNumber := value.(json.Number)
	if isNumber && !exact(number) {
		return false
	}
	switch key {
	case "minimum":
		s.kinds["number"].low = number
		return isNumber
	case "maximum":
		s.kinds["number"].high = number
		return isNumber
	case "maxLength":
		s.kinds["string"].high = number
		return isNumber
	case "items":
		if _, tuple := value.([]any); tuple {
			return false
		}
		s.kinds["array"].items = newShape(value)
		return true
	case "properties":
		m, ok := value.(map[string]any)
		for name, one := range m {
			put(&s.kinds["object"].props, name, newShape(one))
		}
		return ok
	case "required":
		return s.kinds["object"].needs(value)
	case "additionalProperties":
		s.kinds["object"].rest = newShape(value)
		if value == false {
			s.kinds["object"].rest = nil
		}
		return true
	}
	return false
}

func (k *values) needs(value any) bool {
	list, ok := value.([]any)
	for _, v := range list {
		name, text := v.(string)
		if !text {
			return false
		}
		put(&k.required, name, true)
	}
	return ok
}

// exact reports whether a number is the same as a float64.
func exact(n json.Number) bool {
	f, err := n.Float64()
	return err == nil && math.Abs(f) < 1<<53 && len(n) <= 16
}

// less reports whether a number is smaller than another; both are exact.
func less(a, b json.Number) bool {
	x, _ := a.Float64()
	y, _ := b.Float64()
	return x < y
}

// tidy leaves out what says nothing, so that what is equal looks equal.
func (s *shape) tidy() {
	if k := s.kinds["boolean"]; k != nil && len(k.enum) == 2 {
		k.enum = nil
	}
	if k := s.kinds["null"]; k != nil && len(k.enum) == 1 {
		k.enum = nil
	}
	for name, k := range s.kinds {
		if k.whole && k.enum != nil { // a fraction is no choice
			for text := range k.enum {
				if strings.Contains(text, ".") {
					delete(k.enum, text)
				}
			}
			k.whole = false
		}
		if k.enum != nil && len(k.enum) == 0 {
			delete(s.kinds, name)
		}
	}
}

// canonical is a JSON value as text, the same for values that are equal: the
// members of objects are in order, and 1.0 is 1.
func canonical(v any) string {
	switch v := v.(type) {
	case json.Number:
		if !exact(v) {
			return v.String()
		}
		f, _ := v.Float64()
		return strconv.FormatFloat(f, 'f', -1, 64)
	case []any:
		parts := make([]string, len(v))
		for i, one := range v {
			parts[i] = canonical(one)
		}
		return "[" + strings.Join(parts, ",") + "]"
	case map[string]any:
		var parts []string
		for _, key := range sortedKeys(v) {
			parts = append(parts, canonical(key)+":"+canonical(v[key]))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	b, err := json.Marshal(v) // null, a boolean or a string
	if err != nil {
		return "?"
	}
	return string(b)
}
