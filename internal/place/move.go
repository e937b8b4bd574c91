package place

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/failpoint"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/lock"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/slotdir"
)

// A store is moved by one rename, which is atomic and leaves handles valid. To another
// file system it is copied under its new name, with a mark that names what the original
// will be renamed to: until a directory has that name, the copy is not a store. Renaming
// the original ends its use and activates the copy in one step.

const (
	waitMark = "waits.json" // of a copy
	leftMark = "left.json"  // the same once the copy is the store: the original can be removed
	aside    = ".moved-"    // in the name of a store that is no longer used
)

type waiting struct {
	Retired []byte `json:"retired"` // absolute; need not be text
	Inode   uint64 `json:"inode"`
}

// markOf reads a mark. It reports whether there is one.
func (w *Workspace) markOf(dir, name string) (to waiting, ok bool) {
	text := w.small(filepath.Join(dir, name))
	return to, text != "" && json.Unmarshal([]byte(text), &to) == nil && isAside(string(to.Retired))
}

// there reports whether the original has been renamed, and was not removed yet.
func (to waiting) there() (bool, error) {
	d, err := openRoot(string(to.Retired))
	if fsx.Nothing(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer d.Close()
	st, err := d.Stat()
	return err == nil && st.Ino == to.Inode, err
}

// waits reports whether a store is a copy whose original is still in use.
func (w *Workspace) waits(dir string) bool {
	to, ok := w.markOf(dir, waitMark)
	if !ok {
		return false
	}
	there, err := to.there()
	w.failed(err)
	return !there
}

// Errors of Move and Remove.
var (
	ErrTaken  = errors.New("there is a state directory already")
	ErrInUse  = errors.New("another process uses the state directory")
	ErrInside = errors.New("the new place is in the state directory")
)

// Move moves a store from a directory to a place that is open.
func Move(from string, to Opened) error {
	if up := real(filepath.Dir(to.Path)); relpath.Contains(real(from), up) {
		return ErrInside
	}
	old, err := openRoot(filepath.Dir(from))
	if err != nil {
		return err
	}
	defer old.Close()
	name := filepath.Base(from)
	if err := idle(old, name); err != nil {
		return err
	}
	if err := Finish(from); err != nil {
		return err
	}
	if st, err := os.Lstat(to.Path); err == nil {
		look := &Workspace{}
		waits := st.IsDir() && look.waits(to.Path)
		switch {
		case look.err != nil:
			return look.err
		case !waits:
			return ErrTaken
		}
		if err := os.RemoveAll(to.Path); err != nil { // of a move that was interrupted
			return err
		}
	}
	err = old.RenameNoReplace(name, to.Parent, to.Name)
	if err == nil {
		failpoint.At("relocate:renamed")
		return to.Parent.Sync()
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return ErrTaken
	case errors.Is(err, syscall.EXDEV), errors.Is(err, fsx.ErrUnsupported):
		return carry(old, name, from, to)
	}
	return err
}

// carry is Move between file systems. The copy gets its name when it has its mark.
func carry(old fsx.Dir, name, from string, to Opened) error {
	retired, fresh := fmt.Sprint(name, aside, time.Now().UnixNano()), to.Name+aside+"new"
	src, err := old.OpenDir(name)
	if err != nil {
		return err
	}
	defer src.Close()
	release, err := hold(src)
	if err != nil {
		return err
	}
	defer release()
	if err := idle(old, name); err != nil {
		return err
	}
	st, err := src.Stat()
	if err != nil {
		return err
	}
	mark, err := json.Marshal(waiting{[]byte(filepath.Join(filepath.Dir(from), retired)), st.Ino})
	if err != nil {
		return err
	}
	unmarked := filepath.Join(filepath.Dir(to.Path), fresh)
	if err := os.RemoveAll(unmarked); err != nil { // of a move that was interrupted
		return err
	}
	if err := to.Parent.Mkdir(fresh, 0o700); err != nil {
		return err
	}
	dst, err := to.Parent.OpenDir(fresh)
	if err != nil {
		return err
	}
	defer dst.Close()
	failpoint.At("relocate:made")
	if err = keepOwner(dst, st); err == nil {
		err = durable.WriteFile(dst, waitMark, mark, 0o600)
	}
	if err == nil {
		err = to.Parent.Rename(fresh, to.Parent, to.Name)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(unmarked))
	}
	failpoint.At("relocate:begun")
	err = copyTree(src, dst)
	if err == nil {
		err = to.Parent.Sync()
	}
	if err == nil {
		failpoint.At("relocate:copied")
		if runtime.GOOS == "windows" {
			release() // a directory with an open file keeps its name there
		}
		err = old.Rename(name, old, retired)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(to.Path))
	}
	if err := old.Sync(); err != nil {
		return err
	}
	failpoint.At("relocate:retired")
	if err := idle(old, retired); err != nil { // it was opened in the meantime and stays the store
		return errors.Join(err, old.Rename(retired, old, name), os.RemoveAll(to.Path))
	}
	if _, err := os.Lstat(to.Path); errors.Is(err, fs.ErrNotExist) { // another program removed the copy
		return errors.Join(err, old.Rename(retired, old, name))
	}
	return Finish(to.Path)
}

// Finish removes what a move to another file system left of the original of a store, if
// the move was interrupted.
func Finish(dir string) error {
	state, err := openRoot(dir)
	if err != nil {
		return err
	}
	defer state.Close()
	if err := settle(state); err != nil {
		return err
	}
	failpoint.At("relocate:settled")
	look := &Workspace{}
	to, ok := look.markOf(dir, leftMark)
	if !ok {
		return look.err
	}
	there, err := to.there()
	if err != nil {
		return err
	}
	if there {
		up, err := openRoot(filepath.Dir(string(to.Retired)))
		if err != nil {
			return err
		}
		defer up.Close()
		if err := idle(up, filepath.Base(string(to.Retired))); err != nil {
			return err
		}
		if err := os.RemoveAll(string(to.Retired)); err != nil {
			return err
		}
	}
	failpoint.At("relocate:removed")
	return state.Remove(leftMark)
}

// settle makes a store of a copy for good, whatever becomes of its original.
func settle(state fsx.Dir) error {
	err := state.Rename(waitMark, state, leftMark)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return state.Sync()
}

// hold keeps processes from opening a store for writing until release is called or this
// process ends.
func hold(state fsx.Dir) (release func() error, err error) {
	locks, err := durable.Mkdir(state, "locks", 0o700)
	if err != nil {
		return nil, err
	}
	defer locks.Close()
	release, ok, err := lock.Moving(locks)
	if err == nil && !ok {
		err = ErrInUse
	}
	return release, err
}

// idle fails while a process has the store open for writing.
func idle(parent fsx.Dir, name string) error {
	d, err := parent.OpenDir(name)
	if err != nil {
		return err
	}
	defer d.Close()
	locks, err := d.OpenDir("locks")
	if err != nil {
		return fsx.Unless(err, fs.ErrNotExist)
	}
	defer locks.Close()
	writers, err := lock.Writers(locks)
	for _, w := range writers {
		live, aerr := lock.Alive(locks, w)
		if aerr != nil {
			return aerr
		}
		if live {
			return ErrInUse
		}
	}
	return err
}

// copyTree copies the regular files and the directories of one directory to
// another, durably. Links are not followed and not copied. A process that was kept from
// opening the store may remove what it had made.
func copyTree(from, to fsx.Dir) error {
	names, err := from.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		st, err := from.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = nil
		case err != nil:
		case st.Kind == fsx.Directory:
			err = copyDir(from, to, name, st)
		case st.Kind == fsx.Regular:
			err = copyFile(from, to, name, st)
		}
		if err != nil {
			return err
		}
	}
	return to.Sync()
}

func copyDir(from, to fsx.Dir, name string, st fsx.Stat) error {
	src, err := from.OpenDir(name)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := durable.Mkdir(to, name, 0o700)
	if err != nil {
		return err
	}
	defer dst.Close()
	if err := keepOwner(dst, st); err != nil {
		return err
	}
	return copyTree(src, dst)
}

// keepOwner gives a copy that root makes the owner of the original.
func keepOwner(dst interface{ Chown(uid, gid int) error }, st fsx.Stat) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return dst.Chown(st.UID, st.GID)
}

func copyFile(from, to fsx.Dir, name string, st fsx.Stat) error {
	src, err := from.Open(name, fsx.Read, 0)
	if err != nil {
		return fsx.Unless(err, fs.ErrNotExist)
	}
	defer src.Close()
	dst, err := to.Open(name, fsx.Write|fsx.Create|fsx.Excl, st.Mode&0o700)
	if err != nil {
		return err
	}
	err = keepOwner(dst, st)
	if err == nil {
		_, err = io.Copy(dst, src)
	}
	if err == nil {
		err = dst.Sync()
	}
	return errors.Join(err, dst.Close())
}

// Remove deletes the store in a directory. It is put aside first, so that no part
// of it is taken for a store.
func Remove(dir string) error {
	up, err := openRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer up.Close()
	name := filepath.Base(dir)
	if err := idle(up, name); err != nil {
		return err
	}
	retired := fmt.Sprint(name, aside, time.Now().UnixNano())
	if err := up.Rename(name, up, retired); err != nil {
		return err
	}
	if err := up.Sync(); err != nil {
		return err
	}
	if err := idle(up, retired); err != nil {
		return errors.Join(err, up.Rename(retired, up, name))
	}
	failpoint.At("relocate:retired")
	if err := removeSlots(up, retired, isAside(name)); err != nil {
		return err
	}
	if base := StateHome(); base != "" {
		defer os.Remove(filepath.Join(base, app, known, digest(strings.SplitN(dir, aside, 2)[0])+".json"))
	}
	return os.RemoveAll(filepath.Join(filepath.Dir(dir), retired))
}

// removeSlots removes the directories of slots of a store from its workspace. Those of a
// workspace that is gone are gone with it. What is left of a store that was moved has none.
func removeSlots(up fsx.Dir, name string, left bool) error {
	state, err := up.OpenDir(name)
	if err != nil {
		return err
	}
	defer state.Close()
	list, err := slotdir.Read(state)
	if err != nil || list.Root == "" {
		return err
	}
	if left {
		if used, err := Has(list.Root); used || err != nil {
			return err
		}
	}
	root, err := openRoot(list.Root)
	if err != nil {
		return fsx.Unless(err, fs.ErrNotExist)
	}
	defer root.Close()
	return slotdir.Remove(root, list)
}

// isAside reports whether a directory was left by an interrupted move or removal.
func isAside(dir string) bool { return strings.Contains(filepath.Base(dir), aside) }
