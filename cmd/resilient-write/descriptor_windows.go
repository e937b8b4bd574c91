package main

import "golang.org/x/sys/windows"

// handedOver reports whether the caller left a handle open. Whether it may be
// written to shows when it is.
func handedOver(fd int) bool {
	_, err := windows.GetFileType(windows.Handle(fd))
	return err == nil
}
