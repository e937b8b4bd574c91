package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/spec"
)

const want = `acme-tickets 2.3.0 lists
  acme_write_file   Write one file
  rw_edit           Edit one file
  rw_history        Versions of a file
  rw_read           Read one file
  rw_redact         Redact a text
  ticket_open       
an agent calls
  acme_write_file   denied: no ticket is open; call ticket_open first
  rw_read           not_found: the file does not exist; check the path, or create it
  ticket_open       ticket 4711 is open
  acme_write_file   succeeded fix.md
  rw_edit           succeeded fix.md
  rw_undo           protocol error: the server has no such tool
`

func TestHost(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	var out bytes.Buffer
	if err := run(context.Background(), &out, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// TestRefusalOfTheHostIsAnEnvelope: a refusal by the host has the form of all
// refusals.
func TestRefusalOfTheHostIsAnEnvelope(t *testing.T) {
	res, err := refuse(rw.NewError("safe_write", rw.ErrDenied, "no ticket is open", nil))
	if err != nil || !res.IsError {
		t.Fatalf("%v %v", res, err)
	}
	doc, err := json.Marshal(res.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if err := spec.Validate("errors", doc); err != nil {
		t.Errorf("%v\n%s", err, doc)
	}
}

// TestServedOverStdio uses the server as a client that starts it.
func TestServedOverStdio(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir := t.TempDir()
	requests, in := io.Pipe()
	out, replies := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- serve(context.Background(), dir, requests, replies)
		replies.Close()
	}()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	ask := func(message string) string {
		t.Helper()
		if _, err := io.WriteString(in, message+"\n"); err != nil || !lines.Scan() {
			t.Fatalf("no answer to %s: %v %v", message, err, lines.Err())
		}
		return lines.Text()
	}
	ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	write := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"acme_write_file","arguments":{"path":"a.txt","content":"in time"}}}`
	if got := ask(write); !strings.Contains(got, "no ticket is open") {
		t.Errorf("written without a ticket: %s", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "a.txt")); err == nil {
		t.Error("the refusal made a file")
	}
	ask(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"ticket_open","arguments":{"id":"1"}}}`)
	if got := ask(write); !strings.Contains(got, `"status":"succeeded"`) {
		t.Errorf("not written: %s", got)
	}
	in.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "a.txt")); string(got) != "in time" {
		t.Errorf("%q %v", got, err)
	}
}
