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

// TestEachPatternAsGit compares patterns with git, each alone in a directory.
func TestEachPatternAsGit(t *testing.T) {
	testbed.Needs(t, "git")
	patterns := strings.Fields(`a /a a/ a/b /a/b **/a **/b/a a/**/b a/** **/ ** /** a** **a a**b x**/a x**a a/x**/b *x**/b a/**b *a a* a*b *.txt a?b ? /*/a *
		[ab] [!a] [^a] [a-c] []a] [!]a] [^]a] [-a] [a-] [!-a] [[a] [^[a] [a^] [a&&b] [a~b] [\]a] [\a-c] [\-a] [a\] [a [[:digit:]] [![:digit:]] [[:digit:]a] [[:alpha [\^a] [!/]a a[!b]a a[/]b a[+-9]b a\\/b [[:a] [[:]a] [[::]a] [[:x:]a] [][:digit:]]
		\a \* \! a\ \#x #x !a a.b a+b (a) a|b {a} ^a a$ x[a-b]y *[!a] [a-b-d]`)
	patterns = append(patterns, "a ", `a\ `, `a\  `, " a", "a\tb", "*\n!a", "*\n!a/", "a/\n!a/b", "*\n!/**", "*\n!a\n!a/x**", "*\n!a\n!a/**", "a\r", "\ufeffa", "#\na", strings.Repeat("a", 999), strings.Repeat("a", 1000))
	var paths []string
	for _, name := range append(strings.Fields("a b c d ab aab axb aqb A 1 - ] [ ^ & ~ ! * # #x a.b a+b (a) {a} a|b ^a a$ axa aba c.txt a/a a/b a/x/b a/xb b/a b/x/a x/b/a xx/a xay x]y \\ "), "a ", " a", "a\tb", strings.Repeat("a", 999), strings.Repeat("a", 1000)) {
		paths = append(paths, name, name+"/f")
	}
	dir := t.TempDir()
	out, err := exec.Command("git", "init", "-q", dir).CombinedOutput()
	testbed.Require(t, err == nil, "%v: %s", err, out)
	var ask strings.Builder
	for i, p := range patterns {
		testbed.Plant(t, filepath.Join(dir, fmt.Sprint(i)), 0o600, map[string]string{".gitignore": p + "\n"})
		for _, name := range paths {
			fmt.Fprintf(&ask, "%d/%s\x00", i, name)
		}
	}
	cmd := exec.Command("git", "-c", "core.excludesFile=", "check-ignore", "-z", "--stdin", "--no-index")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(ask.String())
	out = testbed.Must(cmd.Output())(t)
	want := map[string]bool{}
	for p := range strings.SplitSeq(string(out), "\x00") {
		want[p] = true
	}
	for i, p := range patterns {
		files := []File{Parse("", []byte(p+"\n"))}
		for _, name := range paths {
			testbed.Equal(t, ignored(files, name), want[fmt.Sprintf("%d/%s", i, name)], fmt.Sprintf("%.20q %q", p, name))
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
