package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// hook passes an event to the built command, as a host does, and returns its
// answer. The exit code must be 0.
func (a *surroundings) hook(host string, event any, args ...string) string {
	a.t.Helper()
	data, ok := event.(string)
	if !ok {
		text, err := json.Marshal(event)
		if err != nil {
			a.t.Fatal(err)
		}
		data = string(text)
	}
	cmd := exec.Command(a.bin, append([]string{"hook", "--host", host, "--deadline", "1m"}, args...)...)
	cmd.Dir, cmd.Stdin = "/", strings.NewReader(data)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		a.t.Fatalf("%s: %v\n%s", data, err, errs.String())
	}
	if out.Len() > 0 && !json.Valid(out.Bytes()) {
		a.t.Fatalf("%s: the answer is no JSON: %s", data, out.String())
	}
	return out.String()
}

// claude returns an event in the form of Claude Code.
func (a *surroundings) claude(name, tool, call string, input map[string]any) map[string]any {
	return map[string]any{"session_id": "s1", "cwd": a.dir, "hook_event_name": name, "tool_name": tool, "tool_input": input, "tool_use_id": call}
}

func (a *surroundings) shell(call, line string) {
	a.t.Helper()
	in := map[string]any{"command": line}
	a.hook("claude", a.claude("PreToolUse", "Bash", call, in))
	a.sh(line)
	if answer := a.hook("claude", a.claude("PostToolUse", "Bash", call, in)); answer != "" {
		a.t.Fatalf("%s: %s", line, answer)
	}
}

// groups returns the groups of observed changes.
func (a *surroundings) groups() (list []map[string]any) {
	a.t.Helper()
	for _, g := range a.rw(0, "changes", "--no-scan")["groups"].([]any) {
		list = append(list, g.(map[string]any))
	}
	return list
}

// TestHookRecordsShellCommands: for each host, what a command does between the
// events before and after it is listed under its call and undone byte for byte.
func TestHookRecordsShellCommands(t *testing.T) {
	line := "sed -i s/one/1/ a.txt; rm gone.txt; printf new > new.txt; chmod +x b.txt"
	for host, event := range map[string]func(a *surroundings, after bool) map[string]any{
		"claude-code": func(a *surroundings, after bool) map[string]any {
			return a.claude(map[bool]string{false: "PreToolUse", true: "PostToolUse"}[after], "Bash", "toolu_1", map[string]any{"command": line})
		},
		"claude": func(a *surroundings, after bool) map[string]any {
			return a.claude(map[bool]string{false: "PreToolUse", true: "PostToolUse"}[after], "Bash", "toolu_1", map[string]any{"command": line})
		},
		"codex": func(a *surroundings, after bool) map[string]any {
			return a.claude(map[bool]string{false: "PreToolUse", true: "PostToolUse"}[after], "Bash", "call_1", map[string]any{"command": line})
		},
		"qwen": func(a *surroundings, after bool) map[string]any { // a command that failed
			return a.claude(map[bool]string{false: "PreToolUse", true: "PostToolUseFailure"}[after], "run_shell_command", "q1", map[string]any{"command": line})
		},
		"gemini": func(a *surroundings, after bool) map[string]any {
			return map[string]any{"session_id": "s1", "cwd": a.dir, "hook_event_name": map[bool]string{false: "BeforeTool", true: "AfterTool"}[after],
				"tool_name": "run_shell_command", "tool_input": map[string]any{"command": line}}
		},
		"copilot": func(a *surroundings, after bool) map[string]any {
			return map[string]any{"sessionId": "s1", "cwd": a.dir, "toolName": "bash", "toolArgs": map[string]any{"command": line}}
		},
		"cline": func(a *surroundings, after bool) map[string]any {
			call := map[string]any{"id": "c1", "name": "run_commands", "input": map[string]any{"commands": []string{line}}}
			return map[string]any{"taskId": "s1", "hookName": "tool_call", "workspaceRoots": []string{a.dir},
				map[bool]string{false: "tool_call", true: "tool_result"}[after]: call}
		},
	} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			a := newAround(t)
			a.sh("git init -q .; printf 'one\\n' > a.txt; printf 'b\\n' > b.txt; printf 'gone\\n' > gone.txt; mkdir sub")
			var name []string
			if host == "copilot" || host == "cline" { // the configuration names the event
				name = []string{"PreToolUse"}
			}
			a.hook(host, event(a, false), name...)
			before := a.files()
			a.sh(line)
			after := a.files()
			if name != nil {
				name = []string{"postToolUse"}
			}
			a.hook(host, event(a, true), name...)
			groups := a.groups()
			if len(groups) != 1 || groups[0]["command"] != line || groups[0]["session"] != "s1" || groups[0]["host"] != strings.TrimSuffix(host, "-code") || groups[0]["files"] != 4.0 {
				t.Fatalf("%v", groups)
			}
			calls := groups[0]["calls"].([]any)
			mustEqual(t, len(calls), 1)
			a.rw(0, "undo", "--group", calls[0].(string))
			if d := differing(before, a.files()); len(d) > 0 {
				t.Errorf("not undone: %q", d)
			}
			a.rw(0, "undo")
			if d := differing(after, a.files()); len(d) > 0 {
				t.Errorf("not redone: %q", d)
			}
		})
	}
}

// TestHookReportsSecretsOnce: a secret that a command wrote is reported to the
// model once, without the secret itself, and nothing is reverted.
func TestHookReportsSecretsOnce(t *testing.T) {
	a := newAround(t)
	a.sh("git init -q .; printf 'x\\n' > a.txt")
	token := madeUpToken()
	in := map[string]any{"command": "printf TOKEN=" + token + " > deploy.env"}
	for i, want := range []bool{true, false} {
		call := fmt.Sprint("toolu_", i)
		a.hook("claude", a.claude("PreToolUse", "Bash", call, in))
		if i == 0 {
			a.sh("printf 'A=1\\nGITHUB_TOKEN=" + token + "\\n' > deploy.env")
		} else {
			a.sh("printf 'B=2\\n' >> deploy.env")
		}
		answer := a.hook("claude", a.claude("PostToolUse", "Bash", call, in))
		if strings.Contains(answer, token) || strings.Contains(answer, "deploy.env:2") != want || strings.Contains(answer, `"hookEventName":"PostToolUse"`) != want {
			t.Fatalf("%d: %s", i, answer)
		}
	}
	if !strings.Contains(a.files()["deploy.env"], token) {
		t.Error("the file was reverted")
	}
	for _, g := range a.groups() {
		if strings.Contains(fmt.Sprint(g), token) {
			t.Errorf("the command line shows the secret: %v", g)
		}
	}
}

// TestHookDeniesWrites: an edit tool of the host is denied if our own would be
// refused, with a reason for the model; any other is allowed.
func TestHookDeniesWrites(t *testing.T) {
	a := newAround(t)
	a.sh("git init -q .; printf 'x\\n' > a.txt")
	token := madeUpToken()
	for _, row := range []struct {
		tool, path, text string
		denied           bool
	}{
		{"Write", "a.txt", "harmless\n", false}, {"Write", "conf.env", "GITHUB_TOKEN=" + token + "\n", true},
		{"Edit", "a.txt", "key = \"" + token + "\"", true}, {"Write", ".git/hooks/pre-commit", "#!/bin/sh\n", true},
		{"Write", ".mcp.json", "{}", true}, {"Write", "../outside.txt", token, false}, {"Write", "", token, false},
	} {
		file := filepath.Join(a.dir, row.path)
		if row.path == "" {
			file = ""
		}
		answer := a.hook("claude", a.claude("PreToolUse", row.tool, "toolu_1", map[string]any{"file_path": file, "content": row.text}))
		if denied := strings.Contains(answer, `"permissionDecision":"deny"`); denied != row.denied || strings.Contains(answer, token) {
			t.Errorf("%s %s: %s", row.tool, row.path, answer)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	noErr(t, os.Symlink(a.dir, link))
	through := a.claude("PreToolUse", "Write", "toolu_2", map[string]any{"file_path": filepath.Join(link, "new", "conf.env"), "content": "T=" + token + "\n"})
	through["cwd"] = link
	notebook := a.claude("PreToolUse", "NotebookEdit", "toolu_3", map[string]any{"notebook_path": filepath.Join(a.dir, "n.ipynb"), "new_source": "t = '" + token + "'"})
	for _, event := range []map[string]any{through, notebook} {
		if answer := a.hook("claude", event); !strings.Contains(answer, `"permissionDecision":"deny"`) {
			t.Errorf("%v: %s", event, answer)
		}
	}
	if text := a.files()["a.txt"]; !strings.HasSuffix(text, "x\n") {
		t.Errorf("the hook wrote %q", text)
	}
}

// TestHookKeepsClaims: edit tools of a host cannot change what another session has
// claimed. Claimed files that a shell command changed anyway are reported once, to
// sessions other than the owner. An operator is not bound.
func TestHookKeepsClaims(t *testing.T) {
	a := newAround(t)
	a.sh("git init -q .; mkdir src; printf 'x\\n' > src/a.txt; printf 'x\\n' > src/b.txt; printf 'x\\n' > free.txt")
	a.rw(0, "changes")
	c := a.rw(0, "claim", "src", "--session", "other", "--ttl", "9m")["claims"].([]any)[0].(map[string]any)
	mustEqual(t, c["session"], "other", c)
	number, until := c["fence"].(float64), c["until"].(string)
	event := func(session, name, tool, call string, in map[string]any) string {
		e := a.claude(name, tool, call, in)
		e["session_id"] = session
		return a.hook("claude", e)
	}
	edit := map[string]any{"file_path": filepath.Join(a.dir, "src", "a.txt"), "old_string": "x", "new_string": "y"}
	if answer := event("s1", "PreToolUse", "Edit", "e1", edit); !strings.Contains(answer, `"permissionDecision":"deny"`) || !strings.Contains(answer, "session other") {
		t.Errorf("%s", answer)
	}
	equal(t, event("other", "PreToolUse", "Edit", "e2", edit), "", "denied to the session that has the claim")
	event("other", "PostToolUse", "Edit", "e2", edit)
	for i, row := range []struct{ session, line, holder string }{
		{"other", "printf mine > src/a.txt", ""}, {"s1", "printf free > free.txt", ""}, {"s1", "printf shell > src/a.txt", "src/a.txt"},
		{"s1", "printf again > src/a.txt", ""}, {"s2", "mv src/b.txt b.txt", "src/b.txt"},
	} {
		id, in := fmt.Sprint("t", i), map[string]any{"command": row.line}
		event(row.session, "PreToolUse", "Bash", id, in)
		a.sh(row.line)
		answer := event(row.session, "PostToolUse", "Bash", id, in)
		said := strings.Contains(answer, row.holder+" is claimed by session other until "+until[:13])
		if said != (row.holder != "") || row.holder == "" && answer != "" {
			t.Errorf("%+v: %s", row, answer)
		}
	}
	a.rw(0, "delete", "src/a.txt")
	if list := a.rw(0, "claim", "list")["claims"].([]any); len(list) != 1 {
		t.Errorf("%v", list)
	}
	a.rw(6, "claim", "src/new", "--session", "s1")
	a.rw(2, "claim")
	a.rw(2, "claim", "release", "src")
	a.rw(0, "claim", "release", fmt.Sprint(int64(number)))
	a.rw(0, "claim", "src/new", "--session", "s1", "--ttl", "1m")
	equal(t, event("other", "PreToolUse", "Edit", "e3", edit), "", "after the release")
	if answer := event("other", "PreToolUse", "Write", "e4", map[string]any{"file_path": filepath.Join(a.dir, "src", "new"), "content": "x"}); !strings.Contains(answer, "session s1") {
		t.Errorf("%s", answer)
	}
}

// TestHookNeverBreaksAHost: whatever is wrong, the exit code is 0 and the answer
// is JSON or nothing.
func TestHookNeverBreaksAHost(t *testing.T) {
	a := newAround(t)
	a.sh("git init -q .; printf 'x\\n' > a.txt")
	pre := a.claude("PreToolUse", "Bash", "toolu_1", map[string]any{"command": "true"})
	a.hook("claude", pre)
	for _, event := range []string{"", "{", "null", "[]", `"text"`, "\xff", `{"cwd":7}`, `{"cwd":"/nowhere/at/all"}`, `{"cwd":"relative"}`, strings.Repeat("[", 1<<20),
		`{"cwd":` + fmt.Sprintf("%q", a.dir) + `}`, `{"cwd":` + fmt.Sprintf("%q", a.dir) + `,"hook_event_name":"Nonsense"}`,
		`{"cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"true"},"tool_use_id":"x"}`} {
		if answer := a.hook("claude", event); answer != "" {
			t.Errorf("%.40q: %s", event, answer)
		}
	}
	for _, args := range [][]string{{"--host", "nobody"}, {"--nonsense"}, {"--deadline", "soon"}, {"--deadline", "1ns"}} {
		a.hook("claude", pre, args...)
	}
	slow := exec.Command(a.bin, "hook", "--host", "claude", "--deadline", "100ms") // with standard input that does not end
	in := must(slow.StdinPipe())(t)
	if out, err := slow.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v %s", err, out)
	}
	in.Close()
	state := filepath.Join(a.dir, ".resilient_write")
	for _, damage := range []func(){
		func() { os.WriteFile(filepath.Join(state, "observe", "calls.json"), []byte("{\"open\": 3"), 0o600) },
		func() { os.WriteFile(filepath.Join(state, "observe", "index"), []byte("rwobsrv1 and more"), 0o600) },
		func() { os.WriteFile(filepath.Join(state, "policy.yaml"), []byte("gate: ["), 0o600) },
		func() { os.RemoveAll(state); os.WriteFile(state, nil, 0o600) },
	} {
		damage()
		for _, name := range []string{"SessionStart", "PreToolUse", "PostToolUse", "PreCompact", "Stop", "SubagentStop", "SessionEnd"} {
			pre["hook_event_name"] = name
			a.hook("claude", pre)
		}
	}
}

// TestHookTwice: a host with the hooks of a plugin and of init gets one answer to
// each event, and the second of two equal ones records nothing. An identifier that a
// provider uses again in a later turn is another call.
func TestHookTwice(t *testing.T) {
	a := newAround(t)
	a.sh("git init -q .; printf 'x\\n' > a.txt")
	in := map[string]any{"command": "make"}
	both := func(event map[string]any) (said []string) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		for range 2 {
			wg.Go(func() {
				if answer := a.hook("claude", event); answer != "" {
					mu.Lock()
					said = append(said, answer)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		return said
	}
	for turn := 1; turn <= 2; turn++ {
		if said := both(a.claude("PreToolUse", "Bash", "call_0", in)); len(said) > 0 {
			t.Errorf("%q", said)
		}
		a.sh(fmt.Sprintf("printf 'GITHUB_TOKEN=%s\\n' > k%d.env", madeUpToken(), turn))
		if said := both(a.claude("PostToolUse", "Bash", "call_0", in)); len(said) != 1 || turn == 1 && !strings.Contains(said[0], "k1.env") {
			t.Errorf("turn %d: %q", turn, said)
		}
		a.sh(fmt.Sprintf("printf 'later\\n' > later%d.txt", turn))
		a.hook("claude", a.claude("PostToolUse", "Bash", "call_0", in))
		if groups := a.groups(); len(groups) != 2*turn-1 {
			t.Errorf("turn %d: a second answer recorded something: %v", turn, groups)
		}
	}
	for i, text := range []string{"{}", "{}", "{ }"} {
		answer := a.hook("claude", a.claude("PreToolUse", "Write", "call_1", map[string]any{"file_path": filepath.Join(a.dir, ".mcp.json"), "content": text}))
		equal(t, strings.Contains(answer, `"deny"`), i != 1, i, ": ", answer)
	}
}

// TestHookOverlappingCalls: a change while two calls are open belongs to both,
// and undoing one of the calls alone is refused.
func TestHookOverlappingCalls(t *testing.T) {
	a := newAround(t)
	a.sh("git init -q .; printf 'x\\n' > a.txt")
	in := map[string]any{"command": "make"}
	a.hook("claude", a.claude("PreToolUse", "Bash", "t1", in))
	a.hook("claude", a.claude("PreToolUse", "Bash", "t2", in))
	a.sh("printf y > a.txt")
	a.hook("claude", a.claude("PostToolUse", "Bash", "t1", in))
	a.sh("printf z > a.txt")
	a.hook("claude", a.claude("PostToolUse", "Bash", "t2", in))
	groups := a.groups()
	if len(groups) != 2 || !slices.Equal(groups[1]["calls"].([]any), []any{"t1", "t2"}) && !slices.Equal(groups[0]["calls"].([]any), []any{"t1", "t2"}) {
		t.Fatalf("%v", groups)
	}
	a.rw(5, "undo", "--group", "t1") // the changes are not only its own
}

// TestHookClosesCallsWithoutEnd: a call whose end is not reported is closed by
// the end of the turn, and a call of our own tools opens none.
func TestHookClosesCallsWithoutEnd(t *testing.T) {
	a := newAround(t)
	a.sh("git init -q .; printf 'x\\n' > a.txt")
	a.hook("claude", a.claude("PreToolUse", "mcp__resilientwrite__rw_edit", "own", nil))
	a.hook("claude", a.claude("PreToolUse", "Bash", "t1", map[string]any{"command": "sleep 1 && touch b &"}))
	a.sh("printf y > a.txt")
	a.hook("claude", map[string]any{"session_id": "s1", "cwd": a.dir, "hook_event_name": "Stop"})
	a.sh("printf z > a.txt")
	a.hook("claude", map[string]any{"session_id": "s1", "cwd": a.dir, "hook_event_name": "SessionEnd"})
	groups := a.groups()
	mustEqual(t, len(groups), 2)
	var calls []any
	for _, g := range groups {
		if list, ok := g["calls"].([]any); ok {
			calls = append(calls, list...)
		}
	}
	if !slices.Equal(calls, []any{"t1"}) {
		t.Errorf("%v", calls)
	}
}

// TestHookWhereNothingIsDenied: if a host does not support denial, a refused
// write begins a call like any other, so earlier changes are not attributed to
// it.
func TestHookWhereNothingIsDenied(t *testing.T) {
	a := newAround(t)
	a.sh("git init -q .; printf 'x\\n' > a.txt")
	event := func(part string) map[string]any {
		return map[string]any{"taskId": "s1", "workspaceRoots": []string{a.dir}, part: map[string]any{"id": "e1", "name": "editor", "input": map[string]any{"path": ".envrc", "content": "x\n"}}}
	}
	a.rw(0, "changes")
	a.sh("printf mine > mine.txt")
	mustEqual(t, a.hook("cline", event("tool_call"), "PreToolUse"), "")
	a.sh("printf 'x\\n' > .envrc")
	a.hook("cline", event("tool_result"), "PostToolUse")
	a.rw(0, "undo", "--group", "e1")
	if files := a.files(); files["mine.txt"] == "" || files[".envrc"] != "" {
		t.Errorf("%v", files)
	}
}

// TestHookInAWorktree: a worktree in an ignored directory of a checkout that has
// a store is a separate workspace.
func TestHookInAWorktree(t *testing.T) {
	a := newAround(t)
	a.sh("git init -q .; printf 'x\\n' > a.txt; printf 'trees/\\n' > .gitignore; git add .; git commit -qm x")
	a.rw(0, "changes")
	a.sh("git worktree add -q trees/one")
	main := a.dir
	a.dir = filepath.Join(main, "trees", "one")
	a.shell("t1", "printf y > a.txt")
	if groups := a.groups(); len(groups) != 1 {
		t.Errorf("%v", groups)
	}
}

// TestHookKeepsACheckpointBeforeCompaction.
func TestHookKeepsACheckpointBeforeCompaction(t *testing.T) {
	a := newAround(t)
	a.sh("git init -q .; printf 'x\\n' > a.txt")
	a.shell("t1", "printf y > a.txt")
	a.hook("claude", map[string]any{"session_id": "s1", "cwd": a.dir, "hook_event_name": "PreCompact", "trigger": "auto"})
	if r := a.rw(0, "checkpoint", "read", "before-compaction"); !strings.Contains(fmt.Sprint(r["data"]), "a.txt") {
		t.Errorf("%v", r)
	}
}

// TestHookJudgesPatches: a patch is refused before it is applied if a line that
// it adds, or a path that it writes, deletes or moves to, would be refused.
func TestHookJudgesPatches(t *testing.T) {
	a := newAround(t)
	a.sh("git init -q .; printf 'x\\n' > a.txt")
	token := madeUpToken()
	for patch, denied := range map[string]bool{
		"*** Begin Patch\n*** Update File: a.txt\n@@\n-x\n+y\n*** End Patch\n":                                  false,
		"*** Begin Patch\n*** Add File: new.txt\n+fine\n*** Update File: a.txt\n@@\n x\n+T = '" + token + "'\n": true,
		"*** Begin Patch\r\n*** Add File: .mcp.json\r\n+{}\r\n*** End Patch\r\n":                                true,
		"*** Begin Patch\n*** Update File: a.txt\n*** Move to: .git/hooks/pre-commit\n@@\n-x\n+y\n":             true,
		"*** Begin Patch\n*** Update File: a.txt\n@@\n-T = '" + token + "'\n+gone\n":                            false,
		"no patch at all": false,
	} {
		answer := a.hook("codex", a.claude("PreToolUse", "apply_patch", "call_1", map[string]any{"command": patch}))
		if strings.Contains(answer, `"permissionDecision":"deny"`) != denied || strings.Contains(answer, token) {
			t.Errorf("%q: %s", patch, answer)
		}
	}
}

// TestHookKilledAtAnyMoment: a hook that is killed while it records loses no
// version, writes no wrong row, and leaves its findings to the next one.
func TestHookKilledAtAnyMoment(t *testing.T) {
	a := newAround(t)
	a.sh("git init -q .; printf 'version 0\\n' > a.txt; mkdir sub")
	a.hook("claude", map[string]any{"session_id": "s1", "cwd": a.dir, "hook_event_name": "SessionStart"})
	reported := ""
	rounds, killed := 8, 0
	if testbed.Long() {
		rounds = 24
	}
	for i := 1; i <= rounds; i++ {
		in := map[string]any{"command": fmt.Sprint("step ", i)}
		a.hook("claude", a.claude("PreToolUse", "Bash", fmt.Sprint("t", i), in))
		a.sh(fmt.Sprintf("printf 'version %d\\n' > a.txt; printf %d > sub/f%d; rm -f sub/f%d", i, i, i, i-1))
		if i%8 == 0 {
			a.sh("printf 'GITHUB_TOKEN=" + madeUpToken() + "\\n' > k" + fmt.Sprint(i) + ".env")
		}
		post := a.claude("PostToolUse", "Bash", fmt.Sprint("t", i), in)
		data := must(json.Marshal(post))(t)
		cmd := exec.Command(a.bin, "hook", "--host", "claude", "--deadline", "1m")
		cmd.Dir, cmd.Stdin = "/", bytes.NewReader(data)
		var out bytes.Buffer
		cmd.Stdout = &out
		noErr(t, cmd.Start())
		late := time.AfterFunc(time.Duration(rand.IntN(80))*time.Millisecond, func() { cmd.Process.Kill() })
		if cmd.Wait() != nil {
			killed++
		}
		late.Stop()
		a.hook("claude", map[string]any{"session_id": "s1", "cwd": a.dir, "hook_event_name": "Stop"}) // ends the call if nothing else has
		post["tool_use_id"] = fmt.Sprint("next", i)
		reported += out.String() + a.hook("claude", post)
	}
	t.Logf("%d of %d killed", killed, rounds)
	for i := 8; i <= rounds; i += 8 {
		if !strings.Contains(reported, fmt.Sprintf("k%d.env", i)) {
			t.Errorf("the secret in k%d.env is not reported: %s", i, reported)
		}
	}
	for _, f := range a.rw(0, "changes", "--no-scan")["files"].([]any) {
		one := f.(map[string]any)
		if n := one["changes"].(float64); one["conflict"] == true || one["path"] == "a.txt" && n != float64(rounds) || one["path"] != "a.txt" && n > 2 {
			t.Errorf("%v", one)
		}
	}
	for i := rounds; i > 0; i-- {
		if text := a.files()["a.txt"]; !strings.HasSuffix(text, fmt.Sprintf("version %d\n", i)) {
			t.Fatalf("round %d: %q", i, text)
		}
		a.rw(0, "undo", "--group", fmt.Sprint("t", i))
	}
	if files := a.files(); !strings.HasSuffix(files["a.txt"], "version 0\n") || len(files) != 1 {
		t.Errorf("%v", files)
	}
	a.rw(0, "check")
}
