package resilientwrite

import (
	"context"
)

// Close waits for the calls in flight, completes what was left to be done after
// their replies, saves the caches and releases everything. Later calls fail with
// [StoreClosed]. When ctx ends first, Close fails with [Canceled] and the store
// stays closed for new calls; everything is released when the last call ends,
// and what is not settled is completed by the next Open. Closing again waits for
// the same, as long as its own ctx allows. Errors besides: the storage details.
// What was acknowledged before is not affected by any of them.
func (s *Store) Close(ctx context.Context) error {
	s.gate.Lock()
	first := s.open
	s.open = false
	s.gate.Unlock()
	if first {
		defer s.watchers.close(ctx)
		go func() {
			s.flights.Wait()
			s.ended <- s.end()
			close(s.ended)
		}()
	}
	select {
	case err := <-s.ended:
		if err != nil {
			return s.verbError("close", err)
		}
		return nil
	case <-ctx.Done():
		return s.verbError("close", ctx.Err())
	}
}
