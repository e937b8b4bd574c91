package engine

import (
	"context"
	"sync"
	"time"
)

// admission limits how many commits are in progress to what the descriptors of the
// process allow: each holds directories, previous files and slots open. The others wait
// in the order in which they came.
type admission struct {
	mu      sync.Mutex
	used    int
	waiting []*admitted
}

type admitted struct {
	units int
	in    chan struct{} // closed when it may go on
}

const (
	// commitFiles is the number of descriptors of the process for each unit: a commit of
	// one file opens up to four, and its settlement and the copy of its version as many.
	commitFiles = 16
	// admissionWait limits how long a commit waits: one that is made by a hook of another
	// must not wait for that.
	admissionWait = 10 * time.Second
)

// admit waits until there are descriptors for a commit of n files. leave ends it.
func (s *Engine) admit(ctx context.Context, n int) (leave func()) {
	x, leave := s.queue(n)
	select {
	case <-x.in:
	default:
		limit := time.NewTimer(admissionWait)
		defer limit.Stop()
		select {
		case <-x.in:
		case <-ctx.Done():
		case <-limit.C:
		}
	}
	return leave
}

// tryAdmit is admit without waiting. It returns nil if there are no descriptors.
func (s *Engine) tryAdmit(n int) (leave func()) {
	x, leave := s.queue(n)
	select {
	case <-x.in:
		return leave
	default:
		leave()
		return nil
	}
}

func (s *Engine) queue(n int) (x *admitted, leave func()) {
	a, most := &s.admission, max(2, s.descriptors()/commitFiles)
	x = &admitted{min(most, max(1, n)), make(chan struct{})}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = append(a.waiting, x)
	a.next(most)
	return x, func() { a.leave(x, most) }
}

// next lets in those that there is room for. a.mu is held.
func (a *admission) next(most int) {
	for len(a.waiting) > 0 && a.used+a.waiting[0].units <= most {
		x := a.waiting[0]
		a.waiting = a.waiting[1:]
		a.used += x.units
		close(x.in)
	}
}

func (a *admission) leave(x *admitted, most int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, w := range a.waiting {
		if w == x { // it did not wait to the end
			a.waiting = append(a.waiting[:i], a.waiting[i+1:]...)
			a.next(most)
			return
		}
	}
	a.used -= x.units
	a.next(most)
}
