package frontmatter

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
)

// The scanner takes quadratic time for these three; none of them occurs in a
// front matter that was written for its content.
const (
	// maxBlankLines is how many blank lines may follow each other.
	maxBlankLines = 100
	// maxAngles is how many < may follow each other.
	maxAngles = 1000
	// maxTabWork bounds the length of a line times the tabs in it.
	maxTabWork = 1 << 18
)

// leadingQuote finds a line of a single-quoted text after whose first quotes
// the scanner drops blanks.
var leadingQuote = regexp.MustCompile(`\n[ \t]*('')+[ \t]`)

// checkText refuses characters that YAML does not allow unescaped, and texts
// that would keep the scanner busy.
func checkText(src string) error {
	blank, number := 0, 0
	for line := range strings.Lines(src) {
		number++
		angles, tabs, column := 0, 0, 0
		for _, r := range line {
			column++
			if r != '\n' && !printable(r) {
				return &SyntaxError{number, column, "control characters must be escaped in double quotes"}
			}
			if r == '\t' {
				tabs++
			}
			if r != '<' {
				angles = 0
			} else if angles++; angles > maxAngles {
				return &LimitError{number, column, fmt.Sprintf("more than %d < in a row", maxAngles)}
			}
		}
		if tabs > 1 && tabs*len(line) > maxTabWork {
			return &LimitError{number, 1, "the line is too long for its many tabs"}
		}
		if strings.TrimRight(line, " \t\n") != "" {
			blank = 0
		} else if blank++; blank > maxBlankLines {
			return &LimitError{number, 1, fmt.Sprintf("more than %d blank lines follow each other", maxBlankLines)}
		}
	}
	return nil
}

// printable reports whether YAML allows r unescaped. The line feed is left to
// the caller.
func printable(r rune) bool {
	return r == '\t' || r == 0x85 || !unicode.IsControl(r) && r&0xFFFE != 0xFFFE
}

// tokenChecker goes through the tokens before the parser does. It refuses what
// the scanner is known to misread and bounds what the parser will do.
type tokenChecker struct {
	lines      []string // of the source
	flow       int      // open brackets and braces
	blocks     []block  // the open block collections
	depth      int      // the largest depth so far
	keys       int
	longestKey int
	properties int
	quote      place // where the last double-quoted text ended

	runs []run        // the tokens seen so far
	last *token.Token // the last of them, which is in no run yet
}

// block is an open block collection: a mapping, a sequence, or a mapping and
// the sequence that is the value of one of its keys, at the same column.
type block struct {
	column  int
	members int          // keys
	first   *token.Token // the first key
	run     int          // where its tokens belong
}

// maxRun is how many keys of one block mapping the parser sees at a time.
var maxRun = 128

// run is a text for the parser: the document, or keys of a block mapping that
// follow the first maxRun. For each key the parser copies all that follow in
// the mapping, so it is given long mappings in pieces.
type run struct {
	first  *token.Token // the first key of the mapping, nil for the document
	tokens token.Tokens
}

// place is a place in a text: a line, a byte in it and a character in it, all
// counted from zero.
type place struct{ line, byte, char int }

// checkTokens returns the tokens of src in runs, the document first, or their
// first problem.
func checkTokens(src string, tokens token.Tokens) ([]run, error) {
	c := tokenChecker{lines: strings.SplitAfter(src, "\n"), runs: make([]run, 1)}
	for _, tk := range tokens {
		colon := tk.Type == token.MappingValueType
		if !colon {
			c.assign()
		}
		if err := c.check(tk); err != nil {
			return nil, err
		}
		if colon {
			c.assign() // now it is known which mapping the key belongs to
		}
		c.last = tk
	}
	c.assign()
	return c.runs, nil
}

// assign puts the last token into the run of the innermost collection.
func (c *tokenChecker) assign() {
	if c.last == nil {
		return
	}
	r := &c.runs[0]
	if n := len(c.blocks); n > 0 {
		r = &c.runs[c.blocks[n-1].run]
	}
	r.tokens = append(r.tokens, c.last)
}

func (c *tokenChecker) check(tk *token.Token) error {
	switch tk.Type {
	case token.InvalidType:
		return syntaxError(tk, "%s", tk.Error)
	case token.DocumentHeaderType, token.DocumentEndType:
		return syntaxError(tk, "document markers are not supported")
	case token.DirectiveType:
		return syntaxError(tk, "directives are not supported")
	case token.MappingKeyType:
		return syntaxError(tk, "keys marked with ? are not supported")
	case token.MergeKeyType:
		return syntaxError(tk, "merge keys are not supported")
	case token.TagType:
		if !coreTags[tk.Value] {
			return syntaxError(tk, "tag %s is not supported", shorten(tk.Value))
		}
		c.properties++
	case token.AnchorType:
		c.properties++
	case token.SequenceStartType, token.MappingStartType:
		c.flow++
	case token.SequenceEndType, token.MappingEndType:
		c.flow = max(c.flow-1, 0)
	case token.SequenceEntryType:
		if c.flow > 0 {
			return syntaxError(tk, "block sequence entries are not allowed in a flow collection")
		}
		c.open(tk.Position.Column)
	case token.MappingValueType:
		if err := c.colon(tk); err != nil {
			return err
		}
	case token.SingleQuoteType:
		if leadingQuote.MatchString(tk.Origin) {
			return syntaxError(tk, "a line of this text begins with two quotes and a blank: use double quotes")
		}
	case token.DoubleQuoteType:
		if err := c.quoted(tk); err != nil {
			return err
		}
	}
	return c.limits(tk)
}

// open notes a block collection that begins at the column, or goes on there.
func (c *tokenChecker) open(column int) *block {
	n := len(c.blocks)
	for n > 0 && c.blocks[n-1].column > column {
		n--
	}
	c.blocks = c.blocks[:n]
	switch {
	case n == 0:
		c.blocks = append(c.blocks, block{column: column})
	case c.blocks[n-1].column < column:
		c.blocks = append(c.blocks, block{column: column, run: c.blocks[n-1].run})
	}
	return &c.blocks[len(c.blocks)-1]
}

// member counts a key of a block mapping. The run of the mapping ends before a
// key that is one too many for it, if that key begins its line.
func (c *tokenChecker) member(key *token.Token) error {
	b := c.open(key.Position.Column)
	if b.members == 0 {
		b.first = key
	}
	if b.members++; b.members > MaxMembers {
		return tooLargeAt(key, "a mapping has more than %d keys", MaxMembers)
	}
	if b.members > maxRun && b.members%maxRun == 1 && key.Prev.Position.Line < key.Position.Line {
		b.run = len(c.runs)
		c.runs = append(c.runs, run{first: b.first})
	}
	return nil
}

// limits refuses what would cost the parser too much. A sequence may stand at
// the column of the key it belongs to, so this depth can be half of the real
// one; the converter counts exactly.
func (c *tokenChecker) limits(tk *token.Token) error {
	c.depth = max(c.depth, c.flow+len(c.blocks))
	if c.depth > MaxDepth {
		return tooLargeAt(tk, "nested deeper than %d", MaxDepth)
	}
	if c.properties > maxProperties {
		return tooLargeAt(tk, "more than %d tags and anchors", maxProperties)
	}
	if int64(2*c.depth+c.properties)*int64(c.longestKey)*int64(c.keys) > maxPaths {
		return tooLargeAt(tk, "too many long keys are nested")
	}
	return nil
}

// colon checks the colon after a key.
func (c *tokenChecker) colon(tk *token.Token) error {
	key := tk.Prev
	if key == nil {
		return nil // the parser refuses it
	}
	if p := key.Prev; p != nil && (p.Type == token.LiteralType || p.Type == token.FoldedType) {
		return syntaxError(tk, "a block scalar cannot be a key")
	}
	c.keys++
	c.longestKey = max(c.longestKey, len(key.Value))
	if c.flow == 0 {
		return c.member(key)
	}
	if key.Prev != nil && key.Prev.Type == token.MappingValueType {
		return syntaxError(tk, "mapping value is not allowed in this context")
	}
	// Within braces the scanner takes every colon for the end of a key: 10:30
	// becomes two scalars.
	next := tk.Next
	if next == nil || next.Position.Line != tk.Position.Line || next.Position.Column > tk.Position.Column+1 {
		return nil
	}
	switch {
	case key.Type == token.DoubleQuoteType, key.Type == token.SingleQuoteType:
	case next.Type == token.SequenceStartType, next.Type == token.MappingStartType,
		next.Type == token.SequenceEndType, next.Type == token.MappingEndType, next.Type == token.CollectEntryType:
	default:
		return syntaxError(tk, "a space must follow the colon here, or the text must be quoted")
	}
	return nil
}

// quoted checks the escapes of a double-quoted text, which the scanner takes
// as they come: \xZZ, half a surrogate pair and a raw tab do not stop it. The
// place of a token can be too far left, by one for each tag or tab before it,
// but never before the end of the last such text.
func (c *tokenChecker) quoted(tk *token.Token) error {
	at := place{line: max(tk.Position.Line-1, 0)}
	if at.line == c.quote.line {
		at = c.quote
	}
	if at.line < len(c.lines) {
		line := c.lines[at.line]
		for at.byte < len(line) && (at.char < tk.Position.Column-1 || line[at.byte] != '"') {
			_, size := utf8.DecodeRuneInString(line[at.byte:])
			at.byte, at.char = at.byte+size, at.char+1
		}
	}
	for at.byte++; at.line < len(c.lines); at = (place{line: at.line + 1}) {
		line := c.lines[at.line]
		if at.byte > len(line) {
			break
		}
		end, problem := checkEscapes(line[at.byte:])
		if problem != "" {
			return &SyntaxError{at.line + 1, utf8.RuneCountInString(line[:at.byte+end]) + 1, problem}
		}
		if end >= 0 {
			at.char += 1 + utf8.RuneCountInString(line[at.byte:at.byte+end])
			at.byte += end
			c.quote = at
			return nil
		}
	}
	return syntaxError(tk, "this double-quoted text was not understood")
}

// checkEscapes goes through one line of a double-quoted text. It returns the
// byte after the closing quote, -1 if there is none, or where a problem is.
func checkEscapes(line string) (end int, problem string) {
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '"':
			return i + 1, ""
		case '\t':
			return i, "a tab in double quotes must be written as \\t"
		case '\\':
			rest := line[i+1:]
			if rest == "" || rest[0] != 'x' && rest[0] != 'u' && rest[0] != 'U' {
				i++
				continue
			}
			n, ok := escapeLength(rest)
			if !ok {
				return i, "\\" + rest[:1] + " must be followed by the code of a character"
			}
			i += n
		}
	}
	return -1, ""
}

// escapeLength returns the length of the escape at the beginning of s, which
// stands after a backslash and begins with x, u or U.
func escapeLength(s string) (n int, ok bool) {
	n = 1 + map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[0]]
	r, ok := hexDigits([]byte(s[1:min(len(s), n)]), n-1)
	if !ok || r < 0 || r > unicode.MaxRune || 0xDC00 <= r && r <= 0xDFFF {
		return 0, false
	}
	if r < 0xD800 || r > 0xDFFF {
		return n, true
	}
	if s[0] != 'u' || !strings.HasPrefix(s[n:], `\u`) {
		return 0, false
	}
	low, ok := hexDigits([]byte(s[n+2:min(len(s), n+6)]), 4)
	return n + 6, ok && 0xDC00 <= low && low <= 0xDFFF
}
