// Guarded shows the content gate: an agent that tries to write a credential is
// refused, and the refusal says what to do. One agent follows it, redacts the
// kept draft and continues; another one sends the same bytes until its retry
// budget is used up; a human accepts the risk and gives a reason.
//
// Run it with go run ./examples/guarded
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/examples/internal/demo"
)

func main() { demo.Main("guarded", run) }

func run(out io.Writer, dir string) error {
	ctx := context.Background()
	draft := rw.SafeWriteRequest{Path: "deploy.env", Content: []byte("REGISTRY=ghcr.io/acme\nGITHUB_TOKEN=" + secret() + "\nREPLICAS=3\n")}
	for _, part := range []struct {
		title string
		gate  rw.Gate
		play  func(context.Context, io.Writer, *rw.Store, rw.SafeWriteRequest, string) error
	}{
		{"an agent that reads", rw.GateOfAgents, reads},
		{"an agent that does not", rw.GateOfAgents, insists},
		{"a human who knows better", rw.Gate{Mode: rw.GateBlock, Overrides: rw.OverrideAny}, accepts},
	} {
		fmt.Fprintln(out, part.title)
		workspace, err := os.MkdirTemp(dir, "workspace")
		if err != nil {
			return err
		}
		store, err := rw.Open(ctx, workspace, &rw.Options{Gate: part.gate, Caller: "guarded", StateDir: ".resilient_write"})
		if err != nil {
			return err
		}
		if err := errors.Join(part.play(ctx, out, store, draft, workspace), store.Close(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// reads is an agent loop without any knowledge of secrets: it writes, and after
// a refusal it does what the envelope suggests.
func reads(ctx context.Context, out io.Writer, store *rw.Store, req rw.SafeWriteRequest, workspace string) error {
	for {
		done, err := store.SafeWrite(ctx, req)
		if err == nil {
			fmt.Fprintf(out, "  written   %s  %d bytes\n", done.Path, done.Bytes)
			break
		}
		envelope := report(out, err)
		ref, _ := envelope.Context["draft_ref"].(string)
		if envelope.SuggestedAction != rw.ActionRedact || ref == "" {
			return err
		}
		fmt.Fprintf(out, "            hint: %s\n", envelope.Context["hint"])
		clean, err := store.Redact(ctx, rw.RedactRequest{DraftRef: ref})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "  redacted  %d place of the draft, what is left is %s\n", len(clean.Spans), clean.Verdict)
		req.Content = clean.Content
	}
	return errors.Join(
		find(out, "GITHUB_TOKEN={GHP-REDACTED}", workspace, "GITHUB_TOKEN={GHP-REDACTED}"),
		find(out, "the secret", workspace, secret()))
}

// insists is an agent that sends the same bytes again and again.
func insists(ctx context.Context, out io.Writer, store *rw.Store, req rw.SafeWriteRequest, _ string) error {
	for range rw.DefaultRetryBudget + 2 {
		_, err := store.SafeWrite(ctx, req)
		if err == nil {
			return errors.New("the gate let the draft pass")
		}
		envelope := report(out, err)
		if errors.Is(err, rw.ErrRetryExhausted) {
			fmt.Fprintf(out, "            hint: %s\n            journaled: %v\n", envelope.Context["hint"], envelope.Context["journaled"])
			if err := store.ResetTask(ctx); err != nil {
				return err
			}
			fmt.Fprintln(out, "  reset     by a human")
		}
	}
	return nil
}

// accepts accepts the risk, with a reason that is recorded in the journal.
func accepts(ctx context.Context, out io.Writer, store *rw.Store, req rw.SafeWriteRequest, _ string) error {
	req.AcceptRisk = "synthetic token for the tests of the scanner"
	done, err := store.SafeWrite(ctx, req)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  written   %s  %d bytes\n", done.Path, done.Bytes)
	tail, err := store.JournalTail(ctx, rw.JournalTailRequest{})
	if err != nil {
		return err
	}
	for _, e := range tail.Entries {
		fmt.Fprintf(out, "  journal   %d  %s %s by %s, risk accepted: %s\n", e.Seq, e.Op, e.Path, e.Caller, e.AcceptRisk)
	}
	return nil
}

// report prints a refusal; the findings in it are masked.
func report(out io.Writer, err error) rw.Envelope {
	e := rw.AsError("agent", err).Envelope()
	fmt.Fprintf(out, "  refused   %s, suggested action %s, retry budget %d", e.Context["reason"], e.SuggestedAction, e.RetryBudget)
	found, _ := e.Context["detected"].([]rw.RiskFinding)
	for _, f := range found {
		fmt.Fprintf(out, ", line %d: %s %s (%s)", *f.Line, f.Kind, *f.Match, f.Confidence)
	}
	fmt.Fprintln(out)
	return e
}

// find prints the directories of a workspace in which a file contains text.
func find(out io.Writer, what, workspace, text string) error {
	list, err := demo.Find(workspace, text)
	for _, dir := range list {
		fmt.Fprintf(out, "  found     %s in %s\n", what, path.Join("workspace", dir))
	}
	return err
}

// secret is a token of the correct format.
func secret() string { return demo.Secret(1) }
