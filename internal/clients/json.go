package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/jsontext"
)

// node is one value of a JSON text, with its place.
type node struct {
	start, end int
	open       byte    // { or [ or 0
	members    []keyed // of an object, and of a list without keys
	value      any     // of a scalar
}

type keyed struct {
	key   string
	start int // of the key, or of the value
	comma int // the place of the comma after it, or -1
	node
}

// reader reads JSON with comments, and commas at the end of lists.
type reader struct {
	text string
	at   int
}

const maxDepth = 100

var errSyntax = errors.New("not valid JSON")

// readJSON reads a whole text. An empty one is nil.
func readJSON(text string) (*node, error) {
	r := &reader{text: text, at: len(text) - len(strings.TrimPrefix(text, "\ufeff"))}
	if r.space(); r.at == len(text) {
		return nil, nil
	}
	n, err := r.value(0)
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", 1+strings.Count(text[:min(r.at, len(text))], "\n"), err)
	}
	if r.space(); r.at < len(text) {
		return nil, fmt.Errorf("line %d: %w", 1+strings.Count(text[:r.at], "\n"), errSyntax)
	}
	return &n, nil
}

// space passes over white space and comments.
func (r *reader) space() {
	for r.at < len(r.text) {
		rest := r.text[r.at:]
		switch {
		case strings.IndexByte(" \t\r\n", rest[0]) >= 0:
			r.at++
		case strings.HasPrefix(rest, "//"):
			if end := strings.IndexByte(rest, '\n'); end >= 0 {
				r.at += end
			} else {
				r.at = len(r.text)
			}
		case strings.HasPrefix(rest, "/*") && strings.Contains(rest[2:], "*/"):
			r.at += 2 + strings.Index(rest[2:], "*/") + 2
		default:
			return
		}
	}
}

func (r *reader) next(c byte) bool {
	r.space()
	if r.at < len(r.text) && r.text[r.at] == c {
		r.at++
		return true
	}
	return false
}

func (r *reader) value(depth int) (node, error) {
	r.space()
	n := node{start: r.at}
	if depth > maxDepth || r.at == len(r.text) {
		return n, errSyntax
	}
	if c := r.text[r.at]; c == '{' || c == '[' {
		r.at++
		n.open = c
		if err := r.members(&n, depth); err != nil {
			return n, err
		}
	} else if err := r.scalar(&n.value); err != nil {
		return n, err
	}
	n.end = r.at
	return n, nil
}

// scalar reads a string, a number, or a word.
func (r *reader) scalar(into any) error {
	end := r.at
	if r.text[end] == '"' {
		for end++; end < len(r.text) && r.text[end] != '"' && r.text[end] != '\n'; end++ {
			if r.text[end] == '\\' {
				end++
			}
		}
		end = min(end+1, len(r.text))
	} else {
		for end < len(r.text) && strings.IndexByte(" \t\r\n,:{}[]\"/", r.text[end]) < 0 {
			end++
		}
	}
	d := json.NewDecoder(strings.NewReader(r.text[r.at:end]))
	d.UseNumber()
	if d.Decode(into) != nil || d.More() {
		return errSyntax
	}
	r.at = end
	return nil
}

// members reads the text between brackets.
func (r *reader) members(n *node, depth int) (err error) {
	closing := byte('}')
	if n.open == '[' {
		closing = ']'
	}
	seen := map[string]bool{}
	for !r.next(closing) {
		if i := len(n.members); i > 0 && n.members[i-1].comma < 0 {
			return errSyntax
		}
		m := keyed{start: r.at, comma: -1}
		if n.open == '{' {
			if r.at == len(r.text) || r.text[r.at] != '"' || r.scalar(&m.key) != nil || !r.next(':') {
				return errSyntax
			}
			if seen[m.key] {
				return errors.New("a key is there twice")
			}
			seen[m.key] = true
		}
		if m.node, err = r.value(depth + 1); err != nil {
			return err
		}
		if r.next(',') {
			m.comma = r.at - 1
		}
		n.members = append(n.members, m)
	}
	return nil
}

// decoded is the value as encoding/json has it.
func (n *node) decoded() any {
	v, _ := canonical(n.ordered()) // was JSON
	return v
}

func (n *node) find(key string) *keyed {
	i := slices.IndexFunc(n.members, func(m keyed) bool { return m.key == key })
	if n.open != '{' || i < 0 {
		return nil
	}
	return &n.members[i]
}

// setJSON makes one edit of a text. Everything else keeps its bytes.
func setJSON(text string, e Edit) (string, error) {
	root, err := readJSON(text)
	if err != nil {
		return "", err
	}
	if root == nil {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text += "{}\n"
		if root, err = readJSON(text); err != nil {
			return "", err
		}
	}
	at, path := root, e.At
	if e.Key != "" {
		path = append(slices.Clone(path), e.Key)
	}
	for i, key := range path {
		if at.open != '{' {
			return "", errShape
		}
		next := at.find(key)
		if next == nil {
			value := e.Value
			if e.Key == "" {
				value = []any{value}
			}
			for _, name := range slices.Backward(path[i+1:]) {
				value = Fields{member(name, value)}
			}
			return insert(text, at, key, value), nil
		}
		at = &next.node
	}
	if e.Key != "" {
		if old := text[at.start:at.end]; !json.Valid([]byte(old)) && (strings.Contains(old, "//") || strings.Contains(old, "/*")) {
			return "", ErrByHand // most likely a comment
		}
		return text[:at.start] + renderJSON(e.Value, indentAt(text, at.start), true) + text[at.end:], nil
	}
	if at.open != '[' {
		return "", errShape
	}
	return insert(text, at, "", e.Value), nil
}

// errShape is returned for a text whose values have other types than the client
// documents.
var errShape = errors.New("the file has another form than its client documents")

// insert puts a member after the last one.
func insert(text string, n *node, key string, value any) string {
	name := ""
	if key != "" {
		name = quote(key) + ": "
	}
	inner := indentAt(text, n.start) + unit(text)
	if len(n.members) == 0 {
		if n.open == '[' {
			return text[:n.end-1] + name + renderJSON(value, "", false) + text[n.end-1:]
		}
		// The text between the brackets is a comment, or nothing.
		between := strings.TrimRight(text[n.start+1:n.end-1], " \t\r\n")
		return text[:n.start+1] + between + "\n" + inner + name + renderJSON(value, inner, true) + "\n" + indentAt(text, n.start) + text[n.end-1:]
	}
	first, last := n.members[0], n.members[len(n.members)-1]
	lines := strings.Contains(text[n.start:first.start]+text[last.end:n.end], "\n")
	comma, after, end := ",", "", n.end-1-trailing(text[:n.end-1])
	if last.comma >= 0 { // a comma at the end: the new member has one too
		comma, after = "", ","
	}
	if !lines {
		return text[:last.end] + comma + text[last.end:end] + " " + name + renderJSON(value, "", false) + after + text[end:]
	}
	inner = indentAt(text, first.start)
	return text[:last.end] + comma + text[last.end:end] + "\n" + inner + name + renderJSON(value, inner, true) + after + text[end:]
}

// trailing is how many bytes of white space end a text.
func trailing(text string) int { return len(text) - len(strings.TrimRight(text, " \t\r\n")) }

// unsetJSON removes a member, or an element equal to value. Containers that it
// leaves empty go with it, up to the whole text.
func unsetJSON(text string, at []string, key string, value any) (string, error) {
	root, err := readJSON(text)
	if err != nil || root == nil {
		return text, err
	}
	trail := []*node{root}
	for _, name := range at {
		next := trail[len(trail)-1].find(name)
		if next == nil {
			return text, nil
		}
		trail = append(trail, &next.node)
	}
	n := trail[len(trail)-1]
	i := slices.IndexFunc(n.members, func(m keyed) bool {
		return key != "" && n.open == '{' && m.key == key || key == "" && n.open == '[' && m.value == value
	})
	if i < 0 {
		return text, nil
	}
	return drop(text, trail, i), nil
}

// strip returns the rest of a member without the only one of its container: comments.
func strip(text string, outer keyed) string {
	m, n := outer.members[0], outer.node
	return text[outer.start:n.start] + text[n.start+1:m.start] + text[m.end:n.end-1] + text[n.end:max(n.end, outer.comma)]
}

// cut removes a member with its comma, and its line.
func cut(text string, n *node, i int) string {
	m := n.members[i]
	before, from, rest := text[:m.start], n.start+1, text[m.end:]
	if i > 0 {
		from = n.members[i-1].end
	}
	switch {
	case m.comma >= 0: // comments before it stay
		rest = strings.TrimLeft(text[m.end:m.comma], " \t\r\n") + text[m.comma+1:]
	case i > 0: // the comma before it goes; comments after that stay
		comma := n.members[i-1].comma
		before = text[:comma] + text[comma+1:m.start]
	}
	start := len(before) - trailing(before)
	if len(n.members) == 1 {
		rest = strings.TrimLeft(rest, " \t\r\n")
	}
	gap := ""
	if between := before[from:start]; strings.Contains(between[strings.LastIndexByte(between, '\n')+1:], "//") && !strings.HasPrefix(strings.TrimLeft(rest, " \t\r"), "\n") {
		gap = "\n" // a comment ends with its line
	}
	return before[:start] + gap + rest
}

// indentAt is the white space that begins the line of a place.
func indentAt(text string, at int) string {
	line := text[strings.LastIndexByte(text[:at], '\n')+1 : at]
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}

// unit is what one level of a text is indented by.
func unit(text string) string {
	for line := range strings.SplitSeq(text, "\n") {
		if indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]; indent != "" && strings.TrimSpace(line) != "" {
			return indent
		}
	}
	return "  "
}

func quote(s string) string {
	text, _ := jsontext.Encode(s, "")
	return strings.TrimSpace(string(text))
}

// renderJSON writes a value: objects over several lines, lists on one.
func renderJSON(v any, indent string, lines bool) string {
	switch v := v.(type) {
	case string:
		return quote(v)
	case []any:
		var parts []string
		for _, one := range v {
			parts = append(parts, renderJSON(one, "", false))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case Fields:
		var parts []string
		for _, m := range v {
			parts = append(parts, quote(m.Key)+": "+renderJSON(m.Value, indent+"  ", lines))
		}
		if !lines || len(parts) == 0 {
			return "{" + strings.Join(parts, ", ") + "}"
		}
		return "{\n" + indent + "  " + strings.Join(parts, ",\n"+indent+"  ") + "\n" + indent + "}"
	}
	data, _ := json.Marshal(v)
	return string(data)
}
