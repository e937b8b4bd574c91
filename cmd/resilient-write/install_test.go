package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/clients"
	"github.com/resilientwrite/resilientwrite/internal/place"
	"github.com/resilientwrite/resilientwrite/mcpserver"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// configuration describes the configuration of a client, by the section of
// docs/install.md.
type configuration struct {
	servers []string // the keys from the top of the file to the map of servers
	local   string   // the fields of a server that is started
	remote  string   // the fields of a server that runs
	token   string   // how the client writes the token of a remote server
	replace []string // what the client replaces in arguments
	whole   bool     // paths must be absolute: there is no working directory and no PATH
}

var configurations = map[string]configuration{
	"Claude Code":                           {servers: []string{"mcpServers"}, local: "type command args env timeout", remote: "type url headers timeout", token: "Bearer ${RW_TOKEN}", replace: []string{"${CLAUDE_PROJECT_DIR:-.}"}},
	"Claude Desktop":                        {servers: []string{"mcpServers"}, local: "command args env", whole: true},
	"Cursor":                                {servers: []string{"mcpServers"}, local: "type command args env envFile", remote: "url headers", token: "Bearer ${env:RW_TOKEN}", replace: []string{"${workspaceFolder}"}},
	"VS Code":                               {servers: []string{"servers"}, local: "type command args env envFile", remote: "type url headers", token: "Bearer ${input:resilient-write-token}", replace: []string{"${workspaceFolder}"}},
	"Codex CLI":                             {servers: []string{"mcp_servers"}, local: "command args env env_vars cwd startup_timeout_sec tool_timeout_sec enabled_tools default_tools_approval_mode", remote: "url bearer_token_env_var tool_timeout_sec", token: "RW_TOKEN"},
	"Gemini CLI":                            {servers: []string{"mcpServers"}, local: "command args env cwd timeout trust includeTools excludeTools", remote: "httpUrl headers timeout", token: "Bearer ${RW_TOKEN}"},
	"Qwen Code":                             {servers: []string{"mcpServers"}, local: "command args env cwd timeout trust alwaysLoadTools"},
	"Cline CLI":                             {servers: []string{"mcpServers"}, local: "command args env timeout autoApprove"},
	"Continue CLI":                          {servers: []string{"mcpServers"}, local: "name type command args env"},
	"Zed":                                   {servers: []string{"context_servers"}, local: "command args env", remote: "url headers", token: "Bearer <token>"},
	"Windsurf":                              {servers: []string{"mcpServers"}, local: "command args env", remote: "serverUrl headers", token: "Bearer ${env:RW_TOKEN}"},
	"OpenCode":                              {servers: []string{"mcp.servers", "mcp"}, local: "type command enabled environment cwd timeout", remote: "type url headers oauth enabled timeout", token: "Bearer {env:RW_TOKEN}"},
	"Copilot CLI":                           {servers: []string{"mcpServers"}, local: "type command args env tools", remote: "type url headers tools", token: "Bearer <token>"},
	"Another client":                        {servers: []string{"mcpServers"}, local: "command args env"},
	"Coming from the Python implementation": {servers: []string{"mcpServers"}, local: "command args env"},
}

// entry is one server of a configuration, independent of the client's names for
// its parts.
type entry struct {
	from    string // where it is on the page
	command []string
	env     map[string]string
	url     string
	token   string
}

// entries reads all configurations of the page.
func entries(t *testing.T) []entry {
	t.Helper()
	var list []entry
	seen := map[string]bool{}
	for _, f := range fences(t, page(t, "docs/install.md")) {
		if f.lang == "sh" {
			continue
		}
		if f.lang != "json" && f.lang != "toml" && f.lang != "yaml" {
			t.Fatalf("%v: nothing checks a block of %q", f, f.lang)
		}
		if decode(t, f)["permissions"] != nil {
			continue // covered by TestInstallBlocksAreTheTable
		}
		form, ok := configurations[f.heading]
		if !ok {
			t.Fatalf("%v: no configuration is known under this heading", f)
		}
		seen[f.heading] = true
		list = append(list, form.read(t, f))
	}
	for name := range configurations {
		if !seen[name] {
			t.Errorf("the page has no configuration for %s", name)
		}
	}
	return list
}

// TestInstallBlocksAreTheTable: the page shows what init writes, for every
// client; go generate ./... writes it there.
func TestInstallBlocksAreTheTable(t *testing.T) {
	text := page(t, "docs/install.md")
	filled, err := clients.Fill(text)
	if diff := cmp.Diff(filled, text); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, c := range clients.Table {
		if _, known := configurations[c.Title]; !known {
			t.Errorf("no configuration is known for %s", c.Title)
		}
		marks := []string{"<!-- resilient-write init " + c.Name + " -->"}
		if len(c.Approve) > 0 {
			marks = append(marks, "<!-- resilient-write init "+c.Name+" --approve -->")
		}
		for _, mark := range marks {
			if strings.Count(text, mark+"\n```"+string(c.Format)+"\n") != 1 {
				t.Errorf("the page does not have %s once, before a block", mark)
			}
		}
		block, err := clients.Block(c, true)
		if err != nil || len(c.Approve) > 0 && !strings.Contains(block, fmt.Sprint(c.Approve[0].Value)) {
			t.Errorf("%s: %v\n%s", c.Name, err, block)
		}
	}
}

// read returns the only server of a configuration.
func (c configuration) read(t *testing.T, f fence) entry {
	t.Helper()
	doc := decode(t, f)
	var servers map[string]any
	for _, way := range c.servers {
		at, ok := any(doc), true
		for _, key := range strings.Split(way, ".") {
			if at, ok = at.(map[string]any)[key]; !ok {
				break
			}
		}
		if servers, ok = at.(map[string]any); ok {
			break
		}
	}
	if len(servers) != 1 {
		t.Fatalf("%v: not one server under %v", f, c.servers)
	}
	for name, v := range servers {
		if !regexp.MustCompile(`^[a-zA-Z0-9-]{1,32}$`).MatchString(name) {
			t.Errorf("%v: not every client takes the key %q", f, name)
		}
		return c.entry(t, f, v.(map[string]any))
	}
	return entry{}
}

func (c configuration) entry(t *testing.T, f fence, fields map[string]any) entry {
	t.Helper()
	e := entry{from: f.String(), env: map[string]string{}}
	known := c.local
	for _, key := range []string{"url", "httpUrl", "serverUrl"} {
		if url, ok := fields[key].(string); ok {
			e.url, known = url, c.remote
		}
	}
	for key := range fields {
		if !slices.Contains(strings.Fields(known), key) {
			t.Errorf("%v: the client knows no field %q here", f, key)
		}
	}
	switch command := fields["command"].(type) {
	case string:
		e.command = append(e.command, command)
		args, _ := fields["args"].([]any)
		for _, arg := range args {
			e.command = append(e.command, arg.(string))
		}
	case []any: // program and arguments in one
		for _, arg := range command {
			e.command = append(e.command, arg.(string))
		}
	}
	for _, key := range []string{"env", "environment"} {
		for name, value := range members(fields[key]) {
			e.env[name] = value.(string)
		}
	}
	if e.url != "" {
		e.token, _ = members(fields["headers"])["Authorization"].(string)
		if name, ok := fields["bearer_token_env_var"].(string); ok {
			e.token = name
		}
		if e.token != c.token || c.token == "" {
			t.Errorf("%v: the token is %q, this client writes it %q", f, e.token, c.token)
		}
		return e
	}
	if len(e.command) == 0 {
		t.Fatalf("%v: neither a command nor an address", f)
	}
	for _, word := range append(e.command[1:], slices.Collect(maps.Values(e.env))...) {
		if strings.Contains(word, "$") && !slices.Contains(c.replace, word) {
			t.Errorf("%v: this client hands over %s as it stands", f, word)
		}
	}
	if program := e.command[0]; c.whole != (placeholder(program) != "") {
		t.Errorf("%v: the program is %s", f, program)
	}
	return e
}

// members returns the members of an object, or none if it is absent.
func members(v any) map[string]any { m, _ := v.(map[string]any); return m }

// placeholder returns what a path of the page stands for: "program", "project",
// or nothing.
func placeholder(word string) string {
	switch strings.ReplaceAll(strings.TrimPrefix(word, "C:"), `\`, "/") {
	case "/path/to/bin/resilient-write", "/path/to/bin/resilient-write.exe":
		return "program"
	case "/path/to/project":
		return "project"
	}
	return ""
}

// here makes the arguments of the page usable: a placeholder for the project,
// as path or as a variable that a client replaces, becomes dir.
func (e entry) here(t *testing.T, dir string) (args, env []string) {
	t.Helper()
	if name := path.Base(strings.ReplaceAll(e.command[0], `\`, "/")); strings.TrimSuffix(name, ".exe") != "resilient-write" {
		t.Fatalf("%s: the program is %s", e.from, e.command[0])
	}
	named := ""
	swap := func(word string) string {
		if placeholder(word) == "project" || strings.HasPrefix(word, "${") {
			named = word
			return dir
		}
		if word == "." { // the client starts the program in the project
			named = word
		}
		return word
	}
	for _, word := range e.command[1:] {
		args = append(args, swap(word))
	}
	for name, value := range e.env {
		env = append(env, name+"="+swap(value))
	}
	if named == "" {
		t.Errorf("%s: no directory is named", e.from)
	}
	return args, append(env, "PATH="+os.Getenv("PATH"), "HOME="+t.TempDir(), "XDG_STATE_HOME="+os.Getenv("XDG_STATE_HOME"))
}

// wantTools returns the number of tools that a server with these arguments
// lists.
func wantTools(t *testing.T, args []string) int {
	t.Helper()
	tier := "standard"
	if i := slices.Index(args, "--tier"); i >= 0 {
		tier = args[i+1]
	}
	preset := must(mcpserver.ParsePreset(tier))(t)
	return len(toolbox.New(nil, &toolbox.Options{Tier: preset}).Tools())
}

// greet does the handshake of a client, and returns the names of the tools.
func greet(ctx context.Context, c *client.Client) ([]string, error) {
	var req mcp.InitializeRequest
	req.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	req.Params.ClientInfo = mcp.Implementation{Name: "reader of the page", Version: "1"}
	if _, err := c.Initialize(ctx, req); err != nil {
		return nil, err
	}
	res, err := c.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, tool := range res.Tools {
		names = append(names, tool.Name)
	}
	return names, nil
}

// started runs the built program over standard input and output, in a
// directory, with only the given variables.
func started(t *testing.T, dir string, args, env []string) *client.Client {
	t.Helper()
	c := must(client.NewStdioMCPClientWithOptions(build(t), env, args, transport.WithCommandFunc(
		func(ctx context.Context, command string, env, args []string) (*exec.Cmd, error) {
			cmd := exec.CommandContext(ctx, command, args...)
			cmd.Env, cmd.Dir = env, dir
			return cmd, nil
		})))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// TestInstallConfigurationsServe starts the program as every configuration of
// the page does, and lists its tools: in the tier that it names, with names
// that every client accepts, with the state where it says.
func TestInstallConfigurationsServe(t *testing.T) {
	build(t) // which may take long, and counts for nothing here
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	simple := regexp.MustCompile(`^[a-zA-Z0-9_]{1,40}$`)
	ran := map[string]bool{} // many clients use the same arguments
	for _, e := range entries(t) {
		if e.url != "" {
			continue
		}
		dir := t.TempDir()
		args, env := e.here(t, dir)
		key := strings.ReplaceAll(fmt.Sprint(args, e.env), dir, "DIR")
		if ran[key] {
			continue
		}
		ran[key] = true
		c := started(t, dir, args, env)
		names, err := greet(ctx, c)
		if err != nil {
			t.Errorf("%s: %v: %v", e.from, args, err)
			continue
		}
		if want := wantTools(t, args); len(names) != want {
			t.Errorf("%s: %d tools, want %d", e.from, len(names), want)
		}
		for _, name := range names {
			if !simple.MatchString(name) {
				t.Errorf("%s: not every client takes the name %s", e.from, name)
			}
		}
		must(os.Stat(filepath.Join(place.At(dir), "journal")))(t, e.from, ": another directory is served")
		c.Close()
	}
}

// TestInstallTiers: the numbers of the table are approximately right. They help
// to choose a tier, so they need not change with each tool.
func TestInstallTiers(t *testing.T) {
	rows := regexp.MustCompile("(?m)^\\| `([a-z]+)` \\| ([0-9]+) \\| ([0-9]+) \\|").FindAllStringSubmatch(page(t, "docs/install.md"), -1)
	if len(rows) != len(mcpserver.Presets()) {
		t.Fatalf("the table has %d tiers", len(rows))
	}
	for _, row := range rows {
		tools, size := list(t, row[1])
		for _, fact := range []struct {
			what string
			told string
			is   float64
		}{{"tools", row[2], float64(tools)}, {"kB", row[3], float64(size) / 1000}} {
			if told, _ := strconv.ParseFloat(fact.told, 64); fact.is < 0.75*told || fact.is > 1.25*told {
				t.Errorf("%s has %.1f %s, the page says about %s", row[1], fact.is, fact.what, fact.told)
			}
		}
	}
}

// list returns how many tools the program lists, and how many bytes they take.
func list(t *testing.T, tier string) (tools, size int) {
	t.Helper()
	cmd := exec.Command(build(t), "--root", t.TempDir(), "--tier", tier)
	cmd.Env = append(os.Environ(), "RW_REPLIES=")
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"tools/list"}` + "\n")
	out := must(cmd.Output())(t)
	for _, line := range strings.Split(string(out), "\n") {
		var reply struct{ Result struct{ Tools []any } }
		if json.Unmarshal([]byte(line), &reply) == nil && len(reply.Result.Tools) > 0 {
			return len(reply.Result.Tools), len(line)
		}
	}
	t.Fatal("no list")
	return 0, 0
}

// TestTwoClientsOfOneDirectory: as the page says, two clients can share a
// directory. Of two that create one file one succeeds, and each sees what the
// other wrote.
func TestTwoClientsOfOneDirectory(t *testing.T) {
	dir := t.TempDir()
	clients := []*client.Client{connect(t, dir), connect(t, dir)}
	won := make(chan bool, len(clients))
	for i, c := range clients {
		go func() {
			var req mcp.CallToolRequest
			req.Params.Name, req.Params.Arguments = "rw_safe_write", args{"path": "one.txt", "content": fmt.Sprint(i)}
			res, err := c.CallTool(context.Background(), req)
			won <- err == nil && !res.IsError
		}()
	}
	if first, second := <-won, <-won; first == second {
		t.Errorf("both: %v", first)
	}
	for _, c := range clients {
		if tail := call(t, c, "rw_journal_tail", args{}); len(tail["entries"].([]any)) != 1 {
			t.Errorf("%v", tail)
		}
	}
}

// TestInstallVariablesAreRead: the program knows each variable and flag of the
// table.
func TestInstallVariablesAreRead(t *testing.T) {
	help := must(exec.Command(build(t), "serve", "-h").CombinedOutput())(t)
	files := must(filepath.Glob("*.go"))(t)
	source := ""
	for _, name := range files {
		if !strings.HasSuffix(name, "_test.go") {
			source += page(t, "cmd/resilient-write/"+name)
		}
	}
	rows := regexp.MustCompile("(?m)^\\| `(RW_[A-Z_]+)` \\| (?:`--([a-z-]+)`)? ?\\|").FindAllStringSubmatch(page(t, "docs/install.md"), -1)
	if len(rows) < 7 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		if !strings.Contains(source, "env("+strconv.Quote(row[1])+")") {
			t.Errorf("the program does not read %s", row[1])
		}
		if row[2] != "" && !strings.Contains(string(help), "-"+row[2]) {
			t.Errorf("the program has no flag --%s", row[2])
		}
	}
}

// TestInstallReasonsExist: the program can return each reason in the
// troubleshooting table.
func TestInstallReasonsExist(t *testing.T) {
	_, table, ok := strings.Cut(page(t, "docs/install.md"), "| what you see |")
	if !ok {
		t.Fatal("no table of troubles")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	found := 0
	for _, row := range strings.Split(table, "\n") {
		symptom, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
		for _, m := range regexp.MustCompile("`([a-z]+(?:_[a-z]+)+)`").FindAllStringSubmatch(symptom, -1) {
			found++
			if !slices.Contains(rw.Details(), rw.Detail(m[1])) {
				t.Errorf("%s is no reason", m[1])
			}
		}
	}
	if found < 8 {
		t.Errorf("%d reasons were looked at", found)
	}
}
