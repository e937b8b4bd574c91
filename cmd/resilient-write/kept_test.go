package main

import (
	"bufio"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// TestNothingPromisedIsLost compares the tree with testdata/promised.txt. That file
// lists what the first edition had: its tools, the commands and their flags, the
// examples. It also lists the numbered promises of the project, each with the tests
// that hold it.
func TestNothingPromisedIsLost(t *testing.T) {
	f := must(os.Open("testdata/promised.txt"))(t)
	defer f.Close()
	tools := map[string]bool{}
	for _, tool := range mcpserver.Table() {
		tools["rw_"+tool.Name], tools[tool.Name] = true, true
	}
	command := func(path []string) *cobra.Command { // the flags of one command are there at a time
		a := &app{args: append(slices.Clone(path), "x"), env: func(string) string { return "" }, in: strings.NewReader(""), out: &output{w: io.Discard}, errs: io.Discard}
		return find(a.root(), path)
	}
	tests := testsOfTheTree(t)
	counts := map[string]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		kind, rest, _ := strings.Cut(lines.Text(), " ")
		counts[kind]++
		switch kind {
		case "tool":
			expect(t, tools[rest], "no tool is called %s", rest)
		case "command":
			expect(t, command(strings.Fields(rest)) != nil, "no command is called %s", rest)
		case "flag":
			path := strings.Fields(rest)
			name := strings.TrimPrefix(path[len(path)-1], "--")
			if path[0] == "serve" {
				flags, _ := newFlags(func(string) string { return "" })
				expect(t, flags.Lookup(name) != nil, "no flag: %s", rest)
				continue
			}
			cmd := command(path[:len(path)-1])
			expect(t, cmd != nil && (cmd.Flags().Lookup(name) != nil || cmd.PersistentFlags().Lookup(name) != nil), "no flag: %s", rest)
		case "example":
			files, _ := filepath.Glob(filepath.Join("../../examples", rest, "*.go"))
			expect(t, len(files) != 0, "no example is called %s", rest)
		case "promise":
			number, names, _ := strings.Cut(rest, " ")
			expect(t, number == strconv.Itoa(counts[kind]) && names != "", "promise %s is the %dth, or has no test", number, counts[kind])
			for _, name := range strings.Fields(names) {
				expect(t, tests[name], "promise %s: there is no %s", number, name)
			}
		case "#", "":
		default:
			t.Errorf("not understood: %s", lines.Text())
		}
	}
	for kind, n := range map[string]int{"tool": 32, "command": 50, "flag": 200, "example": 9, "promise": 47} {
		expect(t, counts[kind] >= n, "%d lines of the kind %s, want at least %d", counts[kind], kind, n)
	}
}

// find is the command below root that the names lead to, or nil.
func find(root *cobra.Command, names []string) *cobra.Command {
	for _, name := range names {
		list := root.Commands()
		i := slices.IndexFunc(list, func(c *cobra.Command) bool { return c.Name() == name || c.HasAlias(name) })
		if i < 0 {
			return nil
		}
		root = list[i]
	}
	return root
}

// testsOfTheTree are the names of all tests of the repository, and of the scripts of
// commands and of tools.
func testsOfTheTree(t *testing.T) map[string]bool {
	names := map[string]bool{}
	for _, dir := range []string{"testdata/script/*.txtar", "../../testdata/script/*.txtar"} {
		scripts, _ := filepath.Glob(dir)
		for _, path := range scripts {
			names["TestScripts/"+strings.TrimSuffix(filepath.Base(path), ".txtar")] = true
		}
	}
	test := regexp.MustCompile(`(?m)^func (Test\w+|Fuzz\w+)\(`)
	noErr(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range test.FindAllSubmatch(text, -1) {
			names[string(m[1])] = true
		}
		return err
	}))
	return names
}
