// Package strictyaml reads one document of YAML with goccy/go-yaml.
//
// The text is untrusted. If the library would need time that grows faster than the
// text, the input is bounded or split into pieces. If the library omits or misreads
// something, it is refused: every character of the text is in the tree that Parse
// returns, in a comment, or the subject of a problem.
package strictyaml

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"

	"github.com/resilientwrite/resilientwrite/internal/visible"
)

// Profile selects the features of YAML that a document may use. A limit of zero means
// no limit.
type Profile struct {
	MaxDepth   int // mappings and lists inside each other
	MaxTokens  int
	MaxMembers int // keys of one block mapping
	Before     int // lines of the file before the text; they are counted in the lines of problems

	// References allows anchors, aliases and the tags of the core schema.
	References bool
	// Any allows all of YAML. The values of scalars are then not exact.
	Any bool
}

// Kind classifies a problem.
type Kind int

const (
	Syntax    Kind = iota // not YAML, or YAML that the profile excludes
	Duplicate             // a key that is defined twice
	TooDeep
	TooLarge
	Unread // valid in the part that was read, but too large to be read in full
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
	// maxPaths bounds the length of the paths of all nodes together: the
	// parser builds the path of every node from the keys around it.
	maxPaths = 64 << 20
	// maxMoves bounds the empty values times the tokens: for each empty value
	// the parser moves the tokens after it.
	maxMoves = 1 << 30
	// maxTokens bounds the tokens, each of which takes about 600 bytes until the
	// text has been read.
	maxTokens = 1 << 19
	// maxMarked bounds the keys that are marked with ?. A mapping that has one
	// is not given to the parser in pieces.
	maxMarked = 256
	// maxProperties bounds the tags and anchors of a profile with References,
	// and those in a row of any: they nest without indentation.
	maxProperties = 1000
	// maxAngles bounds consecutive < characters; for each of them the scanner counts
	// the following ones.
	maxAngles = 1000
	// maxTabs bounds the tabs of a line; for each of them in double quotes the
	// scanner copies the text before it.
	maxTabs = 100
	// maxBlank bounds the blank lines in a row; for each of them in a block of
	// text the scanner copies those before it.
	maxBlank = 100
	// maxCollected bounds the problems.
	maxCollected = 1000
)

// reader reads one document.
type reader struct {
	profile  Profile
	text     string
	lines    []string // nil until at needs them
	dropped  []int    // blank lines, each by the number of the line before it
	places   map[*token.Token]span
	problems []*Problem
}

// Parse reads one document, which ends its lines with LF or, in a profile with
// Any, in any way; its last line need not end. It returns nil when there is no value and when there are
// problems, which are sorted by position.
func Parse(text string, profile Profile) (*Node, []*Problem) {
	r := &reader{profile: profile, text: text}
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
			root = nil
			r.add(place{1, 1}, Syntax, "the YAML parser could not read the text", "")
		}
	}()
	if r.check(); len(r.problems) > 0 {
		return nil
	}
	if !strings.HasSuffix(r.text, "\n") {
		r.text += "\n" // the scanner drops a tag at the very end
	}
	tokens := r.tokenize()
	if len(r.problems) > 0 {
		return nil
	}
	r.cover(tokens)
	w := walk{r: r, split: true, runs: make([]run, 1), anchors: map[string]bool{}}
	if w.all(tokens); len(r.problems) > 0 {
		return nil
	}
	t := treeMaker{r: r, seen: map[*token.Token]bool{}, named: map[string]*Node{}}
	return t.document(tokens, w.runs)
}

// tokenize returns the tokens of the text, unless there are too many.
func (r *reader) tokenize() (tokens token.Tokens) {
	var s scanner.Scanner
	s.Init(r.text)
	for {
		list, err := s.Scan()
		if err == io.EOF {
			return tokens
		}
		if tokens.Add(list...); len(tokens) > maxTokens {
			r.add(r.at(tokens[maxTokens]), Unread, "too many values to read them all in good time; the text is not checked", "")
			return nil
		}
	}
}

// check refuses characters that YAML does not allow unescaped, and texts that
// keep the scanner busy. With Any, which does not return values, the latter are
// changed instead; the places of all characters stay.
func (r *reader) check() {
	if r.profile.Any {
		if r.noControl(); len(r.problems) == 0 {
			r.calm()
		}
		return
	}
	at, angles, tabs, blank := place{1, 1}, 0, 0, 0
	for i, c := range r.text {
		switch {
		case c == utf8.RuneError && !strings.HasPrefix(r.text[i:], "\ufffd"):
			r.add(at, Syntax, "the text is not valid UTF-8", "save the file as UTF-8")
		case c == '\r':
			r.add(at, Syntax, "a carriage return without a line feed", "end lines with LF or CRLF")
		case !r.printable(c):
			r.control(at, c)
		}
		if c != '<' {
			angles = 0
		} else if angles++; angles > maxAngles {
			r.add(at, TooLarge, fmt.Sprintf("more than %d < in a row", maxAngles), "")
		}
		switch {
		case c == '\t':
			if tabs++; tabs > maxTabs {
				r.add(at, TooLarge, fmt.Sprintf("more than %d tabs in a line", maxTabs), "")
			}
		case c == '\n':
			tabs = 0
			if blank++; blank > maxBlank {
				r.add(place{at.line, 1}, TooLarge, fmt.Sprintf("more than %d blank lines in a row", maxBlank), "")
			}
		case c != ' ':
			blank = -1 // this line is not one
		}
		if len(r.problems) > 0 {
			return
		}
		at = at.after(c)
	}
}

// noControl refuses the first character that no YAML may hold anywhere. Others that are
// not printable may be in quotes.
func (r *reader) noControl() {
	at := strings.IndexFunc(r.text, func(c rune) bool { return c < ' ' && c != '\t' && c != '\n' && c != '\r' })
	if at < 0 {
		return
	}
	where := place{1, 1}
	for _, c := range lineFeeds(r.text[:at]) {
		where = where.after(c)
	}
	r.control(where, rune(r.text[at]))
}

// control reports a character that must be written in another way.
func (r *reader) control(at place, c rune) {
	r.add(at, Syntax, fmt.Sprintf("the control character %U must be escaped in double quotes", c), "")
}

// lineFeeds ends all lines with LF.
func lineFeeds(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}

// printable reports whether a character may be there unescaped. A document
// without references, a policy, has none that an editor takes for a line end.
func (r *reader) printable(c rune) bool {
	switch c {
	case '\t', '\n':
		return true
	case 0x85, '\u2028', '\u2029':
		return r.profile.References
	}
	return c >= ' ' && (c < 0x7f || c > 0x9f) && c&0xFFFE != 0xFFFE
}

// calm makes the text one that the scanner reads well and in good time, where
// its values are not needed: other characters for many < in a row and for tabs,
// except before the text of a line, and fewer blank lines. After a tab in double
// quotes the scanner miscounts the lines.
func (r *reader) calm() {
	text := lineFeeds(r.text)
	out := make([]byte, 0, len(text))
	number, blank := 0, 0
	for line := range strings.Lines(text) {
		if blank++; strings.Trim(line, " \t\n") != "" {
			blank = 0
		} else {
			line = "\n"
		}
		if blank > maxBlank {
			r.dropped = append(r.dropped, number)
			continue
		}
		number++
		angles, indent := 0, true
		for _, c := range []byte(line) {
			if angles++; c != '<' {
				angles = 0
			} else if angles > maxAngles {
				c = '='
			}
			indent = indent && (c == ' ' || c == '\t')
			if c == '\t' && !indent {
				c = ' '
			}
			out = append(out, c)
		}
	}
	r.text = string(out)
}

// line returns the number of a line in the file, before calm dropped some.
func (r *reader) line(number int) int {
	n, _ := slices.BinarySearch(r.dropped, number)
	return number + n + r.profile.Before
}

// place is a position in the text.
type place struct{ line, column int }

// after is the place after a character.
func (p place) after(c rune) place {
	if c == '\n' {
		return place{p.line + 1, 1}
	}
	return place{p.line, p.column + 1}
}

// at returns the position of a token. For a token that the parser made, or after which
// reading stopped, it is the position that the library reports.
func (r *reader) at(t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{1, 1}
	}
	if s, ok := r.places[t]; ok {
		return s.begin
	}
	if r.lines == nil {
		r.lines = strings.Split(r.text, "\n")
	}
	line, column := t.Position.Line, t.Position.Column
	if line > len(r.lines) {
		line, column = len(r.lines), len(r.text)
	}
	line = max(line, 1)
	return place{line, max(1, min(column, utf8.RuneCountInString(r.lines[line-1])+1))}
}

// add reports a problem.
func (r *reader) add(at place, kind Kind, message, hint string) {
	if len(r.problems) < maxCollected {
		r.problems = append(r.problems, &Problem{kind, r.line(at.line), at.column, message, hint})
	}
}

// refuse reports a token that is not allowed where it is.
func (r *reader) refuse(t *token.Token, message, hint string) {
	r.add(r.at(t), Syntax, message, hint)
}

// syntax reports an error of the parser.
func (r *reader) syntax(err error) {
	var problem interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if !errors.As(err, &problem) || problem.GetToken() == nil {
		message, _, _ := strings.Cut(err.Error(), "\n")
		r.add(place{1, 1}, Syntax, "not valid YAML: "+message, "")
		return
	}
	r.wrong(problem.GetToken(), problem.GetMessage())
}

// wrong reports the library's error for a token.
func (r *reader) wrong(t *token.Token, message string) {
	message = strings.ToValidUTF8(message, "")
	if message == "found an invalid key for this map" && r.profile.Any {
		// YAML allows this, but this parser and many others do not.
		r.add(r.at(t), Unread, "a mapping or sequence is used as a key, which many parsers refuse; the rest is not read", "")
		return
	}
	hint := ""
	switch p := t.Prev; {
	case strings.Contains(message, "escape"):
		hint = "write regular expressions in single quotes"
	case strings.Contains(message, "cannot start any token") && strings.Contains(t.Origin, "\t"):
		hint = "indent with spaces"
	case p != nil && (p.Type == token.SequenceEndType || p.Type == token.MappingEndType) && p.Position.Line == t.Position.Line:
		hint = "put a text that begins with [ or { in quotes"
	}
	r.refuse(t, "not valid YAML: "+visible.Cut(message, 200), hint)
}

// parse gives tokens to the parser.
func (r *reader) parse(tokens token.Tokens) (docs []*document, ok bool) {
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.syntax(err)
		return nil, false
	}
	for _, doc := range file.Docs {
		if doc.Body != nil {
			docs = append(docs, doc)
		}
	}
	return docs, true
}
