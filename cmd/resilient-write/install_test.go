package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/clients"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/hostevent"
	"github.com/resilientwrite/resilientwrite/internal/place"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
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
	"Codex CLI":                             {servers: []string{"mcp_servers"}, local: "command args env env_vars cwd startup_timeout_sec tool_timeout_sec enabled_tools default_tools_approval_mode", remote: "url bearer_token_env_var tool_timeout_sec", token: "Bearer ${RW_TOKEN}"},
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

// entry is one server of a configuration.
type entry struct {
	from string // where it is on the page
	clients.Entry
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
		require(t, f.lang == "json" || f.lang == "toml" || f.lang == "yaml", "%v: nothing checks a block of %q", f, f.lang)
		if decode(t, f)["permissions"] != nil {
			continue // covered by TestInstallBlocksAreTheTable
		}
		form, ok := configurations[f.heading]
		require(t, ok, "%v: no configuration is known under this heading", f)
		seen[f.heading] = true
		list = append(list, form.read(t, f))
	}
	for name := range configurations {
		expect(t, seen[name], "the page has no configuration for %s", name)
	}
	return list
}

// TestInstallBlocksAreTheTable: the page shows what init writes, for every
// client; go generate ./... writes it there.
func TestInstallBlocksAreTheTable(t *testing.T) {
	text := page(t, "docs/install.md")
	filled, err := clients.Fill(text)
	diff := cmp.Diff(filled, text)
	expect(t, err == nil && diff == "", "%v\n%s", err, diff)
	for _, c := range clients.Table {
		_, known := configurations[c.Title]
		expect(t, known, "no configuration is known for %s", c.Title)
		marks := []string{"<!-- resilient-write init " + c.Name + " -->"}
		if len(c.Approve) > 0 {
			marks = append(marks, "<!-- resilient-write init "+c.Name+" --approve -->")
		}
		for _, mark := range marks {
			equal(t, strings.Count(text, mark+"\n```"+string(c.Format)+"\n"), 1, "the page does not have ", mark, " once, before a block")
		}
		block, err := clients.Block(c, true)
		expect(t, err == nil && (len(c.Approve) == 0 || strings.Contains(block, fmt.Sprint(c.Approve[0].Value))), "%s: %v\n%s", c.Name, err, block)
	}
}

// read returns the only server of a configuration.
func (c configuration) read(t *testing.T, f fence) entry {
	t.Helper()
	doc, file := decode(t, f), clients.Client{Format: clients.Format(f.lang)}
	var at map[string]any
	for _, way := range c.servers {
		if at == nil {
			file.At, at = strings.Split(way, "."), doc
			for _, key := range file.At {
				at = members(at[key])
			}
		}
	}
	mustEqual(t, len(at), 1, f, ": not one server under ", file.At)
	servers := must(file.Entries(f.text))(t, f)
	mustEqual(t, len(servers), 1, f, ": another program")
	for name, e := range servers {
		expect(t, regexp.MustCompile(`^[a-zA-Z0-9-]{1,32}$`).MatchString(name), "%v: not every client takes the key %q", f, name)
		known := c.local
		if e.URL != "" {
			known = c.remote
		}
		for key := range members(at[name]) {
			expect(t, slices.Contains(strings.Fields(known), key), "%v: the client knows no field %q here", f, key)
		}
		return c.entry(t, f, e)
	}
	return entry{}
}

func (c configuration) entry(t *testing.T, f fence, read clients.Entry) entry {
	t.Helper()
	e := entry{f.String(), read}
	if e.URL != "" {
		token := e.Headers["Authorization"]
		expect(t, token == c.token && c.token != "", "%v: the token is %q, this client writes it %q", f, token, c.token)
		return e
	}
	require(t, len(e.Command) != 0, "%v: neither a command nor an address", f)
	for _, word := range append(e.Command[1:], slices.Collect(maps.Values(e.Env))...) {
		expect(t, !strings.Contains(word, "$") || slices.Contains(c.replace, word), "%v: this client hands over %s unchanged", f, word)
	}
	program := e.Command[0]
	expect(t, c.whole == (placeholder(program) != ""), "%v: the program is %s", f, program)
	return e
}

// members returns the members of an object, or none if it is absent.
func members(v any) map[string]any { m, _ := v.(map[string]any); return m }

// placeholder returns the meaning of a path of the page: "program", "project",
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
	if name := path.Base(strings.ReplaceAll(e.Command[0], `\`, "/")); strings.TrimSuffix(name, ".exe") != "resilient-write" {
		t.Fatalf("%s: the program is %s", e.from, e.Command[0])
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
	for _, word := range e.Command[1:] {
		args = append(args, swap(word))
	}
	for name, value := range e.Env {
		env = append(env, name+"="+swap(value))
	}
	expect(t, named != "", "%s: no directory is named", e.from)
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
	preset := must(toolbox.ParsePreset(tier))(t)
	return len(toolbox.New(nil, &toolbox.Options{Tier: preset}).Tools())
}

// toolsOf does the handshake of a client, and returns the names of the tools.
func toolsOf(ctx context.Context, c *client.Client) ([]string, error) {
	if err := greet(ctx, c); err != nil {
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
		if e.URL != "" {
			continue
		}
		dir := t.TempDir()
		args, env := e.here(t, dir)
		key := strings.ReplaceAll(fmt.Sprint(args, e.Env), dir, "DIR")
		if ran[key] {
			continue
		}
		ran[key] = true
		c := started(t, dir, args, env)
		names, err := toolsOf(ctx, c)
		if err != nil {
			t.Errorf("%s: %v: %v", e.from, args, err)
			continue
		}
		want := wantTools(t, args)
		expect(t, len(names) == want, "%s: %d tools, want %d", e.from, len(names), want)
		for _, name := range names {
			expect(t, simple.MatchString(name), "%s: not every client takes the name %s", e.from, name)
		}
		must(os.Stat(filepath.Join(must(place.At(dir))(t), "journal")))(t, e.from, ": another directory is served")
		c.Close()
	}
}

// TestInstallTiers: the numbers of the table are approximately right. They help
// to choose a tier, so they need not change with each tool.
func TestInstallTiers(t *testing.T) {
	rows := regexp.MustCompile("(?m)^\\| `([a-z]+)` \\| ([0-9]+) \\| ([0-9]+) \\|").FindAllStringSubmatch(page(t, "docs/install.md"), -1)
	mustEqual(t, len(rows), len(toolbox.Presets()), "the table has tiers")
	for _, row := range rows {
		c := started(t, t.TempDir(), []string{"--tier", row[1]}, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()})
		noErr(t, greet(t.Context(), c))
		list := must(c.ListTools(t.Context(), mcp.ListToolsRequest{}))(t)
		doc := must(json.Marshal(list))(t)
		for _, fact := range []struct {
			what string
			page string
			is   float64
		}{{"tools", row[2], float64(len(list.Tools))}, {"kB", row[3], float64(len(doc)) / 1000}} {
			if page, _ := strconv.ParseFloat(fact.page, 64); fact.is < 0.75*page || fact.is > 1.25*page {
				t.Errorf("%s has %.1f %s, the page says about %s", row[1], fact.is, fact.what, fact.page)
			}
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
	require(t, len(rows) >= 7, "%d rows", len(rows))
	for _, row := range rows {
		expect(t, strings.Contains(source, "env("+strconv.Quote(row[1])+")"), "the program does not read %s", row[1])
		expect(t, row[2] == "" || strings.Contains(string(help), "-"+row[2]), "the program has no flag --%s", row[2])
	}
}

// TestInstallReasonsExist: the program can return each reason in the
// troubleshooting table.
func TestInstallReasonsExist(t *testing.T) {
	_, table, ok := strings.Cut(page(t, "docs/install.md"), "| what you see |")
	require(t, ok, "no table of troubles")
	table, _, _ = strings.Cut(table, "\n\n")
	found := 0
	for _, row := range strings.Split(table, "\n") {
		symptom, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
		for _, m := range regexp.MustCompile("`([a-z]+(?:_[a-z]+)+)`").FindAllStringSubmatch(symptom, -1) {
			found++
			expect(t, slices.Contains(rw.Details(), rw.Detail(m[1])), "%s is no reason", m[1])
		}
	}
	expect(t, found >= 8, "%d reasons were looked at", found)
}

// shellLine is one command of the page, with the preceding variable
// assignments.
type shellLine struct {
	from  string
	env   []string
	words []string
}

// shellLines returns the commands of the page.
func shellLines(t *testing.T) []shellLine {
	t.Helper()
	var out []shellLine
	for _, f := range fences(t, page(t, "docs/install.md")) {
		if f.lang != "sh" {
			continue
		}
		for _, line := range strings.Split(strings.TrimSpace(f.text), "\n") {
			list, err := words(line)
			require(t, err == nil && len(list) != 0, "%v: %q: %v", f, line, err)
			l := shellLine{from: f.String()}
			for strings.HasPrefix(list[0], "RW_") {
				l.env, list = append(l.env, list[0]), list[1:]
			}
			l.words = list
			out = append(out, l)
		}
	}
	return out
}

// TestInstallCommandsWork runs every command of the page that is ours, and
// checks that the commands that the others pass to a client start the program.
func TestInstallCommandsWork(t *testing.T) {
	build(t) // which may take long, and counts for nothing here
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	ran := map[string]int{}
	for _, l := range shellLines(t) {
		ours := l.words
		switch l.words[0] {
		case "go":
			ran["go"]++
			checkGo(t, l)
			continue
		case "claude", "codex":
			i := slices.Index(l.words, "--")
			require(t, i >= 0 && slices.Equal(l.words[1:3], []string{"mcp", "add"}), "%s: %q", l.from, l.words)
			ours = l.words[i+1:]
		}
		require(t, path.Base(ours[0]) == "resilient-write", "%s: nothing checks %q", l.from, ours)
		switch {
		case ours[1] == "init":
			ran["init"]++
			cmd := exec.Command(build(t), ours[1:]...)
			cmd.Dir, cmd.Env = t.TempDir(), []string{"HOME=" + t.TempDir()}
			out, err := cmd.Output()
			expect(t, err == nil && strings.Contains(string(out), `"status":"configured"`), "%s: %s %v", l.from, out, err)
		case slices.Equal(ours[1:], []string{"version"}):
			ran["version"]++
			out, err := exec.Command(build(t), ours[1:]...).Output()
			var r struct{ Name, Version string }
			expect(t, err == nil && json.Unmarshal(out, &r) == nil && r.Name == "resilient-write" && r.Version == rw.Version, "%s: %q %v", l.from, out, err)
		case ours[1] == "doctor":
			ran["doctor"]++ // covered by TestDoctor
		case slices.Contains(ours, "http"):
			ran["http"]++ // covered by TestInstallOverHTTP
		default:
			ran["serve"]++
			dir := t.TempDir()
			args, env := entry{l.from, clients.Entry{Command: ours}}.here(t, dir)
			must(toolsOf(ctx, started(t, dir, args, append(env, l.env...))))(t, l.from)
			silent(t, dir, args)
		}
	}
	for what, least := range map[string]int{"go": 2, "version": 1, "init": 1, "doctor": 1, "serve": 3, "http": 1} {
		expect(t, ran[what] >= least, "the page has %d commands of the kind %s", ran[what], what)
	}
}

// silent checks the first step of the page's troubleshooting: the program waits
// silently, and exits with 0 when its input ends.
func silent(t *testing.T, dir string, args []string) {
	t.Helper()
	cmd := exec.Command(build(t), args...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	err := cmd.Run()
	said := ofThisDisk.ReplaceAllString(errs.String(), "")
	expect(t, err == nil && out.Len()+len(said) == 0, "%q: %v, stdout %q, stderr %q", args, err, out.String(), said)
}

// ofThisDisk is the warning about a file system without a journal, on which tests may run.
var ofThisDisk = regexp.MustCompile(`(?m)^.*"durability_unverified".*\n`)

// checkGo checks commands that need a network or write into the checkout: the
// packages that they name must exist.
func checkGo(t *testing.T, l shellLine) {
	t.Helper()
	module, _, _ := strings.Cut(strings.TrimPrefix(page(t, "go.mod"), "module "), "\n")
	name := l.words[len(l.words)-1]
	switch l.words[1] {
	case "install":
		path, version, _ := strings.Cut(name, "@")
		dir, ours := strings.CutPrefix(path, module+"/")
		expect(t, ours && version == "latest", "%s: %s is not a package of %s", l.from, name, module)
		name = dir
	case "build":
	default:
		t.Errorf("%s: nothing checks %q", l.from, l.words)
	}
	must(os.Stat(filepath.Join(repository, filepath.FromSlash(name), "main.go")))(t, l.from)
}

// TestInstallOverHTTP starts the server as the page says, on another port and
// directory, and connects to it with the address and the header of every
// remote configuration.
func TestInstallOverHTTP(t *testing.T) {
	const address = "http://127.0.0.1:8765/mcp"
	lines := shellLines(t)
	i := slices.IndexFunc(lines, func(l shellLine) bool { return slices.Contains(l.words, "http") })
	require(t, i >= 0, "the page does not say how to serve over HTTP")
	l, dir := lines[i], t.TempDir()
	args, env := entry{l.from, clients.Entry{Command: l.words}}.here(t, dir)
	at := slices.Index(args, "--port")
	require(t, at >= 0 && args[at+1] == "8765", "%s: %q", l.from, args)
	args[at+1] = "0" // a free port, which the program prints
	token := strings.TrimPrefix(l.env[0], "RW_TOKEN=")
	server := serveIn(t, dir, append(env, l.env...), args...)
	url := strings.Replace(address, "http://127.0.0.1:8765", server.url, 1)

	connected := 0
	for _, e := range entries(t) {
		if e.URL == "" {
			continue
		}
		expect(t, e.URL == address, "%s: the address is %s, the server of the page is at %s", e.from, e.URL, address)
		c := must(client.NewStreamableHttpClient(url, transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + token})))(t)
		names, err := toolsOf(context.Background(), c)
		expect(t, err == nil && len(names) == wantTools(t, args), "%s: %d tools, %v", e.from, len(names), err)
		c.Close()
		connected++
	}
	expect(t, connected >= 7, "%d remote configurations", connected)
	for _, wrong := range []string{"", token + "x"} {
		res, _, err := server.post(wrong, "", initialize)
		expect(t, err == nil && res.StatusCode == http.StatusUnauthorized, "with the token %q: %v %v", wrong, res, err)
	}
}

// desk is a home directory and a project, with the files that clients have.
type desk struct {
	t             *testing.T
	home, project string
}

func newDesk(t *testing.T) *desk { return &desk{t, t.TempDir(), t.TempDir()} }

// run runs the built command and returns its reply and its code.
func (d *desk) run(args ...string) (reply map[string]any, code int) {
	d.t.Helper()
	cmd := exec.Command(build(d.t), args...)
	cmd.Dir = d.project
	cmd.Env = []string{"HOME=" + d.home, "USERPROFILE=" + d.home, "APPDATA=" + filepath.Join(d.home, "AppData"), "PATH=" + os.Getenv("PATH"), "XDG_STATE_HOME=" + os.Getenv("XDG_STATE_HOME")}
	out, _ := cmd.Output()
	err := json.Unmarshal(out, &reply)
	require(d.t, err == nil, "%q: %q %v", args, out, err)
	expect(d.t, !strings.Contains(string(out), d.home) && !strings.Contains(withoutRoots(string(out)), d.project),
		"%q: a whole path is shown: %s", args, out)
	return reply, cmd.ProcessState.ExitCode()
}

// withoutRoots returns a reply without the arguments of entries that need the
// whole path of the project.
func withoutRoots(text string) string {
	var kept []string
	for line := range strings.SplitSeq(text, `\n`) {
		if !strings.Contains(line, `\"--root\"`) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func (d *desk) path(name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		return filepath.Join(d.home, filepath.FromSlash(rest))
	}
	return filepath.Join(d.project, filepath.FromSlash(name))
}

func (d *desk) write(name, text string, perm fs.FileMode) {
	d.t.Helper()
	noErr(d.t, os.MkdirAll(filepath.Dir(d.path(name)), 0o755))
	noErr(d.t, os.WriteFile(d.path(name), []byte(text), perm))
}

// tree returns every file of both directories, with its mode.
func (d *desk) tree() map[string]string {
	out := regularFiles(d.t, d.project)
	for name, text := range regularFiles(d.t, d.home) {
		out["~/"+name] = text
	}
	return out
}

// foreignHooks are hooks of another program, one in a group that a person may
// have added ours to.
const foreignHooks = "{\n  // mine\n  \"hooks\": {\n    \"PreToolUse\": [\n      {\"matcher\": \"Bash\", \"hooks\": [{\"type\": \"command\", \"command\": \"mine\"}]}\n    ]\n  }\n}\n"

// TestInit configures every client, repeats it, and removes everything: the
// second run changes nothing, and after the last one every byte and mode is as
// before.
func TestInit(t *testing.T) {
	d := newDesk(t)
	d.write("~/.codex/config.toml", "model = \"x\" # mine\n", 0o640)
	d.write(".mcp.json", "{\n  // mine\n  \"mcpServers\": {\"a\": {\"command\": \"b\"}}\n}\n", 0o664)
	d.write("AGENTS.md", "# Mine\n", 0o644)
	d.write("~/.continue/config.yaml", "name: x\nmodels: [] # mine\n", 0o600)
	d.write("~/real.json", "{\"theme\": \"dark\"}\n", 0o600)
	d.write("~/.qwen/other", "", 0o600)
	d.write(".claude/settings.json", foreignHooks, 0o644)
	d.write(".clinerules/hooks/PreToolUse", "#!/bin/sh\n", 0o755) // of another scope
	if err := os.Symlink(d.path("~/real.json"), d.path("~/.qwen/settings.json")); err != nil {
		t.Skip("no links here:", err)
	}
	before := d.tree()
	all := append([]string{"init", "--approve", "--hooks"}, clients.Names()...)

	reply, code := d.run(append(all, "--dry-run")...)
	expect(t, code == 0 && len(reply["files"].([]any)) >= 15, "dry run: %d %v", code, reply)
	mustEqual(t, cmp.Diff(before, d.tree()), "", "a dry run wrote")
	reply, code = d.run(all...)
	expect(t, code == 0 && len(reply["files"].([]any)) >= 15, "%d %v", code, reply)
	configured := d.tree()
	for _, c := range clients.Table {
		name := c.Files[0].Path
		if strings.HasPrefix(name, "%") {
			continue // differs by system
		}
		text, err := os.ReadFile(d.path(name))
		_, ok := c.Ours(string(text))
		expect(t, ok && err == nil, "%s: %v\n%s", c.Name, err, text)
	}
	for name, want := range map[string]int{ // events
		".claude/settings.json": 8, "~/.codex/hooks.json": 7, ".gemini/settings.json": 4, "~/.qwen/settings.json": 7, "~/.copilot/hooks/resilient-write.json": 5,
		".opencode/plugins/resilient-write.js": 1, "~/.cline/hooks/PostToolUse": 1,
	} {
		text, err := os.ReadFile(d.path(name))
		n := strings.Count(string(text), "hook")
		expect(t, err == nil && n >= want && (!strings.Contains(name, "settings") || strings.Count(string(text), " hook --host ") == want), "%s: %v\n%s", name, err, text)
	}
	info, err := os.Stat(d.path("~/.cline/hooks/PostToolUse"))
	expect(t, err == nil && (runtime.GOOS == "windows" || info.Mode().Perm() == 0o700), "%v %v", info, err)
	reply, code = d.run(all...)
	expect(t, code == 0 && len(reply["files"].([]any)) == 0, "a second time: %d %v", code, reply)
	equal(t, cmp.Diff(configured, d.tree()), "", "a second time")
	_, code = d.run("init", "--remove", "--all")
	expect(t, code == 0, "removed: %d", code)
	equal(t, cmp.Diff(before, d.tree()), "", "removed")
	for _, top := range []string{d.project, d.home} {
		filepath.WalkDir(top, func(p string, e fs.DirEntry, err error) error {
			if list, _ := os.ReadDir(p); err == nil && e.IsDir() && p != top && len(list) == 0 {
				t.Errorf("an empty directory is left: %s", p)
			}
			return err
		})
	}
	info, err = os.Lstat(d.path("~/.qwen/settings.json"))
	expect(t, err == nil && info.Mode()&fs.ModeSymlink != 0, "the link is gone: %v %v", info, err)
}

// TestStatusNamesSilentHooks: status names configured hooks that have reported
// nothing, with what to do, until they report something.
func TestStatusNamesSilentHooks(t *testing.T) {
	d := newDesk(t)
	d.write("a.txt", "x\n", 0o644)
	d.run("changes")
	silent := func() string {
		r, _ := d.run("status")
		return fmt.Sprint(r["hooks_without_events"])
	}
	equal(t, silent(), "[]")
	d.run("init", "codex", "opencode", "--hooks")
	if s := silent(); !strings.Contains(s, "host:codex") || !strings.Contains(s, "~/.codex/hooks.json") || !strings.Contains(s, "trusted") || !strings.Contains(s, "host:opencode") {
		t.Error(s)
	}
	event, _ := json.Marshal(map[string]any{"cwd": d.project, "hook_event_name": "SessionStart", "session_id": "s"})
	cmd := exec.Command(build(t), "hook", "--host", "codex", "--deadline", "1m")
	cmd.Stdin = strings.NewReader(string(event))
	out, err := cmd.CombinedOutput()
	require(t, err == nil, "%v %s", err, out)
	s := silent()
	expect(t, !strings.Contains(s, "codex") && strings.Contains(s, "opencode"), "%v", s)
}

// entriesOf returns the findings of a run of doctor, by client.
func entriesOf(t *testing.T, reply map[string]any) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for _, one := range reply["entries"].([]any) {
		e := one.(map[string]any)
		expect(t, out[e["client"].(string)] == nil, "%s is there twice", e["client"])
		out[e["client"].(string)] = e
	}
	return out
}

// TestDoctor: the entry that init writes for each client starts the server of
// the project, lists its tools and answers a call.
func TestDoctor(t *testing.T) {
	d := newDesk(t)
	if reply, code := d.run("doctor"); code != int(rw.CodeNotFound) || len(reply["entries"].([]any)) > 0 {
		t.Errorf("nothing is configured: %d %v", code, reply)
	}
	if _, code := d.run(append([]string{"init"}, clients.Names()...)...); code != 0 {
		t.Fatal(code)
	}
	reply, code := d.run("doctor")
	found := entriesOf(t, reply)
	expect(t, code == 0 && len(found) == len(clients.Table), "%d, %d entries", code, len(found))
	for name, e := range found {
		expect(t, e["works"] == true && e["version"] == rw.Version && e["tools"].(float64) == float64(wantTools(t, nil)), "%s: %v", name, e)
		c, _ := clients.Find(name)
		notes, _ := json.Marshal(e["notes"])
		expect(t, len(c.Approve) > 0 == strings.Contains(string(notes), "--approve"), "%s: %s", name, notes)
	}
	t.Setenv("XDG_STATE_HOME", "") // clients do not pass it on
	t.Setenv("HOME", d.home)
	must(os.Stat(filepath.Join(must(place.At(d.project))(t), "journal")))(t, "another directory is served")
	d.run("init", "codex", "claude-code", "--approve", "--remove")
	d.run("init", "codex", "claude-code", "--approve")
	reply, _ = d.run("doctor", "codex", "claude-code")
	for name, e := range entriesOf(t, reply) {
		expect(t, e["works"] == true && e["notes"] == nil, "%s is approved: %v", name, e)
	}
}

// TestDoctorFinds: doctor reports what is wrong with an entry, and what to do.
func TestDoctorFinds(t *testing.T) {
	testbed.SkipIf(t, runtime.GOOS == "windows", "the programs of this test are shell scripts")
	d := newDesk(t)
	script := func(name, text string) string {
		d.write("~/bin/"+name, "#!/bin/sh\n"+text+"\n", 0o755)
		return d.path("~/bin/" + name)
	}
	entry := func(command string, args ...string) string {
		data, _ := json.Marshal(map[string]any{"mcpServers": map[string]any{"resilientwrite": map[string]any{"command": command, "args": args}}})
		return string(data)
	}
	secret := "password-" + strings.Repeat("z", 12)
	away := httptest.NewServer(http.RedirectHandler("/", http.StatusTemporaryRedirect))
	defer away.Close()
	for name, one := range map[string]struct{ text, want string }{
		"gone":     {entry("/nowhere/resilient-write"), "not found"},
		"silent":   {entry(script("silent", "exit 3")), "ended without an answer"},
		"talks":    {entry(script("talks", "echo "+secret+"; cat >/dev/null")), "something else than the protocol"},
		"other":    {entry(script("other", "read a; echo "+secret+" >&2; exit 1")), "ended without an answer"},
		"root":     {entry(build(t), "serve", "--root", "/"), "unsafe_root"},
		"flag":     {entry(build(t), "serve", "--roto", "."), "unknown flag: --roto"},
		"off":      {`{"mcpServers":{"resilientwrite":{"command":"x","disabled":true}}}`, "switched off"},
		"broken":   {`{"mcpServers":`, "not valid JSON"},
		"refusing": {entry(script("refusing", `read a; echo '{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}'`)), "the server refuses: no"},
		"address":  {`{"mcpServers":{"resilientwrite":{"url":"http://127.0.0.1:1/mcp"}}}`, "nothing answers"},
		"redirect": {`{"mcpServers":{"resilientwrite":{"url":"` + away.URL + `"}}}`, "the address answers with the status 307"},
	} {
		d.write("~/.cursor/mcp.json", one.text, 0o600)
		reply, code := d.run("doctor", "cursor")
		e := entriesOf(t, reply)["cursor"]
		problem, _ := e["problem"].(string)
		expect(t, code == int(rw.CodeInvalid) && e["works"] == false && strings.Contains(problem, one.want) && !strings.Contains(problem, secret), "%s: %d %v", name, code, e)
	}
}

// TestDoctorTriesNothingThatACloneBrought: an entry in a file of the project runs
// no other program, not this one with other variables or another subcommand, and
// sends nothing to another machine.
func TestDoctorTriesNothingThatACloneBrought(t *testing.T) {
	testbed.SkipIf(t, runtime.GOOS == "windows", "the program of this test is a shell script")
	d := newDesk(t)
	d.write("evil/resilient-write", "#!/bin/sh\ntouch '"+d.path("ran")+"'\n", 0o755)
	own := build(t)
	for name, entry := range map[string]string{
		"relative":   `{"command":"./evil/resilient-write","args":["serve"]}`,
		"whole":      `{"command":"` + d.path("evil/resilient-write") + `","args":["serve"]}`,
		"below":      `{"command":"evil/resilient-write","cwd":"."}`,
		"shell":      `{"command":"sh","args":["-c","touch ran"]}`,
		"subcommand": `{"command":"` + own + `","args":["--sync","off","exec","--","touch","ran"]}`,
		"variable":   `{"command":"` + own + `","args":["serve"],"env":{"LD_PRELOAD":"./evil.so"}}`,
		"address":    `{"url":"http://192.0.2.1/mcp","headers":{"A":"${HOME}"}}`,
		"name":       `{"url":"http://localhost.example/mcp"}`,
	} {
		d.write(".cursor/mcp.json", `{"mcpServers":{"resilientwrite":`+entry+`}}`, 0o600)
		reply, code := d.run("doctor", "--root", d.project, "cursor")
		e := entriesOf(t, reply)["cursor"]
		problem, _ := e["problem"].(string)
		expect(t, code == int(rw.CodeInvalid) && strings.HasPrefix(problem, "not tried: "), "%s: %d %v", name, code, e)
		_, err := os.Stat(d.path("ran"))
		expect(t, err != nil, "%s: the program ran", name)
	}
}

// TestInitReportsWhatCannotBeRead: that is no change by another program.
func TestInitReportsWhatCannotBeRead(t *testing.T) {
	f := &edited{path: filepath.Join(t.TempDir(), strings.Repeat("x", 300)), there: true, before: "x", after: "y"}
	err := f.write(clients.Place{})
	expect(t, errors.Is(err, syscall.ENAMETOOLONG), "%v", err)
}

// TestInitLosesNoSave: what an editor saves while init writes the new file is kept, and
// init reports that others were written.
func TestInitLosesNoSave(t *testing.T) {
	d := newDesk(t)
	d.write("a", "old", 0o600)
	path, saved := d.path("a"), make(chan error, 1)
	running, end := context.WithCancel(t.Context())
	go func() {
		for {
			if list, _ := filepath.Glob(path + ".*.tmp"); len(list) > 0 || running.Err() != nil {
				noErr(t, os.WriteFile(path+".new", []byte("saved"), 0o600))
				saved <- os.Rename(path+".new", path)
				return
			}
		}
	}()
	first := &edited{path: d.path("b"), after: "x"}
	f := &edited{path: path, shown: "a", there: true, before: "old", after: strings.Repeat("x", 8<<20)}
	err := (&app{}).carryOut(&setup{files: []*edited{first, f}, initOptions: initOptions{yes: true}})
	end()
	noErr(t, <-saved)
	text, _ := os.ReadFile(path)
	equal(t, string(text[:min(len(text), 9)]), "saved")
	if e := (*rw.Error)(nil); err != nil && (!errors.As(err, &e) || e.Detail != rw.ErrChangedDuringWrite || e.Effect != rw.EffectUnknown) {
		t.Errorf("%v", err)
	}
}

// TestInitLeavesWhatIsTheUsers: a file that is read-only, a plugin that the user has
// changed, and a home directory that is no project, also behind a link.
func TestInitLeavesWhatIsTheUsers(t *testing.T) {
	d := newDesk(t)
	d.write(".cursor/mcp.json", "{}", 0o444)
	_, code := d.run("init", "opencode", "--hooks")
	equal(t, code, 0)
	plugin := ".opencode/plugins/" + hostevent.OpenCode
	d.write(plugin, d.tree()[plugin][len("-rw-r--r-- "):]+"// mine\n", 0o644)
	d.write(".claude/settings.json", "{\"hooks\": []}", 0o644)
	before := d.tree()
	for file, args := range map[string][]string{".cursor/mcp.json": {"cursor"}, plugin: {"opencode", "--hooks"}, ".claude/settings.json": {"claude-code", "--hooks"}} {
		reply, code := d.run(append([]string{"init"}, args...)...)
		expect(t, code == int(rw.CodeInvalid) && strings.Contains(fmt.Sprint(reply), "["+file+": "), "%s: %d %v", file, code, reply)
		equal(t, cmp.Diff(before, d.tree()), "", args)
	}
	d.run("init", "opencode", "--remove")
	equal(t, d.tree()[plugin], before[plugin], "removed")

	d.project, d.home = d.home, filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(d.project, d.home); err != nil {
		t.Skip("no links here:", err)
	}
	_, code = d.run("init", "claude-code")
	equal(t, code, int(rw.CodeInvalid), "the home directory")
}

// TestInitRemovesWhatAKilledOneLeft: and nothing else that has a similar name.
func TestInitRemovesWhatAKilledOneLeft(t *testing.T) {
	d := newDesk(t)
	for name, age := range map[string]time.Duration{"123-4.tmp": time.Minute, "5-1.tmp": time.Minute, "6-1.tmp": 0, "x-1.tmp": time.Minute, "1-1.tmpx": time.Minute} {
		d.write(".mcp.json."+name, "{", 0o600)
		noErr(t, os.Chtimes(d.path(".mcp.json."+name), time.Time{}, time.Now().Add(-age)))
	}
	dir := must(fsx.OpenRoot(d.project))(t)
	defer dir.Close()
	busy := must(dir.Open(".mcp.json.5-1.tmp", fsx.Write, 0))(t) // a process writes it
	defer busy.Close()
	must(busy.TryLock(0, 1, true))(t)
	_, code := d.run("init", "claude-code", "--no-instructions")
	var left []string
	for _, name := range must(dir.Names())(t) {
		if rest, ok := strings.CutPrefix(name, ".mcp.json"); ok {
			left = append(left, rest)
		}
	}
	equal(t, fmt.Sprint(code, left), "0 [ .1-1.tmpx .5-1.tmp .6-1.tmp .x-1.tmp]")
}

// TestInitFollowsNoLinkOutOfTheProject: a link that a clone brought does not make
// init write to a file of the user, or make one; nor is a link to nothing replaced.
func TestInitFollowsNoLinkOutOfTheProject(t *testing.T) {
	testbed.SkipIf(t, runtime.GOOS == "windows", "links need a privilege")
	for name, to := range map[string]string{
		"AGENTS.md": "~/.profile", "opencode.json": "~/.hub.json", ".opencode": "~/bin", ".opencode/plugins": "~/bin", "~/.config/opencode/opencode.json": "~/none",
	} {
		d := newDesk(t)
		d.write("~/.profile", "export A=1\n", 0o600)
		d.write("~/.hub.json", "{}", 0o600)
		d.write("~/bin/x", "x", 0o700)
		noErr(t, os.MkdirAll(filepath.Dir(d.path(name)), 0o755))
		noErr(t, os.Symlink(d.path(to), d.path(name)))
		before, scope := d.tree(), "project"
		if strings.HasPrefix(name, "~") {
			scope = "user"
		}
		reply, code := d.run("init", "opencode", "--hooks", "--scope", scope)
		said, _ := json.Marshal(reply)
		expect(t, code == int(rw.CodeInvalid) && strings.Contains(string(said), "link"), "%s: %d %s", name, code, said)
		equal(t, cmp.Diff(before, d.tree()), "", name)
		must(os.Readlink(d.path(name)))(t, name)
	}
	d := newDesk(t) // a link within the project
	d.write("CLAUDE.md", "mine\n", 0o600)
	noErr(t, os.Symlink("CLAUDE.md", d.path("AGENTS.md")))
	if _, code := d.run("init", "opencode"); code != 0 || !strings.Contains(d.tree()["CLAUDE.md"], "rw_undo") {
		t.Errorf("%d %v", code, d.tree())
	}
}

// TestDoctorOverHTTP: an entry with an address is called there, with the token
// from the variable that it names.
func TestDoctorOverHTTP(t *testing.T) {
	d := newDesk(t)
	token := strings.Repeat("t", 20)
	address := serveIn(t, d.project, []string{"RW_TOKEN=" + token, "HOME=" + d.home}, "serve", "--transport", "http", "--port", "0").url + "/mcp"
	for value, want := range map[string]string{"Bearer " + token: "", "Bearer wrong": "token"} {
		data, _ := json.Marshal(map[string]any{"mcpServers": map[string]any{"resilientwrite": map[string]any{"httpUrl": address, "headers": map[string]string{"Authorization": value}}}})
		d.write(".gemini/settings.json", string(data), 0o600)
		reply, _ := d.run("doctor", "gemini")
		e := entriesOf(t, reply)["gemini"]
		problem, _ := e["problem"].(string)
		expect(t, (e["works"] == true) == (want == "") && strings.Contains(problem, want), "%q: %v", want, e)
	}
	refs := clients.Entry{Headers: map[string]string{"A": "Bearer ${RW_TOKEN}", "B": "Bearer ${env:RW_TOKEN}", "C": "Bearer {env:RW_TOKEN}", "D": "Bearer <token>"}}
	got := refs.HeadersFrom(func(name string) string { return map[string]string{"RW_TOKEN": "x"}[name] })
	for name, want := range map[string]string{"A": "Bearer x", "B": "Bearer x", "C": "Bearer x", "D": "Bearer <token>"} {
		equal(t, got[name], want, name)
	}
}

// repository is the path from this package to the root.
const repository = "../.."

// page reads a document by its path in the repository.
func page(t testing.TB, name string) string {
	t.Helper()
	data := must(os.ReadFile(filepath.Join(repository, filepath.FromSlash(name))))(t)
	return string(data)
}

// fence is one code block of a page.
type fence struct {
	lang, text, heading string
	line                int // number of its first line of text
}

func (f fence) String() string { return fmt.Sprintf("line %d, %s", f.line, f.heading) }

// fences returns the code blocks of a page, each with the preceding
// second-level heading.
func fences(t testing.TB, text string) []fence {
	t.Helper()
	var list []fence
	var open *fence
	heading := ""
	for i, line := range strings.Split(text, "\n") {
		lang, mark := strings.CutPrefix(line, "```")
		switch {
		case open != nil && mark:
			list = append(list, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		case mark:
			open = &fence{lang: lang, heading: heading, line: i + 2}
		case strings.HasPrefix(line, "## "):
			heading = strings.TrimPrefix(line, "## ")
		case strings.Contains(line, "```"):
			t.Fatalf("line %d: a code block is indented or quoted, so nothing checks it", i+1)
		}
	}
	require(t, open == nil, "%v: the code block does not end", open)
	return list
}

// decode reads a configuration file strictly: what a lenient reader would
// ignore (a key given twice, a comma at the end, a comment) is an error.
func decode(t testing.TB, f fence) map[string]any {
	t.Helper()
	ctx := context.Background()
	store := must(rw.Open(ctx, t.TempDir(), &rw.Options{ReadOnly: true}))(t)
	defer store.Close(ctx)
	r, err := store.Validate(ctx, rw.ValidateRequest{Content: []byte(f.text), FormatHint: f.lang})
	require(t, err == nil && r.Valid && len(r.Errors) == 0, "%v: %v %v", f, r.Errors, err)
	if f.lang != "json" {
		return must(clients.Read(clients.Format(f.lang), f.text))(t, f)
	}
	doc := testbed.Decoded[map[string]any](t, []byte(f.text), f)
	return doc
}

// words splits a line of a shell block. It supports only quotes, and fails for
// anything else.
func words(line string) ([]string, error) {
	var list []string
	word, quoted, begun := "", false, false
	for _, c := range line {
		switch {
		case c == '"':
			quoted, begun = !quoted, true
		case c == ' ' && !quoted:
			if begun {
				list = append(list, word)
			}
			word, begun = "", false
		case strings.ContainsRune("|;&<>$`'\\*?(){}#", c):
			return nil, fmt.Errorf("%q is more shell than this reader knows", c)
		default:
			word, begun = word+string(c), true
		}
	}
	if quoted {
		return nil, fmt.Errorf("a quote does not end")
	}
	if begun {
		list = append(list, word)
	}
	return list, nil
}

// TestWordsRefuseWhatTheyDoNotKnow: a reader that ignores what it does not
// understand would make the tests of the pages worthless.
func TestWordsRefuseWhatTheyDoNotKnow(t *testing.T) {
	for _, line := range []string{"a | b", "a $B", "a 'b'", `a "b`, "a > b", "a; b", "a && b", "a # b", `a \`} {
		list, err := words(line)
		expect(t, err != nil, "%q is %q", line, list)
	}
	list, err := words(`a  "b c" d=e ""`)
	expect(t, err == nil && fmt.Sprintf("%q", list) == `["a" "b c" "d=e" ""]`, "%q %v", list, err)
	got := fences(t, "## H\n```json\n{}\n```\n")
	expect(t, len(got) == 1 && got[0] == (fence{"json", "{}\n", "H", 3}), "%v", got)
}
