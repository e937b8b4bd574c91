package main

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/scripted"
)

// TestScriptedModel: a client lists the tools, is refused, repairs its call,
// and writes; its name is in the journal, and each connection undoes its own
// writes.
func TestScriptedModel(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir := t.TempDir()
	connect := func() *mcp.ClientSession {
		there, here := mcp.NewInMemoryTransports()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- serve(ctx, dir, there) }()
		c, err := mcp.NewClient(&mcp.Implementation{Name: "scripted", Version: "7"}, nil).Connect(t.Context(), here, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(); stop(); <-ended })
		return c
	}
	c := connect()
	tools, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]json.RawMessage{}
	for _, tool := range tools.Tools {
		list[tool.Name], _ = json.Marshal(tool.InputSchema)
		if tool.Description == "" || tool.Annotations == nil || tool.Annotations.ReadOnlyHint != (tool.Name == "rw_read" || tool.Name == "rw_history" || tool.Name == "rw_redact") {
			t.Errorf("%s: %q %+v", tool.Name, tool.Description, tool.Annotations)
		}
	}
	if err := scripted.Tools(list); err != nil {
		t.Error(err)
	}
	var m scripted.Model
	answer := ""
	for {
		next, err := m.Next(answer)
		if err != nil {
			t.Fatal(err)
		}
		if next == nil {
			break
		}
		res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: next.Name, Arguments: json.RawMessage(next.Arguments)})
		if err != nil {
			t.Fatal(err)
		}
		answer = res.Content[0].(*mcp.TextContent).Text
	}
	if err := scripted.Check(dir); err != nil {
		t.Error(err)
	}
	if res, err := connect().CallTool(t.Context(), &mcp.CallToolParams{Name: "rw_undo"}); err != nil || !res.IsError {
		t.Errorf("another connection undid the write: %v %v", res, err)
	}
	store, err := rw.Open(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close(t.Context())
	tail, err := store.JournalTail(t.Context(), rw.JournalTailRequest{N: 1})
	if err != nil || len(tail.Entries) != 1 || tail.Entries[0].Via == nil || tail.Entries[0].Via.Client != "scripted" || tail.Entries[0].Via.Connection == "" {
		t.Errorf("%+v %v", tail.Entries, err)
	}
}
