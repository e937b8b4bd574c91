package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resilientwrite/resilientwrite/internal/hostevent"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

var setup = Setup{Command: Program, Root: "/path/to/project"}

// existing are files as users have them, by format. Our entry is in none.
var existing = map[Format][]string{
	JSON: {
		"",
		"{\"a\": 1}\n",
		"{\n  \"mcpServers\": {\n    \"other\": {\"command\": \"x\"}\n  }\n}\n",
		"{\n\t\"mcpServers\": {\n\t\t\"other\": {\n\t\t\t\"command\": \"x\"\n\t\t}\n\t},\n\t\"b\": [1, 2.50, 1e3]\n}",
		"{\"mcpServers\":{\"other\":{\"command\":\"x\"}},\"b\":null}",
		"// a\n{\n  // b\n  \"mcpServers\": {\n    \"other\": {\"command\": \"x\"}, // c, d\n    /* e } */\n  }, // f\n}\n// g\n",
		"{\r\n  \"a\": \"\\u00e9 // no comment\",\r\n  \"servers\": {\"x\": {}}\r\n}\r\n",
		"\ufeff{\n  \"permissions\": {\"allow\": [\"a\", \"b\"]},\n  \"mcp\": {\n    \"z\": {\"type\": \"local\"} // last\n  }\n}\n",
	},
	TOML: {
		"",
		"model = \"x\" # why\n\n[mcp_servers.other]\ncommand = \"y\"\n\n# of profiles\n[profiles.a]\nx = 1\n",
		"[mcp_servers.other]\ncommand = \"y\"\nargs = [\n  \"[mcp_servers.resilientwrite]\", # odd\n]",
		"a = 1\r\n[b]\r\nc = 2\r\n",
	},
	YAML: {
		"",
		"name: x\nversion: 1.0.0\nschema: v1\nmodels:\n  - name: m # why\n    provider: openai\n",
		"name: x\nmcpServers:\n  - name: other\n    command: y\n    args:\n      - a\n\n# the end\nrules:\n  - be kind\n",
		"name: x\r\nmcpServers:\r\n  - name: other\r\n    command: y\r\n",
		"mcpServers:\n- name: other\n  command: y\n- uses: hub/block\nname: x",
	},
}

// TestSetAndUnset: an entry goes into every kind of file and out again; all
// other bytes are as they were, and doing it twice changes nothing.
func TestSetAndUnset(t *testing.T) {
	for _, c := range Table {
		for i, before := range existing[c.Format] {
			t.Run(fmt.Sprint(c.Name, i), func(t *testing.T) {
				edits := c.Edits(c.Files[0], setup)
				after := testbed.Must(Set(c.Format, before, edits))(t)
				doc := testbed.Must(Read(c.Format, after))(t)
				for _, key := range append(c.At, Server) {
					doc, _ = doc[key].(map[string]any)
				}
				want := map[string]any{}
				for _, e := range edits {
					want[e.Key], _ = canonical(e.Value)
				}
				testbed.Equal(t, cmp.Diff(want, doc), "", "the entry")
				testbed.Expect(t, !strings.Contains(before, "\r\n") || strings.Count(after, "\n") == strings.Count(after, "\r\n"),
					"line ends are mixed: %q", after)
				testbed.Expect(t, within(before, after), "bytes are gone:\n%s", cmp.Diff(before, after))
				if again, err := Set(c.Format, after, edits); err != nil || again != after {
					t.Errorf("a second time: %v\n%s", err, cmp.Diff(after, again))
				}
				gone, err := Unset(c.Format, after, Edit{At: c.At, Key: Server})
				testbed.Expect(t, err == nil && strings.TrimSuffix(gone, "\n") == strings.TrimSuffix(before, "\n"), "removed: %v\n%s", err, cmp.Diff(before, gone))
			})
		}
	}
}

// within reports whether a text is another one with insertions.
func within(text, longer string) bool {
	for i := range len(text) {
		at := strings.IndexByte(longer, text[i])
		if at < 0 {
			return false
		}
		longer = longer[at+1:]
	}
	return true
}

// TestSetKeepsWhatUsersChanged: only the way the program is started is written again,
// and of its arguments only the root and a tier that is named.
func TestSetKeepsWhatUsersChanged(t *testing.T) {
	for _, row := range []struct{ name, tier, before, want string }{
		{"gemini", "", `{"mcpServers": {"resilientwrite": {"env": {"RW_SYNC": "full"}, "command": "old", "args": ["x"], "timeout": 5, "trust": true}}}`, `{"mcpServers": {"resilientwrite": {"env": {"RW_SYNC": "full"}, "command": "resilient-write", "args": ["serve", "--root", "."], "timeout": 5, "trust": true}}}`},
		{"gemini", "", `{"mcpServers": {"resilientwrite": {"command": "old", "args": ["serve", "--root=x", "--tier", "full"], "timeout": 5}}}`, `{"mcpServers": {"resilientwrite": {"command": "resilient-write", "args": ["serve", "--root", ".", "--tier", "full"], "timeout": 5}}}`},
		{"gemini", "core", `{"mcpServers": {"resilientwrite": {"command": "old", "args": ["serve", "--tier=full", "--gate", "off"], "timeout": 5}}}`, `{"mcpServers": {"resilientwrite": {"command": "resilient-write", "args": ["serve", "--root", ".", "--tier", "core", "--gate", "off"], "timeout": 5}}}`},
		{"opencode", "", `{"mcp": {"resilientwrite": {"type": "x", "command": ["old", "serve", "--root", "x", "--replies=full"], "enabled": false, "timeout": 5}}}`, `{"mcp": {"resilientwrite": {"type": "local", "command": ["resilient-write", "serve", "--root", ".", "--replies=full"], "enabled": false, "timeout": 5}}}`},
		{"zed", "", `{"context_servers": {"resilientwrite": {"command": "old", "args": [], "env": {"RW_SYNC": "full"}}}}`, `{"context_servers": {"resilientwrite": {"command": "resilient-write", "args": ["serve", "--root", "/path/to/project"], "env": {"RW_SYNC": "full"}}}}`},
		{"codex", "", "[mcp_servers.resilientwrite]\ncommand = \"old\"\nargs = [\"serve\"]\nenv = { RW_SYNC = \"full\" }\nstartup_timeout_sec = 5\ntool_timeout_sec = 6\n\n[mcp_servers.resilientwrite.tools.rw_read]\nx = 1\n", "[mcp_servers.resilientwrite]\ncommand = \"resilient-write\"\nargs = [\"serve\", \"--root\", \".\"]\nenv = { RW_SYNC = \"full\" }\nstartup_timeout_sec = 5\ntool_timeout_sec = 6\n\n[mcp_servers.resilientwrite.tools.rw_read]\nx = 1\n"},
		{"continue", "", "mcpServers:\n  - name: resilientwrite\n    type: stdio\n    command: old\n    env:\n      RW_SYNC: full\n    args: []\n", "mcpServers:\n  - name: resilientwrite\n    type: stdio\n    command: resilient-write\n    env:\n      RW_SYNC: full\n    args: [\"serve\", \"--root\", \".\"]\n"},
	} {
		c, _ := Find(row.name)
		s := setup
		s.Tier = row.tier
		s.Was, _ = c.Ours(row.before)
		after, err := Set(c.Format, row.before, c.Edits(c.Files[0], s))
		testbed.Expect(t, err == nil && after == row.want, "%s: %v\n%s", row.name, err, cmp.Diff(row.want, after))
		gone, err := Unset(c.Format, after, Edit{At: c.At, Key: Server})
		testbed.Expect(t, err == nil && !strings.Contains(gone, "resilient"), "%s: %v\n%s", row.name, err, gone)
	}
}

// TestApprove: the element of a list, and a key of the entry.
func TestApprove(t *testing.T) {
	e := Edit{At: []string{"permissions", "allow"}, Value: "mcp__resilientwrite"}
	for _, before := range []string{
		"{}\n", "{\"permissions\": {\"deny\": [\"a\"]}}\n", "{\n  \"permissions\": {\n    \"allow\": [\n      \"a\", // why\n      \"b\"\n    ]\n  }\n}\n",
		"{\"permissions\":{\"allow\":[\"a\"]}}",
	} {
		after, err := Set(JSON, before, []Edit{e})
		testbed.Expect(t, err == nil && strings.Contains(after, e.Value.(string)), "%v:\n%s", err, after)
		testbed.Equal(t, testbed.Must(Set(JSON, after, []Edit{e}))(t), after, "a second time")
		if gone, err := Unset(JSON, after, e); err != nil || gone != strings.TrimPrefix(before, "{}\n") {
			t.Errorf("removed: %v\n%s", err, cmp.Diff(before, gone))
		}
	}
	for _, c := range Table {
		plain, approved := c.Edits(c.Files[0], Setup{}), c.Edits(c.Files[0], Setup{Approve: true})
		testbed.Expect(t, len(approved)-len(plain) == len(c.Approve), "%s: %v", c.Name, approved)
	}
}

// TestRefused: what is not understood is not edited.
func TestRefused(t *testing.T) {
	for _, one := range []struct {
		client, text string
		want         error
	}{
		{"gemini", "{", errSyntax},
		{"gemini", "{\"a\": 1,, \"b\": 2}", errSyntax},
		{"gemini", "{\"a\": 1} x", errSyntax},
		{"gemini", "{\"a\": 'b'}", errSyntax},
		{"gemini", "{\"a\": 1 \"b\": 2}", errSyntax},
		{"gemini", "{\"a\": \"b\nc\"}", errSyntax},
		{"gemini", strings.Repeat("[", 1<<20), errSyntax},
		{"gemini", "[]", errShape},
		{"gemini", "{\"mcpServers\": []}", errShape},
		{"gemini", "{\"mcpServers\": {\"resilientwrite\": 1}}", errShape},
		{"gemini", "{\"mcpServers\": 1, \"mcpServers\": {}}", nil},
		{"gemini", "{\"a\": 1, \"a\": 2}", nil},
		{"codex", "a = ", nil},
		{"codex", "mcp_servers = 1", errShape},
		{"codex", "mcp_servers = { resilientwrite = { command = \"x\" } }\n", ErrByHand},
		{"codex", "mcp_servers.resilientwrite.command = \"x\"\n", ErrByHand},
		{"codex", "[mcp_servers.other]\nx = '''\n[mcp_servers.resilientwrite]\ncommand = \"y\"\n'''\n", ErrByHand},
		{"codex", "[mcp_servers.resilientwrite]\ncommand = \"\"\"\nx\"\"\"\n", ErrByHand},
		{"continue", "a: [", nil},
		{"continue", "mcpServers: [{name: a}]\n", ErrByHand},
		{"continue", "mcpServers:\n  - command: x\n    name: resilientwrite\n", ErrByHand},
		{"continue", "mcpServers:\n  - name: a\n  - name: a\n", errShape},
	} {
		c, _ := Find(one.client)
		out, err := Set(c.Format, one.text, c.Edits(c.Files[0], setup))
		testbed.Expect(t, err != nil && (one.want == nil || errors.Is(err, one.want)), "%.60q: %v\n%s", one.text, err, out)
	}
	for client, text := range map[string]string{
		"codex":    "mcp_servers = { resilientwrite = { command = \"x\" } }\n",
		"continue": "mcpServers: [{name: resilientwrite}]\n",
	} {
		c, _ := Find(client)
		out, err := Unset(c.Format, text, Edit{At: c.At, Key: Server})
		testbed.Expect(t, errors.Is(err, ErrByHand), "removed: %q: %v\n%s", text, err, out)
	}
}

func TestLines(t *testing.T) {
	for _, before := range []string{"", "# A\n", "# A\n\ntext\n", "# A\r\n"} {
		after, err := SetLines(before, "one\n")
		testbed.Expect(t, err == nil && strings.HasPrefix(after, before) && strings.Contains(after, "one"), "%q %v", after, err)
		testbed.Expect(t, strings.Count(after, "\r") == 0 || strings.Count(after, "\r") == strings.Count(after, "\n"), "line ends are mixed: %q", after)
		newer, err := SetLines(after+before, "two\n")
		testbed.Expect(t, err == nil && !strings.Contains(newer, "one") && strings.HasSuffix(newer, before), "%q %v", newer, err)
		gone, err := UnsetLines(after)
		testbed.Expect(t, err == nil && gone == before, "%q became %q, %v", before, gone, err)
		gone, err = UnsetLines(strings.TrimRight(after, "\r\n"))
		testbed.Expect(t, err == nil && gone == before, "without the last line end, %q became %q, %v", before, gone, err)
	}
	for _, text := range []string{begin, end, end + begin, begin + begin + end} {
		out, err := SetLines(text, "x\n")
		testbed.Expect(t, errors.Is(err, ErrByHand), "%q became %q", text, out)
	}
}

// FuzzJSON: whatever encoding/json reads is read with the same values; an entry
// that goes in and out leaves them as they were.
func FuzzJSON(f *testing.F) {
	for _, text := range existing[JSON] {
		f.Add(text)
	}
	c, _ := Find("gemini")
	f.Fuzz(func(t *testing.T, text string) {
		mine, err := Read(JSON, text)
		var theirs map[string]any
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		testbed.Require(t, !json.Valid([]byte(text)) || d.Decode(&theirs) != nil || err != nil || reflect.DeepEqual(bare(mine), bare(theirs)),
			"%q: %v, not %v", text, mine, theirs)
		after, err := Set(JSON, text, c.Edits(c.Files[0], setup))
		if err != nil {
			testbed.Require(t, !errors.Is(err, ErrByHand) || strings.Contains(text, "/"), "%q: %v", text, err)
			return
		}
		gone, err := Unset(JSON, after, Edit{At: c.At, Key: Server})
		testbed.Require(t, err == nil, "%q became %q, which became %q: %v", text, after, gone, err)
	})
}

// TestSetKeepsComments: a comment beside a value that is replaced stays, and a mark of a
// comment in a string is part of the string.
func TestSetKeepsComments(t *testing.T) {
	for _, row := range []struct {
		format       Format
		before, want string
	}{
		{TOML, "[a.resilientwrite]\n  command = \"old\" \t# why\n", "[a.resilientwrite]\n  command = \"new\" \t# why\n"},
		{TOML, "[a.resilientwrite]\ncommand = \"#\\\"# old\"# why # so", "[a.resilientwrite]\ncommand = \"new\"# why # so"},
		{TOML, "[a.resilientwrite]\r\ncommand = '\\'# why\r\n", "[a.resilientwrite]\r\ncommand = \"new\"# why\r\n"},
		{TOML, "[a.resilientwrite]\ncommand = '''it's # old'''# why\n", ""},
		{TOML, "[a.resilientwrite]\ncommand = [ # why\n  \"old\"]\n", ""},
		{TOML, "[a.resilientwrite]\nx = 1\n\n# d\n[d]\n", "[a.resilientwrite]\nx = 1\ncommand = \"new\"\n\n# d\n[d]\n"},
		{YAML, "mcpServers:\n  - name: resilientwrite\n    command: old # why\n", "mcpServers:\n  - name: resilientwrite\n    command: new # why\n"},
		{YAML, "mcpServers:\n  - name: resilientwrite\n    command: it's#old # why's\n", "mcpServers:\n  - name: resilientwrite\n    command: new # why's\n"},
		{YAML, "mcpServers:\n  - name: resilientwrite\n    command: 'it''s # old' # why\n", "mcpServers:\n  - name: resilientwrite\n    command: new # why\n"},
		{YAML, "mcpServers:\n  - command: old # why\n    name: resilientwrite # ours\n", ""},
		{YAML, "mcpServers:\n  - name: resilientwrite # ours\n    command: # why\n      - old\n", "mcpServers:\n  - name: resilientwrite # ours\n    command: new # why\n"},
		{YAML, "mcpServers:\n  - name: resilientwrite\n    command:\n      - old # why\n", ""},
		{JSON, "{\"a\": {\"resilientwrite\": {\n  \"command\": \"old\", // why\n  /* b */ \"x\": 1 } } }", "{\"a\": {\"resilientwrite\": {\n  \"command\": \"new\", // why\n  /* b */ \"x\": 1 } } }"},
		{JSON, "{\"a\": {\"resilientwrite\": {\"command\": [\"old\"\n// why\n]}}}", ""},
		{JSON, "{\"a\": {\"resilientwrite\": {\"command\": [\"old\", /* why */]}}}", ""},
		{JSON, "{\"a\": {\"resilientwrite\": {\"command\": [\"//\"]}}}", "{\"a\": {\"resilientwrite\": {\"command\": \"new\"}}}"},
	} {
		at := "a"
		if row.format == YAML {
			at = "mcpServers"
		}
		after, err := Set(row.format, row.before, []Edit{{At: []string{at, Server}, Key: "command", Value: "new"}})
		testbed.Expect(t, (err != nil || after == row.want) && row.want == "" == (err != nil), "%q: %v\n%q, want\n%q", row.before, err, after, row.want)
	}
}

// TestUnsetKeepsComments: comments outside of our entry stay when it is removed, also
// those after it.
func TestUnsetKeepsComments(t *testing.T) {
	for _, row := range []struct {
		format       Format
		before, want string
	}{
		{TOML, "[a]\n\n[a.resilientwrite]\ncommand = \"x\"\n\n# [a.off]\n# command = \"y\"\n", "[a]\n\n# [a.off]\n# command = \"y\"\n"},
		{TOML, "[a.resilientwrite]\ncommand = \"x\"\n# b\n\n# c\n\n[d]\n", "# b\n\n# c\n\n[d]\n"},
		{YAML, "mcpServers:\n  - name: resilientwrite\n    command: x\n\n  # why\n  - name: b\n", "mcpServers:\n\n  # why\n  - name: b\n"},
		{JSON, "{\"a\": {\"b\": 1 /* c, d */, \"resilientwrite\": {}}}", "{\"a\": {\"b\": 1 /* c, d */}}"},
		{JSON, "{\"a\": {\"resilientwrite\": {} /* c, d */, \"b\": 1}}", "{\"a\": {/* c, d */ \"b\": 1}}"},
		{JSON, "{\"a\": // c\n{\"resilientwrite\": {}}}", "{\"a\": // c\n{}}"},
		{JSON, "{\"a\": {\"resilientwrite\": {}}\n// c\n, \"b\": 1}", "{\"a\": {}\n// c\n, \"b\": 1}"},
		{JSON, "{\"a\": {\"b\": \"//\", // c\n\"resilientwrite\": {}}}", "{\"a\": {\"b\": \"//\" // c\n}}"},
		{JSON, "{\"a\": {\"b\": \"//\",\n\"resilientwrite\": {}}}", "{\"a\": {\"b\": \"//\"}}"},
		{JSON, "{\"a\": {\"b\": \"//\", \"resilientwrite\": {}, \"c\": 1}}", "{\"a\": {\"b\": \"//\", \"c\": 1}}"},
	} {
		at := []string{"a"}
		if row.format == YAML {
			at[0] = "mcpServers"
		}
		after, err := Unset(row.format, row.before, Edit{At: at, Key: Server})
		testbed.Expect(t, err == nil && after == row.want, "%q: %v\n%q, want\n%q", row.before, err, after, row.want)
	}
}

// FuzzLinear: reading the configuration of a client, and adding and removing an
// entry of it, takes work in proportion to its length.
func FuzzLinear(f *testing.F) {
	seeds := []string{`"k#":{"command":"c","args":["a"]},`, `{"a": … }`, "// c\n", "/* … */", `"a#":1,`, "[mcp_servers.s#]\ncommand = 'c'\n", "k# = 1\n", "- name: s#\n  command: c\n", "s#:\n  command: c\n", "\r\n", "[[ … ]]", begin + " … " + end}
	formats := map[Format]Client{}
	for _, c := range Table {
		formats[c.Format] = c
	}
	testbed.FuzzLinear(f, 4<<10, 20*time.Microsecond, seeds, func(text []byte) int {
		for format, c := range formats {
			for _, doc := range []string{string(text), `{"mcpServers":{` + string(text) + `"z":{}}}`} {
				Read(format, doc)
				Set(format, doc, c.Edits(c.Files[0], setup))
				Unset(format, doc, Edit{At: c.At, Key: Server})
				c.Entries(doc)
			}
		}
		SetLines(string(text), "a\n")
		UnsetLines(string(text))
		return 0
	})
}

// TestHooks: hooks go into every kind of file and out again; all other bytes are
// as they were, and doing it twice changes nothing. Hooks of an older version
// are replaced, and those of a program with another name.
func TestHooks(t *testing.T) {
	files := testbed.Must(hostevent.Config("claude", Program))(t)
	config := files[0].Text
	texts := append([]string{
		"{\"hooks\": {\"PreToolUse\": [{\"matcher\": \"Bash\", \"hooks\": [{\"type\": \"command\", \"command\": \"mine\"}]}]}}\n",
		"// mine\n{\n  // mine\n}\n", "{\n  \"version\": 1 /* mine */\n}\n", "{\n  \"version\": \"mine\"\n}\n",
		"{\n  \"hooks\": {\n    // mine\n    \"Stop\": [\n      {\"hooks\": [{\"type\": \"command\", \"command\": \"mine\"}]}, // this\n    ],\n    \"Other\": []\n  },\n  \"theme\": 1\n}\n",
	}, existing[JSON]...)
	for i, before := range texts {
		after := testbed.Must(SetHooks(before, config))(t, i)
		testbed.Expect(t, strings.Count(after, Program+" hook --host claude") == 8 && within(before, after), "%d:\n%s", i, after)
		if again, err := SetHooks(after, config); err != nil || again != after {
			t.Errorf("%d: a second time: %v\n%s", i, err, cmp.Diff(after, again))
		}
		gone, err := UnsetHooks(after)
		testbed.Expect(t, err == nil && strings.TrimSuffix(gone, "\n") == strings.TrimSuffix(before, "\n"), "%d: removed: %v\n%s", i, err, cmp.Diff(before, gone))
		if none, err := UnsetHooks(before); err != nil || none != before {
			t.Errorf("%d: nothing is to be removed: %v\n%s", i, err, cmp.Diff(before, none))
		}
		old := strings.ReplaceAll(strings.ReplaceAll(after, "Bash|Write", "Write"), "command -v "+Program, "true")
		now, err := SetHooks(old, config)
		testbed.Expect(t, err == nil && strings.Count(now, Program+" hook") == 8 && !strings.Contains(now, "true >"), "%d: an older version: %v\n%s", i, err, now)
	}
	renamed := testbed.Must(hostevent.Config("claude", "/opt/it's/rw"))(t)[0].Text
	text := testbed.Must(SetHooks("{}\n", renamed))(t)
	testbed.Equal(t, testbed.Must(SetHooks(text, config))(t), testbed.Must(SetHooks("{}\n", config))(t), "hooks of another name are replaced")
	testbed.Equal(t, testbed.Must(UnsetHooks(text))(t), "", "hooks of another name are removed")
}

// TestHooksInAGroup: a hook that a person put into a group of ours stays, and so does
// one that runs something else besides this program.
func TestHooksInAGroup(t *testing.T) {
	text := "{\"hooks\": {\"Stop\": [{\"hooks\": [{\"command\": \"'/a b/" + Program + "' hook --host claude || exit 0\"}, {\"command\": \"mine\"}]}]}}\n"
	testbed.Equal(t, testbed.Must(UnsetHooks(text))(t), "{\"hooks\": {\"Stop\": [{\"hooks\": [ {\"command\": \"mine\"}]}]}}\n")
	for _, command := range []string{"mine; " + Program + " hook --host claude || exit 0", Program + " hook --host claude && mine", "mine | " + Program + " hook --host claude", "mine hook --host claude", "command -v other >/dev/null || exit 0; mine hook --host claude"} {
		text := "{\"hooks\": {\"Stop\": [{\"hooks\": [{\"command\": \"" + command + "\"}]}]}}\n"
		out, err := UnsetHooks(text)
		testbed.Expect(t, err == nil && out == text, "%s: %v %s", command, err, out)
		out, err = SetHooks(text, "{\"hooks\": {\"Stop\": [{\"command\": \""+Program+" hook --host x\"}]}}")
		testbed.Expect(t, err == nil && strings.Contains(out, command), "%s: %v %s", command, err, out)
	}
	for _, strange := range []string{"[]", "{\"hooks\": []}", "{\"hooks\": {\"Stop\": {}}}", "{\"hooks\": {\"Stop\": [[], 7, null, {\"hooks\": 7}, {\"command\": 7}]}}", "{"} {
		out, err := UnsetHooks(strange)
		testbed.Expect(t, err != nil || out == strange, "%s: %s", strange, out)
		out, err = SetHooks(strange, "{\"hooks\": {\"Stop\": [{\"command\": \""+Program+" hook --host x\"}]}}")
		testbed.Expect(t, err != nil || within(strange, out), "%s: %s", strange, out)
	}
}
