package fsx

import (
	"golang.org/x/sys/unix"
)

func exchange(from int, name string, to int, newName string) error {
	return unix.RenameatxNp(from, name, to, newName, unix.RENAME_SWAP)
}

func renameNoReplace(from int, name string, to int, newName string) error {
	return unix.RenameatxNp(from, name, to, newName, unix.RENAME_EXCL)
}

func times(st *unix.Stat_t) (mtime, ctime, birth unix.Timespec) { return st.Mtim, st.Ctim, st.Btim }

// statAt describes the entry name of a directory, or with "" the descriptor itself. Mounts
// have no numbers here.
func statAt(fd int, name, shown string) (st Stat, mount uint64, err error) {
	var x unix.Stat_t
	err = retry(func() error {
		if name == "" {
			return unix.Fstat(fd, &x)
		}
		return unix.Fstatat(fd, name, &x, unix.AT_SYMLINK_NOFOLLOW)
	})
	if err != nil {
		return st, 0, bare("stat", shown, err)
	}
	return statOf(&x), 0, nil
}

const noAttribute = unix.ENOATTR

// syncFile flushes through the cache of the drive as well, which fsync alone
// does not do on this system (fsync(2), F_FULLFSYNC).
func syncFile(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0)
	if err == unix.ENOTSUP || err == unix.EINVAL {
		err = unix.Fsync(fd)
	}
	return err
}

func datasync(fd int) error { return syncFile(fd) }

// SyncEach has no counterpart here.
func (d *dir) SyncEach([]Syncer) ([]error, error) {
	return nil, unsupported("synceach", ".", unix.ENOTSUP)
}

// Unshared cannot be known here.
func (f *file) Unshared() bool { return false }

// InUse cannot be known here either.
func (f *file) InUse() bool { return false }

// WriteOut has no counterpart here.
func (f *file) WriteOut() {}

// Forget has no counterpart here.
func (f *file) Forget() {}

// Clone is not asked for here.
func (f *file) Clone(File) error { return unsupported("clone", f.name, unix.ENOTSUP) }

// setLock is F_OFD_SETLK of sys/fcntl.h, which x/sys does not name.
const setLock = 90

func volumeOf(st *unix.Statfs_t, _ *dir) Volume {
	name := unix.ByteSliceToString(st.Fstypename[:])
	remote := map[string]bool{"nfs": true, "smbfs": true, "afpfs": true, "webdav": true, "macfuse": true, "osxfuse": true}
	return Volume{
		Free: int64(st.Bavail) * int64(st.Bsize), Size: int64(st.Blocks) * int64(st.Bsize), Type: name, Remote: remote[name], Births: name == "apfs",
	}
}
