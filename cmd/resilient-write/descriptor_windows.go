package main

import "golang.org/x/sys/windows"

// handedOver reports whether the caller left a handle open. Whether it is
// writable is known only when it is written to.
func handedOver(fd int) bool {
	_, err := windows.GetFileType(windows.Handle(fd))
	return err == nil
}
