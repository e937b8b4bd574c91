package mcpserver_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// sites of one store: what a session makes of a call.
func (s *site) doc(session, tool, args string) map[string]any {
	s.t.Helper()
	return s.result(s.inSession(session, 1, tool, args))
}

func undone(t *testing.T, doc map[string]any) string {
	t.Helper()
	if doc["ok"] != true {
		return doc["context"].(map[string]any)["reason"].(string)
	}
	var paths []string
	for _, r := range doc["results"].([]any) {
		paths = append(paths, r.(map[string]any)["path"].(string))
	}
	return strings.Join(paths, ",")
}

// TestUndoStaysInItsSession: two clients of one name over one server. Neither
// takes back what the other did, unless it says so; each can undo its undoing;
// and rows tell the sessions apart without telling their ids.
func TestUndoStaysInItsSession(t *testing.T) {
	t.Parallel()
	s := newSite(t, mcpserver.HTTPOptions{})
	a, b := s.initialize("agent"), s.initialize("agent")
	label := map[string]string{}
	for path, session := range map[string]string{"a.txt": a, "b.txt": b} {
		doc := s.doc(session, "rw_safe_write", `{"path":"`+path+`","content":"x"}`)
		if receipt, _ := doc["receipt"].(map[string]any); receipt["caller"] != "agent" {
			t.Errorf("%v", receipt)
		}
		row := s.doc(session, "rw_journal_tail", `{"n":1}`)["entries"].([]any)[0].(map[string]any)
		label[path], _ = row["session"].(string)
		if row["path"] != path || !strings.HasPrefix(label[path], "mcp-") || strings.Contains(label[path], session) {
			t.Errorf("%v", row)
		}
	}
	if label["a.txt"] == label["b.txt"] {
		t.Error("two sessions have one name")
	}
	s.doc(b, "rw_safe_write", `{"path":"b2.txt","content":"x"}`)
	for i, step := range []struct{ session, args, want string }{
		{a, `{}`, "a.txt"}, // although b wrote after it
		{a, `{}`, "a.txt"}, // and back
		{a, `{"n":2}`, ""}, // those two cancel each other out
		{b, `{}`, "b2.txt"},
		{a, `{"session":"` + label["b.txt"] + `","n":3,"dry_run":true}`, "invalid_argument"}, // no argument names a connection
		{s.initialize("agent"), `{}`, "nothing_to_undo"},
		{s.initialize("agent"), `{"caller":"agent"}`, "b2.txt"},
	} {
		if got := undone(t, s.doc(step.session, "rw_undo", step.args)); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
	doc := s.doc(s.initialize("agent"), "rw_undo", `{}`)
	if hint, _ := doc["context"].(map[string]any)["hint"].(string); !strings.Contains(hint, "pass caller") {
		t.Errorf("%v", doc)
	}
	if got := s.doc(a, "rw_safe_write", `{"path":"c","content":"x","session":"mine"}`); got["ok"] != true {
		t.Error(got)
	}
	if got := s.doc(a, "rw_journal_tail", `{"n":1}`)["entries"].([]any)[0].(map[string]any)["session"]; got != "mine" {
		t.Errorf("a session that the call names became %v", got)
	}
}

// TestUndoAfterACompose: the row of a composed file names its session, so each
// session takes back its own, whoever wrote last.
func TestUndoAfterACompose(t *testing.T) {
	t.Parallel()
	s := newSite(t, mcpserver.HTTPOptions{})
	a := s.initialize("agent")
	compose := func(name string) {
		s.doc(a, "rw_chunk_append", `{"session":"`+name+`","content":"piece"}`)
		if doc := s.doc(a, "rw_chunk_compose", `{"session":"`+name+`","output_path":"`+name+`"}`); doc["ok"] != true {
			t.Fatal(doc)
		}
	}
	s.doc(a, "rw_safe_write", `{"path":"old.txt","content":"x"}`)
	compose("one")
	if got := undone(t, s.doc(a, "rw_undo", `{}`)); got != "one" {
		t.Errorf("took back %s", got)
	}
	compose("two")
	b := s.initialize("agent")
	s.doc(b, "rw_safe_write", `{"path":"b.txt","content":"x"}`)
	if got := undone(t, s.doc(a, "rw_undo", `{}`)); got != "two" {
		t.Errorf("took back %s", got)
	}
	if got := undone(t, s.doc(b, "rw_undo", `{}`)); got != "b.txt" {
		t.Errorf("the other took back %s", got)
	}
	if got := undone(t, s.doc(a, "rw_undo", `{"caller":"agent","n":2}`)); got == "invalid_argument" {
		t.Errorf("by name: %s", got)
	}
}

// TestStdioSessionsAreTheirOwn: two connections of one client name to servers
// of one store; the second finds nothing of its own to undo.
func TestStdioSessionsAreTheirOwn(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	one := connectTo(t, mcpserver.New(store, full)).initialize(`{}`)
	two := connectTo(t, mcpserver.New(store, full)).initialize(`{}`)
	if got := reasonOf(t, one.result(one.call("rw_safe_write", create("a", "x")))); got != "ok" {
		t.Fatal(got)
	}
	if got := reasonOf(t, two.result(two.call("rw_undo", json.RawMessage(`{}`)))); got != "nothing_to_undo" {
		t.Errorf("the other one: %s", got)
	}
	if got := reasonOf(t, one.result(one.call("rw_undo", json.RawMessage(`{}`)))); got != "ok" {
		t.Errorf("its own: %s", got)
	}
	if got := reasonOf(t, two.result(two.call("rw_read", map[string]any{"path": "a"}))); got != "not_found" {
		t.Errorf("the file is still there: %s", got)
	}
}
