package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// stamp shows whether a file was changed since it was copied: no program can
// set the change time.
type stamp struct {
	mode  uint32
	ino   uint64
	ctime unix.Timespec
}

func stampOf(st *unix.Stat_t) stamp {
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return stamp{mode: st.Mode}
	}
	return stamp{st.Mode, st.Ino, st.Ctim}
}

// copyTree copies the workspace, sharing its blocks unless a plain copy is made. For
// closed paths it creates empty mount points; special files are left out.
func (v *View) copyTree(j Job) error {
	v.was = map[string]stamp{}
	total := int64(0)
	dirs := map[string]fs.FileMode{}
	err := filepath.WalkDir(v.root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return &missingError{what: "the workspace cannot be read completely"}
		}
		rel, _ := filepath.Rel(v.root, p)
		info, err := d.Info()
		if err != nil {
			return err
		}
		to := v.Path(rel)
		switch closed := slices.Contains(j.Closed, p); {
		case rel == ".":
		case closed && v.bare: // git finds its directory in any place
			if d.Name() == ".git" && d.IsDir() {
				return cmp.Or(os.WriteFile(to, []byte("gitdir: "+p+"\n"), 0o600), fs.SkipDir)
			} else if d.IsDir() {
				return fs.SkipDir
			}
			return v.copyFile(p, to, info)
		case closed && d.IsDir():
			if err := os.Mkdir(to, 0o700); err != nil {
				return err
			}
			return fs.SkipDir
		case closed:
			return os.WriteFile(to, nil, 0o600)
		case d.IsDir():
			dirs[to] = info.Mode()
			return os.Mkdir(to, 0o700)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return os.Symlink(target, to)
		case info.Mode().IsRegular():
			if total += info.Size(); v.Way == Copy && total > CopyLimit {
				return &missingError{what: fmt.Sprintf("the workspace has more than %d bytes", CopyLimit)}
			}
			return v.copyFile(p, to, info)
		}
		return nil
	})
	for to, mode := range dirs {
		if err == nil {
			err = os.Chmod(to, mode)
		}
	}
	if err != nil {
		return err
	}
	return v.walkCopy(func(rel string, st *unix.Stat_t) error {
		v.was[rel] = stampOf(st)
		return nil
	})
}

// copyFile copies one file with its mode and its modification time.
func (v *View) copyFile(from, to string, info fs.FileInfo) error {
	src, err := os.Open(from)
	if err != nil {
		return &missingError{what: "the workspace cannot be read completely"}
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer dst.Close()
	if v.Way == Copy {
		_, err = io.Copy(dst, src)
	} else if unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())) != nil {
		return &missingError{what: "the file system of the views does not share blocks with that of the workspace"}
	}
	if err == nil {
		err = dst.Chmod(info.Mode())
	}
	return errors.Join(err, os.Chtimes(to, info.ModTime(), info.ModTime()))
}

// walkCopy visits everything in the copy.
func (v *View) walkCopy(each func(rel string, st *unix.Stat_t) error) error {
	return filepath.WalkDir(v.Upper(), func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(v.Upper(), p)
		if err != nil || rel == "." {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return &os.PathError{Op: "lstat", Path: rel, Err: err}
		}
		return each(rel, &st)
	})
}

// copied lists what differs from the copy as it was made.
func (v *View) copied(each func(Change) error) error {
	seen := map[string]bool{}
	err := v.walkCopy(func(rel string, st *unix.Stat_t) error {
		was, old := v.was[rel]
		seen[rel] = true
		if old && was == stampOf(st) {
			return nil
		}
		if old && replaced(was.mode, st.Mode) {
			err := v.goneBelow(rel, func(c Change) error {
				seen[c.Path] = true
				return each(c)
			})
			if err != nil {
				return err
			}
		}
		return each(changeOf(rel, st))
	})
	if err != nil {
		return err
	}
	var gone []string
	for rel := range v.was {
		if !seen[rel] {
			gone = append(gone, rel)
		}
	}
	slices.Sort(gone)
	for _, rel := range gone {
		kind := v.was[rel].mode & unix.S_IFMT
		if err := each(Change{Path: rel, Kind: Gone, Dir: kind == unix.S_IFDIR, Link: kind == unix.S_IFLNK}); err != nil {
			return err
		}
	}
	return nil
}
