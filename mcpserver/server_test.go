package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/mcpserver"
	"github.com/resilientwrite/resilientwrite/spec"
)

var ctx = context.Background()

// full are the options of a server whose replies are those of surface 0.1.0.
// The tests of brief replies are in brief_test.go.
var full = &mcpserver.Options{Tier: mcpserver.Full}

func openStore(t testing.TB) *rw.Store {
	t.Helper()
	s := must(rw.Open(ctx, t.TempDir(), &rw.Options{Sync: rw.SyncOff}))(t)
	t.Cleanup(func() { s.Close(ctx) })
	return s
}

// reply sends one raw tools/call and returns the reply.
func reply(t testing.TB, s *server.MCPServer, name string, args json.RawMessage) (doc []byte, isError bool) {
	t.Helper()
	msg := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, name, args)
	out := must(json.Marshal(mcpserver.Handle(ctx, s, json.RawMessage(msg))))(t)
	var m struct {
		Result struct {
			Content           []struct{ Text string }
			StructuredContent json.RawMessage `json:"structuredContent"`
			IsError           bool            `json:"isError"`
		} `json:"result"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(out, &m); err != nil || m.Error != nil {
		t.Fatalf("%s %s: a protocol error %s", name, args, out)
	}
	if doc = m.Result.StructuredContent; doc == nil && len(m.Result.Content) > 0 { // a brief reply
		doc = []byte(m.Result.Content[0].Text)
	}
	return doc, m.Result.IsError
}

// conforms checks a reply against the output schema, and the envelope.
func conforms(t testing.TB, tool mcpserver.ToolInfo, doc []byte, isError bool) {
	t.Helper()
	if err := spec.ValidateWith(tool.Output, doc); err != nil {
		t.Fatalf("%s: %v: %s", tool.Name, err, doc)
	}
	if isError {
		if err := spec.Validate("errors", doc); err != nil {
			t.Fatalf("%s: %v: %s", tool.Name, err, doc)
		}
	}
}

// TestAnyArguments: every JSON into every tool is success or an envelope.
func TestAnyArguments(t *testing.T) {
	s := mcpserver.New(openStore(t), full)
	for _, args := range []string{
		`{}`, `null`, `[]`, `"x"`, `7`, `true`, `{"path":1}`, `{"path":null}`, `{"path":["a"]}`, `{"n":-1}`, `{"n":1e400}`, `{"x":{"y":{}}}`, `{"path":"\ud800"}`,
		`{"path":"a","content":"x","mode":"create","expected_prev_sha256":"zz"}`, `{"after_seq":-1}`, `{"after_seq":18446744073709551616}`, `{"deep":1}`,
		`{"path":"` + strings.Repeat("a", 5000) + `","content":"x"}`, `{"path":"x","content":"` + strings.Repeat("y", 1<<20) + `","mode":"overwrite","allow_shrink":true}`,
	} {
		for _, tool := range mcpserver.Table() {
			doc, isError := reply(t, s, "rw_"+tool.Name, json.RawMessage(args))
			conforms(t, tool, doc, isError)
		}
	}
}

func FuzzToolArguments(f *testing.F) {
	for i := range mcpserver.Table() {
		f.Add(i, []byte(`{"path":"a.txt","content":"x","mode":"append"}`))
		f.Add(i, []byte(`{"after_seq":1,"n":2,"deep":true}`))
	}
	s := mcpserver.New(openStore(f), &mcpserver.Options{Tier: mcpserver.Full, CallsPerSecond: -1})
	table := mcpserver.Table()
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
	for _, tool := range mcpserver.Table() {
		tools[tool.Name] = true
		if len(strings.Split(tool.Description, ". ")) < 3 {
			t.Errorf("%s: the description is too short for an agent", tool.Name)
		}
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
			if tools[name] {
				t.Errorf("agents can %s", name)
			}
			continue
		}
		methods++
		if !tools[name] {
			t.Errorf("%s is no tool", name)
		}
	}
	if methods != len(tools) {
		t.Errorf("%d methods, %d tools", methods, len(tools))
	}
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
	if most := 2 + int(time.Since(start)/time.Second); passed < 2 || passed > most {
		t.Errorf("%d of 50 calls passed, at most %d may", passed, most)
	}
}

func TestInProcessClient(t *testing.T) {
	for _, dotted := range []bool{false, true} {
		c := must(client.NewInProcessClient(mcpserver.New(openStore(t), &mcpserver.Options{Tier: mcpserver.Full, DottedNames: dotted})))(t)
		noErr(t, c.Start(ctx))
		must(c.Initialize(ctx, mcp.InitializeRequest{}))(t)
		list := must(c.ListTools(ctx, mcp.ListToolsRequest{}))(t)
		for _, tool := range list.Tools {
			if want := map[bool]string{false: "rw_", true: "rw."}[dotted]; !strings.HasPrefix(tool.Name, want) {
				t.Errorf("listed as %s", tool.Name)
			}
		}
		for _, name := range []string{"rw_describe", "rw.describe"} {
			var req mcp.CallToolRequest
			req.Params.Name = name
			if res, err := c.CallTool(ctx, req); err != nil || res.IsError {
				t.Errorf("%s: %v", name, err)
			}
		}
		c.Close()
	}
	if len(mcpserver.Instructions) > 1024 {
		t.Errorf("the instructions are %d bytes long", len(mcpserver.Instructions))
	}
}
