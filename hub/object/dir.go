package object

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/lock"
)

// The layout of a directory: the segments of a key are directories and a file. Two names that are
// not valid segments belong to the store: the directory of files that are being written, and the
// lock file. A file being written keeps its name there until the name under its key is durable. So
// an object with two names may be lost in a power cut, and a call that returns or reports such an
// object first flushes its directory.
const (
	writing   = "+writing"
	locksName = "+locks"
)

const (
	lockWait = 30 * time.Second // for the lock of a key
	leftover = time.Hour        // age of a temporary file that no process has open any more
	lockAt   = MaxSize + 1      // byte that the writer of a file locks: past the content, so that a mandatory lock blocks no reader
)

// dirStore is the backend in a directory. The etag of a content is its SHA-256.
type dirStore struct {
	root    fsx.Dir
	writing fsx.Dir
	locks   *lock.Table

	mu    sync.Mutex
	made  map[string]bool // directories known to be durable
	fault error           // a flush failed: visible objects may not be durable
}

// openPath opens a directory by its path.
func openPath(path string) (*dirStore, error) {
	if path == "" {
		return nil, unfit("its path is empty", nil)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	switch st, err := os.Stat(path); {
	case err == nil && !st.IsDir():
		return nil, unfit("its path is no directory", nil)
	case errors.Is(err, fs.ErrNotExist):
		parent, err := fsx.OpenRoot(filepath.Dir(path))
		if err != nil {
			return nil, fmt.Errorf("the parent of the hub's directory: %w", err)
		}
		defer parent.Close()
		if err := durable.Mkdirs(parent, 0o700, filepath.Base(path)); err != nil {
			return nil, fmt.Errorf("the hub's directory: %w", err)
		}
	}
	root, err := fsx.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("the hub's directory: %w", err)
	}
	s, err := openDir(root)
	if err != nil {
		root.Close()
		return nil, err
	}
	s.sweep()
	return s, nil
}

func openDir(root fsx.Dir) (*dirStore, error) {
	volume, err := root.Volume()
	if err != nil {
		return nil, err
	}
	if volume.Remote {
		return nil, unfit(fmt.Sprintf("the directory is on a file system of the type %s, whose locks and flushes cannot be relied on; use a local directory or s3://", volume.Type), nil)
	}
	s := &dirStore{root: root, made: map[string]bool{}}
	if s.writing, err = durable.Mkdir(root, writing, 0o700); err != nil {
		return nil, err
	}
	if s.locks, err = lock.Open(root, locksName, lock.Owner{Writer: "hub", PID: os.Getpid()}); err != nil {
		s.writing.Close()
		return nil, err
	}
	return s, nil
}

// Close closes the descriptors.
func (s *dirStore) Close() error {
	return errors.Join(s.locks.Close(), s.writing.Close(), s.root.Close())
}

// sweep removes temporary files of processes that died. A live process holds a lock on its file,
// whatever the clocks show.
func (s *dirStore) sweep() {
	names, _ := s.writing.Names()
	for _, name := range names {
		st, err := s.writing.Lstat(name)
		if err != nil || st.Kind != fsx.Regular || time.Since(st.ModTime()).Abs() < leftover {
			continue
		}
		f, err := s.writing.Open(name, fsx.Read|fsx.Write, 0)
		if err != nil {
			continue
		}
		if free, err := f.TryLock(lockAt, 1, true); err == nil && free {
			s.writing.Remove(name) // the system has flushed the object since, if it has become one
		}
		f.Close()
	}
}

// ok returns an error once a flush has failed.
func (s *dirStore) ok(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil {
		return fmt.Errorf("an earlier flush of the hub's directory failed; check the disk and open it again: %w", s.fault)
	}
	return nil
}

// flush makes the names in dir durable. After a failure nothing in the store can be relied on: the
// system reports the failure once, and a later flush may succeed without effect.
func (s *dirStore) flush(dir fsx.Dir) error {
	err := dir.Sync()
	if err != nil {
		s.mu.Lock()
		s.fault = err
		s.mu.Unlock()
	}
	return err
}

// in opens the directory of a key, and returns it with the last segment. With make, absent
// directories are created, and all of them are durable.
func (s *dirStore) in(key string, make bool) (dir fsx.Dir, leaf string, err error) {
	dir = s.root
	for at := 0; ; {
		n := strings.IndexByte(key[at:], '/')
		if n < 0 {
			return dir, key[at:], nil
		}
		next, err := s.step(dir, key[:at+n], key[at:at+n], make)
		s.done(dir)
		if err != nil {
			return nil, "", err
		}
		dir, at = next, at+n+1
	}
}

func (s *dirStore) step(dir fsx.Dir, path, name string, make bool) (fsx.Dir, error) {
	if !make {
		return dir.OpenDir(name)
	}
	s.mu.Lock()
	made := s.made[path]
	s.mu.Unlock()
	if made {
		if next, err := dir.OpenDir(name); !errors.Is(err, fs.ErrNotExist) {
			return next, err
		}
	}
	if err := dir.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := s.flush(dir); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.made[path] = true
	s.mu.Unlock()
	return dir.OpenDir(name)
}

// done closes a directory that in opened.
func (s *dirStore) done(dir fsx.Dir) {
	if dir != nil && dir != s.root {
		dir.Close()
	}
}

// absent reports whether an error means that there is no such object.
func absent(err error) bool {
	var kind *fsx.TypeError
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.As(err, &kind) && kind.Kind == fsx.Directory
}

func (s *dirStore) Get(ctx context.Context, key string) ([]byte, string, error) {
	if err := errors.Join(s.ok(ctx), CheckKey(key)); err != nil {
		return nil, "", err
	}
	dir, leaf, err := s.in(key, false)
	if err == nil {
		defer s.done(dir)
		var data []byte
		if data, err = s.read(dir, leaf); err == nil {
			return data, contentTag(data), nil
		}
	}
	if absent(err) {
		err = fmt.Errorf("%w: %s", ErrNotFound, key)
	}
	return nil, "", err
}

// read returns the content of a file, which is durable.
func (s *dirStore) read(dir fsx.Dir, leaf string) ([]byte, error) {
	f, err := dir.Open(leaf, fsx.Read, 0)
	if kind := (*fsx.TypeError)(nil); errors.As(err, &kind) && !absent(err) {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size > MaxSize {
		return nil, fmt.Errorf("%w: %d bytes", ErrTooLarge, st.Size)
	}
	if st.Nlink > 1 {
		if err := s.flush(dir); err != nil {
			return nil, err
		}
	}
	return durable.ReadUpTo(f, MaxSize)
}

func contentTag(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (s *dirStore) PutIfAbsent(ctx context.Context, key string, data []byte) (string, error) {
	if err := errors.Join(s.ok(ctx), checkWrite(key, len(data))); err != nil {
		return "", err
	}
	dir, leaf, err := s.in(key, true)
	if err != nil {
		return "", err
	}
	defer s.done(dir)
	if st, err := dir.Lstat(leaf); err == nil {
		return "", s.taken(dir, key, st)
	}
	err = s.write(dir, data, func(name string) error { return s.writing.Link(name, dir, leaf) })
	if errors.Is(err, fs.ErrExist) {
		st, err := dir.Lstat(leaf)
		if err != nil { // deleted at this moment
			return "", fmt.Errorf("%w: %s", ErrExists, key)
		}
		return "", s.taken(dir, key, st)
	}
	if err != nil {
		return "", err
	}
	return contentTag(data), nil
}

// taken reports that a key is taken, once that is durable.
func (s *dirStore) taken(dir fsx.Dir, key string, st fsx.Stat) error {
	if st.Kind != fsx.Regular {
		return fmt.Errorf("%w: %s is a directory of other keys, or no file", ErrKey, key)
	}
	if st.Nlink > 1 {
		if err := s.flush(dir); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %s", ErrExists, key)
}

// write writes data into a new file, calls publish to give it a name in dir, and makes that name
// durable.
//
//	openat(+writing, name, O_CREAT|O_EXCL)  fcntl(lock)  write  fsync  publish…  fsync(dir)  unlinkat(name)  close
func (s *dirStore) write(dir fsx.Dir, data []byte, publish func(name string) error) error {
	name := strings.ToLower(rand.Text())
	f, err := s.writing.Open(name, fsx.Write|fsx.Create|fsx.Excl, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	defer s.writing.Remove(name)
	if _, err := f.TryLock(lockAt, 1, true); err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := publish(name); err != nil {
		return err
	}
	if err := s.flush(dir); err != nil {
		return fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	return nil
}

func (s *dirStore) CompareAndSwap(ctx context.Context, key, etag string, data []byte) (string, error) {
	if etag == "" {
		tag, err := s.PutIfAbsent(ctx, key, data)
		if errors.Is(err, ErrExists) {
			err = fmt.Errorf("%w: %s exists", ErrChanged, key)
		}
		return tag, err
	}
	if err := errors.Join(s.ok(ctx), checkWrite(key, len(data))); err != nil {
		return "", err
	}
	unlock, err := s.locks.Names(ctx, lockWait, "swap", key)
	if err != nil {
		return "", err
	}
	defer unlock()
	dir, leaf, err := s.in(key, false)
	if err == nil {
		defer s.done(dir)
		var now []byte
		if now, err = s.read(dir, leaf); err == nil && contentTag(now) != etag {
			return "", fmt.Errorf("%w: %s", ErrChanged, key)
		}
	}
	if absent(err) {
		return "", fmt.Errorf("%w: %s does not exist", ErrChanged, key)
	}
	if err != nil {
		return "", err
	}
	err = s.write(dir, data, func(name string) error {
		second := name + "-"
		if err := s.writing.Link(name, s.writing, second); err != nil {
			return err
		}
		err := s.writing.Rename(second, dir, leaf)
		if err != nil {
			s.writing.Remove(second)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	return contentTag(data), nil
}

func (s *dirStore) Delete(ctx context.Context, key string) error {
	if err := errors.Join(s.ok(ctx), CheckKey(key)); err != nil {
		return err
	}
	unlock, err := s.locks.Names(ctx, lockWait, "delete", key)
	if err != nil {
		return err
	}
	defer unlock()
	dir, leaf, err := s.in(key, false)
	if err == nil {
		defer s.done(dir)
		var st fsx.Stat
		if st, err = dir.Lstat(leaf); err == nil && st.Kind == fsx.Regular {
			err = dir.Remove(leaf)
		}
		if err == nil || absent(err) { // another process may have removed it, and not flushed
			if err = s.flush(dir); err != nil {
				return fmt.Errorf("%w: %w", ErrUncertain, err)
			}
			return nil
		}
	}
	if absent(err) {
		return nil
	}
	return err
}

func (s *dirStore) List(ctx context.Context, prefix, after string) ([]Info, bool, error) {
	if err := s.ok(ctx); err != nil {
		return nil, false, err
	}
	var list []Info
	err := s.walk(ctx, s.root, "", prefix, after, &list)
	if err != nil {
		return nil, false, err
	}
	if len(list) > MaxList {
		return list[:MaxList], true, nil
	}
	return list, false, nil
}
