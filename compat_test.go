package resilientwrite_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/lock"
)

// TestCompatStores opens stores that earlier versions wrote. They must open for
// ever. testdata/compat/<version> holds workspace/ and state/; existing ones are
// never rewritten.
func TestCompatStores(t *testing.T) {
	t.Run("format1-closed", func(t *testing.T) {
		dir := compatStore(t, "format1-closed")
		s := open(t, dir, nil)
		fileIs(t, dir, "moved.txt", "old")
		tail, err := s.JournalTail(background, rw.JournalTailRequest{})
		if err != nil || len(tail.Entries) != 7 || tail.Entries[0].Seq != 1 {
			t.Errorf("%v %+v", err, tail)
		}
		check(t, s, true)
		if _, err := s.Undo(background, rw.UndoRequest{N: 2}); err != nil {
			t.Fatal(err)
		}
		fileIs(t, dir, "log.txt", "one\ntwo\n")
		fileIs(t, dir, "deep/er/file.txt", "old")
		for path, want := range map[string]string{"log.txt": "one\n", "deep/er/file.txt": "first"} {
			h, err := s.History(background, rw.HistoryRequest{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range h.Versions {
				if v.SHA256.String() == hash(want) {
					_, err := s.Restore(background, rw.RestoreRequest{Path: path, Version: v.Version})
					must(t, err)
					break
				}
			}
			fileIs(t, dir, path, want)
		}
		write(t, s, "more.txt", "more", rw.ModeCreate)
		check(t, s, true)
		if meta, _ := os.ReadFile(statePath(dir, "meta.json")); !strings.Contains(string(meta), `"format": 2`) {
			t.Errorf("%s", meta)
		}
	})
	// A commit whose writer died before it published it is completed only by the
	// version that made it.
	t.Run("format1", func(t *testing.T) {
		dir := compatStore(t, "format1")
		before := snapshot(t, dir)
		for range 2 {
			_, err := rw.Open(background, dir, nil)
			if e := rw.AsError("", err); !errors.Is(err, rw.ErrBadStateDir) || !strings.Contains(e.Hint, "version 0.1") || e.Context["format"] != 1 {
				t.Fatalf("%+v", e)
			}
		}
		if snapshot(t, dir) != before {
			t.Error("the workspace changed")
		}
		fileIs(t, dir, "deep/er/file.txt", "old")
	})
	t.Run("format1 in use", func(t *testing.T) {
		dir := compatStore(t, "format1-closed")
		release := holdLiveness(t, dir, "old")
		if _, err := rw.Open(background, dir, nil); !errors.Is(err, rw.ErrIOBusy) {
			t.Fatal(err)
		}
		release()
		open(t, dir, nil)
	})
}

// compatStore copies a store into a workspace.
func compatStore(t *testing.T, name string) string {
	t.Helper()
	store, dir := filepath.Join("testdata", "compat", name), workspace(t)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(store, "workspace"))); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, rw.StateDirName), os.DirFS(filepath.Join(store, "state"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// holdLiveness looks to others like a live writer.
func holdLiveness(t *testing.T, dir, writer string) (release func()) {
	t.Helper()
	d, err := fsx.OpenRoot(statePath(dir, "locks"))
	if err != nil {
		t.Fatal(err)
	}
	_, end, err := lock.Register(d, writer)
	if err != nil {
		t.Fatal(err)
	}
	return func() { end(); d.Close() }
}
