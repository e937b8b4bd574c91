package resilientwrite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/failpoint"
)

const (
	manyOps   = 256 // of one call
	stagedOps = 500 // of a staged transaction
)

// manyFiles returns n operations on n files, a third of which exist.
func manyFiles(n int, text string) (before, ops []rw.TxOp) {
	for i := range n {
		path := fmt.Sprintf("d%d/file%03d.txt", i%7, i)
		op := txWrite(path, fmt.Sprintf("%s %d\n", text, i), rw.ModeCreate)
		if i%3 == 0 && len(before) < manyOps {
			before = append(before, txWrite(path, fmt.Sprintf("before %d\n", i), rw.ModeCreate))
			op.Mode = rw.ModeOverwrite
		}
		ops = append(ops, op)
	}
	return before, ops
}

// dieHalfway ends the process between two of many files.
func dieHalfway(s *rw.Store, _ string) error {
	files := 0
	failpoint.Arm(func(point string) {
		if point != "publish.next" {
			return
		}
		if files++; files == manyOps/2 {
			os.Exit(9)
		}
	})
	_, ops := manyFiles(manyOps, "new")
	return transact(s, ops...)
}

// TestProcessDiesInTheMiddleOf256Files: half of them have their names; the next
// Open gives the others theirs, and one call takes all of it back.
func TestProcessDiesInTheMiddleOf256Files(t *testing.T) {
	if txChild(t, dieHalfway) {
		return
	}
	dir := ramspace(t)
	before, ops := manyFiles(manyOps, "new")
	s := quickAt(t, dir, nil)
	noErr(t, transact(s, before...))
	noErr(t, s.Close(background))
	old := tree(t, dir)
	cmd, out := txProcess(t, dir, "x", rw.SyncJournal)
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 9 {
		t.Fatalf("the child ended with %d\n%s", code, out.text.String())
	}
	isNew := func() (n int) {
		for _, op := range ops {
			if data, _ := os.ReadFile(filepath.Join(dir, op.Path)); string(data) == string(op.Content) {
				n++
			}
		}
		return n
	}
	if n := isNew(); n != manyOps/2 {
		t.Errorf("%d files were in place when the process died", n)
	}
	s = quickAt(t, dir, nil)
	if n := isNew(); n != manyOps || len(s.Recovery().Finished) != manyOps/2 {
		t.Errorf("%d files are new, %d were finished", n, len(s.Recovery().Finished))
	}
	check(t, s, true)
	must(s.Undo(background, rw.UndoRequest{Call: rw.Call{Caller: "childx"}}))(t)
	if now := tree(t, dir); now != old {
		t.Errorf("undone to\n%s\nfrom\n%s", now, old)
	}
	check(t, s, true)
}

// staged stages operations and returns the transaction.
func staged(t *testing.T, s *rw.Store, ops []rw.TxOp) string {
	t.Helper()
	b := must(s.TxBegin(background, rw.TxBeginRequest{}))(t)
	for i, op := range ops {
		st := must(s.TxStage(background, rw.TxStageRequest{TxID: b.TxID, Op: op}))(t)
		if st.Index != i+1 {
			t.Fatalf("operation %d has index %d", i+1, st.Index)
		}
	}
	return b.TxID
}

// TestStagedTransactionAtItsLimit: 500 operations are committed together and undone
// together; one more is refused when it is staged, and the operations staged before are
// kept.
func TestStagedTransactionAtItsLimit(t *testing.T) {
	s, dir := quick(t, nil)
	before, ops := manyFiles(stagedOps, strings.Repeat("text ", 200))
	noErr(t, transact(s, before...))
	old := tree(t, dir)
	began := time.Now()
	id := staged(t, s, ops)
	staging := time.Since(began)
	deny(t, s, dir, "one more", rw.ErrTooLarge, func() error {
		_, err := s.TxStage(background, rw.TxStageRequest{TxID: id, Op: txDelete("d0/file000.txt")})
		return err
	})
	if now := tree(t, dir); now != old {
		t.Fatal("what is staged is to be seen")
	}
	var m0, m1 runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m0)
	began = time.Now()
	res := must(s.TxCommit(background, rw.TxCommitRequest{TxID: id}))(t)
	committing := time.Since(began)
	runtime.ReadMemStats(&m1)
	t.Logf("%d operations of 1 KB: staged in %v, committed in %v, %d KiB allocated, heap %d KiB", stagedOps, staging.Round(time.Millisecond),
		committing.Round(time.Millisecond), (m1.TotalAlloc-m0.TotalAlloc)>>10, m1.HeapAlloc>>10)
	if len(res.Results) != stagedOps {
		t.Errorf("%d results", len(res.Results))
	}
	for _, op := range ops {
		fileIs(t, dir, op.Path, string(op.Content))
	}
	if left, _ := os.ReadDir(filepath.Join(dir, rw.StateDirName, "tx")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	check(t, s, true)
	undone(t, s, 1)
	if now := tree(t, dir); now != old {
		t.Error("not undone")
	}
	check(t, s, true)
}

// TestStagedTransactionThatNoRowHolds: the names are so long that the row of the commit
// would be too large. It is refused as a whole and leaves neither files nor
// directories; the staged operations stay, and can be dropped.
func TestStagedTransactionThatNoRowHolds(t *testing.T) {
	s, dir := quick(t, nil)
	deep := strings.Repeat(strings.Repeat("n", 100)+"/", 8)
	var ops []rw.TxOp
	for i := range 400 {
		ops = append(ops, txWrite(fmt.Sprintf("%s%d", deep, i), "x", ""))
	}
	id := staged(t, s, ops)
	e := deny(t, s, dir, "too many long names", rw.ErrTooLarge, func() error {
		_, err := s.TxCommit(background, rw.TxCommitRequest{TxID: id})
		return err
	})
	if e == nil || e.Hint == "" {
		t.Errorf("no hint: %v", e)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left %v", left)
	}
	d := must(s.Describe(background, rw.DescribeRequest{}))(t)
	if len(d.Transactions) != 1 {
		t.Errorf("staged: %v", d.Transactions)
	}
	rb := must(s.TxRollback(background, rw.TxRollbackRequest{TxID: id}))(t)
	if rb.Dropped != len(ops) {
		t.Errorf("%d dropped", rb.Dropped)
	}
	fails(s.TxCommit(background, rw.TxCommitRequest{TxID: id}))(t, rw.ErrTxNotFound, "committed after the rollback")
	write(t, s, "a.txt", "the store goes on", rw.ModeCreate)
	check(t, s, true)
}
