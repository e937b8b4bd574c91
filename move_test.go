package resilientwrite_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// TestMoveOfManyFiles: a directory of 4,096 files is one commit; one more file is
// refused before anything moves.
func TestMoveOfManyFiles(t *testing.T) {
	t.Parallel()
	const most = 4096
	s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
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
		expect(t, (old == files && new == 0 || old == 0 && new == files) && len(s.Recovery().Conflicts) == 0,
			"stopped at %d of %d: %d files have the old name, %d the new one; conflicts %v", n, all, old, new, len(s.Recovery().Conflicts))
		noErr(t, s.Close(background))
	}
}

// TestMoveOfADirectoryTakesAllAlong: while files are made in a directory, by this store
// and by another one on the same workspace, it is moved repeatedly. A file whose row
// precedes that of the move was moved with it.
func TestMoveOfADirectoryTakesAllAlong(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	opts := &rw.Options{Sync: rw.SyncOff}
	stores := []*rw.Store{open(t, dir, opts), open(t, dir, opts)}
	const rounds, files = 12, 60
	var wg sync.WaitGroup
	seq := make([][]uint64, len(stores)) // of each store's files, by number
	begin := make([]chan int, len(stores))
	for i, s := range stores {
		begin[i] = make(chan int)
		go func() {
			for round := range begin[i] {
				seq[i] = nil
				for n := range files {
					r, err := s.SafeWrite(background, put(fmt.Sprintf("d%d/sub/%d-%d.txt", round, i, n), "x", rw.ModeCreate))
					expect(t, err == nil, "%v", err)
					seq[i] = append(seq[i], r.Receipt.JournalSeq)
				}
				wg.Done()
			}
		}()
	}
	left := 0
	for round := range rounds {
		wg.Add(len(stores))
		for _, c := range begin {
			c <- round
		}
		from, to := fmt.Sprintf("d%d", round), fmt.Sprintf("to%d", round)
		var moved []uint64
		for range 3 {
			r, err := stores[round%2].Move(background, rw.MoveRequest{Path: from, To: to})
			if err == nil {
				moved = append(moved, r.Receipt.JournalSeq)
			} else if d := rw.AsError("move", err).Detail; d != rw.ErrNotFound && d != rw.ErrChangedDuringWrite && d != rw.ErrIsADirectory { // made since it was looked for
				t.Fatalf("round %d: %v", round, err)
			}
		}
		wg.Wait()
		if len(moved) == 0 {
			continue // nothing was there so soon
		}
		last := moved[len(moved)-1]
		for i := range stores {
			for n, at := range seq[i] {
				name := fmt.Sprintf("sub/%d-%d.txt", i, n)
				_, err := os.Stat(filepath.Join(dir, to, name))
				expect(t, at >= last || err == nil, "round %d: %s was made at row %d and did not move at row %d: %v", round, name, at, last, err)
				if at < last {
					left++
				}
			}
		}
	}
	for _, c := range begin {
		close(c)
	}
	if left == 0 {
		t.Log("no file was made in front of a move; this run shows nothing")
	}
	check(t, stores[0], true)
}

// TestMoveOntoItself: a file that two paths lead to is not moved over itself.
func TestMoveOntoItself(t *testing.T) {
	s, dir := opened(t, nil)
	write(t, s, "d/a.txt", "text", rw.ModeCreate)
	if err := os.Symlink("d", filepath.Join(dir, "link")); err != nil {
		t.Skip("links:", err)
	}
	for _, to := range []string{"d/a.txt", "link/a.txt"} {
		_, err := s.Move(background, rw.MoveRequest{Path: "d/a.txt", To: to, Overwrite: true})
		_, txErr := s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "move", Path: "d/a.txt", To: to, Overwrite: true}}})
		expect(t, errors.Is(err, rw.ErrInvalidArgument) && errors.Is(txErr, rw.ErrInvalidArgument), "%s: %v, %v", to, err, txErr)
		fileIs(t, dir, "d/a.txt", "text")
	}
}

// TestTxWriteWithoutContent: over the wire an operation without a required argument is
// refused, and the file is unchanged.
func TestTxWriteWithoutContent(t *testing.T) {
	for _, args := range []string{
		`{"ops":[{"op":"write","path":"a.txt","mode":"overwrite"}]}`,
		`{"ops":[{"op":"write","path":"a.txt","mode":"overwrite","content":null}]}`,
		`{"ops":[{"op":"edit","path":"a.txt"}]}`,
		`{"ops":[{"op":"move","path":"a.txt"}]}`,
	} {
		var r rw.TxRequest
		_, err := schema.Decode(background, []byte(args), &r)
		expect(t, err != nil && strings.Contains(err.Error(), "is required"), "%s: %v", args, err)
	}
	var r rw.TxRequest
	must(schema.Decode(background, []byte(`{"ops":[{"op":"write","path":"a.txt","content":""},{"op":"delete","path":"b"}]}`), &r))(t, "an empty content")
}
