package resilientwrite_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/command"
	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/failpoint"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// The test binary is its own child process: RW_CHILD selects its task.
func TestMain(m *testing.M) {
	if os.Getenv("RW_NO_HELPER") == "" {
		command.Main()
	}
	if job := os.Getenv("RW_CHILD"); job != "" {
		if err := child(job, os.Getenv("RW_DIR"), os.Getenv("RW_ARG")); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err, errors.Unwrap(err))
			os.Exit(1)
		}
		os.Exit(0)
	}
	if !testbed.RaceDetector {
		flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))) // many tests wait for processes
	}
	testbed.Main(m, func(code int) {
		if code != 0 && short() {
			fmt.Fprintf(os.Stderr, "RW_SEED=%d repeats the turn of this run\n", turn())
		}
	})
}

// jobs are what a child does with a store, by name.
var jobs = map[string]func(s *rw.Store, arg string) error{
	"rows": func(s *rw.Store, arg string) error { // 200 writes: appends to one shared file, and creates of its own
		for i := range 100 {
			if err := do(put("shared.log", fmt.Sprintf("%s-%d\n", arg, i), rw.ModeAppend),
				put(fmt.Sprintf("own/%s-%d.txt", arg, i), strings.Repeat(arg, i), rw.ModeCreate))(s); err != nil {
				return err
			}
			fmt.Println(i) // acknowledged
		}
		return nil
	},
	"versions": untilKilled(func(s *rw.Store, i int) error {
		r := put("file.txt", version(i), rw.ModeOverwrite)
		r.AllowShrink = true // the first version replaces the last one of the child before
		return do(r, put("log.txt", fmt.Sprintf("%d\n", i), rw.ModeAppend))(s)
	}),
	"scratch": untilKilled(func(s *rw.Store, i int) error {
		return inSequence(doing((*rw.Store).ScratchPut, rw.ScratchPutRequest{Content: []byte(version(i)), Label: fmt.Sprint(i)}),
			doing((*rw.Store).Checkpoint, rw.CheckpointRequest{Name: "at", Data: json.RawMessage(fmt.Sprintf(`{"i":%d,"text":%q}`, i, version(i)))}))(s)
	}),
	"handoffs": untilKilled(func(s *rw.Store, i int) error {
		body := fmt.Sprintf("%d-%d\n", os.Getpid(), i)
		return leave(handoff.WriteRequest{Envelope: anEnvelope("t"), Body: []byte(body), Archive: true})(s)
	}),
	"claims": countUnderClaims,
	"money":  moveMoney,
	"cross":  cross,
	"chunks": func(s *rw.Store, arg string) error {
		var pieces []rw.ChunkAppendRequest
		for i := range 25 {
			pieces = append(pieces, rw.ChunkAppendRequest{Session: "shared", Content: fmt.Appendf(nil, "<%s.%d>", arg, i)})
		}
		return doing((*rw.Store).ChunkAppend, pieces...)(s)
	},
	"create": func(s *rw.Store, arg string) error { // one create of one path
		err := do(put("race/one.txt", "by "+arg, rw.ModeCreate))(s)
		if err == nil {
			fmt.Println("won")
		} else if errors.Is(err, rw.ErrFileAlreadyExists) {
			err = nil
		}
		return err
	},
	"trace": func(s *rw.Store, _ string) error { // a write of each kind, with marks between them
		fmt.Println("MARK begin")
		for _, w := range []struct {
			mode rw.WriteMode
			mark string
		}{{rw.ModeCreate, "created"}, {rw.ModeOverwrite, "replaced"}, {rw.ModeAppend, "appended"}} {
			if err := do(put("sub/a.txt", "by "+w.mark, w.mode))(s); err != nil {
				return err
			}
			fmt.Println("MARK " + w.mark)
		}
		return nil
	},
	"die":         dying(do(put("deep/er/file.txt", "new", rw.ModeOverwrite))),
	"die-mnt":     dying(do(put("mnt/sub/a.txt", "from the dead", rw.ModeOverwrite))),
	"die-append":  dying(doing((*rw.Store).ChunkAppend, rw.ChunkAppendRequest{Session: "s", Content: []byte("third")})),
	"die-replace": dying(doing((*rw.Store).ChunkWrite, rw.ChunkWriteRequest{Session: "s", Index: 2, Content: []byte("SECOND")})),
	"die-compose": dying(doing((*rw.Store).ChunkCompose, rw.ChunkComposeRequest{Session: "s", OutputPath: "out.txt", Cleanup: true})),
	"die-reset":   dying(doing((*rw.Store).ChunkReset, rw.ChunkResetRequest{Session: "s"})),
	"exec": dying(func(s *rw.Store) error { // a command that changes three files
		script := "echo new > a.txt; echo new > c.txt; mv b.txt moved.txt"
		return errorOf(s.Exec(background, command.Request{Argv: []string{"sh", "-ec", script}, Views: filepath.Join(filepath.Dir(os.Getenv("RW_DIR")), "views")}))
	}),
	"die-halfway": dieHalfway,
	"hold": func(s *rw.Store, _ string) error { // holds a path until it is killed
		failpoint.Arm(func(point string) {
			if point == string(rw.StagePrecondition) {
				fmt.Println("holding")
				time.Sleep(time.Hour)
			}
		})
		return do(put("held.txt", "x", rw.ModeOverwrite))(s)
	},
	"hold-halfway": holdHalfway,
}

// untilKilled makes calls without an end, and prints a line for each that is
// acknowledged.
func untilKilled(call func(s *rw.Store, i int) error) func(*rw.Store, string) error {
	return func(s *rw.Store, _ string) error {
		for i := 0; ; i++ {
			if err := call(s, i); err != nil {
				return err
			}
			fmt.Println(i)
		}
	}
}

// dying makes a call in which the process dies before the stage arg.
func dying(call func(*rw.Store) error) func(*rw.Store, string) error {
	return func(s *rw.Store, arg string) error {
		failpoint.Arm(func(point string) {
			if point == arg {
				os.Exit(9)
			}
		})
		return call(s)
	}
}

func child(job, dir, arg string) error {
	level := rw.SyncLevel(os.Getenv("RW_LEVEL"))
	s, err := rw.Open(background, dir, &rw.Options{Sync: level, Caller: "child" + arg, LockTimeout: time.Minute})
	if err == nil {
		err = jobs[job](s, arg)
	}
	if err == nil {
		err = s.Close(background)
	}
	return err
}

func version(i int) string { return strings.Repeat(fmt.Sprintf("version %d\n", i), 1+i%300) }

// process is a child that does a job.
type process struct {
	*exec.Cmd
	mu   sync.Mutex
	text strings.Builder
}

func spawn(t *testing.T, job, dir, arg string, level rw.SyncLevel) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0])}
	p.Env = append(os.Environ(), "RW_CHILD="+job, "RW_DIR="+dir, "RW_ARG="+arg, "RW_LEVEL="+string(level))
	p.Stdout, p.Stderr = p, os.Stderr
	noErr(t, p.Start())
	return p
}

// Write collects the output.
func (p *process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(text)
}

// lines are the whole lines so far.
func (p *process) lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := strings.Split(p.text.String(), "\n")
	return list[:len(list)-1]
}

// printed waits until the process has printed n lines.
func (p *process) printed(t *testing.T, n int) {
	t.Helper()
	until(t, "the other process goes on", func() bool { return len(p.lines()) >= n })
}

func (p *process) kill() {
	p.Process.Kill()
	p.Wait()
}

// died waits until the process died by itself.
func (p *process) died(t *testing.T) {
	t.Helper()
	p.Wait()
	mustEqual(t, p.ProcessState.ExitCode(), 9, "the child ended with")
}

// alone reports whether this is the process in which a test runs alone, with a variable
// set. If not, it runs the test in such a process.
func alone(t *testing.T, variable string) bool {
	t.Helper()
	if os.Getenv(variable) != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.timeout", "5m")
	cmd.Env = append(os.Environ(), variable+"=1")
	out, err := cmd.CombinedOutput()
	noErr(t, err, string(out))
	return false
}

// TestProcessesShareOneJournal runs 8 processes of 200 writes on one store,
// kills some of them, and finds every acknowledged write once and no gap in
// the order of the rows.
func TestProcessesShareOneJournal(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	const processes, writes = 8, 100
	var children []*process
	for i := range processes {
		children = append(children, spawn(t, "rows", dir, string(rune('a'+i)), rw.SyncOff))
	}
	for _, i := range []int{2, 5} { // SIGKILL
		children[i].printed(t, 10+i)
		children[i].Process.Kill()
	}
	for i, p := range children {
		if err := p.Wait(); err != nil && i != 2 && i != 5 {
			t.Fatalf("child %d: %v %v", i, err, p.lines())
		}
	}
	s := open(t, dir, nil)
	check(t, s, true)
	data := must(os.ReadFile(filepath.Join(dir, "shared.log")))(t)
	seen := map[string]int{}
	for _, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		seen[line]++
	}
	for i := range processes {
		id := string(rune('a' + i))
		done := len(children[i].lines())
		expect(t, i == 2 || i == 5 || done == writes, "child %s acknowledged %d", id, done)
		for n := range done {
			expect(t, seen[fmt.Sprintf("%s-%d", id, n)] == 1, "line %s-%d is there %d times", id, n, seen[fmt.Sprintf("%s-%d", id, n)])
			fileIs(t, dir, fmt.Sprintf("own/%s-%d.txt", id, n), strings.Repeat(id, n))
		}
	}
	for line, n := range seen {
		expect(t, n == 1, "line %q is there %d times", line, n)
	}
}

// TestRowsThatAreNotShown: a row is in the journal, but its writer could not show it to
// others, because it died or the number up to which they read could not be raised. The next
// writer of the path, and a call with the same idempotency key, know the row.
func TestRowsThatAreNotShown(t *testing.T) {
	raises := func(op simfs.Op) bool {
		return op.Kind == "write" && strings.HasSuffix(op.Path, "/locks/journal") && op.Off > 0
	}
	for _, level := range allLevels {
		for i := range 4 {
			dies, first := i%2 > 0, i/2 // and what comes first
			fs := simfs.New()
			process := fs.NewProcess()
			a := must(rw.OpenSim(fs, &rw.Options{Sync: level}, rw.Sim{Nonce: "0001", Process: process}))(t)
			b := must(rw.OpenSim(fs, &rw.Options{Sync: level}, rw.Sim{Nonce: "0002", Process: fs.NewProcess()}))(t)
			write(t, b, "a.txt", "one\n", rw.ModeCreate)
			if dies {
				fs.Before(func(op simfs.Op) {
					if raises(op) {
						process.Kill()
					}
				})
			}
			unshown := false
			fs.Inject(func(op simfs.Op) simfs.Fault {
				if !raises(op) {
					return simfs.Fault{}
				}
				unshown = true
				return simfs.Fault{Err: syscall.EIO}
			})
			r := put("a.txt", "two\n", rw.ModeAppend)
			r.IdempotencyKey = "key"
			_, err := a.SafeWrite(background, r)
			require(t, (err != nil) == dies && unshown != dies, "%s %d: %v", level, i, err)
			fs.Before(nil)
			for j := range 2 {
				if j == first {
					write(t, b, "a.txt", "three\n", rw.ModeAppend)
					continue
				}
				again := must(b.SafeWrite(background, r))(t)
				expect(t, again.Status == rw.StatusReplayed, "%s %d: %+v", level, i, again)
			}
			data, _ := fs.ReadFile("a.txt")
			expect(t, string(data) == "one\ntwo\nthree\n", "%s %d: %q", level, i, data)
			fs.Inject(nil)
			check(t, b, true)
		}
	}
}

// TestStoppedWriterSweep: a process is stopped before each operation of a write. A write of
// another process to another file succeeds, or ends with its context, also where a directory
// for slots is to be made: the row of its refusal does not wait either. The time limit of all
// locks is an hour here.
func TestStoppedWriterSweep(t *testing.T) {
	t.Parallel()
	t.Run("one file system", func(t *testing.T) { stoppedWriterSweep(t, ".") })
	t.Run("another file system", func(t *testing.T) { stoppedWriterSweep(t, "mount") })
}

func stoppedWriterSweep(t *testing.T, dir string) {
	t.Parallel()
	for n, stopped := 0, true; stopped; n++ {
		fs := simfs.New()
		fs.MkdirAll("mount")
		fs.MountAt("mount")
		process := fs.NewProcess()
		a := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001", Process: process}))(t)
		b := must(rw.OpenSim(fs, &rw.Options{LockTimeout: time.Hour}, rw.Sim{Nonce: "0002", Process: fs.NewProcess(), LockWait: time.Hour}))(t)
		reached, done := process.PauseAt(n), make(chan error, 1)
		go func() { done <- errorOf(a.SafeWrite(background, put(path.Join(dir, "a.txt"), "a", rw.ModeCreate))) }()
		stopped = false
		select {
		case <-reached:
			stopped = true
		case err := <-done:
			noErr(t, err)
		}
		ended := make(chan error, 1)
		go func() {
			for _, limit := range []time.Duration{0, 5 * time.Millisecond} {
				ctx, cancel := context.WithTimeout(background, limit)
				defer cancel()
				ended <- errorOf(b.SafeWrite(ctx, put(path.Join(dir, "b.txt"), "b", rw.ModeCreate)))
			}
		}()
		for range 2 {
			select {
			case err := <-ended:
				require(t, err == nil || errors.Is(err, rw.ErrCanceled), "stopped before operation %d: %v", n, err)
			case <-time.After(time.Minute):
				t.Fatalf("stopped before operation %d: the other process waits", n)
			}
		}
		if process.Continue(); stopped {
			noErr(t, <-done)
		}
		check(t, b, true)
	}
}

// TestKillNine kills a child at random moments, many times over on one store:
// acknowledged writes exist, everything else is the version before or after the call,
// and the journal explains the disk.
func TestKillNine(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, level := range inTurn(0, allLevels...) {
		dir := workspace(t)
		logged, answered := 0, 0
		for round := range scale(70) {
			p := spawn(t, "versions", dir, "k", level)
			if round%2 == 0 { // the others die early, while they open the store too
				p.printed(t, 1)
			}
			time.Sleep(time.Duration(5+rng.IntN(60)) * time.Millisecond)
			p.kill()
			acknowledged := len(p.lines())
			answered += acknowledged

			s := must(rw.Open(context.Background(), dir, &rw.Options{Sync: level}))(t, "round ", round)
			check(t, s, true)
			got, _ := os.ReadFile(filepath.Join(dir, "file.txt"))
			require(t, acknowledged <= 0 || string(got) == version(acknowledged-1) || string(got) == version(acknowledged),
				"%s round %d: %d acknowledged, found %.30q", level, round, acknowledged, got)
			data, _ := os.ReadFile(filepath.Join(dir, "log.txt"))
			lines := strings.Count(string(data), "\n")
			require(t, lines >= logged+acknowledged && lines <= logged+acknowledged+1,
				"%s round %d: %d lines, want %d or one more", level, round, lines, logged+acknowledged)
			logged = lines
			noErr(t, s.Close(context.Background()))
		}
		expect(t, answered != 0, "%s: nothing was acknowledged", level)
	}
}

// TestEveryStageSurvivesDeath makes a process die before each stage of the table:
// before the record nothing happened, after it the next Open completes the call.
func TestEveryStageSurvivesDeath(t *testing.T) {
	t.Parallel()
	recorded := false
	for _, stage := range rw.StageNames() {
		s, dir := opened(t, nil)
		write(t, s, "deep/er/file.txt", "old", rw.ModeCreate)
		noErr(t, s.Close(context.Background()))
		spawn(t, "die", dir, string(stage), rw.SyncFull).died(t)
		recorded = recorded || stage == rw.StagePublish
		want := "old"
		if recorded {
			want = "new"
		}
		s = open(t, dir, nil)
		fileIs(t, dir, "deep/er/file.txt", want)
		check(t, s, true)
	}
}

// TestNextWriterFinishesForTheDead: a store that stays open while another process dies
// after its commit point completes that commit before it writes.
func TestNextWriterFinishesForTheDead(t *testing.T) {
	t.Parallel()
	s, dir := opened(t, nil)
	write(t, s, "deep/er/file.txt", "old", rw.ModeCreate)
	spawn(t, "die", dir, string(rw.StagePublish), rw.SyncFull).died(t)
	fileIs(t, dir, "deep/er/file.txt", "old")
	// The report is that of Open: it does not include commits that a later call
	// completes, and nothing is written to it while others read it.
	stop, reading := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(reading)
		for {
			r := s.Recovery()
			expect(t, len(r.Finished) == 0, "%+v", r)
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	r := write(t, s, "deep/er/file.txt", "+", rw.ModeAppend)
	close(stop)
	<-reading
	fileIs(t, dir, "deep/er/file.txt", "new+")
	expect(t, r.Receipt.PrevSHA256.String() != "", "no previous version")
	check(t, s, true)
}

// TestLocksDieWithTheirHolder: a waiting call reports who holds the path, and once the
// holder is killed no call has to wait: a call that waits for at most a tenth of a
// second succeeds.
func TestLocksDieWithTheirHolder(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	p := spawn(t, "hold", dir, "h", rw.SyncFull)
	p.printed(t, 1)
	s := open(t, dir, &rw.Options{LockTimeout: 100 * time.Millisecond})
	_, err := s.SafeWrite(context.Background(), put("held.txt", "y", rw.ModeOverwrite))
	isErr(t, err, rw.ErrLockTimeout)
	e := rw.AsError("", err)
	expect(t, strings.Contains(e.Hint, strconv.Itoa(p.Process.Pid)), "the hint does not name the holder: %s", e.Hint)
	p.kill()
	write(t, s, "held.txt", "z", rw.ModeOverwrite)
}

// TestCreateRaceAcrossProcesses: of eight processes that create one path,
// exactly one wins.
func TestCreateRaceAcrossProcesses(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	var children []*process
	for i := range 8 {
		children = append(children, spawn(t, "create", dir, strconv.Itoa(i), rw.SyncFull))
	}
	won := 0
	for i, p := range children {
		noErr(t, p.Wait(), "child ", i)
		won += len(p.lines())
	}
	equal(t, won, 1, "winners")
	check(t, open(t, dir, nil), true)
}

const accounts = 5

// moveMoney is the job of a child: it moves money between files until it is
// killed.
func moveMoney(s *rw.Store, seed string) error {
	n, _ := strconv.Atoi(seed)
	rng := rand.New(rand.NewPCG(uint64(n), 7))
	for i := 0; ; i++ {
		from, to := rng.IntN(accounts), rng.IntN(accounts)
		if from == to {
			continue
		}
		amount := 1 + rng.IntN(9)
		var ops []rw.TxOp
		for _, step := range []struct{ acc, by int }{{from, -amount}, {to, amount}} {
			path := fmt.Sprintf("acc%d.txt", step.acc)
			r, err := s.Read(context.Background(), rw.ReadRequest{Path: path})
			if err != nil {
				return err
			}
			ops = append(ops, rw.TxOp{Op: "write", Path: path, Content: []byte(account(moneyIn(string(r.Content)) + step.by)), Mode: rw.ModeOverwrite, AllowShrink: true})
		}
		if _, err := s.Tx(context.Background(), rw.TxRequest{Ops: ops}); err != nil {
			return err
		}
		fmt.Println(i)
	}
}

// account is a file of a length that changes, so that a mixture shows.
func account(n int) string {
	return fmt.Sprintf("%d\n%s", n, strings.Repeat(fmt.Sprintf("%d,", n), 50+n%40))
}

func moneyIn(content string) int {
	line, _, _ := strings.Cut(content, "\n")
	n, err := strconv.Atoi(line)
	if err != nil || content != account(n) {
		return -1 << 30 // torn
	}
	return n
}

// TestMoneyIsNeverLost: a child that moves money between files, two in one transaction,
// is killed at a random moment, two hundred times. After each reopening the sum is
// unchanged.
func TestMoneyIsNeverLost(t *testing.T) {
	t.Parallel()
	s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
	for i := range accounts {
		write(t, s, fmt.Sprintf("acc%d.txt", i), account(1000), rw.ModeCreate)
	}
	s.Close(background)
	moved, rounds := 0, scale(200)
	if short() {
		rounds = 9
	}
	for round := range rounds {
		level := []rw.SyncLevel{rw.SyncOff, rw.SyncJournal, rw.SyncFull}[round%3]
		p := spawn(t, "money", dir, fmt.Sprint(round), level)
		p.printed(t, 1) // it has started
		time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond)
		p.kill()
		moved += len(p.lines())
		s := must(rw.Open(background, dir, nil))(t)
		sum := 0
		for i := range accounts {
			data := must(os.ReadFile(filepath.Join(dir, fmt.Sprintf("acc%d.txt", i))))(t)
			sum += moneyIn(string(data))
		}
		mustEqual(t, sum, 1000*accounts, "round ", round, ": the sum")
		check(t, s, true)
		s.Close(background)
	}
	t.Logf("%d transfers were acknowledged", moved)
	expect(t, moved != 0, "no transfer was made")
}
