package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// jsonOf is a value as JSON has it.
func jsonOf(t testing.TB, v any) (m map[string]any) {
	t.Helper()
	m = must(asMap(v))(t)
	return m
}

// connectTo starts a server over pipes and returns a client of it.
func connectTo(t *testing.T, s *server.MCPServer) *wire {
	t.Helper()
	w := &wire{t: t, lines: make(chan map[string]any, 10000)}
	clientOut, serverIn := io.Pipe()
	serverOut, clientIn := io.Pipe()
	w.in = serverIn
	done := make(chan error, 1)
	go func() {
		done <- mcpserver.ServeStdio(context.Background(), s, clientOut, clientIn)
		clientIn.Close()
	}()
	go func() {
		defer close(w.lines)
		for d := json.NewDecoder(serverOut); ; {
			var m map[string]any
			if d.Decode(&m) != nil {
				return
			}
			w.lines <- m
		}
	}()
	t.Cleanup(func() {
		serverIn.Close()
		if err := soon(t, done, "the server ends"); err != nil {
			t.Error(err)
		}
	})
	return w
}

// hanging adds a read-only tool whose calls with hang set wait for the end of
// their context, or for a user when ask is set.
func hanging(s *server.MCPServer) (inside chan string) {
	inside = make(chan string, 10000)
	s.AddTool(mcp.NewTool("look", mcp.WithReadOnlyHintAnnotation(true)), func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		switch how := req.GetString("how", ""); how {
		case "hang":
			inside <- how
			<-ctx.Done()
		case "ask":
			inside <- how
			_, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{Mode: mcp.ElicitationModeForm, Message: "may I?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}}})
			return mcp.NewToolResultText(fmt.Sprint(err == nil)), nil
		}
		return mcp.NewToolResultText("seen"), nil
	})
	return inside
}

func (w *wire) ping(id string) {
	w.t.Helper()
	w.send(`{"jsonrpc":"2.0","id":%q,"method":"ping"}`, id)
}

// TestCallsThatHangHideNothingBehindThem: with 64 calls sent at once, the first
// 16 of which hang and hold every place that reading calls have, what comes
// behind is still read: a ping is answered, and cancellations free the places.
func TestCallsThatHangHideNothingBehindThem(t *testing.T) {
	s := mcpserver.New(openStore(t), full)
	inside := hanging(s)
	w := connectTo(t, s).initialize(`{}`)
	for i := range 64 {
		how := "look"
		if i < 16 {
			how = "hang"
		}
		w.call("look", map[string]any{"how": how})
		if i < 16 {
			soon(t, inside, "a call begins") // so that these have the places
		}
	}
	w.ping("p")
	if m := w.read(); m["id"] != "p" { // nobody else can be answered now
		t.Fatalf("%v", m)
	}
	w.cancel(64) // one that waits
	w.cancel(1)  // one that hangs: its place is free for the others
	seen := map[any]bool{}
	for range 64 - 16 - 1 {
		m := w.read()
		seen[m["id"]] = true
		if text := fmt.Sprint(m["result"]); !strings.Contains(text, "seen") {
			t.Errorf("%v", m)
		}
	}
	if seen[float64(64)] || seen[float64(1)] || len(seen) != 47 {
		t.Errorf("answered: %v", seen)
	}
	for i := range 15 {
		w.cancel(i + 2)
	}
	w.ping("end")
	if m := w.read(); m["id"] != "end" { // canceled calls are not answered
		t.Errorf("%v", m)
	}
}

// TestReadingCallsThatAskHideNoAnswers: 40 read-only calls of the host wait for
// the user at once, and give their places away meanwhile; the answers behind
// them are heard.
func TestReadingCallsThatAskHideNoAnswers(t *testing.T) {
	s := mcpserver.New(openStore(t), full)
	hanging(s)
	w := connectTo(t, s).initialize(`{"elicitation":{}}`)
	for range 40 {
		w.call("look", map[string]any{"how": "ask"})
	}
	w.call("look", map[string]any{})
	var asked []string
	for answered := 0; len(asked)+answered < 41; {
		if m := w.read(); m["method"] == "elicitation/create" {
			asked = append(asked, m["id"].(string))
		} else if answered++; m["id"] != float64(41) {
			t.Errorf("%v", m)
		}
	}
	for _, id := range asked {
		w.send(`{"jsonrpc":"2.0","id":%q,"result":{"action":"accept","content":{}}}`, id)
	}
	for range 40 {
		if m := w.read(); !strings.Contains(fmt.Sprint(m["result"]), "true") {
			t.Errorf("%v", m)
		}
	}
}

// TestAFloodBehindAHangingWriteIsRefused: a client that sends thousands of
// calls behind one that hangs is told so, call by call, and can still cancel
// the one: nothing is lost silently, and what was taken is answered.
func TestAFloodBehindAHangingWriteIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("waits two seconds for a queue that does not move")
	}
	t.Parallel()
	s := mcpserver.New(openStore(t), &mcpserver.Options{Tier: mcpserver.Full, CallsPerSecond: -1})
	inside := make(chan string, 1)
	s.AddTool(mcp.NewTool("change"), func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if req.GetString("how", "") == "hang" {
			inside <- "hang"
			<-ctx.Done()
		}
		return mcp.NewToolResultText("changed"), nil
	})
	w := connectTo(t, s).initialize(`{}`)
	w.call("change", map[string]any{"how": "hang"})
	soon(t, inside, "the first call begins")
	const flood = 1500
	for range flood {
		w.call("change", map[string]any{})
	}
	w.ping("p")
	refused := 0
	for {
		m := w.read()
		if m["id"] == "p" {
			break
		}
		refused++
		res, _ := m["result"].(map[string]any)
		if res["isError"] != true || reasonOf(t, res) != "rate_limited" {
			t.Fatalf("%v", m)
		}
	}
	if refused != flood-1023 {
		t.Errorf("%d calls were refused", refused)
	}
	w.cancel(1)
	for i := range flood - refused {
		if m := w.read(); m["id"] != float64(2+i) || !strings.Contains(fmt.Sprint(m["result"]), "changed") {
			t.Fatalf("reply %d: %v", i, m)
		}
	}
	if res := w.result(w.call("change", map[string]any{})); !strings.Contains(fmt.Sprint(res), "changed") {
		t.Errorf("the call after it: %v", res)
	}
}
