package fsx

import (
	"io"
	"os"
	"sync"

	"golang.org/x/sys/windows"
)

// file is a regular file of the real file system.
type file struct {
	f      *os.File
	name   string
	append bool
	mu     sync.Mutex // orders appends of this process
}

func (f *file) Read(b []byte) (int, error) {
	n, err := f.f.Read(b)
	return n, f.io("read", err)
}

func (f *file) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.f.ReadAt(b, off)
	return n, f.io("read", err)
}

func (f *file) Write(b []byte) (int, error) {
	if f.append {
		_, err := f.Append(b)
		if err != nil {
			return 0, err
		}
		return len(b), nil
	}
	n, err := f.f.Write(b)
	return n, f.io("write", err)
}

func (f *file) WriteAt(b []byte, off int64) (int, error) {
	n, err := f.f.WriteAt(b, off)
	return n, f.io("write", err)
}

// Append writes at the current end. The system has no append that returns the offset of
// the write, so a concurrent append by another program is not detected here.
func (f *file) Append(b []byte) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := f.f.Stat()
	if err != nil {
		return 0, bare("append", f.name, err)
	}
	_, err = f.f.WriteAt(b, info.Size())
	return info.Size(), f.io("append", err)
}

func (f *file) io(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return bare(op, f.name, err)
}

func (f *file) Stat() (Stat, error) {
	info, err := f.f.Stat()
	if err != nil {
		return Stat{}, bare("stat", f.name, err)
	}
	st := statOf(info)
	identify(f.f, &st)
	return st, nil
}

func (f *file) Sync() error               { return bare("sync", f.name, f.f.Sync()) }
func (f *file) Datasync() error           { return bare("datasync", f.name, f.f.Sync()) }
func (f *file) Truncate(size int64) error { return bare("truncate", f.name, f.f.Truncate(size)) }

// Chmod keeps what this system has of permission bits: read-only or not.
func (f *file) Chmod(mode uint32) error {
	return bare("chmod", f.name, f.f.Chmod(os.FileMode(mode&0o777)))
}

func (f *file) Chown(uid, gid int) error { return nil }

func (f *file) Xattrs() (map[string][]byte, error) { return nil, nil }

func (f *file) SetXattr(name string, _ []byte) error { return bare("setxattr", f.name, ErrUnsupported) }

// Unshared cannot be known here.
func (f *file) Unshared() bool { return false }

// InUse cannot be known here either.
func (f *file) InUse() bool { return false }

// WriteOut has no counterpart here.
func (f *file) WriteOut() {}

// Forget has no counterpart here.
func (f *file) Forget() {}

// Clone is not asked for here.
func (f *file) Clone(File) error { return bare("clone", f.name, ErrUnsupported) }

func (f *file) TryLock(off, n int64, exclusive bool) (bool, error) {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if exclusive {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	ol := &windows.Overlapped{Offset: uint32(off), OffsetHigh: uint32(off >> 32)}
	err := windows.LockFileEx(windows.Handle(f.f.Fd()), flags, 0, uint32(n), uint32(n>>32), ol)
	if err == windows.ERROR_LOCK_VIOLATION || err == windows.ERROR_IO_PENDING {
		return false, nil
	}
	return err == nil, bare("lock", f.name, err)
}

func (f *file) Unlock(off, n int64) error {
	ol := &windows.Overlapped{Offset: uint32(off), OffsetHigh: uint32(off >> 32)}
	return bare("unlock", f.name, windows.UnlockFileEx(windows.Handle(f.f.Fd()), 0, uint32(n), uint32(n>>32), ol))
}

func (f *file) Close() error { return bare("close", f.name, f.f.Close()) }
