// Package frontmatter reads and writes Markdown documents that begin with YAML
// front matter: the envelopes with which coding agents hand work over.
//
//	---
//	title: Parser rewrite
//	due: 2026-11-21T10:00:00Z
//	---
//	The body, kept to the byte.
//
// Unknown fields, their order and the text of numbers survive reading and writing.
// Documents are untrusted: the work for each is bounded, and anything that is not
// understood exactly is refused.
package frontmatter

import (
	"bytes"
	"fmt"
	"slices"
)

// Problem is a defect of a document. The errors of this package can be distinguished
// with [errors.Is].
type Problem string

// The problems.
const (
	// MissingDelimiter: the document does not begin with a line ---.
	MissingDelimiter Problem = "missing_front_matter_delimiter"
	// Unterminated: no line --- or ... ends the front matter.
	Unterminated Problem = "unterminated_front_matter"
	// NotMapping: the front matter is something else than a mapping, or empty.
	NotMapping Problem = "front_matter_not_mapping"
	// InvalidYAML: the front matter is not YAML, or a kind of YAML that is
	// refused. The error is an [Error].
	InvalidYAML Problem = "yaml_error"
	// TooLarge: the front matter exceeds one of the limits. The error is an
	// [Error].
	TooLarge Problem = "front_matter_too_large"
	// NotEncodable: a value cannot be written as front matter.
	NotEncodable Problem = "front_matter_not_encodable"
)

// Error returns the problem's name.
func (p Problem) Error() string { return string(p) }

// Error is an [InvalidYAML] or [TooLarge] problem and its place. Line and Column count
// from one within the document, whose first line opens the front matter; they are zero
// if the place is unknown.
type Error struct {
	Kind         Problem
	Line, Column int
	// Message has at most three short lines. Of a [TooLarge] problem it is the limit
	// that was exceeded, in words of this package alone.
	Message string
}

// Error returns the place and the message.
func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.Kind, e.Message)
	}
	return fmt.Sprintf("%s: line %d, column %d: %s", e.Kind, e.Line, e.Column, e.Message)
}

// Unwrap returns the problem.
func (e *Error) Unwrap() error { return e.Kind }

// byteOrderMark may precede the opening line.
const byteOrderMark = "\ufeff"

// Split cuts doc into its YAML text and its body, without reading the YAML.
//
// The first line of doc must be ---; a byte order mark before it, spaces or
// tabs after it and CRLF as its end are accepted. The YAML text ends before
// the next line that is --- or ..., with the same leniency, and the body is
// everything after that line, to the byte. Both results share the memory of
// doc.
//
// The error is [MissingDelimiter] or [Unterminated].
func Split(doc []byte) (yaml []byte, body []byte, err error) {
	rest := bytes.TrimPrefix(doc, []byte(byteOrderMark))
	line, rest, _ := bytes.Cut(rest, []byte("\n"))
	if !isDelimiter(line, "---") {
		return nil, nil, MissingDelimiter
	}
	for yaml = rest; len(rest) > 0; {
		before := len(yaml) - len(rest)
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		if isDelimiter(line, "---") || isDelimiter(line, "...") {
			return yaml[:before], rest, nil
		}
	}
	return nil, nil, Unterminated
}

// Join returns the document with the front matter m and the given body, which
// [Split] takes apart again into the same body and a text that [Decode] reads
// as m. It fails as [Encode] does.
func Join(m *Map, body []byte) ([]byte, error) {
	yaml, err := Encode(m)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]byte("---\n"), yaml, []byte("---\n"), body), nil
}

// isDelimiter reports whether the line is the mark, blanks at its end aside.
func isDelimiter(line []byte, mark string) bool {
	line = bytes.TrimSuffix(line, []byte("\r"))
	return string(bytes.TrimRight(line, " \t")) == mark
}
