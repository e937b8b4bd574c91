package resilientwrite_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// TestReplayedEditTellsWhatTheFirstTold: by another store, after a restart and
// when the file has gone on; the row itself holds numbers alone.
func TestReplayedEditTellsWhatTheFirstTold(t *testing.T) {
	s, dir := quick(t, nil)
	write(t, s, "a.txt", "one two one\nrest\none\n", rw.ModeCreate)
	r := rw.EditRequest{Path: "./a.txt", Edits: []rw.EditOp{{Old: "one", New: "eleven", Count: 3}, {Old: "rest", New: "more"}}, Call: rw.Call{IdempotencyKey: "k"}}
	first, err := s.Edit(background, r)
	if err != nil || first.Replacements != 4 || !strings.Contains(first.Diff, "+eleven two eleven\n") {
		t.Fatalf("%v %+v", err, first)
	}
	again := func(what string, s *rw.Store, diff string) {
		t.Helper()
		got, err := s.Edit(background, r)
		if err != nil || got.Status != rw.StatusReplayed || got.Replacements != 4 || got.Diff != diff {
			t.Errorf("%s: %v %+v", what, err, got)
		}
		if got.Path != first.Path || got.SHA256 != first.SHA256 || got.Bytes != first.Bytes || got.JournalID != first.JournalID {
			t.Errorf("%s: %+v\nwant %+v", what, got, first)
		}
	}
	again("at once", s, first.Diff)
	again("by another store", quickAt(t, dir, nil), first.Diff)
	write(t, s, "a.txt", "appended\n", rw.ModeAppend)
	again("behind an append", s, first.Diff)
	write(t, s, "a.txt", "quite another\n", rw.ModeOverwrite)
	renamed(t, s, "a.txt", "b.txt")
	noErr(t, s.Close(background))
	s = quickAt(t, dir, nil)
	again("after a restart", s, first.Diff)
	if row, err := s.ReplyOf(first.Receipt.JournalSeq); err != nil || string(row) != `{"replacements":4}` {
		t.Errorf("the row holds %s %v", row, err)
	}
	noErr(t, os.RemoveAll(filepath.Join(dir, rw.StateDirName, "history")))
	again("when nothing is kept", s, "")
}

// TestReplayedRowsWithoutAReply: the journal of an earlier version is read.
func TestReplayedRowsWithoutAReply(t *testing.T) {
	s, _ := quick(t, nil)
	write(t, s, "a.txt", "one", rw.ModeCreate)
	r := rw.EditRequest{Path: "a.txt", Edits: []rw.EditOp{{Old: "one", New: "two"}}, Call: rw.Call{IdempotencyKey: "k"}}
	noErr(t, s.KeepWithoutReply(r, hash("two")))
	got, err := s.Edit(background, r)
	if err != nil || got.Status != rw.StatusReplayed || got.SHA256.String() != hash("two") || got.Replacements != 0 || got.Diff != "" {
		t.Errorf("%v %+v", err, got)
	}
}

// TestReplayedUndoAndRestoreTellWhatTheFirstTold: which commits were undone, the
// maximum that one call undoes, and which version was restored.
func TestReplayedUndoAndRestoreTellWhatTheFirstTold(t *testing.T) {
	s, dir := quick(t, nil)
	for i := range 51 {
		write(t, s, fmt.Sprintf("f%d.txt", i%5), fmt.Sprint(i), rw.ModeOverwrite)
	}
	u := rw.UndoRequest{N: 50, Call: rw.Call{IdempotencyKey: "undo"}}
	undo, err := s.Undo(background, u)
	if err != nil || len(undo.Undone) != 50 || undo.Undone[0] != 51 || undo.Undone[49] != 2 {
		t.Fatalf("%v %+v", err, undo.Undone)
	}
	v := rw.RestoreRequest{Path: "f0.txt", SHA256: digest(hash("45")), Call: rw.Call{IdempotencyKey: "restore"}}
	back, err := s.Restore(background, v)
	if err != nil || back.Version != 46 {
		t.Fatalf("%v %+v", err, back)
	}
	if row, err := s.ReplyOf(undo.Seq); err != nil || len(row) > 4<<10 || len(row) == 0 {
		t.Errorf("the row holds %d bytes, %v", len(row), err)
	}
	write(t, s, "f0.txt", "goes on", rw.ModeOverwrite)
	noErr(t, s.Close(background))
	s = quickAt(t, dir, nil)
	u2, err := s.Undo(background, u)
	if err != nil || u2.Status != rw.StatusReplayed || !slices.Equal(u2.Undone, undo.Undone) || u2.Seq != undo.Seq || u2.Receipt.Path != undo.Receipt.Path {
		t.Errorf("%v %+v\nwant %+v", err, u2, undo)
	}
	if fmt.Sprintf("%+v", u2.Results) != fmt.Sprintf("%+v", undo.Results) {
		t.Errorf("results %+v\nwant %+v", u2.Results, undo.Results)
	}
	if r2, err := s.Restore(background, v); err != nil || r2.Status != rw.StatusReplayed || r2.Version != 46 || r2.Path != "f0.txt" || r2.SHA256 != back.SHA256 {
		t.Errorf("%v %+v", err, r2)
	}
	fileIs(t, dir, "f0.txt", "goes on")
	check(t, s, true)
}

// TestUndoOfACommitAndItsUndoing reports nothing: no row, no file, and the commits can
// still be undone.
func TestUndoOfACommitAndItsUndoing(t *testing.T) {
	s, dir := quick(t, nil)
	write(t, s, "b.txt", "before", rw.ModeCreate)
	write(t, s, "a.txt", "x", rw.ModeCreate)
	undone(t, s, 1)
	before := snapshot(t, dir)
	for _, r := range []rw.UndoRequest{{N: 2}, {N: 2, Call: rw.Call{DryRun: true}}, {N: 2, Call: rw.Call{IdempotencyKey: "k"}}} {
		got, err := s.Undo(background, r)
		if err != nil || got.Status != rw.StatusUnchanged || got.Seq != 0 || len(got.Undone) != 0 || len(got.Results) != 0 || got.Undone == nil || got.Results == nil {
			t.Errorf("%+v: %v %+v", r, err, got)
		}
		if len(got.Warnings) != 1 || got.Warnings[0].Reason != rw.WarnCommitsCancelOut || got.Warnings[0].Hint == "" || len(got.Receipt.Warnings) != 1 {
			t.Errorf("%+v: warnings %+v %+v", r, got.Warnings, got.Receipt.Warnings)
		}
		if snapshot(t, dir) != before {
			t.Errorf("%+v changed something", r)
		}
	}
	// More commits than cancel out are undone, and reported.
	if got := undone(t, s, 3); got.Status != rw.StatusSucceeded || len(got.Undone) != 3 || len(got.Warnings) != 0 {
		t.Errorf("three: %+v", got)
	}
	gone(t, dir, "b.txt")
	undone(t, s, 1)
	fileIs(t, dir, "b.txt", "before")
	// Two files, one of which cancels out: the commits are undone.
	write(t, s, "c.txt", "c", rw.ModeCreate)
	noErr(t, transact(s, rw.TxOp{Op: "delete", Path: "c.txt"}, rw.TxOp{Op: "write", Path: "d.txt", Content: []byte("d")}))
	if got := undone(t, s, 2); got.Status != rw.StatusSucceeded || len(got.Undone) != 2 || got.Seq == 0 {
		t.Errorf("half: %+v", got)
	}
	gone(t, dir, "d.txt")
	undone(t, s, 1)
	fileIs(t, dir, "d.txt", "d")
	check(t, s, true)
}

// TestUnchangedLeavesTheKeyFree: only a commit binds a key.
func TestUnchangedLeavesTheKeyFree(t *testing.T) {
	s, dir := quick(t, nil)
	write(t, s, "a.txt", "same", rw.ModeCreate)
	r := put("a.txt", "same", rw.ModeOverwrite)
	r.IdempotencyKey = "k"
	if got, err := s.SafeWrite(background, r); err != nil || got.Status != rw.StatusUnchanged {
		t.Fatalf("%v %+v", err, got)
	}
	if op, err := s.Operation(background, rw.OperationRequest{IdempotencyKey: "k"}); err != nil || op.Happened || len(op.Entries) != 0 {
		t.Errorf("%v %+v", err, op)
	}
	r.Content = []byte("another")
	if got, err := s.SafeWrite(background, r); err != nil || got.Status != rw.StatusSucceeded {
		t.Errorf("%v %+v", err, got)
	}
	fileIs(t, dir, "a.txt", "another")
	r.Content = []byte("a third")
	deny(t, s, dir, "bound by now", rw.ErrIdempotencyKeyReused, func() error { _, err := s.SafeWrite(background, r); return err })
}

// TestIdempotencyKeysAreBounded: a snapshot leaves out keys that are both old and far
// back, and no others; paths stay at any age.
func TestIdempotencyKeysAreBounded(t *testing.T) {
	const head = 3*rw.KeyCount + 7
	day, young := rw.KeyAge+time.Hour, rw.KeyAge-time.Hour
	fs := simfs.New()
	x := must(rw.OpenKeyIndex(fs.Root()))(t)
	rows := []struct {
		name string
		seq  uint64
		ago  time.Duration
		kept bool
	}{
		{"old and far", 5, day, false},
		{"old, the first that is too far", head - rw.KeyCount - 1, day, false},
		{"old, the last of the newest", head - rw.KeyCount, day, true},
		{"old and near", head - 1, day, true},
		{"young and far", 6, young, true},
		{"young and near", head, young, true},
	}
	for _, row := range rows {
		x.Fold(row.seq, row.name, "path of "+row.name, row.ago)
	}
	judge := func(what string) {
		t.Helper()
		for _, row := range rows {
			want := uint64(0)
			if row.kept {
				want = row.seq
			}
			key, path, err := x.Knows(row.name, "path of "+row.name)
			if err != nil || key != want || path != row.seq {
				t.Errorf("%s, %s: key %d, path %d, %v; want %d and %d", what, row.name, key, path, err, want, row.seq)
			}
		}
	}
	noErr(t, x.Save(fs.Root(), head))
	judge("saved")
	noErr(t, x.Close())
	x = must(rw.OpenKeyIndex(fs.Root()))(t)
	judge("loaded")
	// The entries already in the file are judged again when the next one is written.
	rows[2].kept, rows[3].kept = false, true
	noErr(t, x.Save(fs.Root(), head+1))
	judge("saved again")
	noErr(t, x.Close())
}

// TestOperationOfACommitThatWasTakenBack: neither its invocation nor its key reports
// that it happened, and the result of the second attempt does not change that.
func TestOperationOfACommitThatWasTakenBack(t *testing.T) {
	fs := simfs.New()
	s := must(rw.OpenSim(fs, nil, rw.Sim{}))(t)
	fs.Inject(func(op simfs.Op) simfs.Fault {
		if op.Kind == "rename" && strings.HasSuffix(op.To, "a.txt") {
			return simfs.Fault{Err: syscall.ENOSPC}
		}
		return simfs.Fault{}
	})
	r := put("a.txt", "x", rw.ModeCreate)
	r.IdempotencyKey = "k"
	_, err := s.SafeWrite(background, r)
	e := rw.AsError("", err)
	if !errors.Is(err, rw.ErrDiskFull) || e.Effect != rw.EffectNone {
		t.Fatalf("%v %+v", err, e)
	}
	fs.Inject(nil)
	inv := e.Context["invocation_id"].(string)
	judge := func(ask rw.OperationRequest, happened bool) {
		t.Helper()
		op, err := s.Operation(background, ask)
		if err != nil || op.Happened != happened || op.Refused || len(op.Entries) > 0 != happened {
			t.Errorf("%+v: %v %+v", ask, err, op)
		}
	}
	judge(rw.OperationRequest{InvocationID: inv}, false)
	judge(rw.OperationRequest{IdempotencyKey: "k"}, false)
	again := must(s.SafeWrite(background, r))(t)
	judge(rw.OperationRequest{InvocationID: again.Receipt.InvocationID}, true)
	judge(rw.OperationRequest{IdempotencyKey: "k"}, true)
	judge(rw.OperationRequest{InvocationID: inv}, false)
	// The row itself is in the journal: it is skipped, not missing.
	all := must(s.JournalSince(background, rw.JournalSinceRequest{AfterSeq: new(uint64)}))(t)
	rows := 0
	for _, row := range all.Entries {
		if row.InvocationID == inv && row.Kind == "commit" {
			rows++
		}
	}
	if rows != 1 {
		t.Errorf("%d rows of the commit that was taken back", rows)
	}
	noErr(t, s.Close(background))
}
