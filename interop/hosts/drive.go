package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/scan"
)

// result is the row of one host in the table.
type result struct{ version, listed, informed, asked, went, killed, restarted string }

// limit is the time limit of one run of a host.
const limit = 4 * time.Minute

// drive runs one host: without approval, through the scenario until its server
// is killed, and again.
func drive(h host, page string) (r result, err error) {
	at := strings.LastIndexByte(h.pkg, '@')
	if r.version = h.pkg[at+1:]; versionOf(filepath.Join(*packages, h.name), h.pkg[:at]) != r.version {
		return r, fmt.Errorf("%s is not installed", h.pkg)
	}
	if r.asked, err = unapproved(h, page); err != nil {
		return r, fmt.Errorf("without approval: %w", err)
	}
	s, err := begin(h, page)
	if err != nil {
		return r, err
	}
	defer s.end()
	first := &play{prefix: h.prefix, steps: s.firstRun()}
	if err := s.perform(first); err != nil {
		return r, err
	}
	r.listed, r.went, r.killed, r.informed = fmt.Sprint(first.listed), "works", s.killed, "–"
	if first.listed == 0 {
		r.listed = "found by search"
	}
	if s.instructed {
		if r.informed = "yes"; !s.m.informed {
			return r, errors.New("the model does not get the instructions")
		}
	}
	second := &play{prefix: h.prefix, steps: s.secondRun()}
	if err := s.perform(second); err != nil {
		return r, fmt.Errorf("after the restart: %w", err)
	}
	r.restarted = "works"
	return r, s.verify()
}

// unapproved returns the outcome of a write if nothing lets the host call our
// tools and there is no user to ask. A host that does not offer them is asked twice: on a
// busy machine the server may start later than the host waits for it.
func unapproved(h host, page string) (string, error) {
	if h.approve == "" {
		return "not needed", nil
	}
	got, err := writeUnapproved(h, page)
	if got == "not offered" {
		got, err = writeUnapproved(h, page)
	}
	return got, err
}

func writeUnapproved(h host, page string) (string, error) {
	if i := slices.Index(h.command, h.approve); i >= 0 {
		h.command = h.command[:i]
	}
	h.approve = ""
	s, err := begin(h, page)
	if err != nil {
		return "", err
	}
	defer s.end()
	create := s.firstRun()[0]
	create.check = nil
	p := &play{prefix: h.prefix, steps: []step{create}}
	err = s.perform(p)
	if _, gone := os.Stat(s.d.place("notes.md")); gone == nil {
		return "", errors.New("it writes")
	}
	if p.wrong != nil {
		return "not offered", nil
	}
	if p.at == 0 {
		return "", fmt.Errorf("the host ended: %w", err)
	}
	return "refused", nil
}

// begin creates the directories and the files of a host, and its model.
func begin(h host, page string) (*session, error) {
	tmp, err := os.MkdirTemp("", "host-"+h.name)
	if err != nil {
		return nil, err
	}
	d := desk{tmp, filepath.Join(tmp, "home"), filepath.Join(tmp, "project")}
	log, err := os.OpenFile(filepath.Join(*logs, h.name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	m, err := serve(log)
	if err == nil {
		err = errors.Join(os.Mkdir(d.home, 0o755), os.Mkdir(d.project, 0o755))
	}
	if err == nil {
		err = h.configure(d, page, m.url)
	}
	s := &session{h: h, d: d, m: m, log: log, path: filepath.Join(*packages, h.name, "node_modules", ".bin")}
	if err == nil {
		err = s.init()
	}
	if err == nil && h.before != nil {
		err = s.run(h.before)
	}
	return s, err
}

// init runs init, which finds the entry of the page equal to its own, and adds
// the instructions.
func (s *session) init() error {
	args := []string{"init", s.h.name, "--json"}
	if s.h.approve != "" {
		args = append(args, "--approve")
	}
	cmd := exec.Command(*server, args...)
	cmd.Dir, cmd.Env = s.d.project, []string{"HOME=" + s.d.home, "PATH=" + filepath.Dir(*server)}
	out, err := cmd.Output()
	fmt.Fprintf(s.log, "%s: %s\n", args, out)
	var r struct{ Files []struct{ File string } }
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	for _, f := range r.Files {
		if s.instructed = true; !strings.HasSuffix(f.File, ".md") {
			return fmt.Errorf("init writes %s otherwise than the page", f.File)
		}
	}
	text, perr := os.ReadFile(filepath.Join(filepath.Dir(*page), "snippets", "cursorrules"))
	_, s.m.phrase, _ = bytes.Cut(text, []byte("\n\n"))
	s.m.phrase, _, _ = bytes.Cut(s.m.phrase, []byte("\n"))
	return errors.Join(err, perr)
}

// end removes everything of a session.
func (s *session) end() {
	s.sweep()
	s.log.Close()
	os.RemoveAll(s.d.dir)
}

// session is the runs of one host.
type session struct {
	h      host
	d      desk
	m      *model
	log    *os.File
	path   string
	pid    int // of the host
	token  string
	draft  string
	clean  string
	killed string // the reaction of the host

	instructed bool // there is an instruction file
}

// run runs a command of the host until it ends.
func (s *session) run(words []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	fill := strings.NewReplacer("<model>", s.m.url)
	var args []string
	for _, w := range words {
		args = append(args, fill.Replace(w))
	}
	node := filepath.Join(*packages, "node", "node_modules", ".bin")
	path := strings.Join([]string{filepath.Dir(*server), node, s.path, os.Getenv("PATH")}, ":")
	cmd := exec.CommandContext(ctx, filepath.Join(s.path, args[0]), args[1:]...)
	cmd.Dir = s.d.project
	cmd.Env = []string{"HOME=" + s.d.home, "PATH=" + path, "TERM=dumb", "NO_COLOR=1", "CI=1", "TMPDIR=" + s.d.dir}
	for _, v := range s.h.env {
		cmd.Env = append(cmd.Env, fill.Replace(v))
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, 5*time.Second
	if err := cmd.Start(); err != nil {
		return err
	}
	s.pid = cmd.Process.Pid
	err := cmd.Wait()
	fmt.Fprintf(s.log, "$ %s\n%s\n%v\n", strings.Join(args, " "), out.Bytes(), err)
	if ctx.Err() != nil {
		return fmt.Errorf("%s does not end", args[0])
	}
	return err
}

// perform runs the host with a script.
func (s *session) perform(p *play) error {
	s.m.script(p.say)
	err := s.run(s.h.command)
	switch {
	case p.wrong != nil:
		return p.wrong
	case p.at < len(p.steps):
		return fmt.Errorf("it ended before %s (%v)", p.steps[p.at].what, err)
	}
	return err
}

// step is one call of the script and the condition on its result.
type step struct {
	what   string
	tool   string
	args   func() map[string]any
	before func() error
	check  func(result string) error // the result as the model reads it; nil: whatever it is
}

// play goes through steps, one for each result.
type play struct {
	prefix   string
	steps    []step
	at       int
	waiting  bool // for the result of the step
	searched bool
	listed   int // our tools in the first request
	begun    bool
	wrong    error
}

func (p *play) say(t turn) answer {
	if !p.begun {
		p.begun = true
		for _, one := range t.tools {
			if strings.Contains(one.name, "rw_") {
				p.listed++
			}
		}
	}
	if p.waiting && len(t.results) > 0 {
		p.waiting, p.searched = false, false
		if s := p.steps[p.at]; s.check != nil {
			if err := s.check(t.results[len(t.results)-1]); err != nil {
				p.wrong = fmt.Errorf("%s: %w", s.what, err)
				return answer{text: "stop"}
			}
		}
		p.at++
	}
	if p.at == len(p.steps) || p.wrong != nil {
		return answer{text: "done"}
	}
	return p.call(t)
}

// call calls the tool of the step, or searches for it if the host requires
// that.
func (p *play) call(t turn) answer {
	s := p.steps[p.at]
	one, listed := t.find(s.tool)
	search, searches := t.find("ToolSearch")
	if !searches {
		search, searches = t.find("tool_search")
	}
	if !listed && searches && !p.searched {
		p.searched = true
		return answer{tool: search, args: obj{"query": "select:" + p.prefix + s.tool}}
	}
	args := s.args()
	if !listed {
		if one, listed = t.find("tool_call"); listed {
			args = obj{"name": p.prefix + s.tool, "arguments": args}
		}
	}
	if !listed {
		p.wrong = fmt.Errorf("%s: the host does not offer %s", s.what, s.tool)
		return answer{text: "stop"}
	}
	if s.before != nil {
		if p.wrong = s.before(); p.wrong != nil {
			return answer{text: "stop"}
		}
	}
	p.waiting = true
	return answer{tool: one, args: args}
}

const (
	created = "one\ntwo\n"
	edited  = "one\nthree\n"
	resumed = "one\nfour\n"
)

func sum(text string) string { h := sha256.Sum256([]byte(text)); return hex.EncodeToString(h[:]) }

// holds returns a check that a result contains some texts.
func holds(parts ...string) func(string) error {
	return func(result string) error {
		for _, part := range parts {
			if !strings.Contains(result, part) {
				return fmt.Errorf("the model does not receive %q: %.300q", part, result)
			}
		}
		return nil
	}
}

// firstRun is the scenario until the server is killed.
func (s *session) firstRun() []step {
	s.token = madeUpToken()
	static := func(args map[string]any) func() map[string]any { return func() map[string]any { return args } }
	return []step{
		{what: "create", tool: "rw_safe_write", args: static(obj{"path": "notes.md", "content": created}), check: holds(sum(created))},
		{what: "edit", tool: "rw_edit", args: static(obj{"path": "notes.md", "edits": []obj{{"old": "two", "new": "three"}}}), check: holds(sum(edited))},
		{what: "refused secret", tool: "rw_safe_write", args: static(obj{"path": "config.env", "content": "GITHUB_TOKEN=" + s.token + "\n"}), check: s.refused},
		{what: "redact", tool: "rw_redact", args: func() map[string]any { return obj{"draft_ref": s.draft} }, check: s.redacted},
		{what: "write", tool: "rw_safe_write", args: func() map[string]any { return obj{"path": "config.env", "content": s.clean} }, check: func(r string) error { return holds(sum(s.clean))(r) }},
		{what: "kill", tool: "rw_read", args: static(obj{"path": "notes.md"}), before: s.kill, check: s.after},
	}
}

// secondRun is a new process of the host, which continues where the first one
// stopped.
func (s *session) secondRun() []step {
	return []step{
		{what: "read", tool: "rw_read", args: func() map[string]any { return obj{"path": "notes.md"} }, check: holds("three", sum(edited))},
		{what: "edit", tool: "rw_edit", args: func() map[string]any {
			return obj{"path": "notes.md", "edits": []obj{{"old": "three", "new": "four"}}, "expected_prev_sha256": sum(edited)}
		}, check: holds(sum(resumed))},
	}
}

var (
	draftRef = regexp.MustCompile(`draft_ref\\*"\s*:\s*\\*"([^"\\]+)`)
	tokenKey = regexp.MustCompile(`GITHUB_TOKEN=[^"\\\n]*`)
)

func (s *session) refused(result string) error {
	m := draftRef.FindStringSubmatch(result)
	if m == nil {
		return fmt.Errorf("no draft is named: %.300q", result)
	}
	s.draft = m[1]
	// Some hosts put the arguments of the call before the reply.
	if reply := strings.Index(result, "schema_version"); reply < 0 || strings.Contains(result[reply:], s.token) {
		return errors.New("the refusal repeats the secret")
	}
	if _, err := os.Stat(s.d.place("config.env")); !os.IsNotExist(err) {
		return errors.New("the secret was written")
	}
	return nil
}

func (s *session) redacted(result string) error {
	if s.clean = tokenKey.FindString(result); s.clean == "" || strings.Contains(result, s.token) {
		return fmt.Errorf("not redacted: %.300q", result)
	}
	s.clean += "\n"
	return nil
}

// after examines the call that found no server.
func (s *session) after(result string) error {
	s.killed = "the model reads an error"
	if strings.Contains(result, sum(edited)) {
		s.killed = "a new server answers"
	}
	return nil
}

// kill kills the server that the host has started. It is found among the
// descendants of the host.
func (s *session) kill() error {
	if endAll("cmdline", func(pid int, words []string) bool {
		return filepath.Base(words[0]) == "resilient-write" && s.descends(pid)
	}) == 0 {
		return errors.New("no server of the host is found")
	}
	return nil
}

// sweep ends processes that the host left running, such as a daemon. They are
// recognized by the home directory of this run, which no other process has.
func (s *session) sweep() {
	endAll("environ", func(pid int, env []string) bool { return pid != os.Getpid() && slices.Contains(env, "HOME="+s.d.home) })
}

// endAll kills the processes of which what a file of /proc says is true, and counts them.
func endAll(file string, which func(pid int, words []string) bool) (killed int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, _ := os.ReadFile(filepath.Join("/proc", e.Name(), file))
		if !which(pid, strings.Split(string(text), "\x00")) {
			continue
		}
		if p, err := os.FindProcess(pid); err == nil && p.Kill() == nil {
			killed++
		}
	}
	return killed
}

// descends reports whether a process was started by the host.
func (s *session) descends(pid int) bool {
	for range 20 {
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if err != nil {
			return false
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if pid, err = strconv.Atoi(fields[1]); err != nil || pid <= 1 {
			return false
		}
		if pid == s.pid {
			return true
		}
	}
	return false
}

// verify checks the disk: the files are as acknowledged, the project contains
// no secret, and the store is sound.
func (s *session) verify() error {
	for name, want := range map[string]string{"notes.md": resumed, "config.env": s.clean} {
		if got, err := os.ReadFile(s.d.place(name)); err != nil || string(got) != want {
			return fmt.Errorf("%s holds %q: %w", name, got, err)
		}
	}
	for _, args := range [][]string{{"check"}, {"journal", "tail"}} {
		out, err := s.command(args...)
		if err != nil {
			return fmt.Errorf("%s: %w", args, err)
		}
		if args[0] == "journal" && strings.Count(string(out), `"notes.md"`) < 3 {
			return errors.New("the journal does not have the three changes of notes.md")
		}
	}
	return nil
}

// madeUpToken returns a token that was never issued, in the format of a GitHub
// token: 30 random characters and their CRC-32 in base 62.
func madeUpToken() string {
	body := (rand.Text() + rand.Text())[:30]
	return "ghp_" + body + scan.Checksum(body)
}
