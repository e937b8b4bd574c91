package fsx

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
)

// OpenEntry opens name for reading, if it is a regular file or a symlink. The
// content of a symlink is its target; nothing is opened through it.
func OpenEntry(d Dir, name string) (File, error) {
	for {
		f, err := d.Open(name, Read, 0)
		var kind *TypeError
		if err == nil || !errors.As(err, &kind) || kind.Kind != Symlink {
			return f, err
		}
		link, err := openLink(d, name)
		if link != nil || err != nil {
			return link, err
		}
	}
}

// openLink reads a symlink. It returns nil where another entry has taken its name
// meanwhile.
func openLink(d Dir, name string) (File, error) {
	st, err := d.Lstat(name)
	if err != nil || st.Kind != Symlink {
		return nil, err
	}
	target, err := d.Readlink(name)
	if err != nil {
		return nil, Unless(err, syscall.EINVAL)
	}
	if now, err := d.Lstat(name); err != nil || now.Ino != st.Ino || now.Ctime != st.Ctime {
		return nil, err
	}
	st.Size = int64(len(target))
	return &link{strings.NewReader(target), name, st}, nil
}

// link is the target of a symlink as a file that can be read. A symlink is never
// written to: it is made whole, and its directory makes it durable.
type link struct {
	*strings.Reader
	name string
	st   Stat
}

func (l *link) refuse(op string) error {
	return &fs.PathError{Op: op, Path: l.name, Err: &TypeError{Symlink}}
}

func (l *link) Stat() (Stat, error)                      { return l.st, nil }
func (l *link) Close() error                             { return nil }
func (l *link) Sync() error                              { return nil }
func (l *link) Datasync() error                          { return nil }
func (l *link) Write([]byte) (int, error)                { return 0, l.refuse("write") }
func (l *link) WriteAt([]byte, int64) (int, error)       { return 0, l.refuse("write") }
func (l *link) Append([]byte) (int64, error)             { return 0, l.refuse("write") }
func (l *link) Truncate(int64) error                     { return l.refuse("truncate") }
func (l *link) Chmod(uint32) error                       { return l.refuse("chmod") }
func (l *link) Chown(int, int) error                     { return l.refuse("chown") }
func (l *link) Xattrs() (map[string][]byte, error)       { return nil, nil }
func (l *link) SetXattr(string, []byte) error            { return l.refuse("setxattr") }
func (l *link) Unshared() bool                           { return true }
func (l *link) InUse() bool                              { return false }
func (l *link) WriteOut()                                {}
func (l *link) Forget()                                  {}
func (l *link) Clone(File) error                         { return l.refuse("clone") }
func (l *link) TryLock(int64, int64, bool) (bool, error) { return false, l.refuse("lock") }
func (l *link) Unlock(int64, int64) error                { return l.refuse("lock") }
