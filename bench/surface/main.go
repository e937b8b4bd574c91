// Command surface measures the cost of an MCP server for its client: in bytes,
// for the list of tools and the replies to the same tasks; in bytes and tokens,
// for a session of 23 calls; and in time. It compares the server of this tree
// with the official filesystem server and Desktop Commander, which it installs
// with npm:
//
//	cd bench && go run ./surface -write
//
// Without npm their columns are missing. The tables go between the marks of
// docs/benchmark.md. Bytes are counted in what the protocol calls content;
// structured content, which some hosts show as well, is in parentheses.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/bench/internal/page"
	"github.com/resilientwrite/resilientwrite/bench/internal/shell"
)

// task is one line of the table: the calls that do it on each server. An empty
// call means that the server has no such function.
type task struct{ name, ours, theirs, commander string }

// In calls, DIR is the workspace: the filesystem server takes absolute paths.
var tasks = []task{
	{"create a file of 8 bytes", `rw_safe_write {"path":"notes.md","content":"# Notes\n"}`, `write_file {"path":"DIR/notes.md","content":"# Notes\n"}`, `write_file {"path":"DIR/notes.md","content":"# Notes\n"}`},
	{"create a file that exists", `rw_safe_write {"path":"notes.md","content":"# Other\n"}`, ``, ``},
	{"change one line", `rw_edit {"path":"notes.md","edits":[{"old":"Notes","new":"Ideas"}]}`, `edit_file {"path":"DIR/notes.md","edits":[{"oldText":"Notes","newText":"Ideas"}]}`, `edit_block {"file_path":"DIR/notes.md","old_string":"Notes","new_string":"Ideas"}`},
	{"an edit that does not match", `rw_edit {"path":"notes.md","edits":[{"old":"Nites","new":"x"}]}`, `edit_file {"path":"DIR/notes.md","edits":[{"oldText":"Nites","newText":"x"}]}`, `edit_block {"file_path":"DIR/notes.md","old_string":"Nites","new_string":"x"}`},
	{"write two files in one call", `rw_tx {"ops":[{"op":"write","path":"a.txt","content":"a"},{"op":"write","path":"b.txt","content":"b"}]}`, ``, ``},
	{"read a file of 8 bytes", `rw_read {"path":"notes.md"}`, `read_text_file {"path":"DIR/notes.md"}`, `read_file {"path":"DIR/notes.md"}`},
	{"read a file of 112,000 bytes", `rw_read {"path":"long.txt"}`, `read_text_file {"path":"DIR/long.txt"}`, `read_file {"path":"DIR/long.txt"}`},
	{"read a file that does not exist", `rw_read {"path":"none.txt"}`, `read_text_file {"path":"DIR/none.txt"}`, `read_file {"path":"DIR/none.txt"}`},
	{"move a file", `rw_tx {"ops":[{"op":"move","path":"notes.md","to":"moved.md"}]}`, `move_file {"source":"DIR/notes.md","destination":"DIR/moved.md"}`, `move_file {"source":"DIR/notes.md","destination":"DIR/moved.md"}`},
	{"describe the server", `rw_describe {}`, `list_allowed_directories {}`, `get_config {}`},
}

const (
	begin = "<!-- Made by `cd bench && go run ./surface -write`, up to the end mark. Do not edit. -->"
	end   = "<!-- End of the tables of the surface. -->"
)

// peers are the packages of the other servers, and their programs.
var peers = map[string]string{"mcp-server-filesystem": "@modelcontextprotocol/server-filesystem@2026.8.31", "desktop-commander": "@wonderwhy-er/desktop-commander@0.2.52"}

func main() {
	log.SetFlags(0)
	write := flag.Bool("write", false, "put the tables into ../docs/benchmark.md")
	packages := flag.String("npm", "", "a `directory` in which npm installs, kept for the next run; default: a temporary one")
	flag.Parse()
	if err := run(*packages, *write); err != nil {
		log.Fatal(err)
	}
}

// A contestant is a server with its arguments, in which DIR is the workspace,
// and the form of its calls.
type contestant struct {
	title   string
	program string
	args    []string
	env     []string
	speak   func(op) (tool string, args map[string]any)
	task    func(task) string
}

func run(packages string, write bool) error {
	temp, err := os.MkdirTemp("", "surface")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	os.Setenv("XDG_STATE_HOME", filepath.Join(temp, "state")) // not the user's
	bin, err := shell.Build(temp)
	if err != nil {
		return err
	}
	ours := func(t task) string { return t.ours }
	all := []contestant{
		{"core", bin, []string{"--tier", "core", "--root", "DIR"}, nil, speakOurs, ours},
		{"standard, the default", bin, []string{"--root", "DIR"}, nil, speakOurs, ours},
		{"full", bin, []string{"--tier", "full", "--root", "DIR"}, nil, speakOurs, ours},
	}
	if packages == "" {
		packages = filepath.Join(temp, "npm")
	}
	var t tables
	if err := install(packages); err != nil {
		fmt.Fprintln(os.Stderr, "the other servers are left out:", err)
	} else {
		program := func(name string) string { return filepath.Join(packages, "node_modules", ".bin", name) }
		all = append(all,
			contestant{"filesystem", program("mcp-server-filesystem"), []string{"DIR"}, nil, speakFilesystem, func(t task) string { return t.theirs }},
			contestant{"Desktop Commander", program("desktop-commander"), []string{"--no-onboarding"}, []string{"HOME=DIR/../home"}, speakCommander, func(t task) string { return t.commander }})
	}
	t.printf("Measured %s with %s", time.Now().UTC().Format("2006-01-02"), runtime.Version())
	for _, c := range all[3:] {
		t.printf(", %s", peers[filepath.Base(c.program)])
	}
	t.printf(".\n\n")
	for _, part := range []func(string, []contestant) error{t.tasks, t.session, t.latency} {
		if err := part(temp, all); err != nil {
			return err
		}
	}
	if !write {
		return nil
	}
	return page.Replace("../docs/benchmark.md", begin, end, t.String())
}

// install installs the other servers with npm, without running their scripts.
func install(dir string) error {
	args := []string{"install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", "--prefix", dir}
	for _, name := range peers {
		args = append(args, name)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if out, err := exec.Command("npm", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// tables is the text that the command prints and writes.
type tables struct{ strings.Builder }

func (t *tables) printf(format string, args ...any) {
	fmt.Printf(format, args...)
	fmt.Fprintf(t, format, args...)
}

// table prints columns whose first cell is the title.
func (t *tables) table(names []string, columns [][]string) {
	for i, name := range names {
		line := "| " + name
		for _, c := range columns {
			line += " | " + c[i]
		}
		t.printf("%s |\n", line)
		if i == 0 {
			t.printf("|---%s|\n", strings.Repeat("|---", len(columns)))
		}
	}
	t.printf("\n")
}

// tasks measures each task alone.
func (t *tables) tasks(temp string, all []contestant) error {
	names := []string{"bytes", "tools", "list of tools", "of it name, description, arguments"}
	for _, k := range tasks {
		names = append(names, k.name)
	}
	var columns [][]string
	for _, c := range all {
		dir, err := workspace(temp)
		if err != nil {
			return err
		}
		column, err := measure(c, dir)
		if err != nil {
			return fmt.Errorf("%s: %w", c.title, err)
		}
		columns = append(columns, append([]string{c.title}, column...))
	}
	t.table(names, columns)
	return nil
}

// workspace makes a directory for one server, and next to it a home directory
// in which Desktop Commander finds its settings.
func workspace(temp string) (string, error) {
	top, err := os.MkdirTemp(temp, "work")
	if err != nil {
		return "", err
	}
	dir, settings := filepath.Join(top, "ws"), filepath.Join(top, "home", ".claude-server-commander")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.MkdirAll(settings, 0o755)); err != nil {
		return "", err
	}
	doc, err := json.Marshal(map[string]any{"telemetryEnabled": false, "allowedDirectories": []string{dir}})
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(settings, "config.json"), doc, 0o644)
}

// server is an MCP server on a pipe.
type server struct {
	in   io.Writer
	out  *bufio.Reader
	stop func()
	last int
}

// ask sends a request and returns the raw result.
func (s *server) ask(method string, params any) (json.RawMessage, error) {
	s.last++
	msg, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": s.last, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	if _, err := s.in.Write(append(msg, '\n')); err != nil {
		return nil, err
	}
	for {
		line, err := s.out.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		var reply struct {
			ID            int
			Result, Error json.RawMessage
		}
		if json.Unmarshal(line, &reply) == nil && reply.ID == s.last && (reply.Result != nil || reply.Error != nil) {
			if reply.Error != nil {
				return nil, fmt.Errorf("%s: %s", method, reply.Error)
			}
			return reply.Result, nil
		}
	}
}

// start runs a server and performs the handshake.
func start(c contestant, dir string) (*server, error) {
	fill := strings.NewReplacer("DIR", dir)
	cmd := exec.Command(c.program)
	for _, arg := range c.args {
		cmd.Args = append(cmd.Args, fill.Replace(arg))
	}
	cmd.Env = os.Environ()
	for _, v := range c.env {
		cmd.Env = append(cmd.Env, fill.Replace(v))
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{in: in, out: bufio.NewReader(out), stop: func() {
		in.Close()
		if c.env != nil { // Desktop Commander does not exit when its input ends
			cmd.Process.Kill()
		}
		cmd.Wait()
	}}
	_, err = s.ask("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "surface", "version": "1"}})
	if err == nil {
		_, err = in.Write([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"))
	}
	if err != nil {
		s.stop()
	}
	return s, err
}

// measure drives one server and returns its column.
func measure(c contestant, dir string) ([]string, error) {
	if err := os.WriteFile(filepath.Join(dir, "long.txt"), []byte(strings.Repeat("a line of <text> & \"words\" ..\n", 3734)), 0o644); err != nil {
		return nil, err
	}
	s, err := start(c, dir)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	l, err := s.list()
	if err != nil {
		return nil, err
	}
	column := []string{fmt.Sprint(l.tools), fmt.Sprint(l.bytes), fmt.Sprint(len(l.paid))}
	for _, t := range tasks {
		if err != nil {
			break
		}
		cell := "–"
		if call := c.task(t); call != "" {
			cell, err = s.show(strings.ReplaceAll(call, "DIR", dir))
		}
		column = append(column, cell)
	}
	return column, err
}

// listed is the list of tools, and the part of it that a model pays for.
type listed struct {
	tools, bytes int
	paid         string
}

// list asks for the tools.
func (s *server) list() (l listed, err error) {
	doc, err := s.ask("tools/list", map[string]any{})
	if err != nil {
		return l, err
	}
	var list struct {
		Tools []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			InputSchema json.RawMessage `json:"inputSchema"`
		}
	}
	if err := json.Unmarshal(doc, &list); err != nil {
		return l, err
	}
	for _, t := range list.Tools {
		one, err := json.Marshal(t)
		if err != nil {
			return l, err
		}
		l.paid += string(one)
	}
	l.tools, l.bytes = len(list.Tools), len(doc)
	return l, nil
}

// A reply is what a tool returned.
type reply struct {
	text, structured string
	refused          bool
}

// call calls a tool.
func (s *server) call(name string, args any) (r reply, err error) {
	doc, err := s.ask("tools/call", map[string]any{"name": name, "arguments": args})
	if err != nil {
		return r, err
	}
	var res struct {
		Content           []struct{ Text string }
		StructuredContent json.RawMessage
		IsError           bool
	}
	if err := json.Unmarshal(doc, &res); err != nil {
		return r, err
	}
	for _, c := range res.Content {
		r.text += c.Text
	}
	r.structured, r.refused = string(res.StructuredContent), res.IsError
	return r, nil
}

// show returns the size of a reply: content, and structured content in
// parentheses.
func (s *server) show(call string) (string, error) {
	name, args, _ := strings.Cut(call, " ")
	r, err := s.call(name, json.RawMessage(args))
	cell := fmt.Sprint(len(r.text))
	if r.structured != "" {
		cell += fmt.Sprintf(" (%d)", len(r.structured))
	}
	if r.refused {
		cell += " refused"
	}
	return cell, err
}
