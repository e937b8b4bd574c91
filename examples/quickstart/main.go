// Quickstart shows the basic use of a Store. Files are created, replaced with a
// hash check and extended. A stale write is refused with an error that says
// what to do. A process dies between the commit point and the publication of a
// file, and the next Open completes the commit.
//
// Run it with go run ./examples/quickstart
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/examples/internal/demo"
)

func main() {
	if !demo.Crashes(crash) {
		demo.Main("quickstart", run)
	}
}

func run(out io.Writer, dir string) error {
	ctx := context.Background()
	store, err := rw.Open(ctx, dir, &rw.Options{Caller: "quickstart"})
	if err != nil {
		return err
	}

	created, err := store.SafeWrite(ctx, rw.SafeWriteRequest{Path: "docs/plan.md", Content: []byte("# Plan\n")})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "created   %s  %d bytes, %s\n", created.Path, created.Bytes, created.SHA256.String()[:12])

	replaced, err := store.SafeWrite(ctx, rw.SafeWriteRequest{
		Path: "docs/plan.md", Content: []byte("# Plan B\n"), Mode: rw.ModeOverwrite,
		Expect: rw.Exactly(created.SHA256),
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "replaced  %s  %d bytes, %s\n", replaced.Path, replaced.Bytes, replaced.SHA256.String()[:12])

	longer, err := store.SafeWrite(ctx, rw.SafeWriteRequest{Path: "docs/plan.md", Content: []byte("1. write\n"), Mode: rw.ModeAppend})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "appended  %s  %d bytes, %s\n", longer.Path, longer.Bytes, longer.SHA256.String()[:12])

	// A caller that expects the first version is refused.
	_, err = store.SafeWrite(ctx, rw.SafeWriteRequest{
		Path: "docs/plan.md", Content: []byte("# Old plan\n"), Mode: rw.ModeOverwrite,
		Expect: rw.Exactly(created.SHA256),
	})
	var refused *rw.Error
	if !errors.As(err, &refused) || !errors.Is(err, rw.ErrHashMismatch) {
		return fmt.Errorf("the stale write was not refused: %w", err)
	}
	fmt.Fprintf(out, "refused   %v\n", refused)
	fmt.Fprintf(out, "          suggested action %s, effect %s: %s\n", refused.Action, refused.Effect, refused.Hint)
	if err := store.Close(ctx); err != nil {
		return err
	}

	// A child process dies after its commit is recorded and before its file is
	// published.
	if err := demo.Crash(dir); err != nil {
		return err
	}
	before, err := os.ReadFile(filepath.Join(dir, "docs", "plan.md"))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "crashed   docs/plan.md still holds %q…\n", before[:8])

	if store, err = rw.Open(ctx, dir, nil); err != nil {
		return err
	}
	for _, f := range store.Recovery().Finished {
		fmt.Fprintf(out, "recovered %s  journal row %d\n", f.Path, f.Seq)
	}
	read, err := store.Read(ctx, rw.ReadRequest{Path: "docs/plan.md"})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "now       docs/plan.md holds %q\n", read.Content)

	tail, err := store.JournalTail(ctx, rw.JournalTailRequest{IncludeRefused: true})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "journal")
	for _, e := range tail.Entries {
		fmt.Fprintf(out, "  %d  %-8s %-9s %-12s %s\n", e.Seq, e.Kind, e.Op, e.Path, e.Caller)
	}
	return store.Close(ctx)
}

// crash writes a file and exits at once, without any cleanup, before the stage
// that would publish it.
func crash(dir string) {
	ctx := context.Background()
	store, err := rw.Open(ctx, dir, &rw.Options{Caller: "child"})
	if err != nil {
		log.Fatal(err)
	}
	demo.DieAt(string(rw.StagePublish), 1)
	store.SafeWrite(ctx, rw.SafeWriteRequest{Path: "docs/plan.md", Content: []byte("# Plan C\n"), Mode: rw.ModeOverwrite, AllowShrink: true})
}
