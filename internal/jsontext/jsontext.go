// Package jsontext reads and writes JSON as it is stored and shown: members in their
// order, and characters unescaped.
package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
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

var errNoObject = errors.New("not one JSON object")

// Each passes the members of the object that doc is, in their order. If doc is no
// object, the last pair has an error.
func Each(doc []byte) iter.Seq2[Member, error] {
	return func(yield func(Member, error) bool) {
		dec := json.NewDecoder(bytes.NewReader(doc))
		if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
			yield(Member{}, errNoObject)
			return
		}
		for dec.More() {
			var m Member
			tok, err := dec.Token()
			if err == nil {
				m.Name, _ = tok.(string)
				err = dec.Decode(&m.Value)
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
		_, err := dec.Token()
		if _, after := dec.Token(); err != nil || after != io.EOF {
			yield(Member{}, errNoObject)
		}
	}
}

// Members returns the members of the object that doc is, in their order.
func Members(doc []byte) (list []Member, err error) {
	for m, err := range Each(doc) {
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}
