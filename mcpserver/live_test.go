package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
)

// aServer is a server, and one client that hears all messages.
func aServer(t *testing.T, o *Options) (*host, *server.MCPServer, *server.InProcessSession, context.Context) {
	t.Helper()
	store := must(rw.Open(context.Background(), t.TempDir(), &rw.Options{Sync: rw.SyncOff}))(t)
	t.Cleanup(func() { store.Close(context.Background()) })
	s := New(store, o)
	h := hostOf(s)
	session := server.NewInProcessSession("one", nil)
	noErr(t, s.RegisterSession(context.Background(), session))
	session.Initialize()
	session.SetLogLevel(mcp.LoggingLevelDebug)
	return h, s, session, s.WithContext(context.Background(), session)
}

func messages(session *server.InProcessSession) (list []string) {
	for {
		select {
		case n := <-session.ClientNotifications():
			if n.Method == string(mcp.MethodNotificationMessage) {
				data, _ := json.Marshal(n.Params.AdditionalFields)
				list = append(list, string(data))
			}
		default:
			return list
		}
	}
}

// TestMessageOfAPoisonedStore: an error, once, with either form of replies.
func TestMessageOfAPoisonedStore(t *testing.T) {
	for _, form := range []Replies{BriefReplies, FullReplies} {
		messageOfAPoisonedStore(t, form)
	}
}

func messageOfAPoisonedStore(t *testing.T, form Replies) {
	h, s, session, ctx := aServer(t, &Options{Replies: form})
	refused := func(d rw.Detail) *mcp.CallToolResult {
		return h.result(h.box.Refuse("describe", rw.NewError("describe", d, "", nil)))
	}
	poisoned := refused(rw.ErrStorePoisoned)
	other := refused(rw.ErrNotFound)
	var on context.Context
	s.AddTool(mcp.NewTool("probe"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		on = ctx
		return mcp.NewToolResultText(""), nil
	})
	s.HandleMessage(ctx, json.RawMessage(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe"}}`))
	for _, res := range []*mcp.CallToolResult{other, poisoned, poisoned, nil, {}} {
		h.live.remark(on, "rw_describe", res)
	}
	if got := messages(session); len(got) != 1 || !strings.Contains(got[0], `"level":"error"`) || !strings.Contains(got[0], "store_poisoned") {
		t.Errorf("%q", got)
	}
}

// TestPreparedIsForOneRequest: it is taken once, goes with the request, and
// what a client puts into the header finds nothing.
func TestPreparedIsForOneRequest(t *testing.T) {
	var p prepared
	ctx, end := context.WithCancel(context.Background())
	from := http.Header{preparedHeader: []string{"1"}, "Other": []string{"x"}}
	header := p.put(ctx, from, "one")
	second := p.put(ctx, header, "two")
	if from.Get(preparedHeader) != "1" || header.Get(preparedHeader) == second.Get(preparedHeader) || second.Get("Other") != "x" {
		t.Errorf("%v %v %v", from, header, second)
	}
	if got := p.take(second); got != "two" {
		t.Errorf("took %v", got)
	}
	for _, h := range []http.Header{second, nil, {}, {preparedHeader: []string{"99"}}} {
		if got := p.take(h); got != nil {
			t.Errorf("took %v", got)
		}
	}
	end()
	// It is removed on the side, which takes as long as it takes.
	for late := time.Now().Add(time.Minute); time.Now().Before(late); time.Sleep(time.Millisecond) {
		p.mu.Lock()
		left := len(p.all)
		p.mu.Unlock()
		if left == 0 {
			return
		}
	}
	t.Error("it stays behind the request")
}

// TestTellingsAreBounded: clients that call themselves something new each time
// do not fill the memory.
func TestTellingsAreBounded(t *testing.T) {
	var told onceMessages
	for i := range 10 * maxGreeted {
		if !told.first(fmt.Sprint(i), "event") || told.first(fmt.Sprint(i), "event") {
			t.Fatal("told twice or never")
		}
	}
	if len(told.done) > 2*maxGreeted {
		t.Errorf("%d are remembered", len(told.done))
	}
}

// TestTopicsOfEveryAddress: an address and what a row says meet in one topic,
// however either is written.
func TestTopicsOfEveryAddress(t *testing.T) {
	for uri, e := range map[string]rw.JournalEntry{
		"rw://file/a.txt":              {Path: "a.txt"},
		"rw://file/.%2Fdir%2F..%2Fa":   {Path: "a"},
		"rw://history/real.txt":        {Path: "link.txt", RealPath: "real.txt"},
		"rw://history/link.txt":        {Path: "link.txt", RealPath: "real.txt"},
		"rw://handoff":                 {Path: "HANDOFF.md"},
		"rw://file/HANDOFF.md":         {Path: "HANDOFF.md"},
		"rw://chunks/s":                {Path: ".resilient_write/chunks/s/part-001.txt"},
		"rw://checkpoint/a.b":          {Path: ".resilient_write/checkpoints/a.b.json"},
		"rw://file/%C3%BC%20%3F%23.md": {Path: "ü ?#.md"},
	} {
		want, ok := topicOf(uri)
		found := false
		for _, got := range topicsOf(e) {
			found = found || got == want
		}
		if !ok || !found {
			t.Errorf("%s: %v %v, a row has %v", uri, want, ok, topicsOf(e))
		}
	}
	for _, e := range []rw.JournalEntry{{}, {Path: ".resilient_write/scratch/x"}, {Path: ".resilient_write/"}, {Path: ".resilient_write/quarantine/draft"}} {
		if got := topicsOf(e); len(got) > 0 {
			t.Errorf("%q: %v", e.Path, got)
		}
	}
}
