package scan

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// MostTime is how long the patterns of a policy may compute in one request.
// What a byte costs depends on the text as much as on the expression, from one
// to 30,000 ns, so it is measured and not counted.
const MostTime = 20 * time.Second

// mostAtOnce is the most that counts between two looks, in which the process
// may have been suspended.
const mostAtOnce = 100 * time.Millisecond

// CostlyError says that a pattern of the policy took too long.
type CostlyError struct{ Pattern string }

func (e *CostlyError) Error() string {
	return fmt.Sprintf("the pattern %s takes too long on this text", e.Pattern)
}

// allowance is what the scans of one request may still spend on patterns of a
// policy. It is a context, so that it ends scans as cancellation does.
type allowance struct {
	context.Context
	left    atomic.Int64 // ns
	costly  atomic.Pointer[CostlyError]
	unasked bool // made by one scan, whose caller does not look at Err
}

type allowanceKey struct{}

// Bounded returns a context for all scans of one request, which bounds how long
// the patterns of a policy compute in them together. When they exceed it, Err
// returns a [CostlyError], and the reports are of no use. Scans without such a
// context have MostTime each; what they do not judge is then in findings.
func Bounded(ctx context.Context, most time.Duration) context.Context {
	return newAllowance(ctx, most, false)
}

func newAllowance(ctx context.Context, most time.Duration, unasked bool) *allowance {
	a := &allowance{Context: ctx, unasked: unasked}
	a.left.Store(int64(most))
	return a
}

func (a *allowance) Err() error {
	if e := a.costly.Load(); e != nil && !a.unasked {
		return e
	}
	return a.Context.Err()
}

func (a *allowance) Value(key any) any {
	if key == (allowanceKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// spend takes the time since a look for a rule, and reports whether there was
// enough.
func (a *allowance) spend(r *rule, since time.Time) bool {
	if a.left.Add(-int64(min(time.Since(since), mostAtOnce))) <= 0 {
		a.costly.CompareAndSwap(nil, &CostlyError{r.id})
		return false
	}
	return true
}

// bounded are the options with an allowance, where the policy has patterns.
func (s *Scanner) bounded(opt Options) Options {
	if len(s.custom) == 0 {
		return opt
	}
	if a := allowanceOf(opt.Context); a.unasked {
		opt.Context = a
	}
	return opt
}

// allowanceOf is the allowance of a context, or a new one that is done when the
// context is.
func allowanceOf(ctx context.Context) *allowance {
	ctx = cmp.Or(ctx, context.Background())
	if a, ok := ctx.Value(allowanceKey{}).(*allowance); ok {
		return a
	}
	return newAllowance(ctx, MostTime, true)
}
