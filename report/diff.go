package report

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// Limits of what is compared and of what is shown of it.
const (
	TextLimit    = 128 << 10 // bytes of one version that are looked at
	diffLines    = 120       // of one diff that are shown
	diffEdits    = 200       // places of one diff that are looked at
	diffsCost    = 800 << 10 // bytes of the page that all diffs take
	diffsCompare = 48 << 20  // bytes of all versions that are compared
)

// Text is one version of a file, cleaned of secrets, ready to be compared.
type Text struct {
	body string
	why  string // not empty: why it cannot be compared
	gone bool
}

// Gone is the text of a file that was not there.
var Gone = Text{gone: true}

// Unread is the text of a version that could not be had.
func Unread(why string) Text { return Text{why: why} }

// Diff is the change from one version to the next, ready to be shown.
type Diff struct {
	Why            string // why there are no lines; empty with lines
	Added, Removed int    // lines, also of what is not shown
	Cut            bool   // there is more
	lines          []diffLine
}

// diffLine is a [DiffLine] whose text is taken apart.
type diffLine struct {
	Op   string
	Text []piece
}

// Comparer compares versions within a budget for the whole page: the diffs
// that come first are shown, the rest is counted.
type Comparer struct {
	clean   func(string) string
	cost    int // what is left
	compare int // what is left
	Skipped int // diffs that the budget left out
}

// NewComparer returns a Comparer. clean takes the secrets out of a text and
// keeps its line ends.
func NewComparer(clean func(string) string) *Comparer {
	return &Comparer{clean: clean, cost: diffsCost, compare: diffsCompare}
}

// Spent reports whether no further diff will be shown.
func (c *Comparer) Spent() bool { return c.cost <= 0 || c.compare <= 0 }

// Text takes in one version of a file. Its secrets are taken out here, before
// anything is compared: a hunk may show the middle of a secret whose beginning,
// by which it is recognized, is outside.
func (c *Comparer) Text(data []byte) Text {
	switch {
	case c.Spent():
		return Unread(overBudget)
	case len(data) > TextLimit:
		return Unread(TooLarge)
	case bytes.IndexByte(data, 0) >= 0:
		return Unread("The file is binary.")
	}
	c.compare -= len(data)
	return Text{body: c.clean(string(data))}
}

const (
	overBudget = "Not shown: the diffs above have used up the space of the report."
	onlySecret = "Only redacted parts or line ends differ."
	// TooLarge says why a long file is not compared.
	TooLarge = "The file is larger than 128 KiB."
)

// Compare returns what changed from one text to the other.
func (c *Comparer) Compare(from, to Text) Diff {
	if from.why == overBudget || to.why == overBudget || c.Spent() {
		c.Skipped++
		return Diff{Why: overBudget}
	}
	if why := cmp.Or(from.why, to.why); why != "" {
		return Diff{Why: why}
	}
	edits := udiff.Lines(from.body, to.body)
	if len(edits) == 0 {
		return Diff{Why: nothing(from, to)}
	}
	d := Diff{}
	for _, e := range edits {
		d.Removed += lines(from.body[e.Start:e.End])
		d.Added += lines(e.New)
	}
	if len(edits) > diffEdits {
		edits, d.Cut = edits[:diffEdits], true
	}
	u, err := udiff.ToUnifiedDiff("", "", from.body, edits, udiff.DefaultContextLines)
	if err != nil { // the edits are those of the text
		return Diff{Why: "The versions cannot be compared."}
	}
	c.show(&d, &u)
	return d
}

// nothing says why two texts have no difference.
func nothing(from, to Text) string {
	switch {
	case from.gone && to.gone:
		return "There was no file."
	case from.gone:
		return "The file is new, and empty."
	case to.gone:
		return "The file was empty."
	}
	return onlySecret
}

// lines is how many lines a text has; the last one may have no end.
func lines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}

// show takes over the lines that fit. They are cleaned once more, together:
// what was apart in both versions may be adjacent in the diff.
func (c *Comparer) show(d *Diff, u *udiff.UnifiedDiff) {
	var all []string
	for _, h := range u.Hunks {
		for _, l := range h.Lines {
			all = append(all, strings.TrimSuffix(l.Content, "\n"))
		}
	}
	all = all[:min(len(all), diffLines)]
	again := strings.Split(c.clean(strings.Join(all, "\n")), "\n")
	if len(again) != len(all) { // clean broke its promise
		*d = Diff{Why: "The change cannot be shown without the redacted parts.", Added: d.Added, Removed: d.Removed}
		return
	}
	add := func(op string, text []piece) { d.lines = append(d.lines, diffLine{op, text}) }
	for _, h := range u.Hunks {
		for i, l := range h.Lines {
			if len(again) == 0 || c.cost <= 0 {
				d.Cut = true
				return
			}
			if i == 0 {
				add("@", ours(fmt.Sprintf("at line %d, was %d", h.ToLine, h.FromLine)))
			}
			text := start(signs(again[0], true), lineSigns)
			again = again[1:]
			add(opOf[l.Kind], text)
			if !strings.HasSuffix(l.Content, "\n") {
				add(`\`, ours(" No newline at the end of the file"))
			}
			c.cost -= cost(text) + lineCost
		}
	}
}

// lineCost is the markup around a line of a diff, about.
const lineCost = 32

var opOf = map[udiff.OpKind]string{udiff.Insert: "+", udiff.Delete: "-", udiff.Equal: " "}
