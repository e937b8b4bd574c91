package toolbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/toolbox"
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

	box := toolbox.New(store, &toolbox.Options{Caller: "model", Tier: toolbox.Core})
	for _, tool := range box.Tools() {
		fmt.Println(tool.Name)
	}

	call := json.RawMessage(`{"path": "notes.md", "content": "# Notes\n"}`)
	for range 2 {
		answer := box.Call(ctx, "rw_safe_write", call, nil)
		var said struct {
			Path            string
			SuggestedAction string `json:"suggested_action"`
			Context         struct{ Reason string }
		}
		if err := json.Unmarshal([]byte(answer.Text), &said); err != nil {
			panic(err)
		}
		if answer.OK {
			fmt.Println(said.Path, answer.Receipt.Status)
		} else {
			fmt.Println(said.Context.Reason, said.SuggestedAction)
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
	// notes.md succeeded
	// file_already_exists read_again
}
