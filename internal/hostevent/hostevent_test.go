package hostevent

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestConfig: every event that a host is configured to send means something, and
// a missing or failing program lets it go on.
func TestConfig(t *testing.T) {
	for host := range hosts {
		testbed.Expect(t, strings.Contains(Hosts, host), "Hosts does not name %s", host)
		files := testbed.Must(Config(host, "resilient-write"))(t)
		events := map[string]string{}
		for _, f := range files {
			var doc struct{ Hooks map[string]json.RawMessage }
			switch {
			case f.Merge && json.Unmarshal([]byte(f.Text), &doc) != nil:
				t.Fatalf("%s: %s", host, f.Text)
			case f.Exec:
				events[path.Base(f.Project)] = f.Text
			}
			for event, hooks := range doc.Hooks {
				events[event] = string(hooks)
			}
		}
		for event, command := range events {
			e, err := Parse(host, event, []byte(`{"hook_event_name":"another","cwd":"/x"}`))
			testbed.Expect(t, err == nil && e.Kind != Other && e.Name == event, "%s %s: %+v %v", host, event, e, err)
			testbed.Expect(t, strings.Contains(command, "|| exit 0; resilient-write hook --host "+host) && strings.Count(command, `|| exit 0`) == 2,
				"%s %s: %s", host, event, command)
		}
		testbed.Expect(t, len(events) != 0 || host == "opencode", "%s has no events", host)
	}
	_, err := Config("unknown", "resilient-write")
	testbed.Expect(t, err != nil, "a host without hooks is configured")
}

// TestGuardedCommand: the command line ends well for a program that is missing,
// that fails, or that is killed, whatever its path is.
func TestGuardedCommand(t *testing.T) {
	sh, err := exec.LookPath("sh")
	testbed.SkipIf(t, err != nil, "sh is not installed")
	dir := filepath.Join(t.TempDir(), "it's $HOME")
	testbed.NoErr(t, os.Mkdir(dir, 0o755))
	for name, text := range map[string]string{"missing": "", "fails": "exit 2", "killed": "kill -9 $$", "works": "cat; exit 0"} {
		program := filepath.Join(dir, name)
		if text != "" {
			testbed.NoErr(t, os.WriteFile(program, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
		}
		files := testbed.Must(Config("cline", program))(t)
		cmd := exec.Command(sh, "-c", files[0].Text)
		cmd.Stdin = strings.NewReader("{}")
		out, err := cmd.Output()
		testbed.Expect(t, err == nil && (string(out) == "{}") == (name == "works"), "%s: %v %q", name, err, out)
	}
}

// TestJoin: the events before and after a call have one identifier, also where
// the host gives none, and two calls have two.
func TestJoin(t *testing.T) {
	event := func(name, command string) Event {
		e := testbed.Must(Parse("gemini", "", fmt.Appendf(nil, `{"session_id":"s","cwd":"/x","hook_event_name":%q,"tool_name":"run_shell_command","tool_input":{"command":%q}}`, name, command)))(t)
		return e
	}
	before, after, other := event("BeforeTool", "make"), event("AfterTool", "make"), event("BeforeTool", "ls")
	testbed.Expect(t, before.Call != "" && before.Call == after.Call && before.Call != other.Call && before.Shell && before.Kind == Before && after.Kind == After,
		"%+v %+v %+v", before, after, other)
	own, err := Parse("claude", "", []byte(`{"tool_name":"mcp__plugin_rw_resilientwrite__rw_safe_write","tool_input":{}}`))
	testbed.Expect(t, err == nil && own.Own, "%+v %v", own, err)
}

// TestFieldsOfOtherTypes hide no write.
func TestFieldsOfOtherTypes(t *testing.T) {
	for _, text := range []string{
		`{"hook_event_name":"PreToolUse","tool_name":"Write","tool_input":{"path":5,"input":{},"command":["a"],"file_path":"a","content":"x"}}`,
		`{"session_id":5,"workspaceRoots":"/","tool_call":"x","hook_event_name":"PreToolUse","tool_name":"Write","tool_input":{"file_path":"a","content":"x"}}`,
	} {
		e, err := Parse("claude", "", []byte(text))
		testbed.Expect(t, err == nil && e.Kind == Before && slices.Equal(e.Writes, []Write{{"a", "x"}}), "%s: %+v %v", text, e, err)
	}
	_, err := Parse("claude", "", []byte(`[]`))
	testbed.Expect(t, err != nil, "a list is an event")
}
