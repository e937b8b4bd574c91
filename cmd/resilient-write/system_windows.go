package main

import (
	"errors"
	"net"

	"golang.org/x/sys/windows"
)

func listenUnix(string) (net.Listener, error) {
	return nil, errors.New("this system has no file modes to protect it; use --host")
}

func ignoreSizeSignal() {}

func ignorePipeSignal() {}

// handedOver reports whether the caller left a handle open. Whether it is
// writable is known only when it is written to.
func handedOver(fd int) bool {
	_, err := windows.GetFileType(windows.Handle(fd))
	return err == nil
}
