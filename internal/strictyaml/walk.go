package strictyaml

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/token"

	"github.com/resilientwrite/resilientwrite/internal/visible"
)

// walk examines the tokens before the parser does. It refuses what the profile excludes
// and what the library misreads, bounds the work of the parser, and splits long
// mappings into runs.
type walk struct {
	r        *reader
	blocks   []level // block mappings and lists that are open
	flows    []flow  // brackets that are open
	opened   int     // the line of the first of them
	content  bool    // a token of the document itself was seen
	headers  int
	ended    bool // a document end was seen
	aside    int  // the line of the last directive
	last     *token.Token
	plainKey bool // the last colon follows a text without quotes
	stop     bool // the rest need not be examined
	anchors  map[string]bool

	paths, empty, marked int // see maxPaths, maxMoves, maxMarked
	properties, row      int // tags and anchors, and those in a row

	split bool // no key is marked with ?: long mappings go to the parser in pieces
	runs  []run
}

// level is a block mapping or list.
type level struct {
	column  int
	list    bool
	members int
	first   *token.Token // the first key
	run     int          // where its tokens belong
	outer   int          // the length of the path to it
	path    int          // the length of the path to its last entry
}

// flow is a bracket or a brace that is open.
type flow struct {
	path   int  // the length of the path to it
	braces bool // a mapping
	value  bool // the current entry has a colon
}

// run is a text for the parser: the document, or keys of a block mapping that
// follow the first maxRun. For each key the parser copies all that follow in
// the mapping, so it is given long mappings in pieces.
type run struct {
	first  *token.Token // the first key of the mapping, nil for the document
	tokens token.Tokens
}

// maxRun is how many keys of one block mapping the parser sees at a time.
var maxRun = 128

// leadingQuote matches a line of a single-quoted text where the scanner drops blanks
// after the leading quotes.
var leadingQuote = regexp.MustCompile(`\n[ \t]*('')+[ \t]`)

// all examines the tokens.
func (w *walk) all(tokens token.Tokens) {
	for _, t := range tokens {
		if t.Type == token.MappingKeyType {
			w.split = false
		}
	}
	var pending *token.Token // in no run yet
	assign := func() {
		if pending == nil {
			return
		}
		r := &w.runs[0]
		if n := len(w.blocks); n > 0 {
			r = &w.runs[w.blocks[n-1].run]
		}
		r.tokens = append(r.tokens, pending)
		pending = nil
	}
	for i, t := range tokens {
		if p := w.r.profile; p.MaxTokens > 0 && i == p.MaxTokens {
			w.tooLarge(t, TooLarge, "more than %d tokens", p.MaxTokens)
		}
		if w.stop {
			return
		}
		if t.Type != token.MappingValueType {
			assign()
		}
		if t.Type == token.InvalidType {
			w.r.wrong(t, t.Error)
			return // what follows is not reliable
		}
		if t.Type != token.CommentType {
			w.token(t)
			w.last = t
		}
		assign() // of a colon: the mapping of the key is now known
		pending = t
	}
	assign()
	if w.empty*len(tokens) > maxMoves && !w.stop {
		w.tooLarge(w.last, Unread, "too many empty values to read them in good time")
	}
}

// tooLarge reports an exceeded limit and ends the walk.
func (w *walk) tooLarge(t *token.Token, kind Kind, format string, args ...any) {
	if !w.stop {
		w.r.add(w.r.at(t), kind, fmt.Sprintf(format, args...), "")
	}
	w.stop = true
}

// refusals lists the features that a profile without references excludes. Only the
// profile Any allows those without a hint.
var refusals = map[token.Type][2]string{
	token.AnchorType:     {"anchors are not allowed", "put a text that begins with & in quotes"},
	token.AliasType:      {"aliases are not allowed", `put a text that begins with * in quotes, such as "**/*.md"`},
	token.TagType:        {"tags are not allowed", "put a text that begins with ! in quotes"},
	token.MergeKeyType:   {"merge keys are not allowed", ""},
	token.MappingKeyType: {"keys that begin with ? are not allowed", "write key: value"},
	token.DirectiveType:  {"directives are not allowed", "leave out the line, or put a text that begins with % in quotes"},
}

// coreTags are the tags of the core schema.
var coreTags = map[string]bool{
	"!!str": true, "!!int": true, "!!float": true, "!!bool": true, "!!null": true, "!!seq": true, "!!map": true,
}

// token examines one token that is not a comment.
func (w *walk) token(t *token.Token) {
	if !w.r.profile.Any {
		w.exclude(t)
	}
	w.shape(t)
	switch t.Type {
	case token.SequenceStartType, token.MappingStartType:
		if len(w.flows) == 0 {
			w.opened = w.r.at(t).line
		}
		w.flows = append(w.flows, flow{path: w.path() + 2, braces: t.Type == token.MappingStartType})
	case token.CollectEntryType:
		w.entryEnds()
	case token.SequenceEndType, token.MappingEndType:
		w.entryEnds()
		if len(w.flows) == 0 {
			w.r.refuse(t, fmt.Sprintf("%q closes nothing", t.Value), "")
		} else {
			w.flows = w.flows[:len(w.flows)-1]
		}
	case token.SequenceEntryType:
		if len(w.flows) > 0 {
			w.r.refuse(t, "not valid YAML: a dash within brackets", "put a text that begins with - in quotes")
		} else {
			w.enter(true, t, t, len("[1000]"))
			w.countEmpty(t, t.Position.Column)
		}
	case token.MappingKeyType:
		w.enter(false, t, t, 1)
		w.countEmpty(t, t.Position.Column)
		if w.marked++; w.marked > maxMarked {
			w.tooLarge(t, Unread, "too many keys marked with ? to read them in good time")
		}
	case token.MappingValueType:
		if n := len(w.flows); n > 0 {
			w.flows[n-1].value = true
		}
		if w.last != nil {
			w.key(w.last, t)
			w.countEmpty(t, w.last.Position.Column)
		}
	}
	w.limits(t)
}

// limits refuses what would cost the parser too much.
func (w *walk) limits(t *token.Token) {
	p := w.r.profile
	if w.row++; t.Type == token.AnchorType || t.Type == token.TagType {
		w.properties++
	} else if w.last == nil || w.last.Type != token.AnchorType {
		w.row = 0
	}
	w.paths += w.path()
	switch {
	case p.MaxDepth > 0 && len(w.blocks)+len(w.flows) > p.MaxDepth:
		w.tooLarge(t, TooDeep, "nested deeper than %d levels", p.MaxDepth)
	case w.row > maxProperties || !p.Any && w.properties > maxProperties:
		w.tooLarge(t, TooLarge, "more than %d tags and anchors", maxProperties)
	case w.paths > maxPaths:
		w.tooLarge(t, TooLarge, "the keys around this place are too long for so many values")
	}
}

// exclude refuses a second document and the features that the profile excludes.
func (w *walk) exclude(t *token.Token) {
	refused, special := refusals[t.Type]
	refs := w.r.profile.References
	switch {
	case !special:
	case refs && (t.Type == token.AnchorType || t.Type == token.AliasType || coreTags[t.Value]):
	case refs && t.Type == token.TagType:
		w.r.refuse(t, "the tag "+visible.Cut(t.Value, 60)+" is not supported", "")
	case t.Type == token.AliasType && w.last != nil && w.last.Type == token.AliasType && w.r.at(w.last).line == w.r.at(t).line:
	default:
		w.r.refuse(t, refused[0], refused[1])
	}
	header := t.Type == token.DocumentHeaderType
	if header {
		w.headers++
	}
	if w.ended || header && (w.content || w.headers > 1) {
		w.r.refuse(t, "the file holds more than one YAML document", "leave out the text from here on")
		w.stop = true
	}
	w.ended = w.ended || t.Type == token.DocumentEndType
	if t.Type == token.DirectiveType {
		w.aside = t.Position.Line
	}
	w.content = w.content || !header && w.aside != t.Position.Line
	w.exact(t)
}

// exact refuses text that the scanner reads differently from YAML: a tab inside a text,
// which it drops; blanks after leading quotes; and a plain key in brackets without a
// space after its colon, which is not a key.
func (w *walk) exact(t *token.Token) {
	p := w.last
	if strings.Contains(strings.Trim(t.Origin, space), "\t") && !(w.r.profile.References && blockText(p)) {
		w.r.refuse(t, "a text must not hold a tab", `write \t in a regular expression or in double quotes, else a space`)
	}
	if t.Type == token.SingleQuoteType && leadingQuote.MatchString(t.Origin) {
		w.r.refuse(t, "a line of this text begins with two quotes and a blank: use double quotes", "")
	}
	if t.Type == token.StringType && t.Value == "?" && !blockText(p) {
		w.r.refuse(t, badPlain, "put it in quotes")
	}
	if len(w.flows) > 0 && p != nil && p.Type == token.MappingValueType && w.plainKey {
		at, colon := w.r.at(t), w.r.at(p)
		end := t.Type == token.MappingEndType || t.Type == token.SequenceEndType || t.Type == token.CollectEntryType
		if !end && at.line == colon.line && at.column == colon.column+1 {
			w.r.refuse(p, "a space is missing after the colon", "write key: value")
		}
	}
	if t.Type == token.MappingValueType {
		w.plainKey = p != nil && p.Type != token.SingleQuoteType && p.Type != token.DoubleQuoteType
	}
}

const badPlain = "a text without quotes must not be a ?, begin with a comma, or hold such a bracket"

// shape refuses invalid YAML that the library accepts.
func (w *walk) shape(t *token.Token) {
	p := w.last
	if t.Type == token.StringType && t.Value != "" && !blockText(p) &&
		(strings.Contains(",[]{}", t.Value[:1]) || len(w.flows) > 0 && strings.ContainsAny(t.Value, "[]{}")) {
		w.r.refuse(t, badPlain, "put it in quotes")
	}
	if t.Type == token.StringType && len(w.flows) == 0 && !blockText(p) && strings.Contains(t.Value, ": ") && w.r.places[t].end > w.r.places[t].begin.line {
		w.folded(t)
	}
	if t.Type == token.DocumentHeaderType {
		clear(w.anchors)
	}
	if p == nil {
		return
	}
	if !w.r.profile.References && !w.r.profile.Any || p.Type != token.AnchorType && p.Type != token.AliasType {
		return
	}
	at, name := w.r.at(p), w.r.at(t)
	switch {
	case at.line != name.line || at.column+1 != name.column:
		w.r.refuse(p, fmt.Sprintf("a name is missing after %q", p.Value), "")
	case p.Type == token.AnchorType:
		w.anchors[t.Value] = true
	case !w.anchors[t.Value]:
		// Between brackets the scanner takes a:*b for a key and an alias.
		if !w.r.profile.Any || len(w.flows) == 0 {
			w.r.refuse(p, "there is no anchor &"+visible.Cut(t.Value, 60)+" before this alias", "")
		}
	}
}

// folded refuses a key within plain text over more than one line.
func (w *walk) folded(t *token.Token) {
	s := w.r.places[t]
	c := cursor{text: w.r.text[s.offset:], at: s.begin}
	for c.at.line <= s.end {
		line, _, _ := strings.Cut(c.text, "\n")
		if n := strings.Index(line, ": "); n >= 0 {
			c.advance(n)
			w.r.add(c.at, Syntax, noKey, keyHint)
			return
		}
		if len(line) == len(c.text) {
			return
		}
		c.advance(len(line) + 1)
	}
}

const (
	noKey   = "not valid YAML: a ':' where there is no key for it"
	keyHint = "a key is on one line; put text that holds \": \" in quotes"
)

// blockText reports whether a token is the head of a block of text.
func blockText(t *token.Token) bool {
	return t != nil && (t.Type == token.LiteralType || t.Type == token.FoldedType)
}

// key examines the token before a colon.
func (w *walk) key(key, colon *token.Token) {
	if blockText(key.Prev) && w.split {
		w.r.refuse(colon, "a block of text cannot be a key", "")
		return
	}
	if len(w.flows) > 0 {
		if key.Type == token.MappingValueType && !w.r.profile.Any {
			w.r.refuse(colon, "not valid YAML: mapping value is not allowed in this context", "")
		}
		w.paths += len(key.Value) + 1
		return
	}
	s, known := w.r.places[key]
	begin := s.begin.line
	if key.Type == token.SequenceEndType || key.Type == token.MappingEndType {
		begin = w.opened
	}
	if known && s.end > begin && s.end == w.r.at(colon).line {
		w.r.refuse(colon, noKey, keyHint)
		return
	}
	first := key // with its anchor and tag
	for q := key.Prev; q != nil && q.Position.Line == key.Position.Line; q = q.Prev {
		if q.Type == token.TagType || q.Type == token.AnchorType || q.Type == token.AliasType {
			first = q
		} else if q.Prev == nil || q.Prev.Type != token.AnchorType {
			break
		}
	}
	w.enter(false, first, key, len(key.Value)+1)
}

// countEmpty counts a token that a value should follow, if the next token is outside of
// the collection at the column.
func (w *walk) countEmpty(t *token.Token, column int) {
	if t.Next == nil || t.Next.Position.Line > t.Position.Line && t.Next.Position.Column <= column {
		w.empty++
	}
}

// entryEnds counts an entry between braces that ends without a value.
func (w *walk) entryEnds() {
	n := len(w.flows)
	if n == 0 || w.last == nil {
		return
	}
	switch f := &w.flows[n-1]; w.last.Type {
	case token.MappingStartType, token.CollectEntryType: // nothing precedes it
	case token.MappingValueType:
		w.empty++
	default:
		if f.braces && !f.value {
			w.empty++
		}
	}
	w.flows[n-1].value = false
}

// enter opens a block mapping or list at the column of a token, or continues the one
// that is open there. The run of a mapping ends before the key that exceeds its limit,
// if that key begins its line.
func (w *walk) enter(list bool, t, key *token.Token, name int) {
	s := w.r.places[t]
	from := s.offset - s.begin.column + 1
	firstOfLine := from == 0 || from > 0 && w.r.text[from-1] == '\n' && strings.Trim(w.r.text[from:s.offset], " \t") == ""
	if firstOfLine && strings.Contains(w.r.text[from:s.offset], "\t") {
		w.r.refuse(t, "not valid YAML: a tab in the indentation of this line", "indent with spaces")
	}
	column, n := s.begin.column, len(w.blocks)
	for n > 0 && w.blocks[n-1].column > column {
		n--
	}
	if !list && n > 0 && w.blocks[n-1].column == column && w.blocks[n-1].list {
		n-- // a list may be in the column of the key that holds it
	}
	w.blocks = w.blocks[:n]
	if n == 0 || w.blocks[n-1].column != column || w.blocks[n-1].list != list {
		next := level{column: column, list: list, first: key, outer: w.path()}
		if n > 0 {
			next.run = w.blocks[n-1].run
		}
		w.blocks = append(w.blocks, next)
	}
	b := &w.blocks[len(w.blocks)-1]
	b.path = b.outer + name
	if b.members++; list {
		return
	}
	if most := w.r.profile.MaxMembers; most > 0 && b.members > most {
		w.tooLarge(key, TooLarge, "a mapping has more than %d keys", most)
	}
	if !w.split && b.members > maxMarked {
		w.tooLarge(key, Unread, "too many keys beside keys marked with ? to read them in good time")
	}
	if w.split && b.members > maxRun && b.members%maxRun == 1 && t == key && firstOfLine {
		b.run = len(w.runs)
		w.runs = append(w.runs, run{first: b.first})
	}
}

// path returns the length of the path to the innermost open collection.
func (w *walk) path() int {
	if n := len(w.flows); n > 0 {
		return w.flows[n-1].path
	}
	if n := len(w.blocks); n > 0 {
		return w.blocks[n-1].path
	}
	return 1
}
