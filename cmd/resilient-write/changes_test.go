package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// around is a workspace that a shell and the built command work in.
type around struct {
	t   *testing.T
	dir string
	bin string
}

func newAround(t *testing.T) *around {
	t.Helper()
	for _, tool := range []string{"sh", "git", "sed"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed")
		}
	}
	dir := must(filepath.EvalSymlinks(t.TempDir()))(t)
	return &around{t, dir, build(t)}
}

// sh runs a shell command in the workspace.
func (a *around) sh(line string) {
	a.t.Helper()
	cmd := exec.Command("sh", "-ec", line)
	cmd.Dir = a.dir
	cmd.Env = append(os.Environ(), "HOME="+a.dir+"/.none", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
	if out, err := cmd.CombinedOutput(); err != nil {
		a.t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

// rw runs the command and returns its reply.
func (a *around) rw(code int, args ...string) map[string]any {
	a.t.Helper()
	cmd := exec.Command(a.bin, args...)
	cmd.Dir = a.dir
	cmd.Env = append(os.Environ(), "RW_WORKSPACE="+a.dir)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != code {
		a.t.Fatalf("%v: exit %d, want %d\n%s%s", args, got, code, out.String(), errs.String())
	}
	var reply map[string]any
	if err := json.Unmarshal(out.Bytes(), &reply); err != nil && code == 0 {
		a.t.Fatalf("%v: %v\n%s", args, err, out.String())
	}
	if name := twice(json.NewDecoder(&out)); name != "" {
		a.t.Fatalf("%v: the reply has a member %q twice", args, name)
	}
	return reply
}

// twice returns the name of a member that the next value of d has twice, or "".
func twice(d *json.Decoder) string {
	open, _ := d.Token()
	seen := map[json.Token]bool{}
	for d.More() {
		if open == json.Delim('{') {
			name, _ := d.Token()
			if seen[name] {
				return fmt.Sprint(name)
			}
			seen[name] = true
		}
		if name := twice(d); name != "" {
			return name
		}
	}
	if open == json.Delim('{') || open == json.Delim('[') {
		d.Token()
	}
	return ""
}

// TestVersionsOfOtherPrograms: the numbers in the output of history also name
// versions that a shell made.
func TestVersionsOfOtherPrograms(t *testing.T) {
	a := newAround(t)
	a.sh("echo one > a.txt")
	a.rw(0, "write", "b.txt", "--from", filepath.Join(a.dir, "a.txt"))
	a.rw(0, "changes")
	a.sh("echo two > b.txt")
	a.rw(0, "changes")
	a.sh("echo three > b.txt")
	versions := a.rw(0, "history", "b.txt")["versions"].([]any)
	for i, text := range []string{"two\n", "one\n"} {
		rev := fmt.Sprint(versions[i].(map[string]any)["rev"])
		if got := a.rw(0, "show", "b.txt", rev)["content"]; got != text {
			t.Errorf("version %s is %q, want %q", rev, got, text)
		}
	}
}

// fails runs the command, which must fail, and returns what it prints.
func (a *around) fails(args ...string) string {
	a.t.Helper()
	cmd := exec.Command(a.bin, args...)
	cmd.Env = append(os.Environ(), "RW_WORKSPACE="+a.dir)
	out, err := cmd.CombinedOutput()
	if err == nil {
		a.t.Fatalf("%v: no error\n%s", args, out)
	}
	return string(out)
}

// files returns the regular files of the workspace with modes and bytes,
// without those of git and the store.
func (a *around) files() map[string]string {
	a.t.Helper()
	list := map[string]string{}
	err := filepath.WalkDir(a.dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == ".resilient_write" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(p)
		rel, _ := filepath.Rel(a.dir, p)
		list[filepath.ToSlash(rel)] = fmt.Sprintf("%v %s", info.Mode(), data)
		return err
	})
	if err != nil {
		a.t.Fatal(err)
	}
	return list
}

// differing returns the paths that are not equal in both.
func differing(a, b map[string]string) (list []string) {
	for p := range a {
		if v, ok := b[p]; !ok || v != a[p] {
			list = append(list, p)
		}
	}
	for p := range b {
		if _, ok := a[p]; !ok {
			list = append(list, p)
		}
	}
	slices.Sort(list)
	return list
}

// listed returns the paths in the reply of changes.
func listed(reply map[string]any) (list []string) {
	for _, f := range reply["files"].([]any) {
		list = append(list, f.(map[string]any)["path"].(string))
	}
	return list
}

// TestShellCommandsAreListedAndUndone: the changes of a shell command are
// listed, file by file, under its call, and undone and redone byte for byte, in
// a repository and without one.
func TestShellCommandsAreListedAndUndone(t *testing.T) {
	for _, row := range []struct{ name, before, command string }{
		{"sed", "", "sed -i s/alpha/ALPHA/ a.txt dir/b.txt"},
		{"heredoc", "", "cat > new.txt <<X\nhello\nX\ncat >> a.txt <<X\nmore\nX"},
		{"rm", "", "rm a.txt dir/b.txt; rm -r deep"},
		{"mv", "", "mv a.txt dir/moved.txt; mv deep elsewhere; mv dir/b.txt exec.sh"},
		{"chmod", "", "chmod +x a.txt; chmod 600 dir/b.txt; chmod -x exec.sh"},
		{"cp", "", "cp a.txt copy.txt; cp dir/b.txt a.txt"},
		{"untracked and ignored", "printf 'one\\n' > loose.txt; printf 'k=1\\n' > .env; printf 'x\\n' > a.log", "rm loose.txt; printf 'k=2\\n' > .env; printf 'y\\n' >> a.log"},
		{"odd names", "", "printf x > \"$(printf 'line\\nbreak')\"; printf y > ' space '; printf z > 'quote\"'; printf u > ü"},
		{"empty", ": > void", "rm void; : > other; : > a.txt"},
		{"binary", "head -c 300000 /dev/zero > big.bin", "printf '\\000\\377' >> big.bin"},
		{"formatter", "mkdir src; i=0; while [ $i -lt 1000 ]; do printf 'func  x( ) {\\n}\\n' > src/f$i.go; i=$((i+1)); done", "sed -i 's/func  x( )/func x()/' src/*.go"},
		{"same time stamps", "", "touch -r a.txt ref; sed -i s/alpha/ALPHA/ a.txt; touch -r ref a.txt; rm ref"},
		{"rename over", "", "printf 'other\\n' > tmp; mv tmp a.txt"},
	} {
		for _, git := range []bool{true, false} {
			if !git && row.name != "rm" && row.name != "mv" {
				continue
			}
			t.Run(fmt.Sprintf("%s,git=%v", row.name, git), func(t *testing.T) {
				t.Parallel()
				a := newAround(t)
				a.sh(`printf 'alpha\nbeta\n' > a.txt; mkdir -p dir deep/er; printf 'alpha\n' > dir/b.txt; printf 'd\n' > deep/er/d.txt
					printf '#!/bin/sh\n' > exec.sh; chmod +x exec.sh; printf '*.log\n.env\nnode_modules/\n' > .gitignore`)
				if git {
					a.sh("git init -q; git add .; git commit -qm x")
				}
				a.sh(cmpOr(row.before, ":"))
				a.rw(0, "changes")
				before := a.files()
				a.sh(row.command)
				after := a.files()
				reply := a.rw(0, "changes", "--call", "toolu_1", "--command", "the command", "--host", "claude-code")
				if diff := cmp.Diff(differing(before, after), listed(reply)); diff != "" {
					t.Fatalf("changed (-), listed (+)\n%s", diff)
				}
				group := reply["groups"].([]any)[0].(map[string]any)
				if fmt.Sprint(group["calls"]) != "[toolu_1]" || group["command"] != "the command" || group["host"] != "claude-code" {
					t.Fatal(group)
				}
				a.rw(0, "undo", "--group", "toolu_1")
				if diff := differing(before, a.files()); len(diff) > 0 {
					t.Fatalf("not undone: %q", diff)
				}
				if again := a.rw(0, "changes", "--since", "seq:2"); len(listed(again)) != 0 {
					t.Fatalf("the undo is listed as made outside: %q", listed(again))
				}
				a.rw(0, "undo", "--caller", "operator")
				if diff := differing(after, a.files()); len(diff) > 0 {
					t.Fatalf("not redone: %q", diff)
				}
			})
		}
	}
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// TestFileAndDirectoryChangePlaces: a group in which a directory replaced a file, and a
// file replaced a directory, is undone in one commit, and so is the undo.
func TestFileAndDirectoryChangePlaces(t *testing.T) {
	a := newAround(t)
	a.sh("echo a > a.txt; mkdir deep; echo d > deep/d.txt")
	a.rw(0, "changes")
	before := a.files()
	a.sh("rm a.txt; mkdir a.txt; echo x > a.txt/inner; rm -r deep; echo file > deep")
	after := a.files()
	if got := listed(a.rw(0, "changes", "--call", "c1")); fmt.Sprint(got) != "[a.txt a.txt/inner deep deep/d.txt]" {
		t.Fatal(got)
	}
	for _, c := range []struct {
		args []string
		want map[string]string
	}{{[]string{"undo", "--group", "c1"}, before}, {[]string{"undo"}, after}} {
		a.rw(0, c.args...)
		if diff := differing(c.want, a.files()); len(diff) > 0 {
			t.Fatal(c.args, diff)
		}
	}
}

// TestBranchSwitchIsUndone: a checkout of another branch is one group. Undoing
// it restores the files; git stays on the branch that was switched to.
func TestBranchSwitchIsUndone(t *testing.T) {
	a := newAround(t)
	a.sh(`git init -q -b main; i=0; while [ $i -lt 200 ]; do echo $i > f$i; i=$((i+1)); done; git add .; git commit -qm one
		git checkout -qb other; sed -i s/^/x/ f1*; rm f2*; mkdir sub; echo new > sub/new; git add -A; git commit -qm two; git checkout -q main`)
	a.rw(0, "changes")
	before := a.files()
	a.sh("git checkout -q other")
	after := a.files()
	reply := a.rw(0, "changes", "--call", "c1")
	if diff := cmp.Diff(differing(before, after), listed(reply)); diff != "" {
		t.Fatal(diff)
	}
	a.rw(0, "undo", "--group", "c1")
	if diff := differing(before, a.files()); len(diff) > 0 {
		t.Fatal(diff)
	}
	a.rw(0, "changes")
}

// TestLaterEditIsNeverLost: undoing a group is refused, and names the file, if a
// person has since changed, deleted or made executable one of its files, or
// created one that the group had deleted. Nothing is changed then.
func TestLaterEditIsNeverLost(t *testing.T) {
	for _, edit := range []string{"echo mine >> a.txt", "rm a.txt", "echo mine > gone.txt", "rm a.txt; mkdir a.txt", "rm a.txt; ln -s keep.txt a.txt", "ln -s keep.txt gone.txt"} {
		for _, scanned := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,scanned=%v", edit, scanned), func(t *testing.T) {
				a := newAround(t)
				a.sh("echo one > a.txt; echo gone > gone.txt; echo keep > keep.txt")
				a.rw(0, "changes")
				a.sh("echo two > a.txt; rm gone.txt; echo new > new.txt")
				a.rw(0, "changes", "--call", "c1")
				a.sh(edit)
				if scanned {
					a.rw(0, "changes")
				}
				edited := a.files()
				if out := a.fails("undo", "--group", "c1"); !strings.Contains(out, "a.txt") && !strings.Contains(out, "gone.txt") {
					t.Fatal(out)
				}
				if diff := differing(edited, a.files()); len(diff) > 0 {
					t.Fatalf("the refused undo changed %q", diff)
				}
			})
		}
	}
}

// TestAmbiguousGroup: changes that were made while two calls were open belong to
// both, and can be undone only by the group.
func TestAmbiguousGroup(t *testing.T) {
	a := newAround(t)
	a.sh("echo one > a.txt")
	a.rw(0, "changes")
	a.sh("echo two > a.txt")
	reply := a.rw(0, "changes", "--call", "c1", "--call", "c2")
	group := reply["groups"].([]any)[0].(map[string]any)
	if group["ambiguous"] != true {
		t.Fatal(group)
	}
	a.rw(5, "undo", "--group", "c1")
	a.rw(0, "undo", "--group", group["group"].(string))
	if a.files()["a.txt"] != "-rw-r--r-- one\n" {
		t.Fatal(a.files())
	}
	a.rw(4, "undo", "--group", "obs_99")
}

// TestPolicyDecidesWhatIsCaptured: files are recorded although git ignores them,
// or not at all, as the policy says, also from one scan to the next.
func TestPolicyDecidesWhatIsCaptured(t *testing.T) {
	a := newAround(t)
	a.sh(`git init -q .; mkdir -p build/gen/deep build/other data src; printf 'build/\n*.log\n' > .gitignore
		for f in build/gen/a.go build/gen/deep/b.go build/other/c.o data/d.sqlite src/e.go f.log; do printf 'one\n' > $f; done`)
	a.rw(0, "changes")
	touch := func(text string) []string {
		a.sh("for f in build/gen/a.go build/gen/deep/b.go build/other/c.o data/d.sqlite src/e.go f.log; do printf '" + text + "\n' > $f; done")
		var list []string
		scan := a.rw(0, "changes")["scan"].(map[string]any)
		for _, f := range scan["files"].([]any) {
			list = append(list, f.(map[string]any)["path"].(string))
		}
		if scan["busy"] != nil {
			t.Errorf("%q: %v", text, scan)
		}
		return list
	}
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	t.Setenv("RW_POLICY_FILE", policy)
	for i, row := range []struct {
		text string
		want []string
	}{
		{"version: 1\n", []string{"data/d.sqlite", "f.log", "src/e.go"}},
		{"capture: {include: [build/gen], exclude: ['**/*.sqlite']}\n", nil}, // the first scan counts included files as known or created
		{"capture: {include: [build/gen], exclude: ['**/*.sqlite']}\n", []string{"build/gen/a.go", "build/gen/deep/b.go", "f.log", "src/e.go"}},
		{"capture: {include: ['build/gen/*.go'], exclude: [src]}\n", nil},
		{"capture: {include: ['build/gen/*.go'], exclude: [src]}\n", []string{"build/gen/a.go", "data/d.sqlite", "f.log"}},
		{"version: 1\n", nil},
		{"version: 1\n", []string{"data/d.sqlite", "f.log", "src/e.go"}},
	} {
		noErr(t, os.WriteFile(policy, []byte(row.text), 0o600))
		got := touch(fmt.Sprint("text ", i))
		if row.want != nil && !slices.Equal(got, row.want) {
			t.Errorf("%d %s: %q, want %q", i, row.text, got, row.want)
		}
	}
	for _, f := range listed(a.rw(0, "changes")) {
		if f == "build/other/c.o" {
			t.Error("an ignored file is recorded")
		}
	}
	a.rw(0, "check")
}

// TestGroupsBeyondTheDescriptors: a group of more files than the process may
// open is undone.
func TestGroupsBeyondTheDescriptors(t *testing.T) {
	a := newAround(t)
	a.sh("i=0; while [ $i -lt 200 ]; do printf one > f$i; i=$((i+1)); done")
	a.rw(0, "changes")
	before := a.files()
	a.sh("for f in f*; do printf two > $f; done")
	a.rw(0, "changes", "--call", "c1")
	if out, err := exec.Command("sh", "-c", "ulimit -n 100; exec "+a.bin+" undo --group c1 --root "+a.dir).CombinedOutput(); err != nil {
		t.Errorf("%v: %.500s", err, out)
	}
	if diff := differing(before, a.files()); len(diff) > 0 {
		t.Errorf("not undone: %q", diff)
	}
}
