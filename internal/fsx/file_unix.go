//go:build unix

package fsx

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// handle is a descriptor of the process. It is not an os.File, which queries the kernel
// for the flags of each descriptor and has a finalizer. The code that opens a handle
// must close it.
type handle struct {
	n    atomic.Int64 // -1 once it is closed
	name string
}

func (h *handle) fd() int { return int(h.n.Load()) }

func (h *handle) Stat() (Stat, error) {
	st, _, err := statAt(h.fd(), "", h.name)
	return st, err
}

func (h *handle) Chmod(mode uint32) error {
	return bare("chmod", h.name, retry(func() error { return unix.Fchmod(h.fd(), mode) }))
}

func (h *handle) Sync() error {
	return bare("sync", h.name, retry(func() error { return syncFile(h.fd()) }))
}

func (h *handle) Close() error {
	n := h.n.Swap(-1)
	if n < 0 {
		return bare("close", h.name, fs.ErrClosed)
	}
	return bare("close", h.name, unix.Close(int(n)))
}

// file is a regular file of the real file system.
type file struct {
	handle
	write bool
}

func newFile(fd int, name string, write bool) *file {
	f := &file{handle: handle{name: name}, write: write}
	f.n.Store(int64(fd))
	return f
}

func (f *file) Read(b []byte) (int, error) {
	return f.read(b, func(b []byte, _ int64) (int, error) { return unix.Read(f.fd(), b) }, 0, false)
}

func (f *file) ReadAt(b []byte, off int64) (int, error) {
	return f.read(b, func(b []byte, at int64) (int, error) { return unix.Pread(f.fd(), b, at) }, off, true)
}

// read reads once, or until b is full.
func (f *file) read(b []byte, call func([]byte, int64) (int, error), off int64, full bool) (int, error) {
	done := 0
	for done < len(b) {
		n := 0
		err := retry(func() (err error) {
			n, err = call(b[done:], off+int64(done))
			return err
		})
		if err != nil {
			return done, bare("read", f.name, err)
		}
		if n == 0 {
			return done, io.EOF
		}
		if done += n; !full {
			break
		}
	}
	return done, nil
}

func (f *file) Write(b []byte) (int, error) {
	return f.writeAll(b, func(b []byte, _ int64) (int, error) { return unix.Write(f.fd(), b) }, 0)
}

func (f *file) WriteAt(b []byte, off int64) (int, error) {
	return f.writeAll(b, func(b []byte, at int64) (int, error) { return unix.Pwrite(f.fd(), b, at) }, off)
}

func (f *file) writeAll(b []byte, call func([]byte, int64) (int, error), off int64) (int, error) {
	done := 0
	for done < len(b) {
		n := 0
		err := retry(func() (err error) {
			n, err = call(b[done:], off+int64(done))
			return err
		})
		if err != nil {
			return done, bare("write", f.name, err)
		}
		if n == 0 {
			return done, bare("write", f.name, io.ErrShortWrite)
		}
		done += n
	}
	return done, nil
}

func (f *file) Append(b []byte) (int64, error) {
	n := 0
	err := retry(func() (err error) {
		n, err = unix.Write(f.fd(), b)
		return err
	})
	// With O_APPEND the position afterwards is the end of the written bytes.
	end, serr := unix.Seek(f.fd(), 0, io.SeekCurrent)
	switch {
	case err != nil:
		return 0, bare("append", f.name, err)
	case serr != nil:
		return 0, bare("append", f.name, serr)
	case n < len(b):
		// A write that a full disk or a limit cut short fails with the reason when it
		// is continued.
		_, err := unix.Write(f.fd(), b[n:])
		err = cmp.Or(err, io.ErrShortWrite)
		return end - int64(n), bare("append", f.name, err)
	}
	return end - int64(n), nil
}

func (f *file) Datasync() error {
	return bare("datasync", f.name, retry(func() error { return datasync(f.fd()) }))
}

func (f *file) Truncate(size int64) error {
	return bare("truncate", f.name, retry(func() error { return unix.Ftruncate(f.fd(), size) }))
}

func (h *handle) Chown(uid, gid int) error {
	return bare("chown", h.name, retry(func() error { return unix.Fchown(h.fd(), uid, gid) }))
}

func (f *file) Xattrs() (map[string][]byte, error) {
	names, err := flistxattr(f.fd())
	if err != nil {
		if noXattrs(err) {
			return nil, nil
		}
		return nil, bare("xattrs", f.name, err)
	}
	attrs := make(map[string][]byte, len(names))
	for _, name := range names {
		value, err := fgetxattr(f.fd(), name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		attrs[name] = value
	}
	return attrs, nil
}

func (f *file) SetXattr(name string, value []byte) error {
	return bare("setxattr", f.name, retry(func() error { return unix.Fsetxattr(f.fd(), name, value, 0) }))
}

func noXattrs(err error) bool {
	return err == unix.ENOTSUP || err == unix.EOPNOTSUPP || err == unix.ENOSYS
}

// flistxattr lists the names; the list may grow between the two calls.
func flistxattr(fd int) ([]string, error) {
	for {
		n, err := unix.Flistxattr(fd, nil)
		if err != nil || n == 0 {
			return nil, err
		}
		buf := make([]byte, n)
		n, err = unix.Flistxattr(fd, buf)
		if err == unix.ERANGE {
			continue
		}
		if err != nil {
			return nil, err
		}
		return splitNames(buf[:n]), nil
	}
}

func splitNames(buf []byte) []string {
	var names []string
	start := 0
	for i, c := range buf {
		if c == 0 {
			names = append(names, string(buf[start:i]))
			start = i + 1
		}
	}
	return names
}

func fgetxattr(fd int, name string) ([]byte, error) {
	for {
		n, err := unix.Fgetxattr(fd, name, nil)
		if err != nil {
			return nil, xattrError(name, err)
		}
		buf := make([]byte, n)
		if n, err = unix.Fgetxattr(fd, name, buf); err == unix.ERANGE {
			continue
		}
		if err != nil {
			return nil, xattrError(name, err)
		}
		return buf[:n], nil
	}
}

func xattrError(name string, err error) error {
	switch {
	case err == noAttribute:
		err = fs.ErrNotExist
	case noXattrs(err):
		err = ErrUnsupported
	}
	return &fs.PathError{Op: "getxattr", Path: name, Err: err}
}
