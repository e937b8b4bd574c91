package testbed

import (
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// An Entry is a file, a directory or a link in a tree.
type Entry struct {
	Path string // below the directory of the tree, with slashes; "." for itself
	Info fs.FileInfo
	Text string // the content of a file, or the target of a link
}

// Entries returns what is in a directory, in the order of the paths, except at the paths in
// without; **/NAME is a name at any depth. What disappears meanwhile is left out, and so is a
// directory that does not exist.
func Entries(t testing.TB, dir string, without ...string) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		t.Helper()
		NoErr(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			rel, _ := filepath.Rel(dir, path)
			e := Entry{Path: filepath.ToSlash(rel)}
			if d != nil && slices.ContainsFunc(without, func(w string) bool { return w == e.Path || w == "**/"+d.Name() }) {
				if d.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			if err == nil {
				e.Info, err = d.Info()
			}
			switch {
			case err != nil:
			case e.Info.Mode().IsRegular():
				var data []byte
				data, err = os.ReadFile(path)
				e.Text = string(data)
			case e.Info.Mode().Type() == fs.ModeSymlink:
				e.Text, err = os.Readlink(path)
			}
			if os.IsNotExist(err) {
				return nil
			}
			if err == nil && !yield(e) {
				return fs.SkipAll
			}
			return err
		}))
	}
}
