package main_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resilientwrite/resilientwrite/internal/clients"
)

// desk is a home directory and a project, with the files that clients have.
type desk struct {
	t             *testing.T
	home, project string
}

func newDesk(t *testing.T) *desk { return &desk{t, t.TempDir(), t.TempDir()} }

// run runs the built command and returns its reply and its code.
func (d *desk) run(args ...string) (reply map[string]any, code int) {
	d.t.Helper()
	cmd := exec.Command(build(d.t), args...)
	cmd.Dir = d.project
	cmd.Env = []string{"HOME=" + d.home, "USERPROFILE=" + d.home, "APPDATA=" + filepath.Join(d.home, "AppData"), "PATH=" + os.Getenv("PATH"), "XDG_STATE_HOME=" + os.Getenv("XDG_STATE_HOME")}
	out, _ := cmd.Output()
	if err := json.Unmarshal(out, &reply); err != nil {
		d.t.Fatalf("%q: %q %v", args, out, err)
	}
	if strings.Contains(string(out), d.home) || strings.Contains(withoutRoots(string(out)), d.project) {
		d.t.Errorf("%q: a whole path is shown: %s", args, out)
	}
	return reply, cmd.ProcessState.ExitCode()
}

// withoutRoots returns a reply without the arguments of entries that need the
// whole path of the project.
func withoutRoots(text string) string {
	var kept []string
	for line := range strings.SplitSeq(text, `\n`) {
		if !strings.Contains(line, `\"--root\"`) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func (d *desk) path(name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		return filepath.Join(d.home, filepath.FromSlash(rest))
	}
	return filepath.Join(d.project, filepath.FromSlash(name))
}

func (d *desk) write(name, text string, perm fs.FileMode) {
	d.t.Helper()
	if err := os.MkdirAll(filepath.Dir(d.path(name)), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(d.path(name), []byte(text), perm); err != nil {
		d.t.Fatal(err)
	}
}

// tree returns every file of both directories, with its mode.
func (d *desk) tree() map[string]string {
	out := map[string]string{}
	for _, dir := range []string{d.home, d.project} {
		filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				data, _ := os.ReadFile(name)
				info, _ := e.Info()
				out[name] = info.Mode().String() + "\n" + string(data)
			}
			return err
		})
	}
	return out
}

// foreignHooks are hooks of another program, one in a group that a person may
// have added ours to.
const foreignHooks = "{\n  // mine\n  \"hooks\": {\n    \"PreToolUse\": [\n      {\"matcher\": \"Bash\", \"hooks\": [{\"type\": \"command\", \"command\": \"mine\"}]}\n    ]\n  }\n}\n"

// TestInit configures every client, repeats it, and removes everything: the
// second run changes nothing, and after the last one every byte and mode is as
// before.
func TestInit(t *testing.T) {
	d := newDesk(t)
	d.write("~/.codex/config.toml", "model = \"x\" # mine\n", 0o640)
	d.write(".mcp.json", "{\n  // mine\n  \"mcpServers\": {\"a\": {\"command\": \"b\"}}\n}\n", 0o664)
	d.write("AGENTS.md", "# Mine\n", 0o644)
	d.write("~/.continue/config.yaml", "name: x\nmodels: [] # mine\n", 0o600)
	d.write("~/real.json", "{\"theme\": \"dark\"}\n", 0o600)
	d.write("~/.qwen/other", "", 0o600)
	d.write(".claude/settings.json", foreignHooks, 0o644)
	d.write(".clinerules/hooks/PreToolUse", "#!/bin/sh\n", 0o755) // of another scope
	if err := os.Symlink(d.path("~/real.json"), d.path("~/.qwen/settings.json")); err != nil {
		t.Skip("no links here:", err)
	}
	before := d.tree()
	all := append([]string{"init", "--approve", "--hooks"}, clients.Names()...)

	if reply, code := d.run(append(all, "--dry-run")...); code != 0 || len(reply["files"].([]any)) < 15 {
		t.Errorf("dry run: %d %v", code, reply)
	}
	if diff := cmp.Diff(before, d.tree()); diff != "" {
		t.Fatalf("a dry run wrote:\n%s", diff)
	}
	if reply, code := d.run(all...); code != 0 || len(reply["files"].([]any)) < 15 {
		t.Errorf("%d %v", code, reply)
	}
	configured := d.tree()
	for _, c := range clients.Table {
		name := c.Files[0].Path
		if strings.HasPrefix(name, "%") {
			continue // differs by system
		}
		text, err := os.ReadFile(d.path(name))
		if _, ok := c.Ours(string(text)); !ok || err != nil {
			t.Errorf("%s: %v\n%s", c.Name, err, text)
		}
	}
	for name, want := range map[string]int{ // events
		".claude/settings.json": 8, "~/.codex/hooks.json": 7, ".gemini/settings.json": 4, "~/.qwen/settings.json": 7, "~/.copilot/hooks/resilient-write.json": 5,
		".opencode/plugins/resilient-write.js": 1, "~/.cline/hooks/PostToolUse": 1,
	} {
		text, err := os.ReadFile(d.path(name))
		if n := strings.Count(string(text), "hook"); err != nil || n < want || strings.Contains(name, "settings") && strings.Count(string(text), " hook --host ") != want {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	if info, err := os.Stat(d.path("~/.cline/hooks/PostToolUse")); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info, err)
	}
	if reply, code := d.run(all...); code != 0 || len(reply["files"].([]any)) > 0 {
		t.Errorf("a second time: %d %v", code, reply)
	}
	if diff := cmp.Diff(configured, d.tree()); diff != "" {
		t.Errorf("a second time:\n%s", diff)
	}
	if _, code := d.run("init", "--remove", "--all"); code != 0 {
		t.Errorf("removed: %d", code)
	}
	if diff := cmp.Diff(before, d.tree()); diff != "" {
		t.Errorf("removed:\n%s", diff)
	}
	if info, err := os.Lstat(d.path("~/.qwen/settings.json")); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v %v", info, err)
	}
}

// TestInitLeavesWhatItCannotRead: a client whose file is broken is refused and
// none of its files is written; the others are configured.
func TestInitLeavesWhatItCannotRead(t *testing.T) {
	secret := "token = " + strings.Repeat("x", 20)
	d := newDesk(t)
	broken := map[string]string{
		"~/.codex/config.toml":     "a = \n" + secret,
		"~/.continue/config.yaml":  "a: [\n" + secret,
		".mcp.json":                "{\"a\": " + secret + "}",
		".cursor/mcp.json":         "[]",
		"~/.qwen/settings.json":    "{\"mcpServers\": {\"resilientwrite\": {\"httpUrl\": \"http://127.0.0.1:1/mcp\"}}}",
		".gemini/settings.json/no": "",
	}
	for name, text := range broken {
		d.write(name, text, 0o600)
	}
	reply, code := d.run("init", "claude-code", "codex", "continue", "cursor", "qwen", "gemini", "opencode")
	status := map[string]string{}
	for _, one := range reply["clients"].([]any) {
		c := one.(map[string]any)
		status[c["client"].(string)] = c["status"].(string)
	}
	want := map[string]string{"claude-code": "refused", "codex": "refused", "continue": "refused", "cursor": "refused", "qwen": "refused", "gemini": "refused", "opencode": "configured"}
	if diff := cmp.Diff(want, status); diff != "" || code != 5 {
		t.Errorf("code %d\n%s", code, diff)
	}
	for name, text := range broken {
		if got, err := os.ReadFile(d.path(name)); err != nil || string(got) != text {
			t.Errorf("%s: %v %q", name, err, got)
		}
	}
	if said, _ := json.Marshal(reply); strings.Contains(string(said), "xxxx") {
		t.Errorf("the reply holds what stands in the files: %s", said)
	}
	if names := slices.Sorted(maps.Keys(d.tree())); len(names) != len(broken)+2 {
		t.Errorf("there are %v", names)
	}
}

// TestInitLeavesOtherHooks: an executable of another program is neither replaced
// nor removed.
func TestInitLeavesOtherHooks(t *testing.T) {
	d := newDesk(t)
	d.write("~/.cline/hooks/PreToolUse", "#!/bin/sh\necho mine\n", 0o755)
	before := d.tree()
	if reply, code := d.run("init", "cline", "--hooks"); code != 5 || !strings.Contains(fmt.Sprint(reply), "another hook is there") {
		t.Errorf("%d %v", code, reply)
	}
	d.run("init", "cline", "--remove")
	if diff := cmp.Diff(before, d.tree()); diff != "" {
		t.Error(diff)
	}
}

// TestStatusNamesSilentHooks: status names configured hooks that have reported
// nothing, with what to do, until they report something.
func TestStatusNamesSilentHooks(t *testing.T) {
	d := newDesk(t)
	d.write("a.txt", "x\n", 0o644)
	d.run("changes")
	silent := func() string {
		r, _ := d.run("status")
		return fmt.Sprint(r["hooks_without_events"])
	}
	if s := silent(); s != "[]" {
		t.Error(s)
	}
	d.run("init", "codex", "opencode", "--hooks")
	if s := silent(); !strings.Contains(s, "host:codex") || !strings.Contains(s, "~/.codex/hooks.json") || !strings.Contains(s, "trusted") || !strings.Contains(s, "host:opencode") {
		t.Error(s)
	}
	event, _ := json.Marshal(map[string]any{"cwd": d.project, "hook_event_name": "SessionStart", "session_id": "s"})
	cmd := exec.Command(build(t), "hook", "--host", "codex", "--deadline", "1m")
	cmd.Stdin = strings.NewReader(string(event))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if s := silent(); strings.Contains(s, "codex") || !strings.Contains(s, "opencode") {
		t.Error(s)
	}
}

// TestInitNamesFilesOfTheUser: the diff of a file in the home directory shows
// its path, not one below a or b.
func TestInitNamesFilesOfTheUser(t *testing.T) {
	d := newDesk(t)
	reply, _ := d.run("init", "codex", "--dry-run")
	if said := fmt.Sprint(reply["files"]); !strings.Contains(said, "+++ ~/.codex/config.toml") || strings.Contains(said, "a/~") {
		t.Error(said)
	}
}

// TestInitRefusesWrongWords checks codes and hints for wrong command lines.
func TestInitRefusesWrongWords(t *testing.T) {
	d := newDesk(t)
	for _, args := range [][]string{{}, {"codexx"}, {"codex", "--scope", "world"}, {"codex", "--tier", "all"}, {"--all", "--no"}} {
		if reply, code := d.run(append([]string{"init"}, args...)...); code != 2 {
			t.Errorf("%q: %d %v", args, code, reply)
		}
	}
	if reply, code := d.run("init", "cline", "--scope", "project"); code != 5 || len(d.tree()) > 0 {
		t.Errorf("%d %v", code, reply)
	}
}

// TestInitInstructionsAreShared: removing one of two clients that read the same
// file keeps the lines for the other.
func TestInitInstructionsAreShared(t *testing.T) {
	d := newDesk(t)
	d.run("init", "opencode", "vscode")
	d.run("init", "--remove", "opencode")
	if text, err := os.ReadFile(d.path("AGENTS.md")); err != nil || !strings.Contains(string(text), clients.Instructions) {
		t.Errorf("%v %s", err, text)
	}
	d.run("init", "--remove", "vscode")
	if _, err := os.Stat(d.path("AGENTS.md")); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// TestInitShowsNoSecretsOfOthers: the diff of a one-line file does not show the
// rest of the line, which may hold the keys of other servers.
func TestInitShowsNoSecretsOfOthers(t *testing.T) {
	d := newDesk(t)
	secret := "key-" + strings.Repeat("q", 12)
	d.write(".gemini/settings.json", `{"mcpServers":{"a":{"command":"b","env":{"KEY":"`+secret+`"}}},"theme":"`+secret+`"}`, 0o600)
	reply, code := d.run("init", "gemini", "--no-instructions")
	said, _ := json.Marshal(reply)
	if code != 0 || strings.Contains(string(said), secret) || !strings.Contains(string(said), "resilient-write") {
		t.Errorf("%d %s", code, said)
	}
	if text, _ := os.ReadFile(d.path(".gemini/settings.json")); strings.Count(string(text), secret) != 2 {
		t.Errorf("%s", text)
	}
}

// TestInitInTheHomeDirectory: the home directory is not a project, and the
// server would refuse it.
func TestInitInTheHomeDirectory(t *testing.T) {
	d := newDesk(t)
	d.project = d.home
	reply, code := d.run("init", "claude-code", "zed", "codex", "--no-instructions")
	status := fmt.Sprint(reply["clients"])
	if code != 5 || strings.Count(status, "refused") != 2 || !strings.Contains(status, "configured") {
		t.Errorf("%d %s", code, status)
	}
}
