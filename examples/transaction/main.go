// Transaction shows a refactoring over several files that happens as one commit:
// a function is renamed in three files, a file is moved, another one deleted. A
// version in which one file does not match is refused as a whole. Then a process
// dies in the middle: three files are changed, but one is not yet moved and one
// not yet deleted. The commit is recorded as a whole, so the next Open completes
// it. Repeating the call with its key returns the lost reply, and one call
// undoes everything.
//
// Run it with go run ./examples/transaction
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"strings"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/examples/internal/demo"
)

func main() {
	if !demo.Crashes(crash) {
		demo.Main("transaction", run)
	}
}

// project is the initial workspace.
var project = map[string]string{
	"lib/area.go":   "package lib\n\n// Calc is the area of a rectangle.\nfunc Calc(w, h int) int { return w * h }\n",
	"lib/round.go":  "package lib\n\nfunc round(x float64) int { return int(x + 0.5) }\n",
	"lib/legacy.go": "package lib\n\n// Deprecated: not used.\nfunc legacy() {}\n",
	"cmd/main.go":   "package main\n\nimport \"example.org/lib\"\n\nfunc main() { println(lib.Calc(2, 3)) }\n",
	"README.md":     "# Areas\n\n`lib.Calc(w, h)` is the area of a rectangle.\n",
}

// rename is the refactoring: Calc becomes Area. The key makes it happen once.
func rename(use string) rw.TxRequest {
	return rw.TxRequest{Call: rw.Call{Caller: "refactorer", IdempotencyKey: "calc-to-area"}, Ops: []rw.TxOp{
		{Op: "edit", Path: "lib/area.go", Edits: []rw.EditOp{{Old: "// Calc is", New: "// Area is"}, {Old: "func Calc(", New: "func Area("}}},
		{Op: "edit", Path: "cmd/main.go", Edits: []rw.EditOp{{Old: use, New: "lib.Area(2, 3)"}}},
		{Op: "edit", Path: "README.md", Edits: []rw.EditOp{{Old: "lib.Calc(", New: "lib.Area("}}},
		{Op: "move", Path: "lib/round.go", To: "lib/internal/round.go"},
		{Op: "delete", Path: "lib/legacy.go"},
	}}
}

func run(out io.Writer, dir string) error {
	ctx := context.Background()
	store, err := rw.Open(ctx, dir, &rw.Options{Caller: "host"})
	if err != nil {
		return err
	}
	begin := rw.TxRequest{}
	for _, path := range []string{"lib/area.go", "lib/round.go", "lib/legacy.go", "cmd/main.go", "README.md"} {
		begin.Ops = append(begin.Ops, rw.TxOp{Op: "write", Path: path, Content: []byte(project[path])})
	}
	if _, err := store.Tx(ctx, begin); err != nil {
		return err
	}
	show(out, "the project", dir)

	// One of five operations does not match: none of them happens.
	_, err = store.Tx(ctx, rename("lib.Calc(3, 2)"))
	if !errors.Is(err, rw.ErrOldStringNotFound) {
		return fmt.Errorf("the wrong edit was not refused: %w", err)
	}
	e := rw.AsError("tx", err)
	fmt.Fprintf(out, "refused: %v, effect %s\n", e, e.Effect)
	fmt.Fprintf(out, "  hint: %s\n", e.Hint)
	show(out, "after the refusal", dir)
	if err := store.Close(ctx); err != nil {
		return err
	}

	// A child process dies after the commit point, between two files.
	if err := demo.Crash(dir); err != nil {
		return err
	}
	show(out, "after the crash", dir)

	if store, err = rw.Open(ctx, dir, &rw.Options{Caller: "host"}); err != nil {
		return err
	}
	fmt.Fprintln(out, "opened again")
	for _, f := range store.Recovery().Finished {
		fmt.Fprintf(out, "  finished %s\n", f.Path)
	}
	show(out, "recovered", dir)

	// The child did not get the reply. Repeating its call returns it.
	again, err := store.Tx(ctx, rename("lib.Calc(2, 3)"))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "the same call again: %s, journal row %d, %d results\n", again.Status, again.Seq, len(again.Results))

	undone, err := store.Undo(ctx, rw.UndoRequest{Call: rw.Call{Caller: "refactorer"}})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "undone: journal row %d, %d files\n", undone.Undone[0], len(undone.Results))
	show(out, "the project", dir)
	return store.Close(ctx)
}

// show prints which files exist and which name of the function they use.
func show(out io.Writer, title, dir string) {
	fmt.Fprintln(out, title)
	root := os.DirFS(dir)
	fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() == ".resilient_write" {
			return fs.SkipDir
		}
		if entry.IsDir() {
			return nil
		}
		data, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		line := "  " + name
		for _, function := range []string{"Calc(", "Area("} {
			if strings.Contains(string(data), function) {
				line = fmt.Sprintf("%-24s uses %s)", line, function)
			}
		}
		fmt.Fprintln(out, line)
		return nil
	})
}

// crash runs the transaction and exits at once, without any cleanup, when three
// of its files are published.
func crash(dir string) {
	ctx := context.Background()
	store, err := rw.Open(ctx, dir, &rw.Options{Caller: "child"})
	if err != nil {
		log.Fatal(err)
	}
	demo.DieAt("publish.next", 3)
	store.Tx(ctx, rename("lib.Calc(2, 3)"))
}
