package mcpserver_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// caller calls tools over some transport.
type caller func(id int, tool string, args any) map[string]any

func (s *site) sessionCaller(name string) caller {
	session := s.initialize(name)
	return func(id int, tool string, args any) map[string]any {
		data, _ := json.Marshal(args)
		return s.result(s.inSession(session, id, tool, string(data)))
	}
}

func (s *site) modernCaller(name string) caller {
	return func(id int, tool string, args any) map[string]any {
		data, _ := json.Marshal(args)
		return s.result(s.modern(id, name, tool, string(data)))
	}
}

func (s *site) sseCaller() caller {
	post, stream := s.openSSE()
	return func(id int, tool string, args any) map[string]any {
		data, _ := json.Marshal(args)
		s.do(s.request("POST", post, callBody(id, tool, string(data))))
		return structured(s.t, stream.next(s.t))
	}
}

// stdioCaller runs the same server over pipes, in this process.
func (s *site) stdioCaller() caller {
	in, feed := io.Pipe()
	replies, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- mcpserver.ServeStdio(ctx, s.mcp, in, out); out.Close() }()
	lines := bufio.NewReaderSize(replies, 1<<20)
	line := func() string {
		text, err := lines.ReadString('\n')
		if err != nil {
			s.t.Error(err)
		}
		return text
	}
	s.t.Cleanup(func() {
		feed.Close()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	})
	fmt.Fprintf(feed, initBody+"\n", "stdio")
	line()
	return func(id int, tool string, args any) map[string]any {
		data, _ := json.Marshal(args)
		io.WriteString(feed, callBody(id, tool, string(data))+"\n")
		return structured(s.t, line())
	}
}

func structured(t testing.TB, message string) map[string]any {
	var m rpc
	var out map[string]any
	if json.Unmarshal([]byte(message), &m) != nil || json.Unmarshal(m.Result.StructuredContent, &out) != nil {
		t.Errorf("no reply: %s", message)
	}
	return out
}

func sum(text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:])
}

// TestHTTPOneWinnerEachRound: eight clients over every transport replace one
// file, each time with the hash of what all have seen. In each round exactly
// one wins, and the others learn why.
func TestHTTPOneWinnerEachRound(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SSE: true})
	clients := []caller{
		s.sessionCaller("a"), s.sessionCaller("b"), s.sessionCaller("c"), s.modernCaller("d"),
		s.modernCaller("e"), s.sseCaller(), s.sseCaller(), s.stdioCaller(),
	}
	clients[0](0, "rw_safe_write", map[string]any{"path": "one", "content": "start"})
	now := "start"
	const rounds = 25
	for round := range rounds {
		var mu sync.Mutex
		var won []string
		var wg sync.WaitGroup
		for i, call := range clients {
			wg.Add(1)
			go func() {
				defer wg.Done()
				text := fmt.Sprintf("round %d of client %d", round, i)
				got := call(round+1, "rw_safe_write", map[string]any{"path": "one", "content": text, "mode": "overwrite", "expected_prev_sha256": sum(now)})
				mu.Lock()
				defer mu.Unlock()
				if got["ok"] == true {
					won = append(won, text)
				} else if reason := got["context"].(map[string]any)["reason"]; reason != "hash_mismatch" {
					t.Errorf("round %d, client %d: %v", round, i, got)
				}
			}()
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("round %d: %d winners: %q", round, len(won), won)
		}
		now = won[0]
		if got := clients[round%len(clients)](1000, "rw_read", map[string]any{"path": "one"}); got["content"] != now {
			t.Fatalf("round %d: the file holds %v, the winner wrote %q", round, got["content"], now)
		}
	}
	report, err := s.store.Check(ctx, rw.CheckRequest{Deep: true})
	if err != nil || !report.Clean {
		t.Errorf("%v %+v", err, report)
	}
}

// TestHTTPCursorsDoNotMix: two agents in two sessions, over any transport,
// each follow the journal at their own pace; what one has acknowledged the
// other still gets.
func TestHTTPCursorsDoNotMix(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SSE: true})
	a, b, c := s.sessionCaller("same name"), s.sessionCaller("same name"), s.sseCaller()
	for i := range 6 {
		a(i, "rw_safe_write", map[string]any{"path": fmt.Sprint("f", i), "content": "x", "caller": "writer"})
	}
	since := func(call caller, agent string, ack any) (n int, last float64) {
		args := map[string]any{"agent": agent}
		if ack != nil {
			args["after_seq"] = ack
		}
		got := call(100, "rw_journal_since", args)
		entries, ok := got["entries"].([]any)
		if !ok {
			t.Fatalf("%v", got)
		}
		for _, e := range entries {
			last = e.(map[string]any)["seq"].(float64)
		}
		return len(entries), last
	}
	n, last := since(a, "alpha", nil)
	if n != 6 {
		t.Fatalf("alpha sees %d rows", n)
	}
	if n, _ := since(a, "alpha", last); n != 0 {
		t.Errorf("alpha has acknowledged and still sees %d rows", n)
	}
	for name, call := range map[string]caller{"b": b, "c": c} {
		if n, _ := since(call, "beta-"+name, nil); n != 6 {
			t.Errorf("%s sees %d of 6 rows, because alpha has acknowledged", name, n)
		}
	}
	if n, _ := since(b, "alpha", nil); n != 0 {
		t.Error("the cursor of alpha depends on the session")
	}
	a(200, "rw_safe_write", map[string]any{"path": "more", "content": "x", "caller": "writer"})
	if n, _ := since(b, "alpha", nil); n != 1 {
		t.Error("alpha misses the new row")
	}
	// Without an agent's name there is no cursor that could be shared.
	if got := b(300, "rw_journal_since", map[string]any{}); got["ok"] != false {
		t.Errorf("%v", got)
	}
}
