package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// wire is a client that speaks line by line.
type wire struct {
	t    *testing.T
	in   io.Writer
	out  *bufio.Scanner
	next int
}

func (w *wire) send(format string, args ...any) {
	w.t.Helper()
	if _, err := fmt.Fprintf(w.in, format+"\n", args...); err != nil {
		w.t.Fatal(err)
	}
}

// read returns the next message that is no notification.
func (w *wire) read() map[string]any {
	w.t.Helper()
	for w.out.Scan() {
		var m map[string]any
		if err := json.Unmarshal(w.out.Bytes(), &m); err != nil {
			w.t.Fatal(err)
		}
		if m["id"] != nil {
			return m
		}
	}
	w.t.Fatal("the server ended")
	return nil
}

// TestHooksAskTheUserBehindTheClient: a question of an authorizer is an
// elicitation; what the user says counts, also "from now on"; a client that
// cannot ask gets a refusal.
func TestHooksAskTheUserBehindTheClient(t *testing.T) {
	for _, can := range []bool{true, false} {
		store, err := rw.Open(context.Background(), t.TempDir(), &rw.Options{Hooks: []any{rw.Permission{AutoApprove: []string{"docs/**"}}}})
		if err != nil {
			t.Fatal(err)
		}
		clientOut, serverIn := io.Pipe()
		serverOut, clientIn := io.Pipe()
		done := make(chan error, 1)
		go func() {
			done <- mcpserver.ServeStdio(context.Background(), mcpserver.New(store, nil), clientOut, clientIn)
		}()
		w := &wire{t: t, in: serverIn, out: bufio.NewScanner(serverOut)}
		w.out.Buffer(nil, 1<<20)
		caps := "{}"
		if can {
			caps = `{"elicitation":{}}`
		}
		w.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","clientInfo":{"name":"t","version":"1"},"capabilities":%s}}`, caps)
		w.read()
		w.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		write := func(path, mode string) {
			w.next++
			w.send(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"rw_safe_write","arguments":{"path":"%s","content":"x%d","mode":"%s"}}}`, w.next, path, w.next, mode)
		}
		outcome := func() string {
			res := w.read()["result"].(map[string]any)
			return fmt.Sprint(res["structuredContent"].(map[string]any)["ok"])
		}
		write("docs/a.txt", "create")
		if got := outcome(); got != "true" {
			t.Errorf("an approved path: %s", got)
		}
		write("a.txt", "create")
		if !can {
			if got := outcome(); got != "false" {
				t.Errorf("without a channel: %s", got)
			}
		} else {
			for i, step := range []struct{ answer, want string }{
				{`"result":{"action":"decline"}`, "false"},
				{`"result":{"action":"accept","content":{"allow":false}}`, "false"},
				{`"error":{"code":-1,"message":"no"}`, "false"},
				{`"result":{"action":"accept","content":{"allow":true,"always":true}}`, "true"},
			} {
				if i > 0 {
					write("a.txt", "create")
				}
				q := w.read()
				params, _ := q["params"].(map[string]any)
				if q["method"] != "elicitation/create" || !strings.Contains(fmt.Sprint(params["message"]), "a.txt") {
					t.Fatalf("no question: %v", q)
				}
				w.send(`{"jsonrpc":"2.0","id":%q,%s}`, q["id"], step.answer)
				if got := outcome(); got != step.want {
					t.Errorf("%s: %s", step.answer, got)
				}
			}
		}
		serverIn.Close()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the server does not end")
		}
		store.Close(context.Background())
	}
}
