package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// A loop around a language model shows it the tools and calls what it chooses;
// a refusal is an answer that says what to do next.
func ExampleToolbox() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	store, err := rw.Open(ctx, dir, nil)
	if err != nil {
		panic(err)
	}
	defer store.Close(ctx)

	box := mcpserver.NewToolbox(store, "model", &mcpserver.Options{Replies: mcpserver.FullReplies, Tier: mcpserver.Core})
	for _, tool := range box.Tools() {
		fmt.Println(tool.Name)
	}

	call := json.RawMessage(`{"path": "notes.md", "content": "# Notes\n"}`)
	for range 2 {
		answer, ok := box.Call(ctx, "rw_safe_write", call)
		var said struct {
			Status          string
			SuggestedAction string `json:"suggested_action"`
			Context         struct{ Reason, Effect string }
		}
		if err := json.Unmarshal(answer, &said); err != nil {
			panic(err)
		}
		if ok {
			fmt.Println(said.Status)
		} else {
			fmt.Println(said.Context.Reason, said.Context.Effect, said.SuggestedAction)
		}
	}
	// Output:
	// rw_safe_write
	// rw_edit
	// rw_tx
	// rw_read
	// rw_history
	// rw_undo
	// rw_redact
	// succeeded
	// file_already_exists none ask_user
}
