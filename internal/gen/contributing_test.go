package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

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
						if !slices.ContainsFunc(tests, func(name string) bool { return kind.MatchString(name) && re.MatchString(name) }) {
							t.Errorf("%s: %s selects nothing by %s", name, command, one)
						}
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
	compared := regexp.MustCompile(`cmp\.Diff\(want, (got|out\.String\(\))\)`)
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
