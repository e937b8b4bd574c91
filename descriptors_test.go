//go:build unix

package resilientwrite_test

import (
	"fmt"
	"os"
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
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	dir := workspace(t)
	for range 2 {
		s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
		for i := range 150 {
			mode := rw.ModeOverwrite
			if i == 0 {
				s.Delete(background, rw.DeleteRequest{Path: "a"})
				mode = rw.ModeCreate
			}
			if _, err := s.SafeWrite(background, put("a", fmt.Sprint("text ", i+1000), mode)); err != nil {
				t.Fatalf("write %d: %v", i, err)
			}
		}
		h, err := s.History(background, rw.HistoryRequest{Path: "a", N: 1000})
		if err != nil {
			t.Fatal(err)
		}
		kept := 0
		for i, v := range h.Versions {
			if v.Available && v.SHA256.String() != "" && i%5 == 0 {
				if _, err := s.Read(background, rw.ReadRequest{Path: "a", Version: v.Version}); err != nil {
					t.Fatal(err)
				}
				kept++
			}
		}
		if kept < 10 {
			t.Errorf("%d versions are kept", kept)
		}
		check(t, s, true)
		if err := s.Close(background); err != nil {
			t.Fatal(err)
		}
	}
}
