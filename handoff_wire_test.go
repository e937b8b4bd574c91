package resilientwrite_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/mcpserver"
	"github.com/resilientwrite/resilientwrite/spec"
)

// TestHandoffOverTheWire: the requests and replies of an agent, each reply conforming
// to its schema.
func TestHandoffOverTheWire(t *testing.T) {
	store := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff})
	server := mcpserver.New(store, &mcpserver.Options{Replies: mcpserver.FullReplies})
	outputs := map[string]json.RawMessage{}
	for _, tool := range mcpserver.Table() {
		outputs[tool.Name] = tool.Output
	}
	call := func(tool, args string) map[string]any {
		t.Helper()
		msg := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rw_%s","arguments":%s}}`, tool, args)
		data := must(json.Marshal(mcpserver.Handle(background, server, json.RawMessage(msg))))(t)
		var reply struct {
			Result struct {
				StructuredContent json.RawMessage `json:"structuredContent"`
			} `json:"result"`
		}
		noErr(t, json.Unmarshal(data, &reply), data)
		if err := spec.ValidateWith(outputs[tool], reply.Result.StructuredContent); err != nil {
			t.Fatalf("%s: %v: %s", tool, err, reply.Result.StructuredContent)
		}
		var doc map[string]any
		noErr(t, json.Unmarshal(reply.Result.StructuredContent, &doc))
		return doc
	}
	reason := func(doc map[string]any) any {
		context, _ := doc["context"].(map[string]any)
		return context["reason"]
	}

	const good = `"task_id":"t","status":"partial","agent":"a","summary":"s","next_steps":["x"]`
	call("safe_write", `{"path":"a.txt","content":"a","session":"s1"}`)
	first := call("handoff_write", `{"envelope":{`+good+`,"mine":{"deep":[1.50,null]}},"auto_state":true,"session":"s1","body":"# B\n"}`)
	if first["ok"] != true || first["handoff_path"] != "HANDOFF.md" || len(first["drift_warnings"].([]any)) != 0 {
		t.Errorf("%v", first)
	}
	got := call("handoff_read", `{"acknowledge_as":"next"}`)
	envelope, _ := got["envelope"].(map[string]any)
	if got["ok"] != true || fmt.Sprint(envelope["mine"]) != "map[deep:[1.5 <nil>]]" || len(envelope["last_good_state"].([]any)) != 1 || got["body"] != "# B\n" {
		t.Errorf("%v", got)
	}
	call("safe_write", `{"path":"a.txt","content":"b","mode":"overwrite"}`)
	if again := call("handoff_read", `{}`); len(again["drift_warnings"].([]any)) != 1 || len(again["read_by"].([]any)) != 1 {
		t.Errorf("%v", again)
	}
	for _, row := range []struct{ tool, args, want string }{
		{"handoff_write", `{"envelope":{"agent":"a"}}`, "missing_fields"}, {"handoff_write", `{}`, "invalid_argument"},
		{"handoff_write", `{"envelope":{` + good + `,"last_good_state":"all"}}`, "invalid_argument"}, {"handoff_write", `{"envelope":[1]}`, "invalid_argument"},
		{"handoff_write", `{"envelope":{` + good + `},"auto_state":{"a":1}}`, "invalid_argument"}, {"handoff_write", `{"envelope":{` + good + `},"archived":true}`, "unknown_argument"},
		{"handoff_write", `{"envelope":{` + good + `,"last_good_state":[{"path":"a.txt","sha256":"` + strings.Repeat("0", 64) + `"}]},"strict":true}`, "state_drift"},
		{"handoff_read", `{"path":7}`, "invalid_argument"}, {"handoff_read", `{"path":"no.md"}`, "not_found"}, {"handoff_read", `{"path":"a.txt"}`, "missing_front_matter_delimiter"},
		{"handoff_read", `{"strict":true}`, "state_drift"}, {"handoff_read", `{"acknowledge_as":"` + strings.Repeat("x", 201) + `"}`, "invalid_argument"},
	} {
		doc := call(row.tool, row.args)
		if doc["ok"] != false || reason(doc) != row.want {
			t.Errorf("%s %s: %v", row.tool, row.args, doc)
		}
	}
}
