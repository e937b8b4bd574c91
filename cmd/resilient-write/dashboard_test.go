package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestServeWithADashboard: a server over stdio also serves a page, whose
// address with its token is printed once. The page shows the calls of that
// server and of other processes, and ends with the server.
func TestServeWithADashboard(t *testing.T) {
	s := newShell(t)
	cmd := exec.Command(build(t), "serve", "--root", s.dir, "--dashboard", "127.0.0.1:0")
	in := must(cmd.StdinPipe())(t)
	out, errs := pipe(t), pipe(t)
	cmd.Stdout, cmd.Stderr = out.w, errs.w
	noErr(t, cmd.Start())
	out.w.Close()
	errs.w.Close()
	late := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer late.Stop()
	said := bufio.NewReader(errs.r)
	line, err := said.ReadString('\n')
	found := regexp.MustCompile(`^resilient-write dashboard: (http://127\.0\.0\.1:\d+/)#([A-Z2-7]{52})\n$`).FindStringSubmatch(line)
	if found == nil {
		t.Fatalf("%v %q", err, line)
	}
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
	if !strings.HasPrefix(string(page), "<!DOCTYPE html>") || strings.Contains(string(page), found[2]) || strings.Contains(string(page), s.dir) {
		t.Errorf("%.200s", page)
	}
	if res := get("events", ""); res.StatusCode != 401 {
		t.Errorf("without a token: %d", res.StatusCode)
	}
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
	if err := cmd.Wait(); err != nil || strings.Contains(string(rest), found[2]) || strings.Contains(string(rest), s.dir) {
		t.Errorf("%v %s", err, rest)
	}
}

// TestDashboardAddresses checks addresses that are refused before a store is
// created.
func TestDashboardAddresses(t *testing.T) {
	s := newShell(t)
	for address, want := range map[string]string{
		"0.0.0.0:0": "loopback", "[::]:0": "loopback", ":8010": "loopback", "example.com:80": "loopback", "192.0.2.1:80": "loopback", "8010": "no address", "127.0.0.1": "no address",
	} {
		if r := s.run("serve", "--dashboard", address); r.code != rw.CodeUsage || !strings.Contains(r.errs, want) {
			t.Errorf("%s: %d %s", address, r.code, r.errs)
		}
	}
	if files := everyFile(t, s.dir); len(files) != 1 {
		t.Errorf("%v", files)
	}
}
