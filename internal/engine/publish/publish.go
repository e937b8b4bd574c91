// Package publish brings the files of a commit under their names.
//
// Every mutation of a commit has a slot: an entry of a directory of the store
// whose name was durable before it was used. The bytes of the new file are
// written to the slot and flushed, then the journal row that names the slot is
// flushed, then the slot is renamed to its target or exchanged with it. So one
// directory entry says how far a recorded mutation is: while the slot holds the
// inode that its name holds, the mutation is not published; otherwise it is.
//
// Each [Primitive] is one primitive. Its file holds the four things that must agree:
// Publish, Undo, Judge for recovery, and what Publish does when recovery calls
// it again.
package publish

import (
	"errors"
	"io"
	"io/fs"
	"syscall"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Primitive names a primitive. The journal row holds it.
type Primitive string

const (
	Create  Primitive = "create"  // the slot is renamed to a name that is free
	Replace Primitive = "replace" // the slot is exchanged with the target
	Delete  Primitive = "delete"  // the target is renamed over the empty slot
	Move    Primitive = "move"    // the source is renamed to the target
	Append  Primitive = "append"  // the bytes of the slot are written at the end of the target
	InPlace Primitive = "inplace" // the bytes of the slot are written over the target
)

var (
	// ErrForeign is returned when another program changed the target, or the
	// source of a move, after it was looked at. The caller takes the commit
	// back, which leaves what that program wrote under its name.
	ErrForeign = errors.New("changed by another program")
	// ErrExists is returned when another program made the target.
	ErrExists = errors.New("created by another program")
	// ErrBusy is returned when the target is in use and cannot be replaced.
	ErrBusy = errors.New("file is in use")
	// ErrCrossDevice is returned for a move between file systems.
	ErrCrossDevice = errors.New("the names are on different file systems")
)

// Name is an entry of an open directory.
type Name struct {
	Dir  fsx.Dir
	Name string
}

func (n Name) lstat() (st fsx.Stat, exists bool, err error) {
	st, err = n.Dir.Lstat(n.Name)
	if isAbsent(err) {
		return st, false, nil
	}
	return st, err == nil, err
}

// File is what the row says of a file.
type File struct {
	Exists bool
	Stat   fsx.Stat // inode, size and the times; the mode where it is known
	SHA256 string
	Bytes  io.ReaderAt // its content, nil where it is not open
}

// is reports whether st is the file with nothing written to it since. A rename
// changes the change time, so that is not compared.
func (f File) is(st fsx.Stat) bool {
	return f.Exists && f.kind() == st.Kind && f.same(st) && st.Size == f.Stat.Size && st.Mtime == f.Stat.Mtime
}

// same reports whether st is the file, whatever was written to it since. Numbers of devices
// are not compared: they change when the system is started.
func (f File) same(st fsx.Stat) bool { return st.Ino == f.Stat.Ino && st.SameBirth(f.Stat) }

// kind is that of the entry: a regular file, or a symbolic link, whose content is
// its target.
func (f File) kind() fsx.Kind { return fsx.KindOf(f.Stat.Mode) }

// Change is one mutation of a commit as its primitive sees it.
type Change struct {
	Primitive Primitive
	Slot      Slot
	Target    Name
	Source    Name // of a move
	Old       File // what the target holds
	Moved     File // what the source of a move holds
	New       File // what is staged; of an append, the bytes to be added

	// Guarded is set where what the target holds must be Old: otherwise a file
	// that another program saved a moment ago is replaced, and kept.
	Guarded bool
	// Redo is set by recovery: Old is known by its hash.
	Redo bool
	// Save keeps a copy of the target, for file systems that cannot exchange.
	Save func() error
	// Flush makes directories durable between two steps that a power cut must
	// not reorder; nil where nothing is flushed.
	Flush func(...fsx.Dir) error
	// Retry repeats an operation on a name that is in use; nil: once.
	Retry func(func() error) error

	Done      bool // published, at least in part
	Gone      bool // another program deleted the file first
	Foreign   bool // another program's file was replaced, and is in the slot
	Displaced bool // the slot holds a file that could not get its name back
	Linked    bool // a name took two steps: a power cut may bring the first one back until its directory is flushed

	landed int64 // of an append: where the first byte went
	wrote  int64 // bytes of it that were written
	opened fsx.File
	after  fsx.Stat // of a file written in place, when that was done
	unseen error    // why after is not known
	clear  bool     // a replacing move has put the replaced file into the slot
}

// Opened is the target that an append or a write in place has written to, nil
// before.
func (c *Change) Opened() fsx.File { return c.opened }

// HoldsOld reports whether the slot holds the replaced file: of a replacing move,
// whose slot is a mark otherwise, once that was cleared.
func (c *Change) HoldsOld() bool { return c.Primitive == Replace || c.Primitive == Delete || c.clear }

// Close releases what the change has opened.
func (c *Change) Close() {
	if c.opened != nil {
		c.opened.Close()
		c.opened = nil
	}
}

// State is what recovery finds of a recorded mutation.
type State int

const (
	Published State = iota // under its name
	Pending                // not published; the target is what the row expects
	Taken                  // not published; the target is not what the row expects
)

// Publish performs the change. When it fails, Done says whether there is
// something to undo.
func (c *Change) Publish() error {
	err := primitives[c.Primitive].publish(c)
	if err == nil && c.opened != nil && !c.Redo { // written to, perhaps when it had lost its name
		st, exists, lerr := c.Target.lstat()
		if err = lerr; lerr == nil && !(exists && c.Old.same(st)) {
			err = ErrForeign
		}
	}
	if err != nil && !c.Done && c.Primitive != Append && c.Primitive != InPlace {
		// A call that failed may have been carried out anyway.
		if held, herr := c.Slot.Holds(); herr == nil && held != Staged {
			c.Done = true
		}
	}
	return err
}

// Undo takes a published change back. What another program wrote meanwhile
// stays, and Displaced is set where its place is taken.
func (c *Change) Undo() error {
	if !c.Done && c.Primitive != Append {
		return nil
	}
	return primitives[c.Primitive].undo(c)
}

// Judge says how far a recorded change is.
func (c *Change) Judge() (State, error) {
	held, err := c.Slot.Holds()
	if err != nil {
		return Taken, err
	}
	return primitives[c.Primitive].judge(c, held)
}

// Reopen rolls back what is published, so that it can be published again. It reports false, and does nothing, where the target is not
// as the change has left it, or is written in place.
func (c *Change) Reopen() (bool, error) {
	held, err := c.Slot.Holds()
	if err != nil || c.Primitive == Append || c.Primitive == InPlace {
		return false, err
	}
	st, exists, err := c.Target.lstat()
	if err != nil {
		return false, err
	}
	ours := exists && c.Slot.made(st)
	switch c.Primitive {
	case Delete:
		ours = !exists && held == Other
	case Move:
		ours = exists && c.Moved.same(st) && held != Empty // without its mark, it was flushed
		c.clear = c.Old.Exists && held == Other
	case Replace:
		ours = ours && held == Other
	}
	if !ours {
		return false, nil
	}
	c.Done, c.New = true, File{Exists: true, Stat: st}
	return true, c.Undo()
}

type primitive struct {
	publish func(*Change) error
	undo    func(*Change) error
	judge   func(*Change, Held) (State, error)
}

var primitives map[Primitive]primitive

func init() {
	primitives = map[Primitive]primitive{
		Create:  {publishNew, undoNew, judgeNew},
		Replace: {publishOver, undoOver, judgeOver},
		Delete:  {publishDelete, undoDelete, judgeDelete},
		Move:    {publishMove, undoMove, judgeMove},
		Append:  {publishAppend, undoAppend, judgeAppend},
		InPlace: {publishInPlace, undoInPlace, judgeInPlace},
	}
}

func (c *Change) retry(op func() error) error {
	if c.Retry == nil {
		return op()
	}
	return c.Retry(op)
}

// came looks at what the slot has received from the workspace. Anything but
// the expected file, unchanged, is another program's: it goes back under its
// name where the change is guarded, and is kept where it is not. Recovery has
// compared the content of the expected file, so its inode may differ from the row's.
func (c *Change) came() error {
	st, err := c.Slot.Dir.Lstat(c.Slot.Name)
	if err != nil || c.Old.is(st) {
		return err
	}
	if c.Guarded || st.Kind != fsx.Regular {
		return ErrForeign
	}
	c.Foreign = true
	return nil
}

// giveBack gives the file in the slot its name back. Where another program made
// a new file under it, that one stays.
func (c *Change) giveBack(to Name) error {
	err := c.Slot.Dir.Link(c.Slot.Name, to.Dir, to.Name)
	if err != nil && !isExist(err) {
		err = c.Slot.Dir.RenameNoReplace(c.Slot.Name, to.Dir, to.Name)
	}
	if isExist(err) {
		c.Displaced = true
		return nil
	}
	return err
}

// copyOf writes a file again, durably, and returns its name beside the slot.
//
//	openat(slot.new, O_CREAT|O_EXCL)  write…  fchmod  fsync
//	or  symlinkat(slot.new)  fsync(slots)
func (c *Change) copyOf(file File) (name string, err error) {
	name = c.Slot.Name + Unnamed
	c.Slot.Dir.Remove(name) // of a process that died here
	if file.kind() == fsx.Symlink {
		target, err := io.ReadAll(io.NewSectionReader(file.Bytes, 0, file.Stat.Size))
		if err == nil {
			err = c.Slot.Dir.Symlink(string(target), name)
		}
		if err == nil && c.Flush != nil {
			err = c.Flush(c.Slot.Dir)
		}
		return name, err
	}
	f, err := c.Slot.Dir.Open(name, fsx.Write|fsx.Create|fsx.Excl, 0o600)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := overwrite(f, file.Bytes, file.Stat.Size); err != nil {
		return "", err
	}
	if file.Stat.Mode != 0 { // a row does not hold it
		if err := f.Chmod(file.Stat.Mode); err != nil {
			return "", err
		}
	}
	return name, f.Sync()
}

// openTarget opens what is under the name of the target; f is nil where that is
// no file.
func (c *Change) openTarget() (f fsx.File, st fsx.Stat, err error) {
	f, err = c.Target.Dir.Open(c.Target.Name, fsx.Read, 0)
	if isAbsent(err) || isType(err) {
		return nil, st, nil
	}
	if err == nil {
		if st, err = f.Stat(); err != nil {
			f.Close()
		}
	}
	return f, st, err
}

// moveNew renames from to to, which must be free. Where that takes two steps, the new name
// is durable before the old one goes.
//
//	renameat2(from, to, RENAME_NOREPLACE)  or  linkat(from, to) fsync(to/) unlinkat(from)
func (c *Change) moveNew(from, to Name) error {
	err := from.Dir.RenameNoReplace(from.Name, to.Dir, to.Name)
	if !errors.Is(err, fsx.ErrUnsupported) {
		return err
	}
	err = from.Dir.Link(from.Name, to.Dir, to.Name)
	if err == nil && c.Flush != nil {
		err = c.Flush(to.Dir)
	}
	if err != nil {
		return err
	}
	c.Linked = true
	return from.Dir.Remove(from.Name)
}

// found reports whether a name holds the file that the row expects: by identity, or by
// content. st is what was under the name, and f is that file then: what another program
// saves there later is not f.
func (f *File) found(n Name, st fsx.Stat, exists bool) (bool, error) {
	if !exists || !f.Exists {
		return exists == f.Exists, nil
	}
	if st.Kind != f.kind() || st.Size != f.Stat.Size {
		return false, nil
	}
	if !f.is(st) || st.Ctime != f.Stat.Ctime {
		file, err := fsx.OpenEntry(n.Dir, n.Name)
		if isAbsent(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		defer file.Close()
		if sum, err := hashOf(file, st.Size); err != nil || sum != f.SHA256 {
			return false, err
		}
	}
	f.now(st)
	return true, nil
}

// now makes f the file that st describes.
func (f *File) now(st fsx.Stat) {
	f.Stat, f.Stat.Btime = st, 0 // overlayfs makes another file of it when it is published
}

func isAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) }
func isExist(err error) bool  { return errors.Is(err, fs.ErrExist) }

// IsBusy reports whether a name cannot be replaced at the moment.
func IsBusy(err error) bool {
	return errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.ETXTBSY) || isSharingViolation(err)
}
