// Scratch shows where raw material belongs. The log of a failed deployment, with a
// token in it, is kept in the scratchpad, outside the workspace and outside git.
// The agent refers to it by its label, redacts it, and writes only the redacted
// summary into the workspace. A checkpoint records the progress of the task for
// the next agent; it names the log but does not contain it.
//
// Run it with go run ./examples/scratch
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/examples/internal/demo"
)

func main() { demo.Main("scratch", run) }

func run(out io.Writer, workspace string) (err error) {
	ctx := context.Background()
	store, err := rw.Open(ctx, workspace, &rw.Options{Gate: rw.GateOfAgents, Caller: "deployer", StateDir: ".resilient_write"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close(ctx)) }()

	// The raw log is stored outside git. The same bytes are stored once.
	raw := "pull ghcr.io/acme/app:1.4\nGITHUB_TOKEN=" + secret() + "\nerror: quota of the registry is used up\n"
	for _, label := range []string{"deploy-log", "incident-7"} {
		put, err := store.ScratchPut(ctx, rw.ScratchPutRequest{Content: []byte(raw), Label: label, ContentType: "text/plain", TTL: "P1W"})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "kept      %s  %d bytes, deduped %v\n", label, put.Bytes, put.Deduped)
	}

	// If the log is written into the workspace unchanged, the gate refuses it and keeps
	// the draft, which is not needed: the log is in the scratchpad.
	_, err = store.SafeWrite(ctx, rw.SafeWriteRequest{Path: "incident.md", Content: []byte(raw)})
	if !errors.Is(err, rw.ErrRiskBlocked) {
		return fmt.Errorf("the gate let the log pass: %v", err)
	}
	refusal := rw.AsError("safe_write", err)
	fmt.Fprintf(out, "refused   incident.md  %s\n", refusal.Detail)
	if draft, ok := refusal.Context["draft_ref"].(string); ok {
		if _, err := store.DraftDelete(ctx, rw.DraftDeleteRequest{DraftRef: draft}); err != nil {
			return err
		}
	}

	// Only the reference is passed around. A caller that needs the text gets it by its
	// hash, and redacts it before passing it on.
	ref, err := store.ScratchRef(ctx, rw.ScratchRefRequest{Label: "deploy-log"})
	if err != nil {
		return err
	}
	got, err := store.ScratchGet(ctx, rw.ScratchGetRequest{SHA256: ref.Entry.SHA256})
	if err != nil {
		return err
	}
	clean, err := store.Redact(ctx, rw.RedactRequest{Content: got.Content})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "redacted  %d place, what is left is %s\n", len(clean.Spans), clean.Verdict)

	summary := "# Incident 7\n\nThe log is in the scratchpad as deploy-log.\n\n    " +
		strings.ReplaceAll(strings.TrimSpace(string(clean.Content)), "\n", "\n    ") + "\n"
	done, err := store.SafeWrite(ctx, rw.SafeWriteRequest{Path: "incident.md", Content: []byte(summary)})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "written   %s  %d bytes\n", done.Path, done.Bytes)

	// The next agent finds the state of the task and the hash of the log.
	state := json.RawMessage(fmt.Sprintf(`{"step": "ask for a larger quota", "log": "%s", "tried": 1}`, ref.Entry.SHA256))
	if _, err := store.Checkpoint(ctx, rw.CheckpointRequest{Name: "incident-7", Data: state, TTL: "P1W"}); err != nil {
		return err
	}
	back, err := store.CheckpointRead(ctx, rw.CheckpointReadRequest{Name: "incident-7"})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "saved     %s, comes back to the letter: %v\n", back.Name, bytes.Equal(back.Data, state))
	return find(out, workspace, secret())
}

// find prints the directories of a workspace in which a file contains text.
func find(out io.Writer, workspace, text string) error {
	list, err := demo.Find(workspace, text)
	for _, dir := range list {
		fmt.Fprintf(out, "found     the token in %s\n", dir)
	}
	return err
}

// secret is a token of the correct format.
func secret() string { return demo.Secret(7) }
