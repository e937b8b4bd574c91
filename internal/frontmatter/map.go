package frontmatter

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/schema"
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

// Len returns the number of keys.
func (m *Map) Len() int { return len(m.keys) }

// Get returns the value of key and whether there is one.
func (m *Map) Get(key string) (any, bool) {
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
	delete(m.values, key)
	m.keys = slices.DeleteFunc(m.keys, func(k string) bool { return k == key })
}

// Keys returns the keys in their order. The caller may change the result.
func (m *Map) Keys() []string { return slices.Clone(m.keys) }

// Equal reports whether m and other, which can be encoded, have the same text in
// JSON: equal values under the same keys in the same order. 1.0 is not 1.
func (m *Map) Equal(other *Map) bool {
	a, _ := m.MarshalJSON()
	b, _ := other.MarshalJSON()
	return bytes.Equal(a, b)
}

// check refuses values that cannot be written; depth is that of a collection.
func check(v any, depth int) error {
	if depth > MaxDepth && members(v) >= 0 {
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

// members is the number of values in a list or a mapping, -1 for anything else.
func members(v any) int {
	switch v := v.(type) {
	case *Map:
		return len(v.keys)
	case []any:
		return len(v)
	}
	return -1
}

// notEncodable returns a [NotEncodable] problem and its reason.
func notEncodable(format string, args ...any) error {
	return fmt.Errorf("%w: %s", NotEncodable, fmt.Sprintf(format, args...))
}

// MarshalJSON writes m as a JSON object with the keys in their order and the
// numbers in their own text. Text that is not UTF-8 is refused, as [Encode] does.
func (m *Map) MarshalJSON() ([]byte, error) {
	if err := check(m, 1); err != nil {
		return nil, err
	}
	object := schema.Object{}
	for _, key := range m.Keys() {
		object = append(object, schema.Member{Key: key, Value: m.values[key]})
	}
	return schema.Plain(object)
}

// UnmarshalJSON replaces the content of m by a JSON object, keeping the order of its
// keys and the text of its numbers. Duplicate keys, lone surrogates, text that is not
// UTF-8 and nesting deeper than [MaxDepth] are refused. A null leaves m unchanged.
func (m *Map) UnmarshalJSON(data []byte) error {
	if !utf8.Valid(data) {
		return errors.New("the JSON text is not UTF-8")
	}
	if at := schema.LoneSurrogate(data); at >= 0 {
		return fmt.Errorf("%s is half of a character", data[at:min(at+6, len(data))])
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, err := readJSON(dec, 0)
	if err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("more follows the JSON value")
	}
	switch v := v.(type) {
	case nil:
		return nil
	case *Map:
		*m = *v
		return nil
	}
	return errors.New("the JSON value is not an object")
}

// readJSON reads the next value.
func readJSON(dec *json.Decoder, depth int) (any, error) {
	token, err := dec.Token()
	delim, ok := token.(json.Delim)
	if err != nil || !ok {
		return token, err
	}
	if depth++; depth > MaxDepth {
		return nil, fmt.Errorf("the JSON value is nested deeper than %d", MaxDepth)
	}
	object, list := &Map{}, []any{}
	for dec.More() {
		name := ""
		if delim == '{' {
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			name = key.(string) // the decoder refuses other keys
			if _, known := object.Get(name); known {
				return nil, fmt.Errorf("key %q is there twice", shorten(name))
			}
		}
		value, err := readJSON(dec, depth)
		if err != nil {
			return nil, err
		}
		if delim == '{' {
			object.Set(name, value)
		} else {
			list = append(list, value)
		}
	}
	if _, err = dec.Token(); err != nil || delim == '{' {
		return object, err
	}
	return list, nil
}
