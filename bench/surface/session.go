package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tiktoken-go/tokenizer"
)

// An op is one call of the session, independent of the servers' tools.
type op struct {
	kind, path string // read, tail, create, replace, append, edit, move
	text       string // of create, replace, append; the new text of an edit; the new name of a move
	old        string // of an edit; of an append, the last line, for a server that cannot append
	refused    bool
}

// lines returns a made-up program of about size bytes.
func lines(name string, size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "def %s_%d(value, limit=%d):\n    \"\"\"Return the value, at most the limit.\"\"\"\n    return min(value, limit) + %d\n\n", name, i, 10*i, i%7)
	}
	return b.String()
}

// guide returns prose, one line for each number.
func guide(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "%d. A setting has a name, a value and a limit; the limit wins.\n", i)
	}
	return b.String()
}

// before is the workspace at the start.
var before = map[string]string{
	"README.md":    "# Example\n\nA program that reads its settings and prints a report.\n\n" + strings.Repeat("Each section says what a part does, and how to call it.\n", 20),
	"app.py":       "import util\n\n" + lines("app", 6000),
	"util.py":      lines("util", 2000),
	"CHANGELOG.md": "# Changes\n\n- Nothing yet.\n",
	"long.txt":     strings.Repeat("a line of <text> & \"words\" ..\n", 3734),
}

// script is the session: an agent that adds a file of settings to a program,
// makes two mistakes, and corrects itself.
var script = []op{
	{kind: "read", path: "README.md"},
	{kind: "read", path: "app.py"},
	{kind: "read", path: "util.py"},
	{kind: "create", path: "config.py", text: lines("config", 1000)},
	{kind: "create", path: "test_config.py", text: lines("test", 1200)},
	{kind: "edit", path: "app.py", old: "def app_3(value, limit=30):", text: "def app_3(value, limit=300):"},
	{kind: "edit", path: "app.py", old: "    return min(value, limit) + 5\n\ndef app_6", text: "    return min(value, limit)\n\ndef app_6"},
	{kind: "edit", path: "app.py", old: "def app_9(value, limit=9):", text: "def app_9(value, limit=99):", refused: true},
	{kind: "read", path: "app.py"},
	{kind: "edit", path: "app.py", old: "def app_9(value, limit=90):", text: "def app_9(value, limit=99):"},
	{kind: "replace", path: "util.py", text: lines("utility", 3000)},
	{kind: "append", path: "CHANGELOG.md", old: "- Nothing yet.\n", text: "- Settings are read from config.py.\n"},
	{kind: "read", path: "test_config.py"},
	{kind: "tail", path: "long.txt"},
	{kind: "edit", path: "test_config.py", old: "def test_2(value, limit=20):", text: "def test_2(value, limit=21):"},
	{kind: "move", path: "util.py", text: "helpers.py"},
	{kind: "edit", path: "app.py", old: "import util\n", text: "import helpers\n"},
	{kind: "read", path: "none.txt", refused: true},
	{kind: "create", path: "guide.md", text: guide(1, 50)},
	{kind: "edit", path: "guide.md", old: guide(1, 20), text: "# Settings\n\nA setting has a name and a value.\n"},
	{kind: "edit", path: "README.md", old: "reads its settings and prints", text: "reads config.py and prints"},
	{kind: "replace", path: "config.py", text: lines("config", 1500)},
	{kind: "read", path: "config.py"},
}

const tailLines, lineLength = 40, 30

func speakOurs(o op) (string, map[string]any) {
	switch o.kind {
	case "read":
		return "rw_read", map[string]any{"path": o.path}
	case "tail":
		return "rw_read", map[string]any{"path": o.path, "offset": len(before[o.path]) - tailLines*lineLength}
	case "edit":
		return "rw_edit", map[string]any{"path": o.path, "edits": []any{map[string]any{"old": o.old, "new": o.text}}}
	case "move":
		return "rw_tx", map[string]any{"ops": []any{map[string]any{"op": "move", "path": o.path, "to": o.text}}}
	case "create":
		return "rw_safe_write", map[string]any{"path": o.path, "content": o.text}
	case "replace":
		return "rw_safe_write", map[string]any{"path": o.path, "content": o.text, "mode": "overwrite"}
	}
	return "rw_safe_write", map[string]any{"path": o.path, "content": o.text, "mode": "append"}
}

func speakFilesystem(o op) (string, map[string]any) {
	path := "DIR/" + o.path
	switch o.kind {
	case "read":
		return "read_text_file", map[string]any{"path": path}
	case "tail":
		return "read_text_file", map[string]any{"path": path, "tail": tailLines}
	case "edit":
		return "edit_file", map[string]any{"path": path, "edits": []any{map[string]any{"oldText": o.old, "newText": o.text}}}
	case "append":
		return "edit_file", map[string]any{"path": path, "edits": []any{map[string]any{"oldText": o.old, "newText": o.old + o.text}}}
	case "move":
		return "move_file", map[string]any{"source": path, "destination": "DIR/" + o.text}
	}
	return "write_file", map[string]any{"path": path, "content": o.text}
}

func speakCommander(o op) (string, map[string]any) {
	path := "DIR/" + o.path
	switch o.kind {
	case "read":
		return "read_file", map[string]any{"path": path}
	case "tail":
		return "read_file", map[string]any{"path": path, "offset": -tailLines}
	case "edit":
		return "edit_block", map[string]any{"file_path": path, "old_string": o.old, "new_string": o.text}
	case "replace":
		return "write_file", map[string]any{"path": path, "content": o.text, "mode": "rewrite"}
	case "append":
		return "write_file", map[string]any{"path": path, "content": o.text, "mode": "append"}
	case "move":
		return "move_file", map[string]any{"source": path, "destination": "DIR/" + o.text}
	}
	return "write_file", map[string]any{"path": path, "content": o.text}
}

// A model sees no absolute paths of this machine: all servers get a path of
// this length.
const shownDir = "/home/user/project"

// session measures all calls of the script.
func (t *tables) session(temp string, all []contestant) error {
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		return err
	}
	cost := func(text string) string {
		n, err := codec.Count(text)
		if err != nil {
			panic(err)
		}
		return fmt.Sprintf("%d / %d", len(text), n)
	}
	t.printf("A session of %d calls, bytes / tokens (o200k_base):\n\n", len(script))
	var columns [][]string
	first := ""
	for _, c := range all {
		dir, err := workspace(temp)
		if err != nil {
			return err
		}
		p, err := play(c, dir)
		if err != nil {
			return fmt.Errorf("%s: %w", c.title, err)
		}
		if first == "" {
			first = p.left
		} else if p.left != first {
			return fmt.Errorf("%s leaves other files than %s", c.title, all[0].title)
		}
		columns = append(columns, []string{c.title, cost(p.list), cost(p.calls), cost(p.replies), cost(p.structured), cost(p.list + p.calls + p.replies)})
	}
	t.table([]string{"", "list of tools", "names and arguments of the calls", "replies, text", "replies, structured content, which some hosts show as well", "list, calls and text"}, columns)
	return nil
}

// played is the traffic of a session, and a hash of the resulting files.
type played struct{ list, calls, replies, structured, left string }

// play plays the session.
func play(c contestant, dir string) (p played, err error) {
	for name, text := range before {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return p, err
		}
	}
	s, err := start(c, dir)
	if err != nil {
		return p, err
	}
	defer s.stop()
	l, err := s.list()
	if err != nil {
		return p, err
	}
	p.list = l.paid
	for i, o := range script {
		sent, r, err := s.perform(c, o, dir)
		if err != nil {
			return p, err
		}
		if r.refused && !o.refused { // not every server reports a refusal; the resulting files are compared
			return p, fmt.Errorf("call %d, %.60s: %.300s", i+1, sent, r.text)
		}
		p.calls += strings.ReplaceAll(sent, "DIR", shownDir)
		p.replies += strings.ReplaceAll(r.text, dir, shownDir)
		p.structured += strings.ReplaceAll(r.structured, dir, shownDir)
	}
	p.left, err = leftIn(dir)
	return p, err
}

// perform makes a call of the session. It returns the name of the tool and the
// arguments as well, with DIR for the workspace.
func (s *server) perform(c contestant, o op, dir string) (sent string, r reply, err error) {
	tool, args := c.speak(o)
	doc, err := json.Marshal(args)
	if err == nil {
		r, err = s.call(tool, json.RawMessage(strings.ReplaceAll(string(doc), "DIR", dir)))
	}
	return tool + string(doc), r, err
}

// leftIn returns a hash of the files of a workspace.
func leftIn(dir string) (string, error) {
	var all []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		}
		text, err := os.ReadFile(path)
		all = append(all, fmt.Sprintf("%s %x", d.Name(), sha256.Sum256(text)))
		return err
	})
	slices.Sort(all)
	return strings.Join(all, "\n"), err
}
