package blob

import (
	"errors"
	"io/fs"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// An erased object leaves an empty file in its place, <sha256>.erased, which explains
// its absence.

// ErasedSuffix ends the name of such a mark.
const ErasedSuffix = ".erased"

// Erase removes objects for good and leaves their marks. A crash leaves objects
// that have both; erasing them again finishes.
//
//	creat(aa/sha.erased) …  fsync(aa) …  unlinkat(aa/sha) …  fsync(aa) …
func (s *Store) Erase(shas []string) error {
	touched := map[string]string{} // one object of each directory
	for _, step := range []func(fsx.Dir, string) error{mark, remove} {
		for _, sha := range shas {
			found, err := s.in(sha, step)
			if err != nil {
				return err
			}
			if found {
				touched[sha[:2]] = sha
			}
		}
		for _, sha := range touched {
			if _, err := s.in(sha, func(d fsx.Dir, _ string) error { return s.flush(d) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// in runs fn with the directory of an object, when there is one.
func (s *Store) in(sha string, fn func(fsx.Dir, string) error) (found bool, err error) {
	d, done, err := s.sub(sha, false)
	if err != nil {
		return false, fsx.Unless(err, fs.ErrNotExist)
	}
	defer done()
	return true, fn(d, sha)
}

func mark(d fsx.Dir, sha string) error {
	if _, err := d.Lstat(sha); errors.Is(err, fs.ErrNotExist) {
		return nil // gone already; whether it was erased is not known
	}
	f, err := d.Open(sha+ErasedSuffix, fsx.Write|fsx.Create, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func remove(d fsx.Dir, sha string) error {
	return fsx.Unless(d.Remove(sha), fs.ErrNotExist)
}

// Erased reports whether the object is not there because it was erased.
func (s *Store) Erased(sha string) bool {
	d, done, err := s.sub(sha, false)
	if err != nil {
		return false
	}
	defer done()
	_, err = d.Lstat(sha + ErasedSuffix)
	return err == nil
}
