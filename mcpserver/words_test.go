package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

var ourName = regexp.MustCompile(`\brw[_.][a-z_]{3,}`)

// TestARenamedToolHasNoOtherName: with every tool renamed, no old name is in
// anything that a client gets: instructions, lists, schemas, replies, refusals,
// hints, next steps, prompts, resources. What a file holds stays as it is.
func TestARenamedToolHasNoOtherName(t *testing.T) {
	t.Parallel()
	rename := func(name string) string { return "files-" + strings.TrimPrefix(name, "rw_") }
	for _, tier := range mcpserver.Presets() {
		store := openStore(t)
		s := mcpserver.New(store, &mcpserver.Options{Replies: mcpserver.FullReplies, Tier: tier, Rename: rename})
		said := map[string]string{}
		ask := func(what, method, params string) string {
			raw := must(json.Marshal(mcpserver.Handle(ctx, s, json.RawMessage(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))))(t)
			said[what] = string(raw)
			return string(raw)
		}
		call := func(tool, args string) string {
			return ask(tool+" "+args, "tools/call", `{"name":"files-`+tool+`","arguments":`+args+`}`)
		}
		ask("initialize", "initialize", `{"protocolVersion":"2025-11-25","clientInfo":{"name":"t","version":"1"},"capabilities":{}}`)
		for _, list := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
			ask(list, list, `{}`)
		}
		call("safe_write", `{"path":"a.txt","content":"x"}`)
		call("safe_write", `{"path":"a.txt","content":"x"}`)
		call("safe_write", `{"path":"b.txt","cntent":"x"}`)
		call("safe_write", `{"path":"b.txt"}`)
		call("safe_write", fmt.Sprintf(`{"path":"key.env","content":"KEY=%s"}`, strings.Join([]string{"AKIA", "QWERTYUIOPAS2345"}, "")))
		call("safe_write", `{"path":"mail.txt","content":"somebody@example.com"}`)
		call("edit", `{"path":"none.txt","edits":[{"old":"a","new":"b"}]}`)
		call("edit", `{"path":"a.txt","edits":[{"old":"","new":"b"}]}`)
		call("restore", `{"path":"a.txt","version":99}`)
		call("restore", `{"path":"a.txt"}`)
		call("tx", `{"ops":[]}`)
		call("tx_commit", `{"tx_id":"tx_none"}`)
		call("chunk_append", `{"session":"s","content":"x"}`)
		call("chunk_append", `{"session":"s","content":"y","expect_index":7}`)
		call("chunk_compose", `{"session":"none","output_path":"o"}`)
		call("chunk_status", `{"session":"s"}`)
		call("checkpoint_read", `{"name":"none"}`)
		call("scratch_get", `{"sha256":"`+strings.Repeat("0", 64)+`"}`)
		call("handoff_read", `{}`)
		call("describe", `{}`)
		call("journal_tail", `{}`)
		call("no_such", `{}`)
		for range 4 { // the budget ends
			call("read", `{"path":"none.txt"}`)
		}
		for _, p := range mcpserver.Prompts() {
			ask(p.Name, "prompts/get", `{"name":"`+p.Name+`","arguments":{"task_id":"t"}}`)
			ask(p.Name, "prompts/get", `{"name":"`+p.Name+`","arguments":{}}`)
		}
		for _, uri := range []string{"rw://describe", "rw://handoff", "rw://journal", "rw://policy", "rw://file/none", "rw://file/a.txt", "rw://chunks/none", "rw://history/a.txt"} {
			ask(uri, "resources/read", `{"uri":"`+uri+`"}`)
		}
		for what, text := range said {
			for _, name := range ourName.FindAllString(text, -1) {
				if _, tool := mcpserver.Tool(name[3:]); tool {
					t.Errorf("%s: %s says %s", tier, what, name)
				}
			}
			if what == "tools/list" && (!strings.Contains(text, "files-safe_write") || !json.Valid([]byte(text))) {
				t.Errorf("%s", text)
			}
		}
		call("safe_write", `{"path":"names.txt","content":"call rw_read, hint: rw_edit"}`)
		if text := call("read", `{"path":"names.txt"}`); !strings.Contains(text, "call rw_read, hint: rw_edit") {
			t.Errorf("the file reads %s", text)
		}
	}
}

// TestWrapSeesWhatIsAsked: in the newest protocol a call that needs the user is
// two calls for Wrap, the first of which ends as input_required with nothing
// done; in the older ones it is one.
func TestWrapSeesWhatIsAsked(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{true, false} {
		var seen []string
		store := must(rw.Open(ctx, t.TempDir(), &rw.Options{Sync: rw.SyncOff, Hooks: roles(&counts{})}))(t)
		s := mcpserver.New(store, &mcpserver.Options{Tier: mcpserver.Full, Wrap: func(_ mcpserver.ToolInfo, next server.ToolHandlerFunc) server.ToolHandlerFunc {
			return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				res, err := next(ctx, req)
				seen = append(seen, fmt.Sprint(res.ResultType, " ", res.StructuredContent != nil, " ", res.IsError, " ", err))
				return res, err
			}
		}})
		w := connectTo(t, s)
		want := []string{"input_required false false <nil>", " true false <nil>"}
		if modern {
			w.modern(`{"elicitation":{}}`)
			state, _ := pending(t, w.result(w.call("rw_safe_write", create("a.txt", "x"))))
			w.result(w.call("rw_safe_write", create("a.txt", "x"), answers(state, yes)))
		} else {
			want = want[1:]
			w.initialize(`{"elicitation":{}}`)
			id := w.call("rw_safe_write", create("a.txt", "x"))
			w.send(`{"jsonrpc":"2.0","id":%q,"result":{"action":"accept","content":{"allow":true}}}`, w.read()["id"])
			w.result(id)
		}
		if strings.Join(seen, ";") != strings.Join(want, ";") {
			t.Errorf("modern %v: %q", modern, seen)
		}
		w.in.Close()
		store.Close(ctx)
	}
}
