package syntax

import (
	"fmt"
	"slices"
	"sort"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/visible"
)

// Bounds of a report: its reader repairs the first few problems and checks again. The
// message of a library may quote the text.
const (
	maxProblems = 100
	maxMessage  = 500 // bytes
)

// finding is a problem at a byte offset, before its line and column are known.
type finding struct {
	offset  int
	message string
}

// text is the text under check and its problems so far. The bytes are valid UTF-8 and
// do not start with a byte order mark.
type text struct {
	src      []byte
	starts   []int // byte offset of the start of every line; nil until lineOf needs it
	errors   findings
	warnings findings
	work     int // the bytes and tokens examined; the tests bound it
}

// findings keeps the first maxProblems problems of one severity and counts the rest, so
// that a text with many mistakes needs no more memory.
type findings struct {
	kept  []finding
	total int
}

func (f *findings) add(offset int, format string, args ...any) {
	f.total++
	if len(f.kept) < maxProblems {
		f.kept = append(f.kept, finding{offset, visible.Cut(fmt.Sprintf(format, args...), maxMessage)})
	}
}

// errorAt notes something that makes the text invalid.
func (t *text) errorAt(offset int, format string, args ...any) {
	t.errors.add(offset, format, args...)
}

// warnAt notes something that is likely a mistake but still valid text.
func (t *text) warnAt(offset int, format string, args ...any) {
	t.warnings.add(offset, format, args...)
}

// looked counts work, so that a test can check, without a clock, that the work of a
// checker grows no faster than the text. Code that reads ahead counts the bytes it
// reads.
func (t *text) looked(n int) { t.work += n }

// full reports whether more errors would only be counted.
func (t *text) full() bool { return len(t.errors.kept) >= maxProblems }

// lineStarts returns the offset at which every line starts. A line ends with
// LF, CR LF or a lone CR, as in most editors.
func (t *text) lineStarts() []int {
	if t.starts == nil {
		t.starts = []int{0}
		for i, c := range t.src {
			if c == '\n' || c == '\r' && (i+1 == len(t.src) || t.src[i+1] != '\n') {
				t.starts = append(t.starts, i+1)
			}
		}
	}
	return t.starts
}

// lineOf returns the number of the line, from 1, that contains offset.
func (t *text) lineOf(offset int) int {
	starts := t.lineStarts()
	return sort.Search(len(starts), func(i int) bool { return starts[i] > offset })
}

// offsetOf turns a line and a column in characters, as a library reports them,
// into an offset. Positions outside the text are moved to its nearest end.
func (t *text) offsetOf(line, col int) int {
	starts := t.lineStarts()
	line = max(1, min(line, len(starts)))
	end := len(t.src)
	if line < len(starts) {
		end = starts[line] - 1
	}
	offset := starts[line-1]
	for ; col > 1 && offset < end; col-- {
		_, size := utf8.DecodeRune(t.src[offset:])
		offset += size
	}
	return offset
}

// problems returns the problems in the order of the text. If there are too many, errors
// take precedence over warnings.
func (t *text) problems() []Problem {
	type entry struct {
		finding
		severity string
	}
	var all []entry
	for _, f := range t.errors.kept {
		all = append(all, entry{f, Error})
	}
	for _, f := range t.warnings.kept[:min(len(t.warnings.kept), maxProblems-len(all))] {
		all = append(all, entry{f, Warning})
	}
	slices.SortStableFunc(all, func(a, b entry) int { return a.offset - b.offset })
	list := make([]Problem, 0, len(all)+1)
	// The columns are counted on from one problem to the next, because the
	// text may be a single long line.
	from, col, line := 0, 1, 1
	for _, e := range all {
		offset := max(0, min(e.offset, len(t.src)))
		offset = t.characterStart(offset)
		if n := t.lineOf(offset); n != line {
			from, col, line = t.starts[n-1], 1, n
		}
		col += utf8.RuneCount(t.src[from:offset])
		from = offset
		list = append(list, Problem{line, col, e.message, e.severity})
	}
	return t.withRest(list)
}

// characterStart moves an offset that a library gave inside a character to its
// start. The text may hold bytes that belong to none.
func (t *text) characterStart(offset int) int {
	for start := offset; start >= 0 && start > offset-utf8.UTFMax && start < len(t.src); start-- {
		if _, size := utf8.DecodeRune(t.src[start:]); start+size > offset && size > 1 {
			return start
		}
	}
	return offset
}

// withRest adds the entry that says how many problems there was no room for.
func (t *text) withRest(list []Problem) []Problem {
	rest := t.errors.total + t.warnings.total - len(list)
	if rest == 0 {
		return list
	}
	last := Problem{Line: 1, Col: 1, Severity: Warning}
	if len(list) > 0 {
		last.Line, last.Col = list[len(list)-1].Line, list[len(list)-1].Col
	}
	if t.errors.total > maxProblems {
		last.Severity = Error
	}
	last.Message = fmt.Sprintf("%d more problems are not listed", rest)
	if rest == 1 {
		last.Message = "1 more problem is not listed"
	}
	return append(list, last)
}

// quoted shows a piece of the text in a message, cut short if it is long.
func quoted[T string | []byte](piece T) string {
	const most = 40
	text := string(piece[:min(len(piece), 4*most)])
	if runes := []rune(text); len(runes) > most {
		return fmt.Sprintf("%q…", string(runes[:most]))
	}
	return fmt.Sprintf("%q", text)
}
