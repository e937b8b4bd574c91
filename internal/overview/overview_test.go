package overview_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/failpoint"
	"github.com/resilientwrite/resilientwrite/internal/overview"
	"github.com/resilientwrite/resilientwrite/internal/place"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/report"
)

var (
	ctx = context.Background()
	key = strings.Join([]string{"AKIA", "QZ7RTN4WMXJ2KVHD"}, "") // confirmed by its shape; put together here
)

func open(t *testing.T, dir string, o *rw.Options) *rw.Store {
	t.Helper()
	s := testbed.Must(rw.Open(ctx, dir, o))(t)
	t.Cleanup(func() { s.Close(ctx) })
	return s
}

func write(t *testing.T, s *rw.Store, path, text string) rw.SafeWriteResult {
	t.Helper()
	r := testbed.Must(s.SafeWrite(ctx, rw.SafeWriteRequest{Path: path, Content: []byte(text), Mode: rw.ModeOverwrite}))(t)
	return r
}

// seen reads an overview as another process does, which only looks.
func seen(t *testing.T, dir string, r overview.Request) *report.Overview {
	t.Helper()
	s := open(t, dir, &rw.Options{ReadOnly: true})
	if r.Rows == 0 {
		r.Rows, r.Changes = 100, 10
	}
	o := testbed.Must(overview.Read(ctx, s, overview.NewCleaner(s), r))(t)
	return o
}

// TestOverview: commits with all their files, refusals with what the gate
// found, everything that waits, and no secret in any of it.
func TestOverview(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &rw.Options{Caller: "coder", Sync: rw.SyncOff, Gate: rw.Gate{Mode: rw.GateBlock}})
	write(t, s, "a.txt", "one\n")
	write(t, s, "a.txt", "two\n")
	ops := []rw.TxOp{{Op: "delete", Path: "a.txt"}}
	for i := range 24 {
		ops = append(ops, rw.TxOp{Op: "write", Path: fmt.Sprintf("d/%02d.txt", i), Content: []byte("x")})
	}
	_, err := s.Tx(ctx, rw.TxRequest{Ops: ops})
	testbed.Require(t, err == nil, "%v", err)
	last := write(t, s, "b.txt", "b\n")
	testbed.Must(s.Undo(ctx, rw.UndoRequest{}))(t)
	_, err = s.SafeWrite(ctx, rw.SafeWriteRequest{Path: "conf.env", Content: []byte("key " + key)})
	testbed.Require(t, err != nil, "not refused")
	stale := call.DigestOf([]byte("other"))
	_, err = s.SafeWrite(ctx, rw.SafeWriteRequest{Path: "b.txt", Content: []byte("x"), Expect: rw.Exactly(stale)})
	testbed.Require(t, err != nil, "not refused")
	testbed.Must(s.ChunkAppend(ctx, rw.ChunkAppendRequest{Session: "pieces", Content: []byte("1")}))(t)
	tx := testbed.Must(s.TxBegin(ctx, rw.TxBeginRequest{}))(t)
	testbed.Must(s.HandoffWrite(ctx, handoff.WriteRequest{Envelope: handoff.Envelope{
		TaskID: "shop", Status: handoff.Blocked, Agent: "coder", Summary: "s", OpenQuestions: []string{"which currency?"}, NextSteps: []string{}, LastGoodState: []handoff.File{},
	}}))(t)
	o := seen(t, dir, overview.Request{})
	text := fmt.Sprintf("%+v", *o)
	testbed.Contains(t, text, "conf.env", "what looks like a secret: api_key", "a refused draft of conf.env", "pieces, chunks: 1", "an open transaction: "+tx.TxID, "the handoff of shop, blocked; question 1 of 1: which currency?", "draft get draft_")
	testbed.Expect(t, !strings.Contains(text, key) && !strings.Contains(text, dir), "it shows too much: %s", text)
	testbed.Expect(t, len(o.Refused) == 2 && o.Refused[0].Path == "b.txt" && o.Refused[0].Why != "", "refused: %+v", o.Refused)
	var rows []string
	for _, c := range o.Changes {
		rows = append(rows, fmt.Sprint(c.Op, " ", c.Summary(), " ", c.Files[0].Size(), " ", c.Undone))
	}
	want := []string{"handoff HANDOFF.md", "undo b.txt gone false", "create b.txt 2 B true", "tx d/04.txt, d/05.txt, d/06.txt and 22 more ", "overwrite a.txt 4 B false", "create a.txt 4 B false"}
	for i, w := range want {
		testbed.Expect(t, i < len(rows) && strings.Contains(rows[i], w), "change %d is not %q: %q", i, w, rows)
	}
	testbed.Expect(t, o.Changes[2].Row == last.Receipt.JournalSeq && o.Changes[2].Undo() == fmt.Sprint("resilient-write undo --row ", o.Changes[2].Row),
		"%+v", o.Changes[2])
	later := seen(t, dir, overview.Request{Rows: 100, Changes: 10, Since: time.Now().Add(time.Hour)})
	testbed.Expect(t, len(later.Changes)+len(later.Refused) <= 0 && len(later.Waiting) == 2, "before its time: %+v", later)
	few := seen(t, dir, overview.Request{Rows: 100, Changes: 1})
	testbed.Expect(t, len(few.Changes) == 1 && len(few.Refused) == 1, "%+v", few)
}

// TestMemoOfTheHandoff follows the handoff: it comes, changes and is complete.
func TestMemoOfTheHandoff(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	write(t, s, "a.txt", "x")
	r := overview.Request{Rows: 100, Changes: 10, Memo: &overview.Memo{}}
	for _, status := range []handoff.Status{"", handoff.Partial, "", handoff.Blocked, handoff.Complete, handoff.Partial} {
		if status != "" {
			testbed.Must(s.HandoffWrite(ctx, handoff.WriteRequest{Envelope: handoff.Envelope{
				TaskID: "t", Status: status, Agent: "a", Summary: "s", NextSteps: []string{}, LastGoodState: []handoff.File{},
			}}))(t)
		}
		for range 2 { // as read, and as remembered
			fresh := r
			fresh.Memo = nil
			testbed.Equal(t, cmp.Diff(seen(t, dir, fresh).Waiting, seen(t, dir, r).Waiting), "", status)
		}
	}
	for text, want := range map[string]string{"---\ntask_id: [\n---\n": "[a handoff that cannot be read: yaml_error]", "# Notes\n": "[]"} {
		testbed.NoErr(t, os.WriteFile(filepath.Join(dir, "HANDOFF.md"), []byte(text), 0o600))
		list := []string{}
		for _, w := range seen(t, dir, r).Waiting {
			list = append(list, w.Text)
		}
		testbed.Equal(t, fmt.Sprint(list), want)
	}
	testbed.NoErr(t, os.Remove(filepath.Join(dir, "HANDOFF.md")))
	o := seen(t, dir, r)
	testbed.Expect(t, len(o.Waiting) == 0, "%+v", o.Waiting)
}

// TestUndoOfARow undoes the commit that is named, by any caller and
// whatever came after, and nothing when its file was changed since. What is undone again
// counts as done.
func TestUndoOfARow(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &rw.Options{Caller: "coder", Sync: rw.SyncOff})
	write(t, s, "a.txt", "one\n")
	row := write(t, s, "a.txt", "two\n").Receipt.JournalSeq
	write(t, s, "b.txt", "b\n")
	person := open(t, dir, &rw.Options{Caller: "operator", Sync: rw.SyncOff})
	if r, err := person.Undo(ctx, rw.UndoRequest{Row: row, Call: rw.Call{DryRun: true}}); err != nil || !strings.Contains(r.Diff, "-two") {
		t.Fatalf("%v %+v", err, r)
	}
	r, err := person.Undo(ctx, rw.UndoRequest{Row: row, Call: rw.Call{IdempotencyKey: "k"}})
	testbed.Require(t, err == nil && len(r.Undone) == 1 && r.Undone[0] == row, "%v %+v", err, r)
	again, err := person.Undo(ctx, rw.UndoRequest{Row: row, Call: rw.Call{IdempotencyKey: "k"}})
	testbed.Expect(t, err == nil && again.Status == rw.StatusReplayed, "%v %+v", err, again)
	testbed.Holds(t, filepath.Join(dir, "a.txt"), "one\n")
	for row, want := range map[uint64]error{row: rw.ErrChangedOutside, 999: rw.ErrNothingToUndo} {
		_, err := person.Undo(ctx, rw.UndoRequest{Row: row})
		testbed.Expect(t, rw.AsError("undo", err).Detail == want, "row %d: %v", row, err)
	}
	testbed.Must(person.Undo(ctx, rw.UndoRequest{}))(t) // the undo itself
	for after, want := range map[uint64]string{0: "[undo false][undo true][create false][overwrite false][create false]", row - 1: "[undo false][undo true][create false][overwrite false]"} {
		text := ""
		for _, c := range seen(t, dir, overview.Request{After: after}).Changes {
			text += fmt.Sprintf("[%s %v]", c.Op, c.Undone)
		}
		testbed.Equal(t, text, want, "after row ", after)
	}
}

// TestUndoOfARowOfManyFiles takes all of them back, or none.
func TestUndoOfARowOfManyFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	write(t, s, "old.txt", "old\n")
	tx := func() uint64 {
		r := testbed.Must(s.Tx(ctx, rw.TxRequest{Ops: []rw.TxOp{{Op: "delete", Path: "old.txt"}, {Op: "write", Path: "new.txt", Content: []byte("new\n")}}}))(t)
		return r.Receipt.JournalSeq
	}
	files := func() string {
		names, _ := filepath.Glob(filepath.Join(dir, "*.txt"))
		return fmt.Sprint(len(names), filepath.Base(names[0]))
	}
	row := tx()
	if r, err := s.Undo(ctx, rw.UndoRequest{Row: row}); err != nil || len(r.Results) != 2 || files() != "1old.txt" {
		t.Errorf("%v %+v %s", err, r, files())
	}
	row = tx()
	write(t, s, "new.txt", "newer\n")
	if _, err := s.Undo(ctx, rw.UndoRequest{Row: row}); err == nil || files() != "1new.txt" {
		t.Errorf("%v %s", err, files())
	}
}

// TestStopped: the overview says why nothing can be written.
func TestStopped(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	write(t, s, "a.txt", "x")
	if o := seen(t, dir, overview.Request{}); len(o.Stopped) != 0 {
		t.Errorf("%q", o.Stopped)
	}
	testbed.NoErr(t, os.WriteFile(filepath.Join(testbed.Must(place.At(dir))(t), "policy.yaml"), []byte("version: 1\nnonsense: true\n"), 0o600))
	looker := open(t, dir, &rw.Options{ReadOnly: true, ServeWithBadPolicy: true})
	o, err := overview.Read(ctx, looker, overview.NewCleaner(looker), overview.Request{Rows: 9, Changes: 9})
	testbed.Expect(t, err == nil && len(o.Stopped) == 1 && strings.Contains(o.Stopped[0], "policy.yaml is invalid at line 2") && !strings.Contains(o.Stopped[0], dir),
		"%v %q", err, o.Stopped)
}

// TestRunningCalls of a process that is alive are seen by another store once they
// last, those of an operator too, and only while they run.
func TestRunningCalls(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	r := overview.Request{Rows: 100, Changes: 10, State: testbed.Must(place.At(dir))(t)}
	for want, call := range map[string]func(context.Context) error{
		"safe_write [a.txt]": func(ctx context.Context) error {
			_, err := s.SafeWrite(ctx, rw.SafeWriteRequest{Path: "a.txt", Content: []byte("1"), Mode: rw.ModeOverwrite})
			return err
		},
		"compact []": func(ctx context.Context) error {
			_, err := s.Admin().Compact(ctx, admin.CompactRequest{})
			return err
		},
	} {
		leave := make(chan struct{})
		done := make(chan error, 1)
		hold := sync.OnceFunc(func() { <-leave })
		disarm := failpoint.Arm(func(point string) {
			if point != "open:placed" { // of a look at the store
				hold()
			}
		})
		go func() { done <- call(rw.WithProgress(ctx, func(rw.Progress) { hold() })) }()
		for {
			o := seen(t, dir, r)
			if len(o.Running) == 0 && t.Context().Err() == nil {
				continue
			}
			testbed.Expect(t, len(o.Running) == 1 && fmt.Sprint(o.Running[0].Op, " ", o.Running[0].Paths) == want && o.Running[0].PID == os.Getpid(),
				"%s: %+v", want, o.Running)
			break
		}
		close(leave)
		disarm()
		testbed.NoErr(t, <-done)
		o := seen(t, dir, r)
		testbed.Expect(t, len(o.Running) == 0, "after it: %+v", o.Running)
	}
	r.State = t.TempDir()
	seen(t, dir, r) // nothing is there
	testbed.NoErr(t, os.WriteFile(filepath.Join(r.State, "locks"), nil, 0o600))
	_, err := overview.Read(ctx, s, overview.NewCleaner(s), r)
	testbed.IsErr(t, err, rw.ErrIO, "calls that cannot be read")
}

func TestMain(m *testing.M) { testbed.Main(m) }
