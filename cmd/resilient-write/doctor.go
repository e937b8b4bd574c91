package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/clients"
)

// doctor tests the entries of all clients.
func (a *app) doctor() *cobra.Command {
	return &cobra.Command{
		Use: "doctor [CLIENT...]", Short: "Try the configuration of MCP clients: start each entry and call it", GroupID: "upkeep",
		Long: `Look for this server in the configuration of MCP clients, for the project and
for the user. Start each entry as it is configured, list its tools, and call a
tool that changes nothing. An entry with an address is called at that address.

The files of the project may come from a clone. An entry in them is reported but
not tried if it starts a program other than this one, sets variables other than
RW_*, or has an address on another machine.

The exit code is 5 if an entry does not work, and 4 if there is no entry.`,
		ValidArgs: clients.Names(),
		RunE:      func(cmd *cobra.Command, args []string) error { return a.runDoctor(cmd.Context(), args) },
	}
}

// doctorReply lists what was found.
type doctorReply struct {
	Entries []finding `json:"entries"`
	Others  []string  `json:"not_configured"` // clients that are found on the machine
}

// finding is one entry.
type finding struct {
	Client  string   `json:"client"`
	File    string   `json:"file"`
	Works   bool     `json:"works"`
	Version string   `json:"version,omitempty"`
	Tools   int      `json:"tools,omitempty"`
	Problem string   `json:"problem,omitempty"`
	Notes   []string `json:"notes,omitempty"`
}

func (a *app) runDoctor(ctx context.Context, names []string) error {
	place, err := a.machine()
	if err != nil {
		return err
	}
	s := &setup{place: place, initOptions: initOptions{all: len(names) == 0, remove: true}}
	list, err := s.chosen(names)
	if err != nil {
		return err
	}
	out := doctorReply{Entries: []finding{}, Others: []string{}}
	for _, c := range list {
		before := len(out.Entries)
		for i, f := range c.Files {
			if i > 0 && place.Find(f) == place.Find(c.Files[0]) {
				continue // the home directory is the project
			}
			out.Entries = append(out.Entries, a.examine(ctx, s, c, f)...)
		}
		if len(out.Entries) == before && s.found(c) {
			out.Others = append(out.Others, c.Name)
		}
	}
	if err := present(a, out, showDoctor); err != nil {
		return err
	}
	switch {
	case slices.ContainsFunc(out.Entries, func(f finding) bool { return !f.Works }):
		a.done.code = rw.CodeInvalid
	case len(out.Entries) == 0:
		a.done.code = rw.CodeNotFound
	}
	return nil
}

// examine tests our entries in one file: those under our name, and those that
// start our program.
func (a *app) examine(ctx context.Context, s *setup, c clients.Client, f clients.File) (list []finding) {
	path := s.place.Find(f)
	text, err := readConfig(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	base := finding{Client: c.Name, File: s.shown(path)}
	entries := map[string]clients.Entry{}
	if err == nil {
		entries, err = c.Entries(text)
	}
	if err != nil {
		base.Problem = plainError(err) + "; the client cannot read this file either"
		return []finding{base}
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		one := base
		if f.Scope == clients.Project && s.place.Project != s.place.Home {
			one.Problem = foreign(entries[name], s.place.Project)
		}
		if one.Problem == "" {
			a.try(ctx, s, entries[name], &one)
		}
		if one.Works {
			one.Notes = append(one.Notes, s.advice(c, f, text)...)
		}
		list = append(list, one)
	}
	return list
}

// advice returns notes about what a working entry lacks.
func (s *setup) advice(c clients.Client, f clients.File, text string) (notes []string) {
	approve := false
	for _, e := range c.Edits(f, clients.Setup{Approve: true}) {
		config := text
		if e.File != "" {
			config, _ = readConfig(s.place.Path(e.File))
		}
		approve = approve || e.Approves(c) && c.Has(config, e)
	}
	notes = c.Notes(approve)
	if f.Instructions != "" {
		if lines, _ := readConfig(s.place.Path(f.Instructions)); !strings.Contains(lines, clients.Instructions) {
			notes = append(notes, "The agent has no instructions to use the tools: init "+c.Name+" writes them into "+f.Instructions+".")
		}
	}
	return notes
}

// foreign returns why an entry in a file of the project is not tried, if it
// could do more than serve the project: run a program that a clone brought, or
// send a variable of the user to another machine.
func foreign(e clients.Entry, project string) string {
	const rest = ", and a clone may have brought the file of the project; the client itself must try it"
	command, args, _ := e.In(project)
	switch {
	case e.Off:
		return ""
	case e.URL != "":
		if u, err := url.Parse(e.URL); err != nil || !isLoopback(u.Hostname()) {
			return "not tried: the address is on another machine" + rest
		}
	case !isOwn(command), len(args) > 0 && args[0] != "serve":
		return "not tried: the entry starts another program" + rest
	}
	for name := range e.Env {
		if !strings.HasPrefix(name, "RW_") {
			return "not tried: the entry sets variables of other programs" + rest
		}
	}
	return ""
}

// isOwn reports whether a command starts this program, the one of its name in
// PATH, or nothing, which is a problem that the user is told.
func isOwn(command string) bool {
	own, _ := os.Executable()
	found, _ := exec.LookPath(clients.Program)
	_, err := os.Stat(command)
	return command == clients.Program || filepath.IsAbs(command) && (errors.Is(err, os.ErrNotExist) || sameFile(command, own) || sameFile(command, found))
}

// sameFile reports whether two paths lead to one file.
func sameFile(a, b string) bool {
	of, err := os.Stat(a)
	other, oerr := os.Stat(b)
	return err == nil && oerr == nil && os.SameFile(of, other)
}

// doctorTime is the time limit of one entry.
const doctorTime = 30 * time.Second

// try starts one entry, or calls its address.
func (a *app) try(ctx context.Context, s *setup, e clients.Entry, f *finding) {
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	if e.Off {
		f.Problem = "the entry is switched off in the file"
		return
	}
	exchange, stop, err := a.reach(ctx, s, e)
	if err == nil {
		err = converse(exchange, f)
	}
	if stop != nil {
		if said := stop(); err != nil && said != "" {
			err = errors.New(said)
		}
	}
	switch {
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist):
		f.Problem = "the program is not found; init " + f.Client + " writes an entry with its whole path"
	case ctx.Err() != nil:
		f.Problem = "no answer within " + doctorTime.String()
	case err != nil:
		f.Problem = strings.TrimPrefix(plainError(err), "resilient-write: ")
	default:
		f.Works = true
		if f.Version != rw.Version {
			f.Notes = append(f.Notes, "The entry starts version "+f.Version+", this is "+rw.Version+".")
		}
	}
}

// exchange sends one message and returns the result of its reply.
type exchange func(method string, params any) (json.RawMessage, error)

// converse does the handshake of a client, and calls one tool.
func converse(send exchange, f *finding) error {
	var hello struct {
		ServerInfo struct{ Name, Version string }
	}
	var listed struct{ Tools []json.RawMessage }
	var called struct{ Content []struct{ Text string } }
	var facts struct {
		OK       bool
		Poisoned bool
		Context  struct{ Reason, Hint string }
	}
	for _, step := range []struct {
		method string
		params any
		into   any
	}{
		{"initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": struct{}{}, "clientInfo": map[string]any{"name": "resilient-write-doctor", "version": rw.Version}}, &hello},
		{"notifications/initialized", nil, nil},
		{"tools/list", nil, &listed},
		{"tools/call", map[string]any{"name": "rw_describe", "arguments": struct{}{}}, &called},
	} {
		result, err := send(step.method, step.params)
		if err != nil {
			return err
		}
		if step.into != nil && json.Unmarshal(result, step.into) != nil {
			return errors.New("the reply to " + step.method + " is not understood")
		}
	}
	if f.Version, f.Tools = hello.ServerInfo.Version, len(listed.Tools); f.Tools == 0 {
		return errors.New("the server lists no tools")
	}
	if len(called.Content) == 0 || json.Unmarshal([]byte(called.Content[0].Text), &facts) != nil {
		return errors.New("the server is another program")
	}
	switch {
	case !facts.OK:
		return fmt.Errorf("calls are refused: %s; %s", facts.Context.Reason, facts.Context.Hint)
	case facts.Poisoned:
		return errors.New("the store takes no writes after a failed flush; see docs/errors.md, store_poisoned")
	}
	return nil
}

// request is one message of the protocol.
func request(id int, method string, params any) []byte {
	m := map[string]any{"jsonrpc": "2.0", "method": method}
	if params != nil {
		m["params"] = params
	}
	if !strings.HasPrefix(method, "notifications/") {
		m["id"] = id
	}
	data, _ := json.Marshal(m)
	return append(data, '\n')
}

// answerOf returns the result in a message, if it is a reply.
func answerOf(line []byte) (result json.RawMessage, isReply bool, err error) {
	var m struct {
		ID     *int
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if json.Unmarshal(line, &m) != nil {
		return nil, true, errors.New("something else than the protocol is written to standard output")
	}
	if m.Error != nil {
		return nil, true, errors.New("the server refuses: " + m.Error.Message)
	}
	return m.Result, m.ID != nil, nil
}

// reach connects to the server of an entry. stop ends the connection, and
// returns the last error of the program.
func (a *app) reach(ctx context.Context, s *setup, e clients.Entry) (exchange, func() string, error) {
	if e.URL != "" {
		return overHTTP(ctx, e, a.env), nil, nil
	}
	project := s.place.Project
	command, args, vars := e.In(project)
	cmd := exec.CommandContext(ctx, command, args...)
	cmd.Dir, cmd.Env = project, vars
	if e.Cwd != "" {
		cmd.Dir = e.Cwd
		if !filepath.IsAbs(e.Cwd) {
			cmd.Dir = filepath.Join(project, e.Cwd)
		}
	}
	for _, name := range []string{"PATH", "HOME", "USERPROFILE", "APPDATA", "SystemRoot", "TMPDIR", "TEMP", "TMP"} {
		if v := os.Getenv(name); v != "" { // a client passes these variables and few others
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	var errs bytes.Buffer
	cmd.Stderr, cmd.WaitDelay = &errs, time.Second
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	stop := func() string {
		in.Close()
		io.Copy(io.Discard, out)
		cmd.Wait()
		return lastWord(errs.String())
	}
	return overPipe(in, bufio.NewReader(out)), stop, nil
}

// lastWord returns the error with which our program ended. Another program may
// print anything, so its output is not shown.
func lastWord(text string) (word string) {
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "resilient-write: ") {
			word = line
		}
	}
	return word
}

func overPipe(in io.Writer, out *bufio.Reader) exchange {
	id := 0
	return func(method string, params any) (json.RawMessage, error) {
		id++
		if _, err := in.Write(request(id, method, params)); err != nil {
			return nil, errors.New("the program ended without an answer to " + method)
		}
		for !strings.HasPrefix(method, "notifications/") {
			line, err := out.ReadBytes('\n')
			if err != nil {
				return nil, errors.New("the program ended without an answer to " + method)
			}
			if result, isReply, err := answerOf(line); isReply {
				return result, err
			}
		}
		return nil, nil
	}
}

// overHTTP posts to the address of an entry, with its headers.
func overHTTP(ctx context.Context, e clients.Entry, env func(string) string) exchange {
	id, session := 0, ""
	// The headers are for this address, not for one that it names.
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return func(method string, params any) (json.RawMessage, error) {
		id++
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, bytes.NewReader(request(id, method, params)))
		if err != nil {
			return nil, errors.New("the address is not valid")
		}
		for name, value := range e.HeadersFrom(env) {
			r.Header.Set(name, value)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		reply, err := client.Do(r)
		if err != nil {
			return nil, errors.New("nothing answers at the address; start the server with serve --transport http")
		}
		defer reply.Body.Close()
		session = cmp.Or(session, reply.Header.Get("Mcp-Session-Id"))
		switch {
		case reply.StatusCode == http.StatusUnauthorized:
			return nil, errors.New("the token is refused; set the variable of the entry to the token of the server")
		case reply.StatusCode >= 300:
			return nil, errors.New("the address answers with the status " + reply.Status)
		}
		lines := bufio.NewReader(reply.Body)
		for {
			line, err := lines.ReadBytes('\n')
			line = bytes.TrimPrefix(bytes.TrimSpace(line), []byte("data: "))
			if bytes.HasPrefix(line, []byte("{")) {
				if result, isReply, err := answerOf(line); isReply {
					return result, err
				}
			}
			if err != nil {
				return nil, nil // a notification has no reply
			}
		}
	}
}

// showDoctor prints a line for each entry.
func showDoctor(p *printer, r doctorReply) {
	for _, e := range r.Entries {
		if e.Works {
			p.line("%s %s  %s  version %s, %d tools", p.paint(green, "works"), e.Client, p.paint(faint, printable(e.File)), printable(e.Version), e.Tools)
		} else {
			p.line("%s %s  %s  %s", p.paint(red, "fails"), e.Client, p.paint(faint, printable(e.File)), printable(e.Problem))
		}
		for _, n := range e.Notes {
			p.line("  %s", printable(n))
		}
	}
	for _, name := range r.Others {
		p.line("%s %s  resilient-write init %s", p.paint(yellow, "not configured"), name, name)
	}
	if len(r.Entries)+len(r.Others) == 0 {
		p.line("no client is configured; resilient-write init CLIENT does that")
	}
}
