package resilientwrite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestBlame: lines belong to the call that wrote them: over edits of others,
// scans, moves, undo and redo, and changes that no row records.
func TestBlame(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, nil)
	ctx := rw.WithVia(background, rw.Via{Client: "host", Thread: "t", Call: "call_1", Model: "m-1", Turn: "turn_1", Trace: "trace_1"})
	first := must(s.SafeWrite(ctx, rw.SafeWriteRequest{Path: "old.txt", Content: []byte("a\nb\nc\n")}))(t)
	must(s.Scan(background, rw.ScanRequest{}))(t)
	seq := func(r rw.Receipt) uint64 { return r.JournalSeq }
	one := seq(first.Receipt)
	edit := func(session, path, old, now string) uint64 {
		t.Helper()
		r := must(s.Edit(background, rw.EditRequest{Call: rw.Call{Session: session}, Path: path, Edits: []rw.EditOp{{Old: old, New: now}}}))(t)
		return seq(r.Receipt)
	}
	two := edit("s2", "old.txt", "b\n", "B\nB2\n")
	must(s.Move(background, rw.MoveRequest{Path: "old.txt", To: "f.txt"}))(t)
	noErr(t, os.WriteFile(filepath.Join(dir, "f.txt"), []byte("a\nB\nB2\nc\nshell\n"), 0o644))
	scan, err := s.Scan(background, rw.ScanRequest{Session: "s3", Calls: []string{"call_9"}, Command: "echo shell >> f.txt"})
	if err != nil || scan.Seq == 0 {
		t.Fatal(scan, err)
	}
	check := func(when, want string, undone map[uint64]bool) rw.BlameResult {
		t.Helper()
		got := must(s.Blame(background, rw.BlameRequest{Path: "f.txt"}))(t)
		have := ""
		for i, l := range got.Lines {
			if l.Line != i+1 {
				t.Errorf("%+v", l)
			}
			have += fmt.Sprintf("%s:%d:%v ", l.Text, l.Row, l.Unrecorded)
		}
		if have != want || !got.Complete {
			t.Errorf("%s: %s\nwant %s (%v)", when, have, want, got.Complete)
		}
		for _, c := range got.Calls {
			if (c.UndoneBy > 0) != undone[c.Row] || c.UndoneBy > 0 && c.UndoneBy <= c.Row {
				t.Errorf("%s: %+v", when, c)
			}
		}
		return got
	}
	text := func(last string) string {
		return fmt.Sprintf("a:%d:false B:%d:false B2:%d:false c:%d:false shell:%d:false ", one, two, two, one, scan.Seq) + last
	}
	got := check("written", text(""), nil)
	calls := map[uint64]rw.BlameCall{}
	for _, c := range got.Calls {
		calls[c.Row] = c
	}
	if c := calls[one]; c.Via == nil || c.Via.Call != "call_1" || c.Via.Model != "m-1" || c.Via.Turn != "turn_1" || c.Via.Trace != "trace_1" || c.Lines != 2 {
		t.Errorf("%+v", c)
	}
	if c := calls[scan.Seq]; c.Caller != rw.CallerOutside || len(c.During) != 1 || c.During[0] != "call_9" || !strings.HasPrefix(c.Command, "echo") || c.Session != "s3" {
		t.Errorf("%+v", c)
	}
	three := edit("s4", "f.txt", "shell\n", "SHELL\nmore\n")
	undo := func() {
		t.Helper()
		must(s.Undo(background, rw.UndoRequest{Row: func() uint64 { // the newest commit of any caller
			h := must(s.History(background, rw.HistoryRequest{Path: "f.txt"}))(t)
			return h.Versions[0].Version
		}()}))(t)
	}
	undo()
	check("undone", text(""), map[uint64]bool{three: true})
	undo()
	redone := strings.Replace(text(""), fmt.Sprintf("shell:%d:false", scan.Seq), fmt.Sprintf("SHELL:%d:false more:%d:false", three, three), 1)
	check("redone", redone, map[uint64]bool{three + 1: true})
	f := must(os.OpenFile(filepath.Join(dir, "f.txt"), os.O_APPEND|os.O_WRONLY, 0))(t)
	f.WriteString("unseen")
	f.Close()
	check("changed outside", redone+"unseen:0:true ", map[uint64]bool{three + 1: true})
	if _, err := s.Blame(background, rw.BlameRequest{Path: "none.txt"}); err == nil {
		t.Error("a file that is not there")
	}
}
