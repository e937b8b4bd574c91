package object

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// countIn is the environment variable that makes this program one of the processes of
// TestProcesses.
const countIn = "RW_HUB_COUNT"

func TestMain(m *testing.M) {
	if root := os.Getenv(countIn); root != "" {
		if err := count(root); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testbed.Main(m)
}

// count adds 1 to a number sixty times, and prints each number that it wrote.
func count(root string) error {
	s, err := Open(ctx, root)
	if err != nil {
		return err
	}
	for n := 0; n < 60; {
		data, etag, err := s.Get(ctx, "number")
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		now, _ := strconv.Atoi(string(data))
		_, err = s.CompareAndSwap(ctx, "number", etag, []byte(strconv.Itoa(now+1)))
		if errors.Is(err, ErrChanged) {
			continue
		}
		if err != nil {
			return err
		}
		n++
		fmt.Println("number", now+1)
	}
	return nil
}

func TestDirectory(t *testing.T) {
	conform(t, mustOpen(t, "dir:"+t.TempDir()+"/hub"))
}

// remote is a directory on a network file system.
type remote struct{ fsx.Dir }

func (remote) Volume() (fsx.Volume, error) { return fsx.Volume{Type: "nfs", Remote: true}, nil }

func TestDirectoryIsRefused(t *testing.T) {
	disk := simfs.New()
	if _, err := openDir(remote{disk.Root()}); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "nfs") || len(disk.Tree()) > 0 {
		t.Errorf("%v, left %v", err, disk.Tree())
	}
	root := t.TempDir()
	testbed.Plant(t, root, 0o600, map[string]string{"file": ""})
	for _, address := range []string{"", "dir:", root + "/absent/hub", root + "/file", "http://host/hub", "dir:" + root + "/file"} {
		if s, err := Open(ctx, address); err == nil || s != nil || strings.Contains(err.Error(), root) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestDirectoryIsPrivate: no other user can read the directory, and symbolic links in it are not
// followed.
func TestDirectoryIsPrivate(t *testing.T) {
	root := t.TempDir() + "/hub"
	s := mustOpen(t, root)
	if _, err := s.PutIfAbsent(ctx, "a/b/c", []byte("x")); err != nil {
		t.Fatal(err)
	}
	filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			t.Fatal(err)
		}
		if info, err := e.Info(); err != nil || runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
		return nil
	})
	outside := t.TempDir()
	testbed.Plant(t, outside, 0o600, map[string]string{"secret": "x"})
	for name, to := range map[string]string{"dir": outside, "file": outside + "/secret"} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Skip(err)
		}
	}
	for _, key := range []string{"dir/secret", "file"} {
		if data, _, err := s.Get(ctx, key); err == nil || key == "file" && !errors.Is(err, ErrKey) {
			t.Errorf("%s: %q %v", key, data, err)
		}
		if _, err := s.PutIfAbsent(ctx, key, nil); err == nil {
			t.Errorf("%s was written", key)
		}
		if err := s.Delete(ctx, key); err != nil && key == "file" {
			t.Errorf("%s: %v", key, err)
		}
	}
	if list := all(t, s, ""); len(list) != 1 {
		t.Errorf("%q", list)
	}
	if data, err := os.ReadFile(outside + "/secret"); err != nil || string(data) != "x" {
		t.Errorf("%q %v", data, err)
	}
}

// TestOneWriterOfAKey: an object is not deleted while it is being replaced, or it would come back.
func TestOneWriterOfAKey(t *testing.T) {
	s, err := openPath(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tag, err := s.PutIfAbsent(ctx, "a/b", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := s.locks.Names(ctx, lockWait, "swap", "a/b")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	brief, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	derr := s.Delete(brief, "a/b")
	_, serr := s.CompareAndSwap(brief, "a/b", tag, nil)
	if data, _, err := s.Get(ctx, "a/b"); derr == nil || serr == nil || err != nil || string(data) != "x" {
		t.Errorf("%v, %v; %q %v", derr, serr, data, err)
	}
}

// TestOneKeyAboveAnother checks that such a key is an error and does no damage.
func TestOneKeyAboveAnother(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	tag, err := s.PutIfAbsent(ctx, "a/b", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "a/b/c"} {
		_, perr := s.PutIfAbsent(ctx, key, nil)
		_, serr := s.CompareAndSwap(ctx, key, "", nil)
		_, cerr := s.CompareAndSwap(ctx, key, tag, nil)
		if perr == nil || serr == nil || errors.Is(perr, ErrExists) || errors.Is(serr, ErrChanged) || !errors.Is(cerr, ErrChanged) || s.Delete(ctx, key) != nil {
			t.Errorf("%s: %v, %v, %v", key, perr, serr, cerr)
		}
	}
	if data, _, err := s.Get(ctx, "a/b"); err != nil || string(data) != "x" {
		t.Errorf("%q %v", data, err)
	}
}

// TestLeftovers: a temporary file of a process that died is removed after an hour, and no file that
// is being written, whatever the clocks show.
func TestLeftovers(t *testing.T) {
	root := t.TempDir()
	s, err := openPath(root)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for name, at := range map[string]time.Time{"old": now.Add(-2 * leftover), "young": now, "future": now.Add(2 * leftover), "locked": now.Add(-2 * leftover)} {
		f, err := s.writing.Open(name, fsx.Write|fsx.Create, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if ok, err := f.TryLock(lockAt, 1, true); name == "locked" && (err != nil || !ok) {
			t.Fatal(ok, err)
		}
		if name != "locked" {
			f.Close()
		}
		if err := os.Chtimes(filepath.Join(root, writing, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := openPath(root); err != nil {
		t.Fatal(err)
	}
	if names, err := s.writing.Names(); err != nil || fmt.Sprint(names) != "[locked young]" {
		t.Errorf("%v %v", names, err)
	}
}
