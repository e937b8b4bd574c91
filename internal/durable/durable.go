// Package durable holds the few sequences of file operations that make files survive a
// power failure. Above each is the trace of system calls it is expected to make; a
// comment explains why each flush is needed.
package durable

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// TempSuffix marks a file whose content is not complete. A sweep may remove such files.
const TempSuffix = ".tmp"

// WriteFile replaces name in dir by data, so that a crash leaves the old file
// or the new one. Callers that may write one name at the same time take a lock
// first.
//
//	openat(dir, name.tmp, O_CREAT|O_EXCL)  write  fsync  close
//	renameat(name.tmp, name)  fsync(dir)
func WriteFile(dir fsx.Dir, name string, data []byte, perm uint32) error {
	return WriteFrom(dir, name+TempSuffix, dir, name, data, perm)
}

// WriteFrom is [WriteFile] with the new file under the name tmp of another directory, of
// the same file system, until it is whole.
func WriteFrom(from fsx.Dir, tmp string, dir fsx.Dir, name string, data []byte, perm uint32) error {
	err := place(from, tmp, dir, name, perm, func(f fsx.File) error {
		_, err := f.Write(data)
		return err
	}, nil)
	if err != nil {
		return err
	}
	return dir.Sync()
}

// Place makes name what fill writes, as WriteFile does, and leaves the flush of
// dir to the caller. tmp is its name until then; one that a crash left is
// replaced.
//
//	openat(dir, tmp, O_CREAT|O_EXCL)  fill…  fsync  close  renameat(tmp, name)
//
// The file is flushed before the rename: else an empty file under the new
// name is a legal outcome.
func Place(dir fsx.Dir, name, tmp string, perm uint32, fill func(fsx.File) error) error {
	return place(dir, tmp, dir, name, perm, fill, nil)
}

// PlaceIf is [Place] that asks last, before the rename: the flush takes time.
func PlaceIf(dir fsx.Dir, name, tmp string, perm uint32, fill func(fsx.File) error, last func() error) error {
	return place(dir, tmp, dir, name, perm, fill, last)
}

func place(from fsx.Dir, tmp string, dir fsx.Dir, name string, perm uint32, fill func(fsx.File) error, last func() error) error {
	f, err := from.Open(tmp, fsx.Write|fsx.Create|fsx.Excl, perm)
	if errors.Is(err, fs.ErrExist) { // left by a crash
		if err = from.Remove(tmp); err == nil {
			f, err = from.Open(tmp, fsx.Write|fsx.Create|fsx.Excl, perm)
		}
	}
	if err != nil {
		return err
	}
	if err = fill(f); err == nil {
		err = f.Sync()
	}
	err = cmp.Or(err, f.Close())
	if err == nil && last != nil {
		err = last()
	}
	if err == nil {
		err = from.Rename(tmp, dir, name)
		if at, ok := err.(*fs.PathError); ok {
			at.Path = name // where a directory is, for example
		}
	}
	if err != nil {
		from.Remove(tmp)
	}
	return err
}

var temps atomic.Uint64

// TempName is a name for a file that becomes name once it is whole, and that
// no other process uses at the same time.
func TempName(name string) string {
	return fmt.Sprintf("%s.%d-%d%s", name, os.Getpid(), temps.Add(1), TempSuffix)
}

// MoveAside moves name to the directory to, under the first of stem.1, stem.2 … that
// is free, and returns that. The caller keeps others from moving files there.
//
//	renameat2(dir/name, to/stem.n, RENAME_NOREPLACE)  fsync(to)  fsync(dir)
func MoveAside(dir fsx.Dir, name string, to fsx.Dir, stem string) (string, error) {
	for n := 1; ; n++ {
		free := fmt.Sprintf("%s.%d", stem, n)
		if _, err := to.Lstat(free); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		err := dir.RenameNoReplace(name, to, free)
		if errors.Is(err, fsx.ErrUnsupported) {
			err = dir.Rename(name, to, free)
		}
		if err == nil {
			err = to.Sync()
		}
		if err == nil {
			err = dir.Sync()
		}
		return free, err
	}
}

// ErrTooLong is returned for a file that is longer than its reader allows.
var ErrTooLong = errors.New("file is larger than expected")

// ReadFile returns the bytes of name, which may be at most limit long.
func ReadFile(dir fsx.Dir, name string, limit int64) ([]byte, error) {
	f, err := dir.Open(name, fsx.Read, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err == nil && st.Size > limit {
		err = ErrTooLong
	}
	if err != nil {
		return nil, err
	}
	return readUpTo(bytes.NewBuffer(make([]byte, 0, st.Size+bytes.MinRead)), f, limit)
}

// ReadRegular returns the bytes of a regular file by its path, which may have at
// most limit.
func ReadRegular(path string, limit int64) ([]byte, error) {
	st, err := os.Stat(path) // a FIFO would block an open
	if err == nil && !st.Mode().IsRegular() {
		err = &fsx.TypeError{Kind: fsx.Other}
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadUpTo(f, limit)
}

// ReadUpTo returns the bytes of a reader, which may have at most limit.
func ReadUpTo(r io.Reader, limit int64) ([]byte, error) {
	return readUpTo(new(bytes.Buffer), r, limit)
}

func readUpTo(data *bytes.Buffer, r io.Reader, limit int64) ([]byte, error) {
	_, err := data.ReadFrom(io.LimitReader(r, limit+1))
	if err == nil && int64(data.Len()) > limit {
		err = ErrTooLong
	}
	return data.Bytes(), err
}

// Mkdir makes sure that the directory name exists in dir, durably, and opens
// it.
func Mkdir(dir fsx.Dir, name string, perm uint32) (fsx.Dir, error) {
	if err := Mkdirs(dir, perm, name); err != nil {
		return nil, err
	}
	return dir.OpenDir(name)
}

// FlushError is a failed flush of a directory. It may have lost names that others made
// there, whatever the next flush says.
type FlushError struct{ Err error }

func (e *FlushError) Error() string { return e.Err.Error() }
func (e *FlushError) Unwrap() error { return e.Err }

// Mkdirs makes sure that directories exist in dir, durably. Those that exist
// are flushed too: the process that made one may have died before it could. If the flush
// fails, with a [FlushError], those that were made are removed, because a later flush
// would succeed without them.
//
//	mkdirat(dir, name)…  fsync(dir)
func Mkdirs(dir fsx.Dir, perm uint32, names ...string) error {
	var made []string
	for _, name := range names {
		if _, err := dir.Lstat(name); err == nil {
			continue
		}
		if err := dir.Mkdir(name, perm); err == nil {
			made = append(made, name)
		} else if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if err := dir.Sync(); err != nil {
		for _, name := range made {
			dir.Rmdir(name)
		}
		return &FlushError{err}
	}
	return nil
}

// WriteStream is [WriteFile] for content that need not fit in memory. The
// caller flushes the directory.
func WriteStream(dir fsx.Dir, name string, src io.Reader) error {
	return Place(dir, name, name+TempSuffix, 0o600, func(f fsx.File) error {
		_, err := io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{src}, make([]byte, 256<<10))
		return err
	})
}
