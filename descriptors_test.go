//go:build unix

package resilientwrite_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestFewDescriptors: a process that may have 64 descriptors opens a store whose
// history has all its directories, writes, reads old versions and closes.
func TestFewDescriptors(t *testing.T) {
	if os.Getenv("RW_NOFILE") == "" {
		cmd, out := spawnTest(t, "TestFewDescriptors", "RW_NOFILE=1")
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %s", err, out.text.String())
		}
		return
	}
	var old unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_NOFILE, &old)
	noErr(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: old.Max}))
	dir := workspace(t)
	for range 2 {
		s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
		for i := range 150 {
			mode := rw.ModeOverwrite
			if i == 0 {
				s.Delete(background, rw.DeleteRequest{Path: "a"})
				mode = rw.ModeCreate
			}
			must(s.SafeWrite(background, put("a", fmt.Sprint("text ", i+1000), mode)))(t, "write ", i)
		}
		h := must(s.History(background, rw.HistoryRequest{Path: "a", N: 1000}))(t)
		kept := 0
		for i, v := range h.Versions {
			if v.Available && v.SHA256.String() != "" && i%5 == 0 {
				must(s.Read(background, rw.ReadRequest{Path: "a", Version: v.Version}))(t)
				kept++
			}
		}
		if kept < 10 {
			t.Errorf("%d versions are kept", kept)
		}
		check(t, s, true)
		noErr(t, s.Close(background))
	}
}

// TestFewDescriptorsManyFiles: a process that may have 256 descriptors undoes a
// group of 3,000 files in 60 directories, in one commit that it can undo too:
// files that were changed, deleted with their directories, and made.
func TestFewDescriptorsManyFiles(t *testing.T) {
	if os.Getenv("RW_NOFILE") == "" {
		cmd, out := spawnTest(t, "TestFewDescriptorsManyFiles", "RW_NOFILE=1")
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %s", err, out.text.String())
		}
		return
	}
	var old unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_NOFILE, &old)
	noErr(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 256, Max: old.Max}))
	dir := workspace(t)
	write := func(i int, text string) {
		name := filepath.Join(dir, fmt.Sprintf("d%d/f%d.txt", i%60, i))
		os.MkdirAll(filepath.Dir(name), 0o755)
		noErr(t, os.WriteFile(name, []byte(fmt.Sprint(text, i)), 0o644))
	}
	for i := range 2500 {
		write(i, "before ")
	}
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	scan := func() string {
		t.Helper()
		r := must(s.Scan(background, rw.ScanRequest{}))(t)
		return r.Group
	}
	scan()
	before := diskOf(t, dir)
	for d := range 20 {
		os.RemoveAll(filepath.Join(dir, fmt.Sprint("d", d)))
	}
	for i := range 3000 {
		if i%60 >= 20 {
			write(i, "after ")
		}
	}
	group, after := scan(), diskOf(t, dir)
	for i, want := range []map[string]string{before, after} {
		req := rw.UndoRequest{Group: group}
		if i > 0 {
			req = rw.UndoRequest{} // of the undo
		}
		r := must(s.Undo(background, req))(t, i)
		if len(r.Results) < 2500 || len(r.Undone) != 1 {
			t.Fatal(len(r.Results), r.Undone)
		}
		if got := diskOf(t, dir); !same(got, want) {
			t.Fatalf("undo %d: %d files, want %d", i, len(got), len(want))
		}
		scan()
	}
	check(t, s, true)
	noErr(t, s.Close(background))
}

// diskOf are the files below a directory with their modes, without the state of
// a store.
func diskOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	noErr(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == rw.StateDirName:
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(name)
		out[name] = fmt.Sprint(info.Mode(), " ", string(text))
		return err
	}))
	return out
}
