// Package fsx is the file system as this project uses it: open directories and
// single names.
//
// Every operation names one entry of one open directory. A name is a single
// path component – no separator, not "." and not ".." – and is never followed
// when it is a symbolic link. A walk through the tree is therefore a sequence
// of OpenDir calls, and a component that is swapped for a symlink between two
// of them is an error instead of an escape.
//
// [OpenRoot] gives the real file system. Package simfs implements the same interfaces
// in memory, with faults and crashes. Each method says what it promises about stable
// storage; what a method does not promise, a power failure may undo.
//
// Errors carry the errno of the platform, so that errors.Is works against
// fs.ErrNotExist, fs.ErrExist, fs.ErrPermission and syscall.Errno values. They
// hold no absolute path.
package fsx

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ErrUnsupported is returned by the operations that not every file system
// offers: Exchange, RenameNoReplace, Link, Symlink, Clone, SyncEach,
// extended attributes, Unshared.
var ErrUnsupported = errors.New("operation not supported by this file system")

// Dir is an open directory. It is safe for concurrent use. It stays valid and
// keeps pointing at the same directory when that is renamed.
type Dir interface {
	// OpenDir opens the directory name. A symlink or another kind of file is
	// an error ([NotDir]).
	OpenDir(name string) (Dir, error)

	// Open opens the regular file name. It never blocks on a FIFO or device: the file
	// is opened without blocking, and anything but a regular file, including a symlink,
	// is refused with a [*TypeError].
	Open(name string, flag Flag, perm uint32) (File, error)

	// Mkdir makes the directory name with perm less the umask. It is durable
	// after Sync of this directory.
	Mkdir(name string, perm uint32) error

	// Lstat describes name without following it.
	Lstat(name string) (Stat, error)

	// Readlink returns the target of the symlink name.
	Readlink(name string) (string, error)

	// Symlink makes the symlink name with the given target. It fails with fs.ErrExist
	// if name is taken, and with ErrUnsupported if links cannot be made. The link and
	// its target are durable after Sync of this directory.
	Symlink(target, name string) error

	// Names returns the names in the directory, sorted.
	Names() ([]string, error)

	// Link makes newName in to a second name of the file name. It fails with
	// fs.ErrExist when newName is taken, and never replaces. It is durable
	// after Sync of to.
	Link(name string, to Dir, newName string) error

	// Rename moves name to newName in to and replaces an existing entry, in one step.
	// It is durable after Sync of either directory.
	Rename(name string, to Dir, newName string) error

	// RenameNoReplace is Rename that fails with fs.ErrExist when newName is
	// taken.
	RenameNoReplace(name string, to Dir, newName string) error

	// Exchange swaps the two entries, which must both exist, in one step. It
	// is durable after Sync of either directory.
	Exchange(name string, to Dir, newName string) error

	// Remove removes a name that is not a directory, Rmdir an empty
	// directory. Both are durable after Sync.
	Remove(name string) error
	Rmdir(name string) error

	// Stat describes the directory itself.
	Stat() (Stat, error)

	// Writable returns the error that this process gets when it adds or removes an
	// entry: no permission, a file system that is mounted read-only, an immutable
	// directory. nil does not promise that it can.
	Writable() error

	// Chmod sets the permission bits of the directory itself (07777).
	Chmod(mode uint32) error

	// Chown sets the owner and the group of the directory itself; an id of -1 is
	// left unchanged.
	Chown(uid, gid int) error

	// Volume describes the file system of the directory.
	Volume() (Volume, error)

	// Xattr returns one extended attribute of the directory. The error is
	// ErrUnsupported or fs.ErrNotExist if there is none.
	Xattr(name string) ([]byte, error)

	// Sync makes the entries of the directory durable, not their files.
	Sync() error

	// OnFailedSync has failed called with the error of each Sync of the directory, and
	// of those that are opened from it, that fails.
	OnFailedSync(failed func(error))

	// SyncEach is Sync of each of the files and directories, which may be anywhere, all requested at
	// once, so that the file system can combine them. It returns when all are done; errs holds the
	// result of each. If the system does not support this, or not now, err is [ErrUnsupported], and
	// nothing is done. After any other err it is unknown which of them were done.
	SyncEach(list []Syncer) (errs []error, err error)

	Close() error
}

// Syncer is a [File] or a [Dir].
type Syncer interface{ Sync() error }

// File is an open regular file. ReadAt, WriteAt, Append and the lock methods
// are safe for concurrent use.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.WriterAt
	io.Closer

	// Append writes b in one call at the end of a file opened with [Append]
	// and returns the offset at which it landed.
	Append(b []byte) (off int64, err error)

	Stat() (Stat, error)

	// Sync makes data and metadata durable. It does not make the name of a
	// new file durable: that takes Sync of its directory.
	Sync() error

	// Datasync makes the data, and of the metadata the size, durable.
	Datasync() error

	Truncate(size int64) error

	// Chmod takes permission bits with setuid, setgid and sticky (07777).
	Chmod(mode uint32) error

	// Chown leaves an id of -1 unchanged.
	Chown(uid, gid int) error

	// Xattrs returns all extended attributes, ACLs among them. A file system
	// without them gives an empty map.
	Xattrs() (map[string][]byte, error)
	SetXattr(name string, value []byte) error

	// Unshared reports whether the system can vouch that no other process has the
	// file open for writing at this moment. false means "another program has, or it
	// cannot be known".
	Unshared() bool

	// InUse reports whether the system knows that another program has the file open for
	// writing at this moment. If this cannot be determined, InUse returns false.
	InUse() bool

	// WriteOut starts to send the content to the device, so that a Sync that
	// follows has less to wait for. It waits for nothing itself and promises
	// nothing; an error that it meets is returned by that Sync.
	WriteOut()

	// Forget advises the system that the content will not be read soon, so that
	// the memory it takes can be used for something else. It is only a hint.
	Forget()

	// Clone gives the file, which is empty, the content of src; the two share its
	// blocks until one of them is written to.
	Clone(src File) error

	// TryLock tries to take the byte range [off, off+n) without waiting. The lock
	// belongs to this open file: another open file of the same process conflicts with
	// it. It ends when the file is closed or the process dies. Locking a range again
	// converts the lock.
	TryLock(off, n int64, exclusive bool) (ok bool, err error)
	Unlock(off, n int64) error
}

// Flag is how a file is opened.
type Flag int

const (
	Read   Flag = 1 << iota // for reading
	Write                   // for writing
	Append                  // writes land at the end (implies Write)
	Create                  // make the file if it is absent; perm less the umask
	Excl                    // with Create: fail with fs.ErrExist if it is there
)

// Kind is the type of a directory entry.
type Kind uint8

const (
	Other Kind = iota // FIFO, socket, device
	Regular
	Directory
	Symlink
)

// Stat describes a file or directory.
type Stat struct {
	Kind  Kind
	Dev   uint64
	Mount uint64 // of an open directory, where the system numbers mounts; otherwise 0
	Ino   uint64
	Nlink uint64
	Mode  uint32 // permission bits, setuid 04000, setgid 02000, sticky 01000; of a symlink ModeLink
	UID   int
	GID   int
	Size  int64 // bytes
	Mtime int64 // nanoseconds since the Unix epoch
	Ctime int64 // nanoseconds since the Unix epoch
	Btime int64 // of birth: the same; 0 where the system does not report it
}

// The modes of entries that are no files, as git writes them. The permission bits
// of a symlink mean nothing; a directory has its own besides.
const (
	ModeLink = 0o120000
	ModeDir  = 0o040000
)

// KindOf is the kind of the entry that has a mode.
func KindOf(mode uint32) Kind {
	switch mode &^ 0o7777 {
	case ModeLink:
		return Symlink
	case ModeDir:
		return Directory
	}
	return Regular
}

// SameBirth reports whether two files with one inode number are the same file. The number
// of a file that is gone is used again; where the times of birth are known, they differ.
func (s Stat) SameBirth(t Stat) bool { return s.Btime == t.Btime || s.Btime == 0 || t.Btime == 0 }

// SameFile reports whether both describe one inode.
func (s Stat) SameFile(t Stat) bool { return s.Dev == t.Dev && s.Ino == t.Ino }

// SameVolume reports whether files can be renamed between two open directories.
// The same file system in two mounts is two volumes.
func (s Stat) SameVolume(t Stat) bool { return s.Dev == t.Dev && s.Mount == t.Mount }

// ModTime is Mtime as a time.
func (s Stat) ModTime() time.Time { return time.Unix(0, s.Mtime) }

// Volume describes the file system of a directory.
type Volume struct {
	Free   int64  // bytes an unprivileged process may still use
	Size   int64  // bytes in all; 0 where unknown
	Type   string // "ext4", "tmpfs", "nfs" …, "" where unknown
	Remote bool   // network or FUSE: durability and locks are not to be trusted
	// NoJournal is set where a power cut can leave a rename half done: FAT, ext2, ext4
	// without a journal.
	NoJournal bool
	// Ordered is set where a power cut that keeps a name also keeps the size that its file
	// was cut to before it got the name, and the mode that it was made with: ext4 with a
	// journal, xfs.
	Ordered bool
	Births  bool // the times of birth of its files are exact and stay
}

// TypeError reports that a name is not of the requested kind.
type TypeError struct{ Kind Kind }

func (e *TypeError) Error() string {
	switch e.Kind {
	case Directory:
		return "is a directory"
	case Symlink:
		return "is a symbolic link"
	}
	return "is not a regular file"
}

// SetMode gives a file a mode, unless it has it: where modes cannot be changed, the usual
// one is most often right.
func SetMode(f File, mode uint32) error {
	st, err := f.Stat()
	if err != nil || st.Mode == mode {
		return err
	}
	return f.Chmod(mode)
}

// OpenPath opens the directory at a path below root, name by name, so that it follows
// no link. The path "" is root itself. done closes the directory, if one was opened.
func OpenPath(root Dir, path string) (dir Dir, done func(), err error) {
	if path == "" {
		return root, func() {}, nil
	}
	dir = root
	for name := range strings.SplitSeq(path, "/") {
		next, err := dir.OpenDir(name)
		if dir != root {
			dir.Close()
		}
		if err != nil {
			return nil, func() {}, err
		}
		dir = next
	}
	return dir, func() { dir.Close() }, nil
}

// Look describes the entry that a path below a directory leads to, in one system call
// where there is one. Then it follows links that are not the last name, so what it returns
// is only good for comparing identities.
func Look(root Dir, path string) (Stat, error) {
	if d, ok := root.(interface {
		Look(path string) (Stat, error)
	}); ok {
		return d.Look(path)
	}
	parent, name := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		parent, name = path[:i], path[i+1:]
	}
	dir, done, err := OpenPath(root, parent)
	defer done()
	if err != nil {
		return Stat{}, err
	}
	return dir.Lstat(name)
}

// NotDir reports whether the error of opening a directory says that it is something else.
func NotDir(err error) bool { return errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) }

// Nothing reports whether the error of a look at a path says that nothing is there for
// this user. Others say nothing of what is there.
func Nothing(err error) bool {
	var kind *TypeError
	if errors.As(err, &kind) {
		return true
	}
	nothing := []error{fs.ErrNotExist, fs.ErrPermission, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.EINVAL}
	return slices.ContainsFunc(nothing, func(none error) bool { return errors.Is(err, none) })
}

// Unless returns err, or nil if it is the expected error.
func Unless(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// bare wraps the error number of err without the path it may name.
func bare(op, name string, err error) error {
	if err == nil {
		return nil
	}
	var n syscall.Errno
	if errors.As(err, &n) {
		err = n
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// checkName makes sure that a name is a single component.
func checkName(op string, names ...string) error {
	for _, name := range names {
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, notInNames) {
			return &fs.PathError{Op: op, Path: "?", Err: syscall.EINVAL}
		}
	}
	return nil
}
