package sandbox

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Changes lists the changes that the command made, directories before their content.
func (v *View) Changes(each func(Change) error) error {
	if v.was != nil {
		return v.copied(each)
	}
	return v.layer("", false, true, each)
}

// What fuse-overlayfs writes where it may not make devices.
const (
	fuseGone   = ".wh."
	fuseOpaque = ".wh..wh..opq"
)

// layer lists one directory of the upper layer. hidden is set where a directory above
// hides those of the workspace, and old where the workspace has this one.
func (v *View) layer(rel string, hidden, old bool, each func(Change) error) error {
	list, err := os.ReadDir(v.Path(rel))
	if err != nil {
		return err
	}
	here := map[string]bool{}
	opaque := hidden || v.opaque(rel) || v.Way == FuseOverlay && slices.ContainsFunc(list, func(e os.DirEntry) bool { return e.Name() == fuseOpaque })
	for _, e := range list {
		name := e.Name()
		if v.Way == FuseOverlay && strings.HasPrefix(name, fuseGone) {
			if name != fuseOpaque {
				here[name[len(fuseGone):]] = true
				err = v.goneBelow(path.Join(rel, name[len(fuseGone):]), each)
			}
		} else {
			here[name] = true
			err = v.entry(path.Join(rel, name), opaque, old, each)
		}
		if err != nil {
			return err
		}
	}
	if !opaque || !old {
		return nil
	}
	below, err := os.ReadDir(filepath.Join(v.root, rel))
	if err != nil {
		return err
	}
	for _, e := range below {
		if !here[e.Name()] {
			if err := v.goneBelow(path.Join(rel, e.Name()), each); err != nil {
				return err
			}
		}
	}
	return nil
}

// opaque reports whether a directory hides the one of the workspace.
func (v *View) opaque(rel string) bool {
	for _, name := range []string{"user.overlay.opaque", "user.fuseoverlayfs.opaque"} {
		var value [1]byte
		if n, err := unix.Lgetxattr(v.Path(rel), name, value[:]); err == nil && n == 1 && value[0] == 'y' {
			return true
		}
	}
	return false
}

// entry lists one name of the upper layer. hidden and old are those of the directory
// that it is in.
func (v *View) entry(rel string, hidden, old bool, each func(Change) error) error {
	var st, was unix.Stat_t
	if err := unix.Lstat(v.Path(rel), &st); err != nil {
		return &os.PathError{Op: "lstat", Path: rel, Err: err}
	}
	old = old && unix.Lstat(filepath.Join(v.root, rel), &was) == nil
	c := changeOf(rel, &st)
	switch {
	case c.Kind == Other && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0:
		return v.goneBelow(rel, each)
	case old && replaced(was.Mode, st.Mode):
		if err := v.goneBelow(rel, each); err != nil {
			return err
		}
		old = false
	}
	if c.Kind != Directory || !old || st.Mode != was.Mode {
		if err := each(c); err != nil {
			return err
		}
	}
	if c.Kind == Directory {
		return v.layer(rel, hidden, old, each)
	}
	return nil
}

// replaced reports whether the earlier entry has to be removed before the new one can
// be made. A file and a symbolic link take the place of each other.
func replaced(was, now uint32) bool {
	single := func(mode uint32) bool {
		kind := mode & unix.S_IFMT
		return kind == unix.S_IFREG || kind == unix.S_IFLNK
	}
	return was&unix.S_IFMT != now&unix.S_IFMT && !(single(was) && single(now))
}

func changeOf(rel string, st *unix.Stat_t) Change {
	c := Change{Path: rel, Kind: Other, Mode: st.Mode & 0o7777, Size: st.Size}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		c.Kind = File
	case unix.S_IFDIR:
		c.Kind = Directory
	case unix.S_IFLNK:
		c.Kind = Link
	}
	return c
}
