package gitdir

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestPart: every spelling that a file system which folds names takes for an
// entry is that entry.
func TestPart(t *testing.T) {
	for _, part := range Parts() {
		for _, name := range []string{part, strings.ToUpper(part), strings.ToLower(part), strings.ToUpper(part[:1]) + part[1:]} {
			testbed.Equal(t, Part(name), part, name)
		}
		for _, name := range []string{part + "x", "x" + part, part[1:], ""} {
			testbed.Equal(t, Part(name), "", name)
		}
	}
}

// TestShape: what git takes for a repository, and what it does not.
func TestShape(t *testing.T) {
	for _, row := range []struct {
		parts string
		want  bool
	}{
		{"HEAD objects refs", true}, {"HEAD commondir", true}, {"objects refs config", true}, {"HEAD objects", false}, {"HEAD refs config", false},
		{"objects refs", false}, {"commondir objects refs", false}, {"HEAD", false}, {"", false}, {"config commondir", false},
	} {
		s := Shape{}
		for _, part := range strings.Fields(row.parts) {
			s[part] = true
		}
		got := s.Repository()
		testbed.Expect(t, got == row.want, "%s: %v", row.parts, got)
	}
	id := strings.Repeat("0aF", 14)
	for data, want := range map[string]bool{
		"ref: refs/heads/main\n": true, "ref:x": true, id[:40]: true, id[:40] + "\n": true, id[:39]: false, "": false, "re: refs/heads/main": false, "g" + id[:39]: false, " ref: x": false,
	} {
		got := ValidHead([]byte(data))
		testbed.Expect(t, got == want, "%q: %v", data, got)
	}
}

// FuzzLinear: reading a configuration file of git takes work in proportion to
// its length.
func FuzzLinear(f *testing.F) {
	seeds := []string{"[a]\n", "[core \"", "[a \"\\", "[a \"b\"]", "k = v\n", "k = \"", "k = a\\\n", "k=a ", "k = # c\n", "; c\n", "[", "\"", "[include]\npath = a#\n", "x … \"]\nk\n"}
	testbed.FuzzLinear(f, 16<<10, 5*time.Microsecond, seeds, func(text []byte) (steps int) {
		for _, head := range []string{"", "[a]\nk = \"", "[a \""} {
			for key, value := range settings(head + string(text)) {
				steps += 1 + len(key.name) + len(value)
			}
		}
		Pointed("gitdir:"+string(text), "/a")
		return steps
	})
}

// TestSettingsAsGit compares the settings of configurations with those that git lists.
func TestSettingsAsGit(t *testing.T) {
	testbed.Needs(t, "git")
	file := filepath.Join(t.TempDir(), "config")
	for _, text := range []string{
		"", " \t\n\r", "[a]\nk=v\r", "[a]\r k=v", "[a]\nk=\r v", "# c", "; c\n#d\n", "\ufeff[a]\nk=v\n", "[a]\r\nk=v\r\n", "[a]k=v", "[a] K-1z = v\n", "[AZ]\nazAZ09 = v\n", "[az-09.q]\nk", "[a]\nk\nl=\n m =\n", "[a]\n[b]\nk=v",
		"[a \"b\"]\nk=v", "[a \"B]c\"]\nk=v\n[d]\nk=[e]", "[a \"b\\\"c\\\\d\\x\"]\nk=v", "[a\t\"b\"] k=v", "[a]\nk=v # c\nl=w ; c\nm=\"x # ; y\" z\n", "[a]\nk=v#c", "[a]\nk=;c\nl", "[a]\nk=#c",
		"[a]\nk = v w \t \nl=\" v \"\nm = \"v \" \nn=\"\"\no=a\"b c\"d\n", "[a]\nk=a\\tb\\nc\\bd\\\\e\\\"f\n", "[a]\nk=a\\\nb\\\n  c\nl=w", "[a]\nk=v\\t\nl=v\\\" ", "[a]\nk=\"v\\\nw\"", "[a]\nk=v\nk=w\nk=\n", "[a]\nk = v",
		"[a]\nk=v \\\n", "[a]\nk= \\\n v", "[a]\nk=\"\" v", "[a]\nk=\"\" \" v\" # c",
	} {
		testbed.NoErr(t, os.WriteFile(file, []byte(text), 0o600))
		out := testbed.Must(exec.Command("git", "config", "--file", file, "--list", "-z").Output())(t, fmt.Sprintf("%q", text))
		var got strings.Builder
		for key, value := range settings(text) {
			fmt.Fprintf(&got, "%s.%s\n%s\x00", key.section, key.name, value)
		}
		want := regexp.MustCompile(`(^|\x00)([^\n\x00]+)\x00`).ReplaceAllString(string(out), "$1$2\n\x00") // a name alone
		testbed.Equal(t, got.String(), want, fmt.Sprintf("%q", text))
	}
}

// TestTheLastSettingOfAFileHolds: a file that names directories of hooks again
// and again gives one to protect, which is the one that git runs.
func TestTheLastSettingOfAFileHolds(t *testing.T) {
	dir := t.TempDir()
	var config strings.Builder
	config.WriteString("[core]\n")
	for i := range 1000 {
		fmt.Fprintf(&config, "hooksPath = h%d\n", i)
	}
	testbed.NoErr(t, os.Mkdir(filepath.Join(dir, ".git"), 0o700))
	testbed.NoErr(t, os.WriteFile(filepath.Join(dir, ".git", "config"), []byte(config.String()), 0o600))
	var own []string
	for _, hooks := range Find(dir, User{}).Hooks {
		if rel, err := filepath.Rel(dir, hooks); err == nil && filepath.IsLocal(rel) {
			own = append(own, rel)
		}
	}
	if !slices.Equal(own, []string{"h999"}) {
		t.Errorf("%d directories, %v", len(own), own[:min(len(own), 3)])
	}
}

// TestFind: the configuration of the user and of the repository, what the environment
// names, and when it must be read again.
func TestFind(t *testing.T) {
	top, home := t.TempDir(), t.TempDir()
	hooks := func(name string) string { return "[core]\n\thooksPath = " + name + "\n" }
	testbed.Plant(t, home, 0o600, map[string]string{
		".gitconfig": hooks("~/own"), ".config/git/config": hooks("of-config"), "xdg/git/config": hooks("of-xdg"), "global": hooks("of-global"), "included": hooks("of-included"),
	})
	testbed.Plant(t, top, 0o600, map[string]string{
		".git/config":          hooks("of-top") + "hooksPath\n[include]\npath = ~/included\npath\n[other]\npath = other\n[includeif \"x\"]\npath = :(optional)none\n",
		".git/config.worktree": "[core]\nexcludesFile = ignored\n",
	})
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "xdg"))
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(home, "global"))
	t.Setenv("GIT_CONFIG_SYSTEM", "relative")
	r := Find(top, ThisUser())
	var got []string
	for _, path := range slices.Concat(r.Dirs, r.Hooks, r.Configs, []string{r.Excludes}) {
		for root, name := range map[string]string{top: "top", home: "home"} {
			if rel, ok := strings.CutPrefix(path, root); ok {
				got = append(got, name+filepath.ToSlash(rel))
			}
		}
	}
	want := "top/.git top/of-config home/own top/of-xdg top/of-global top/of-included top/of-top home/xdg/git/config home/global home/included top/.git/none top/ignored"
	testbed.Equal(t, strings.Join(got, " "), want)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, ".config"))
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	testbed.Equal(t, len(ThisUser().Named), 0)

	at := time.Now().Add(-time.Hour)
	for what, change := range map[string]func(name string) error{
		"nothing": func(string) error { return nil },
		"grown": func(name string) error {
			return errors.Join(os.WriteFile(name, []byte("[core]\n#\n"), 0o600), os.Chtimes(name, at, at))
		},
		"rewritten": func(name string) error { return os.Chtimes(name, at, at.Add(time.Second)) },
		"removed":   os.Remove,
		"replaced": func(name string) error {
			return errors.Join(os.WriteFile(name+"~", []byte("[core]\n"), 0o600), os.Chtimes(name+"~", at, at), os.Rename(name+"~", name))
		},
		"made":         func(name string) error { return os.WriteFile(name+".worktree", nil, 0o600) },
		"made besides": func(name string) error { return os.WriteFile(name+"~", nil, 0o600) },
	} {
		top := t.TempDir()
		config := filepath.Join(top, ".git", "config")
		testbed.Plant(t, top, 0o600, map[string]string{".git/config": "[core]\n"})
		testbed.NoErr(t, os.Chtimes(config, at, at))
		r := Find(top, User{})
		testbed.NoErr(t, change(config))
		testbed.Equal(t, r.Fresh(), what == "nothing" || what == "made besides", what)
	}
}

// TestUses: the files that git reads or runs for a work tree.
func TestUses(t *testing.T) {
	for config, files := range map[string]map[string]bool{
		"[core]\nhooksPath = .\n":      {"pre-commit": true, "Pre-Push": true, "x": false, "sub/pre-commit": false, ".git/x": true},
		"[core]\nhooksPath = none\n":   {"none/pre-commit": true, "none/x": true, "pre-commit": false, "sub/x": false},
		"[core]\nhooksPath = alias\n":  {"sub/pre-commit": true, "alias/x": true, "x": false},
		"[include]\npath = ../sub/c\n": {"sub/c": true, "sub/C": true, "sub/d": false, "c": false, "alias/c": true},
	} {
		top := t.TempDir()
		testbed.Plant(t, top, 0o600, map[string]string{".git/config": config, "sub/y": ""})
		testbed.NoErr(t, os.Symlink("sub", filepath.Join(top, "alias")))
		for file, want := range files {
			testbed.Equal(t, Uses(filepath.Join(top, file), User{}), want, config, file)
		}
	}
}

// TestHas: what counts as a part of a repository on disk.
func TestHas(t *testing.T) {
	dir := t.TempDir()
	root := testbed.Must(fsx.OpenRoot(dir))(t)
	defer root.Close()
	for i, row := range []struct {
		part, link string
		mode       os.FileMode // of a file
		want       bool
	}{
		{Head, "refs/heads/x", 0, true}, {Head, "x", 0, false}, {Head, "", 0o600, true}, {Objects, "", 0o600, false}, {Objects, "", 0o700, true}, {Refs, "x", 0, true},
		{Common, "", 0o600, true}, {Common, "x", 0, true}, {Config, "", 0, false}, {Common, "", 0, false}, {Objects, "", 0, true}, {Head, "", 0, false},
	} {
		at := filepath.Join(dir, row.part)
		switch {
		case row.link != "":
			testbed.NoErr(t, os.Symlink(row.link, at))
		case row.mode != 0:
			testbed.NoErr(t, os.WriteFile(at, []byte("ref: x"), row.mode))
		default:
			testbed.NoErr(t, os.Mkdir(at, 0o700))
		}
		got := testbed.Must(Has(root, row.part))(t)
		testbed.Equal(t, got, row.want, i, " ", row.part)
		testbed.NoErr(t, os.Remove(at))
	}
}
