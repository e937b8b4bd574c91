package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestStageAndBlameOfOneSession: two sessions and a person change one file. The
// command stages the lines of one of them, and reports who wrote each line.
func TestStageAndBlameOfOneSession(t *testing.T) {
	a := newAround(t)
	a.sh(`git init -q; printf 'a\n1\n2\nb\n3\n4\nc\n5\n6\nd\n' > f.txt; git add .; git commit -qm x`)
	a.rw(0, "changes")
	edit := func(session, old, now string) {
		a.rw(0, "edit", "f.txt", "--session", session, "--old", old+"\n", "--new", now+"\n")
	}
	edit("one", "a", "A")
	edit("two", "b", "B")
	a.sh(`sed -i s/c/C/ f.txt`)
	a.rw(0, "changes", "--call", "toolu_7", "--session", "one", "--command", "sed")
	a.sh(`sed -i s/d/D/ f.txt`) // by a person: querying the session does not attribute the change to it
	cmd := exec.Command(a.bin, "changes", "--session", "one", "--patch")
	cmd.Dir, cmd.Env = a.dir, append(os.Environ(), "RW_WORKSPACE="+a.dir)
	patch, err := cmd.Output()
	if err != nil || strings.Count(string(patch), "\n+") != 3 || !strings.Contains(string(patch), "\n+A\n") || !strings.Contains(string(patch), "\n+C\n") {
		t.Fatalf("%v\n%s", err, patch)
	}
	if got := a.rw(0, "changes", "--session", "one", "--stage"); fmt.Sprint(got["staged"]) != "[f.txt]" {
		t.Fatal(got)
	}
	a.sh(`test "$(git show :f.txt | tr -d '\n')" = A12b34C56d; test "$(tr -d '\n' < f.txt)" = A12B34C56D`)
	owners := ""
	blamed := a.rw(0, "blame", "f.txt")
	calls := map[any]map[string]any{}
	for _, c := range blamed["calls"].([]any) {
		calls[c.(map[string]any)["row"]] = c.(map[string]any)
	}
	for _, l := range blamed["lines"].([]any) {
		line := l.(map[string]any)
		if c := calls[line["row"]]; c != nil {
			owners += fmt.Sprint(line["text"], ":", c["session"], c["during"], " ")
		}
	}
	if want := "A:one<nil> B:two<nil> C:one[toolu_7] D:<nil> <nil> "; owners != want {
		t.Errorf("%s, want %s", owners, want)
	}
	a.rw(2, "changes", "--patch", "--stage")
	a.rw(2, "blame")
}
