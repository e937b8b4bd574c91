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
		must(s.Undo(background, rw.UndoRequest{N: 2}))(t)
		fileIs(t, dir, "log.txt", "one\ntwo\n")
		fileIs(t, dir, "deep/er/file.txt", "old")
		for path, want := range map[string]string{"log.txt": "one\n", "deep/er/file.txt": "first"} {
			h := must(s.History(background, rw.HistoryRequest{Path: path}))(t)
			for _, v := range h.Versions {
				if v.SHA256.String() == hash(want) {
					must(s.Restore(background, rw.RestoreRequest{Path: path, Version: v.Version}))(t)
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
		fails(rw.Open(background, dir, nil))(t, rw.ErrIOBusy)
		release()
		open(t, dir, nil)
	})
}

// compatStore copies a store into a workspace.
func compatStore(t *testing.T, name string) string {
	t.Helper()
	store, dir := filepath.Join("testdata", "compat", name), workspace(t)
	noErr(t, os.CopyFS(dir, os.DirFS(filepath.Join(store, "workspace"))))
	noErr(t, os.CopyFS(filepath.Join(dir, rw.StateDirName), os.DirFS(filepath.Join(store, "state"))))
	return dir
}

// holdLiveness looks to others like a live writer.
func holdLiveness(t *testing.T, dir, writer string) (release func()) {
	t.Helper()
	d := must(fsx.OpenRoot(statePath(dir, "locks")))(t)
	_, end, err := lock.Register(d, writer)
	noErr(t, err)
	return func() { end(); d.Close() }
}
