package clients

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resilientwrite/resilientwrite/internal/hostevent"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestHooks: hooks go into every kind of file and out again; all other bytes are
// as they were, and doing it twice changes nothing. Hooks of an older version
// are replaced.
func TestHooks(t *testing.T) {
	files := testbed.Must(hostevent.Config("claude", Program))(t)
	config := files[0].Text
	texts := append([]string{
		"{\"hooks\": {\"PreToolUse\": [{\"matcher\": \"Bash\", \"hooks\": [{\"type\": \"command\", \"command\": \"mine\"}]}]}}\n",
		"{\n  \"hooks\": {\n    // mine\n    \"Stop\": [\n      {\"hooks\": [{\"type\": \"command\", \"command\": \"mine\"}]}, // this\n    ],\n    \"Other\": []\n  },\n  \"theme\": 1\n}\n",
	}, existing[JSON]...)
	for i, before := range texts {
		after, err := SetHooks(before, config)
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		if strings.Count(after, Program+" hook --host claude") != 8 || !within(before, after) {
			t.Errorf("%d:\n%s", i, after)
		}
		if again, err := SetHooks(after, config); err != nil || again != after {
			t.Errorf("%d: a second time: %v\n%s", i, err, cmp.Diff(after, again))
		}
		gone, err := UnsetHooks(after)
		if err != nil || strings.TrimSuffix(gone, "\n") != strings.TrimSuffix(before, "\n") {
			t.Errorf("%d: removed: %v\n%s", i, err, cmp.Diff(before, gone))
		}
		if none, err := UnsetHooks(before); err != nil || none != before {
			t.Errorf("%d: nothing is to be removed: %v\n%s", i, err, cmp.Diff(before, none))
		}
		old := strings.ReplaceAll(strings.ReplaceAll(after, "Bash|Write", "Write"), "command -v "+Program, "true")
		if now, err := SetHooks(old, config); err != nil || strings.Count(now, Program+" hook") != 8 || strings.Contains(now, "true >") {
			t.Errorf("%d: an older version: %v\n%s", i, err, now)
		}
	}
}

// TestHooksInAGroup: a hook that a person put into a group of ours stays, and so does
// one that runs something else besides this program.
func TestHooksInAGroup(t *testing.T) {
	text := "{\"hooks\": {\"Stop\": [{\"hooks\": [{\"command\": \"'/a b/" + Program + "' hook --host claude || exit 0\"}, {\"command\": \"mine\"}]}]}}\n"
	gone, err := UnsetHooks(text)
	if err != nil || gone != "{\"hooks\": {\"Stop\": [{\"hooks\": [ {\"command\": \"mine\"}]}]}}\n" {
		t.Errorf("%v %s", err, gone)
	}
	for _, command := range []string{"mine; " + Program + " hook --host claude || exit 0", Program + " hook --host claude && mine", "mine | " + Program + " hook --host claude", "mine hook --host claude"} {
		text := "{\"hooks\": {\"Stop\": [{\"hooks\": [{\"command\": \"" + command + "\"}]}]}}\n"
		if out, err := UnsetHooks(text); err != nil || out != text {
			t.Errorf("%s: %v %s", command, err, out)
		}
		if out, err := SetHooks(text, "{\"hooks\": {\"Stop\": [{\"command\": \""+Program+" hook --host x\"}]}}"); err != nil || !strings.Contains(out, command) {
			t.Errorf("%s: %v %s", command, err, out)
		}
	}
	for _, strange := range []string{"[]", "{\"hooks\": []}", "{\"hooks\": {\"Stop\": {}}}", "{\"hooks\": {\"Stop\": [[], 7, null, {\"hooks\": 7}, {\"command\": 7}]}}", "{"} {
		if out, err := UnsetHooks(strange); err == nil && out != strange {
			t.Errorf("%s: %s", strange, out)
		}
		if out, err := SetHooks(strange, "{\"hooks\": {\"Stop\": [{\"command\": \""+Program+" hook --host x\"}]}}"); err == nil && !within(strange, out) {
			t.Errorf("%s: %s", strange, out)
		}
	}
}
