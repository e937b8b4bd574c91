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
	pending map[Key]*turn // neither started nor finished; at most one per key
	running map[Key]*turn
}

// Key identifies what is flushed: device and inode, for example.
type Key struct{ Dev, Ino uint64 }

// turn is one flush and those who wait for it.
type turn struct {
	done chan struct{}
	over chan struct{} // closed after done: the leader of the next flush runs before those who are done
	err  error
}

// Do runs flush, or waits for a run of an equivalent flush that starts after
// this call. A failed run fails all who waited for it.
func (s *Shared) Do(key Key, flush func() error) error {
	s.mu.Lock()
	if s.pending == nil {
		s.pending, s.running = map[Key]*turn{}, map[Key]*turn{}
	}
	if next := s.pending[key]; next != nil {
		s.mu.Unlock()
		<-next.done
		return next.err
	}
	me := &turn{done: make(chan struct{}), over: make(chan struct{})}
	// The first to arrive leads: it waits for the run in progress, which
	// started too early for it, and takes along all who arrive meanwhile.
	for {
		before := s.running[key]
		if before == nil {
			break
		}
		s.pending[key] = me
		s.mu.Unlock()
		<-before.over
		s.mu.Lock()
	}
	delete(s.pending, key)
	s.running[key] = me
	s.mu.Unlock()

	me.err = flush()

	s.mu.Lock()
	delete(s.running, key)
	more := s.pending[key] != nil
	s.mu.Unlock()
	close(me.done)
	close(me.over)
	if more { // the scheduler takes who was woken last first
		runtime.Gosched()
	}
	return me.err
}
