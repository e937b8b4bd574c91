package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// hooks describes how the shell of a host is called.
type hooks struct {
	shell   string // the tool
	args    func(line string) map[string]any
	command []string
	install [][]string // instead of init --hooks: commands of the host
	shows   []string   // what the model reads about them
}

// of returns a function that makes the argument with the command line.
func of(name string) func(string) map[string]any {
	return func(line string) map[string]any { return obj{name: line} }
}

// onShell maps hosts to the ways in which they get hooks.
var onShell = map[string][]hooks{
	"claude-code": {
		{shell: "Bash", args: of("command"), command: []string{"claude", "-p", "go on", "--allowedTools", "Bash"}},
		{shell: "Bash", args: of("command"), command: []string{"claude", "-p", "/resilientwrite:rw-changes 90m", "--allowedTools", "Bash"}, install: [][]string{
			{"claude", "plugin", "validate", "--strict", "<plugin>"}, {"claude", "plugin", "marketplace", "add", "<plugin>"}, {"claude", "plugin", "install", "resilientwrite@resilientwrite"}},
			shows: []string{"Then tell the user in a few lines: the groups", "mcp__plugin_resilientwrite_resilientwrite__rw_undo", "resilientwrite:resilient-write"}},
	},
	"qwen": {{shell: "run_shell_command", args: of("command"), command: []string{"qwen", "--auth-type", "openai", "--yolo", "go on"}}},
	"codex": {{shell: "exec_command", args: of("cmd"), command: []string{"codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
		"--dangerously-bypass-hook-trust", "--trust", "-c", "model=scripted", "-c", "model_provider=script", "go on"}}},
	"copilot": {{shell: "bash", args: of("command"), command: []string{"copilot", "-p", "go on", "--trust-folder", "--allow-all-tools"}}},
	"gemini":  {{shell: "run_shell_command", args: of("command"), command: []string{"gemini", "-m", "gemini-2.5-pro", "--yolo", "-p", "go on"}}},
	"opencode": {{shell: "bash", args: func(line string) map[string]any { return obj{"command": line, "description": "a step"} },
		command: []string{"opencode", "run", "-m", "script/scripted", "go on"}}},
	"cline": {{shell: "run_commands", args: func(line string) map[string]any { return obj{"commands": []string{line}} }, command: []string{"cline", "go on"}}},
}

// driveHooks makes the model of a host edit by shell, and undoes every change
// by the call that made it.
func driveHooks(h host, k hooks, text string) error {
	h.approve, h.command = "", k.command
	s, err := begin(h, text)
	if err != nil {
		return err
	}
	defer s.end()
	if err := s.giveHooks(k); err != nil {
		return err
	}
	if err := s.plant(map[string]string{"a.txt": "one\n", "b.txt": "two\n", "gone.txt": "gone\n"}); err != nil {
		return err
	}
	token := madeUpToken()
	lines := []string{
		"sed -i s/one/1/ a.txt && rm gone.txt && chmod +x b.txt",
		"cat > made.txt <<X\nhello\nX",
		"printf 'GITHUB_TOKEN=" + token + "\\n' > deploy.env; false",
	}
	states := []map[string]string{s.files()}
	p := &play{}
	for _, line := range lines {
		p.steps = append(p.steps, step{what: line, tool: k.shell, args: func() map[string]any { return k.args(line) },
			check: func(string) error { states = append(states, s.files()); return nil }})
	}
	s.m.phrase = []byte("resilient-write found secrets")
	if err := s.perform(p); err != nil {
		return err
	}
	if !s.m.informed {
		return errors.New("the model does not learn of the secret that the command wrote")
	}
	log, err := os.ReadFile(s.log.Name())
	for _, text := range k.shows {
		if !strings.Contains(string(log), text) {
			return fmt.Errorf("the model does not read %q: %w", text, err)
		}
	}
	return s.undoCalls(lines, states, token)
}

// giveHooks configures the hooks of a host.
func (s *session) giveHooks(k hooks) error {
	plugin, err := filepath.Abs(filepath.Join(filepath.Dir(*page), "..", "packaging", "claude-plugin"))
	if err != nil {
		return err
	}
	if k.install == nil {
		cmd := exec.Command(*server, "init", s.h.name, "--hooks", "--json")
		cmd.Dir, cmd.Env = s.d.project, []string{"HOME=" + s.d.home, "PATH=" + filepath.Dir(*server)}
		out, err := cmd.CombinedOutput()
		fmt.Fprintf(s.log, "init --hooks: %s\n", out)
		return err
	}
	for _, words := range k.install {
		words = slices.Clone(words)
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "<plugin>", plugin)
		}
		if err := s.run(words); err != nil {
			return fmt.Errorf("%q: %w", words, err)
		}
	}
	return os.Remove(s.d.place(".mcp.json")) // the plugin brings the server
}

// plant writes files into the project, and makes it a repository.
func (s *session) plant(files map[string]string) error {
	for name, text := range files {
		if err := s.d.write(name, text); err != nil {
			return err
		}
	}
	git := exec.Command("git", "init", "-q", ".")
	git.Dir = s.d.project
	return git.Run()
}

// undoCalls undoes the calls, the newest first.
func (s *session) undoCalls(lines []string, states []map[string]string, token string) error {
	var r struct {
		Groups []struct {
			Group   string
			Command string
			Calls   []string
		}
	}
	out, err := s.command("changes", "--no-scan")
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		return err
	}
	if strings.Contains(string(out), token) {
		return errors.New("the journal shows the secret")
	}
	if len(r.Groups) != len(lines) {
		return fmt.Errorf("%d groups are listed, not %d: %s", len(r.Groups), len(lines), out)
	}
	for i := len(lines) - 1; i >= 0; i-- {
		line, call := lines[i], ""
		for _, g := range r.Groups { // the secret in a line is redacted
			if strings.HasPrefix(g.Command, line[:12]) && len(g.Calls) == 1 {
				call = g.Calls[0]
			}
		}
		if _, err := s.command("undo", "--group", call); call == "" || err != nil {
			return fmt.Errorf("undo of %q, call %q: %w", line, call, err)
		}
		if have := s.files(); !maps.Equal(have, states[i]) {
			return fmt.Errorf("%q is not undone: %v, want %v", line, have, states[i])
		}
	}
	return nil
}

// command runs our command in the project, with the home directory of the host,
// because the state may be there.
func (s *session) command(args ...string) ([]byte, error) {
	cmd := exec.Command(*server, append(args, "--root", s.d.project, "--json")...)
	cmd.Env = []string{"HOME=" + s.d.home, "PATH=" + os.Getenv("PATH")}
	out, err := cmd.Output()
	fmt.Fprintf(s.log, "%s: %s\n", args, out)
	return out, err
}

// files returns the files of the project that the commands may change, with
// modes and bytes.
func (s *session) files() map[string]string {
	list := map[string]string{}
	entries, _ := os.ReadDir(s.d.project)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !slices.Contains([]string{".txt", ".env", ""}, filepath.Ext(e.Name())) {
			continue
		}
		data, _ := os.ReadFile(s.d.place(e.Name()))
		list[e.Name()] = fmt.Sprintf("%v %s", info.Mode(), data)
	}
	return list
}
