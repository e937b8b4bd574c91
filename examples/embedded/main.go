// Embedded is an agent in one Go program, without a server and without a
// protocol. The host writes with the methods of the store, which are typed. The
// model knows tools only, by name, description and schema, and calls them with
// JSON: it gets a toolbox over the same store. Both share the locks, the
// journal and the history, so that neither can overwrite the other unseen.
//
// The model here takes the place of a language model: it sees
// nothing but the JSON that came back, and does what that says.
//
// Run it with go run ./examples/embedded
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

func main() {
	dir, err := os.MkdirTemp("", "embedded")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := run(os.Stdout, dir); err != nil {
		log.Fatal(err)
	}
}

func run(out io.Writer, workspace string) error {
	ctx := context.Background()
	store, err := rw.Open(ctx, workspace, &rw.Options{Caller: "host"})
	if err != nil {
		return err
	}
	return errors.Join(play(ctx, out, store), store.Close(ctx))
}

func play(ctx context.Context, out io.Writer, store *rw.Store) error {
	fmt.Fprintln(out, "the host prepares the workspace")
	if err := prepare(ctx, out, store); err != nil {
		return err
	}
	box := tools(store)
	offered, err := functions(box)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "the model is offered")
	for _, f := range offered {
		fmt.Fprintf(out, "  %-14s needs %s\n", f.Name, f.required())
	}
	for _, goal := range goals() {
		fmt.Fprintf(out, "the model wants %s\n", goal.title)
		if err := loop(ctx, out, box, &model{goal: goal}); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "the host looks at what was done")
	return review(ctx, out, store)
}

// prepare leaves the file that the model is to extend. The host handles errors
// as Go programs do.
func prepare(ctx context.Context, out io.Writer, store *rw.Store) error {
	for range 2 { // a host that is started again
		done, err := store.SafeWrite(ctx, rw.SafeWriteRequest{Path: "CHANGES.md", Content: []byte("# Changes\n")})
		switch {
		case errors.Is(err, rw.ErrFileAlreadyExists):
			fmt.Fprintln(out, "  CHANGES.md was there, and stays")
		case err != nil:
			return err
		default:
			fmt.Fprintf(out, "  %s has %d bytes\n", done.Path, done.Bytes)
		}
	}
	return nil
}

// tools is the surface of the model: of the standard tools, those that this
// agent needs. What the filter drops cannot be called.
func tools(store *rw.Store) *toolbox.Toolbox {
	return toolbox.New(store, &toolbox.Options{
		Caller:  "model",
		Replies: toolbox.FullReplies, // the loop shows fields that a model does not need
		Filter: func(t toolbox.Tool) bool {
			return slices.Contains([]string{"safe_write", "edit", "read", "redact", "undo"}, t.Name)
		},
	})
}

// function is a tool in the form in which the interfaces of language models
// take it.
type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // a JSON Schema
}

// functions are the tools as they go into a request to a model.
func functions(box *toolbox.Toolbox) ([]function, error) {
	var list []function
	for _, t := range box.Tools() {
		list = append(list, function{t.Name, t.Description, t.Input})
	}
	_, err := json.Marshal(list) // the body of the request
	return list, err
}

// required are the arguments without which the function does nothing.
func (f function) required() string {
	var schema struct{ Required []string }
	json.Unmarshal(f.Parameters, &schema) // made by the library
	if len(schema.Required) == 0 {
		return "nothing"
	}
	return strings.Join(schema.Required, ", ")
}

// call is what a model answers when it wants a function called.
type call struct {
	Name      string
	Arguments json.RawMessage
}

// loop is an agent loop: ask the model, call the tool, show it the answer, and
// so on until it wants nothing more. There is no error to handle: what goes
// wrong is an answer too, and the model reads it.
func loop(ctx context.Context, out io.Writer, box *toolbox.Toolbox, m *model) error {
	next := m.start()
	for steps := 0; next != nil; steps++ {
		if steps == 10 {
			return errors.New("the model goes in circles")
		}
		answer := box.Call(ctx, next.Name, next.Arguments, nil)
		fmt.Fprintf(out, "  %s → %s\n", next.Name, gist(answer))
		next = m.read(answer)
	}
	return nil
}

// gist is one line of an answer.
func gist(answer toolbox.Answer) string {
	var a struct {
		Path, Status, Verdict string
		Bytes                 int64
		Error                 string
		Action                string `json:"suggested_action"`
		Context               refusal
	}
	json.Unmarshal([]byte(answer.Text), &a) // made by the library
	switch {
	case a.Context.DidYouMean != "":
		return fmt.Sprintf("%s: %s, did you mean %s", a.Error, a.Context.Reason, a.Context.DidYouMean)
	case !answer.OK:
		return fmt.Sprintf("%s: %s, suggested action %s, effect %s", a.Error, a.Context.Reason, a.Action, a.Context.Effect)
	case a.Verdict != "":
		return "redacted; what is left is " + a.Verdict
	case a.Status != "":
		return fmt.Sprintf("%s, %s has %d bytes", a.Status, a.Path, a.Bytes)
	}
	return fmt.Sprintf("%d bytes of %s", a.Bytes, a.Path)
}

// review is what the host sees: who wrote what, and what the files hold.
func review(ctx context.Context, out io.Writer, store *rw.Store) error {
	tail, err := store.JournalTail(ctx, rw.JournalTailRequest{})
	if err != nil {
		return err
	}
	for _, e := range tail.Entries {
		fmt.Fprintf(out, "  %-9s  %-14s  by %s\n", e.Op, e.Path, e.Caller)
	}
	for _, path := range []string{"CHANGES.md", "deploy.env"} {
		file, err := store.Read(ctx, rw.ReadRequest{Path: path})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "  %-14s  %q\n", path, file.Content)
	}
	return nil
}
