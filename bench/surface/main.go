// Command surface measures what a client of an MCP server pays in bytes: the
// list of tools, and the replies to the same tasks. It drives the server of
// this tree, and with -filesystem the official filesystem server beside it:
//
//	npm install --prefix /tmp/npm @modelcontextprotocol/server-filesystem
//	cd bench && go run ./surface -filesystem /tmp/npm/node_modules/.bin/mcp-server-filesystem
//
// It prints the table of docs/mcp.md. Bytes are counted in what the protocol
// calls content; structured content, which some hosts show as well, is in
// parentheses.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// task is one line of the table: the calls that do it on each server. An empty
// call says that the server has nothing of the kind.
type task struct{ name, ours, theirs string }

// In calls, DIR is the workspace: the filesystem server takes absolute paths.
var tasks = []task{
	{"create a file of 8 bytes", `rw_safe_write {"path":"notes.md","content":"# Notes\n"}`, `write_file {"path":"DIR/notes.md","content":"# Notes\n"}`},
	{"create a file that exists", `rw_safe_write {"path":"notes.md","content":"# Other\n"}`, ``},
	{"change one line", `rw_edit {"path":"notes.md","edits":[{"old":"Notes","new":"Ideas"}]}`, `edit_file {"path":"DIR/notes.md","edits":[{"oldText":"Notes","newText":"Ideas"}]}`},
	{"an edit that does not match", `rw_edit {"path":"notes.md","edits":[{"old":"Nites","new":"x"}]}`, `edit_file {"path":"DIR/notes.md","edits":[{"oldText":"Nites","newText":"x"}]}`},
	{"write two files in one call", `rw_tx {"ops":[{"op":"write","path":"a.txt","content":"a"},{"op":"write","path":"b.txt","content":"b"}]}`, ``},
	{"read a file of 8 bytes", `rw_read {"path":"notes.md"}`, `read_text_file {"path":"DIR/notes.md"}`},
	{"read a file of 112,000 bytes", `rw_read {"path":"long.txt"}`, `read_text_file {"path":"DIR/long.txt"}`},
	{"read a file that does not exist", `rw_read {"path":"none.txt"}`, `read_text_file {"path":"DIR/none.txt"}`},
	{"move a file", `rw_tx {"ops":[{"op":"move","path":"notes.md","to":"moved.md"}]}`, `move_file {"source":"DIR/notes.md","destination":"DIR/moved.md"}`},
	{"describe the server", `rw_describe {}`, `list_allowed_directories {}`},
}

func main() {
	other := flag.String("filesystem", "", "the `program` of the official filesystem server; it is left out without one")
	flag.Parse()
	if err := run(*other); err != nil {
		log.Fatal(err)
	}
}

func run(other string) error {
	temp, err := os.MkdirTemp("", "surface")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	bin := filepath.Join(temp, "resilient-write")
	build := exec.Command("go", "build", "-o", bin, "./cmd/resilient-write")
	build.Dir = ".." // another module
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	var columns [][]string
	for _, c := range []struct {
		title, program string
		args           []string
		calls          func(task) string
	}{
		{"core", bin, []string{"--tier", "core", "--root", "DIR"}, func(t task) string { return t.ours }},
		{"standard, the default", bin, []string{"--root", "DIR"}, func(t task) string { return t.ours }},
		{"full", bin, []string{"--tier", "full", "--root", "DIR"}, func(t task) string { return t.ours }},
		{"filesystem", other, []string{"DIR"}, func(t task) string { return t.theirs }},
	} {
		if c.program == "" {
			fmt.Fprintln(os.Stderr, "the filesystem server is left out; see -filesystem")
			continue
		}
		dir, err := os.MkdirTemp(temp, "work")
		if err != nil {
			return err
		}
		column, err := measure(c.program, c.args, dir, c.calls)
		if err != nil {
			return fmt.Errorf("%s: %w", c.title, err)
		}
		columns = append(columns, append([]string{c.title}, column...))
	}
	names := []string{"bytes", "tools", "list of tools", "of it name, description, arguments"}
	for _, t := range tasks {
		names = append(names, t.name)
	}
	for i, name := range names {
		line := "| " + name
		for _, c := range columns {
			line += " | " + c[i]
		}
		fmt.Println(line + " |")
		if i == 0 {
			fmt.Println("|---" + strings.Repeat("|---", len(columns)) + "|")
		}
	}
	return nil
}

// server is an MCP server on a pipe.
type server struct {
	in   io.Writer
	out  *bufio.Reader
	last int
}

// ask sends a request and returns the result as it came.
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

// measure drives one server and returns its column.
func measure(program string, args []string, dir string, calls func(task) string) ([]string, error) {
	if err := os.WriteFile(filepath.Join(dir, "long.txt"), []byte(strings.Repeat("a line of <text> & \"words\" ..\n", 3734)), 0o644); err != nil {
		return nil, err
	}
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "DIR", dir)
	}
	cmd := exec.Command(program, args...)
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
	defer func() { in.Close(); cmd.Wait() }()
	s := &server{in: in, out: bufio.NewReader(out)}
	if _, err := s.ask("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "surface", "version": "1"}}); err != nil {
		return nil, err
	}
	if _, err := in.Write([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")); err != nil {
		return nil, err
	}
	column, err := s.list()
	for _, t := range tasks {
		if err != nil {
			break
		}
		cell := "–"
		if call := calls(t); call != "" {
			cell, err = s.call(strings.ReplaceAll(call, "DIR", dir))
		}
		column = append(column, cell)
	}
	return column, err
}

// list measures the list of tools.
func (s *server) list() ([]string, error) {
	doc, err := s.ask("tools/list", map[string]any{})
	if err != nil {
		return nil, err
	}
	var list struct {
		Tools []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			InputSchema json.RawMessage `json:"inputSchema"`
		}
	}
	if err := json.Unmarshal(doc, &list); err != nil {
		return nil, err
	}
	paid := 0
	for _, t := range list.Tools {
		one, err := json.Marshal(t)
		if err != nil {
			return nil, err
		}
		paid += len(one)
	}
	return []string{fmt.Sprint(len(list.Tools)), fmt.Sprint(len(doc)), fmt.Sprint(paid)}, nil
}

// call measures a reply: content, and structured content in parentheses.
func (s *server) call(call string) (string, error) {
	name, args, _ := strings.Cut(call, " ")
	doc, err := s.ask("tools/call", map[string]any{"name": name, "arguments": json.RawMessage(args)})
	if err != nil {
		return "", err
	}
	var res struct {
		Content           []struct{ Text string }
		StructuredContent json.RawMessage
		IsError           bool
	}
	if err := json.Unmarshal(doc, &res); err != nil {
		return "", err
	}
	bytes := 0
	for _, c := range res.Content {
		bytes += len(c.Text)
	}
	cell := fmt.Sprint(bytes)
	if len(res.StructuredContent) > 0 {
		cell += fmt.Sprintf(" (%d)", len(res.StructuredContent))
	}
	if res.IsError {
		cell += " refused"
	}
	return cell, nil
}
