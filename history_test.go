package resilientwrite_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// quick is a store in memory, where durability is not the point.
func quick(t *testing.T, opts *rw.Options) (*rw.Store, string) {
	t.Helper()
	dir := ramspace(t)
	return quickAt(t, dir, opts), dir
}

func quickAt(t *testing.T, dir string, opts *rw.Options) *rw.Store {
	t.Helper()
	return open(t, dir, unsynced(opts))
}

// human changes a file without the store, as an editor does: in place.
func human(t testing.TB, dir, path, content string) {
	t.Helper()
	full := filepath.Join(dir, path)
	noErr(t, os.MkdirAll(filepath.Dir(full), 0o755))
	noErr(t, os.WriteFile(full, []byte(content), 0o644))
}

func gone(t *testing.T, dir, path string) {
	t.Helper()
	_, err := os.Lstat(filepath.Join(dir, path))
	expect(t, os.IsNotExist(err), "%s is there (%v)", path, err)
}

func edited(t *testing.T, s *rw.Store, path, old, new string) rw.EditResult {
	t.Helper()
	return must(s.Edit(background, rw.EditRequest{Path: path, Edits: []rw.EditOp{{Old: old, New: new}}}))(t)
}

func deleted(t *testing.T, s *rw.Store, path string) rw.DeleteResult {
	t.Helper()
	return must(s.Delete(background, rw.DeleteRequest{Path: path}))(t)
}

func renamed(t *testing.T, s *rw.Store, path, to string) rw.MoveResult {
	t.Helper()
	return must(s.Move(background, rw.MoveRequest{Path: path, To: to}))(t)
}

func undone(t *testing.T, s *rw.Store, n int) rw.UndoResult {
	t.Helper()
	return must(s.Undo(background, rw.UndoRequest{N: n}))(t)
}

func restored(t *testing.T, s *rw.Store, path string, version uint64) rw.RestoreResult {
	t.Helper()
	return must(s.Restore(background, rw.RestoreRequest{Path: path, Version: version}))(t, "restore ", path, " to ", version)
}

func versionsOf(t *testing.T, s *rw.Store, path string) []rw.FileVersion {
	t.Helper()
	return must(s.History(background, rw.HistoryRequest{Path: path, N: 1000}))(t).Versions
}

func transact(s *rw.Store, ops ...rw.TxOp) error {
	return errorOf(s.Tx(background, rw.TxRequest{Ops: ops}))
}

// lived is a file that went through every verb. The contents are those after
// each of its versions, newest first; "-" for absent.
func lived(t *testing.T, s *rw.Store) []string {
	t.Helper()
	write(t, s, "a.txt", "one\n", rw.ModeCreate)
	write(t, s, "a.txt", "two\n", rw.ModeOverwrite)
	write(t, s, "a.txt", "more\n", rw.ModeAppend)
	write(t, s, "a.txt", "yet more\n", rw.ModeAppend)
	edited(t, s, "a.txt", "two", "TWO")
	deleted(t, s, "a.txt")
	write(t, s, "a.txt", "again\n", rw.ModeCreate)
	write(t, s, "a.txt", "and on\n", rw.ModeAppend)
	renamed(t, s, "a.txt", "d/b.txt")
	write(t, s, "d/b.txt", "after\n", rw.ModeAppend)
	return []string{
		"again\nand on\nafter\n", "again\nand on\n", "again\nand on\n", "again\n", "-", "TWO\nmore\nyet more\n",
		"two\nmore\nyet more\n", "two\nmore\n", "two\n", "one\n",
	}
}

func TestHistoryFollowsAFileThroughEverything(t *testing.T) {
	s, _ := quick(t, nil)
	want := lived(t, s)
	got := versionsOf(t, s, "d/b.txt")
	mustEqual(t, len(got), len(want), "versions")
	ops := ""
	for i, v := range got {
		ops += v.Op + " "
		if want[i] == "-" {
			expect(t, v.SHA256.String() == "" && v.Bytes == 0, "version %d: %+v, want an absent one", i, v)
		} else if v.SHA256.String() != hash(want[i]) || v.Bytes != int64(len(want[i])) {
			t.Errorf("version %d: %+v, want %q", i, v, want[i])
		}
		expect(t, v.Available, "version %d (%s) is not available", i, v.Op)
		wantPath := map[bool]string{true: "d/b.txt", false: "a.txt"}[i < 2]
		expect(t, v.Path == wantPath, "version %d lay at %s", i, v.Path)
		if want[i] == "-" {
			continue
		}
		r, err := s.Read(background, rw.ReadRequest{Path: "d/b.txt", Version: v.Version})
		expect(t, err == nil && string(r.Content) == want[i], "version %d reads %q %v, want %q", i, r.Content, err, want[i])
	}
	equal(t, ops, "append move append create delete edit append append overwrite create ", "ops")
	h, err := s.History(background, rw.HistoryRequest{Path: "d/b.txt", N: 3})
	expect(t, err == nil && len(h.Versions) == 3 && h.More, "three of them: %v %+v", err, h)
	h, err = s.History(background, rw.HistoryRequest{Path: "d/b.txt", N: 10})
	expect(t, err == nil && len(h.Versions) == 10 && !h.More, "all of them: %v %v", err, h.More)
	// The history of the old name shows the new one, and its bytes are still available.
	old := versionsOf(t, s, "a.txt")
	expect(t, old[0].SHA256.String() == "" && old[0].Op == "move" && len(old) == 9, "old name: %+v", old)
	for i, v := range old {
		expect(t, v.Available, "old name: version %d (%s) is not available", i, v.Op)
	}
	check(t, s, true)
}

func TestHistoryRefusals(t *testing.T) {
	s, dir := quick(t, nil)
	write(t, s, "a.txt", "x", rw.ModeCreate)
	for _, c := range []struct {
		r    rw.HistoryRequest
		want rw.Detail
	}{
		{rw.HistoryRequest{Path: "none.txt"}, rw.ErrNotFound},
		{rw.HistoryRequest{Path: "a.txt", N: -1}, rw.ErrInvalidArgument},
		{rw.HistoryRequest{Path: "a.txt", N: 1001}, rw.ErrInvalidArgument},
		{rw.HistoryRequest{Path: "../a.txt"}, rw.ErrEscapesWorkspace},
		{rw.HistoryRequest{Path: ""}, rw.ErrEmptyPath},
		{rw.HistoryRequest{Path: "a\x00"}, rw.ErrInvalidPath},
		{rw.HistoryRequest{Path: ".git/config"}, rw.ErrProtectedPath},
		{rw.HistoryRequest{Path: rw.StateDirName + "/meta.json"}, rw.ErrProtectedPath},
	} {
		deny(t, s, dir, fmt.Sprintf("%q", c.r.Path), c.want, calling(s.History, c.r))
	}
	for _, r := range []rw.RestoreRequest{{Path: "a.txt"}, {Path: "a.txt", Version: 1, SHA256: digest(hash("x"))}} {
		deny(t, s, dir, "version and hash", rw.ErrInvalidArgument, calling(s.Restore, r))
	}
	for _, r := range []rw.RestoreRequest{{Path: "a.txt", Version: 999}, {Path: "a.txt", SHA256: digest(hash("y"))}, {Path: "n.txt", Version: 1}} {
		deny(t, s, dir, "no such version", rw.ErrVersionNotFound, calling(s.Restore, r))
	}
	for _, n := range []int{-1, 51} {
		deny(t, s, dir, "undo n", rw.ErrInvalidArgument, calling(s.Undo, rw.UndoRequest{N: n}))
	}
	deny(t, s, dir, "nobody", rw.ErrNothingToUndo, calling(s.Undo, rw.UndoRequest{Call: rw.Call{Caller: "nobody"}}))
	deny(t, s, dir, "other session", rw.ErrNothingToUndo, calling(s.Undo, rw.UndoRequest{Call: rw.Call{Session: "other"}}))
}

// TestEveryVersionRestores: each version of a file can be restored, whichever verb made
// it and whichever version was restored before.
func TestEveryVersionRestores(t *testing.T) {
	s, dir := quick(t, nil)
	want := lived(t, s)
	list := versionsOf(t, s, "d/b.txt")
	order := []int{9, 0, 4, 5, 4, 4, 1, 8, 7, 6, 3, 2, 9}
	for _, i := range order {
		r := restored(t, s, "d/b.txt", list[i].Version)
		equal(t, r.Version, list[i].Version, "version")
		if want[i] == "-" {
			gone(t, dir, "d/b.txt")
			continue
		}
		fileIs(t, dir, "d/b.txt", want[i])
		expect(t, r.SHA256 == list[i].SHA256, "sha %s", r.SHA256)
	}
	check(t, s, true)
}

// TestWhatAProgramSavedBetweenCommitsRestores: what another program saved, and a commit
// replaced, appended to, deleted or moved away later, can be restored by its hash, as long
// as history has it.
func TestWhatAProgramSavedBetweenCommitsRestores(t *testing.T) {
	for name, change := range map[string]func(s *rw.Store){
		"replace": func(s *rw.Store) { write(t, s, "a.txt", "ours\n", rw.ModeOverwrite) },
		"append":  func(s *rw.Store) { write(t, s, "a.txt", "ours\n", rw.ModeAppend) },
		"delete":  func(s *rw.Store) { must(s.Delete(background, rw.DeleteRequest{Path: "a.txt"}))(t) },
		"move":    func(s *rw.Store) { must(s.Move(background, rw.MoveRequest{Path: "a.txt", To: "moved.txt"}))(t) },
		"moved over": func(s *rw.Store) {
			write(t, s, "b.txt", "b\n", rw.ModeCreate)
			must(s.Move(background, rw.MoveRequest{Path: "b.txt", To: "a.txt", Overwrite: true}))(t)
		},
	} {
		s, dir := quick(t, nil)
		theirs := []string{"theirs\n", "theirs, later\n"}
		for _, text := range theirs {
			noErr(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte(text), 0o644), name)
			change(s)
			if name != "append" {
				write(t, s, "a.txt", "newer\n", rw.ModeOverwrite)
			}
			if name == "move" {
				must(s.Delete(background, rw.DeleteRequest{Path: "moved.txt"}))(t)
			}
		}
		for _, text := range theirs {
			must(s.Restore(background, rw.RestoreRequest{Path: "a.txt", SHA256: digest(hash(text))}))(t, name)
			fileIs(t, dir, "a.txt", text)
		}
		_, err := s.Restore(background, rw.RestoreRequest{Path: "a.txt", SHA256: digest(hash("nobody's\n"))})
		expect(t, errors.Is(err, rw.ErrVersionNotFound), "%s: %v", name, err)
		check(t, s, true)
	}
}

// TestUndoOfADeletionWhereModesCannotBeChanged: a file comes back whose mode is the one that
// new files have.
func TestUndoOfADeletionWhereModesCannotBeChanged(t *testing.T) {
	fs := simfs.New()
	s := must(rw.OpenSim(fs, nil, rw.Sim{}))(t)
	write(t, s, "a.txt", "text", rw.ModeCreate)
	must(s.Delete(background, rw.DeleteRequest{Path: "a.txt"}))(t)
	fs.Inject(func(op simfs.Op) (f simfs.Fault) {
		if op.Kind == "chmod" {
			f.Err = syscall.EPERM
		}
		return f
	})
	must(s.Undo(background, rw.UndoRequest{}))(t)
	got, _ := fs.ReadFile("a.txt")
	equal(t, string(got), "text")
}

// TestUndoOfEveryVerb, and undoing the undoing.
func TestUndoOfEveryVerb(t *testing.T) {
	one := func(s *rw.Store) { write(t, s, "a.txt", "one\n", rw.ModeCreate) }
	for _, c := range []struct {
		name   string
		before func(*rw.Store)
		run    func(*rw.Store)
	}{
		{"create", nil, one},
		{"create empty", nil, func(s *rw.Store) { write(t, s, "a.txt", "", rw.ModeCreate) }},
		{"create deep", nil, func(s *rw.Store) { write(t, s, "x/y/a.txt", "deep", rw.ModeCreate) }},
		{"overwrite", one, func(s *rw.Store) { write(t, s, "a.txt", "two\n", rw.ModeOverwrite) }},
		{"overwrite with nothing", one, func(s *rw.Store) { write(t, s, "a.txt", "", rw.ModeOverwrite) }},
		{"append", one, func(s *rw.Store) { write(t, s, "a.txt", "two\n", rw.ModeAppend) }},
		{"append to nothing", nil, func(s *rw.Store) { write(t, s, "a.txt", "two\n", rw.ModeAppend) }},
		{"edit", one, func(s *rw.Store) { edited(t, s, "a.txt", "one", "two") }},
		{"delete", one, func(s *rw.Store) { deleted(t, s, "a.txt") }},
		{"delete empty", func(s *rw.Store) { write(t, s, "a.txt", "", rw.ModeCreate) }, func(s *rw.Store) { deleted(t, s, "a.txt") }},
		{"move", one, func(s *rw.Store) { renamed(t, s, "a.txt", "d/b.txt") }},
		{"move a directory", func(s *rw.Store) {
			one(s)
			write(t, s, "p/one.txt", "1", rw.ModeCreate)
			write(t, s, "p/q/two.txt", "2", rw.ModeCreate)
		}, func(s *rw.Store) { renamed(t, s, "p", "r") }},
		{"restore", func(s *rw.Store) {
			one(s)
			write(t, s, "a.txt", "two\n", rw.ModeOverwrite)
		}, func(s *rw.Store) { restored(t, s, "a.txt", versionsOf(t, s, "a.txt")[1].Version) }},
		{"restore to absent", func(s *rw.Store) {
			one(s)
			deleted(t, s, "a.txt")
			one(s)
		}, func(s *rw.Store) { restored(t, s, "a.txt", versionsOf(t, s, "a.txt")[1].Version) }},
		{"transaction", func(s *rw.Store) {
			one(s)
			write(t, s, "b.txt", "b", rw.ModeCreate)
			write(t, s, "c.txt", "c", rw.ModeCreate)
		}, func(s *rw.Store) {
			noErr(t, transact(s, rw.TxOp{Op: "write", Path: "n/new.txt", Content: []byte("n")}, rw.TxOp{Op: "edit", Path: "a.txt", Edits: []rw.EditOp{{Old: "one", New: "1"}}},
				rw.TxOp{Op: "move", Path: "b.txt", To: "m.txt"}, rw.TxOp{Op: "delete", Path: "c.txt"}))
		}},
		{"staged transaction", one, func(s *rw.Store) {
			b := must(s.TxBegin(background, rw.TxBeginRequest{}))(t)
			must(s.TxStage(background, rw.TxStageRequest{TxID: b.TxID, Op: rw.TxOp{Op: "delete", Path: "a.txt"}}))(t)
			must(s.TxCommit(background, rw.TxCommitRequest{TxID: b.TxID}))(t)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, dir := quick(t, nil)
			if c.before != nil {
				c.before(s)
			}
			before := tree(t, dir)
			c.run(s)
			after := tree(t, dir)
			r := undone(t, s, 1)
			expect(t, len(r.Undone) == 1 && len(r.Results) != 0 && r.Seq != 0, "%+v", r)
			equal(t, tree(t, dir), before, "undone")
			undone(t, s, 1)
			equal(t, tree(t, dir), after, "undone twice")
			undone(t, s, 1)
			equal(t, tree(t, dir), before, "undone three times")
			check(t, s, true)
		})
	}
}

// tree returns the files of a workspace and their content.
func tree(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	for e := range testbed.Entries(t, dir, rw.StateDirName) {
		if !e.Info.IsDir() {
			fmt.Fprintf(&b, "%s %v %q\n", e.Path, e.Info.Mode().Type(), e.Text)
		}
	}
	return b.String()
}

// TestUndoOfSeveralCommits over the same files, at once and one after the
// other.
func TestUndoOfSeveralCommits(t *testing.T) {
	steps := []func(*rw.Store){
		func(s *rw.Store) { write(t, s, "a.txt", "one\n", rw.ModeCreate) },
		func(s *rw.Store) { write(t, s, "a.txt", "two\n", rw.ModeAppend) },
		func(s *rw.Store) { write(t, s, "a.txt", "three\n", rw.ModeAppend) },
		func(s *rw.Store) { write(t, s, "a.txt", "four\n", rw.ModeOverwrite) },
		func(s *rw.Store) { renamed(t, s, "a.txt", "b.txt") },
		func(s *rw.Store) { write(t, s, "b.txt", "five\n", rw.ModeAppend) },
		func(s *rw.Store) { renamed(t, s, "b.txt", "c.txt") },
		func(s *rw.Store) { write(t, s, "a.txt", "new\n", rw.ModeCreate) },
		func(s *rw.Store) { deleted(t, s, "c.txt") },
		func(s *rw.Store) { renamed(t, s, "a.txt", "c.txt") },
		func(s *rw.Store) { renamed(t, s, "c.txt", "a.txt") },
		func(s *rw.Store) { edited(t, s, "a.txt", "new", "newer") },
	}
	for n := 1; n <= len(steps); n++ {
		s, dir := quick(t, nil)
		var before string
		for i, step := range steps {
			if i == len(steps)-n {
				before = tree(t, dir)
			}
			step(s)
		}
		after := tree(t, dir)
		r, err := s.Undo(background, rw.UndoRequest{N: n})
		if err != nil {
			t.Errorf("undo of %d: %v %+v", n, err, rw.AsError("", err).Path)
			continue
		}
		equal(t, len(r.Undone), n, "undone")
		equal(t, tree(t, dir), before, "undo of ", n)
		undone(t, s, 1)
		equal(t, tree(t, dir), after, "undo of the undo of ", n)
		if n == len(steps) {
			check(t, s, true)
		}
	}
}

// TestUndoNeverEatsOthersWork: a later human edit, another caller's later commit, and
// the changes of either between two commits that are undone.
func TestUndoNeverEatsOthersWork(t *testing.T) {
	by := func(s *rw.Store, caller, content string) {
		must(s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.txt", Content: []byte(content), Mode: rw.ModeOverwrite, Call: rw.Call{Caller: caller}}))(t)
	}
	for _, c := range []struct {
		name string
		run  func(s *rw.Store, dir string)
		n    int
	}{
		{"later human edit", func(s *rw.Store, dir string) { by(s, "A", "1"); human(t, dir, "a.txt", "h") }, 1},
		{"human deletion", func(s *rw.Store, dir string) { by(s, "A", "1"); os.Remove(filepath.Join(dir, "a.txt")) }, 1},
		{"human directory", func(s *rw.Store, dir string) {
			by(s, "A", "1")
			os.Remove(filepath.Join(dir, "a.txt"))
			os.Mkdir(filepath.Join(dir, "a.txt"), 0o755)
		}, 1},
		{"human creation after a delete", func(s *rw.Store, dir string) {
			by(s, "A", "1")
			must(s.Delete(background, rw.DeleteRequest{Path: "a.txt", Call: rw.Call{Caller: "A"}}))(t)
			human(t, dir, "a.txt", "h")
		}, 1},
		{"later commit of another", func(s *rw.Store, dir string) { by(s, "A", "1"); by(s, "B", "2") }, 1},
		{"commit of another between", func(s *rw.Store, dir string) { by(s, "A", "1"); by(s, "B", "2"); by(s, "A", "3") }, 2},
		{"human edit between", func(s *rw.Store, dir string) { by(s, "A", "1"); human(t, dir, "a.txt", "h"); by(s, "A", "3") }, 2},
		{"one file of a transaction", func(s *rw.Store, dir string) {
			must(s.Tx(background, rw.TxRequest{Call: rw.Call{Caller: "A"}, Ops: []rw.TxOp{{Op: "write", Path: "x.txt", Content: []byte("x")}, {Op: "write", Path: "y.txt", Content: []byte("y")}}}))(t)
			human(t, dir, "y.txt", "h")
		}, 1},
		{"human edit under the new name", func(s *rw.Store, dir string) {
			by(s, "A", "1")
			must(s.Move(background, rw.MoveRequest{Path: "a.txt", To: "b.txt", Call: rw.Call{Caller: "A"}}))(t)
			human(t, dir, "b.txt", "h")
		}, 1},
		{"human creation under the old name", func(s *rw.Store, dir string) {
			by(s, "A", "1")
			must(s.Move(background, rw.MoveRequest{Path: "a.txt", To: "b.txt", Call: rw.Call{Caller: "A"}}))(t)
			human(t, dir, "a.txt", "h")
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, dir := quick(t, nil)
			c.run(s, dir)
			before := snapshot(t, dir)
			_, err := s.Undo(background, rw.UndoRequest{N: c.n, Call: rw.Call{Caller: "A"}})
			expect(t, err != nil && (c.name == "human directory" || errors.Is(err, rw.ErrChangedOutside)), "%v", err)
			equal(t, snapshot(t, dir), before, "changed")
		})
	}
	// Between two commits of another caller, the last one alone can go.
	s, dir := quick(t, nil)
	by(s, "A", "1")
	by(s, "B", "2")
	by(s, "A", "3")
	must(s.Undo(background, rw.UndoRequest{Call: rw.Call{Caller: "A"}}))(t)
	fileIs(t, dir, "a.txt", "2")
	deny(t, s, dir, "own commits only", rw.ErrNothingToUndo, calling(s.Undo, rw.UndoRequest{}))
}

// TestLinksAreFollowedAndStay: edit, delete, move, restore and undo through a link
// change its target.
func TestLinksAreFollowedAndStay(t *testing.T) {
	s, dir := quick(t, nil)
	outside := filepath.Join(filepath.Dir(dir), "outside.txt")
	os.WriteFile(outside, []byte("outside"), 0o644)
	os.Mkdir(filepath.Join(dir, ".git"), 0o755)
	os.WriteFile(filepath.Join(dir, ".git/config"), []byte("[core]\n"), 0o644)
	for link, to := range map[string]string{"l": "real/a.txt", "out": outside, "g": ".git", "st": rw.StateDirName, "ld": "real", "ext": filepath.Dir(dir)} {
		noErr(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	write(t, s, "real/a.txt", "one\n", rw.ModeCreate)
	r := edited(t, s, "l", "one", "two")
	expect(t, r.Receipt.RealPath == "real/a.txt" && r.Path == "l", "%+v", r)
	fileIs(t, dir, "real/a.txt", "two\n")
	h := versionsOf(t, s, "l")
	expect(t, len(h) == 2 && h[0].Path == "real/a.txt", "history through the link: %+v", h)
	restored(t, s, "l", versionsOf(t, s, "l")[1].Version)
	fileIs(t, dir, "real/a.txt", "one\n")
	deleted(t, s, "l")
	gone(t, dir, "real/a.txt")
	undone(t, s, 1)
	fileIs(t, dir, "l", "one\n")
	renamed(t, s, "l", "b.txt")
	fileIs(t, dir, "b.txt", "one\n")
	gone(t, dir, "real/a.txt")
	renamed(t, s, "b.txt", "l")
	fileIs(t, dir, "real/a.txt", "one\n")
	equal(t, must(os.Readlink(filepath.Join(dir, "l")))(t), "real/a.txt", "the link")
	for path, want := range map[string]rw.Detail{
		"out": rw.ErrEscapesWorkspace, "ext/outside.txt": rw.ErrEscapesWorkspace, "g/config": rw.ErrProtectedPath, ".GIT/config": rw.ErrProtectedPath,
		"st/meta.json": rw.ErrProtectedPath, rw.StateDirName + "/meta.json": rw.ErrProtectedPath, "../outside.txt": rw.ErrEscapesWorkspace,
	} {
		deny(t, s, dir, "edit "+path, want, calling(s.Edit, rw.EditRequest{Path: path, Edits: []rw.EditOp{{Old: "o", New: "x", Count: -1}}}))
		deny(t, s, dir, "delete "+path, want, calling(s.Delete, rw.DeleteRequest{Path: path}))
		deny(t, s, dir, "move out of "+path, want, calling(s.Move, rw.MoveRequest{Path: path, To: "stolen.txt"}))
		for _, force := range []bool{false, true} {
			deny(t, s, dir, "move into "+path, want, calling(s.Move, rw.MoveRequest{Path: "real/a.txt", To: path, Overwrite: force, Force: force}))
		}
		deny(t, s, dir, "restore "+path, want, calling(s.Restore, rw.RestoreRequest{Path: path, Version: 1, Force: true}))
		for _, op := range []rw.TxOp{
			{Op: "write", Path: path, Content: []byte("x"), Mode: rw.ModeOverwrite}, {Op: "edit", Path: path, Edits: []rw.EditOp{{Old: "o", New: "x", Count: -1}}},
			{Op: "delete", Path: path}, {Op: "move", Path: path, To: "stolen.txt"}, {Op: "move", Path: "real/a.txt", To: path, Overwrite: true},
		} {
			deny(t, s, dir, "tx "+op.Op+" "+path, want, calling(s.Tx, rw.TxRequest{Ops: []rw.TxOp{rw.TxOp{Op: "write", Path: "fine.txt", Content: []byte("x")}, op}}))
		}
	}
	// Whole directories that hold or are such a thing.
	os.MkdirAll(filepath.Join(dir, "sub/.git"), 0o755)
	os.WriteFile(filepath.Join(dir, "sub/.git/config"), []byte("x"), 0o644)
	os.WriteFile(filepath.Join(dir, "sub/a.txt"), []byte("x"), 0o644)
	for from, want := range map[string]rw.Detail{"sub": rw.ErrProtectedPath, "g": rw.ErrProtectedPath, ".git": rw.ErrProtectedPath, "st": rw.ErrProtectedPath, "ext": rw.ErrEscapesWorkspace} {
		deny(t, s, dir, "move of directory "+from, want, calling(s.Move, rw.MoveRequest{Path: from, To: "taken"}))
	}
	for to, want := range map[string]rw.Detail{"g/hooks": rw.ErrProtectedPath, "st/x": rw.ErrProtectedPath, "ext/x": rw.ErrEscapesWorkspace} {
		deny(t, s, dir, "move of a directory to "+to, want, calling(s.Move, rw.MoveRequest{Path: "real", To: to}))
	}
	os.Symlink("a.txt", filepath.Join(dir, "real/inner"))
	deny(t, s, dir, "directory with a link", rw.ErrNotARegularFile, calling(s.Move, rw.MoveRequest{Path: "real", To: "moved"}))
	check(t, s, true)
}

// TestOneFileUnderTwoPaths: a link or another name must not make a call take
// one file for two; bytes would be lost.
func TestOneFileUnderTwoPaths(t *testing.T) {
	s, dir := quick(t, nil)
	write(t, s, "a.txt", "one\n", rw.ModeCreate)
	write(t, s, "d/x.txt", "x\n", rw.ModeCreate)
	os.Symlink("a.txt", filepath.Join(dir, "l"))
	os.Symlink("d", filepath.Join(dir, "ld"))
	for _, to := range []string{"l"} {
		for _, over := range []bool{false, true} {
			before := snapshot(t, dir)
			expect(t, errorOf(s.Move(background, rw.MoveRequest{Path: "a.txt", To: to, Overwrite: over})) != nil, "a file was moved to itself")
			mustEqual(t, snapshot(t, dir), before, "changed")
		}
	}
	deny(t, s, dir, "directory to itself", rw.ErrInvalidArgument, calling(s.Move, rw.MoveRequest{Path: "d", To: "ld", Overwrite: true}))
	for i, ops := range [][]rw.TxOp{
		{{Op: "write", Path: "a.txt", Content: []byte("A"), Mode: rw.ModeOverwrite}, {Op: "write", Path: "l", Content: []byte("L"), Mode: rw.ModeOverwrite}},
		{{Op: "edit", Path: "a.txt", Edits: []rw.EditOp{{Old: "o", New: "0"}}}, {Op: "edit", Path: "l", Edits: []rw.EditOp{{Old: "n", New: "N"}}}},
		{{Op: "write", Path: "d/x.txt", Content: []byte("A"), Mode: rw.ModeAppend}, {Op: "write", Path: "ld/x.txt", Content: []byte("L"), Mode: rw.ModeAppend}},
		{{Op: "write", Path: "d/n.txt", Content: []byte("A")}, {Op: "write", Path: "ld/n.txt", Content: []byte("L")}},
		{{Op: "delete", Path: "a.txt"}, {Op: "write", Path: "l", Content: []byte("L"), Mode: rw.ModeOverwrite}},
		{{Op: "move", Path: "a.txt", To: "l", Overwrite: true}},
		{{Op: "move", Path: "d/x.txt", To: "n.txt"}, {Op: "delete", Path: "ld/x.txt"}},
	} {
		deny(t, s, dir, fmt.Sprint("tx ", i), rw.ErrInvalidArgument, func() error { return transact(s, ops...) })
	}
	// Names that differ in letter case are two files if the system distinguishes them.
	noErr(t, transact(s, rw.TxOp{Op: "write", Path: "Up.txt", Content: []byte("1")}, rw.TxOp{Op: "write", Path: "up.txt", Content: []byte("2")}))
	fileIs(t, dir, "Up.txt", "1")
	fileIs(t, dir, "up.txt", "2")
	noErr(t, transact(s, rw.TxOp{Op: "move", Path: "Up.txt", To: "UP.txt"}, rw.TxOp{Op: "edit", Path: "up.txt", Edits: []rw.EditOp{{Old: "2", New: "3"}}}))
	fileIs(t, dir, "UP.txt", "1")
	fileIs(t, dir, "up.txt", "3")
	// Hard links are two names that go their own ways.
	noErr(t, os.Link(filepath.Join(dir, "a.txt"), filepath.Join(dir, "h.txt")))
	noErr(t, transact(s, rw.TxOp{Op: "edit", Path: "a.txt", Edits: []rw.EditOp{{Old: "one", New: "A"}}}, rw.TxOp{Op: "edit", Path: "h.txt", Edits: []rw.EditOp{{Old: "one", New: "H"}}}))
	fileIs(t, dir, "a.txt", "A\n")
	fileIs(t, dir, "h.txt", "H\n")
	check(t, s, true)
}

func TestHardLinksAndReadOnlyFiles(t *testing.T) {
	s, dir := quick(t, nil)
	write(t, s, "a.txt", "one\n", rw.ModeCreate)
	noErr(t, os.Link(filepath.Join(dir, "a.txt"), filepath.Join(dir, "h.txt")))
	r := edited(t, s, "a.txt", "one", "two")
	expect(t, strings.Contains(reasons(r.Warnings), call.WarnHardLinkBroken), "warnings %v", r.Warnings)
	fileIs(t, dir, "h.txt", "one\n")
	noErr(t, os.Link(filepath.Join(dir, "a.txt"), filepath.Join(dir, "g.txt")))
	renamed(t, s, "a.txt", "m.txt")
	fileIs(t, dir, "g.txt", "two\n")
	fileIs(t, dir, "m.txt", "two\n")
	deleted(t, s, "m.txt")
	fileIs(t, dir, "g.txt", "two\n")
	human(t, dir, "g.txt", "changed by its other name\n")
	undone(t, s, 1)
	fileIs(t, dir, "m.txt", "two\n") // what history keeps shares nothing with a file
	// One file moved over another name of it: the name that stays is the new one.
	noErr(t, os.Link(filepath.Join(dir, "m.txt"), filepath.Join(dir, "m2.txt")))
	must(s.Move(background, rw.MoveRequest{Path: "m.txt", To: "m2.txt", Overwrite: true}))(t)
	fileIs(t, dir, "m2.txt", "two\n")
	gone(t, dir, "m.txt")

	write(t, s, "ro.txt", "read only\n", rw.ModeCreate)
	write(t, s, "rw.txt", "other\n", rw.ModeCreate)
	os.Chmod(filepath.Join(dir, "ro.txt"), 0o444)
	calls := map[string]func(force bool) error{
		"edit": func(f bool) error {
			return errorOf(s.Edit(background, rw.EditRequest{Path: "ro.txt", Edits: []rw.EditOp{{Old: "read", New: "write"}}, Force: f}))
		},
		"tx edit": func(f bool) error {
			return transact(s, rw.TxOp{Op: "edit", Path: "ro.txt", Edits: []rw.EditOp{{Old: "write", New: "read"}}, Force: f})
		},
		"move over": func(f bool) error {
			return errorOf(s.Move(background, rw.MoveRequest{Path: "rw.txt", To: "ro.txt", Overwrite: true, Force: f}))
		},
		"move": func(f bool) error {
			return errorOf(s.Move(background, rw.MoveRequest{Path: "ro.txt", To: "rox.txt", Force: f}))
		},
		"delete": func(f bool) error { return errorOf(s.Delete(background, rw.DeleteRequest{Path: "ro.txt", Force: f})) },
	}
	for _, name := range []string{"edit", "tx edit", "move over", "move", "delete"} {
		if name == "tx edit" {
			noErr(t, transact(s, rw.TxOp{Op: "write", Path: "ro2", Content: []byte("x")}))
		}
		deny(t, s, dir, name, rw.ErrReadOnlyFile, func() error {
			if name == "tx edit" {
				return transact(s, rw.TxOp{Op: "edit", Path: "ro.txt", Edits: []rw.EditOp{{Old: "write", New: "read"}}})
			}
			return calls[name](false)
		})
		noErr(t, calls[name](true))
		if st, err := os.Stat(filepath.Join(dir, "ro.txt")); err == nil && st.Mode().Perm() != 0o444 && name != "move over" {
			t.Errorf("%s: mode %v", name, st.Mode())
		}
		undone(t, s, 1)
		st := must(os.Stat(filepath.Join(dir, "ro.txt")))(t)
		expect(t, st.Mode().Perm()&0o222 == 0 || name == "move over", "undo of %s: %v", name, st)
		os.Chmod(filepath.Join(dir, "ro.txt"), 0o444)
		if name == "edit" {
			noErr(t, calls[name](true))
		}
		if name == "tx edit" {
			fileIs(t, dir, "ro.txt", "write only\n")
		}
	}
	check(t, s, true)
}

// TestSecretOverTwoStepsIsFound: the gate judges the result of a transaction, not its
// parts.
func TestSecretOverTwoStepsIsFound(t *testing.T) {
	dir := ramspace(t)
	s := quickAt(t, dir, nil)
	write(t, s, "a.txt", "key = PLACE\n", rw.ModeCreate)
	write(t, s, "half.txt", "", rw.ModeCreate)
	secret := ghToken(7)
	first, second := secret[:20], secret[20:]
	split := []rw.TxOp{
		{Op: "edit", Path: "a.txt", Edits: []rw.EditOp{{Old: "PLACE", New: first + "PLACE"}}},
		{Op: "edit", Path: "a.txt", Edits: []rw.EditOp{{Old: "PLACE", New: second}}},
	}
	calls := map[string]func() error{
		"edit": func() error {
			return errorOf(s.Edit(agents(), rw.EditRequest{Path: "a.txt", Edits: []rw.EditOp{{Old: "PLACE", New: secret}}}))
		},
		"two edits of one call": func() error {
			return errorOf(s.Edit(agents(), rw.EditRequest{Path: "a.txt", Edits: append(append([]rw.EditOp{}, split[0].Edits...), split[1].Edits...)}))
		},
		"two edits of a tx": func() error { return errorOf(s.Tx(agents(), rw.TxRequest{Ops: split})) },
		"write and append of a tx": func() error {
			return errorOf(s.Tx(agents(), rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "n.txt", Content: []byte(first)}, {Op: "write", Path: "n.txt", Content: []byte(second), Mode: rw.ModeAppend}}}))
		},
		"second file of a tx": func() error {
			return errorOf(s.Tx(agents(), rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "n.txt", Content: []byte("fine")}, {Op: "write", Path: "m.txt", Content: []byte("token=" + secret + "\n")}}}))
		},
		"base64 in a tx": func() error {
			return errorOf(s.Tx(agents(), rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "n.txt", Content: []byte("\xfftoken=" + secret + "\n")}}}))
		},
		"staged": func() error {
			b := must(s.TxBegin(agents(), rw.TxBeginRequest{}))(t)
			for _, op := range split {
				if _, err := s.TxStage(agents(), rw.TxStageRequest{TxID: b.TxID, Op: op}); err != nil {
					return err
				}
			}
			return errorOf(s.TxCommit(agents(), rw.TxCommitRequest{TxID: b.TxID}))
		},
	}
	for name, call := range calls {
		if e := deny(t, s, dir, name, rw.ErrRiskBlocked, call); e != nil {
			isGateRefusal(t, e)
		}
	}
	for _, leak := range leaks(t, dir, secret) {
		expect(t, strings.Contains(leak, "quarantine"), "the secret is in %s", leak)
	}
}

// keyedVerbs are all verbs that take an idempotency key, on files that the
// test has made before.
func keyedVerbs(s *rw.Store, txID string, version uint64) map[string]func(key string) (rw.Status, rw.Receipt, error) {
	return map[string]func(key string) (rw.Status, rw.Receipt, error){
		"edit": func(key string) (rw.Status, rw.Receipt, error) {
			r, err := s.Edit(background, rw.EditRequest{Path: "e.txt", Edits: []rw.EditOp{{Old: "one", New: "two"}}, Call: rw.Call{IdempotencyKey: key}})
			return r.Status, r.Receipt, err
		},
		"delete": func(key string) (rw.Status, rw.Receipt, error) {
			r, err := s.Delete(background, rw.DeleteRequest{Path: "x.txt", Call: rw.Call{IdempotencyKey: key}})
			return r.Status, r.Receipt, err
		},
		"move": func(key string) (rw.Status, rw.Receipt, error) {
			r, err := s.Move(background, rw.MoveRequest{Path: "m.txt", To: "n.txt", Call: rw.Call{IdempotencyKey: key}})
			return r.Status, r.Receipt, err
		},
		"move directory": func(key string) (rw.Status, rw.Receipt, error) {
			r, err := s.Move(background, rw.MoveRequest{Path: "./d", To: "f", Call: rw.Call{IdempotencyKey: key}})
			if err == nil && (r.Files != 2 || r.Path != "d" || r.To != "f") {
				err = fmt.Errorf("%+v", r)
			}
			return r.Status, r.Receipt, err
		},
		"tx": func(key string) (rw.Status, rw.Receipt, error) {
			r, err := s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "t.txt", Content: []byte("t")}, {Op: "delete", Path: "td.txt"}}, Call: rw.Call{IdempotencyKey: key}})
			if err == nil && (len(r.Results) != 2 || r.Results[0].SHA256.String() != hash("t")) {
				err = fmt.Errorf("%+v", r.Results)
			}
			return r.Status, r.Receipt, err
		},
		"tx stage": func(key string) (rw.Status, rw.Receipt, error) {
			r, err := s.TxStage(background, rw.TxStageRequest{TxID: txID, Op: rw.TxOp{Op: "write", Path: "st.txt", Content: []byte("s")}, Call: rw.Call{IdempotencyKey: key}})
			if err == nil && r.Index != 1 {
				err = fmt.Errorf("%+v", r)
			}
			return r.Receipt.Status, r.Receipt, err
		},
		"restore": func(key string) (rw.Status, rw.Receipt, error) {
			r, err := s.Restore(background, rw.RestoreRequest{Path: "r.txt", Version: version, Call: rw.Call{IdempotencyKey: key}})
			return r.Status, r.Receipt, err
		},
		"undo": func(key string) (rw.Status, rw.Receipt, error) {
			r, err := s.Undo(background, rw.UndoRequest{Call: rw.Call{Caller: "U", IdempotencyKey: key}})
			if err == nil && (len(r.Results) != 1 || r.Results[0].SHA256.String() != hash("before")) {
				err = fmt.Errorf("%+v", r.Results)
			}
			return r.Status, r.Receipt, err
		},
	}
}

// TestRepeatedCallsHappenOnce: the same key returns the first result, whatever happened
// to the files since, in the same store, in another one, and after a restart; another
// request under the key is refused.
func TestRepeatedCallsHappenOnce(t *testing.T) {
	s, dir := quick(t, nil)
	for path, content := range map[string]string{"e.txt": "one\n", "x.txt": "x", "m.txt": "m", "d/1.txt": "1", "d/s/2.txt": "2", "td.txt": "td", "r.txt": "r1", "u.txt": "before"} {
		write(t, s, path, content, rw.ModeCreate)
	}
	os.MkdirAll(filepath.Join(dir, "d/empty"), 0o755)
	version := versionsOf(t, s, "r.txt")[0].Version
	write(t, s, "r.txt", "r2", rw.ModeOverwrite)
	must(s.SafeWrite(background, rw.SafeWriteRequest{Path: "u.txt", Content: []byte("after"), Mode: rw.ModeOverwrite, Call: rw.Call{Caller: "U"}}))(t)
	b := must(s.TxBegin(background, rw.TxBeginRequest{}))(t)
	other := quickAt(t, dir, nil)
	again := keyedVerbs(other, b.TxID, version)
	first := map[string]rw.Receipt{}
	for name, call := range keyedVerbs(s, b.TxID, version) {
		status, rec, err := call("key of " + name)
		require(t, err == nil && status == rw.StatusSucceeded, "%s: %v %s", name, err, status)
		first[name] = rec
		status, rec, err = again[name]("key of " + name)
		expect(t, err == nil && status == rw.StatusReplayed && rec.JournalSeq == first[name].JournalSeq && rec.SHA256 == first[name].SHA256,
			"%s in another store: %v %s %+v", name, err, status, rec)
	}
	// The files change further.
	human(t, dir, "e.txt", "human")
	human(t, dir, "u.txt", "human")
	human(t, dir, "r.txt", "human")
	human(t, dir, "m.txt", "human")
	noErr(t, s.Close(background))
	s = quickAt(t, dir, nil)
	must(s.TxCommit(background, rw.TxCommitRequest{TxID: b.TxID}))(t)
	before := snapshot(t, dir)
	for name, call := range keyedVerbs(s, b.TxID, version) {
		status, rec, err := call("key of " + name)
		expect(t, err == nil && status == rw.StatusReplayed && rec.JournalSeq == first[name].JournalSeq, "%s after a restart: %v %s", name, err, status)
		other := "edit"
		if name == "edit" {
			other = "delete"
		}
		deny(t, s, dir, name+" under the key of another", rw.ErrIdempotencyKeyReused, func() error { _, _, err := call("key of " + other); return err })
	}
	r := must(s.TxCommit(background, rw.TxCommitRequest{TxID: b.TxID}))(t)
	expect(t, r.Status == rw.StatusReplayed && len(r.Results) == 1 && r.Results[0].Path == "st.txt", "tx commit: %+v", r)
	equal(t, snapshot(t, dir), before, "a repeated call changed something")
}

// TestDryRunsChangeNothing, not even a time, in the workspace or in the state of the
// store.
func TestDryRunsChangeNothing(t *testing.T) {
	s, dir := quick(t, nil)
	write(t, s, "a.txt", "one\n", rw.ModeCreate)
	write(t, s, "b.txt", strings.Repeat("long ", 1<<18), rw.ModeCreate) // more than is held in memory
	write(t, s, "b.txt", "short", rw.ModeAppend)
	write(t, s, "d/e/f.txt", "f", rw.ModeCreate)
	long := versionsOf(t, s, "b.txt")[1].Version
	b := must(s.TxBegin(background, rw.TxBeginRequest{}))(t)
	must(s.TxStage(background, rw.TxStageRequest{TxID: b.TxID, Op: rw.TxOp{Op: "write", Path: "q/w.txt", Content: []byte("w")}}))(t)
	noErr(t, s.Sync(background))
	before, state := snapshot(t, dir), stateFiles(t, dir)
	must(s.Edit(background, rw.EditRequest{Path: "a.txt", Edits: []rw.EditOp{{Old: "one", New: "two"}}, Call: rw.Call{DryRun: true}}))(t)
	must(s.Delete(background, rw.DeleteRequest{Path: "a.txt", Call: rw.Call{DryRun: true}}))(t)
	must(s.Move(background, rw.MoveRequest{Path: "a.txt", To: "new/c.txt", Call: rw.Call{DryRun: true}}))(t)
	m := must(s.Move(background, rw.MoveRequest{Path: "d", To: "g", Call: rw.Call{DryRun: true}}))(t)
	must(s.Restore(background, rw.RestoreRequest{Path: "b.txt", Version: long, Call: rw.Call{DryRun: true}}))(t)
	must(s.Undo(background, rw.UndoRequest{N: 3, Call: rw.Call{DryRun: true}}))(t)
	tx := must(s.Tx(background, rw.TxRequest{Call: rw.Call{DryRun: true}, Ops: []rw.TxOp{{Op: "write", Path: "n/n.txt", Content: []byte("n")}, {Op: "move", Path: "a.txt", To: "z.txt"}, {Op: "delete", Path: "b.txt"}}}))(t)
	cm := must(s.TxCommit(background, rw.TxCommitRequest{TxID: b.TxID, Call: rw.Call{DryRun: true}}))(t)
	expect(t, m.Files == 1 && tx.Seq == 0 && tx.Results[0].SHA256.String() == hash("n") && strings.Contains(tx.Diff, "+n") && cm.Seq == 0 &&
		len(cm.Results) == 1, "%+v\n%+v\n%+v", m, tx, cm)
	for _, call := range []func() error{
		calling(s.Delete, rw.DeleteRequest{Path: "none", Call: rw.Call{DryRun: true}}),
		calling(s.Undo, rw.UndoRequest{Call: rw.Call{Caller: "nobody", DryRun: true}}),
	} {
		expect(t, call() != nil, "a dry run of what cannot be succeeded")
	}
	equal(t, snapshot(t, dir), before, "the workspace changed")
	equal(t, stateFiles(t, dir), state, "the state directory changed")
	check(t, s, true)
}

// TestTwoStoresAtOnce: edits, moves, transactions and undos of two stores over the same
// files; every one is complete, and the journal matches the files.
func TestTwoStoresAtOnce(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	stores := []*rw.Store{quickAt(t, dir, nil), quickAt(t, dir, nil)}
	write(t, stores[0], "list.txt", "end\n", rw.ModeCreate)
	for i := range 4 {
		write(t, stores[0], fmt.Sprintf("p%d", i), "ball\n", rw.ModeCreate)
		deleted(t, stores[0], fmt.Sprintf("p%d", i))
	}
	write(t, stores[0], "p0", "ball\n", rw.ModeCreate)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			s, caller := stores[w%2], fmt.Sprint("w", w)
			for i := range 12 {
				_, err := s.Edit(background, rw.EditRequest{Path: "list.txt", Edits: []rw.EditOp{{Old: "end\n", New: fmt.Sprintf("%d.%d\nend\n", w, i)}}, Call: rw.Call{Caller: caller}})
				expect(t, err == nil, "edit: %v (%v)", err, errors.Unwrap(err))
				for p := range 4 { // the store that finds the ball throws it
					_, err := s.Move(background, rw.MoveRequest{Path: fmt.Sprint("p", p), To: fmt.Sprint("p", (p+w+1)%4), Call: rw.Call{Caller: fmt.Sprint(caller, ".", i)}})
					if err == nil {
						break
					}
					d := rw.AsError("", err).Detail
					expect(t, d == rw.ErrNotFound || d == rw.ErrInvalidArgument || d == rw.ErrRetryExhausted, "move: %v (%v)", err, errors.Unwrap(err))
				}
				own := fmt.Sprint("own", w)
				_, err = s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: own, Content: []byte(fmt.Sprint(i)), Mode: rw.ModeOverwrite}, {Op: "write", Path: "log.txt", Content: []byte("."), Mode: rw.ModeAppend}}, Call: rw.Call{Caller: own}})
				expect(t, err == nil, "tx: %v (%v)", err, errors.Unwrap(err))
				_, err = s.Undo(background, rw.UndoRequest{Call: rw.Call{Caller: own}})
				expect(t, err == nil || errors.Is(err, rw.ErrChangedOutside), "undo: %v (%v)", err, errors.Unwrap(err))
			}
		})
	}
	wg.Wait()
	data, _ := os.ReadFile(filepath.Join(dir, "list.txt"))
	equal(t, bytes.Count(data, []byte("\n")), 4*12+1, "lines")
	balls := 0
	for i := range 4 {
		if data, err := os.ReadFile(filepath.Join(dir, fmt.Sprint("p", i))); err == nil && string(data) == "ball\n" {
			balls++
		}
	}
	equal(t, balls, 1, "balls")
	for _, s := range stores {
		check(t, s, true)
	}
}

// TestStrangeTransactions: sequences of operations on one file, and arguments of every
// kind.
func TestStrangeTransactions(t *testing.T) {
	s, dir := quick(t, nil)
	write(t, s, "a.txt", "one\n", rw.ModeCreate)
	w := func(path, content string, mode rw.WriteMode) rw.TxOp {
		return rw.TxOp{Op: "write", Path: path, Content: []byte(content), Mode: mode}
	}
	del := func(path string) rw.TxOp { return rw.TxOp{Op: "delete", Path: path} }
	e := func(path, old, new string) rw.TxOp {
		return rw.TxOp{Op: "edit", Path: path, Edits: []rw.EditOp{{Old: old, New: new}}}
	}
	none, wrong := "", hash("wrong")
	for i, c := range []struct {
		ops  []rw.TxOp
		want rw.Detail
	}{
		{[]rw.TxOp{del("a.txt"), del("a.txt")}, rw.ErrNotFound},
		{[]rw.TxOp{del("a.txt"), e("a.txt", "one", "x")}, rw.ErrFileNotFound},
		{[]rw.TxOp{del("none.txt"), w("none.txt", "x", "")}, rw.ErrNotFound},
		{[]rw.TxOp{w("a.txt", "x", rw.ModeOverwrite), e("a.txt", "one", "x")}, rw.ErrOldStringNotFound},
		{[]rw.TxOp{w("a.txt", "x", rw.ModeOverwrite), w("a.txt", "x", "")}, rw.ErrFileAlreadyExists},
		{[]rw.TxOp{{Op: "delete", Path: "a.txt", Expect: rw.Exactly(digest(wrong))}}, rw.ErrHashMismatch},
		{[]rw.TxOp{{Op: "write", Path: "a.txt", Content: []byte("x"), Mode: rw.ModeOverwrite, Expect: rw.Exactly(digest(none))}}, rw.ErrHashMismatch},
		{[]rw.TxOp{{Op: "write", Path: "a.txt", Content: []byte("x"), Expect: rw.Absent, Mode: "dance"}}, rw.ErrInvalidArgument},
		{[]rw.TxOp{{Op: "write", Path: "n.txt", Content: []byte("?"), Encoding: "gbk"}}, rw.ErrInvalidArgument},
		{[]rw.TxOp{{Op: "write", Path: "n.txt", Content: []byte("eA=="), Encoding: "base64"}}, rw.ErrInvalidArgument},
		{[]rw.TxOp{{Op: "write", Path: "", Content: []byte("x")}}, rw.ErrEmptyPath},
		{[]rw.TxOp{{Op: "move", Path: "a.txt"}}, rw.ErrEmptyPath},
		{[]rw.TxOp{{Op: "move", Path: "a.txt", To: "a.txt"}}, rw.ErrInvalidArgument},
		{[]rw.TxOp{{Op: "move", Path: "a.txt", To: "b.txt"}, {Op: "move", Path: "b.txt", To: "c.txt"}}, rw.ErrInvalidArgument},
		{[]rw.TxOp{{Op: "edit", Path: "a.txt"}}, rw.ErrNoEdits},
		{[]rw.TxOp{w("a.txt/b", "x", "")}, rw.ErrNotADirectory},
		{[]rw.TxOp{w("n/a", "x", ""), {Op: "", Path: "a.txt"}}, rw.ErrInvalidArgument},
		{[]rw.TxOp{e("a.txt", "not there", "x"), del("a.txt")}, rw.ErrOldStringNotFound},
		{[]rw.TxOp{e("a.txt", "not there", "x"), del("a.txt"), w("a.txt", "x", "")}, rw.ErrOldStringNotFound},
		{[]rw.TxOp{w("p/q", "x", ""), w("p", "x", ""), w("z", "x", "")}, rw.ErrNotADirectory},
		{[]rw.TxOp{w("p", "x", ""), w("p/q/r", "x", "")}, rw.ErrNotADirectory},
		{[]rw.TxOp{{Op: "move", Path: "a.txt", To: "n"}, w("n/m", "x", "")}, rw.ErrNotADirectory},
	} {
		deny(t, s, dir, fmt.Sprint(i), c.want, func() error { return transact(s, c.ops...) })
	}
	noErr(t, transact(s, del("a.txt"), w("a.txt", "new\n", ""), e("a.txt", "new", "newer"), w("a.txt", "end\n", rw.ModeAppend)))
	fileIs(t, dir, "a.txt", "newer\nend\n")
	noErr(t, transact(s, w("a.txt", "", rw.ModeOverwrite), w("a.txt", "x", rw.ModeAppend), w("a.txt", "y", rw.ModeAppend), w("b.txt", "b", rw.ModeAppend), e("b.txt", "b", "c")))
	fileIs(t, dir, "a.txt", "xy")
	fileIs(t, dir, "b.txt", "c")
	noErr(t, transact(s, e("a.txt", "x", "X"), del("a.txt"), w("c.txt", "c", "")))
	gone(t, dir, "a.txt")
	undone(t, s, 3)
	fileIs(t, dir, "a.txt", "one\n")
	gone(t, dir, "c.txt")
	check(t, s, true)
}

// TestEditsWithNULsAreNotMixedUp: two requests that differ only in the position of a
// NUL are two requests.
func TestEditsWithNULsAreNotMixedUp(t *testing.T) {
	s, dir := quick(t, nil)
	write(t, s, "a.txt", "a\x00b", rw.ModeCreate)
	first := rw.EditRequest{Path: "a.txt", Call: rw.Call{IdempotencyKey: "k"}, Edits: []rw.EditOp{{Old: "a", New: "c\x001\x00d", Count: 1}, {Old: "b", New: "e", Count: 1}}}
	must(s.Edit(background, first))(t)
	fileIs(t, dir, "a.txt", "c\x001\x00d\x00e")
	second := rw.EditRequest{Path: "a.txt", Call: rw.Call{IdempotencyKey: "k"}, Edits: []rw.EditOp{{Old: "a", New: "c", Count: 1}, {Old: "d\x001\x00b", New: "e", Count: 1}}}
	deny(t, s, dir, "another request", rw.ErrIdempotencyKeyReused, calling(s.Edit, second))
}

// moveOver moves a file or a directory over an existing one.
func moveOver(t *testing.T, s *rw.Store, path, to string) {
	t.Helper()
	must(s.Move(background, rw.MoveRequest{Path: path, To: to, Overwrite: true}))(t)
}

// replacing are ways in which several files have the same path over time. The history
// is the expected one: row, path, origin, content.
var replacing = []struct {
	name string
	run  func(t *testing.T, s *rw.Store)
	want string
}{
	{"a move over a file", func(t *testing.T, s *rw.Store) {
		write(t, s, "real", "r1", rw.ModeCreate)
		write(t, s, "tmp", "t1", rw.ModeCreate)
		moveOver(t, s, "tmp", "real")
	}, "3 real<tmp t1, 2 tmp t1, 1 real r1"},
	{"a move over a move over a deletion", func(t *testing.T, s *rw.Store) {
		write(t, s, "real", "r1", rw.ModeCreate)
		deleted(t, s, "real")
		write(t, s, "t1", "one", rw.ModeCreate)
		renamed(t, s, "t1", "real")
		write(t, s, "t2", "two", rw.ModeCreate)
		write(t, s, "t2", "+", rw.ModeAppend)
		moveOver(t, s, "t2", "real")
		deleted(t, s, "real")
		write(t, s, "real", "r2", rw.ModeCreate)
	}, "9 real r2, 8 real -, 7 real<t2 two+, 6 t2 two+, 5 t2 two, 4 real<t1 one, 3 t1 one, 2 real -, 1 real r1"},
	{"saves by way of one name", func(t *testing.T, s *rw.Store) {
		write(t, s, "real", "r0", rw.ModeCreate)
		for i := 1; i <= 3; i++ {
			write(t, s, "tmp", fmt.Sprint("v", i), rw.ModeCreate)
			moveOver(t, s, "tmp", "real")
		}
	}, "7 real<tmp v3, 6 tmp v3, 5 real<tmp v2, 4 tmp v2, 3 real<tmp v1, 2 tmp v1, 1 real r0"},
	{"another file that had the name before went elsewhere", func(t *testing.T, s *rw.Store) {
		write(t, s, "tmp", "another", rw.ModeCreate)
		renamed(t, s, "tmp", "elsewhere")
		write(t, s, "tmp", "t1", rw.ModeCreate)
		write(t, s, "real", "r1", rw.ModeCreate)
		write(t, s, "real", "+", rw.ModeAppend)
		moveOver(t, s, "tmp", "real")
	}, "6 real<tmp t1, 5 real r1+, 4 real r1, 3 tmp t1"},
	{"the first one went elsewhere", func(t *testing.T, s *rw.Store) {
		write(t, s, "real", "r1", rw.ModeCreate)
		renamed(t, s, "real", "old")
		write(t, s, "old", "+", rw.ModeAppend)
		write(t, s, "tmp", "t1", rw.ModeCreate)
		renamed(t, s, "tmp", "real")
	}, "5 real<tmp t1, 4 tmp t1, 2 real -, 1 real r1"},
	{"to and fro", func(t *testing.T, s *rw.Store) {
		write(t, s, "tmp", "t1", rw.ModeCreate)
		renamed(t, s, "tmp", "real")
		renamed(t, s, "real", "tmp")
		write(t, s, "tmp", "+", rw.ModeAppend)
		renamed(t, s, "tmp", "real")
	}, "5 real<tmp t1+, 4 tmp t1+, 3 tmp<real t1, 2 real<tmp t1, 1 tmp t1"},
	{"what went elsewhere was put back", func(t *testing.T, s *rw.Store) {
		write(t, s, "tmp", "t1", rw.ModeCreate)
		renamed(t, s, "tmp", "elsewhere")
		undone(t, s, 1)
		renamed(t, s, "tmp", "real")
	}, "4 real<tmp t1, 3 tmp t1, 1 tmp t1"},
	{"two files that one commit wrote", func(t *testing.T, s *rw.Store) {
		write(t, s, "tmp", "t1", rw.ModeCreate)
		noErr(t, transact(s, rw.TxOp{Op: "write", Path: "tmp", Content: []byte("t2"), Mode: rw.ModeOverwrite}, rw.TxOp{Op: "write", Path: "real", Content: []byte("r2")}))
		moveOver(t, s, "tmp", "real")
	}, "3 real<tmp t2, 2 real r2, 2 tmp t2, 1 tmp t1"},
	{"a deletion in the commit that wrote what came", func(t *testing.T, s *rw.Store) {
		write(t, s, "real", "r1", rw.ModeCreate)
		noErr(t, transact(s, rw.TxOp{Op: "write", Path: "tmp", Content: []byte("t2")}, rw.TxOp{Op: "delete", Path: "real"}))
		renamed(t, s, "tmp", "real")
	}, "3 real<tmp t2, 2 real -, 2 tmp t2, 1 real r1"},
	{"what came had replaced another file where it was", func(t *testing.T, s *rw.Store) {
		write(t, s, "tmp", "not of this file", rw.ModeCreate)
		write(t, s, "first", "f1", rw.ModeCreate)
		moveOver(t, s, "first", "tmp")
		write(t, s, "real", "r1", rw.ModeCreate)
		moveOver(t, s, "tmp", "real")
	}, "5 real<tmp f1, 4 real r1, 3 tmp<first f1, 2 first f1"},
	{"over a copy of itself", func(t *testing.T, s *rw.Store) {
		write(t, s, "real", "same", rw.ModeCreate)
		write(t, s, "tmp", "same", rw.ModeCreate)
		moveOver(t, s, "tmp", "real")
		write(t, s, "real", "+", rw.ModeAppend)
	}, "4 real same+, 3 real<tmp same, 2 tmp same, 1 real same"},
}

// TestReplacedFilesKeepTheirVersions: all files that were at a path are listed, newest
// first, and every listed version can be read, compared and restored by its number.
func TestReplacedFilesKeepTheirVersions(t *testing.T) {
	t.Parallel()
	for _, c := range replacing {
		t.Run(c.name, func(t *testing.T) {
			s, dir := quick(t, nil)
			c.run(t, s)
			everyVersion(t, s, dir, "real", c.want)
			check(t, s, true)
		})
	}
}

// TestReplacedByADirectory: each file of a directory that is moved over
// another one has both lives.
func TestReplacedByADirectory(t *testing.T) {
	s, dir := quick(t, nil)
	for _, p := range []string{"e/x", "e/s/y", "d/x", "d/s/y", "d/z"} {
		write(t, s, p, p, rw.ModeCreate)
	}
	write(t, s, "e/x", "+", rw.ModeAppend)
	moveOver(t, s, "d", "e")
	everyVersion(t, s, dir, "e/s/y", "7 e/s/y<d/s/y d/s/y, 4 d/s/y d/s/y, 2 e/s/y e/s/y")
	everyVersion(t, s, dir, "e/z", "7 e/z<d/z d/z, 5 d/z d/z")
	everyVersion(t, s, dir, "e/x", "7 e/x<d/x d/x, 6 e/x e/x+, 3 d/x d/x, 1 e/x e/x")
	check(t, s, true)
}

// everyVersion compares the history of a path, and reads, compares and restores each
// version of it; each restoration is undone.
func everyVersion(t *testing.T, s *rw.Store, dir, path, want string) {
	t.Helper()
	list := versionsOf(t, s, path)
	var got []string
	meant := map[uint64]string{} // content of the version that a number means
	var numbers []uint64
	for _, v := range list {
		content := contentOf(t, s, v)
		from := ""
		if v.From != "" {
			from = "<" + v.From
		}
		got = append(got, fmt.Sprintf("%d %s%s %s", v.Version, v.Path, from, content))
		expect(t, v.Available, "%s: version %d is not available", path, v.Version)
		if _, ok := meant[v.Version]; !ok {
			meant[v.Version] = content
			numbers = append(numbers, v.Version)
		}
	}
	mustEqual(t, strings.Join(got, ", "), want, path)
	for n := 1; n < len(list); n++ {
		h, err := s.History(background, rw.HistoryRequest{Path: path, N: n})
		expect(t, err == nil && len(h.Versions) == n && h.More && h.Versions[n-1] == list[n-1], "%s: the newest %d: %v %+v", path, n, err, h)
	}
	now := meant[numbers[0]]
	for _, version := range numbers {
		content := meant[version]
		r, err := s.Read(background, rw.ReadRequest{Path: path, Version: version})
		if content == "-" {
			expect(t, err != nil, "%s: version %d reads %q", path, version, r.Content)
		} else if err != nil || string(r.Content) != content {
			t.Errorf("%s: version %d reads %q %v, want %q", path, version, r.Content, err, content)
		}
		d, err := s.Diff(background, rw.DiffRequest{Path: path, From: version})
		expect(t, err == nil && d.From == version && d.Identical == (content == now) &&
			(d.Identical || content == "-" || strings.Contains(d.Diff, "-"+content+"\n")), "%s: version %d compares %+v %v", path, version, d, err)
		if d, err = s.Diff(background, rw.DiffRequest{Path: path, From: numbers[0], To: version}); err != nil || d.To != version || d.Identical != (content == now) {
			t.Errorf("%s: the newest against version %d: %+v %v", path, version, d, err)
		}
	}
	for _, version := range numbers {
		if r := restored(t, s, path, version); r.Version != version {
			t.Errorf("%s: restored %d, want %d", path, r.Version, version)
		} else if meant[version] == "-" {
			gone(t, dir, path)
		} else if fileIs(t, dir, path, meant[version]); r.Status == rw.StatusUnchanged {
			continue
		}
		undone(t, s, 1)
		fileIs(t, dir, path, now)
	}
}

// contentOf finds the name of a version in the test by its hash; "-" for absent.
func contentOf(t *testing.T, s *rw.Store, v rw.FileVersion) string {
	t.Helper()
	if v.SHA256.String() == "" {
		return "-"
	}
	r, err := s.Read(background, rw.ReadRequest{Path: v.Path, Version: v.Version})
	require(t, err == nil && r.SHA256 == v.SHA256, "version %d at %s: %v %s, want %s", v.Version, v.Path, err, r.SHA256, v.SHA256)
	return string(r.Content)
}

// headCases are ways in which a file gets its newest version.
var headCases = []struct {
	name string
	make func(t *testing.T, s *rw.Store) // gives a.md the content want
	want string
}{
	{"create", func(t *testing.T, s *rw.Store) { write(t, s, "a.md", "created\n", rw.ModeCreate) }, "created\n"},
	{"empty", func(t *testing.T, s *rw.Store) { write(t, s, "a.md", "", rw.ModeCreate) }, ""},
	{"replace", func(t *testing.T, s *rw.Store) {
		write(t, s, "a.md", "created\n", rw.ModeCreate)
		write(t, s, "a.md", "replaced\n", rw.ModeOverwrite)
	}, "replaced\n"},
	{"append", func(t *testing.T, s *rw.Store) {
		write(t, s, "a.md", "created\n", rw.ModeCreate)
		write(t, s, "a.md", "appended\n", rw.ModeAppend)
	}, "created\nappended\n"},
	{"edit", func(t *testing.T, s *rw.Store) {
		write(t, s, "a.md", "created\n", rw.ModeCreate)
		must(s.Edit(background, rw.EditRequest{Path: "a.md", Edits: []rw.EditOp{{Old: "created", New: "edited"}}}))(t)
	}, "edited\n"},
	{"move", func(t *testing.T, s *rw.Store) {
		write(t, s, "b.md", "moved\n", rw.ModeCreate)
		must(s.Move(background, rw.MoveRequest{Path: "b.md", To: "a.md"}))(t)
	}, "moved\n"},
	{"transaction", func(t *testing.T, s *rw.Store) {
		noErr(t, s.CommitAll(background, put("a.md", "one of two\n", rw.ModeCreate), put("c.md", "two\n", rw.ModeCreate)))
	}, "one of two\n"},
	{"64 KiB", func(t *testing.T, s *rw.Store) {
		write(t, s, "a.md", strings.Repeat("y", 64<<10), rw.ModeCreate)
	}, strings.Repeat("y", 64<<10)},
	{"large", func(t *testing.T, s *rw.Store) {
		write(t, s, "a.md", strings.Repeat("large\n", 20_000), rw.ModeCreate)
	}, strings.Repeat("large\n", 20_000)},
	{"large, added to in place", func(t *testing.T, s *rw.Store) {
		write(t, s, "a.md", strings.Repeat("large\n", 200_000), rw.ModeCreate)
		write(t, s, "a.md", "more\n", rw.ModeAppend)
	}, strings.Repeat("large\n", 200_000) + "more\n"},
}

// TestTheNewestVersionIsKept: the last written content can be restored after a shell
// has removed or changed the file, at every level, before a Sync and after it, and by
// the next process.
func TestTheNewestVersionIsKept(t *testing.T) {
	t.Parallel()
	tried := 0
	shell := map[string]string{"removed": "rm a.md", "changed": "sed -i '1s/.*/changed/' a.md", "truncated": ": > a.md"}
	for _, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncJournal, rw.SyncOff} {
		for _, c := range headCases {
			for how, command := range shell {
				for _, then := range inTurn(tried, "at once", "synced", "reopened") {
					tried++
					if how == "truncated" && then == "at once" && len(c.want) > 64<<10 {
						continue // in place, before the copy: the bytes are gone
					}
					name := fmt.Sprint(level, " ", c.name, " ", how, " ", then)
					s, dir := opened(t, &rw.Options{Sync: level})
					c.make(t, s)
					switch then {
					case "synced":
						noErr(t, s.Sync(background))
					case "reopened":
						noErr(t, s.Close(background))
						s = open(t, dir, &rw.Options{Sync: level})
					}
					sh := exec.Command("sh", "-c", command)
					sh.Dir = dir
					noErr(t, sh.Run())
					r, err := s.Restore(background, rw.RestoreRequest{Path: "a.md", SHA256: digest(hash(c.want)), Force: true})
					if err != nil {
						t.Errorf("%s: %v", name, err)
					} else if got, _ := os.ReadFile(filepath.Join(dir, "a.md")); string(got) != c.want {
						t.Errorf("%s: the file holds %.20q (%s)", name, got, r.Status)
					}
					noErr(t, s.Close(background))
				}
			}
		}
	}
}

// TestHeadNotKept: above keep_head_max the newest version is not copied, and History
// reports that until it is replaced. If files can be cloned it is kept.
func TestHeadNotKept(t *testing.T) {
	for _, clones := range []bool{false, true} {
		fs := simfs.New()
		fs.Clones = clones
		fs.WriteFile(rw.StateDirName+"/policy.yaml", []byte("history: {keep_head_max: 100KiB}\n"), 0o600)
		s := must(rw.OpenSim(fs, nil, rw.Sim{}))(t)
		text := map[string]string{"small.md": strings.Repeat("s", 100<<10), "large.md": strings.Repeat("l", 100<<10+1)}
		for _, path := range []string{"small.md", "large.md"} {
			write(t, s, path, text[path], rw.ModeCreate)
		}
		for path, kept := range map[string]bool{"small.md": true, "large.md": clones} {
			h := must(s.History(background, rw.HistoryRequest{Path: path}))(t)
			v := h.Versions[0]
			expect(t, v.HeadNotKept != kept && v.Available, "clones %v, %s: %+v", clones, path, v)
			check(t, s, true)
			fs.Inject(func(op simfs.Op) (f simfs.Fault) {
				if op.Kind == "open" && op.Path == path {
					f.Err = syscall.EACCES
				}
				return f
			})
			h = must(s.History(background, rw.HistoryRequest{Path: path}))(t)
			v = h.Versions[0]
			expect(t, v.Available == kept && (kept || v.Problem == rw.ErrPermission), "clones %v, %s: %+v", clones, path, v)
			fs.Inject(nil)
			fs.Remove(path)
			h = must(s.History(background, rw.HistoryRequest{Path: path}))(t)
			equal(t, h.Versions[0].Available, kept, "clones ", clones, ", ", path, " removed")
			equal(t, h.Versions[0].Problem, "")
			write(t, s, path, text[path], rw.ModeCreate)
		}
		noErr(t, s.Close(background))
	}
}

// TestHotPathKeepsFewVersions: a path that is written all the time has no more
// objects than versions are kept, with the newest one.
func TestHotPathKeepsFewVersions(t *testing.T) {
	for _, most := range []int{1, 2, 10} {
		dir := withHistoryPolicy(t, fmt.Sprintf("{max_versions: %d}", most))
		s := open(t, dir, nil)
		for i := range 100 {
			write(t, s, "a.md", fmt.Sprintf("version %d", i), rw.ModeOverwrite)
		}
		noErr(t, s.Sync(background))
		compact(t, s, admin.CompactRequest{})
		n := kept(t, dir)
		expect(t, n <= most && n >= min(most, 2), "max_versions %d: %d objects", most, n)
		check(t, s, true)
		noErr(t, os.Remove(filepath.Join(dir, "a.md")))
		h := must(s.History(background, rw.HistoryRequest{Path: "a.md", N: 3}))(t)
		expect(t, h.Versions[1].Available && h.Versions[0].Available == (most > 1), "max_versions %d: %+v", most, h.Versions)
	}
}

// TestAddedVersionsAreNotKeptTwice: of a file that only grows, history keeps the
// newest version, and the earlier ones can be had from it.
func TestAddedVersionsAreNotKeptTwice(t *testing.T) {
	s, dir := opened(t, nil)
	text := ""
	for i := range 20 {
		line := fmt.Sprintf("line %d\n", i)
		write(t, s, "log.md", line, rw.ModeAppend)
		text += line
		noErr(t, s.Sync(background))
	}
	compact(t, s, admin.CompactRequest{})
	equal(t, kept(t, dir), 1, "objects")
	noErr(t, os.Remove(filepath.Join(dir, "log.md")))
	h := must(s.History(background, rw.HistoryRequest{Path: "log.md", N: 20}))(t)
	for i, v := range h.Versions {
		r, err := s.Read(background, rw.ReadRequest{Path: "log.md", Version: v.Version})
		expect(t, err == nil && strings.HasPrefix(text, string(r.Content)) && strings.Count(string(r.Content), "\n") == 20-i, "version %d: %v %q", i,
			err, r.Content)
	}
}

// TestNewestVersionsNeverShareAnInode: an object is no second name of a file.
func TestNewestVersionsNeverShareAnInode(t *testing.T) {
	s, dir := opened(t, nil)
	write(t, s, "small.md", "small", rw.ModeCreate)
	write(t, s, "large.md", strings.Repeat("l", 200_000), rw.ModeCreate)
	noErr(t, s.Sync(background))
	for _, name := range []string{"small.md", "large.md"} {
		text := must(os.ReadFile(filepath.Join(dir, name)))(t)
		sha := hash(string(text))
		a := must(os.Stat(filepath.Join(dir, name)))(t)
		b := must(os.Stat(filepath.Join(dir, rw.StateDirName, "history", sha[:2], sha)))(t)
		expect(t, !os.SameFile(a, b) && b.Size() == a.Size(), "%s: one file", name)
	}
}

// TestEraseStopsCopiesOfOthers: content that another process has written but not yet
// copied is not added to history after an Erase.
func TestEraseStopsCopiesOfOthers(t *testing.T) {
	secret := leaked()
	fs := simfs.New()
	a := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001", Process: fs.NewProcess()}))(t)
	b := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0002"}))(t)
	write(t, a, "a.txt", "key = "+secret+"\n", rw.ModeCreate)
	fs.Remove("a.txt") // by a person, to be rid of it
	r := erase(t, b, admin.EraseRequest{Secret: []byte(secret)})
	expect(t, len(r.Left) == 0 && len(r.Workspace) == 0, "%+v", r)
	noErr(t, a.Sync(background))
	nowhere(t, fs.Tree(), secret)
	// Versions that are written later are copied as ever.
	write(t, a, "b.txt", "later\n", rw.ModeCreate)
	noErr(t, a.Sync(background))
	fs.Remove("b.txt")
	must(b.Restore(background, rw.RestoreRequest{Path: "b.txt", SHA256: digest(hash("later\n")), Force: true}))(t)
	noErr(t, a.Close(background))
	noErr(t, b.Close(background))
}

// TestEraseWritesOverSlots: a version that could not reach history is in the slot of a
// dead writer. Erase overwrites it before it removes it. It overwrites no other file, and
// none that has another name, and lists them.
func TestEraseWritesOverSlots(t *testing.T) {
	for how, human := range map[string]func(slots, top fsx.Dir, slot string){
		"alone":    func(_, _ fsx.Dir, _ string) {},
		"linked":   func(slots, top fsx.Dir, slot string) { slots.Link(slot, top, "link.txt") },
		"replaced": func(slots, top fsx.Dir, slot string) { top.Rename("kept.txt", slots, slot) },
	} {
		t.Run(how, func(t *testing.T) { eraseSlot(t, human, how != "alone") })
	}
}

func eraseSlot(t *testing.T, human func(slots, top fsx.Dir, slot string), kept bool) {
	secret := leaked()
	fs := simfs.New()
	victim := fs.NewProcess()
	s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001", Process: victim}))(t)
	write(t, s, "a.txt", "before\n", rw.ModeCreate)
	slot := ""
	fs.Before(func(op simfs.Op) { // it dies between the row and the file
		if op.Kind == "exchange" {
			victim.StopAt(0)
			slot = path.Base(op.Path)
		}
	})
	s.SafeWrite(background, put("a.txt", "key = "+secret+"\n", rw.ModeOverwrite))
	fs.Before(nil)
	victim.Kill()
	fs.WriteFile("a.txt", []byte("by a person\n"), 0o644)
	full := true
	fs.Inject(func(op simfs.Op) simfs.Fault {
		if full && op.Kind == "create" && strings.Contains(op.Path, "/history/") {
			return simfs.Fault{Err: syscall.ENOSPC}
		}
		return simfs.Fault{}
	})
	s = must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0002"}))(t)
	require(t, len(s.Recovery().Conflicts) == 1 && strings.Contains(fmt.Sprint(fs.Tree()), secret), "%+v", s.Recovery())
	fs.WriteFile("kept.txt", []byte("key = "+secret+"\n"), 0o600)
	slots, done, err := fsx.OpenPath(fs.Foreign(), rw.StateDirName+"/staging")
	noErr(t, err)
	defer done()
	human(slots, fs.Foreign(), slot)
	fs.ResetTrace()
	r := erase(t, s, admin.EraseRequest{Secret: []byte(secret), SkipWorkspace: true})
	wiped := ""
	for _, op := range fs.Trace() {
		if strings.HasSuffix(op.Path, slot) {
			switch op.Kind {
			case "write", "sync", "truncate", "remove":
				wiped += op.Kind + " "
			}
		}
	}
	if kept {
		expect(t, wiped == "" && fmt.Sprint(r.Left) == "[staging/"+slot+"]", "%s %+v", wiped, r)
		expect(t, strings.Contains(fs.Tree()[rw.StateDirName+"/staging/"+slot], secret), "the file is changed")
		return
	}
	expect(t, len(r.Left) == 0 && fmt.Sprint(r.Places) == "[{staging 1}]", "%+v", r)
	nowhere(t, fs.Tree(), secret)
	expect(t, strings.Contains(wiped, "write sync truncate sync remove"), "the slot: %s", wiped)
	full = false
	check(t, s, true)
	noErr(t, s.Close(background))
}

// TestEraseLooksAgain: a commit that brings the secret after Erase has looked for it in
// history is erased as well.
func TestEraseLooksAgain(t *testing.T) {
	secret := leaked()
	fs := simfs.New()
	s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001"}))(t)
	other := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0002", Process: fs.NewProcess()}))(t)
	write(t, s, "a.txt", "innocent\n", rw.ModeCreate)
	came := false
	fs.Before(func(op simfs.Op) {
		if came || op.Kind != "opendir" || op.Path != rw.StateDirName+"/index" {
			return
		}
		came = true
		write(t, other, "b.txt", "key = "+secret+"\n", rw.ModeCreate)
		write(t, other, "b.txt", "innocent, and as long as the shrink guard wants it to be\n", rw.ModeOverwrite)
	})
	r := erase(t, s, admin.EraseRequest{Secret: []byte(secret)})
	fs.Before(nil)
	expect(t, came && fmt.Sprint(r.Places) == "[{history 1}]", "%+v", r)
	nowhere(t, fs.Tree(), secret)
}

// TestCopiesAreLookedAtAgain: history has the newest version of a file already, but a
// sweep of another process, which does not know of its commit yet, removes it before the
// copy is settled. It is copied.
func TestCopiesAreLookedAtAgain(t *testing.T) {
	fs := simfs.New()
	s := must(rw.OpenSim(fs, nil, rw.Sim{}))(t)
	write(t, s, "a.txt", longText, rw.ModeCreate)
	write(t, s, "a.txt", otherText, rw.ModeOverwrite)
	noErr(t, s.Sync(background))
	write(t, s, "b.txt", longText, rw.ModeCreate)
	object := path.Join(rw.StateDirName, "history", hash(longText)[:2], hash(longText))
	looked := false
	fs.Before(func(op simfs.Op) {
		if looked {
			fs.Before(nil)
			fs.Remove(object)
		}
		looked = looked || op.Path == object
	})
	for range 2 {
		noErr(t, s.Sync(background))
	}
	expect(t, looked, "nothing looked for the object")
	_, there := fs.ReadFile(object)
	expect(t, there, "the version is in the workspace only")
}

// TestHistoryStaysWithinItsCaps: ten thousand alternating overwrites of three files;
// the bound always holds, and the last change of every file can be undone.
func TestHistoryStaysWithinItsCaps(t *testing.T) {
	t.Parallel()
	dir := withHistoryPolicy(t, "{max_bytes: 64KiB, max_versions: 10}")
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
	expect(t, most <= 64+200+40, "%d versions were kept at a time", most)
	must(s.Restore(background, rw.RestoreRequest{Path: "once.txt", SHA256: digest(hash("the first and only\n"))}))(t, "the newest prior version of a quiet file is gone")
	must(s.Undo(background, rw.UndoRequest{}))(t, "undo")
	h, err := s.History(background, rw.HistoryRequest{Path: "f1.txt", N: 5})
	expect(t, err == nil && len(h.Versions) == 5 && h.Versions[0].Available && h.Versions[1].Available, "%v %+v", err, h)
	check(t, s, true)
}

// TestCapsAfterTheReply: the limits of history are applied to what comes there after the
// reply to the last call, too.
func TestCapsAfterTheReply(t *testing.T) {
	t.Parallel()
	dir := withHistoryPolicy(t, "{max_bytes: 64KiB}")
	s := open(t, dir, &rw.Options{Sync: rw.SyncJournal})
	for i := range 12 {
		write(t, s, "a.txt", strings.Repeat(fmt.Sprintf("line of version %d\n", 10+i), 2000), rw.ModeOverwrite)
	}
	time.Sleep(100 * time.Millisecond)
	for end := time.Now().Add(20 * time.Second); kept(t, dir) != 1; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d versions are kept", kept(t, dir))
		}
	}
	must(s.Undo(background, rw.UndoRequest{}))(t)
}

// kept counts the versions in history.
func kept(t *testing.T, dir string) (n int) {
	t.Helper()
	for e := range testbed.Entries(t, statePath(dir, "history")) {
		if !e.Info.IsDir() {
			n++
		}
	}
	return n
}

// withHistoryPolicy makes a workspace with a policy that limits history.
func withHistoryPolicy(t *testing.T, text string) string {
	t.Helper()
	dir := workspace(t)
	writePolicy(t, dir, "history: "+text+"\n")
	return dir
}

// keptBytes is the size of everything in history.
func keptBytes(t *testing.T, dir string) (sum int64) {
	t.Helper()
	for e := range testbed.Entries(t, statePath(dir, "history")) {
		sum += int64(len(e.Text))
	}
	return sum
}

// TestPruneBesideAnotherProcess: history stays within its bounds while another
// process has the store open for writing, and while many do one write each.
func TestPruneBesideAnotherProcess(t *testing.T) {
	t.Parallel()
	dir := withHistoryPolicy(t, "{max_bytes: 1MiB, max_versions: 10}")
	p := spawn(t, "hold", dir, "", rw.SyncFull)
	defer p.kill()
	p.printed(t, 1)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	for i := range 400 {
		write(t, s, fmt.Sprintf("f%d.txt", i%4), fmt.Sprint(i)+strings.Repeat("x", 30_000), rw.ModeOverwrite)
		if i%50 == 49 {
			got := keptBytes(t, dir)
			require(t, got <= 3<<19, "after %d writes history has %d bytes", i+1, got)
		}
	}
	r := compact(t, s, admin.CompactRequest{})
	got := kept(t, dir)
	expect(t, got <= 4*10 && len(r.Warnings) == 0, "%d versions are kept; %+v", got, r.Warnings)
	must(s.Undo(background, rw.UndoRequest{}))(t)
}

// TestPruneByShortProcesses: processes that make one write each apply the bounds
// as well.
func TestPruneByShortProcesses(t *testing.T) {
	t.Parallel()
	fs := simfs.New()
	fs.WriteFile(rw.StateDirName+"/policy.yaml", []byte("history: {max_versions: 5}\n"), 0o600)
	for i := range 5 + 256 + 10 {
		s := must(rw.OpenSim(fs, &rw.Options{Sync: rw.SyncOff}, rw.Sim{Nonce: fmt.Sprint(i)}))(t)
		write(t, s, "a.txt", fmt.Sprintf("version %d", i), rw.ModeOverwrite)
		noErr(t, s.Close(background))
	}
	n := simKept(fs)
	expect(t, n <= 5+256, "%d versions are kept", n)
}

// TestWritesAllocateLittle: neither the content nor the version that history is to get
// takes new memory with each write.
func TestWritesAllocateLittle(t *testing.T) {
	testbed.SkipIf(t, testbed.RaceDetector, "the race detector makes pools lose what they hold")
	s := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff})
	text := bytes.Repeat([]byte("some words of a line\n"), 3000)
	each := func(n int) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range n {
			copy(text, fmt.Sprintf("%9d", i))
			must(s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "a.txt", Mode: rw.ModeOverwrite}, bytes.NewReader(text)))(t)
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / uint64(n)
	}
	each(20)
	used := each(300)
	expect(t, used <= uint64(len(text))*3/4, "%d bytes are allocated for a write of %d", used, len(text))
}

// TestPruneReadsHistorySeldom: the bound of bytes holds, the oldest versions go first, and
// neither all of history nor all of the journal is read each time. A version that a file
// has again is no longer one of the oldest.
func TestPruneReadsHistorySeldom(t *testing.T) {
	t.Parallel()
	fs := simfs.New()
	fs.WriteFile(rw.StateDirName+"/policy.yaml", []byte("history: {max_bytes: 1MiB}\n"), 0o600)
	s := must(rw.OpenSim(fs, &rw.Options{Sync: rw.SyncOff}, rw.Sim{}))(t)
	looks := 0
	fs.Before(func(op simfs.Op) {
		if op.Kind == "readdir" && op.Path == rw.StateDirName+"/history" {
			looks++
		}
	})
	text := func(i int) string { return fmt.Sprintf("%d ", i) + strings.Repeat("x", 32<<10) }
	isKept := func(i int) bool {
		sum := hash(text(i))
		_, is := fs.ReadFile(rw.StateDirName + "/history/" + sum[:2] + "/" + sum)
		return is
	}
	const writes, files, most = 300, 4, 32
	oldest, current := 0, 0
	for i := range writes {
		for !isKept(oldest) && oldest < i-most {
			oldest++
		}
		n := i
		if i > 60 && i%10 == 0 && isKept(oldest) {
			n, current = oldest, i
		}
		write(t, s, fmt.Sprintf("f%d.txt", i%files), text(n), rw.ModeOverwrite)
		kept := simKept(fs)
		require(t, kept <= most+most/8+1, "after %d writes, %d versions are kept", i+1, kept)
		require(t, i >= current+files || current == 0 || isKept(oldest), "after %d writes, the version that a file has since write %d is gone", i+1, current+1)
	}
	expect(t, looks <= writes/20 && current > 0, "history was read %d times", looks)
}

func simKept(fs *simfs.FS) (n int) {
	for path, content := range fs.Tree() {
		if strings.HasPrefix(path, rw.StateDirName+"/history/") && content != "/" {
			n++
		}
	}
	return n
}

// TestSweepBesideACreator: a process that applies the limits is stopped at any point,
// another one continues, and a version that it has kept again in the meantime is not
// removed.
func TestSweepBesideACreator(t *testing.T) {
	t.Parallel()
	step := 1
	if short() {
		step = 13
	}
	ran := 0
	for at := phase(step); ; at += step {
		fs := simfs.New()
		fs.WriteFile(rw.StateDirName+"/policy.yaml", []byte("history: {max_versions: 2}\n"), 0o600)
		process := fs.NewProcess()
		sweeper := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001", Process: process}))(t)
		creator := must(rw.OpenSim(fs, &rw.Options{LockTimeout: 20 * time.Millisecond}, rw.Sim{Nonce: "0002", LockWait: 20 * time.Millisecond}))(t)
		for i := range 6 {
			write(t, sweeper, "a.txt", fmt.Sprintf("a%d", i), rw.ModeOverwrite)
		}
		done, stopped := stoppedAt(t, process, at, func() error { return errorOf(sweeper.Admin().Compact(background, admin.CompactRequest{})) })
		began := time.Now()
		for _, text := range []string{"a0", "a1"} { // known, and over the bound until now
			_, err := creator.SafeWrite(background, put("b.txt", text, rw.ModeOverwrite))
			require(t, err == nil || rw.AsError("", err).Detail == rw.ErrLockTimeout, "stopped at %d: %v (%v)", at, err, errors.Unwrap(err))
		}
		took := time.Since(began)
		expect(t, took <= 30*time.Second, "stopped at %d: the other process took %s", at, took)
		noErr(t, creator.Sync(background))
		process.Continue()
		if stopped {
			noErr(t, <-done)
		}
		look := func(s *rw.Store) {
			for _, path := range []string{"a.txt", "b.txt"} {
				h, err := s.History(background, rw.HistoryRequest{Path: path})
				if errors.Is(err, rw.ErrNotFound) && path == "b.txt" {
					continue
				}
				noErr(t, err)
				for i, v := range h.Versions[:min(2, len(h.Versions))] {
					if !v.Available || v.HeadNotKept && path == "b.txt" {
						t.Errorf("stopped at %d: version %d of %s (%s) is gone", at, i, path, v.SHA256.String()[:12])
					}
				}
			}
		}
		look(creator)
		noErr(t, creator.Close(background))
		noErr(t, sweeper.Close(background))
		s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0003"}))(t)
		look(s)
		check(t, s, true)
		noErr(t, s.Close(background))
		if ran++; !stopped {
			break
		}
	}
	expect(t, ran >= 10, "stopped at %d places only", ran)
}

// TestSweepBesideAWriteInPlace: a process that overwrites a file, or moves one over
// another, keeps the previous version first. It is stopped at any point, and another
// process applies the limits, under which that version is one too many. The version
// exists when the call continues, and after it.
func TestSweepBesideAWriteInPlace(t *testing.T) {
	calls := map[string]func(*rw.Store) error{
		"in place":  do(rw.SafeWriteRequest{Path: "a.txt", Content: []byte("new"), Mode: rw.ModeOverwrite}),
		"move over": move("c.txt", "a.txt", true),
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, step := 0, stride(7)
			for at = phase(step); !sweepBesideWrite(t, at, call); at += step {
			}
			expect(t, at >= 30, "the call has %d operations only", at)
		})
	}
}

func sweepBesideWrite(t *testing.T, at int, call func(*rw.Store) error) (over bool) {
	t.Helper()
	fs := simfs.New()
	fs.WriteFile(rw.StateDirName+"/policy.yaml", []byte("history: {max_versions: 2}\n"), 0o600)
	process := fs.NewProcess()
	writer := must(rw.OpenSim(fs, &rw.Options{HardLinks: rw.HardLinksInPlace}, rw.Sim{Nonce: "0001", Process: process}))(t)
	sweeper := must(rw.OpenSim(fs, &rw.Options{LockTimeout: time.Millisecond}, rw.Sim{Nonce: "0002", LockWait: time.Millisecond}))(t)
	for i := range 6 { // the first of these is over the limit
		write(t, sweeper, "b.txt", fmt.Sprintf("b%d", i), rw.ModeOverwrite)
	}
	write(t, sweeper, "c.txt", "c", rw.ModeCreate)
	noErr(t, sweeper.Sync(background))
	fs.WriteFile("a.txt", []byte("b0"), 0o644) // by another program
	noErr(t, fs.Foreign().Link("a.txt", fs.Foreign(), "link.txt"))
	done, stopped := stoppedAt(t, process, at, func() error { return call(writer) })
	_, err := sweeper.Admin().Compact(background, admin.CompactRequest{})
	require(t, err == nil || rw.AsError("", err).Detail == rw.ErrLockTimeout, "stopped at %d: %v", at, err)
	process.Continue()
	if stopped {
		noErr(t, <-done, "stopped at ", at)
	}
	h := must(writer.History(background, rw.HistoryRequest{Path: "a.txt"}))(t)
	for _, v := range h.Versions {
		expect(t, v.SHA256.String() != hash("b0") || v.Available, "stopped at %d: the version before is gone", at)
	}
	return !stopped
}

// TestUndoBesideOthersSweep: an undo is stopped at any point, and another process deletes a
// file, or opens the store and completes the commit that is undone. The undo succeeds.
func TestUndoBesideOthersSweep(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"deletes", "recovers"} {
		for at, stopped := 0, true; stopped; at++ {
			process, s, beside := stoppable(t, other == "recovers")
			call := func() error { return errorOf(beside()) }
			if other == "deletes" {
				two := must(beside())(t)
				noErr(t, do(put("a.txt", "a", rw.ModeCreate), put("b.txt", "b", rw.ModeCreate))(s))
				call = func() error { return doing((*rw.Store).Delete, rw.DeleteRequest{Path: "a.txt"})(two) }
			}
			var done chan error
			done, stopped = stoppedAt(t, process, at, func() error { return errorOf(s.Undo(background, rw.UndoRequest{})) })
			err := call()
			require(t, err == nil || errors.Is(err, rw.ErrLockTimeout) || errors.Is(err, rw.ErrIOBusy), "%s, stopped at %d: %v", other, at, err)
			process.Continue()
			if stopped {
				noErr(t, <-done, other, ", stopped at ", at)
			}
		}
	}
}

// stoppable opens a store in a process that can be stopped, and returns how another process
// opens it. It is a new one, or that of leftUnpublished.
func stoppable(t *testing.T, unpublished bool) (process *simfs.Process, s *rw.Store, beside func() (*rw.Store, error)) {
	t.Helper()
	fs := simfs.New()
	if unpublished {
		fs = leftUnpublished(t)
	}
	process = fs.NewProcess()
	s = must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0002", Process: process, Manual: true, Unrecovered: true}))(t)
	return process, s, func() (*rw.Store, error) {
		return rw.OpenSim(fs, &rw.Options{LockTimeout: time.Millisecond}, rw.Sim{Nonce: "0003", LockWait: time.Millisecond, Manual: true})
	}
}

// TestRestoreBesideOthersSweep: a call for the newest version of a file is stopped at any
// point, and another process makes a newer one, or opens the store and completes the commit
// that made it. The call succeeds.
func TestRestoreBesideOthersSweep(t *testing.T) {
	t.Parallel()
	calls := map[string]func(*rw.Store, rw.FileVersion) error{
		"Read": func(s *rw.Store, v rw.FileVersion) error {
			return errorOf(s.Read(background, rw.ReadRequest{Path: "a.txt", Version: v.Version}))
		},
		"Restore": func(s *rw.Store, v rw.FileVersion) error {
			return errorOf(s.Restore(background, rw.RestoreRequest{Path: "a.txt", SHA256: v.SHA256}))
		},
	}
	others := map[string]func(*rw.Store) error{
		"replaces": do(put("a.txt", strings.ToUpper(longText), rw.ModeOverwrite)), "adds": do(put("a.txt", "more", rw.ModeAppend)),
		"deletes": doing((*rw.Store).Delete, rw.DeleteRequest{Path: "a.txt"}), "moves": move("a.txt", "new.txt", false), "recovers": nil,
	}
	step := stride(5)
	for name, call := range calls {
		for how, other := range others {
			for at, stopped := phase(step), true; stopped; at += step {
				process, s, beside := stoppable(t, other == nil)
				run := func() error { return errorOf(beside()) }
				if other != nil {
					two := must(beside())(t)
					write(t, two, "a.txt", longText, rw.ModeCreate)
					run = func() error { return other(two) }
				}
				v := must(s.History(background, rw.HistoryRequest{Path: "a.txt"}))(t).Versions[0]
				var done chan error
				done, stopped = stoppedAt(t, process, at, func() error { return call(s, v) })
				err := run()
				require(t, err == nil || errors.Is(err, rw.ErrLockTimeout) || errors.Is(err, rw.ErrIOBusy), "%s, stopped at %d: %v", how, at, err)
				process.Continue()
				if stopped {
					noErr(t, <-done, name, " while another process ", how, ", stopped at ", at)
				}
			}
		}
	}
}

// TestVersionsOfACommitInProgress: when a commit has its row, and its file does not have its
// name yet, another process reads the version that is replaced and the new one.
func TestVersionsOfACommitInProgress(t *testing.T) {
	t.Parallel()
	calls := map[string]func(*rw.Store) error{
		"overwrite": do(put("a.txt", "two", rw.ModeOverwrite)), "append": do(put("a.txt", "more", rw.ModeAppend)), "move": move("a.txt", "b.txt", false),
		"delete": doing((*rw.Store).Delete, rw.DeleteRequest{Path: "a.txt"}),
	}
	for name, call := range calls {
		fs := simfs.New()
		s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001", Manual: true}))(t)
		other := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0002", Manual: true, Process: fs.NewProcess()}))(t)
		write(t, s, "a.txt", "one", rw.ModeCreate)
		read := 0
		fs.Before(func(op simfs.Op) {
			if op.Path != "a.txt" && op.To != "a.txt" || op.Kind != "exchange" && op.Kind != "rename" {
				return
			}
			fs.Before(nil)
			for _, v := range must(other.History(background, rw.HistoryRequest{Path: "a.txt"}))(t).Versions {
				if !v.SHA256.IsZero() {
					_, err := other.Read(background, rw.ReadRequest{Path: "a.txt", Version: v.Version})
					expect(t, err == nil && v.Available, "%s: version %d: %v, available %v", name, v.Rev, err, v.Available)
					read++
				}
			}
		})
		noErr(t, call(s), name)
		expect(t, read > 0, "%s: nothing was read", name)
	}
}

// TestSyncLooksAgain: a version that another program had open leaves the slots with the
// next Sync after it was closed.
func TestSyncLooksAgain(t *testing.T) {
	t.Parallel()
	s, dir := opened(t, nil)
	write(t, s, "a.txt", "one\n", rw.ModeCreate)
	f := must(os.OpenFile(filepath.Join(dir, "a.txt"), os.O_WRONLY, 0))(t)
	write(t, s, "a.txt", "two\n", rw.ModeOverwrite)
	noErr(t, s.Sync(background))
	before := must(s.Unfinished())(t)
	noErr(t, f.Close())
	left := before
	for range 100 { // a process that another test is starting has the file, too
		noErr(t, s.Sync(background))
		if left = must(s.Unfinished())(t); len(left) == 0 {
			break
		}
	}
	if length(t, left, 0, "left in staging"); len(before) != 1 {
		t.Skip("an open file is not noticed here")
	}
}

// TestEraseLooksAtVersionsThatWereOpen: Erase waits for slots that are in use, and no
// longer for those of versions that another program had open and has closed.
func TestEraseLooksAtVersionsThatWereOpen(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	s := open(t, dir, &rw.Options{LockTimeout: 2 * time.Second})
	secret := "correct-horse-battery"
	write(t, s, "a.txt", secret, rw.ModeCreate)
	f := must(os.OpenFile(filepath.Join(dir, "a.txt"), os.O_WRONLY, 0))(t)
	write(t, s, "a.txt", "two\n", rw.ModeOverwrite)
	noErr(t, f.Close())
	erase(t, s, admin.EraseRequest{Secret: []byte(secret)})
	nowhere(t, realTree(t, dir), secret)
}

// TestEraseBesideAProcessThatHoldsAVersion: a process without calls gives up the slot of a
// version that another program had open and has closed. Erase in another process waits for it.
func TestEraseBesideAProcessThatHoldsAVersion(t *testing.T) {
	t.Parallel()
	idle, dir := opened(t, nil)
	s := open(t, dir, &rw.Options{LockTimeout: 20 * time.Second})
	secret := "correct-horse-battery"
	write(t, idle, "a.txt", secret, rw.ModeCreate)
	f := must(os.OpenFile(filepath.Join(dir, "a.txt"), os.O_WRONLY, 0))(t)
	write(t, idle, "a.txt", "two\n", rw.ModeOverwrite)
	noErr(t, f.Close())
	erase(t, s, admin.EraseRequest{Secret: []byte(secret)})
	nowhere(t, realTree(t, dir), secret)
}

// TestSpellings changes files by other spellings of their names, on a file system that takes
// them for one. All calls of a file know it by the name that its directory has.
func TestSpellings(t *testing.T) {
	disk := simfs.New()
	disk.Folds = true
	disk.WriteFile("Docs/Theirs.md", []byte("theirs\n"), 0o644)
	s := openAround(t, disk, rw.SyncFull, "a")
	must(s.Scan(background, around.ScanRequest{}))(t)
	write(t, s, "docs/Readme.md", "1\n", rw.ModeCreate)
	write(t, s, "DOCS/README.md", "2\n", rw.ModeOverwrite)
	write(t, s, "docs/theirs.MD", "ours\n", rw.ModeOverwrite)
	write(t, s, "docs/caf\u00e9.md", "1\n", rw.ModeCreate)
	write(t, s, "docs/cafe\u0301.md", "2\n", rw.ModeOverwrite)
	for path, want := range map[string]int{"docs/Cafe\u0301.md": 2, "Docs/Readme.md": 2, "docs/readme.MD": 2, "docs/THEIRS.md": 1} {
		equal(t, len(versionsOf(t, s, path)), want, path)
	}
	restored(t, s, "docs/readme.MD", versionsOf(t, s, "docs/README.md")[1].Version)
	renamed(t, s, "docs/THEIRS.md", "docs/third.md")
	deleted(t, s, "docs/Third.md")
	undone(t, s, 2)
	text, _ := disk.ReadFile("Docs/Readme.md")
	theirs, _ := disk.ReadFile("Docs/Theirs.md")
	equal(t, string(text)+string(theirs), "1\nours\n")
	seen := must(s.Scan(background, around.ScanRequest{}))(t)
	equal(t, len(seen.Files), 0, seen)

	write(t, s, "docs/new.md", "1\n", rw.ModeCreate)
	deleted(t, s, "docs/new.md")
	write(t, s, "docs/NEW.md", "2\n", rw.ModeCreate)
	report := must(s.Check(background, admin.CheckRequest{Deep: true}))(t)
	expect(t, report.Clean, "%+v", report.Problems)

	// A program renames a file, and a directory, to another spelling only.
	for _, names := range [][]string{{"Docs", "Theirs.md", "THEIRS.md"}, {"", "Docs", "DOCS"}} {
		dir := disk.Foreign()
		if names[0] != "" {
			dir = must(dir.OpenDir(names[0]))(t)
		}
		noErr(t, dir.Rename(names[1], dir, "other"))
		noErr(t, dir.Rename("other", dir, names[2]))
		seen = must(s.Scan(background, around.ScanRequest{}))(t)
		expect(t, seen.Moved > 0 && len(seen.Busy) == 0, "%v: %+v", names, seen)
		write(t, s, "Docs/Theirs.md", names[2], rw.ModeOverwrite)
		seen = must(s.Scan(background, around.ScanRequest{}))(t)
		expect(t, len(seen.Files)+len(seen.Dirs)+len(seen.Busy) == 0, "%v: %+v", names, seen)
	}
}
