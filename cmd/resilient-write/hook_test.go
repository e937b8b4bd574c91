package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// hook passes an event to the hook of a host and returns its answer. The exit code
// must be 0.
func (a *surroundings) hook(host string, event any, args ...string) string {
	a.t.Helper()
	var code rw.Code
	var out, errs bytes.Buffer
	noErr(a.t, inDirectory("/", os.Getenv, func() {
		code = run(hookFor(host, args...), os.Getenv, strings.NewReader(a.event(event)), &out, &errs)
	}))
	return a.answer(event, code == rw.CodeOK, out, errs)
}

// hookProcess is hook in a process of its own, as hosts start it.
func (a *surroundings) hookProcess(host string, event any, args ...string) string {
	a.t.Helper()
	cmd := exec.Command(build(a.t), hookFor(host, args...)...)
	cmd.Dir, cmd.Stdin = "/", strings.NewReader(a.event(event))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	return a.answer(event, cmd.Run() == nil, out, errs)
}

func hookFor(host string, args ...string) []string {
	return append([]string{"hook", "--host", host, "--deadline", "1m"}, args...)
}

// event returns an event as a host writes it.
func (a *surroundings) event(event any) string {
	a.t.Helper()
	if text, ok := event.(string); ok {
		return text
	}
	return string(must(json.Marshal(event))(a.t))
}

func (a *surroundings) answer(event any, ok bool, out, errs bytes.Buffer) string {
	a.t.Helper()
	require(a.t, ok, "%.300v: %s", event, errs.String())
	require(a.t, out.Len() <= 0 || json.Valid(out.Bytes()), "%.300v: the answer is no JSON: %s", event, out.String())
	return out.String()
}

// claude returns an event in the form of Claude Code.
func (a *surroundings) claude(name, tool, call string, input map[string]any) map[string]any {
	return map[string]any{"session_id": "s1", "cwd": a.dir, "hook_event_name": name, "tool_name": tool, "tool_input": input, "tool_use_id": call}
}

// groups returns the groups of observed changes.
func (a *surroundings) groups() (list []map[string]any) {
	a.t.Helper()
	for _, g := range a.rw("changes", "--no-scan")["groups"].([]any) {
		list = append(list, g.(map[string]any))
	}
	return list
}

// TestHookRecordsShellCommands: for each host, what a command does between the
// events before and after it is listed under its call and undone byte for byte.
func TestHookRecordsShellCommands(t *testing.T) {
	line := "sed -i s/one/1/ a.txt; rm gone.txt; printf new > new.txt; chmod +x b.txt"
	type event = func(a *surroundings, after bool) map[string]any
	claude := func(tool, call, ended string) event {
		return func(a *surroundings, after bool) map[string]any {
			return a.claude(map[bool]string{false: "PreToolUse", true: ended}[after], tool, call, map[string]any{"command": line})
		}
	}
	for host, event := range map[string]event{
		"claude-code": claude("Bash", "toolu_1", "PostToolUse"),
		"claude":      claude("Bash", "toolu_1", "PostToolUse"),
		"codex":       claude("Bash", "call_1", "PostToolUse"),
		"qwen":        claude("run_shell_command", "q1", "PostToolUseFailure"), // a command that failed
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
			require(t, len(groups) == 1 && groups[0]["command"] == line && groups[0]["session"] == "s1" && groups[0]["host"] == strings.TrimSuffix(host, "-code") && groups[0]["files"] == 4.0, "%v", groups)
			calls := groups[0]["calls"].([]any)
			mustEqual(t, len(calls), 1)
			a.rw("undo", "--group", calls[0].(string))
			equal(t, cmp.Diff(before, a.files()), "", "not undone")
			a.rw("undo")
			equal(t, cmp.Diff(after, a.files()), "", "not redone")
		})
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
		equal(t, a.hook("claude", event), "", event)
	}
	for _, args := range [][]string{{"--host", "nobody"}, {"--nonsense"}, {"--deadline", "soon"}, {"--deadline", "1ns"}} {
		a.hookProcess("claude", pre, args...) // which ends when its time is over
	}
	slow := exec.Command(build(t), "hook", "--host", "claude", "--deadline", "100ms") // with standard input that does not end
	in := must(slow.StdinPipe())(t)
	out, err := slow.CombinedOutput()
	expect(t, err == nil && len(out) == 0, "%v %s", err, out)
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
				if answer := a.hookProcess("claude", event); answer != "" {
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
		said := both(a.claude("PreToolUse", "Bash", "call_0", in))
		expect(t, len(said) == 0, "%q", said)
		a.sh(fmt.Sprintf("printf 'GITHUB_TOKEN=%s\\n' > k%d.env", madeUpToken(), turn))
		said = both(a.claude("PostToolUse", "Bash", "call_0", in))
		expect(t, len(said) == 1 && (turn != 1 || strings.Contains(said[0], "k1.env")), "turn %d: %q", turn, said)
		a.sh(fmt.Sprintf("printf 'later\\n' > later%d.txt", turn))
		a.hook("claude", a.claude("PostToolUse", "Bash", "call_0", in))
		groups := a.groups()
		expect(t, len(groups) == 2*turn-1, "turn %d: a second answer recorded something: %v", turn, groups)
	}
	for i, text := range []string{"{}", "{}", "{ }"} {
		answer := a.hook("claude", a.claude("PreToolUse", "Write", "call_1", map[string]any{"file_path": filepath.Join(a.dir, ".mcp.json"), "content": text}))
		equal(t, strings.Contains(answer, `"deny"`), i != 1, i, ": ", answer)
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
	a.rw("changes")
	a.sh("printf mine > mine.txt")
	mustEqual(t, a.hook("cline", event("tool_call"), "PreToolUse"), "")
	a.sh("printf 'x\\n' > .envrc")
	a.hook("cline", event("tool_result"), "PostToolUse")
	a.rw("undo", "--group", "e1")
	files := a.files()
	expect(t, files["mine.txt"] != "" && files[".envrc"] == "", "%v", files)
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
		cmd := exec.Command(build(t), hookFor("claude")...)
		cmd.Dir, cmd.Stdin = "/", strings.NewReader(a.event(post))
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
		expect(t, strings.Contains(reported, fmt.Sprintf("k%d.env", i)), "the secret in k%d.env is not reported: %s", i, reported)
	}
	for _, f := range a.rw("changes", "--no-scan")["files"].([]any) {
		one := f.(map[string]any)
		n := one["changes"].(float64)
		expect(t, one["conflict"] != true && (one["path"] != "a.txt" || n == float64(rounds)) && (one["path"] == "a.txt" || n <= 2), "%v", one)
	}
	for i := rounds; i > 0; i-- {
		text := a.files()["a.txt"]
		require(t, strings.HasSuffix(text, fmt.Sprintf("version %d\n", i)), "round %d: %q", i, text)
		a.rw("undo", "--group", fmt.Sprint("t", i))
	}
	files := a.files()
	expect(t, strings.HasSuffix(files["a.txt"], "version 0\n") && len(files) == 1, "%v", files)
	a.rw("check")
}
