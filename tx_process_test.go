package resilientwrite_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/failpoint"
)

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

// txChild does the job of a child process, and reports false in the parent.
func txChild(t *testing.T, job func(s *rw.Store, arg string) error) bool {
	dir := os.Getenv("RW_TX_DIR")
	if dir == "" {
		return false
	}
	arg := os.Getenv("RW_TX_ARG")
	s, err := rw.Open(background, dir, &rw.Options{Sync: rw.SyncLevel(os.Getenv("RW_TX_LEVEL")), Caller: "child" + arg, LockTimeout: time.Minute})
	if err == nil {
		err = job(s, arg)
	}
	if err == nil {
		err = s.Close(background)
	}
	noErr(t, err)
	return true
}

func txProcess(t *testing.T, dir, arg string, level rw.SyncLevel) (*exec.Cmd, *lineLog) {
	t.Helper()
	cmd, out := spawnTest(t, t.Name(), "RW_TX_DIR="+dir, "RW_TX_ARG="+arg, "RW_TX_LEVEL="+string(level))
	noErr(t, cmd.Start())
	return cmd, out
}

// crossTogether waits until every process has reached the same round as this one.
// Otherwise a process that is delayed for long would find that the others have ended.
func crossTogether(arg string, i int) error {
	mark := func(process string) string {
		return filepath.Join(filepath.Dir(os.Getenv("RW_TX_DIR")), fmt.Sprintf("at-%s-%d", process, i))
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
	if txChild(t, cross) {
		return
	}
	dir := workspace(t)
	s := open(t, dir, nil)
	write(t, s, crossPlaces[0], "ball", rw.ModeCreate)
	var cmds []*exec.Cmd
	var outs []*lineLog
	for i := range crossProcesses {
		cmd, out := txProcess(t, dir, fmt.Sprint(i), []rw.SyncLevel{rw.SyncFull, rw.SyncJournal}[i%2])
		cmds, outs = append(cmds, cmd), append(outs, out)
	}
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Errorf("child %d: %v\n%s", i, err, outs[i].text.String())
		}
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
	if len(transactions) != crossProcesses*crossTransactions || balls != 2*len(transactions) {
		t.Errorf("%d transactions, %d moves", len(transactions), balls)
	}
	t.Logf("%d times another process than before had its turn", switches)
	if switches <= crossProcesses {
		t.Error("they did not cross")
	}
	order := linesInOneOrder(t, dir)
	if len(order) != len(transactions) {
		t.Errorf("%d transactions are to be seen in the lists, of %d", len(order), len(transactions))
	}
	for _, list := range crossLists {
		var callers []string
		for _, line := range listLines(t, dir, list) {
			id, _, _ := strings.Cut(line, ".")
			callers = append(callers, id)
		}
		if !slices.Equal(callers, expected[list]) {
			t.Errorf("%s was written by %v, the journal says %v", list, callers, expected[list])
		}
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
				if a == b {
					t.Errorf("%s is twice in %s", a, list)
				}
				if before[[2]string{b, a}] {
					t.Fatalf("%s is before %s in %s, and behind it elsewhere", a, b, list)
				}
				before[[2]string{a, b}] = true
			}
		}
	}
	for line, n := range count {
		if n < 2 {
			t.Errorf("%s is in %d lists: half a transaction", line, n)
		}
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
// its files is told which process holds it. When that process is killed, the next call
// first completes the whole transaction, and then does its own work.
func TestProcessesWaitForATransactionAndFinishItForTheDead(t *testing.T) {
	if txChild(t, holdHalfway) {
		return
	}
	dir := ramspace(t)
	s := quickAt(t, dir, &rw.Options{LockTimeout: 100 * time.Millisecond})
	noErr(t, transact(s, txWrite("a.txt", "old a", ""), txWrite("b.txt", "old b", ""), txWrite("c.txt", "old c", ""), txWrite("d.txt", "d", "")))
	cmd, out := txProcess(t, dir, "h", rw.SyncFull)
	waitFor(t, func() bool { return len(out.lines()) > 0 })
	fileIs(t, dir, "b.txt", "new b") // it is halfway
	fileIs(t, dir, "c.txt", "old c")
	mine := []rw.TxOp{txWrite("own.txt", "mine", ""), txWrite("e/d.txt", " and mine", rw.ModeAppend), txDelete("c.txt")}
	before := snapshot(t, dir)
	err := transact(s, mine...)
	e := rw.AsError("", err)
	if !errors.Is(err, rw.ErrLockTimeout) || e.Effect != rw.EffectNone || snapshot(t, dir) != before {
		t.Fatalf("%v (%v), effect %s", err, errors.Unwrap(err), e.Effect)
	}
	conformsEnvelope(t, e)
	holder, _ := e.Context["holder"].(map[string]any)
	if !strings.Contains(e.Hint, strconv.Itoa(cmd.Process.Pid)) || holder["pid"] != cmd.Process.Pid || holder["op"] != "tx" {
		t.Errorf("the holder is not told: %s %v", e.Hint, holder)
	}
	noErr(t, transact(s, txWrite("other.txt", "free", ""))) // no other path has to wait
	cmd.Process.Kill()
	cmd.Wait()
	fileIs(t, dir, "c.txt", "old c")
	noErr(t, transact(s, mine...))
	fileIs(t, dir, "a.txt", "new a")
	fileIs(t, dir, "b.txt", "new b")
	fileIs(t, dir, "e/d.txt", "d and mine")
	gone(t, dir, "c.txt")
	gone(t, dir, "d.txt")
	if got := versionsOf(t, s, "c.txt"); len(got) != 3 || got[1].SHA256.String() != hash("new c") || !got[1].Available {
		t.Errorf("versions of c.txt: %+v", got)
	}
	check(t, s, true)
	s.Close(background)
	s = quickAt(t, dir, nil)
	if r := s.Recovery(); len(r.Finished)+len(r.Aborted)+len(r.Conflicts) > 0 {
		t.Errorf("something was left: %+v", r)
	}
}
