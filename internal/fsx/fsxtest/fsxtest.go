// Package fsxtest tests the behavior that every implementation of package fsx must
// have. The real file systems and the simulated one run the same tests, so that a
// result proved on the simulated one applies to the real ones.
package fsxtest

import (
	"errors"
	"io"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// Test runs the suite; newRoot gives an empty directory each time.
func Test(t *testing.T, newRoot func(*testing.T) fsx.Dir) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, fsx.Dir)
	}{
		{"files", files}, {"append", appends}, {"names", names}, {"exchange", exchange}, {"kinds", kinds}, {"locks", locks}, {"handles", handles}, {"bad names", badNames}, {"flushes", flushes},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, newRoot(t)) })
	}
}

func put(t *testing.T, d fsx.Dir, name, content string) fsx.File {
	t.Helper()
	f := testbed.Must(d.Open(name, fsx.Read|fsx.Write|fsx.Create|fsx.Excl, 0o644))(t)
	testbed.Must(f.Write([]byte(content)))(t)
	t.Cleanup(func() { f.Close() })
	return f
}

func content(t *testing.T, d fsx.Dir, name string) string {
	t.Helper()
	f := testbed.Must(d.Open(name, fsx.Read, 0))(t)
	defer f.Close()
	b := testbed.Must(io.ReadAll(f))(t)
	return string(b)
}

func is(t *testing.T, what string, err error, want error) {
	t.Helper()
	testbed.Expect(t, errors.Is(err, want), "%s: %v, want %v", what, err, want)
}

func mkdir(t *testing.T, d fsx.Dir, name string) fsx.Dir {
	t.Helper()
	testbed.NoErr(t, d.Mkdir(name, 0o755))
	sub := testbed.Must(d.OpenDir(name))(t)
	t.Cleanup(func() { sub.Close() })
	return sub
}

func files(t *testing.T, d fsx.Dir) {
	f := put(t, d, "a", "hello")
	_, err := d.Open("a", fsx.Write|fsx.Create|fsx.Excl, 0o644)
	is(t, "exclusive", err, fs.ErrExist)
	_, err = d.Open("none", fsx.Read, 0)
	is(t, "absent", err, fs.ErrNotExist)
	if _, err := f.WriteAt([]byte("J"), 0); err != nil {
		t.Error(err)
	}
	if _, err := f.WriteAt([]byte("!"), 7); err != nil {
		t.Error(err)
	}
	if got := content(t, d, "a"); got != "Jello\x00\x00!" {
		t.Errorf("content %q", got)
	}
	b := make([]byte, 4)
	if n, err := f.ReadAt(b, 6); n != 2 || err != io.EOF {
		t.Errorf("read at the end: %d %v", n, err)
	}
	for _, err := range []error{f.Truncate(2), f.Sync(), f.Datasync(), d.Sync(), f.Chmod(0o640)} {
		testbed.IsErr(t, err, nil)
	}
	mode := uint32(0o640)
	if runtime.GOOS == "windows" { // which has one bit: read-only or not
		mode = 0o666
	}
	st, err := f.Stat()
	testbed.Expect(t, err == nil && st.Size == 2 && st.Mode == mode && st.Kind == fsx.Regular && st.Nlink == 1, "%+v %v", st, err)
	if v, err := d.Volume(); err != nil || v.Free <= 0 {
		t.Errorf("%+v %v", v, err)
	}
}

func appends(t *testing.T, d fsx.Dir) {
	put(t, d, "a", "one")
	x := testbed.Must(d.Open("a", fsx.Append, 0))(t)
	defer x.Close()
	y, err := d.Open("a", fsx.Append|fsx.Read, 0)
	testbed.NoErr(t, err)
	defer y.Close()
	for i, f := range []fsx.File{x, y, x} {
		if off, err := f.Append([]byte("two")); err != nil || off != int64(3*(i+1)) {
			t.Errorf("append %d landed at %d: %v", i, off, err)
		}
	}
	if got := content(t, d, "a"); got != "onetwotwotwo" {
		t.Errorf("content %q", got)
	}
}

func names(t *testing.T, d fsx.Dir) {
	put(t, d, "a", "a")
	put(t, d, "b", "b")
	sub := mkdir(t, d, "sub")
	is(t, "link over a file", d.Link("a", d, "b"), fs.ErrExist)
	is(t, "link of nothing", d.Link("none", d, "c"), fs.ErrNotExist)
	testbed.NoErr(t, d.Link("a", sub, "a2"))
	one, _ := d.Lstat("a")
	two, err := sub.Lstat("a2")
	testbed.Expect(t, err == nil && one.SameFile(two) && two.Nlink == 2, "%+v %+v %v", one, two, err)
	is(t, "rename without replacing", d.RenameNoReplace("a", d, "b"), fs.ErrExist)
	testbed.NoErr(t, d.Rename("a", d, "b"))
	if got := content(t, d, "b"); got != "a" {
		t.Errorf("content %q", got)
	}
	testbed.NoErr(t, d.RenameNoReplace("b", sub, "b"))
	is(t, "rmdir of a full directory", d.Rmdir("sub"), syscall.ENOTEMPTY)
	is(t, "remove of nothing", d.Remove("none"), fs.ErrNotExist)
	if err := d.Remove("sub"); err == nil {
		t.Error("remove took a directory")
	}
	put(t, sub, "0", "")
	list, err := sub.Names()
	testbed.Expect(t, err == nil && slices.Equal(list, []string{"0", "a2", "b"}), "%v %v", list, err)
	for _, name := range list {
		testbed.IsErr(t, sub.Remove(name), nil)
	}
	testbed.IsErr(t, d.Rmdir("sub"), nil)
	if runtime.GOOS != "windows" { // which removes it when it is closed
		is(t, "mkdir in a removed directory", sub.Mkdir("m", 0o755), fs.ErrNotExist)
		put(t, d, "late", "x")
		is(t, "rename into a removed directory", d.RenameNoReplace("late", sub, "late"), fs.ErrNotExist)
	}
	is(t, "mkdir twice", func() error { d.Mkdir("m", 0o755); return d.Mkdir("m", 0o755) }(), fs.ErrExist)
}

func exchange(t *testing.T, d fsx.Dir) {
	put(t, d, "a", "a")
	sub := mkdir(t, d, "sub")
	put(t, sub, "b", "b")
	err := d.Exchange("a", sub, "b")
	if errors.Is(err, fsx.ErrUnsupported) {
		t.Skip("this file system cannot exchange two names")
	}
	testbed.NoErr(t, err)
	if a, b := content(t, d, "a"), content(t, sub, "b"); a != "b" || b != "a" {
		t.Errorf("%q %q", a, b)
	}
	is(t, "exchange with nothing", d.Exchange("a", sub, "none"), fs.ErrNotExist)
}

func kinds(t *testing.T, d fsx.Dir) {
	put(t, d, "file", "x")
	mkdir(t, d, "dir")
	var kind *fsx.TypeError
	if _, err := d.Open("dir", fsx.Read, 0); !errors.As(err, &kind) || kind.Kind != fsx.Directory {
		t.Errorf("open of a directory: %v", err)
	}
	if _, err := d.OpenDir("file"); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("opendir of a file: %v", err)
	}
	for name, target := range map[string]string{"tofile": "file", "todir": "dir", "dangling": "none"} {
		err := d.Symlink(target, name)
		if errors.Is(err, fsx.ErrUnsupported) {
			t.Skip(err)
		}
		testbed.NoErr(t, err)
		is(t, "symlink over "+name, d.Symlink("x", name), fs.ErrExist)
		st, err := d.Lstat(name)
		testbed.Expect(t, err == nil && st.Kind == fsx.Symlink && st.Mode == fsx.ModeLink, "%s: %+v %v", name, st, err)
		f := testbed.Must(fsx.OpenEntry(d, name))(t)
		text, err := io.ReadAll(f)
		if own, serr := f.Stat(); string(text) != target || err != nil || serr != nil || own.Ino != st.Ino || own.Size != int64(len(target)) {
			t.Errorf("%s as an entry: %q %+v %v %v", name, text, own, err, serr)
		}
		if got, err := d.Readlink(name); err != nil || got != target {
			t.Errorf("%s: %q %v", name, got, err)
		}
		if _, err := d.Open(name, fsx.Read, 0); err == nil {
			t.Errorf("open followed %s", name)
		}
		if _, err := d.Open(name, fsx.Write|fsx.Create, 0o644); err == nil {
			t.Errorf("create followed %s", name)
		}
		if _, err := d.OpenDir(name); err == nil {
			t.Errorf("opendir followed %s", name)
		}
	}
}

func locks(t *testing.T, d fsx.Dir) {
	x := put(t, d, "lock", "")
	y, err := d.Open("lock", fsx.Read|fsx.Write, 0)
	testbed.NoErr(t, err)
	try := func(f fsx.File, off int64, exclusive, want bool) {
		t.Helper()
		if ok, err := f.TryLock(off, 1, exclusive); err != nil || ok != want {
			t.Errorf("lock at %d: %v %v, want %v", off, ok, err, want)
		}
	}
	try(x, 1<<40, true, true)
	try(y, 1<<40, true, false)
	try(y, 1<<40, false, false)
	try(y, 1<<40+1, true, true)
	testbed.IsErr(t, x.Unlock(1<<40, 1), nil)
	try(x, 1<<40, false, true)
	try(y, 1<<40, false, true)
	try(x, 1<<40, true, false)
	y.Close() // its locks go with it
	try(x, 1<<40, true, true)
	try(x, 1<<40+1, true, true)
}

func handles(t *testing.T, d fsx.Dir) {
	sub := mkdir(t, d, "before")
	testbed.NoErr(t, d.Rename("before", d, "after"))
	put(t, sub, "x", "still here")
	moved := testbed.Must(d.OpenDir("after"))(t)
	defer moved.Close()
	if got := content(t, moved, "x"); got != "still here" {
		t.Errorf("content %q", got)
	}
}

func badNames(t *testing.T, d fsx.Dir) {
	for _, name := range []string{"", ".", "..", "a/b", "a\x00"} {
		if _, err := d.Open(name, fsx.Write|fsx.Create, 0o644); err == nil {
			t.Errorf("open took %q", name)
		}
		if _, err := d.OpenDir(name); err == nil {
			t.Errorf("opendir took %q", name)
		}
		testbed.Expect(t, d.Mkdir(name, 0o755) != nil && d.Remove(name) != nil, "%q was taken", name)
	}
	if _, err := d.Open(strings.Repeat("n", 256), fsx.Write|fsx.Create, 0o644); err == nil {
		t.Error("a name of 256 bytes was taken")
	}
	put(t, d, strings.Repeat("n", 255), "long")
}

// flushes checks the flushes: an unsupported one reports it, a supported one has no
// visible effect.
func flushes(t *testing.T, d fsx.Dir) {
	sub := mkdir(t, d, "sub")
	files := []fsx.File{put(t, d, "a", "1"), put(t, sub, "b", "2")}
	each := func(list ...fsx.Syncer) error {
		errs, err := d.SyncEach(list)
		testbed.Expect(t, err != nil || len(errs) == len(list), "%d results of %d", len(errs), len(list))
		return errors.Join(append(errs, err)...)
	}
	reader, err := d.Open("a", fsx.Read, 0)
	testbed.NoErr(t, err)
	defer reader.Close()
	files = append(files, reader)
	for _, f := range files {
		f.WriteOut()
		testbed.IsErr(t, f.Sync(), nil)
		testbed.IsErr(t, f.Datasync(), nil)
	}
	clone := put(t, sub, "clone", "")
	switch err := clone.Clone(reader); {
	case errors.Is(err, fsx.ErrUnsupported):
	case err != nil || content(t, sub, "clone") != "1":
		t.Errorf("clone: %v, %q", err, content(t, sub, "clone"))
	}
	for what, err := range map[string]error{
		"many": each(files[0], files[1], reader, sub), "none": each(), "twice the same": each(reader, reader, d, d),
	} {
		testbed.Expect(t, err == nil || errors.Is(err, fsx.ErrUnsupported), "%s: %v", what, err)
	}
	if a, b := content(t, d, "a"), content(t, sub, "b"); a != "1" || b != "2" {
		t.Errorf("content %q, %q", a, b)
	}
}
