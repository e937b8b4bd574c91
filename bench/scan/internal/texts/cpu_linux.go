package texts

import (
	"time"

	"golang.org/x/sys/unix"
)

// CPU returns the CPU time of this process.
func CPU() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t) != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(t.Nano())
}
