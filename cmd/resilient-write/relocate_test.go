package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// newPlaced is newAround with the state in its default place, and a separate
// state home.
func newPlaced(t *testing.T) (a *surroundings, state string) {
	a = newAround(t)
	state = filepath.Join(t.TempDir(), "state")
	t.Setenv("RW_STATE_DIR", "")
	t.Setenv("XDG_STATE_HOME", state)
	t.Setenv("HOME", t.TempDir())
	a.dir = filepath.Join(a.dir, "ws")
	noErr(t, os.Mkdir(a.dir, 0o755))
	return a, state
}

// stores lists the directories of a place.
func stores(dir string) (list []string) {
	entries, _ := os.ReadDir(filepath.Join(dir, "resilientwrite"))
	for _, e := range entries {
		if e.Name() != "known" {
			list = append(list, e.Name())
		}
	}
	return list
}

// TestWorktreesShareObjects: content that scans keep in several worktrees is on
// the disk once, unless the object is damaged, and an erasure in one of them
// removes it from that one alone.
func TestWorktreesShareObjects(t *testing.T) {
	a, _ := newPlaced(t)
	a.sh("git init -q; git commit -q --allow-empty -m x; git worktree add -q ../linked; git worktree add -q ../third")
	main, parent := a.dir, filepath.Dir(a.dir)
	object := map[string]string{}
	scan := func(name, text string) {
		t.Helper()
		a.dir = filepath.Join(parent, name)
		a.sh("printf '" + text + "' > f.txt")
		a.rw(0, "changes")
		sum := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
		found, err := filepath.Glob(filepath.Join(main, ".git", "resilientwrite", "*", "history", sum[:2], sum))
		for _, path := range found {
			if !slices.Contains(slices.Collect(maps.Values(object)), path) {
				object[name+text] = path
			}
		}
		if object[name+text] == "" {
			t.Fatal(name, text, found, err)
		}
	}
	same := func(x, y string) bool {
		t.Helper()
		one, err1 := os.Stat(object[x])
		two, err2 := os.Stat(object[y])
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		return os.SameFile(one, two)
	}
	base := filepath.Base(main)
	for _, name := range []string{base, "linked", "third"} {
		scan(name, "shared")
	}
	if !same(base+"shared", "linkedshared") || !same(base+"shared", "thirdshared") {
		t.Error("the object is there several times")
	}
	scan("linked", "whole")
	noErr(t, os.WriteFile(object["linkedwhole"], []byte("other"), 0o600))
	scan("third", "whole")
	if same("linkedwhole", "thirdwhole") {
		t.Error("a damaged object is shared")
	}
	a.dir = filepath.Join(parent, "linked")
	a.sh("printf on > f.txt")
	a.rw(0, "changes")
	a.rw(0, "erase", "--sha256", filepath.Base(object["linkedshared"]), "--reason", "x", "--yes")
	if _, err := os.Stat(object["linkedshared"]); !os.IsNotExist(err) {
		t.Error("it is not erased", err)
	}
	a.dir = filepath.Join(parent, "third")
	a.rw(0, "check", "--deep")
	if !same(base+"shared", "thirdshared") {
		t.Error("it is erased elsewhere")
	}
	a.rw(0, "undo", "--group", a.groups()[0]["group"].(string))
	if got := a.files()["f.txt"]; !strings.HasSuffix(got, "shared") {
		t.Errorf("%q", got)
	}
}

// TestRelocate moves a store to every place and back, with its content. A
// process that has it open prevents the move.
func TestRelocate(t *testing.T) {
	a, state := newPlaced(t)
	in := filepath.Join(filepath.Dir(a.dir), "in")
	a.sh("git init -q; printf one > ../in")
	a.rw(0, "write", "a.txt", "--from", in)
	elsewhere := filepath.Join(t.TempDir(), "deep")
	env := ""
	for i, to := range []string{"xdg", "tree", "git", "xdg", elsewhere, "tree", "git"} {
		t.Setenv("RW_STATE_DIR", env)
		out := a.rw(0, "relocate", "--to", to)
		if env = ""; to == elsewhere {
			env = elsewhere
		}
		t.Setenv("RW_STATE_DIR", env)
		if again := a.rw(0, "relocate", "--to", to); out["status"] != "succeeded" || again["status"] != "unchanged" {
			t.Errorf("%s: %v %v", to, out, again)
		}
		if list := a.rw(0, "history", "a.txt")["versions"].([]any); len(list) != i+1 {
			t.Errorf("%s: %d versions", to, len(list))
		}
		a.sh("printf " + to[:2] + strings.Repeat("x", i) + " > ../in")
		a.rw(0, "write", "a.txt", "--mode", "overwrite", "--from", in)
		equal(t, a.rw(0, "check", "--deep")["clean"], true, to, ": not clean")
		found := len(stores(state)) + len(stores(filepath.Join(a.dir, ".git")))
		if _, err := os.Lstat(filepath.Join(a.dir, ".resilient_write")); err == nil {
			found++
		}
		if want := map[bool]int{true: 0, false: 1}[to == elsewhere]; found != want {
			t.Errorf("%s: %d stores", to, found)
		}
	}
	store := must(rw.Open(t.Context(), a.dir, nil))(t)
	if out := a.fails("relocate", "--to", "xdg"); !strings.Contains(out, "io_busy") {
		t.Error(out)
	}
	store.Close(t.Context())
}

// TestCompactSharesVersions: what the tools of two work trees replaced is stored
// once after compact, also where one of the two then goes, and no store loses a
// version that it keeps.
func TestCompactSharesVersions(t *testing.T) {
	a, _ := newPlaced(t)
	a.sh("git init -q; echo first > a.txt; git add .; git commit -qm x; git worktree add -q ../linked")
	main := a.dir
	linked := filepath.Join(filepath.Dir(main), "linked")
	write := func(dir, text string) {
		a.dir = dir
		a.sh("printf '" + text + "' > ../in")
		a.rw(0, "write", "a.txt", "--mode", "overwrite", "--from", filepath.Join(filepath.Dir(dir), "in"))
	}
	for _, dir := range []string{main, linked} {
		write(dir, "both")
		write(dir, "both again")
		write(dir, "only in "+filepath.Base(dir))
	}
	object := func(store, text string) os.FileInfo {
		sum := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
		return must(os.Stat(filepath.Join(main, ".git", "resilientwrite", store, "history", sum[:2], sum)))(t)
	}
	list := stores(filepath.Join(main, ".git"))
	id := list[slices.IndexFunc(list, func(s string) bool { return s != "main" })]
	if os.SameFile(object("main", "both"), object(id, "both")) {
		t.Fatal("they are shared already")
	}
	a.dir = linked
	for _, args := range [][]string{{"--dry-run"}, nil} {
		if out := a.rw(0, append([]string{"compact"}, args...)...); out["versions_shared"] != 3.0 || out["status"] != "succeeded" {
			t.Errorf("%v: %v", args, out)
		}
	}
	if out := a.rw(0, "compact"); out["versions_shared"] != 0.0 || out["status"] != "unchanged" {
		t.Errorf("again: %v", out)
	}
	for _, text := range []string{"first\n", "both", "both again"} {
		if !os.SameFile(object("main", text), object(id, text)) {
			t.Errorf("%q is stored twice", text)
		}
	}
	a.rw(0, "check", "--deep")
	a.dir = main
	a.sh("git worktree remove --force ../linked")
	a.sh("rm -r .git/resilientwrite/" + id)
	a.rw(0, "check", "--deep")
	a.rw(0, "undo", "--n", "2")
	if got := a.files()["a.txt"]; !strings.HasSuffix(got, "both") {
		t.Errorf("%q", got)
	}
}

// TestNoOutputIsMisplaced: no option that names an output writes a file into the
// state directory, wherever that is, into the files of a version control system,
// or to a file that git reads or runs. This holds for every name and link of the
// place, and even if the rest of the command line is wrong.
func TestNoOutputIsMisplaced(t *testing.T) {
	s := newShell(t)
	s.with("x").ok("write", "a.txt")
	other := newShell(t)
	other.with("x").ok("write", "a.txt")
	elsewhere := filepath.Join(t.TempDir(), "state")
	s.with("x").ok("write", "b.txt", "--state-dir", elsewhere)
	in := func(parts ...string) string { return filepath.Join(append([]string{s.dir}, parts...)...) }
	for _, dir := range []string{".git", ".hg", ".jj", ".svn", ".sl", ".bzr", "sub/.git/hooks", "bare/objects", "bare/refs", "plain", ".GIT", "repo/.git", "repo/tools/deep", "linked/own", "global"} {
		noErr(t, os.MkdirAll(in(dir), 0o755))
	}
	noErr(t, os.WriteFile(in("bare", "HEAD"), []byte("ref: refs/heads/main\n"), 0o644))
	for name, text := range map[string]string{
		"repo/.git/config": "[core]\n\thooksPath = tools\n[include]\n\tpath = ../team.cfg\n", "linked/.git": "gitdir: own\n",
		"home/.gitconfig": "[core]\n\thooksPath = " + in("global") + "\n",
	} {
		noErr(t, errors.Join(os.MkdirAll(filepath.Dir(in(name)), 0o755), os.WriteFile(in(name), []byte(text), 0o644)))
	}
	t.Setenv("HOME", in("home"))
	for link, to := range map[string]string{"to-git": in(".git"), "to-state": in(".resilient_write"), "to-elsewhere": elsewhere, "to-bare": in("bare"), "to-tools": in("repo", "tools")} {
		noErr(t, os.Symlink(to, in(link)))
	}
	forbidden := []string{
		in(".resilient_write", "x"), in(".resilient_write", "journal", "x"), in("to-state", "x"), filepath.Join(elsewhere, "x"), in("to-elsewhere", "x"),
		filepath.Join(other.dir, ".resilient_write", "x"), in(".git", "x"), in(".git", "config"), in("to-git", "x"), in(".GIT", "x"), in("sub", ".git", "hooks", "x"),
		in(".hg", "x"), in(".jj", "x"), in(".svn", "x"), in(".sl", "x"), in(".bzr", "x"), in("bare", "config"), in("bare", "objects", "x"), in("to-bare", "x"),
		in("plain", "..", ".git", "x"), in("plain", ".git"), in("repo", "tools", "pre-commit"), in("repo", "tools", "deep", "x"), in("to-tools", "pre-commit"), in("repo", "team.cfg"), in("linked", "own", "config"), in("global", "pre-push"),
	}
	more := []string{"--state-dir", elsewhere}
	for _, name := range forbidden {
		for _, args := range [][]string{
			{"check", "--result-out", name},
			{"check", "--no-such-flag", "--result-out", name},
			{"--result-out=" + name, "nothing"},
			{"journal", "export", "--out", name},
			{"report", "--out", name},
		} {
			before, _ := os.ReadFile(name)
			r := s.run(append(slices.Clone(args), more...)...)
			if r.code != rw.CodeUsage || !strings.Contains(r.errs, "is in ") || strings.Contains(r.errs, s.dir) {
				t.Errorf("%q: code %d %s", args, r.code, r.errs)
			}
			if after, _ := os.ReadFile(name); string(before) != string(after) {
				t.Errorf("%q wrote it", args)
			}
		}
		if r := s.run("serve", "-transport", "http", "-socket", in("none", "s"), "-token-file", name, "-state-dir", elsewhere); r.code != rw.CodeUsage || !strings.Contains(r.errs, "is in ") && !strings.HasSuffix(name, "plain/.git") {
			t.Errorf("-token-file %s: code %d %s", name, r.code, r.errs)
		}
	}
	for _, args := range [][]string{{"check", "--result-out", in("plain", "r.json")}, {"journal", "export", "--out", in("plain", "e")}, {"report", "--out", in("plain", "p.html")}} {
		s.ok(append(args, more...)...)
		must(os.Stat(args[len(args)-1]))(t)
	}
	var left []string
	filepath.WalkDir(s.dir, func(path string, d os.DirEntry, _ error) error {
		if d != nil && strings.HasPrefix(d.Name(), ".result-") {
			left = append(left, path)
		}
		return nil
	})
	if len(left) > 0 {
		t.Errorf("temporary files are left: %v", left)
	}
}

// TestStateDirWithSlash: a slash at the end of --state-dir names the same directory.
func TestStateDirWithSlash(t *testing.T) {
	a := newAround(t)
	state := filepath.Join(t.TempDir(), "state")
	a.sh("echo one > a.txt")
	a.rw(0, "write", "a.txt", "--content", "two", "--mode", "overwrite", "--state-dir", state)
	doc := a.rw(0, "history", "a.txt", "--state-dir", state+"/")
	if list, _ := doc["versions"].([]any); len(list) != 1 {
		t.Errorf("%v", doc)
	}
	if _, err := os.Stat(filepath.Join(state, "state")); err == nil {
		t.Error("a second state directory was made inside the first")
	}
}
