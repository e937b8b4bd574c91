//go:build unix

package main

import "golang.org/x/sys/unix"

// handedOver reports whether the caller left a descriptor open for writing.
// Descriptors that the process opened itself are close-on-exec, so they cannot
// be inherited ones.
func handedOver(fd int) bool {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil || own&unix.FD_CLOEXEC != 0 {
		return false
	}
	mode, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err == nil && mode&unix.O_ACCMODE != unix.O_RDONLY
}
