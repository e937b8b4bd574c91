package hostevent

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestConfig: every event that a host is configured to send means something, and
// a missing or failing program lets it go on.
func TestConfig(t *testing.T) {
	for host, s := range setups {
		file, text, err := Config(host)
		var doc struct{ Hooks map[string]json.RawMessage }
		if err != nil || file == "" || json.Unmarshal(text, &doc) != nil || len(doc.Hooks) != len(s.events) {
			t.Fatalf("%s: %v %s", host, err, text)
		}
		for event, hooks := range doc.Hooks {
			e, err := Parse(host, event, []byte(`{"hook_event_name":"another","cwd":"/x"}`))
			if err != nil || e.Kind == Other || e.Name != event {
				t.Errorf("%s %s: %+v %v", host, event, e, err)
			}
			if !strings.Contains(string(hooks), "|| exit 0; resilient-write hook --host "+host) || !strings.Contains(string(hooks), `|| exit 0"`) {
				t.Errorf("%s %s: %s", host, event, hooks)
			}
		}
	}
	for host := range hosts {
		if !strings.Contains(Hosts, host) {
			t.Errorf("Hosts does not name %s", host)
		}
	}
	if _, _, err := Config("cline"); err == nil {
		t.Error("a host without a file of hooks is configured")
	}
}

// TestJoin: the events before and after a call have one identifier, also where
// the host gives none, and two calls have two.
func TestJoin(t *testing.T) {
	event := func(name, command string) Event {
		e, err := Parse("gemini", "", fmt.Appendf(nil, `{"session_id":"s","cwd":"/x","hook_event_name":%q,"tool_name":"run_shell_command","tool_input":{"command":%q}}`, name, command))
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	before, after, other := event("BeforeTool", "make"), event("AfterTool", "make"), event("BeforeTool", "ls")
	if before.Call == "" || before.Call != after.Call || before.Call == other.Call || !before.Shell || before.Kind != Before || after.Kind != After {
		t.Errorf("%+v %+v %+v", before, after, other)
	}
	own, err := Parse("claude", "", []byte(`{"tool_name":"mcp__plugin_rw_resilientwrite__rw_safe_write","tool_input":{}}`))
	if err != nil || !own.Own {
		t.Errorf("%+v %v", own, err)
	}
}
