package resilientwrite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

func TestObserversAreToldOfEveryCall(t *testing.T) {
	t.Parallel()
	dir, w := ramspace(t), &witness{}
	s := hooked(t, dir, observer(func(rw.HookCall, rw.Receipt, error) { panic("first") }), w,
		observer(func(rw.HookCall, rw.Receipt, error) { panic("last") }))
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
	if _, err := s.SafeWrite(background, put("c.txt", "x", rw.ModeCreate)); !errors.Is(err, rw.ErrStoreClosed) || w.told[len(w.told)-1] != "safe_write: create c.txt refused store_closed" {
		t.Errorf("%v, told %q", err, w.told[len(w.told)-1])
	}
}

func TestHooksSeeEveryVerbOfTheWorkspaceAndNoObject(t *testing.T) {
	t.Parallel()
	dir, w := ramspace(t), &witness{}
	var verified []string
	s := hooked(t, dir, w, verifier(func(_ context.Context, c rw.StagedCommit) error {
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
	if err != nil {
		t.Fatalf("%v of %+v", err, hist)
	}
	must(s.Delete(background, rw.DeleteRequest{Path: "d.txt"}))(t)
	must(s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "s", Index: 1, Content: []byte("piece")}))(t)
	must(s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "s", OutputPath: "e.txt"}))(t)
	must(s.HandoffWrite(background, rw.HandoffWriteRequest{Envelope: anEnvelope("t")}))(t)
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
	if !slices.Equal(w.asked, asked) {
		t.Errorf("asked %q", w.asked)
	}
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
	must(s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "s", Index: 1, Content: []byte("piece")}))(t)
	s.Close(background)
	for want, hook := range map[rw.Detail]any{
		rw.ErrDenied:       rw.DenyWrites{},
		rw.ErrVerifyFailed: verifier(func(context.Context, rw.StagedCommit) error { return errors.New("no") }),
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
				_, err := s.Restore(background, rw.RestoreRequest{Path: "a.txt", SHA256: digest(hash("one\n"))})
				return err
			},
			"tx": func() error {
				_, err := s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "x/y", Content: []byte("b")}, {Op: "delete", Path: "a.txt"}}})
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
		s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "s", Index: 1, Content: []byte("piece")}) // is not subject to them
		check(t, s, true)
		s.Close(background)
	}
}
