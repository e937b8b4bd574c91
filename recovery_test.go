package resilientwrite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/failpoint"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/lock"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// TestRecoveryReadsTheJournalFewTimes: what Open reads of the journal does not
// grow with the number of files that a dead writer left unpublished.
func TestRecoveryReadsTheJournalFewTimes(t *testing.T) {
	fs := simfs.New()
	first := fs.NewProcess()
	s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001", Process: first}))(t)
	other := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0002", Process: fs.NewProcess()}))(t)
	const files = 40
	version := func(content string, mode rw.WriteMode) (list []rw.SafeWriteRequest) {
		for i := range files {
			list = append(list, put(fmt.Sprintf("f%d.txt", i), content, mode))
		}
		return list
	}
	noErr(t, s.CommitAll(background, version("old", rw.ModeCreate)...))
	fs.Before(func(op simfs.Op) {
		if op.Kind == "exchange" {
			first.Kill()
		}
	})
	require(t, s.CommitAll(background, version("new", rw.ModeOverwrite)...) != nil, "the process did not die")
	fs.Before(nil)
	for i := range 60 {
		write(t, other, "beside.txt", fmt.Sprint("text ", i), rw.ModeOverwrite)
	}
	fs.Kill()
	fs.ResetTrace()
	s = must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0003"}))(t)
	var read, size int64
	for _, op := range fs.Trace() {
		if op.Kind == "read" && strings.Contains(op.Path, "/journal/") {
			read, size = read+op.Len, max(size, op.Off+op.Len)
		}
	}
	equal(t, len(s.Recovery().Finished), files, "files were finished")
	expect(t, read <= 8*size, "recovery of %d files read %d bytes of a journal of %d", files, read, size)
}

// TestHostileStateSweep: each file of a state directory is replaced by something else.
// The store opens or says why not, its calls report no internal error, and a file of the
// user that has a second name there stays as it is.
func TestHostileStateSweep(t *testing.T) {
	t.Parallel()
	const victim = "precious\n"
	fs := simfs.New()
	s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001"}))(t)
	calls := func(s *rw.Store, n int) (errs []error) {
		text := fmt.Sprint("text ", n)
		over := put("a.txt", text, rw.ModeOverwrite)
		over.AllowShrink = true
		return append(errs,
			do(put("victim.txt", victim, rw.ModeCreate))(s), do(over)(s), do(put("b.txt", "more\n", rw.ModeAppend))(s),
			do(put(fmt.Sprint(n), text, rw.ModeCreate))(s), move(fmt.Sprint(n), "d/c.txt", n > 0)(s),
			errorOf(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte(text)})),
			errorOf(s.ScratchPut(background, rw.ScratchPutRequest{Label: "l", Content: []byte(text)})),
			errorOf(s.Checkpoint(background, rw.CheckpointRequest{Name: "c", Data: []byte("{}")})),
			errorOf(s.Undo(background, rw.UndoRequest{})), errorOf(s.Delete(background, rw.DeleteRequest{Path: "b.txt"})),
			errorOf(s.Check(background, admin.CheckRequest{})), errorOf(s.Admin().Compact(background, admin.CompactRequest{})), s.Close(background))
	}
	noErr(t, errors.Join(calls(s, 0)...))
	fs.WriteFile(rw.StateDirName+"/reserve", nil, 0o600)
	inPlace := regexp.MustCompile("/(reserve|locks/(journal|paths)|journal/.*)$")
	changes := map[string]func(root, d fsx.Dir, name string) error{
		"gone":            func(root, d fsx.Dir, name string) error { return nil },
		"a hard link":     func(root, d fsx.Dir, name string) error { return root.Link("victim.txt", d, name) },
		"a symbolic link": func(root, d fsx.Dir, name string) error { return d.Symlink("../victim.txt", name) },
		"a directory":     func(root, d fsx.Dir, name string) error { return d.Mkdir(name, 0o700) },
		"empty":           func(root, d fsx.Dir, name string) error { replaceBy(d, name, "\n"); return nil },
		"garbage":         func(root, d fsx.Dir, name string) error { replaceBy(d, name, longText); return nil },
		"long":            func(root, d fsx.Dir, name string) error { replaceBy(d, name, strings.Repeat("[", 2<<20)); return nil },
	}
	n := 0
	for p, content := range fs.Tree() {
		if content == "/" || !strings.HasPrefix(p, rw.StateDirName+"/") {
			continue
		}
		for what, change := range changes {
			n++
			disk := fs.Crash(0, simfs.None)
			root := disk.Foreign()
			dir := root
			parts := strings.Split(p, "/")
			for _, part := range parts[:len(parts)-1] {
				dir = must(dir.OpenDir(part))(t)
			}
			name := parts[len(parts)-1]
			noErr(t, dir.Remove(name))
			noErr(t, change(root, dir, name))
			s, err := rw.OpenSim(disk, nil, rw.Sim{Nonce: "0002"})
			errs := []error{err}
			if err == nil {
				errs = calls(s, n)
			}
			for _, of := range []error{rw.ErrIsADirectory, rw.ErrNotADirectory, rw.ErrNotARegularFile} { // a path of the caller
				expect(t, !errors.Is(errs[0], of), "%s is %s: open: %v", p, what, errs[0])
			}
			for i, err := range errs {
				expect(t, !errors.Is(err, rw.ErrInternal), "%s is %s: call %d: %v (%v)", p, what, i, err, errors.Unwrap(err))
			}
			expect(t, what != "a hard link" || !inPlace.MatchString(p) || errors.Is(errs[0], rw.ErrBadStateDir), "%s is %s: open: %v", p, what, errs[0])
			equal(t, disk.Tree()["victim.txt"], victim, p, " is ", what, ": the file of the user")
		}
	}
	expect(t, n > 100, "only %d cases", n)
}

// TestOpenBesideAStoppedRecovery: a process is stopped at each operation of an Open, or of a
// write, that completes the work of a dead writer. Another process then opens the store: it
// does not fail and does not wait for long. A path that the stopped process holds is
// busy, and the error names that process; other paths can be written. While the stopped
// process recovers, no other one does. When it continues, everything that was committed exists.
func TestOpenBesideAStoppedRecovery(t *testing.T) {
	t.Parallel()
	for name, least := range map[string]int{"opens": 100, "writes": 30} {
		at, step, alone := 0, stride(3), 0
		for at = phase(step); besideStoppedRecovery(t, name, at, &alone); at += step {
		}
		expect(t, at >= least && (name != "opens" || alone != 0), "%s: %d operations only, %d of them with the lock of recovery", name, at, alone)
	}
}

// leftUnpublished is a disk on which a process died between the row of a commit
// and its first file.
func leftUnpublished(t *testing.T) *simfs.FS {
	t.Helper()
	fs := simfs.New()
	dead := fs.NewProcess()
	s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001", Process: dead}))(t)
	noErr(t, do(put("a.txt", longText, rw.ModeCreate), put("b.txt", "b", rw.ModeCreate))(s))
	fs.Before(func(op simfs.Op) {
		if op.Kind == "exchange" {
			dead.Kill()
		}
	})
	require(t, together(put("a.txt", otherText, rw.ModeOverwrite), put("b.txt", longText, rw.ModeOverwrite), put("new.txt", longText, rw.ModeCreate))(s) != nil,
		"the process did not die")
	fs.Before(nil)
	return fs
}

// TestOpenWaitsForItsContextSweep: whatever lock a stopped process holds, Open beside it
// waits no longer than its context. The time limit for locks is an hour here.
func TestOpenWaitsForItsContextSweep(t *testing.T) {
	step := stride(23)
	for at, stopped := phase(step), true; stopped; at += step {
		fs := leftUnpublished(t)
		first, ended, reached := stoppedOpening(t, fs, at)
		stopped = reached
		ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
		s, err := rw.OpenSimWithin(ctx, fs, &rw.Options{LockTimeout: time.Hour}, rw.Sim{Nonce: "0003", Process: fs.NewProcess(), LockWait: 20 * time.Millisecond})
		cancel()
		first.Continue()
		if stopped {
			noErr(t, <-ended)
		}
		if err == nil {
			noErr(t, s.Close(background))
		}
	}
}

// stoppedOpening starts a process that opens the store and closes it again, and stops it
// at one of its operations. stopped is false if it has fewer; it has ended then.
func stoppedOpening(t *testing.T, fs *simfs.FS, at int) (first *simfs.Process, ended chan error, stopped bool) {
	t.Helper()
	first = fs.NewProcess()
	ended, stopped = stoppedAt(t, first, at, func() error {
		s, err := rw.OpenSim(fs, nil, rw.Sim{Nonce: "0002", Process: first})
		if err == nil {
			err = s.Close(background)
		}
		return err
	})
	return first, ended, stopped
}

// stoppedWriting is stoppedOpening for a process that has the store open, and writes one
// of the files that the dead writer has left.
func stoppedWriting(t *testing.T, fs *simfs.FS, at int) (first *simfs.Process, ended chan error, stopped bool) {
	t.Helper()
	first = fs.NewProcess()
	s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0002", Process: first, Unrecovered: true}))(t)
	ended, stopped = stoppedAt(t, first, at, func() error {
		err := do(put("b.txt", otherText, rw.ModeOverwrite))(s)
		return errors.Join(err, s.Close(background))
	})
	return first, ended, stopped
}

func stoppedAt(t *testing.T, p *simfs.Process, at int, run func() error) (ended chan error, stopped bool) {
	t.Helper()
	reached := p.PauseAt(at)
	ended = make(chan error, 1)
	go func() { ended <- run() }()
	select {
	case <-reached:
		return ended, true
	case err := <-ended:
		noErr(t, err)
		return ended, false
	}
}

// recovers reports whether a process has the lock of recovery.
func recovers(t *testing.T, fs *simfs.FS) bool {
	t.Helper()
	state := must(fs.NewProcess().Root().OpenDir(rw.StateDirName))(t)
	locks := must(lock.Open(must(state.OpenDir("locks"))(t), "paths", lock.Owner{}))(t)
	defer locks.Close()
	unlock, err := locks.Names(background, 0, "test", "recovery")
	if err == nil {
		unlock()
	}
	return err != nil
}

func besideStoppedRecovery(t *testing.T, name string, at int, alone *int) bool {
	t.Helper()
	fs := leftUnpublished(t)
	start := stoppedOpening
	if name == "writes" {
		start = stoppedWriting
	}
	first, ended, stopped := start(t, fs, at)
	const wait = 3 * time.Millisecond
	began := time.Now()
	two, err := rw.OpenSim(fs, &rw.Options{LockTimeout: wait}, rw.Sim{Nonce: "0003", Process: fs.NewProcess(), LockWait: wait})
	took := time.Since(began)
	expect(t, took <= 5*time.Second, "stopped at %d: Open took %s", at, took)
	if errors.Is(err, rw.ErrLockTimeout) && holderOf(err) == 0 { // the lock of the journal, which names no process
		first.Continue()
		noErr(t, <-ended)
		return stopped
	}
	noErr(t, err, "stopped at ", at)
	if recovers(t, fs) {
		*alone++
		r := two.Recovery()
		expect(t, len(r.Finished) == 0 && r.Swept <= 0, "stopped at %d: a second process recovers: %+v", at, r)
	}
	want := map[string]string{"a.txt": otherText, "new.txt": longText, "beside.txt": ""}
	for path := range want {
		text := "written by the other one\n"
		_, err := two.SafeWrite(background, rw.SafeWriteRequest{Path: path, Content: []byte(text), Mode: rw.ModeOverwrite, AllowShrink: true})
		switch held := holderOf(err); {
		case err == nil:
			want[path] = text
		case path == "beside.txt" || !errors.Is(err, rw.ErrIOBusy) && !errors.Is(err, rw.ErrLockTimeout):
			t.Errorf("stopped at %d: %s: %v", at, path, err)
		case errors.Is(err, rw.ErrIOBusy) && held == 0:
			t.Errorf("stopped at %d: %s is busy, and no holder is named", at, path)
		}
	}
	first.Continue()
	if stopped {
		noErr(t, <-ended)
	}
	noErr(t, two.Close(background))
	s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0004"}))(t)
	for path, text := range want {
		equal(t, fs.Tree()[path], text, "stopped at ", at, ": ", path, " holds")
	}
	r := s.Recovery()
	expect(t, len(r.Conflicts) == 0, "stopped at %d: conflicts %v", at, r.Conflicts)
	check(t, s, true)
	return stopped
}

// holderOf returns the process that an error names, or 0 for none.
func holderOf(err error) int {
	var e *rw.Error
	if !errors.As(err, &e) {
		return 0
	}
	holder, _ := e.Context["holder"].(map[string]any)
	pid, _ := holder["pid"].(int)
	return pid
}

// TestOpenWithinItsContext: Open waits no longer than its context allows for the
// recovery lock of a process that was stopped, and does not fail for it. The files that
// the process recovers are busy, and the others are not.
func TestOpenWithinItsContext(t *testing.T) {
	fs := leftUnpublished(t)
	first, stopped := fs.NewProcess(), make(chan struct{})
	fs.Before(func(op simfs.Op) {
		if op.Kind == "exchange" {
			close(stopped)
			fs.Before(nil)
			first.PauseAt(0)
		}
	})
	ended := make(chan error, 1)
	go func() {
		_, err := rw.OpenSim(fs, nil, rw.Sim{Nonce: "0002", Process: first})
		ended <- err
	}()
	<-stopped
	ctx, cancel := context.WithTimeout(background, 50*time.Millisecond)
	defer cancel()
	s := must(rw.OpenSimWithin(ctx, fs, &rw.Options{LockTimeout: time.Hour}, rw.Sim{Nonce: "0003", Process: fs.NewProcess()}))(t)
	equal(t, s.Recovery().Pending, 1, "commits are pending")
	const wait = 3 * time.Millisecond
	s = must(rw.OpenSim(fs, &rw.Options{LockTimeout: wait}, rw.Sim{Nonce: "0004", Process: fs.NewProcess()}))(t)
	noErr(t, do(put("beside.txt", longText, rw.ModeCreate))(s))
	for _, path := range []string{"a.txt", "b.txt", "new.txt"} {
		err := do(put(path, "text", rw.ModeOverwrite))(s)
		expect(t, errors.Is(err, rw.ErrIOBusy) && holderOf(err) > 0, "%s: %v", path, err)
	}
	first.Continue()
	noErr(t, <-ended)
}

// TestOpenWaitsOnceForTheStateLock: a process was stopped with the lock of the small files
// of the state directory. Open needs it several times, and waits for it once, no longer than
// its context allows.
func TestOpenWaitsOnceForTheStateLock(t *testing.T) {
	dir := workspace(t)
	noErr(t, open(t, dir, nil).Close(background))
	locks := must(lock.Open(must(fsx.OpenRoot(filepath.Join(dir, rw.StateDirName, "locks")))(t), "paths", lock.Owner{}))(t)
	defer locks.Close()
	must(locks.Names(background, time.Second, "test", "state"))(t)
	const wait = 300 * time.Millisecond
	began := time.Now()
	must(rw.Open(background, dir, &rw.Options{LockTimeout: wait}))(t)
	took := time.Since(began)
	expect(t, took <= 4*wait, "Open took %s", took)
	ctx, cancel := context.WithTimeout(background, wait)
	defer cancel()
	must(rw.Open(ctx, dir, &rw.Options{LockTimeout: time.Hour}))(t)
}

// TestCloseBesideAStoppedProcess: a process was stopped with the lock of the small files of
// the state directory. Close succeeds without the caches that it would have saved.
func TestCloseBesideAStoppedProcess(t *testing.T) {
	dir := workspace(t)
	s := must(rw.Open(background, dir, &rw.Options{LockTimeout: 100 * time.Millisecond}))(t)
	locks := must(lock.Open(must(fsx.OpenRoot(filepath.Join(dir, rw.StateDirName, "locks")))(t), "paths", lock.Owner{}))(t)
	unlock := must(locks.Names(background, time.Second, "test", "state"))(t)
	write(t, s, "a.txt", "text", rw.ModeCreate)
	noErr(t, s.Close(background))
	unlock()
	noErr(t, locks.Close())
	s = open(t, dir, nil)
	check(t, s, true)
	equal(t, len(versionsOf(t, s, "a.txt")), 1, "versions")
}

// The scenario C10 of the benchmark of record, bench/record: power cuts on the
// simulated file system. It is a test of this package because only its tests
// can open a Store there. The benchmark runs it with RW_RECORD set to the file
// that gets the counts, RW_RECORD_TRIALS and RW_RECORD_SEED.

// crashCounts are what one arm came to.
type crashCounts struct {
	Arm         string `json:"arm"`
	Trials      int    `json:"trials"`
	Faults      int    `json:"faults"` // the agent saw its call fail, or an acknowledged result does not exist
	Right       int    `json:"right"`  // of those: the file is as it should be in the end
	Lost        int    `json:"lost"`
	Broken      int    `json:"broken"` // right after the restart
	Calls       int    `json:"calls"`
	Tries       int    `json:"tries"`
	Answered    int    `json:"answered"`    // trials in which the power went after the answer
	AnswerLost  int    `json:"answer_lost"` // of those
	Torn        int    `json:"torn"`        // of the others: neither old nor new
	LeftOver    int    `json:"left_over"`   // files that no call requested
	Unexplained int    `json:"unexplained"` // stores in which Check found a problem
	Points      int    `json:"points"`      // operations of the longest call
	FlushesDir  bool   `json:"flushes_dir"` // the arm flushes directories
}

// crashArm writes on a simulated disk as one kind of tool does.
type crashArm interface {
	// put makes a call; false when it was not answered with success.
	put(deed, path, text string) bool
	// problems returns the problems that the tool itself reports.
	problems() int
}

// plainArm is a tool without a store.
type plainArm struct {
	root      fsx.Dir
	defensive bool
}

func (a plainArm) problems() int { return 0 }

func (a plainArm) put(deed, path, text string) bool {
	dir, name, err := a.parent(path)
	if err != nil {
		return false
	}
	switch {
	case !a.defensive:
		err = naivePut(dir, name, deed == "append", text)
	case deed == "append":
		old, rerr := readSim(dir, name)
		if err = rerr; err == nil {
			err = renamePut(dir, name, old+text)
		}
	default:
		err = renamePut(dir, name, text)
	}
	return err == nil
}

func (a plainArm) parent(path string) (fsx.Dir, string, error) {
	dir, name := a.root, path
	if sub, rest, deep := strings.Cut(path, "/"); deep {
		if err := a.root.Mkdir(sub, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, "", err
		}
		var err error
		if dir, err = a.root.OpenDir(sub); err != nil {
			return nil, "", err
		}
		name = rest
	}
	return dir, name, nil
}

// naivePut opens, empties, writes, closes.
func naivePut(dir fsx.Dir, name string, extend bool, text string) error {
	flag := fsx.Write | fsx.Create
	if extend {
		flag |= fsx.Append
	}
	f, err := dir.Open(name, flag, 0o666)
	if err != nil {
		return err
	}
	if extend {
		_, err = f.Append([]byte(text))
	} else if err = f.Truncate(0); err == nil {
		_, err = f.Write([]byte(text))
	}
	return errors.Join(err, f.Close())
}

// renamePut writes a temporary file, flushes it, renames it and flushes the
// directory; as most such code does, it leaves the parents of a directory that
// was made alone.
func renamePut(dir fsx.Dir, name, text string) error {
	temp := ".tmp-" + name
	f, err := dir.Open(temp, fsx.Write|fsx.Create, 0o666)
	if err != nil {
		return err
	}
	if err = f.Truncate(0); err == nil {
		_, err = f.Write([]byte(text))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := dir.Rename(temp, dir, name); err != nil {
		return err
	}
	return dir.Sync()
}

func readSim(dir fsx.Dir, name string) (string, error) {
	f, err := dir.Open(name, fsx.Read, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(f)
	return b.String(), err
}

// storeArm is a Store, used through its tools.
type storeArm struct {
	store *rw.Store
	box   *toolbox.Toolbox
}

func (a storeArm) put(deed, path, text string) bool {
	args, err := json.Marshal(map[string]any{"path": path, "content": text, "mode": deed, "allow_shrink": deed == "overwrite", "idempotency_key": path + deed})
	if err != nil {
		return false
	}
	return a.box.Call(context.Background(), "rw_safe_write", args, nil).OK
}

func (a storeArm) problems() int {
	found, err := a.store.Check(context.Background(), admin.CheckRequest{Deep: true})
	if err != nil {
		return 1
	}
	return len(found.Problems) + found.Counters.Staged
}

// carelessArm is the store without flushes. It is in no table: it shows that the store
// can lose data here, too.
const carelessArm = "resilientwrite at off"

var crashArms = []string{"naive", "defensive", "resilientwrite"}

// openCrashArm opens the tool on a disk, in the state after a boot.
func openCrashArm(arm string, disk *simfs.FS, boot int) (crashArm, error) {
	level := rw.SyncFull
	switch arm {
	case "naive", "defensive":
		return plainArm{disk.Root(), arm == "defensive"}, nil
	case carelessArm:
		level = rw.SyncOff
	}
	s, err := rw.OpenSim(disk, &rw.Options{Sync: level}, rw.Sim{Nonce: fmt.Sprintf("%04d", boot), Manual: true})
	if err != nil {
		return nil, fmt.Errorf("open: %w (%v)", err, errors.Unwrap(err))
	}
	return storeArm{s, toolbox.New(s, &toolbox.Options{Caller: "agent", Replies: toolbox.FullReplies, CallsPerSecond: -1})}, nil
}

// crashTrial is one call, one power failure and one repetition.
type crashTrial struct {
	deed, path, old, text, wanted string
	op                            int // before which the power fails; after the last one the answer is lost; -1: after the answer
	loss                          simfs.Loss
	seed                          uint64
}

var crashDeeds = []string{"create", "overwrite", "append"}

// crashTrialOf picks the nth trial: deeds and losses alternate, every other trial fails
// after the answer, the others before each operation in turn, or after the last one and
// before the answer.
func crashTrialOf(seed uint64, n int, operations map[string]int) crashTrial {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	text := func() string {
		return strings.Repeat(fmt.Sprintf("%016x of the text\n", rng.Uint64()), 1+rng.IntN(180))
	}
	c := crashTrial{deed: crashDeeds[n%3], path: "a.txt", old: text(), text: text(), op: -1, seed: rng.Uint64()}
	c.loss = []simfs.Loss{simfs.All, simfs.Some, simfs.None, simfs.Some}[n/6%4]
	if n/3%2 == 1 {
		c.op = n / 6 % (operations[c.deed] + 1)
	}
	c.wanted = c.text
	switch c.deed {
	case "create":
		c.path, c.old = "dir/a.txt", ""
	case "append":
		c.wanted = c.old + c.text
	}
	return c
}

// disk returns a disk with content that was written long ago, and the tool on it.
func (c crashTrial) disk(arm string) (*simfs.FS, crashArm, error) {
	disk := simfs.New()
	disk.Ordered = c.seed%2 == 1
	disk.WriteFile("beside.txt", []byte("not touched\n"), 0o644)
	if c.old != "" {
		disk.WriteFile(c.path, []byte(c.old), 0o644)
	}
	a, err := openCrashArm(arm, disk, 1)
	return disk, a, err
}

// countOperations returns the number of operations of each deed.
func countOperations(arm string) (map[string]int, error) {
	out := map[string]int{}
	for n, deed := range crashDeeds {
		c := crashTrialOf(1, n, nil)
		disk, a, err := c.disk(arm)
		if err != nil {
			return nil, err
		}
		before := disk.Muts()
		if !a.put(c.deed, c.path, c.text) {
			return nil, fmt.Errorf("%s %s fails by itself", arm, deed)
		}
		out[deed] = disk.Muts() - before
	}
	return out, nil
}

// run makes the trial and adds its result.
func (c crashTrial) run(arm string, into *crashCounts) error {
	disk, a, err := c.disk(arm)
	if err != nil {
		return err
	}
	if c.op >= 0 {
		disk.StopAt(c.op)
	}
	answered := a.put(c.deed, c.path, c.text) && c.op < 0
	after := disk.Crash(c.seed, c.loss) // the power is gone
	if a, err = openCrashArm(arm, after, 2); err != nil {
		return err
	}
	found, there := after.ReadFile(c.path)
	isNew, isOld := there && string(found) == c.wanted, there && string(found) == c.old || !there && c.old == ""
	into.Trials++
	into.Calls++
	switch {
	case answered:
		into.Answered++
		into.AnswerLost += count(!isNew)
	case !isOld && !isNew:
		into.Torn++
	}
	broken := answered && !isNew || !answered && !isOld && !isNew
	into.Broken += count(broken)
	into.Unexplained += count(a.problems() > 0)
	into.LeftOver += c.strays(after)
	lost := broken
	if !answered { // the agent knows that it got no answer, and sends the call again
		into.Calls++
		into.Tries += 2
		into.Faults++
		done := a.put(c.deed, c.path, c.text)
		found, _ := after.ReadFile(c.path)
		lost = string(found) != c.wanted && (done || string(found) != c.old)
		into.Right += count(done && !lost)
	} else if lost {
		into.Faults++ // and the agent does not learn of it
	}
	into.Lost += count(lost)
	return nil
}

func (c crashTrial) strays(disk *simfs.FS) int {
	n := 0
	for path, content := range disk.Tree() {
		if content != "/" && !ofStore(path) && path != c.path && path != "beside.txt" {
			n++
		}
	}
	return n
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// TestRecordMachineCrash makes the power fail before every operation of a write, and
// after its answer: acknowledged content survives, everything else is old or new, and a
// repeated call completes the file. The other two ways to write show that the oracle
// can fail.
func TestRecordMachineCrash(t *testing.T) {
	t.Parallel()
	trials, seed := number("RW_RECORD_TRIALS", 150), uint64(number("RW_RECORD_SEED", 1))
	var all []*crashCounts
	for _, arm := range append(crashArms[:len(crashArms):len(crashArms)], carelessArm) {
		operations := must(countOperations(arm))(t)
		got := &crashCounts{Arm: arm, FlushesDir: arm != "naive"}
		for _, n := range operations {
			got.Points = max(got.Points, n)
		}
		for n := range trials {
			c := crashTrialOf(seed, n, operations)
			noErr(t, c.run(arm, got), arm, ", trial ", n, " (", c.deed, ")")
		}
		t.Logf("%+v", *got)
		if arm == carelessArm {
			expect(t, got.AnswerLost != 0 && got.Lost != 0, "a store that flushes nothing loses nothing: %+v", *got)
			continue
		}
		all = append(all, got)
	}
	for _, got := range all[:2] {
		expect(t, got.AnswerLost != 0 && got.Lost != 0, "%s loses nothing: the oracle sees nothing: %+v", got.Arm, *got)
	}
	expect(t, all[0].Torn != 0, "naive tears nothing: %+v", *all[0])
	store := all[2]
	expect(t, store.Lost+store.Broken+store.LeftOver+store.Unexplained <= 0 && store.Right == store.Faults && store.Answered != 0,
		"the store: %+v", *store)
	if name := os.Getenv("RW_RECORD"); name != "" {
		data, err := json.Marshal(all)
		if err == nil {
			err = os.WriteFile(name, data, 0o600)
		}
		noErr(t, err)
	}
}

// TestDurableWriteOverOneAtOff: a write at a durable level over a file that was written
// at the level off flushes the name and the bytes of that file first. A power failure
// then removes at most its own name, which Open restores, and the version before is
// complete. The slots of the writer are made before: making them would flush those
// names as well.
func TestDurableWriteOverOneAtOff(t *testing.T) {
	for _, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncJournal} {
		for _, off := range []string{"living", "closed"} {
			for seed := range uint64(8) {
				fs := simfs.New()
				s := must(rw.OpenSim(fs, &rw.Options{Sync: level}, rw.Sim{Nonce: "0001"}))(t)
				write(t, s, "first.txt", "makes the slots", rw.ModeCreate)
				noErr(t, s.Sync(background))
				o := must(rw.OpenSim(fs, &rw.Options{Sync: rw.SyncOff}, rw.Sim{Nonce: "0002"}))(t)
				write(t, o, "a.txt", "one", rw.ModeCreate)
				write(t, o, "a.txt", "two", rw.ModeOverwrite)
				write(t, o, "b.txt", "its row says that a.txt is settled", rw.ModeCreate)
				if off == "closed" {
					noErr(t, o.Close(background))
				}
				write(t, s, "a.txt", "three", rw.ModeOverwrite)
				disk := fs.Crash(seed, []simfs.Loss{simfs.All, simfs.Some}[seed%2])
				s = must(rw.OpenSim(disk, &rw.Options{Sync: level}, rw.Sim{Nonce: "0003"}))(t)
				r := s.Recovery()
				expect(t, len(r.Conflicts) == 0, "%s, %s, %d: %+v", level, off, seed, r.Conflicts)
				got, _ := disk.ReadFile("a.txt")
				expect(t, string(got) == "three", "%s, %s, %d: the file holds %q", level, off, seed, got)
				must(s.Restore(background, rw.RestoreRequest{Path: "a.txt", SHA256: digest(hash("two"))}))(t, level, ", ", off, ", ", seed)
				noErr(t, s.Close(background))
			}
		}
	}
}

// TestDurableRepliesAboutOthers: what a process did at a lower level is durable once a call
// at the level full has found it and acknowledged it, and so are the directories that the
// process made and the call uses.
func TestDurableRepliesAboutOthers(t *testing.T) {
	deep := put("d/e/a.txt", "one", rw.ModeOverwrite)
	n := byte(0)
	calls := map[string]func(*rw.Store) error{
		"key": keyed(deep), "unchanged": do(deep),
		"chunk": func(s *rw.Store) error {
			return errorOf(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "deck", Content: []byte("text")}))
		},
		"scratch": func(s *rw.Store) error {
			n++
			return errorOf(s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte{n}}))
		},
		"checkpoint": func(s *rw.Store) error {
			return errorOf(s.Checkpoint(background, rw.CheckpointRequest{Name: "c", Data: []byte("1")}))
		},
	}
	for name, call := range calls {
		for i, level := range []rw.SyncLevel{rw.SyncOff, rw.SyncOff, rw.SyncJournal} {
			for seed := range uint64(6) {
				fs := simfs.New()
				s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001"}))(t)
				write(t, s, "first.txt", "makes the slots", rw.ModeCreate)
				o := must(rw.OpenSim(fs, &rw.Options{Sync: level}, rw.Sim{Nonce: "0002", Manual: true}))(t)
				noErr(t, call(o))
				if i == 0 {
					noErr(t, o.Close(background))
				}
				noErr(t, call(s))
				before := fs.Tree()
				disk := fs.Crash(seed, []simfs.Loss{simfs.All, simfs.Some}[seed%2])
				after := disk.Tree()
				for p, text := range before {
					if now, there := after[p]; ofStore(p) { // of objects, only the second one is sure to be whole
						object := slices.Contains([]string{"chunks", "scratch", "checkpoints"}, strings.Split(p+"/", "/")[1])
						expect(t, there || !object, "%s, %s, %d: %s is lost", name, level, seed, p)
					} else {
						expect(t, there && now == text, "%s, %s, %d: %s holds %q", name, level, seed, p, now)
					}
				}
			}
		}
	}
}

// TestScanKeepsWhatOthersHaveNotFlushed: a version that a process at the level off has put
// into history is durable before the row of a scan that needs it.
func TestScanKeepsWhatOthersHaveNotFlushed(t *testing.T) {
	for seed := range uint64(4) {
		fs := simfs.New()
		s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001"}))(t)
		write(t, s, "first.txt", "makes the slots", rw.ModeCreate)
		must(s.Scan(background, around.ScanRequest{}))(t)
		o := must(rw.OpenSim(fs, &rw.Options{Sync: rw.SyncOff}, rw.Sim{Nonce: "0002"}))(t)
		write(t, o, "b.txt", longText, rw.ModeCreate)
		write(t, o, "b.txt", otherText, rw.ModeOverwrite)
		noErr(t, o.Close(background))
		fs.WriteFile("a.txt", []byte(longText), 0o644)
		must(s.Scan(background, around.ScanRequest{}))(t)
		fs.Remove("a.txt")
		gone := must(s.Scan(background, around.ScanRequest{}))(t)
		disk := fs.Crash(seed, []simfs.Loss{simfs.All, simfs.Some}[seed%2])
		s = must(rw.OpenSim(disk, nil, rw.Sim{Nonce: "0003"}))(t)
		must(s.Undo(background, rw.UndoRequest{Group: gone.Group}))(t)
		got, _ := disk.ReadFile("a.txt")
		mustEqual(t, string(got), longText, "seed ", seed)
	}
}

// TestRepeatedCallFinishesForTheDead: an undo whose process died is repeated, with its
// idempotency key, by another process. It names no paths, and its files are in place when
// it is acknowledged.
func TestRepeatedCallFinishesForTheDead(t *testing.T) {
	undo := func(s *rw.Store) error {
		return errorOf(s.Undo(background, rw.UndoRequest{Call: rw.Call{IdempotencyKey: "once"}}))
	}
	for _, level := range allLevels {
		for n := 0; ; n++ {
			fs := simfs.New()
			victim, other := fs.NewProcess(), fs.NewProcess()
			s := must(rw.OpenSim(fs, &rw.Options{Sync: level}, rw.Sim{Nonce: "0002", Process: other}))(t)
			write(t, s, "a.txt", "one", rw.ModeCreate)
			write(t, s, "a.txt", "two", rw.ModeOverwrite)
			noErr(t, s.Sync(background))
			dying := must(rw.OpenSim(fs, &rw.Options{Sync: level}, rw.Sim{Nonce: "0001", Process: victim}))(t)
			victim.StopAt(n)
			first := undo(dying)
			victim.Kill()
			noErr(t, undo(s), level, ", operation ", n)
			got, _ := fs.ReadFile("a.txt")
			mustEqual(t, string(got), "one", level, ", operation ", n)
			if first == nil {
				break
			}
		}
	}
}

// TestSettledSweep: settled has one meaning. After a power failure before any
// operation, no row reports a commit as settled whose files are not under their names:
// recovery does not examine such a commit. Other commits write their rows between the
// row of a commit and its publication.
func TestSettledSweep(t *testing.T) {
	for _, level := range allLevels[:2] {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			fs := simfs.New()
			fs.Ordered = level == rw.SyncJournal
			s := must(rw.OpenSim(fs, &rw.Options{Sync: level}, rw.Sim{Manual: true}))(t)
			looks, settled := 0, 0
			look := func() {
				looks++
				for seed := range someLosses(60, looks) {
					settled = max(settled, settledOn(t, fs.Crash(seed, simfs.Some)))
				}
			}
			beside, busy := 0, false
			fs.Before(func(op simfs.Op) {
				if !strings.Contains(op.Path, "/history/") {
					look()
				}
				if op.Kind != "exchange" || busy {
					return
				}
				busy = true // the row of another commit comes before this one is published
				beside++
				err := do(put(fmt.Sprint("beside", beside), "beside", rw.ModeCreate))(s)
				expect(t, err == nil, "%v", err)
				busy = false
			})
			for i := range 3 {
				for _, path := range []string{"a.txt", "b.txt", "a.txt", "x/c.txt"} {
					noErr(t, do(put(path, fmt.Sprint(longText, path, i), rw.ModeOverwrite))(s))
				}
				noErr(t, together(put("a.txt", fmt.Sprint("all of them ", i, longText), rw.ModeOverwrite), put(fmt.Sprint("new", i), "new", rw.ModeCreate))(s))
				must(s.Delete(background, rw.DeleteRequest{Path: "b.txt"}))(t)
				noErr(t, s.Sync(background))
			}
			fs.Before(nil)
			look()
			expect(t, settled >= 10 && looks >= 100, "%d commits were recorded as settled, on disks of %d moments", settled, looks)
		})
	}
}

// settledOn fails where a commit that a row calls settled is not published on
// the disk. It returns how many are called so.
func settledOn(t *testing.T, disk *simfs.FS) (n int) {
	t.Helper()
	upto, commits := map[string]uint64{}, []journal.Record{}
	for path, content := range disk.Tree() {
		if !strings.HasPrefix(path, rw.StateDirName+"/journal/") || !strings.HasSuffix(path, ".jsonl") {
			continue
		}
		for _, line := range strings.Split(content, "\n") {
			var rec journal.Record
			if json.Unmarshal(bytes.Trim([]byte(line), "\x00"), &rec) != nil {
				continue
			}
			upto[rec.Writer] = max(upto[rec.Writer], rec.Settled)
			if rec.Kind == journal.KindCommit {
				commits = append(commits, rec)
			}
		}
	}
	state, err := disk.Foreign().OpenDir(rw.StateDirName)
	if err != nil {
		return 0
	}
	staging, err := state.OpenDir("staging")
	if err != nil {
		return 0
	}
	for _, c := range commits {
		if c.Seq > upto[c.Writer] {
			continue
		}
		n++
		for _, m := range c.Muts {
			_, ino, _ := publish.ParseSlot(m.Slot)
			st, err := staging.Lstat(m.Slot)
			expect(t, err != nil || st.Ino != ino, "a row calls commit %d settled, and %s is not published", c.Seq, m.Path)
		}
	}
	return n
}

// TestLateSaves: another program has a file open for writing while a call replaces or
// removes it, and writes to it afterwards. The content that it writes is a version,
// whether the store is closed or its process dies, and the slot is removed when the
// program has closed the file.
func TestLateSaves(t *testing.T) {
	t.Parallel()
	for _, x := range attacks {
		if x.inside || x.before == nil && x.disk == nil {
			continue
		}
		if strings.HasPrefix(x.name, "move") {
			continue // the file itself is moved; the replaced one is kept before
		}
		if strings.HasSuffix(x.name, "plain rename") {
			continue // the file loses its last name at once
		}
		for _, level := range allLevels {
			for _, dies := range []bool{false, true} {
				t.Run(x.name+"/"+string(level), func(t *testing.T) {
					fs, _ := x.broken(t, level, 0)
					fs.Kill()
					x := x
					p := fs.NewProcess()
					x.sim.Process = p
					s, err := x.open(fs, level, "0003")
					noErr(t, err)
					before := files(fs)
					dir, name := fs.Foreign(), ""
					for path := range before {
						if _, stays := x.new[path]; !stays || before[path] != x.new[path] {
							name = path
						}
					}
					if over := x.new["d/b.txt"]; over != "" {
						name = "d/b.txt"
					}
					if d, base, below := strings.Cut(name, "/"); below {
						if dir, err = dir.OpenDir(d); err != nil {
							t.Fatal(err)
						}
						name = base
					}
					f, err := dir.Open(name, fsx.Read|fsx.Write, 0)
					noErr(t, err)
					noErr(t, x.run(s))
					s.Sync(background)
					f.WriteAt([]byte(humansText), 7)
					if dies {
						p.Kill()
						x.sim.Process = fs.NewProcess()
						if s, err = x.open(fs, level, "0004"); err != nil {
							t.Fatal(err)
						}
					}
					f.WriteAt([]byte("once more, "+humansText), 7)
					f.Close()
					do(put("later.txt", longText, rw.ModeCreate))(s)
					noErr(t, s.Close(background))
					if s, err = x.open(fs, level, "0005"); err != nil {
						t.Fatal(err)
					}
					expect(t, haveText(contents(fs, false), "once more, "+humansText), "what was written to %s late is lost", name)
					left, err := s.Unfinished()
					expect(t, err == nil && len(left) == 0, "slots %v are left: %v", left, err)
				})
			}
		}
	}
}

// TestVersionThatIsOpen: another program has a file open for writing that a call replaces.
// The version that it was then is in history, whatever that program writes after the reply.
func TestVersionThatIsOpen(t *testing.T) {
	for _, level := range allLevels {
		fs := simfs.New()
		fs.WriteFile("a.txt", []byte(longText), 0o644)
		s := must(rw.OpenSim(fs, &rw.Options{Sync: level}, rw.Sim{Nonce: "0001", Manual: true}))(t)
		f := must(fs.Foreign().Open("a.txt", fsx.Read|fsx.Write, 0))(t)
		noErr(t, do(put("a.txt", otherText, rw.ModeOverwrite))(s))
		f.WriteAt([]byte(humansText), 7)
		f.Close()
		noErr(t, s.Close(background))
		for _, text := range []string{longText, longText[:7] + humansText + longText[7+len(humansText):]} {
			expect(t, haveText(contents(fs, false), text), "%s: %.40q is lost", level, text)
		}
	}
}

// TestObjectThatIsChangedLate: a version is written to after it became an object, and cannot
// be kept again at once. Later calls of the same process keep it.
func TestObjectThatIsChangedLate(t *testing.T) {
	t.Parallel()
	fs := simfs.New()
	fs.WriteFile("a.txt", []byte(longText), 0o644)
	s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001", Beside: true}))(t)
	noErr(t, do(put("a.txt", otherText, rw.ModeOverwrite))(s))
	dir := fs.Foreign()
	for _, name := range []string{rw.StateDirName, "history", hash(longText)[:2]} {
		dir = must(dir.OpenDir(name))(t)
	}
	f := must(dir.Open(hash(longText), fsx.Read|fsx.Write, 0))(t)
	changed := longText[:7] + humansText + longText[7+len(humansText):]
	var failed atomic.Bool
	fs.Inject(func(op simfs.Op) (fault simfs.Fault) {
		if (op.Kind == "rename" || op.Kind == "create") && strings.Contains(op.Path+op.To, "/"+hash(changed)) {
			failed.Store(true)
			fault.Err = syscall.ENOSPC
		}
		return fault
	})
	f.WriteAt([]byte(humansText), 7)
	f.Close()
	for range 1000 {
		if failed.Load() {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	fs.Inject(nil)
	for i := range 3 {
		noErr(t, do(put(fmt.Sprint("later", i), otherText, rw.ModeCreate))(s))
	}
	left := must(s.Unfinished())(t)
	expect(t, haveText(contents(fs, false), changed), "what was written late is lost")
	length(t, left, 0, "slots")
	noErr(t, s.Close(background))
}

// losses are the ways in which a running store loses its directories, with the reason
// that the error must give.
var losses = []struct {
	name, want string
	stateDir   bool // the state directory is elsewhere
	lose       func(t *testing.T, dir, state string)
}{
	{"state removed", "state_dir_gone", false, func(t *testing.T, _, state string) { noErr(t, os.RemoveAll(state)) }},
	{"state elsewhere removed", "state_dir_gone", true, func(t *testing.T, _, state string) { noErr(t, os.RemoveAll(state)) }},
	{"state moved", "state_dir_gone", false, func(t *testing.T, dir, state string) { noErr(t, os.Rename(state, dir+".moved")) }},
	{"state a file now", "state_dir_replaced", false, func(t *testing.T, dir, state string) {
		noErr(t, os.Rename(state, dir+".moved"))
		noErr(t, os.WriteFile(state, nil, 0o600))
	}},
	{"state replaced", "state_dir_replaced", false, func(t *testing.T, dir, state string) {
		noErr(t, os.Rename(state, dir+".moved"))
		write(t, open(t, dir, nil), "theirs.txt", "of the second store", rw.ModeCreate)
	}},
	{"state emptied", "state_dir_emptied", false, func(t *testing.T, _, state string) { emptyDir(t, state) }},
	{"state emptied and made again", "state_dir_emptied", false, func(t *testing.T, dir, state string) {
		emptyDir(t, state)
		write(t, open(t, dir, nil), "theirs.txt", "of the second store", rw.ModeCreate)
	}},
	{"journal replaced", "state_dir_emptied", false, func(t *testing.T, dir, state string) { replacePart(t, dir, state, "journal", true) }},
	{"journal made again", "state_dir_emptied", false, func(t *testing.T, dir, state string) { replacePart(t, dir, state, "journal", false) }},
	{"history replaced", "state_dir_emptied", false, func(t *testing.T, dir, state string) { replacePart(t, dir, state, "history", true) }},
	{"locks replaced", "state_dir_emptied", false, func(t *testing.T, dir, state string) { replacePart(t, dir, state, "locks", true) }},
	{"lock file replaced", "state_dir_emptied", false, func(t *testing.T, _, state string) {
		name := filepath.Join(state, "locks", "journal")
		data := must(os.ReadFile(name))(t)
		noErr(t, os.Remove(name))
		noErr(t, os.WriteFile(name, data, 0o600))
	}},
	{"workspace removed", "workspace_gone", false, func(t *testing.T, dir, _ string) { noErr(t, os.RemoveAll(dir)) }},
	{"workspace removed, state elsewhere", "workspace_gone", true, func(t *testing.T, dir, _ string) { noErr(t, os.RemoveAll(dir)) }},
	{"workspace made again", "workspace_gone", false, func(t *testing.T, dir, _ string) {
		noErr(t, os.RemoveAll(dir))
		noErr(t, os.Mkdir(dir, 0o755))
	}},
}

// replacePart moves a directory of the state directory away, and puts a copy or an empty one
// in its place.
func replacePart(t *testing.T, dir, state, part string, filled bool) {
	t.Helper()
	name, away := filepath.Join(state, part), dir+"."+part
	noErr(t, os.Rename(name, away))
	noErr(t, os.Mkdir(name, 0o700))
	if filled {
		noErr(t, os.CopyFS(name, os.DirFS(away)))
	}
}

func emptyDir(t *testing.T, dir string) {
	t.Helper()
	names := must(os.ReadDir(dir))(t)
	for _, n := range names {
		noErr(t, os.RemoveAll(filepath.Join(dir, n.Name())))
	}
}

// lostCalls are the calls that need the state directory. Those of the first
// list need the workspace as well.
func lostCalls(s *rw.Store) (writes, reads map[string]func() error) {
	writes = map[string]func() error{
		"create":    func() error { return errorOf(s.SafeWrite(background, put("new.txt", "x", rw.ModeCreate))) },
		"overwrite": func() error { return errorOf(s.SafeWrite(background, put("a.txt", "other", rw.ModeOverwrite))) },
		"append":    func() error { return errorOf(s.SafeWrite(background, put("a.txt", "+", rw.ModeAppend))) },
		"edit": func() error {
			return errorOf(s.Edit(background, rw.EditRequest{Path: "a.txt", Edits: []rw.EditOp{{Old: "one", New: "two"}}}))
		},
		"delete":          func() error { return errorOf(s.Delete(background, rw.DeleteRequest{Path: "a.txt"})) },
		"undo":            func() error { return errorOf(s.Undo(background, rw.UndoRequest{})) },
		"read of nothing": func() error { return errorOf(s.Read(background, rw.ReadRequest{Path: "nowhere.txt"})) },
	}
	reads = map[string]func() error{
		"chunk": func() error {
			return errorOf(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte("x")}))
		},
		"scratch":    func() error { return errorOf(s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte("raw")})) },
		"compact":    func() error { return errorOf(s.Admin().Compact(background, admin.CompactRequest{})) },
		"check":      func() error { return errorOf(s.Check(background, admin.CheckRequest{})) },
		"history":    func() error { return errorOf(s.History(background, rw.HistoryRequest{Path: "a.txt"})) },
		"tail":       func() error { return errorOf(s.JournalTail(background, rw.JournalTailRequest{})) },
		"draft":      func() error { return errorOf(s.DraftGet(background, rw.DraftGetRequest{DraftRef: "draft_0"})) },
		"checkpoint": func() error { return errorOf(s.CheckpointRead(background, rw.CheckpointReadRequest{Name: "none"})) },
	}
	return writes, reads
}

// TestALostStoreSaysSo: when the state directory or the workspace of a running store is
// removed, moved, emptied or replaced, every call that needs it reports the problem and
// the remedy, changes nothing, and so do all later calls; a second store created in its
// place is not disturbed.
func TestALostStoreSaysSo(t *testing.T) {
	testbed.SkipIf(t, runtime.GOOS == "windows", "directories that are open cannot be removed or renamed here")
	for _, l := range losses {
		t.Run(l.name, func(t *testing.T) {
			dir := workspace(t)
			state, opts := filepath.Join(dir, rw.StateDirName), &rw.Options{}
			if l.stateDir {
				state = filepath.Join(t.TempDir(), "state")
				opts.StateDir = state
			}
			s := open(t, dir, opts)
			write(t, s, "a.txt", "one\n", rw.ModeCreate)
			l.lose(t, dir, state)
			changing := []string{rw.StateDirName + "/locks"}
			if l.want == "state_dir_emptied" {
				changing = append(changing, rw.StateDirName+"/staging") // the directory is still the open one
			}
			parts := func() string { return described(t, dir, changing...) }
			before := parts()
			writes, reads := lostCalls(s)
			if l.stateDir && l.want == "workspace_gone" {
				reads = nil // the state is there
			}
			for _, calls := range []map[string]func() error{writes, reads} {
				for name, call := range calls {
					err := call()
					e := rw.AsError("", err)
					if !errors.Is(err, rw.ErrStorePoisoned) || e.Context["lost"] != l.want {
						t.Errorf("%s: %v %v (%v)", name, err, e, errors.Unwrap(err))
						continue
					}
					expect(t, e.Effect == rw.EffectNone && strings.Contains(e.Hint, "restart the server") && strings.Contains(e.Hint, "open it again"),
						"%s: effect %s, hint %q", name, e.Effect, e.Hint)
					text, _ := json.Marshal(e)
					expect(t, !strings.Contains(string(text), filepath.Dir(dir)), "%s: the error shows a path: %s", name, text)
				}
			}
			d, err := s.Describe(background, rw.DescribeRequest{})
			expect(t, err == nil && d.Poisoned, "describe: poisoned %v, %v", d.Poisoned, err)
			equal(t, parts(), before, "the lost store changed")
			noErr(t, s.Close(background))
		})
	}
}

// TestSlotsThatAreRemoved: a program that removes empty files removes slots, too.
func TestSlotsThatAreRemoved(t *testing.T) {
	s, dir := opened(t, nil)
	write(t, s, "a.txt", "one\n", rw.ModeCreate)
	emptyDir(t, statePath(dir, "staging"))
	e := rw.AsError("", do(put("a.txt", "two\n", rw.ModeOverwrite))(s))
	expect(t, e.Detail == rw.ErrStorePoisoned && e.Effect == rw.EffectNone && e.Context["lost"] == "state_dir_emptied", "%v %v", e, e.Context)
	noErr(t, s.Close(background))
	s = open(t, dir, nil)
	write(t, s, "a.txt", "two\n", rw.ModeOverwrite)
	check(t, s, true)
}

// restorations are the ways in which a segment of the journal is restored from a backup.
var restorations = map[string]func(t *testing.T, backup, segment string){
	"written over": func(t *testing.T, backup, segment string) {
		noErr(t, os.WriteFile(segment, must(os.ReadFile(backup))(t), 0o600))
	},
	"renamed over": func(t *testing.T, backup, segment string) { noErr(t, os.Rename(backup, segment)) },
	"renamed over one that is linked": func(t *testing.T, backup, segment string) {
		noErr(t, os.Link(segment, backup+".link"))
		noErr(t, os.Rename(backup, segment))
	},
	"put in the place of one that was moved": func(t *testing.T, backup, segment string) {
		noErr(t, os.Rename(segment, backup+".moved"))
		noErr(t, os.Rename(backup, segment))
	},
}

// TestRestoredJournal: if a backup of the journal is restored under an open store, each
// later write is either refused or found by the next store. A write is refused only if the
// backup lacks rows that the open store knows.
func TestRestoredJournal(t *testing.T) {
	testbed.SkipIf(t, runtime.GOOS == "windows", "files that are open cannot be replaced here")
	for name, restore := range restorations {
		for _, older := range []bool{false, true} {
			for _, others := range []int{0, 1, 3} { // commits before the open store writes again
				t.Run(fmt.Sprintf("%s, older %v, %d commits of others", name, older, others), func(t *testing.T) {
					dir := workspace(t)
					segment := filepath.Join(dir, rw.StateDirName, "journal", "00000000000000000001.jsonl")
					backup := filepath.Join(t.TempDir(), "backup")
					s := open(t, dir, nil)
					write(t, s, "a.txt", "one\n", rw.ModeCreate)
					if older {
						noErr(t, os.WriteFile(backup, must(os.ReadFile(segment))(t), 0o600))
					}
					write(t, s, "b.txt", "two\n", rw.ModeCreate)
					if !older {
						noErr(t, os.WriteFile(backup, must(os.ReadFile(segment))(t), 0o600))
					}
					restore(t, backup, segment)
					var acknowledged []string
					for i := range others {
						path := fmt.Sprintf("other%d.txt", i)
						other := open(t, dir, nil)
						write(t, other, path, "theirs\n", rw.ModeCreate)
						noErr(t, other.Close(background))
						acknowledged = append(acknowledged, path)
					}
					_, err := s.SafeWrite(background, put("late.txt", "three\n", rw.ModeCreate))
					if older {
						e := rw.AsError("", err)
						expect(t, e != nil && e.Detail == rw.ErrStorePoisoned && e.Effect == rw.EffectNone && e.Context["lost"] == "state_dir_emptied", "a write to an older journal: %v", err)
					} else {
						noErr(t, err)
						acknowledged = append(acknowledged, "late.txt")
					}
					noErr(t, s.Close(background))
					next := open(t, dir, nil)
					for _, path := range acknowledged {
						h, err := next.History(background, rw.HistoryRequest{Path: path})
						expect(t, err == nil && len(h.Versions) == 1, "an acknowledged write of %s is lost: %v", path, err)
					}
				})
			}
		}
	}
}

// TestLossInTheMiddle: if the state directory disappears during a write, no row is
// written to its replacement. Up to the commit point nothing happened; after it no call
// reports success.
func TestLossInTheMiddle(t *testing.T) {
	testbed.SkipIf(t, runtime.GOOS == "windows", "directories that are open cannot be removed or renamed here")
	for _, c := range []struct {
		stage rw.Stage
		moved bool
		want  rw.Effect
	}{
		{rw.StageLock, true, rw.EffectNone}, {rw.StageRecord, true, rw.EffectNone}, {rw.StageStage, false, rw.EffectNone},
		{rw.StageRecord, false, rw.EffectNone}, {rw.StagePublish, false, rw.EffectUnknown},
	} {
		dir := workspace(t)
		state := filepath.Join(dir, rw.StateDirName)
		s := open(t, dir, nil)
		write(t, s, "a.txt", "one\n", rw.ModeCreate)
		done := false
		disarm := failpoint.Arm(func(point string) {
			if done || point != string(c.stage) {
				return
			}
			done = true
			if c.moved {
				noErr(t, os.Rename(state, dir+".moved"))
				noErr(t, os.Mkdir(state, 0o700))
			} else {
				for os.RemoveAll(state) != nil { // slots are being made beside the call
				}
			}
		})
		_, err := s.SafeWrite(background, put("a.txt", "two\n", rw.ModeOverwrite))
		disarm()
		if e := rw.AsError("", err); e.Detail != rw.ErrStorePoisoned || e.Effect != c.want {
			t.Errorf("lost before %s, moved %v: %v, effect %s (%v)", c.stage, c.moved, err, e.Effect, errors.Unwrap(err))
		}
		fileIs(t, dir, "a.txt", "one\n")
		refused(t, s, dir, put("a.txt", "three\n", rw.ModeOverwrite), rw.ErrStorePoisoned)
		noErr(t, s.Close(background))
	}
}

// TestReadingGoesOnWithoutState: a file that is there can be read although the
// state directory is gone.
func TestReadingGoesOnWithoutState(t *testing.T) {
	testbed.SkipIf(t, runtime.GOOS == "windows", "directories that are open cannot be removed or renamed here")
	s, dir := opened(t, nil)
	write(t, s, "a.txt", "one\n", rw.ModeCreate)
	noErr(t, os.RemoveAll(filepath.Join(dir, rw.StateDirName)))
	r, err := s.Read(background, rw.ReadRequest{Path: "a.txt"})
	expect(t, err == nil && string(r.Content) == "one\n", "read: %q %v", r.Content, err)
	// The next store starts from scratch.
	noErr(t, s.Close(background))
	next := open(t, dir, nil)
	write(t, next, "a.txt", "two\n", rw.ModeOverwrite)
	check(t, next, true)
}

// TestAPoisonedStoreIsRead: after a flush that failed nothing is written, and everything
// can be read: also the versions of a commit that is not settled.
func TestAPoisonedStoreIsRead(t *testing.T) {
	for _, level := range allLevels[:2] {
		fs := simfs.New()
		s := must(rw.OpenSim(fs, &rw.Options{Sync: level}, rw.Sim{Manual: true}))(t)
		write(t, s, "a.txt", "one\n", rw.ModeCreate)
		one := write(t, s, "a.txt", "two\n", rw.ModeOverwrite)
		fs.Inject(func(op simfs.Op) (f simfs.Fault) {
			if op.Kind == "syncdir" {
				f.Err = syscall.EIO
			}
			return f
		})
		err := errorOf(s.SafeWrite(background, put("b/c.txt", "three\n", rw.ModeCreate)))
		isErr(t, err, rw.ErrIO)
		fails(s.SafeWrite(background, put("a.txt", "four\n", rw.ModeOverwrite)))(t, rw.ErrStorePoisoned)
		h := must(s.History(background, rw.HistoryRequest{Path: "a.txt"}))(t)
		for _, v := range h.Versions {
			expect(t, v.Available, "%s: %+v", level, v)
		}
		must(s.Read(background, rw.ReadRequest{Path: "a.txt", Version: one.Receipt.JournalSeq - 1}))(t)
		must(s.Diff(background, rw.DiffRequest{Path: "a.txt"}))(t)
		must(s.Blame(background, around.BlameRequest{Path: "a.txt"}))(t)
		must(s.Changes(background, around.ChangesRequest{}))(t)
	}
}

// TestAStateThatComesBackIsNotTrusted: writes made in the meantime under another state
// directory are unknown to this one, so the store stays closed until it is opened
// again.
func TestAStateThatComesBackIsNotTrusted(t *testing.T) {
	testbed.SkipIf(t, runtime.GOOS == "windows", "directories that are open cannot be removed or renamed here")
	dir := workspace(t)
	state := filepath.Join(dir, rw.StateDirName)
	s := open(t, dir, nil)
	write(t, s, "a.txt", "one\n", rw.ModeCreate)
	noErr(t, os.Rename(state, dir+".moved"))
	refused(t, s, dir, put("a.txt", "two\n", rw.ModeOverwrite), rw.ErrStorePoisoned)
	noErr(t, os.Rename(dir+".moved", state))
	refused(t, s, dir, put("a.txt", "two\n", rw.ModeOverwrite), rw.ErrStorePoisoned)
	noErr(t, s.Close(background))
	s = open(t, dir, nil)
	write(t, s, "a.txt", "two\n", rw.ModeOverwrite)
	check(t, s, true)
	// A workspace that is moved with its state stays a workspace.
	noErr(t, os.Rename(dir, dir+".moved"))
	write(t, s, "a.txt", "three\n", rw.ModeOverwrite)
	fileIs(t, dir+".moved", "a.txt", "three\n")
	fails(s.Read(background, rw.ReadRequest{Path: "nowhere.txt"}))(t, rw.ErrNotFound, "read of nothing")
	check(t, s, true)
}

// TestOpenNamesWhatIsForbiddenSweep: an Open that fails for a lack of permission says for
// which part of the store.
func TestOpenNamesWhatIsForbiddenSweep(t *testing.T) {
	forbidden := 0
	for n, reached := 0, true; reached; n++ {
		fs := simfs.New()
		count := 0
		reached = false
		fs.Inject(func(simfs.Op) (f simfs.Fault) {
			if count++; count == n+1 {
				reached, f.Err = true, syscall.EACCES
			}
			return f
		})
		s, err := rw.OpenSim(fs, nil, rw.Sim{})
		fs.Inject(nil)
		if err == nil {
			noErr(t, s.Close(background))
			continue
		}
		if errors.Is(err, rw.ErrPermission) {
			forbidden++
			length(t, fs.Open(), 0, "open after operation", n)
			part, _ := rw.AsError("", err).Context["part"].(string)
			expect(t, part != "" && !strings.Contains(part, "/"), "operation %d: %v %q", n, err, part)
		}
	}
	expect(t, forbidden > 20, "%d calls failed", forbidden)
}

// TestOpenSaysWhatIsMissing: the hint names the workspace, not a file.
func TestOpenSaysWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	noErr(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	noErr(t, os.Mkdir(filepath.Join(dir, "ws"), 0o755))
	for _, c := range []struct {
		at, state string
		want      rw.Detail
		hint      string
	}{
		{filepath.Join(dir, "none"), "", rw.ErrNotFound, "the workspace directory does not exist; create it, or give the path of an existing one"},
		{filepath.Join(dir, "none", "deeper"), "", rw.ErrNotFound, "the workspace directory does not exist; create it, or give the path of an existing one"},
		{filepath.Join(dir, "file"), "", rw.ErrNotADirectory, "the workspace is a file; give the path of a directory"},
		{filepath.Join(dir, "ws"), filepath.Join(dir, "no", "state"), rw.ErrNotFound, "the parent of the state directory does not exist; create it, or choose another location"},
	} {
		s, err := rw.Open(background, c.at, &rw.Options{StateDir: c.state})
		e := rw.AsError("", err)
		expect(t, s == nil && errors.Is(err, c.want) && e.Hint == c.hint && e.Op == "open" && e.Effect == rw.EffectNone, "%s: %v %+v", c.at, err, e)
		text, _ := json.Marshal(e)
		expect(t, !strings.Contains(string(text), dir), "the error shows a path: %s", text)
	}
	gone(t, dir, "none")
}

// TestCustody checks who may own and write the state directory and its content.
func TestCustody(t *testing.T) {
	t.Parallel()
	testbed.SkipIf(t, runtime.GOOS == "windows", "there are no owners")
	const state = ".resilient_write"
	for _, row := range []struct {
		name    string
		self    int
		root    int // owner of the workspace
		at      string
		owner   int
		mode    uint32
		noChmod bool
		want    string // detail of the error
		warning string
		after   uint32 // mode
	}{
		{"ours", 1000, 1000, state, 1000, 0o700, false, "", "", 0o700},
		{"ours, readable", 1000, 1000, state, 1000, 0o755, false, "", "", 0o755},
		{"ours, group", 1000, 1000, state, 1000, 0o775, false, "", call.WarnStateNarrowed, 0o700},
		{"ours, all", 1000, 1000, state, 1000, 0o777, false, "", call.WarnStateNarrowed, 0o700},
		{"root's", 1000, 1000, state, 0, 0o755, false, "", "", 0o755},
		{"root's, all", 1000, 1000, state, 0, 0o777, false, "bad_state_dir", "", 0},
		{"another's", 1000, 1000, state, 1001, 0o700, false, "bad_state_dir", "", 0},
		{"another's, owner of the workspace", 1000, 1001, state, 1001, 0o700, false, "bad_state_dir", "", 0},
		{"root runs, another's", 0, 0, state, 1001, 0o700, false, "bad_state_dir", "", 0},
		{"root runs, owner of the workspace", 0, 1001, state, 1001, 0o700, false, "", "", 0o700},
		{"root runs, owner of the workspace, all", 0, 1001, state, 1001, 0o777, false, "", call.WarnStateNarrowed, 0o700},
		{"no modes", 1000, 1000, state, 1000, 0o777, true, "", call.WarnModesNotEnforced, 0o777},
		{"no modes, another's", 1000, 1000, state, 1001, 0o777, true, "", call.WarnModesNotEnforced, 0o777},
		{"journal of another", 1000, 1000, state + "/journal", 1001, 0o700, false, "bad_state_dir", "", 0},
		{"locks, all", 1000, 1000, state + "/locks", 1000, 0o777, false, "", call.WarnStateNarrowed, 0o700},
		{"meta.json of another", 1000, 1000, state + "/meta.json", 1001, 0o600, false, "bad_state_dir", "", 0},
		{"meta.json, group", 1000, 1000, state + "/meta.json", 1000, 0o660, false, "", call.WarnStateNarrowed, 0o600},
		{"policy of another", 1000, 1000, state + "/policy.yaml", 1001, 0o600, false, "bad_state_dir", "", 0},
		{"policy, all", 1000, 1000, state + "/policy.yaml", 1000, 0o666, false, "", call.WarnStateNarrowed, 0o600},
	} {
		fs := simfs.New()
		fs.User, fs.NoChmod = row.self, row.noChmod
		fs.MkdirAll(state + "/journal")
		fs.MkdirAll(state + "/locks")
		fs.WriteFile(state+"/meta.json", nil, 0o600)
		fs.WriteFile(state+"/policy.yaml", []byte("version: 1\n"), 0o600)
		fs.Own(state, row.self, 0o700)
		fs.Own("", row.root, 0o755)
		fs.Own(row.at, row.owner, row.mode)
		s, err := rw.OpenSim(fs, &rw.Options{Sync: rw.SyncOff}, rw.Sim{User: row.self})
		if err != nil || row.want != "" {
			if e := rw.AsError("", err); row.want == "" || err == nil || !errors.Is(err, rw.Detail(row.want)) || e.Context["owner"] != fmt.Sprintf("uid %d", row.owner) ||
				e.Context["mode"] != fmt.Sprintf("%04o", row.mode) || !strings.Contains(fmt.Sprint(e.Context["command"]), row.at) || !strings.Contains(e.Hint, "chown") {
				t.Errorf("%s: %v %+v", row.name, err, e)
			}
			if s != nil {
				s.Close(background)
			}
			continue
		}
		equal(t, reasons(s.Recovery().Warnings), row.warning, row.name, ": warnings")
		equal(t, fs.Mode(row.at), row.after, row.name, ": mode")
		s.Close(background)
	}
}

// TestStoreOfTwoHosts: while a process on another host has the store open, it cannot be
// opened for writing. A process that died there is no reason.
func TestStoreOfTwoHosts(t *testing.T) {
	fs := simfs.New()
	first := fs.NewProcess()
	s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001", Process: first}))(t)
	write(t, s, "a.txt", longText, rw.ModeCreate)
	locks := fs.Foreign()
	for _, name := range []string{rw.StateDirName, "locks"} {
		locks = must(locks.OpenDir(name))(t)
	}
	for _, name := range must(locks.Names())(t) {
		if strings.HasPrefix(name, "w-") {
			f := must(locks.Open(name, fsx.Read|fsx.Write, 0))(t)
			must(f.WriteAt([]byte("0123abcd"), 1))(t)
			noErr(t, f.Close())
		}
	}
	open := func(opts *rw.Options) (*rw.Store, error) {
		return rw.OpenSim(fs, opts, rw.Sim{Nonce: "0002", Process: fs.NewProcess()})
	}
	_, err := open(nil)
	e := rw.AsError("", err)
	require(t, errors.Is(err, rw.ErrIOBusy) && strings.Contains(e.Hint, "another host"), "open: %v, %s", err, e.Hint)
	reader := must(open(&rw.Options{ReadOnly: true}))(t)
	noErr(t, reader.Close(background))
	write(t, s, "a.txt", otherText, rw.ModeOverwrite)
	first.Kill()
	s = must(open(nil))(t)
	noErr(t, s.Close(background))
}

// TestSlotsWithRoom: after a power cut, a slot has again the room that it was made with. The
// next Open cuts it and publishes it, also in a copy of the store, and removes the slots that
// were not used. What another program has written beyond the content is kept as a version.
func TestSlotsWithRoom(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(fs *simfs.FS, slot string) *simfs.FS{
		"power cut":      func(fs *simfs.FS, _ string) *simfs.FS { return fs },
		"copied":         func(fs *simfs.FS, _ string) *simfs.FS { return fs.Copied() },
		"copied, killed": func(fs *simfs.FS, _ string) *simfs.FS { return fs.Copied() },
		"written to": func(fs *simfs.FS, slot string) *simfs.FS {
			data, _ := fs.ReadFile(slot)
			fs.WriteFile(slot, append(data[:publish.Room-1], '!'), 0o644)
			return fs
		},
	} {
		fs := simfs.New()
		fs.Ordered = true
		s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001", Manual: true}))(t)
		write(t, s, "b.txt", "b", rw.ModeCreate)
		write(t, s, "a.txt", longText, rw.ModeCreate)
		nothingStaged(t, s)
		dead := false // once the row is durable, before the file is published
		fs.Inject(func(op simfs.Op) (f simfs.Fault) {
			if dead = dead || op.Kind == "exchange"; dead {
				f.Err = syscall.EIO
			}
			return f
		})
		s.SafeWrite(background, put("a.txt", otherText, rw.ModeOverwrite))
		loss := simfs.All // the unused slots are empty then
		if name == "copied, killed" {
			loss = simfs.None // the used slot is cut then
		}
		fs = fs.Crash(1, loss)
		full, unused := "", 0
		for path, content := range fs.Tree() {
			if strings.HasPrefix(path, rw.StateDirName+"/staging/") && len(content) == publish.Room {
				if strings.HasPrefix(content, otherText) {
					full = path
				} else {
					unused++
				}
			}
		}
		require(t, (full != "") == (loss == simfs.All) && (unused > 0) == (loss == simfs.None), "%s: slots %q, %d", name, full, unused)
		fs = change(fs, full)
		s = must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0002", Manual: true}))(t)
		got, _ := fs.ReadFile("a.txt")
		if name == "written to" {
			length(t, s.Recovery().Conflicts, 1, name)
			expect(t, string(got) == longText && haveText(slices.Collect(maps.Values(fs.Tree())), "\x00!"), "%s: %.40q", name, got)
		} else {
			length(t, s.Recovery().Finished, 1, name)
			expect(t, string(got) == otherText, "%s: %.40q", name, got)
		}
		for path, content := range fs.Tree() {
			expect(t, !strings.HasPrefix(path, rw.StateDirName+"/history/") || strings.Trim(content, "\x00") != "", "%s: %s holds nothing", name, path)
		}
		nothingStaged(t, s)
		check(t, s, true)
		s.Close(background)
	}
}

// diesAt lets the process of a disk die at its nth operation, or before the first of a kind if
// n is negative. Other operations of the kind fail with an error, if there is one.
func diesAt(fs *simfs.FS, n int, kind string, fails error) (dead *bool) {
	dead = new(bool)
	i := 0
	fs.Inject(func(op simfs.Op) (f simfs.Fault) {
		*dead = *dead || i == n || n < 0 && op.Kind == kind
		switch i++; {
		case *dead:
			f.Err = syscall.EIO
		case op.Kind == kind:
			f.Err = fails
		}
		return f
	})
	return dead
}

// orderedStore is a store on an ordered disk that has a file a.txt of another program.
func orderedStore(t *testing.T, content string, mode uint32, opts *rw.Options) (*simfs.FS, *rw.Store) {
	fs := simfs.New()
	fs.Ordered = true
	fs.WriteFile("a.txt", []byte(content), mode)
	return fs, must(rw.OpenSim(fs, opts, rw.Sim{Nonce: "0001", Manual: true, Slots: 16}))(t)
}

// TestRoomWrittenInPlaceSweep: a file that cannot be replaced is written in place from a slot
// with room, and the power is cut at each operation. The next Open completes it.
func TestRoomWrittenInPlaceSweep(t *testing.T) {
	t.Parallel()
	for n := phase(stride(4)); ; n += stride(4) {
		fs, s := orderedStore(t, longText, 0o644, &rw.Options{InPlaceOnBusy: true})
		dead := diesAt(fs, n, "exchange", syscall.EBUSY)
		s.SafeWrite(background, put("a.txt", otherText, rw.ModeOverwrite))
		for seed := range uint64(4) {
			after := fs.Crash(seed, []simfs.Loss{simfs.All, simfs.Some, simfs.Older, simfs.None}[seed])
			s := must(rw.OpenSim(after, nil, rw.Sim{Nonce: "0002", Manual: true}))(t)
			got, _ := after.ReadFile("a.txt")
			require(t, (string(got) == longText || string(got) == otherText) && len(s.Recovery().Conflicts) == 0,
				"died at %d: %d bytes, %.20q, %v", n, len(got), got, s.Recovery().Conflicts)
			s.Close(background)
		}
		if !*dead {
			return
		}
	}
}

// TestRoomOfAReadOnlyFile: recovery may not be allowed to write to a read-only file, so its slot
// has no room after a power cut.
func TestRoomOfAReadOnlyFile(t *testing.T) {
	fs, s := orderedStore(t, longText, 0o444, nil)
	diesAt(fs, -1, "exchange", nil)
	s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.txt", Content: []byte(otherText), Mode: rw.ModeOverwrite, Force: true})
	found := 0
	for path, content := range fs.Crash(1, simfs.All).Tree() {
		if strings.HasPrefix(content, otherText) {
			found++
			expect(t, content == otherText, "%s has %d bytes", path, len(content))
		}
	}
	expect(t, found > 0, "nothing was staged")
}

// TestVersionOfRoomInACopySweep: in a copy of the store, the file that was replaced is not taken
// for the staged one, although it has the size of a slot with room and begins with its content.
func TestVersionOfRoomInACopySweep(t *testing.T) {
	t.Parallel()
	const head = "the first line of a file\n"
	for _, tail := range []string{"x", "\x00"} {
		old := head + strings.Repeat(tail, publish.Room-len(head))
		for n, died := 0, true; died; n++ {
			fs, s := orderedStore(t, old, 0o644, nil)
			dead := diesAt(fs, n, "", nil)
			s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.txt", Content: []byte(head), Mode: rw.ModeOverwrite, AllowShrink: true})
			for seed, loss := range []simfs.Loss{simfs.All, simfs.Some, simfs.None} {
				after := fs.Crash(uint64(seed), loss).Copied()
				s := must(rw.OpenSim(after, nil, rw.Sim{Nonce: "0002", Manual: true}))(t)
				kept := slices.Contains(slices.Collect(maps.Values(after.Tree())), old)
				require(t, kept && len(s.Recovery().Conflicts) == 0, "died at %d, lost %d: kept %v, %v", n, seed, kept, s.Recovery().Conflicts)
				check(t, s, true)
				s.Close(background)
			}
			died = *dead
		}
	}
}

// TestVersionOfZerosInACopy: a version of zeros in a slot that a power cut brought back is not
// taken for an unused slot in a copy of the store.
func TestVersionOfZerosInACopy(t *testing.T) {
	t.Parallel()
	old, back := strings.Repeat("\x00", 4096), 0
	for seed := range uint64(40) {
		fs, s := orderedStore(t, old, 0o644, nil)
		must(s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.txt", Content: []byte("new text"), Mode: rw.ModeOverwrite, AllowShrink: true}))(t)
		write(t, s, "b.txt", "b", rw.ModeCreate) // its row says that the first is settled
		after := fs.Crash(seed, simfs.Some)
		for path, content := range after.Tree() {
			if strings.Contains(path, "staging/") && content == old {
				back++
			}
		}
		after = after.Copied()
		s = must(rw.OpenSim(after, nil, rw.Sim{Nonce: "0002", Manual: true}))(t)
		require(t, slices.Contains(slices.Collect(maps.Values(after.Tree())), old), "seed %d: the version is gone", seed)
		s.Close(background)
	}
	expect(t, back > 0, "no slot came back")
}

// TestNoRoomOnAFullDisk: with little free space no slots with room are made, because they
// would take what the reserve gives up.
func TestNoRoomOnAFullDisk(t *testing.T) {
	for disk, want := range map[int64]bool{16 << 20: false, 17 << 20: true} { // some is in use
		fs := simfs.New()
		fs.Ordered = true
		fs.CapBytes(disk)
		s := must(rw.OpenSim(fs, nil, rw.Sim{Manual: true}))(t)
		write(t, s, "a.txt", longText, rw.ModeCreate)
		room := false
		for path, content := range fs.Tree() {
			room = room || strings.Contains(path, "staging/") && len(content) == publish.Room
		}
		expect(t, room == want, "of a disk of %d bytes: %v", disk, room)
		s.Close(background)
	}
}

// TestRoomThatCannotBeCut: what a slot with room was to hold becomes a version if recovery cannot
// cut it, because it belongs to another user.
func TestRoomThatCannotBeCut(t *testing.T) {
	fs, s := orderedStore(t, longText, 0o644, nil)
	diesAt(fs, -1, "exchange", nil)
	s.SafeWrite(background, put("a.txt", otherText, rw.ModeOverwrite))
	fs = fs.Crash(1, simfs.All)
	opened := 0 // first for reading, then for writing
	fs.Inject(func(op simfs.Op) (f simfs.Fault) {
		if op.Kind == "open" && strings.Contains(op.Path, "/staging/") {
			if opened++; opened == 2 {
				f.Err = syscall.EACCES
			}
		}
		return f
	})
	s = must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0002", Manual: true}))(t)
	fs.Inject(nil)
	require(t, opened >= 2 && len(s.Recovery().Conflicts) == 1, "opened %d times, %+v", opened, s.Recovery())
	got, _ := fs.ReadFile("a.txt")
	kept, _ := fs.ReadFile(rw.StateDirName + "/history/" + hash(otherText)[:2] + "/" + hash(otherText))
	expect(t, string(got) == longText && string(kept) == otherText, "%.20q, kept %.20q", got, kept)
	check(t, s, true)
	s.Close(background)
}

// TestStagedBytesThatAreLeftSweep: a process died before it published a file. Its bytes cannot be
// read, or do not fit into history, when the store is opened next, and again. They are not lost.
func TestStagedBytesThatAreLeftSweep(t *testing.T) {
	t.Parallel()
	for _, errno := range []error{syscall.ENOSPC, syscall.EIO, syscall.EACCES} {
		for n, reached := 0, true; reached; n++ {
			fs := simfs.New()
			fs.WriteFile("a.txt", []byte(longText), 0o644)
			s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001", Manual: true}))(t)
			diesAt(fs, -1, "exchange", nil)
			s.SafeWrite(background, put("a.txt", otherText, rw.ModeOverwrite))
			fs = fs.Crash(1, simfs.All)
			reached = n == 0
			if errno == syscall.ENOSPC {
				fs.WriteFile("a.txt", []byte(humansText), 0o644)
			}
			conflicts := 0
			for _, nonce := range []string{"0002", "0003"} {
				count := 0
				fs.Inject(func(op simfs.Op) (f simfs.Fault) {
					slot := strings.Contains(op.Path, "/staging/") && !strings.Contains(op.Path, "witness")
					if count++; errno == syscall.ENOSPC && op.Kind == "create" && strings.Contains(op.Path, "/history/") {
						f.Err = errno
					} else if !slot {
						count--
					} else if errno != syscall.ENOSPC && count == n+1 {
						f.Err, reached = errno, true
					}
					return f
				})
				s, err := rw.OpenSim(fs, nil, rw.Sim{Nonce: nonce, Manual: true})
				if err == nil {
					conflicts += len(s.Recovery().Conflicts)
					s.Close(background)
				}
				fs.Inject(nil)
				fs.Kill()
			}
			s = must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0004", Manual: true}))(t)
			expect(t, haveText(contents(fs, false), otherText), "%v of operation %d: the bytes are lost", errno, n)
			expect(t, conflicts <= 1, "%v of operation %d: %d conflicts", errno, n, conflicts)
			nothingStaged(t, s)
			check(t, s, true)
			s.Close(background)
			reached = reached && errno != syscall.ENOSPC
		}
	}
}

// TestHeldSlotOfAnotherUser: a slot with a file that the process may not read is one that a
// commit uses.
func TestHeldSlotOfAnotherUser(t *testing.T) {
	fs := simfs.New()
	s := must(rw.OpenSim(fs, &rw.Options{Sync: rw.SyncJournal}, rw.Sim{Nonce: "0001", Manual: true}))(t)
	write(t, s, "a.txt", strings.Repeat("a", publish.Room), rw.ModeCreate)
	must(s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.txt", Content: []byte(otherText), Mode: rw.ModeOverwrite, AllowShrink: true}))(t)
	other := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0002"}))(t)
	fs.Inject(func(op simfs.Op) (f simfs.Fault) {
		if op.Kind == "open" && strings.Contains(op.Path, "/staging/") {
			f.Err = syscall.EACCES
		}
		return f
	})
	r, err := other.Check(background, admin.CheckRequest{})
	expect(t, err == nil && r.Counters.Staged == 1, "%+v %v", r.Counters, err)
	fs.Inject(nil)
	other.Close(background)
	s.Close(background)
}
