package resilientwrite_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// TestMoveOfManyFiles: a directory of 4,096 files is one commit; one more file is
// refused before anything moves.
func TestMoveOfManyFiles(t *testing.T) {
	t.Parallel()
	const most = 4096
	dir := workspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	for i := range most {
		name := filepath.Join(dir, fmt.Sprintf("old/d%d/file %d.txt", i%7, i))
		noErr(t, os.MkdirAll(filepath.Dir(name), 0o755))
		noErr(t, os.WriteFile(name, []byte(fmt.Sprint("content of ", i)), 0o644))
	}
	count := func(below string) (n int) {
		list, _ := filepath.Glob(filepath.Join(dir, below, "*/*.txt"))
		return len(list)
	}
	noErr(t, os.WriteFile(filepath.Join(dir, "old/d0/more.txt"), nil, 0o644))
	_, err := s.Move(background, rw.MoveRequest{Path: "old", To: "new"})
	var e *rw.Error
	if !errors.As(err, &e) || e.Detail != rw.ErrTooLarge || e.Context["max_files"] != most || count("old") != most+1 {
		t.Fatalf("%v, %d files left", err, count("old"))
	}
	noErr(t, os.Remove(filepath.Join(dir, "old/d0/more.txt")))
	r := must(s.Move(background, rw.MoveRequest{Path: "old", To: "new"}))(t)
	if r.Files != most || count("new") != most || count("old") != 0 {
		t.Errorf("%d files moved, %d are there, %d were left", r.Files, count("new"), count("old"))
	}
	if short() {
		return
	}
	must(s.Undo(background, rw.UndoRequest{}))(t)
	if count("new") != 0 || count("old") != most {
		t.Errorf("%d files back, %d left", count("old"), count("new"))
	}
	check(t, s, true)
}

// TestMoveOfManyFilesSweep: the mutations of such a commit do not fit into a
// line of the journal. A process dies, or the power is cut, at operations all over
// the call: the next Open finds all files under one of the two names.
func TestMoveOfManyFilesSweep(t *testing.T) {
	t.Parallel()
	const files = 700
	name := func(below string, i int) string {
		return fmt.Sprintf("%s/%s %03d.txt", below, strings.Repeat("a long name ", 10), i)
	}
	start := func() (*simfs.FS, *rw.Store) {
		fs := simfs.New()
		for i := range files {
			fs.WriteFile(name("old", i), []byte{byte(i)}, 0o644)
		}
		s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001"}))(t)
		return fs, s
	}
	fs, s := start()
	before := fs.Muts()
	noErr(t, move("old", "new", false)(s))
	all := fs.Muts() - before
	const places = 8
	for i := range places {
		n := (all*i + phase(all)) / places
		fs, s := start()
		fs.StopAt(n)
		isErr(t, move("old", "new", false)(s), simfs.ErrDead, "stopped at ", n)
		cut := fs.Crash(uint64(n), []simfs.Loss{simfs.None, simfs.Some}[i%2])
		s = must(rw.OpenSim(cut, nil, rw.Sim{Nonce: "0002"}))(t)
		tree, old, new := cut.Tree(), 0, 0
		for i := range files {
			if _, ok := tree[name("old", i)]; ok {
				old++
			}
			if _, ok := tree[name("new", i)]; ok {
				new++
			}
		}
		if !(old == files && new == 0 || old == 0 && new == files) || len(s.Recovery().Conflicts) > 0 {
			t.Errorf("stopped at %d of %d: %d files have the old name, %d the new one; conflicts %v", n, all, old, new, len(s.Recovery().Conflicts))
		}
		noErr(t, s.Close(background))
	}
}
