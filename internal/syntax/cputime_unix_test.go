//go:build unix

package syntax

import (
	"syscall"
	"time"
)

// spent returns the processor time of this process, which other processes do not
// make longer.
func spent() time.Duration {
	var use syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &use) != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
