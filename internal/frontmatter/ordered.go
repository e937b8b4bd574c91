package frontmatter

import (
	"encoding/json"
	"slices"
	"strconv"
)

// Map is a mapping of strings to values that keeps the order in which keys
// were first set. A value is one of
//
//	nil  bool  string  json.Number  int  int64  float64  []any  *Map
//
// [Decode] and the JSON methods produce json.Number for every number, which
// keeps its text. The zero value is an empty mapping. A Map must not be
// changed by one goroutine while others use it.
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

// Equal reports whether m and other hold equal values under the same keys in
// the same order. Numbers are equal if they have the same text, so 1.0 is not
// 1; an int, int64 or float64 has the text that JSON gives it. A nil Map
// equals an empty one.
func (m *Map) Equal(other *Map) bool {
	if m.Len() != other.Len() {
		return false
	}
	for i := range m.Len() {
		key := m.keys[i]
		if other.keys[i] != key || !equal(m.values[key], other.values[key]) {
			return false
		}
	}
	return true
}

// equal compares two values. A value of a type that a Map may not hold is
// equal to nothing.
func equal(a, b any) bool {
	switch a := a.(type) {
	case nil:
		return isNull(b)
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	case string:
		b, ok := b.(string)
		return ok && a == b
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	case *Map:
		if a == nil {
			return isNull(b)
		}
		b, ok := b.(*Map)
		return ok && b != nil && a.Equal(b)
	}
	x, err := numberText(a)
	y, other := numberText(b)
	return err == nil && other == nil && x == y
}

// isNull reports whether v is written as null.
func isNull(v any) bool {
	m, ok := v.(*Map)
	return v == nil || ok && m == nil
}

// numberText returns the text of a number, which is one in JSON too.
func numberText(v any) (string, error) {
	switch v := v.(type) {
	case json.Number:
		if !isNumber(string(v)) {
			return "", notEncodable("%q is not a number", shorten(string(v)))
		}
		return string(v), nil
	case int:
		return strconv.Itoa(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		text, err := json.Marshal(v)
		if err != nil {
			return "", notEncodable("%v is not a finite number", v)
		}
		return string(text), nil
	}
	return "", notEncodable("values of type %T are not supported", v)
}
