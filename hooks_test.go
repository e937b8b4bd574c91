package resilientwrite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/failpoint"
)

// The four kinds of hook, as functions.
type (
	authorizer  func(rw.Operation) (rw.Decision, error)
	observer    func(rw.Operation, rw.Receipt, error)
	transformer func(rw.Operation, string, io.Reader) (io.Reader, error)
	verifier    func(context.Context, rw.Commit) error
)

func (f authorizer) Authorize(_ context.Context, op rw.Operation) (rw.Decision, error) { return f(op) }
func (f observer) Observe(_ context.Context, op rw.Operation, r rw.Receipt, err error) { f(op, r, err) }
func (f verifier) Verify(ctx context.Context, c rw.Commit) error                       { return f(ctx, c) }
func (f transformer) Transform(_ context.Context, op rw.Operation, path string, r io.Reader) (io.Reader, error) {
	return f(op, path, r)
}

// changes is an operation in one line.
func changes(op rw.Operation) string {
	out := op.Verb + ":"
	for _, ch := range op.Changes {
		out += " " + ch.Op + " "
		if ch.From != "" {
			out += ch.From + ">"
		}
		out += ch.Path
	}
	return out
}

// witness allows everything and keeps what it is shown.
type witness struct {
	asked, told []string
	ops         []rw.Operation
}

func (w *witness) Authorize(_ context.Context, op rw.Operation) (rw.Decision, error) {
	w.asked = append(w.asked, changes(op))
	return rw.Allow(), nil
}

func (w *witness) Observe(_ context.Context, op rw.Operation, r rw.Receipt, err error) {
	status := string(r.Status)
	if err != nil {
		status += " " + string(rw.AsError("", err).Detail)
	}
	w.told, w.ops = append(w.told, changes(op)+" "+status), append(w.ops, op)
}

func hooked(t *testing.T, dir string, hooks ...any) *rw.Store {
	t.Helper()
	return open(t, dir, &rw.Options{Hooks: hooks})
}

// committed is how many commits the journal knows.
func committed(t *testing.T, s *rw.Store) int {
	t.Helper()
	tail, err := s.JournalTail(background, rw.JournalTailRequest{N: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return len(tail.Entries)
}

// turnedDown makes a write that the hooks must refuse: nothing has changed,
// nothing is left, and the envelope says what to do.
func turnedDown(t *testing.T, s *rw.Store, dir string, r rw.SafeWriteRequest, want rw.Detail) *rw.Error {
	t.Helper()
	before := committed(t, s)
	e := refused(t, s, dir, r, want)
	conformsEnvelope(t, e)
	if now := committed(t, s); now != before {
		t.Errorf("a refused call left %d rows", now-before)
	}
	return e
}

func TestTheFirstRefusalCountsAndEveryAuthorizerIsAsked(t *testing.T) {
	t.Parallel()
	allow := authorizer(func(rw.Operation) (rw.Decision, error) { return rw.Allow(), nil })
	deny := func(why string) any {
		return authorizer(func(rw.Operation) (rw.Decision, error) { return rw.Deny(why), nil })
	}
	for name, c := range map[string]struct {
		first, second any
		hint          string
	}{
		"two refusals": {deny("because of one"), deny("because of two"), "because of one"},
		"an error":     {authorizer(func(rw.Operation) (rw.Decision, error) { return rw.Allow(), errors.New("/etc/broken") }), allow, "the check of this operation failed"},
		"a panic":      {authorizer(func(rw.Operation) (rw.Decision, error) { panic("/etc/broken") }), allow, "the check of this operation failed"},
		"no decision":  {authorizer(func(rw.Operation) (rw.Decision, error) { return rw.Decision{}, nil }), allow, "the host does not allow this"},
		"ask and deny": {authorizer(func(rw.Operation) (rw.Decision, error) { return rw.AskUser("may I?"), nil }), deny("never"), "never"},
		"no hook":      {rw.Budget{}, allow, "no method that a hook can have"},
		"nil":          {nil, allow, "no method that a hook can have"},
		"a vandal": {authorizer(func(op rw.Operation) (rw.Decision, error) {
			op.Changes[0].Path = "elsewhere"
			return rw.Deny("no"), nil
		}), allow, "no"},
	} {
		dir, last := ramspace(t), &witness{}
		s := hooked(t, dir, c.first, c.second, last)
		e := turnedDown(t, s, dir, put("a.txt", "x", rw.ModeCreate), rw.Denied)
		if e.Kind != rw.PolicyViolation || e.Reason != rw.ReasonPermission || e.Stage != rw.StageAuthorize || !strings.Contains(e.Hint, c.hint) {
			t.Errorf("%s: %+v", name, e)
		}
		if strings.Contains(string(conformsEnvelope(t, e)), "broken") {
			t.Errorf("%s: the error of the hook is shown", name)
		}
		if fmt.Sprint(last.asked) != "[safe_write: create a.txt]" || fmt.Sprint(last.told) != "[safe_write: create a.txt refused denied]" {
			t.Errorf("%s: asked %v, told %v", name, last.asked, last.told)
		}
		check(t, s, true)
	}
}

func TestAUserIsAskedAndAlwaysMeansThisVerbAndThesePaths(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	var asked []string
	answer, failure := rw.Answer{}, error(nil)
	s := open(t, dir, &rw.Options{
		Hooks: []any{authorizer(func(rw.Operation) (rw.Decision, error) { return rw.AskUser("may I?"), nil })},
		Ask: func(_ context.Context, op rw.Operation, question string) (rw.Answer, error) {
			asked = append(asked, changes(op)+" "+question)
			if failure != nil && failure.Error() == "panic" {
				panic(failure)
			}
			return answer, failure
		},
	})
	turnedDown(t, s, dir, put("a.txt", "1", rw.ModeCreate), rw.Denied)
	answer = rw.Answer{Allow: true}
	for _, why := range []string{"down", "panic"} {
		failure = errors.New(why)
		turnedDown(t, s, dir, put("b.txt", why, rw.ModeCreate), rw.Denied)
	}
	failure, asked = nil, nil
	write(t, s, "a.txt", "1", rw.ModeCreate)
	answer.Always = true
	write(t, s, "a.txt", "2", rw.ModeOverwrite)
	write(t, s, "a.txt", "3", rw.ModeOverwrite) // not asked
	answer.Always = false
	write(t, s, "A.txt", "1", rw.ModeOverwrite)
	write(t, s, "a.txt", "4", rw.ModeAppend)
	if _, err := s.SafeWrite(background, rw.SafeWriteRequest{Path: "z.txt", Content: "x", DryRun: true}); err != nil {
		t.Errorf("a dry run: %v", err)
	}
	answer.Always = true
	for _, from := range []string{"a.txt", "A.txt"} { // one answer is not one for another file
		if _, err := s.Move(background, rw.MoveRequest{Path: from, To: "c.txt", Overwrite: true}); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"safe_write: create a.txt may I?", "safe_write: overwrite a.txt may I?", "safe_write: overwrite A.txt may I?",
		"safe_write: append a.txt may I?", "move: move a.txt>c.txt may I?", "move: move A.txt>c.txt may I?",
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked %q", asked)
	}
	ctx, stop := context.WithCancel(background)
	answer.Always = false
	failure = context.Canceled
	s2 := open(t, ramspace(t), &rw.Options{Hooks: []any{rw.Permission{}}, Ask: func(ctx context.Context, _ rw.Operation, _ string) (rw.Answer, error) {
		stop()
		return rw.Answer{}, ctx.Err()
	}})
	if _, err := s2.SafeWrite(ctx, put("a.txt", "1", rw.ModeCreate)); !errors.Is(err, rw.Canceled) {
		t.Errorf("a caller who left while the user was asked: %v", err)
	}
}

func TestPermissionIsNeverImpliedForWhatIsDestroyed(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	var asked []string
	perm := rw.Permission{AutoApprove: []string{"docs/**"}}
	opts := &rw.Options{Hooks: []any{perm}, Ask: func(_ context.Context, op rw.Operation, q string) (rw.Answer, error) {
		asked = append(asked, q)
		return rw.Answer{Allow: true}, nil
	}}
	s := open(t, dir, opts)
	do := func(want string, call func() error) {
		t.Helper()
		asked = nil
		if err := call(); err != nil {
			t.Fatalf("%s: %v", want, err)
		}
		if got := strings.Join(asked, ";"); got != want {
			t.Errorf("asked %q, want %q", got, want)
		}
	}
	put := func(path, content string, mode rw.WriteMode) func() error {
		return func() error { _, err := s.SafeWrite(background, put(path, content, mode)); return err }
	}
	tx := func(ops ...rw.TxOp) func() error {
		return func() error { _, err := s.Tx(background, rw.TxRequest{Ops: ops}); return err }
	}
	do("", put("docs/a.md", "one\n", rw.ModeCreate))
	do("", put("docs/b.md", "one\n", rw.ModeOverwrite)) // nothing is there
	do("", put("docs/a.md", "two\n", rw.ModeAppend))
	do("may safe_write do this: create a.md?", put("a.md", "one\n", rw.ModeCreate))
	do("may safe_write do this: overwrite docs/a.md?", put("docs/a.md", "x", rw.ModeOverwrite))
	do("may edit do this: edit docs/a.md?", func() error {
		_, err := s.Edit(background, rw.EditRequest{Path: "docs/a.md", Edits: []rw.EditOp{{Old: "x", New: "y"}}})
		return err
	})
	do("may tx do this: create docs/c.md, edit docs/a.md?", tx(
		rw.TxOp{Op: "write", Path: "docs/c.md", Content: "c"},
		rw.TxOp{Op: "edit", Path: "docs/a.md", Edits: []rw.EditOp{{Old: "y", New: "z"}}}, rw.TxOp{Op: "write", Path: "docs/a.md", Mode: rw.ModeOverwrite, Content: "all new"}))
	do("may move do this: move docs/c.md to docs/d.md?", func() error {
		_, err := s.Move(background, rw.MoveRequest{Path: "docs/c.md", To: "docs/d.md"})
		return err
	})
	do("may delete do this: delete docs/d.md?", func() error {
		_, err := s.Delete(background, rw.DeleteRequest{Path: "docs/d.md"})
		return err
	})
	do("", func() error { // the file comes back where nothing is
		_, err := s.Undo(background, rw.UndoRequest{})
		return err
	})
	do("may undo do this: delete docs/d.md?", func() error {
		_, err := s.Undo(background, rw.UndoRequest{})
		return err
	})
	var many []rw.TxOp
	for i := range 8 {
		many = append(many, rw.TxOp{Op: "write", Path: fmt.Sprintf("m%d", i), Content: "x"})
	}
	do("may tx do this: create m0, create m1, create m2, create m3, create m4, and 3 more?", tx(many...))
	os.Symlink("../a.md", filepath.Join(dir, "docs", "link.md"))
	do("may safe_write do this: append a.md?", put("docs/link.md", "x", rw.ModeAppend))
	do("", func() error {
		_, err := s.Delete(background, rw.DeleteRequest{Path: "docs/a.md", DryRun: true})
		return err
	})
	// Nobody to ask.
	s = open(t, dir, &rw.Options{Hooks: []any{perm}})
	e := turnedDown(t, s, dir, rw.SafeWriteRequest{Path: "docs/a.md", Content: "x", Mode: rw.ModeOverwrite}, rw.Denied)
	if e.Context["question"] != "may safe_write do this: overwrite docs/a.md?" {
		t.Errorf("%+v", e)
	}
	if _, err := s.SafeWrite(rw.WithAsk(background, opts.Ask), rw.SafeWriteRequest{Path: "docs/a.md", Content: "x", Mode: rw.ModeOverwrite}); err != nil {
		t.Errorf("asked through the context: %v", err)
	}
}

// TestWhatWasAllowedIsWhatHappens: between the answer and the lock a link is
// bent, and a file appears.
func TestWhatWasAllowedIsWhatHappens(t *testing.T) {
	dir := workspace(t)
	os.Mkdir(filepath.Join(dir, "open"), 0o755)
	os.Mkdir(filepath.Join(dir, "closed"), 0o755)
	link := filepath.Join(dir, "link")
	bend := func(to string) {
		os.Remove(link)
		os.Symlink(to, link)
	}
	var asked int
	s := open(t, dir, &rw.Options{
		Hooks: []any{rw.PathRules{Deny: []string{"closed"}}, rw.Permission{AutoApprove: []string{"open"}}},
		Ask: func(context.Context, rw.Operation, string) (rw.Answer, error) {
			asked++
			return rw.Answer{Allow: true}, nil
		},
	})
	at := func(do func()) {
		once := sync.Once{}
		t.Cleanup(failpoint.Arm(func(point string) {
			if point == string(rw.StageLock) {
				once.Do(do)
			}
		}))
	}
	bend("open")
	at(func() { bend("closed") })
	e := rw.AsError("", func() error { _, err := s.SafeWrite(background, put("link/a", "x", rw.ModeCreate)); return err }())
	if !errors.Is(e, rw.Denied) {
		t.Errorf("a link that was bent: %v", e)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "closed")); len(left) > 0 {
		t.Error("it was written all the same")
	}
	at(func() { os.WriteFile(filepath.Join(dir, "open", "new"), []byte("theirs"), 0o644) })
	_, err := s.SafeWrite(background, put("open/new", "ours", rw.ModeOverwrite))
	if !errors.Is(err, rw.ChangedDuringWrite) || asked != 0 {
		t.Errorf("a file that appeared: %v", err)
	}
	conformsEnvelope(t, rw.AsError("", err))
	fileIs(t, dir, "open/new", "theirs")
	at(func() { os.WriteFile(filepath.Join(dir, "open", "log"), []byte("theirs "), 0o644) })
	write(t, s, "open/log", "ours", rw.ModeAppend) // nothing is destroyed
	fileIs(t, dir, "open/log", "theirs ours")
	write(t, s, "open/new", "ours", rw.ModeOverwrite)
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	check(t, s, true)
}

func TestObserversAreToldOfEveryCall(t *testing.T) {
	t.Parallel()
	dir, w := ramspace(t), &witness{}
	s := hooked(t, dir, observer(func(rw.Operation, rw.Receipt, error) { panic("first") }), w,
		observer(func(rw.Operation, rw.Receipt, error) { panic("last") }))
	first := rw.SafeWriteRequest{Path: "a.txt", Content: "one", IdempotencyKey: "k"}
	for _, r := range []rw.SafeWriteRequest{
		first, first, put("a.txt", "two", rw.ModeCreate), put("a.txt", "one", rw.ModeOverwrite),
		{Path: "a.txt", Content: "2", Mode: rw.ModeAppend, DryRun: true}, put("a.txt", "2", rw.ModeAppend),
		put("../x", "2", rw.ModeAppend), put("b.txt", "x", "upsert"),
	} {
		s.SafeWrite(background, r)
	}
	want := []string{
		"safe_write: create a.txt succeeded", "safe_write: create a.txt replayed", "safe_write: create a.txt refused file_already_exists",
		"safe_write: overwrite a.txt unchanged", "safe_write: append a.txt succeeded", "safe_write: append a.txt succeeded",
		"safe_write: append  refused escapes_workspace", "safe_write: upsert b.txt refused invalid_argument",
	}
	if !slices.Equal(w.told, want) {
		t.Errorf("told %q", w.told)
	}
	if !w.ops[4].DryRun || w.ops[5].DryRun {
		t.Error("the dry run")
	}
	made, added := w.ops[0].Changes[0], w.ops[5].Changes[0]
	if made.Exists || made.Bytes != 3 || made.SHA256 != hash("one") || made.PrevSHA256 != "" {
		t.Errorf("%+v", made)
	}
	if !added.Exists || added.Bytes != 1 || added.SHA256 != hash("one2") || added.PrevSHA256 != hash("one") {
		t.Errorf("%+v", added)
	}
	if again := w.ops[1].Changes[0]; again.Exists || again.Bytes != 0 || again.SHA256 != hash("one") {
		t.Errorf("%+v", again)
	}
	s.Close(background)
	if _, err := s.SafeWrite(background, put("c.txt", "x", rw.ModeCreate)); !errors.Is(err, rw.StoreClosed) || w.told[len(w.told)-1] != "safe_write: create c.txt refused store_closed" {
		t.Errorf("%v, told %q", err, w.told[len(w.told)-1])
	}
}

func TestHooksSeeEveryVerbOfTheWorkspaceAndNoObject(t *testing.T) {
	t.Parallel()
	dir, w := ramspace(t), &witness{}
	var verified []string
	s := hooked(t, dir, w, verifier(func(_ context.Context, c rw.Commit) error {
		line := c.Verb + ":"
		for _, f := range c.Files {
			data, err := os.ReadFile(f.Staged)
			if f.Staged != "" && err != nil {
				t.Error(err)
			}
			line += fmt.Sprintf(" %s=%.9q", f.Path, data)
		}
		verified = append(verified, line)
		return nil
	}))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%v (%v)", err, errors.Unwrap(err))
		}
	}
	write(t, s, "a.txt", "one\n", rw.ModeCreate)
	write(t, s, "a.txt", "two\n", rw.ModeAppend)
	_, err := s.Edit(background, rw.EditRequest{Path: "a.txt", Edits: []rw.EditOp{{Old: "two", New: "2"}}})
	must(err)
	_, err = s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{
		{Op: "write", Path: "b.txt", Content: "b"}, {Op: "move", Path: "a.txt", To: "c.txt"},
	}})
	must(err)
	_, err = s.Undo(background, rw.UndoRequest{})
	must(err)
	_, err = s.Move(background, rw.MoveRequest{Path: "a.txt", To: "d.txt"})
	must(err)
	hist, err := s.History(background, rw.HistoryRequest{Path: "d.txt"})
	must(err)
	_, err = s.Restore(background, rw.RestoreRequest{Path: "d.txt", SHA256: hash("one\n")})
	if err != nil {
		t.Fatalf("%v of %+v", err, hist)
	}
	_, err = s.Delete(background, rw.DeleteRequest{Path: "d.txt"})
	must(err)
	_, err = s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "s", Index: 1, Content: "piece"})
	must(err)
	_, err = s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "s", OutputPath: "e.txt"})
	must(err)
	_, err = s.HandoffWrite(background, rw.HandoffWriteRequest{Envelope: anEnvelope("t")})
	must(err)
	_, err = s.ScratchPut(background, rw.ScratchPutRequest{Content: "scratch"})
	must(err)
	_, err = s.Checkpoint(background, rw.CheckpointRequest{Name: "c", Data: []byte("1")})
	must(err)
	begun, err := s.TxBegin(background, rw.TxBeginRequest{})
	must(err)
	_, err = s.TxStage(background, rw.TxStageRequest{TxID: begun.TxID, Op: rw.TxOp{Op: "write", Path: "f.txt", Content: "f"}})
	must(err)
	_, err = s.TxCommit(background, rw.TxCommitRequest{TxID: begun.TxID})
	must(err)
	asked := []string{
		"safe_write: create a.txt", "safe_write: append a.txt", "edit: edit a.txt", "tx: create b.txt move a.txt>c.txt",
		"undo: overwrite a.txt delete b.txt delete c.txt", "move: move a.txt>d.txt", "restore: overwrite d.txt", "delete: delete d.txt",
		"chunk_compose: overwrite e.txt", "handoff_write: overwrite HANDOFF.md", "tx_commit: create f.txt",
	}
	if !slices.Equal(w.asked, asked) {
		t.Errorf("asked %q", w.asked)
	}
	looked := []string{
		`safe_write: a.txt="one\n"`, `safe_write: a.txt="two\n"`, `edit: a.txt="one\n2\n"`, `tx: b.txt="b" c.txt="one\n2\n" a.txt=""`,
		`undo: a.txt="one\n2\n" b.txt="" c.txt=""`, `move: d.txt="one\n2\n" a.txt=""`, `restore: d.txt="one\n"`, `delete: d.txt=""`,
		`chunk_compose: e.txt="piece"`, `handoff_write: HANDOFF.md="---\nhando"`, `tx_commit: f.txt="f"`,
	}
	for i := range looked {
		if i >= len(verified) || verified[i] != looked[i] && !strings.HasPrefix(looked[i], "handoff") {
			t.Errorf("looked at %q, want %q", verified, looked)
			break
		}
	}
	for _, call := range asked {
		// These two hand out their receipt without telling observers.
		if strings.HasPrefix(call, "chunk_compose") || strings.HasPrefix(call, "handoff_write") {
			continue
		}
		if !slices.Contains(w.told, call+" succeeded") {
			t.Errorf("not told of %s: %q", call, w.told)
		}
	}
	check(t, s, true)
}

func TestRefusalsReachEveryVerb(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	s := open(t, dir, nil)
	write(t, s, "a.txt", "one\n", rw.ModeCreate)
	write(t, s, "a.txt", "two\n", rw.ModeOverwrite)
	if _, err := s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "s", Index: 1, Content: "piece"}); err != nil {
		t.Fatal(err)
	}
	s.Close(background)
	for want, hook := range map[rw.Detail]any{
		rw.Denied:       rw.ReadOnly{},
		rw.VerifyFailed: verifier(func(context.Context, rw.Commit) error { return errors.New("no") }),
	} {
		s := hooked(t, dir, hook)
		before, rows := snapshot(t, dir), committed(t, s)
		calls := map[string]func() error{
			"safe_write": func() error { _, err := s.SafeWrite(background, put("n/b.txt", "b", rw.ModeCreate)); return err },
			"append":     func() error { _, err := s.SafeWrite(background, put("a.txt", "b", rw.ModeAppend)); return err },
			"edit": func() error {
				_, err := s.Edit(background, rw.EditRequest{Path: "a.txt", Edits: []rw.EditOp{{Old: "two", New: "2"}}})
				return err
			},
			"delete": func() error { _, err := s.Delete(background, rw.DeleteRequest{Path: "a.txt"}); return err },
			"move":   func() error { _, err := s.Move(background, rw.MoveRequest{Path: "a.txt", To: "m/b.txt"}); return err },
			"undo":   func() error { _, err := s.Undo(background, rw.UndoRequest{}); return err },
			"restore": func() error {
				_, err := s.Restore(background, rw.RestoreRequest{Path: "a.txt", SHA256: hash("one\n")})
				return err
			},
			"tx": func() error {
				_, err := s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "x/y", Content: "b"}, {Op: "delete", Path: "a.txt"}}})
				return err
			},
			"chunk_compose": func() error {
				_, err := s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "s", OutputPath: "c/c.txt"})
				return err
			},
			"handoff_write": func() error {
				_, err := s.HandoffWrite(background, rw.HandoffWriteRequest{Envelope: anEnvelope("t")})
				return err
			},
		}
		for name, call := range calls {
			err := call()
			if !errors.Is(err, want) {
				t.Errorf("%s: %v (%v), want %s", name, err, errors.Unwrap(err), want)
				continue
			}
			conformsEnvelope(t, rw.AsError("", err))
			if left, _ := s.Unfinished(); len(left) > 0 || snapshot(t, dir) != before {
				t.Errorf("%s: something is left: %v", name, left)
			}
		}
		if now := committed(t, s); now != rows {
			t.Errorf("%d rows of refused calls", now-rows)
		}
		s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "s", Index: 1, Content: "piece"}) // is none of theirs
		check(t, s, true)
		s.Close(background)
	}
}

// upper is a transformer.
func upper(_ rw.Operation, _ string, r io.Reader) (io.Reader, error) {
	return mapped{r, bytes.ToUpper}, nil
}

type mapped struct {
	io.Reader
	f func([]byte) []byte
}

func (m mapped) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	copy(p, m.f(p[:n]))
	return n, err
}

func TestTransformersChangeWhatIsWrittenAndNotWhatWasAsked(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	var seen []string
	s := hooked(t, dir, transformer(upper), transformer(func(op rw.Operation, path string, r io.Reader) (io.Reader, error) {
		data, err := io.ReadAll(r)
		seen = append(seen, fmt.Sprintf("%s %s %.6s", changes(op), path, data))
		return io.MultiReader(bytes.NewReader(data), strings.NewReader("!")), err
	}))
	r := rw.SafeWriteRequest{Path: "a.txt", Content: "one", IdempotencyKey: "k", ContentSHA256: hash("one")}
	out, err := s.SafeWrite(background, r)
	if err != nil || out.SHA256 != hash("ONE!") || out.Bytes != 4 {
		t.Fatalf("%v %+v", err, out)
	}
	fileIs(t, dir, "a.txt", "ONE!")
	if again, err := s.SafeWrite(background, r); err != nil || again.Status != rw.StatusReplayed || again.SHA256 != out.SHA256 {
		t.Errorf("replay: %v %+v", err, again)
	}
	r.Content, r.ContentSHA256 = "ONE!", ""
	turnedDown(t, s, dir, r, rw.IdempotencyKeyReused) // what was written is not what was sent
	if dry, err := s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.txt", Content: "two", Mode: rw.ModeOverwrite, DryRun: true}); err != nil || dry.SHA256 != hash("TWO!") || !strings.Contains(dry.Diff, "+TWO!") {
		t.Errorf("dry run: %v %+v", err, dry)
	}
	if got := write(t, s, "a.txt", "One", rw.ModeOverwrite); got.Status != rw.StatusUnchanged {
		t.Errorf("the same after the transformers: %s", got.Status)
	}
	write(t, s, "a.txt", "more", rw.ModeAppend)
	fileIs(t, dir, "a.txt", "ONE!MORE!")
	if _, err := s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{
		{Op: "write", Path: "new", Content: "x"}, {Op: "write", Path: "new", Content: "y", Mode: rw.ModeAppend},
		{Op: "write", Path: "a.txt", Content: "p", Mode: rw.ModeAppend}, {Op: "write", Path: "a.txt", Content: "q", Mode: rw.ModeAppend},
		{Op: "write", Path: "b", Content: "b"}, {Op: "edit", Path: "b", Edits: []rw.EditOp{{Old: "b", New: "c"}}},
	}}); err != nil {
		t.Fatal(err)
	}
	fileIs(t, dir, "new", "XY!")
	fileIs(t, dir, "a.txt", "ONE!MORE!PQ!")
	fileIs(t, dir, "b", "C!")
	if _, err := s.Edit(background, rw.EditRequest{Path: "b", Edits: []rw.EditOp{{Old: "C", New: "d"}}}); err != nil {
		t.Fatal(err)
	}
	fileIs(t, dir, "b", "d!")
	if _, err := s.Undo(background, rw.UndoRequest{}); err != nil {
		t.Fatal(err)
	}
	fileIs(t, dir, "b", "C!")
	s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "s", Index: 1, Content: "pie"})
	s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "s", Index: 2, Content: "ce"})
	for range 2 {
		if c, err := s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "s", OutputPath: "c"}); err != nil || c.SHA256 != hash("PIECE!") || c.ChunkCount != 2 {
			t.Errorf("compose: %v %+v", err, c)
		}
	}
	if seen[0] != "safe_write: create a.txt a.txt ONE" {
		t.Errorf("saw %q", seen)
	}
	check(t, s, true)
}

func TestAStreamIsTransformedAsAStream(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	bad := ""
	s := open(t, dir, &rw.Options{MaxContentBytes: 2 << 20, Hooks: []any{transformer(upper), transformer(func(_ rw.Operation, _ string, r io.Reader) (io.Reader, error) {
		switch bad {
		case "longer":
			return io.MultiReader(r, io.LimitReader(&endless{3 << 20}, 3<<20)), nil
		case "nothing":
			return strings.NewReader(""), nil
		case "late error":
			return io.MultiReader(r, faulty{}), nil
		}
		return r, nil
	})}})
	const size = 5 << 20
	plain, _ := io.ReadAll(&endless{size})
	out, err := s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "big", ContentSHA256: hash(string(plain))}, &endless{size})
	want := strings.ToUpper(string(plain))
	if err != nil || out.SHA256 != hash(want) || out.Bytes != size {
		t.Fatalf("%v %+v", err, out)
	}
	fileIs(t, dir, "big", want)
	if left, _ := s.Unfinished(); len(left) > 0 {
		t.Errorf("left in staging: %v", left)
	}
	if _, err := s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "big", Mode: rw.ModeOverwrite, DryRun: true}, &endless{size - 1}); err != nil {
		t.Errorf("a dry run: %v", err)
	}
	if _, err := s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "big", Mode: rw.ModeAppend}, &endless{size}); err != nil {
		t.Errorf("an append: %v", err)
	}
	fileIs(t, dir, "big", want+want)
	bad = "nothing"
	if _, err := s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "empty"}, &endless{size}); err != nil {
		t.Errorf("%v", err)
	}
	fileIs(t, dir, "empty", "")
	bad = "longer"
	turnedDown(t, s, dir, put("small", "x", rw.ModeCreate), rw.TooLarge)
	if out, err := s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "longer"}, &endless{size}); err != nil || out.Bytes != size+3<<20 {
		t.Errorf("%v %d", err, out.Bytes)
	}
	bad = "late error"
	before := snapshot(t, dir)
	if _, err := s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "late"}, &endless{size}); !errors.Is(err, rw.TransformFailed) {
		t.Errorf("a late error: %v", err)
	}
	if left, _ := s.Unfinished(); len(left) > 0 || snapshot(t, dir) != before {
		t.Errorf("left in staging: %v", left)
	}
	check(t, s, true)
}

// faulty fails to be read.
type faulty struct{ panics bool }

func (f faulty) Read([]byte) (int, error) {
	if f.panics {
		panic("/etc/broken")
	}
	return 0, errors.New("/etc/broken")
}

func TestATransformerThatFailsRefuses(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]transformer{
		"error":         func(rw.Operation, string, io.Reader) (io.Reader, error) { return nil, errors.New("/etc/broken") },
		"panic":         func(rw.Operation, string, io.Reader) (io.Reader, error) { panic("/etc/broken") },
		"no reader":     func(rw.Operation, string, io.Reader) (io.Reader, error) { return nil, nil },
		"reading fails": func(rw.Operation, string, io.Reader) (io.Reader, error) { return faulty{}, nil },
		"reading panics": func(_ rw.Operation, _ string, r io.Reader) (io.Reader, error) {
			return io.MultiReader(r, faulty{panics: true}), nil
		},
	} {
		dir := ramspace(t)
		s := hooked(t, dir, transformer(upper), f)
		e := turnedDown(t, s, dir, put("d/a.txt", "x", rw.ModeCreate), rw.TransformFailed)
		if e.Stage != rw.StageCompose || strings.Contains(string(conformsEnvelope(t, e)), "broken") {
			t.Errorf("%s: %+v", name, e)
		}
		if _, err := s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "b"}, &endless{2 << 20}); !errors.Is(err, rw.TransformFailed) {
			t.Errorf("%s: streamed: %v", name, err)
		}
		if _, err := s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "c", Content: "x"}, {Op: "write", Path: "c", Content: "x", Mode: rw.ModeAppend}}}); !errors.Is(err, rw.TransformFailed) {
			t.Errorf("%s: two writes: %v", name, err)
		}
		if left, _ := s.Unfinished(); len(left) > 0 || committed(t, s) > 0 {
			t.Errorf("%s: left in staging: %v", name, left)
		}
		check(t, s, true)
	}
}

func TestVerifiersSeeTheWholeCommitBeforeItsPoint(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	var s *rw.Store
	rows, calls := 0, 0
	verdict := error(nil)
	s = hooked(t, dir, verifier(func(_ context.Context, c rw.Commit) error {
		calls++
		if len(c.Files) != 3 || c.Root != dir || !filepath.IsAbs(c.Files[0].Staged) || len(c.Changes) != 3 || c.Changes[0].SHA256 != hash("new") {
			t.Errorf("%+v", c)
		}
		for i, want := range []string{"new", "more", ""} {
			f := c.Files[i]
			if data, err := os.ReadFile(f.Staged); string(data) != want || (want == "") != (err != nil) || f.Append != (want == "more") {
				t.Errorf("%+v: %q %v", f, data, err)
			}
		}
		fileIs(t, dir, "a.txt", "one")
		if _, err := os.Stat(filepath.Join(dir, "d", "new.txt")); err == nil {
			t.Error("it is published")
		}
		rows = committed(t, s) // reading does not wait for the locks
		return verdict
	}))
	quiet := open(t, dir, nil) // another process would be the same
	write(t, quiet, "a.txt", "one", rw.ModeCreate)
	write(t, quiet, "gone.txt", "gone", rw.ModeCreate)
	tx := rw.TxRequest{Ops: []rw.TxOp{
		{Op: "write", Path: "d/new.txt", Content: "new"}, {Op: "write", Path: "a.txt", Content: "more", Mode: rw.ModeAppend}, {Op: "delete", Path: "gone.txt"},
	}}
	token := ghToken(7)
	verdict = fmt.Errorf("%s/a.txt:1: no\n/root/go/src/fmt/x.go:2: GITHUB_TOKEN=%s\n\"/home/me/Documents/y\" is not C:\\Users\\me\\z\n// but https://example.org/a stays%s",
		dir, token, strings.Repeat("\nmore", 100))
	before := snapshot(t, dir)
	_, err := s.Tx(background, tx)
	if !errors.Is(err, rw.VerifyFailed) || snapshot(t, dir) != before {
		t.Fatalf("%v", err)
	}
	e := rw.AsError("", err)
	doc := string(conformsEnvelope(t, e))
	text, _ := e.Context["output"].(string)
	for _, hidden := range []string{dir, "/root", "/home", "Users", token} {
		if strings.Contains(doc, hidden) {
			t.Errorf("%s is shown: %s", hidden, text)
		}
	}
	if !strings.HasPrefix(text, "a.txt:1: no\n…/x.go:2: ") || !strings.Contains(text, "// but https://example.org/a stays\n") || strings.Count(text, "\n") > 21 || e.Stage != rw.StageStage {
		t.Errorf("in %s: %s", e.Stage, text)
	}
	if left, _ := s.Unfinished(); len(left) > 0 {
		t.Errorf("left in staging: %v", left)
	}
	if rows != 2 || committed(t, s) != 2 {
		t.Errorf("%d rows before the commit point, %d after the refusal", rows, committed(t, s))
	}
	tx.DryRun = true
	if _, err := s.Tx(background, tx); err != nil || calls != 1 {
		t.Errorf("a dry run verifies: %v", err)
	}
	tx.DryRun, verdict = false, nil
	if _, err := s.Tx(background, tx); err != nil || rows != 2 {
		t.Fatalf("%v", err)
	}
	fileIs(t, dir, "a.txt", "onemore")
	check(t, s, true)
}

func TestAVerifierThatFailsRefuses(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	for name, f := range map[string]verifier{
		"panic":   func(context.Context, rw.Commit) error { panic("/etc/broken") },
		"goexit":  func(context.Context, rw.Commit) error { runtime.Goexit(); return nil },
		"slow":    func(ctx context.Context, _ rw.Commit) error { <-ctx.Done(); return nil },
		"slower":  func(ctx context.Context, _ rw.Commit) error { <-ctx.Done(); return ctx.Err() },
		"endless": func(context.Context, rw.Commit) error { <-release; return nil },
	} {
		dir := ramspace(t)
		s := open(t, dir, &rw.Options{Hooks: []any{f}, VerifyTimeout: 50 * time.Millisecond})
		began := time.Now()
		e := turnedDown(t, s, dir, put("d/a.txt", "x", rw.ModeCreate), rw.VerifyFailed)
		if text, _ := e.Context["output"].(string); name != "panic" && name != "goexit" && !strings.Contains(text, "longer than 50ms") || strings.Contains(text, "broken") {
			t.Errorf("%s: %q", name, text)
		}
		if d := time.Since(began); d > 4*time.Second {
			t.Errorf("%s took %v", name, d)
		}
		check(t, s, true)
	}
	// A caller who leaves is no failed check.
	ctx, stop := context.WithCancel(background)
	s := hooked(t, ramspace(t), verifier(func(ctx context.Context, _ rw.Commit) error { stop(); <-ctx.Done(); return ctx.Err() }))
	if _, err := s.SafeWrite(ctx, put("a", "x", rw.ModeCreate)); !errors.Is(err, rw.Canceled) {
		t.Errorf("a caller who left: %v", err)
	}
	// One that changes what it should look at.
	dir := ramspace(t)
	s = hooked(t, dir, verifier(func(_ context.Context, c rw.Commit) error {
		return os.WriteFile(c.Files[0].Staged, []byte("mine"), 0o600)
	}))
	if _, err := s.SafeWrite(background, put("a", "x", rw.ModeCreate)); !errors.Is(err, rw.ReadBackMismatch) {
		t.Errorf("a changed staged file: %v", err)
	}
	if snapshot(t, dir) != snapshot(t, ramspace(t)) {
		t.Error("it was published")
	}
}

func TestLocksAreHeldWhileVerifiersRun(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	inside, goOn := make(chan struct{}), make(chan struct{})
	s := hooked(t, dir, verifier(func(_ context.Context, c rw.Commit) error {
		if c.Files[0].Path == "a.txt" {
			close(inside)
			<-goOn
		}
		return nil
	}))
	other := open(t, dir, &rw.Options{LockTimeout: 20 * time.Second})
	done := make(chan error, 2)
	go func() { _, err := s.SafeWrite(background, put("a.txt", "1", rw.ModeAppend)); done <- err }()
	<-inside
	var wrote sync.WaitGroup
	wrote.Go(func() { _, err := other.SafeWrite(background, put("a.txt", "2", rw.ModeAppend)); done <- err })
	write(t, other, "b.txt", "other paths do not wait", rw.ModeCreate)
	select {
	case err := <-done:
		t.Fatalf("another writer did not wait: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	close(goOn)
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	wrote.Wait()
	fileIs(t, dir, "a.txt", "12")
	check(t, s, true)
}
