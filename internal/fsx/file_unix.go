//go:build unix

package fsx

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// file is a regular file of the real file system.
type file struct {
	f     *os.File
	write bool
}

func (f *file) fd() int { return int(f.f.Fd()) }

func (f *file) Read(b []byte) (int, error) {
	n, err := f.f.Read(b)
	return n, f.io("read", err)
}

func (f *file) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.f.ReadAt(b, off)
	return n, f.io("read", err)
}

func (f *file) Write(b []byte) (int, error) {
	n, err := f.f.Write(b)
	return n, f.io("write", err)
}

// WriteAt does not use os.File.WriteAt, which refuses a file that was opened
// for appending before the kernel is asked.
func (f *file) WriteAt(b []byte, off int64) (int, error) {
	done := 0
	for done < len(b) {
		n := 0
		err := retry(func() (err error) {
			n, err = unix.Pwrite(f.fd(), b[done:], off+int64(done))
			return err
		})
		if err != nil {
			return done, bare("write", f.f.Name(), err)
		}
		if n == 0 {
			return done, bare("write", f.f.Name(), io.ErrShortWrite)
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
	// With O_APPEND the position afterwards is the end of what was written.
	end, serr := unix.Seek(f.fd(), 0, io.SeekCurrent)
	switch {
	case err != nil:
		return 0, bare("append", f.f.Name(), err)
	case serr != nil:
		return 0, bare("append", f.f.Name(), serr)
	case n < len(b):
		// What a full disk or a limit cuts off shows its reason on the rest.
		_, err := unix.Write(f.fd(), b[n:])
		if err == nil {
			err = io.ErrShortWrite
		}
		return end - int64(n), bare("append", f.f.Name(), err)
	}
	return end - int64(n), nil
}

// io passes io.EOF through and takes the path out of everything else.
func (f *file) io(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return bare(op, f.f.Name(), err)
}

func (f *file) Stat() (Stat, error) { return fstat(f.f) }

func (f *file) Sync() error { return bare("sync", f.f.Name(), syncFile(f.f)) }

func (f *file) Datasync() error {
	return bare("datasync", f.f.Name(), retry(func() error { return datasync(f.f) }))
}

func (f *file) Truncate(size int64) error {
	return bare("truncate", f.f.Name(), retry(func() error { return unix.Ftruncate(f.fd(), size) }))
}

func (f *file) Chmod(mode uint32) error {
	return bare("chmod", f.f.Name(), retry(func() error { return unix.Fchmod(f.fd(), mode) }))
}

func (f *file) Chown(uid, gid int) error {
	return bare("chown", f.f.Name(), retry(func() error { return unix.Fchown(f.fd(), uid, gid) }))
}

func (f *file) Xattrs() (map[string][]byte, error) {
	names, err := flistxattr(f.fd())
	if err != nil {
		if noXattrs(err) {
			return nil, nil
		}
		return nil, bare("xattrs", f.f.Name(), err)
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
	return bare("setxattr", f.f.Name(), retry(func() error { return unix.Fsetxattr(f.fd(), name, value, 0) }))
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

func (f *file) Close() error { return bare("close", f.f.Name(), f.f.Close()) }
