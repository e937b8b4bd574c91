package main

import (
	"fmt"
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
		rm dir/x.txt; ln -s ../z.txt dir/x.txt; echo more >> z.txt; truncate -s 3G sparse.bin; truncate -s 9M big.bin`)
	reply := a.rw(0, "changes", "--call", "c1")
	if diff := cmp.Diff([]string{"big.bin", "dir/out", "dir/x.txt", "link.txt", "loop", "other", "other/y.txt", "real/y.txt", "root", "sparse.bin", "z.txt"}, listed(reply)); diff != "" {
		t.Fatal(diff)
	}
	scan := reply["scan"].(map[string]any)
	if got := fmt.Sprint(scan["not_kept"]); got != "[big.bin sparse.bin]" {
		t.Error(got)
	}
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
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("git (-), scan (+)\n%s", diff)
	}
}

// ignoredFiles returns the files that git ignores outside ignored directories.
func (a *around) ignoredFiles() string {
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
	if diff := cmp.Diff(differing(before, after), listed(reply)); diff != "" {
		t.Fatal(diff)
	}
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
