package resilientwrite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestHistoryStaysWithinItsCaps: ten thousand alternating overwrites of three files;
// the bound always holds, and the last change of every file can be undone.
func TestHistoryStaysWithinItsCaps(t *testing.T) {
	dir := workspace(t)
	os.MkdirAll(filepath.Join(dir, rw.StateDirName), 0o700)
	policy := "history: {max_bytes: 64KiB, max_versions: 10}\n"
	noErr(t, os.WriteFile(filepath.Join(dir, rw.StateDirName, "policy.yaml"), []byte(policy), 0o600))
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	rounds := scale(10_000)
	write(t, s, "once.txt", "the first and only\n", rw.ModeCreate)
	write(t, s, "once.txt", "its only change, long enough to be no shrinking\n", rw.ModeOverwrite)
	most := 0
	for i := range rounds {
		path := fmt.Sprintf("f%d.txt", i%3)
		write(t, s, path, fmt.Sprintf("version %d of %s\n%s", i, path, strings.Repeat("x", 900)), rw.ModeOverwrite)
		if i%500 == 499 {
			if n := kept(t, dir); n > most {
				most = n
			}
		}
	}
	// The versions written between two scans may exceed the bound.
	if most > 64+200+40 {
		t.Errorf("%d versions were kept at a time", most)
	}
	must(s.Restore(background, rw.RestoreRequest{Path: "once.txt", SHA256: digest(hash("the first and only\n"))}))(t, "the newest prior version of a quiet file is gone")
	must(s.Undo(background, rw.UndoRequest{}))(t, "undo")
	h, err := s.History(background, rw.HistoryRequest{Path: "f1.txt", N: 5})
	if err != nil || len(h.Versions) != 5 || !h.Versions[0].Available || !h.Versions[1].Available {
		t.Errorf("%v %+v", err, h)
	}
	check(t, s, true)
}

// kept counts the versions in history.
func kept(t *testing.T, dir string) int {
	t.Helper()
	n := 0
	filepath.WalkDir(filepath.Join(dir, rw.StateDirName, "history"), func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return nil
	})
	return n
}

func TestReadOfAVersion(t *testing.T) {
	s := open(t, workspace(t), nil)
	write(t, s, "a.txt", "one\n", rw.ModeCreate)
	write(t, s, "a.txt", "two\n", rw.ModeAppend)
	write(t, s, "a.txt", "three\n", rw.ModeOverwrite)
	h, err := s.History(background, rw.HistoryRequest{Path: "a.txt"})
	if err != nil || len(h.Versions) != 3 {
		t.Fatalf("%v %+v", err, h)
	}
	for i, want := range []string{"three\n", "one\ntwo\n", "one\n"} {
		r, err := s.Read(background, rw.ReadRequest{Path: "a.txt", Version: h.Versions[i].Version})
		if err != nil || string(r.Content) != want || r.SHA256.String() != hash(want) || r.Bytes != int64(len(want)) {
			t.Errorf("version %d: %v %+v", i, err, r)
		}
	}
	r, err := s.Read(background, rw.ReadRequest{Path: "a.txt", Version: h.Versions[1].Version, Offset: 2, MaxBytes: 3})
	if err != nil || string(r.Content) != "e\nt" || !r.Truncated {
		t.Errorf("a part: %v %+v", err, r)
	}
}
