package scan

// VerdictOf is the score and the verdict of some findings alone, without the
// size of the text.
func (s *Scanner) VerdictOf(found []Finding) (float64, string) {
	r := Report{counts: map[string]int{}}
	for _, f := range found {
		r.counts[f.Family]++
		r.confirmed = r.confirmed || f.Confidence == Confirmed
	}
	return round4(min(1, s.content(&r))), s.ContentVerdict(&r)
}
