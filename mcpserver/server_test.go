package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/mcpserver"
	"github.com/resilientwrite/resilientwrite/spec"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

var ctx = context.Background()

// full are the options of a server whose replies are those of surface 0.1.0.
// The tests of brief replies are in brief_test.go.
var full = &mcpserver.Options{Tier: mcpserver.Full}

func openStore(t testing.TB) *rw.Store {
	t.Helper()
	s, _ := storeIn(t, nil)
	return s
}

// handled is the reply to one request that no transport passes on.
func handled(t testing.TB, s *server.MCPServer, method, params string) string {
	t.Helper()
	return asJSON(mcpserver.Handle(ctx, s, json.RawMessage(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params))))
}

// asJSON is what a test has made as JSON.
func asJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// reply sends one raw tools/call and returns the reply.
func reply(t testing.TB, s *server.MCPServer, name string, args json.RawMessage) (doc []byte, isError bool) {
	t.Helper()
	out := handled(t, s, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args))
	var m struct {
		Result struct {
			Content           []struct{ Text string }
			StructuredContent json.RawMessage `json:"structuredContent"`
			IsError           bool            `json:"isError"`
		} `json:"result"`
		Error json.RawMessage `json:"error"`
	}
	require(t, json.Unmarshal([]byte(out), &m) == nil && m.Error == nil, "%s %s: a protocol error %s", name, args, out)
	if doc = m.Result.StructuredContent; doc == nil && len(m.Result.Content) > 0 { // a brief reply
		doc = []byte(m.Result.Content[0].Text)
	}
	return doc, m.Result.IsError
}

// conforms checks a reply against the output schema, and the envelope.
func conforms(t testing.TB, tool mcpserver.ToolInfo, doc []byte, isError bool) {
	t.Helper()
	err := compiled(t, tool.Output).Validate(doc)
	require(t, err == nil, "%s: %v: %s", tool.Name, err, doc)
	if isError {
		err := spec.Validate("errors", doc)
		require(t, err == nil, "%s: %v: %s", tool.Name, err, doc)
	}
}

// schemas are those that [compiled] has compiled, by their text.
var schemas sync.Map

// compiled compiles a schema once.
func compiled(t testing.TB, schema []byte) *spec.Compiled {
	t.Helper()
	if c, ok := schemas.Load(string(schema)); ok {
		return c.(*spec.Compiled)
	}
	c := must(spec.Compile(schema))(t)
	schemas.Store(string(schema), c)
	return c
}

// TestAnyArguments: every JSON into every tool is success or an envelope.
func TestAnyArguments(t *testing.T) {
	t.Parallel()
	s := mcpserver.New(openStore(t), full)
	for _, args := range []string{
		`{}`, `null`, `[]`, `"x"`, `7`, `true`, `{"path":1}`, `{"path":null}`, `{"path":["a"]}`, `{"n":-1}`, `{"n":1e400}`, `{"x":{"y":{}}}`, `{"path":"\ud800"}`,
		`{"path":"a","content":"x","mode":"create","expected_prev_sha256":"zz"}`, `{"after_seq":-1}`, `{"after_seq":18446744073709551616}`, `{"deep":1}`,
		`{"path":"` + strings.Repeat("a", 5000) + `","content":"x"}`, `{"path":"x","content":"` + strings.Repeat("y", 64<<10) + `","mode":"overwrite","allow_shrink":true}`,
	} {
		for _, tool := range toolbox.Table() {
			doc, isError := reply(t, s, "rw_"+tool.Name, json.RawMessage(args))
			conforms(t, tool, doc, isError)
		}
	}
}

func FuzzToolArguments(f *testing.F) {
	for i := range toolbox.Table() {
		f.Add(i, []byte(`{"path":"a.txt","content":"x","mode":"append"}`))
		f.Add(i, []byte(`{"after_seq":1,"n":2,"deep":true}`))
	}
	s := mcpserver.New(openStore(f), &mcpserver.Options{Tier: mcpserver.Full, CallsPerSecond: -1})
	table := toolbox.Table()
	f.Fuzz(func(t *testing.T, i int, args []byte) {
		if !json.Valid(args) {
			return // the transport's to refuse
		}
		tool := table[uint(i)%uint(len(table))]
		doc, isError := reply(t, s, "rw_"+tool.Name, args)
		conforms(t, tool, doc, isError)
	})
}

// TestTableIsTheStore: each tool is a method of the Store with the same stem,
// and each method of that shape is a tool.
func TestTableIsTheStore(t *testing.T) {
	// What only an operator may do is no tool: an agent cannot erase, or move
	// rows of the journal away.
	operator := map[string]bool{"compact": true, "erase": true, "repair": true, "export": true, "import": true}
	// What hooks and people do about changes around the tools: no model needs it.
	around := map[string]bool{"scan": true, "changes": true, "snapshot": true, "snapshot_diff": true, "snapshot_restore": true, "snapshot_list": true, "blame": true, "stage_changes": true}
	tools := map[string]bool{}
	for _, tool := range toolbox.Table() {
		tools[tool.Name] = true
		expect(t, len(strings.Split(tool.Description, ". ")) >= 3, "%s: the description is too short for an agent", tool.Name)
	}
	st := reflect.TypeFor[*rw.Store]()
	methods := 1 // claim: Claim, Renew, Release and Claims
	for i := range st.NumMethod() {
		m := st.Method(i)
		if m.Type.NumIn() != 3 || !strings.HasSuffix(m.Type.In(2).Name(), "Request") || m.Type.NumOut() != 2 {
			continue
		}
		name := snake(m.Name)
		if operator[name] || around[name] {
			expect(t, !tools[name], "agents can %s", name)
			continue
		}
		methods++
		expect(t, tools[name], "%s is no tool", name)
	}
	equal(t, methods, len(tools), "methods,  tools")
}

func snake(s string) string {
	var b strings.Builder
	for i, r := range s {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// TestRateLimit: twice as many calls as the rate may come at once. How many more
// pass depends on how long the calls take.
func TestRateLimit(t *testing.T) {
	s := mcpserver.New(openStore(t), &mcpserver.Options{Tier: mcpserver.Full, CallsPerSecond: 1})
	start, passed := time.Now(), 0
	for range 50 {
		if doc, _ := reply(t, s, "rw_describe", json.RawMessage(`{}`)); !bytes.Contains(doc, []byte("rate_limited")) {
			passed++
		}
	}
	most := 2 + int(time.Since(start)/time.Second)
	expect(t, passed >= 2 && passed <= most, "%d of 50 calls passed, at most %d may", passed, most)
}

func TestInProcessClient(t *testing.T) {
	for _, dotted := range []bool{false, true} {
		c := must(client.NewInProcessClient(mcpserver.New(openStore(t), &mcpserver.Options{Tier: mcpserver.Full, DottedNames: dotted})))(t)
		noErr(t, c.Start(ctx))
		must(c.Initialize(ctx, mcp.InitializeRequest{}))(t)
		list := must(c.ListTools(ctx, mcp.ListToolsRequest{}))(t)
		for _, tool := range list.Tools {
			expect(t, strings.HasPrefix(tool.Name, map[bool]string{false: "rw_", true: "rw."}[dotted]), "listed as %s", tool.Name)
		}
		for _, name := range []string{"rw_describe", "rw.describe"} {
			var req mcp.CallToolRequest
			req.Params.Name = name
			res, err := c.CallTool(ctx, req)
			expect(t, err == nil && !res.IsError, "%s: %v", name, err)
		}
		c.Close()
	}
	expect(t, len(mcpserver.Instructions) <= 1024, "the instructions are %d bytes long", len(mcpserver.Instructions))
}

func TestMain(m *testing.M) {
	flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))) // most of them wait for something
	testbed.Main(m)
}

// noErr and must check errors, equal and mustEqual values, expect and require
// conditions, as testbed describes.
var noErr = testbed.NoErr

func expect(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	testbed.Expect(t, ok, format, args...)
}

func require(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	testbed.Require(t, ok, format, args...)
}

func must[T any](v T, err error) func(testing.TB, ...any) T { return testbed.Must(v, err) }

func equal[T comparable](t testing.TB, got, want T, what ...any) {
	t.Helper()
	testbed.Equal(t, got, want, what...)
}

func mustEqual[T comparable](t testing.TB, got, want T, what ...any) {
	t.Helper()
	testbed.MustEqual(t, got, want, what...)
}

// hostile adds a tool, a prompt, a resource and a template to a server, all of
// which panic with content.
func hostile(s *server.MCPServer) {
	s.AddTool(mcp.NewTool("host_tool"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) { panic("the secret content") })
	s.AddTool(mcp.NewTool("host_later"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.SendNotificationToClient(ctx, "notifications/note", nil) // the reply has begun
		panic("the secret content")
	})
	s.AddPrompt(mcp.NewPrompt("host_prompt"), func(context.Context, mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		panic(fmt.Errorf("the secret %s", "content"))
	})
	resource := func(_ context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		return []mcp.ResourceContents{}[len(r.Params.URI):], nil
	}
	s.AddResource(mcp.NewResource("host://one", "one"), resource)
	s.AddResourceTemplate(mcp.NewResourceTemplate("host://many/{name}", "many"), resource)
	s.AddNotificationHandler("notifications/host", func(context.Context, mcp.JSONRPCNotification) { panic("the secret content") })
}

// TestAPanicOfTheHostIsAnswered: whatever a host adds may panic, over every
// transport and in both eras. The request is answered with an error, the log
// reports it without content, and the next call works. What a tool that only reads
// did is nothing; of any other it is unknown.
func TestAPanicOfTheHostIsAnswered(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, connect func(*server.MCPServer) *peer) {
		logs := &logBuffer{}
		s := mcpserver.New(openStore(t), &mcpserver.Options{Tier: mcpserver.Full,
			Logger: slog.New(slog.NewTextHandler(logs, nil)),
			Wrap: func(i mcpserver.ToolInfo, next server.ToolHandlerFunc) server.ToolHandlerFunc {
				if i.Name != "read" && i.Name != "delete" {
					return next
				}
				return func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) { panic("the secret content") }
			},
		})
		hostile(s)
		p := connect(s)
		texts := ""
		for name, effect := range map[string]string{"host_tool": "unknown", "host_later": "unknown", "rw_read": "none", "rw_delete": "unknown"} {
			res := p.tool(name, map[string]any{"path": "a"}, nil)
			texts += fmt.Sprint(res)
			doc, _ := res["structuredContent"].(map[string]any)
			about, _ := doc["context"].(map[string]any)
			expect(t, res["isError"] == true && about["reason"] == "internal_error" && about["effect"] == effect && (strings.HasPrefix(name, "host") || about["tool"] == name),
				"%s: %v", name, res)
			noErr(t, spec.ValidateEnvelope([]byte(asJSON(doc))), name)
		}
		for method, params := range map[string]map[string]any{
			"prompts/get": {"name": "host_prompt"}, "resources/read": {"uri": "host://one"},
		} {
			result, problem := p.ask(method, params)
			texts += fmt.Sprint(problem)
			expect(t, result == nil && problem["code"] == float64(mcp.INTERNAL_ERROR), "%s: %v %v", method, result, problem)
		}
		_, problem := p.ask("resources/read", map[string]any{"uri": "host://many/x"})
		expect(t, problem != nil, "the template answered")
		if strings.Contains(texts+logs.String(), "secret") || !strings.Contains(t.Name(), "/http") && strings.Count(logs.String(), "panicked") < 7 { // that of HTTP has a logger of its own
			t.Errorf("%s\n%s", texts, logs)
		}
		doc := p.tool("rw_describe", map[string]any{}, nil)
		expect(t, doc["isError"] != true, "the next call: %v", doc)
	})
}

// TestAPanicOutsideOfHandlersIsAnswered: over stdio, a panic of a notification
// handler or of a filter costs its own message and nothing else.
func TestAPanicOutsideOfHandlersIsAnswered(t *testing.T) {
	logs := &logBuffer{}
	s := mcpserver.New(openStore(t), &mcpserver.Options{Tier: mcpserver.Full, Logger: slog.New(slog.NewTextHandler(logs, nil))})
	hostile(s)
	server.WithPromptFilter(func(context.Context, []mcp.Prompt) []mcp.Prompt { panic("the secret content") })(s)
	in := `{"jsonrpc":"2.0","method":"notifications/host"}
{"jsonrpc":"2.0","id":12345678901234567,"method":"prompts/list"}
{"jsonrpc":"2.0","id":"after","method":"tools/call","params":{"name":"rw_safe_write","arguments":{"path":"a","content":"b"}}}
`
	var out strings.Builder
	noErr(t, mcpserver.ServeStdio(ctx, s, strings.NewReader(in), &out))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	expect(t, len(lines) == 2 && strings.Contains(lines[0], `"id":12345678901234567,"error":{"code":-32603`) && strings.Contains(lines[1], `"ok":true`),
		"%s", out.String())
	expect(t, !strings.Contains(out.String()+logs.String(), "secret") && strings.Count(logs.String(), "panicked") == 2, "%s\n%s", out.String(), logs)
}

// TestAServerOfTheHostSurvivesPanicsToo: NewHTTP takes any server, and
// our tools in it contain what the host puts around them.
func TestAServerOfTheHostSurvivesPanicsToo(t *testing.T) {
	s := server.NewMCPServer("another server", "1")
	s.AddTools(mcpserver.Tools(openStore(t), &mcpserver.Options{Tier: mcpserver.Full, Wrap: func(mcpserver.ToolInfo, server.ToolHandlerFunc) server.ToolHandlerFunc {
		return func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) { panic("the secret content") }
	}})...)
	doc, isError := reply(t, s, "rw_read", []byte(`{}`))
	expect(t, isError && strings.Contains(string(doc), "internal_error") && !strings.Contains(string(doc), "secret"), "%s", doc)
	hostile(s)
	h := must(mcpserver.NewHTTP(s, &mcpserver.HTTPOptions{NoAuth: true, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}))(t)
	defer h.Shutdown(ctx)
	for _, m := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"host_prompt"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"host://one"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"host_tool"}}`,
	} {
		got := fmt.Sprint(jsonOf(t, s.HandleMessage(ctx, []byte(m))))
		expect(t, strings.Contains(got, "internal") && !strings.Contains(got, "secret"), "%s", got)
	}
}

// TestRowsNameModelTurnAndTrace: what a host says of a call beside its
// arguments is in its row.
func TestRowsNameModelTurnAndTrace(t *testing.T) {
	t.Parallel()
	s, _, _ := briefServer(t, nil)
	for name, c := range map[string]struct{ meta, model, turn, trace string }{
		"codex":       {`{"callId":"c","threadId":"t","x-codex-turn-metadata":{"model":"m-1","turn_id":"turn-1","sandbox":"none"}}`, "m-1", "turn-1", "<nil>"},
		"traceparent": {`{"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","model":"m-2","turnId":"7"}`, "m-2", "7", "4bf92f3577b34da6a3ce929d0e0e4736"},
		"wrong types": {`{"traceparent":"00","model":3,"x-codex-turn-metadata":{"model":[],"turn_id":1},"callId":"c"}`, "<nil>", "<nil>", "<nil>"},
	} {
		if text, isError, _ := brieflyAs(t, s, "rw_safe_write", `{"path":"`+name+`","content":"x"}`, c.meta); isError {
			t.Fatal(text)
		}
		text, _, _ := briefly(t, s, "rw_journal_tail", `{"n":1}`)
		via := is(t, text, "entries").([]any)[0].(map[string]any)["via"].(map[string]any)
		for field, want := range map[string]string{"model": c.model, "turn": c.turn, "trace": c.trace} {
			got, _ := via[field].(string)
			expect(t, got == want || want == "<nil>" && via[field] == nil, "%s: %s is %v", name, field, via[field])
		}
	}
}

// list asks a server for its tools, as a client does.
func list(t testing.TB, s *server.MCPServer) []mcp.Tool {
	t.Helper()
	out := s.HandleMessage(ctx, json.RawMessage(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	res, ok := out.(mcp.JSONRPCResponse)
	require(t, ok, "tools/list: %v", out)
	data := must(json.Marshal(res.Result))(t)
	doc := testbed.Decoded[struct{ Tools []mcp.Tool }](t, data)
	return doc.Tools
}

func names(tools []mcp.Tool) []string {
	var out []string
	for _, t := range tools {
		out = append(out, t.Name)
	}
	slices.Sort(out)
	return out
}

// TestHostChangesTools: a host renames, filters, wraps and adds.
func TestHostChangesTools(t *testing.T) {
	wrapped := 0
	s := mcpserver.New(openStore(t), &mcpserver.Options{Tier: mcpserver.Full,
		Filter: func(i mcpserver.ToolInfo) bool { return i.Name != "delete" },
		Rename: func(name string) string {
			switch name {
			case "rw_safe_write":
				return "write_file"
			case "rw_read":
				return "rw_edit" // taken
			case "rw_move":
				return "no spaces please"
			}
			return name
		},
		Wrap: func(i mcpserver.ToolInfo, next server.ToolHandlerFunc) server.ToolHandlerFunc {
			if i.Name != "edit" {
				return next
			}
			return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				wrapped++
				return next(ctx, req)
			}
		},
	})
	s.AddTool(mcp.NewTool("host_tool", mcp.WithDescription("of the host")), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultStructured(map[string]any{"host": req.GetString("name", "")}, "{}"), nil
	})
	got := names(list(t, s))
	for _, want := range []string{"write_file", "rw_read", "rw_edit", "rw_move", "host_tool"} {
		expect(t, slices.Contains(got, want), "%s is not listed: %v", want, got)
	}
	for _, gone := range []string{"rw_safe_write", "rw_delete", "rw_unknown"} {
		expect(t, !slices.Contains(got, gone), "%s is listed", gone)
	}
	for _, name := range []string{"write_file", "rw_safe_write", "rw.safe_write"} {
		doc, isError := reply(t, s, name, json.RawMessage(`{"path":"a.txt","content":"x","mode":"overwrite"}`))
		expect(t, !isError, "%s: %s", name, doc)
	}
	if doc, _ := reply(t, s, "host_tool", json.RawMessage(`{"name":"argument of the host"}`)); !strings.Contains(string(doc), "argument of the host") {
		t.Errorf("the host's tool: %s", doc)
	}
	reply(t, s, "rw_edit", json.RawMessage(`{}`))
	expect(t, wrapped == 1, "wrapped %d times", wrapped)
	doc, isError := reply(t, s, "rw_delete", json.RawMessage(`{"path":"a.txt"}`))
	expect(t, isError && strings.Contains(string(doc), "unknown_tool"), "a filtered tool: %s", doc)
	doc, _ = reply(t, s, "write_file", json.RawMessage(`{"path":"a.txt","content":"y"}`))
	expect(t, strings.Contains(string(doc), `"tool":"write_file"`), "the envelope has another name: %s", doc)
}

// TestToolsForAnotherServer: our tools work in a server that is not ours.
func TestToolsForAnotherServer(t *testing.T) {
	s := server.NewMCPServer("another server", "1")
	s.AddTools(mcpserver.Tools(openStore(t), &mcpserver.Options{Tier: mcpserver.Core})...)
	got := names(list(t, s))
	expect(t, len(got) == 7, "%v", got)
	doc, isError := reply(t, s, "rw_safe_write", json.RawMessage(`{"path":"a","content":"x"}`))
	expect(t, !isError, "%s", doc)
}

func rootsOf(dirs ...string) any {
	list := []any{}
	for _, d := range dirs {
		if !strings.Contains(d, ":") {
			d = (&url.URL{Scheme: "file", Path: d}).String()
		}
		list = append(list, map[string]any{"uri": d, "name": "root"})
	}
	return map[string]any{"roots": list}
}

func (p *peer) answerRoots(roots any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roots = roots
}

// saysOutside reports whether describe warns of the roots.
func saysOutside(p *peer) bool {
	return strings.Contains(fmt.Sprint(p.tool("rw_describe", map[string]any{}, nil)["structuredContent"]), call.WarnOutsideRoots)
}

// TestRootsOnlyWarn: the workspace stays what it is; a client that works
// elsewhere hears of it once, and describe says so.
func TestRootsOnlyWarn(t *testing.T) {
	s, dir := storeIn(t, nil)
	elsewhere := t.TempDir()
	srv := mcpserver.New(s, full)
	for name, c := range map[string]struct {
		roots any
		warns bool
	}{
		"the workspace":            {rootsOf(dir), false},
		"a directory above it":     {rootsOf(elsewhere, filepath.Dir(dir)), false},
		"elsewhere":                {rootsOf(elsewhere), true},
		"a name that begins alike": {rootsOf(dir[:len(dir)-1], dir+"x"), true},
		"none":                     {rootsOf(), false},
		"not local":                {rootsOf("https://example.com/x", "file://host/x", "file:x", "rw://journal"), false},
		"no roots at all":          {map[string]any{"roots": "no"}, false},
		"no answer":                {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := &peer{t: t, caps: `{"roots":{"listChanged":true}}`}
			p.roots = c.roots
			p.stdio(srv)
			p.begin()
			p.must("logging/setLevel", map[string]any{"level": "warning"})
			p.wait("the roots are asked for", func() bool { return len(p.got("roots/list")) == 1 })
			if !c.warns {
				p.answerRoots(rootsOf(dir))
				p.post([]byte(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`))
				p.wait("they are asked for again", func() bool { return len(p.got("roots/list")) == 2 })
				expect(t, !saysOutside(p) && len(p.got("notifications/message")) <= 0, "a warning: %v", p.got("notifications/message"))
				return
			}
			p.wait("describe warns", func() bool { return saysOutside(p) })
			p.wait("a message", func() bool { return len(p.got("notifications/message")) == 1 })
			m := p.got("notifications/message")[0].Params
			text := fmt.Sprint(m)
			expect(t, m["level"] == "warning" && strings.Contains(text, call.WarnOutsideRoots) && !strings.Contains(text, elsewhere) && !strings.Contains(text, dir), "%v", m)
			p.answerRoots(rootsOf(dir))
			p.post([]byte(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`))
			p.wait("the warning goes away", func() bool { return !saysOutside(p) })
		})
	}
	// The clients are gone, and so is what they said.
	p := join(t, (*peer).stdio, srv)
	expect(t, !saysOutside(p) && len(p.got("roots/list")) == 0, "a client without roots is asked or warned")
	rootsInProcess(t, srv)
}

type rootsHandler struct{ dir string }

func (h rootsHandler) ListRoots(context.Context, mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	return &mcp.ListRootsResult{Roots: []mcp.Root{{URI: (&url.URL{Scheme: "file", Path: h.dir}).String()}}}, nil
}

// rootsInProcess: the client of the protocol library is asked as well.
func rootsInProcess(t *testing.T, srv *server.MCPServer) {
	//lint:ignore SA1019 clients of the earlier versions of the protocol are supported
	c := must(client.NewInProcessClientWithOptions(srv, client.WithRootsHandler(rootsHandler{t.TempDir()}), client.WithLegacyProtocolOnly()))(t)
	defer c.Close()
	noErr(t, c.Start(ctx))
	must(c.Initialize(ctx, mcp.InitializeRequest{Params: mcp.InitializeParams{
		ProtocolVersion: "2025-06-18", ClientInfo: mcp.Implementation{Name: "t", Version: "1"},
	}}))(t)
	p := &peer{t: t}
	p.wait("describe warns", func() bool {
		var req mcp.CallToolRequest
		req.Params.Name = "rw_describe"
		res := must(c.CallTool(ctx, req))(t)
		doc, _ := json.Marshal(res.StructuredContent)
		return strings.Contains(string(doc), call.WarnOutsideRoots)
	})
}
