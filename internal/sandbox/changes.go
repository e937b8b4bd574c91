package sandbox

import (
	"os"
	"path"
	"path/filepath"
)

// Kind is the final state of a path of a view.
type Kind int

// The kinds.
const (
	Gone      Kind = iota // a file or a directory that is not there any more
	File                  // a regular file that was written, or that is new
	Directory             // one that is new, or has another mode
	Link                  // a symbolic link
	Other                 // a FIFO, a socket, a device
)

// Change is one path that may differ. A file may have been opened for writing
// only.
type Change struct {
	Path string // relative to the workspace
	Kind Kind
	Dir  bool   // of Gone: it was a directory; its content is listed after it
	Link bool   // of Gone: it was a symbolic link
	Mode uint32 // permission bits
	Size int64
}

// Open opens a file of the view.
func (v *View) Open(rel string) (*os.File, error) { return os.Open(v.Path(rel)) }

// Path is the place of a file of the view.
func (v *View) Path(rel string) string { return filepath.Join(v.Upper(), filepath.FromSlash(rel)) }

// goneBelow lists everything below a path of the workspace, and the path itself.
func (v *View) goneBelow(rel string, each func(Change) error) error {
	st, err := os.Lstat(filepath.Join(v.root, rel))
	if err != nil {
		return nil // nothing is left to take away
	}
	if err := each(Change{Path: rel, Kind: Gone, Dir: st.IsDir(), Link: st.Mode()&os.ModeSymlink != 0}); err != nil || !st.IsDir() {
		return err
	}
	list, err := os.ReadDir(filepath.Join(v.root, rel))
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := v.goneBelow(path.Join(rel, e.Name()), each); err != nil {
			return err
		}
	}
	return nil
}
