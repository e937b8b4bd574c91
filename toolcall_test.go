package resilientwrite_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestToolCalls: what changes between the begin and the end of a call is a
// group of that call, also when another process ends it, and what changed
// before is not.
func TestToolCalls(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	put := func(name, text string) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	put("a.txt", "known")
	if r, err := s.Scan(background, rw.ScanRequest{}); err != nil || !r.Baseline {
		t.Fatalf("%+v %v", r, err)
	}
	put("before.txt", "before")
	call := rw.ToolCall{ID: "c1", Host: "loop", Session: "s", Event: "before", Command: "make"}
	begun, err := s.BeginCall(background, call)
	if err != nil || begun.Created != 1 || begun.Files[0].Path != "before.txt" {
		t.Fatalf("%+v %v", begun, err)
	}
	put("a.txt", "changed")
	other := open(t, dir, nil)
	if c, err := other.Capture(background); err != nil || len(c.Open) != 1 || c.Open[0].ID != "c1" || len(c.Hosts) != 1 || c.Hosts[0].Event != "before" {
		t.Fatalf("%+v %v", c, err)
	}
	call.Event = "after"
	ended, err := other.EndCall(background, call)
	if err != nil || ended.Changed != 1 || ended.Created != 0 {
		t.Fatalf("%+v %v", ended, err)
	}
	list, err := s.Changes(background, rw.ChangesRequest{})
	must(t, err)
	for _, g := range list.Groups {
		if want := map[string][]string{begun.Group: nil, ended.Group: {"c1"}}[g.Group]; !slices.Equal(g.Calls, want) || (g.Command == "make") != (want != nil) {
			t.Errorf("%+v, want the calls %q", g, want)
		}
	}
	if c, err := s.Capture(background); err != nil || len(c.Open) != 0 || c.Hosts[0].Event != "after" {
		t.Errorf("%+v %v", c, err)
	}
	_, err = s.Undo(background, rw.UndoRequest{Group: "c1"})
	must(t, err)
	fileIs(t, dir, "a.txt", "known")
	fileIs(t, dir, "before.txt", "before")
}

// TestToolCallsOfASessionEndTogether: an end without a call ends those of its
// session, not those of others.
func TestToolCallsOfASessionEndTogether(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	for _, c := range []rw.ToolCall{{ID: "a1", Host: "h", Session: "a"}, {ID: "a2", Host: "h", Session: "a"}, {ID: "b1", Host: "h", Session: "b"}} {
		if _, err := s.BeginCall(background, c); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.EndCall(background, rw.ToolCall{Host: "h", Session: "a"}); err != nil {
		t.Fatal(err)
	}
	if c, err := s.Capture(background); err != nil || len(c.Open) != 1 || c.Open[0].ID != "b1" {
		t.Errorf("%+v %v", c, err)
	}
}
