package object

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// Every call has an allowance of time and of repeated requests, which its context carries: all that is done for the call, to send a request again and to learn its outcome,
// takes from one allowance, however many layers do it.
const (
	callTime    = time.Minute      // of one call, to which the time for its bytes is added
	requestTime = 20 * time.Second // of one request, likewise
	repeated    = 5                // requests of one call
	slowest     = 64 << 10         // bytes per second of which a call is given time
	pauseMost   = 5 * time.Second
)

var errStalled = errors.New("the object store did not answer in time")

type allowanceKey struct{}

type allowance struct {
	mu    sync.Mutex
	left  int
	end   time.Time
	timer *time.Timer
}

// timeFor is the time that a number of bytes may take.
func timeFor(size int64) time.Duration { return time.Duration(size/slowest) * time.Second }

// WithAllowance returns a context that ends when the time is over that a call with size bytes is given, one minute and 16 seconds for each MiB, and that counts repeated requests.
// A context that has an allowance is returned as it is. The methods of a [Store] call it; a caller that combines some of them into one call does so first.
func WithAllowance(ctx context.Context, size int) (context.Context, context.CancelFunc) {
	if ctx.Value(allowanceKey{}) != nil {
		return ctx, func() {}
	}
	limit := callTime + timeFor(int64(size))
	ctx, cancel := context.WithCancelCause(ctx)
	a := &allowance{left: repeated, end: time.Now().Add(limit)}
	a.timer = time.AfterFunc(limit, func() { cancel(errStalled) })
	return context.WithValue(ctx, allowanceKey{}, a), func() {
		a.timer.Stop()
		cancel(nil)
	}
}

// Again takes one repeated request from the allowance of a context. It reports false when there is none left, or the context has ended.
func Again(ctx context.Context) bool {
	a, ok := ctx.Value(allowanceKey{}).(*allowance)
	if !ok || ctx.Err() != nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left--
	return a.left >= 0
}

// extend gives the call time for an answer of some bytes.
func extend(ctx context.Context, size int64) {
	if a, ok := ctx.Value(allowanceKey{}).(*allowance); ok {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.end = a.end.Add(timeFor(size))
		a.timer.Reset(time.Until(a.end))
	}
}

// pause is Again, and waits before the request is repeated for the nth time.
func pause(ctx context.Context, first time.Duration, n int) bool {
	if !Again(ctx) {
		return false
	}
	wait := min(first<<n, pauseMost)
	timer := time.NewTimer(wait/2 + rand.N(wait/2+1))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
