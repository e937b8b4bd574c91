package resilientwrite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestOpenRefusesNilHooks: a rule that is not there must not seem to hold.
// Nothing is made on disk.
func TestOpenRefusesNilHooks(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	for list, hooks := range map[string]rw.Hooks{
		"authorize": {Authorize: []rw.Authorizer{rw.DenyWrites{}, nil}},
		"transform": {Transform: []rw.Transformer{transformer(nil), nil}},
		"verify":    {Verify: []rw.Verifier{rw.CommandOracle{}, nil}},
		"observe":   {Observe: []rw.Observer{&rw.TaskBudget{}, nil}},
	} {
		s, err := rw.Open(background, dir, &rw.Options{Hooks: hooks})
		if err == nil {
			s.Close(background)
			t.Errorf("%s: nil is taken for a hook", list)
			continue
		}
		e := rw.AsError("", err)
		if !errors.Is(err, rw.ErrInvalidArgument) || e.Op != "open" || e.Context["argument"] != "hooks."+list || e.Context["index"] != 1 {
			t.Errorf("%s: %+v", list, e)
		}
		conformsEnvelope(t, e)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	// Later changes of the host to its list have no effect.
	hooks := rw.Hooks{Authorize: []rw.Authorizer{rw.DenyWrites{}}}
	s := open(t, dir, &rw.Options{Hooks: hooks})
	hooks.Authorize[0] = rw.Permission{AutoApprove: []string{"**"}}
	turnedDown(t, s, dir, put("a.txt", "x", rw.ModeCreate), rw.ErrDenied)
}

// TestResetTaskOnce: a hook in several lists begins a new task once.
func TestResetTaskOnce(t *testing.T) {
	t.Parallel()
	h := &resets{}
	s := open(t, ramspace(t), &rw.Options{Hooks: rw.Hooks{Authorize: []rw.Authorizer{h, rw.Permission{}}, Observe: []rw.Observer{h}}})
	if err := s.ResetTask(background); err != nil || h.n != 1 {
		t.Errorf("%d times: %v", h.n, err)
	}
}

// resets counts the tasks that begin.
type resets struct{ n int }

func (r *resets) ResetTask() { r.n++ }
func (r *resets) Authorize(context.Context, rw.HookCall) (rw.Decision, error) {
	return rw.Allow(), nil
}
func (r *resets) Observe(context.Context, rw.HookCall, rw.Receipt, error) {}

// sore is a hook that cannot begin a new task.
type sore struct{ rw.DenyWrites }

func (sore) Authorize(context.Context, rw.HookCall) (rw.Decision, error) { return rw.Allow(), nil }
func (sore) ResetTask()                                                  { panic("/etc/broken") }

func TestAHookThatCannotBeResetKeepsNobodyFromIt(t *testing.T) {
	t.Parallel()
	for _, readOnly := range []bool{false, true} {
		dir := ramspace(t)
		open(t, dir, nil).Close(background)
		first, last := &rw.TaskBudget{Failures: 1}, &rw.TaskBudget{Failures: 1}
		s := open(t, dir, &rw.Options{ReadOnly: readOnly, Hooks: roles(first, sore{}, last)})
		s.SafeWrite(background, put("../x", "x", rw.ModeCreate)) // a failure
		for _, b := range []*rw.TaskBudget{first, last} {
			if d, _ := b.Authorize(background, rw.HookCall{}); d == rw.Allow() {
				t.Fatal("the failure was not counted")
			}
		}
		err := s.ResetTask(background)
		e := rw.AsError("", err)
		if !errors.Is(err, rw.ErrInternal) || e.Op != "reset_task" || e.Context["index"] != 1 || strings.Contains(string(conformsEnvelope(t, e)), "broken") {
			t.Errorf("read-only %v: %+v", readOnly, e)
		}
		for _, b := range []*rw.TaskBudget{first, last} {
			if d, _ := b.Authorize(background, rw.HookCall{}); d != rw.Allow() {
				t.Errorf("read-only %v: a budget was not reset", readOnly)
			}
		}
	}
	// The retry budgets are reset anyway.
	dir := ramspace(t)
	s := hooked(t, dir, sore{})
	write(t, s, "a.txt", "x", rw.ModeCreate)
	for range 4 {
		s.SafeWrite(background, put("a.txt", "y", rw.ModeCreate))
	}
	turnedDown(t, s, dir, put("a.txt", "y", rw.ModeCreate), rw.ErrRetryExhausted)
	if err := s.ResetTask(background); err == nil {
		t.Error("no error")
	}
	if e := turnedDown(t, s, dir, put("a.txt", "y", rw.ModeCreate), rw.ErrFileAlreadyExists); e.RetryBudget != 2 {
		t.Errorf("%d attempts are left", e.RetryBudget)
	}
}

// TestAnErrorOfATransactionNamesItsOperation: whichever stage refuses, the error names
// the operation that caused it.
func TestAnErrorOfATransactionNamesItsOperation(t *testing.T) {
	t.Parallel()
	good := rw.TxOp{Op: "write", Path: "good.txt", Content: []byte("good")}
	wrong := "0000000000000000000000000000000000000000000000000000000000000000"
	judge := verifier(func(_ context.Context, c rw.StagedCommit) error {
		return fmt.Errorf("of %d files: %w", len(c.Files), &rw.FileError{Path: c.Files[len(c.Files)-1].Path, Err: errors.New("bad")})
	})
	whole := verifier(func(context.Context, rw.StagedCommit) error { return errors.New("bad as a whole") })
	stranger := verifier(func(context.Context, rw.StagedCommit) error {
		return &rw.FileError{Path: "elsewhere", Err: errors.New("bad")}
	})
	spoil := transformer(func(_ rw.HookCall, path string, r io.Reader) (io.Reader, error) {
		if path == "bad.txt" {
			return nil, errors.New("no")
		}
		return r, nil
	})
	for name, c := range map[string]struct {
		hook     any
		gate     rw.GateMode
		validate bool
		ops      []rw.TxOp
		want     rw.Detail
		stage    rw.Stage
		index    int // -1: about no single one
		path     string
	}{
		"authorize":       {hook: rw.PathRules{Deny: []string{"infra"}}, ops: []rw.TxOp{good, {Op: "write", Path: "infra/x", Content: []byte("x")}}, want: rw.ErrDenied, stage: rw.StageAuthorize, index: 1, path: "infra/x"},
		"authorize move":  {hook: rw.PathRules{Deny: []string{"old.txt"}}, ops: []rw.TxOp{good, {Op: "move", Path: "old.txt", To: "new.txt"}}, want: rw.ErrDenied, stage: rw.StageAuthorize, index: 1, path: "new.txt"},
		"authorize all":   {hook: rw.DenyWrites{}, ops: []rw.TxOp{good, {Op: "delete", Path: "old.txt"}}, want: rw.ErrDenied, stage: rw.StageAuthorize, index: -1},
		"resolve":         {ops: []rw.TxOp{good, simple("out/x")}, want: rw.ErrEscapesWorkspace, stage: rw.StageResolve, index: 1, path: "out/x"},
		"lock":            {ops: []rw.TxOp{simple("same.txt"), good, simple("link.txt")}, want: rw.ErrInvalidArgument, stage: rw.StageLock, index: 2, path: "link.txt"},
		"precondition":    {ops: []rw.TxOp{good, {Op: "delete", Path: "old.txt", Expect: rw.Exactly(digest(wrong))}}, want: rw.ErrHashMismatch, stage: rw.StagePrecondition, index: 1, path: "old.txt"},
		"precondition 0":  {ops: []rw.TxOp{{Op: "delete", Path: "none.txt"}, good}, want: rw.ErrNotFound, stage: rw.StagePrecondition, index: 0, path: "none.txt"},
		"moved from none": {ops: []rw.TxOp{good, {Op: "move", Path: "none.txt", To: "n.txt"}}, want: rw.ErrNotFound, stage: rw.StagePrecondition, index: 1, path: "none.txt"},
		"compose": {ops: []rw.TxOp{good, {Op: "edit", Path: "old.txt", Edits: []rw.EditOp{{Old: "old", New: "1"}}},
			{Op: "edit", Path: "old.txt", Edits: []rw.EditOp{{Old: "old", New: "2"}}}}, want: rw.ErrOldStringNotFound, stage: rw.StageCompose, index: 2, path: "old.txt"},
		"transform":     {hook: spoil, ops: []rw.TxOp{good, simple("bad.txt")}, want: rw.ErrTransformFailed, stage: rw.StageCompose, index: 1, path: "bad.txt"},
		"classify":      {gate: rw.GateBlock, ops: []rw.TxOp{good, good, {Op: "write", Path: "s.txt", Content: []byte("token = " + ghToken(5))}}[1:], want: rw.ErrRiskBlocked, stage: rw.StageClassify, index: 1, path: "s.txt"},
		"syntax":        {validate: true, ops: []rw.TxOp{good, {Op: "write", Path: "s.json", Content: []byte("{")}}, want: rw.ErrSyntaxInvalid, stage: rw.StageClassify, index: 1, path: "s.json"},
		"verify":        {hook: judge, ops: []rw.TxOp{good, simple("bad.txt")}, want: rw.ErrVerifyFailed, stage: rw.StageStage, index: 1, path: "bad.txt"},
		"verify all":    {hook: whole, ops: []rw.TxOp{good, simple("bad.txt")}, want: rw.ErrVerifyFailed, stage: rw.StageStage, index: -1},
		"verify others": {hook: stranger, ops: []rw.TxOp{good, simple("bad.txt")}, want: rw.ErrVerifyFailed, stage: rw.StageStage, index: -1},
	} {
		dir := ramspace(t)
		quiet := open(t, dir, nil)
		write(t, quiet, "old.txt", "old", rw.ModeCreate)
		write(t, quiet, "same.txt", "old", rw.ModeCreate)
		os.Symlink("same.txt", filepath.Join(dir, "link.txt"))
		os.Symlink("/", filepath.Join(dir, "out"))
		for i := range c.ops {
			if c.ops[i].Path == "same.txt" || c.ops[i].Path == "link.txt" {
				c.ops[i].Mode = rw.ModeOverwrite
			}
		}
		var hooks []any
		if c.hook != nil {
			hooks = []any{c.hook}
		}
		s := open(t, dir, &rw.Options{Hooks: roles(hooks...), Gate: rw.Gate{Mode: c.gate, RejectAt: "high"}})
		staged := must(s.TxBegin(background, rw.TxBeginRequest{}))(t)
		before := snapshot(t, dir)
		calls := map[string]func() error{"tx": func() error {
			_, err := s.Tx(background, rw.TxRequest{Ops: c.ops, Validate: c.validate})
			return err
		}}
		if name != "classify" { // the gate refuses it when it is staged
			for _, op := range c.ops {
				must(s.TxStage(background, rw.TxStageRequest{TxID: staged.TxID, Op: op}))(t, name)
			}
			calls["tx_commit"] = func() error {
				_, err := s.TxCommit(background, rw.TxCommitRequest{TxID: staged.TxID, Validate: c.validate})
				return err
			}
		}
		for verb, call := range calls {
			err := call()
			e := rw.AsError("", err)
			if !errors.Is(err, c.want) || e.Stage != c.stage || e.Path != c.path {
				t.Errorf("%s %s: %v in %s of %q", name, verb, err, e.Stage, e.Path)
				continue
			}
			conformsEnvelope(t, e)
			if i, ok := e.Context["op_index"].(int); ok != (c.index >= 0) || ok && i != c.index {
				t.Errorf("%s %s: op_index %v, want %d", name, verb, e.Context["op_index"], c.index)
			}
			if snapshot(t, dir) != before {
				t.Errorf("%s %s: something changed", name, verb)
			}
		}
		check(t, s, true)
	}
}

// simple makes a file.
func simple(path string) rw.TxOp { return rw.TxOp{Op: "write", Path: path, Content: []byte("x")} }

// TestAFailingFileIsGivenUp: calls that fail to change a file, each in another way, are
// no progress. Failures on other files do not count, and a successful change starts a
// new count.
func TestAFailingFileIsGivenUp(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	n := 0
	s := hooked(t, dir, &rw.LoopGuard{}, verifier(func(_ context.Context, c rw.StagedCommit) error {
		if strings.HasPrefix(c.Files[0].Path, "v") {
			return errors.New("no")
		}
		return nil
	}))
	write(t, s, "a.go", "x", rw.ModeCreate)
	guess := func(path string) error {
		n++
		_, err := s.Edit(background, rw.EditRequest{Path: path, Edits: []rw.EditOp{{Old: fmt.Sprint("guess ", n), New: "y"}}})
		return err
	}
	for range 5 {
		guess("a.go")
	}
	write(t, s, "a.go", "new", rw.ModeOverwrite) // progress
	for i := range 6 {
		isErr(t, guess("a.go"), rw.ErrOldStringNotFound, "guess ", i)
		write(t, s, "b.go", fmt.Sprint(i), rw.ModeOverwrite) // another file is no progress with this one
	}
	e := turnedDown(t, s, dir, put("a.go", "z", rw.ModeOverwrite), rw.ErrDenied)
	if e.Context["rule"] != "loop_failing" || e.Action != rw.ActionAskUser || !strings.Contains(e.Hint, "6 calls one after the other failed to change a.go, the last one with old_string_not_found") {
		t.Errorf("%s %v", e.Hint, e.Context)
	}
	for i := range 6 { // a transaction blames the file that it failed for
		fails(s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{
			{Op: "write", Path: "b.go", Content: []byte(fmt.Sprint("tx", i)), Mode: rw.ModeOverwrite}, {Op: "delete", Path: "none.go"},
			{Op: "write", Path: fmt.Sprint("c", i), Content: []byte("x")},
		}}))(t, rw.ErrNotFound)
	}
	write(t, s, "b.go", "fine", rw.ModeOverwrite)
	turnedDown(t, s, dir, put("none.go", "x", rw.ModeCreate), rw.ErrDenied)
	for i := range 6 {
		fails(s.SafeWrite(background, put("v.go", fmt.Sprint(i), rw.ModeCreate)))(t, rw.ErrVerifyFailed)
	}
	turnedDown(t, s, dir, put("v.go", "7", rw.ModeCreate), rw.ErrDenied)
	// Failures that the caller did not cause do not count.
	for range 10 {
		ctx, stop := context.WithCancel(background)
		stop()
		s.SafeWrite(ctx, put("q.go", "x", rw.ModeCreate))
		s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.go", Content: []byte("x"), Call: rw.Call{DryRun: true}, Mode: rw.ModeCreate})
	}
	write(t, s, "q.go", "x", rw.ModeCreate)
	noErr(t, s.ResetTask(background))
	write(t, s, "a.go", "z", rw.ModeOverwrite)
	check(t, s, true)
}

// TestEveryShippedRefusalHasItsCodeAndSaysWhatToDo: programs distinguish the rules by
// context.rule, and the hint says whom an agent can ask.
func TestEveryShippedRefusalHasItsCodeAndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	write := func(path string) rw.SafeWriteRequest { return put(path, path, rw.ModeOverwrite) }
	fails := put("../x", "x", rw.ModeCreate)
	for rule, c := range map[string]struct {
		hook  any
		first []rw.SafeWriteRequest
	}{
		"read_only":        {rw.DenyWrites{}, nil},
		"path_denied":      {rw.PathRules{Deny: []string{"last"}}, nil},
		"path_not_allowed": {rw.PathRules{Allow: []string{"src"}}, nil},
		"budget_bytes":     {&rw.TaskBudget{Bytes: 1}, []rw.SafeWriteRequest{write("a")}},
		"budget_writes":    {&rw.TaskBudget{Writes: 1}, []rw.SafeWriteRequest{write("a")}},
		"budget_failures":  {&rw.TaskBudget{Failures: 1}, []rw.SafeWriteRequest{fails}},
		"loop_no_progress": {&rw.LoopGuard{Repeats: 1}, []rw.SafeWriteRequest{write("last"), write("last")}},
		"loop_failing":     {&rw.LoopGuard{Repeats: 1}, []rw.SafeWriteRequest{{Path: "last", Content: []byte("x"), Expect: rw.Exactly(digest(hash("other"))), Mode: rw.ModeOverwrite}}},
	} {
		dir := ramspace(t)
		s := hooked(t, dir, c.hook)
		for _, r := range c.first {
			s.SafeWrite(background, r)
		}
		e := turnedDown(t, s, dir, put("last", "something else", rw.ModeOverwrite), rw.ErrDenied)
		if e.Context["rule"] != rule || e.Code() != rw.CodePolicy || e.Action != rw.ActionAskUser {
			t.Errorf("%s: %+v", rule, e)
		}
		if !strings.Contains(e.Hint, "user") && rule != "path_not_allowed" {
			t.Errorf("%s does not say what to do: %s", rule, e.Hint)
		}
	}
}

// TestNobodyDeclaresATaskCompleteWhoseCheckFails: the check of the whole workspace runs
// again on the content after the last change, even if the change was not made through
// this store.
func TestNobodyDeclaresATaskCompleteWhoseCheckFails(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("no sh here")
	}
	dir := ramspace(t)
	oracle := rw.CommandOracle{
		Match: []string{"**/*.go"}, OnComplete: true,
		Command: []string{"sh", "-c", `test -e "$RW_ROOT/built" || { echo the workspace does not build; exit 1; }`},
	}
	s := hooked(t, dir, oracle)
	handoff := func(status rw.HandoffStatus, path string) error {
		_, err := s.HandoffWrite(background, rw.HandoffWriteRequest{Path: path, Envelope: anEnvelope("t", func(e *rw.HandoffEnvelope) { e.Status = status })})
		return err
	}
	for _, status := range []rw.HandoffStatus{rw.HandoffPartial, rw.HandoffBlocked, rw.HandoffHandedOff} {
		noErr(t, handoff(status, ""), status)
	}
	before := snapshot(t, dir)
	for _, path := range []string{"", "deep/er/handoff.md"} {
		err := handoff(rw.HandoffComplete, path)
		e := rw.AsError("", err)
		if text, _ := e.Context["output"].(string); !errors.Is(err, rw.ErrVerifyFailed) || !strings.Contains(text, "does not build") || snapshot(t, dir) != before {
			t.Errorf("complete at %q: %v %v", path, err, e.Context["output"])
		}
		conformsEnvelope(t, e)
	}
	os.WriteFile(filepath.Join(dir, "built"), nil, 0o644)
	if err := handoff(rw.HandoffComplete, ""); err != nil {
		t.Errorf("%v %v", err, rw.AsError("", err).Context["output"])
	}
	os.Remove(filepath.Join(dir, "built")) // a change after the check passed
	isErr(t, handoff(rw.HandoffComplete, ""), rw.ErrVerifyFailed, "after another change")
	// A check of single files cannot replace a check of the workspace.
	s = hooked(t, dir, rw.CommandOracle{Match: []string{"**/*.go"}, OnComplete: true, Command: []string{"true", "{}"}})
	isErr(t, handoff(rw.HandoffComplete, ""), rw.ErrVerifyFailed, "with {}")
	noErr(t, handoff(rw.HandoffPartial, ""))
	check(t, s, true)
}

// TestAnOracleThatCrashesRefuses: killed, or not there any more.
func TestAnOracleThatCrashesRefuses(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("no sh here")
	}
	for _, script := range []string{"kill -9 $$", "kill -TERM $$", "exit 255", "exec /no/such/program"} {
		dir := ramspace(t)
		s := hooked(t, dir, rw.CommandOracle{Command: []string{"sh", "-c", script}})
		turnedDown(t, s, dir, put("a", "x", rw.ModeCreate), rw.ErrVerifyFailed)
		check(t, s, true)
	}
}
