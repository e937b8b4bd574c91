package resilientwrite

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// OpMissed is the Op of the receipt that replaces all those that a watcher was
// too slow to receive. It describes no call: the missed calls are in the journal.
const OpMissed = "missed"

// Watch calls f with the receipt of every mutating call of this Store, including
// refused calls and calls that changed nothing, once the outcome is known. Calls
// of other processes are not included; [Store.JournalSince] reports them.
//
// Receipts arrive in the order in which the calls ended, one at a time, in a
// separate goroutine: f may take its time and may call the Store, and no writer
// waits for it. At most 256 receipts wait for a slow f. Further receipts are
// dropped, and one receipt whose Op is [OpMissed] replaces them. A panic in f is
// contained.
//
// stop ends the watch, as does [Store.Close], which lets f receive the waiting
// receipts for at most a second. After stop no further call of f begins; one that
// has begun may still be in progress. Stopping twice is harmless. Watching a
// closed store does nothing.
func (s *Store) Watch(f func(Receipt)) (stop func()) {
	w := &watcher{f: f, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	if !s.watchers.add(w) {
		return func() {}
	}
	go w.run()
	return func() {
		s.watchers.remove(w)
		w.stop()
	}
}

const (
	maxWaiting  = 256         // receipts that wait for one watcher
	lastReceipt = time.Second // how long Close waits for a watcher
)

// watchers holds the watchers of a store.
type watchers struct {
	mu     sync.Mutex
	list   []*watcher
	closed bool
	some   atomic.Bool // the list is not empty
}

func (ws *watchers) add(w *watcher) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return false
	}
	ws.list = append(slices.Clip(ws.list), w)
	ws.some.Store(true)
	return true
}

func (ws *watchers) remove(w *watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.list = slices.DeleteFunc(slices.Clone(ws.list), func(have *watcher) bool { return have == w })
	ws.some.Store(len(ws.list) > 0)
}

// send passes a receipt to all watchers without waiting for them.
func (ws *watchers) send(r Receipt) {
	if !ws.some.Load() {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.list {
		w.put(r)
	}
}

// close ends all watching when every watcher has received what waits for it, or
// when that takes too long.
func (ws *watchers) close(ctx context.Context) {
	ws.mu.Lock()
	list := ws.list
	ws.closed, ws.list = true, nil
	ws.some.Store(false)
	ws.mu.Unlock()
	if len(list) == 0 {
		return
	}
	for _, w := range list {
		w.finish()
	}
	enough := time.NewTimer(lastReceipt)
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

// watcher receives the receipts for one call of Watch.
type watcher struct {
	f     func(Receipt)
	wake  chan struct{} // there is something to do
	ended chan struct{} // closed when nothing will be done any more

	mu      sync.Mutex
	waiting []Receipt
	missed  int  // dropped since the last one that waits
	last    bool // nothing more will come
	stopped bool
}

func (w *watcher) put(r Receipt) {
	w.mu.Lock()
	if w.missed > 0 || len(w.waiting) >= maxWaiting {
		w.missed++ // until the watcher has received the count, so that the order is kept
	} else {
		w.waiting = append(w.waiting, r)
	}
	w.mu.Unlock()
	w.rouse()
}

func (w *watcher) rouse() {
	select {
	case w.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// finish lets the watcher end once nothing is waiting.
func (w *watcher) finish() {
	w.mu.Lock()
	w.last = true
	w.mu.Unlock()
	w.rouse()
}

// stop lets no further call begin.
func (w *watcher) stop() {
	w.mu.Lock()
	w.stopped, w.waiting = true, nil
	w.mu.Unlock()
	w.rouse()
}

func (w *watcher) run() {
	defer close(w.ended)
	for range w.wake {
		for {
			r, more, end := w.next()
			if end {
				return
			}
			if !more {
				break
			}
			w.call(r)
		}
	}
}

// next returns the receipt that has waited longest.
func (w *watcher) next() (r Receipt, more, end bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.stopped:
		return r, false, true
	case len(w.waiting) > 0:
		r = w.waiting[0]
		if w.waiting = w.waiting[1:]; len(w.waiting) == 0 {
			w.waiting = nil
		}
		return r, true, false
	case w.missed > 0:
		r = missedReceipts(w.missed)
		w.missed = 0
		return r, true, false
	}
	return r, false, w.last
}

func (w *watcher) call(r Receipt) {
	defer func() { recover() }() // what watches must not end what it watches
	w.f(r)
}

func missedReceipts(n int) Receipt {
	return Receipt{Op: OpMissed, ToolVersion: Version, Durability: "none", Warnings: []Warning{{
		Reason: WarnReceiptsMissed,
		Hint:   fmt.Sprintf("%d receipts were dropped because the watcher was too slow; the journal has the changes", n),
	}}}
}
