// Package spec holds the formats of resilientwrite as documents: JSON Schemas
// made from the Go types, and the byte format of the journal.
//
// The schemas are generated; a test fails when they are not fresh.
package spec

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/xeipuuv/gojsonschema"
)

//go:generate go run ../internal/gen

//go:embed *.schema.json
var files embed.FS

// Schema returns the document name.schema.json.
func Schema(name string) ([]byte, error) { return files.ReadFile(name + ".schema.json") }

var compiled sync.Map // name to *gojsonschema.Schema

// Validate checks a JSON document against the schema name: "errors" is the
// error envelope. The error lists what does not conform, without the values.
func Validate(name string, doc []byte) error {
	schema, err := load(name)
	if err != nil {
		return err
	}
	return validate(schema, doc)
}

// ValidateWith checks a document against a schema of ours that is not a file:
// the input or output schema of a tool.
func ValidateWith(schema, doc []byte) error {
	s, err := compile(schema)
	if err != nil {
		return err
	}
	return validate(s, doc)
}

func load(name string) (*gojsonschema.Schema, error) {
	if s, ok := compiled.Load(name); ok {
		return s.(*gojsonschema.Schema), nil
	}
	data, err := Schema(name)
	if err != nil {
		return nil, err
	}
	s, err := compile(data)
	if err == nil {
		compiled.Store(name, s)
	}
	return s, err
}

func compile(data []byte) (*gojsonschema.Schema, error) {
	if bytes.Contains(data, []byte(`"$ref"`)) {
		return nil, errors.New("a schema of ours has no references")
	}
	loader := gojsonschema.NewSchemaLoader()
	loader.Draft, loader.AutoDetect, loader.Validate = gojsonschema.Draft7, false, true
	return loader.Compile(gojsonschema.NewBytesLoader(data))
}

// held reports whether the validator can hold every number of a value: it
// computes with fractions, and an exponent of millions would end it.
func held(v any) bool {
	switch v := v.(type) {
	case json.Number:
		_, exp, _ := strings.Cut(strings.ToLower(v.String()), "e")
		return len(strings.TrimLeft(exp, "+-0")) <= 3
	case []any:
		for _, x := range v {
			if !held(x) {
				return false
			}
		}
	case map[string]any:
		for _, x := range v {
			if !held(x) {
				return false
			}
		}
	}
	return true
}

func validate(s *gojsonschema.Schema, doc []byte) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = errors.New("the document cannot be validated")
		}
	}()
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("not JSON: more than one value")
	}
	if !held(value) {
		return errors.New("a number is out of range")
	}
	res, err := s.Validate(gojsonschema.NewRawLoader(value))
	if err != nil {
		return err
	}
	if res.Valid() {
		return nil
	}
	var list []string
	for _, e := range res.Errors() {
		list = append(list, e.Field()+": "+e.Type())
	}
	return errors.New(strings.Join(list, "; "))
}
