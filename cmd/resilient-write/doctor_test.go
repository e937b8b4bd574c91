package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/clients"
	"github.com/resilientwrite/resilientwrite/internal/place"
)

// entriesOf returns the findings of a run of doctor, by client.
func entriesOf(t *testing.T, reply map[string]any) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for _, one := range reply["entries"].([]any) {
		e := one.(map[string]any)
		if out[e["client"].(string)] != nil {
			t.Errorf("%s is there twice", e["client"])
		}
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
	if code != 0 || len(found) != len(clients.Table) {
		t.Errorf("%d, %d entries", code, len(found))
	}
	for name, e := range found {
		if e["works"] != true || e["version"] != rw.Version || e["tools"].(float64) != float64(wantTools(t, nil)) {
			t.Errorf("%s: %v", name, e)
		}
		c, _ := clients.Find(name)
		if notes, _ := json.Marshal(e["notes"]); len(c.Approve) > 0 != strings.Contains(string(notes), "--approve") {
			t.Errorf("%s: %s", name, notes)
		}
	}
	t.Setenv("XDG_STATE_HOME", "") // clients do not pass it on
	t.Setenv("HOME", d.home)
	must(os.Stat(filepath.Join(place.At(d.project), "journal")))(t, "another directory is served")
	d.run("init", "codex", "claude-code", "--approve", "--remove")
	d.run("init", "codex", "claude-code", "--approve")
	reply, _ = d.run("doctor", "codex", "claude-code")
	for name, e := range entriesOf(t, reply) {
		if e["works"] != true || e["notes"] != nil {
			t.Errorf("%s is approved: %v", name, e)
		}
	}
}

// TestDoctorFinds: doctor reports what is wrong with an entry, and what to do.
func TestDoctorFinds(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the programs of this test are shell scripts")
	}
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
	} {
		d.write(".cursor/mcp.json", one.text, 0o600)
		reply, code := d.run("doctor", "cursor")
		e := entriesOf(t, reply)["cursor"]
		if problem, _ := e["problem"].(string); code != int(rw.CodeInvalid) || e["works"] != false || !strings.Contains(problem, one.want) || strings.Contains(problem, secret) {
			t.Errorf("%s: %d %v", name, code, e)
		}
	}
}

// TestDoctorOverHTTP: an entry with an address is called there, with the token
// from the variable that it names.
func TestDoctorOverHTTP(t *testing.T) {
	d := newDesk(t)
	token := strings.Repeat("t", 20)
	address := "http://" + serveHTTP(t, d.project, []string{"serve", "--transport", "http", "--port", "0"}, []string{"RW_TOKEN=" + token, "HOME=" + d.home}) + "/mcp"
	for value, want := range map[string]string{"Bearer " + token: "", "Bearer wrong": "token"} {
		data, _ := json.Marshal(map[string]any{"mcpServers": map[string]any{"resilientwrite": map[string]any{"httpUrl": address, "headers": map[string]string{"Authorization": value}}}})
		d.write(".gemini/settings.json", string(data), 0o600)
		reply, _ := d.run("doctor", "gemini")
		e := entriesOf(t, reply)["gemini"]
		if problem, _ := e["problem"].(string); (e["works"] == true) != (want == "") || !strings.Contains(problem, want) {
			t.Errorf("%q: %v", want, e)
		}
	}
	refs := clients.Entry{Headers: map[string]string{"A": "Bearer ${RW_TOKEN}", "B": "Bearer ${env:RW_TOKEN}", "C": "Bearer {env:RW_TOKEN}", "D": "Bearer <token>"}}
	got := refs.HeadersFrom(func(name string) string { return map[string]string{"RW_TOKEN": "x"}[name] })
	for name, want := range map[string]string{"A": "Bearer x", "B": "Bearer x", "C": "Bearer x", "D": "Bearer <token>"} {
		if got[name] != want {
			t.Errorf("%s: %q", name, got[name])
		}
	}
}
