// Package hostevent reads the events that hosts of coding agents give to hook
// commands, and writes the answers that they understand.
//
// The names and forms are those of Claude Code 2.1, Codex 0.171, Gemini CLI
// 0.61, Copilot CLI 1.0, Qwen Code 0.24 and Cline 3.0.
package hostevent

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
)

// Kind is what an event means.
type Kind int

const (
	Other    Kind = iota
	Started       // a session began, or something ended that may have left changes
	Before        // a tool is about to be called
	After         // the call of a tool ended, also if it failed
	Settled       // a turn or a session ended: no call of it is open
	Compacts      // the conversation is about to be shortened
)

// Event is an event of a host.
type Event struct {
	Host    string
	Name    string // as the host spells it
	Kind    Kind
	Session string
	Call    string // identifier of the call of the tool
	Dir     string // working directory of the session
	Tool    string
	Shell   bool   // the tool runs a command
	Own     bool   // the tool is one of this program
	Alike   bool   // equal calls of the session share Call, because the host gives no identifier
	Command string // the command line for the shell
	Writes  []Write
}

// Write is a file that a tool is about to write, and the text that it adds.
type Write struct{ Path, Text string }

var kinds = map[string]Kind{
	"sessionstart": Started, "pretooluse": Before, "beforetool": Before, "posttooluse": After, "posttoolusefailure": After, "aftertool": After,
	"taskstart": Started, "taskresume": Started, "taskcancel": Settled,
	"stop": Settled, "subagentstop": Started, "agentstop": Settled, "taskcomplete": Settled, "afteragent": Settled,
	"precompact": Compacts, "sessionend": Settled,
}

// hosts maps a host to the tools that run commands.
var hosts = map[string][]string{
	"claude": {"Bash"}, "codex": {"Bash"}, "gemini": {"run_shell_command"}, "copilot": {"bash", "Bash"}, "qwen": {"run_shell_command"},
	"cline": {"run_commands"}, "opencode": {"bash"},
}

// Hosts are the names of the hosts, for messages.
const Hosts = "claude, codex, gemini, copilot, qwen, cline, opencode"

// own matches the name of a tool of this program after the prefix that the
// host puts before it.
var own = regexp.MustCompile(`(^|[_-])rw_[a-z_]+$`)

// call is a call of a tool as Cline writes it.
type call struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// raw holds the fields of all hosts; each sends some of them.
type raw struct {
	SessionID   string          `json:"session_id"`
	SessionId   string          `json:"sessionId"`
	TaskID      string          `json:"taskId"`
	EventName   string          `json:"hook_event_name"`
	HookName    string          `json:"hookName"`
	Dir         string          `json:"cwd"`
	Roots       []string        `json:"workspaceRoots"`
	ToolName    string          `json:"tool_name"`
	CopilotTool string          `json:"toolName"`
	Input       json.RawMessage `json:"tool_input"`
	Args        json.RawMessage `json:"toolArgs"`
	CallID      string          `json:"tool_use_id"`
	ToolCall    call            `json:"tool_call"`
	ToolResult  call            `json:"tool_result"`
}

// input holds the arguments that tools of all hosts take for a command or a
// file.
type input struct {
	Command   string   `json:"command"`
	Commands  []string `json:"commands"`
	FilePath  string   `json:"file_path"`
	CamelPath string   `json:"filePath"`
	Notebook  string   `json:"notebook_path"`
	Path      string   `json:"path"`
	Content   string   `json:"content"`
	FileText  string   `json:"file_text"`
	NewString string   `json:"new_string"`
	NewStr    string   `json:"new_str"`
	NewText   string   `json:"newString"`
	Source    string   `json:"new_source"`
	Patch     string   `json:"patch"`
	PatchText string   `json:"patchText"`
	Input     string   `json:"input"`
}

// Parse reads the event that a host wrote to a hook. name is the event as the
// configuration names it, "" if the host includes it in data.
func Parse(host, name string, data []byte) (Event, error) {
	shells, ok := hosts[host]
	if !ok {
		return Event{}, errors.New("unknown host; use one of " + Hosts)
	}
	var r raw
	if err := decode(bytes.TrimSpace(data), &r); err != nil {
		return Event{}, errors.New("the event is not a JSON object")
	}
	e := Event{
		Host: host, Name: cmp.Or(name, r.EventName, r.HookName), Session: cmp.Or(r.SessionID, r.SessionId, r.TaskID), Dir: r.Dir,
		Tool: cmp.Or(r.ToolName, r.CopilotTool, r.ToolCall.Name, r.ToolResult.Name), Call: cmp.Or(r.CallID, r.ToolCall.ID, r.ToolResult.ID),
	}
	if e.Dir == "" && len(r.Roots) > 0 {
		e.Dir = r.Roots[0]
	}
	e.Kind = kinds[strings.ToLower(e.Name)]
	args := r.Input
	for _, more := range []json.RawMessage{r.Args, r.ToolCall.Input, r.ToolResult.Input} {
		if len(args) == 0 {
			args = more
		}
	}
	e.arguments(args)
	e.Own = own.MatchString(e.Tool)
	for _, shell := range shells {
		e.Shell = e.Shell || e.Tool == shell
	}
	if e.Call == "" && e.Tool != "" { // the host joins before and after by nothing else
		sum := sha256.Sum256([]byte(strings.Join([]string{e.Session, e.Tool, string(args)}, "\x00")))
		e.Call, e.Alike = host+"-"+hex.EncodeToString(sum[:8]), true
	}
	return e, nil
}

// decode reads an object. A field of another type counts as absent: the others still
// say what the tool is about to do.
func decode(data []byte, object any) error {
	err := json.Unmarshal(data, object)
	var odd *json.UnmarshalTypeError
	if errors.As(err, &odd) && odd.Field != "" {
		return nil
	}
	return err
}

// arguments reads the arguments of the tool.
func (e *Event) arguments(args json.RawMessage) {
	var text string
	if json.Unmarshal(args, &text) == nil { // JSON in a string
		args = json.RawMessage(text)
	}
	var in input
	if decode(args, &in) != nil {
		return
	}
	e.Command = cmp.Or(in.Command, strings.Join(in.Commands, "\n"))
	if file := cmp.Or(in.FilePath, in.CamelPath, in.Notebook, in.Path); file != "" {
		e.Writes = []Write{{file, cmp.Or(in.Content, in.FileText, in.NewString, in.NewStr, in.NewText, in.Source)}}
	}
	if e.Tool == "apply_patch" {
		e.Writes = append(e.Writes, patched(cmp.Or(in.Command, in.PatchText, in.Patch, in.Input, text))...)
	}
}

// patched are the files of a patch in the form of Codex, with the lines that it
// adds.
func patched(patch string) (list []Write) {
	for line := range strings.Lines(patch) {
		line = strings.TrimRight(line, "\r\n")
		if mark, name, ok := strings.Cut(line, ": "); ok && strings.HasPrefix(mark, "*** ") {
			switch strings.TrimPrefix(mark, "*** ") {
			case "Add File", "Update File", "Delete File", "Move to":
				list = append(list, Write{Path: strings.TrimSpace(name)})
			}
			continue
		}
		if added, ok := strings.CutPrefix(line, "+"); ok && len(list) > 0 {
			list[len(list)-1].Text += added + "\n"
		}
	}
	return list
}

// Deny is the answer that refuses the call of a tool, nil where the host has
// none that ends only the call. The model reads the reason.
func (e Event) Deny(reason string) []byte {
	switch e.Host {
	case "claude", "codex", "qwen":
		return answer("hookSpecificOutput", map[string]any{"hookEventName": e.Name, "permissionDecision": "deny", "permissionDecisionReason": reason})
	case "gemini":
		return object(map[string]any{"decision": "deny", "reason": reason})
	case "copilot":
		return object(map[string]any{"permissionDecision": "deny", "permissionDecisionReason": reason})
	case "opencode": // our plugin throws it
		return object(map[string]any{"deny": reason})
	}
	return nil
}

// Context returns the answer that shows the model a text in addition to the result of
// the tool, which stays unchanged.
func (e Event) Context(text string) []byte {
	switch e.Host {
	case "claude", "codex", "qwen", "gemini":
		return answer("hookSpecificOutput", map[string]any{"hookEventName": e.Name, "additionalContext": text})
	case "copilot", "opencode":
		return object(map[string]any{"additionalContext": text})
	case "cline":
		return object(map[string]any{"contextModification": text})
	}
	return nil
}

func answer(name string, v any) []byte { return object(map[string]any{name: v}) }

func object(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return data
}
