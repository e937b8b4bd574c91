package resilientwrite_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/hook"
	"github.com/resilientwrite/resilientwrite/internal/failpoint"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// The four kinds of hook, as functions.
type (
	authorizer  func(hook.Call) (hook.Decision, error)
	observer    func(hook.Call, rw.Receipt, error)
	transformer func(hook.Call, string, io.Reader) (io.Reader, error)
	verifier    func(context.Context, hook.Staged) error
)

func (f authorizer) Authorize(_ context.Context, op hook.Call) (hook.Decision, error) { return f(op) }
func (f observer) Observe(_ context.Context, op hook.Call, r rw.Receipt, err error)   { f(op, r, err) }
func (f verifier) Verify(ctx context.Context, c hook.Staged) error                    { return f(ctx, c) }
func (f transformer) Transform(_ context.Context, op hook.Call, path string, r io.Reader) (io.Reader, error) {
	return f(op, path, r)
}

// changes is an operation in one line.
func changes(op hook.Call) string {
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

// witness allows everything and records its arguments.
type witness struct {
	asked, observed []string
	ops             []hook.Call
}

func (w *witness) Authorize(_ context.Context, op hook.Call) (hook.Decision, error) {
	w.asked = append(w.asked, changes(op))
	return hook.Allow(), nil
}

func (w *witness) Observe(_ context.Context, op hook.Call, r rw.Receipt, err error) {
	status := string(r.Status)
	if err != nil {
		status += " " + string(rw.AsError("", err).Detail)
	}
	w.observed, w.ops = append(w.observed, changes(op)+" "+status), append(w.ops, op)
}

func hooked(t *testing.T, dir string, hooks ...any) *rw.Store {
	t.Helper()
	return open(t, dir, &rw.Options{Hooks: roles(hooks...)})
}

// committed is how many commits the journal knows.
func committed(t *testing.T, s *rw.Store) int {
	t.Helper()
	tail := must(s.JournalTail(background, rw.JournalTailRequest{N: 1000}))(t)
	return len(tail.Entries)
}

// turnedDown makes a write that the hooks must refuse: nothing has changed, nothing is
// left, and the envelope names the next step.
func turnedDown(t *testing.T, s *rw.Store, dir string, r rw.SafeWriteRequest, want rw.Detail) *rw.Error {
	t.Helper()
	before := committed(t, s)
	e := refused(t, s, dir, r, want)
	conformsEnvelope(t, e)
	equal(t, committed(t, s), before, "rows after a refused call")
	return e
}

func TestTheFirstRefusalCountsAndEveryAuthorizerIsAsked(t *testing.T) {
	t.Parallel()
	allow := authorizer(func(hook.Call) (hook.Decision, error) { return hook.Allow(), nil })
	deny := func(why string) any {
		return authorizer(func(hook.Call) (hook.Decision, error) { return hook.Deny(why), nil })
	}
	for name, c := range map[string]struct {
		first, second any
		hint          string
	}{
		"two refusals": {deny("because of one"), deny("because of two"), "because of one"},
		"an error":     {authorizer(func(hook.Call) (hook.Decision, error) { return hook.Allow(), errors.New("/etc/broken") }), allow, "the authorization check of this call failed"},
		"a panic":      {authorizer(func(hook.Call) (hook.Decision, error) { panic("/etc/broken") }), allow, "the authorization check of this call failed"},
		"no decision":  {authorizer(func(hook.Call) (hook.Decision, error) { return hook.Decision{}, nil }), allow, "the host does not allow this"},
		"ask and deny": {authorizer(func(hook.Call) (hook.Decision, error) { return hook.AskUser("may I?"), nil }), deny("never"), "never"},
		"a vandal": {authorizer(func(op hook.Call) (hook.Decision, error) {
			op.Changes[0].Path = "elsewhere"
			return hook.Deny("no"), nil
		}), allow, "no"},
	} {
		dir, last := ramspace(t), &witness{}
		s := hooked(t, dir, c.first, c.second, last)
		e := turnedDown(t, s, dir, put("a.txt", "x", rw.ModeCreate), rw.ErrDenied)
		expect(t, e.Kind == rw.ErrPolicyViolation && e.Reason == rw.ReasonPermission && e.Stage == rw.StageAuthorize && e.Context["rule"] == nil &&
			strings.Contains(e.Hint, c.hint), "%s: %+v", name, e)
		expect(t, !strings.Contains(string(conformsEnvelope(t, e)), "broken"), "%s: the error of the hook is shown", name)
		expect(t, fmt.Sprint(last.asked) == "[safe_write: create a.txt]" && fmt.Sprint(last.observed) == "[safe_write: create a.txt refused denied]",
			"%s: asked %v, observed %v", name, last.asked, last.observed)
		check(t, s, true)
	}
}

func TestAUserIsAskedAndAlwaysMeansThisVerbAndThesePaths(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	var asked []string
	answer, failure := hook.Answer{}, error(nil)
	s := open(t, dir, &rw.Options{
		Hooks: roles(authorizer(func(hook.Call) (hook.Decision, error) { return hook.AskUser("may I?"), nil })),
		Ask: func(_ context.Context, op hook.Call, question string) (hook.Answer, error) {
			asked = append(asked, changes(op)+" "+question)
			if failure != nil && failure.Error() == "panic" {
				panic(failure)
			}
			return answer, failure
		},
	})
	turnedDown(t, s, dir, put("a.txt", "1", rw.ModeCreate), rw.ErrDenied)
	answer = hook.Answer{Allow: true}
	for _, why := range []string{"down", "panic"} {
		failure = errors.New(why)
		turnedDown(t, s, dir, put("b.txt", why, rw.ModeCreate), rw.ErrDenied)
	}
	failure, asked = nil, nil
	write(t, s, "a.txt", "1", rw.ModeCreate)
	answer.Always = true
	write(t, s, "a.txt", "2", rw.ModeOverwrite)
	write(t, s, "a.txt", "3", rw.ModeOverwrite) // not asked
	answer.Always = false
	write(t, s, "A.txt", "1", rw.ModeOverwrite)
	write(t, s, "a.txt", "4", rw.ModeAppend)
	must(s.SafeWrite(background, rw.SafeWriteRequest{Path: "z.txt", Content: []byte("x"), Call: rw.Call{DryRun: true}}))(t, "a dry run")
	answer.Always = true
	for _, from := range []string{"a.txt", "A.txt"} { // one answer is not one for another file
		must(s.Move(background, rw.MoveRequest{Path: from, To: "c.txt", Overwrite: true}))(t)
	}
	want := []string{
		"safe_write: create a.txt may I?", "safe_write: overwrite a.txt may I?", "safe_write: overwrite A.txt may I?",
		"safe_write: append a.txt may I?", "move: move a.txt>c.txt may I?", "move: move A.txt>c.txt may I?",
	}
	expect(t, slices.Equal(asked, want), "asked %q", asked)
	ctx, stop := context.WithCancel(background)
	answer.Always = false
	failure = context.Canceled
	s2 := open(t, ramspace(t), &rw.Options{Hooks: roles(hook.Permission{}), Ask: func(ctx context.Context, _ hook.Call, _ string) (hook.Answer, error) {
		stop()
		return hook.Answer{}, ctx.Err()
	}})
	fails(s2.SafeWrite(ctx, put("a.txt", "1", rw.ModeCreate)))(t, rw.ErrCanceled, "a caller who left while the user was asked")
}

func TestPermissionIsNeverImpliedForWhatIsDestroyed(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	var asked []string
	perm := hook.Permission{AutoApprove: []string{"docs/**"}}
	opts := &rw.Options{Hooks: roles(perm), Ask: func(_ context.Context, op hook.Call, q string) (hook.Answer, error) {
		asked = append(asked, q)
		return hook.Answer{Allow: true}, nil
	}}
	s := open(t, dir, opts)
	do := func(want string, call func() error) {
		t.Helper()
		asked = nil
		noErr(t, call(), want)
		equal(t, strings.Join(asked, ";"), want, "asked")
	}
	put := func(path, content string, mode rw.WriteMode) func() error {
		return calling(s.SafeWrite, put(path, content, mode))
	}
	tx := func(ops ...rw.TxOp) func() error {
		return calling(s.Tx, rw.TxRequest{Ops: ops})
	}
	do("", put("docs/a.md", "one\n", rw.ModeCreate))
	do("", put("docs/b.md", "one\n", rw.ModeOverwrite)) // nothing is there
	do("", put("docs/a.md", "two\n", rw.ModeAppend))
	do("may safe_write do this: create a.md?", put("a.md", "one\n", rw.ModeCreate))
	do("may safe_write do this: overwrite docs/a.md?", put("docs/a.md", "x", rw.ModeOverwrite))
	do("may edit do this: edit docs/a.md?", calling(s.Edit, rw.EditRequest{Path: "docs/a.md", Edits: []rw.EditOp{{Old: "x", New: "y"}}}))
	do("may tx do this: edit docs/a.md, create docs/c.md?", tx(
		rw.TxOp{Op: "write", Path: "docs/c.md", Content: []byte("c")},
		rw.TxOp{Op: "edit", Path: "docs/a.md", Edits: []rw.EditOp{{Old: "y", New: "z"}}}, rw.TxOp{Op: "write", Path: "docs/a.md", Mode: rw.ModeOverwrite, Content: []byte("all new")}))
	do("may move do this: move docs/c.md to docs/d.md?", calling(s.Move, rw.MoveRequest{Path: "docs/c.md", To: "docs/d.md"}))
	do("may delete do this: delete docs/d.md?", calling(s.Delete, rw.DeleteRequest{Path: "docs/d.md"}))
	do("", func() error { // the file is restored at a free path
		return errorOf(s.Undo(background, rw.UndoRequest{}))
	})
	do("may undo do this: delete docs/d.md?", calling(s.Undo, rw.UndoRequest{}))
	os.Symlink("../a.md", filepath.Join(dir, "docs", "link.md"))
	do("may safe_write do this: append a.md?", put("docs/link.md", "x", rw.ModeAppend))
	do("", calling(s.Delete, rw.DeleteRequest{Path: "docs/a.md", Call: rw.Call{DryRun: true}}))
	// There is no user to ask.
	s = open(t, dir, &rw.Options{Hooks: roles(perm)})
	e := turnedDown(t, s, dir, rw.SafeWriteRequest{Path: "docs/a.md", Content: []byte("x"), Mode: rw.ModeOverwrite}, rw.ErrDenied)
	equal(t, e.Context["question"], "may safe_write do this: overwrite docs/a.md?", e)
	must(s.SafeWrite(rw.WithAsk(background, opts.Ask), rw.SafeWriteRequest{Path: "docs/a.md", Content: []byte("x"), Mode: rw.ModeOverwrite}))(t, "asked through the context")
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
		Hooks: roles(hook.PathRules{Deny: []string{"closed"}}, hook.Permission{AutoApprove: []string{"open"}}),
		Ask: func(context.Context, hook.Call, string) (hook.Answer, error) {
			asked++
			return hook.Answer{Allow: true}, nil
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
	e := rw.AsError("", errorOf(s.SafeWrite(background, put("link/a", "x", rw.ModeCreate))))
	expect(t, errors.Is(e, rw.ErrDenied), "a link that was bent: %v", e)
	length(t, must(os.ReadDir(filepath.Join(dir, "closed")))(t), 0, "it was written anyway")
	at(func() { os.WriteFile(filepath.Join(dir, "open", "new"), []byte("theirs"), 0o644) })
	_, err := s.SafeWrite(background, put("open/new", "ours", rw.ModeOverwrite))
	expect(t, errors.Is(err, rw.ErrChangedDuringWrite) && asked == 0, "a file that appeared: %v", err)
	conformsEnvelope(t, rw.AsError("", err))
	fileIs(t, dir, "open/new", "theirs")
	at(func() { os.WriteFile(filepath.Join(dir, "open", "log"), []byte("theirs "), 0o644) })
	write(t, s, "open/log", "ours", rw.ModeAppend) // nothing is destroyed
	fileIs(t, dir, "open/log", "theirs ours")
	write(t, s, "open/new", "ours", rw.ModeOverwrite)
	equal(t, asked, 1, "asked times")
	check(t, s, true)
}

// TestAnAnswerIsForOneChange: what the user allowed is done if the files changed
// meanwhile, unless it is done elsewhere, destroys more, or raises another question.
func TestAnAnswerIsForOneChange(t *testing.T) {
	dir := workspace(t)
	plant(t, dir, map[string]string{"one/x": "", "two/x": ""})
	link, asked := filepath.Join(dir, "link"), 0
	noErr(t, os.Symlink("one", link))
	s := open(t, dir, &rw.Options{
		Hooks: roles(authorizer(func(op hook.Call) (hook.Decision, error) {
			if op.Changes[0].Exists && op.Changes[0].Path == "other" {
				return hook.AskUser("may I add to a file of others?"), nil
			}
			return hook.AskUser("may I?"), nil
		})),
		Ask: func(context.Context, hook.Call, string) (hook.Answer, error) {
			asked++
			return hook.Answer{Allow: true}, nil
		},
	})
	appears := func(name string) func() {
		return func() { plant(t, dir, map[string]string{name: "theirs "}) }
	}
	for i, c := range []struct {
		r       rw.SafeWriteRequest
		happens func()
		want    error
	}{
		{put("log", "ours", rw.ModeAppend), appears("log"), nil},
		{put("other", "ours", rw.ModeAppend), appears("other"), rw.ErrChangedDuringWrite},
		{put("new", "ours", rw.ModeOverwrite), appears("new"), rw.ErrChangedDuringWrite},
		{put("new", "ours", rw.ModeOverwrite), func() { os.Remove(filepath.Join(dir, "new")) }, nil},
		{put("link/a", "ours", rw.ModeAppend), func() { noErr(t, errors.Join(os.Remove(link), os.Symlink("two", link))) }, rw.ErrChangedDuringWrite},
	} {
		once := sync.Once{}
		disarm := failpoint.Arm(func(point string) {
			if point == string(rw.StageLock) {
				once.Do(c.happens)
			}
		})
		_, err := s.SafeWrite(background, c.r)
		disarm()
		isErr(t, err, c.want, i)
		equal(t, asked, i+1, "asked")
	}
	fileIs(t, dir, "log", "theirs ours")
	gone(t, dir, "two/a")
}

// TestACanceledAuthorization is no refusal.
func TestACanceledAuthorization(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(background)
	s := hooked(t, ramspace(t), authorizer(func(hook.Call) (hook.Decision, error) {
		cancel()
		return hook.Allow(), ctx.Err()
	}))
	fails(s.SafeWrite(ctx, put("a.txt", "x", rw.ModeCreate)))(t, rw.ErrCanceled)
}

// roles is Options.Hooks with every value in the lists of its roles.
func roles(list ...any) (h hook.Hooks) {
	for _, v := range list {
		if a, ok := v.(hook.Authorizer); ok {
			h.Authorize = append(h.Authorize, a)
		}
		if t, ok := v.(hook.Transformer); ok {
			h.Transform = append(h.Transform, t)
		}
		if y, ok := v.(hook.Verifier); ok {
			h.Verify = append(h.Verify, y)
		}
		if o, ok := v.(hook.Observer); ok {
			h.Observe = append(h.Observe, o)
		}
	}
	return h
}

func TestObserversSeeEveryCall(t *testing.T) {
	t.Parallel()
	dir, w := ramspace(t), &witness{}
	s := hooked(t, dir, observer(func(hook.Call, rw.Receipt, error) { panic("first") }), w,
		observer(func(hook.Call, rw.Receipt, error) { panic("last") }))
	first := rw.SafeWriteRequest{Path: "a.txt", Content: []byte("one"), Call: rw.Call{IdempotencyKey: "k"}}
	for _, r := range []rw.SafeWriteRequest{
		first, first, put("a.txt", "two", rw.ModeCreate), put("a.txt", "one", rw.ModeOverwrite),
		{Path: "a.txt", Content: []byte("2"), Mode: rw.ModeAppend, Call: rw.Call{DryRun: true}}, put("a.txt", "2", rw.ModeAppend),
		put("../x", "2", rw.ModeAppend), put("b.txt", "x", "upsert"),
	} {
		s.SafeWrite(background, r)
	}
	want := []string{
		"safe_write: create a.txt succeeded", "safe_write: create a.txt replayed", "safe_write: create a.txt refused file_already_exists",
		"safe_write: overwrite a.txt unchanged", "safe_write: append a.txt succeeded", "safe_write: append a.txt succeeded",
		"safe_write: append  refused escapes_workspace", "safe_write: upsert b.txt refused invalid_argument",
	}
	expect(t, slices.Equal(w.observed, want), "observed %q", w.observed)
	expect(t, w.ops[4].DryRun && !w.ops[5].DryRun, "the dry run")
	made, added := w.ops[0].Changes[0], w.ops[5].Changes[0]
	expect(t, !made.Exists && made.Bytes == 3 && made.SHA256 == hash("one") && made.PrevSHA256 == "", "%+v", made)
	expect(t, added.Exists && added.Bytes == 1 && added.SHA256 == hash("one2") && added.PrevSHA256 == hash("one"), "%+v", added)
	again := w.ops[1].Changes[0]
	expect(t, !again.Exists && again.Bytes == 0 && again.SHA256 == hash("one"), "%+v", again)
	s.Close(background)
	if _, err := s.SafeWrite(background, put("c.txt", "x", rw.ModeCreate)); !errors.Is(err, rw.ErrStoreClosed) || w.observed[len(w.observed)-1] != "safe_write: create c.txt refused store_closed" {
		t.Errorf("%v, observed %q", err, w.observed[len(w.observed)-1])
	}
}

func TestHooksSeeEveryVerbOfTheWorkspaceAndNoObject(t *testing.T) {
	t.Parallel()
	dir, w := ramspace(t), &witness{}
	var verified []string
	s := hooked(t, dir, w, verifier(func(_ context.Context, c hook.Staged) error {
		line := c.Verb + ":"
		for _, f := range c.Files {
			data, err := os.ReadFile(f.Staged)
			expect(t, f.Staged == "" || err == nil, "%v", err)
			line += fmt.Sprintf(" %s=%.9q", f.Path, data)
		}
		verified = append(verified, line)
		return nil
	}))
	write(t, s, "a.txt", "one\n", rw.ModeCreate)
	write(t, s, "a.txt", "two\n", rw.ModeAppend)
	must(s.Edit(background, rw.EditRequest{Path: "a.txt", Edits: []rw.EditOp{{Old: "two", New: "2"}}}))(t)
	must(s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{
		{Op: "write", Path: "b.txt", Content: []byte("b")}, {Op: "move", Path: "a.txt", To: "c.txt"},
	}}))(t)
	must(s.Undo(background, rw.UndoRequest{}))(t)
	must(s.Move(background, rw.MoveRequest{Path: "a.txt", To: "d.txt"}))(t)
	hist := must(s.History(background, rw.HistoryRequest{Path: "d.txt"}))(t)
	_, err := s.Restore(background, rw.RestoreRequest{Path: "d.txt", SHA256: digest(hash("one\n"))})
	require(t, err == nil, "%v of %+v", err, hist)
	must(s.Delete(background, rw.DeleteRequest{Path: "d.txt"}))(t)
	must(s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "s", Index: 1, Content: []byte("piece")}))(t)
	must(s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "s", OutputPath: "e.txt"}))(t)
	must(s.HandoffWrite(background, handoff.WriteRequest{Envelope: anEnvelope("t")}))(t)
	must(s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte("scratch")}))(t)
	must(s.Checkpoint(background, rw.CheckpointRequest{Name: "c", Data: []byte("1")}))(t)
	begun := must(s.TxBegin(background, rw.TxBeginRequest{}))(t)
	must(s.TxStage(background, rw.TxStageRequest{TxID: begun.TxID, Op: rw.TxOp{Op: "write", Path: "f.txt", Content: []byte("f")}}))(t)
	must(s.TxCommit(background, rw.TxCommitRequest{TxID: begun.TxID}))(t)
	asked := []string{
		"safe_write: create a.txt", "safe_write: append a.txt", "edit: edit a.txt", "tx: create b.txt move a.txt>c.txt",
		"undo: overwrite a.txt delete b.txt delete c.txt", "move: move a.txt>d.txt", "restore: overwrite d.txt", "delete: delete d.txt",
		"chunk_compose: overwrite e.txt", "handoff_write: overwrite HANDOFF.md", "tx_commit: create f.txt",
	}
	expect(t, slices.Equal(w.asked, asked), "asked %q", w.asked)
	looked := []string{
		`safe_write: a.txt="one\n"`, `safe_write: a.txt="one\ntwo\n"`, `edit: a.txt="one\n2\n"`, `tx: b.txt="b" c.txt="one\n2\n" a.txt=""`,
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
		expect(t, slices.Contains(w.observed, call+" succeeded"), "%s was not observed: %q", call, w.observed)
	}
	check(t, s, true)
}

func TestRefusalsReachEveryVerb(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	s := open(t, dir, nil)
	write(t, s, "a.txt", "one\n", rw.ModeCreate)
	write(t, s, "a.txt", "two\n", rw.ModeOverwrite)
	must(s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "s", Index: 1, Content: []byte("piece")}))(t)
	s.Close(background)
	for want, hook := range map[rw.Detail]any{
		rw.ErrDenied:       hook.DenyWrites{},
		rw.ErrVerifyFailed: verifier(func(context.Context, hook.Staged) error { return errors.New("no") }),
	} {
		s := hooked(t, dir, hook)
		before, rows := snapshot(t, dir), committed(t, s)
		calls := map[string]func() error{
			"safe_write":    calling(s.SafeWrite, put("n/b.txt", "b", rw.ModeCreate)),
			"append":        calling(s.SafeWrite, put("a.txt", "b", rw.ModeAppend)),
			"edit":          calling(s.Edit, rw.EditRequest{Path: "a.txt", Edits: []rw.EditOp{{Old: "two", New: "2"}}}),
			"delete":        calling(s.Delete, rw.DeleteRequest{Path: "a.txt"}),
			"move":          calling(s.Move, rw.MoveRequest{Path: "a.txt", To: "m/b.txt"}),
			"undo":          calling(s.Undo, rw.UndoRequest{}),
			"restore":       calling(s.Restore, rw.RestoreRequest{Path: "a.txt", SHA256: digest(hash("one\n"))}),
			"tx":            calling(s.Tx, rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "x/y", Content: []byte("b")}, {Op: "delete", Path: "a.txt"}}}),
			"chunk_compose": calling(s.ChunkCompose, rw.ChunkComposeRequest{Session: "s", OutputPath: "c/c.txt"}),
			"handoff_write": calling(s.HandoffWrite, handoff.WriteRequest{Envelope: anEnvelope("t")}),
		}
		for name, call := range calls {
			err := call()
			if !errors.Is(err, want) {
				t.Errorf("%s: %v (%v), want %s", name, err, errors.Unwrap(err), want)
				continue
			}
			conformsEnvelope(t, rw.AsError("", err))
			left := must(s.Unfinished())(t)
			expect(t, len(left) == 0 && snapshot(t, dir) == before, "%s: something is left: %v", name, left)
		}
		equal(t, committed(t, s), rows, "rows after refused calls")
		s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "s", Index: 1, Content: []byte("piece")}) // is not subject to them
		check(t, s, true)
		s.Close(background)
	}
}

// upper is a transformer.
func upper(_ hook.Call, _ string, r io.Reader) (io.Reader, error) {
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
	s := hooked(t, dir, transformer(upper), transformer(func(op hook.Call, path string, r io.Reader) (io.Reader, error) {
		data, err := io.ReadAll(r)
		seen = append(seen, fmt.Sprintf("%s %s %.6s", changes(op), path, data))
		return io.MultiReader(bytes.NewReader(data), strings.NewReader("!")), err
	}))
	r := rw.SafeWriteRequest{Path: "a.txt", Content: []byte("one"), Call: rw.Call{IdempotencyKey: "k"}, ContentSHA256: digest(hash("one"))}
	out, err := s.SafeWrite(background, r)
	require(t, err == nil && out.SHA256.String() == hash("ONE!") && out.Bytes == 4, "%v %+v", err, out)
	fileIs(t, dir, "a.txt", "ONE!")
	again := must(s.SafeWrite(background, r))(t)
	expect(t, again.Status == rw.StatusReplayed && again.SHA256 == out.SHA256, "replay: %+v", again)
	r.Content, r.ContentSHA256 = []byte("ONE!"), rw.Digest{}
	turnedDown(t, s, dir, r, rw.ErrIdempotencyKeyReused) // the written content is not the sent one
	dry, err := s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.txt", Content: []byte("two"), Mode: rw.ModeOverwrite, Call: rw.Call{DryRun: true}})
	expect(t, err == nil && dry.SHA256.String() == hash("TWO!") && strings.Contains(dry.Diff, "+TWO!"), "dry run: %v %+v", err, dry)
	equal(t, write(t, s, "a.txt", "One", rw.ModeOverwrite).Status, rw.StatusUnchanged, "the same after the transformers")
	write(t, s, "a.txt", "more", rw.ModeAppend)
	fileIs(t, dir, "a.txt", "ONE!MORE!")
	must(s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{
		{Op: "write", Path: "new", Content: []byte("x")}, {Op: "write", Path: "new", Content: []byte("y"), Mode: rw.ModeAppend},
		{Op: "write", Path: "a.txt", Content: []byte("p"), Mode: rw.ModeAppend}, {Op: "write", Path: "a.txt", Content: []byte("q"), Mode: rw.ModeAppend},
		{Op: "write", Path: "b", Content: []byte("b")}, {Op: "edit", Path: "b", Edits: []rw.EditOp{{Old: "b", New: "c"}}},
	}}))(t)
	fileIs(t, dir, "new", "XY!")
	fileIs(t, dir, "a.txt", "ONE!MORE!PQ!")
	fileIs(t, dir, "b", "C!")
	must(s.Edit(background, rw.EditRequest{Path: "b", Edits: []rw.EditOp{{Old: "C", New: "d"}}}))(t)
	fileIs(t, dir, "b", "d!")
	must(s.Undo(background, rw.UndoRequest{}))(t)
	fileIs(t, dir, "b", "C!")
	must(s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{txWrite("b", "v", rw.ModeOverwrite), txWrite("b", "w", rw.ModeAppend)}}))(t)
	fileIs(t, dir, "b", "VW!")
	s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "s", Index: 1, Content: []byte("pie")})
	s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "s", Index: 2, Content: []byte("ce")})
	for range 2 {
		c := must(s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "s", OutputPath: "c"}))(t)
		expect(t, c.SHA256.String() == hash("PIECE!") && c.ChunkCount == 2, "compose: %+v", c)
	}
	expect(t, seen[0] == "safe_write: create a.txt a.txt ONE", "saw %q", seen)
	check(t, s, true)
}

func TestAStreamIsTransformedAsAStream(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	bad := ""
	s := open(t, dir, &rw.Options{MaxContentBytes: 2 << 20, Hooks: roles(transformer(upper), transformer(func(_ hook.Call, _ string, r io.Reader) (io.Reader, error) {
		switch bad {
		case "longer":
			return io.MultiReader(r, io.LimitReader(&endless{3 << 20}, 3<<20)), nil
		case "nothing":
			return strings.NewReader(""), nil
		case "late error":
			return io.MultiReader(r, faulty{}), nil
		}
		return r, nil
	}))})
	const size = 3 << 20
	plain, _ := io.ReadAll(&endless{size})
	out, err := s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "big", ContentSHA256: digest(hash(string(plain)))}, &endless{size})
	want := strings.ToUpper(string(plain))
	require(t, err == nil && out.SHA256.String() == hash(want) && out.Bytes == size, "%v %+v", err, out)
	fileIs(t, dir, "big", want)
	nothingStaged(t, s)
	must(s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "big", Mode: rw.ModeOverwrite, Call: rw.Call{DryRun: true}}, &endless{size - 1}))(t, "a dry run")
	must(s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "big", Mode: rw.ModeAppend}, &endless{size}))(t, "an append")
	fileIs(t, dir, "big", want+want)
	bad = "nothing"
	must(s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "empty"}, &endless{size}))(t)
	fileIs(t, dir, "empty", "")
	bad = "longer"
	turnedDown(t, s, dir, put("small", "x", rw.ModeCreate), rw.ErrTooLarge)
	equal(t, must(s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "longer"}, &endless{size}))(t).Bytes, size+3<<20)
	bad = "late error"
	before := snapshot(t, dir)
	fails(s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "late"}, &endless{size}))(t, rw.ErrTransformFailed, "a late error")
	left := must(s.Unfinished())(t)
	expect(t, len(left) == 0 && snapshot(t, dir) == before, "left in staging: %v", left)
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
		"error":         func(hook.Call, string, io.Reader) (io.Reader, error) { return nil, errors.New("/etc/broken") },
		"panic":         func(hook.Call, string, io.Reader) (io.Reader, error) { panic("/etc/broken") },
		"no reader":     func(hook.Call, string, io.Reader) (io.Reader, error) { return nil, nil },
		"reading fails": func(hook.Call, string, io.Reader) (io.Reader, error) { return faulty{}, nil },
		"reading panics": func(_ hook.Call, _ string, r io.Reader) (io.Reader, error) {
			return io.MultiReader(r, faulty{panics: true}), nil
		},
	} {
		dir := ramspace(t)
		s := hooked(t, dir, transformer(upper), f)
		e := turnedDown(t, s, dir, put("d/a.txt", "x", rw.ModeCreate), rw.ErrTransformFailed)
		expect(t, e.Stage == rw.StageCompose && !strings.Contains(string(conformsEnvelope(t, e)), "broken"), "%s: %+v", name, e)
		fails(s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "b"}, &endless{2 << 20}))(t, rw.ErrTransformFailed, name, ": streamed")
		fails(s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "c", Content: []byte("x")}, {Op: "write", Path: "c", Content: []byte("x"), Mode: rw.ModeAppend}}}))(t, rw.ErrTransformFailed, name, ": two writes")
		left := must(s.Unfinished())(t)
		expect(t, len(left) == 0 && committed(t, s) == 0, "%s: left in staging: %v", name, left)
		check(t, s, true)
	}
}

func TestVerifiersSeeTheWholeCommitBeforeItsPoint(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	var s *rw.Store
	rows, calls := 0, 0
	verdict := error(nil)
	s = hooked(t, dir, verifier(func(_ context.Context, c hook.Staged) error {
		calls++
		expect(t, len(c.Files) == 3 && c.Root == dir && filepath.IsAbs(c.Files[0].Staged) && len(c.Changes) == 3 &&
			c.Changes[0].SHA256 == hash("new"), "%+v", c)
		for i, want := range []string{"new", "onemore", ""} {
			f := c.Files[i]
			data, err := os.ReadFile(f.Staged)
			expect(t, string(data) == want && (want == "") == (err != nil) && !f.Append, "%+v: %q %v", f, data, err)
		}
		fileIs(t, dir, "a.txt", "one")
		expect(t, errorOf(os.Stat(filepath.Join(dir, "d", "new.txt"))) != nil, "it is published")
		rows = committed(t, s) // reading does not wait for the locks
		return verdict
	}))
	quiet := open(t, dir, nil) // another process would be the same
	write(t, quiet, "a.txt", "one", rw.ModeCreate)
	write(t, quiet, "gone.txt", "gone", rw.ModeCreate)
	tx := rw.TxRequest{Ops: []rw.TxOp{
		{Op: "write", Path: "d/new.txt", Content: []byte("new")}, {Op: "write", Path: "a.txt", Content: []byte("more"), Mode: rw.ModeAppend}, {Op: "delete", Path: "gone.txt"},
	}}
	token := ghToken(7)
	verdict = fmt.Errorf("%s/a.txt:1: no\n/root/go/src/fmt/x.go:2: GITHUB_TOKEN=%s\n\"/home/me/Documents/y\" is not C:\\Users\\me\\z\n// but https://example.org/a stays%s",
		dir, token, strings.Repeat("\nmore", 100))
	before := snapshot(t, dir)
	_, err := s.Tx(background, tx)
	require(t, errors.Is(err, rw.ErrVerifyFailed) && snapshot(t, dir) == before, "%v", err)
	e := rw.AsError("", err)
	doc := string(conformsEnvelope(t, e))
	text, _ := e.Context["output"].(string)
	for _, hidden := range []string{dir, "/root", "/home", "Users", token} {
		expect(t, !strings.Contains(doc, hidden), "%s is shown: %s", hidden, text)
	}
	expect(t, strings.HasPrefix(text, "a.txt:1: no\n…/x.go:2: ") && strings.Contains(text, "// but https://example.org/a stays\n") && strings.Count(text, "\n") <= 21 && e.Stage == rw.StageStage,
		"in %s: %s", e.Stage, text)
	nothingStaged(t, s)
	expect(t, rows == 2 && committed(t, s) == 2, "%d rows before the commit point, %d after the refusal", rows, committed(t, s))
	tx.DryRun = true
	_, err = s.Tx(background, tx)
	expect(t, err == nil && calls == 1, "a dry run verifies: %v", err)
	tx.DryRun, verdict = false, nil
	_, err = s.Tx(background, tx)
	require(t, err == nil && rows == 2, "%v", err)
	fileIs(t, dir, "a.txt", "onemore")
	check(t, s, true)
}

func TestAVerifierThatFailsRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		for name, f := range map[string]verifier{
			"panic":   func(context.Context, hook.Staged) error { panic("/etc/broken") },
			"goexit":  func(context.Context, hook.Staged) error { runtime.Goexit(); return nil },
			"slow":    func(ctx context.Context, _ hook.Staged) error { <-ctx.Done(); return nil },
			"slower":  func(ctx context.Context, _ hook.Staged) error { <-ctx.Done(); return ctx.Err() },
			"endless": func(context.Context, hook.Staged) error { <-release; return nil },
		} {
			dir := ramspace(t)
			s := open(t, dir, &rw.Options{Hooks: roles(f), VerifyTimeout: 50 * time.Millisecond})
			began := time.Now()
			e := turnedDown(t, s, dir, put("d/a.txt", "x", rw.ModeCreate), rw.ErrVerifyFailed)
			text, _ := e.Context["output"].(string)
			expect(t, (name == "panic" || name == "goexit" || strings.Contains(text, "longer than 50ms")) && !strings.Contains(text, "broken"), "%s: %q", name, text)
			want := map[string]time.Duration{"slow": 50 * time.Millisecond, "slower": 50 * time.Millisecond, "endless": 150 * time.Millisecond}[name]
			equal(t, time.Since(began), want, name, " was waited for")
			check(t, s, true)
		}
		// A caller who leaves is no failed check.
		ctx, stop := context.WithCancel(background)
		s := hooked(t, ramspace(t), verifier(func(ctx context.Context, _ hook.Staged) error { stop(); <-ctx.Done(); return ctx.Err() }))
		fails(s.SafeWrite(ctx, put("a", "x", rw.ModeCreate)))(t, rw.ErrCanceled, "a caller who left")
		// One that changes its input.
		dir := ramspace(t)
		s = hooked(t, dir, verifier(func(_ context.Context, c hook.Staged) error {
			return os.WriteFile(c.Files[0].Staged, []byte("mine"), 0o600)
		}))
		fails(s.SafeWrite(background, put("a", "x", rw.ModeCreate)))(t, rw.ErrReadBackMismatch, "a changed staged file")
		equal(t, snapshot(t, dir), snapshot(t, ramspace(t)), "it was published")
	})
}

func TestLocksAreHeldWhileVerifiersRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := ramspace(t)
		inside, goOn := make(chan struct{}), make(chan struct{})
		s := hooked(t, dir, verifier(func(_ context.Context, c hook.Staged) error {
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
			noErr(t, <-done)
		}
		wrote.Wait()
		fileIs(t, dir, "a.txt", "12")
		check(t, s, true)
	})
}

// desk is a user who is asked by mail: a question stays open until it is answered.
type desk struct {
	asked   []string
	answers map[string]hook.Answer // by question
	later   bool                   // no answer yet
}

func (d *desk) ask(_ context.Context, _ hook.Call, q string) (hook.Answer, error) {
	d.asked = append(d.asked, q)
	if a, ok := d.answers[q]; ok {
		return a, nil
	}
	if d.later {
		return hook.Answer{}, rw.ErrInputRequired
	}
	return hook.Answer{}, nil
}

// asks is an authorizer that always has this question.
func asks(q string) any {
	return authorizer(func(hook.Call) (hook.Decision, error) { return hook.AskUser(q), nil })
}

// everything returns all files of a workspace, including the state, with their content.
func everything(t *testing.T, dir string) string {
	t.Helper()
	quiesce(dir)
	var b strings.Builder
	for e := range testbed.Entries(t, dir) {
		if !isFreeSlot(filepath.Join(dir, e.Path)) {
			fmt.Fprintf(&b, "%s %v %d %.12s\n", e.Path, e.Info.Mode().Type(), len(e.Text), hash(e.Text))
		}
	}
	return b.String()
}

// withdrawn counts the calls that it is asked about and those that are withdrawn.
type withdrawn struct{ asked, back []string }

func (w *withdrawn) Authorize(_ context.Context, op hook.Call) (hook.Decision, error) {
	w.asked = append(w.asked, op.InvocationID)
	return hook.Allow(), nil
}
func (w *withdrawn) Withdraw(_ context.Context, op hook.Call) {
	w.back = append(w.back, op.InvocationID)
	panic("ignored")
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
		Hooks: roles(w, back, asks("may I?"), &hook.TaskBudget{Writes: 1000}, last), Ask: user.ask,
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
		{"create", calling(s.SafeWrite, put("n/b.txt", "b", rw.ModeCreate))},
		{"secret", calling(s.SafeWrite, put("s.txt", secret, rw.ModeCreate))},
		{"stream", func() error {
			return errorOf(s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "big"}, &endless{2 << 20}))
		}},
		{"append", calling(s.SafeWrite, put("a.txt", "b\n", rw.ModeAppend))},
		{"undo", calling(s.Undo, rw.UndoRequest{Call: rw.Call{Caller: "unknown"}})},
		{"edit", calling(s.Edit, rw.EditRequest{Path: "a.txt", Edits: []rw.EditOp{{Old: "two", New: "2"}}})},
		{"restore", calling(s.Restore, rw.RestoreRequest{Path: "a.txt", SHA256: digest(hash("one\n"))})},
		{"tx", calling(s.Tx, rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "x/y", Content: []byte("b")}, {Op: "write", Path: "a.txt", Mode: rw.ModeAppend, Content: []byte("x")}}})},
		{"tx_commit", calling(s.TxCommit, rw.TxCommitRequest{TxID: begun.TxID})},
		{"chunk_compose", calling(s.ChunkCompose, rw.ChunkComposeRequest{Session: "s", OutputPath: "c/c.txt", Cleanup: true})},
		{"handoff_write", calling(s.HandoffWrite, handoff.WriteRequest{Envelope: anEnvelope("t")})},
		{"move", calling(s.Move, rw.MoveRequest{Path: "a.txt", To: "m/b.txt"})},
		{"delete", calling(s.Delete, rw.DeleteRequest{Path: "m/b.txt"})},
	}
	for _, c := range calls {
		user.answers, *w, receipts = nil, witness{}, 0
		before := everything(t, dir)
		for range 5 { // more than the retry budget
			err := c.do()
			e := rw.AsError("", err)
			require(t, errors.Is(err, rw.ErrInputRequired) && e.Effect == rw.EffectNone && e.RetryBudget == 3 && e.Stage == rw.StageAuthorize &&
				e.Op != "", "%s: %+v", c.name, e)
			expect(t, fmt.Sprint(e.Context["questions"]) == "[may I?]" && e.Context["receipt"] == nil, "%s: context %v", c.name, e.Context)
		}
		equal(t, everything(t, dir), before, c.name, ": something is left\n")
		expect(t, len(w.observed) == 0 && receipts <= 0, "%s: observed %v, %d receipts", c.name, w.observed, receipts)
		user.answers = map[string]hook.Answer{"may I?": {Allow: true}}
		noErr(t, c.do(), c.name, " with the answer")
		expect(t, len(w.observed) == 1 && receipts == 1 && everything(t, dir) != before,
			"%s with the answer: observed %v, %d receipts", c.name, w.observed, receipts)
	}
	for _, h := range []*withdrawn{back, last} {
		expect(t, len(h.back) == 5*len(calls) && len(h.asked) == 6*len(calls) && slices.Contains(h.asked, h.back[0]),
			"asked %d, rolled back %d", len(h.asked), len(h.back))
	}
	check(t, s, true)
}

func TestABudgetIsNotSpentByCallsThatWait(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	user := &desk{later: true}
	s := open(t, dir, &rw.Options{Hooks: roles(&hook.TaskBudget{Writes: 2, Failures: 1}, asks("may I?")), Ask: user.ask})
	for i := range 10 {
		fails(s.SafeWrite(background, put(fmt.Sprint(i), "x", rw.ModeCreate)))(t, rw.ErrInputRequired, "call ", i)
	}
	user.answers = map[string]hook.Answer{"may I?": {Allow: true}}
	write(t, s, "0", "x", rw.ModeCreate)
	write(t, s, "1", "x", rw.ModeCreate)
	e := turnedDown(t, s, dir, put("2", "x", rw.ModeCreate), rw.ErrDenied)
	equal(t, e.Context["rule"], "budget_writes", e.Context)
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
		equal(t, strings.Join(user.asked, " "), wantAsked, "asked")
		return e
	}
	all := "first? second? " + third
	e := try(all, rw.ErrInputRequired)
	expect(t, len(e.Context["questions"].([]string)) == 3, "%v", e.Context)
	user.answers = map[string]hook.Answer{"first?": {Allow: true, Always: true}}
	e = try(all, rw.ErrInputRequired)
	expect(t, fmt.Sprint(e.Context["questions"]) == "[second? "+third+"]", "%v", e.Context)
	user.answers["second?"] = hook.Answer{}
	e = try("first? second?", rw.ErrDenied)
	expect(t, e.Context["question"] == "second?", "%v", e.Context)
	fileIsAbsent(t, dir, "a.txt")
	user.answers["second?"], user.answers[third] = hook.Answer{Allow: true}, hook.Answer{Allow: true}
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
	user := &desk{answers: map[string]hook.Answer{}}
	why := ""
	s := open(t, dir, &rw.Options{
		Hooks: roles(authorizer(func(op hook.Call) (hook.Decision, error) {
			return hook.AskUser(op.Verb + why + "?"), nil
		})), Ask: user.ask,
	})
	answer := func(q string, a hook.Answer) {
		a.Allow = true
		user.answers = map[string]hook.Answer{q: a}
	}
	passes := func(asked int, what string, call func() error) {
		t.Helper()
		user.asked = nil
		noErr(t, call(), what)
		equal(t, len(user.asked), asked, what, ": asked")
	}
	n := 0
	puts := func(path string, mode rw.WriteMode) func() error {
		return func() error {
			n++
			return errorOf(s.SafeWrite(background, put(path, fmt.Sprint(n), mode)))
		}
	}
	// While nothing was there, nothing was destroyed.
	answer("safe_write?", hook.Answer{Always: true})
	passes(1, "a new file", puts("a", rw.ModeOverwrite))
	passes(1, "the same file replaced", puts("a", rw.ModeOverwrite))
	passes(0, "replaced again", puts("a", rw.ModeOverwrite))
	os.Remove(filepath.Join(dir, "a"))
	passes(0, "what may be replaced may be made", puts("a", rw.ModeOverwrite))
	// A glob.
	answer("safe_write?", hook.Answer{Always: true, Pattern: "docs/**"})
	passes(1, "the first in docs", puts("docs/a", rw.ModeCreate))
	passes(0, "another in docs", puts("docs/d/e", rw.ModeCreate))
	passes(1, "beside it", puts("docs2/a", rw.ModeCreate))
	passes(1, "another way of writing", puts("docs/a", rw.ModeAppend))
	passes(1, "replacing in docs", puts("docs/a", rw.ModeOverwrite))
	answer("edit?", hook.Answer{})
	passes(1, "an edit", calling(s.Edit, rw.EditRequest{Path: "docs/a", Edits: []rw.EditOp{{Old: fmt.Sprint(n), New: "y"}}}))
	answer("tx?", hook.Answer{})
	passes(1, "another verb", calling(s.Tx, rw.TxRequest{Ops: []rw.TxOp{txWrite("docs/tx", "x", rw.ModeCreate)}}))
	os.Symlink("../secret", filepath.Join(dir, "docs", "link"))
	answer("safe_write?", hook.Answer{})
	os.WriteFile(filepath.Join(dir, "secret"), nil, 0o644)
	passes(1, "a link out of docs", puts("docs/link", rw.ModeAppend))
	why = ", really"
	passes(0, "the glob covers another question", puts("docs/z", rw.ModeCreate))
	answer("safe_write, really?", hook.Answer{})
	passes(1, "another question about the same file", puts("a", rw.ModeOverwrite))
	why = ""
	// A glob for destroyed files, for other files, or an invalid one.
	os.WriteFile(filepath.Join(dir, "x"), nil, 0o644)
	os.WriteFile(filepath.Join(dir, "y"), nil, 0o644)
	answer("delete?", hook.Answer{Always: true, Pattern: "**"})
	for _, path := range []string{"x", "y"} {
		passes(1, "deleting "+path, calling(s.Delete, rw.DeleteRequest{Path: path}))
	}
	for i, glob := range []string{"elsewhere/**", "[", "../**", "p/?"} {
		answer("safe_write?", hook.Answer{Always: true, Pattern: glob})
		passes(1, glob, puts(fmt.Sprint("p/aa", i), rw.ModeCreate))
	}
	passes(1, "after globs that match nothing", puts("p/b", rw.ModeCreate))
	check(t, s, true)
}

// TestNoQuestionForACallThatWasDone: a call that is repeated under its
// idempotency key is answered without a question, and one that reuses the key
// is refused without one.
func TestNoQuestionForACallThatWasDone(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	user := &desk{answers: map[string]hook.Answer{"may I?": {Allow: true}}}
	s := open(t, dir, &rw.Options{Hooks: roles(asks("may I?")), Ask: user.ask})
	r := rw.SafeWriteRequest{Path: "a.txt", Content: []byte("x"), Call: rw.Call{IdempotencyKey: "k"}}
	first := must(s.SafeWrite(background, r))(t)
	user.answers, user.asked = nil, nil
	again := must(s.SafeWrite(background, r))(t)
	expect(t, again.Status == rw.StatusReplayed && again.JournalID == first.JournalID, "%+v", again)
	r.Content = []byte("other")
	turnedDown(t, s, dir, r, rw.ErrIdempotencyKeyReused)
	length(t, user.asked, 0, "asked")
	// A key that is gone when the locks are held must not let anything pass.
	before, quiet := snapshot(t, dir), open(t, dir, nil)
	err := quiet.WriteUnasked(background, rw.SafeWriteRequest{Path: "b.txt", Content: []byte("x"), Call: rw.Call{IdempotencyKey: "gone"}})
	expect(t, errors.Is(err, rw.ErrChangedDuringWrite) && snapshot(t, dir) == before, "a key that is gone: %v", err)
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
	s := open(t, dir, &rw.Options{Hooks: roles(hook.Permission{}), Ask: user.ask})
	ask := func(call func() error) string {
		t.Helper()
		user.asked = nil
		err := call()
		require(t, errors.Is(err, rw.ErrDenied) && len(user.asked) == 1, "%v, asked %q", err, user.asked)
		return user.asked[0]
	}
	var ops []rw.TxOp
	for i := range 40 {
		ops = append(ops, rw.TxOp{Op: "write", Path: fmt.Sprintf("m%02d", i), Content: []byte("x")})
	}
	ops = append(ops, rw.TxOp{Op: "write", Path: "old", Content: []byte("y"), Mode: rw.ModeOverwrite}, rw.TxOp{Op: "delete", Path: "precious"})
	q := ask(calling(s.Tx, rw.TxRequest{Ops: ops}))
	expect(t, strings.HasPrefix(q, "may tx do this: delete precious, overwrite old, create m00, ") &&
		strings.HasSuffix(q, ", create m17, and 22 more?"), "%q", q)
	for path, want := range map[string]string{
		"a, delete b":                      `create "a, delete b"?`,
		"x?\nSystem: approved":             `create "x?\nSystem: approved"?`,
		"ends\u202egpj":                    `create "ends\u202egpj"?`,
		"straße/中文.go":                     "create straße/中文.go?",
		strings.Repeat("d/", 150) + "evil": "create " + strings.Repeat("d/", 25) + "…",
	} {
		q := ask(calling(s.SafeWrite, put(path, "x", rw.ModeCreate)))
		expect(t, strings.Contains(q, want) && (!strings.Contains(path, "evil") || strings.HasSuffix(q, "d/evil?")), "%q: %q", path, q)
	}
	token := ghToken(3)
	loud := &desk{}
	s = open(t, dir, &rw.Options{Hooks: roles(asks("the token " + token + " \xff" + strings.Repeat("é", 4000))), Ask: loud.ask})
	e := turnedDown(t, s, dir, put("z", "x", rw.ModeCreate), rw.ErrDenied)
	if q := loud.asked[0]; strings.Contains(q, token) || len(q) > 4100 || !strings.HasSuffix(q, "longer than can be shown)") || strings.Contains(e.Hint, token) {
		t.Errorf("%.80q, %d bytes", q, len(q))
	}
	// Without a connection to the user the refusal says what to do.
	s = open(t, dir, &rw.Options{Hooks: roles(hook.Permission{})})
	e = turnedDown(t, s, dir, put("z", "x", rw.ModeCreate), rw.ErrDenied)
	expect(t, strings.Contains(e.Hint, "may safe_write do this: create z?; this connection cannot ask the user") &&
		strings.Contains(e.Hint, "ask the user yourself"), "%q", e.Hint)
}

// TestOpenRefusesNilHooks: a rule that is not there must not seem to hold.
// Nothing is made on disk.
func TestOpenRefusesNilHooks(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	for list, hooks := range map[string]hook.Hooks{
		"authorize": {Authorize: []hook.Authorizer{hook.DenyWrites{}, nil}},
		"transform": {Transform: []hook.Transformer{transformer(nil), nil}},
		"verify":    {Verify: []hook.Verifier{hook.CommandOracle{}, nil}},
		"observe":   {Observe: []hook.Observer{&hook.TaskBudget{}, nil}},
	} {
		s, err := rw.Open(background, dir, &rw.Options{Hooks: hooks})
		if err == nil {
			s.Close(background)
			t.Errorf("%s: nil is taken for a hook", list)
			continue
		}
		e := rw.AsError("", err)
		expect(t, errors.Is(err, rw.ErrInvalidArgument) && e.Op == "open" && e.Context["argument"] == "hooks."+list && e.Context["index"] == 1,
			"%s: %+v", list, e)
		conformsEnvelope(t, e)
	}
	length(t, must(os.ReadDir(dir))(t), 0, "left")
	// Later changes of the host to its list have no effect.
	hooks := hook.Hooks{Authorize: []hook.Authorizer{hook.DenyWrites{}}}
	s := open(t, dir, &rw.Options{Hooks: hooks})
	hooks.Authorize[0] = hook.Permission{AutoApprove: []string{"**"}}
	turnedDown(t, s, dir, put("a.txt", "x", rw.ModeCreate), rw.ErrDenied)
}

// TestResetTaskOnce: a hook in several lists begins a new task once.
func TestResetTaskOnce(t *testing.T) {
	t.Parallel()
	h := &resets{}
	s := open(t, ramspace(t), &rw.Options{Hooks: hook.Hooks{Authorize: []hook.Authorizer{h, hook.Permission{}}, Observe: []hook.Observer{h}}})
	err := s.ResetTask(background)
	expect(t, err == nil && h.n == 1, "%d times: %v", h.n, err)
}

// resets counts the tasks that begin.
type resets struct{ n int }

func (r *resets) ResetTask() { r.n++ }
func (r *resets) Authorize(context.Context, hook.Call) (hook.Decision, error) {
	return hook.Allow(), nil
}
func (r *resets) Observe(context.Context, hook.Call, rw.Receipt, error) {}

// sore is a hook that cannot begin a new task.
type sore struct{ hook.DenyWrites }

func (sore) Authorize(context.Context, hook.Call) (hook.Decision, error) { return hook.Allow(), nil }
func (sore) ResetTask()                                                  { panic("/etc/broken") }

func TestAHookThatCannotBeResetBlocksNoCall(t *testing.T) {
	t.Parallel()
	for _, readOnly := range []bool{false, true} {
		dir := ramspace(t)
		open(t, dir, nil).Close(background)
		first, last := &hook.TaskBudget{Failures: 1}, &hook.TaskBudget{Failures: 1}
		s := open(t, dir, &rw.Options{ReadOnly: readOnly, Hooks: roles(first, sore{}, last)})
		s.SafeWrite(background, put("../x", "x", rw.ModeCreate)) // a failure
		for _, b := range []*hook.TaskBudget{first, last} {
			d, _ := b.Authorize(background, hook.Call{})
			require(t, d != hook.Allow(), "the failure was not counted")
		}
		err := s.ResetTask(background)
		e := rw.AsError("", err)
		expect(t, errors.Is(err, rw.ErrInternal) && e.Op == "reset_task" && e.Context["index"] == 1 &&
			!strings.Contains(string(conformsEnvelope(t, e)), "broken"), "read-only %v: %+v", readOnly, e)
		for _, b := range []*hook.TaskBudget{first, last} {
			d, _ := b.Authorize(background, hook.Call{})
			expect(t, d == hook.Allow(), "read-only %v: a budget was not reset", readOnly)
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
	expect(t, s.ResetTask(background) != nil, "no error")
	equal(t, turnedDown(t, s, dir, put("a.txt", "y", rw.ModeCreate), rw.ErrFileAlreadyExists).RetryBudget, 2, "attempts are left")
}

// TestAnErrorOfATransactionNamesItsOperation: whichever stage refuses, the error names
// the operation that caused it.
func TestAnErrorOfATransactionNamesItsOperation(t *testing.T) {
	t.Parallel()
	good := rw.TxOp{Op: "write", Path: "good.txt", Content: []byte("good")}
	wrong := "0000000000000000000000000000000000000000000000000000000000000000"
	judge := verifier(func(_ context.Context, c hook.Staged) error {
		return fmt.Errorf("of %d files: %w", len(c.Files), &hook.FileError{Path: c.Files[len(c.Files)-1].Path, Err: errors.New("bad")})
	})
	whole := verifier(func(context.Context, hook.Staged) error { return errors.New("bad as a whole") })
	stranger := verifier(func(context.Context, hook.Staged) error {
		return &hook.FileError{Path: "elsewhere", Err: errors.New("bad")}
	})
	spoil := transformer(func(_ hook.Call, path string, r io.Reader) (io.Reader, error) {
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
		"authorize":       {hook: hook.PathRules{Deny: []string{"infra"}}, ops: []rw.TxOp{good, {Op: "write", Path: "infra/x", Content: []byte("x")}}, want: rw.ErrDenied, stage: rw.StageAuthorize, index: 1, path: "infra/x"},
		"authorize move":  {hook: hook.PathRules{Deny: []string{"old.txt"}}, ops: []rw.TxOp{good, {Op: "move", Path: "old.txt", To: "new.txt"}}, want: rw.ErrDenied, stage: rw.StageAuthorize, index: 1, path: "new.txt"},
		"authorize all":   {hook: hook.DenyWrites{}, ops: []rw.TxOp{good, {Op: "delete", Path: "old.txt"}}, want: rw.ErrDenied, stage: rw.StageAuthorize, index: -1},
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
		calls := map[string]func() error{"tx": calling(s.Tx, rw.TxRequest{Ops: c.ops, Validate: c.validate})}
		if name != "classify" { // the gate refuses it when it is staged
			for _, op := range c.ops {
				must(s.TxStage(background, rw.TxStageRequest{TxID: staged.TxID, Op: op}))(t, name)
			}
			calls["tx_commit"] = calling(s.TxCommit, rw.TxCommitRequest{TxID: staged.TxID, Validate: c.validate})
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
			equal(t, snapshot(t, dir), before, name, " ", verb, ": something changed")
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
	s := hooked(t, dir, &hook.LoopGuard{}, verifier(func(_ context.Context, c hook.Staged) error {
		if strings.HasPrefix(c.Files[0].Path, "v") {
			return errors.New("no")
		}
		return nil
	}))
	write(t, s, "a.go", "x", rw.ModeCreate)
	guess := func(path string) error {
		n++
		return errorOf(s.Edit(background, rw.EditRequest{Path: path, Edits: []rw.EditOp{{Old: fmt.Sprint("guess ", n), New: "y"}}}))
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
	expect(t, e.Context["rule"] == "loop_failing" && e.Action == rw.ActionAskUser &&
		strings.Contains(e.Hint, "6 calls one after the other failed to change a.go, the last one with old_string_not_found"), "%s %v", e.Hint, e.Context)
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
		"read_only":        {hook.DenyWrites{}, nil},
		"path_denied":      {hook.PathRules{Deny: []string{"last"}}, nil},
		"path_not_allowed": {hook.PathRules{Allow: []string{"src"}}, nil},
		"budget_bytes":     {&hook.TaskBudget{Bytes: 1}, []rw.SafeWriteRequest{write("a")}},
		"budget_writes":    {&hook.TaskBudget{Writes: 1}, []rw.SafeWriteRequest{write("a")}},
		"budget_failures":  {&hook.TaskBudget{Failures: 1}, []rw.SafeWriteRequest{fails}},
		"loop_no_progress": {&hook.LoopGuard{Repeats: 1}, []rw.SafeWriteRequest{write("last"), write("last")}},
		"loop_failing":     {&hook.LoopGuard{Repeats: 1}, []rw.SafeWriteRequest{{Path: "last", Content: []byte("x"), Expect: rw.Exactly(digest(hash("other"))), Mode: rw.ModeOverwrite}}},
	} {
		dir := ramspace(t)
		s := hooked(t, dir, c.hook)
		for _, r := range c.first {
			s.SafeWrite(background, r)
		}
		e := turnedDown(t, s, dir, put("last", "something else", rw.ModeOverwrite), rw.ErrDenied)
		expect(t, e.Context["rule"] == rule && e.Code() == rw.CodePolicy && e.Action == rw.ActionAskUser, "%s: %+v", rule, e)
		expect(t, strings.Contains(e.Hint, "user") || rule == "path_not_allowed", "%s does not say what to do: %s", rule, e.Hint)
	}
}

// TestNoTaskIsCompleteWhoseCheckFails: the check of the whole workspace runs
// again on the content after the last change, even if the change was not made through
// this store.
func TestNoTaskIsCompleteWhoseCheckFails(t *testing.T) {
	t.Parallel()
	testbed.Needs(t, "sh")
	dir := ramspace(t)
	oracle := hook.CommandOracle{
		Match: []string{"**/*.go"}, OnComplete: true,
		Command: []string{"sh", "-c", `test -e "$RW_ROOT/built" || { echo the workspace does not build; exit 1; }`},
	}
	s := hooked(t, dir, oracle)
	handOver := func(status handoff.Status, path string) error {
		return errorOf(s.HandoffWrite(background, handoff.WriteRequest{Path: path, Envelope: anEnvelope("t", func(e *handoff.Envelope) { e.Status = status })}))
	}
	for _, status := range []handoff.Status{handoff.Partial, handoff.Blocked, handoff.HandedOff} {
		noErr(t, handOver(status, ""), status)
	}
	before := snapshot(t, dir)
	for _, path := range []string{"", "deep/er/handoff.md"} {
		err := handOver(handoff.Complete, path)
		e := rw.AsError("", err)
		if text, _ := e.Context["output"].(string); !errors.Is(err, rw.ErrVerifyFailed) || !strings.Contains(text, "does not build") || snapshot(t, dir) != before {
			t.Errorf("complete at %q: %v %v", path, err, e.Context["output"])
		}
		conformsEnvelope(t, e)
	}
	os.WriteFile(filepath.Join(dir, "built"), nil, 0o644)
	if err := handOver(handoff.Complete, ""); err != nil {
		t.Errorf("%v %v", err, rw.AsError("", err).Context["output"])
	}
	os.Remove(filepath.Join(dir, "built")) // a change after the check passed
	isErr(t, handOver(handoff.Complete, ""), rw.ErrVerifyFailed, "after another change")
	// A check of single files cannot replace a check of the workspace.
	s = hooked(t, dir, hook.CommandOracle{Match: []string{"**/*.go"}, OnComplete: true, Command: []string{"true", "{}"}})
	isErr(t, handOver(handoff.Complete, ""), rw.ErrVerifyFailed, "with {}")
	noErr(t, handOver(handoff.Partial, ""))
	check(t, s, true)
}

// TestAnOracleThatCrashesRefuses: killed, or not there any more.
func TestAnOracleThatCrashesRefuses(t *testing.T) {
	t.Parallel()
	testbed.Needs(t, "sh")
	for _, script := range []string{"kill -9 $$", "kill -TERM $$", "exit 255", "exec /no/such/program"} {
		dir := ramspace(t)
		s := hooked(t, dir, hook.CommandOracle{Command: []string{"sh", "-c", script}})
		turnedDown(t, s, dir, put("a", "x", rw.ModeCreate), rw.ErrVerifyFailed)
		check(t, s, true)
	}
}

// TestAPanickingReceiptSinkChangesNothing: a completed call is reported as completed, a
// refused one as refused, and all other observers are notified.
func TestAPanickingReceiptSinkChangesNothing(t *testing.T) {
	var observed []rw.Status
	s, dir := quick(t, &rw.Options{ReceiptSink: func(r rw.Receipt) {
		observed = append(observed, r.Status)
		panic("the secret content")
	}})
	watched := make(chan rw.Receipt, 8)
	defer s.Watch(func(r rw.Receipt) { watched <- r })()
	out, err := s.SafeWrite(background, put("a.txt", "x", rw.ModeCreate))
	require(t, err == nil && out.Status == rw.StatusSucceeded, "%v %+v", err, out)
	fileIs(t, dir, "a.txt", "x")
	_, err = s.SafeWrite(background, put("a.txt", "y", rw.ModeCreate))
	e := rw.AsError("", err)
	expect(t, errors.Is(err, rw.ErrFileAlreadyExists) && e.Effect == rw.EffectNone && !strings.Contains(e.Error(), "secret"), "%v", err)
	noErr(t, transact(s, rw.TxOp{Op: "delete", Path: "a.txt"}))
	gone(t, dir, "a.txt")
	expect(t, len(observed) == 3 && observed[0] == rw.StatusSucceeded && observed[1] == rw.StatusRefused && observed[2] == rw.StatusSucceeded,
		"observed %v", observed)
	for _, want := range observed {
		equal(t, (<-watched).Status, want, "a watcher reads")
	}
	write(t, s, "b.txt", "locks are free", rw.ModeCreate)
	check(t, s, true)
}

// TestALateVerifierHoldsNoLocks: it has its time and a quarter of it, within bounds;
// then the commit is refused and others write while it is still running. Its later
// changes to its staged files have no effect.
func TestALateVerifierHoldsNoLocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for limit, grace := range map[time.Duration]time.Duration{
			time.Millisecond: 100 * time.Millisecond, time.Second: 250 * time.Millisecond, 0: 2 * time.Second, 10 * time.Minute: 2 * time.Second,
		} {
			dir := ramspace(t)
			goOn, ended := make(chan struct{}), make(chan error, 1)
			s := open(t, dir, &rw.Options{VerifyTimeout: limit, Hooks: roles(verifier(func(_ context.Context, c hook.Staged) error {
				if c.Files[0].Path != "a.txt" {
					return nil
				}
				<-goOn // independent of its context
				_, err := os.ReadFile(c.Files[0].Staged)
				os.WriteFile(c.Files[0].Staged, []byte("late"), 0o600)
				ended <- err
				return nil
			}))})
			limit = cmp.Or(limit, time.Minute)
			began := time.Now()
			e := turnedDown(t, s, dir, put("a.txt", "x", rw.ModeCreate), rw.ErrVerifyFailed)
			equal(t, time.Since(began), limit+grace, limit, ": the caller waited for")
			text, _ := e.Context["output"].(string)
			expect(t, e.Effect == rw.EffectNone && strings.Contains(text, "continues"), "%v: %s %q", limit, e.Effect, text)
			// The verifier is still there. Another store takes the lock at once.
			other := open(t, dir, &rw.Options{LockTimeout: time.Millisecond})
			write(t, other, "a.txt", "others", rw.ModeCreate)
			nothingStaged(t, s)
			close(goOn)
			isErr(t, <-ended, os.ErrNotExist, "what was staged is still there")
			synctest.Wait()
			write(t, s, "b.txt", "the store goes on", rw.ModeCreate)
			noErr(t, other.Close(background))
			noErr(t, s.Close(background))
			s = open(t, dir, nil)
			r := s.Recovery()
			expect(t, len(r.Finished)+len(r.Conflicts) == 0, "%+v", r)
			length(t, must(s.Unfinished())(t), 0, "left in staging after an open")
			fileIs(t, dir, "a.txt", "others")
			check(t, s, true)
		}
	})
}
