package resilientwrite_test

import (
	"os"
	"path/filepath"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestCompatStores opens stores that earlier versions wrote, each with a commit
// that its writer did not live to publish. They must open for ever.
//
// testdata/compat/<version> holds workspace/ and state/. A new one is made with
// go test -run TestCompatStores -update; existing ones are never rewritten.
func TestCompatStores(t *testing.T) {
	current := filepath.Join("testdata", "compat", "format1")
	if _, err := os.Stat(current); err != nil && *update {
		makeCompatStore(t, current)
	}
	stores, err := filepath.Glob(filepath.Join("testdata", "compat", "*"))
	if err != nil || len(stores) == 0 {
		t.Fatalf("no stores: %v", err)
	}
	for _, store := range stores {
		t.Run(filepath.Base(store), func(t *testing.T) {
			dir := workspace(t)
			if err := os.CopyFS(dir, os.DirFS(filepath.Join(store, "workspace"))); err != nil {
				t.Fatal(err)
			}
			if err := os.CopyFS(filepath.Join(dir, rw.StateDirName), os.DirFS(filepath.Join(store, "state"))); err != nil {
				t.Fatal(err)
			}
			s := open(t, dir, nil)
			if r := s.Recovery(); len(r.Finished) != 1 || r.Finished[0].Path != "deep/er/file.txt" {
				t.Errorf("%+v", r)
			}
			fileIs(t, dir, "deep/er/file.txt", "new")
			fileIs(t, dir, "log.txt", "one\ntwo\n")
			tail, err := s.JournalTail(background, rw.JournalTailRequest{})
			if err != nil || len(tail.Entries) != 5 || tail.Entries[0].Seq != 1 {
				t.Errorf("%v %+v", err, tail)
			}
			check(t, s, true)
			write(t, s, "more.txt", "more", rw.ModeCreate)
			check(t, s, true)
		})
	}
}

func makeCompatStore(t *testing.T, to string) {
	dir := workspace(t)
	s := open(t, dir, nil)
	write(t, s, "deep/er/file.txt", "first", rw.ModeCreate)
	write(t, s, "deep/er/file.txt", "old", rw.ModeOverwrite)
	write(t, s, "log.txt", "one\n", rw.ModeCreate)
	write(t, s, "log.txt", "two\n", rw.ModeAppend)
	if err := s.Close(background); err != nil {
		t.Fatal(err)
	}
	cmd, _ := spawn(t, "die", dir, string(rw.StagePublish), rw.SyncFull)
	cmd.Wait()
	os.Remove(statePath(dir, "reserve"))
	os.Remove(statePath(dir, ".gitignore"))
	if err := os.CopyFS(filepath.Join(to, "state"), os.DirFS(statePath(dir))); err != nil {
		t.Fatal(err)
	}
	os.RemoveAll(statePath(dir))
	if err := os.CopyFS(filepath.Join(to, "workspace"), os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
}
