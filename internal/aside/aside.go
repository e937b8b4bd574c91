// Package aside runs functions that cannot be interrupted, without keeping a
// caller waiting that has given up.
package aside

import "context"

// from is the size in bytes from which a function runs in its own goroutine.
const from = 1 << 20

// slots holds a slot for each running function, including those whose caller has
// stopped waiting.
var slots = make(chan struct{}, 4)

// Run runs f, which takes time linear in size, and waits for it until ctx is done
// at the latest: f then ends by itself, and the data that it reads must not be
// changed.
func Run[T any](ctx context.Context, size int, f func() T) (out T, err error) {
	if size <= from {
		return f(), nil
	}
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return out, ctx.Err()
	}
	done := make(chan func() T, 1)
	go func() {
		defer func() { <-slots }()
		defer func() {
			if v := recover(); v != nil {
				done <- func() T { panic(v) } // as if it had been called there
			}
		}()
		made := f()
		done <- func() T { return made }
	}()
	select {
	case made := <-done:
		return made(), nil
	case <-ctx.Done():
		return out, ctx.Err()
	}
}
