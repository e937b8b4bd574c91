package blob

import (
	"errors"
	"io/fs"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// An object that was erased leaves an empty file in its place, <sha256>.erased,
// which says why it is not there.

// ErasedSuffix ends the name of such a mark.
const ErasedSuffix = ".erased"

// Erase removes objects for good and leaves their marks. A crash leaves objects
// that have both; erasing them again finishes.
//
//	creat(aa/sha.erased) …  fsync(aa) …  unlinkat(aa/sha) …  fsync(aa) …
func (s *Store) Erase(shas []string) error {
	subs := map[fsx.Dir]bool{}
	for _, step := range []func(fsx.Dir, string) error{mark, remove} {
		for _, sha := range shas {
			d, err := s.sub(sha, false)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				err = step(d, sha)
			}
			if err != nil {
				return err
			}
			subs[d] = true
		}
		for d := range subs {
			if err := d.Sync(); err != nil {
				return err
			}
		}
	}
	return nil
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
	err := d.Remove(sha)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Erased reports whether the object is not there because it was erased.
func (s *Store) Erased(sha string) bool {
	d, err := s.sub(sha, false)
	if err != nil {
		return false
	}
	_, err = d.Lstat(sha + ErasedSuffix)
	return err == nil
}
