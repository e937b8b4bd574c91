package resilientwrite_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

func TestEditReplacesExactly(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, nil)
	write(t, s, "a.txt", "one\r\ntwo\r\nthree\r\n", rw.ModeCreate)
	res := must(s.Edit(background, rw.EditRequest{Path: "a.txt", Edits: []rw.EditOp{{Old: "two\nthree", New: "2\n3"}, {Old: "one", New: "1"}}}))(t)
	fileIs(t, dir, "a.txt", "1\r\n2\r\n3\r\n")
	if res.Replacements != 2 || !strings.Contains(res.Diff, "-two") || res.Status != rw.StatusSucceeded {
		t.Errorf("%+v", res)
	}
	check(t, s, true)
	for _, c := range []struct {
		name  string
		path  string
		edits []rw.EditOp
		want  rw.Detail
	}{
		{"no edit", "a.txt", nil, rw.ErrNoEdits},
		{"empty old", "a.txt", []rw.EditOp{{Old: "", New: "x"}}, rw.ErrEmptyOldString},
		{"not there", "a.txt", []rw.EditOp{{Old: "four", New: "x"}}, rw.ErrOldStringNotFound},
		{"ambiguous", "a.txt", []rw.EditOp{{Old: "\n", New: "x"}}, rw.ErrAmbiguousMatch},
		{"too few", "a.txt", []rw.EditOp{{Old: "\n", New: "x", Count: 9}}, rw.ErrInsufficientMatches},
		{"too many", "a.txt", []rw.EditOp{{Old: "\n", New: "x", Count: 2}}, rw.ErrTooManyMatches},
		{"bad count", "a.txt", []rw.EditOp{{Old: "1", New: "x", Count: -2}}, rw.ErrInvalidArgument},
		{"no change", "a.txt", []rw.EditOp{{Old: "1", New: "1"}}, rw.ErrNoChange},
		{"second fails", "a.txt", []rw.EditOp{{Old: "1", New: "x"}, {Old: "1", New: "y"}}, rw.ErrOldStringNotFound},
		{"absent", "b.txt", []rw.EditOp{{Old: "1", New: "x"}}, rw.ErrFileNotFound},
		{"outside", "../b.txt", []rw.EditOp{{Old: "1", New: "x"}}, rw.ErrEscapesWorkspace},
	} {
		before := snapshot(t, dir)
		fails(s.Edit(background, rw.EditRequest{Path: c.path, Edits: c.edits}))(t, c.want, c.name)
		if snapshot(t, dir) != before {
			t.Errorf("%s: the refusal changed something", c.name)
		}
	}
	_, err := s.Edit(background, rw.EditRequest{Path: "a.txt", Edits: []rw.EditOp{{Old: "2 \n3", New: "x"}}})
	if e := rw.AsError("", err); e.Context["closest"] == nil || !strings.Contains(e.Hint, "line 2") {
		t.Errorf("the closest line is not told: %+v", e)
	}
}

func TestDeleteKeepsWhatWasThere(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, nil)
	w := write(t, s, "d/a.txt", "precious", rw.ModeCreate)
	other := strings.Repeat("0", 64)
	fails(s.Delete(background, rw.DeleteRequest{Path: "d/a.txt", Expect: rw.Exactly(digest(other))}))(t, rw.ErrHashMismatch, "guard")
	dry, err := s.Delete(background, rw.DeleteRequest{Path: "d/a.txt", Call: rw.Call{DryRun: true}})
	if err != nil || !strings.Contains(dry.Diff, "-precious") {
		t.Fatalf("dry run: %v %+v", err, dry)
	}
	fileIs(t, dir, "d/a.txt", "precious")
	res, err := s.Delete(background, rw.DeleteRequest{Path: "d/a.txt", Expect: rw.Exactly(w.SHA256), Call: rw.Call{IdempotencyKey: "k"}})
	if err != nil || res.PrevSHA256 != w.SHA256 || res.PrevBytes != 8 {
		t.Fatalf("%v %+v", err, res)
	}
	if _, err := os.Stat(filepath.Join(dir, "d/a.txt")); !os.IsNotExist(err) {
		t.Fatal("the file is still there")
	}
	if again, err := s.Delete(background, rw.DeleteRequest{Path: "d/a.txt", Expect: rw.Exactly(w.SHA256), Call: rw.Call{IdempotencyKey: "k"}}); err != nil || again.Status != rw.StatusReplayed || again.PrevBytes != 8 {
		t.Errorf("replay: %v %+v", err, again)
	}
	fails(s.Delete(background, rw.DeleteRequest{Path: "d/a.txt"}))(t, rw.ErrNotFound, "a second time")
	fails(s.Delete(background, rw.DeleteRequest{Path: "d"}))(t, rw.ErrIsADirectory, "a directory")
	kept := filepath.Join(dir, rw.StateDirName, "history", w.SHA256.String()[:2], w.SHA256.String())
	if data, err := os.ReadFile(kept); err != nil || string(data) != "precious" {
		t.Errorf("history: %v", err)
	}
	check(t, s, true)
}

func TestMoveKeepsTheFile(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, nil)
	write(t, s, "a.txt", "moved", rw.ModeCreate)
	os.Chmod(filepath.Join(dir, "a.txt"), 0o750)
	was, _ := os.Stat(filepath.Join(dir, "a.txt"))
	write(t, s, "b.txt", "in the way", rw.ModeCreate)
	fails(s.Move(background, rw.MoveRequest{Path: "a.txt", To: "b.txt"}))(t, rw.ErrFileAlreadyExists, "over a file")
	for to, want := range map[string]rw.Detail{"a.txt": rw.ErrInvalidArgument, "../x": rw.ErrEscapesWorkspace, ".git/x": rw.ErrProtectedPath} {
		fails(s.Move(background, rw.MoveRequest{Path: "a.txt", To: to}))(t, want, "to ", to)
	}
	fails(s.Move(background, rw.MoveRequest{Path: "none.txt", To: "x.txt"}))(t, rw.ErrNotFound, "nothing")
	res, err := s.Move(background, rw.MoveRequest{Path: "a.txt", To: "x/y/c.txt"})
	if err != nil || res.Files != 1 {
		t.Fatalf("%v %+v", err, res)
	}
	now, err := os.Stat(filepath.Join(dir, "x/y/c.txt"))
	if err != nil || !os.SameFile(was, now) || now.Mode() != was.Mode() || !now.ModTime().Equal(was.ModTime()) {
		t.Errorf("inode, mode or time changed: %v", err)
	}
	if res, err = s.Move(background, rw.MoveRequest{Path: "x/y/c.txt", To: "b.txt", Overwrite: true}); err != nil {
		t.Fatal(err)
	}
	fileIs(t, dir, "b.txt", "moved")
	write(t, s, "p/one.txt", "1", rw.ModeCreate)
	write(t, s, "p/q/two.txt", "2", rw.ModeCreate)
	if res, err = s.Move(background, rw.MoveRequest{Path: "p", To: "r"}); err != nil || res.Files != 2 {
		t.Fatalf("directory: %v %+v", err, res)
	}
	fileIs(t, dir, "r/one.txt", "1")
	fileIs(t, dir, "r/q/two.txt", "2")
	if _, err := os.Stat(filepath.Join(dir, "p")); !os.IsNotExist(err) {
		t.Error("the old directory is still there")
	}
	fails(s.Move(background, rw.MoveRequest{Path: "r", To: "r/s"}))(t, rw.ErrInvalidArgument, "into itself")
	check(t, s, true)
}

func TestTxIsAllOrNothing(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, nil)
	write(t, s, "a.txt", "alpha\n", rw.ModeCreate)
	write(t, s, "b.txt", "beta\n", rw.ModeCreate)
	write(t, s, "old.txt", "old\n", rw.ModeCreate)
	before := snapshot(t, dir)
	bad := [][]rw.TxOp{
		nil,
		{{Op: "write", Path: "n/new.txt", Content: []byte("x")}, {Op: "write", Path: "a.txt", Content: []byte("x")}},
		{{Op: "write", Path: "n/new.txt", Content: []byte("x")}, {Op: "edit", Path: "b.txt", Edits: []rw.EditOp{{Old: "none", New: "x"}}}},
		{{Op: "write", Path: "n/new.txt", Content: []byte("x")}, {Op: "delete", Path: "none.txt"}},
		{{Op: "write", Path: "n/new.txt", Content: []byte("x")}, {Op: "move", Path: "a.txt", To: "b.txt"}},
		{{Op: "write", Path: "n/new.txt", Content: []byte("x")}, {Op: "dance", Path: "a.txt"}},
		{{Op: "delete", Path: "a.txt"}, {Op: "move", Path: "a.txt", To: "c.txt"}},
		{{Op: "write", Path: "n/new.txt", Content: []byte("x")}, {Op: "delete", Path: "n/new.txt"}},
	}
	for i, ops := range bad {
		if _, err := s.Tx(background, rw.TxRequest{Ops: ops}); err == nil {
			t.Errorf("%d: accepted", i)
		}
		if snapshot(t, dir) != before {
			t.Fatalf("%d: the refusal changed something", i)
		}
	}
	res := must(s.Tx(background, rw.TxRequest{Call: rw.Call{IdempotencyKey: "t"}, Ops: []rw.TxOp{
		{Op: "write", Path: "n/new.txt", Content: []byte("new\n")},
		{Op: "edit", Path: "n/new.txt", Edits: []rw.EditOp{{Old: "new", New: "brand new"}}},
		{Op: "edit", Path: "a.txt", Edits: []rw.EditOp{{Old: "alpha", New: "ALPHA"}}},
		{Op: "write", Path: "a.txt", Content: []byte("more\n"), Mode: rw.ModeAppend},
		{Op: "move", Path: "b.txt", To: "m/b.txt"},
		{Op: "delete", Path: "old.txt"},
	}}))(t)
	fileIs(t, dir, "n/new.txt", "brand new\n")
	fileIs(t, dir, "a.txt", "ALPHA\nmore\n")
	fileIs(t, dir, "m/b.txt", "beta\n")
	for _, gone := range []string{"old.txt", "b.txt"} {
		if _, err := os.Stat(filepath.Join(dir, gone)); !os.IsNotExist(err) {
			t.Errorf("%s is still there", gone)
		}
	}
	if len(res.Results) != 6 || res.Seq == 0 || res.Results[0].SHA256 != res.Results[1].SHA256 || res.Results[5].SHA256.String() != "" {
		t.Errorf("%+v", res)
	}
	tail := must(s.JournalTail(background, rw.JournalTailRequest{}))(t)
	for _, e := range tail.Entries {
		if e.Tx != "" && e.Seq != res.Seq {
			t.Errorf("the transaction has more than one row: %d and %d", e.Seq, res.Seq)
		}
	}
	check(t, s, true)
}

// TestStagedTxSurvivesARestart: staged operations exist after a reopening, and are
// committed once.
func TestStagedTxSurvivesARestart(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, nil)
	b := must(s.TxBegin(background, rw.TxBeginRequest{}))(t)
	for i := range 3 {
		st, err := s.TxStage(background, rw.TxStageRequest{TxID: b.TxID, Op: rw.TxOp{Op: "write", Path: fmt.Sprintf("f%d.txt", i), Content: []byte(fmt.Sprint(i))}})
		if err != nil || st.Index != i+1 {
			t.Fatalf("%v %+v", err, st)
		}
	}
	for id, want := range map[string]rw.Detail{"tx_none": rw.ErrTxNotFound, "../../x": rw.ErrTxNotFound, "": rw.ErrTxNotFound} {
		if _, err := s.TxStage(background, rw.TxStageRequest{TxID: id, Op: rw.TxOp{Op: "delete", Path: "a"}}); !errors.Is(err, want) {
			t.Errorf("%q: %v", id, err)
		}
	}
	noErr(t, s.Close(background))
	s = open(t, dir, nil)
	d, err := s.Describe(background, rw.DescribeRequest{})
	if err != nil || len(d.Transactions) != 1 || d.Transactions[0] != b.TxID {
		t.Fatalf("%v %v", err, d.Transactions)
	}
	if _, err := os.Stat(filepath.Join(dir, "f0.txt")); !os.IsNotExist(err) {
		t.Fatal("a staged operation has happened")
	}
	res, err := s.TxCommit(background, rw.TxCommitRequest{TxID: b.TxID})
	if err != nil || len(res.Results) != 3 {
		t.Fatalf("%v %+v", err, res)
	}
	for i := range 3 {
		fileIs(t, dir, fmt.Sprintf("f%d.txt", i), fmt.Sprint(i))
	}
	again, err := s.TxCommit(background, rw.TxCommitRequest{TxID: b.TxID})
	if err != nil || again.Status != rw.StatusReplayed {
		t.Errorf("a second time: %v %+v", err, again)
	}
	fails(s.TxCommit(background, rw.TxCommitRequest{TxID: "tx_other"}))(t, rw.ErrTxNotFound, "another one")
	b2, _ := s.TxBegin(background, rw.TxBeginRequest{})
	s.TxStage(background, rw.TxStageRequest{TxID: b2.TxID, Op: rw.TxOp{Op: "delete", Path: "f0.txt"}})
	rb, err := s.TxRollback(background, rw.TxRollbackRequest{TxID: b2.TxID})
	if err != nil || !rb.Existed || rb.Dropped != 1 {
		t.Errorf("%v %+v", err, rb)
	}
	fileIs(t, dir, "f0.txt", "0")
	if left, _ := os.ReadDir(filepath.Join(dir, rw.StateDirName, "tx")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	check(t, s, true)
}

// TestCrossingTransactionsDoNotDeadlock: two stores, transactions over the same
// files in other orders; the sum of the accounts never changes.
func TestCrossingTransactionsDoNotDeadlock(t *testing.T) {
	dir := workspace(t)
	opts := &rw.Options{Sync: rw.SyncOff}
	stores := []*rw.Store{open(t, dir, opts), open(t, dir, opts)}
	const accounts = 4
	for i := range accounts {
		write(t, stores[0], fmt.Sprintf("acc%d", i), "100", rw.ModeCreate)
	}
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			s, rng := stores[w%2], rand.New(rand.NewPCG(uint64(w), 1))
			for range 25 {
				from, to := rng.IntN(accounts), rng.IntN(accounts)
				if from == to {
					continue
				}
				var ops []rw.TxOp
				ok := true
				for _, step := range []struct{ acc, by int }{{from, -1}, {to, 1}} {
					path := fmt.Sprintf("acc%d", step.acc)
					r, err := s.Read(background, rw.ReadRequest{Path: path})
					if err != nil {
						ok = false
						break
					}
					n := 0
					fmt.Sscan(string(r.Content), &n)
					ops = append(ops, rw.TxOp{Op: "write", Path: path, Content: []byte(fmt.Sprint(n + step.by)), Mode: rw.ModeOverwrite, Expect: rw.Exactly(r.SHA256)})
				}
				if _, err := s.Tx(background, rw.TxRequest{Ops: ops, Call: rw.Call{Caller: fmt.Sprint(w, rng.Uint64())}}); ok && err != nil && !errors.Is(err, rw.ErrHashMismatch) && !errors.Is(err, rw.ErrChangedDuringWrite) {
					t.Errorf("%v", err)
				}
			}
		}()
	}
	wg.Wait()
	sum := 0
	for i := range accounts {
		n := 0
		data, _ := os.ReadFile(filepath.Join(dir, fmt.Sprintf("acc%d", i)))
		fmt.Sscan(string(data), &n)
		sum += n
	}
	if sum != 100*accounts {
		t.Errorf("the sum is %d", sum)
	}
	check(t, stores[0], true)
}
