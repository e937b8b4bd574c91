package main_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	rw "github.com/resilientwrite/resilientwrite"
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
	nobody := connect(t, t.TempDir())
	user := &person{}
	someone := connectAsking(t, t.TempDir(), user)
	for path, want := range dangerous {
		refused, allowed := "ok "+want, "ok "+want
		if want == "ask" {
			refused, allowed = "protected_default", "ok"
		}
		if got := saying(call(t, nobody, "rw_safe_write", createArgs(path))); got != refused {
			t.Errorf("%s, nobody: %s", path, got)
		}
		user.asked(nil)
		if want == "ask" {
			if got := saying(call(t, someone, "rw_safe_write", createArgs(path))); got != refused || user.asked(nil) != 1 {
				t.Errorf("%s, declined: %s", path, got)
			}
		}
		user.asked(map[string]any{"allow": true})
		if got := saying(call(t, someone, "rw_safe_write", createArgs(path))); got != allowed {
			t.Errorf("%s, allowed: %s", path, got)
		}
		if n := user.asked(nil); n != map[bool]int{true: 1}[want == "ask"] {
			t.Errorf("%s: asked %d times", path, n)
		}
	}
	for _, path := range harmless {
		if got := saying(call(t, nobody, "rw_safe_write", createArgs(path))); got != "ok" {
			t.Errorf("%s: %s", path, got)
		}
	}
	// The refusal says why, and how the user allows it.
	r := call(t, nobody, "rw_safe_write", createArgs("sub/.envrc"))["context"].(map[string]any)
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
	call(t, c, "rw_chunk_append", map[string]any{"session": "s", "content": "x"})
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
		if got := saying(call(t, c, step.tool, step.args)); got != step.want {
			t.Errorf("%s %v: %s", step.tool, step.args, got)
		}
		if n := user.asked(nil); n != map[bool]int{true: 1}[step.want == "protected_default"] {
			t.Errorf("%s %v: asked %d times", step.tool, step.args, n)
		}
	}
	// A change that was allowed once needs consent again when it is undone.
	user.asked(map[string]any{"allow": true})
	call(t, c, "rw_safe_write", createArgs(".envrc"))
	user.asked(nil)
	for tool, args := range map[string]map[string]any{"rw_undo": {}, "rw_delete": {"path": ".envrc"}} {
		if got := saying(call(t, c, tool, args)); got != "protected_default" || user.asked(nil) != 1 {
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
		if got := saying(call(t, c, tool, args)); got != want {
			t.Errorf("%s %v: %s, want %s", tool, args, got, want)
		}
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
	call(t, c, "rw_safe_write", args)
	var ops []any
	for i := range 100 {
		ops = append(ops, map[string]any{"op": "write", "path": fmt.Sprintf("%s%d/.envrc", strings.Repeat("d", 150), i), "content": "x"})
	}
	call(t, c, "rw_tx", map[string]any{"ops": ops})
	user.mu.Lock()
	defer user.mu.Unlock()
	if len(user.questions) != 2 {
		t.Fatalf("%q", user.questions)
	}
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
			if got := saying(call(t, c, "rw_safe_write", createArgs(path))); got != want[i] {
				t.Errorf("%q: %s: %s, want %s", policy, path, got, want[i])
			}
		}
		facts := call(t, c, "rw_describe", nil)["policy"].(map[string]any)["protect_defaults"].(map[string]any)
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
	if !slices.ContainsFunc(rw.Warnings(), func(w rw.Warning) bool { return w.Reason == "changes_entry" && w.Hint != "" }) {
		t.Error("the warning is not described")
	}
}
