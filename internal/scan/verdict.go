package scan

import "slices"

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
func (s *Scanner) VerdictOf(t *Tally) (float64, string) { return s.judged(t, allOf) }

// GateVerdict is the score and the verdict on which the gate decides: those of
// VerdictOf without the findings of confidence Info, which never refuse.
func (s *Scanner) GateVerdict(t *Tally) (float64, string) { return s.judged(t, firmOf) }

// ContentVerdict is the verdict of what was found alone, without the size.
func (s *Scanner) ContentVerdict(r *Report) string {
	_, verdict := s.VerdictOf(&r.tally)
	return verdict
}

func allOf(f familyCount) int  { return f.all }
func firmOf(f familyCount) int { return f.firm }

func (s *Scanner) judged(t *Tally, number func(familyCount) int) (float64, string) {
	score := round4(min(1, s.sum(t, number)))
	if t.Confirmed {
		return score, VerdictHigh
	}
	return score, s.verdict(score)
}
