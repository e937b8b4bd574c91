package resilientwrite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/handoff"
)

// example opens a store in a new directory, which done closes and removes. A
// real program passes the directory of the project and handles the error.
func example() (store *rw.Store, dir string, done func()) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	store, err = rw.Open(context.Background(), dir, &rw.Options{Caller: "anna"})
	if err != nil {
		panic(err)
	}
	return store, dir, func() {
		store.Close(context.Background())
		os.RemoveAll(dir)
	}
}

// A write, a second one under a guard, and a third by a caller that has not seen the
// second: it is refused and says what to do.
func Example() {
	ctx := context.Background()
	store, dir, done := example()
	defer done()

	first, err := store.SafeWrite(ctx, rw.SafeWriteRequest{Path: "docs/plan.md", Content: []byte("# Plan\n")})
	if err != nil {
		fmt.Println(err)
		return
	}
	guarded := rw.SafeWriteRequest{
		Path: "docs/plan.md", Content: []byte("# Plan B\n"), Mode: rw.ModeOverwrite, Expect: rw.Exactly(first.SHA256),
	}
	second, err := store.SafeWrite(ctx, guarded)
	fmt.Println(second.Status, second.Bytes, err)

	guarded.Content = []byte("# Plan C\n")
	_, err = store.SafeWrite(ctx, guarded)
	var refusal *rw.Error
	fmt.Println(errors.Is(err, rw.ErrHashMismatch), errors.As(err, &refusal))
	fmt.Println(refusal.Effect, refusal.Action)

	data, err := os.ReadFile(filepath.Join(dir, "docs/plan.md"))
	fmt.Printf("%q %v\n", data, err)
	// Output:
	// succeeded 9 <nil>
	// true true
	// none read_again
	// "# Plan B\n" <nil>
}

func ExampleStore_SafeWrite() {
	ctx := context.Background()
	store, _, done := example()
	defer done()

	log := rw.SafeWriteRequest{Path: "log/build.txt", Content: []byte("started\n"), Call: rw.Call{IdempotencyKey: "build-1"}}
	made, err := store.SafeWrite(ctx, log)
	fmt.Println(made.Path, made.Bytes, made.Status, err)

	// The reply was lost? The same key, and it happens once.
	made, err = store.SafeWrite(ctx, log)
	fmt.Println(made.Path, made.Bytes, made.Status, err)

	// To create does not replace.
	_, err = store.SafeWrite(ctx, rw.SafeWriteRequest{Path: "log/build.txt", Content: []byte("again\n")})
	fmt.Println(errors.Is(err, rw.ErrFileAlreadyExists))

	more, err := store.SafeWrite(ctx, rw.SafeWriteRequest{Path: "log/build.txt", Content: []byte("done\n"), Mode: rw.ModeAppend})
	fmt.Println(more.Bytes, err)
	// Output:
	// log/build.txt 8 succeeded <nil>
	// log/build.txt 8 replayed <nil>
	// true
	// 13 <nil>
}

func ExampleStore_Edit() {
	ctx := context.Background()
	store, dir, done := example()
	defer done()

	_, err := store.SafeWrite(ctx, rw.SafeWriteRequest{Path: "main.go", Content: []byte("package main\n\nfunc main() {}\n")})
	if err != nil {
		fmt.Println(err)
		return
	}
	edited, err := store.Edit(ctx, rw.EditRequest{Path: "main.go", Edits: []rw.EditOp{
		{Old: "package main\n", New: "package main\n\nimport \"fmt\"\n"},
		{Old: "{}", New: "{ fmt.Println(\"hello\") }"},
	}})
	fmt.Println(edited.Replacements, err)
	data, _ := os.ReadFile(filepath.Join(dir, "main.go"))
	fmt.Print(string(data))

	// A missing text is reported with the most similar line.
	_, err = store.Edit(ctx, rw.EditRequest{Path: "main.go", Edits: []rw.EditOp{{Old: "fmt.Print(", New: "print("}}})
	fmt.Println(errors.Is(err, rw.ErrOldStringNotFound))
	// Output:
	// 2 <nil>
	// package main
	//
	// import "fmt"
	//
	// func main() { fmt.Println("hello") }
	// true
}

func ExampleStore_Tx() {
	ctx := context.Background()
	store, dir, done := example()
	defer done()

	_, err := store.SafeWrite(ctx, rw.SafeWriteRequest{Path: "old.go", Content: []byte("package calc\n\nfunc Calc() {}\n")})
	if err != nil {
		fmt.Println(err)
		return
	}
	rename := []rw.TxOp{
		{Op: "edit", Path: "old.go", Edits: []rw.EditOp{{Old: "Calc()", New: "Area()"}}},
		{Op: "write", Path: "README.md", Content: []byte("Calc is Area now.\n")},
		{Op: "delete", Path: "nothing.go"},
	}
	_, err = store.Tx(ctx, rw.TxRequest{Ops: rename})
	fmt.Println(err)
	_, gone := os.Stat(filepath.Join(dir, "README.md"))
	fmt.Println("nothing has happened:", errors.Is(gone, os.ErrNotExist))

	done2, err := store.Tx(ctx, rw.TxRequest{Ops: rename[:2]})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range done2.Results {
		fmt.Println(r.Op, r.Path)
	}
	// Output:
	// tx nothing.go: stale precondition: not_found
	// nothing has happened: true
	// edit old.go
	// write README.md
}

func ExampleStore_Undo() {
	ctx := context.Background()
	store, dir, done := example()
	defer done()

	for _, text := range []string{"one\n", "two\n", "three\n"} {
		_, err := store.SafeWrite(ctx, rw.SafeWriteRequest{Path: "notes.txt", Content: []byte(text), Mode: rw.ModeOverwrite})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	if _, err := store.Undo(ctx, rw.UndoRequest{N: 2}); err != nil {
		fmt.Println(err)
		return
	}
	data, _ := os.ReadFile(filepath.Join(dir, "notes.txt"))
	fmt.Printf("%q\n", data)

	// Undoing is a version too.
	versions, err := store.History(ctx, rw.HistoryRequest{Path: "notes.txt"})
	for _, v := range versions.Versions {
		fmt.Println(v.Version, v.Op, v.Bytes, v.Caller)
	}
	fmt.Println(versions.More, err)
	// Output:
	// "one\n"
	// 4 undo 4 anna
	// 3 overwrite 6 anna
	// 2 overwrite 4 anna
	// 1 create 4 anna
	// false <nil>
}

func ExampleStore_ChunkCompose() {
	ctx := context.Background()
	store, dir, done := example()
	defer done()

	total := 3
	for _, piece := range []string{"first\n", "second\n"} {
		_, err := store.ChunkAppend(ctx, rw.ChunkAppendRequest{Session: "report", Content: []byte(piece), TotalExpected: total})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	// This process or another one asks which chunks are missing.
	status, err := store.ChunkStatus(ctx, rw.ChunkStatusRequest{Session: "report"})
	fmt.Println(status.PresentIndices, status.Missing, err)
	_, err = store.ChunkAppend(ctx, rw.ChunkAppendRequest{Session: "report", Content: []byte("third\n")})
	if err != nil {
		fmt.Println(err)
		return
	}
	composed, err := store.ChunkCompose(ctx, rw.ChunkComposeRequest{Session: "report", OutputPath: "report.txt", Cleanup: true})
	fmt.Println(composed.OutputPath, composed.ChunkCount, composed.Bytes, err)
	data, _ := os.ReadFile(filepath.Join(dir, "report.txt"))
	fmt.Printf("%q\n", data)
	// Output:
	// [1 2] [3] <nil>
	// report.txt 3 19 <nil>
	// "first\nsecond\nthird\n"
}

func ExampleStore_HandoffWrite() {
	ctx := context.Background()
	store, dir, done := example()
	defer done()

	lexer, err := store.SafeWrite(ctx, rw.SafeWriteRequest{Path: "lexer.go", Content: []byte("package calc\n")})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = store.HandoffWrite(ctx, handoff.WriteRequest{
		Envelope: handoff.Envelope{
			TaskID: "calc", Status: handoff.Partial, Agent: "anna", Summary: "The lexer is done.",
			NextSteps:     []string{"write the parser"},
			LastGoodState: []handoff.File{{Path: "lexer.go", SHA256: lexer.SHA256.String(), Bytes: lexer.Bytes}},
		},
		Body: []byte("# Where it stands\n"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	// A user edits the file before the next agent starts.
	if err := os.WriteFile(filepath.Join(dir, "lexer.go"), []byte("package other\n"), 0o644); err != nil {
		fmt.Println(err)
		return
	}
	found, err := store.HandoffRead(ctx, handoff.ReadRequest{AcknowledgeAs: "ben"})
	fmt.Println(found.Envelope.NextSteps, err)
	for _, drift := range found.DriftWarnings {
		fmt.Println("look at", drift.Path, "first:", drift.Reason)
	}
	// Output:
	// [write the parser] <nil>
	// look at lexer.go first: hash_mismatch
}

func ExampleStore_RiskScore() {
	ctx := context.Background()
	store, _, done := example()
	defer done()

	// A token put together here, so that this file holds none.
	text := "user = anna\ntoken = " + strings.Join([]string{"hf", "qWcXmKzRtVbNpLsJdHgFYeUaIoTrEwQzXc"}, "_") + "\n"
	risk, err := store.RiskScore(ctx, rw.RiskScoreRequest{Content: []byte(text)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(risk.Verdict)
	for _, f := range risk.DetectedPatterns {
		fmt.Println(f.Kind, "in line", *f.Line, "shown as", *f.Match)
	}
	redacted, err := store.Redact(ctx, rw.RedactRequest{Content: []byte(text)})
	fmt.Printf("%q %v\n", redacted.Content, err)
	// Output:
	// high
	// ai_key in line 2 shown as hf_…
	// "user = anna\ntoken = {HUGGINGFACE-TOKEN-REDACTED}\n" <nil>
}
