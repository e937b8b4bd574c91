package main_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"

	rw "github.com/resilientwrite/resilientwrite"
)

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
			if err != nil || len(list) == 0 {
				t.Fatalf("%v: %q: %v", f, line, err)
			}
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
			if i < 0 || !slices.Equal(l.words[1:3], []string{"mcp", "add"}) {
				t.Fatalf("%s: %q", l.from, l.words)
			}
			ours = l.words[i+1:]
		}
		if path.Base(ours[0]) != "resilient-write" {
			t.Fatalf("%s: nothing checks %q", l.from, ours)
		}
		switch {
		case ours[1] == "init":
			ran["init"]++
			cmd := exec.Command(build(t), ours[1:]...)
			cmd.Dir, cmd.Env = t.TempDir(), []string{"HOME=" + t.TempDir()}
			if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), `"status":"configured"`) {
				t.Errorf("%s: %s %v", l.from, out, err)
			}
		case slices.Equal(ours[1:], []string{"version"}):
			ran["version"]++
			out, err := exec.Command(build(t), ours[1:]...).Output()
			var r struct{ Name, Version string }
			if err != nil || json.Unmarshal(out, &r) != nil || r.Name != "resilient-write" || r.Version != rw.Version {
				t.Errorf("%s: %q %v", l.from, out, err)
			}
		case ours[1] == "doctor":
			ran["doctor"]++ // covered by TestDoctor
		case slices.Contains(ours, "http"):
			ran["http"]++ // covered by TestInstallOverHTTP
		default:
			ran["serve"]++
			dir := t.TempDir()
			args, env := entry{from: l.from, command: ours}.here(t, dir)
			must(greet(ctx, started(t, dir, args, append(env, l.env...))))(t, l.from)
			silent(t, dir, args)
		}
	}
	for what, least := range map[string]int{"go": 2, "version": 1, "init": 1, "doctor": 1, "serve": 3, "http": 1} {
		if ran[what] < least {
			t.Errorf("the page has %d commands of the kind %s", ran[what], what)
		}
	}
}

// silent checks the first step of the page's troubleshooting: the program waits
// silently, and exits with 0 when its input ends.
func silent(t *testing.T, dir string, args []string) {
	t.Helper()
	cmd := exec.Command(build(t), args...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	if err := cmd.Run(); err != nil || out.Len()+errs.Len() > 0 {
		t.Errorf("%q: %v, stdout %q, stderr %q", args, err, out.String(), errs.String())
	}
}

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
		if !ours || version != "latest" {
			t.Errorf("%s: %s is not a package of %s", l.from, name, module)
		}
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
	if i < 0 {
		t.Fatal("the page does not say how to serve over HTTP")
	}
	l, dir := lines[i], t.TempDir()
	args, env := entry{from: l.from, command: l.words}.here(t, dir)
	at := slices.Index(args, "--port")
	if at < 0 || args[at+1] != "8765" {
		t.Fatalf("%s: %q", l.from, args)
	}
	args[at+1] = "0" // a free port, which the program prints
	token := strings.TrimPrefix(l.env[0], "RW_TOKEN=")
	url := strings.Replace(address, "127.0.0.1:8765", serveHTTP(t, dir, args, append(env, l.env...)), 1)

	connected := 0
	for _, e := range entries(t) {
		if e.url == "" {
			continue
		}
		if e.url != address {
			t.Errorf("%s: the address is %s, the server of the page is at %s", e.from, e.url, address)
		}
		c := must(client.NewStreamableHttpClient(url, transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + token})))(t)
		names, err := greet(context.Background(), c)
		if err != nil || len(names) != wantTools(t, args) {
			t.Errorf("%s: %d tools, %v", e.from, len(names), err)
		}
		c.Close()
		connected++
	}
	if connected < 7 {
		t.Errorf("%d remote configurations", connected)
	}
	if code := post(url, ""); code != http.StatusUnauthorized {
		t.Errorf("without a token: %d", code)
	}
	if code := post(url, "Bearer "+token+"x"); code != http.StatusUnauthorized {
		t.Errorf("with a wrong token: %d", code)
	}
}

// post sends one request and returns the status, or 0 if no server listens.
func post(url, authorization string) int {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		return 0
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	io.Copy(io.Discard, res.Body)
	res.Body.Close()
	return res.StatusCode
}

// serveHTTP runs the program until the test ends, and returns the address at
// which it answers.
func serveHTTP(t *testing.T, dir string, args, env []string) string {
	t.Helper()
	cmd := exec.Command(build(t), args...)
	cmd.Dir, cmd.Env = dir, env
	errs := must(cmd.StderrPipe())(t)
	noErr(t, cmd.Start())
	address, ended := make(chan string, 1), make(chan string, 1)
	go func() {
		last := ""
		for r := bufio.NewScanner(errs); r.Scan(); {
			last = r.Text()
			var record struct{ Msg, Address string }
			if json.Unmarshal(r.Bytes(), &record) == nil && record.Msg == "serving" {
				address <- record.Address
			}
		}
		cmd.Wait()
		ended <- last
	}()
	t.Cleanup(func() { cmd.Process.Signal(os.Interrupt); cmd.Process.Kill(); <-ended })
	select {
	case at := <-address:
		return at
	case last := <-ended:
		ended <- last
		t.Fatalf("the server of the page does not run: %s", last)
	case <-time.After(servedTime):
		t.Fatal("the server of the page does not listen")
	}
	return ""
}
