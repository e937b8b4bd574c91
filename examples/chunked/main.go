// Chunked shows how a large file survives the process that writes it. A report
// is sent in chunks, and the process dies half way. A second process asks which
// chunks exist, sends only the missing ones, and composes the file.
//
// Run it with go run ./examples/chunked
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/examples/internal/demo"
)

const session = "quarterly-report"

// report is the text that both processes can produce, chunk by chunk.
var report = []string{
	"# Quarterly report\n",
	"\n## Sales\n\nMore than before.\n",
	"\n## Costs\n\nLess than feared.\n",
	"\n## 展望\n\n良い 📈\n",
	"\n## Appendix\n\nNumbers.\n",
}

func main() {
	if !demo.Crashes(die) {
		demo.Main("chunked", run)
	}
}

func run(out io.Writer, dir string) error {
	// The first process sends the chunks and dies within the third.
	if err := demo.Crash(dir); err != nil {
		return err
	}

	ctx := context.Background()
	store, err := rw.Open(ctx, dir, &rw.Options{Caller: "second"})
	if err != nil {
		return err
	}
	status, err := store.ChunkStatus(ctx, rw.ChunkStatusRequest{Session: session})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "found     %v of %d pieces, missing %v\n", status.PresentIndices, *status.TotalExpected, status.Missing)

	// Too early: the refusal names what is missing and writes nothing.
	_, err = store.ChunkCompose(ctx, rw.ChunkComposeRequest{Session: session, OutputPath: "report.md"})
	if !errors.Is(err, rw.ErrChunkCountMismatch) {
		return fmt.Errorf("half a report was composed: %w", err)
	}
	fmt.Fprintf(out, "refused   %v\n", err)

	for _, i := range status.Missing {
		sent, err := store.ChunkWrite(ctx, rw.ChunkWriteRequest{Session: session, Index: i, Content: []byte(report[i-1])})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "sent      piece %d  %d bytes\n", sent.Index, sent.Bytes)
	}
	preview, err := store.ChunkPreview(ctx, rw.ChunkPreviewRequest{Session: session, MaxBytes: 19})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "preview   %d pieces, %d bytes, begins %q\n", preview.ChunkCount, preview.TotalBytes, preview.Content)

	composed, err := store.ChunkCompose(ctx, rw.ChunkComposeRequest{
		Session: session, OutputPath: "report.md", ExpectedSHA256: preview.SHA256, Cleanup: true,
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "composed  %s  %d bytes of %d pieces, cleaned up: %v\n", composed.OutputPath, composed.Bytes, composed.ChunkCount, composed.CleanedUp)

	// A caller that did not get that reply repeats the call and gets the outcome.
	_, err = store.ChunkCompose(ctx, rw.ChunkComposeRequest{Session: session, OutputPath: "report.md"})
	var refused *rw.Error
	if !errors.As(err, &refused) {
		return errors.New("a session that is gone was composed")
	}
	fmt.Fprintf(out, "again     %s\n", refused.Hint)

	tail, err := store.JournalTail(ctx, rw.JournalTailRequest{})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "journal")
	for _, e := range tail.Entries {
		if e.Op == "chunk" || e.Op == "compose" {
			fmt.Fprintf(out, "  %-8s %-8s %s\n", e.Op, e.Caller, e.Path)
		}
	}
	return store.Close(ctx)
}

// die sends the chunks in order and exits at once, without any cleanup, when
// the third one is recorded but not yet published.
func die(dir string) {
	ctx := context.Background()
	store, err := rw.Open(ctx, dir, &rw.Options{Caller: "first"})
	if err != nil {
		log.Fatal(err)
	}
	demo.DieAt(string(rw.StagePublish), 3)
	next := 1
	for _, piece := range report {
		sent, err := store.ChunkAppend(ctx, rw.ChunkAppendRequest{
			Session: session, Content: []byte(piece), ExpectIndex: next, TotalExpected: len(report),
		})
		if err != nil {
			log.Fatal(err)
		}
		next = sent.NextIndex
	}
}
