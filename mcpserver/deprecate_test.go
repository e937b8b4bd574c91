package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/surface"
	"github.com/resilientwrite/resilientwrite/spec"
)

// goingAway puts copies of tools into the table that are deprecated, for the
// time of a test: one whose reply has warnings, one whose reply has none, one
// that replies any JSON.
func goingAway(t *testing.T) {
	t.Helper()
	before := table
	t.Cleanup(func() { table = before })
	copyOf := func(name, fresh, use string) tool {
		for _, one := range before {
			if one.name == name {
				one.name = fresh
				return deprecated(one, Deprecation{Since: SchemaVersion, Replacement: use, RemoveIn: "0.9.0"})
			}
		}
		t.Fatalf("there is no tool %s", name)
		return tool{}
	}
	table = append(append([]tool{}, before...),
		copyOf("safe_write", "old_write", "safe_write"), copyOf("chunk_status", "old_status", "chunk_status"), copyOf("checkpoint_read", "old_load", "checkpoint_read"))
}

// served is a server over an empty workspace with what it logs.
func served(t *testing.T, o Options) (call func(name, args string) (map[string]any, []byte), logs *bytes.Buffer, tools func() []mcp.Tool) {
	t.Helper()
	ctx := context.Background()
	store, err := rw.Open(ctx, t.TempDir(), &rw.Options{Sync: rw.SyncOff})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close(ctx) })
	logs = &bytes.Buffer{}
	o.Logger = slog.New(slog.NewTextHandler(logs, nil))
	s := New(store, &o)
	send := func(message string, into any) {
		t.Helper()
		out, err := json.Marshal(Handle(ctx, s, json.RawMessage(message)))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(out, into); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	call = func(name, args string) (map[string]any, []byte) {
		t.Helper()
		var m struct {
			Result struct {
				StructuredContent json.RawMessage
				Content           []struct{ Text string }
			}
		}
		send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`","arguments":`+args+`}}`, &m)
		var doc map[string]any
		if err := json.Unmarshal(m.Result.StructuredContent, &doc); err != nil || len(m.Result.Content) != 1 {
			t.Fatalf("%s: %+v", name, m)
		}
		text := []byte(m.Result.Content[0].Text)
		var same map[string]any
		if err := json.Unmarshal(text, &same); err != nil || !cmp.Equal(same, doc) {
			t.Errorf("%s: the text is another reply: %s", name, text)
		}
		return doc, text // which is to the letter
	}
	tools = func() []mcp.Tool {
		var m struct{ Result struct{ Tools []mcp.Tool } }
		send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, &m)
		return m.Result.Tools
	}
	return call, logs, tools
}

// deprecations are the warnings of a list that tell of the end of a tool.
func deprecations(list any) (hints []string) {
	items, _ := list.([]any)
	for _, one := range items {
		if w, ok := one.(map[string]any); ok && w["reason"] == rw.WarnToolDeprecated {
			hints = append(hints, w["hint"].(string))
		}
	}
	return hints
}

// TestDeprecatedToolsWorkAndWarnEachTime: in the reply, success or refusal, and
// in the log, which says nothing of what was sent.
func TestDeprecatedToolsWorkAndWarnEachTime(t *testing.T) {
	goingAway(t)
	call, logs, _ := served(t, Options{})
	infos := map[string]ToolInfo{}
	for _, info := range Table() {
		infos[info.Name] = info
	}
	call("rw_checkpoint", `{"name":"n","data":{"b" : [1.50, "\u003c"],"a":null}}`)
	for i, row := range []struct {
		tool, args string
		ok         bool
		use        string
		other      int // warnings besides
	}{
		{"rw_old_write", `{"path":"a.txt","content":"secret words"}`, true, "rw_safe_write", 0},
		{"rw_old_write", `{"path":"a.json","content":{"k":"secret words"}}`, true, "rw_safe_write", 1},
		{"rw.old_write", `{"path":"a.txt","content":"secret words"}`, false, "rw_safe_write", 0},
		{"rw_old_write", `{"pat":"secret words"}`, false, "rw_safe_write", 0},
		{"rw_old_status", `{"session":"none"}`, true, "rw_chunk_status", 0},
		{"rw_old_status", `{"session":"../secret words"}`, false, "rw_chunk_status", 0},
		{"rw_old_load", `{"name":"n"}`, true, "rw_checkpoint_read", 0},
	} {
		logs.Reset()
		doc, raw := call(row.tool, row.args)
		if doc["ok"] != row.ok {
			t.Fatalf("%d %s: %s", i, row.tool, raw)
		}
		list := doc["warnings"]
		if !row.ok {
			list = doc["context"].(map[string]any)["warnings"]
		}
		hints := deprecations(list)
		if len(hints) != 1 || !strings.HasPrefix(hints[0], "use "+row.use+";") || !strings.Contains(hints[0], "0.9.0") {
			t.Errorf("%d %s: %v in %s", i, row.tool, hints, raw)
		}
		if all, _ := list.([]any); len(all) != 1+row.other {
			t.Errorf("%d %s: %d warnings, want %d: %v", i, row.tool, len(all), 1+row.other, all)
		}
		if err := spec.ValidateWith(infos[strings.TrimPrefix(strings.TrimPrefix(row.tool, "rw_"), "rw.")].Output, raw); err != nil {
			t.Errorf("%d %s: %v: %s", i, row.tool, err, raw)
		}
		if text := logs.String(); !strings.Contains(text, "deprecated tool was called") || !strings.Contains(text, "use="+row.use) || strings.Contains(text, "secret") {
			t.Errorf("%d %s: the log says %s", i, row.tool, text)
		}
	}
	logs.Reset()
	if doc, raw := call("rw_safe_write", `{"path":"b.txt","content":"x"}`); len(deprecations(doc["warnings"])) > 0 || logs.Len() > 0 {
		t.Errorf("a tool that stays warns: %s %s", raw, logs)
	}
	if _, raw := call("rw_old_load", `{"name":"n"}`); !bytes.Contains(raw, []byte(`{"b" : [1.50, "\u003c"],"a":null}`)) {
		t.Errorf("the data did not come back to the letter: %s", raw)
	}
	if _, raw := call("rw_checkpoint_read", `{"name":"n"}`); bytes.Contains(raw, []byte("warnings")) {
		t.Errorf("a tool that stays has a field more: %s", raw)
	}
}

// TestDeprecatedToolsAreMarked wherever they are told of: in every list, in
// describe, in the surface.
func TestDeprecatedToolsAreMarked(t *testing.T) {
	goingAway(t)
	for _, p := range Presets() {
		_, _, tools := served(t, Options{Tier: p})
		for _, one := range tools() {
			if marked := strings.HasPrefix(one.Description, "Deprecated: use rw_"); marked != strings.HasPrefix(one.Name, "rw_old_") {
				t.Errorf("%s, %s: %.60s", p, one.Name, one.Description)
			}
		}
	}
	call, _, _ := served(t, Options{})
	_, raw := call("rw_describe", `{}`)
	var d rw.DescribeResult
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, one := range d.Surface.Tools {
		if one.Deprecated != "" {
			got[one.Name] = one.Deprecated
		}
	}
	want := map[string]string{"rw_old_write": "rw_safe_write", "rw_old_status": "rw_chunk_status", "rw_old_load": "rw_checkpoint_read"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	doc, err := surfaceDocument()
	if err != nil {
		t.Fatal(err)
	}
	marked := 0
	for _, one := range doc.Tools {
		if one.Deprecated == nil {
			continue
		}
		marked++
		if want := (surface.Deprecation{Since: SchemaVersion, Replacement: one.Deprecated.Replacement, RemoveIn: "0.9.0"}); *one.Deprecated != want {
			t.Errorf("%s: %+v", one.Name, one.Deprecated)
		}
	}
	if marked != 3 {
		t.Errorf("%d tools are marked", marked)
	}
}

// TestTheWarningNamesToolsAsThisServerHasThem: also where the host gave them
// other names.
func TestTheWarningNamesToolsAsThisServerHasThem(t *testing.T) {
	goingAway(t)
	call, _, _ := served(t, Options{Rename: func(name string) string { return strings.Replace(name, "rw_safe_write", "put_file", 1) }})
	doc, raw := call("rw_old_write", `{"path":"a.txt","content":"x"}`)
	if hints := deprecations(doc["warnings"]); len(hints) != 1 || !strings.HasPrefix(hints[0], "use put_file;") {
		t.Errorf("%s", raw)
	}
}

// TestWarningsAreAddedToAnyObject: what a reply holds otherwise stays as it is,
// to the letter.
func TestWarningsAreAddedToAnyObject(t *testing.T) {
	const w = `{"reason":"r"}`
	for _, row := range []struct{ doc, want string }{
		{`{}`, `{"warnings":[{"reason":"r"}]}`},
		{`{ }`, `{ "warnings":[{"reason":"r"}]}`},
		{`{"ok":true}`, `{"ok":true,"warnings":[{"reason":"r"}]}`},
		{`{"warnings":[]}`, `{"warnings":[{"reason":"r"}]}`},
		{`{"warnings":[ ],"z":1}`, `{"warnings":[{"reason":"r"}],"z":1}`},
		{`{"warnings":null,"z":1}`, `{"warnings":[{"reason":"r"}],"z":1}`},
		{`{"a":{"warnings":[1]},"warnings":[{"x":"]}"}]}`, `{"a":{"warnings":[1]},"warnings":[{"x":"]}"},{"reason":"r"}]}`},
		{`{"a":"\"warnings\":[","b" : 1.50}`, `{"a":"\"warnings\":[","b" : 1.50,"warnings":[{"reason":"r"}]}`},
		{`{"warn\u0069ngs":[1]}`, `{"warn\u0069ngs":[1,{"reason":"r"}]}`},
		{`[]`, `[]`}, {``, ``}, {`{`, `{`}, {`}`, `}`},
	} {
		doc := json.RawMessage(row.doc)
		if got := string(withItem(doc, "warnings", []byte(w))); got != row.want {
			t.Errorf("%s: %s, want %s", row.doc, got, row.want)
		}
		if string(doc) != row.doc {
			t.Errorf("%s was changed in place: %s", row.doc, doc)
		}
	}
}
