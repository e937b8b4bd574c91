package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/xeipuuv/gojsonschema"

	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// compile prepares a schema. It is not trusted: a reference would be
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

// decode reads one JSON value strictly: nothing after it, no name twice, only
// Unicode, only numbers that the validator can hold.
func decode(doc []byte) (any, error) {
	if !utf8.Valid(doc) || schema.LoneSurrogate(doc) >= 0 {
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

// value reads the next value. The depth has been checked before.
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
