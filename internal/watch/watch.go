// Package watch passes values to functions that may be slow, without waiting for them.
package watch

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxWaiting = 256         // values that wait for one watcher
	lastValue  = time.Second // how long Close waits for a watcher
)

// List is the watchers of one source of values. The zero value is ready for use.
type List[T any] struct {
	mu     sync.Mutex
	list   []*watcher[T]
	closed bool
	some   atomic.Bool // the list is not empty
}

// Add has f called with each value that is sent, in order and in a goroutine of its
// own, until stop is called or the list is closed. Values that f is too slow for are
// dropped, and the result of missed for their number replaces them.
func (l *List[T]) Add(f func(T), missed func(int) T) (stop func()) {
	w := &watcher[T]{f: f, report: missed, ended: make(chan struct{})}
	w.wake.L = &w.mu
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return func() {}
	}
	l.list = append(slices.Clip(l.list), w)
	l.some.Store(true)
	go w.run()
	return func() {
		l.remove(w)
		w.stop()
	}
}

func (l *List[T]) remove(w *watcher[T]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.DeleteFunc(slices.Clone(l.list), func(have *watcher[T]) bool { return have == w })
	l.some.Store(len(l.list) > 0)
}

// Send passes a value to all watchers.
func (l *List[T]) Send(v T) {
	if !l.some.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.list {
		w.put(v)
	}
}

// Close ends all watching when every watcher has received what waits for it, or when
// that takes too long.
func (l *List[T]) Close(ctx context.Context) {
	l.mu.Lock()
	list := l.list
	l.closed, l.list = true, nil
	l.some.Store(false)
	l.mu.Unlock()
	if len(list) == 0 {
		return
	}
	for _, w := range list {
		w.finish()
	}
	enough := time.NewTimer(lastValue)
	defer enough.Stop()
	for _, w := range list {
		select {
		case <-w.ended:
			continue
		case <-ctx.Done():
		case <-enough.C:
		}
		break
	}
	for _, w := range list {
		w.stop()
	}
}

// watcher receives the values for one function.
type watcher[T any] struct {
	f      func(T)
	report func(missed int) T
	ended  chan struct{} // closed when nothing will be done any more

	mu      sync.Mutex
	wake    sync.Cond // there is something to do
	waiting []T
	missed  int  // dropped since the last one that waits
	last    bool // nothing more will come
	stopped bool
}

func (w *watcher[T]) put(v T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.missed > 0 || len(w.waiting) >= maxWaiting {
		w.missed++ // until the watcher has received the count, so that the order is kept
	} else {
		w.waiting = append(w.waiting, v)
	}
	w.wake.Signal()
}

// finish lets the watcher end once nothing is waiting.
func (w *watcher[T]) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = true
	w.wake.Signal()
}

// stop lets no further call begin.
func (w *watcher[T]) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped, w.waiting = true, nil
	w.wake.Signal()
}

func (w *watcher[T]) run() {
	defer close(w.ended)
	for {
		v, ok := w.next()
		if !ok {
			return
		}
		w.call(v)
	}
}

// next waits for the value that has waited longest; ok is false when no more will come.
func (w *watcher[T]) next() (v T, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.waiting) == 0 && w.missed == 0 && !w.last && !w.stopped {
		w.wake.Wait()
	}
	switch {
	case w.stopped:
		return v, false
	case len(w.waiting) > 0:
		v = w.waiting[0]
		if w.waiting = w.waiting[1:]; len(w.waiting) == 0 {
			w.waiting = nil
		}
		return v, true
	case w.missed > 0:
		v = w.report(w.missed)
		w.missed = 0
		return v, true
	}
	return v, false
}

func (w *watcher[T]) call(v T) {
	defer func() { recover() }() // what watches must not end what it watches
	w.f(v)
}
