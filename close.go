package resilientwrite

import (
	"context"
)

// Close waits for the calls in flight, completes the work that was deferred until
// after their replies, saves the caches and releases everything. Later calls fail
// with [ErrStoreClosed]. When ctx ends first, Close fails with [ErrCanceled] and
// the store stays closed for new calls; everything is released when the last call
// ends, and what is not settled is completed by the next Open. A second Close
// waits for the same, as long as its own ctx allows. Other errors: the storage
// details. None of them affects what was acknowledged before.
func (s *Store) Close(ctx context.Context) error {
	s.engine.Gate.Lock()
	first := s.engine.Open
	s.engine.Open = false
	s.engine.Gate.Unlock()
	if first {
		defer s.watchers.Close(ctx)
		go func() {
			s.engine.Flights.Wait()
			s.engine.Ended <- s.engine.End()
			close(s.engine.Ended)
		}()
	}
	select {
	case err := <-s.engine.Ended:
		if err != nil {
			return s.verbError("close", err)
		}
		return nil
	case <-ctx.Done():
		return s.verbError("close", ctx.Err())
	}
}
