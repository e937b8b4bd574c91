package durable

import (
	"runtime"
	"sync"
)

// Shared lets concurrent callers share flushes of one object. The zero value is ready
// to use.
//
// A caller's result always comes from a flush that started after its call of
// [Shared.Do], so everything it did before is covered. While a flush runs, the
// callers that arrive wait together for the next one.
type Shared struct {
	mu      sync.Mutex
	pending *turn // neither started nor finished
	running *turn
}

// turn is one flush and those who wait for it.
type turn struct {
	done chan struct{}
	over chan struct{} // closed after done: the leader of the next flush runs before those who are done
	err  error
}

// Do runs flush, or waits for a run of an equivalent flush that starts after
// this call. A failed run fails all who waited for it.
func (s *Shared) Do(flush func() error) error {
	s.mu.Lock()
	if next := s.pending; next != nil {
		s.mu.Unlock()
		<-next.done
		return next.err
	}
	me := &turn{done: make(chan struct{}), over: make(chan struct{})}
	// The first to arrive leads: it waits for the run in progress, which
	// started too early for it, and takes along all who arrive meanwhile.
	for s.running != nil {
		before := s.running
		s.pending = me
		s.mu.Unlock()
		<-before.over
		s.mu.Lock()
	}
	s.pending, s.running = nil, me
	s.mu.Unlock()

	me.err = flush()

	s.mu.Lock()
	s.running = nil
	more := s.pending != nil
	s.mu.Unlock()
	close(me.done)
	close(me.over)
	if more { // the scheduler takes who was woken last first
		runtime.Gosched()
	}
	return me.err
}
