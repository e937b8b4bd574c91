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
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
)

// upper is a transformer.
func upper(_ rw.HookCall, _ string, r io.Reader) (io.Reader, error) {
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
	s := hooked(t, dir, transformer(upper), transformer(func(op rw.HookCall, path string, r io.Reader) (io.Reader, error) {
		data, err := io.ReadAll(r)
		seen = append(seen, fmt.Sprintf("%s %s %.6s", changes(op), path, data))
		return io.MultiReader(bytes.NewReader(data), strings.NewReader("!")), err
	}))
	r := rw.SafeWriteRequest{Path: "a.txt", Content: []byte("one"), Call: rw.Call{IdempotencyKey: "k"}, ContentSHA256: digest(hash("one"))}
	out, err := s.SafeWrite(background, r)
	if err != nil || out.SHA256.String() != hash("ONE!") || out.Bytes != 4 {
		t.Fatalf("%v %+v", err, out)
	}
	fileIs(t, dir, "a.txt", "ONE!")
	if again, err := s.SafeWrite(background, r); err != nil || again.Status != rw.StatusReplayed || again.SHA256 != out.SHA256 {
		t.Errorf("replay: %v %+v", err, again)
	}
	r.Content, r.ContentSHA256 = []byte("ONE!"), rw.Digest{}
	turnedDown(t, s, dir, r, rw.ErrIdempotencyKeyReused) // the written content is not the sent one
	if dry, err := s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.txt", Content: []byte("two"), Mode: rw.ModeOverwrite, Call: rw.Call{DryRun: true}}); err != nil || dry.SHA256.String() != hash("TWO!") || !strings.Contains(dry.Diff, "+TWO!") {
		t.Errorf("dry run: %v %+v", err, dry)
	}
	if got := write(t, s, "a.txt", "One", rw.ModeOverwrite); got.Status != rw.StatusUnchanged {
		t.Errorf("the same after the transformers: %s", got.Status)
	}
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
	s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "s", Index: 1, Content: []byte("pie")})
	s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "s", Index: 2, Content: []byte("ce")})
	for range 2 {
		if c, err := s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "s", OutputPath: "c"}); err != nil || c.SHA256.String() != hash("PIECE!") || c.ChunkCount != 2 {
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
	s := open(t, dir, &rw.Options{MaxContentBytes: 2 << 20, Hooks: roles(transformer(upper), transformer(func(_ rw.HookCall, _ string, r io.Reader) (io.Reader, error) {
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
	const size = 5 << 20
	plain, _ := io.ReadAll(&endless{size})
	out, err := s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "big", ContentSHA256: digest(hash(string(plain)))}, &endless{size})
	want := strings.ToUpper(string(plain))
	if err != nil || out.SHA256.String() != hash(want) || out.Bytes != size {
		t.Fatalf("%v %+v", err, out)
	}
	fileIs(t, dir, "big", want)
	if left, _ := s.Unfinished(); len(left) > 0 {
		t.Errorf("left in staging: %v", left)
	}
	must(s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "big", Mode: rw.ModeOverwrite, Call: rw.Call{DryRun: true}}, &endless{size - 1}))(t, "a dry run")
	must(s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "big", Mode: rw.ModeAppend}, &endless{size}))(t, "an append")
	fileIs(t, dir, "big", want+want)
	bad = "nothing"
	must(s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "empty"}, &endless{size}))(t)
	fileIs(t, dir, "empty", "")
	bad = "longer"
	turnedDown(t, s, dir, put("small", "x", rw.ModeCreate), rw.ErrTooLarge)
	if out, err := s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "longer"}, &endless{size}); err != nil || out.Bytes != size+3<<20 {
		t.Errorf("%v %d", err, out.Bytes)
	}
	bad = "late error"
	before := snapshot(t, dir)
	fails(s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "late"}, &endless{size}))(t, rw.ErrTransformFailed, "a late error")
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
		"error":         func(rw.HookCall, string, io.Reader) (io.Reader, error) { return nil, errors.New("/etc/broken") },
		"panic":         func(rw.HookCall, string, io.Reader) (io.Reader, error) { panic("/etc/broken") },
		"no reader":     func(rw.HookCall, string, io.Reader) (io.Reader, error) { return nil, nil },
		"reading fails": func(rw.HookCall, string, io.Reader) (io.Reader, error) { return faulty{}, nil },
		"reading panics": func(_ rw.HookCall, _ string, r io.Reader) (io.Reader, error) {
			return io.MultiReader(r, faulty{panics: true}), nil
		},
	} {
		dir := ramspace(t)
		s := hooked(t, dir, transformer(upper), f)
		e := turnedDown(t, s, dir, put("d/a.txt", "x", rw.ModeCreate), rw.ErrTransformFailed)
		if e.Stage != rw.StageCompose || strings.Contains(string(conformsEnvelope(t, e)), "broken") {
			t.Errorf("%s: %+v", name, e)
		}
		fails(s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "b"}, &endless{2 << 20}))(t, rw.ErrTransformFailed, name, ": streamed")
		fails(s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "c", Content: []byte("x")}, {Op: "write", Path: "c", Content: []byte("x"), Mode: rw.ModeAppend}}}))(t, rw.ErrTransformFailed, name, ": two writes")
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
	s = hooked(t, dir, verifier(func(_ context.Context, c rw.StagedCommit) error {
		calls++
		if len(c.Files) != 3 || c.Root != dir || !filepath.IsAbs(c.Files[0].Staged) || len(c.Changes) != 3 || c.Changes[0].SHA256 != hash("new") {
			t.Errorf("%+v", c)
		}
		for i, want := range []string{"new", "onemore", ""} {
			f := c.Files[i]
			if data, err := os.ReadFile(f.Staged); string(data) != want || (want == "") != (err != nil) || f.Append {
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
		{Op: "write", Path: "d/new.txt", Content: []byte("new")}, {Op: "write", Path: "a.txt", Content: []byte("more"), Mode: rw.ModeAppend}, {Op: "delete", Path: "gone.txt"},
	}}
	token := ghToken(7)
	verdict = fmt.Errorf("%s/a.txt:1: no\n/root/go/src/fmt/x.go:2: GITHUB_TOKEN=%s\n\"/home/me/Documents/y\" is not C:\\Users\\me\\z\n// but https://example.org/a stays%s",
		dir, token, strings.Repeat("\nmore", 100))
	before := snapshot(t, dir)
	_, err := s.Tx(background, tx)
	if !errors.Is(err, rw.ErrVerifyFailed) || snapshot(t, dir) != before {
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
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		for name, f := range map[string]verifier{
			"panic":   func(context.Context, rw.StagedCommit) error { panic("/etc/broken") },
			"goexit":  func(context.Context, rw.StagedCommit) error { runtime.Goexit(); return nil },
			"slow":    func(ctx context.Context, _ rw.StagedCommit) error { <-ctx.Done(); return nil },
			"slower":  func(ctx context.Context, _ rw.StagedCommit) error { <-ctx.Done(); return ctx.Err() },
			"endless": func(context.Context, rw.StagedCommit) error { <-release; return nil },
		} {
			dir := ramspace(t)
			s := open(t, dir, &rw.Options{Hooks: roles(f), VerifyTimeout: 50 * time.Millisecond})
			began := time.Now()
			e := turnedDown(t, s, dir, put("d/a.txt", "x", rw.ModeCreate), rw.ErrVerifyFailed)
			if text, _ := e.Context["output"].(string); name != "panic" && name != "goexit" && !strings.Contains(text, "longer than 50ms") || strings.Contains(text, "broken") {
				t.Errorf("%s: %q", name, text)
			}
			want := map[string]time.Duration{"slow": 50 * time.Millisecond, "slower": 50 * time.Millisecond, "endless": 150 * time.Millisecond}[name]
			if d := time.Since(began); d != want {
				t.Errorf("%s was waited for %v, not %v", name, d, want)
			}
			check(t, s, true)
		}
		// A caller who leaves is no failed check.
		ctx, stop := context.WithCancel(background)
		s := hooked(t, ramspace(t), verifier(func(ctx context.Context, _ rw.StagedCommit) error { stop(); <-ctx.Done(); return ctx.Err() }))
		fails(s.SafeWrite(ctx, put("a", "x", rw.ModeCreate)))(t, rw.ErrCanceled, "a caller who left")
		// One that changes its input.
		dir := ramspace(t)
		s = hooked(t, dir, verifier(func(_ context.Context, c rw.StagedCommit) error {
			return os.WriteFile(c.Files[0].Staged, []byte("mine"), 0o600)
		}))
		fails(s.SafeWrite(background, put("a", "x", rw.ModeCreate)))(t, rw.ErrReadBackMismatch, "a changed staged file")
		if snapshot(t, dir) != snapshot(t, ramspace(t)) {
			t.Error("it was published")
		}
	})
}

func TestLocksAreHeldWhileVerifiersRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := ramspace(t)
		inside, goOn := make(chan struct{}), make(chan struct{})
		s := hooked(t, dir, verifier(func(_ context.Context, c rw.StagedCommit) error {
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
