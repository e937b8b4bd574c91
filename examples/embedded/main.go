// Embedded is an agent in one Go program, without a server and without a
// protocol. The host writes with the methods of the store, which are typed. The
// model knows only tools, by name, description and schema, and calls them with
// JSON: it gets a toolbox over the same store. Both share the locks, the
// journal and the history, so that neither can overwrite the other unnoticed.
//
// The model here replaces a language model: it sees only the JSON of the
// answers, and does what they say.
//
// Run it with go run ./examples/embedded
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/examples/internal/demo"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

func main() { demo.Main("embedded", run) }

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

// prepare writes the file that the model is to extend. The host handles errors
// like any Go program.
func prepare(ctx context.Context, out io.Writer, store *rw.Store) error {
	for range 2 { // as if the host were started again
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

// tools returns the surface of the model: of the standard tools, those that
// this agent needs. Tools that the filter removes cannot be called.
func tools(store *rw.Store) *toolbox.Toolbox {
	return toolbox.New(store, &toolbox.Options{
		Caller:  "model",
		Replies: toolbox.FullReplies, // the loop shows fields that a model does not need
		Filter: func(t toolbox.Tool) bool {
			return slices.Contains([]string{"safe_write", "edit", "read", "redact", "undo"}, t.Name)
		},
	})
}

// function is a tool in the form that the interfaces of language models take.
type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // a JSON Schema
}

// functions returns the tools as they go into a request to a model.
func functions(box *toolbox.Toolbox) ([]function, error) {
	var list []function
	for _, t := range box.Tools() {
		list = append(list, function{t.Name, t.Description, t.Input})
	}
	_, err := json.Marshal(list) // the body of the request
	return list, err
}

// required returns the required arguments of the function.
func (f function) required() string {
	var schema struct{ Required []string }
	json.Unmarshal(f.Parameters, &schema) // made by the library
	if len(schema.Required) == 0 {
		return "nothing"
	}
	return strings.Join(schema.Required, ", ")
}

// call is what a model answers to call a function.
type call struct {
	Name      string
	Arguments json.RawMessage
}

// loop is an agent loop: it asks the model, calls the tool, and shows the
// answer to the model, until the model makes no more calls. There is no error
// to handle: a failure is an answer too, and the model reads it.
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

// gist returns one line about an answer.
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

// review prints what the host sees: who wrote what, and the content of the
// files.
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
