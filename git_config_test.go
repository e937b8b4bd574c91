package resilientwrite_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestRepositoriesByIdentity: the directories that a .git file and commondir refer to
// are protected independently of their names and content, even if they are created
// while the store is open. So is the directory of core.hooksPath.
func TestRepositoriesByIdentity(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		there   map[string]string
		links   map[string]string
		refused []string
		written []string
	}{
		"gitdir":             {map[string]string{".git": "gitdir: store\n", "store/x": ""}, nil, []string{"store/config", "store/hooks/x", "STORE/../store/y"}, []string{"stores/x", "a/store/x"}},
		"gitdir not there":   {map[string]string{".git": "gitdir: deep/store\n"}, nil, []string{"deep/store/config", "deep/store/a/b"}, []string{"deep/x"}},
		"a link to the same": {map[string]string{".git": "gitdir: store\n", "store/x": ""}, map[string]string{"alias": "store"}, []string{"alias/config"}, nil},
		"gitdir by a link":   {map[string]string{".git": "gitdir: alias\n", "store/x": ""}, map[string]string{"alias": "store"}, []string{"store/config", "alias/config"}, nil},
		".git is a link":     {map[string]string{"store/x": ""}, map[string]string{".git": "store"}, []string{"store/config"}, []string{"x"}},
		"commondir":          {map[string]string{".git": "gitdir: wt\n", "wt/commondir": "../shared\n", "shared/x": ""}, nil, []string{"shared/config", "wt/x"}, nil},
		"nested":             {map[string]string{"sub/.git": "gitdir: .bare\n", "sub/.bare/x": ""}, nil, []string{"sub/.bare/config"}, []string{"sub/x", ".bare/config"}},
		"hooks":              {map[string]string{".git/config": "[core]\n\thooksPath = tools/hooks\n"}, nil, []string{"tools/hooks/pre-commit", "tools/hooks/lib/x", "Tools/Hooks/y", "tools/hooks"}, []string{"tools/x", "hooks/x"}},
		"hooks, odd writing": {map[string]string{".git/config": "# c\n[ CORE ] HooksPath = \"tools/\\\nhooks\" ; c\n"}, nil, []string{"tools/hooks/pre-commit"}, nil},
		"hooks by include":   {map[string]string{".git/config": "[include]\n\tpath = ../more.cfg\n", "more.cfg": "[includeIf \"onbranch:x\"]\npath=\"even more.cfg\"\n", "even more.cfg": "[core]\nhookspath=h\n"}, nil, []string{"h/pre-commit", "more.cfg", "even more.cfg", "Even More.cfg"}, []string{"a/more.cfg"}},
		"an included file":   {map[string]string{".git/config": "[include]\n\tpath = ../alias/x.cfg\n[include]\n\tpath = ../none/y.cfg\n", "real/x.cfg": ""}, map[string]string{"alias": "real"}, []string{"alias/x.cfg", "real/x.cfg", "none/y.cfg", "none/y.cfg/z"}, []string{"real/y.cfg", "none/x.cfg"}},
		"hooks of work tree": {map[string]string{".git/config.worktree": "[core]\nhooksPath=./h/\n"}, nil, []string{"h/pre-commit"}, nil},
		"hooks of gitdir":    {map[string]string{".git": "gitdir: wt\n", "wt/commondir": "../c", "c/config": "[core]\n\thooksPath = ../h\n[core]\n\thooksPath = h2"}, nil, []string{"h2/x"}, []string{"h/x"}},
		"hooks in the root":  {map[string]string{".git/config": "[core]\n\thooksPath = .\n"}, nil, []string{"pre-commit", "Post-Checkout"}, []string{"x", "a/pre-commit"}},
		"hooks, nested":      {map[string]string{"sub/.git/config": "[core]\n\thooksPath = h\n"}, nil, []string{"sub/h/pre-push"}, []string{"h/pre-push"}},
		"hooks by a link":    {map[string]string{".git/config": "[core]\n\thooksPath = alias\n", "real/x": ""}, map[string]string{"alias": "real"}, []string{"real/pre-commit", "alias/pre-commit"}, nil},
	} {
		for _, late := range []bool{false, true} {
			t.Run(name+map[bool]string{true: " later"}[late], func(t *testing.T) {
				dir := workspace(t)
				prepare := func() {
					plant(t, dir, c.there)
					for link, to := range c.links {
						noErr(t, os.Symlink(to, filepath.Join(dir, link)))
					}
				}
				if !late {
					prepare()
				}
				s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
				if late {
					write(t, s, "first.txt", "x", rw.ModeCreate)
					prepare()
				}
				for _, p := range c.refused {
					if got, _ := attempt(t, s, put(p, "x", rw.ModeOverwrite)); got != rw.ErrProtectedPath {
						t.Errorf("%s: %q", p, got)
					}
					if _, err := s.Move(background, rw.MoveRequest{Path: "first.txt", To: p, Call: rw.Call{DryRun: true}}); late && rw.AsError("", err).Detail != rw.ErrProtectedPath {
						t.Errorf("moved to %s: %v", p, err)
					}
				}
				for _, p := range c.written {
					must(s.SafeWrite(background, put(p, "x", rw.ModeCreate)))(t, p)
				}
			})
		}
	}
}

// TestSettingsAreReadAsGitReadsThem compares our reading of the hook settings in the
// configuration with git's.
func TestSettingsAreReadAsGitReadsThem(t *testing.T) {
	t.Parallel()
	needGit(t)
	for _, config := range []string{
		"[core]\nhooksPath = h\n", "[core]hooksPath=h", "[CORE]\n  HOOKSPATH\t=\t h  \n", "[core]\nhooksPath = \"h\"\n", "[core]\nhooksPath = h # c\n", "[core]\nhooksPath = \"h\" ; c\n",
		"\ufeff[core]\nhooksPath = h\n", "[core]\r\nhooksPath = h\r\n", "[core]\nhooksPath = x\nhooksPath = h\n", "[core]\nhooksPath = \".\"/h\n", "; c\n\n[a \"b]c\"]\nx = [core]\n[core]\nhooksPath = h",
		"[core]\nhooksPath = \\\nh\n", "[core]\neditor = \"a # b\"\nhooksPath = h\n", "[core]\nsymlinks\nhooksPath = h\n", "[core]\nhooksPath = h\t \n", "[core \"x\"]\nhooksPath = x\n[core]\nhooksPath = h",
	} {
		dir := workspace(t)
		if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		plant(t, dir, map[string]string{".git/config": config})
		mark := filepath.Join(t.TempDir(), "mark")
		plant(t, dir, map[string]string{"h/pre-commit": "#!/bin/sh\ntouch '" + mark + "'\n"})
		os.Chmod(filepath.Join(dir, "h", "pre-commit"), 0o755)
		if !git(t, dir, mark, "commit", "--allow-empty", "-m", "x") {
			t.Fatalf("%q: git does not run the hook", config)
		}
		s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
		if got, _ := attempt(t, s, put("h/pre-push", "x", rw.ModeCreate)); got != rw.ErrProtectedPath {
			t.Errorf("%q: %q", config, got)
		}
	}
}

// TestARootInsideARepository: a directory that belongs to a repository is no
// workspace; a work tree that is in one is.
func TestARootInsideARepository(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	plant(t, base, map[string]string{
		"bare.git/HEAD": "ref: refs/heads/x\n", "bare.git/objects/x": "", "bare.git/refs/x": "", "bare.git/hooks/x": "", "bare.git/main/.git": "gitdir: ../worktrees/main\n",
		"w/.git/hooks/x": "", "w/.git/modules/m/hooks/x": "", "w/src/x": "", "hg/.hg/x": "", "not/HEAD": "x", "not/objects/x": "", "not/refs/x": "",
	})
	noErr(t, os.Symlink("bare.git/hooks", filepath.Join(base, "alias")))
	for dir, want := range map[string]rw.Detail{
		"bare.git": rw.ErrUnsafeRoot, "bare.git/hooks": rw.ErrUnsafeRoot, "alias": rw.ErrUnsafeRoot, "w/.git": rw.ErrUnsafeRoot, "w/.git/hooks": rw.ErrUnsafeRoot,
		"w/.git/modules/m/hooks": rw.ErrUnsafeRoot, "hg/.hg": rw.ErrUnsafeRoot, "w": "", "w/src": "", "hg": "", "not": "", "bare.git/main": "",
	} {
		at := filepath.Join(base, filepath.FromSlash(dir))
		s, err := rw.Open(background, at, &rw.Options{Sync: rw.SyncOff})
		if err == nil {
			s.Close(background)
		}
		var got rw.Detail
		if err != nil {
			got = rw.AsError("", err).Detail
		}
		if got != want {
			t.Errorf("%s: %q, want %q", dir, got, want)
		}
		if want != "" {
			if s, err = rw.Open(background, at, &rw.Options{Sync: rw.SyncOff, AllowUnsafeRoot: true}); err != nil {
				t.Errorf("%s, allowed: %v", dir, err)
			} else {
				s.Close(background)
			}
		}
	}
}

// TestOtherRepositoriesAreProtected: the directories of other version control
// systems, in every spelling, as any part of a path.
func TestOtherRepositoriesAreProtected(t *testing.T) {
	t.Parallel()
	s := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff})
	for _, name := range []string{".hg", ".jj", ".svn", ".sl", ".bzr", ".HG", ".Svn", "HG~1", ".s\u200dl", ".jj. "} {
		for _, p := range []string{name, name + "/hgrc", "a/" + name + "/hooks/x"} {
			if got, _ := attempt(t, s, put(p, "x", rw.ModeCreate)); got != rw.ErrProtectedPath {
				t.Errorf("%q: %q", p, got)
			}
		}
	}
	for _, p := range []string{".hgignore", ".jjx", "svn", ".sls", "a.hg", "sl~", "bzr~x"} {
		write(t, s, p, "x", rw.ModeCreate)
	}
}
