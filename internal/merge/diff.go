package merge

import (
	"bytes"
	"errors"
	"slices"
)

// ErrTooMuchWork ends a comparison that would take too long: the texts are
// large and almost everything in them differs.
var ErrTooMuchWork = errors.New("the texts differ too much to compare them")

// Steps that a comparison may take, and those for each line of both texts. Git
// has no such limit. Its time grows faster than the texts do.
const (
	freeSteps    = 1 << 20
	stepsPerLine = 256
)

// Lines cuts a text after each newline. The last line may have none.
func Lines(text []byte) [][]byte {
	return slices.AppendSeq(make([][]byte, 0, bytes.Count(text, []byte{'\n'})+1), bytes.Lines(text))
}

// Hunk is lines of one text and what another one has in their place.
type Hunk struct {
	From, To       int // lines of the first text, from 0; To is excluded
	NewFrom, NewTo int
}

// Hunks lists how the second text differs from the first, in order. Between two
// hunks there is at least one line that both have.
func Hunks(old, now []byte) ([]Hunk, error) {
	table := map[string]int{}
	a, b := newSide(table, Lines(old)), newSide(table, Lines(now))
	list, _, err := compare(a, b, len(table))
	return list, err
}

// side is one text of a comparison: a number for each line, equal for equal
// lines, and which lines are not in the other one. The marks have a free place
// on both ends.
type side struct {
	lines []int
	marks []bool
}

func newSide(table map[string]int, lines [][]byte) *side {
	s := &side{lines: make([]int, len(lines))}
	for i, l := range lines {
		n, ok := table[string(l)]
		if !ok {
			n = len(table)
			table[string(l)] = n
		}
		s.lines[i] = n
	}
	return s
}

func (s *side) changed(i int) bool   { return s.marks[i+1] }
func (s *side) mark(i int, now bool) { s.marks[i+1] = now }

// compare finds the hunks by the rules of git's default algorithm, so that
// merges agree with those of git where several comparisons are possible: lines
// that cannot have a counterpart are set aside, Myers' algorithm compares the
// rest, and the hunks are moved to where they join or end last.
func compare(a, b *side, kinds int) (list []Hunk, steps int, err error) {
	limit := freeSteps + stepsPerLine*(len(a.lines)+len(b.lines))
	c := &comparison{steps: limit}
	a.marks, b.marks = make([]bool, len(a.lines)+2), make([]bool, len(b.lines)+2)
	start := 0
	for start < len(a.lines) && start < len(b.lines) && a.lines[start] == b.lines[start] {
		start++
	}
	endA, endB := len(a.lines), len(b.lines)
	for endA > start && endB > start && a.lines[endA-1] == b.lines[endB-1] {
		endA, endB = endA-1, endB-1
	}
	inA, inB := count(a.lines, kinds), count(b.lines, kinds)
	c.a, c.b = pick(a, start, endA, inB), pick(b, start, endB, inA)
	if err = c.run(); err == nil {
		err = c.compact(a, b)
	}
	if err == nil {
		err = c.compact(b, a)
	}
	if err != nil {
		return nil, limit - c.steps, err
	}
	return hunks(a, b), limit - c.steps, nil
}

func count(lines []int, kinds int) []int {
	n := make([]int, kinds)
	for _, l := range lines {
		n[l]++
	}
	return n
}

// hunks reads the marks.
func hunks(a, b *side) (list []Hunk) {
	for i, j := 0, 0; i < len(a.lines) || j < len(b.lines); i, j = i+1, j+1 {
		h := Hunk{From: i, NewFrom: j}
		for i < len(a.lines) && a.changed(i) {
			i++
		}
		for j < len(b.lines) && b.changed(j) {
			j++
		}
		if h.To, h.NewTo = i, j; i > h.From || j > h.NewFrom {
			list = append(list, h)
		}
	}
	return list
}

// picked are the lines of a side that are compared, and where they are.
type picked struct {
	side  *side
	lines []int
	at    []int
}

const (
	maxFrequent = 1024 // a line that is in the other text so often may be set aside
	window      = 100  // lines around it that are examined
	lonely      = 4    // how many of them must be set aside for sure, for one that may be
)

// roundedRoot is a power of two near the square root.
func roundedRoot(n int) int {
	r := 1
	for ; n > 0; n >>= 2 {
		r *= 2
	}
	return r
}

// pick sets aside the lines that the other text does not have, and most of
// those that it has very often where nearly all lines around are set aside.
func pick(s *side, start, end int, other []int) picked {
	const (
		absent = iota
		some
		frequent
	)
	limit := min(roundedRoot(len(s.lines)), maxFrequent)
	kind := make([]int8, end-start)
	for i := range kind {
		switch n := other[s.lines[start+i]]; {
		case n >= limit:
			kind[i] = frequent
		case n > 0:
			kind[i] = some
		}
	}
	// around counts the lines in one direction up to the first line that stays.
	around := func(i, step int) (gone, doubtful int) {
		for r := 1; r <= window; r++ {
			at := i + r*step
			if at < 0 || at >= len(kind) || kind[at] == some {
				break
			}
			if kind[at] == absent {
				gone++
			} else {
				doubtful++
			}
		}
		return gone, doubtful + 1
	}
	setAside := func(i int) bool {
		if kind[i] != frequent {
			return kind[i] == absent
		}
		before, maybeBefore := around(i, -1)
		after, maybeAfter := around(i, 1)
		maybe := maybeBefore + maybeAfter
		return before > 0 && after > 0 && maybe*lonely < maybe+before+after
	}
	p := picked{side: s}
	for i := range kind {
		if setAside(i) {
			s.mark(start+i, true)
			continue
		}
		p.lines, p.at = append(p.lines, s.lines[start+i]), append(p.at, start+i)
	}
	return p
}

// group is lines in a row that are marked, perhaps none.
type group struct {
	s          *side
	start, end int
}

func firstGroup(s *side) group {
	g := group{s: s}
	g.grow()
	return g
}

func (g *group) grow() {
	for g.end < len(g.s.lines) && g.s.changed(g.end) {
		g.end++
	}
}

func (g *group) next() bool {
	if g.end == len(g.s.lines) {
		return false
	}
	g.start, g.end = g.end+1, g.end+1
	g.grow()
	return true
}

func (g *group) previous() {
	g.end = g.start - 1
	for g.start = g.end; g.start > 0 && g.s.changed(g.start-1); {
		g.start--
	}
}

// down moves the group one line, and joins it with one that it meets.
func (g *group) down() bool {
	if g.end == len(g.s.lines) || g.s.lines[g.start] != g.s.lines[g.end] {
		return false
	}
	g.s.mark(g.start, false)
	g.s.mark(g.end, true)
	g.start++
	g.grow()
	return true
}

func (g *group) up() bool {
	if g.start == 0 || g.s.lines[g.start-1] != g.s.lines[g.end-1] {
		return false
	}
	g.start, g.end = g.start-1, g.end-1
	g.s.mark(g.start, true)
	g.s.mark(g.end, false)
	for g.start > 0 && g.s.changed(g.start-1) {
		g.start--
	}
	return true
}

// compact moves each group of s as far down as equal lines let it, or to the
// last place where the other side has a group too. Groups that meet are joined.
func (c *comparison) compact(s, other *side) error {
	g, o := firstGroup(s), firstGroup(other)
	for more := true; more; more = g.next() && o.next() {
		if g.start == g.end {
			continue
		}
		matched, moved := false, false
		for size := -1; size != g.end-g.start; {
			size = g.end - g.start
			for g.up() {
				o.previous()
				c.steps--
			}
			highest := g.end
			matched = o.end > o.start
			for g.down() {
				o.next()
				matched = matched || o.end > o.start
				c.steps--
			}
			moved = g.end != highest
			if c.steps--; c.steps < 0 {
				return ErrTooMuchWork
			}
		}
		for moved && matched && o.start == o.end {
			g.up()
			o.previous()
			c.steps--
		}
	}
	return nil
}
