package main

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

// TestBlameExports: both public formats attribute the lines of a commit, and
// attribute those of a person to no agent. A note is written only on request,
// once, and the repository is not changed otherwise.
func TestBlameExports(t *testing.T) {
	a := newAround(t)
	a.sh("git init -q .; git config user.name x; git config user.email x@example.org; mkdir sub 'sub/a dir'; printf '1\\n2\\n3\\n' > sub/f.txt; printf '1\\n' > top.txt; git add .; git commit -qm one")
	top := a.dir
	a.dir += "/sub"
	a.rw(0, "changes")
	a.shell("t1", "printf 'agent\\n2\\n3\\nmore\\n' > f.txt; printf 'new\\n' > 'a dir/n.txt'; printf '\\0\\n' > bin")
	a.sh("printf 'agent\\n2\\nperson\\n3\\nmore\\n' > f.txt; printf 'person\\n' > p.txt")
	a.rw(0, "changes")
	a.sh("printf 'x\\n' > ../top.txt; printf 'unseen\\n' > late.txt; git add -A ..; git commit -qm two")
	a.sh("printf 'agent\\nlater\\n' > f.txt")
	refs := func() string {
		out := must(exec.Command("git", "-C", top, "for-each-ref").Output())(t)
		return string(out)
	}
	before := refs()
	r := a.rw(0, "blame", "--format", "git-ai", "--json")
	note := r["text"].(string)
	head, _, _ := strings.Cut(note, "\n---\n")
	var lines []string
	for line := range strings.SplitSeq(head, "\n") {
		if key, ranges, ok := strings.Cut(strings.TrimSpace(line), "::t_"); ok {
			line = key[:2] + " " + strings.Fields(ranges)[1]
		}
		lines = append(lines, line)
	}
	if got := strings.Join(lines, "|"); got != `"sub/a dir/n.txt"|s_ 1|sub/f.txt|s_ 1,5` {
		t.Errorf("%s", got)
	}
	if !strings.Contains(note, `"id": "s1"`) || !strings.Contains(note, `"tool": "claude"`) {
		t.Errorf("%s", note)
	}
	skipped, _ := json.Marshal(r["skipped"])
	if string(skipped) != `[{"path":"bin","reason":"not_utf8"},{"path":"late.txt","reason":"version_not_found"}]` {
		t.Errorf("%s", skipped)
	}
	trace := func(args ...string) (out map[string]any) {
		t.Helper()
		text := a.rw(0, append([]string{"blame", "--format", "agent-trace", "--json"}, args...)...)["text"].(string)
		noErr(t, json.Unmarshal([]byte(text), &out))
		return out
	}
	files, _ := json.Marshal(trace("--commit", "HEAD", "f.txt")["files"])
	if want := `[{"conversations":[{"contributor":{"type":"ai"},"ranges":[{"end_line":1,"start_line":1},{"end_line":5,"start_line":5}]},{"contributor":{"type":"unknown"},"ranges":[{"end_line":3,"start_line":3}]}],"path":"sub/f.txt"}]`; string(files) != want {
		t.Errorf("%s", files)
	}
	now := trace("f.txt")
	files, _ = json.Marshal(now["files"])
	if want := `[{"conversations":[{"contributor":{"type":"ai"},"ranges":[{"end_line":1,"start_line":1}]},{"contributor":{"type":"unknown"},"ranges":[{"end_line":2,"start_line":2}]}],"path":"sub/f.txt"}]`; string(files) != want || now["vcs"] != nil {
		t.Errorf("%s", files)
	}
	if refs() != before {
		t.Errorf("refs were written: %s", refs())
	}
	a.rw(0, "blame", "--format", "git-ai", "--write-note", "--json")
	if out, err := exec.Command("git", "-C", top, "notes", "--ref=ai", "show", "HEAD").Output(); err != nil || string(out) != note {
		t.Errorf("%v: %s", err, out)
	}
	if after := strings.TrimPrefix(refs(), before); strings.Count(after, "\n") != 1 || !strings.Contains(after, "refs/notes/ai") {
		t.Errorf("%s", after)
	}
	a.rw(6, "blame", "--format", "git-ai", "--write-note")
	a.rw(5, "blame", "--format", "git-ai", "--write-note", "--commit", "HEAD^") // no agent is known to have written any of its lines
	a.rw(5, "blame", "--format", "git-ai", "--commit", "none")
	for _, args := range [][]string{{"--format", "gitai"}, {"--commit", "HEAD", "f.txt"}, {"--format", "agent-trace"}, {"--format", "agent-trace", "--write-note", "f.txt"}, {"f.txt", "p.txt"}} {
		a.rw(2, append([]string{"blame"}, args...)...)
	}
}
