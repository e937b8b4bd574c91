//go:build unix

package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// listenUnix creates a socket that only this user can connect to. It is bound
// in a private directory and then moved to its place, so that it never exists
// with another mode. A socket without a listener is replaced.
func listenUnix(path string) (net.Listener, error) {
	if err := clearSocket(path); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".rw")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	hidden := filepath.Join(dir, "s")
	if len(hidden) > maxSocketPath {
		return nil, errors.New("its path is too long for a socket")
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: hidden, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // that would remove its first name
	if err = os.Chmod(hidden, 0o600); err == nil {
		err = os.Link(hidden, path) // unlike a rename, a link replaces nothing
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return &socket{l, path}, nil
}

// maxSocketPath is the path length that every system accepts.
const maxSocketPath = 100

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

// socket removes its file when it is closed.
type socket struct {
	*net.UnixListener
	path string
}

func (s *socket) Close() error {
	err := s.UnixListener.Close()
	if err == nil {
		os.Remove(s.path)
	}
	return err
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
