package resilientwrite

// WhileQuiet makes fn run where a store waits whether somebody is still writing
// the policy file.
func (s *Store) WhileQuiet(fn func()) { s.seam.quiet = fn }
