// Package clients describes the MCP clients that the command configures: the location,
// the format and the content of their files. The subcommands init and doctor and the
// blocks of docs/install.md are generated from one table.
package clients

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// Server is the key of our entry.
const Server = "resilientwrite"

// Program is the command of our entry, as found in PATH.
const Program = "resilient-write"

// Format is how a file is written.
type Format string

// The formats. JSON is read with comments and commas at the end, as clients
// read it, and written without.
const (
	JSON Format = "json"
	TOML Format = "toml"
	YAML Format = "yaml"
)

// Scope is for whom a file holds.
type Scope string

// The scopes.
const (
	Project Scope = "project" // who works in the directory
	User    Scope = "user"    // all directories of one user
)

// Fields are the members of an object, in order.
type Fields = schema.Object

// Client is one program that talks to servers.
type Client struct {
	Name    string // on the command line
	Title   string // in the documentation
	Program string // in PATH, if there is one
	Format  Format
	At      []string // the keys that lead to the servers
	Files   []File   // the first one is the default
	Entry   Fields   // {command}, {args} and {root} are replaced
	Approve []Edit   // what lets it call the tools without asking
	Hooks   string   // the name of its host to the subcommand hook, if it has hooks
	Trust   string   // the manual steps for the hooks
	Whole   bool     // it starts with neither PATH nor working directory
	Note    string   // other manual steps
}

// File is one configuration file of a client.
type File struct {
	Scope        Scope
	Path         string // ~ is the home directory, %config% the one of applications
	Windows      string // where it differs
	Root         string // how the directory to serve is written
	Instructions string // the file that the agent reads, if it is known
}

// Edit is one change of a file: a key and its value, or an element of a list.
type Edit struct {
	File  string // empty: the file of the entry
	At    []string
	Key   string // empty: Value is an element of the list
	Value any
}

// claudeRoot is what Claude Code replaces by the directory of the project.
const claudeRoot = "${CLAUDE_PROJECT_DIR:-.}"

const folder = "${workspaceFolder}"

// command are the members that most clients want.
var command = Fields{{Key: "command", Value: "{command}"}, {Key: "args", Value: "{args}"}}

func with(before Fields, more ...schema.Member) Fields {
	return append(slices.Clone(before), more...)
}

func member(key string, value any) schema.Member { return schema.Member{Key: key, Value: value} }

// stdio are the members of a client that requires the transport to be named.
var stdio = with(Fields{member("type", "stdio")}, command...)

// Table are the clients, in the order of the documentation.
var Table = []Client{
	{
		Name: "claude-code", Title: "Claude Code", Program: "claude", Hooks: "claude", Format: JSON, At: []string{"mcpServers"},
		Files: []File{
			{Scope: Project, Path: ".mcp.json", Root: claudeRoot, Instructions: "CLAUDE.md"},
			{Scope: User, Path: "~/.claude.json", Root: ".", Instructions: "~/.claude/CLAUDE.md"},
		},
		Entry:   with(stdio, member("timeout", 120000)),
		Approve: []Edit{{File: "~/.claude/settings.json", At: []string{"permissions", "allow"}, Value: "mcp__" + Server}},
	},
	{
		Name: "claude-desktop", Title: "Claude Desktop", Format: JSON, At: []string{"mcpServers"}, Whole: true,
		Files: []File{{Scope: User, Path: "%config%/Claude/claude_desktop_config.json", Root: "{root}"}},
		Entry: command, Note: "Quit Claude Desktop and start it again.",
	},
	{
		Name: "cursor", Title: "Cursor", Program: "cursor", Format: JSON, At: []string{"mcpServers"},
		Files: []File{
			{Scope: Project, Path: ".cursor/mcp.json", Root: folder, Instructions: ".cursor/rules/resilientwrite.mdc"},
			{Scope: User, Path: "~/.cursor/mcp.json", Root: folder},
		},
		Entry: stdio, Note: "Switch the server on in Settings, Tools & MCP.",
	},
	{
		Name: "vscode", Title: "VS Code", Program: "code", Format: JSON, At: []string{"servers"},
		Files: []File{
			{Scope: Project, Path: ".vscode/mcp.json", Root: folder, Instructions: "AGENTS.md"},
			{Scope: User, Path: "%config%/Code/User/mcp.json", Root: folder},
		},
		Entry: stdio,
	},
	{
		Name: "codex", Title: "Codex CLI", Program: "codex", Hooks: "codex", Format: TOML, At: []string{"mcp_servers"},
		Files: []File{
			{Scope: User, Path: "~/.codex/config.toml", Root: ".", Instructions: "~/.codex/AGENTS.md"},
			{Scope: Project, Path: ".codex/config.toml", Root: ".", Instructions: "AGENTS.md"},
		},
		Entry:   with(command, member("startup_timeout_sec", 20), member("tool_timeout_sec", 120)),
		Approve: []Edit{{Key: "default_tools_approval_mode", Value: "approve"}},
		Trust:   "Codex runs hooks only after you have trusted them: enter /hooks in its terminal.",
	},
	{
		Name: "gemini", Title: "Gemini CLI", Program: "gemini", Hooks: "gemini", Format: JSON, At: []string{"mcpServers"},
		Files: []File{
			{Scope: Project, Path: ".gemini/settings.json", Root: ".", Instructions: "GEMINI.md"},
			{Scope: User, Path: "~/.gemini/settings.json", Root: ".", Instructions: "~/.gemini/GEMINI.md"},
		},
		Entry:   with(command, member("timeout", 120000)),
		Approve: []Edit{{Key: "trust", Value: true}},
		Note:    "Gemini CLI starts servers in trusted directories only: answer its question, or set GEMINI_CLI_TRUST_WORKSPACE=true.",
	},
	{
		Name: "qwen", Title: "Qwen Code", Program: "qwen", Hooks: "qwen", Format: JSON, At: []string{"mcpServers"},
		Files: []File{
			{Scope: User, Path: "~/.qwen/settings.json", Root: ".", Instructions: "~/.qwen/QWEN.md"},
		},
		Entry:   with(command, member("timeout", 120000), member("alwaysLoadTools", true)),
		Approve: []Edit{{Key: "trust", Value: true}},
	},
	{
		Name: "opencode", Title: "OpenCode", Program: "opencode", Hooks: "opencode", Format: JSON, At: []string{"mcp"},
		Files: []File{
			{Scope: Project, Path: "opencode.json", Root: ".", Instructions: "AGENTS.md"},
			{Scope: User, Path: "~/.config/opencode/opencode.json", Root: ".", Instructions: "~/.config/opencode/AGENTS.md"},
		},
		Entry: Fields{member("type", "local"), member("command", "{command+args}"), member("enabled", true), member("timeout", 20000)},
	},
	{
		Name: "copilot", Title: "Copilot CLI", Program: "copilot", Hooks: "copilot", Format: JSON, At: []string{"mcpServers"},
		Files: []File{
			{Scope: User, Path: "~/.copilot/mcp-config.json", Root: ".", Instructions: "~/.copilot/copilot-instructions.md"},
			{Scope: Project, Path: ".github/mcp.json", Root: ".", Instructions: "AGENTS.md"},
		},
		Entry: with(with(Fields{member("type", "local")}, command...), member("tools", []any{"*"})),
		Note:  "Copilot CLI asks before each call; copilot --allow-tool " + Server + " lets these tools through.",
	},
	{
		Name: "cline", Title: "Cline CLI", Program: "cline", Hooks: "cline", Format: JSON, At: []string{"mcpServers"},
		Files: []File{{Scope: User, Path: "~/.cline/data/settings/cline_mcp_settings.json", Root: ".", Instructions: "~/Documents/Cline/Rules/resilientwrite.md"}},
		Entry: with(command, member("timeout", 120)),
	},
	{
		Name: "continue", Title: "Continue CLI", Program: "cn", Format: YAML, At: []string{"mcpServers"},
		Files: []File{{Scope: User, Path: "~/.continue/config.yaml", Root: ".", Instructions: "~/.continue/rules/resilientwrite.md"}},
		Entry: with(Fields{member("name", Server)}, stdio...),
	},
	{
		Name: "zed", Title: "Zed", Program: "zed", Format: JSON, At: []string{"context_servers"},
		Files: []File{{Scope: User, Path: "~/.config/zed/settings.json", Windows: "%config%/Zed/settings.json", Root: "{root}"}},
		Entry: with(command, member("env", Fields{})),
	},
	{
		Name: "windsurf", Title: "Windsurf", Program: "windsurf", Format: JSON, At: []string{"mcpServers"},
		Files: []File{{Scope: User, Path: "~/.codeium/windsurf/mcp_config.json", Root: "{root}"}},
		Entry: command, Note: "Press Refresh in the list of servers.",
	},
}

// Find returns the client of a name.
func Find(name string) (Client, bool) {
	i := slices.IndexFunc(Table, func(c Client) bool { return c.Name == name })
	if i < 0 {
		return Client{}, false
	}
	return Table[i], true
}

// Names are those of all clients.
func Names() (list []string) {
	for _, c := range Table {
		list = append(list, c.Name)
	}
	return list
}

// File returns the file of a scope; without one, the default.
func (c Client) File(scope Scope) (File, bool) {
	for _, f := range c.Files {
		if scope == "" || f.Scope == scope {
			return f, true
		}
	}
	return File{}, false
}

// Place is a machine as the table needs it.
type Place struct {
	OS      string // as in runtime.GOOS
	Home    string
	Config  string // of applications
	Project string // the directory to serve
}

// Find returns the path of a file on this machine.
func (p Place) Find(f File) string {
	if p.OS == "windows" && f.Windows != "" {
		return p.Path(f.Windows)
	}
	return p.Path(f.Path)
}

// Path returns where a path of the table is.
func (p Place) Path(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(p.Home, filepath.FromSlash(rest))
	}
	if rest, ok := strings.CutPrefix(path, "%config%/"); ok {
		return filepath.Join(p.Config, filepath.FromSlash(rest))
	}
	return filepath.Join(p.Project, filepath.FromSlash(path))
}

// servers are the servers in the text of a file of the client.
func (c Client) servers(text string) (map[string]any, error) {
	at, err := Read(c.Format, text)
	for _, key := range c.At {
		at, _ = at[key].(map[string]any)
	}
	return at, err
}

// Ours returns our entry in the text of a file of the client.
func (c Client) Ours(text string) (entry map[string]any, ok bool) {
	all, _ := c.servers(text)
	entry, ok = all[Server].(map[string]any)
	return entry, ok
}

// Remote reports whether our entry in the text of a file has an address, and no
// program to start.
func (c Client) Remote(text string) bool {
	entry, _ := c.Ours(text)
	return entryOf(entry).URL != ""
}

// Notes returns the manual steps after the client was configured.
func (c Client) Notes(approved bool) (notes []string) {
	if c.Note != "" {
		notes = append(notes, c.Note)
	}
	if len(c.Approve) > 0 && !approved {
		notes = append(notes, c.Title+" asks before each call and refuses it without a user to ask; init "+c.Name+" --approve lets the calls through.")
	}
	return notes
}

// entry returns our entry for one file.
func (c Client) entry(f File, s Setup) Fields {
	args := []any{"serve", "--root", strings.ReplaceAll(f.Root, "{root}", s.Root)}
	drop := []string{"--root"}
	if s.Tier != "" {
		args, drop = append(args, "--tier", s.Tier), append(drop, "--tier")
	}
	if was := entryOf(s.Was).Command; len(was) > 1 && was[1] == "serve" {
		args = append(args, without(was[2:], drop)...)
	}
	command, out := s.Command, slices.Clone(c.Entry)
	for i, m := range out {
		switch m.Value {
		case "{command}":
			out[i].Value = command
		case "{args}":
			out[i].Value = args
		case "{command+args}":
			out[i].Value = append([]any{command}, args...)
		}
	}
	return out
}

// without returns the arguments of a command except some flags and their values.
func without(args, flags []string) (left []any) {
	for i := 0; i < len(args); i++ {
		switch name, _, joined := strings.Cut(args[i], "="); {
		case !slices.Contains(flags, name):
			left = append(left, args[i])
		case !joined:
			i++
		}
	}
	return left
}

// Setup is the content of one configuration.
type Setup struct {
	Command string         // how the program is started
	Root    string         // the whole path of the directory to serve
	Tier    string         // empty: the default, or the one of Was
	Approve bool           // let the client call without asking
	Was     map[string]any // our entry as it is; empty if there is none
}

// Edits are the changes that configure a client in one of its files. Edits of
// the entry come first. Of an entry that is there, only how the program is started
// is changed, and other flags than --root and a given --tier stay.
func (c Client) Edits(f File, s Setup) []Edit {
	var out []Edit
	at := append(slices.Clone(c.At), Server)
	for _, m := range c.entry(f, s) {
		if s.Was[m.Key] == nil || slices.Contains([]string{"type", "command", "args"}, m.Key) {
			out = append(out, Edit{At: at, Key: m.Key, Value: m.Value})
		}
	}
	for _, e := range c.Approve {
		if e.At == nil { // a member of the entry
			e.At = at
		}
		if s.Approve {
			out = append(out, e)
		}
	}
	return out
}

// Entry is a server of a configuration, independent of the client's names for its
// parts.
type Entry struct {
	Command []string
	Env     map[string]string
	Cwd     string
	URL     string
	Headers map[string]string
	Off     bool
}

// Entries are the servers in the text of a file of the client that are ours: by
// their name, or because they start our program.
func (c Client) Entries(text string) (map[string]Entry, error) {
	all, err := c.servers(text)
	if err != nil {
		return nil, err
	}
	out := map[string]Entry{}
	for name, v := range all {
		fields, _ := v.(map[string]any)
		e := entryOf(fields)
		own := len(e.Command) > 0 && program(e.Command[0]) == Program
		if fields != nil && (own || name == Server) {
			out[name] = e
		}
	}
	return out, nil
}

// program is the name of a command without its directory.
func program(command string) string {
	return strings.TrimSuffix(path.Base(strings.ReplaceAll(command, `\`, "/")), ".exe")
}

func entryOf(fields map[string]any) (e Entry) {
	for _, key := range []string{"url", "httpUrl", "serverUrl"} {
		if url, ok := fields[key].(string); ok {
			e.URL = url
		}
	}
	e.Command = words(fields["command"])
	e.Command = append(e.Command, words(fields["args"])...)
	e.Env, e.Headers = pairs(fields["env"]), pairs(fields["headers"])
	maps.Copy(e.Env, pairs(fields["environment"]))
	e.Cwd, _ = fields["cwd"].(string)
	if name, ok := fields["bearer_token_env_var"].(string); ok {
		e.Headers["Authorization"] = "Bearer ${" + name + "}"
	}
	e.Off = fields["enabled"] == false || fields["disabled"] == true
	return e
}

// words are a string, or a list of them.
func words(v any) (list []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, one := range v {
			list = append(list, fmt.Sprint(one))
		}
	}
	return list
}

func pairs(v any) map[string]string {
	out := map[string]string{}
	m, _ := v.(map[string]any)
	for key, value := range m {
		out[key] = fmt.Sprint(value)
	}
	return out
}

// In returns how the client starts an entry in a project: placeholders for the
// directory of the project are replaced.
func (e Entry) In(project string) (command string, args, env []string) {
	swap := strings.NewReplacer(claudeRoot, project, folder, project)
	for _, word := range e.Command {
		args = append(args, swap.Replace(word))
	}
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		env = append(env, name+"="+swap.Replace(e.Env[name]))
	}
	if len(args) == 0 {
		return "", nil, env
	}
	return args[0], args[1:], env
}

var variable = regexp.MustCompile(`\$?\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}`)

// HeadersFrom are the headers of an entry, with the variables that they name.
func (e Entry) HeadersFrom(env func(string) string) map[string]string {
	out := map[string]string{}
	for name, value := range e.Headers {
		out[name] = variable.ReplaceAllStringFunc(value, func(ref string) string { return env(variable.FindStringSubmatch(ref)[1]) })
	}
	return out
}

// Approves reports whether an edit is one that approves calls.
func (e Edit) Approves(c Client) bool {
	return slices.ContainsFunc(c.Approve, func(a Edit) bool { return a.Key == e.Key && a.Value == e.Value })
}

// Has reports whether an edit was made in a text.
func (c Client) Has(text string, e Edit) bool {
	doc, err := Read(c.Format, text)
	if err != nil {
		return false
	}
	value, err := canonical(e.Value)
	done, ok := put(doc, e, value)
	return err == nil && ok && done
}
