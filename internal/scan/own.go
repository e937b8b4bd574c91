package scan

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"time"
	"unicode/utf8"
)

// customRule is a rule of the policy.
type customRule struct {
	rule     *rule
	re       *regexp.Regexp // searches from the start of a text
	next     *regexp.Regexp // the same after at least one character, as its only group
	literal  []byte         // every match begins with it
	keywords []string       // lower case
}

const (
	// ownReach is how far one search reads. A match of up to Window bytes is found
	// wherever it begins, and decided with what follows it in that distance.
	ownReach = 4 * Window
	// rereads is how often the searches that begin in Window bytes may read as
	// much as that: the work of a rule is linear in the text, whatever its
	// expression is.
	rereads = 16
	// lookEvery is the number of bytes between two looks at the context.
	lookEvery = 1 << 10
)

// newCustomRule compiles a rule of the policy.
func newCustomRule(c *CustomRule) (own customRule, err error) {
	own.rule = &rule{id: c.Name, family: c.Family, confidence: Likely, order: 1 << 20}
	tree, err := syntax.Parse(c.Regex, syntax.Perl)
	if err == nil {
		expr := withoutGroups(tree).String()
		if own.re, err = regexp.Compile(expr); err == nil {
			own.next, err = regexp.Compile(`\A(?s:.+?)(` + expr + `)`)
		}
	}
	if err != nil {
		return own, fmt.Errorf("pattern %s: %w", c.Name, err)
	}
	literal, _ := own.re.LiteralPrefix()
	own.literal = []byte(literal)
	for _, k := range c.Keywords {
		own.keywords = append(own.keywords, strings.ToLower(k))
	}
	return own, nil
}

// withoutGroups makes the groups of an expression ones that capture nothing:
// each that captures slows every step of a search down.
func withoutGroups(re *syntax.Regexp) *syntax.Regexp {
	for re.Op == syntax.OpCapture {
		re = re.Sub[0]
	}
	for i, sub := range re.Sub {
		re.Sub[i] = withoutGroups(sub)
	}
	return re
}

// mayMatch reports whether the text holds a keyword of the rule, in any ASCII
// case.
func (c *customRule) mayMatch(t *text) bool {
	for _, k := range c.keywords {
		if t.canceled() {
			return false
		}
		t.runs.work += len(t.b)
		if containsFold(t.b, k) {
			return true
		}
	}
	return len(c.keywords) == 0
}

// scan finds the matches that follow each other. Where the searches that begin
// in one window read too much, the rest of that window counts as a match; where
// they read too much in all, the rest of the text does.
func (c *customRule) scan(t *text) {
	if t.canceled() || !c.mayMatch(t) {
		return
	}
	r := runeReader{text: t, rule: c.rule, allowance: allowanceOf(t.ctx), looked: time.Now()}
	keep := func(start, end int) {
		t.keep(raw{rule: c.rule, start: start, end: end, secret: t.b[start:end], confidence: c.rule.confidence})
	}
	for pos, window := 0, 0; pos < len(t.b); {
		skip := bytes.Index(t.b[pos:], c.literal)
		if skip < 0 {
			break
		}
		if pos += skip; pos >= window {
			window = pos - pos%Window + Window
			r.left = rereads * Window
		}
		r.limit = min(len(t.b), pos+ownReach)
		start, end, ok := c.search(&r, pos)
		switch settled := r.limit - Window; {
		case r.stopped: // window by window: a block of a stream reports those that begin in it
			for pos < len(t.b) {
				end = min(pos-pos%Window+Window, len(t.b))
				keep(pos, end)
				pos = end
			}
		case r.left <= 0:
			end = min(window, len(t.b))
			keep(pos, end)
			pos = end
		case r.limit < len(t.b) && !ok:
			pos = runeStart(t.b, settled)
		case !ok:
			pos = len(t.b)
		case r.limit < len(t.b) && start > settled:
			pos = start // it may end after what was read
		case end > start:
			keep(start, end)
			pos = end
		default: // an empty match
			_, size := utf8.DecodeRune(t.b[end:])
			pos = end + max(size, 1)
		}
	}
	t.runs.work += r.read
}

// search finds the first match that begins at pos or after it. What precedes
// pos is context, as it is for [regexp.Regexp.FindAllIndex].
func (c *customRule) search(r *runeReader, pos int) (start, end int, ok bool) {
	if pos == 0 {
		r.pos = 0
		if m := c.re.FindReaderIndex(r); m != nil {
			return m[0], m[1], true
		}
		return 0, 0, false
	}
	_, size := utf8.DecodeLastRune(r.b[:pos])
	from := pos - size
	r.pos = from
	if m := c.next.FindReaderSubmatchIndex(r); m != nil {
		return from + m[2], from + m[3], true
	}
	return 0, 0, false
}

// runeStart is the start of the character that the byte at pos belongs to.
func runeStart(b []byte, pos int) int {
	for n := 0; n < utf8.UTFMax-1 && !utf8.RuneStart(b[pos-n]); n++ {
		if utf8.RuneStart(b[pos-n-1]) {
			return pos - n - 1
		}
	}
	return pos
}

// runeReader gives an expression the text up to limit, counts what it reads,
// and ends the text when left is used up or the context is done.
type runeReader struct {
	*text
	pos, limit int
	left       int // bytes that may still be read
	read       int // in all
	stopped    bool
	rule       *rule
	allowance  *allowance
	looked     time.Time // last
}

func (r *runeReader) ReadRune() (c rune, size int, err error) {
	if r.pos >= r.limit || r.left <= 0 || r.stopped {
		return 0, 0, io.EOF
	}
	c, size = rune(r.b[r.pos]), 1
	if c >= utf8.RuneSelf {
		c, size = utf8.DecodeRune(r.b[r.pos:r.limit])
	}
	r.pos += size
	r.left -= size
	if r.read/lookEvery != (r.read+size)/lookEvery {
		r.stopped = !r.allowance.spend(r.rule, r.looked) || r.canceled()
		r.looked = time.Now()
	}
	r.read += size
	return c, size, nil
}
