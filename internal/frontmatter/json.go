package frontmatter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/jsontext"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// MarshalJSON writes m as a JSON object with the keys in their order and the
// numbers in their own text. A nil Map is null. Text that is not UTF-8 is
// refused, as [Encode] does.
func (m *Map) MarshalJSON() ([]byte, error) {
	if err := check(m, 1); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	writeJSON(&out, m)
	return out.Bytes(), nil
}

// writeJSON writes a value that check accepted.
func writeJSON(out *bytes.Buffer, v any) {
	switch v := v.(type) {
	case string:
		text, _ := jsontext.Encode(v, "") // of a string: that cannot fail
		out.Write(text[:len(text)-1])
		return
	case []any:
		out.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				out.WriteByte(',')
			}
			writeJSON(out, item)
		}
		out.WriteByte(']')
		return
	case *Map:
		if v == nil {
			break
		}
		out.WriteByte('{')
		for i, key := range v.keys {
			if i > 0 {
				out.WriteByte(',')
			}
			writeJSON(out, key)
			out.WriteByte(':')
			writeJSON(out, v.values[key])
		}
		out.WriteByte('}')
		return
	}
	out.WriteString(scalarText(v))
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
