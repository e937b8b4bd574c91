package syntax

import (
	"bytes"
	"errors"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds on the work of the parser, which on some texts needs time in
// proportion to the square of their length. Within them it takes well under a
// second.
const (
	maxYAMLDepth = 200
	// maxYAMLPaths bounds the total length of the paths of all nodes. The
	// parser builds the path of every node from the keys around it.
	maxYAMLPaths = 64 << 20
	// maxYAMLKeys bounds the keys of one block mapping. For every key the
	// parser copies the keys after it.
	maxYAMLKeys = 256
	// maxYAMLMoves bounds the empty values times the tokens. For every empty
	// value the parser moves the tokens after it.
	maxYAMLMoves = 2e9
)

// inspectYAML reads every document twice. The parser of goccy/go-yaml knows the
// keys that are defined twice and stops at the first mistake of a document; what
// it lets pass is looked for by a reading of our own. Only the tree is built:
// aliases are not followed, so an alias bomb costs no more than its text.
func inspectYAML(t *text) {
	// Each document is parsed for itself: it shows the mistakes of all, and
	// the parser slows down with their number.
	starts := yamlDocuments(t.src)
	for i, start := range starts {
		end := len(t.src)
		if i+1 < len(starts) {
			end = starts[i+1]
		}
		if !t.full() {
			inspectYAMLDocument(t, start, end)
		}
	}
}

// yamlDocuments returns the offsets at which the documents of a text start. The
// directives before a document belong to it, also where the document before
// them has no end of its own, as YAML 1.1 had it.
func yamlDocuments(src []byte) []int {
	starts := []int{0}
	begun := false   // the document at hand has more than directives and comments
	directives := -1 // where those just read start
	for pos := 0; pos < len(src); {
		line, size := nextLine(src[pos:])
		inner := bytes.TrimLeft(line, " \t\r")
		switch {
		case yamlMarker(line, "---"):
			if begun && directives >= 0 {
				starts = append(starts, directives)
			} else if begun {
				starts = append(starts, pos)
			}
			begun, directives = true, -1
		case yamlMarker(line, "..."):
			starts = append(starts, pos+size)
			begun, directives = false, -1
		case len(inner) == 0 || inner[0] == '#':
		case line[0] != '%':
			begun, directives = true, -1
		case directives < 0:
			directives = pos
		}
		pos += size
	}
	return starts
}

// yamlMarker reports whether a line starts with a marker that stands for itself.
func yamlMarker(line []byte, marker string) bool {
	return bytes.HasPrefix(line, []byte(marker)) && (len(line) == len(marker) || bytes.IndexByte([]byte(" \t\r"), line[len(marker)]) >= 0)
}

// inspectYAMLDocument gives a document to the parser and then, if that found no
// mistake, reads it once more.
func inspectYAMLDocument(t *text, start, end int) {
	before := t.errors.total
	switch inner := bytes.TrimSpace(t.src[start:end]); {
	case len(inner) == 0 || string(inner) == "---" || string(inner) == "...":
		// Most of the documents of a text full of "---" are empty.
		return
	case string(inner) != ":":
		// A lone colon is a mapping of nothing to nothing, which the parser
		// does not know.
		parseYAMLDocument(t, start, end)
	}
	if t.errors.total == before {
		yamlShape(t, start, end)
	}
}

// maxYAMLAngles is the number of '<' in a row that the parser may see. For each
// of them it counts those after it.
const maxYAMLAngles = 100

// yamlReadable returns the document for the parser, with another character for
// those it takes very long to read in a row. The places of all others stay.
func yamlReadable(src []byte) string {
	if !bytes.Contains(src, bytes.Repeat([]byte("<"), maxYAMLAngles)) {
		return string(src)
	}
	out := bytes.Clone(src)
	for pos := 0; pos < len(out); {
		run := len(out[pos:]) - len(bytes.TrimLeft(out[pos:], "<"))
		if run >= maxYAMLAngles {
			copy(out[pos:], bytes.Repeat([]byte("="), run))
		}
		pos += run + 1
	}
	return string(out)
}

func parseYAMLDocument(t *text, start, end int) {
	defer func() {
		if r := recover(); r != nil {
			t.errorAt(start, "the YAML parser cannot read this text: %v", r)
		}
	}()
	lines := 0
	if start > 0 {
		lines = t.lineOf(start) - 1
	}
	place := func(tk *token.Token) int {
		if tk == nil || tk.Position == nil {
			return start
		}
		return t.offsetOf(tk.Position.Line+lines, tk.Position.Column)
	}
	tokens := lexer.Tokenize(yamlReadable(t.src[start:end]))
	if tokens.InvalidToken() == nil && yamlTooMuch(t, tokens, place) {
		return
	}
	_, err := parser.Parse(tokens, 0)
	if err == nil {
		return
	}
	var bad yaml.Error
	if !errors.As(err, &bad) {
		t.errorAt(start, "%v", err)
		return
	}
	at := place(bad.GetToken())
	message := strings.ToValidUTF8(bad.GetMessage(), "")
	if message == "found an invalid key for this map" {
		// YAML allows this, but this parser and many others do not.
		t.warnAt(at, "a mapping or sequence is used as a key, which many parsers refuse; keys defined twice are not looked for")
		return
	}
	t.errorAt(at, "%s", shorten(message))
}

// yamlLevel is a block collection that is still open.
type yamlLevel struct {
	column   int
	sequence bool
	entries  int
	outer    int // the length of the path to the collection
	path     int // the length of the path to its last entry
	keys     map[string]*token.Token
}

// yamlFlow is a bracket that is still open.
type yamlFlow struct {
	path    int // the length of the path to it
	mapping bool
	keys    map[string]*token.Token
}

// yamlNesting follows how the tokens nest, so that the parser is only given what
// it can read in good time.
type yamlNesting struct {
	blocks []yamlLevel
	flows  []yamlFlow
	paths  int // the lengths of all paths together
	keys   int // of the largest mapping
	empty  int // the empty values

	names        bool         // look for keys that are defined twice
	first, twice *token.Token // such a key
	complex      bool         // there are keys that are marked with ?
}

// yamlTooMuch reports text that the parser cannot read in good time. Only deep
// nesting counts as an error, because people do have mappings of many keys; in
// these, keys that are defined twice are looked for here.
func yamlTooMuch(t *text, tokens token.Tokens, place func(*token.Token) int) bool {
	var n yamlNesting
	for _, tk := range tokens {
		n.next(tk)
		switch {
		case len(n.blocks)+len(n.flows) > maxYAMLDepth:
			t.errorAt(place(tk), "nested deeper than %d levels; the text is not checked", maxYAMLDepth)
			return true
		case n.paths > maxYAMLPaths:
			t.errorAt(place(tk), "the keys around this place are too long for so many values; the text is not checked")
			return true
		case n.empty*len(tokens) > maxYAMLMoves:
			t.warnAt(place(tk), "too many empty values to look for keys defined twice in good time")
			return true
		}
	}
	if n.keys > maxYAMLKeys {
		yamlTwice(t, tokens, place)
	}
	return n.keys > maxYAMLKeys
}

// yamlTwice looks for a key that is defined twice.
func yamlTwice(t *text, tokens token.Tokens, place func(*token.Token) int) {
	n := yamlNesting{names: true}
	for _, tk := range tokens {
		n.next(tk)
	}
	switch {
	case n.complex:
		t.warnAt(place(tokens[0]), "too many keys beside keys marked with ?; keys defined twice are not looked for")
	case n.twice != nil:
		t.errorAt(place(n.twice), "mapping key %q already defined at line %d", shorten(n.twice.Value), t.lineOf(place(n.first)))
	}
}

func (n *yamlNesting) next(tk *token.Token) {
	switch tk.Type {
	case token.SequenceStartType, token.MappingStartType:
		n.flows = append(n.flows, yamlFlow{path: n.path() + 2, mapping: tk.Type == token.MappingStartType})
	case token.SequenceEndType, token.MappingEndType:
		if len(n.flows) > 0 {
			n.flows = n.flows[:len(n.flows)-1]
		}
	case token.SequenceEntryType:
		n.openBlock(tk.Position.Column, len("[1000]"), true)
		n.countEmpty(tk, tk.Position.Column)
	case token.MappingKeyType:
		n.complex = true
		n.openBlock(tk.Position.Column, 1, false)
		n.countEmpty(tk, tk.Position.Column)
	case token.MappingValueType:
		if tk.Prev != nil {
			n.countEmpty(tk, tk.Prev.Position.Column)
		}
	default:
		if tk.Next != nil && tk.Next.Type == token.MappingValueType {
			n.openBlock(yamlKeyColumn(tk), len(tk.Value)+1, false)
			n.define(tk)
		}
	}
	n.paths += n.path()
}

// yamlKeyColumn is the column of a key with its anchor and tag.
func yamlKeyColumn(key *token.Token) int {
	column := key.Position.Column
	for p := key.Prev; p != nil && p.Position.Line == key.Position.Line; p = p.Prev {
		if p.Type == token.TagType || p.Type == token.AnchorType {
			column = p.Position.Column
		} else if p.Prev == nil || p.Prev.Type != token.AnchorType {
			break
		}
	}
	return column
}

// define notes a key of the innermost mapping. An alias is none that can be
// compared.
func (n *yamlNesting) define(key *token.Token) {
	if !n.names || key.Prev != nil && key.Prev.Type == token.AliasType {
		return
	}
	var keys *map[string]*token.Token
	if top := len(n.flows) - 1; top < 0 {
		keys = &n.blocks[len(n.blocks)-1].keys
	} else if keys = &n.flows[top].keys; !n.flows[top].mapping {
		return
	}
	if first := (*keys)[key.Value]; first != nil && n.twice == nil {
		n.first, n.twice = first, key
	}
	if *keys == nil {
		*keys = map[string]*token.Token{}
	}
	(*keys)[key.Value] = key
}

// countEmpty counts tk, which a value should follow, if what follows lies
// outside of the collection at the given column.
func (n *yamlNesting) countEmpty(tk *token.Token, column int) {
	if tk.Next == nil || tk.Next.Position.Line > tk.Position.Line && tk.Next.Position.Column <= column {
		n.empty++
	}
}

// openBlock enters an entry of a block collection at a column, which ends all
// those that start further right. A sequence may start at the column of the
// mapping around it.
func (n *yamlNesting) openBlock(column, name int, sequence bool) {
	if len(n.flows) > 0 {
		n.paths += name
		return
	}
	top := len(n.blocks) - 1
	for top >= 0 && (n.blocks[top].column > column || n.blocks[top].column == column && n.blocks[top].sequence && !sequence) {
		top--
	}
	n.blocks = n.blocks[:top+1]
	if top < 0 || n.blocks[top].column < column || n.blocks[top].sequence != sequence {
		n.blocks = append(n.blocks, yamlLevel{column: column, sequence: sequence, outer: n.path()})
		top++
	}
	level := &n.blocks[top]
	level.path = level.outer + name
	level.entries++
	if !sequence {
		n.keys = max(n.keys, level.entries)
	}
}

// path returns the length of the path to the innermost open collection.
func (n *yamlNesting) path() int {
	if len(n.flows) > 0 {
		return n.flows[len(n.flows)-1].path
	}
	if len(n.blocks) > 0 {
		return n.blocks[len(n.blocks)-1].path
	}
	return 1
}
