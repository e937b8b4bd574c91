package policyfile

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/strictyaml"
)

// profile is what a policy may use of YAML.
var profile = strictyaml.Profile{MaxDepth: MaxDepth, MaxTokens: 100_000, MaxMembers: 1000}

// node is one value of the file with what the check made of it.
type node struct {
	*strictyaml.Node
	fields []field
	items  []*node

	value any              // what the check read: string, int64, float64, bool or time.Duration
	known map[string]*node // the fields that have a key of the table, or a family's name
}

// field is one key of a mapping and its value.
type field struct{ key, value *node }

// The kinds of a value.
const (
	nothing     = strictyaml.Null
	text        = strictyaml.Text
	wholeNumber = strictyaml.Integer
	decimal     = strictyaml.Decimal
	boolean     = strictyaml.Bool
	list        = strictyaml.List
	mapping     = strictyaml.Map
)

// kindName names a kind for a message.
func kindName(k strictyaml.NodeKind) string {
	return [...]string{"nothing", "text", "a number", "a number with a fraction", "true or false", "a special number", "a list", "a mapping"}[k]
}

// read makes the tree of the file. It returns nil when there is no document,
// and when there are problems.
func (c *checker) read(data []byte) *node {
	if len(data) > MaxBytes {
		c.problems = append(c.problems, &Problem{
			Line: 1, Column: 1, Reason: TooLarge,
			Message: fmt.Sprintf("the file has %d bytes; at most %d are read", len(data), MaxBytes),
		})
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	root, problems := strictyaml.Parse(string(data), profile)
	for _, p := range problems {
		reason := BadYAML
		switch p.Kind {
		case strictyaml.Duplicate:
			reason = DuplicateKey
		case strictyaml.TooLarge:
			reason = TooLarge
		}
		c.problems = append(c.problems, &Problem{p.Line, p.Column, reason, p.Message, p.Hint})
	}
	if root == nil {
		return nil
	}
	return treeOf(root)
}

// treeOf makes the nodes of the check.
func treeOf(n *strictyaml.Node) *node {
	out := &node{Node: n}
	for _, item := range n.Items {
		out.items = append(out.items, treeOf(item))
	}
	for _, f := range n.Fields {
		out.fields = append(out.fields, field{treeOf(f.Key), treeOf(f.Value)})
	}
	return out
}

// control reports whether r is a control character of ASCII or Latin-1.
func control(r rune) bool { return r < ' ' || r >= 0x7f && r <= 0x9f }

// clip shortens a text of the file for a message, and quotes it.
func clip(s string) string {
	const most = 60
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}
