//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// ignoreSizeSignal makes a file size limit an error of the write instead of
// ending the process.
func ignoreSizeSignal() { signal.Ignore(syscall.SIGXFSZ) }

// ignorePipeSignal does the same for an output that the client has closed.
func ignorePipeSignal() { signal.Ignore(syscall.SIGPIPE) }
