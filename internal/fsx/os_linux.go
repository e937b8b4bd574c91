package fsx

import (
	"bytes"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

func exchange(from int, name string, to int, newName string) error {
	return unix.Renameat2(from, name, to, newName, unix.RENAME_EXCHANGE)
}

func renameNoReplace(from int, name string, to int, newName string) error {
	return unix.Renameat2(from, name, to, newName, unix.RENAME_NOREPLACE)
}

func times(st *unix.Stat_t) (mtime, ctime, birth unix.Timespec) {
	return st.Mtim, st.Ctim, unix.Timespec{}
}

const noAttribute = unix.ENODATA

func syncFile(fd int) error { return unix.Fsync(fd) }

// Stat also reports the mount that the directory is in, from Linux 5.8 on.
func (d *dir) Stat() (Stat, error) {
	st, mount, err := statAt(d.fd(), "", d.name)
	st.Mount = mount
	return st, err
}

// statAt describes the entry name of a directory, or with "" the descriptor itself.
func statAt(fd int, name, shown string) (st Stat, mount uint64, err error) {
	var x unix.Statx_t
	err = retry(func() error {
		return unix.Statx(fd, name, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME|unix.STATX_MNT_ID, &x)
	})
	if err == unix.ENOSYS || err == unix.EPERM { // a filter of system calls does not know it
		var old unix.Stat_t
		err = retry(func() error { return unix.Fstatat(fd, name, &old, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW) })
		if err == nil {
			return statOf(&old), 0, nil
		}
	}
	if err != nil {
		return st, 0, bare("stat", shown, err)
	}
	st = Stat{
		Kind: kindOf(uint32(x.Mode)), Dev: unix.Mkdev(x.Dev_major, x.Dev_minor), Ino: x.Ino, Nlink: uint64(x.Nlink),
		Mode: uint32(x.Mode) & 0o7777, UID: int(x.Uid), GID: int(x.Gid), Size: int64(x.Size),
		Mtime: x.Mtime.Sec*1e9 + int64(x.Mtime.Nsec), Ctime: x.Ctime.Sec*1e9 + int64(x.Ctime.Nsec),
	}
	if st.Kind == Symlink {
		st.Mode = ModeLink
	}
	if x.Mask&unix.STATX_BTIME != 0 {
		st.Btime = x.Btime.Sec*1e9 + int64(x.Btime.Nsec)
	}
	if x.Mask&unix.STATX_MNT_ID != 0 {
		mount = x.Mnt_id
	}
	return st, mount, nil
}

func datasync(fd int) error { return unix.Fdatasync(fd) }

// Unshared requests a read lease, which the kernel grants only if no process has the
// file open for writing, and releases it (fcntl(2), F_SETLEASE).
func (f *file) Unshared() bool {
	if f.write {
		return false
	}
	if _, err := unix.FcntlInt(uintptr(f.fd()), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		return false
	}
	_, err := unix.FcntlInt(uintptr(f.fd()), unix.F_SETLEASE, unix.F_UNLCK)
	return err == nil
}

// InUse requests the same lease: EAGAIN means that the file is open for writing.
func (f *file) InUse() bool {
	if f.write {
		return false
	}
	_, err := unix.FcntlInt(uintptr(f.fd()), unix.F_SETLEASE, unix.F_RDLCK)
	if err == nil {
		unix.FcntlInt(uintptr(f.fd()), unix.F_SETLEASE, unix.F_UNLCK)
	}
	return err == unix.EAGAIN
}

// WriteOut starts writing the dirty pages (sync_file_range(2)). It allocates their
// blocks now, in the current transaction of the file system. Flushes of many files then
// have one transaction to commit, instead of one each.
func (f *file) WriteOut() { unix.SyncFileRange(f.fd(), 0, 0, unix.SYNC_FILE_RANGE_WRITE) }

// Forget drops the clean pages of the file from the page cache.
func (f *file) Forget() { unix.Fadvise(f.fd(), 0, 0, unix.FADV_DONTNEED) }

// Clone is FICLONE (ioctl_ficlonerange(2)).
func (f *file) Clone(src File) error {
	from, ok := src.(*file)
	if !ok {
		return unsupported("clone", f.name, unix.EOPNOTSUPP)
	}
	err := retry(func() error { return unix.IoctlFileClone(f.fd(), from.fd()) })
	switch err {
	case unix.EOPNOTSUPP, unix.EXDEV, unix.EINVAL, unix.ENOTTY, unix.ENOSYS:
		return unsupported("clone", f.name, err)
	}
	return bare("clone", f.name, err)
}

const setLock = unix.F_OFD_SETLK

// volumes names the file systems by the magic number statfs(2) gives.
var volumes = map[int64]string{
	unix.EXT4_SUPER_MAGIC:      "ext4", // also ext2 and ext3
	unix.XFS_SUPER_MAGIC:       "xfs",
	unix.BTRFS_SUPER_MAGIC:     "btrfs",
	unix.TMPFS_MAGIC:           "tmpfs",
	unix.RAMFS_MAGIC:           "ramfs",
	unix.OVERLAYFS_SUPER_MAGIC: "overlay",
	unix.F2FS_SUPER_MAGIC:      "f2fs",
	unix.MSDOS_SUPER_MAGIC:     "vfat",
	unix.EXFAT_SUPER_MAGIC:     "exfat",
	0x2fc12fc1:                 "zfs",
	unix.NFS_SUPER_MAGIC:       "nfs",
	unix.SMB_SUPER_MAGIC:       "smb",
	unix.CIFS_SUPER_MAGIC:      "cifs",
	unix.SMB2_SUPER_MAGIC:      "smb2",
	unix.V9FS_MAGIC:            "9p",
	unix.FUSE_SUPER_MAGIC:      "fuse",
	unix.AFS_SUPER_MAGIC:       "afs",
	unix.CEPH_SUPER_MAGIC:      "ceph",
	0x0bd00bd0:                 "lustre",
}

var remote = map[string]bool{
	"nfs": true, "smb": true, "cifs": true, "smb2": true, "9p": true, "fuse": true, "afs": true, "ceph": true, "lustre": true,
}

// hasJournal reports whether the kernel lists a mode of the journal among the options of
// an ext4 file system, and whether it lists any. It lists all options there, unlike in
// mountinfo.
func (d *dir) hasJournal() (has, known bool) {
	st, err := d.Stat()
	if err != nil {
		return false, false
	}
	device, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil {
		return false, false
	}
	options, err := os.ReadFile("/proc/fs/ext4/" + path.Base(device) + "/options")
	return bytes.Contains(options, []byte("data=")), err == nil
}

// births are those whose time of birth is kept to the nanosecond. overlayfs shows that of
// another file after the first change, and vfat rounds it.
var births = map[string]bool{"ext4": true, "xfs": true, "btrfs": true, "f2fs": true, "tmpfs": true}

func volumeOf(st *unix.Statfs_t, d *dir) Volume {
	name := volumes[int64(uint32(st.Type))]
	has, known := false, false
	if name == "ext4" {
		has, known = d.hasJournal()
	}
	return Volume{
		Free: int64(st.Bavail) * int64(st.Bsize), Size: int64(st.Blocks) * int64(st.Bsize), Type: name, Remote: remote[name], Births: births[name],
		NoJournal: name == "vfat" || name == "exfat" || known && !has,
		Ordered:   has || name == "xfs",
	}
}
