package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/hook"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// watching starts the built command with its output in a pipe, and returns a
// function that reads its lines up to one that contains a text.
func watching(t *testing.T, dir string, args ...string) (sees func(text string) string, end func()) {
	t.Helper()
	testbed.SkipIf(t, runtime.GOOS == "windows", "no signals")
	cmd := exec.Command(build(t), append([]string{"watch", "--root", dir}, args...)...)
	out := pipe(t)
	cmd.Stdout = out.w
	noErr(t, cmd.Start())
	out.w.Close()
	late := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() }) // ends the wait for a line that never comes
	lines := bufio.NewScanner(out.r)
	lines.Buffer(nil, 1<<20)
	sees = func(text string) string {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return lines.Text()
			}
		}
		t.Fatalf("%q does not come", text)
		return ""
	}
	return sees, func() {
		t.Helper()
		late.Stop()
		cmd.Process.Signal(os.Interrupt)
		err := cmd.Wait()
		expect(t, err == nil, "%v", err)
	}
}

// TestWatchPrintsLines: if standard output is not a terminal, watch prints a
// line for each new event, without secrets, and for entries that already wait.
func TestWatchPrintsLines(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.with("x\n").ok("write", "before.txt")
	s.with("piece").ok("chunk", "append", "pieces")
	before := everyFile(t, s.dir)
	sees, end := watching(t, s.dir)
	sees("watching from row 3 on")
	if line := sees(""); !strings.Contains(line, "waiting  a session that is not composed: pieces, chunks: 1: resilient-write chunk status pieces") {
		t.Errorf("first: %q", line)
	}
	equal(t, cmp.Diff(before, everyFile(t, s.dir)), "", "it changed the store")
	s.with("y\n").ok("write", "before.txt", "--mode", "overwrite")
	line := sees("changed")
	expect(t, strings.Contains(line, "overwrite  before.txt  +1 -1 lines  row ") && !strings.Contains(line, "\x1b"), "%q", line)
	s.with("key "+reportKey).run("write", "a\x1b[2J.env")
	testbed.Contains(t, sees("  refused  "), "a?[2J.env", "looks like a secret: api_key")
	s.ok("chunk", "reset", "pieces")
	sees("ended    session pieces")
	end()
}

// TestWatchIsReadByPrograms: with --json each event is an object with the diff.
func TestWatchIsReadByPrograms(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.with("one\n").ok("write", "a.txt")
	sees, end := watching(t, s.dir, "--json")
	sees(`"event":"watching"`)
	s.with("key "+reportKey+"\n").ok("write", "a.txt", "--mode", "overwrite", "--gate", "off")
	s.with("two\n").ok("write", "a.txt", "--mode", "overwrite")
	var e event
	err := json.Unmarshal([]byte(sees(`{"op":"-","text":"key {AWS`)), &struct {
		*event
		Diffs any `json:"diffs"`
	}{event: &e})
	expect(t, err == nil && e.Event == "changed" && e.Change.Files[0].Path == "a.txt", "%v %+v", err, e)
	end()
}

// waits makes calls wait: it is a host whose user is asked.
type waits struct{ begun, on chan struct{} }

func (w waits) Authorize(ctx context.Context, _ hook.Call) (hook.Decision, error) {
	w.begun <- struct{}{}
	<-w.on
	return hook.Decision{}, nil
}

// TestCallsThatWaitAreSeen: a call that has taken no lock yet, on files that were
// never written before, is visible to another process as long as it lasts. It is
// shown with its files and its caller, without the secret in a name. Afterwards
// no trace of it is left.
func TestCallsThatWaitAreSeen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx := context.Background()
	host := waits{make(chan struct{}), make(chan struct{})}
	store := must(rw.Open(ctx, dir, &rw.Options{Sync: rw.SyncOff, StateDir: ".resilient_write", Caller: "host", Hooks: hook.Hooks{Authorize: []hook.Authorizer{host}}}))(t)
	defer store.Close(ctx)
	box := toolbox.New(store, &toolbox.Options{Caller: "robot"})
	secret := reportKey
	ended := make(chan struct{})
	for _, call := range []func(){
		func() { store.SafeWrite(ctx, rw.SafeWriteRequest{Path: "new.txt", Content: []byte("x")}) },
		func() { store.Delete(ctx, rw.DeleteRequest{Path: secret + ".txt"}) },
		func() {
			box.Call(ctx, "rw_tx", []byte(`{"ops":[{"op":"write","path":"one.txt","content":"1"},{"op":"write","path":"two.txt","content":"2"}]}`), nil)
		},
	} {
		go func() { call(); ended <- struct{}{} }()
		<-host.begun
	}
	sees, end := watching(t, dir, "--json")
	want := map[string][]string{"safe_write": {"new.txt host"}, "delete": {"{AWS-ACCESS-KEY-ID-REDACTED}.txt host"}, "tx": {"one.txt two.txt robot"}}
	got := map[string][]string{}
	for range want {
		var e event
		line := sees(`"event":"running"`)
		err := json.Unmarshal([]byte(line), &e)
		require(t, err == nil && !strings.Contains(line, secret) && e.Running.PID == os.Getpid(), "%v %s", err, line)
		if since, err := time.Parse(time.RFC3339Nano, e.Running.Since); err != nil || time.Since(since) < 0 {
			t.Errorf("%v since %s", err, e.Running.Since)
		}
		got[e.Running.Op] = append(got[e.Running.Op], strings.Join(append(e.Running.Paths, e.Running.Caller), " "))
	}
	equal(t, cmp.Diff(want, got), "")
	close(host.on)
	for range want {
		<-ended
	}
	end()
	out := (shell{t: t, dir: dir}).ok("status").out
	expect(t, strings.Contains(out, `"running":[]`), "a call that ended runs:\n%s", out)
	for name := range everyFile(t, dir) {
		text, err := os.ReadFile(name)
		expect(t, err != nil || !strings.Contains(name+string(text), secret), "%s holds the secret", name)
	}
}

// TestServeWithADashboard: a server over stdio also serves a page, whose
// address with its token is printed once. The page shows the calls of that
// server and of other processes, and ends with the server.
func TestServeWithADashboard(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	cmd := exec.Command(build(t), "serve", "--root", s.dir, "--dashboard", "127.0.0.1:0")
	in := must(cmd.StdinPipe())(t)
	out, errs := pipe(t), pipe(t)
	cmd.Stdout, cmd.Stderr = out.w, errs.w
	noErr(t, cmd.Start())
	out.w.Close()
	errs.w.Close()
	defer out.r.Close() // until then: a server whose replies nobody can read ends
	late := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer late.Stop()
	said := bufio.NewReader(errs.r)
	line, err := said.ReadString('\n')
	if ofThisDisk.MatchString(line) {
		line, err = said.ReadString('\n')
	}
	found := regexp.MustCompile(`^resilient-write dashboard: (http://127\.0\.0\.1:\d+/)#([A-Z2-7]{52})\n$`).FindStringSubmatch(line)
	require(t, found != nil, "%v %q", err, line)
	get := func(path, token string) *http.Response {
		t.Helper()
		r, _ := http.NewRequest("GET", found[1]+path, nil)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		res := must(http.DefaultClient.Do(r))(t)
		t.Cleanup(func() { res.Body.Close() })
		return res
	}
	page, _ := io.ReadAll(get("", "").Body)
	expect(t, strings.HasPrefix(string(page), "<!DOCTYPE html>") && !strings.Contains(string(page), found[2]) && !strings.Contains(string(page), s.dir),
		"%.200s", page)
	equal(t, get("events", "").StatusCode, 401, "without a token")
	events := bufio.NewScanner(get("events", found[2]).Body)
	sees := func(text string) {
		t.Helper()
		for events.Scan() {
			if strings.Contains(events.Text(), text) {
				return
			}
		}
		t.Fatalf("%q does not come", text)
	}
	sees(`"rows":0`)
	fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rw_safe_write","arguments":{"path":"over-stdio.txt","content":"x"}}}`)
	sees("over-stdio.txt")
	s.with("y").ok("write", "by-a-person.txt")
	sees("by-a-person.txt")
	in.Close()
	rest, _ := io.ReadAll(said)
	err = cmd.Wait()
	expect(t, err == nil && !strings.Contains(string(rest), found[2]) && !strings.Contains(string(rest), s.dir), "%v %s", err, rest)
}

type ends struct {
	t    testing.TB
	r, w *os.File
}

func pipe(t testing.TB) ends {
	r, w, err := os.Pipe()
	noErr(t, err)
	return ends{t, r, w}
}

func (e ends) all() string {
	e.w.Close()
	var b bytes.Buffer
	b.ReadFrom(e.r)
	e.r.Close()
	return b.String()
}
