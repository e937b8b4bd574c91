package scan

import (
	"maps"
	"slices"
)

// Tally counts findings without keeping them. Its zero value has none.
type Tally struct {
	Total     int
	Confirmed bool           // one of them is
	Failed    int            // with a wrong checksum
	families  map[string]int // all findings
	firm      map[string]int // without those of confidence Info
}

// Add counts one.
func (t *Tally) Add(f Finding) {
	t.count(f.Family, f.Confidence)
	if f.ChecksumFailed {
		t.Failed++
	}
}

func (t *Tally) count(family string, c Confidence) {
	if t.families == nil {
		t.families, t.firm = map[string]int{}, map[string]int{}
	}
	t.Total++
	t.families[family]++
	if c != Info {
		t.firm[family]++
	}
	t.Confirmed = t.Confirmed || c == Confirmed
}

// Families are the families of what was counted, sorted.
func (t *Tally) Families() []string { return slices.Sorted(maps.Keys(t.families)) }

// Tally counts the findings of a report, also those that it does not list.
func (r *Report) Tally() Tally { return r.tally }

// Families are the families of a report, sorted.
func (r *Report) Families() []string { return r.tally.Families() }

// VerdictOf is the score and the verdict of what was counted alone, without
// the size of the text.
func (s *Scanner) VerdictOf(t *Tally) (float64, string) { return s.judged(t, t.families) }

// GateVerdict is the score and the verdict on which the gate decides: those of
// VerdictOf without the findings of confidence Info, which never refuse.
func (s *Scanner) GateVerdict(t *Tally) (float64, string) { return s.judged(t, t.firm) }

// ContentVerdict is the verdict of what was found alone, without the size.
func (s *Scanner) ContentVerdict(r *Report) string {
	_, verdict := s.VerdictOf(&r.tally)
	return verdict
}

func (s *Scanner) judged(t *Tally, families map[string]int) (float64, string) {
	score := round4(min(1, s.sum(families)))
	if t.Confirmed {
		return score, VerdictHigh
	}
	return score, s.verdict(score)
}
