package mcpserver_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/place"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// damaged is a store whose journal holds a line that is none, so that opening
// it found something and reading it passes something over.
func damaged(t testing.TB, line string) *rw.Store {
	t.Helper()
	s, dir := storeIn(t, nil)
	save(t, s, "a.txt", "x")
	save(t, s, "a.txt", "y")
	noErr(t, s.Close(ctx))
	segments, err := filepath.Glob(filepath.Join(place.At(dir), "journal", "*.jsonl"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	data := must(os.ReadFile(segments[0]))(t)
	at := strings.Index(string(data), "}\n") + 2 // behind the first row
	data = slices.Insert(data, at, []byte(line+"\n")...)
	noErr(t, os.WriteFile(segments[0], data, 0o600))
	// Without its cache the whole journal is read.
	noErr(t, os.RemoveAll(filepath.Join(place.At(dir), "index")))
	again := must(rw.Open(ctx, dir, &rw.Options{Sync: rw.SyncOff}))(t)
	t.Cleanup(func() { again.Close(ctx) })
	save(t, again, "b.txt", "x")
	return again
}

// TestMessagesRespectTheLevel: a client hears what it wants to hear, once, in
// numbers and our words.
func TestMessagesRespectTheLevel(t *testing.T) {
	s := damaged(t, "a-line-that-nobody-may-see")
	if r := s.Recovery(); r.Malformed == 0 && r.TornBytes == 0 {
		t.Fatalf("nothing was found: %+v", r)
	}
	srv := mcpserver.New(s, full)
	eachPeer(t, func(t *testing.T, connect func(*server.MCPServer) *peer) {
		p := connect(srv)
		events := func() (list []string) {
			for _, n := range p.got("notifications/message") {
				data, _ := n.Params["data"].(map[string]any)
				list = append(list, fmt.Sprint(n.Params["level"], " ", data["event"]))
				if text := fmt.Sprint(n.Params); strings.Contains(text, "nobody-may-see") || n.Params["logger"] == "" || data["hint"] == "" {
					t.Errorf("%v", n.Params)
				}
			}
			return list
		}
		level := func(l string) {
			if p.level = l; !p.modern && l != "" {
				p.must("logging/setLevel", map[string]any{"level": l})
			}
		}
		tail := func() { p.tool("rw_journal_tail", map[string]any{"n": 50}, nil) }
		tail()
		level("error")
		tail()
		if got := events(); len(got) > 0 {
			t.Errorf("nobody wanted %v", got)
		}
		for _, l := range []string{"warning", "debug"} {
			level(l)
			tail()
			tail()
			p.wait("both messages", func() bool { return len(events()) >= 2 })
			// Over HTTP they may come on two streams, in either order.
			if got := slices.Sorted(slices.Values(events())); strings.Join(got, ", ") != "warning journal_malformed, warning recovery" {
				t.Errorf("%s: %s", l, got)
			}
		}
	})
	// Each client hears of it, and one that comes again hears of it again.
	for range 3 {
		p := &peer{t: t, caps: "{}"}
		p.http(srv)
		p.begin()
		p.must("logging/setLevel", map[string]any{"level": "info"})
		p.wait("a message", func() bool { return len(p.got("notifications/message")) == 1 })
	}
}

// TestNoMessagesAboutASoundStore: silence is the rule.
func TestNoMessagesAboutASoundStore(t *testing.T) {
	s, _ := storeIn(t, nil)
	p := &peer{t: t, caps: "{}"}
	p.stdio(mcpserver.New(s, full))
	p.begin()
	p.must("logging/setLevel", map[string]any{"level": "debug"})
	p.tool("rw_safe_write", map[string]any{"path": "a", "content": "x"}, nil)
	p.tool("rw_safe_write", map[string]any{"path": "a", "content": "y"}, nil)
	p.tool("rw_journal_tail", map[string]any{}, nil)
	p.tool("rw_nonsense", map[string]any{}, nil)
	if got := p.got("notifications/message"); len(got) > 0 {
		t.Errorf("%v", got)
	}
}
