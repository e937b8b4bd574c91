package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
)

// hooks is how a host is given hooks, and how its shell is called.
type hooks struct {
	host    string // by the name that our command knows
	file    string // of the hooks
	shell   string // the tool
	line    string // its argument
	command []string
}

// onShell maps hosts to their hooks.
var onShell = map[string]hooks{
	"claude-code": {"claude", ".claude/settings.json", "Bash", "command", []string{"claude", "-p", "go on", "--allowedTools", "Bash"}},
	"qwen":        {"qwen", ".qwen/settings.json", "run_shell_command", "command", []string{"qwen", "--auth-type", "openai", "--yolo", "go on"}},
	"codex": {"codex", ".codex/hooks.json", "exec_command", "cmd", []string{"codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
		"--dangerously-bypass-hook-trust", "--trust", "-c", "model=scripted", "-c", "model_provider=script", "go on"}},
	"copilot": {"copilot", ".github/hooks/resilient-write.json", "bash", "command", []string{"copilot", "-p", "go on", "--trust-folder", "--allow-all-tools"}},
	"gemini":  {"gemini", ".gemini/settings.json", "run_shell_command", "command", []string{"gemini", "-m", "gemini-2.5-pro", "--yolo", "-p", "go on"}},
}

// driveHooks has the model of a host edit by shell, and takes every change back
// by the call that made it.
func driveHooks(h host, text string) error {
	k := onShell[h.name]
	config, err := exec.Command(*server, "hook", "--host", k.host, "--print").Output()
	if err != nil || len(config) == 0 {
		return fmt.Errorf("no hooks are printed: %w", err)
	}
	h.approve, h.command = "", k.command
	s, err := begin(h, text)
	if err != nil {
		return err
	}
	defer s.end()
	if err := s.d.write(k.file, string(config)); err != nil {
		return err
	}
	for name, text := range map[string]string{"a.txt": "one\n", "b.txt": "two\n", "gone.txt": "gone\n"} {
		if err := s.d.write(name, text); err != nil {
			return err
		}
	}
	git := exec.Command("git", "init", "-q", ".")
	git.Dir = s.d.project
	if err := git.Run(); err != nil {
		return err
	}
	token := madeUpToken()
	lines := []string{
		"sed -i s/one/1/ a.txt && rm gone.txt && chmod +x b.txt",
		"cat > made.txt <<X\nhello\nX",
		"printf 'GITHUB_TOKEN=" + token + "\\n' > deploy.env; false",
	}
	before := s.files()
	states := []map[string]string{before}
	p := &play{}
	for _, line := range lines {
		p.steps = append(p.steps, step{what: line, tool: k.shell, args: func() map[string]any { return obj{k.line: line} },
			check: func(string) error { states = append(states, s.files()); return nil }})
	}
	s.m.phrase = []byte("resilient-write found secrets")
	if err := s.perform(p); err != nil {
		return err
	}
	if !s.m.told {
		return errors.New("the model is not told of the secret that the command wrote")
	}
	return s.undoCalls(lines, states, token)
}

// undoCalls takes the calls back, the newest first.
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

// command runs our command in the project.
func (s *session) command(args ...string) ([]byte, error) {
	cmd := exec.Command(*server, append(args, "--root", s.d.project, "--json")...)
	out, err := cmd.Output()
	fmt.Fprintf(s.log, "%s: %s\n", args, out)
	return out, err
}

// files are the files of the project, with modes and bytes.
func (s *session) files() map[string]string {
	list := map[string]string{}
	entries, _ := os.ReadDir(s.d.project)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		data, _ := os.ReadFile(s.d.place(e.Name()))
		list[e.Name()] = fmt.Sprintf("%v %s", info.Mode(), data)
	}
	return list
}
