package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

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
func connectAsking(t *testing.T, dir string, user *person) *client.Client {
	t.Helper()
	c := client.NewClient(transport.NewStdio(build(t), append(os.Environ(), "RW_WORKSPACE="+dir, "RW_SYNC=off")), client.WithElicitationHandler(user))
	noErr(t, c.Start(context.Background()))
	t.Cleanup(func() { c.Close() })
	noErr(t, greet(t.Context(), c))
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
	require(t, len(dangerous) >= 76, "only %d dangerous paths", len(dangerous))
	plain := connect(t, t.TempDir())
	user := &person{}
	someone := connectAsking(t, t.TempDir(), user)
	for _, path := range testbed.Share(t, slices.Sorted(maps.Keys(dangerous)), 4, nil) {
		want := dangerous[path]
		refused, allowed := "ok "+want, "ok "+want
		if want == "ask" {
			refused, allowed = "protected_default", "ok"
		}
		equal(t, saying(callTool(t, plain, "rw_safe_write", createArgs(path))), refused, path, ", no reader of the policy")
		user.asked(nil)
		if want == "ask" {
			got := saying(callTool(t, someone, "rw_safe_write", createArgs(path)))
			expect(t, got == refused && user.asked(nil) == 1, "%s, declined: %s", path, got)
		}
		user.asked(map[string]any{"allow": true})
		equal(t, saying(callTool(t, someone, "rw_safe_write", createArgs(path))), allowed, path, ", allowed")
		n := user.asked(nil)
		expect(t, n == map[bool]int{true: 1}[want == "ask"], "%s: asked %d times", path, n)
	}
	for _, path := range harmless {
		equal(t, saying(callTool(t, plain, "rw_safe_write", createArgs(path))), "ok", path)
	}
	// The refusal says why, and how the user allows it.
	out := callTool(t, plain, "rw_safe_write", createArgs("sub/.envrc"))
	r := out["context"].(map[string]any)
	expect(t, r["policy_line"] == `protect_exceptions: ["sub/.envrc"]` && strings.Contains(r["hint"].(string), "runs when the directory is entered") && r["class"] == "entry" &&
		out["error"] == "policy_violation" && out["reason_hint"] == "permission" && out["suggested_action"] == "ask_user", "%v", out)
	t.Logf("%d paths, %d asked about, %d near misses", len(dangerous), asks, len(harmless))
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
		n := user.asked(nil)
		expect(t, n == asked, "%s %v: asked %d times, want %d", tool, args, n, asked)
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
	got := user.questions[0]
	expect(t, strings.HasPrefix(got, want) && strings.HasSuffix(got, "Allow it? From now on means: these files, in this session."), "%q", got)
	got = user.questions[1]
	expect(t, strings.Contains(got, "; and 80 more protected files. Allow it?"), "%q", got)
}

// policyWorkspace returns a workspace with a policy file in its state
// directory, which git may track.
func policyWorkspace(t *testing.T, policy string, tracked bool) string {
	t.Helper()
	testbed.Needs(t, "git")
	dir := t.TempDir()
	testbed.Plant(t, dir, 0o600, map[string]string{".resilient_write/policy.yaml": policy})
	shellIn(t, dir, "git init -q")
	if tracked {
		shellIn(t, dir, "git add -f .resilient_write/policy.yaml")
	}
	return dir
}

func becomes(t *testing.T, c *client.Client, path, content string) string {
	t.Helper()
	out := callTool(t, c, "rw_safe_write", map[string]any{"path": path, "content": content, "mode": "overwrite", "dry_run": true})
	if out["ok"] == true {
		return "ok"
	}
	return reason(out)
}

// TestShippedPolicyCannotWeaken checks the policy file of a repository against the
// flags: tracked, untracked, trusted, and named.
func TestShippedPolicyCannotWeaken(t *testing.T) {
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	secret := madeUpToken()
	for _, row := range []struct {
		name    string
		policy  string
		tracked bool
		args    []string
		want    string
	}{
		{"tracked, default", "gate: {mode: off}\n", true, nil, "risk_blocked"},
		{"untracked, flag", "gate: {mode: off}\n", false, []string{"-gate", "block"}, "risk_blocked"},
		{"untracked, default", "gate: {mode: off}\n", false, nil, "ok"},
		{"trusted, default", "gate: {mode: off}\n", true, []string{"-trust-workspace-policy"}, "ok"},
		{"named, flag", "gate: {mode: off}\n", true, []string{"-policy-file", ".resilient_write/policy.yaml", "-gate", "block"}, "ok"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := connect(t, policyWorkspace(t, row.policy, row.tracked), row.args...)
			equal(t, becomes(t, c, "a.txt", secret), row.want)
		})
	}
}

// TestMissingPolicyFileOfTheVariable: if the variable names a missing file, that
// is a warning, and no tool creates anything on the path to it.
func TestMissingPolicyFileOfTheVariable(t *testing.T) {
	t.Setenv("RW_POLICY_FILE", "rules/deep/rw.yaml")
	c := connect(t, t.TempDir())
	for path, want := range map[string]string{"a.txt": "ok", "rules/x": "protected_path", "rules/deep/rw.yaml": "protected_path"} {
		equal(t, becomes(t, c, path, "x"), want, path)
	}
}
