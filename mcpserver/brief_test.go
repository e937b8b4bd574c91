package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/mcpserver"
	"github.com/resilientwrite/resilientwrite/spec"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// briefly calls a tool and returns the one block of text of its brief reply,
// and what is in _meta.
func briefly(t testing.TB, s *server.MCPServer, tool, args string) (text string, isError bool, record map[string]any) {
	t.Helper()
	return brieflyAs(t, s, tool, args, `{}`)
}

func brieflyAs(t testing.TB, s *server.MCPServer, tool, args, meta string) (text string, isError bool, record map[string]any) {
	t.Helper()
	out := handled(t, s, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":%s}`, tool, args, meta))
	var m struct {
		Result struct {
			Content           []struct{ Type, Text string }
			StructuredContent json.RawMessage
			IsError           bool
			Meta              map[string]map[string]any `json:"_meta"`
		}
	}
	noErr(t, json.Unmarshal([]byte(out), &m), out)
	r := m.Result
	require(t, len(r.Content) == 1 && r.Content[0].Type == "text" && r.StructuredContent == nil && json.Valid([]byte(r.Content[0].Text)),
		"%s %s: no brief reply: %s", tool, args, out)
	record = r.Meta["io.github.resilientwrite/receipt"]
	require(t, record != nil && record["code"] != nil && record["journaled"] != nil, "%s %s: no receipt in _meta: %s", tool, args, out)
	return r.Content[0].Text, r.IsError, record
}

func briefServer(t testing.TB, opts *mcpserver.Options) (*server.MCPServer, *rw.Store, string) {
	t.Helper()
	store, dir := storeIn(t, nil)
	return mcpserver.New(store, opts), store, dir
}

// is reads a member of a reply.
func is(t testing.TB, text string, path ...string) any {
	t.Helper()
	v := testbed.Decoded[any](t, []byte(text), text)
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// TestBriefRepliesKeepTheirBudgets: one block of text, and no more bytes than
// the table of docs/benchmark.md says. The paths have fewer than 40 bytes.
func TestBriefRepliesKeepTheirBudgets(t *testing.T) {
	t.Parallel()
	s, store, dir := briefServer(t, nil)
	state := fmt.Sprintf(`{"seq":%d,"lost_task":%q,"forked":true}`, uint64(math.MaxUint64), strings.Repeat("t", 1000))
	noErr(t, store.Admin().SetShipState([]byte(state)))
	noErr(t, os.WriteFile(filepath.Join(dir, "long.txt"), []byte(strings.Repeat("a line of <text> & \"quotes\"\n", 4000)), 0o644))
	key := strings.Join([]string{"AKIA", "QWERTYUIOPAS2345"}, "")
	for _, c := range []struct {
		tool, args string
		refused    bool
		limit      int
		holds      string
	}{
		{"rw_safe_write", `{"path":"notes.md","content":"# Notes\n"}`, false, 200, `"bytes":8`},
		{"rw_safe_write", `{"path":"notes.md","content":"# Notes\n\nmore\n"}`, true, 500, `"suggested_action":"read_again"`},
		{"rw_safe_write", `{"path":"notes.md","content":"x","mode":"ovewrite"}`, true, 500, `"next_action":{"tool":"rw_safe_write","args":{"mode":"overwrite"}}`},
		{"rw_safe_write", `{"path":"notes.md","cntent":"x"}`, true, 500, `did you mean content`},
		{"rw_safe_write", `{"path":"notes.md","content":"x","mode":"overwrite","expected_prev_sha256":"` + zeros + `"}`, true, 2000, `"actual_prev_sha256":"365d`},
		{"rw_safe_write", `{"path":"key.env","content":"KEY=` + key + `"}`, true, 500, `"draft_ref":"draft_`},
		{"rw_safe_write", `{"path":"../x","content":"x"}`, true, 500, `escapes_workspace`},
		{"rw_edit", `{"path":"notes.md","edits":[{"old":"Notes","new":"Ideas"}]}`, false, 300, `+# Ideas`},
		{"rw_edit", `{"path":"notes.md","edits":[{"old":"# Idees\n","new":"x"}]}`, true, 2000, `old_string_not_found`},
		{"rw_edit", `{"path":"long.txt","edits":[{"old":"line","new":"x"}]}`, true, 2000, `ambiguous_match`},
		{"rw_edit", `{"path":"long.txt","edits":[{"old":"line","new":"x","count":-1}]}`, false, 1400, `cut off`},
		{"rw_tx", `{"ops":[{"op":"write","path":"b.txt","content":"b"},{"op":"move","path":"notes.md","to":"n.md"}]}`, false, 300, `"op":"move"`},
		{"rw_tx", `{"ops":[{"op":"wriet","path":"c.txt","content":"c"}]}`, true, 500, `"did_you_mean":"write"}}`},
		{"rw_tx", `{"ops":[{"op":"write","path":"b.txt","content":"b"},{"op":"delete","path":"none"}]}`, true, 500, `"op_index":0`},
		{"rw_history", `{"path":"n.md"}`, false, 800, `"version":`},
		{"rw_undo", `{}`, false, 400, `"undone":[`},
		{"rw_delete", `{"path":"notes.md"}`, false, 100, `"path":"notes.md"`},
		{"rw_redact", `{"content":"KEY=` + key + `"}`, false, 300, `REDACTED`},
		{"rw_handoff_read", `{}`, false, 100, `"exists":false`},
		{"rw_handoff_write", `{"envelope":{"task_id":"t","status":"partial","agent":"a","summary":"s","next_steps":["n"]}}`, false, 200, `"handoff_path"`},
		{"rw_chunk_append", `{"session":"s","content":"x"}`, false, 100, `"next_index":2`},
		{"rw_chunk_compose", `{"session":"s","output_path":"o"}`, false, 200, `"chunk_count":1`},
		{"rw_chunk_append", `{"session":"s","content":"y"}`, true, 500, `session_sealed`},
		{"rw_edit", `{"file_path":"o","old_string":"x","new_string":"c","replace_all":null}`, false, 300, `+c`},
		{"rw_describe", `{}`, false, 800, `"protect_defaults":{"version":1,"mode":"ask","exceptions":0},"hub":{"seq":18446744073709551615,"waiting":0,"task_lost":true,"forked":true}`},
		{"rw_read", `{"path":"long.txt"}`, false, 24<<10 + 300, `"next_offset":`},
		{"rw_nope", `{}`, true, 500, `"unknown_tool":"rw_nope"`},
		{"rw_move", `{"path":"o","to":"o"}`, true, 500, `"suggested_action":"fix_call"`},
	} {
		text, isError, record := briefly(t, s, c.tool, c.args)
		t.Logf("%4d %s %.60s", len(text), c.tool, c.args)
		expect(t, isError == c.refused && len(text) <= c.limit && strings.Contains(text, c.holds),
			"%s %s: %d bytes of %d, refused %t\n%s", c.tool, c.args, len(text), c.limit, isError, text)
		if isError {
			conformsBriefly(t, text)
		} else {
			expect(t, is(t, text, "ok") == true, "%s", text)
		}
		writes := c.tool != "rw_read" && c.tool != "rw_history" && c.tool != "rw_describe" && c.tool != "rw_redact" && c.tool != "rw_handoff_read"
		expect(t, isError || writes == (record["journaled"] == true && record["invocation_id"] != nil), "%s %s: %v", c.tool, c.args, record)
	}
}

// conformsBriefly checks the envelope of a brief refusal.
func conformsBriefly(t testing.TB, text string) {
	t.Helper()
	err := spec.Validate("errors.v2", []byte(text))
	expect(t, err == nil, "%v: %s", err, text)
}

// TestReceiptsAreInMeta: of a success, a dry run, a replay and a refusal, in
// brief and in full replies.
func TestReceiptsAreInMeta(t *testing.T) {
	t.Parallel()
	for _, form := range []mcpserver.Replies{mcpserver.BriefReplies, mcpserver.FullReplies} {
		s, _, _ := briefServer(t, &mcpserver.Options{Replies: form})
		for _, c := range []struct{ args, status, also string }{
			{`{"path":"a","content":"x","dry_run":true}`, "succeeded", "dry_run"},
			{`{"path":"a","content":"x","idempotency_key":"k"}`, "succeeded", "journaled"},
			{`{"path":"a","content":"x","idempotency_key":"k"}`, "replayed", "journaled"},
			{`{"path":"a","content":"y"}`, "refused", "journaled"},
		} {
			out := handled(t, s, "tools/call", `{"name":"rw_safe_write","arguments":`+c.args+`}`)
			r, _ := is(t, out, "result", "_meta", "io.github.resilientwrite/receipt").(map[string]any)
			expect(t, r["status"] == c.status && r[c.also] == true && r["invocation_id"] != "" && r["path"] == "a" && r["code"] != nil,
				"%s %s: %v", form, c.args, r)
			equal(t, strings.Contains(out, "structuredContent"), form == mcpserver.FullReplies, form, ": ", out)
		}
	}
	s, _, _ := briefServer(t, nil)
	out := handled(t, s, "tools/call", `{"name":"rw_history","arguments":{"path":"a"}}`)
	r, _ := is(t, out, "result", "_meta", "io.github.resilientwrite/receipt").(map[string]any)
	expect(t, len(r) == 2 && r["code"] == 4.0 && r["journaled"] == false, "a call without a record: %v", r)
	text, _, _ := briefly(t, s, "rw_safe_write", `{"path":"a","content":"x","dry_run":true}`)
	expect(t, is(t, text, "dry_run") == true, "a dry run does not say so: %s", text)
	briefly(t, s, "rw_safe_write", `{"path":"a","content":"x"}`)
	text, _, _ = briefly(t, s, "rw_safe_write", `{"path":"a","content":"x","mode":"overwrite"}`)
	expect(t, is(t, text, "status") == "unchanged", "%s", text)
}

// TestPagesOfAFile: the pages of a file are its bytes, each begins at a line,
// facts stand in front of the content, and the numbers of the lines are right,
// also when a page is read for itself.
func TestPagesOfAFile(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&text, "%d: äöü <b>&\t\"x\" %s\n", i+1, strings.Repeat("–", i%40))
	}
	lined := text.String()
	for name, c := range map[string]struct{ content, args string }{
		"lines":     {lined, ``},
		"crlf":      {strings.ReplaceAll(lined, "\n", "\r\n"), ``},
		"one line":  {strings.Repeat("ö", 60_000), ``},
		"long line": {"short\n" + strings.Repeat("é–", 40_000) + "\nend", ``},
		"no end":    {strings.TrimSuffix(lined, "\n"), ``},
		"small":     {lined, `,"max_bytes":5000`},
		"empty":     {"", ``},
		"controls":  {strings.Repeat("\x01\x02\n", 9000), ``},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _, dir := briefServer(t, &mcpserver.Options{CallsPerSecond: -1})
			noErr(t, os.WriteFile(filepath.Join(dir, "f"), []byte(c.content), 0o644))
			got, offset := "", 0
			for pages := 0; ; pages++ {
				reply, isError, _ := briefly(t, s, "rw_read", fmt.Sprintf(`{"path":"f","offset":%d%s}`, offset, c.args))
				require(t, !isError && pages <= 500, "%s", reply)
				page := is(t, reply, "content").(string)
				n := strings.Index(reply, `"content"`)
				require(t, (c.args != "" || len(reply)-n <= 24<<10+20) && strings.Index(reply, `"truncated"`) <= n && strings.Index(reply, `"sha256"`) <= n, "%d bytes: %.300s", len(reply), reply)
				if len(page) > 0 {
					mustEqual[any](t, is(t, reply, "first_line"), float64(1+strings.Count(c.content[:offset], "\n")), "page at ", offset, " begins with line")
					mustEqual[any](t, is(t, reply, "last_line"), float64(1+strings.Count(strings.TrimSuffix(c.content[:offset]+page, "\n"), "\n")), "page at ", offset, " ends with line")
				}
				got += page
				if is(t, reply, "truncated") == false {
					break
				}
				require(t, strings.HasSuffix(page, "\n") || !strings.Contains(page, "\n"), "a page ends within a line: %q", page)
				if offset = int(is(t, reply, "next_offset").(float64)); offset != len(got) {
					t.Fatalf("next_offset %d, %d bytes so far", offset, len(got))
				}
			}
			equal(t, got, c.content, "the pages are not the file ", len(got), " and ", len(c.content), " bytes")
			if offset == 0 {
				return
			}
			again, _ := rw.Open(ctx, dir, &rw.Options{Sync: rw.SyncOff, ReadOnly: true}) // counts from zero
			defer again.Close(ctx)
			reply, _, _ := briefly(t, mcpserver.New(again, nil), "rw_read", fmt.Sprintf(`{"path":"f","offset":%d}`, offset))
			equal[any](t, is(t, reply, "first_line"), float64(1+strings.Count(c.content[:offset], "\n")), "line , read for itself")
		})
	}
	s, _, dir := briefServer(t, nil)
	noErr(t, os.WriteFile(filepath.Join(dir, "bin"), bytes.Repeat([]byte{0xff, 0, 1}, 10_000), 0o644))
	reply, _, _ := briefly(t, s, "rw_read", `{"path":"bin","encoding":"base64"}`)
	data, err := base64.StdEncoding.DecodeString(is(t, reply, "content").(string))
	expect(t, err == nil && is(t, reply, "next_offset") == float64(len(data)) && len(reply) <= 24<<10+300,
		"%v: %d bytes: %.200s", err, len(reply), reply)
	reply, isError, _ := briefly(t, s, "rw_read", `{"path":"bin"}`)
	expect(t, isError && is(t, reply, "suggested_action") == "escape", "%s", reply)
}

// TestHostCallIDs: the id by which a host knows a call makes the same request
// once; another request under the same id is another call, a short id is no id,
// and what the call says itself comes first. It never refuses.
func TestHostCallIDs(t *testing.T) {
	t.Parallel()
	s, _, _ := briefServer(t, nil)
	long, other := `{"callId":"call_0123456789abcdef","threadId":"t1"}`, `{"callId":"call_0123456789abcdef","threadId":"t2"}`
	claude, short := `{"claudecode/toolUseId":"toolu_0123456789abcdef"}`, `{"callId":"call_0"}`
	add := func(text string) string { return `{"path":"log.txt","mode":"append","content":"` + text + `"}` }
	for i, c := range []struct{ args, meta, status string }{
		{add("a"), long, ""}, {add("a"), long, "replayed"}, {add("b"), long, ""}, {add("a"), other, ""}, {add("a"), claude, ""}, {add("a"), claude, "replayed"},
		{add("a"), short, ""}, {add("a"), short, ""}, {add("a"), `{}`, ""},
		{`{"path":"log.txt","mode":"append","content":"a","idempotency_key":"mine"}`, long, ""}, {`{"path":"log.txt","mode":"append","content":"a","idempotency_key":"mine"}`, other, "replayed"},
	} {
		text, isError, record := brieflyAs(t, s, "rw_safe_write", c.args, c.meta)
		status, _ := is(t, text, "status").(string)
		expect(t, !isError && status == c.status, "%d: %s %s: %s", i, c.args, c.meta, text)
		key, _ := record["idempotency_key"].(string)
		expect(t, strings.HasPrefix(key, "call-") == (strings.Contains(c.meta, "0123") && !strings.Contains(c.args, "mine")), "%d: key %q", i, key)
	}
	text, _, _ := briefly(t, s, "rw_read", `{"path":"log.txt"}`)
	expect(t, is(t, text, "content") == "abaaaaaa", "%s", text)
}

// TestToolsSayHowTheyAreFound: what hosts that defer tools go by.
func TestToolsSayHowTheyAreFound(t *testing.T) {
	t.Parallel()
	s, _, _ := briefServer(t, nil)
	words, loaded := "", 0
	for _, tool := range list(t, s) {
		require(t, tool.Meta != nil && tool.Annotations.DestructiveHint != nil && tool.Annotations.OpenWorldHint != nil, "%+v", tool)
		words += fmt.Sprint(tool.Meta.AdditionalFields["anthropic/searchHint"]) + "\n"
		if tool.Meta.AdditionalFields["anthropic/alwaysLoad"] == true {
			loaded++
		}
		limit, ok := tool.Meta.AdditionalFields["anthropic/maxResultSizeChars"].(float64)
		expect(t, (tool.Name == "rw_read") == (ok && limit >= 24<<10+300), "%s: %v", tool.Name, limit)
	}
	testbed.Contains(t, words, "save", "edit file", "restore", "rename", "delete")
	equal(t, loaded, 5, "tools are loaded at once")
}

// TestRefusalsNameTheToolThatWasCalled, dotted if it was (SURFACE.md 5), and
// name a tool that does not exist.
func TestRefusalsNameTheToolThatWasCalled(t *testing.T) {
	t.Parallel()
	s, _, _ := briefServer(t, full)
	for _, c := range [][3]string{
		{"rw.read", "rw.read", ""}, {"rw_read", "rw_read", ""}, {"rw.nope", "rw.nope", "rw.nope"}, {"nope", "nope", "nope"}, {"not a name <x>", "", ""},
	} {
		for _, args := range []string{`{"path":"none"}`, `{}`} {
			doc, _ := reply(t, s, c[0], json.RawMessage(args))
			brieflyOK(t, s, c[0])
			tool, _ := is(t, string(doc), "context", "tool").(string)
			unknown, _ := is(t, string(doc), "context", "unknown_tool").(string)
			expect(t, tool == c[1] && unknown == c[2] && (c[2] != "" || is(t, string(doc), "context", "action") != nil), "%s %s: %s", c[0], args, doc)
		}
	}
}

// brieflyOK calls a tool by any name with every kind of _meta: none of them is
// an error of the protocol.
func brieflyOK(t testing.TB, s *server.MCPServer, name string) {
	t.Helper()
	for _, meta := range []string{`null`, `{}`, `{"progressToken":1}`, `{"io.github.resilientwrite/called":"rw.safe_write"}`, `{"io.github.resilientwrite/called":7}`} {
		out := handled(t, s, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{},"_meta":%s}`, name, meta))
		expect(t, is(t, out, "error") == nil && (!strings.Contains(out, "rw.safe_write\"") || !strings.Contains(out, `"tool":"rw.safe_write"`)),
			"%s %s: %s", name, meta, out)
	}
}

// TestSchemasAreResources: what the default list leaves out can be read.
func TestSchemasAreResources(t *testing.T) {
	t.Parallel()
	s, _, _ := briefServer(t, nil)
	read := func(uri string) string { return handled(t, s, "resources/read", `{"uri":"`+uri+`"}`) }
	for _, tool := range toolbox.Table() {
		if tool.Name == "exec" || tool.Name == "claim" { // which cannot be called where it is not listed
			continue
		}
		contents, _ := is(t, read("rw://schema/rw_"+tool.Name), "result", "contents").([]any)
		mustEqual(t, len(contents), 1, tool.Name)
		text := contents[0].(map[string]any)["text"].(string)
		expect(t, is(t, text, "name") == "rw_"+tool.Name && is(t, text, "inputSchema", "type") == "object" && is(t, text, "outputSchema", "anyOf") != nil,
			"%s: %.200s", tool.Name, text)
	}
	out := read("rw://schema/nope")
	expect(t, is(t, out, "error") != nil, "%s", out)
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
		expect(t, strings.Join(seen, ";") == strings.Join(want, ";"), "modern %v: %q", modern, seen)
		w.in.Close()
		store.Close(ctx)
	}
}
