package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

func Example() {
	main()
	// Output:
	// the host prepares the workspace
	//   CHANGES.md has 10 bytes
	//   CHANGES.md was there, and stays
	// the model is offered
	//   rw_safe_write  needs path, content
	//   rw_edit        needs path, edits
	//   rw_read        needs path
	//   rw_undo        needs nothing
	//   rw_redact      needs nothing
	// the model wants to add a line to a file that it has not read
	//   rw_safe_write → stale_precondition: file_already_exists, suggested action ask_user, effect none
	//   rw_read → 10 bytes of CHANGES.md
	//   rw_safe_write → succeeded, CHANGES.md has 38 bytes
	// the model wants to write a file with a credential in it
	//   rw_safe_write → blocked: risk_blocked, suggested action redact, effect none
	//   rw_redact → redacted; what is left is safe
	//   rw_safe_write → succeeded, deploy.env has 44 bytes
	// the model wants a tool whose name it has got wrong
	//   safe_wirte → policy_violation: unknown_tool, did you mean rw_safe_write
	//   rw_safe_write → succeeded, notes/today.md has 8 bytes
	// the host looks at what was done
	//   create     CHANGES.md      by host
	//   overwrite  CHANGES.md      by model
	//   create     deploy.env      by model
	//   create     notes/today.md  by model
	//   CHANGES.md      "# Changes\n- the parser takes comments\n"
	//   deploy.env      "KEY={AWS-ACCESS-KEY-ID-REDACTED}\nREPLICAS=3\n"
}

// TestHostMayWriteBetween: the host writes the file while the model thinks. The
// write of the model is refused, and the host's content stays.
func TestHostMayWriteBetween(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	ctx := context.Background()
	store, err := rw.Open(ctx, t.TempDir(), &rw.Options{Caller: "host", Sync: rw.SyncOff})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close(ctx)
	write := func(text string) {
		if _, err := store.SafeWrite(ctx, rw.SafeWriteRequest{Path: "CHANGES.md", Content: []byte(text), Mode: rw.ModeOverwrite}); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n")
	box, m := tools(store), &model{goal: goals()[0]}
	read := m.read(box.Call(ctx, "rw_safe_write", m.start().Arguments, nil))
	again := m.read(box.Call(ctx, read.Name, read.Arguments, nil))
	write("two\n")
	answer := box.Call(ctx, again.Name, again.Arguments, nil)
	if answer.OK || !strings.Contains(answer.Text, "hash_mismatch") {
		t.Fatalf("the lost update was not refused: %s", answer.Text)
	}
	// The refusal leads back to the file, and the second attempt adds to what
	// the host wrote.
	for next := m.read(answer); next != nil; next = m.read(answer) {
		answer = box.Call(ctx, next.Name, next.Arguments, nil)
	}
	got, err := store.Read(ctx, rw.ReadRequest{Path: "CHANGES.md"})
	if err != nil || string(got.Content) != "two\n"+goals()[0].text {
		t.Errorf("%q %v", got.Content, err)
	}
}

// TestFilteredToolCannotBeCalled: a tool that the toolbox leaves out does not
// exist under any of its names.
func TestFilteredToolCannotBeCalled(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	ctx := context.Background()
	store, err := rw.Open(ctx, t.TempDir(), &rw.Options{Sync: rw.SyncOff})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close(ctx)
	for _, name := range []string{"rw_delete", "rw.delete", "delete", ""} {
		answer := tools(store).Call(ctx, name, json.RawMessage(`{"path":"a"}`), nil)
		if answer.OK || !strings.Contains(answer.Text, "unknown_tool") {
			t.Errorf("%q: %s", name, answer.Text)
		}
	}
}
