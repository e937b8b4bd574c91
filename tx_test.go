package resilientwrite_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/internal/failpoint"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

const strangersText = "a stranger's work of an afternoon\n"

// strangerActs are the changes that another program may make to a file while no process
// has the store open.
var strangerActs = map[string]func(fs *simfs.FS, path string){
	"rewrites": func(fs *simfs.FS, path string) { fs.WriteFile(path, []byte(strangersText), 0o644) },
	"replaces": func(fs *simfs.FS, path string) { // as editors do: a new file gets the name
		fs.Remove(path)
		fs.WriteFile(path, []byte(strangersText), 0o644)
	},
	"appends": func(fs *simfs.FS, path string) {
		have, _ := fs.ReadFile(path)
		fs.WriteFile(path, append(have, strangersText...), 0o644)
	},
	"deletes": func(fs *simfs.FS, path string) { fs.Remove(path) },
}

// conflictDraft changes five files in five ways.
var conflictDraft = txDraft{
	name: "five",
	made: []rw.TxOp{txWrite("a.txt", longText, ""), txWrite("b.txt", longText, ""), txWrite("c.txt", "mark\n"+longText, ""), txWrite("e.txt", otherText, "")},
	ops: []rw.TxOp{
		txWrite("a.txt", otherText, rw.ModeOverwrite), txWrite("b.txt", otherText, rw.ModeAppend), txEdit("c.txt", "landmark"),
		txWrite("n/d.txt", longText+"new", ""), txDelete("e.txt"),
	},
}

// TestStrangersEditBetweenCrashAndRecovery: a transaction of five files is recorded and
// the machine dies while they get their names. Before the store is opened again,
// another program changes one of them, each in its turn. Its content is never touched,
// our version of that file is in history and the conflict in the journal and in the
// report, and the other files are rolled forward.
func TestStrangersEditBetweenCrashAndRecovery(t *testing.T) {
	for _, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncJournal} {
		x := conflictDraft.shape()
		x.opts.Sync = level
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			conflicts := map[string]int{}
			for n := 0; ; n += min(txStep(), 12) { // the commit point is never far from one
				fs, _, over := x.broken(t, n)
				for loss, name := range map[simfs.Loss]string{simfs.None: "none", simfs.All: "all", simfs.Some: "some"} {
					if !x.goesForward(t, fs.Crash(uint64(n), loss)) {
						continue
					}
					for p := range x.future {
						for act, change := range strangerActs {
							disk := fs.Crash(uint64(n), loss)
							was := files(disk)
							change(disk, p)
							conflicts[p] += x.judgeStranger(t, disk, was, p)
							require(t, !t.Failed(), "dead at operation %d, lost %s, a stranger %s %s", n, name, act, p)
						}
					}
				}
				if over {
					break
				}
			}
			t.Logf("conflicts: %v", conflicts)
			for p := range x.future {
				expect(t, conflicts[p] != 0, "%s never came into conflict", p)
			}
		})
	}
}

// goesForward reports whether recovery finishes the transaction on a disk.
func (x txShape) goesForward(t *testing.T, disk *simfs.FS) bool {
	t.Helper()
	s := x.open(t, disk, "0002")
	defer s.Close(background)
	return maps.Equal(files(disk), x.new)
}

// fileNow is a file as it is, was or should be.
type fileNow struct {
	content string
	there   bool
}

func at(files map[string]string, path string) fileNow {
	content, there := files[path]
	return fileNow{content, there}
}

// judgeStranger opens a disk on which another program has changed path; was is the
// content before. It returns how often our version was not published.
func (x txShape) judgeStranger(t *testing.T, disk *simfs.FS, was map[string]string, path string) int {
	t.Helper()
	theirs, mine := at(files(disk), path), at(x.new, path)
	published := at(was, path) == mine
	want, conflict := x.behindStranger(published, theirs, path)

	s := x.open(t, disk, "0002")
	r, got := s.Recovery(), files(disk)
	if x.appended(path) && at(got, path).content == mine.content+strangersText {
		want, conflict = at(got, path), never // the foreign content follows ours, which was torn
	}
	if published && theirs == at(x.old, path) && at(got, path) == theirs {
		want, conflict = theirs, may // the trace was lost, and so is the removed content
	}
	equal(t, at(got, path), want, "published ", published, ": found")
	pair := x.movedWith(path)
	for p := range x.future {
		expect(t, p == path || p == pair || at(got, p) == at(x.new, p), "%s was not rolled forward", p)
	}
	now := at(got, pair)
	expect(t, pair == "" || now == at(x.new, pair) || now == at(was, pair) || now == theirs, "%s, which is moved with it, holds %.40v", pair, now)
	n := 0
	for _, c := range r.Conflicts {
		if c.Path == path && published && c.Reason == "staged_bytes_lost" {
			conflict = may // its trace was taken away already, those of others were not
			continue
		}
		expect(t, (c.Path == path || c.Path == pair) && c.Reason == "changed_by_somebody_else" && c.Seq != 0, "conflict %+v", c)
		if c.Path == path {
			n++
			x.keepsOurs(t, s, disk, path)
		}
	}
	expect(t, (conflict != always || n == 1) && (conflict != never || n == 0) && len(r.Aborted) == 0,
		"published %v, a conflict %s: %+v", published, conflict, r)
	c := must(s.Check(background, admin.CheckRequest{Deep: true}))(t)
	for _, p := range c.Problems {
		// An edit of a file that was already in place is reported by the deep check.
		expect(t, p.Code == "file_differs" && (p.Path == path || p.Path == pair) && (n == 0 || p.Path != path), "check: %+v", p)
	}
	noErr(t, s.Close(background))
	if t.Failed() {
		t.Logf("found %s\n was %s\n new %s\n recovery %+v", brief(got), brief(was), brief(x.new), r)
	}
	return n
}

// How certain it is that a conflict is reported.
const (
	never  = "never"
	may    = "may be"
	always = "always"
)

// behindStranger returns the content that path must have after the store was opened,
// and whether a conflict is reported.
func (x txShape) behindStranger(published bool, theirs fileNow, path string) (fileNow, string) {
	old, mine := at(x.old, path), at(x.new, path)
	switch {
	case theirs == mine, theirs == old: // the second as without a foreign change
		return mine, never
	case x.appended(path):
		// An append leaves no trace: only the bytes show it.
		if strings.HasPrefix(theirs.content, mine.content) {
			return theirs, never
		}
		if published {
			return theirs, may
		}
		return theirs, always
	case !published:
		return theirs, always
	case !old.there, !mine.there:
		// A name that was set and then removed by another program cannot be
		// distinguished from one that was never set.
		return theirs, may
	}
	return theirs, never
}

func (x txShape) appended(path string) bool {
	old, mine := at(x.old, path), at(x.new, path)
	return old.there && mine.there && strings.HasPrefix(mine.content, old.content)
}

// movedWith is the other name of a file that is moved.
func (x txShape) movedWith(path string) string {
	for _, op := range x.ops {
		switch path {
		case op.Path:
			return op.To
		case op.To:
			return op.Path
		}
	}
	return ""
}

// keepsOurs looks for our version of a file that another program changed, and for its
// row.
func (x txShape) keepsOurs(t *testing.T, s *rw.Store, disk *simfs.FS, path string) {
	t.Helper()
	if ours := at(x.new, path); ours.there {
		if old := at(x.old, path); old.there {
			ours.content = strings.TrimPrefix(ours.content, old.content) // of an append, the bytes to be added
		}
		kept, _ := disk.ReadFile(rw.StateDirName + "/history/" + hash(ours.content)[:2] + "/" + hash(ours.content))
		expect(t, string(kept) == ours.content, "our version of %s is not in history", path)
	}
	tail := must(s.JournalTail(background, rw.JournalTailRequest{FilterPath: path}))(t)
	last := tail.Entries[len(tail.Entries)-1]
	expect(t, last.Kind == "conflict" && last.Path == path, "the newest row of %s is %+v", path, last)
}

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
	t.Parallel()
	dir := ramspace(t)
	before, ops := manyFiles(manyOps, "new")
	s := quickAt(t, dir, nil)
	noErr(t, transact(s, before...))
	noErr(t, s.Close(background))
	old := tree(t, dir)
	spawn(t, "die-halfway", dir, "x", rw.SyncJournal).died(t)
	isNew := func() (n int) {
		for _, op := range ops {
			if data, _ := os.ReadFile(filepath.Join(dir, op.Path)); string(data) == string(op.Content) {
				n++
			}
		}
		return n
	}
	equal(t, isNew(), manyOps/2, "files were in place when the process died")
	s = quickAt(t, dir, nil)
	n := isNew()
	expect(t, n == manyOps && len(s.Recovery().Finished) == manyOps/2, "%d files are new, %d were finished", n, len(s.Recovery().Finished))
	check(t, s, true)
	must(s.Undo(background, rw.UndoRequest{Call: rw.Call{Caller: "childx"}}))(t)
	equal(t, tree(t, dir), old, "undone to from")
	check(t, s, true)
}

// staged stages operations and returns the transaction.
func staged(t *testing.T, s *rw.Store, ops []rw.TxOp) string {
	t.Helper()
	b := must(s.TxBegin(background, rw.TxBeginRequest{}))(t)
	for i, op := range ops {
		st := must(s.TxStage(background, rw.TxStageRequest{TxID: b.TxID, Op: op}))(t)
		mustEqual(t, st.Index, i+1, "operation has index")
	}
	return b.TxID
}

// TestStagedTransactionAtItsLimit: 500 operations are committed together and undone
// together; one more is refused when it is staged, and the operations staged before are
// kept.
func TestStagedTransactionAtItsLimit(t *testing.T) {
	s, dir := quick(t, nil)
	before, ops := manyFiles(stagedOps, strings.Repeat("text ", 200))
	deny(t, s, dir, "too many for one call", rw.ErrInvalidArgument, calling(s.Tx, rw.TxRequest{Ops: ops[:manyOps+1]}))
	noErr(t, transact(s, before...))
	old := tree(t, dir)
	began := time.Now()
	id := staged(t, s, ops)
	staging := time.Since(began)
	deny(t, s, dir, "one more", rw.ErrTooLarge, calling(s.TxStage, rw.TxStageRequest{TxID: id, Op: txDelete("d0/file000.txt")}))
	mustEqual(t, tree(t, dir), old, "what is staged is to be seen")
	var m0, m1 runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m0)
	began = time.Now()
	res := must(s.TxCommit(background, rw.TxCommitRequest{TxID: id}))(t)
	committing := time.Since(began)
	runtime.ReadMemStats(&m1)
	t.Logf("%d operations of 1 KB: staged in %v, committed in %v, %d KiB allocated, heap %d KiB", stagedOps, staging.Round(time.Millisecond),
		committing.Round(time.Millisecond), (m1.TotalAlloc-m0.TotalAlloc)>>10, m1.HeapAlloc>>10)
	equal(t, len(res.Results), stagedOps, "results")
	for _, op := range ops {
		fileIs(t, dir, op.Path, string(op.Content))
	}
	length(t, must(os.ReadDir(filepath.Join(dir, rw.StateDirName, "tx")))(t), 0, "left over")
	check(t, s, true)
	undone(t, s, 1)
	equal(t, tree(t, dir), old, "not undone")
	check(t, s, true)
}

// TestStagedTransactionThatNoRowHolds: the names are so long that the row of the commit
// would be too large. It is refused as a whole and leaves neither files nor
// directories; the staged operations stay, and can be dropped.
func TestStagedTransactionThatNoRowHolds(t *testing.T) {
	t.Parallel()
	s, dir := quick(t, nil)
	deep := strings.Repeat(strings.Repeat("n", 100)+"/", 8)
	var ops []rw.TxOp
	for i := range 400 {
		ops = append(ops, txWrite(fmt.Sprintf("%s%d", deep, i), "x", ""))
	}
	id := staged(t, s, ops)
	e := deny(t, s, dir, "too many long names", rw.ErrTooLarge, calling(s.TxCommit, rw.TxCommitRequest{TxID: id}))
	expect(t, e != nil && e.Hint != "", "no hint: %v", e)
	length(t, must(os.ReadDir(dir))(t), 1, "left")
	d := must(s.Describe(background, rw.DescribeRequest{}))(t)
	equal(t, len(d.Transactions), 1, "staged")
	rb := must(s.TxRollback(background, rw.TxRollbackRequest{TxID: id}))(t)
	equal(t, rb.Dropped, len(ops), "dropped")
	fails(s.TxCommit(background, rw.TxCommitRequest{TxID: id}))(t, rw.ErrTxNotFound, "committed after the rollback")
	write(t, s, "a.txt", "the store goes on", rw.ModeCreate)
	check(t, s, true)
}

// The six paths over which the processes cross: four lists that grow, and two
// places between which a file is moved to and fro.
var (
	crossLists  = []string{"list0.txt", "d/list1.txt", "d/list2.txt", "list3.txt"}
	crossPlaces = []string{"here/ball.txt", "there/ball.txt"}
)

const (
	crossProcesses    = 4
	crossTransactions = 25
)

// crossTogether waits until every process has reached the same round as this one.
// Otherwise a process that is delayed for long would find that the others have ended.
func crossTogether(arg string, i int) error {
	mark := func(process string) string {
		return filepath.Join(filepath.Dir(os.Getenv("RW_DIR")), fmt.Sprintf("at-%s-%d", process, i))
	}
	if err := os.WriteFile(mark(arg), nil, 0o600); err != nil {
		return err
	}
	for p := range crossProcesses {
		for end := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
			if _, err := os.Stat(mark(fmt.Sprint(p))); err == nil {
				break
			}
			if time.Now().After(end) {
				return fmt.Errorf("process %d never began transaction %d", p, i)
			}
		}
	}
	return nil
}

// cross makes transactions that add one line to several lists, named in any order, and
// move the ball from its place to the other one. A process that looks in the wrong
// place is refused, and then nothing of the transaction happened.
func cross(s *rw.Store, arg string) error {
	n, _ := strconv.Atoi(arg)
	rng := rand.New(rand.NewPCG(uint64(n), 41))
	for i := range crossTransactions {
		if i%5 == 0 {
			if err := crossTogether(arg, i); err != nil {
				return err
			}
		}
		line := fmt.Sprintf("%s.%d\n", arg, i)
		var ops []rw.TxOp
		for _, k := range rng.Perm(len(crossLists))[:2+rng.IntN(2)] {
			ops = append(ops, txWrite(crossLists[k], line, rw.ModeAppend))
		}
		ball := rng.IntN(len(ops) + 1)
		ops = slices.Insert(ops, ball, rw.TxOp{})
		for from := rng.IntN(2); ; from = 1 - from {
			ops[ball] = txMove(crossPlaces[from], crossPlaces[1-from], false)
			// Another session for each try: looking again is no stubbornness.
			_, err := s.Tx(background, rw.TxRequest{Ops: ops, Call: rw.Call{Session: fmt.Sprint(rng.Uint64())}})
			if err == nil {
				break
			}
			if !errors.Is(err, rw.ErrNotFound) && !errors.Is(err, rw.ErrFileAlreadyExists) {
				return fmt.Errorf("%s: %w (%v)", line, err, errors.Unwrap(err))
			}
		}
	}
	return nil
}

// TestProcessesCrossingTransactions: four processes make transactions over the same
// files in every order. None waits for ever, each happens once and as a whole, and all
// lists show the same order of them, which is that of the journal.
func TestProcessesCrossingTransactions(t *testing.T) {
	t.Parallel()
	s, dir := opened(t, nil)
	write(t, s, crossPlaces[0], "ball", rw.ModeCreate)
	var children []*process
	for i := range crossProcesses {
		children = append(children, spawn(t, "cross", dir, fmt.Sprint(i), []rw.SyncLevel{rw.SyncFull, rw.SyncJournal}[i%2]))
	}
	for i, p := range children {
		err := p.Wait()
		expect(t, err == nil, "child %d: %v", i, err)
	}
	// The rows of the journal record which lists each transaction extended, and when.
	expected := map[string][]string{}
	balls, switches, last, transactions := 0, 0, "", map[uint64]bool{}
	tail := must(s.JournalTail(background, rw.JournalTailRequest{N: 1000}))(t)
	for _, e := range tail.Entries {
		if e.Tx == "" {
			continue
		}
		transactions[e.Seq] = true
		if e.Caller != last {
			switches, last = switches+1, e.Caller
		}
		if slices.Contains(crossPlaces, e.Path) {
			balls++
		} else {
			expected[e.Path] = append(expected[e.Path], strings.TrimPrefix(e.Caller, "child"))
		}
	}
	expect(t, len(transactions) == crossProcesses*crossTransactions && balls == 2*len(transactions),
		"%d transactions, %d moves", len(transactions), balls)
	t.Logf("%d times another process than before had its turn", switches)
	expect(t, switches > crossProcesses, "they did not cross")
	order := linesInOneOrder(t, dir)
	equal(t, len(order), len(transactions), "transactions are to be seen in the lists, of")
	for _, list := range crossLists {
		var callers []string
		for _, line := range listLines(t, dir, list) {
			id, _, _ := strings.Cut(line, ".")
			callers = append(callers, id)
		}
		expect(t, slices.Equal(callers, expected[list]), "%s was written by %v, the journal says %v", list, callers, expected[list])
	}
	gone(t, dir, crossPlaces[1]) // an even number of moves
	fileIs(t, dir, crossPlaces[0], "ball")
	check(t, s, true)
}

func listLines(t *testing.T, dir, list string) []string {
	t.Helper()
	data := must(os.ReadFile(filepath.Join(dir, list)))(t)
	return strings.Fields(string(data))
}

// linesInOneOrder fails when a line is twice in a list, or two lines are in one
// order here and in another there. It returns how many lists have each.
func linesInOneOrder(t *testing.T, dir string) map[string]int {
	t.Helper()
	before := map[[2]string]bool{}
	count := map[string]int{}
	for _, list := range crossLists {
		lines := listLines(t, dir, list)
		for i, a := range lines {
			count[a]++
			for _, b := range lines[i+1:] {
				expect(t, a != b, "%s is twice in %s", a, list)
				require(t, !before[[2]string{b, a}], "%s is before %s in %s, and after it elsewhere", a, b, list)
				before[[2]string{a, b}] = true
			}
		}
	}
	for line, n := range count {
		expect(t, n >= 2, "%s is in %d lists: half a transaction", line, n)
	}
	return count
}

// holdHalfway stops between two files of a transaction, holding the locks of all of
// them, until it is killed.
func holdHalfway(s *rw.Store, _ string) error {
	files := 0
	failpoint.Arm(func(point string) {
		if point != "publish.next" {
			return
		}
		if files++; files == 2 {
			fmt.Println("halfway")
			time.Sleep(time.Hour)
		}
	})
	return transact(s, txWrite("a.txt", "new a", rw.ModeOverwrite), txWrite("b.txt", "new b", rw.ModeOverwrite),
		txWrite("c.txt", "new c", rw.ModeOverwrite), txMove("d.txt", "e/d.txt", false))
}

// TestProcessesWaitForATransactionAndFinishItForTheDead: a process that needs one of
// its files gets the process that holds it. When that process is killed, the next call
// first completes the whole transaction, and then does its own work.
func TestProcessesWaitForATransactionAndFinishItForTheDead(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	s := quickAt(t, dir, &rw.Options{LockTimeout: 100 * time.Millisecond})
	noErr(t, transact(s, txWrite("a.txt", "old a", ""), txWrite("b.txt", "old b", ""), txWrite("c.txt", "old c", ""), txWrite("d.txt", "d", "")))
	p := spawn(t, "hold-halfway", dir, "h", rw.SyncFull)
	p.printed(t, 1)
	fileIs(t, dir, "b.txt", "new b") // it is halfway
	fileIs(t, dir, "c.txt", "old c")
	mine := []rw.TxOp{txWrite("own.txt", "mine", ""), txWrite("e/d.txt", " and mine", rw.ModeAppend), txDelete("c.txt")}
	before := snapshot(t, dir)
	err := transact(s, mine...)
	e := rw.AsError("", err)
	require(t, errors.Is(err, rw.ErrLockTimeout) && e.Effect == rw.EffectNone && snapshot(t, dir) == before,
		"%v (%v), effect %s", err, errors.Unwrap(err), e.Effect)
	conformsEnvelope(t, e)
	holder, _ := e.Context["holder"].(map[string]any)
	expect(t, strings.Contains(e.Hint, strconv.Itoa(p.Process.Pid)) && holder["pid"] == p.Process.Pid && holder["op"] == "tx",
		"the holder is not named: %s %v", e.Hint, holder)
	noErr(t, transact(s, txWrite("other.txt", "free", ""))) // no other path has to wait
	p.kill()
	fileIs(t, dir, "c.txt", "old c")
	noErr(t, transact(s, mine...))
	fileIs(t, dir, "a.txt", "new a")
	fileIs(t, dir, "b.txt", "new b")
	fileIs(t, dir, "e/d.txt", "d and mine")
	gone(t, dir, "c.txt")
	gone(t, dir, "d.txt")
	got := versionsOf(t, s, "c.txt")
	expect(t, len(got) == 3 && got[1].SHA256.String() == hash("new c") && got[1].Available, "versions of c.txt: %+v", got)
	check(t, s, true)
	s.Close(background)
	s = quickAt(t, dir, nil)
	r := s.Recovery()
	expect(t, len(r.Finished)+len(r.Aborted)+len(r.Conflicts) == 0, "something was left: %+v", r)
}

// txDraft is a transaction, and how the files came about that it finds.
type txDraft struct {
	name      string
	strangers map[string]string // files that the journal does not know
	made      []rw.TxOp         // acknowledged before, each by itself
	ops       []rw.TxOp
	staged    bool  // built in several calls
	plain     bool  // the file system cannot swap two names
	segment   int64 // bytes of a journal segment
}

// txShape is a draft with its result according to a model in plain memory.
type txShape struct {
	scenario
	ops    []rw.TxOp
	plain  bool
	start  int                 // the first operation at which a sweep breaks off
	dirs   map[string]bool     // directories before
	past   map[string][]string // the history of each path before, as rw_history reports it
	future map[string][]string // and after
}

func txWrite(path, content string, mode rw.WriteMode) rw.TxOp {
	return rw.TxOp{Op: "write", Path: path, Content: []byte(content), Mode: mode, AllowShrink: true}
}

func txEdit(path, new string) rw.TxOp {
	return rw.TxOp{Op: "edit", Path: path, Edits: []rw.EditOp{{Old: "mark", New: new, Count: -1}}, AllowShrink: true}
}

func txDelete(path string) rw.TxOp { return rw.TxOp{Op: "delete", Path: path} }

func txMove(path, to string, over bool) rw.TxOp {
	return rw.TxOp{Op: "move", Path: path, To: to, Overwrite: over}
}

// txCaller makes the transaction; no other caller has this name, so that an undo finds
// it among any other writes.
const txCaller = "transaction"

// shape computes the expected result of the transaction.
func (d txDraft) shape() txShape {
	x := txShape{ops: d.ops, plain: d.plain, dirs: map[string]bool{}}
	x.name, x.sim.Segment = d.name, d.segment
	x.disk = func(fs *simfs.FS) {
		fs.NoExchange = d.plain
		for p, content := range d.strangers {
			fs.WriteFile(p, []byte(content), 0o644)
		}
	}
	x.before = func(s *rw.Store) error {
		for _, op := range d.made {
			if err := transact(s, op); err != nil {
				return err
			}
		}
		return nil
	}
	x.run = func(s *rw.Store) error { // the key makes a repeated call harmless
		return errorOf(s.Tx(background, rw.TxRequest{Ops: d.ops, Call: rw.Call{Caller: txCaller, IdempotencyKey: "once"}}))
	}
	if d.staged {
		x.before, x.run = d.stage(x.before), commitStaged
	}
	w := txWorld{files: map[string]string{}, made: map[string][]txVersion{}}
	maps.Copy(w.files, d.strangers)
	maps.Copy(x.dirs, parents(w.files))
	for _, op := range d.made {
		w.commit(op)
		maps.Copy(x.dirs, parents(w.files))
	}
	x.old, x.past = maps.Clone(w.files), w.pasts(d.ops)
	w.commit(d.ops...)
	x.new, x.future = w.files, w.pasts(d.ops)
	return x
}

// stage builds the transaction after the previous calls.
func (d txDraft) stage(before func(*rw.Store) error) func(*rw.Store) error {
	return func(s *rw.Store) error {
		if err := before(s); err != nil {
			return err
		}
		b, err := s.TxBegin(background, rw.TxBeginRequest{})
		for _, op := range d.ops {
			if err == nil {
				_, err = s.TxStage(background, rw.TxStageRequest{TxID: b.TxID, Op: op})
			}
		}
		return err
	}
}

// commitStaged commits the transaction that was staged, by the name that the
// journal has of it: it answers as before when it has happened already.
func commitStaged(s *rw.Store) error {
	tail, err := s.JournalTail(background, rw.JournalTailRequest{N: 1000})
	if err != nil {
		return err
	}
	for _, e := range tail.Entries {
		if e.Op == "tx_begin" {
			return errorOf(s.TxCommit(background, rw.TxCommitRequest{TxID: e.Tx, Call: rw.Call{Caller: txCaller}}))
		}
	}
	return errors.New("nothing was staged")
}

// txWorld is the files of a workspace and what every commit made of them.
type txWorld struct {
	files map[string]string
	made  map[string][]txVersion // by path, newest first
	n     int                    // commits so far
}

// txVersion is the result of a commit for a path: the hash of the file, "" for gone,
// and its origin if it was moved.
type txVersion struct {
	n               int
	path, sha, from string
}

// commit makes operations together.
func (w *txWorld) commit(ops ...rw.TxOp) {
	w.n++
	from := map[string]string{}
	for _, op := range ops {
		from[op.Path] = ""
		switch op.Op {
		case "write":
			mode := op.Mode
			if mode == "" {
				mode = rw.ModeCreate
			}
			writes(w.files, op.Path, string(op.Content), mode)
		case "edit":
			for _, e := range op.Edits {
				w.files[op.Path] = strings.ReplaceAll(w.files[op.Path], e.Old, e.New)
			}
		case "delete":
			delete(w.files, op.Path)
		case "move":
			w.files[op.To], from[op.To] = w.files[op.Path], op.Path
			delete(w.files, op.Path)
		}
	}
	for p, f := range from {
		v := txVersion{n: w.n, path: p, from: f}
		if content, there := w.files[p]; there {
			v.sha = hash(content)
		}
		w.made[p] = append([]txVersion{v}, w.made[p]...)
	}
}

// pasts are the hashes of the versions of every path that operations name.
func (w *txWorld) pasts(ops []rw.TxOp) map[string][]string {
	all := map[string][]string{}
	for _, op := range ops {
		for _, p := range []string{op.Path, op.To} {
			if p != "" {
				all[p] = w.past(p)
			}
		}
	}
	return all
}

// past returns the hashes of the versions of a path, newest first: of all files that
// were at the path, and for files moved there also those under their earlier names. A
// move to another name is reported at the path itself only if the file did not come
// back from there.
func (w *txWorld) past(path string) (hashes []string) {
	var all []txVersion
	has := func(n int, p string) bool {
		return slices.ContainsFunc(all, func(v txVersion) bool { return v.n == n && v.path == p })
	}
	var follow func(p string, before int)
	follow = func(p string, before int) { // the history of the file that was at p then
		for _, v := range w.made[p] {
			if v.n >= before {
				continue
			}
			if has(v.n, p) || v.sha == "" && p != path && w.went(v) != "" {
				return
			}
			all = append(all, v)
			if v.from != "" {
				follow(v.from, v.n)
				if p != path {
					return
				}
			}
		}
	}
	follow(path, w.n+1)
	all = slices.DeleteFunc(all, func(v txVersion) bool { return v.sha == "" && w.went(v) != "" && has(v.n, w.went(v)) })
	slices.SortStableFunc(all, func(a, b txVersion) int {
		switch {
		case a.n != b.n:
			return b.n - a.n
		case a.path == path:
			return -1
		case b.path == path:
			return 1
		}
		return strings.Compare(a.path, b.path)
	})
	for _, v := range all {
		hashes = append(hashes, v.sha)
	}
	return hashes
}

// went is where a commit moved the file that it took away, "" if it did not.
func (w *txWorld) went(gone txVersion) string {
	for p, list := range w.made {
		for _, v := range list {
			if v.n == gone.n && v.from == gone.path {
				return p
			}
		}
	}
	return ""
}

// parents are the directories that some files need.
func parents(files map[string]string) map[string]bool {
	dirs := map[string]bool{}
	for p := range files {
		for d := path.Dir(p); d != "."; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	return dirs
}

// txDrafts are the transactions that every run breaks off.
func txDrafts() []txDraft {
	made := func(paths ...string) (list []rw.TxOp) {
		for i, p := range paths {
			list = append(list, txWrite(p, fmt.Sprintf("%s of %s\nmark\n", longText[:300+400*(i%3)], p), ""))
		}
		return list
	}
	replace, add := rw.ModeOverwrite, rw.ModeAppend
	return []txDraft{
		{name: "create", ops: []rw.TxOp{txWrite("n/e/w.txt", longText, "")}},
		{name: "mixed", made: made("a.txt", "d/b.txt", "d/c.txt", "d/d.txt"), ops: []rw.TxOp{
			txWrite("n/new.txt", longText, ""), txWrite("a.txt", otherText, replace), txWrite("d/b.txt", otherText, add),
			txEdit("d/c.txt", "landmark"), txDelete("d/d.txt"),
		}},
		{name: "moves", made: made("a.txt", "b.txt", "d/c.txt", "d/d.txt"), ops: []rw.TxOp{
			txMove("a.txt", "n/m/a.txt", false), txMove("d/c.txt", "b.txt", true), txMove("d/d.txt", "d/e.txt", true),
		}},
		{name: "two_on_one", made: made("a.txt", "b.txt", "c.txt"), ops: []rw.TxOp{
			txWrite("n.txt", "new mark\n", ""), txWrite("a.txt", "one", add), txDelete("b.txt"), txEdit("c.txt", "x"),
			txEdit("n.txt", "landmark"), txWrite("a.txt", "two", add), txWrite("b.txt", "again\n", ""), txDelete("c.txt"),
		}},
		{name: "strangers", strangers: map[string]string{"a": longText, "d/b": otherText + "mark", "d/c": "", "d/e": longText, "f": otherText},
			made: made("g"), ops: []rw.TxOp{
				txWrite("a", otherText, replace), txEdit("d/b", "landmark"), txWrite("d/c", "more", add),
				txMove("d/e", "n/e", false), txMove("f", "g", true),
			}},
		{name: "directories", made: made("d/a.txt"), ops: []rw.TxOp{
			txWrite("n/x/1.txt", "1", ""), txWrite("n/x/2.txt", "2", ""), txWrite("n/y/z/3.txt", longText, add),
			txMove("d/a.txt", "n/y/a.txt", false), txWrite("d/e/f/4.txt", "", ""), txWrite("o.txt", "5", ""),
		}},
		{name: "unchanged", strangers: map[string]string{"s.txt": "same"}, made: append(made("a.txt", "b.txt"), txWrite("t.txt", "same", "")), ops: []rw.TxOp{
			txWrite("a.txt", fmt.Sprintf("%s of %s\nmark\n", longText[:300], "a.txt"), replace), txMove("t.txt", "s.txt", true), txWrite("b.txt", "other", replace),
		}},
		{name: "empty", made: []rw.TxOp{txWrite("a", "", ""), txWrite("b", "", ""), txWrite("c", "c", ""), txWrite("d", "", "")}, ops: []rw.TxOp{
			txDelete("a"), txMove("b", "m", false), txWrite("c", "", replace), txWrite("n/e", "", ""), txMove("d", "o/d", true),
		}},
		{name: "beginning", // the version before each of them begins like it
			made: []rw.TxOp{
				txWrite("a", longText, ""), txWrite("b", longText+otherText, ""), txWrite("c", longText, ""),
				txWrite("a", "", replace), txWrite("b", longText, replace), txWrite("c", longText[:600], replace),
			},
			ops: []rw.TxOp{txDelete("a"), txWrite("b", "more", add), txWrite("c", otherText, replace)}},
		{name: "staged", staged: true, made: made("a.txt", "b.txt", "d/c.txt", "d/d.txt"), ops: []rw.TxOp{
			txWrite("a.txt", otherText, replace), txWrite("a.txt", "more", add), txDelete("b.txt"), txMove("d/c.txt", "n/c.txt", false),
			txEdit("d/d.txt", "landmark"), txWrite("n/e.txt", "", ""),
		}},
		{name: "no_exchange", plain: true, made: made("a.txt", "b.txt", "c.txt", "d.txt"), ops: []rw.TxOp{
			txWrite("a.txt", otherText, replace), txMove("b.txt", "c.txt", true), txDelete("d.txt"), txWrite("n/e.txt", "e", ""),
		}},
		{name: "eight", segment: 900, made: append(made("a", "b", "d/c", "d/e", "f"), txWrite("b", otherText, replace)), ops: []rw.TxOp{
			txWrite("n/1", longText, ""), txWrite("a", "short", replace), txWrite("b", longText, add), txEdit("d/c", longText),
			txDelete("d/e"), txMove("f", "n/2", false), txWrite("g", otherText, add),
		}},
	}
}

// txSize is about how many files a random transaction changes.
const txSize = 8

// randomTx makes a transaction of one to eight files from a seed.
func randomTx(seed uint64) txDraft {
	g := &txMaker{rng: rand.New(rand.NewPCG(seed, 0x7a)), draft: txDraft{name: fmt.Sprintf("seed_%d", seed), strangers: map[string]string{}}}
	g.draft.plain, g.draft.staged = g.rng.IntN(8) == 0, g.rng.IntN(5) == 0
	if g.rng.IntN(4) == 0 {
		g.draft.segment = 700
	}
	want := 1 + g.rng.IntN(txSize)
	for g.files < want {
		g.add(want - g.files)
	}
	g.rng.Shuffle(len(g.groups), func(i, j int) { g.groups[i], g.groups[j] = g.groups[j], g.groups[i] })
	// The operations of one file stay in order, those of several mix.
	for len(g.groups) > 0 {
		i := g.rng.IntN(len(g.groups))
		g.draft.ops = append(g.draft.ops, g.groups[i][0])
		if g.groups[i] = g.groups[i][1:]; len(g.groups[i]) == 0 {
			g.groups = append(g.groups[:i], g.groups[i+1:]...)
		}
	}
	return g.draft
}

// txMaker draws a transaction.
type txMaker struct {
	rng    *rand.Rand
	draft  txDraft
	groups [][]rw.TxOp // by file
	files  int
	names  int
}

// name is a path that nothing is at, now and then below directories that are
// not there.
func (g *txMaker) name() string {
	g.names++
	dir := []string{"", "d/", "d/e/", "n/", "n/m/", fmt.Sprintf("o%d/p/", g.names)}[g.rng.IntN(6)]
	return fmt.Sprintf("%sf%d.txt", dir, g.names)
}

// text has a mark that an edit finds, and any length from none to some sectors.
func (g *txMaker) text() string {
	if g.rng.IntN(8) == 0 {
		return ""
	}
	return fmt.Sprintf("text %d mark\n%s", g.rng.Uint32(), longText[:g.rng.IntN(len(longText))])
}

// file is one that is there: a stranger's, or one with a past of any kind.
func (g *txMaker) file(content string) string {
	p := g.name()
	made := func(ops ...rw.TxOp) { g.draft.made = append(g.draft.made, ops...) }
	switch g.rng.IntN(8) {
	case 0, 1:
		g.draft.strangers[p] = content
	case 2:
		made(txWrite(p, g.text()+"first", ""), txWrite(p, content, rw.ModeOverwrite))
	case 3:
		made(txWrite(p, "start"+g.text(), ""), txWrite(p, g.text()+"+", rw.ModeAppend), txWrite(p, content, rw.ModeOverwrite))
	case 4:
		from := g.name()
		made(txWrite(from, content, ""), txMove(from, p, false))
	case 5:
		made(txWrite(p, "deleted", ""), txDelete(p), txWrite(p, content, ""))
	case 6: // recovery must not take the one for the other
		made(txWrite(p, content+"and what the new version leaves out", ""), txWrite(p, content, rw.ModeOverwrite))
	default:
		made(txWrite(p, content, ""))
	}
	return p
}

// free is a path where nothing is, or nothing any more.
func (g *txMaker) free() string {
	p := g.name()
	if g.rng.IntN(3) == 0 {
		g.draft.made = append(g.draft.made, txWrite(p, g.text()+"deleted", ""), txDelete(p))
	}
	return p
}

func (g *txMaker) group(files int, ops ...rw.TxOp) {
	g.groups = append(g.groups, ops)
	g.files += files
}

// add draws the operations of one file, or of two where one is moved.
func (g *txMaker) add(room int) {
	kinds := 11
	if room < 2 {
		kinds = 9
	}
	mark := g.text() + "mark\n"
	switch g.rng.IntN(kinds) {
	case 0:
		g.group(1, txWrite(g.free(), g.text(), rw.ModeCreate))
	case 1:
		g.group(1, txWrite(g.file(g.text()), g.text()+"new", rw.ModeOverwrite))
	case 2:
		g.group(1, txWrite(g.file(g.text()), g.text()+"more", rw.ModeAppend))
	case 3:
		g.group(1, txWrite(g.free(), g.text(), rw.ModeAppend))
	case 4:
		g.group(1, txEdit(g.file(mark), "landmark"))
	case 5:
		g.group(1, txDelete(g.file(g.text())))
	case 6:
		p := g.file(mark)
		g.group(1, txEdit(p, "landmark"), txWrite(p, g.text(), rw.ModeAppend))
	case 7:
		p := g.file(mark)
		g.group(1, txDelete(p), txWrite(p, g.text()+"again", rw.ModeCreate))
	case 8:
		p := g.free()
		g.group(1, txWrite(p, mark, rw.ModeCreate), txEdit(p, "landmark"), txWrite(p, "end", rw.ModeAppend))
	case 9:
		g.group(2, txMove(g.file(g.text()), g.free(), false))
	case 10:
		g.group(2, txMove(g.file(g.text()), g.file(g.text()), true))
	}
}

// txShapes are the drafts of the table, and as many random ones.
func txShapes(t *testing.T, random int) []txShape {
	t.Helper()
	var list []txShape
	for _, d := range txDrafts() {
		list = append(list, d.shape())
	}
	seed := testbed.Seed(t)
	for i := range random {
		list = append(list, randomTx(seed+uint64(i)).shape())
	}
	for i := range list {
		list[i].start = i + int(seed%100)
	}
	return list
}

// pastOf returns the hashes of a path's versions, newest first. Their bytes are
// available, with one exception: at level journal the bytes of an append are flushed in
// staging/ only. If the file is replaced before that is settled, a power failure may
// tear the version that is no longer visible, and the one that it was appended to.
func (x txShape) pastOf(t *testing.T, s *rw.Store, path string) []string {
	t.Helper()
	h, err := s.History(background, rw.HistoryRequest{Path: path, N: 1000})
	if errors.Is(err, rw.ErrNotFound) {
		return nil
	}
	noErr(t, err)
	var list []string
	torn := false
	for i, v := range h.Versions {
		list = append(list, v.SHA256.String())
		torn = torn || x.opts.Sync == rw.SyncJournal && v.Op == "append" && i > 0
		if !v.Available && !torn && v.Bytes > 0 { // an empty one is not kept when recovery deletes the file
			t.Errorf("version %d of %s is not available", v.Version, path)
		}
	}
	return list
}

// txStep is how far apart the operations are at which a sweep breaks off. Which
// ones they are the seed decides, so that all of them have their turn.
func txStep() int { return stride(max(1, 32/scale(40))) }

// levels are those at which a shape is swept: all of them, or one where time is
// short.
func (x txShape) levels() []rw.SyncLevel {
	if txStep() < 4 {
		return []rw.SyncLevel{rw.SyncFull, rw.SyncJournal, rw.SyncOff}
	}
	return [][]rw.SyncLevel{{rw.SyncFull}, {rw.SyncJournal}, {rw.SyncFull}, {rw.SyncOff}}[x.start%4]
}

// sweepTx runs a sweep of every shape in parallel.
func sweepTx(t *testing.T, random int, sweep func(*testing.T, txShape)) {
	for _, x := range txShapes(t, random) {
		for _, level := range x.levels() {
			x := x
			x.opts.Sync = level
			t.Run(x.name+"/"+string(level), func(t *testing.T) {
				t.Parallel()
				sweep(t, x)
			})
		}
	}
}

// TestCrashSweepTx kills the process at the operations of transactions of every kind,
// with and without a power failure: the whole transaction or nothing exists, and after
// an acknowledged one all of it.
func TestCrashSweepTx(t *testing.T) {
	t.Parallel()
	sweepTx(t, scale(30), func(t *testing.T, x txShape) {
		for n := x.start % txStep(); ; n += txStep() {
			fs, want, over := x.broken(t, n)
			if t.Run(fmt.Sprintf("op%d", n), func(t *testing.T) { x.allOrNothing(t, fs, n, want) }); t.Failed() || over {
				return
			}
		}
	})
}

// TestCrashSweepTxOff: the level off promises nothing about the bytes after a power
// cut, but the store opens and works.
func TestCrashSweepTxOff(t *testing.T) {
	for _, x := range txShapes(t, scale(30)) {
		x.opts.Sync = rw.SyncOff
		for n := x.start % txStep(); ; n += txStep() {
			fs, _, over := x.broken(t, n)
			for seed := range uint64(scale(40)) {
				disk := fs.Crash(seed*7919+uint64(n), simfs.Some)
				s := x.open(t, disk, "0004")
				must(s.SafeWrite(background, rw.SafeWriteRequest{Path: "after.txt", Content: []byte("it goes on\n")}))(t, x.name, ", operation ", n, ", seed ", seed)
				s.Close(background)
			}
			if over {
				break
			}
		}
	}
}

// TestRecoveryCrashSweepTx kills recovery at its operations, then the recovery from
// that, and checks the result of the third one.
func TestRecoveryCrashSweepTx(t *testing.T) {
	sweepTx(t, scale(20), func(t *testing.T, x txShape) {
		if x.opts.Sync == rw.SyncOff {
			return // promises nothing about a power cut
		}
		for n := x.start % txStep(); ; n += 3 * txStep() {
			fs, want, over := x.broken(t, n)
			for seed := range uint64(scale(10)) {
				for m := (x.start + n) % txStep(); ; m += 2 * txStep() {
					disk := fs.Crash(seed, simfs.Some)
					if !x.dies(disk, m) {
						break // recovery got through
					}
					disk = disk.Crash(seed+uint64(m), simfs.Some)
					x.dies(disk, (m*7+n)%23)
					x.aftermath(t, disk.Crash(seed+uint64(n), simfs.Some), want)
					require(t, !t.Failed(), "operation %d, seed %d, recovery dies at %d", n, seed, m)
				}
			}
			if over {
				return
			}
		}
	})
}

// txFault is one way in which an operation goes wrong.
type txFault struct {
	errno    syscall.Errno
	happened bool // the operation is made anyway
	stays    bool // and all later operations that need disk space fail
}

var txFaults = []txFault{
	{syscall.EIO, false, false}, {syscall.EIO, true, false}, {syscall.ENOSPC, false, false}, {syscall.ENOSPC, true, false}, {syscall.ENOSPC, false, true},
}

// grows are the operations that need room on the disk.
var grows = map[string]bool{"create": true, "write": true, "append": true, "mkdir": true, "link": true, "setxattr": true}

// TestFaultSweepTx makes operations of transactions fail: what the error reports about
// the disk is true, and opening again gives all or nothing.
func TestFaultSweepTx(t *testing.T) {
	t.Parallel()
	sweepTx(t, scale(20), func(t *testing.T, x txShape) {
		for k, f := range txFaults {
			if f.stays && x.plain {
				continue // names that cannot be swapped back need room, too
			}
			step := 6*txStep() - 5
			for i := (x.start + 7*k) % step; !x.fails(t, i, f) && !t.Failed(); i += step {
			}
		}
	})
}

// TestRollbackFlushesBeforeItRemoves: a directory that is removed by a rollback is flushed
// before. A power cut that kept only the removal would take the file that was in it, and
// recovery, which repeats the commit, would miss it.
func TestRollbackFlushesBeforeItRemoves(t *testing.T) {
	fs := simfs.New()
	fs.WriteFile("old", []byte("x"), 0o644)
	s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001", Manual: true}))(t)
	fs.Inject(func(op simfs.Op) simfs.Fault {
		if op.Kind == "rename" && op.Path == "old" {
			return simfs.Fault{Err: syscall.EIO}
		}
		return simfs.Fault{}
	})
	fs.ResetTrace()
	fails(s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{txWrite("new/dir/a", "a", ""), {Op: "delete", Path: "old"}}}))(t, rw.ErrIO)
	flushed, removed := false, false
	for _, op := range fs.Trace() {
		if op.Path == "new/dir" {
			flushed = flushed || op.Kind == "syncdir"
			expect(t, flushed || op.Kind != "rmdir", "the directory is not flushed")
			removed = removed || op.Kind == "rmdir"
		}
	}
	expect(t, removed, "%v", fs.Trace())
	noErr(t, s.Close(background))
}

// TestCrashSweepTxRolledBack makes an operation fail and kills the process while it
// rolls back the files published before.
func TestCrashSweepTxRolledBack(t *testing.T) {
	t.Parallel()
	sweepTx(t, scale(20), func(t *testing.T, x txShape) {
		for i := x.start % (5 * txStep()); ; i += 5 * txStep() {
			for n := i + 1 + x.start%txStep(); ; n += 2 * txStep() {
				fs, want, over := x.brokenWhileTakenBack(t, i, n)
				if x.aftermath(t, fs.Crash(0, simfs.None), want); x.opts.Sync == rw.SyncFull {
					x.aftermath(t, fs.Crash(uint64(i+n), simfs.Some), want)
				}
				require(t, !t.Failed(), "operation %d fails, the process dies at %d", i, n)
				if over && n == i+1+x.start%txStep() {
					return // it did not come to operation i
				}
				if over {
					break
				}
			}
		}
	})
}

// TestRolledBackWithoutExchange kills the process at every operation that takes a
// replaced file back where names cannot be swapped. For a moment the slot and the
// target are then two names of the staged file.
func TestRolledBackWithoutExchange(t *testing.T) {
	t.Parallel()
	for _, x := range txShapes(t, 0) {
		if x.name != "no_exchange" {
			continue
		}
		x.opts.Sync = rw.SyncFull
		for i := 42; i < 46; i++ {
			for n := i + 1 + phase(turns(1)); n < i+30; n += turns(1) {
				fs, want, _ := x.brokenWhileTakenBack(t, i, n)
				x.aftermath(t, fs.Crash(0, simfs.None), want)
				x.aftermath(t, fs.Crash(uint64(i+n), simfs.Some), want)
				require(t, !t.Failed(), "operation %d fails, the process dies at %d", i, n)
			}
		}
	}
}

// brokenWhileTakenBack runs the transaction, makes operation i fail, and kills the
// process at operation n. over reports that it did not reach that operation.
func (x txShape) brokenWhileTakenBack(t *testing.T, i, n int) (fs *simfs.FS, want outcome, over bool) {
	t.Helper()
	fs, s := x.prepare(t)
	base := fs.Muts()
	fs.Inject(func(op simfs.Op) simfs.Fault {
		if op.Mut == base+i && !strings.HasPrefix(op.Path, rw.StateDirName) {
			return simfs.Fault{Err: syscall.EIO}
		}
		return simfs.Fault{}
	})
	fs.StopAt(n)
	err := x.run(s)
	fs.StopAt(-1)
	fs.Inject(nil)
	want = either
	if err == nil {
		want = applied
	}
	return fs, want, fs.Muts()-base < n
}

// broken runs the transaction until the process dies at operation n, including
// background cleanup. over reports that it did not reach that operation.
func (x txShape) broken(t *testing.T, n int) (fs *simfs.FS, want outcome, over bool) {
	t.Helper()
	fs, s := x.prepare(t)
	base := fs.Muts()
	want, _ = killed(t, fs, n, func() error { return x.run(s) })
	return fs, want, fs.Muts()-base < n
}

// dies opens a store and kills it at operation m of its recovery. It reports
// false when recovery was over before.
func (x txShape) dies(disk *simfs.FS, m int) bool {
	disk.StopAt(m)
	defer disk.StopAt(-1)
	opts := x.opts
	_, err := rw.OpenSim(disk, &opts, rw.Sim{Nonce: fmt.Sprintf("1%03d", m), Segment: x.sim.Segment, Manual: true})
	return err != nil
}

// fails makes operation i fail and checks the reported error. It returns true if the
// transaction has fewer operations.
func (x txShape) fails(t *testing.T, i int, f txFault) bool {
	t.Helper()
	fs, s := x.prepare(t)
	base, hit := fs.Muts(), ""
	fs.Inject(func(op simfs.Op) simfs.Fault {
		if op.Mut == base+i || f.stays && op.Mut > base+i && grows[op.Kind] {
			if hit == "" {
				hit = op.String()
			}
			if x.opts.Sync == rw.SyncOff && strings.Contains(op.Kind, "sync") {
				return simfs.Fault{} // this level promises nothing about flushes
			}
			if strings.HasPrefix(op.Path, rw.StateDirName+"/history") && (op.Kind == "mkdir" || op.Kind == "syncdir") {
				return simfs.Fault{} // history takes a flush for good that comes after one that failed
			}
			return simfs.Fault{Err: f.errno, Applied: f.happened, Short: int(op.Len / 2)}
		}
		return simfs.Fault{}
	})
	err := x.run(s)
	fs.Inject(nil)
	defer func() {
		if t.Failed() {
			t.Logf("%+v, operation %d, %s: %v", f, i, hit, err)
		}
	}()
	want := either
	if err == nil {
		want = applied
	} else if e := rw.AsError("", err); e.Effect == rw.EffectNone {
		want = untouched
		// A mkdir that fails and happens anyway leaves its directory.
		diff := cmp.Diff(x.dirs, directories(fs))
		expect(t, diff == "" || strings.HasPrefix(hit, "mkdir"), "effect none, but directories:\n%s", diff)
	}
	x.judgeFault(t, fs, s, err, hit)
	x.aftermath(t, fs.Crash(0, simfs.None), want)
	if x.opts.Sync == rw.SyncFull {
		x.aftermath(t, fs.Crash(uint64(i), simfs.Some), want)
	}
	return hit == ""
}

// allOrNothing checks the disks that are possible after the process died.
func (x txShape) allOrNothing(t *testing.T, fs *simfs.FS, n int, want outcome) {
	t.Helper()
	x.verify(t, fs.Crash(0, simfs.None), want)
	x.aftermath(t, fs.Crash(0, simfs.None), want) // the process died, the machine did not
	if x.opts.Sync == rw.SyncOff {
		return
	}
	x.verify(t, fs.Crash(uint64(n), simfs.Some), want)
	x.aftermath(t, fs.Crash(0, simfs.All), want)
	for seed := range someLosses(20, n) {
		x.aftermath(t, fs.Crash(seed*7919+uint64(n), simfs.Some), want)
	}
}

// aftermath opens the disk after a crash and continues: it contains only the needed
// files, the history records what happened, the caller repeats its call and gets the
// complete result, and an undo restores the previous state.
func (x txShape) aftermath(t *testing.T, disk *simfs.FS, want outcome) {
	t.Helper()
	s := x.open(t, disk, "0004")
	got := files(disk)
	happened := maps.Equal(got, x.new)
	if !happened && !maps.Equal(got, x.old) || want == applied && !happened || want == untouched && happened {
		t.Fatalf("want %v, found %s\n old %s\n new %s\n recovery %+v", want, brief(got), brief(x.old), brief(x.new), s.Recovery())
	}
	past := x.past
	if happened { // else a directory that was made before the commit point may be left
		past = x.future
		equal(t, cmp.Diff(x.newDirs(), directories(disk)), "", "directories")
	}
	x.tellsOf(t, s, past)
	noErr(t, x.run(s), "the repeated call")
	if got := files(disk); !maps.Equal(got, x.new) {
		t.Fatalf("the repeated call, happened %v, made %s of %s", happened, brief(got), brief(x.new))
	}
	x.tellsOf(t, s, x.future)
	must(s.Undo(background, rw.UndoRequest{Call: rw.Call{Caller: txCaller}}))(t, "undo")
	if got := files(disk); !maps.Equal(got, x.old) {
		t.Fatalf("undo made %s of %s", brief(got), brief(x.old))
	}
	check(t, s, true)
	noErr(t, s.Close(background))
	nothingStaged(t, s)
	require(t, !t.Failed(), "recovery %+v", s.Recovery())
}

// newDirs returns the directories after the transaction: none is removed.
func (x txShape) newDirs() map[string]bool {
	dirs := parents(x.new)
	for d := range x.dirs {
		dirs[d] = true
	}
	return dirs
}

// directories are those of the workspace on a disk.
func directories(fs *simfs.FS) map[string]bool {
	out := map[string]bool{}
	for p, content := range fs.Tree() {
		if content == "/" && !ofStore(p) {
			out[p] = true
		}
	}
	return out
}

// tellsOf compares the history of every path that the transaction names.
func (x txShape) tellsOf(t *testing.T, s *rw.Store, want map[string][]string) {
	t.Helper()
	for p := range x.future {
		equal(t, cmp.Diff(want[p], x.pastOf(t, s, p)), "", "history of ", p)
	}
}

// TestTxBeginBesideOpen: a call that begins a transaction is stopped at any point, and
// another process opens the store, which removes the remains of transactions. What was
// begun can be staged and committed.
func TestTxBeginBesideOpen(t *testing.T) {
	t.Parallel()
	ran := 0
	for at := 0; ; at++ {
		fs := simfs.New()
		process := fs.NewProcess()
		brief := 20 * time.Millisecond
		s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001", Process: process}))(t)
		must(s.TxBegin(background, rw.TxBeginRequest{}))(t)
		var begun rw.TxBeginResult
		done, stopped := stoppedAt(t, process, at, func() (err error) {
			begun, err = s.TxBegin(background, rw.TxBeginRequest{})
			return err
		})
		if other, err := rw.OpenSim(fs, &rw.Options{LockTimeout: brief}, rw.Sim{Nonce: "0002", LockWait: brief}); err == nil {
			noErr(t, other.Close(background))
		}
		process.Continue()
		if stopped {
			noErr(t, <-done, "stopped at ", at)
		}
		must(s.TxStage(background, rw.TxStageRequest{TxID: begun.TxID, Op: txWrite("a.txt", "text", "create")}))(t, "stopped at ", at)
		must(s.TxCommit(background, rw.TxCommitRequest{TxID: begun.TxID}))(t, "stopped at ", at)
		noErr(t, s.Close(background))
		if ran++; !stopped {
			break
		}
	}
	expect(t, ran >= 10, "stopped at %d places only", ran)
}
