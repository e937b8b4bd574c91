package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestCaptureRecordsWhatHappens: without hooks, changes in files, in new, nested
// and renamed directories and in a nested repository are recorded, and undone.
func TestCaptureRecordsWhatHappens(t *testing.T) {
	a := newAround(t)
	a.sh("git init -q .; printf 'one\n' > a.txt; mkdir -p dir/deep; printf 'two\n' > dir/deep/b.txt; printf 'node_modules/\n' > .gitignore; mkdir node_modules")
	sees, end := watching(t, a.dir, "--capture", "--json")
	sees(`"capturing"`)
	before := a.files()
	for _, row := range []struct{ line, path string }{
		{"sed -i s/one/1/ a.txt", "a.txt"}, {"mkdir -p n/e/w; printf x > n/e/w/c.txt", "n/e/w/c.txt"}, {"printf y >> n/e/w/c.txt", "n/e/w/c.txt"},
		{"git init -q sub; printf z > sub/d.txt", "sub/d.txt"}, {"printf z > sub/e.txt", "sub/e.txt"}, {"mv dir moved", "moved/deep/b.txt"},
		{"printf more >> moved/deep/b.txt", "moved/deep/b.txt"}, {"rm -r n; mkdir -p n/e; printf q > n/e/f.txt", "n/e/f.txt"}, {"chmod +x a.txt", "a.txt"},
		{"printf i > node_modules/i.js; rm a.txt", "a.txt"},
	} {
		a.sh(row.line)
		for line := ""; !strings.Contains(line, fmt.Sprintf("%q", row.path)); {
			line = sees(`"captured"`)
		}
	}
	a.sh("printf last > last.txt")
	end()
	after := a.files()
	reply := a.rw(0, "changes", "--no-scan")
	var changed []string
	for _, f := range reply["files"].([]any) {
		if one := f.(map[string]any); one["change"] != "reverted" { // such as a temporary file of sed
			changed = append(changed, one["path"].(string))
		}
	}
	if diff := differing(before, after); !slices.Equal(diff, changed) {
		t.Errorf("%q, want %q", changed, diff)
	}
	for _, g := range slices.Backward(a.groups()) {
		a.rw(0, "undo", "--group", g["group"].(string))
	}
	if diff := differing(before, a.files()); len(diff) > 0 {
		t.Errorf("not undone: %q", diff)
	}
	a.rw(0, "check")
}

// TestCaptureBesideHooks: with hooks and a second capture running at the same
// time, each change has one row, and a change during a call is recorded under
// it.
func TestCaptureBesideHooks(t *testing.T) {
	a := newAround(t)
	a.sh("git init -q .; printf 'x\n' > a.txt")
	sees, end := watching(t, a.dir, "--capture")
	sees("capturing")
	other, endOther := watching(t, a.dir, "--capture")
	other("capturing")
	before := a.files()
	in := map[string]any{"command": "make"}
	a.hook("claude", a.claude("PreToolUse", "Bash", "t1", in))
	for i := range 20 {
		a.sh(fmt.Sprintf("printf %d > f%d.txt; printf %d > a.txt", i, i, i))
	}
	a.hook("claude", a.claude("PostToolUse", "Bash", "t1", in))
	end()
	endOther()
	for _, f := range a.rw(0, "changes", "--no-scan")["files"].([]any) {
		one := f.(map[string]any)
		if n := one["changes"].(float64); n != 1 && one["path"] != "a.txt" || one["conflict"] == true {
			t.Errorf("%v", one)
		}
	}
	for _, g := range a.groups() {
		if fmt.Sprint(g["calls"]) != "[t1]" || g["command"] != "make" {
			t.Errorf("%v", g)
		}
	}
	a.rw(0, "undo", "--group", "t1")
	if diff := differing(before, a.files()); len(diff) > 0 {
		t.Errorf("not undone: %q", diff)
	}
	if s := fmt.Sprint(a.rw(0, "status")["capture"]); !strings.Contains(s, "host:watch") {
		t.Error(s)
	}
}
