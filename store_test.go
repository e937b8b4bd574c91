package resilientwrite_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// open opens a store and closes it at the end of the test. Unless the options say
// otherwise a call waits for others longer than by default, because the tests do not
// check how long they take on a busy machine.
func open(t *testing.T, dir string, opts *rw.Options) *rw.Store {
	t.Helper()
	var o rw.Options
	if opts != nil {
		o = *opts
	}
	if o.LockTimeout == 0 {
		o.LockTimeout = 2 * time.Minute
	}
	s := must(rw.Open(context.Background(), dir, &o))(t)
	stores.Store(s, dir)
	t.Cleanup(func() {
		stores.Delete(s)
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// stores are the open ones, with their directories.
var stores sync.Map

// quiesce waits until no background work of earlier calls in dir remains, so that only
// the test changes the disk.
func quiesce(dir string) {
	stores.Range(func(s, at any) bool {
		if at == dir || filepath.Dir(dir) == at {
			s.(*rw.Store).Sync(background)
		}
		return true
	})
}

// must, noErr, fails and isErr check errors, as testbed describes.
var noErr, isErr = testbed.NoErr, testbed.IsErr

func must[T any](v T, err error) func(testing.TB, ...any) T { return testbed.Must(v, err) }

func fails[T any](v T, err error) func(testing.TB, error, ...any) { return testbed.Fails(v, err) }

func workspace(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "ws")
	noErr(t, os.Mkdir(dir, 0o755))
	return dir
}

// check fails the test when the store is not sound.
func check(t *testing.T, s *rw.Store, deep bool) {
	t.Helper()
	r := must(s.Check(context.Background(), rw.CheckRequest{Deep: deep}))(t)
	for _, p := range r.Problems {
		t.Errorf("check: %s %s seq %d: %s", p.Code, p.Path, p.Seq, p.Detail)
	}
}

func write(t *testing.T, s *rw.Store, path, content string, mode rw.WriteMode) rw.SafeWriteResult {
	t.Helper()
	r := must(s.SafeWrite(context.Background(), rw.SafeWriteRequest{Path: path, Content: []byte(content), Mode: mode}))(t, "write ", path)
	return r
}

func fileIs(t *testing.T, dir, path, want string) {
	t.Helper()
	got := must(os.ReadFile(filepath.Join(dir, filepath.FromSlash(path))))(t)
	if string(got) != want {
		t.Fatalf("%s holds %.80q, want %.80q", path, got, want)
	}
}

func TestWriteReadJournal(t *testing.T) {
	for _, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncJournal, rw.SyncOff} {
		t.Run(string(level), func(t *testing.T) {
			dir := workspace(t)
			s := open(t, dir, &rw.Options{Sync: level})
			a := write(t, s, "a/b/c.txt", "one\n", rw.ModeCreate)
			fileIs(t, dir, "a/b/c.txt", "one\n")
			b := write(t, s, "a/b/c.txt", "two\n", rw.ModeOverwrite)
			if b.Receipt.PrevSHA256 != a.SHA256 {
				t.Errorf("prev %s, want %s", b.Receipt.PrevSHA256, a.SHA256)
			}
			c := write(t, s, "a/b/c.txt", "three\n", rw.ModeAppend)
			fileIs(t, dir, "a/b/c.txt", "two\nthree\n")
			got, err := s.Read(context.Background(), rw.ReadRequest{Path: "a/b/c.txt"})
			if err != nil || got.SHA256 != c.SHA256 || string(got.Content) != "two\nthree\n" {
				t.Fatalf("read %+v %v", got, err)
			}
			tail := must(s.JournalTail(context.Background(), rw.JournalTailRequest{}))(t)
			var ops []string
			for _, e := range tail.Entries {
				ops = append(ops, e.Op)
			}
			if strings.Join(ops, " ") != "create overwrite append" {
				t.Errorf("tail: %v", ops)
			}
			if u := write(t, s, "a/b/c.txt", "two\nthree\n", rw.ModeOverwrite); u.Status != rw.StatusUnchanged {
				t.Errorf("status %s", u.Status)
			}
			fails(s.SafeWrite(context.Background(), rw.SafeWriteRequest{Path: "a/b/c.txt", Content: []byte("x")}))(t, rw.ErrFileAlreadyExists, "create over existing")
			noErr(t, s.Sync(context.Background()))
			check(t, s, true)
		})
	}
}
