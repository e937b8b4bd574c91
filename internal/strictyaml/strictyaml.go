// Package strictyaml reads one document of YAML with go.yaml.in/yaml.
//
// The text is untrusted: its size, its nesting and the number of its values are bounded,
// and aliases are not expanded.
package strictyaml

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/resilientwrite/resilientwrite/internal/visible"
)

// Profile selects the features of YAML that a document may use. A limit of zero means
// no limit.
type Profile struct {
	MaxDepth int // mappings and lists inside each other
	Before   int // lines of the file before the text; they are counted in the lines of problems

	// References allows anchors, aliases and the tags of the core schema.
	References bool
	// Any allows all of YAML, and several documents.
	Any bool
}

// Kind classifies a problem.
type Kind int

const (
	Syntax    Kind = iota // not YAML, or YAML that the profile excludes
	Duplicate             // a key that is defined twice
	TooDeep
	Unread // valid as far as it was read, but not readable for many programs, or too large
)

// Problem is one mistake in a document.
type Problem struct {
	Kind         Kind
	Line, Column int // from 1; the column in characters
	Message      string
	Hint         string // what to do about it, "" when there is nothing to say
}

// NodeKind is the kind of a value.
type NodeKind int

const (
	Null NodeKind = iota
	Text
	Integer
	Decimal
	Bool
	Special // infinity, not a number
	List
	Map
	Alias // Text is its name
)

// Node is one value of a document.
type Node struct {
	Kind         NodeKind
	Line, Column int
	Text         string // of a scalar
	Plain        bool   // a scalar without quotes
	Folded       bool   // plain text over more than one line
	Tag, Anchor  string
	Target       *Node // of an alias; nil within the value of its own anchor
	Fields       []Field
	Items        []*Node
}

// Field is one key of a mapping and its value.
type Field struct{ Key, Value *Node }

const (
	// maxMarks bounds the characters that can separate two values. The library needs
	// hundreds of bytes for each value.
	maxMarks = 1 << 18
	// maxCollected bounds the problems.
	maxCollected = 100
)

// reader reads one document.
type reader struct {
	profile  Profile
	text     string
	lines    []string // nil until line needs them
	last     place    // where rest is
	rest     string
	done     map[*yaml.Node]*Node // the values of anchors
	paired   bool                 // see pair
	problems []*Problem
}

// Parse reads one document, which ends its lines with LF or, in a profile with
// Any, in any way; its last line need not end. It returns nil when there is no value and when there are
// problems, which are sorted by position.
func Parse(text string, profile Profile) (*Node, []*Problem) {
	r := &reader{profile: profile, text: text, done: map[*yaml.Node]*Node{}}
	root := r.read()
	if len(r.problems) == 0 {
		return root, nil
	}
	slices.SortStableFunc(r.problems, func(a, b *Problem) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column)
	})
	return nil, r.problems
}

// read makes the tree. A panic of the library becomes a problem.
func (r *reader) read() (root *Node) {
	defer func() {
		if p := recover(); p != nil {
			r.add(place{1, 1}, Syntax, "the YAML parser could not read the text", "")
		}
	}()
	if r.check(); len(r.problems) > 0 {
		return nil
	}
	text := r.text
	if r.profile.Any { // the library knows version 1.1 only
		text = version.ReplaceAllString(text, "${1}1.1")
	}
	docs, err := load(text)
	if err != nil && strings.Contains(err.Error(), "invalid Unicode character escape") && pair.MatchString(text) {
		r.paired = true
		docs, err = load(pair.ReplaceAllStringFunc(text, joined))
	}
	if err != nil {
		r.failed(err)
		return nil
	}
	for i, doc := range docs {
		if i > 0 && !r.profile.Any {
			r.add(place{doc.Line, doc.Column}, Syntax, "the file holds more than one YAML document", "leave out the text from here on")
			return nil
		}
		r.directives(doc.Line)
		root = r.node(doc.Content[0], 0)
		if root != nil && root.empty() {
			root = nil
		}
	}
	return root
}

func load(text string) (docs []*yaml.Node, err error) {
	loader, err := yaml.NewLoader(strings.NewReader(text))
	for err == nil {
		doc := new(yaml.Node)
		if err = loader.Load(doc); err == nil {
			docs = append(docs, doc)
		}
	}
	if err == io.EOF {
		err = nil
	}
	return docs, err
}

// pair matches a character that JSON escapes as two halves, which the library does not
// know, and an escaped backslash. The columns after a character are two less then.
var pair = regexp.MustCompile(`\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}`)

func joined(pair string) string {
	if len(pair) == 2 {
		return pair
	}
	high, _ := strconv.ParseUint(pair[2:6], 16, 16)
	low, _ := strconv.ParseUint(pair[8:], 16, 16)
	return fmt.Sprintf(`\U%08x`, utf16.DecodeRune(rune(high), rune(low)))
}

// empty reports whether there is nothing where the value is.
func (n *Node) empty() bool { return n.Kind == Null && n.Text+n.Tag+n.Anchor == "" }

// version matches the directive of version 1.2.
var version = regexp.MustCompile(`(?m)^(%YAML[ \t]+)1\.2\b`)

// check refuses characters that YAML does not allow unescaped, and a text with too many
// values.
func (r *reader) check() {
	at, marks := place{1, 1}, 0
	for i, c := range r.text {
		switch {
		case c == utf8.RuneError && !strings.HasPrefix(r.text[i:], "\ufffd"):
			r.add(at, Syntax, "the text is not valid UTF-8", "save the file as UTF-8")
		case c == '\r' && !r.profile.Any:
			r.add(at, Syntax, "a carriage return without a line feed", "end lines with LF or CRLF")
		case !r.printable(c):
			r.add(at, Syntax, fmt.Sprintf("the control character %U must be escaped in double quotes", c), "")
		case strings.ContainsRune(",:-[{?", c):
			if marks++; marks > maxMarks {
				r.add(at, Unread, "too many values to read them all in good time; the text is not checked", "")
			}
		}
		if len(r.problems) > 0 {
			return
		}
		if at.column++; c == '\n' || c == '\r' && !strings.HasPrefix(r.text[i:], "\r\n") {
			at = place{at.line + 1, 1}
		}
	}
}

// printable reports whether a character may be there unescaped. A document
// without references, a policy, has none that an editor takes for a line end.
func (r *reader) printable(c rune) bool {
	switch {
	case c == '\t' || c == '\n' || c == '\r':
		return true
	case r.profile.Any:
		return c >= ' '
	case c == 0x85 || c == '\u2028' || c == '\u2029':
		return r.profile.References
	}
	return c >= ' ' && (c < 0x7f || c > 0x9f) && c&0xFFFE != 0xFFFE
}

// directives refuses those that precede a document.
func (r *reader) directives(before int) {
	for n := 1; n < before && !r.profile.Any; n++ {
		if strings.HasPrefix(r.line(n), "%") {
			r.refuse(place{n, 1}, '%')
			return
		}
	}
}

// place is a position in the text.
type place struct{ line, column int }

// line returns one line of the text, without its end.
func (r *reader) line(n int) string {
	if r.lines == nil {
		r.lines = strings.Split(strings.ReplaceAll(strings.ReplaceAll(r.text, "\r\n", "\n"), "\r", "\n"), "\n")
	}
	if n < 1 || n > len(r.lines) {
		return ""
	}
	return r.lines[n-1]
}

// from returns the text of a line from a place on. It goes on from the last place, so that
// the values of a long line take linear time.
func (r *reader) from(at place) string {
	if at.line != r.last.line || at.column < r.last.column {
		r.last, r.rest = place{at.line, 1}, r.line(at.line)
	}
	for ; r.last.column < at.column; r.last.column++ {
		_, n := utf8.DecodeRuneInString(r.rest)
		r.rest = r.rest[n:]
	}
	return r.rest
}

// add reports a problem.
func (r *reader) add(at place, kind Kind, message, hint string) {
	if len(r.problems) < maxCollected {
		r.problems = append(r.problems, &Problem{kind, at.line + r.profile.Before, at.column, message, hint})
	}
}

// refusals lists what a profile without references excludes, by its first character.
var refusals = map[byte][2]string{
	'&': {"anchors are not allowed", "put a text that begins with & in quotes"},
	'*': {"aliases are not allowed", `put a text that begins with * in quotes, such as "**/*.md"`},
	'!': {"tags are not allowed", "put a text that begins with ! in quotes"},
	'<': {"merge keys are not allowed", ""},
	'%': {"directives are not allowed", "leave out the line, or put a text that begins with % in quotes"},
}

func (r *reader) refuse(at place, what byte) {
	r.add(at, Syntax, refusals[what][0], refusals[what][1])
}

// failed reports an error of the library.
func (r *reader) failed(err error) {
	var e *yaml.LoadError
	if !errors.As(err, &e) || e.Mark.Line == 0 {
		r.add(place{1, 1}, Syntax, "not valid YAML: "+visible.Cut(err.Error(), 200), "")
		return
	}
	at, message := place{e.Mark.Line, max(1, e.Mark.Column)}, e.Message
	if e.ContextMsg != "" {
		message += " " + e.ContextMsg
	}
	if r.from(at) == "" && e.ContextMark.Line > 0 { // the end of a line, or of the text
		at = place{e.ContextMark.Line, e.ContextMark.Column}
	}
	if r.line(at.line) == "" && at.line > len(r.lines) { // a last line without an end
		at = place{len(r.lines), utf8.RuneCountInString(r.lines[len(r.lines)-1]) + 1}
	}
	rest, hint := r.from(at), ""
	before := strings.TrimRight(strings.TrimSuffix(r.line(at.line), rest), " ")
	switch {
	case strings.Contains(message, "max depth"):
		r.add(at, TooDeep, fmt.Sprintf("nested deeper than %d levels", r.profile.MaxDepth), "")
		return
	case rest != "" && !r.profile.Any && (rest[0] == '%' || !r.profile.References && strings.Contains("&*!", rest[:1])):
		r.refuse(at, rest[0])
		return
	case strings.Contains(message, "escape"):
		hint = "write regular expressions in single quotes"
	case strings.HasPrefix(rest, "\t"):
		hint = "indent with spaces"
	case rest != "" && strings.Contains("-,]}@`%", rest[:1]) && (strings.Contains(message, "node content") || strings.Contains(message, "start any token")):
		hint = fmt.Sprintf("put a text that begins with %c in quotes", rest[0])
	case strings.Contains(message, "could not find expected ':'"):
		hint = "a value on lines of its own is indented deeper than its key"
	case strings.HasSuffix(before, "]") || strings.HasSuffix(before, "}"):
		hint = "put a text that begins with [ or { in quotes"
	case strings.Contains(message, "mapping values are not allowed"):
		hint = "a key is on one line; put text that holds \": \" in quotes"
	}
	r.add(at, Syntax, "not valid YAML: "+visible.Cut(strings.ToValidUTF8(message, ""), 200), hint)
}

// node makes the tree of one value. It returns nil after a problem for which the
// value is not read.
func (r *reader) node(n *yaml.Node, depth int) *Node {
	at := place{n.Line, n.Column}
	p := r.profile
	out := &Node{Line: n.Line, Column: n.Column, Text: n.Value, Anchor: n.Anchor}
	if n.Kind == yaml.AliasNode {
		out.Kind, out.Target = Alias, r.done[n.Alias]
	}
	if n.Style&yaml.TaggedStyle != 0 {
		out.Tag = n.Tag
	}
	switch {
	case p.Any:
	case !p.References && n.Anchor != "":
		r.refuse(at, '&')
	case !p.References && n.Kind == yaml.AliasNode:
		r.refuse(at, '*')
	case !p.References && out.Tag != "":
		r.refuse(at, '!')
	case r.paired && n.Style&yaml.DoubleQuotedStyle == 0 && strings.Contains(n.Value, `\U000`):
		r.add(at, Syntax, `half of an escaped character: write the whole character`, "")
	case out.Tag != "" && !coreTags[out.Tag]:
		r.add(at, Syntax, "the tag "+visible.Cut(out.Tag, 60)+" is not supported", "")
	}
	switch n.Kind {
	case yaml.ScalarNode:
		r.scalar(out, n)
	case yaml.SequenceNode, yaml.MappingNode:
		if depth++; p.MaxDepth > 0 && depth > p.MaxDepth {
			r.add(at, TooDeep, fmt.Sprintf("nested deeper than %d levels", p.MaxDepth), "")
			return nil
		}
		if out.Kind = List; n.Kind == yaml.MappingNode {
			out.Kind = Map
			r.fields(out, n, depth)
		} else {
			for _, one := range n.Content {
				if item := r.node(one, depth); item != nil {
					out.Items = append(out.Items, item)
				}
			}
		}
	}
	if n.Anchor != "" {
		r.done[n] = out
	}
	return out
}

// coreTags are the tags of the core schema.
var coreTags = map[string]bool{
	"!!str": true, "!!int": true, "!!float": true, "!!bool": true, "!!null": true, "!!seq": true, "!!map": true,
}

// scalar completes a node of a single value.
func (r *reader) scalar(out *Node, n *yaml.Node) {
	quoted := yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	if out.Plain = n.Style&quoted == 0; !out.Plain || n.Style&yaml.TaggedStyle != 0 {
		out.Kind = Text
		return
	}
	out.Folded = n.Anchor == "" && !strings.HasPrefix(r.from(place{n.Line, n.Column}), n.Value)
	switch n.Tag {
	case "!!null":
	case "!!int":
		out.Kind = Integer
	case "!!float":
		if out.Kind = Decimal; strings.ContainsAny(n.Value, "nN") { // .inf, .nan
			out.Kind = Special
		}
	case "!!bool":
		out.Kind = Bool
	default:
		out.Kind = Text
	}
}

// fields reads the keys and values of a mapping.
func (r *reader) fields(out *Node, n *yaml.Node, depth int) {
	lines := map[string]int{}
	for pair := range slices.Chunk(n.Content, 2) {
		at := place{pair[0].Line, pair[0].Column}
		if pair[0].Tag == "!!merge" {
			if !r.profile.Any {
				r.refuse(at, '<')
			}
			r.node(pair[1], depth)
			continue
		}
		key := r.node(pair[0], depth)
		value := r.node(pair[1], depth)
		if key == nil || value == nil {
			continue
		}
		if value.empty() { // there is nothing to point at
			value.Line, value.Column = key.Line, key.Column
		}
		if key.Kind >= List {
			if key.Kind != Alias && r.profile.Any {
				r.add(at, Unread, "a mapping or sequence is used as a key, which many parsers refuse", "")
			}
		} else if line, twice := lines[key.Text]; twice {
			r.add(at, Duplicate, fmt.Sprintf("mapping key %q is already defined at line %d", visible.Cut(key.Text, 60), line+r.profile.Before), "keep one of them")
			continue
		} else {
			lines[key.Text] = key.Line
		}
		out.Fields = append(out.Fields, Field{key, value})
	}
}
