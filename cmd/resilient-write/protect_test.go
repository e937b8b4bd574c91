package main_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// dangerous are paths that execute code, launch programs or grant access, with
// the result of a write by an agent: ask, or the warning.
var dangerous = map[string]string{
	".mcp.json": "ask", "mcp.json": "ask", "opencode.json": "ask", "opencode.jsonc": "ask", ".opencode/plugin/x.js": "ask", ".claude.json": "ask",
	".claude/settings.json": "ask", ".claude/settings.local.json": "ask", ".claude/hooks/pre.sh": "ask", ".claude-plugin/plugin.json": "ask",
	".cursor/mcp.json": "ask", ".cursor/hooks.json": "ask", ".cursor/cli.json": "ask", ".cursor/environment.json": "ask",
	".codex/config.toml": "ask", ".codex/hooks.json": "ask", ".codex/rules/default.rules": "ask", ".gemini/settings.json": "ask", ".qwen/settings.json": "ask",
	".vscode/settings.json": "ask", ".vscode/tasks.json": "ask", ".vscode/launch.json": "ask", ".vscode/mcp.json": "ask", "x.code-workspace": "ask",
	".idea/runConfigurations/x.xml": "ask", ".run/x.run.xml": "ask", ".github/mcp.json": "ask", ".github/hooks/x.json": "ask", ".junie/mcp/mcp.json": "ask",
	".windsurf/mcp_config.json": "ask", ".windsurf/hooks.json": "ask", ".zed/settings.json": "ask", ".zed/tasks.json": "ask", ".continue/config.yaml": "ask", ".continue/mcpServers/x.yaml": "ask",
	".roo/mcp.json": "ask", ".kilocode/mcp.json": "ask", ".amazonq/mcp.json": "ask", ".amazonq/cli-agents/x.json": "ask", ".kiro/settings/mcp.json": "ask", ".kiro/hooks/x.hook": "ask",
	".factory/mcp.json": "ask", ".aider.conf.yml": "ask", "crush.json": "ask", ".openhands/setup.sh": "ask",
	".envrc": "ask", ".devcontainer/devcontainer.json": "ask", ".devcontainer.json": "ask", ".devcontainer/sub/post.sh": "ask", ".mise.toml": "ask", "mise.toml": "ask", ".gitpod.yml": "ask", "devbox.json": "ask",
	".bashrc": "ask", ".bash_profile": "ask", ".profile": "ask", ".zshrc": "ask", ".zshenv": "ask", ".config/fish/config.fish": "ask", "Microsoft.PowerShell_profile.ps1": "ask",
	".vimrc": "ask", ".exrc": "ask", ".nvim.lua": "ask", ".dir-locals.el": "ask", ".gdbinit": "ask", ".lldbinit": "ask", ".tmux.conf": "ask",
	".ssh/authorized_keys": "ask", ".ssh/config": "ask", ".netrc": "ask", ".gitconfig": "ask", ".config/git/config": "ask", ".config/systemd/user/x.service": "ask",
	"sitecustomize.py": "ask", "usercustomize.py": "ask", "x.pth": "ask", ".husky/pre-commit": "ask", ".husky/_/husky.sh": "ask", ".githooks/pre-push": "ask", ".gitmodules": "ask", ".gitattributes": "ask",
	".github/workflows/ci.yml": "changes_ci", ".github/actions/x/action.yml": "changes_ci", ".gitlab-ci.yml": "changes_ci", ".circleci/config.yml": "changes_ci", "Jenkinsfile": "changes_ci", "azure-pipelines.yml": "changes_ci",
	".npmrc": "changes_package_hook", ".yarnrc.yml": "changes_package_hook", ".pre-commit-config.yaml": "changes_package_hook", "conftest.py": "changes_package_hook", ".cargo/config.toml": "changes_package_hook",
	"package.json": "changes_package_hook", "lefthook.yml": "changes_package_hook", ".mvn/extensions.xml": "changes_package_hook",
	"AGENTS.md": "changes_instructions", "CLAUDE.md": "changes_instructions", "GEMINI.md": "changes_instructions", ".cursor/rules/x.mdc": "changes_instructions", ".cursorrules": "changes_instructions", ".github/copilot-instructions.md": "changes_instructions",
	".claude/commands/x.md": "changes_host_file", ".claude/agents/x.md": "changes_host_file", ".cursor/rules/x.md": "changes_host_file", ".vscode/extensions.json": "changes_host_file", ".idea/misc.xml": "changes_host_file", ".codex/prompts/x.md": "changes_host_file",

	".cursor/worktrees.json": "ask", "tools/mcp_config.json": "ask", ".windsurf/mcp.json": "ask", ".codeium/windsurf/mcp_config.json": "ask", ".roo/mcp_settings.json": "ask", ".trae/mcp.json": "ask", "claude_desktop_config.json": "ask",
	".theia/tasks.json": "ask", "x.sublime-project": "ask", ".helix/languages.toml": "ask", ".fleet/run.json": "ask", ".idea/watcherTasks.xml": "ask", ".externalToolBuilders/x.launch": "ask", ".amp/settings.json": "ask",
	".direnvrc": "ask", ".config/direnv/direnvrc": "ask", ".shadowenv.d/1.lisp": "ask", ".autoenv_leave.zsh": "ask", ".codesandbox/tasks.json": "ask", ".flox/env/manifest.toml": "ask",
	".Rprofile": "ask", ".ghci": "ask", ".ocamlinit": "ask", ".iex.exs": "ask", ".irbrc": "ask", ".pdbrc": "ask", ".psqlrc": "ask", "jupyter_server_config.py": "ask", ".ipython/profile_default/startup/x.py": "ask",
	".aws/config": "ask", ".aws/credentials": "ask", ".kube/config": "ask", ".docker/config.json": "ask", ".gnupg/gpg-agent.conf": "ask", ".git-credentials": "ask", ".hgrc": "ask", ".config/gh/hosts.yml": "ask",
	".huskyrc": "ask", ".huskyrc.json": "ask", ".git-hooks/pre-commit": "ask", "venv/pyvenv.cfg": "ask",
	"azure-pipelines.yaml": "changes_ci", ".readthedocs.yaml": "changes_ci", "netlify.toml": "changes_ci", "vercel.json": "changes_ci", "Procfile": "changes_ci", ".goreleaser.yml": "changes_ci", ".tekton/x.yaml": "changes_ci",
	".pypirc": "changes_package_hook", ".pnp.cjs": "changes_package_hook", "rust-toolchain.toml": "changes_package_hook", "gradle/wrapper/gradle-wrapper.properties": "changes_package_hook", ".bazelrc": "changes_package_hook",
	".pylintrc": "changes_package_hook", ".overcommit.yml": "changes_package_hook", ".lintstagedrc.json": "changes_package_hook", ".pre-commit-hooks.yaml": "changes_package_hook",
	"skills/x/SKILL.md": "changes_instructions", ".cursorignore": "changes_host_file", ".aiassistant/rules/x.md": "changes_host_file",

	// In any letter case and at any depth.
	".ENVRC": "ask", "a/b/.envrc": "ask", "sub/.vscode/tasks.json": "ask", "Sub/.VSCode/Tasks.json": "ask", "a/.gitattributes": "ask", ".Mcp.Json": "ask", "pkg/.npmrc": "changes_package_hook", "agents.MD": "changes_instructions", ".envrc.": "ask",
	"a/sub/.claude/Settings.json": "ask", "deep/a/package.json": "changes_package_hook",
}

// harmless are near misses.
var harmless = []string{
	"docs/mcp.json.md", "settings.json", "tasks.json", "config.toml", "src/hooks/useThing.ts", "hooks/pre-commit", "bashrc", "envrc", ".envrc.example.txt", ".env", ".env.example", ".gitignore", ".gitkeep", ".dockerignore",
	".github/ISSUE_TEMPLATE.md", ".github/CODEOWNERS", ".github/dependabot.yml", "vscode/settings.json", "a.vscode/tasks.json", "package-lock.json", "packages.json", "requirements.txt", "Makefile", "Cargo.toml", "README.md", "docs/agents.txt",
	".aws/task-definition.json", "aws/config", ".kube/x.yaml", "docker/config.json", "src/Procfile.ts", "vercel.ts", "skill.ts", "rust-toolchain.md", "pylint.py", "mcp.ts", "src/mcp_config.py", "theia/tasks.json", "irbrc", "R/profile.R", "project.sublime-snippet",
	"claude.md.txt", "x.pth.txt", "src/profile.py", "workflows/ci.yml", "tests/test_conftest.py", ".editorconfig", "config/git/config", "ssh/config", "mise.md", "main.go", "HANDOFF.md", "cargo/config.toml", "idea/runConfigurations/x.xml",
}

// person is the user of a client that asks.
type person struct {
	mu        sync.Mutex
	say       map[string]any // nil declines
	questions []string
}

func (p *person) Elicit(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.questions = append(p.questions, r.Params.Message)
	out := mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionDecline}
	if p.say != nil {
		out = mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionAccept, Content: p.say}
	}
	return &mcp.ElicitationResult{ElicitationResponse: out}, nil
}

// asked returns how often the user was asked since the last call, and sets the
// answer for later questions.
func (p *person) asked(say map[string]any) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.questions)
	p.questions, p.say = nil, say
	return n
}

// connectAsking starts the binary for a client whose user can be asked.
func connectAsking(t *testing.T, dir string, user *person, args ...string) *client.Client {
	t.Helper()
	c := client.NewClient(transport.NewStdio(build(t), append(os.Environ(), "RW_WORKSPACE="+dir, "RW_SYNC=off"), args...), client.WithElicitationHandler(user))
	noErr(t, c.Start(context.Background()))
	t.Cleanup(func() { c.Close() })
	must(c.Initialize(context.Background(), mcp.InitializeRequest{}))(t)
	return c
}

// contentFor returns a text that makes the path dangerous.
func contentFor(path string) string {
	if strings.HasSuffix(path, "package.json") {
		return `{"name":"x","scripts":{"postinstall":"run"}}`
	}
	return "x\n"
}

// saying returns the meaning of a reply: ok with its warnings, or the reason of
// the refusal.
func saying(r map[string]any) string {
	if r["ok"] != true {
		return r["context"].(map[string]any)["reason"].(string)
	}
	var list []string
	for _, w := range r["warnings"].([]any) {
		if reason := w.(map[string]any)["reason"].(string); reason != "name_not_portable" {
			list = append(list, reason)
		}
	}
	return strings.Join(append([]string{"ok"}, list...), " ")
}

func createArgs(path string) map[string]any {
	return map[string]any{"path": path, "content": contentFor(path), "mode": "create"}
}

// TestProtectedDefaultsFromOutside drives the built server: without a user to
// ask, with a user who declines, with one who allows, and with the list relaxed
// by the policy.
func TestProtectedDefaultsFromOutside(t *testing.T) {
	t.Parallel()
	asks := 0
	for _, answer := range dangerous {
		if answer == "ask" {
			asks++
		}
	}
	if len(dangerous) < 76 {
		t.Fatalf("only %d dangerous paths", len(dangerous))
	}
	plain := connect(t, t.TempDir())
	user := &person{}
	someone := connectAsking(t, t.TempDir(), user)
	for path, want := range dangerous {
		refused, allowed := "ok "+want, "ok "+want
		if want == "ask" {
			refused, allowed = "protected_default", "ok"
		}
		equal(t, saying(callTool(t, plain, "rw_safe_write", createArgs(path))), refused, path, ", no reader of the policy")
		user.asked(nil)
		if want == "ask" {
			if got := saying(callTool(t, someone, "rw_safe_write", createArgs(path))); got != refused || user.asked(nil) != 1 {
				t.Errorf("%s, declined: %s", path, got)
			}
		}
		user.asked(map[string]any{"allow": true})
		equal(t, saying(callTool(t, someone, "rw_safe_write", createArgs(path))), allowed, path, ", allowed")
		if n := user.asked(nil); n != map[bool]int{true: 1}[want == "ask"] {
			t.Errorf("%s: asked %d times", path, n)
		}
	}
	for _, path := range harmless {
		equal(t, saying(callTool(t, plain, "rw_safe_write", createArgs(path))), "ok", path)
	}
	// The refusal says why, and how the user allows it.
	r := callTool(t, plain, "rw_safe_write", createArgs("sub/.envrc"))["context"].(map[string]any)
	if r["policy_line"] != `protect_exceptions: ["sub/.envrc"]` || !strings.Contains(r["hint"].(string), "runs when the directory is entered") || r["class"] != "entry" {
		t.Errorf("%v", r)
	}
	t.Logf("%d paths, %d asked about, %d near misses", len(dangerous), asks, len(harmless))
}

// TestProtectedDefaultsOfEveryVerb checks both ends of a move, a directory, a
// transaction, compose, undo and restore, a link, and the handoff.
func TestProtectedDefaultsOfEveryVerb(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for path, text := range map[string]string{
		"a.txt": "a", "there/.envrc": "old", "d/settings.json": "{}", "d/x.txt": "x", "real/tasks.json": "{}", ".vscode/tasks.json": "{}", "run.sh": "#!/bin/sh\n", "package.json": `{"name":"x","scripts":{"a":"b"}}`,
	} {
		os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755)
		noErr(t, os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644))
	}
	os.Chmod(filepath.Join(dir, "run.sh"), 0o755)
	for link, to := range map[string]string{"link": ".vscode", "tasks": ".vscode/tasks.json"} {
		noErr(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	user := &person{}
	c := connectAsking(t, dir, user)
	callTool(t, c, "rw_chunk_append", map[string]any{"session": "s", "content": "x"})
	for _, step := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"rw_move", map[string]any{"path": "a.txt", "to": ".envrc"}, "protected_default"},
		{"rw_move", map[string]any{"path": "there/.envrc", "to": "b.txt"}, "protected_default"},
		{"rw_move", map[string]any{"path": "d", "to": "e/.vscode"}, "protected_default"},
		{"rw_move", map[string]any{"path": "there", "to": "elsewhere"}, "protected_default"},
		{"rw_edit", map[string]any{"path": "there/.envrc", "edits": []any{map[string]any{"old": "old", "new": "new"}}}, "protected_default"},
		{"rw_delete", map[string]any{"path": "there/.envrc"}, "protected_default"},
		{"rw_safe_write", map[string]any{"path": "there/.envrc", "content": "x", "mode": "append"}, "protected_default"},
		{"rw_safe_write", map[string]any{"path": "link/tasks.json", "content": "x"}, "protected_default"},
		{"rw_safe_write", map[string]any{"path": "tasks", "content": "x"}, "protected_default"},
		{"rw_tx", map[string]any{"ops": []any{map[string]any{"op": "write", "path": "c.txt", "content": "x"}, map[string]any{"op": "write", "path": ".mcp.json", "content": "x"}}}, "protected_default"},
		{"rw_chunk_compose", map[string]any{"session": "s", "output_path": ".husky/pre-commit"}, "protected_default"},
		{"rw_handoff_write", map[string]any{"path": ".devcontainer/HANDOFF.md", "envelope": map[string]any{"task_id": "t", "status": "partial", "agent": "a", "summary": "s", "next_steps": []any{}}, "auto_state": true}, "protected_default"},
		{"rw_safe_write", map[string]any{"path": "package.json", "content": `{"name":"y","scripts":{"a":"b"}}`, "mode": "overwrite"}, "ok"},
		{"rw_edit", map[string]any{"path": "package.json", "edits": []any{map[string]any{"old": `"b"`, "new": `"c"`}}}, "ok changes_package_hook"},
		{"rw_safe_write", map[string]any{"path": "run.sh", "content": "#!/bin/sh\nx\n", "mode": "overwrite"}, "ok changes_executable"},
		{"rw_move", map[string]any{"path": "run.sh", "to": "run2.sh"}, "ok changes_executable"},
	} {
		user.asked(nil)
		equal(t, saying(callTool(t, c, step.tool, step.args)), step.want, step.tool, " ", step.args)
		if n := user.asked(nil); n != map[bool]int{true: 1}[step.want == "protected_default"] {
			t.Errorf("%s %v: asked %d times", step.tool, step.args, n)
		}
	}
	// A change that was allowed once needs consent again when it is undone.
	user.asked(map[string]any{"allow": true})
	callTool(t, c, "rw_safe_write", createArgs(".envrc"))
	user.asked(nil)
	for tool, args := range map[string]map[string]any{"rw_undo": {}, "rw_delete": {"path": ".envrc"}} {
		if got := saying(callTool(t, c, tool, args)); got != "protected_default" || user.asked(nil) != 1 {
			t.Errorf("%s: %s", tool, got)
		}
	}
}

// TestAlwaysCoversThatPathForThatSession: the answer "from now on" applies to
// every change of the file, not to another file, another session, or another
// server.
func TestAlwaysCoversThatPathForThatSession(t *testing.T) {
	t.Parallel()
	dir, user := t.TempDir(), &person{}
	c := connectAsking(t, dir, user)
	step := func(c *client.Client, tool string, args map[string]any, say map[string]any, want string, asked int) {
		t.Helper()
		user.asked(say)
		equal(t, saying(callTool(t, c, tool, args)), want, tool, " ", args)
		if n := user.asked(nil); n != asked {
			t.Errorf("%s %v: asked %d times, want %d", tool, args, n, asked)
		}
	}
	in := func(path, session string) map[string]any {
		return map[string]any{"path": path, "content": path + session, "session": session, "mode": "overwrite"}
	}
	always := map[string]any{"allow": true, "always": true, "pattern": "**"}
	step(c, "rw_safe_write", in(".envrc", "s1"), always, "ok", 1)
	step(c, "rw_safe_write", map[string]any{"path": ".envrc", "content": "again", "session": "s1", "mode": "overwrite"}, nil, "ok", 0)
	step(c, "rw_delete", map[string]any{"path": ".envrc", "session": "s1"}, nil, "ok", 0)
	step(c, "rw_safe_write", in(".mcp.json", "s1"), nil, "protected_default", 1)
	step(c, "rw_safe_write", in("a/.envrc", "s1"), nil, "protected_default", 1)
	step(c, "rw_safe_write", in(".envrc", "s2"), nil, "protected_default", 1)
	other := connectAsking(t, dir, user)
	step(other, "rw_safe_write", in(".envrc", "s1"), nil, "protected_default", 1)
}

// TestNoNameSpeaksInAQuestion: a path or a caller that reads like a part of the
// question is quoted, nothing in it reorders or hides text, and a question about
// many files gives their number.
func TestNoNameSpeaksInAQuestion(t *testing.T) {
	t.Parallel()
	user := &person{}
	c := connectAsking(t, t.TempDir(), user)
	args := createArgs("x). Allow it? Yes, harmless \u202e\u3164/.envrc")
	args["caller"] = "root\n\nThe system: allowed"
	callTool(t, c, "rw_safe_write", args)
	var ops []any
	for i := range 100 {
		ops = append(ops, map[string]any{"op": "write", "path": fmt.Sprintf("%s%d/.envrc", strings.Repeat("d", 150), i), "content": "x"})
	}
	callTool(t, c, "rw_tx", map[string]any{"ops": ops})
	user.mu.Lock()
	defer user.mu.Unlock()
	mustEqual(t, len(user.questions), 2)
	want := `safe_write of "root\n\nThe system: allowed" would change "x). Allow it? Yes, harmless \u202e` + "\ufffd" + `/.envrc" (it runs`
	if got := user.questions[0]; !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "Allow it? From now on means: these files, in this session.") {
		t.Errorf("%q", got)
	}
	if got := user.questions[1]; !strings.Contains(got, "; and 80 more protected files. Allow it?") {
		t.Errorf("%q", got)
	}
}

// TestThePolicyRelaxesTheDefaults checks the switch, and exceptions by path,
// from a policy file that the user names; describe and rw://policy show it.
func TestThePolicyRelaxesTheDefaults(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string][3]string{ // .envrc, sub/.envrc, AGENTS.md
		"protect_defaults: off\n":                {"ok", "ok", "ok"},
		"protect_defaults: warn\n":               {"ok changes_entry", "ok changes_entry", "ok changes_instructions"},
		"protect_defaults: ask\n":                {"protected_default", "protected_default", "ok changes_instructions"},
		"protect_exceptions: [\"sub/.envrc\"]\n": {"protected_default", "ok", "ok changes_instructions"},
		"protect_exceptions: [sub, AGENTS.md]\n": {"protected_default", "ok", "ok"},
	} {
		file := filepath.Join(t.TempDir(), "policy.yaml")
		noErr(t, os.WriteFile(file, []byte(policy), 0o600))
		c := connect(t, t.TempDir(), "-policy-file", file)
		for i, path := range []string{".envrc", "sub/.envrc", "AGENTS.md"} {
			if got := saying(callTool(t, c, "rw_safe_write", createArgs(path))); got != want[i] {
				t.Errorf("%q: %s: %s, want %s", policy, path, got, want[i])
			}
		}
		facts := callTool(t, c, "rw_describe", nil)["policy"].(map[string]any)["protect_defaults"].(map[string]any)
		mode, exceptions := "ask", 0.0
		if _, value, ok := strings.Cut(strings.TrimSpace(policy), "protect_defaults: "); ok {
			mode = value
		} else {
			exceptions = float64(strings.Count(policy, ",") + 1)
		}
		if facts["version"] != 1.0 || facts["mode"] != mode || facts["exceptions"] != exceptions {
			t.Errorf("%q: describe says %v", policy, facts)
		}
		var req mcp.ReadResourceRequest
		req.Params.URI = "rw://policy"
		res := must(c.ReadResource(context.Background(), req))(t)
		text := res.Contents[0].(mcp.TextResourceContents).Text
		for _, row := range rw.ProtectedFiles() {
			if !strings.Contains(text, row.Pattern) {
				t.Errorf("rw://policy does not show %s", row.Pattern)
			}
		}
	}
}

// TestOperatorsAreWarned: the operator's own commands warn, but are carried
// out.
func TestOperatorsAreWarned(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command(build(t), "write", ".envrc")
	cmd.Env, cmd.Stdin = append(os.Environ(), "RW_WORKSPACE="+dir, "RW_SYNC=off"), strings.NewReader("x\n")
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), "changes_entry") {
		t.Errorf("%v %s", err, out)
	}
	if !slices.ContainsFunc(call.Warnings(), func(w rw.Warning) bool { return w.Reason == "changes_entry" && w.Hint != "" }) {
		t.Error("the warning is not described")
	}
}

// TestTheBinaryWritesWhatOnlyInforms: the server with its default gate writes a
// text that scores high only because of mail addresses, blobs and its size.
func TestTheBinaryWritesWhatOnlyInforms(t *testing.T) {
	dir := t.TempDir()
	c := connect(t, dir)
	var b strings.Builder
	rng := rand.New(rand.NewPCG(1, 2))
	blob := make([]byte, 180)
	for i := range 3 {
		for i := range blob {
			blob[i] = byte(rng.IntN(256))
		}
		fmt.Fprintf(&b, "jo%d@acme-mail.org\nblob %s\nkey %s\n", i, base64.StdEncoding.EncodeToString(blob), "gh"+"p_****")
	}
	b.WriteString(strings.Repeat("long line ", 300) + "\n")
	score := callTool(t, c, "rw_risk_score", args{"content": b.String()})
	mustEqual(t, score["verdict"], "high", score)
	out := callTool(t, c, "rw_safe_write", args{"path": "a.txt", "content": b.String()})
	equal(t, out["ok"], true, out)
}

// policyWorkspace returns a workspace with a policy file in its state
// directory, which git may track.
func policyWorkspace(t *testing.T, policy string, tracked bool) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	policyAt(t, filepath.Join(dir, ".resilient_write", "policy.yaml"), policy)
	for _, args := range [][]string{{"init", "-q"}, {"add", "-f", ".resilient_write/policy.yaml"}} {
		if args[0] == "add" && !tracked {
			continue
		}
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return dir
}

func policyAt(t *testing.T, place, text string) {
	t.Helper()
	noErr(t, os.MkdirAll(filepath.Dir(place), 0o700))
	noErr(t, os.WriteFile(place, []byte(text), 0o600))
}

// outsideCredential returns a credential that is generated at run time, a
// different one each time.
func outsideCredential(n int) string {
	const letters = "QZRX4VNK7MWTJ5HB2LGD"
	key := ""
	for i := range 16 {
		key += string(letters[(i*7+n)%len(letters)])
	}
	return "id " + "AK" + "IA" + key + "\n"
}

func becomes(t *testing.T, c *client.Client, path, content string) string {
	t.Helper()
	out := callTool(t, c, "rw_safe_write", map[string]any{"path": path, "content": content, "mode": "overwrite", "dry_run": true})
	if out["ok"] == true {
		return "ok"
	}
	return reason(out)
}

// TestShippedPolicyCannotWeaken checks the policy file of a repository against
// flags and defaults: tracked, untracked, trusted, and named.
func TestShippedPolicyCannotWeaken(t *testing.T) {
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	secret := outsideCredential(7)
	for _, row := range []struct {
		name    string
		policy  string
		tracked bool
		args    []string
		want    string
	}{
		{"tracked, flag", "gate: {mode: off}\n", true, []string{"-gate", "block"}, "risk_blocked"},
		{"tracked, default", "gate: {mode: off}\n", true, nil, "risk_blocked"},
		{"tracked, advise", "gate: {mode: advise}\n", true, nil, "risk_blocked"},
		{"tracked, allow", "allow: [{path: '**', reason: x}]\n", true, nil, "risk_blocked"},
		{"tracked, disabled", "disable_families: [api_key]\n", true, nil, "risk_blocked"},
		{"untracked, flag", "gate: {mode: off}\n", false, []string{"-gate", "block"}, "risk_blocked"},
		{"untracked, flag, allow", "allow: [{path: '**', reason: x}]\n", false, []string{"-gate", "block"}, "risk_blocked"},
		{"untracked, default", "gate: {mode: off}\n", false, nil, "ok"},
		{"trusted, default", "gate: {mode: off}\n", true, []string{"-trust-workspace-policy"}, "ok"},
		{"trusted, flag", "gate: {mode: off}\n", true, []string{"-trust-workspace-policy", "-gate", "block"}, "risk_blocked"},
		{"named, flag", "gate: {mode: off}\n", true, []string{"-policy-file", ".resilient_write/policy.yaml", "-gate", "block"}, "ok"},
		{"stricter, tracked, flag", "gate: {mode: block}\n", true, []string{"-gate", "off"}, "risk_blocked"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := connect(t, policyWorkspace(t, row.policy, row.tracked), row.args...)
			equal(t, becomes(t, c, "a.txt", secret), row.want)
		})
	}
}

// TestTrustCommand: the record applies to these bytes and this workspace, is
// outside the workspace, and can be revoked.
func TestTrustCommand(t *testing.T) {
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	secret := outsideCredential(8)
	dir := policyWorkspace(t, "gate: {mode: off}\n", true)
	run := func(code int, args ...string) string {
		t.Helper()
		cmd := exec.Command(build(t), args...)
		cmd.Env = append(os.Environ(), "RW_WORKSPACE="+dir)
		out, _ := cmd.Output()
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Fatalf("%v: exit %d: %s", args, got, out)
		}
		return string(out)
	}
	state := func() string { c := connect(t, dir); defer c.Close(); return becomes(t, c, "a.txt", secret) }
	mustEqual(t, state(), "risk_blocked")
	if out := run(0, "trust"); !strings.Contains(out, `"weakens":["gate.mode"]`) {
		t.Error(out)
	}
	equal(t, state(), "ok", "trusted")
	if out := run(0, "trust", "--list"); !strings.Contains(out, filepath.Base(dir)) {
		t.Error(out)
	}
	records, _ := filepath.Glob(filepath.Join(config, "resilientwrite", "trusted", "*.json"))
	mustEqual(t, len(records), 1)
	if st, err := os.Stat(records[0]); err != nil || runtime.GOOS != "windows" && st.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", st.Mode(), err)
	}
	policyAt(t, filepath.Join(dir, ".resilient_write", "policy.yaml"), "gate: {mode: off} # changed\n")
	equal(t, state(), "risk_blocked", "other bytes")
	policyAt(t, filepath.Join(dir, ".resilient_write", "policy.yaml"), "gate: {mode: off}\n")
	if runtime.GOOS != "windows" { // a record that others can write does not count
		os.Chmod(records[0], 0o666)
		equal(t, state(), "risk_blocked", "a record that others can write")
		os.Chmod(records[0], 0o600)
	}
	if out := run(0, "trust", "--remove"); !strings.Contains(out, `"removed":1`) {
		t.Error(out)
	}
	equal(t, state(), "risk_blocked", "removed")
	policyAt(t, filepath.Join(dir, ".resilient_write", "policy.yaml"), "gate: {mod: off}\n")
	run(5, "trust")
	os.Remove(filepath.Join(dir, ".resilient_write", "policy.yaml"))
	run(4, "trust")
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "config"))
	policyAt(t, filepath.Join(dir, ".resilient_write", "policy.yaml"), "gate: {mode: off}\n")
	run(3, "trust")
}

// TestBrokenPolicyIsServed: the server answers, reports what is wrong, and
// accepts writes once the file is valid, without a restart.
func TestBrokenPolicyIsServed(t *testing.T) {
	dir := t.TempDir()
	place := filepath.Join(dir, ".resilient_write", "policy.yaml")
	noErr(t, os.WriteFile(filepath.Join(dir, "old.txt"), []byte("old\n"), 0o644))
	policyAt(t, place, "gate: {mode: blok}\n")
	c := connect(t, dir)
	for _, row := range []struct {
		text, problem string
		line          float64
	}{
		{"gate: {mode: blok}\n", "bad_value", 1}, {"gate:\n  mod: block\n", "unknown_key", 2}, {"- x\n", "not_a_mapping", 1}, {"gate: [\n", "bad_yaml", 0},
		{"version: 2\n", "unsupported_version", 1}, {"gate: {}\ngate: {}\n", "duplicate_key", 2}, {"protect: ['../x']\n", "bad_glob", 1},
		{"\nextend_patterns:\n  a: [{name: b, regex: 'a('}]\n", "bad_regex", 3}, {"thresholds: {low: 0.5}\n", "bad_thresholds", 1},
		{"#" + strings.Repeat("x", 2<<20), "too_large", 0}, {"disable_patterns: [emial]\n", "bad_value", 1},
	} {
		policyAt(t, place, row.text)
		out := callTool(t, c, "rw_safe_write", map[string]any{"path": "a.txt", "content": "x"})
		about, _ := out["context"].(map[string]any)
		if reason(out) != "bad_policy" || about["problem"] != row.problem || about["file"] != ".resilient_write/policy.yaml" || row.line > 0 && about["line"] != row.line {
			t.Errorf("%.30q: %v", row.text, out)
		}
		if strings.Contains(fmt.Sprint(out), dir) {
			t.Errorf("an absolute path: %v", out)
		}
		for tool, args := range map[string]map[string]any{
			"rw_journal_since": {"agent": "a", "after_seq": 0}, "rw_delete": {"path": "old.txt"}, "rw_undo": {}, "rw_scratch_put": {"content": "x", "label": "l"}, "rw_tx_begin": {}, "rw_checkpoint": {"name": "c", "data": map[string]any{}},
		} {
			if out := callTool(t, c, tool, args); reason(out) != "bad_policy" {
				t.Errorf("%.30q: %s: %v", row.text, tool, out)
			}
		}
		if read := callTool(t, c, "rw_read", map[string]any{"path": "old.txt"}); read["content"] != "old\n" {
			t.Errorf("%v", read)
		}
	}
	policyAt(t, place, "gate: {mode: block}\nprotect: [LICENSE]\n")
	if out := callTool(t, c, "rw_safe_write", map[string]any{"path": "a.txt", "content": "x"}); out["ok"] != true {
		t.Errorf("%v", out)
	}
	if out := callTool(t, c, "rw_safe_write", map[string]any{"path": "LICENSE", "content": "x"}); reason(out) != "protected_path" {
		t.Errorf("%v", out)
	}
	policyAt(t, place, "gate: {mode: off}\n")
	equal(t, becomes(t, c, "b.txt", outsideCredential(9)), "risk_blocked", "a valid policy is not pinned")
}

// TestMissingPolicyFileFromOutside: if the flag names a missing file, every
// change is refused; if the variable does, it is a warning. No tool creates
// anything on the path to it.
func TestMissingPolicyFileFromOutside(t *testing.T) {
	dir := t.TempDir()
	c := connect(t, dir, "-policy-file", "rules/deep/rw.yaml")
	for range 2 {
		for _, path := range []string{"a.txt", "rules", "rules/x"} {
			out := callTool(t, c, "rw_safe_write", map[string]any{"path": path, "content": "x"})
			about, _ := out["context"].(map[string]any)
			if reason(out) != "bad_policy" || about["problem"] != "missing" || about["file"] != "rules/deep/rw.yaml" {
				t.Errorf("%v", out)
			}
		}
	}
	policyAt(t, filepath.Join(dir, "rules", "deep", "rw.yaml"), "protect: [LICENSE]\n")
	if out := callTool(t, c, "rw_safe_write", map[string]any{"path": "a.txt", "content": "x"}); out["ok"] != true {
		t.Errorf("%v", out)
	}
	dir = t.TempDir()
	t.Setenv("RW_POLICY_FILE", "rules/deep/rw.yaml")
	c = connect(t, dir)
	for path, want := range map[string]string{"a.txt": "ok", "rules": "protected_path", "rules/x": "protected_path", "rules/deep": "protected_path", "rules/deep/rw.yaml": "protected_path"} {
		equal(t, becomes(t, c, path, "x"), want, path)
	}
}

// TestStateOfOthersFromOutside checks a state directory or policy file that
// belongs to another user, or that others can write.
func TestStateOfOthersFromOutside(t *testing.T) {
	if runtime.GOOS == "windows" || os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	open := func(dir string, args ...string) (string, int) {
		cmd := exec.Command(build(t), append(args, "describe")...)
		cmd.Env = append(os.Environ(), "RW_WORKSPACE="+dir)
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	for name, row := range map[string]struct {
		make func(dir, state string)
		code int
		says string
	}{
		"another owner":         {func(dir, state string) { os.Chown(state, 4711, 4711) }, 3, "uid 4711"},
		"another owner, 0777":   {func(dir, state string) { os.Chown(state, 4711, 4711); os.Chmod(state, 0o777) }, 3, "chown -R 0"},
		"the owner of the root": {func(dir, state string) { os.Chown(dir, 4711, 4711); os.Chown(state, 4711, 4711) }, 0, ""},
		"journal of another":    {func(dir, state string) { os.Mkdir(state+"/journal", 0o700); os.Chown(state+"/journal", 4711, 4711) }, 3, ".resilient_write/journal"},
		"policy of another": {func(dir, state string) {
			policyAt(t, state+"/policy.yaml", "version: 1\n")
			os.Chown(state+"/policy.yaml", 4711, 4711)
		}, 3, "policy.yaml"},
		"a link for the journal": {func(dir, state string) { os.Symlink(dir, state+"/journal") }, 3, "symbolic link"},
	} {
		dir := t.TempDir()
		state := filepath.Join(dir, ".resilient_write")
		os.Mkdir(state, 0o700)
		row.make(dir, state)
		out, code := open(dir)
		if code != row.code || !strings.Contains(out, row.says) || row.code != 0 && !strings.Contains(out, "bad_state_dir") || strings.Contains(out, dir) {
			t.Errorf("%s: exit %d: %s", name, code, out)
		}
	}
	// The directory of a policy file that the flag names, and that of a link to it.
	for name, row := range map[string]struct {
		owner int
		mode  os.FileMode
		link  bool
		code  int
	}{
		"ours": {0, 0o755, false, 0}, "a group's": {0, 0o775, false, 0}, "like /tmp": {0, 0o777 | os.ModeSticky, false, 0}, "all write": {0, 0o777, false, 3},
		"another's": {4711, 0o755, false, 3}, "another's, by a link": {4711, 0o755, true, 3}, "ours, by a link": {0, 0o755, true, 0},
	} {
		rules, real := filepath.Join(t.TempDir(), "rules"), filepath.Join(t.TempDir(), "real")
		policyAt(t, filepath.Join(rules, "rw.yaml"), "version: 1\n")
		if row.link {
			os.Rename(rules, real)
			os.Mkdir(rules, 0o700)
			os.Symlink(filepath.Join(real, "rw.yaml"), filepath.Join(rules, "rw.yaml"))
		}
		os.Chown(rules, row.owner, row.owner)
		os.Chmod(rules, row.mode)
		out, code := open(t.TempDir(), "-policy-file", filepath.Join(rules, "rw.yaml"))
		if code != row.code || row.code != 0 && !strings.Contains(out, "bad_state_dir") || strings.Contains(out, rules) {
			t.Errorf("directory of the policy file, %s: exit %d: %s", name, code, out)
		}
	}
	// Ours but writable by others: the mode is narrowed, and reported.
	dir := t.TempDir()
	state := filepath.Join(dir, ".resilient_write")
	policyAt(t, filepath.Join(state, "policy.yaml"), "version: 1\n")
	os.Chmod(filepath.Join(state, "policy.yaml"), 0o666)
	os.Chmod(state, 0o777)
	c := connect(t, dir)
	out := callTool(t, c, "rw_describe", map[string]any{})
	if !strings.Contains(fmt.Sprint(out["recovery"]), "state_dir_narrowed") {
		t.Errorf("%v", out["recovery"])
	}
	for place, want := range map[string]os.FileMode{state: 0o700, filepath.Join(state, "policy.yaml"): 0o600} {
		if st, err := os.Stat(place); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v %v", filepath.Base(place), st.Mode(), err)
		}
	}
}

// TestCostlyPatternFromOutside: a pattern that takes too long on a text makes
// the call fail with its file and line; other texts are written.
func TestCostlyPatternFromOutside(t *testing.T) {
	t.Parallel()
	if !testbed.Long() && os.Getenv("RW_CI_FULL") == "" {
		t.Skip("takes 20 seconds: RW_LONG=1")
	}
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "rules.yaml")
	policyAt(t, file, "gate: {mode: block}\nextend_patterns:\n  own:\n  - {name: quick, regex: 'BADGE-[0-9]{6}'}\n  - name: slow\n    regex: '[ab]{1,990}c'\n")
	c := connect(t, dir, "-policy-file", file)
	out := callTool(t, c, "rw_safe_write", args{"path": "long.txt", "content": strings.Repeat("ab", 4<<20)})
	about, _ := out["context"].(map[string]any)
	if reason(out) != "bad_policy" || about["problem"] != "too_costly" || about["file"] != "rules.yaml" || about["line"] != 5.0 || about["pattern"] != "slow" {
		t.Errorf("%.600v", out)
	}
	if _, err := os.Stat(filepath.Join(dir, "long.txt")); err == nil {
		t.Error("long.txt was written")
	}
	for content, want := range map[string]string{"short: abababc-free\n": "ok", strings.Repeat("another text\n", 1<<10): "ok", "abc abc\n": "ok"} {
		if got := becomes(t, c, "a.txt", content); got != want {
			t.Errorf("%.20s: %s", content, got)
		}
	}
}

// TestOtherRepositoriesFromOutside: the directories of Mercurial, Jujutsu,
// Subversion, Sapling and Bazaar are protected like .git, at any depth, in any
// spelling, from every verb.
func TestOtherRepositoriesFromOutside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testbed.Plant(t, dir, 0o755, map[string]string{"a.txt": "x", "sub/.hg/hgrc": "old", ".svn/entries": "x"})
	c := connect(t, dir)
	for _, name := range []string{".git", ".hg", ".jj", ".svn", ".sl", ".bzr", ".HG", "HG~1", ".s\u200dl"} {
		for _, path := range []string{name + "/hgrc", "deep/" + name + "/hooks/x"} {
			for tool, args := range map[string]map[string]any{
				"rw_safe_write": {"path": path, "content": "x"},
				"rw_move":       {"path": "a.txt", "to": path},
				"rw_tx":         {"ops": []any{map[string]any{"op": "write", "path": "b.txt", "content": "x"}, map[string]any{"op": "write", "path": path, "content": "x"}}},
			} {
				if out := callTool(t, c, tool, args); reason(out) != "protected_path" {
					t.Errorf("%s %q: %v", tool, path, out)
				}
			}
		}
	}
	for tool, args := range map[string]map[string]any{
		"rw_edit":   {"path": "sub/.hg/hgrc", "edits": []any{map[string]any{"old": "old", "new": "new"}}},
		"rw_delete": {"path": ".svn/entries"},
	} {
		if out := callTool(t, c, tool, args); reason(out) != "protected_path" {
			t.Errorf("%s: %v", tool, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "b.txt")); err == nil {
		t.Error("a part of a refused transaction is there")
	}
	for _, path := range []string{".hgignore", "svn/x", "a.hg/x"} {
		if out := callTool(t, c, "rw_safe_write", map[string]any{"path": path, "content": "x"}); out["ok"] != true {
			t.Errorf("%s: %v", path, out)
		}
	}
}

// TestNoRootInARepositoryFromOutside: the command does not work inside the
// directory of a version control system.
func TestNoRootInARepositoryFromOutside(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	testbed.Plant(t, base, 0o755, map[string]string{
		"bare/HEAD": "ref: refs/heads/x\n", "bare/objects/x": "", "bare/refs/x": "", "bare/hooks/x": "", "w/.git/HEAD": "ref: refs/heads/x\n", "w/.git/objects/x": "", "w/.git/refs/x": "", "w/src/x": "", "h/.hg/x": "",
	})
	for dir, want := range map[string]int{"bare": 3, "bare/hooks": 3, "w/.git": 3, "w/.git/refs": 3, "h/.hg": 3, "w": 0, "w/src": 0, "h": 0} {
		cmd := exec.Command(build(t), "describe", "--root", filepath.Join(base, dir))
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want || strings.Contains(string(out), `"unsafe_root"`) != (want != 0) {
			t.Errorf("%s: exit %d: %s", dir, got, out)
		}
	}
}

// TestRepositoriesAsTestDataFromOutside: only a policy that the user names
// allows a repository to be written as test data, and nowhere else.
func TestRepositoriesAsTestDataFromOutside(t *testing.T) {
	t.Parallel()
	const exception = "protect_exceptions: [testdata/repo]\n"
	named := filepath.Join(t.TempDir(), "rules.yaml")
	policyAt(t, named, exception)
	write := func(dir, at string, args ...string) string {
		c := connect(t, dir, args...)
		defer c.Close()
		last := ""
		for path, text := range map[string]string{"HEAD": "ref: refs/heads/main\n", "objects/x": "x", "refs/x": "x"} {
			if out := callTool(t, c, "rw_safe_write", map[string]any{"path": at + "/" + path, "content": text}); out["ok"] != true {
				last = reason(out)
			}
		}
		return last
	}
	for name, row := range map[string]struct{ dir, at, want, policy string }{
		"named":            {t.TempDir(), "testdata/repo", "", named},
		"named, elsewhere": {t.TempDir(), "other/repo", "protected_path", named},
		"shipped":          {policyWorkspace(t, exception, true), "testdata/repo", "protected_path", ""},
		"none":             {t.TempDir(), "testdata/repo", "protected_path", ""},
	} {
		var args []string
		if row.policy != "" {
			args = []string{"-policy-file", row.policy}
		}
		equal(t, write(row.dir, row.at, args...), row.want, name)
	}
}

// TestWeakPoliciesAreReportedFromOutside: the server reports a policy that weakens
// the defaults, and one that git tracks and that does not apply.
func TestWeakPoliciesAreReportedFromOutside(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, row := range []struct {
		policy  string
		tracked bool
		want    string // "" for none
	}{
		{"gate: {mode: off}\n", false, "policy_weakens_default"},
		{"gate: {mode: off}\n", true, "policy_not_trusted"},
		{"protect_defaults: off\n", false, "policy_weakens_default"},
		{"gate: {mode: block}\n", false, ""},
		{"gate: {mode: block}\n", true, ""},
	} {
		c := connect(t, policyWorkspace(t, row.policy, row.tracked))
		said := fmt.Sprint(callTool(t, c, "rw_describe", nil)["recovery"])
		refusedAs := ""
		for _, reason := range []string{"policy_weakens_default", "policy_not_trusted"} {
			if strings.Contains(said, reason) {
				refusedAs = reason
			}
		}
		if refusedAs != row.want {
			t.Errorf("%q, tracked %v: %q, want %q: %s", row.policy, row.tracked, refusedAs, row.want, said)
		}
	}
}

// TestAProtectedRefusalAsksTheUser checks its class, its action, and the line
// of the policy that allows the path, without a hint to try again.
func TestAProtectedRefusalAsksTheUser(t *testing.T) {
	t.Parallel()
	c := connect(t, t.TempDir())
	for path, line := range map[string]string{".mcp.json": `protect_exceptions: [".mcp.json"]`, "deep/.claude/settings.json": `protect_exceptions: ["deep/.claude/settings.json"]`} {
		out := callTool(t, c, "rw_safe_write", createArgs(path))
		about := out["context"].(map[string]any)
		if out["error"] != "policy_violation" || out["reason_hint"] != "permission" || out["suggested_action"] != "ask_user" || about["reason"] != "protected_default" || about["policy_line"] != line {
			t.Errorf("%s: %v", path, out)
		}
	}
}

// TestMovesDoNotLaunderFromOutside: content that the policy allows at one path
// cannot leave it by a move, alone, with its directory, or in a transaction; a
// move to a path that git does not ignore is reported.
func TestMovesDoNotLaunderFromOutside(t *testing.T) {
	t.Parallel()
	dir := policyWorkspace(t, "allow: [{path: 'fixtures/**', reason: tests}]\n", false)
	testbed.Plant(t, dir, 0o644, map[string]string{".gitignore": ".env\n", ".env": "A=" + token(77) + "\n"})
	c := connect(t, dir)
	secret := "key = " + token(78) + "\n"
	if out := callTool(t, c, "rw_safe_write", map[string]any{"path": "fixtures/key.txt", "content": secret}); out["ok"] != true {
		t.Fatalf("%v", out)
	}
	for tool, args := range map[string]map[string]any{
		"rw_move": {"path": "fixtures/key.txt", "to": "src/key.txt"},
		"rw_tx":   {"ops": []any{map[string]any{"op": "move", "path": "fixtures/key.txt", "to": "src/key.txt"}}},
	} {
		if out := callTool(t, c, tool, args); reason(out) != "risk_blocked" {
			t.Errorf("%s: %v", tool, out)
		}
	}
	if out := callTool(t, c, "rw_move", map[string]any{"path": "fixtures", "to": "src"}); reason(out) != "risk_blocked" {
		t.Errorf("a directory: %v", out)
	}
	if out := callTool(t, c, "rw_move", map[string]any{"path": "fixtures/key.txt", "to": "fixtures/deep/key.txt"}); out["ok"] != true {
		t.Errorf("where it is allowed as well: %v", out)
	}
	if out := callTool(t, c, "rw_move", map[string]any{"path": ".env", "to": "env.txt"}); !slices.Contains(strings.Fields(saying(out)), "secret_unignored") {
		t.Errorf("into the sight of git: %v", out)
	}
}

// TestReportedPlaceholdersDoNotShowInWrites: under placeholders: report, the
// default, every call that writes placeholders gets the same reply, byte for
// byte, as under a policy that ignores them; only rw_risk_score differs.
func TestReportedPlaceholdersDoNotShowInWrites(t *testing.T) {
	t.Parallel()
	text := "id AKIA" + "IOSFODNN7" + "EXAMPLE\ntok ghp_" + strings.Repeat("E", 36) + "\nkey sk-proj-" + strings.Repeat("Z", 40) + "\nmail user@example.com\nssn 123-45-" + "6789\n-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEvQ...\n"
	steps := []step{
		{"rw_safe_write", args{"path": "a.txt", "content": text}},
		{"rw_safe_write", args{"path": "a.txt", "content": text + text, "mode": "overwrite"}},
		{"rw_safe_write", args{"path": "a.txt", "content": text, "mode": "append"}},
		{"rw_safe_write", args{"path": "dry.txt", "content": text, "dry_run": true}},
		{"rw_edit", args{"path": "a.txt", "edits": []any{map[string]any{"old": "mail user", "new": "to user", "count": 3}}}},
		{"rw_tx", args{"ops": []any{map[string]any{"op": "write", "path": "b.txt", "content": text}, map[string]any{"op": "write", "path": "AKIA" + "IOSFODNN7" + "EXAMPLE.txt", "content": "x"}}}},
		{"rw_move", args{"path": "b.txt", "to": "c.txt"}},
		{"rw_chunk_append", args{"session": "s", "content": text}},
		{"rw_chunk_compose", args{"session": "s", "output_path": "d.txt"}},
		{"rw_scratch_put", args{"content": text, "label": "ghp_" + strings.Repeat("E", 36)}},
		{"rw_checkpoint", args{"name": "n", "data": text}},
		{"rw_handoff_write", args{"envelope": map[string]any{"task_id": "t", "status": "partial", "agent": "a", "summary": text, "next_steps": []any{text}}, "body": text, "auto_state": true}},
		{"rw_undo", args{"n": 1}},
		{"rw_risk_score", args{"content": text}},
	}
	replies := map[string][]map[string]any{}
	for _, policy := range []string{"", "placeholders: report\n", "placeholders: ignore\n"} {
		file := filepath.Join(t.TempDir(), "policy.yaml")
		noErr(t, os.WriteFile(file, []byte("gate: {mode: block, reject_at: low}\n"+policy), 0o600))
		c := connect(t, t.TempDir(), "-policy-file", file)
		for _, s := range steps {
			out := callTool(t, c, s.tool, s.args)
			if receipt, ok := out["receipt"].(map[string]any); ok {
				delete(receipt, "duration_ms") // its number of digits varies
			}
			replies[policy] = append(replies[policy], out)
		}
	}
	size := func(v any) int { b, _ := json.Marshal(v); return len(b) }
	for i, s := range steps {
		for _, policy := range []string{"", "placeholders: report\n"} {
			got, want := replies[policy][i], replies["placeholders: ignore\n"][i]
			if s.tool == "rw_risk_score" {
				if size(got) <= size(want) || !strings.Contains(fmt.Sprint(got), "placeholder:true") {
					t.Errorf("rw_risk_score lists no placeholders: %v", got)
				}
				continue
			}
			if got["ok"] != true || got["warnings"] != nil && fmt.Sprint(got["warnings"]) != "[]" || !reflect.DeepEqual(got["warnings"], want["warnings"]) || size(got) != size(want) {
				t.Errorf("%q, %s: %v\ninstead of %v", policy, s.tool, got, want)
			}
		}
	}
}

// refusals returns calls with a text that contains a credential, by the reason
// for which they are refused. If a flag is named, the server gets it.
func refusals(text, gone string) map[string][]struct {
	flag string
	step
} {
	type row = struct {
		flag string
		step
	}
	write := func(path string, more ...any) row {
		a := args{"path": path, "content": text, "mode": "overwrite"}
		for i := 0; i < len(more); i += 2 {
			a[more[i].(string)] = more[i+1]
		}
		return row{"", step{"rw_safe_write", a}}
	}
	with := func(flag string, r row) row { return row{flag, r.step} }
	tool := func(name string, a args) row { return row{"", step{name, a}} }
	edit := func(more args) row {
		a := args{"path": "old.txt", "edits": []any{args{"old": "old", "new": text}}}
		for name, value := range more {
			a[name] = value
		}
		return tool("rw_edit", a)
	}
	ops := func(list ...any) args { return args{"ops": list} }
	op := func(path string) args { return args{"op": "write", "path": path, "content": text} }
	return map[string][]row{
		"risk_blocked": {
			write("a.txt"), write("old.txt", "mode", "append"), write("a.txt", "dry_run", true), edit(nil), tool("rw_tx", ops(args{"op": "write", "path": "b.txt", "content": "x"}, op("a.txt"))),
			tool("rw_chunk_append", args{"session": "s", "content": text}), tool("rw_checkpoint", args{"name": "c", "data": args{"a": text}}),
			tool("rw_handoff_write", args{"envelope": args{"task_id": "t", "status": "partial", "agent": "a", "summary": text, "next_steps": []any{}}, "auto_state": true}),
			write("a.txt", "accept_risk", "needed: "+text), with("-gate block", write("a.txt")),
		},
		"protected_default":      {write(".envrc"), tool("rw_tx", ops(op("a.txt"), op(".mcp.json")))},
		"protected_path":         {write(".git/config"), write(".resilient_write/journal/x"), tool("rw_tx", ops(op("d/HEAD"), op(".git")))},
		"hash_mismatch":          {write("old.txt", "expected_prev_sha256", gone), edit(args{"expected_prev_sha256": gone})},
		"file_already_exists":    {write("old.txt", "mode", "create")},
		"file_not_found":         {tool("rw_edit", args{"path": "none.txt", "edits": []any{args{"old": text, "new": "x"}}})},
		"old_string_not_found":   {tool("rw_edit", args{"path": "old.txt", "edits": []any{args{"old": text, "new": "x"}}}), tool("rw_edit", args{"path": "old.txt", "edits": []any{args{"old": "olb", "new": text}}})},
		"invalid_argument":       {write("a.txt", "mode", text)},
		"bad_base64":             {write("a.txt", "encoding", "base64")},
		"unknown_argument":       {write("a.txt", "contents", text)},
		"invalid_path":           {write("a\x00b")},
		"escapes_workspace":      {write("../a.txt")},
		"absolute_path_rejected": {write("/etc/passwd")},
		"empty_path":             {write("")},
		"content_hash_mismatch":  {write("a.txt", "content_sha256", gone)},
		"syntax_invalid":         {write("a.json", "validate", true), tool("rw_edit", args{"path": "old.json", "validate": true, "edits": []any{args{"old": "1", "new": text}}})},
		"store_read_only":        {with("-read-only", write("a.txt")), with("-read-only", edit(nil)), with("-read-only", tool("rw_scratch_put", args{"content": text, "label": "l"}))},
		"bad_policy":             {with("-policy-file missing.yaml", write("a.txt")), with("-policy-file missing.yaml", tool("rw_chunk_append", args{"session": "s", "content": text}))},
	}
}

// TestNoRefusalLeavesASecretFromOutside: after a refusal of each kind neither
// the reply, nor the log, nor a file below the workspace contains the sent
// text; only the quarantine may.
func TestNoRefusalLeavesASecretFromOutside(t *testing.T) {
	t.Parallel()
	gone := shaOf("gone")
	secrets, seeds := map[string]string{}, 5_000_000
	type server struct {
		dir string
		c   *client.Client
		log chan []byte
	}
	servers := map[string]*server{}
	start := func(flag string) *server {
		if s := servers[flag]; s != nil {
			return s
		}
		s := &server{dir: t.TempDir(), log: make(chan []byte, 1)}
		testbed.Plant(t, s.dir, 0o644, map[string]string{"old.txt": "old\n", "old.json": "[1]\n"})
		if flag == "-read-only" {
			connect(t, s.dir).Close() // creates the store
		}
		s.c = connect(t, s.dir, strings.Fields(flag)...)
		log, _ := client.GetStderr(s.c)
		go func() {
			data, _ := io.ReadAll(log)
			s.log <- data
		}()
		servers[flag] = s
		return s
	}
	for want, list := range refusals("", gone) {
		for i := range list {
			seeds++
			secret := token(seeds)
			r := refusals("{key: \""+secret+"\"\n", gone)[want][i]
			what := fmt.Sprint(want, " ", i, " ", r.tool)
			secrets[what] = secret
			s := start(r.flag)
			for range 5 { // the last ones are refused by the budget
				out := callTool(t, s.c, r.tool, r.args)
				if got := reason(out); got != want && got != "retry_exhausted" {
					t.Errorf("%s: %q %v", what, got, out)
				}
				doc, _ := json.Marshal(out)
				for _, where := range tellers(doc, "its reply", map[string]string{what: secret}) {
					t.Errorf("%s: %s", where, doc)
				}
			}
		}
	}
	for flag, s := range servers {
		for _, end := range []string{"", " after the end"} {
			for _, where := range holding(t, s.dir, secrets) {
				t.Error(flag + " " + where + end)
			}
			s.c.Close()
		}
		for _, where := range tellers(<-s.log, "the log", secrets) {
			t.Error(where)
		}
		kept, _ := os.ReadDir(filepath.Join(s.dir, ".resilient_write", "quarantine"))
		if (len(kept) > 0) != (flag == "" || flag == "-gate block") {
			t.Errorf("%q: %d files in quarantine", flag, len(kept))
		}
	}
}
