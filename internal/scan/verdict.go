package scan

import (
	"math"
	"slices"
)

// Tally counts findings without keeping them. Its zero value has none.
type Tally struct {
	Total     int
	Confirmed bool // one of them is
	Failed    int  // with a wrong checksum
	families  []familyCount
}

// familyCount is how many findings a family has, and how many of them are not
// of confidence Info.
type familyCount struct {
	family    string
	all, firm int
}

// Add counts one.
func (t *Tally) Add(f Finding) {
	t.count(f.Family, f.Confidence)
	if f.ChecksumFailed {
		t.Failed++
	}
}

func (t *Tally) count(family string, c Confidence) {
	t.Total++
	t.Confirmed = t.Confirmed || c == Confirmed
	n := slices.IndexFunc(t.families, func(f familyCount) bool { return f.family == family })
	if n < 0 {
		n = len(t.families)
		t.families = append(t.families, familyCount{family: family})
	}
	t.families[n].all++
	if c != Info {
		t.families[n].firm++
	}
}

// Families are the families of what was counted, sorted.
func (t *Tally) Families() []string {
	var all []string
	for _, f := range t.families {
		all = append(all, f.family)
	}
	slices.Sort(all)
	return all
}

// Tally counts the findings of a report, also those that it does not list.
func (r *Report) Tally() Tally { return r.tally }

// Families are the families of a report, sorted.
func (r *Report) Families() []string { return r.tally.Families() }

// VerdictOf is the score and the verdict of what was counted alone, without
// the size of the text.
func (s *Scanner) VerdictOf(t *Tally) (float64, string) { return s.judged(t, false, 0) }

// GateVerdict is the score and the verdict on which the gate decides: those of
// VerdictOf without the findings of confidence Info, which never refuse.
func (s *Scanner) GateVerdict(t *Tally) (float64, string) { return s.judged(t, true, 0) }

// ContentVerdict is the verdict of what was found alone, without the size.
func (s *Scanner) ContentVerdict(r *Report) string {
	_, verdict := s.VerdictOf(&r.tally)
	return verdict
}

// judged is the score and the verdict of what was counted, or only of what is firm,
// and of the size:
//
//	score = sum over families of weight * min(1.5, 1 + 0.25 * (findings - 1))
//	        + the weights of the size rules that hold, kept within 0 and 1
//
// A confirmed credential makes the verdict high whatever the score.
func (s *Scanner) judged(t *Tally, firm bool, size float64) (score float64, verdict string) {
	sum := 0.0
	for _, f := range t.families {
		n := f.all
		if firm {
			n = f.firm
		}
		if n > 0 {
			sum += s.weights[f.family] * min(1.5, 1+0.25*float64(n-1))
		}
	}
	score = math.Round(min(1, sum+size)*1e4) / 1e4
	switch {
	case t.Confirmed || score >= s.policy.High:
		return score, VerdictHigh
	case score >= s.policy.Medium:
		return score, VerdictMedium
	case score >= s.policy.Low:
		return score, VerdictLow
	}
	return score, VerdictSafe
}
