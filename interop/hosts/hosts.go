package main

import "strings"

// host is one coding agent of npm.
type host struct {
	name, title string
	pkg         string   // of npm, with its version
	approve     string   // the file of the block that approves calls, - for that of the entry; or the last flag of command
	extra       string   // additional content of its own file: the model
	files       []string // other files: name, text
	before      []string // a command that runs first
	env         []string
	command     []string
	prefix      string // what it puts before the name of a tool
}

// <model> is replaced by the address of the script.
var hosts = []host{
	{
		name: "claude-code", title: "Claude Code", pkg: "@anthropic-ai/claude-code@2.1.332", approve: "~/.claude/settings.json", prefix: "mcp__resilientwrite__",
		env:     []string{"ANTHROPIC_BASE_URL=<model>", "ANTHROPIC_API_KEY=none", "DISABLE_TELEMETRY=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"},
		command: []string{"claude", "-p", "go on"},
	},
	{
		name: "codex", title: "Codex CLI", pkg: "@openai/codex@0.171.0", approve: "-",
		extra:   "[model_providers.script]\nname = \"script\"\nbase_url = \"<model>/v1\"\nwire_api = \"responses\"\n",
		command: []string{"codex", "exec", "--skip-git-repo-check", "-c", "model=scripted", "-c", "model_provider=script", "go on"},
	},
	{
		name: "gemini", title: "Gemini CLI", pkg: "@google/gemini-cli@0.61.0", approve: "-",
		files:   []string{"~/.gemini/settings.json", `{"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false}}`},
		env:     []string{"GEMINI_CLI_TRUST_WORKSPACE=true", "GOOGLE_GEMINI_BASE_URL=<model>", "GEMINI_API_KEY=none"},
		command: []string{"gemini", "-m", "gemini-2.5-pro", "-p", "go on"},
	},
	{
		name: "qwen", title: "Qwen Code", pkg: "@qwen-code/qwen-code@0.24.4", approve: "-", prefix: "mcp__resilientwrite__",
		env:     []string{"OPENAI_BASE_URL=<model>/v1", "OPENAI_API_KEY=none", "OPENAI_MODEL=scripted"},
		command: []string{"qwen", "--auth-type", "openai", "go on"},
	},
	{
		name: "opencode", title: "OpenCode", pkg: "opencode-ai@1.18.33",
		files: []string{"~/.config/opencode/opencode.json", `{"provider": {"script": {"npm": "@ai-sdk/openai-compatible", "name": "script",
			"options": {"baseURL": "<model>/v1", "apiKey": "none"}, "models": {"scripted": {"name": "scripted", "tool_call": true}}}},
			"model": "script/scripted", "small_model": "script/scripted", "share": "disabled", "autoupdate": false}`},
		env:     []string{"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1"},
		command: []string{"opencode", "run", "-m", "script/scripted", "go on"},
	},
	{
		name: "copilot", title: "Copilot CLI", pkg: "@github/copilot@1.0.102", approve: "--allow-tool",
		env:     []string{"COPILOT_PROVIDER_BASE_URL=<model>/v1", "COPILOT_PROVIDER_TYPE=openai", "COPILOT_PROVIDER_API_KEY=none", "COPILOT_MODEL=scripted", "COPILOT_OFFLINE=true"},
		command: []string{"copilot", "-p", "go on", "--allow-tool", "resilientwrite"},
	},
	{
		name: "cline", title: "Cline CLI", pkg: "cline@3.0.65",
		before:  []string{"cline", "auth", "-p", "openai-compatible", "-k", "none", "-m", "scripted", "-b", "<model>/v1"},
		env:     []string{"CLINE_TELEMETRY_DISABLED=1"},
		command: []string{"cline", "go on"},
	},
	{
		name: "continue", title: "Continue CLI", pkg: "@continuedev/cli@1.5.47",
		extra: "models:\n  - name: scripted\n    provider: openai\n    model: scripted\n    apiBase: <model>/v1\n    apiKey: none\n" +
			"    capabilities: [tool_use]\n    roles: [chat]\n",
		env:     []string{"CONTINUE_TELEMETRY_ENABLED=0"},
		command: []string{"cn", "-p", "go on"},
	},
}

// configure writes the files of a host: those that the page prints, and its
// model.
func (h host) configure(d desk, page, model string) error {
	file, err := fileOf(page, h.name)
	if err != nil {
		return err
	}
	call := h.name
	if h.approve == "-" {
		call += " --approve"
	}
	text, err := block(page, call)
	if err != nil {
		return err
	}
	fill := strings.NewReplacer("<model>", model, "/path/to/project", d.project)
	list := append([]string{file, text + h.extra}, h.files...)
	if strings.HasPrefix(h.approve, "~") {
		if text, err = block(page, h.name+" --approve"); err != nil {
			return err
		}
		list = append(list, h.approve, text)
	}
	for i := 0; i < len(list); i += 2 {
		if err := d.write(list[i], fill.Replace(list[i+1])); err != nil {
			return err
		}
	}
	return nil
}
