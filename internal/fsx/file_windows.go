package fsx

import (
	"cmp"
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
	mu     sync.Mutex     // orders appends of this process; guards held
	held   map[int64]bool // the locked bytes: true if exclusive
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
	st, err := statOf(windows.Handle(f.f.Fd()))
	return st, bare("stat", f.name, err)
}

func (f *file) Sync() error { return bare("sync", f.name, f.flush()) }

func (f *file) Datasync() error { return bare("datasync", f.name, f.flush()) }

var reOpenFile = windows.NewLazySystemDLL("kernel32.dll").NewProc("ReOpenFile")

// flush flushes the file. The system flushes only what is open for writing.
func (f *file) flush() error {
	h := windows.Handle(f.f.Fd())
	err := windows.FlushFileBuffers(h)
	if err != windows.ERROR_ACCESS_DENIED {
		return err
	}
	again, _, err := reOpenFile.Call(uintptr(h), windows.GENERIC_WRITE, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, 0)
	if windows.Handle(again) == windows.InvalidHandle {
		return err
	}
	defer windows.CloseHandle(windows.Handle(again))
	return windows.FlushFileBuffers(windows.Handle(again))
}

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

// TryLock locks each byte by itself, because the system gives back only whole ranges as
// they were locked, and refuses to lock a range for itself that the same file shares.
func (f *file) TryLock(off, n int64, exclusive bool) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var taken []int64
	for at := off; at < off+n; at++ {
		_, held := f.held[at]
		ok, err := f.lock(at, exclusive)
		if !ok || err != nil {
			for _, at := range taken {
				f.unlock(at)
			}
			return false, bare("lock", f.name, err)
		}
		if !held {
			taken = append(taken, at)
		}
	}
	return true, nil
}

// lock locks one byte, or converts the lock. A lock that is to become exclusive ends first, so
// that another process may get it.
func (f *file) lock(at int64, exclusive bool) (bool, error) {
	had, held := f.held[at]
	if held && had == exclusive {
		return true, nil
	}
	if held && exclusive {
		if err := f.unlock(at); err != nil {
			return false, err
		}
	}
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if exclusive {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := windows.LockFileEx(windows.Handle(f.f.Fd()), flags, 0, 1, 0, overlapped(at))
	switch {
	case err == nil && held && !exclusive:
		err = f.unlock(at) // the first unlock ends the exclusive lock
	case err == windows.ERROR_LOCK_VIOLATION || err == windows.ERROR_IO_PENDING:
		if held && exclusive {
			_, err := f.lock(at, false)
			return false, err
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if f.held == nil {
		f.held = map[int64]bool{}
	}
	f.held[at] = exclusive
	return true, nil
}

func (f *file) Unlock(off, n int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var first error
	for at := off; at < off+n; at++ {
		if _, held := f.held[at]; held {
			first = cmp.Or(first, f.unlock(at))
		}
	}
	return bare("unlock", f.name, first)
}

func (f *file) unlock(at int64) error {
	delete(f.held, at)
	return windows.UnlockFileEx(windows.Handle(f.f.Fd()), 0, 1, 0, overlapped(at))
}

func overlapped(off int64) *windows.Overlapped {
	return &windows.Overlapped{Offset: uint32(off), OffsetHigh: uint32(off >> 32)}
}

// Close gives the locks back first: the system promises no time for those of a closed file.
func (f *file) Close() error {
	f.mu.Lock()
	for at := range f.held {
		f.unlock(at)
	}
	f.mu.Unlock()
	return bare("close", f.name, f.f.Close())
}
