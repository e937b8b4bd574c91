package gitignore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestAsGit compares with git itself, on random patterns in random directories.
func TestAsGit(t *testing.T) {
	git, err := exec.LookPath("git")
	testbed.SkipIf(t, err != nil, "git is not there")
	rng := rand.New(rand.NewPCG(7, 8))
	pick := func(list ...string) string { return list[rng.IntN(len(list))] }
	pattern := func() string {
		var b strings.Builder
		for range 1 + rng.IntN(4) {
			b.WriteString(pick("a", "b", "ab", "*", "**", "?", "/", "/", "/**/", "**/", "/**", "[ab]", "[!a]", "[^a]", "[a-b]", "[]a]", "[[:alpha:]]", "[b", `\a`, `\*`, ".", "c.txt", "*.txt", " ", "x"))
		}
		p := pick("", "", "", "!", "/", "#", `\!`) + b.String() + pick("", "", "/", " ", `\ `)
		return p
	}
	var paths []string
	for _, d := range []string{"", "a/", "b/", "a/b/", "a/b/a/", "ab/", "x/a/"} {
		for _, f := range []string{"a", "b", "ab", "c.txt", "x", "a ", "!a", "*", "a.b"} {
			paths = append(paths, d+f+".f", d+f+"-", d+strings.ReplaceAll(f, "a", "q"), d+f)
		}
	}
	dirs := map[string]bool{}
	for _, p := range paths {
		for d := filepath.Dir(p); d != "."; d = filepath.Dir(d) {
			dirs[d] = true
		}
	}
	dir := t.TempDir()
	out, err := exec.Command(git, "init", "-q", dir).CombinedOutput()
	testbed.Require(t, err == nil, "%v: %s", err, out)
	var ask []string
	for _, p := range paths {
		if dirs[p] {
			continue
		}
		ask = append(ask, p) // git looks at the disk to distinguish files from directories
		os.MkdirAll(filepath.Join(dir, filepath.Dir(p)), 0o755)
		testbed.NoErr(t, os.WriteFile(filepath.Join(dir, p), nil, 0o644))
	}
	for round := range 60 {
		var files []File
		all := ""
		for _, at := range []string{"", "a", "a/b"} {
			var text strings.Builder
			for range rng.IntN(5) {
				text.WriteString(pattern() + pick("\n", "\n", "\r\n"))
			}
			testbed.NoErr(t, os.WriteFile(filepath.Join(dir, at, ".gitignore"), []byte(text.String()), 0o644))
			files = append(files, Parse(at, []byte(text.String())))
			all += fmt.Sprintf("%q: %q\n", at, text.String())
		}
		cmd := exec.Command(git, "-c", "core.excludesFile=", "check-ignore", "-z", "--stdin", "--no-index")
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(strings.Join(ask, "\x00")+"\x00")
		out, err := cmd.Output()
		e, ok := err.(*exec.ExitError)
		testbed.Require(t, err == nil || ok && e.ExitCode() == 1, "%v", err)
		want := map[string]bool{}
		for _, p := range bytes.Split(out, []byte{0}) {
			want[string(p)] = true
		}
		for _, p := range ask {
			if got := ignored(files, p); got != want[p] {
				t.Errorf("round %d: %q is ignored: %v, git says %v, by\n%s", round, p, got, want[p], all)
				break
			}
		}
	}
}

// ignored reports whether the files hide a path or a directory above it, as git does.
func ignored(files []File, name string) bool {
	for i := range len(name) {
		if name[i] == '/' && Hides(files, name[:i], true) {
			return true
		}
	}
	return Hides(files, name, false)
}

func TestMain(m *testing.M) { testbed.Main(m) }
