package resilientwrite_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/command"
	"github.com/resilientwrite/resilientwrite/hook"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// execPlace is a workspace with three files, and a place for views.
func execPlace(t *testing.T) (dir, base string) {
	t.Helper()
	top := must(filepath.EvalSymlinks(t.TempDir()))(t)
	dir = filepath.Join(top, "ws")
	os.Mkdir(dir, 0o755)
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		noErr(t, os.WriteFile(filepath.Join(dir, name), []byte("old "+name+"\n"), 0o644))
	}
	return dir, filepath.Join(top, "views")
}

func openExec(t *testing.T, dir string, o *rw.Options) *rw.Store {
	t.Helper()
	s := must(rw.Open(t.Context(), dir, o))(t)
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

func isolated(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, rw.ErrNoIsolation) {
		testbed.NotRun(t, err.Error()+rw.AsError("", err).Hint)
	}
}

// TestExecDiesAtEveryStage: killed before any stage of its commit, a command has
// changed everything after the next Open or nothing, never a part, and the next call
// removes its view.
func TestExecDiesAtEveryStage(t *testing.T) {
	t.Parallel()
	recorded := false
	sure := func(stage string) bool { return stage == engine.StagePublish || stage == engine.StageRecord }
	for _, stage := range testbed.Share(t, append([]string{"publish.next"}, stageNames()...), 6, sure) {
		dir, base := execPlace(t)
		s := openExec(t, dir, nil)
		if _, err := s.Exec(t.Context(), command.Request{Argv: []string{"true"}, Views: base}); err != nil {
			isolated(t, err)
			t.Fatal(err)
		}
		before := snapshot(t, dir)
		s.Close(t.Context())
		spawn(t, "exec", dir, stage, rw.SyncFull).died(t)
		s = openExec(t, dir, nil)
		after := snapshot(t, dir)
		switch done := strings.Contains(after, "moved.txt"); {
		case !done && after != before:
			t.Errorf("%s: a part of it:\n%s", stage, after)
		case done:
			recorded = true
			fileIs(t, dir, "a.txt", "new\n")
			fileIs(t, dir, "c.txt", "new\n")
			fileIs(t, dir, "moved.txt", "old b.txt\n")
		}
		expect(t, (stage != engine.StagePublish || after != before) && (stage != engine.StageRecord || after == before),
			"%s: not at the commit point:\n%s", stage, after)
		must(s.Exec(t.Context(), command.Request{Argv: []string{"true"}, Views: base}))(t)
		length(t, must(filepath.Glob(filepath.Join(base, "exec_*")))(t), 0, stage, ": views remain")
	}
	expect(t, recorded, "no stage was after the commit point")
}

func stageNames() (names []string) {
	for _, s := range engine.Stages {
		names = append(names, s.Name)
	}
	return names
}

type verifyFunc func(hook.Staged) error

func (f verifyFunc) Verify(_ context.Context, c hook.Staged) error { return f(c) }

// TestExecVerified: verifiers see the staged files of a command, and files that they
// refuse are not in the workspace.
func TestExecVerified(t *testing.T) {
	dir, base := execPlace(t)
	var seen []string
	s := openExec(t, dir, &rw.Options{Hooks: hook.Hooks{Verify: []hook.Verifier{verifyFunc(func(c hook.Staged) error {
		for _, f := range c.Files {
			seen = append(seen, f.Path)
		}
		return errors.New("not good")
	})}}})
	before := snapshot(t, dir)
	out, err := s.Exec(t.Context(), command.Request{Argv: []string{"sh", "-c", "echo 1 > a.txt; echo 2 > d.txt"}, Views: base})
	isolated(t, err)
	expect(t, errors.Is(err, rw.ErrVerifyFailed) && out.ExitCode == 0 && snapshot(t, dir) == before, "%v %+v", err, out)
	slices.Sort(seen)
	expect(t, slices.Equal(seen, []string{"a.txt", "d.txt"}), "seen: %q", seen)
}

// TestExecResult: the result lists the changes and the output, without secrets; a
// repeated key returns the result of the command, which does not run again.
func TestExecResult(t *testing.T) {
	dir, base := execPlace(t)
	s := openExec(t, dir, nil)
	secret := strings.Join([]string{"AKIA", "QZ7RTN4WMXJ2KVHD"}, "")
	r := command.Request{Call: rw.Call{IdempotencyKey: "k1"}, Argv: []string{"sh", "-c", "echo said " + secret + "; echo again >> a.txt; rm c.txt; echo 3 >&2; echo $RW_HIDDEN$SHOWN"}, Views: base}
	t.Setenv("RW_HIDDEN", "hidden")
	t.Setenv("SHOWN", "shown")
	out, err := s.Exec(t.Context(), r)
	isolated(t, err)
	require(t, err == nil && len(out.Results) == 2 && out.Seq != 0 && strings.HasPrefix(out.Stdout, "said ") &&
		!strings.Contains(out.Stdout, secret) && strings.HasSuffix(out.Stdout, "\nshown\n") && out.Stderr == "3\n", "%v %+v", err, out)
	again, err := s.Exec(t.Context(), r)
	expect(t, err == nil && again.Status == rw.StatusReplayed && again.Seq == out.Seq && again.Stdout == "", "%v %+v", err, again)
	fileIs(t, dir, "a.txt", "old a.txt\nagain\n")
}

// TestExecPolicy: caches of the policy are writable, and no other; those that hold
// the workspace are refused.
func TestExecPolicy(t *testing.T) {
	dir, base := execPlace(t)
	cache := filepath.Join(filepath.Dir(dir), "cache")
	os.Mkdir(cache, 0o755)
	policy := filepath.Join(filepath.Dir(dir), "policy.yaml")
	for entry, want := range map[string]error{cache: nil, filepath.Dir(dir): rw.ErrBadPolicy, "relative": rw.ErrBadPolicy} {
		os.WriteFile(policy, []byte("exec: {allow_write: ['"+entry+"']}\n"), 0o600)
		s := openExec(t, dir, &rw.Options{PolicyFile: policy})
		out, err := s.Exec(t.Context(), command.Request{Argv: []string{"sh", "-c", "echo x > " + cache + "/x"}, Views: base})
		isolated(t, err)
		expect(t, errors.Is(err, want) && (err != nil || out.ExitCode == 0), "%s: %v %+v", entry, err, out)
		s.Close(t.Context())
	}
	fileIs(t, cache, "x", "x\n")
}

// TestExecOfWhatIsNotCaptured: files that the policy does not capture are committed
// too, each compared with its old content; files that it captures although git ignores
// them have versions.
func TestExecOfWhatIsNotCaptured(t *testing.T) {
	dir, base := execPlace(t)
	os.Mkdir(filepath.Join(dir, "out"), 0o755)
	for name, text := range map[string]string{"x.db": "old", "y.db": "old", "out/kept": "old", "out/lost": "old", ".gitignore": "out/\n"} {
		os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
	}
	policy := filepath.Join(filepath.Dir(dir), "policy.yaml")
	os.WriteFile(policy, []byte("capture: {exclude: ['*.db'], include: ['out/kept*']}\n"), 0o600)
	s := openExec(t, dir, &rw.Options{PolicyFile: policy})
	out, err := s.Exec(t.Context(), command.Request{Views: base, Argv: []string{"sh", "-ec", "echo new > x.db; rm y.db; for f in kept kept2 lost; do echo new > out/$f; done"}})
	isolated(t, err)
	var names []string
	if err == nil {
		for _, f := range out.Results {
			names = append(names, f.Op+" "+f.Path)
		}
	}
	slices.Sort(names)
	expect(t, slices.Equal(names, []string{"delete y.db", "write out/kept", "write out/kept2", "write x.db"}) && out.Ignored == 1, "%v %q %+v", err, names, out)
	out, err = s.Exec(t.Context(), command.Request{Views: base, Argv: []string{"sh", "-ec", "echo newer > x.db; echo ready; cat > /dev/null"},
		Stdin: whenRead(func() { os.WriteFile(filepath.Join(dir, "x.db"), []byte("a person's"), 0o644) })})
	expect(t, errors.Is(err, rw.ErrHashMismatch), "%v %+v", err, out)
	fileIs(t, dir, "x.db", "a person's")
	fileIs(t, dir, "out/lost", "new\n")
}

// whenRead is empty; it does something first.
type whenRead func()

func (f whenRead) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

// TestExecTimeIsOverBeforeItsCommand: the time limit may end before the view is made and
// the command started. That is no error.
func TestExecTimeIsOverBeforeItsCommand(t *testing.T) {
	t.Parallel()
	dir, base := execPlace(t)
	helper := filepath.Join(filepath.Dir(dir), "helper")
	noErr(t, os.WriteFile(helper, []byte("#!/bin/sh\nexec sleep 600\n"), 0o755))
	var wg sync.WaitGroup
	for _, keep := range []bool{false, true} {
		s := openExec(t, dir, nil)
		wg.Go(func() {
			out, err := s.Exec(t.Context(), command.Request{
				Argv: []string{"true"}, Views: base, Helper: helper, TimeoutSeconds: 1, KeepFailed: keep,
			})
			expect(t, err == nil && out.TimedOut && out.Discarded && out.ExitCode == 137 && out.Seq == 0, "%+v %v", out, err)
		})
	}
	wg.Wait()
}

// TestExecNeedsItsMain: a program whose main does not call ExecMain is not started
// again as if it did.
func TestExecNeedsItsMain(t *testing.T) {
	if os.Getenv("RW_NO_HELPER") == "" {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestExecNeedsItsMain$")
		cmd.Env = append(os.Environ(), "RW_NO_HELPER=1")
		out, err := cmd.CombinedOutput()
		require(t, err == nil, "%v: %s", err, out)
		return
	}
	dir, base := execPlace(t)
	_, err := openExec(t, dir, nil).Exec(t.Context(), command.Request{Argv: []string{"true"}, Views: base})
	expect(t, errors.Is(err, rw.ErrNoIsolation) && strings.Contains(rw.AsError("", err).Hint, "command.Main"), "%v", err)
}
