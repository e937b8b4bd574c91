package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// surroundings is a workspace that a shell and the command work in.
type surroundings struct {
	t   *testing.T
	dir string
}

func newAround(t *testing.T) *surroundings {
	t.Helper()
	for _, tool := range []string{"sh", "git", "sed"} {
		testbed.Needs(t, tool)
	}
	dir := must(filepath.EvalSymlinks(t.TempDir()))(t)
	return &surroundings{t, dir}
}

// sh runs a shell command in the workspace.
func (a *surroundings) sh(line string) {
	a.t.Helper()
	shellIn(a.t, a.dir, line)
}

// process returns the built command, for what depends on a process of its own.
func (a *surroundings) process(args ...string) *exec.Cmd {
	cmd := exec.Command(build(a.t), args...)
	cmd.Dir = a.dir
	cmd.Env = append(os.Environ(), "RW_WORKSPACE="+a.dir)
	return cmd
}

// call runs the command in this process, with variables besides those of the process.
func (a *surroundings) call(args []string, extra map[string]string) (code rw.Code, out, errs bytes.Buffer) {
	a.t.Helper()
	env := func(name string) string {
		if name == "RW_WORKSPACE" {
			return a.dir
		}
		if value := extra[name]; value != "" {
			return value
		}
		return os.Getenv(name)
	}
	noErr(a.t, inDirectory(a.dir, env, func() { code = run(args, env, strings.NewReader(""), &out, &errs) }))
	return code, out, errs
}

// rw runs the command and returns its reply.
func (a *surroundings) rw(args ...string) map[string]any {
	a.t.Helper()
	got, out, errs := a.call(args, nil)
	require(a.t, got == 0, "%v: exit %d\n%s%s", args, got, out.String(), errs.String())
	var reply map[string]any
	err := json.Unmarshal(out.Bytes(), &reply)
	require(a.t, err == nil, "%v: %v\n%s", args, err, out.String())
	name := twice(json.NewDecoder(&out))
	require(a.t, name == "", "%v: the reply has a member %q twice", args, name)
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

// files returns the regular files of the workspace, without those of git and the
// store.
func (a *surroundings) files() map[string]string {
	a.t.Helper()
	return regularFiles(a.t, a.dir, ".git", ".resilient_write", "node_modules")
}

// regularFiles is everyEntry of regular files only.
func regularFiles(t testing.TB, dir string, without ...string) map[string]string {
	t.Helper()
	list := everyEntry(t, dir, without...)
	maps.DeleteFunc(list, func(_, entry string) bool { return entry[0] != '-' })
	return list
}

// everyEntry returns the mode of everything in a directory, with the content or the target,
// without what has one of the names.
func everyEntry(t testing.TB, dir string, without ...string) map[string]string {
	t.Helper()
	list, deep := map[string]string{}, []string{}
	for _, name := range without {
		deep = append(deep, "**/"+name)
	}
	for e := range testbed.Entries(t, dir, deep...) {
		list[e.Path] = fmt.Sprintf("%v %s", e.Info.Mode(), e.Text)
	}
	delete(list, ".")
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

// TestGroupsBeyondTheDescriptors: a group of more files than the process may
// open is undone.
func TestGroupsBeyondTheDescriptors(t *testing.T) {
	a := newAround(t)
	a.sh("i=0; while [ $i -lt 200 ]; do printf one > f$i; i=$((i+1)); done")
	a.rw("changes")
	before := a.files()
	a.sh("for f in f*; do printf two > $f; done")
	a.rw("changes", "--call", "c1")
	out, err := exec.Command("sh", "-c", "ulimit -n 100; exec "+build(t)+" undo --group c1 --root "+a.dir).CombinedOutput()
	expect(t, err == nil, "%v: %.500s", err, out)
	equal(t, cmp.Diff(before, a.files()), "", "not undone")
}

// TestShortageOfDescriptors: where the process may open too few files to find the store,
// each command names that, and none reports that there is no store.
func TestShortageOfDescriptors(t *testing.T) {
	a := newAround(t)
	home := t.TempDir()
	in := func(limit, line string) ([]byte, error) {
		cmd := exec.Command("sh", "-c", limit+" exec "+build(t)+" "+line)
		cmd.Dir, cmd.Env = a.dir, append(os.Environ(), "RW_STATE_DIR=", "XDG_STATE_HOME="+home)
		return cmd.CombinedOutput()
	}
	must(in("", "changes"))(t)
	for _, line := range []string{
		"status", "status --all", "check", "check --repair", "compact", "erase --sha256 " + strings.Repeat("0", 64), "snapshot list",
		"relocate --to tree", "relocate --remove --yes", "trust", "journal export --out e.jsonl",
	} {
		out, err := in("ulimit -n 8;", line)
		expect(t, err != nil && bytes.Contains(out, []byte("too_many_open_files")), "%s: %v: %.700s", line, err, out)
	}
	must(in("", "check"))(t)
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
	a.rw("changes")
	socket, err := net.Listen("unix", filepath.Join(a.dir, "socket"))
	if err != nil {
		t.Skip(err)
	}
	defer socket.Close()
	a.sh(`mkfifo fifo dir/fifo; ln -s / root; ln -s "` + outside + `" dir/out; ln -s loop loop; ln -s z.txt link.txt
		mv other real; ln -s real other; printf x > "$(printf 'bad\377name')"; mkdir "$(printf 'bad\377dir')"; printf x > "$(printf 'bad\377dir')"/f
		rm dir/x.txt; ln -s ../z.txt dir/x.txt; echo more >> z.txt; truncate -s 300M sparse.bin; truncate -s 9M big.bin`)
	reply := a.rw("changes", "--call", "c1")
	diff := cmp.Diff([]string{"big.bin", "dir/out", "dir/x.txt", "link.txt", "loop", "other", "other/y.txt", "real/y.txt", "root", "sparse.bin", "z.txt"}, listed(reply))
	require(t, diff == "", "%v", diff)
	scan := reply["scan"].(map[string]any)
	equal(t, fmt.Sprint(scan["not_kept"]), "[big.bin sparse.bin]")
	got := fmt.Sprint(scan["skipped"])
	expect(t, strings.Count(got, "bad") == 2, "%v", got)
	again := a.rw("changes", "--since", "seq:1")
	expect(t, len(listed(again)) == 0, "%v", listed(again))
	testbed.Holds(t, filepath.Join(outside, "secret.txt"), "outside", "something outside was changed")
}

// TestUnreadableIsNotDeleted: files in a directory that cannot be read for a
// while are not recorded as deleted.
func TestUnreadableIsNotDeleted(t *testing.T) {
	if os.Getuid() == 0 {
		testbed.Needs(t, "setpriv")
	}
	a := newAround(t)
	a.sh("mkdir -p dir/sub; echo x > dir/sub/x.txt; echo y > y.txt")
	as := func(args ...string) string {
		cmd := exec.Command(build(t), args...)
		if os.Getuid() == 0 {
			bin := filepath.Join(a.dir, "..", "rw-copy")
			a.sh("cp '" + build(t) + "' '" + bin + "'; chmod 755 '" + bin + "' ..; chown -R 65534 .")
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
	out := as("changes")
	require(t, strings.Contains(out, `"unseen":["dir"]`) && !strings.Contains(out, "x.txt") && strings.Contains(out, "y.txt"), "%v", out)
	a.sh("chmod 755 dir; echo more >> dir/sub/x.txt")
	out = as("changes")
	require(t, strings.Contains(out, `"path":"dir/sub/x.txt","op":"overwrite"`), "%v", out)
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
	a.rw("changes")
	a.sh(`for d in . src src/deep build build/keep vendor vendor/a node_modules/p docs logs a/b/c; do
			for f in x.go x.o x.bak important.bak x.pdf x.tmp keep.txt local.txt '#x' 'trail  ' only-inner tracked.o; do echo $d > "$d/$f"; done; done`)
	// git lists files, those of the repository in it included.
	git := func(args ...string) (list []string) {
		for _, dir := range []string{"", "vendor/a/"} {
			cmd := exec.Command("git", append([]string{"-c", "core.quotePath=false", "ls-files", "-z", "-o", "--exclude-standard"}, args...)...)
			cmd.Dir = filepath.Join(a.dir, dir)
			cmd.Env = append(os.Environ(), "HOME="+a.dir+"/.none", "GIT_CONFIG_NOSYSTEM=1")
			for name := range strings.SplitSeq(strings.TrimRight(string(must(cmd.Output())(t)), "\x00"), "\x00") {
				list = append(list, dir+name)
			}
		}
		return list
	}
	want := slices.DeleteFunc(git("-c"), func(name string) bool {
		return strings.HasSuffix(name, "/") || filepath.Base(name) == ".gitignore" || strings.HasPrefix(name, ".resilient_write")
	})
	slices.Sort(want)
	var got []string
	ignored := git("-i", "--directory") // outside ignored directories
	for _, p := range listed(a.rw("changes")) {
		if !slices.Contains(ignored, p) { // small ignored files are kept too
			got = append(got, p)
		}
	}
	mustEqual(t, cmp.Diff(want, got), "", "git (-), scan (+)\n")
}

// TestTwoScansAtOnce: processes that scan at the same time record each change
// once.
func TestTwoScansAtOnce(t *testing.T) {
	a := newAround(t)
	a.sh("i=0; while [ $i -lt 300 ]; do echo $i > f$i; i=$((i+1)); done")
	a.rw("changes")
	before := a.files()
	a.sh("sed -i s/^/x/ f1*; rm f2*; echo new > new")
	after := a.files()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			out, err := a.process("changes", "--call", fmt.Sprint("c", i)).CombinedOutput()
			expect(t, err == nil, "%v %.300s", err, out)
		})
	}
	wg.Wait()
	reply := a.rw("changes")
	mustEqual(t, cmp.Diff(differing(before, after), listed(reply)), "")
	for _, f := range reply["files"].([]any) {
		if f := f.(map[string]any); f["changes"] != 1.0 {
			t.Fatal(f)
		}
	}
	for _, g := range slices.Backward(reply["groups"].([]any)) {
		a.rw("undo", "--group", g.(map[string]any)["group"].(string))
	}
	mustEqual(t, cmp.Diff(before, a.files()), "")
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
	reply := a.rw("changes", "--no-scan")
	var changed []string
	for _, f := range reply["files"].([]any) {
		if one := f.(map[string]any); one["change"] != "reverted" { // such as a temporary file of sed
			changed = append(changed, one["path"].(string))
		}
	}
	diff := differing(before, after)
	expect(t, slices.Equal(diff, changed), "%q, want %q", changed, diff)
	for _, g := range slices.Backward(a.groups()) {
		a.rw("undo", "--group", g["group"].(string))
	}
	equal(t, cmp.Diff(before, a.files()), "", "not undone")
	a.rw("check")
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
		a.sh(fmt.Sprintf("printf %d > .git/new; mv .git/new f%d.txt; printf %d > a.txt", i, i, i)) // f is never empty
	}
	a.hook("claude", a.claude("PostToolUse", "Bash", "t1", in))
	end()
	endOther()
	for _, f := range a.rw("changes", "--no-scan")["files"].([]any) {
		one := f.(map[string]any)
		expect(t, (one["changes"].(float64) == 1 || one["path"] == "a.txt") && one["conflict"] != true, "%v", one)
	}
	for _, g := range a.groups() {
		expect(t, fmt.Sprint(g["calls"]) == "[t1]" && g["command"] == "make", "%v", g)
	}
	a.rw("undo", "--group", "t1")
	equal(t, cmp.Diff(before, a.files()), "", "not undone")
	testbed.Contains(t, fmt.Sprint(a.rw("status")["capture"]), "host:watch")
}
