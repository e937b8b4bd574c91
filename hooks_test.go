package resilientwrite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/failpoint"
)

// The four kinds of hook, as functions.
type (
	authorizer  func(rw.HookCall) (rw.Decision, error)
	observer    func(rw.HookCall, rw.Receipt, error)
	transformer func(rw.HookCall, string, io.Reader) (io.Reader, error)
	verifier    func(context.Context, rw.StagedCommit) error
)

func (f authorizer) Authorize(_ context.Context, op rw.HookCall) (rw.Decision, error) { return f(op) }
func (f observer) Observe(_ context.Context, op rw.HookCall, r rw.Receipt, err error) { f(op, r, err) }
func (f verifier) Verify(ctx context.Context, c rw.StagedCommit) error                { return f(ctx, c) }
func (f transformer) Transform(_ context.Context, op rw.HookCall, path string, r io.Reader) (io.Reader, error) {
	return f(op, path, r)
}

// changes is an operation in one line.
func changes(op rw.HookCall) string {
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
	asked, told []string
	ops         []rw.HookCall
}

func (w *witness) Authorize(_ context.Context, op rw.HookCall) (rw.Decision, error) {
	w.asked = append(w.asked, changes(op))
	return rw.Allow(), nil
}

func (w *witness) Observe(_ context.Context, op rw.HookCall, r rw.Receipt, err error) {
	status := string(r.Status)
	if err != nil {
		status += " " + string(rw.AsError("", err).Detail)
	}
	w.told, w.ops = append(w.told, changes(op)+" "+status), append(w.ops, op)
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
	if now := committed(t, s); now != before {
		t.Errorf("a refused call left %d rows", now-before)
	}
	return e
}

func TestTheFirstRefusalCountsAndEveryAuthorizerIsAsked(t *testing.T) {
	t.Parallel()
	allow := authorizer(func(rw.HookCall) (rw.Decision, error) { return rw.Allow(), nil })
	deny := func(why string) any {
		return authorizer(func(rw.HookCall) (rw.Decision, error) { return rw.Deny(why), nil })
	}
	for name, c := range map[string]struct {
		first, second any
		hint          string
	}{
		"two refusals": {deny("because of one"), deny("because of two"), "because of one"},
		"an error":     {authorizer(func(rw.HookCall) (rw.Decision, error) { return rw.Allow(), errors.New("/etc/broken") }), allow, "the authorization check of this call failed"},
		"a panic":      {authorizer(func(rw.HookCall) (rw.Decision, error) { panic("/etc/broken") }), allow, "the authorization check of this call failed"},
		"no decision":  {authorizer(func(rw.HookCall) (rw.Decision, error) { return rw.Decision{}, nil }), allow, "the host does not allow this"},
		"ask and deny": {authorizer(func(rw.HookCall) (rw.Decision, error) { return rw.AskUser("may I?"), nil }), deny("never"), "never"},
		"a vandal": {authorizer(func(op rw.HookCall) (rw.Decision, error) {
			op.Changes[0].Path = "elsewhere"
			return rw.Deny("no"), nil
		}), allow, "no"},
	} {
		dir, last := ramspace(t), &witness{}
		s := hooked(t, dir, c.first, c.second, last)
		e := turnedDown(t, s, dir, put("a.txt", "x", rw.ModeCreate), rw.ErrDenied)
		if e.Kind != rw.ErrPolicyViolation || e.Reason != rw.ReasonPermission || e.Stage != rw.StageAuthorize || !strings.Contains(e.Hint, c.hint) {
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
		Hooks: roles(authorizer(func(rw.HookCall) (rw.Decision, error) { return rw.AskUser("may I?"), nil })),
		Ask: func(_ context.Context, op rw.HookCall, question string) (rw.Answer, error) {
			asked = append(asked, changes(op)+" "+question)
			if failure != nil && failure.Error() == "panic" {
				panic(failure)
			}
			return answer, failure
		},
	})
	turnedDown(t, s, dir, put("a.txt", "1", rw.ModeCreate), rw.ErrDenied)
	answer = rw.Answer{Allow: true}
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
	if !slices.Equal(asked, want) {
		t.Errorf("asked %q", asked)
	}
	ctx, stop := context.WithCancel(background)
	answer.Always = false
	failure = context.Canceled
	s2 := open(t, ramspace(t), &rw.Options{Hooks: roles(rw.Permission{}), Ask: func(ctx context.Context, _ rw.HookCall, _ string) (rw.Answer, error) {
		stop()
		return rw.Answer{}, ctx.Err()
	}})
	fails(s2.SafeWrite(ctx, put("a.txt", "1", rw.ModeCreate)))(t, rw.ErrCanceled, "a caller who left while the user was asked")
}

func TestPermissionIsNeverImpliedForWhatIsDestroyed(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	var asked []string
	perm := rw.Permission{AutoApprove: []string{"docs/**"}}
	opts := &rw.Options{Hooks: roles(perm), Ask: func(_ context.Context, op rw.HookCall, q string) (rw.Answer, error) {
		asked = append(asked, q)
		return rw.Answer{Allow: true}, nil
	}}
	s := open(t, dir, opts)
	do := func(want string, call func() error) {
		t.Helper()
		asked = nil
		noErr(t, call(), want)
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
	do("may tx do this: edit docs/a.md, create docs/c.md?", tx(
		rw.TxOp{Op: "write", Path: "docs/c.md", Content: []byte("c")},
		rw.TxOp{Op: "edit", Path: "docs/a.md", Edits: []rw.EditOp{{Old: "y", New: "z"}}}, rw.TxOp{Op: "write", Path: "docs/a.md", Mode: rw.ModeOverwrite, Content: []byte("all new")}))
	do("may move do this: move docs/c.md to docs/d.md?", func() error {
		_, err := s.Move(background, rw.MoveRequest{Path: "docs/c.md", To: "docs/d.md"})
		return err
	})
	do("may delete do this: delete docs/d.md?", func() error {
		_, err := s.Delete(background, rw.DeleteRequest{Path: "docs/d.md"})
		return err
	})
	do("", func() error { // the file is restored at a free path
		_, err := s.Undo(background, rw.UndoRequest{})
		return err
	})
	do("may undo do this: delete docs/d.md?", func() error {
		_, err := s.Undo(background, rw.UndoRequest{})
		return err
	})
	os.Symlink("../a.md", filepath.Join(dir, "docs", "link.md"))
	do("may safe_write do this: append a.md?", put("docs/link.md", "x", rw.ModeAppend))
	do("", func() error {
		_, err := s.Delete(background, rw.DeleteRequest{Path: "docs/a.md", Call: rw.Call{DryRun: true}})
		return err
	})
	// There is no user to ask.
	s = open(t, dir, &rw.Options{Hooks: roles(perm)})
	e := turnedDown(t, s, dir, rw.SafeWriteRequest{Path: "docs/a.md", Content: []byte("x"), Mode: rw.ModeOverwrite}, rw.ErrDenied)
	if e.Context["question"] != "may safe_write do this: overwrite docs/a.md?" {
		t.Errorf("%+v", e)
	}
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
		Hooks: roles(rw.PathRules{Deny: []string{"closed"}}, rw.Permission{AutoApprove: []string{"open"}}),
		Ask: func(context.Context, rw.HookCall, string) (rw.Answer, error) {
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
	if !errors.Is(e, rw.ErrDenied) {
		t.Errorf("a link that was bent: %v", e)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "closed")); len(left) > 0 {
		t.Error("it was written all the same")
	}
	at(func() { os.WriteFile(filepath.Join(dir, "open", "new"), []byte("theirs"), 0o644) })
	_, err := s.SafeWrite(background, put("open/new", "ours", rw.ModeOverwrite))
	if !errors.Is(err, rw.ErrChangedDuringWrite) || asked != 0 {
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

// roles is Options.Hooks with every value in the lists of its roles.
func roles(list ...any) (h rw.Hooks) {
	for _, v := range list {
		if a, ok := v.(rw.Authorizer); ok {
			h.Authorize = append(h.Authorize, a)
		}
		if t, ok := v.(rw.Transformer); ok {
			h.Transform = append(h.Transform, t)
		}
		if y, ok := v.(rw.Verifier); ok {
			h.Verify = append(h.Verify, y)
		}
		if o, ok := v.(rw.Observer); ok {
			h.Observe = append(h.Observe, o)
		}
	}
	return h
}
