package hostevent

import (
	_ "embed" // the plugin
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/jsontext"
)

// setup is how a host is given hooks.
type setup struct {
	project, user string   // the file; ~ is the home directory
	events        []string // those of tools have the matcher
	tools         string   // the matcher
	wait          int      // of one hook, in the unit of the host
	flat          bool     // Copilot's form, in which the command names the event
}

var setups = map[string]setup{
	"claude": {".claude/settings.json", "~/.claude/settings.json", []string{"SessionStart", "PreToolUse", "PostToolUse", "PostToolUseFailure", "PreCompact", "SubagentStop", "Stop", "SessionEnd"},
		"Bash|Write|Edit|NotebookEdit", 5, false},
	"codex": {".codex/hooks.json", "~/.codex/hooks.json", []string{"SessionStart", "PreToolUse", "PostToolUse", "PreCompact", "SubagentStop", "Stop", "SessionEnd"}, "Bash|apply_patch", 5, false},
	"qwen": {".qwen/settings.json", "~/.qwen/settings.json", []string{"SessionStart", "PreToolUse", "PostToolUse", "PostToolUseFailure", "SubagentStop", "Stop", "SessionEnd"},
		"run_shell_command|write_file|edit", 5, false},
	"gemini":  {".gemini/settings.json", "~/.gemini/settings.json", []string{"SessionStart", "BeforeTool", "AfterTool", "SessionEnd"}, "run_shell_command|write_file|replace", 5000, false},
	"copilot": {".github/hooks/resilient-write.json", "~/.copilot/hooks/resilient-write.json", []string{"sessionStart", "preToolUse", "postToolUse", "subagentStop", "sessionEnd"}, "", 5, true},
}

// File is a file that gives a host its hooks.
type File struct {
	Project, User string // where it is for a project, and for a user; ~ is the home directory
	Text          string
	Merge         bool // it has other content too
	Exec          bool // it is executed
}

// cline is an executable for Cline: where the program is, twice, and the event.
var cline = regexp.MustCompile(`^#!/bin/sh\ncommand -v (.+) >/dev/null \|\| exit 0; (.+) hook --host cline ([A-Za-z]+) \|\| exit 0\n$`)

// Ours reports whether a text is this file, whatever the program is called, and holds
// nothing of a user.
func (f File) Ours(text string) bool {
	if !f.Exec {
		before, after, _ := strings.Cut(openCode, openCodeProgram)
		name := strings.TrimSuffix(strings.TrimPrefix(text, before), after)
		return before+name+after == text && json.Valid([]byte(name))
	}
	m := cline.FindStringSubmatch(text)
	return m != nil && m[1] == m[2] && strings.HasSuffix(f.Project, "/"+m[3])
}

// clineEvents are the names of the executables of Cline.
var clineEvents = []string{"PreToolUse", "PostToolUse", "TaskStart", "TaskResume", "TaskCancel", "TaskComplete"}

//go:embed opencode.js
var openCode string

const openCodeProgram = `"resilient-write"` // in it

// OpenCode is the name of the plugin for OpenCode.
const OpenCode = "resilient-write.js"

// Config are the files with the hooks of a host. program is the command as the
// host finds it. One that is missing, or fails, lets the host go on.
func Config(host, program string) ([]File, error) {
	command := quoted(program)
	guarded := "command -v " + command + " >/dev/null || exit 0; " + command + " hook --host " + host
	switch host {
	case "opencode":
		name, _ := json.Marshal(program)
		return []File{{Project: ".opencode/plugins/" + OpenCode, User: "~/.config/opencode/plugins/" + OpenCode, Text: strings.Replace(openCode, openCodeProgram, string(name), 1)}}, nil
	case "cline":
		var list []File
		for _, event := range clineEvents {
			list = append(list, File{Project: ".clinerules/hooks/" + event, User: "~/.cline/hooks/" + event, Text: "#!/bin/sh\n" + guarded + " " + event + " || exit 0\n", Exec: true})
		}
		return list, nil
	}
	s, ok := setups[host]
	if !ok {
		return nil, fmt.Errorf("%q is no host with hooks; use one of %s", host, Hosts)
	}
	text, err := s.text(guarded)
	return []File{{Project: s.project, User: s.user, Text: string(text), Merge: true}}, err
}

// text is the configuration with a command for each event.
func (s setup) text(command string) ([]byte, error) {
	hooks := map[string]any{}
	for _, event := range s.events {
		if s.flat {
			hooks[event] = []any{map[string]any{"type": "command", "bash": command + " " + event + " || exit 0", "timeoutSec": s.wait}}
			continue
		}
		one := map[string]any{"hooks": []any{map[string]any{"type": "command", "command": command + " || exit 0", "timeout": s.wait}}}
		if kind := kinds[strings.ToLower(event)]; kind == Before || kind == After {
			one["matcher"] = s.tools
		}
		hooks[event] = []any{one}
	}
	all := map[string]any{"hooks": hooks}
	if s.flat {
		all["version"] = 1
	}
	return jsontext.Encode(all, "  ")
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_./:@%+-]+$`)

// quoted is a word for a shell.
func quoted(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
