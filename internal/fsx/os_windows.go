package fsx

import (
	"errors"
	"io/fs"
	"os"
	"sort"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

// OpenRoot opens the directory path of the real file system. A Dir is an os.Root here,
// whose names cannot lead outside of it. Operations that this system does not support
// return ErrUnsupported; docs/durability.md describes the consequences.
func OpenRoot(path string) (Dir, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, bare("openroot", ".", err)
	}
	return &dir{root}, nil
}

// Inherit does nothing: what is created inherits from its directory.
func Inherit(Dir) (other bool, err error) { return false, nil }

// notInNames are the characters that no name has.
const notInNames = "/\\:\x00"

// FlushesNames reports whether Sync of a directory makes its names durable.
const FlushesNames = false

// dir is a directory of the real file system.
type dir struct{ root *os.Root }

// plain refuses reparse points: symlinks, junctions, mount points.
func (d *dir) plain(op, name string, want Kind) error {
	st, err := d.Lstat(name)
	if err != nil {
		return err
	}
	if st.Kind == want {
		return nil
	}
	if want == Directory {
		return &fs.PathError{Op: op, Path: name, Err: syscall.ENOTDIR}
	}
	return &fs.PathError{Op: op, Path: name, Err: &TypeError{st.Kind}}
}

func (d *dir) OpenDir(name string) (Dir, error) {
	if err := checkName("opendir", name); err != nil {
		return nil, err
	}
	if err := d.plain("opendir", name, Directory); err != nil {
		return nil, err
	}
	root, err := d.root.OpenRoot(name)
	if err != nil {
		return nil, bare("opendir", name, err)
	}
	return &dir{root}, nil
}

func (d *dir) Open(name string, flag Flag, perm uint32) (File, error) {
	if err := checkName("open", name); err != nil {
		return nil, err
	}
	if err := d.plain("open", name, Regular); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	mode := os.O_RDONLY
	switch {
	case flag&(Write|Append) == 0:
	case flag&Read == 0:
		mode = os.O_WRONLY
	default:
		mode = os.O_RDWR
	}
	if flag&Create != 0 {
		mode |= os.O_CREATE
	}
	if flag&Excl != 0 {
		mode |= os.O_EXCL
	}
	f, err := d.root.OpenFile(name, mode, os.FileMode(perm&0o777))
	if err != nil {
		return nil, bare("open", name, err)
	}
	return &file{f: f, name: name, append: flag&Append != 0}, nil
}

func (d *dir) Mkdir(name string, perm uint32) error {
	if err := checkName("mkdir", name); err != nil {
		return err
	}
	return bare("mkdir", name, d.root.Mkdir(name, os.FileMode(perm&0o777)))
}

func (d *dir) Lstat(name string) (Stat, error) {
	if err := checkName("lstat", name); err != nil {
		return Stat{}, err
	}
	info, err := d.root.Lstat(name)
	if err != nil {
		return Stat{}, bare("lstat", name, err)
	}
	st := statOf(info)
	if st.Kind == Symlink {
		target, err := d.Readlink(name)
		st.Size = int64(len(target))
		return st, err
	}
	if st.Kind != Regular {
		return st, nil
	}
	// Identity and link count take an open file.
	f, err := d.root.Open(name)
	if err != nil {
		return st, nil
	}
	defer f.Close()
	identify(f, &st)
	return st, nil
}

func (d *dir) Readlink(name string) (string, error) {
	target, err := d.root.Readlink(name)
	return target, bare("readlink", name, err)
}

// Symlink is not supported: a link has no identity here that would show whether it was
// published, and most users are not allowed to create any.
func (d *dir) Symlink(_, name string) error {
	return &fs.PathError{Op: "symlink", Path: name, Err: ErrUnsupported}
}

func (d *dir) Names() ([]string, error) {
	f, err := d.root.Open(".")
	if err != nil {
		return nil, bare("readdir", ".", err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	sort.Strings(names)
	return names, bare("readdir", ".", err)
}

// between runs an operation that os.Root offers only inside one root. Two
// directories of one workspace have no root in common here, so the names are
// used as they were opened; both were opened without following anything.
func between(op, name string, from *dir, to Dir, newName string, call func(from, to string) error) error {
	if err := checkName(op, name, newName); err != nil {
		return err
	}
	t := to.(*dir)
	return bare(op, name, call(from.root.Name()+`\`+name, t.root.Name()+`\`+newName))
}

func (d *dir) Link(name string, to Dir, newName string) error {
	return between("link", name, d, to, newName, os.Link)
}

func (d *dir) Rename(name string, to Dir, newName string) error {
	return between("rename", name, d, to, newName, os.Rename)
}

func (d *dir) RenameNoReplace(name string, to Dir, newName string) error {
	return between("rename", name, d, to, newName, func(from, to string) error {
		a, err := windows.UTF16PtrFromString(from)
		if err != nil {
			return err
		}
		b, err := windows.UTF16PtrFromString(to)
		if err != nil {
			return err
		}
		return windows.MoveFileEx(a, b, windows.MOVEFILE_WRITE_THROUGH)
	})
}

func (d *dir) Exchange(name string, _ Dir, _ string) error {
	return &fs.PathError{Op: "exchange", Path: name, Err: ErrUnsupported}
}

func (d *dir) Remove(name string) error {
	if err := checkName("remove", name); err != nil {
		return err
	}
	return bare("remove", name, d.root.Remove(name))
}

func (d *dir) Rmdir(name string) error { return d.Remove(name) }

func (d *dir) Stat() (Stat, error) {
	f, err := d.root.Open(".")
	if err != nil {
		return Stat{}, bare("stat", ".", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Stat{}, bare("stat", ".", err)
	}
	st := statOf(info)
	identify(f, &st)
	return st, nil
}

// Chmod does nothing: who may use a directory is said by its access control
// list, which is inherited.
func (d *dir) Chmod(uint32) error { return nil }

func (d *dir) Chown(uid, gid int) error { return nil }

// Writable is not asked here: access control lists say more than one question can.
func (d *dir) Writable() error { return nil }

func (d *dir) Volume() (Volume, error) {
	path, err := windows.UTF16PtrFromString(d.root.Name())
	if err != nil {
		return Volume{}, bare("statfs", ".", err)
	}
	var free, size uint64
	if err := windows.GetDiskFreeSpaceEx(path, &free, &size, nil); err != nil {
		return Volume{}, bare("statfs", ".", err)
	}
	return Volume{Free: int64(min(free, 1<<62)), Size: int64(min(size, 1<<62))}, nil
}

func (d *dir) Xattr(name string) ([]byte, error) {
	return nil, &fs.PathError{Op: "getxattr", Path: name, Err: ErrUnsupported}
}

// Sync does nothing that could fail: a directory cannot be flushed here. NTFS journals
// its names, which keeps them consistent, but does not report when they are on the
// disk.
func (d *dir) Sync() error { return nil }

// SyncEach has no counterpart here.
func (d *dir) SyncEach([]Syncer) ([]error, error) {
	return nil, &fs.PathError{Op: "synceach", Path: ".", Err: ErrUnsupported}
}

func (d *dir) Close() error { return bare("close", ".", d.root.Close()) }

func statOf(info os.FileInfo) Stat {
	st := Stat{Kind: Other, Nlink: 1, Mode: uint32(info.Mode().Perm()), UID: -1, GID: -1, Size: info.Size(), Mtime: info.ModTime().UnixNano()}
	switch m := info.Mode(); {
	case m.IsRegular():
		st.Kind = Regular
	case m.IsDir():
		st.Kind = Directory
	case m&os.ModeSymlink != 0:
		st.Kind, st.Mode = Symlink, ModeLink
	}
	if data, ok := info.Sys().(*syscall.Win32FileAttributeData); ok {
		st.Ctime = time.Unix(0, data.CreationTime.Nanoseconds()).UnixNano()
	}
	return st
}

// identify fills in what only an open file reports.
func identify(f *os.File, st *Stat) {
	var info windows.ByHandleFileInformation
	if windows.GetFileInformationByHandle(windows.Handle(f.Fd()), &info) != nil {
		return
	}
	st.Dev, st.Nlink = uint64(info.VolumeSerialNumber), uint64(info.NumberOfLinks)
	st.Ino = uint64(info.FileIndexHigh)<<32 | uint64(info.FileIndexLow)
}

// DescriptorLimit returns the maximum number of open files of the process. Windows has
// no such limit.
func DescriptorLimit() int { return 1 << 20 }
