package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

var repository = filepath.Join("..", "..")

// page is one text for readers.
type page struct {
	name   string // from the root, with slashes
	text   string
	prose  string // without what is fenced
	blocks []block
}

// block is the text between two fences.
type block struct {
	lang string
	text string
	line int
}

// pages are the Markdown files of the repository, without those of test data.
func pages(t *testing.T) map[string]page {
	t.Helper()
	out := map[string]page{}
	err := fs.WalkDir(os.DirFS(repository), ".", func(name string, d fs.DirEntry, err error) error {
		switch base := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (base[0] == '.' || base == "testdata" || base == "node_modules"):
			return fs.SkipDir
		case path.Ext(name) == ".md":
			data, err := os.ReadFile(filepath.Join(repository, filepath.FromSlash(name)))
			if err != nil {
				return err
			}
			out[name] = parsePage(name, string(data))
		}
		return nil
	})
	testbed.Require(t, err == nil && len(out) >= 15, "%d pages, %v", len(out), err)
	return out
}

func parsePage(name, text string) page {
	p := page{name: name, text: text}
	var prose strings.Builder
	var open *block
	for i, line := range strings.Split(text, "\n") {
		mark := strings.HasPrefix(strings.TrimSpace(line), "```")
		switch {
		case mark && open == nil:
			open = &block{lang: strings.TrimPrefix(strings.TrimSpace(line), "```"), line: i + 1}
		case mark:
			p.blocks, open = append(p.blocks, *open), nil
		case open != nil:
			open.text += line + "\n"
		default:
			prose.WriteString(line + "\n")
		}
	}
	p.prose = prose.String()
	return p
}

// TestLinksLeadSomewhere: every link within the repository names a file that is
// there and, after #, one of its headings.
func TestLinksLeadSomewhere(t *testing.T) {
	all := pages(t)
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	found, anchors := 0, 0
	for name, p := range all {
		for _, m := range link.FindAllStringSubmatch(p.prose, -1) {
			target, anchor, hasAnchor := strings.Cut(m[1], "#")
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			found++
			file := name
			if target != "" {
				file = path.Join(path.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join(repository, filepath.FromSlash(file))); err != nil {
				t.Errorf("%s: %s is not there", name, m[1])
			} else if hasAnchor {
				anchors++
				other, ok := all[file]
				testbed.Expect(t, ok && slices.Contains(headings(other), anchor), "%s: %s has no heading #%s", name, file, anchor)
			}
		}
	}
	testbed.Expect(t, found >= 50 && anchors != 0, "only %d links and %d anchors were found", found, anchors)
}

// headings are the anchors of a page, as its host makes them.
func headings(p page) []string {
	var out []string
	for _, line := range strings.Split(p.prose, "\n") {
		if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
			title = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			out = append(out, strings.ReplaceAll(title, " ", "-"))
		}
	}
	return out
}

// TestJSONBlocksParse: who copies a configuration gets one that can be read.
func TestJSONBlocksParse(t *testing.T) {
	n := 0
	for name, p := range pages(t) {
		for _, b := range p.blocks {
			if b.lang != "json" {
				continue
			}
			n++
			var doc any
			err := json.Unmarshal([]byte(b.text), &doc)
			testbed.Expect(t, err == nil, "%s:%d: %v", name, b.line, err)
		}
	}
	testbed.Expect(t, n >= 10, "only %d blocks were found", n)
}

// around is the text around the pieces of Go on a page that are no whole
// program. A page that is not named here shows whole programs only, but for
// docs/embed.md, whose pieces another test finds in the examples.
var around = map[string]string{
	"README.md": `package block

import (
	"context"
	"errors"

	rw "github.com/resilientwrite/resilientwrite"
)

func piece(store *rw.Store, ctx context.Context, text []byte, seen rw.Digest) error {
	%s
	return err
}
`,
	"docs/http.md": `package block

import (
	"context"
	"net"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

func piece(store *rw.Store, ctx context.Context, token string) error {
	%s
}
`,
}

// TestGoBlocksCompile: all of them in one build that links nothing, beside the
// tree, so that nothing is written into it.
func TestGoBlocksCompile(t *testing.T) {
	dir, overlay := t.TempDir(), map[string]string{}
	root := testbed.Must(filepath.Abs(repository))(t)
	var packages []string
	for name, p := range pages(t) {
		for _, b := range p.blocks {
			if b.lang != "go" || name == "docs/embed.md" {
				continue
			}
			source := strings.Replace(b.text, "package main\n", "package block\n", 1)
			if source == b.text {
				if around[name] == "" {
					t.Errorf("%s:%d: a piece of Go, and nothing says what is around it", name, b.line)
					continue
				}
				source = fmt.Sprintf(around[name], b.text)
			}
			at := fmt.Sprintf("internal/gen/block%d", len(packages))
			file := filepath.Join(dir, fmt.Sprintf("%d.go", len(packages)))
			source = fmt.Sprintf("//line %s:%d\n", path.Base(name), b.line) + source
			testbed.NoErr(t, os.WriteFile(file, []byte(source), 0o644))
			overlay[filepath.Join(root, filepath.FromSlash(at), "block.go")] = file
			packages = append(packages, "./"+at)
		}
	}
	testbed.Require(t, len(packages) >= 3, "only %d blocks were found", len(packages))
	data := testbed.Must(json.Marshal(map[string]any{"Replace": overlay}))(t)
	list := filepath.Join(dir, "overlay.json")
	testbed.NoErr(t, os.WriteFile(list, data, 0o644))
	cmd := exec.Command("go", append([]string{"build", "-overlay", list}, packages...)...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	testbed.Expect(t, err == nil, "%v\n%s", err, out)
}

// TestServerPageShowsEveryTool checks that the table of tools is complete.
func TestServerPageShowsEveryTool(t *testing.T) {
	text := pages(t)["docs/mcp.md"].prose
	for _, tool := range toolbox.Table() {
		testbed.Expect(t, strings.Contains(text, "`rw_"+tool.Name+"`"), "docs/mcp.md does not name rw_%s", tool.Name)
	}
}

// TestConstantsStandWhereTheyAreExplained: a stage is in the drawing of the
// way of a write, in its order; a kind of row, and what a note is about, in the
// format of the journal.
func TestConstantsStandWhereTheyAreExplained(t *testing.T) {
	all := pages(t)
	drawing, at := all["docs/architecture.md"].blocks[0].text, 0
	for _, stage := range constants(t, ".", "Stage") {
		i := strings.Index(drawing[at:], stage)
		if i < 0 {
			t.Errorf("docs/architecture.md does not draw the stage %s, or not in its place", stage)
			continue
		}
		at += i
	}
	for _, prefix := range []string{"Kind", "Note"} {
		for _, value := range constants(t, "internal/journal", prefix) {
			testbed.Expect(t, strings.Contains(all["spec/journal.md"].prose, "`"+value+"`"), "spec/journal.md does not explain %s", value)
		}
	}
}

// TestArchitectureShowsEveryRoom: each package below internal and each file of
// the root has its line on the page of the code layout.
func TestArchitectureShowsEveryRoom(t *testing.T) {
	text := pages(t)["docs/architecture.md"].prose
	var patterns []string
	for _, m := range regexp.MustCompile("`([\\w*/.]+)`").FindAllStringSubmatch(text, -1) {
		patterns = append(patterns, m[1])
	}
	rooms := testbed.Must(filepath.Glob(filepath.Join(repository, "internal", "*")))(t)
	files, err := filepath.Glob(filepath.Join(repository, "*.go"))
	testbed.Require(t, err == nil && len(rooms) >= 15 && len(files) >= 50, "%d rooms, %d files, %v", len(rooms), len(files), err)
	for _, name := range append(rooms, files...) {
		name := testbed.Must(filepath.Rel(repository, name))(t)
		shown := func(pattern string) bool {
			ok, _ := path.Match(pattern, filepath.ToSlash(name))
			return ok
		}
		testbed.Expect(t, strings.HasSuffix(name, "_test.go") || slices.ContainsFunc(patterns, shown), "docs/architecture.md does not show %s", filepath.ToSlash(name))
	}
}

// constants are the texts of a directory's constants whose names begin so.
func constants(t *testing.T, dir, prefix string) []string {
	t.Helper()
	var out []string
	for _, f := range sources(t, dir) {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, prefix) {
				return true
			}
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				out = append(out, strings.Trim(lit.Value, `"`))
			}
			return true
		})
	}
	testbed.Require(t, len(out) >= 5, "%s has only %d constants %s…", dir, len(out), prefix)
	return out
}

// sources are the parsed Go files of a directory, without tests.
func sources(t *testing.T, dir string) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(repository, filepath.FromSlash(dir), "*.go"))
	testbed.Require(t, err == nil && len(names) != 0, "%s: %d files, %v", dir, len(names), err)
	var out []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		data := testbed.Must(os.ReadFile(name))(t)
		f := testbed.Must(parser.ParseFile(token.NewFileSet(), name, bytes.TrimSpace(data), parser.ParseComments|parser.SkipObjectResolution))(t)
		out = append(out, f)
	}
	return out
}

// declared is what the Go files of the repository declare: functions, methods,
// types, fields, variables, constants and packages, tests among them; and the tests,
// benchmarks and fuzz targets alone.
func declared(t *testing.T) (names map[string]bool, tests []string) {
	t.Helper()
	d := declarations()
	testbed.Require(t, d.err == nil && len(d.names) >= 1000 && len(d.tests) >= 500, "%d names, %d tests, %v", len(d.names), len(d.tests), d.err)
	return d.names, d.tests
}

type found struct {
	names map[string]bool
	tests []string
	err   error
}

// declarations reads the whole repository, once.
var declarations = sync.OnceValue(func() found {
	names, tests := map[string]bool{}, []string{}
	err := fs.WalkDir(os.DirFS(repository), ".", func(name string, d fs.DirEntry, err error) error {
		switch base := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (base[0] == '.' || base == "testdata" || base == "node_modules"):
			return fs.SkipDir
		case path.Ext(name) != ".go":
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(repository, filepath.FromSlash(name)), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil // it is being written
		}
		names[f.Name.Name] = true
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				names[n.Name.Name] = true
				if strings.HasSuffix(name, "_test.go") && n.Recv == nil {
					tests = append(tests, n.Name.Name)
				}
				return false
			case *ast.TypeSpec:
				names[n.Name.Name] = true
			case *ast.ValueSpec:
				for _, id := range n.Names {
					names[id.Name] = true
				}
			case *ast.Field:
				for _, id := range n.Names {
					names[id.Name] = true
				}
			}
			return true
		})
		return nil
	})
	return found{names, tests, err}
})

// TestContributingNamesWhatExists checks that what CONTRIBUTING.md sets in code is in
// the repository: a declared name, a package, a quoted word of the source, a file.
// Commands are checked by TestCommandsSelectTests.
func TestContributingNamesWhatExists(t *testing.T) {
	names, _ := declared(t)
	word, file := regexp.MustCompile(`^\w+(\.\w+)*$`), regexp.MustCompile(`^[\w./*<>-]+$`)
	bases, source := map[string]bool{}, strings.Builder{}
	err := fs.WalkDir(os.DirFS(repository), ".", func(name string, d fs.DirEntry, err error) error {
		switch bases[d.Name()] = true; {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (d.Name()[0] == '.' || d.Name() == "node_modules"):
			return fs.SkipDir
		case path.Ext(name) == ".go" && !strings.Contains(name, "testdata/"):
			data, err := os.ReadFile(filepath.Join(repository, filepath.FromSlash(name)))
			source.Write(data)
			return err
		}
		return nil
	})
	testbed.NoErr(t, err)
	found := 0
	for _, m := range marked.FindAllStringSubmatch(pages(t)["CONTRIBUTING.md"].prose, -1) {
		span, ok := m[1], false
		switch {
		case bases[span]:
			ok = true
		case word.MatchString(span):
			ok = true
			for part := range strings.SplitSeq(span, ".") {
				ok = ok && (names[part] || strings.Contains(source.String(), `"`+part+`"`) || strings.Contains(source.String(), ","+part+`"`))
			}
		case file.MatchString(span) && strings.Contains(span, "/"):
			pattern := regexp.MustCompile(`<\w+>`).ReplaceAllString(span, "*")
			files, err := filepath.Glob(filepath.Join(repository, filepath.FromSlash(pattern)))
			ok = err == nil && len(files) > 0
		default:
			continue
		}
		if found++; !ok {
			t.Errorf("CONTRIBUTING.md: there is no %s", span)
		}
	}
	testbed.Expect(t, found >= 150, "only %d names were found", found)
}

// A run of tests that a page shows, and what it selects.
var (
	marked      = regexp.MustCompile("`([^`]+)`")
	testCommand = regexp.MustCompile("go test (?:'[^']*'|[^';&#`])*")
	selection   = regexp.MustCompile(`-(run|bench|fuzz) ('[^']*'|\S+)`)
)

// TestCommandsSelectTests: the tests that a page names exist;
// go test is silent when a pattern selects none.
func TestCommandsSelectTests(t *testing.T) {
	_, tests := declared(t)
	kinds := map[string]string{"run": "^(Test|Example|Fuzz)", "bench": "^Benchmark", "fuzz": "^Fuzz"}
	found := 0
	for name, p := range pages(t) {
		for _, span := range append(marked.FindAllString(p.prose, -1), fenced(p)...) {
			span = strings.ReplaceAll(span, `\|`, "|") // as a table has it
			for _, command := range testCommand.FindAllString(span, -1) {
				for _, m := range selection.FindAllStringSubmatch(command, -1) {
					if m[2] == "xxx" || m[2] == "'^$'" || m[2] == "." {
						continue
					}
					found++
					top, _, _ := strings.Cut(strings.Trim(m[2], "'"), "/") // what follows are subtests
					patterns := []string{top}
					if !strings.Contains(top, "(") {
						patterns = strings.Split(top, "|")
					}
					for _, one := range patterns {
						kind, re := regexp.MustCompile(kinds[m[1]]), regexp.MustCompile(one)
						testbed.Expect(t, slices.ContainsFunc(tests, func(name string) bool { return kind.MatchString(name) && re.MatchString(name) }),
							"%s: %s selects nothing by %s", name, command, one)
					}
				}
			}
		}
	}
	testbed.Expect(t, found >= 15, "only %d selections were found", found)
}

func fenced(p page) []string {
	var out []string
	for _, b := range p.blocks {
		if b.lang == "sh" {
			out = append(out, strings.Split(b.text, "\n")...)
		}
	}
	return out
}

// TestExamplesAreShownAndChecked: each program among the examples is in the
// README, and a test compares all that it prints.
func TestExamplesAreShownAndChecked(t *testing.T) {
	text := pages(t)["README.md"].prose
	programs, err := filepath.Glob(filepath.Join(repository, "examples", "*", "main.go"))
	testbed.Require(t, err == nil && len(programs) >= 9, "%d examples, %v", len(programs), err)
	compared := regexp.MustCompile(`cmp\.Diff\(want, (got|out\.String\(\))\)|\tmain\(\)\n\t// Output:\n`)
	for _, name := range programs {
		dir := filepath.Base(filepath.Dir(name))
		testbed.Expect(t, strings.Contains(text, "`go run ./examples/"+dir+"`"), "README.md does not show examples/%s", dir)
		test, err := os.ReadFile(filepath.Join(filepath.Dir(name), "main_test.go"))
		testbed.Expect(t, err == nil && compared.Match(test), "no test compares the output of examples/%s: %v", dir, err)
	}
}

// TestPagesNameCodeThatExists: a method, an option or a variable of the
// environment that a page names can be called, set, read. What was once there
// the changelog may go on.
func TestPagesNameCodeThatExists(t *testing.T) {
	names, _ := declared(t)
	code := regexp.MustCompile(`\b(?:Store|Options|HTTPOptions|Receipt|Error|Answer|CommandOracle|Toolbox|toolbox|mcpserver|rw|spec)\.([A-Z]\w+)`)
	variable := regexp.MustCompile(`\bRW_[A-Z_]*[A-Z]\b`)
	var source strings.Builder
	for _, pattern := range []string{"*.go", "*/*.go", "*/*/*.go", "*/*/*/*.go"} {
		files := testbed.Must(filepath.Glob(filepath.Join(repository, pattern)))(t)
		for _, name := range files {
			if data, err := os.ReadFile(name); err == nil {
				source.Write(data)
			}
		}
	}
	found := 0
	for name, p := range pages(t) {
		if name == "CHANGELOG.md" {
			continue
		}
		for _, m := range code.FindAllStringSubmatch(p.text, -1) {
			if found++; !names[m[1]] {
				t.Errorf("%s: nothing declares %s", name, m[0])
			}
		}
		for _, v := range variable.FindAllString(p.text, -1) {
			if found++; !strings.Contains(source.String(), `"`+v+`"`) && !strings.Contains(source.String(), `"`+v+`=`) {
				t.Errorf("%s: nothing reads %s", name, v)
			}
		}
	}
	testbed.Expect(t, found >= 80, "only %d names were found", found)
}

// TestDependenciesHaveTheirReason: the table of dependencies in CONTRIBUTING.md lists
// the modules that go.mod requires directly, and no others.
func TestDependenciesHaveTheirReason(t *testing.T) {
	read := func(name string) string { return string(testbed.Must(os.ReadFile(filepath.Join(repository, name)))(t)) }
	direct, _, _ := strings.Cut(read("go.mod"), "// indirect")
	var required, listed []string
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(direct, -1) {
		required = append(required, m[1])
	}
	_, table, _ := strings.Cut(read("CONTRIBUTING.md"), "## Dependencies")
	table, _, _ = strings.Cut(table, "\n## ")
	for _, m := range regexp.MustCompile(`(?m)^\| (\S+\.\S+) \| .+ \| .+ \| .+ \|$`).FindAllStringSubmatch(table, -1) {
		listed = append(listed, m[1])
	}
	testbed.Expect(t, len(required) != 0 && slices.Equal(required, listed),
		"go.mod requires\n%s\nthe table has\n%s", strings.Join(required, "\n"), strings.Join(listed, "\n"))
}
