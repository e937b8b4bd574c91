//go:build unix

package fsx

import (
	"errors"
	"io/fs"
	"os"
	"sort"
	"sync"

	"golang.org/x/sys/unix"
)

// OpenRoot opens the directory path of the real file system. os.Root is the
// entry; from there every operation is a call on an open directory with one
// name, which leaves no path for another process to swap.
func OpenRoot(path string) (Dir, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, bare("openroot", ".", err)
	}
	defer root.Close()
	f, err := root.Open(".")
	if err != nil {
		return nil, bare("openroot", ".", err)
	}
	defer f.Close()
	fd := -1
	err = retry(func() (err error) {
		fd, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, bare("openroot", ".", err)
	}
	return newDir(fd, "."), nil
}

// retry repeats a call that a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// notInNames are the characters that no name has.
const notInNames = "/\x00"

// FlushesNames reports whether Sync of a directory makes its names durable.
const FlushesNames = true

// dir is a directory of the real file system.
type dir struct {
	handle
	owner  *owner      // of what is created in it; nil: this process
	failed func(error) // is told of failed flushes; nil: nothing is
}

type owner struct{ uid, gid int }

func newDir(fd int, name string) *dir {
	d := &dir{handle: handle{name: name}}
	d.n.Store(int64(fd))
	return d
}

func (d *dir) OpenDir(name string) (Dir, error) {
	if err := checkName("opendir", name); err != nil {
		return nil, err
	}
	fd := -1
	err := retry(func() (err error) {
		fd, err = unix.Openat(d.fd(), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, bare("opendir", name, err)
	}
	sub := newDir(fd, name)
	sub.owner, sub.failed = d.owner, d.failed
	return sub, nil
}

func (d *dir) OnFailedSync(failed func(error)) { d.failed = failed }

func (d *dir) Sync() error {
	err := d.handle.Sync()
	if err != nil && d.failed != nil {
		d.failed(err)
	}
	return err
}

// Inherit makes what is created in a directory, and in those that are opened from it,
// belong to its owner, if this process is root and the owner is another user. Files that
// root left would lock the owner out. Symbolic links remain those of root.
func Inherit(in Dir) (other bool, err error) {
	d, ok := in.(*dir)
	if !ok || os.Geteuid() != 0 {
		return false, nil
	}
	st, err := d.Stat()
	if err != nil {
		return false, err
	}
	if d.owner = nil; st.UID != 0 {
		d.owner = &owner{st.UID, st.GID}
	}
	return d.owner != nil, nil
}

// Plain makes a directory give no group and no ACL to what is created in it, as far as
// the file system lets it.
func Plain(in Dir) {
	d, ok := in.(*dir)
	if !ok {
		return
	}
	if st, err := d.Stat(); err == nil && st.Mode&unix.S_ISGID != 0 {
		d.Chmod(st.Mode &^ unix.S_ISGID)
	}
	unix.Fremovexattr(d.fd(), "system.posix_acl_default")
}

// give gives the owner of the directory what was just created in it. What cannot be
// given, because the file system keeps no owners, remains that of root.
func (d *dir) give(fd int) {
	if d.owner != nil {
		unix.Fchown(fd, d.owner.uid, d.owner.gid)
	}
}

// giveDir is give for a directory, which has to be opened first. What the owner put
// under its name meanwhile is not given to him: it is a directory that is not empty, or
// not one of root.
func (d *dir) giveDir(name string) {
	if d.owner == nil {
		return
	}
	made, err := d.OpenDir(name)
	if err != nil {
		return
	}
	defer made.Close()
	if st, err := made.Stat(); err != nil || st.UID != 0 {
		return
	}
	if names, err := made.Names(); err == nil && len(names) == 0 {
		d.give(made.(*dir).fd())
	}
}

func (d *dir) Open(name string, flag Flag, perm uint32) (File, error) {
	if err := checkName("open", name); err != nil {
		return nil, err
	}
	fd := -1
	err := retry(func() (err error) {
		fd, err = unix.Openat(d.fd(), name, openFlags(flag), perm)
		return err
	})
	if err != nil {
		return nil, d.openError(name, err)
	}
	writes := flag&(Write|Append) != 0
	if flag&Create != 0 && flag&Excl != 0 {
		d.give(fd)
		return newFile(fd, name, writes), nil // it is new, so it is regular
	}
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(fd, &st) }); err != nil {
		unix.Close(fd)
		return nil, bare("open", name, err)
	}
	if kind := kindOf(uint32(st.Mode)); kind != Regular {
		unix.Close(fd)
		return nil, &fs.PathError{Op: "open", Path: name, Err: &TypeError{kind}}
	}
	if flag&Create != 0 && st.Size == 0 && st.Uid == 0 && st.Nlink == 1 { // nothing to learn from, if it is not new
		d.give(fd)
	}
	// The descriptor was opened without blocking so that a FIFO could not hang
	// the open; to a regular file that flag means nothing.
	return newFile(fd, name, writes), nil
}

func openFlags(flag Flag) int {
	mode := unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK
	switch {
	case flag&(Write|Append) == 0:
		mode |= unix.O_RDONLY
	case flag&Read == 0:
		mode |= unix.O_WRONLY
	default:
		mode |= unix.O_RDWR
	}
	if flag&Append != 0 {
		mode |= unix.O_APPEND
	}
	if flag&Create != 0 {
		mode |= unix.O_CREAT
	}
	if flag&Excl != 0 {
		mode |= unix.O_EXCL
	}
	return mode
}

// openError names the kind of a thing that cannot be opened as a file.
func (d *dir) openError(name string, err error) error {
	if err == unix.ELOOP || err == unix.EISDIR || err == unix.ENXIO || err == unix.EOPNOTSUPP || err == unix.EMLINK {
		if st, serr := d.Lstat(name); serr == nil && st.Kind != Regular {
			return &fs.PathError{Op: "open", Path: name, Err: &TypeError{st.Kind}}
		}
	}
	return bare("open", name, err)
}

func (d *dir) Mkdir(name string, perm uint32) error {
	if err := checkName("mkdir", name); err != nil {
		return err
	}
	err := retry(func() error { return unix.Mkdirat(d.fd(), name, perm) })
	if err == nil {
		d.giveDir(name)
	}
	return bare("mkdir", name, err)
}

func (d *dir) Lstat(name string) (Stat, error) {
	if err := checkName("lstat", name); err != nil {
		return Stat{}, err
	}
	return d.Look(name)
}

func (d *dir) Look(path string) (Stat, error) {
	st, _, err := statAt(d.fd(), path, path)
	return st, err
}

func (d *dir) Readlink(name string) (string, error) {
	if err := checkName("readlink", name); err != nil {
		return "", err
	}
	buf := make([]byte, unix.PathMax)
	n := 0
	err := retry(func() (err error) {
		n, err = unix.Readlinkat(d.fd(), name, buf)
		return err
	})
	if err != nil {
		return "", bare("readlink", name, err)
	}
	return string(buf[:n]), nil
}

func (d *dir) Symlink(target, name string) error {
	if err := checkName("symlink", name); err != nil {
		return err
	}
	err := retry(func() error { return unix.Symlinkat(target, d.fd(), name) })
	if err == unix.EPERM || err == unix.EOPNOTSUPP || err == unix.ENOSYS {
		return unsupported("symlink", name, err)
	}
	return bare("symlink", name, err)
}

func (d *dir) Names() ([]string, error) {
	// A handle of its own: reading moves the position of the descriptor.
	fd := -1
	err := retry(func() (err error) {
		fd, err = unix.Openat(d.fd(), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, bare("readdir", ".", err)
	}
	defer unix.Close(fd)
	buf := direntBuffers.Get().(*[direntBuffer]byte)
	defer direntBuffers.Put(buf)
	var names []string
	for {
		n := 0
		err := retry(func() (err error) {
			n, err = unix.ReadDirent(fd, buf[:])
			return err
		})
		if err != nil {
			return names, bare("readdir", ".", err)
		}
		if n <= 0 {
			sort.Strings(names)
			return names, nil
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}

// direntBuffers are lent to those that list directories.
var direntBuffers = sync.Pool{New: func() any { return new([direntBuffer]byte) }}

const direntBuffer = 32 << 10

func (d *dir) Link(name string, to Dir, newName string) error {
	if err := checkName("link", name, newName); err != nil {
		return err
	}
	err := retry(func() error { return unix.Linkat(d.fd(), name, to.(*dir).fd(), newName, 0) })
	switch err {
	case unix.EPERM, unix.EOPNOTSUPP, unix.ENOSYS, unix.EMLINK:
		return unsupported("link", name, err)
	}
	return bare("link", name, err)
}

// unsupported returns ErrUnsupported with the error number.
func unsupported(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: errors.Join(ErrUnsupported, err)}
}

func (d *dir) Rename(name string, to Dir, newName string) error {
	if err := checkName("rename", name, newName); err != nil {
		return err
	}
	return bare("rename", name, retry(func() error { return unix.Renameat(d.fd(), name, to.(*dir).fd(), newName) }))
}

// renameWith is Rename with flags that not every file system supports.
func (d *dir) renameWith(op, name string, to Dir, newName string, call func(from int, name string, to int, newName string) error) error {
	if err := checkName(op, name, newName); err != nil {
		return err
	}
	err := retry(func() error { return call(d.fd(), name, to.(*dir).fd(), newName) })
	switch err {
	case unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP:
		return unsupported(op, name, err)
	}
	return bare(op, name, err)
}

func (d *dir) RenameNoReplace(name string, to Dir, newName string) error {
	return d.renameWith("rename", name, to, newName, renameNoReplace)
}

func (d *dir) Exchange(name string, to Dir, newName string) error {
	return d.renameWith("exchange", name, to, newName, exchange)
}

func (d *dir) Remove(name string) error {
	if err := checkName("remove", name); err != nil {
		return err
	}
	return bare("remove", name, retry(func() error { return unix.Unlinkat(d.fd(), name, 0) }))
}

func (d *dir) Rmdir(name string) error {
	if err := checkName("rmdir", name); err != nil {
		return err
	}
	return bare("rmdir", name, retry(func() error { return unix.Unlinkat(d.fd(), name, unix.AT_REMOVEDIR) }))
}

func (d *dir) Writable() error {
	return bare("access", ".", retry(func() error { return unix.Faccessat(d.fd(), ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS) }))
}

func (d *dir) Volume() (Volume, error) {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(d.fd(), &st) }); err != nil {
		return Volume{}, bare("statfs", ".", err)
	}
	return volumeOf(&st, d), nil
}

func (d *dir) Xattr(name string) ([]byte, error) { return fgetxattr(d.fd(), name) }

func kindOf(mode uint32) Kind {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return Regular
	case unix.S_IFDIR:
		return Directory
	case unix.S_IFLNK:
		return Symlink
	}
	return Other
}

func statOf(st *unix.Stat_t) Stat {
	mtime, ctime, birth := times(st)
	out := Stat{
		Kind: kindOf(uint32(st.Mode)), Dev: uint64(st.Dev), Ino: st.Ino, Nlink: uint64(st.Nlink),
		Mode: uint32(st.Mode) & 0o7777, UID: int(st.Uid), GID: int(st.Gid), Size: st.Size,
		Mtime: mtime.Nano(), Ctime: ctime.Nano(), Btime: birth.Nano(),
	}
	if out.Kind == Symlink {
		out.Mode = ModeLink
	}
	return out
}

// DescriptorLimit is how many descriptors the process may have.
func DescriptorLimit() int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 256
	}
	return int(min(uint64(l.Cur), 1<<20))
}
