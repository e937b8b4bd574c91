package scan

import (
	"maps"
	"slices"
)

// Tally counts findings without keeping them. Its zero value has none.
type Tally struct {
	Total     int
	Confirmed bool // one of them is
	families  map[string]int
}

// Add counts one.
func (t *Tally) Add(f Finding) {
	if t.families == nil {
		t.families = map[string]int{}
	}
	t.Total++
	t.families[f.Family]++
	t.Confirmed = t.Confirmed || f.Confidence == Confirmed
}

// Tally counts the findings of a report, also those that it does not list.
func (r *Report) Tally() Tally {
	return Tally{Total: len(r.Findings) + r.Omitted, Confirmed: r.confirmed, families: r.counts}
}

// Families are the families of what was counted, sorted.
func (t *Tally) Families() []string { return slices.Sorted(maps.Keys(t.families)) }

// VerdictOf is the score and the verdict of what was counted alone, without
// the size of the text.
func (s *Scanner) VerdictOf(t *Tally) (float64, string) {
	r := Report{counts: t.families, confirmed: t.Confirmed}
	return round4(min(1, s.content(&r))), s.ContentVerdict(&r)
}
