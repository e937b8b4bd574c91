//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

func ignoreSizeSignal() { signal.Ignore(syscall.SIGXFSZ) }
