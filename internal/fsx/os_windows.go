package fsx

import (
	"errors"
	"io/fs"
	"os"
	"sort"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// OpenRoot opens the directory path of the real file system. Operations that this
// system does not support return ErrUnsupported; docs/durability.md describes the
// consequences.
func OpenRoot(path string) (Dir, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, bare("openroot", ".", err)
	}
	defer f.Close()
	// The handle of package os keeps others from renaming the directory.
	h, err := (&dir{f}).open("", directoryAccess, windows.FILE_OPEN, windows.FILE_DIRECTORY_FILE)
	if err != nil {
		return nil, bare("openroot", ".", err)
	}
	return &dir{os.NewFile(uintptr(h), path)}, nil
}

// Inherit does nothing: what is created inherits from its directory.
func Inherit(Dir) (other bool, err error) { return false, nil }

// Plain does nothing, for the same reason.
func Plain(Dir) {}

// notInNames are the characters that no name has.
const notInNames = "/\\:\x00"

// FlushesNames reports whether Sync of a directory makes its names durable.
const FlushesNames = false

const directoryAccess = windows.FILE_LIST_DIRECTORY | windows.FILE_READ_ATTRIBUTES

// dir is a directory of the real file system. Names are opened relative to its handle, so
// that it stays the same directory when it is renamed.
type dir struct{ f *os.File }

func (d *dir) handle() windows.Handle { return windows.Handle(d.f.Fd()) }

// open opens an entry, or the directory itself if name is empty. It follows no link.
func (d *dir) open(name string, access, disposition, options uint32) (windows.Handle, error) {
	return d.openAs(name, access, disposition, options|windows.FILE_OPEN_REPARSE_POINT)
}

func (d *dir) openAs(name string, access, disposition, options uint32) (windows.Handle, error) {
	text, err := windows.NewNTUnicodeString(name)
	if err != nil {
		return 0, err
	}
	attributes := &windows.OBJECT_ATTRIBUTES{RootDirectory: d.handle(), ObjectName: text, Attributes: windows.OBJ_CASE_INSENSITIVE}
	attributes.Length = uint32(unsafe.Sizeof(*attributes))
	var h windows.Handle
	err = windows.NtCreateFile(&h, access|windows.SYNCHRONIZE, attributes, &windows.IO_STATUS_BLOCK{}, nil, windows.FILE_ATTRIBUTE_NORMAL,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, disposition,
		options|windows.FILE_SYNCHRONOUS_IO_NONALERT|windows.FILE_OPEN_FOR_BACKUP_INTENT, 0, 0)
	return h, errnoOf(err)
}

// errnoOf returns the error number of the status of a system call.
func errnoOf(err error) error {
	switch err {
	case nil:
		return nil
	case windows.STATUS_NOT_A_DIRECTORY:
		return syscall.ENOTDIR
	case windows.STATUS_FILE_IS_A_DIRECTORY:
		return syscall.EISDIR
	case windows.STATUS_DIRECTORY_NOT_EMPTY:
		return syscall.ENOTEMPTY
	case windows.STATUS_NOT_SAME_DEVICE:
		return syscall.EXDEV
	case windows.STATUS_DELETE_PENDING:
		return windows.ERROR_SHARING_VIOLATION // it is gone when its last user closes it
	}
	var status windows.NTStatus
	if errors.As(err, &status) {
		return status.Errno()
	}
	return err
}

func (d *dir) OpenDir(name string) (Dir, error) {
	if err := checkName("opendir", name); err != nil {
		return nil, err
	}
	h, err := d.open(name, directoryAccess, windows.FILE_OPEN, windows.FILE_DIRECTORY_FILE)
	if err != nil {
		return nil, bare("opendir", name, err)
	}
	st, err := statOf(h)
	if err == nil && st.Kind != Directory {
		err = syscall.ENOTDIR
	}
	if err != nil {
		windows.CloseHandle(h)
		return nil, bare("opendir", name, err)
	}
	return &dir{os.NewFile(uintptr(h), name)}, nil
}

func (d *dir) Open(name string, flag Flag, perm uint32) (File, error) {
	if err := checkName("open", name); err != nil {
		return nil, err
	}
	access := uint32(windows.FILE_READ_ATTRIBUTES)
	if flag&Read != 0 || flag&(Write|Append) == 0 {
		access |= windows.FILE_GENERIC_READ
	}
	if flag&(Write|Append) != 0 {
		access |= windows.FILE_GENERIC_WRITE
	}
	disposition := uint32(windows.FILE_OPEN)
	switch {
	case flag&Create == 0:
	case flag&Excl != 0:
		disposition = windows.FILE_CREATE
	default:
		disposition = windows.FILE_OPEN_IF
	}
	h, err := d.open(name, access, disposition, windows.FILE_NON_DIRECTORY_FILE)
	if err == syscall.EISDIR {
		kind := Directory
		if st, lerr := d.Lstat(name); lerr == nil {
			kind = st.Kind
		}
		err = &TypeError{kind}
	}
	var tag uint32
	if err == nil {
		tag, err = reparseTag(h)
		if err == nil && elsewhere(tag) {
			err = &TypeError{Symlink}
		}
		if tag != 0 || err != nil {
			windows.CloseHandle(h)
		}
	}
	if err == nil && tag != 0 {
		// What a driver keeps in a way of its own, such as a file in a cloud, is read and
		// written through the driver.
		h, err = d.openAs(name, access, windows.FILE_OPEN, windows.FILE_NON_DIRECTORY_FILE)
	}
	if err != nil {
		return nil, bare("open", name, err)
	}
	return &file{f: os.NewFile(uintptr(h), name), name: name, append: flag&Append != 0}, nil
}

func (d *dir) Mkdir(name string, perm uint32) error {
	if err := checkName("mkdir", name); err != nil {
		return err
	}
	h, err := d.open(name, directoryAccess, windows.FILE_CREATE, windows.FILE_DIRECTORY_FILE)
	if err == nil {
		windows.CloseHandle(h)
	}
	return bare("mkdir", name, err)
}

func (d *dir) Lstat(name string) (Stat, error) {
	if err := checkName("lstat", name); err != nil {
		return Stat{}, err
	}
	h, err := d.open(name, windows.FILE_READ_ATTRIBUTES, windows.FILE_OPEN, 0)
	if err != nil {
		return Stat{}, bare("lstat", name, err)
	}
	st, err := statOf(h)
	windows.CloseHandle(h)
	if err == nil && st.Kind == Symlink {
		var target string
		target, err = d.Readlink(name)
		st.Size = int64(len(target))
	}
	return st, bare("lstat", name, err)
}

// path returns the present path of the directory.
func (d *dir) path() (string, error) {
	buf := make([]uint16, 512)
	for {
		n, err := windows.GetFinalPathNameByHandle(d.handle(), &buf[0], uint32(len(buf)), 0)
		if err != nil || int(n) < len(buf) {
			return windows.UTF16ToString(buf), err
		}
		buf = make([]uint16, n)
	}
}

func (d *dir) Readlink(name string) (string, error) {
	path, err := d.path()
	var target string
	if err == nil {
		target, err = os.Readlink(path + `\` + name)
	}
	return target, bare("readlink", name, err)
}

// Symlink is not supported: a link has no identity here that would show whether it was
// published, and most users are not allowed to create any.
func (d *dir) Symlink(_, name string) error {
	return &fs.PathError{Op: "symlink", Path: name, Err: ErrUnsupported}
}

func (d *dir) Names() ([]string, error) {
	h, err := d.open("", directoryAccess, windows.FILE_OPEN, windows.FILE_DIRECTORY_FILE)
	if err != nil {
		return nil, bare("readdir", ".", err)
	}
	f := os.NewFile(uintptr(h), ".")
	defer f.Close()
	names, err := f.Readdirnames(-1)
	sort.Strings(names)
	return names, bare("readdir", ".", err)
}

// Information classes of NtSetInformationFile (ntifs.h). Those with Ex take flags. They need
// Windows 10 and a file system that knows them, such as NTFS; the others cannot replace or
// remove a file that is open.
const (
	renameInformation        = 10
	linkInformation          = 11
	dispositionInformation   = 13
	dispositionInformationEx = 64
	renameInformationEx      = 65
)

// set is NtSetInformationFile.
func set(h windows.Handle, class uint32, info []byte) error {
	return errnoOf(windows.NtSetInformationFile(h, &windows.IO_STATUS_BLOCK{}, &info[0], uint32(len(info)), class))
}

// unknown reports whether the system or the file system does not know an information class.
func unknown(err error) bool {
	return err == windows.ERROR_INVALID_PARAMETER || err == windows.ERROR_NOT_SUPPORTED || err == windows.ERROR_INVALID_FUNCTION || err == windows.ERROR_CALL_NOT_IMPLEMENTED
}

// target is the structure of the classes that give an entry another name:
// FILE_RENAME_INFORMATION and FILE_LINK_INFORMATION.
func (d *dir) target(flags uint32, name string) ([]byte, error) {
	text, err := windows.UTF16FromString(name)
	if err != nil {
		return nil, err
	}
	text = text[:len(text)-1]
	type header struct {
		flags  uint32 // or one byte: replace
		root   windows.Handle
		length uint32 // of the name that follows, in bytes
	}
	at := unsafe.Offsetof(header{}.length) + unsafe.Sizeof(header{}.length)
	info := make([]byte, max(at+2*uintptr(len(text)), unsafe.Sizeof(header{})))
	h := (*header)(unsafe.Pointer(&info[0]))
	h.flags, h.root, h.length = flags, d.handle(), uint32(2*len(text))
	copy(unsafe.Slice((*uint16)(unsafe.Pointer(&info[at])), len(text)), text)
	return info, nil
}

func (d *dir) rename(name string, to Dir, newName string, flags uint32) error {
	flags |= windows.FILE_RENAME_POSIX_SEMANTICS | windows.FILE_RENAME_IGNORE_READONLY_ATTRIBUTE
	return d.name("rename", windows.DELETE, name, to, newName, flags, func(h windows.Handle, info []byte) error {
		err := set(h, renameInformationEx, info)
		if unknown(err) {
			info[0] &= windows.FILE_RENAME_REPLACE_IF_EXISTS
			clear(info[1:4])
			if err = set(h, renameInformation, info); err == windows.ERROR_ACCESS_DENIED {
				err = windows.ERROR_SHARING_VIOLATION // this class does not replace what is open
			}
		}
		return err
	})
}

// name gives the file name, opened with access, a name in another directory by means of do.
func (d *dir) name(op string, access uint32, name string, to Dir, newName string, flags uint32, do func(h windows.Handle, info []byte) error) error {
	if err := checkName(op, name, newName); err != nil {
		return err
	}
	info, err := to.(*dir).target(flags, newName)
	if err != nil {
		return bare(op, name, err)
	}
	h, err := d.open(name, access, windows.FILE_OPEN, 0)
	if err != nil {
		return bare(op, name, err)
	}
	defer windows.CloseHandle(h)
	return bare(op, name, do(h, info))
}

func (d *dir) Link(name string, to Dir, newName string) error {
	return d.name("link", windows.FILE_WRITE_ATTRIBUTES, name, to, newName, 0, func(h windows.Handle, info []byte) error {
		return set(h, linkInformation, info)
	})
}

func (d *dir) Rename(name string, to Dir, newName string) error {
	return d.rename(name, to, newName, windows.FILE_RENAME_REPLACE_IF_EXISTS)
}

func (d *dir) RenameNoReplace(name string, to Dir, newName string) error {
	return d.rename(name, to, newName, 0)
}

func (d *dir) Exchange(name string, _ Dir, _ string) error {
	return &fs.PathError{Op: "exchange", Path: name, Err: ErrUnsupported}
}

func (d *dir) Remove(name string) error { return d.remove("remove", name, false) }

func (d *dir) Rmdir(name string) error { return d.remove("rmdir", name, true) }

func (d *dir) remove(op, name string, directory bool) error {
	if err := checkName(op, name); err != nil {
		return err
	}
	h, err := d.open(name, windows.DELETE|windows.FILE_READ_ATTRIBUTES, windows.FILE_OPEN, 0)
	if err != nil {
		return bare(op, name, err)
	}
	defer windows.CloseHandle(h)
	st, err := statOf(h)
	switch {
	case err != nil:
	case directory && st.Kind != Directory:
		err = syscall.ENOTDIR
	case !directory && st.Kind == Directory:
		err = syscall.EISDIR
	default:
		flags := byte(windows.FILE_DISPOSITION_DELETE | windows.FILE_DISPOSITION_POSIX_SEMANTICS | windows.FILE_DISPOSITION_IGNORE_READONLY_ATTRIBUTE)
		if err = set(h, dispositionInformationEx, []byte{flags, 0, 0, 0}); unknown(err) {
			err = set(h, dispositionInformation, []byte{1})
		}
	}
	return bare(op, name, err)
}

func (d *dir) Stat() (Stat, error) {
	st, err := statOf(d.handle())
	return st, bare("stat", ".", err)
}

// Chmod does nothing: who may use a directory is said by its access control
// list, which is inherited.
func (d *dir) Chmod(uint32) error { return nil }

func (d *dir) Chown(uid, gid int) error { return nil }

// Writable is not asked here: access control lists say more than one question can.
func (d *dir) Writable() error { return nil }

func (d *dir) Volume() (Volume, error) {
	path, err := d.path()
	var free, size uint64
	if err == nil {
		var p *uint16
		if p, err = windows.UTF16PtrFromString(path + `\`); err == nil {
			err = windows.GetDiskFreeSpaceEx(p, &free, &size, nil)
		}
	}
	return Volume{Free: int64(min(free, 1<<62)), Size: int64(min(size, 1<<62))}, bare("statfs", ".", err)
}

func (d *dir) Xattr(name string) ([]byte, error) {
	return nil, &fs.PathError{Op: "getxattr", Path: name, Err: ErrUnsupported}
}

// Sync does nothing that could fail: a directory cannot be flushed here. NTFS journals
// its names, which keeps them consistent, but does not report when they are on the
// disk.
func (d *dir) Sync() error { return nil }

func (d *dir) OnFailedSync(func(error)) {}

// SyncEach has no counterpart here.
func (d *dir) SyncEach([]Syncer) ([]error, error) {
	return nil, &fs.PathError{Op: "synceach", Path: ".", Err: ErrUnsupported}
}

func (d *dir) Close() error { return bare("close", ".", d.f.Close()) }

// statOf describes an open file or directory. The times are those of NTFS: a change of
// content or metadata sets ChangeTime. A time of birth is not exact: a new file gets that
// of one of its name that was removed just before.
func statOf(h windows.Handle) (Stat, error) {
	var info windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(h, &info); err != nil {
		return Stat{}, err
	}
	var basic struct {
		creation, access, write, change int64
		attributes                      uint32
	}
	if err := windows.GetFileInformationByHandleEx(h, windows.FileBasicInfo, (*byte)(unsafe.Pointer(&basic)), uint32(unsafe.Sizeof(basic))); err != nil {
		return Stat{}, err
	}
	st := Stat{
		Kind: Regular, Mode: 0o666, UID: -1, GID: -1,
		Dev: uint64(info.VolumeSerialNumber), Ino: uint64(info.FileIndexHigh)<<32 | uint64(info.FileIndexLow), Nlink: uint64(info.NumberOfLinks),
		Size: int64(info.FileSizeHigh)<<32 | int64(info.FileSizeLow), Mtime: unixTime(basic.write), Ctime: unixTime(basic.change),
	}
	if info.FileAttributes&windows.FILE_ATTRIBUTE_READONLY != 0 {
		st.Mode = 0o444
	}
	if info.FileAttributes&windows.FILE_ATTRIBUTE_DIRECTORY != 0 {
		st.Kind, st.Mode = Directory, 0o777
	}
	tag, err := reparseTag(h)
	if elsewhere(tag) {
		st.Kind, st.Mode = Symlink, ModeLink
	}
	return st, err
}

// unixTime converts intervals of 100 ns since 1601.
func unixTime(t int64) int64 {
	ft := windows.Filetime{LowDateTime: uint32(t), HighDateTime: uint32(t >> 32)}
	return ft.Nanoseconds()
}

// reparseTag returns the tag of a reparse point, 0 of other entries.
func reparseTag(h windows.Handle) (uint32, error) {
	var info struct{ attributes, tag uint32 }
	err := windows.GetFileInformationByHandleEx(h, windows.FileAttributeTagInfo, (*byte)(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err != nil || info.attributes&windows.FILE_ATTRIBUTE_REPARSE_POINT == 0 {
		return 0, err
	}
	return info.tag, nil
}

// elsewhere reports whether a reparse point stands for another name: symlinks, junctions
// and mount points do (ntifs.h: IsReparseTagNameSurrogate).
func elsewhere(tag uint32) bool { return tag&0x20000000 != 0 }

// DescriptorLimit returns the maximum number of open files of the process. Windows has
// no such limit.
func DescriptorLimit() int { return 1 << 20 }
