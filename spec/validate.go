package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/xeipuuv/gojsonschema"
)

// compile prepares a schema. It may be anybody's: a reference would be
// fetched, and a number that cannot be held would end the validator.
func compile(data []byte) (s *gojsonschema.Schema, err error) {
	defer func() {
		if v := recover(); v != nil {
			s, err = nil, errors.New("spec: the schema cannot be compiled")
		}
	}()
	value, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("spec: the schema: %w", err)
	}
	if refers(value) {
		return nil, errors.New("spec: a schema with $ref is not used")
	}
	loader := gojsonschema.NewSchemaLoader()
	loader.Draft, loader.AutoDetect, loader.Validate = gojsonschema.Draft7, false, true
	return loader.Compile(gojsonschema.NewRawLoader(value))
}

// refers reports whether a schema has a $ref anywhere.
func refers(v any) bool {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			if refers(x) {
				return true
			}
		}
	case map[string]any:
		for key, x := range v {
			if key == "$ref" || refers(x) {
				return true
			}
		}
	}
	return false
}

// validate checks a document. The validator has known ways to panic; one that
// is not known yet must not end the caller.
func validate(what string, s *gojsonschema.Schema, doc []byte) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Invalid{Document: what, Problems: []Problem{{Rule: "unreadable", Text: "the document cannot be validated"}}}
		}
	}()
	value, err := decode(doc)
	if err != nil {
		return &Invalid{Document: what, Problems: []Problem{{Rule: "json", Text: err.Error()}}}
	}
	res, err := s.Validate(gojsonschema.NewRawLoader(value))
	if err != nil {
		return fmt.Errorf("spec: %s: %w", what, err)
	}
	if res.Valid() {
		return nil
	}
	return invalid(what, res.Errors())
}

// decode reads one JSON value strictly: nothing behind it, no name twice, only
// Unicode, only numbers that the validator can hold.
func decode(doc []byte) (any, error) {
	if !utf8.Valid(doc) || loneSurrogate(doc) {
		return nil, errors.New("not JSON: a text that is not Unicode")
	}
	if err := json.Unmarshal(doc, new(json.RawMessage)); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) && syntax.Offset <= int64(len(doc)) && syntax.Offset > 0 {
			return nil, fmt.Errorf("not JSON: at byte %d", syntax.Offset)
		}
		return nil, errors.New("not JSON")
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	return value(dec)
}

// value reads the next value. How deep values lie has been looked at.
func value(dec *json.Decoder) (any, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, errors.New("not JSON")
	}
	switch tok {
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			v, err := value(dec)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = dec.Token()
		return list, err
	case json.Delim('{'):
		object := map[string]any{}
		for dec.More() {
			tok, err := dec.Token()
			if err != nil {
				return nil, errors.New("not JSON")
			}
			key, _ := tok.(string)
			if _, twice := object[key]; twice {
				return nil, fmt.Errorf("not JSON: the name %s is there twice", quoted(key))
			}
			if object[key], err = value(dec); err != nil {
				return nil, err
			}
		}
		_, err = dec.Token()
		return object, err
	}
	if n, ok := tok.(json.Number); ok && !held(n) {
		return nil, errors.New("a number is out of range")
	}
	return tok, nil
}

// held reports whether the validator can hold a number: it computes with
// fractions, and an exponent of millions would end it.
func held(n json.Number) bool {
	_, exp, _ := strings.Cut(strings.ToLower(n.String()), "e")
	return len(n) <= 1000 && len(strings.TrimLeft(exp, "+-0")) <= 3
}

// loneSurrogate reports whether a text of the document has half of a pair,
// which a decoder would replace without a word.
func loneSurrogate(doc []byte) bool {
	for i := 0; i < len(doc); i++ {
		if doc[i] != '\\' || i+1 >= len(doc) {
			continue
		}
		i++ // what follows is escaped, a backslash too
		if doc[i] != 'u' {
			continue
		}
		switch u := unit(doc, i+1); {
		case u >= 0xdc00 && u <= 0xdfff:
			return true
		case u >= 0xd800 && u <= 0xdbff:
			if i+6 >= len(doc) || doc[i+5] != '\\' || doc[i+6] != 'u' {
				return true
			}
			if low := unit(doc, i+7); low < 0xdc00 || low > 0xdfff {
				return true
			}
			i += 6
		}
	}
	return false
}

// unit reads four hexadecimal digits, -1 when there are none.
func unit(doc []byte, at int) int {
	if at+4 > len(doc) {
		return -1
	}
	n := 0
	for _, c := range bytes.ToLower(doc[at : at+4]) {
		d := strings.IndexByte("0123456789abcdef", c)
		if d < 0 {
			return -1
		}
		n = n<<4 | d
	}
	return n
}
