// Package failpoint lets tests and examples of this module act between two
// stages of a write, for example end the process there. Nothing outside the
// module can reach it; an unarmed point costs one atomic load.
package failpoint

import "sync/atomic"

var armed atomic.Pointer[func(point string)]

// Arm has fn called at every point until the returned function is called.
func Arm(fn func(point string)) (disarm func()) {
	armed.Store(&fn)
	return func() { armed.Store(nil) }
}

// At is a point.
func At(point string) {
	if fn := armed.Load(); fn != nil {
		(*fn)(point)
	}
}
