//go:build !unix

package testbed

import "time"

var started = time.Now()

// processorTime is the time since the start where the system is not asked for
// more.
func processorTime() time.Duration { return time.Since(started) }
