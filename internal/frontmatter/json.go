package frontmatter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/strictyaml"
)

// MarshalJSON writes m as a JSON object with the keys in their order and the
// numbers in their own text. A nil Map is null. Text that is not UTF-8 is
// refused, as [Encode] does.
func (m *Map) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	if err := writeJSON(&out, m, 0); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func writeJSON(out *bytes.Buffer, v any, depth int) error {
	if isNull(v) {
		out.WriteString("null")
		return nil
	}
	switch v := v.(type) {
	case bool:
		fmt.Fprint(out, v)
	case string:
		return writeJSONString(out, v)
	case []any:
		if depth >= MaxDepth {
			return notEncodable("nested deeper than %d", MaxDepth)
		}
		out.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := writeJSON(out, item, depth+1); err != nil {
				return err
			}
		}
		out.WriteByte(']')
	case *Map:
		return writeJSONObject(out, v, depth)
	default:
		text, err := numberText(v)
		out.WriteString(text)
		return err
	}
	return nil
}

func writeJSONObject(out *bytes.Buffer, m *Map, depth int) error {
	if depth >= MaxDepth {
		return notEncodable("nested deeper than %d", MaxDepth)
	}
	out.WriteByte('{')
	for i, key := range m.keys {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := writeJSONString(out, key); err != nil {
			return err
		}
		out.WriteByte(':')
		if err := writeJSON(out, m.values[key], depth+1); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return nil
}

func writeJSONString(out *bytes.Buffer, s string) error {
	if !utf8.ValidString(s) {
		return notEncodable("%q is not UTF-8", shorten(s))
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return err
	}
	out.Truncate(out.Len() - 1) // the line feed that Encode adds
	return nil
}

// UnmarshalJSON replaces the content of m by a JSON object, keeping the order
// of its keys and the text of its numbers. Duplicate keys, lone surrogates,
// text that is not UTF-8 and nesting deeper than [MaxDepth] are refused. A
// null leaves m as it is.
func (m *Map) UnmarshalJSON(data []byte) error {
	if !utf8.Valid(data) {
		return errors.New("the JSON text is not UTF-8")
	}
	if err := checkSurrogates(data); err != nil {
		return err
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

// readJSON reads the next value, or the end of the collection around it,
// which it returns as a json.Delim.
func readJSON(dec *json.Decoder, depth int) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	delim, ok := token.(json.Delim)
	if !ok || delim == ']' || delim == '}' {
		return token, nil
	}
	if depth++; depth > MaxDepth {
		return nil, fmt.Errorf("the JSON value is nested deeper than %d", MaxDepth)
	}
	if delim == '[' {
		list := []any{}
		for {
			item, err := readJSON(dec, depth)
			if err != nil || item == json.Delim(']') {
				return list, err
			}
			list = append(list, item)
		}
	}
	object := &Map{}
	for {
		key, err := dec.Token()
		if err != nil || key == json.Delim('}') {
			return object, err
		}
		name := key.(string) // the decoder refuses other keys
		if _, known := object.Get(name); known {
			return nil, fmt.Errorf("key %q is there twice", shorten(name))
		}
		value, err := readJSON(dec, depth)
		if err != nil {
			return nil, err
		}
		object.Set(name, value)
	}
}

// checkSurrogates refuses a \u escape that is half a character: the decoder
// would replace it by U+FFFD without a word.
func checkSurrogates(data []byte) error {
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		i++
		if i >= len(data) || data[i] != 'u' {
			continue
		}
		first, ok := strictyaml.HexDigits(string(data[i+1:min(len(data), i+5)]), 4)
		if !ok {
			continue // the decoder refuses it
		}
		i += 4
		if first < 0xD800 || first > 0xDFFF {
			continue
		}
		if first < 0xDC00 && bytes.HasPrefix(data[i+1:], []byte(`\u`)) {
			if second, ok := strictyaml.HexDigits(string(data[min(len(data), i+3):min(len(data), i+7)]), 4); ok && second >= 0xDC00 && second <= 0xDFFF {
				i += 6
				continue
			}
		}
		return fmt.Errorf("\\u%04x is half of a character", first)
	}
	return nil
}
