package resilientwrite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/hook"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

func TestPathRulesHoldThroughLinksAndInEveryLetterCase(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	for _, d := range []string{"src", "secrets", "infra"} {
		os.Mkdir(filepath.Join(dir, d), 0o755)
		os.WriteFile(filepath.Join(dir, d, "old"), []byte("old"), 0o644)
	}
	os.Symlink("../secrets", filepath.Join(dir, "src", "inner"))
	os.Symlink("../secrets/new", filepath.Join(dir, "src", "file"))
	os.Symlink("src", filepath.Join(dir, "secret_src"))
	s := hooked(t, dir, hook.PathRules{Allow: []string{"src/**", "docs", "*.md"}, Deny: []string{"Secrets", "**/*.PEM", "infra/**"}})
	for _, path := range []string{"secrets/x", "SECRETS/x", "src/inner/old", "src/file", "src/key.pem", "src/a/KEY.pem", "infra/x", "other.txt", "x/readme.md"} {
		e := turnedDown(t, s, dir, put(path, "x", rw.ModeOverwrite), rw.ErrDenied)
		expect(t, strings.Contains(e.Hint, "choose another path") || strings.Contains(e.Hint, "may be changed"), "%s: %s", path, e.Hint)
	}
	for _, m := range []rw.MoveRequest{{Path: "secrets/old", To: "src/mine"}, {Path: "src/inner/old", To: "src/mine"}, {Path: "src/old", To: "infra/mine"}, {Path: "secrets", To: "src/s"}} {
		fails(s.Move(background, m))(t, rw.ErrDenied, "move ", m.Path, " to ", m.To)
	}
	fails(s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "src/a", Content: []byte("x")}, {Op: "delete", Path: "infra/old"}}}))(t, rw.ErrDenied, "one of two")
	for _, path := range []string{"src/x", "SRC/y", "docs/a/b", "readme.MD", "secret_src/z"} {
		_, err := s.SafeWrite(background, put(path, "x", rw.ModeCreate))
		if (err != nil) != (path == "secret_src/z") { // its own name is not allowed
			t.Errorf("%s: %v", path, err)
		}
	}
	fileIs(t, dir, "secrets/old", "old")
	s = hooked(t, dir, hook.PathRules{Deny: []string{"secrets/["}}) // must not be a rule that holds for nothing
	turnedDown(t, s, dir, put("src/new", "x", rw.ModeCreate), rw.ErrDenied)
}

func TestABudgetEndsATask(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	b := &hook.TaskBudget{Bytes: 100, Writes: 5, Failures: 3}
	s := hooked(t, dir, b)
	reset := func() {
		t.Helper()
		noErr(t, s.ResetTask(background))
	}
	short := func(what string) {
		t.Helper()
		e := turnedDown(t, s, dir, put("more", fmt.Sprint(time.Now().UnixNano()), rw.ModeCreate), rw.ErrDenied)
		expect(t, strings.Contains(e.Hint, what) && strings.Contains(e.Hint, "report to the user"), "want %s: %s", what, e.Hint)
	}
	write(t, s, "log", strings.Repeat("x", 60), rw.ModeCreate)
	write(t, s, "log", strings.Repeat("x", 30), rw.ModeAppend) // the appended part counts, not the file
	write(t, s, "log", "", rw.ModeAppend)
	must(s.SafeWrite(background, rw.SafeWriteRequest{Path: "dry", Content: []byte(strings.Repeat("x", 90)), Call: rw.Call{DryRun: true}}))(t)
	if _, err := s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "a"}, {Op: "write", Path: "b", Content: []byte(strings.Repeat("x", 20))}}}); err != nil {
		t.Fatal(err) // the second file counts, too
	}
	short("110 bytes")
	reset()
	for i := range 4 {
		write(t, s, fmt.Sprint("n", i), "x", rw.ModeCreate)
	}
	two := rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "c"}, {Op: "write", Path: "d"}}}
	fails(s.Tx(background, two))(t, rw.ErrDenied, "six of five")
	write(t, s, "n4", "x", rw.ModeCreate)
	short("5 files")
	reset()
	for i := range 3 {
		refused(t, s, dir, put("n0", fmt.Sprint("other", i), rw.ModeCreate), rw.ErrFileAlreadyExists)
	}
	short("3 calls")
	reset()
	write(t, s, "n0", "y", rw.ModeOverwrite)
	// Calls at the same time.
	reset()
	var all sync.WaitGroup
	var mu sync.Mutex
	done := 0
	for i := range 20 {
		all.Go(func() {
			if _, err := s.SafeWrite(background, put(fmt.Sprint("p", i), "x", rw.ModeCreate)); err == nil {
				mu.Lock()
				done++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	expect(t, done <= 5, "%d writes of 5", done)
	check(t, s, true)
	expect(t, done != 0, "none was let pass")
}

// TestABudgetReservesFiles: calls that did not end count, each once, unless they are dry
// runs.
func TestABudgetReservesFiles(t *testing.T) {
	t.Parallel()
	b := &hook.TaskBudget{Writes: 2, Failures: 1}
	call := func(id string, dry bool) hook.Call {
		return hook.Call{InvocationID: id, DryRun: dry, Changes: make([]hook.Change, 1)}
	}
	for i, c := range []struct {
		id      string
		dry     bool
		ends    string // the call that ends before: withdrawn, or observed with this status
		as      rw.Status
		refused bool
	}{
		{id: "1"}, {id: "2", dry: true}, {id: "3"}, {id: "3"}, {id: "4", refused: true}, {id: "4", ends: "1"}, {id: "5", ends: "4", as: rw.StatusUnchanged},
		{id: "6", ends: "5", as: rw.StatusSucceeded, refused: true},
	} {
		if c.as != "" {
			b.Observe(background, call(c.ends, false), rw.Receipt{Status: c.as}, nil)
		} else if c.ends != "" {
			b.Withdraw(background, call(c.ends, false))
		}
		b.Observe(background, call("dry", true), rw.Receipt{}, errors.New("fails")) // a dry run is no failure
		d := must(b.Authorize(background, call(c.id, c.dry)))(t)
		equal(t, d.Verdict != hook.Allowed, c.refused, i)
	}
}

// TestWhatALoopIs: which outcomes count against a caller.
func TestWhatALoopIs(t *testing.T) {
	t.Parallel()
	one, same := hook.Change{Path: "a", RealPath: "a", SHA256: "1", PrevSHA256: "0"}, hook.Change{Path: "a", RealPath: "a", SHA256: "1", PrevSHA256: "1"}
	for what, c := range map[string]struct {
		change  hook.Change
		dry     bool
		status  rw.Status
		err     error
		refused bool
	}{
		"an earlier content":    {change: one, status: rw.StatusSucceeded, refused: true},
		"the current content":   {change: same, status: rw.StatusUnchanged, refused: true},
		"one of several":        {change: same, status: rw.StatusSucceeded},
		"dry runs":              {change: one, dry: true, status: rw.StatusSucceeded},
		"replays":               {change: one, status: rw.StatusReplayed},
		"failures":              {change: one, err: fault.New(fault.FileAlreadyExists), refused: true},
		"refusals of the host":  {change: one, err: fault.New(fault.Denied)},
		"failures of dry runs":  {change: one, dry: true, err: fault.New(fault.FileAlreadyExists)},
		"what failed elsewhere": {change: one, err: &fault.Fault{Code: fault.FileAlreadyExists, Path: "b"}},
	} {
		g := &hook.LoopGuard{Repeats: 2}
		op := hook.Call{DryRun: c.dry, Changes: []hook.Change{c.change}}
		for range 3 {
			g.Observe(background, op, rw.Receipt{Status: c.status}, c.err)
		}
		d := must(g.Authorize(background, op))(t)
		equal(t, d.Verdict != hook.Allowed, c.refused, what)
	}
}

func TestALoopIsStoppedAndWorkIsNot(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	s := hooked(t, dir, &hook.LoopGuard{Repeats: 3})
	for i := range 20 {
		write(t, s, "log", fmt.Sprint(i), rw.ModeAppend)
		write(t, s, "work", fmt.Sprint(i), rw.ModeOverwrite)
	}
	flip := func(path string, n int) (err error) {
		for i := range n {
			if _, err = s.SafeWrite(background, put(path, fmt.Sprint("state ", i%2), rw.ModeOverwrite)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := flip("a", 5); err != nil { // two new ones, three that are restored
		t.Fatal(err)
	}
	e := turnedDown(t, s, dir, put("a", "something else", rw.ModeOverwrite), rw.ErrDenied)
	expect(t, strings.Contains(e.Hint, "a has come back 3 times") && e.Action == rw.ActionAskUser, "%+v", e)
	write(t, s, "b", "x", rw.ModeOverwrite)
	for range 3 {
		write(t, s, "b", "x", rw.ModeOverwrite) // the same again
	}
	fails(s.Delete(background, rw.DeleteRequest{Path: "b"}))(t, rw.ErrDenied, "the same again")
	for i := range 5 { // two files at once are no way around it
		must(s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{
			{Op: "write", Path: "c", Mode: rw.ModeOverwrite, Content: []byte(fmt.Sprint(i % 2))}, {Op: "write", Path: fmt.Sprint("d", i), Content: []byte("x")},
		}}))(t)
	}
	isErr(t, flip("c", 1), rw.ErrDenied, "in transactions")
	noErr(t, s.ResetTask(background))
	noErr(t, flip("a", 3))
	check(t, s, true)
}

func TestACommandJudgesTheFilesAsTheyWouldBe(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	gofmt := hook.CommandOracle{Match: []string{"**/*.go"}, Command: []string{"gofmt", "-e", "{}"}}
	s := hooked(t, dir, gofmt)
	good := "package p\n\nfunc A() int { return 1 }\n"
	write(t, s, "p/only.go", good, rw.ModeCreate)
	e := turnedDown(t, s, dir, put("p/only.go", "package p\n\nfunc A( {\n", rw.ModeOverwrite), rw.ErrVerifyFailed)
	if text, _ := e.Context["output"].(string); !strings.HasPrefix(text, "the check of p/only.go failed: exit status 2\np/only.go:3:9: ") || strings.Contains(text, "oracle") || strings.Contains(text, "…/") {
		t.Errorf("output %q", text)
	}
	write(t, s, "p/only.go", "\nfunc B() int { return 2 }\n", rw.ModeAppend) // only together with the old content is it a file
	turnedDown(t, s, dir, put("p/only.go", "func {\n", rw.ModeAppend), rw.ErrVerifyFailed)
	write(t, s, "p/a.txt", "func {\n", rw.ModeCreate)
	fails(s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "p/c.go", Content: []byte(good)}, {Op: "write", Path: "p/d.go", Content: []byte("x")}}}))(t, rw.ErrVerifyFailed, "the second of two")
	must(s.Delete(background, rw.DeleteRequest{Path: "p/only.go"}))(t, "a file that goes")
	check(t, s, true)
	length(t, must(filepath.Glob(filepath.Join(os.TempDir(), "oracle*", "*", "only.go")))(t), 0, "left")
}

func TestCommandOracleCompilesAModuleWithTheCommit(t *testing.T) {
	t.Parallel()
	for name, oracle := range map[string]hook.CommandOracle{
		"overlay": {Command: []string{"go", "-C", "{root}", "vet", "-overlay={overlay}", "./..."}},
		"tree":    {Command: []string{"go", "vet", "./..."}, Tree: true},
	} {
		dir := workspace(t)
		plain := open(t, dir, nil)
		write(t, plain, "go.mod", "module m\n\ngo 1.25\n", rw.ModeCreate)
		write(t, plain, "a.go", "package m\n\nfunc Old() int { return 1 }\n", rw.ModeCreate)
		write(t, plain, "sub/b.go", "package sub\n\nimport \"m\"\n\nvar B = m.Old()\n", rw.ModeCreate)
		oracle.Timeout, oracle.Env = 10*time.Minute, []string{"GOFLAGS=-mod=mod", "GOTOOLCHAIN=local", "GOWORK=off"}
		s := open(t, dir, &rw.Options{Hooks: roles(oracle), VerifyTimeout: 10 * time.Minute})
		rename := func(path string) rw.TxOp {
			return rw.TxOp{Op: "edit", Path: path, Edits: []rw.EditOp{{Old: "Old", New: "New"}}}
		}
		before := snapshot(t, dir)
		_, err := s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{rename("a.go")}})
		require(t, errors.Is(err, rw.ErrVerifyFailed) && snapshot(t, dir) == before, "%s: half of a rename: %v", name, err)
		e := rw.AsError("", err)
		conformsEnvelope(t, e)
		text, _ := e.Context["output"].(string)
		expect(t, strings.Contains(text, "sub/b.go:5:") && strings.Contains(text, "Old") && !strings.Contains(text, dir), "%s: output %q", name, text)
		fails(s.Delete(background, rw.DeleteRequest{Path: "a.go"}))(t, rw.ErrVerifyFailed, name, ": a file that others need goes")
		if _, err := s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{rename("a.go"), rename("sub/b.go"), {Op: "write", Path: "c.go", Content: []byte("package m\n\nvar C = New()\n")}}}); err != nil {
			t.Errorf("%s: %v %v", name, err, rw.AsError("", err).Context["output"])
		}
		check(t, s, true)
	}
}

func TestCommandOracleEndsAndItsOutputIsBounded(t *testing.T) {
	t.Parallel()
	testbed.Needs(t, "sh")
	dir := ramspace(t)
	staged := filepath.Join(t.TempDir(), "staged")
	os.WriteFile(staged, []byte("x"), 0o600)
	c := hook.Staged{Root: dir, Files: []hook.File{{Path: "d/a.txt", Staged: staged}, {Path: "gone"}}}
	sh := func(script string) hook.CommandOracle {
		return hook.CommandOracle{Command: []string{"sh", "-c", script}}
	}
	err := sh("yes no | head -c 3000000; exit 1").Verify(background, c)
	expect(t, err != nil && len(err.Error()) <= 70<<10, "%d bytes of output", len(err.Error()))
	out := sh(`echo "$RW_PATH $(basename $RW_STAGED) $(cat $RW_STAGED) $RW_ROOT $MINE"; cat $RW_OVERLAY; exit 1`)
	out.Env = []string{"MINE=own"}
	want := fmt.Sprintf("d/a.txt a.txt x %s own\n{\"Replace\":{", dir)
	err = out.Verify(background, c)
	expect(t, strings.Contains(fmt.Sprint(err), want) && strings.Contains(fmt.Sprint(err), `gone":""`), "%v", err)
	slow := sh("sleep 600 & echo $! > " + filepath.Join(dir, "pid") + "; wait")
	pid := 0
	for slow.Timeout = 200 * time.Millisecond; pid == 0 && slow.Timeout < 2*time.Minute; slow.Timeout *= 2 { // until the command had the time to begin
		began := time.Now()
		want := fmt.Sprintf("the check of d/a.txt took longer than %v", slow.Timeout)
		err := slow.Verify(background, c)
		require(t, strings.Contains(fmt.Sprint(err), want) && time.Since(began) <= 5*time.Minute, "%v after %v, want %s", err, time.Since(began), want)
		text, _ := os.ReadFile(filepath.Join(dir, "pid"))
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	until(t, "what the command started ends", func() bool { return pid > 0 && (signalled(pid) != nil || isZombie(pid)) })
	for name, o := range map[string]hook.CommandOracle{
		"no command": {}, "no program": {Command: []string{"/no/such/program"}}, "not found": {Command: []string{"no-such-program-here"}},
	} {
		expect(t, o.Verify(background, c) != nil, "%s passes", name)
		s := hooked(t, ramspace(t), o)
		_, err := s.SafeWrite(background, put("a", "x", rw.ModeCreate))
		e := rw.AsError("", err)
		expect(t, errors.Is(err, rw.ErrVerifyFailed) && !strings.Contains(string(conformsEnvelope(t, e)), "/no/such"), "%s: %v", name, err)
	}
	ctx, stop := context.WithTimeout(background, 100*time.Millisecond)
	defer stop()
	patient := sh("sleep 600")
	patient.Timeout = 2 * time.Minute
	began := time.Now()
	err = patient.Verify(ctx, c)
	expect(t, err != nil && time.Since(began) <= time.Minute, "the context does not end it: %v after %v", err, time.Since(began))
}

// TestNoOracleShowsPartOfASecret: wherever the limit of the output cuts a token,
// no part of it is in the error.
func TestNoOracleShowsPartOfASecret(t *testing.T) {
	t.Parallel()
	testbed.Needs(t, "sh")
	secret := "gh" + "p_" + strings.Repeat("a1B2c3D4e5", 4)[:36]
	for _, kept := range []int{0, 4, 12, 20, 30, len(secret) - 1, len(secret)} {
		script := fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x; echo; echo 'key %s'; exit 1", 64<<10-1-len("key ")-kept, secret)
		s := hooked(t, ramspace(t), hook.CommandOracle{Command: []string{"sh", "-c", script}})
		_, err := s.SafeWrite(background, put("a", "x", rw.ModeCreate))
		e := rw.AsError("", err)
		expect(t, e.Detail == rw.ErrVerifyFailed && !strings.Contains(string(conformsEnvelope(t, e)), secret[:6]), "%d bytes kept: %v", kept, e.Context["output"])
	}
}

// signalled fails when there is no such process.
func signalled(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Signal(syscall.Signal(0))
}

func isZombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}
