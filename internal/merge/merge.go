// Package merge compares texts by lines and merges two changes of one text. It
// decides as git does with its default algorithm: what [Three] merges, and to
// which bytes, is what git merge-file makes of it.
package merge

import (
	"bytes"
	"errors"
	"slices"

	"github.com/aymanbagabas/go-udiff"
)

// Result is the outcome of a merge.
type Result struct {
	Content   []byte     // with conflicts empty
	Conflicts []Conflict // what both sides changed, each in another way
}

// Conflict is lines that both sides changed, or that are between such lines.
type Conflict struct {
	Base, Ours, Theirs [2]int // first line from 0, and the one after the last
}

// Three merges the changes of both sides to base. Changes that touch, with no line of
// base between them, are a conflict unless they are equal. The time is linear in the
// size of the texts; if more is needed, Three returns [ErrTooMuchWork].
func Three(base, ours, theirs []byte) (Result, error) {
	out, _, err := three(base, ours, theirs)
	return out, err
}

// maxLines is how many conflicts [Clean] reports.
const maxLines = 20

// Clean merges the changes of both sides to base. Where that is not possible without a
// conflict, it returns no content, and the lines of ours, from 1, on which the first
// conflicts begin.
func Clean(base, ours, theirs []byte) (content []byte, lines []int, err error) {
	got, err := Three(base, ours, theirs)
	if errors.Is(err, ErrTooMuchWork) {
		return nil, nil, nil
	}
	for _, c := range got.Conflicts[:min(len(got.Conflicts), maxLines)] {
		lines = append(lines, c.Ours[0]+1)
	}
	return got.Content, lines, err
}

// three returns the steps of both comparisons too.
func three(base, ours, theirs []byte) (out Result, steps int, err error) {
	table := map[string]int{}
	of := [3][][]byte{Lines(base), Lines(ours), Lines(theirs)}
	b, o, t := newSide(table, of[0]), newSide(table, of[1]), newSide(table, of[2])
	mine, n, err := compare(b, o, len(table))
	if err != nil {
		return Result{}, n, err
	}
	others, more, err := compare(newSide(table, of[0]), t, len(table))
	if steps = n + more; err != nil {
		return Result{}, steps, err
	}
	var content bytes.Buffer
	done := 0 // lines of ours that are in content
	for _, c := range overlap(mine, others, o, t) {
		x := c.Conflict
		if !c.only && (c.Ours[0] == c.Ours[1] || !equal(o, t, c.Ours, c.Theirs)) {
			out.Conflicts = append(out.Conflicts, x)
			continue
		}
		if c.only {
			write(&content, of[1][done:x.Ours[0]])
			write(&content, of[2][x.Theirs[0]:x.Theirs[1]])
			done = x.Ours[1]
		}
	}
	if len(out.Conflicts) == 0 {
		write(&content, of[1][done:])
		out.Content = content.Bytes()
	}
	return out, steps, nil
}

func write(w *bytes.Buffer, lines [][]byte) {
	for _, l := range lines {
		w.Write(l)
	}
}

func equal(o, t *side, ours, theirs [2]int) bool {
	return slices.Equal(o.lines[ours[0]:ours[1]], t.lines[theirs[0]:theirs[1]])
}

// region is a part of the three texts that at least their side has changed.
type region struct {
	Conflict
	only bool // only their side has
}

// overlap lists the regions that their side changed, in order. What both sides
// changed equally is left out.
func overlap(mine, others []Hunk, o, t *side) (list []region) {
	add := func(r region) {
		if n := len(list); n > 0 {
			last := &list[n-1]
			if r.Ours[0] <= last.Ours[1] || r.Theirs[0] <= last.Theirs[1] {
				last.only = last.only && r.only
				last.Base[1], last.Ours[1], last.Theirs[1] = r.Base[1], r.Ours[1], r.Theirs[1]
				return
			}
		}
		list = append(list, r)
	}
	shift := 0 // offset from a line of base to the same line of ours
	for len(mine) > 0 || len(others) > 0 {
		switch {
		case len(others) == 0 || len(mine) > 0 && mine[0].To < others[0].From:
			shift, mine = mine[0].NewTo-mine[0].To, mine[1:]
		case len(mine) == 0 || others[0].To < mine[0].From:
			h := others[0]
			add(region{Conflict{[2]int{h.From, h.To}, [2]int{h.From + shift, h.To + shift}, [2]int{h.NewFrom, h.NewTo}}, true})
			others = others[1:]
		default:
			m, h := mine[0], others[0]
			ours, theirs := [2]int{m.NewFrom, m.NewTo}, [2]int{h.NewFrom, h.NewTo}
			if m.From != h.From || m.To != h.To || !equal(o, t, ours, theirs) {
				from, to := min(m.From, h.From), max(m.To, h.To)
				add(region{Conflict{
					[2]int{from, to},
					[2]int{m.NewFrom - (m.From - from), m.NewTo + to - m.To},
					[2]int{h.NewFrom - (h.From - from), h.NewTo + to - h.To},
				}, false})
			}
			if m.To >= h.To {
				others = others[1:]
			}
			if h.To >= m.To {
				shift, mine = m.NewTo-m.To, mine[1:]
			}
		}
	}
	return list
}

// Unified is the unified diff of two texts.
func Unified(from, to string, old, now []byte) (string, error) {
	list, err := Hunks(old, now)
	if err != nil {
		return "", err
	}
	place := func(lines [][]byte) []int {
		at := make([]int, len(lines)+1)
		for i, l := range lines {
			at[i+1] = at[i] + len(l)
		}
		return at
	}
	before, after := place(Lines(old)), place(Lines(now))
	edits := make([]udiff.Edit, len(list))
	for i, h := range list {
		edits[i] = udiff.Edit{Start: before[h.From], End: before[h.To], New: string(now[after[h.NewFrom]:after[h.NewTo]])}
	}
	return udiff.ToUnified(from, to, string(old), edits, udiff.DefaultContextLines)
}

// Names are the names of both sides of a file in a diff, as git writes them: with
// special characters in quotes, so that none begins a line.
func Names(path string) (from, to string) { return quoted("a/" + path), quoted("b/" + path) }

func quoted(name string) string {
	special := func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r == 0x7f }
	if bytes.IndexFunc([]byte(name), special) < 0 {
		return name
	}
	var b bytes.Buffer
	b.WriteByte('"')
	for i := range len(name) {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c == 0x7f:
			b.Write([]byte{'\\', '0' + c>>6, '0' + c>>3&7, '0' + c&7})
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
