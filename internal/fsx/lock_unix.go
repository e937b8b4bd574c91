//go:build unix

package fsx

import "golang.org/x/sys/unix"

// Locks belong to the open file, not to the process (fcntl(2), "open file
// description locks"): two opens of one file in one process conflict, and
// closing another descriptor of the file gives nothing up.

func (f *file) TryLock(off, n int64, exclusive bool) (bool, error) {
	kind := int16(unix.F_RDLCK)
	if exclusive {
		kind = unix.F_WRLCK
	}
	err := f.setLock(kind, off, n)
	if err == unix.EAGAIN || err == unix.EACCES {
		return false, nil
	}
	return err == nil, bare("lock", f.name, err)
}

func (f *file) Unlock(off, n int64) error {
	return bare("unlock", f.name, f.setLock(unix.F_UNLCK, off, n))
}

func (f *file) setLock(kind int16, off, n int64) error {
	return retry(func() error {
		return unix.FcntlFlock(uintptr(f.fd()), setLock, &unix.Flock_t{Type: kind, Whence: 0, Start: off, Len: n})
	})
}
