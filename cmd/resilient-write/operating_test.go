package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

const operatingPage = "../../docs/operating.md"

// consoleBlock matches the terminal sessions of the page.
var consoleBlock = regexp.MustCompile("(?s)```console\n(.*?)```\n")

// shownCommand is a command of the page with what it printed.
type shownCommand struct{ line, printed string }

func shownCommands(page string) (list []shownCommand) {
	for _, m := range consoleBlock.FindAllStringSubmatch(page, -1) {
		for _, line := range strings.SplitAfter(m[1], "\n") {
			if cmd, ok := strings.CutPrefix(line, "$ "); ok {
				list = append(list, shownCommand{line: strings.TrimSuffix(cmd, "\n")})
			} else if line != "" {
				list[len(list)-1].printed += line
			}
		}
	}
	return list
}

// changing matches what differs from run to run: times, names of calls, hashes
// of data that contains them, and sizes that depend on these.
var changing = []struct {
	what *regexp.Regexp
	mask string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z?|just now|\d+ (s|min|h) ago`), "TIME"},
	{regexp.MustCompile(`\b[0-9a-f]{12}(-\d+)?\b`), "HASH"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "HASH"},
	{regexp.MustCompile(`\b\d+(\.\d+)? (B|KiB|MiB)\b`), "SIZE"},
	{regexp.MustCompile(` +`), " "},
}

func unchanging(text string) string {
	for _, c := range changing {
		text = c.what.ReplaceAllString(text, c.mask)
	}
	return text
}

// TestOperatingPageShowsWhatHappens runs every command of the page, in order,
// in a shell and an empty directory, and compares the output. With
// RW_UPDATE_DOCS=1 it rewrites the page.
func TestOperatingPageShowsWhatHappens(t *testing.T) {
	sh, err := exec.LookPath("sh")
	testbed.SkipIf(t, err != nil || runtime.GOOS == "windows", "there is no shell")
	page := must(os.ReadFile(operatingPage))(t)
	list := shownCommands(string(page))
	require(t, len(list) >= 20, "the page shows %d commands", len(list))
	text, dir := played(t, sh, list)
	printed := strings.Split(text, "\x01")[1:]
	require(t, len(printed) == len(list), "%d commands printed %d times: %s", len(list), len(printed), text)
	fresh := list
	for i := range fresh {
		_, got, _ := strings.Cut(printed[i], "\n")
		diff := cmp.Diff(unchanging(list[i].printed), unchanging(got))
		expect(t, diff == "" || os.Getenv("RW_UPDATE_DOCS") != "", "$ %s\n%s", list[i].line, diff)
		fresh[i].printed = got
	}
	expect(t, !strings.Contains(text, dir), "the page would name a directory of this machine")
	if os.Getenv("RW_UPDATE_DOCS") != "" {
		rewritePage(t, string(page), fresh)
	}
}

// played runs commands in one shell, in a separate workspace, with standard
// output as a terminal. The output of each begins with its number.
func played(t *testing.T, sh string, list []shownCommand) (text, dir string) {
	t.Helper()
	var script strings.Builder
	for i, c := range list {
		fmt.Fprintf(&script, "printf '\\001%d\\n'\n%s\n", i, c.line)
	}
	dir = t.TempDir()
	for _, sub := range []string{"bin", "shop"} {
		noErr(t, os.Mkdir(filepath.Join(dir, sub), 0o700))
	}
	noErr(t, os.WriteFile(filepath.Join(dir, "leaked"), []byte("correct-horse-battery-staple\n"), 0o600))
	self := must(os.Executable())(t)
	wrapper := "#!/bin/sh\nRW_TEST_PERSON=1 RW_TEST_COMMAND=\"$(printf '%s\\n' \"$@\")\" exec \"" + self + "\"\n"
	noErr(t, os.WriteFile(filepath.Join(dir, "bin", "resilient-write"), []byte(wrapper), 0o700))
	cmd := exec.Command(sh, "-c", script.String())
	cmd.Dir, cmd.ExtraFiles = filepath.Join(dir, "shop"), make([]*os.File, 7) // descriptors 3 to 9 are closed, whatever this process has open there
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"), "LC_ALL=C",
		"HOME="+dir, "XDG_CONFIG_HOME="+filepath.Join(dir, "config"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	noErr(t, cmd.Run(), out.String())
	wiped := regexp.MustCompile(`[^\n]*\r\x1b\[K`) // bars, of which a slow machine shows several
	return wiped.ReplaceAllString(out.String(), ""), dir
}

// rewritePage puts the output into the page.
func rewritePage(t *testing.T, page string, list []shownCommand) {
	page = consoleBlock.ReplaceAllStringFunc(page, func(block string) string {
		var b strings.Builder
		b.WriteString("```console\n")
		for range strings.Count("\n"+block, "\n$ ") {
			fmt.Fprintf(&b, "$ %s\n%s", list[0].line, list[0].printed)
			list = list[1:]
		}
		return b.String() + "```\n"
	})
	noErr(t, os.WriteFile(operatingPage, []byte(page), 0o644))
}

// TestOperatingPageNamesWhatExists: every flag and every subcommand that the
// page names exists, and every exit code is on the page.
func TestOperatingPageNamesWhatExists(t *testing.T) {
	data := must(os.ReadFile(operatingPage))(t)
	page := string(data)
	flags, names := map[string]bool{"help": true}, map[string]bool{}
	var visit func(*cobra.Command, string)
	visit = func(c *cobra.Command, at string) {
		names[at] = true
		c.Flags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
		c.PersistentFlags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
		for _, sub := range c.Commands() {
			visit(sub, strings.TrimSpace(at+" "+sub.Name()))
		}
	}
	a := &app{args: everyName(), env: func(string) string { return "" }}
	visit(a.root(), "")
	serving, _ := newFlags(a.env)
	serving.VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
	found := 0
	for _, m := range regexp.MustCompile(`--([a-z][a-z0-9-]*)`).FindAllStringSubmatch(page, -1) {
		found++
		expect(t, flags[m[1]], "there is no flag %s", m[0])
	}
	for _, m := range regexp.MustCompile("(?m)(?:resilient-write |`)((?:journal|scratch|draft) [a-z]+|compact|erase|check|recover|report)\\b").FindAllStringSubmatch(page, -1) {
		found++
		expect(t, names[m[1]], "there is no command %s", m[1])
	}
	expect(t, found >= 60, "the page names %d flags and commands", found)
	for code := rw.CodeOK; code <= rw.CodePolicy; code++ {
		expect(t, strings.Contains(page, fmt.Sprintf("\n| %d | ", code)), "the page does not name code %d", code)
	}
}
