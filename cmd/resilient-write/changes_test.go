package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// surroundings is a workspace that a shell and the built command work in.
type surroundings struct {
	t   *testing.T
	dir string
	bin string
}

func newAround(t *testing.T) *surroundings {
	t.Helper()
	for _, tool := range []string{"sh", "git", "sed"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed")
		}
	}
	dir := must(filepath.EvalSymlinks(t.TempDir()))(t)
	return &surroundings{t, dir, build(t)}
}

// sh runs a shell command in the workspace.
func (a *surroundings) sh(line string) {
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
func (a *surroundings) rw(code int, args ...string) map[string]any {
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
		equal[any](t, a.rw(0, "show", "b.txt", rev)["content"], text, "version ", rev, " is")
	}
}

// fails runs the command, which must fail, and returns what it prints.
func (a *surroundings) fails(args ...string) string {
	a.t.Helper()
	cmd := exec.Command(a.bin, args...)
	cmd.Env = append(os.Environ(), "RW_WORKSPACE="+a.dir)
	out, err := cmd.CombinedOutput()
	if err == nil {
		a.t.Fatalf("%v: no error\n%s", args, out)
	}
	return string(out)
}

// files returns the regular files of the workspace, without those of git and the
// store.
func (a *surroundings) files() map[string]string {
	a.t.Helper()
	return regularFiles(a.t, a.dir, ".git", ".resilient_write", "node_modules")
}

// regularFiles returns the regular files below a directory with modes and bytes,
// without the directories of a name.
func regularFiles(t testing.TB, dir string, without ...string) map[string]string {
	t.Helper()
	list := map[string]string{}
	noErr(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains(without, d.Name()) {
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
		rel, _ := filepath.Rel(dir, p)
		list[filepath.ToSlash(rel)] = fmt.Sprintf("%v %s", info.Mode(), data)
		return err
	}))
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

// TestAmbiguousGroup: changes that were made while two calls were open belong to
// both, and can be undone only by the group.
func TestAmbiguousGroup(t *testing.T) {
	a := newAround(t)
	a.sh("echo one > a.txt")
	a.rw(0, "changes")
	a.sh("echo two > a.txt")
	reply := a.rw(0, "changes", "--call", "c1", "--call", "c2")
	group := reply["groups"].([]any)[0].(map[string]any)
	mustEqual(t, group["ambiguous"], true, group)
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

// TestScanOfHostileTree: entries that are neither regular files nor links,
// cannot be read or cannot be named are skipped without waiting. Links are
// recorded without following anything, and the entries next to them are
// recorded.
func TestScanOfHostileTree(t *testing.T) {
	a := newAround(t)
	outside := t.TempDir()
	noErr(t, os.WriteFile(filepath.Join(outside, "secret.txt"), []byte("outside"), 0o600))
	a.sh("mkdir dir other; echo x > dir/x.txt; echo y > other/y.txt; echo z > z.txt")
	a.rw(0, "changes")
	socket, err := net.Listen("unix", filepath.Join(a.dir, "socket"))
	if err != nil {
		t.Skip(err)
	}
	defer socket.Close()
	a.sh(`mkfifo fifo dir/fifo; ln -s / root; ln -s "` + outside + `" dir/out; ln -s loop loop; ln -s z.txt link.txt
		mv other real; ln -s real other; printf x > "$(printf 'bad\377name')"; mkdir "$(printf 'bad\377dir')"; printf x > "$(printf 'bad\377dir')"/f
		rm dir/x.txt; ln -s ../z.txt dir/x.txt; echo more >> z.txt; truncate -s 300M sparse.bin; truncate -s 9M big.bin`)
	reply := a.rw(0, "changes", "--call", "c1")
	if diff := cmp.Diff([]string{"big.bin", "dir/out", "dir/x.txt", "link.txt", "loop", "other", "other/y.txt", "real/y.txt", "root", "sparse.bin", "z.txt"}, listed(reply)); diff != "" {
		t.Fatal(diff)
	}
	scan := reply["scan"].(map[string]any)
	equal(t, fmt.Sprint(scan["not_kept"]), "[big.bin sparse.bin]")
	if got := fmt.Sprint(scan["skipped"]); strings.Count(got, "bad") != 2 {
		t.Error(got)
	}
	if again := a.rw(0, "changes", "--since", "seq:1"); len(listed(again)) != 0 {
		t.Error(listed(again))
	}
	if data, _ := os.ReadFile(filepath.Join(outside, "secret.txt")); string(data) != "outside" {
		t.Error("something outside was changed")
	}
}

// TestUnreadableIsNotDeleted: files in a directory that cannot be read for a
// while are not recorded as deleted.
func TestUnreadableIsNotDeleted(t *testing.T) {
	if os.Getuid() == 0 {
		if _, err := exec.LookPath("setpriv"); err != nil {
			t.Skip("root reads everything")
		}
	}
	a := newAround(t)
	a.sh("mkdir -p dir/sub; echo x > dir/sub/x.txt; echo y > y.txt")
	as := func(args ...string) string {
		cmd := exec.Command(a.bin, args...)
		if os.Getuid() == 0 {
			bin := filepath.Join(a.dir, "..", "rw-copy")
			a.sh("cp '" + a.bin + "' '" + bin + "'; chmod 755 '" + bin + "' ..; chown -R 65534 .")
			cmd = exec.Command("setpriv", append([]string{"--reuid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all", bin}, args...)...)
		}
		cmd.Env = append(os.Environ(), "RW_WORKSPACE="+a.dir, "HOME=/nonexistent")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Skipf("%v %s", err, out)
		}
		return string(out)
	}
	os.Chmod(filepath.Dir(filepath.Dir(a.dir)), 0o755)
	os.Chmod(filepath.Dir(a.dir), 0o755)
	as("changes")
	a.sh("chmod 000 dir; echo more >> y.txt")
	if out := as("changes"); !strings.Contains(out, `"unseen":["dir"]`) || strings.Contains(out, "x.txt") || !strings.Contains(out, "y.txt") {
		t.Fatal(out)
	}
	a.sh("chmod 755 dir; echo more >> dir/sub/x.txt")
	if out := as("changes"); !strings.Contains(out, `"path":"dir/sub/x.txt","op":"overwrite"`) {
		t.Fatal(out)
	}
}

// TestScanRunsNothing: if a repository configures programs for everything that
// git can run, and a filter, none of them runs, neither in a scan nor when an
// undo reads from git.
func TestScanRunsNothing(t *testing.T) {
	a := newAround(t)
	a.sh(`git init -q; echo one > a.txt; echo two > b.txt; git add .; git commit -qm x
		printf '#!/bin/sh\necho ran >> "%s/../ran"\ncat\n' "$PWD" > ../evil; chmod +x ../evil; E="$PWD/../evil"
		git config core.fsmonitor "$E"; git config core.pager "$E"; git config filter.e.clean "$E"; git config filter.e.smudge "$E"
		git config diff.e.textconv "$E"; git config core.sshCommand "$E"; git config core.alternateRefsCommand "$E"; git config credential.helper "$E"
		mkdir ../hooks; cp ../evil ../hooks/post-index-change; git config core.hooksPath "$PWD/../hooks"
		echo '* filter=e diff=e' > .git/info/attributes`)
	a.rw(0, "changes")
	a.sh("echo changed > a.txt; rm b.txt")
	a.rw(0, "changes", "--call", "c1")
	a.rw(0, "undo", "--group", "c1")
	if got := a.files(); got["a.txt"] != "-rw-r--r-- one\n" || got["b.txt"] != "-rw-r--r-- two\n" {
		t.Fatal(got)
	}
	if data, err := os.ReadFile(filepath.Join(filepath.Dir(a.dir), "ran")); err == nil {
		t.Fatalf("a program ran: %s", data)
	}
}

// TestIgnoredAsGitSaysIt: in a tree with patterns of all kinds, nested
// repositories and tracked files that are ignored, a scan records the files that
// git lists.
func TestIgnoredAsGitSaysIt(t *testing.T) {
	a := newAround(t)
	a.sh(`git init -q; mkdir -p src/deep build/keep vendor/a node_modules/p docs logs a/b/c
		printf '*.o\n/build/*\n!/build/keep\nnode_modules/\nlogs/**\n!logs/keep.txt\ndocs/*.pdf\n\\#x\n**/c/*.tmp\ntrail \\ \nvendor/*\n!vendor/a\n' > .gitignore
		printf '*.bak\n!important.bak\n' > src/.gitignore; printf 'local.txt\n' > .git/info/exclude
		git init -q vendor/a; printf 'only-inner\n' > vendor/a/.gitignore
		touch tracked.o; git add -f tracked.o; git add .gitignore; git commit -qm x`)
	a.rw(0, "changes")
	a.sh(`for d in . src src/deep build build/keep vendor vendor/a node_modules/p docs logs a/b/c; do
			for f in x.go x.o x.bak important.bak x.pdf x.tmp keep.txt local.txt '#x' 'trail  ' only-inner tracked.o; do echo $d > "$d/$f"; done; done`)
	git := func(dir, prefix string) (list []string) {
		cmd := exec.Command("git", "-c", "core.quotePath=false", "ls-files", "-z", "-c", "-o", "--exclude-standard")
		cmd.Dir = filepath.Join(a.dir, dir)
		cmd.Env = append(os.Environ(), "HOME="+a.dir+"/.none", "GIT_CONFIG_NOSYSTEM=1")
		out := must(cmd.Output())(t)
		for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
			if !strings.HasSuffix(name, "/") && name != ".gitignore" && !strings.HasPrefix(name, ".resilient_write") && name != "src/.gitignore" {
				list = append(list, prefix+name)
			}
		}
		return list
	}
	want := append(git(".", ""), git("vendor/a", "vendor/a/")...)
	slices.Sort(want)
	var got []string
	ignored := map[string]bool{}
	for name := range strings.SplitSeq(strings.TrimSpace(a.ignoredFiles()), "\n") {
		ignored[name] = true
	}
	for _, p := range listed(a.rw(0, "changes")) {
		if !ignored[p] { // small ignored files are kept too
			got = append(got, p)
		}
	}
	mustEqual(t, cmp.Diff(want, got), "", "git (-), scan (+)\n")
}

// ignoredFiles returns the files that git ignores outside ignored directories.
func (a *surroundings) ignoredFiles() string {
	var list []string
	for _, dir := range []string{"", "vendor/a/"} {
		cmd := exec.Command("git", "-c", "core.quotePath=false", "ls-files", "-o", "-i", "--exclude-standard", "--directory")
		cmd.Dir = filepath.Join(a.dir, dir)
		cmd.Env = append(os.Environ(), "HOME="+a.dir+"/.none", "GIT_CONFIG_NOSYSTEM=1")
		out, err := cmd.Output()
		if err != nil {
			a.t.Fatal(err)
		}
		for name := range strings.SplitSeq(strings.TrimSpace(string(out)), "\n") {
			list = append(list, dir+name)
		}
	}
	return strings.Join(list, "\n")
}

// TestTwoScansAtOnce: processes that scan at the same time record each change
// once.
func TestTwoScansAtOnce(t *testing.T) {
	a := newAround(t)
	a.sh("i=0; while [ $i -lt 300 ]; do echo $i > f$i; i=$((i+1)); done")
	a.rw(0, "changes")
	before := a.files()
	a.sh("sed -i s/^/x/ f1*; rm f2*; echo new > new")
	after := a.files()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			cmd := exec.Command(a.bin, "changes", "--call", fmt.Sprint("c", i))
			cmd.Env = append(os.Environ(), "RW_WORKSPACE="+a.dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v %.300s", err, out)
			}
		})
	}
	wg.Wait()
	reply := a.rw(0, "changes")
	mustEqual(t, cmp.Diff(differing(before, after), listed(reply)), "")
	for _, f := range reply["files"].([]any) {
		if f := f.(map[string]any); f["changes"] != 1.0 {
			t.Fatal(f)
		}
	}
	for _, g := range slices.Backward(reply["groups"].([]any)) {
		a.rw(0, "undo", "--group", g.(map[string]any)["group"].(string))
	}
	if diff := differing(before, a.files()); len(diff) > 0 {
		t.Fatal(diff)
	}
}

// TestGateReportsWhatAShellWrote: a secret that a command writes is reported
// with its place, once, and nothing is reverted.
func TestGateReportsWhatAShellWrote(t *testing.T) {
	a := newAround(t)
	token := reportKey
	a.sh("echo x > deploy.sh")
	a.rw(0, "changes")
	a.sh("printf 'a\\nTOKEN=" + token + "\\n' >> deploy.sh")
	reply := a.rw(0, "changes")
	found := reply["scan"].(map[string]any)["findings"].([]any)
	if len(found) == 0 || found[0].(map[string]any)["path"] != "deploy.sh" || found[0].(map[string]any)["line"] != 3.0 {
		t.Fatal(found)
	}
	if strings.Contains(fmt.Sprint(reply), token) {
		t.Error("the reply holds the secret")
	}
	a.sh("echo more >> deploy.sh")
	if found := a.rw(0, "changes")["scan"].(map[string]any)["findings"].([]any); len(found) > 0 {
		t.Error("reported again", found)
	}
	if !strings.Contains(a.files()["deploy.sh"], token) {
		t.Error("the file was changed")
	}
}

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
	equal(t, strings.Join(lines, "|"), `"sub/a dir/n.txt"|s_ 1|sub/f.txt|s_ 1,5`)
	if !strings.Contains(note, `"id": "s1"`) || !strings.Contains(note, `"tool": "claude"`) {
		t.Errorf("%s", note)
	}
	skipped, _ := json.Marshal(r["skipped"])
	equal(t, string(skipped), `[{"path":"bin","reason":"not_utf8"},{"path":"late.txt","reason":"version_not_found"}]`)
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
	equal(t, refs(), before, "refs were written")
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

// TestSnapshotRoundTrip: a snapshot is compared and restored byte for byte and
// mode for mode, whichever program changed the files since, with and without a
// repository. The restore is undone as one commit, and changes only what
// differs.
func TestSnapshotRoundTrip(t *testing.T) {
	for _, git := range []bool{true, false} {
		t.Run(fmt.Sprint("git=", git), func(t *testing.T) {
			t.Parallel()
			a := newAround(t)
			a.sh(`printf 'alpha\n' > a.txt; mkdir dir; printf 'b\n' > dir/b.txt; printf '#!/bin/sh\n' > run.sh; chmod +x run.sh; echo same > same.txt; : > void`)
			if git {
				a.sh("git init -q; git add .; git commit -qm x")
			}
			a.sh("printf 'dirty\\n' >> dir/b.txt; echo loose > loose.txt")
			before := a.files()
			snap := a.rw(0, "snapshot", "--label", "before")
			if git != (snap["from_git"].(float64) > 0) || git != (snap["base_commit"] != nil) {
				t.Fatal(snap)
			}
			id := snap["id"].(string)
			a.rw(0, "write", "mine.txt", "--from", filepath.Join(a.dir, "a.txt"))
			a.sh("sed -i s/alpha/ALPHA/ a.txt; rm dir/b.txt void; chmod -x run.sh; echo new > new.txt; rm loose.txt")
			a.rw(0, "changes", "--call", "c1")
			after := a.files()
			diff := a.rw(0, "snapshot", "diff", id)
			if diff["created"] != 2.0 || diff["deleted"] != 3.0 || diff["changed"] != 2.0 {
				t.Fatal(diff)
			}
			st, _ := os.Stat(filepath.Join(a.dir, "same.txt"))
			a.rw(0, "snapshot", "restore", id, "--dry-run")
			if d := differing(after, a.files()); len(d) > 0 {
				t.Fatal("the dry run changed ", d)
			}
			restored := a.rw(0, "snapshot", "restore", id)
			if d := differing(before, a.files()); len(d) > 0 || len(restored["results"].([]any)) != 7 {
				t.Fatal(d, restored["results"])
			}
			if now, _ := os.Stat(filepath.Join(a.dir, "same.txt")); !os.SameFile(st, now) {
				t.Error("a file that is the same was replaced")
			}
			if again := a.rw(0, "snapshot", "restore", id); again["status"] != "unchanged" {
				t.Error(again)
			}
			a.rw(0, "undo", "--caller", "operator")
			if d := differing(after, a.files()); len(d) > 0 {
				t.Fatal("not undone: ", d)
			}
			if list := a.rw(0, "snapshot", "list")["snapshots"].([]any); len(list) != 1 {
				t.Fatal(list)
			}
		})
	}
}

// TestSnapshotKeepsLaterEdits: a file that a person changed since is named and
// not replaced unless the call forces it; then history keeps it.
func TestSnapshotKeepsLaterEdits(t *testing.T) {
	a := newAround(t)
	a.sh("echo one > a.txt; echo one > b.txt")
	id := a.rw(0, "snapshot")["id"].(string)
	a.sh("echo two > a.txt")
	a.rw(0, "changes", "--call", "c1")
	a.sh("echo mine > b.txt")
	edited := a.files()
	a.rw(6, "snapshot", "restore", id)
	if d := differing(edited, a.files()); len(d) > 0 {
		t.Fatal(d)
	}
	a.rw(0, "snapshot", "restore", id, "--force")
	if got := a.files(); got["b.txt"] != "-rw-r--r-- one\n" || got["a.txt"] != "-rw-r--r-- one\n" {
		t.Fatal(got)
	}
	a.rw(0, "undo", "--caller", "operator")
	if d := differing(edited, a.files()); len(d) > 0 {
		t.Fatal(d)
	}
	a.rw(4, "snapshot", "restore", "snap_none")
	a.rw(4, "snapshot", "diff", "../../x")
}

// TestSnapshotWhoseCommitIsGone: bytes that only git had and has collected are
// reported as such, and nothing is restored.
func TestSnapshotWhoseCommitIsGone(t *testing.T) {
	a := newAround(t)
	a.sh("git init -q; echo one > a.txt; echo b > b.txt; git add .; git commit -qm x")
	id := a.rw(0, "snapshot")["id"].(string)
	a.sh("echo two > a.txt; rm -rf .git; git init -q")
	after := a.files()
	cmd := a.rw(0, "snapshot", "diff", id)
	mustEqual(t, cmd["changed"], 1.0, cmd)
	out := a.fails("snapshot", "restore", id, "--force")
	if !strings.Contains(out, `"base_gone":true`) || !strings.Contains(out, "a.txt") {
		t.Fatal(out)
	}
	if d := differing(after, a.files()); len(d) > 0 {
		t.Fatal(d)
	}
}
