package object

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// Every call has an allowance of time and of repeated requests, which its context carries. All
// attempts to send a request again and to learn its outcome share this allowance, however many
// layers make them.
const (
	callTime    = time.Minute      // of one call, plus the time for its bytes
	requestTime = 20 * time.Second // of one request, likewise
	repeated    = 5                // requests of one call
	slowest     = 64 << 10         // bytes per second; determines the time for the bytes of a call
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

// timeFor returns the time that a number of bytes may take.
func timeFor(size int64) time.Duration { return time.Duration(size/slowest) * time.Second }

// WithAllowance returns a context with the allowance of a call with size bytes: the context ends
// after one minute and 16 seconds for each MiB, and it counts repeated requests. A context that
// already has an allowance is returned unchanged. The methods of a [Store] call WithAllowance; a
// caller that combines several of them into one call does so first.
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

// Again takes one repeated request from the allowance of a context. It reports false if none is
// left or the context has ended.
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

// extend adds time to the call for an answer of some bytes.
func extend(ctx context.Context, size int64) {
	if a, ok := ctx.Value(allowanceKey{}).(*allowance); ok {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.end = a.end.Add(timeFor(size))
		a.timer.Reset(time.Until(a.end))
	}
}

// pause is like Again, but also waits before the request is repeated for the
// nth time.
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
