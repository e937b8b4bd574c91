// Handoff shows two agents and a human at one task. The first agent stops in
// the middle and writes a handoff. A human changes a file meanwhile. The second
// agent takes over, sees which file has changed, works through the steps and
// writes a handoff in turn.
//
// Run it with go run ./examples/handoff
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/examples/internal/demo"
	"github.com/resilientwrite/resilientwrite/handoff"
)

func main() { demo.Main("handoff", run) }

func run(out io.Writer, dir string) error {
	ctx := context.Background()
	for _, part := range []struct {
		who  string
		play func(context.Context, io.Writer, *rw.Store) error
	}{
		{"first agent", stops},
		{"human", func(context.Context, io.Writer, *rw.Store) error { return interferes(out, dir) }},
		{"second agent", picksUp},
	} {
		fmt.Fprintln(out, part.who)
		store, err := rw.Open(ctx, dir, &rw.Options{Caller: part.who})
		if err != nil {
			return err
		}
		if err := errors.Join(part.play(ctx, out, store), store.Close(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// stops writes two of three files and then stops.
func stops(ctx context.Context, out io.Writer, store *rw.Store) error {
	for path, content := range map[string]string{"lexer.go": "package calc // the lexer\n", "parser.go": "package calc // the parser\n"} {
		if _, err := store.SafeWrite(ctx, rw.SafeWriteRequest{Path: path, Content: []byte(content)}); err != nil {
			return err
		}
	}
	left, err := store.HandoffWrite(ctx, handoff.WriteRequest{
		Envelope: handoff.Envelope{
			TaskID: "calculator", Status: handoff.Partial, Agent: "first agent",
			Summary:      "Lexer and parser are written, the evaluator is not.",
			NextSteps:    []string{"Write eval.go.", "Then write the tests."},
			ContextHints: []string{"Numbers are decimal, never float64."},
			DependencyGraph: []handoff.Step{
				{ID: "parser", Status: "done"},
				{ID: "eval", DependsOn: []string{"parser"}},
				{ID: "tests", DependsOn: []string{"parser", "eval"}},
			},
		},
		Body:      []byte("# Calculator\n\nStopped in the middle.\n"),
		AutoState: handoff.AutoStateSession, // the files this agent wrote, as it wrote them
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  left      %s, %d of its files have changed\n", left.HandoffPath, len(left.DriftWarnings))
	return nil
}

// interferes changes a file, as a person might.
func interferes(out io.Writer, dir string) error {
	fmt.Fprintln(out, "  edits     parser.go in an editor")
	return os.WriteFile(filepath.Join(dir, "parser.go"), []byte("package calc // the parser, with units\n"), 0o644)
}

// picksUp continues where the first agent stopped.
func picksUp(ctx context.Context, out io.Writer, store *rw.Store) error {
	found, err := store.HandoffRead(ctx, handoff.ReadRequest{AcknowledgeAs: "second agent"})
	if err != nil {
		return err
	}
	task := found.Envelope
	fmt.Fprintf(out, "  takes     %s from %s: %s\n", task.TaskID, task.Agent, task.Summary)
	fmt.Fprintf(out, "  knows     %s\n", strings.Join(task.ContextHints, " "))
	fmt.Fprintf(out, "  can do    %s\n", strings.Join(found.ReadySteps, ", "))
	for _, d := range found.DriftWarnings {
		now, err := store.Read(ctx, rw.ReadRequest{Path: d.Path})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "  looks at  %s (%s): %s", d.Path, d.Reason, now.Content)
	}

	if _, err := store.SafeWrite(ctx, rw.SafeWriteRequest{Path: "eval.go", Content: []byte("package calc // evaluates, with units\n")}); err != nil {
		return err
	}
	task.Agent, task.Summary = "second agent", "The evaluator is written; it knows the units that parser.go has now."
	task.NextSteps, task.DependencyGraph[1].Status, task.LastGoodState = task.NextSteps[1:], "done", nil
	left, err := store.HandoffWrite(ctx, handoff.WriteRequest{
		Envelope: task, Body: append(found.Body, "\nThe units come from a human.\n"...),
		AutoState: "*.go", Strict: true, Archive: true, Expect: rw.Exactly(found.SHA256),
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  left      %s, the one before is in %s\n", left.HandoffPath, filepath.ToSlash(filepath.Dir(left.ArchivedPath)))

	now, err := store.HandoffRead(ctx, handoff.ReadRequest{})
	if err != nil {
		return err
	}
	var paths []string
	for _, f := range now.Envelope.LastGoodState {
		paths = append(paths, f.Path)
	}
	fmt.Fprintf(out, "  good      %s\n", strings.Join(paths, ", "))
	fmt.Fprintf(out, "  to do     %s\n", strings.Join(now.ReadySteps, ", "))
	before, err := store.HandoffRead(ctx, handoff.ReadRequest{Path: left.ArchivedPath})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  archived  the handoff of the %s, read by %d\n", before.Envelope.Agent, len(found.ReadBy))
	return nil
}
