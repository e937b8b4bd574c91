package resilientwrite

import (
	"context"
	"sync/atomic"
)

// Store is the write surface of one workspace. Its methods may be called by
// any number of goroutines, and any number of processes on one machine may
// open the same workspace. Make one with [Open].
type Store struct {
	*engine
	opts Options

	pad          padMemo
	rules        atomic.Pointer[Policy] // see policy
	answers      answers
	policyWay    []string                      // names in the workspace that lead to the policy file
	trouble      atomic.Pointer[policyTrouble] // a policy file that is wrong; nil = none
	guard        guard
	repositories repositories
	watchers     watchers
}

// Sync returns when everything that calls have done so far is at the level
// [SyncFull]. It does nothing at that level, and cannot help at [SyncOff]. It
// does not end before that when ctx does. Errors: the storage details,
// [StorePoisoned], [StoreClosed]; what was acknowledged then keeps the level at
// which it was.
func (s *Store) Sync(ctx context.Context) error {
	if err := s.enterReader(); err != nil {
		return s.verbError("sync", err)
	}
	defer s.leave()
	if s.behind == nil {
		return nil
	}
	if err := s.behind.drain(); err != nil {
		return s.verbError("sync", err)
	}
	s.heads.drain()
	return nil
}
