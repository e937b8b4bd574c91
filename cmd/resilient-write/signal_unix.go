//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// ignoreSizeSignal: a file size limit must come back as an error of the write,
// not end the process.
func ignoreSizeSignal() { signal.Ignore(syscall.SIGXFSZ) }

// ignorePipeSignal: so must an output that the client has closed.
func ignorePipeSignal() { signal.Ignore(syscall.SIGPIPE) }
