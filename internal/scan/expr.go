package scan

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

// An expr is a compiled rule expression. The notation is that of package
// regexp, narrowed to what can be matched in one walk without going back:
// literals, byte classes with bounds, groups and alternatives. A repeated
// class takes as much as it may; an alternative is the first that fits.
type expr struct {
	seq  []elem
	lead int // bytes or, when leadClass >= 0, at most so many bytes before the keyword
	min  int // of the bytes before the keyword
	// leadClass is the class of the bytes before the keyword when their number
	// varies, -1 when it is fixed.
	leadClass int
	literal   string  // the first literal
	lowered   string  // in lower case
	ambiguous bool    // its beginning does not follow from the place of the literal
	least     int     // bytes of the shortest text that fits
	most      int     // of the longest
	first     byteSet // with which one can begin
}

type elem struct {
	lit      string
	fold     bool
	class    int // of a run; -1 for a literal or alternatives
	min, max int
	alts     [][]elem
	value    bool // the secret itself; without one, everything is
}

// classes are the distinct byte classes of all expressions: one bit for each
// in a table of words, so that testing a byte is one load.
type classes struct {
	bits [maxClasses / 64][256]uint64
	sets []byteSet // the same by class
}

// byteSet has a bit for each byte.
type byteSet [4]uint64

func (s *byteSet) add(b byte)      { s[b>>6] |= 1 << (b & 63) }
func (s *byteSet) has(b byte) bool { return s[b>>6]>>(b&63)&1 == 1 }

// within reports whether all bytes of s are in o.
func (s *byteSet) within(o *byteSet) bool {
	return s[0]&^o[0]|s[1]&^o[1]|s[2]&^o[2]|s[3]&^o[3] == 0
}

// setOf returns the bytes that are in a set.
func setOf(in func(byte) bool) (s byteSet) {
	for b := range 256 {
		if in(byte(b)) {
			s.add(byte(b))
		}
	}
	return s
}

const maxClasses = 128

// has reports whether a byte belongs to a class.
func (c *classes) has(class int, b byte) bool {
	return c.bits[class>>6&(maxClasses/64-1)][b]>>(class&63)&1 == 1
}

// add returns the number of the class that holds exactly the given bytes. It panics
// if there are more than maxClasses.
func (c *classes) add(in byteSet) int {
	n := slices.Index(c.sets, in)
	if n >= 0 {
		return n
	}
	n = len(c.sets)
	for b := range 256 {
		if in.has(byte(b)) {
			c.bits[n>>6][b] |= 1 << (n & 63)
		}
	}
	c.sets = append(c.sets, in)
	return n
}

// unbounded is the length at which an unbounded run is cut.
const unbounded = 16 << 10

// compile translates the expression of a built-in rule. It panics if that says more
// than the notation can.
func (c *classes) compile(src string) *expr {
	tree, err := syntax.Parse(src, syntax.Perl)
	if err != nil {
		panic(err)
	}
	x := &expr{leadClass: -1, seq: c.sequence(tree, false)}
	x.least, x.most = bounds(x.seq)
	c.begin(x.seq, &x.first)
	for i, e := range x.seq {
		if e.class < 0 {
			x.literal, x.lowered = e.lit, strings.ToLower(e.lit)
			break
		}
		if e.min != e.max {
			x.ambiguous = x.ambiguous || i > 0
			x.leadClass = e.class
		}
		x.lead += e.max
		x.min += e.min
	}
	return x
}

// bounds are the lengths of the shortest and the longest text of a sequence.
func bounds(seq []elem) (least, most int) {
	for _, e := range seq {
		switch {
		case e.class >= 0:
			least, most = least+e.min, most+e.max
		case e.alts == nil:
			least, most = least+len(e.lit), most+len(e.lit)
		default:
			low, high := unbounded, 0
			for _, alt := range e.alts {
				l, h := bounds(alt)
				low, high = min(low, l), max(high, h)
			}
			least, most = least+low, most+high
		}
	}
	return least, most
}

// begin marks the bytes with which a sequence can begin and reports whether it
// can be empty.
func (c *classes) begin(seq []elem, first *byteSet) bool {
	for _, e := range seq {
		empty := false
		switch {
		case e.class >= 0:
			for i, bits := range c.sets[e.class] {
				first[i] |= bits
			}
			empty = e.min == 0
		case e.alts == nil:
			first.add(e.lit[0])
			if e.fold {
				first.add(lower(e.lit[0]))
			}
		default:
			for _, alt := range e.alts {
				empty = c.begin(alt, first) || empty
			}
		}
		if !empty {
			return false
		}
	}
	return true
}

// only reports whether a sequence matches nothing but bytes of two sets: those of
// literals, and those of classes.
func (c *classes) only(seq []elem, literals, runs *byteSet) bool {
	for i := range seq {
		e := &seq[i]
		if e.class >= 0 && !c.sets[e.class].within(runs) {
			return false
		}
		for _, b := range []byte(e.lit) {
			if !literals.has(b) {
				return false
			}
		}
		for _, alt := range e.alts {
			if !c.only(alt, literals, runs) {
				return false
			}
		}
	}
	return true
}

func (c *classes) sequence(t *syntax.Regexp, value bool) (all []elem) {
	switch t.Op {
	case syntax.OpConcat:
		for _, sub := range t.Sub {
			all = append(all, c.sequence(sub, value)...)
		}
		return all
	case syntax.OpCapture:
		return c.sequence(t.Sub[0], true)
	case syntax.OpLiteral:
		return []elem{{lit: string(t.Rune), fold: t.Flags&syntax.FoldCase != 0, class: -1, value: value}}
	case syntax.OpEmptyMatch:
		return nil
	case syntax.OpAlternate:
		e := elem{class: -1, value: value}
		for _, sub := range t.Sub {
			e.alts = append(e.alts, c.sequence(sub, value))
		}
		return []elem{e}
	case syntax.OpCharClass:
		return c.repeat(t, 1, 1, value)
	case syntax.OpRepeat:
		return c.repeat(t.Sub[0], t.Min, t.Max, value)
	case syntax.OpStar:
		return c.repeat(t.Sub[0], 0, -1, value)
	case syntax.OpPlus:
		return c.repeat(t.Sub[0], 1, -1, value)
	case syntax.OpQuest:
		if t.Sub[0].Op == syntax.OpCharClass {
			return c.repeat(t.Sub[0], 0, 1, value)
		}
		return []elem{{class: -1, value: value, alts: [][]elem{c.sequence(t.Sub[0], value), {}}}}
	}
	panic(fmt.Sprintf("scan: %v is more than a rule expression can say", t))
}

func (c *classes) repeat(t *syntax.Regexp, least, most int, value bool) []elem {
	var in byteSet
	switch {
	case t.Op == syntax.OpCharClass:
		for i := 0; i < len(t.Rune); i += 2 {
			for r := t.Rune[i]; r <= t.Rune[i+1] && r < unicode.MaxASCII+1; r++ {
				in.add(byte(r))
			}
		}
	case t.Op == syntax.OpLiteral && len(t.Rune) == 1:
		in.add(byte(t.Rune[0]))
	default:
		panic(fmt.Sprintf("scan: %v is no byte class and is repeated", t))
	}
	if most < 0 {
		most = unbounded
	}
	return []elem{{class: c.add(in), min: least, max: most, value: value}}
}

// firstClass is the class of the first run.
func (x *expr) firstClass() int {
	for _, e := range x.seq {
		if e.class >= 0 {
			return e.class
		}
	}
	return 0
}

// span is where an expression matched: the whole, and the secret in it.
type span struct{ start, end, from, to int }

// match walks the expression over the text from pos. A run that could go on
// after its upper bound at the very end is no match: the bounds of a format
// are part of it.
func (x *expr) match(t *text, pos int) (span, bool) {
	s, last, ok := x.walk(t, pos)
	if !ok || last >= 0 && s.end < len(t.b) && t.classes.has(last, t.b[s.end]) && !t.mark(s.end) {
		return span{}, false
	}
	return s, true
}

// mark reports whether two dashes or underscores begin at pos: the end of a
// comment, or of text in bold letters.
func (t *text) mark(pos int) bool {
	return pos+1 < len(t.b) && (t.b[pos] == '-' || t.b[pos] == '_') && t.b[pos+1] == t.b[pos]
}

// prefix walks the expression over the text from pos, whatever follows.
func (x *expr) prefix(t *text, pos int) (span, bool) {
	s, _, ok := x.walk(t, pos)
	return s, ok
}

func (x *expr) walk(t *text, pos int) (s span, last int, ok bool) {
	t.runs.work++
	w := walk{t: t, from: -1, last: -1}
	t.stuck = pos
	end, ok := w.seq(x.seq, pos)
	if !ok {
		return span{}, 0, false
	}
	s = span{start: pos, end: end, from: w.from, to: w.to}
	if s.from < 0 {
		s.from, s.to = pos, end
	}
	return s, w.last, true
}

// walk is one match in progress.
type walk struct {
	t        *text
	from, to int // of the value
	last     int // class of the run that ended last, -1 after a literal
}

func (w *walk) seq(seq []elem, pos int) (int, bool) {
	for i := range seq {
		next, ok := w.one(&seq[i], pos)
		if !ok {
			return 0, false
		}
		if seq[i].value {
			if w.from < 0 {
				w.from = pos
			}
			w.to = next
		}
		pos = next
	}
	return pos, true
}

func (w *walk) one(e *elem, pos int) (int, bool) {
	switch {
	case e.class >= 0:
		n := w.t.run(e.class, pos, e.max)
		if n < e.min {
			w.t.stuck = max(w.t.stuck, pos+n)
			return 0, false
		}
		if n > 0 {
			w.last = e.class
		}
		return pos + n, true
	case e.alts != nil:
		saved := *w
		for _, alt := range e.alts {
			if end, ok := w.seq(alt, pos); ok {
				return end, true
			}
			*w = saved
		}
		return 0, false
	}
	if !hasPrefixAt(w.t.b, pos, e.lit, e.fold) {
		for n := 0; n < len(e.lit) && pos+n < len(w.t.b) && lower(w.t.b[pos+n]) == lower(e.lit[n]); n++ {
			w.t.stuck = max(w.t.stuck, pos+n+1)
		}
		w.t.stuck = max(w.t.stuck, pos)
		return 0, false
	}
	w.last = -1
	return pos + len(e.lit), true
}

// hasPrefixAt reports whether lit is at pos; with fold, lit is compared
// without regard to ASCII case.
func hasPrefixAt(b []byte, pos int, lit string, fold bool) bool {
	if pos < 0 || len(b)-pos < len(lit) {
		return false
	}
	if !fold {
		return string(b[pos:pos+len(lit)]) == lit
	}
	for i := range len(lit) {
		if lower(b[pos+i]) != lower(lit[i]) {
			return false
		}
	}
	return true
}

// lower is a byte without its ASCII case.
func lower(c byte) byte { return lowers[c] }

var lowers = func() (t [256]byte) {
	for i := range t {
		if t[i] = byte(i); 'A' <= i && i <= 'Z' {
			t[i] |= 0x20
		}
	}
	return t
}()
