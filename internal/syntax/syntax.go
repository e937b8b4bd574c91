// Package syntax checks the syntax of text before it is written to disk.
//
// It reads nothing and writes nothing: every function works on the bytes passed to it.
// Every check takes time in proportion to the length of the text, even for malicious
// text, because the text is untrusted.
package syntax

import (
	"fmt"
	"slices"
)

// Severities of a problem.
const (
	Error   = "error"
	Warning = "warning"
)

// Unknown is the format of text that no checker here knows.
const Unknown = "unknown"

// Problem is one thing wrong at one place of the text.
type Problem struct {
	Line     int    `json:"line"` // counted from 1
	Col      int    `json:"col"`  // counted from 1, in characters; a byte order mark does not count
	Message  string `json:"message"`
	Severity string `json:"severity"` // Error or Warning
}

// Report is the outcome of one check.
type Report struct {
	Format string `json:"format"`
	// Valid says that there is no problem of severity Error.
	Valid bool `json:"valid"`
	// Problems is never nil. It holds at most 100 problems in the order of the
	// text and, if there were more, one last entry that says how many.
	Problems []Problem `json:"problems"`
	// NotChecked says in one sentence what the checker of this format leaves
	// out. It is empty for formats whose syntax is checked in full.
	NotChecked string `json:"not_checked,omitempty"`
}

// language describes one format.
type language struct {
	name       string
	inspect    func(*text)
	notChecked string
}

// languages lists the formats. It is a function because the Markdown checker calls back
// into it by way of the YAML one.
func languages() []language {
	return []language{
		{"json", inspectJSON, ""},
		{"jsonl", inspectJSONLines, ""},
		{"yaml", inspectYAML, "Tags are not resolved, how far the lines inside brackets and quotes are indented does not count, and values are not compared with any schema."},
		{"toml", inspectTOML, ""},
		{"xml", inspectXML, "A DTD is read for the names of its entities only: its own syntax, what it asks of the document and the text of the entities are not checked, and if there is a DTD outside the text every entity is taken as declared. The name of the encoding is not looked up, namespace prefixes are not resolved, and the document is not compared with any schema."},
		{"go", inspectGo, "Types, imports and names are not checked; only the grammar is."},
		{"python", inspectPython, "Tokens, indentation, brackets, strings and the shape of statements are checked; the inside of expressions, f-strings, comprehensions, parameters and patterns only by which tokens can follow each other. Escapes in strings, names, types and imports are not checked."},
		{"latex", inspectLaTeX, "Commands are not executed, so unknown commands, wrong arguments and redefined characters go unnoticed."},
		{"markdown", inspectMarkdown, "Only the YAML front matter and the code fences are checked, because any other text is Markdown."},
	}
}

// Check checks content as text of the given format. Text of a format that no checker
// knows is reported as Unknown and valid, since nothing is known against it.
func Check(format string, content []byte) Report {
	for _, l := range languages() {
		if l.name == format {
			return NewReport(format, inspect(l, content), l.notChecked)
		}
	}
	return NewReport(Unknown, []Problem{}, "")
}

// NewReport returns the report of a check that found these problems.
func NewReport(format string, problems []Problem, notChecked string) Report {
	broken := slices.ContainsFunc(problems, func(p Problem) bool { return p.Severity == Error })
	return Report{Format: format, Valid: !broken, Problems: problems, NotChecked: notChecked}
}

// Summary describes the report in one sentence.
func (r Report) Summary() string {
	errors := 0
	for _, p := range r.Problems {
		if p.Severity == Error {
			errors++
		}
	}
	switch {
	case r.Format == Unknown:
		return "the format is unknown, so nothing was checked"
	case len(r.Problems) == 0:
		return "valid " + r.Format
	}
	return fmt.Sprintf("%s: %d errors, %d warnings", r.Format, errors, len(r.Problems)-errors)
}

// inspect runs one checker over content, once its encoding is known to be one
// the checker can read.
func inspect(l language, content []byte) []Problem {
	t, readable := decode(l.name, content)
	if readable {
		l.inspect(t)
	}
	return t.problems()
}
