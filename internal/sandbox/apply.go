package sandbox

import (
	"errors"
	"io"
	"io/fs"
	"path"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Apply copies one change from the view to the workspace, without a version and without
// a row. No symbolic link is followed. A file is renamed, or copied if the view is on
// another file system.
func (v *View) Apply(root fsx.Dir, c Change) error {
	return inside(root, path.Dir(c.Path), func(dir fsx.Dir) error {
		name := path.Base(c.Path)
		if st, err := dir.Lstat(name); err == nil && st.Kind != fsx.Symlink && c.Link {
			return fs.ErrExist // another program created a file
		}
		switch c.Kind {
		case Gone:
			if c.Dir {
				return dir.Rmdir(name)
			}
			return dir.Remove(name)
		case Directory:
			if st, err := dir.Lstat(name); err != nil || st.Kind != fsx.Directory {
				if err := dir.Mkdir(name, 0o700); err != nil {
					return err
				}
			}
			return inside(dir, name, func(made fsx.Dir) error { return made.Chmod(c.Mode) })
		case File, Link:
			upper, err := fsx.OpenRoot(v.Upper())
			if err != nil {
				return err
			}
			defer upper.Close()
			return inside(upper, path.Dir(c.Path), func(from fsx.Dir) error { return bring(from, dir, name, c) })
		}
		return errors.ErrUnsupported
	})
}

// bring gives a file of the view its name in the workspace.
func bring(from, to fsx.Dir, name string, c Change) error {
	err := from.Rename(name, to, name)
	if err == nil || c.Kind == Link {
		return err
	}
	src, err := from.Open(name, fsx.Read, 0)
	if err != nil {
		return err
	}
	defer src.Close()
	to.Remove(name)
	dst, err := to.Open(name, fsx.Write|fsx.Create|fsx.Excl, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Chmod(c.Mode&0o777), dst.Close())
}

// inside opens a directory by its path, "." for root, as long as do runs.
func inside(root fsx.Dir, rel string, do func(fsx.Dir) error) error {
	if rel == "." {
		rel = ""
	}
	dir, done, err := fsx.OpenPath(root, rel)
	if err != nil {
		return err
	}
	defer done()
	return do(dir)
}
