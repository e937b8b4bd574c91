//go:build unix

package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxSocketPath is the path length that every system accepts.
const maxSocketPath = 100

// listenUnix creates a socket that only this user can connect to: the umask gives it
// its mode, so that it never exists with another one. A socket without a listener is
// replaced. No other file is created meanwhile: the store is not open yet.
func listenUnix(path string) (net.Listener, error) {
	if strings.HasPrefix(path, "@") {
		path = "./" + path // without a directory it names no file, and every user could connect
	}
	if err := clearSocket(path); err != nil {
		return nil, err
	}
	if len(path) > maxSocketPath {
		return nil, errors.New("its path is too long for a socket")
	}
	defer unix.Umask(unix.Umask(0o177))
	return net.Listen("unix", path)
}

// clearSocket removes a socket that a dead process left.
func clearSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("its path is in use by something else")
	}
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return errors.New("another process is listening on it")
	}
	return os.Remove(path)
}

// ignoreSizeSignal makes a file size limit an error of the write instead of
// ending the process.
func ignoreSizeSignal() { signal.Ignore(syscall.SIGXFSZ) }

// ignorePipeSignal does the same for an output that the client has closed.
func ignorePipeSignal() { signal.Ignore(syscall.SIGPIPE) }

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
