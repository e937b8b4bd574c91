// Package jsontext reads and writes JSON as it is stored and shown: members in their
// order, and characters unescaped.
package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
)

// Encode returns v as JSON that ends with a line feed. <, > and & are not escaped. With
// an indent, each member is on a line of its own.
func Encode(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// Member is a member of an object.
type Member struct {
	Name  string
	Value json.RawMessage
}

// Members returns the members of the object that doc is, in their order.
func Members(doc []byte) (list []Member, err error) {
	dec := json.NewDecoder(bytes.NewReader(doc))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		list = append(list, Member{tok.(string), value})
	}
	if _, err := dec.Token(); err != nil || dec.More() {
		return nil, errors.New("not one JSON object")
	}
	return list, nil
}
