package policyfile

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/strictyaml"
)

// profile is the subset of YAML that a policy may use.
var profile = strictyaml.Profile{MaxDepth: MaxDepth, MaxTokens: 100_000, MaxMembers: 1000}

// checker compares a document with the table of keys, puts the values in the
// file and collects the problems.
type checker struct {
	file     *File
	problems []*Problem
	used     map[*limit]int
	names    map[string]int // the rules that the file adds, with their lines
}

// maxCollected bounds what is collected before it is sorted and truncated.
const maxCollected = 1000

// add reports a problem at a node.
func (c *checker) add(n *node, reason, message, hint string) {
	if len(c.problems) < maxCollected {
		c.problems = append(c.problems, &Problem{n.Line, n.Column, reason, message, hint})
	}
}

// read makes the tree of the file, nil when there is no document and when there
// are problems.
func (c *checker) read(data []byte) *node {
	if len(data) > MaxBytes {
		c.add(&node{Line: 1, Column: 1}, TooLarge, fmt.Sprintf("the file has %d bytes; at most %d are read", len(data), MaxBytes), "")
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
	return root
}

// check compares one value with its spec, and puts it in its field.
func (c *checker) check(n *node, s *spec, v reflect.Value) {
	switch s.form {
	case object:
		if c.kind(n, strictyaml.Map) {
			c.object(n, s, v)
		}
	case families:
		if c.kind(n, strictyaml.Map) {
			for _, f := range n.Fields {
				family := grow(v).Addr().Interface().(*Family)
				family.Line = f.Key.Line
				c.scalar(f.Key, &spec{form: name}, reflect.ValueOf(&family.Name).Elem())
				c.check(f.Value, s.item, reflect.ValueOf(&family.Patterns).Elem())
			}
		}
	case listOf:
		if c.kind(n, strictyaml.List) {
			c.list(n, s, v)
		}
	default:
		c.scalar(n, s, v)
	}
}

// kindNames names the kinds of a value for a message.
var kindNames = [...]string{
	strictyaml.Null: "nothing", strictyaml.Text: "text", strictyaml.Integer: "a number", strictyaml.Decimal: "a number with a fraction",
	strictyaml.Bool: "true or false", strictyaml.Special: "a special number", strictyaml.List: "a list", strictyaml.Map: "a mapping",
}

const giveValue = "remove the key or give it a value"

// kind reports a value that is no mapping or list.
func (c *checker) kind(n *node, want strictyaml.NodeKind) bool {
	if n.Kind == want {
		return true
	}
	hint := ""
	if n.Kind == strictyaml.Null {
		hint = giveValue
	} else if want == strictyaml.List {
		hint = "write it as a list, with a dash before each item"
	}
	c.add(n, BadType, fmt.Sprintf("expected %s, found %s", kindNames[want], kindNames[n.Kind]), hint)
	return false
}

// at returns the value of a key, nil when it is not given.
func at(n *node, key string) *node {
	for _, f := range n.Fields {
		if f.Key.Text == key {
			return f.Value
		}
	}
	return nil
}

// object checks the keys of a mapping against the table.
func (c *checker) object(n *node, s *spec, v reflect.Value) {
	s.setDefaults(v)
	if line := v.FieldByName("Line"); line.IsValid() {
		line.SetInt(int64(n.Line))
	}
	c.count(n, s.limit, 1)
	before := len(c.problems)
	for _, f := range n.Fields {
		i := slices.IndexFunc(s.keys, func(k key) bool { return k.name == f.Key.Text })
		if i < 0 {
			c.add(f.Key, UnknownKey, "unknown key "+clip(f.Key.Text), unknownKey(f.Key.Text, s))
			continue
		}
		next := s.keys[i].spec
		c.check(f.Value, next, v.FieldByIndex(next.index))
	}
	for _, k := range s.keys {
		if k.missing != "" && at(n, k.name) == nil {
			c.add(n, BadValue, fmt.Sprintf("the key %q is missing", k.name), k.missing)
		}
	}
	switch t := v.Interface().(type) {
	case Allow:
		if at(n, "path") == nil && at(n, "pattern") == nil {
			c.add(n, BadValue, "one of the keys path and pattern is missing", "say what the exception is for")
		}
	case Thresholds:
		if len(c.problems) == before {
			c.inOrder("low", "medium", at(n, "low"), at(n, "medium"), t.Low, t.Medium)
			c.inOrder("medium", "high", at(n, "medium"), at(n, "high"), t.Medium, t.High)
		}
	}
}

// list checks every item of a list.
func (c *checker) list(n *node, s *spec, v reflect.Value) {
	c.count(n, s.limit, len(n.Items))
	if len(n.Items) < s.atLeast {
		c.add(n, BadValue, "the list is empty", "remove the key or give it an item")
	}
	for i, item := range n.Items {
		if i == MaxItems {
			c.add(item, TooLarge, fmt.Sprintf("the list has more than %d items", MaxItems), "write globs that cover more")
			return
		}
		c.check(item, s.item, grow(v))
	}
}

// count adds to a limit of the whole file, and reports the value that exceeds it.
func (c *checker) count(n *node, l *limit, by int) {
	if l == nil || c.used[l] > l.most {
		return
	}
	if c.used[l] += by; c.used[l] > l.most {
		c.add(n, TooLarge, fmt.Sprintf(l.message, l.most), l.hint)
	}
}

// inOrder compares two thresholds; a missing one has its default. The problem is at the
// later one of the two in the file.
func (c *checker) inOrder(low, high string, small, large *node, a, b float64) {
	if small == nil && large == nil || a < b {
		return
	}
	place, hint := large, "low < medium < high"
	switch {
	case small == nil:
		hint = fmt.Sprintf("%s is %g by default", low, a)
	case large == nil:
		place, hint = small, fmt.Sprintf("%s is %g by default", high, b)
	case small.Line > large.Line || small.Line == large.Line && small.Column > large.Column:
		place = small
	}
	c.add(place, BadThresholds, fmt.Sprintf("%s (%g) must be below %s (%g)", low, a, high, b), hint)
}

// clip shortens a text of the file for a message, and quotes it.
func clip(s string) string {
	const most = 60
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}
