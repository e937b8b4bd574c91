package hostevent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// setup is how a host is given hooks.
type setup struct {
	file   string   // of a project
	events []string // those of tools have the matcher
	tools  string   // the matcher
	wait   int      // of one hook, in the unit of the host
	flat   bool     // Copilot's form, in which the command names the event
}

var setups = map[string]setup{
	"claude":  {".claude/settings.json", []string{"SessionStart", "PreToolUse", "PostToolUse", "PostToolUseFailure", "PreCompact", "SubagentStop", "Stop", "SessionEnd"}, "Bash|Write|Edit|NotebookEdit", 5, false},
	"codex":   {".codex/hooks.json", []string{"SessionStart", "PreToolUse", "PostToolUse", "PreCompact", "SubagentStop", "Stop", "SessionEnd"}, "Bash|apply_patch", 5, false},
	"qwen":    {".qwen/settings.json", []string{"SessionStart", "PreToolUse", "PostToolUse", "PostToolUseFailure", "SubagentStop", "Stop", "SessionEnd"}, "run_shell_command|write_file|edit", 5, false},
	"gemini":  {".gemini/settings.json", []string{"SessionStart", "BeforeTool", "AfterTool", "SessionEnd"}, "run_shell_command|write_file|replace", 5000, false},
	"copilot": {".github/hooks/resilient-write.json", []string{"sessionStart", "preToolUse", "postToolUse", "subagentStop", "sessionEnd"}, "", 5, true},
}

// Config is the configuration of the hooks of a host, and the file of a project
// that holds it. A missing program, or one that fails, lets the host go on.
func Config(host string) (file string, text []byte, err error) {
	s, ok := setups[host]
	if !ok {
		return "", nil, fmt.Errorf("%s has no file of hooks", host)
	}
	command := "command -v resilient-write >/dev/null || exit 0; resilient-write hook --host " + host
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
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err = enc.Encode(all)
	return s.file, b.Bytes(), err
}
