//go:build !unix

package syntax

import "time"

var started = time.Now()

// spent returns the time since the start of the tests, for want of anything better.
func spent() time.Duration { return time.Since(started) }
