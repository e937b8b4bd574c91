package main

import (
	"errors"
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

// TestRelocateOfAnOpenStore: a process that has the store open prevents the move.
func TestRelocateOfAnOpenStore(t *testing.T) {
	s := newShell(t)
	store := must(rw.Open(t.Context(), s.dir, &rw.Options{StateDir: ".resilient_write"}))(t)
	defer store.Close(t.Context())
	r := s.run("relocate", "--to", "xdg")
	expect(t, r.code == rw.CodePrecondition && strings.Contains(r.errs, "another process has the store open"), "code %d: %s", r.code, r.errs)
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
			expect(t, r.code == rw.CodeUsage && strings.Contains(r.errs, "is in ") && !strings.Contains(r.errs, s.dir), "%q: code %d %s", args, r.code, r.errs)
			after, _ := os.ReadFile(name)
			expect(t, string(before) == string(after), "%q wrote it", args)
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
		if d != nil && strings.HasPrefix(d.Name(), "r.json.") {
			left = append(left, path)
		}
		return nil
	})
	expect(t, len(left) == 0, "temporary files are left: %v", left)
}
