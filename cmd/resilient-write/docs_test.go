package main

import (
	"bufio"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/clients"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/mcpserver"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// documents returns the texts for readers, by their path in the repository.
func documents(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(os.DirFS(repository), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules"):
			return fs.SkipDir
		case path.Ext(name) == ".md" || strings.HasPrefix(name, "docs/snippets/"):
			out[name] = page(t, name)
		}
		return nil
	})
	require(t, err == nil && len(out) >= 10, "%d documents, %v", len(out), err)
	return out
}

// toolName matches the name of a tool in a text, in either form.
var toolName = regexp.MustCompile(`\brw[_.]([a-z][a-z0-9_]*)`)

// TestDocumentsNameToolsThatExist: a tool that is renamed or removed must be
// removed from the documents too.
func TestDocumentsNameToolsThatExist(t *testing.T) {
	var known []string
	for _, tool := range toolbox.Table() {
		known = append(known, tool.Name)
	}
	found := 0
	for name, text := range documents(t) {
		for _, m := range toolName.FindAllStringSubmatch(text, -1) {
			found++
			expect(t, slices.Contains(known, m[1]), "%s: there is no tool %s", name, m[0])
		}
	}
	expect(t, found >= 100, "only %d names were found", found)
}

// TestSnippetsAgree: the instructions say the same to every agent, and the page
// about them shows what they say.
func TestSnippetsAgree(t *testing.T) {
	want := clients.Instructions
	equal(t, cmp.Diff(want, page(t, "docs/snippets/cursorrules")), "", "init writes something else")
	for _, name := range []string{"AGENTS.md", "CLAUDE.md"} {
		got := page(t, "docs/snippets/"+name)
		expect(t, strings.Contains(got, "\n"+want), "%s says something else:\n%s", name, cmp.Diff(want, got))
		expect(t, len(got) <= 2500, "%s has %d bytes; it is in every context", name, len(got))
	}
	shown := ""
	for _, f := range fences(t, page(t, "docs/agents.md")) {
		if f.lang == "markdown" {
			shown += f.text
		}
	}
	equal(t, cmp.Diff(want, shown), "", "docs/agents.md shows something else")
}

// TestSnippetsUseWordsThatExist: an argument, a field of a reply, a value or a
// reason in the instructions for an agent must exist.
func TestSnippetsUseWordsThatExist(t *testing.T) {
	known := map[string]bool{"rw_": true, "resilientwrite": true, "ok": true, "next_actions": true, "hint": true, "draft_ref": true, "suggested_action": true}
	for _, tool := range toolbox.Table() {
		known["rw_"+tool.Name], known["mcp__resilientwrite__rw_"+tool.Name] = true, true
		for _, schema := range []json.RawMessage{tool.Input, tool.Output} {
			doc := testbed.Decoded[struct{ Properties map[string]any }](t, schema)
			for name := range doc.Properties {
				known[name] = true
			}
		}
	}
	for _, d := range rw.Details() {
		known[string(d)] = true
	}
	var envelope struct {
		Properties struct {
			Action struct{ Enum []string } `json:"suggested_action"`
		}
	}
	err := json.Unmarshal([]byte(page(t, "spec/errors.v2.schema.json")), &envelope)
	require(t, err == nil && len(envelope.Properties.Action.Enum) >= 8, "%v %v", err, envelope)
	for _, a := range envelope.Properties.Action.Enum {
		known[a] = true
	}
	word := regexp.MustCompile("`([^`]+)`")
	for _, name := range []string{"AGENTS.md", "CLAUDE.md", "cursorrules"} {
		for _, m := range word.FindAllStringSubmatch(page(t, "docs/snippets/"+name), -1) {
			expect(t, known[m[1]], "%s: an agent does not meet %s anywhere", name, m[1])
		}
	}
}

// TestPermissionsNameToolsThatOnlyRead: the tools that the page allows without
// a question change nothing in the workspace.
func TestPermissionsNameToolsThatOnlyRead(t *testing.T) {
	read := 0
	for _, f := range fences(t, page(t, "docs/agents.md")) {
		if f.lang != "json" {
			continue
		}
		for _, name := range decode(t, f)["permissions"].(map[string]any)["allow"].([]any) {
			tool, ours := strings.CutPrefix(name.(string), "mcp__resilientwrite__rw_")
			i := slices.IndexFunc(toolbox.Table(), func(i mcpserver.ToolInfo) bool { return i.Name == tool })
			expect(t, ours && i >= 0 && !toolbox.Table()[i].Destructive, "%v: %s", f, name)
			read++
		}
	}
	expect(t, read != 0, "no permissions were found")
}

// TestEmbedShowsCodeThatRuns: every Go block on the page occurs, in one piece,
// in an example.
func TestEmbedShowsCodeThatRuns(t *testing.T) {
	var sources []string
	for _, name := range []string{"embedded/main.go", "embedded/model.go", "host/main.go"} {
		sources = append(sources, page(t, "examples/"+name))
	}
	blocks := 0
	for _, f := range fences(t, page(t, "docs/embed.md")) {
		mustEqual(t, f.lang, "go", f, ": nothing checks a block of")
		blocks++
		expect(t, slices.ContainsFunc(sources, func(source string) bool { return strings.Contains(source, "\n"+f.text) }), "%v: this is in no example:\n%s", f, f.text)
	}
	expect(t, blocks >= 6, "the page shows %d blocks", blocks)
}

// TestNothingPromisedIsLost compares the tree with testdata/promised.txt. That file
// lists what the first edition had: its tools, the commands and their flags, the
// examples. It also lists the numbered promises of the project, each with the tests
// that hold it.
func TestNothingPromisedIsLost(t *testing.T) {
	f := must(os.Open("testdata/promised.txt"))(t)
	defer f.Close()
	tools := map[string]bool{}
	for _, tool := range toolbox.Table() {
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
