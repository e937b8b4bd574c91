// Package minimal implements the least that replaces a file durably. Every
// ratio is relative to it.
package minimal

import (
	"os"
	"path/filepath"
)

// Replace is the minimal correct durable replace: write, fsync, rename, fsync of
// the directory.
func Replace(path string, data []byte) error { return ReplaceWithMode(path, data, 0) }

// ReplaceWithMode also sets the mode of the file, unless it is 0.
func ReplaceWithMode(path string, data []byte, mode os.FileMode) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".tmp-*")
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil && mode != 0 {
		err = os.Chmod(f.Name(), mode)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
