package frontmatter

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Map is a mapping of strings to values that keeps the order in which keys
// were first set. A value is one of
//
//	nil  bool  string  json.Number  []any  *Map
//
// The zero value is an empty mapping. A Map must not be changed by one goroutine
// while others use it.
type Map struct {
	keys   []string
	values map[string]any
}

// Len returns the number of keys; a nil Map has none.
func (m *Map) Len() int {
	if m == nil {
		return 0
	}
	return len(m.keys)
}

// Get returns the value of key and whether there is one.
func (m *Map) Get(key string) (any, bool) {
	if m == nil {
		return nil, false
	}
	v, ok := m.values[key]
	return v, ok
}

// Set gives key a value. A new key comes last, an old one keeps its place.
func (m *Map) Set(key string, value any) {
	if m.values == nil {
		m.values = map[string]any{}
	}
	if _, known := m.values[key]; !known {
		m.keys = append(m.keys, key)
	}
	m.values[key] = value
}

// Delete removes key and its value, if it is there.
func (m *Map) Delete(key string) {
	if m == nil {
		return
	}
	if _, known := m.values[key]; known {
		delete(m.values, key)
		i := slices.Index(m.keys, key)
		m.keys = slices.Delete(m.keys, i, i+1)
	}
}

// Keys returns the keys in their order. The caller may change the result.
func (m *Map) Keys() []string {
	if m == nil {
		return nil
	}
	return slices.Clone(m.keys)
}

// Equal reports whether m and other, which can be encoded, have the same text in
// JSON: equal values under the same keys in the same order. 1.0 is not 1. A nil Map
// equals an empty one.
func (m *Map) Equal(other *Map) bool {
	var a, b bytes.Buffer
	writeJSON(&a, m)
	writeJSON(&b, other)
	return m.Len() == other.Len() && (m.Len() == 0 || bytes.Equal(a.Bytes(), b.Bytes()))
}

// check refuses values that cannot be written; depth is that of a collection.
func check(v any, depth int) error {
	if depth > MaxDepth && isCollection(v) {
		return notEncodable("nested deeper than %d", MaxDepth)
	}
	switch v := v.(type) {
	case nil, bool:
	case string:
		if !utf8.ValidString(v) {
			return notEncodable("%q is not UTF-8", shorten(v))
		}
	case json.Number:
		if !number.MatchString(string(v)) {
			return notEncodable("%q is not a number", shorten(string(v)))
		}
	case []any:
		for _, item := range v {
			if err := check(item, depth+1); err != nil {
				return err
			}
		}
	case *Map:
		for _, key := range v.Keys() {
			if err := cmp.Or(check(key, depth), check(v.values[key], depth+1)); err != nil {
				return err
			}
		}
	default:
		return notEncodable("values of type %T are not supported", v)
	}
	return nil
}

// isCollection reports whether v is a list or a mapping; a nil Map is null.
func isCollection(v any) bool {
	switch v := v.(type) {
	case *Map:
		return v != nil
	case []any:
		return true
	}
	return false
}

// scalarText is the text of null, a bool, or a number, in YAML and in JSON.
func scalarText(v any) string {
	switch v.(type) {
	case json.Number, bool:
		return fmt.Sprint(v)
	}
	return "null"
}

// notEncodable returns a [NotEncodable] problem and its reason.
func notEncodable(format string, args ...any) error {
	return fmt.Errorf("%w: %s", NotEncodable, fmt.Sprintf(format, args...))
}
