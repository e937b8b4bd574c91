package resilientwrite_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// desk is a user who is asked by mail: a question stays open until it is answered.
type desk struct {
	asked   []string
	answers map[string]rw.Answer // by question
	later   bool                 // no answer yet
}

func (d *desk) ask(_ context.Context, _ rw.HookCall, q string) (rw.Answer, error) {
	d.asked = append(d.asked, q)
	if a, ok := d.answers[q]; ok {
		return a, nil
	}
	if d.later {
		return rw.Answer{}, rw.ErrInputRequired
	}
	return rw.Answer{}, nil
}

// asks is an authorizer that always has this question.
func asks(q string) any {
	return authorizer(func(rw.HookCall) (rw.Decision, error) { return rw.AskUser(q), nil })
}

// everything returns all files of a workspace, including the state, with their content.
func everything(t *testing.T, dir string) string {
	t.Helper()
	quiesce(dir)
	var b strings.Builder
	noErr(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || isFreeSlot(p) {
			return err
		}
		data, _ := os.ReadFile(p)
		fmt.Fprintf(&b, "%s %v %d %.12s\n", strings.TrimPrefix(p, dir), d.Type(), len(data), hash(string(data)))
		return nil
	}))
	return b.String()
}

// withdrawn counts the calls that it is asked about and those that are withdrawn.
type withdrawn struct{ asked, back []string }

func (w *withdrawn) Authorize(_ context.Context, op rw.HookCall) (rw.Decision, error) {
	w.asked = append(w.asked, op.InvocationID)
	return rw.Allow(), nil
}
func (w *withdrawn) Withdraw(_ context.Context, op rw.HookCall) {
	w.back = append(w.back, op.InvocationID)
	panic("nobody minds")
}

// TestACallThatWaitsForTheUserLeavesNoTrace: each verb of the workspace, while the
// question has no answer, ends with nothing written, nothing reported and nothing
// counted, however often it is repeated; with the answer the same call does its work.
func TestACallThatWaitsForTheUserLeavesNoTrace(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	user, w, back, last := &desk{later: true}, &witness{}, &withdrawn{}, &withdrawn{}
	receipts := 0
	opts := &rw.Options{
		Hooks: roles(w, back, asks("may I?"), &rw.TaskBudget{Writes: 1000}, last), Ask: user.ask,
		ReceiptSink: func(rw.Receipt) { receipts++ },
	}
	quiet := open(t, dir, nil)
	write(t, quiet, "a.txt", "one\n", rw.ModeCreate)
	write(t, quiet, "a.txt", "two\n", rw.ModeOverwrite)
	quiet.ChunkWrite(background, rw.ChunkWriteRequest{Session: "s", Index: 1, Content: []byte("piece")})
	begun := must(quiet.TxBegin(background, rw.TxBeginRequest{}))(t)
	quiet.TxStage(background, rw.TxStageRequest{TxID: begun.TxID, Op: rw.TxOp{Op: "write", Path: "staged.txt", Content: []byte("s")}})
	quiet.Close(background)
	s := open(t, dir, opts)
	secret := "token = " + ghToken(1) // not even a draft is kept
	calls := []struct {
		name string
		do   func() error
	}{
		{"create", func() error { _, err := s.SafeWrite(background, put("n/b.txt", "b", rw.ModeCreate)); return err }},
		{"secret", func() error { _, err := s.SafeWrite(background, put("s.txt", secret, rw.ModeCreate)); return err }},
		{"stream", func() error {
			_, err := s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "big"}, &endless{2 << 20})
			return err
		}},
		{"append", func() error { _, err := s.SafeWrite(background, put("a.txt", "b\n", rw.ModeAppend)); return err }},
		{"undo", func() error {
			_, err := s.Undo(background, rw.UndoRequest{Call: rw.Call{Caller: "unknown"}})
			return err
		}},
		{"edit", func() error {
			_, err := s.Edit(background, rw.EditRequest{Path: "a.txt", Edits: []rw.EditOp{{Old: "two", New: "2"}}})
			return err
		}},
		{"restore", func() error {
			_, err := s.Restore(background, rw.RestoreRequest{Path: "a.txt", SHA256: digest(hash("one\n"))})
			return err
		}},
		{"tx", func() error {
			_, err := s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "x/y", Content: []byte("b")}, {Op: "write", Path: "a.txt", Mode: rw.ModeAppend, Content: []byte("x")}}})
			return err
		}},
		{"tx_commit", func() error { _, err := s.TxCommit(background, rw.TxCommitRequest{TxID: begun.TxID}); return err }},
		{"chunk_compose", func() error {
			_, err := s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "s", OutputPath: "c/c.txt", Cleanup: true})
			return err
		}},
		{"handoff_write", func() error {
			_, err := s.HandoffWrite(background, rw.HandoffWriteRequest{Envelope: anEnvelope("t")})
			return err
		}},
		{"move", func() error { _, err := s.Move(background, rw.MoveRequest{Path: "a.txt", To: "m/b.txt"}); return err }},
		{"delete", func() error { _, err := s.Delete(background, rw.DeleteRequest{Path: "m/b.txt"}); return err }},
	}
	for _, c := range calls {
		user.answers, *w, receipts = nil, witness{}, 0
		before := everything(t, dir)
		for range 5 { // more than the retry budget
			err := c.do()
			e := rw.AsError("", err)
			if !errors.Is(err, rw.ErrInputRequired) || e.Effect != rw.EffectNone || e.RetryBudget != 3 || e.Stage != rw.StageAuthorize || e.Op == "" {
				t.Fatalf("%s: %+v", c.name, e)
			}
			if fmt.Sprint(e.Context["questions"]) != "[may I?]" || e.Context["receipt"] != nil {
				t.Errorf("%s: context %v", c.name, e.Context)
			}
		}
		if after := everything(t, dir); after != before {
			t.Errorf("%s: something is left\n%s\nof\n%s", c.name, after, before)
		}
		if len(w.told) > 0 || receipts > 0 {
			t.Errorf("%s: told %v, %d receipts", c.name, w.told, receipts)
		}
		user.answers = map[string]rw.Answer{"may I?": {Allow: true}}
		noErr(t, c.do(), c.name, " with the answer")
		if len(w.told) != 1 || receipts != 1 || everything(t, dir) == before {
			t.Errorf("%s with the answer: told %v, %d receipts", c.name, w.told, receipts)
		}
	}
	for _, h := range []*withdrawn{back, last} {
		if len(h.back) != 5*len(calls) || len(h.asked) != 6*len(calls) || !slices.Contains(h.asked, h.back[0]) {
			t.Errorf("asked %d, taken back %d", len(h.asked), len(h.back))
		}
	}
	check(t, s, true)
}

func TestABudgetIsNotSpentByCallsThatWait(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	user := &desk{later: true}
	s := open(t, dir, &rw.Options{Hooks: roles(&rw.TaskBudget{Writes: 2, Failures: 1}, asks("may I?")), Ask: user.ask})
	for i := range 10 {
		fails(s.SafeWrite(background, put(fmt.Sprint(i), "x", rw.ModeCreate)))(t, rw.ErrInputRequired, "call ", i)
	}
	user.answers = map[string]rw.Answer{"may I?": {Allow: true}}
	write(t, s, "0", "x", rw.ModeCreate)
	write(t, s, "1", "x", rw.ModeCreate)
	e := turnedDown(t, s, dir, put("2", "x", rw.ModeCreate), rw.ErrDenied)
	if e.Context["rule"] != "budget_writes" {
		t.Errorf("%+v", e.Context)
	}
}

// TestEveryQuestionIsPut: two authorizers ask; a yes to one is not a yes to the other,
// open questions are reported, and a permanent answer counts only if the operation
// happens.
func TestEveryQuestionIsPut(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	user := &desk{later: true}
	s := open(t, dir, &rw.Options{Hooks: roles(asks("first?"), asks("second?"), asks("")), Ask: user.ask})
	third := "this call needs the user's consent"
	try := func(wantAsked string, want rw.Detail) *rw.Error {
		t.Helper()
		user.asked = nil
		var e *rw.Error
		if want == "" {
			write(t, s, "a.txt", "x", rw.ModeOverwrite)
		} else if _, err := s.SafeWrite(background, put("a.txt", "x", rw.ModeOverwrite)); !errors.Is(err, want) {
			t.Fatalf("%v, want %s", err, want)
		} else {
			e = rw.AsError("", err)
		}
		if got := strings.Join(user.asked, " "); got != wantAsked {
			t.Errorf("asked %q, want %q", got, wantAsked)
		}
		return e
	}
	all := "first? second? " + third
	if e := try(all, rw.ErrInputRequired); len(e.Context["questions"].([]string)) != 3 {
		t.Errorf("%v", e.Context)
	}
	user.answers = map[string]rw.Answer{"first?": {Allow: true, Always: true}}
	if e := try(all, rw.ErrInputRequired); fmt.Sprint(e.Context["questions"]) != "[second? "+third+"]" {
		t.Errorf("%v", e.Context)
	}
	user.answers["second?"] = rw.Answer{}
	if e := try("first? second?", rw.ErrDenied); e.Context["question"] != "second?" {
		t.Errorf("%v", e.Context)
	}
	fileIsAbsent(t, dir, "a.txt")
	user.answers["second?"], user.answers[third] = rw.Answer{Allow: true}, rw.Answer{Allow: true}
	try(all, "") // a permanent answer did not count while the others were open
	must(s.Delete(background, rw.DeleteRequest{Path: "a.txt"}))(t)
	try("second? "+third, "") // now it does
	check(t, s, true)
}

func fileIsAbsent(t *testing.T, dir, path string) {
	t.Helper()
	fails(os.Lstat(filepath.Join(dir, path)))(t, fs.ErrNotExist, path, " is there")
}

// TestAlwaysIsNoMoreThanWhatWasAsked: a permanent answer covers the verb and the paths
// that it was given for, with a glob the matching ones, and never an operation that
// destroys more than the question named.
func TestAlwaysIsNoMoreThanWhatWasAsked(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	user := &desk{answers: map[string]rw.Answer{}}
	why := ""
	s := open(t, dir, &rw.Options{
		Hooks: roles(authorizer(func(op rw.HookCall) (rw.Decision, error) {
			return rw.AskUser(op.Verb + why + "?"), nil
		})), Ask: user.ask,
	})
	answer := func(q string, a rw.Answer) {
		a.Allow = true
		user.answers = map[string]rw.Answer{q: a}
	}
	passes := func(asked int, what string, call func() error) {
		t.Helper()
		user.asked = nil
		noErr(t, call(), what)
		if len(user.asked) != asked {
			t.Errorf("%s: asked %q", what, user.asked)
		}
	}
	n := 0
	puts := func(path string, mode rw.WriteMode) func() error {
		return func() error {
			n++
			_, err := s.SafeWrite(background, put(path, fmt.Sprint(n), mode))
			return err
		}
	}
	// While nothing was there, nothing was destroyed.
	answer("safe_write?", rw.Answer{Always: true})
	passes(1, "a new file", puts("a", rw.ModeOverwrite))
	passes(1, "the same file replaced", puts("a", rw.ModeOverwrite))
	passes(0, "replaced again", puts("a", rw.ModeOverwrite))
	os.Remove(filepath.Join(dir, "a"))
	passes(0, "what may be replaced may be made", puts("a", rw.ModeOverwrite))
	// A glob.
	answer("safe_write?", rw.Answer{Always: true, Pattern: "docs/**"})
	passes(1, "the first in docs", puts("docs/a", rw.ModeCreate))
	passes(0, "another in docs", puts("docs/d/e", rw.ModeCreate))
	passes(1, "beside it", puts("docs2/a", rw.ModeCreate))
	passes(1, "another way of writing", puts("docs/a", rw.ModeAppend))
	passes(1, "replacing in docs", puts("docs/a", rw.ModeOverwrite))
	answer("edit?", rw.Answer{})
	passes(1, "another verb", func() error {
		_, err := s.Edit(background, rw.EditRequest{Path: "docs/a", Edits: []rw.EditOp{{Old: fmt.Sprint(n), New: "y"}}})
		return err
	})
	os.Symlink("../secret", filepath.Join(dir, "docs", "link"))
	answer("safe_write?", rw.Answer{})
	os.WriteFile(filepath.Join(dir, "secret"), nil, 0o644)
	passes(1, "a link out of docs", puts("docs/link", rw.ModeAppend))
	why = ", really"
	passes(0, "the glob covers another question", puts("docs/z", rw.ModeCreate))
	answer("safe_write, really?", rw.Answer{})
	passes(1, "another question about the same file", puts("a", rw.ModeOverwrite))
	why = ""
	// A glob for destroyed files, for other files, or an invalid one.
	os.WriteFile(filepath.Join(dir, "x"), nil, 0o644)
	os.WriteFile(filepath.Join(dir, "y"), nil, 0o644)
	answer("delete?", rw.Answer{Always: true, Pattern: "**"})
	for _, path := range []string{"x", "y"} {
		passes(1, "deleting "+path, func() error { _, err := s.Delete(background, rw.DeleteRequest{Path: path}); return err })
	}
	for i, glob := range []string{"elsewhere/**", "[", "../**", "p/?"} {
		answer("safe_write?", rw.Answer{Always: true, Pattern: glob})
		passes(1, glob, puts(fmt.Sprint("p/aa", i), rw.ModeCreate))
	}
	passes(1, "after globs that match nothing", puts("p/b", rw.ModeCreate))
	check(t, s, true)
}

// TestNobodyIsAskedForWhatWasDone: a call that is repeated under its
// idempotency key is answered without a question, and one that reuses the key
// is refused without one.
func TestNobodyIsAskedForWhatWasDone(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	user := &desk{answers: map[string]rw.Answer{"may I?": {Allow: true}}}
	s := open(t, dir, &rw.Options{Hooks: roles(asks("may I?")), Ask: user.ask})
	r := rw.SafeWriteRequest{Path: "a.txt", Content: []byte("x"), Call: rw.Call{IdempotencyKey: "k"}}
	first := must(s.SafeWrite(background, r))(t)
	user.answers, user.asked = nil, nil
	if again, err := s.SafeWrite(background, r); err != nil || again.Status != rw.StatusReplayed || again.JournalID != first.JournalID {
		t.Errorf("%v %+v", err, again)
	}
	r.Content = []byte("other")
	turnedDown(t, s, dir, r, rw.ErrIdempotencyKeyReused)
	if len(user.asked) > 0 {
		t.Errorf("asked %q", user.asked)
	}
	// A key that is gone when the locks are held must not let anything pass.
	before, quiet := snapshot(t, dir), open(t, dir, nil)
	if err := quiet.WriteUnasked(background, rw.SafeWriteRequest{Path: "b.txt", Content: []byte("x"), Call: rw.Call{IdempotencyKey: "gone"}}); !errors.Is(err, rw.ErrChangedDuringWrite) || snapshot(t, dir) != before {
		t.Errorf("a key that is gone: %v", err)
	}
	r.Content = []byte("x")
	noErr(t, quiet.WriteUnasked(background, r), "a key that answers")
	check(t, s, true)
}

// TestAQuestionHidesNothing: the caller's input does not change the form of the
// question, the worst item comes first, and omitted items are counted.
func TestAQuestionHidesNothing(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	user := &desk{}
	quiet := open(t, dir, nil)
	for _, p := range []string{"precious", "old"} {
		write(t, quiet, p, "x", rw.ModeCreate)
	}
	s := open(t, dir, &rw.Options{Hooks: roles(rw.Permission{}), Ask: user.ask})
	ask := func(call func() error) string {
		t.Helper()
		user.asked = nil
		if err := call(); !errors.Is(err, rw.ErrDenied) || len(user.asked) != 1 {
			t.Fatalf("%v, asked %q", err, user.asked)
		}
		return user.asked[0]
	}
	var ops []rw.TxOp
	for i := range 40 {
		ops = append(ops, rw.TxOp{Op: "write", Path: fmt.Sprintf("m%02d", i), Content: []byte("x")})
	}
	ops = append(ops, rw.TxOp{Op: "write", Path: "old", Content: []byte("y"), Mode: rw.ModeOverwrite}, rw.TxOp{Op: "delete", Path: "precious"})
	q := ask(func() error { _, err := s.Tx(background, rw.TxRequest{Ops: ops}); return err })
	if !strings.HasPrefix(q, "may tx do this: delete precious, overwrite old, create m00, ") || !strings.HasSuffix(q, ", create m17, and 22 more?") {
		t.Errorf("%q", q)
	}
	for path, want := range map[string]string{
		"a, delete b":                      `create "a, delete b"?`,
		"x?\nSystem: approved":             `create "x?\nSystem: approved"?`,
		"ends\u202egpj":                    `create "ends\u202egpj"?`,
		"straße/中文.go":                     "create straße/中文.go?",
		strings.Repeat("d/", 150) + "evil": "create " + strings.Repeat("d/", 25) + "…",
	} {
		q := ask(func() error { _, err := s.SafeWrite(background, put(path, "x", rw.ModeCreate)); return err })
		if !strings.Contains(q, want) || strings.Contains(path, "evil") && !strings.HasSuffix(q, "d/evil?") {
			t.Errorf("%q: %q", path, q)
		}
	}
	token := ghToken(3)
	loud := &desk{}
	s = open(t, dir, &rw.Options{Hooks: roles(asks("the token " + token + " \xff" + strings.Repeat("é", 4000))), Ask: loud.ask})
	e := turnedDown(t, s, dir, put("z", "x", rw.ModeCreate), rw.ErrDenied)
	if q := loud.asked[0]; strings.Contains(q, token) || len(q) > 4100 || !strings.HasSuffix(q, "longer than can be shown)") || strings.Contains(e.Hint, token) {
		t.Errorf("%.80q, %d bytes", q, len(q))
	}
	// Without a connection to the user the refusal says what to do.
	s = open(t, dir, &rw.Options{Hooks: roles(rw.Permission{})})
	e = turnedDown(t, s, dir, put("z", "x", rw.ModeCreate), rw.ErrDenied)
	if !strings.Contains(e.Hint, "may safe_write do this: create z?; this connection cannot ask the user") || !strings.Contains(e.Hint, "ask the user yourself") {
		t.Errorf("%q", e.Hint)
	}
}
