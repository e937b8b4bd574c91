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
)

// declared is what the Go files of the repository declare: functions, methods,
// types, fields, variables and constants, tests among them. The second map has
// the tests, benchmarks and fuzz targets of each directory.
func declared(t *testing.T) (names map[string]bool, tests map[string][]string) {
	t.Helper()
	d := declarations()
	if d.err != nil || len(d.names) < 1000 || len(d.tests) < 10 {
		t.Fatalf("%d names, %d directories with tests, %v", len(d.names), len(d.tests), d.err)
	}
	return d.names, d.tests
}

type found struct {
	names map[string]bool
	tests map[string][]string
	err   error
}

// declarations reads the whole repository, once.
var declarations = sync.OnceValue(func() found {
	names, tests := map[string]bool{}, map[string][]string{}
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
			return nil // somebody is writing it
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				names[n.Name.Name] = true
				if strings.HasSuffix(name, "_test.go") && n.Recv == nil {
					tests[path.Dir(name)] = append(tests[path.Dir(name)], n.Name.Name)
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

var (
	marked      = regexp.MustCompile("`([^`]+)`")
	placeholder = regexp.MustCompile(`<[a-z]+>`)
	goName      = regexp.MustCompile(`^(?:[A-Za-z]\w*\.)?([A-Za-z_]\w*)(?:\(\))?$`)
	fileName    = regexp.MustCompile(`^[\w.*/-]+$`)
)

// TestContributingNamesWhatExists: each file, test and name that the page tells
// a contributor to touch is there. A name that is only an example for something
// new is written in italics.
func TestContributingNamesWhatExists(t *testing.T) {
	names, _ := declared(t)
	p, ok := pages(t)["CONTRIBUTING.md"]
	if !ok {
		t.Fatal("there is no CONTRIBUTING.md")
	}
	words := notOurs()
	files, known := 0, 0
	for _, m := range marked.FindAllStringSubmatch(p.prose, -1) {
		word := placeholder.ReplaceAllString(m[1], "*")
		name := goName.FindStringSubmatch(word)
		switch {
		case strings.Contains(word, " ") || words[word]: // commands are looked at below
		case name != nil && names[name[1]]:
			known++
		case fileName.MatchString(word):
			if files++; !isFile(t, word) {
				t.Errorf("there is no %s, neither a file nor a name of the code", word)
			}
		default:
			t.Errorf("what is %s? neither a file nor a name of the code nor a command", word)
		}
	}
	if files < 30 || known < 40 {
		t.Errorf("only %d files and %d names were found", files, known)
	}
}

// isFile reports whether a file, or a directory with / at its end, is there; a
// name without a directory may be that of an example.
func isFile(t *testing.T, word string) bool {
	t.Helper()
	for _, place := range []string{word, "examples/*/" + word} {
		found, err := filepath.Glob(filepath.Join(repository, filepath.FromSlash(place)))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) > 0 {
			return true
		}
	}
	return false
}

// notOurs are words of the page that come from elsewhere: tags of a struct,
// marks that programs know, settings of the tests.
func notOurs() map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(`json desc required:"true" enum:"a,b" default min max maxlen omitempty -v -update code testdata RW_LONG RW_LONG=5 RW_SEED=7 GOOS=darwin`) {
		out[w] = true
	}
	return out
}

// A run of tests that a page shows, what it selects, and where it runs.
var (
	testCommand = regexp.MustCompile("go test (?:'[^']*'|[^';&#`])*")
	selection   = regexp.MustCompile(`-(run|bench|fuzz) ('[^']*'|\S+)`)
	inDirectory = regexp.MustCompile(`cd ([\w/]+) && $`)
)

// TestCommandsSelectTests: whoever runs the tests that a page names runs some;
// go test is silent when a pattern selects none.
func TestCommandsSelectTests(t *testing.T) {
	_, tests := declared(t)
	found := 0
	for name, p := range pages(t) {
		for _, span := range append(marked.FindAllString(p.prose, -1), fenced(p)...) {
			span = strings.ReplaceAll(span, `\|`, "|") // as a table has it
			for _, at := range testCommand.FindAllStringIndex(span, -1) {
				command, within := span[at[0]:at[1]], "."
				if m := inDirectory.FindStringSubmatch(span[:at[0]]); m != nil {
					within = m[1]
				}
				dirs := packagesOf(command, within, tests)
				for _, m := range selection.FindAllStringSubmatch(command, -1) {
					if m[2] == "xxx" || m[2] == "'^$'" || m[2] == "." {
						continue
					}
					found++
					for _, one := range alternatives(strings.Trim(m[2], "'")) {
						if !selects(t, one, m[1], dirs, tests) {
							t.Errorf("%s: %s selects nothing in %v by %s", name, command, dirs, one)
						}
					}
				}
			}
		}
	}
	if found < 15 {
		t.Errorf("only %d selections were found", found)
	}
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

// packagesOf are the directories that a command tests.
func packagesOf(command, within string, tests map[string][]string) []string {
	command = selection.ReplaceAllString(command, "")
	var out []string
	for _, word := range strings.Fields(command)[2:] {
		dir := path.Join(within, word)
		switch {
		case word == "./..." || strings.HasSuffix(word, "/..."):
			for d := range tests {
				if base := path.Dir(dir); base == "." || strings.HasPrefix(d+"/", base+"/") {
					out = append(out, d)
				}
			}
		case word == "." || strings.HasPrefix(word, "./"):
			out = append(out, dir)
		}
	}
	if len(out) == 0 {
		out = []string{within}
	}
	return out
}

// alternatives splits a pattern at the bars that stand in no parentheses.
func alternatives(pattern string) []string {
	var out []string
	depth, from := 0, 0
	for i, c := range pattern {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == '|' && depth == 0:
			out, from = append(out, pattern[from:i]), i+1
		}
	}
	return append(out, pattern[from:])
}

func selects(t *testing.T, pattern, flag string, dirs []string, tests map[string][]string) bool {
	t.Helper()
	top, _, _ := strings.Cut(pattern, "/") // what is behind it are subtests
	re, err := regexp.Compile(top)
	if err != nil {
		t.Errorf("%s: %v", pattern, err)
		return true
	}
	kinds := map[string][]string{"run": {"Test", "Example", "Fuzz"}, "bench": {"Benchmark"}, "fuzz": {"Fuzz"}}[flag]
	return slices.ContainsFunc(dirs, func(dir string) bool {
		return slices.ContainsFunc(tests[dir], func(name string) bool {
			return re.MatchString(name) && slices.ContainsFunc(kinds, func(k string) bool { return strings.HasPrefix(name, k) })
		})
	})
}

// TestShippedHooksAreShown checks that docs/embed.md names each hook of the
// library, and that the test of refusals has each rule by which one refuses.
func TestShippedHooksAreShown(t *testing.T) {
	text := pages(t)["docs/embed.md"].prose
	tried, err := os.ReadFile(filepath.Join(repository, "hooks_task_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	hooks, rules := 0, 0
	for _, f := range sources(t, ".") {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil || !slices.Contains([]string{"Authorize", "Observe", "Transform", "Verify"}, n.Name.Name) {
					return true
				}
				of := n.Recv.List[0].Type
				if star, ok := of.(*ast.StarExpr); ok {
					of = star.X
				}
				if id := of.(*ast.Ident); id.IsExported() {
					if hooks++; !strings.Contains(text, "`"+id.Name+"`") {
						t.Errorf("docs/embed.md does not name the hook %s", id.Name)
					}
				}
			case *ast.CallExpr:
				of, ok := n.Fun.(*ast.SelectorExpr)
				if !ok || of.Sel.Name != "Rule" || len(n.Args) != 1 {
					return true
				}
				if lit, ok := n.Args[0].(*ast.BasicLit); ok {
					if rules++; !strings.Contains(string(tried), lit.Value+":") {
						t.Errorf("no test refuses by the rule %s", lit.Value)
					}
				}
			}
			return true
		})
	}
	if hooks < 6 || rules < 8 {
		t.Errorf("only %d hooks and %d rules were found", hooks, rules)
	}
}

// TestExamplesAreShownAndChecked: each program among the examples stands in the
// README, and a test compares all that it prints.
func TestExamplesAreShownAndChecked(t *testing.T) {
	text := pages(t)["README.md"].prose
	programs, err := filepath.Glob(filepath.Join(repository, "examples", "*", "main.go"))
	if err != nil || len(programs) < 9 {
		t.Fatalf("%d examples, %v", len(programs), err)
	}
	compared := regexp.MustCompile(`cmp\.Diff\(want, (got|out\.String\(\))\)`)
	for _, name := range programs {
		dir := filepath.Base(filepath.Dir(name))
		if !strings.Contains(text, "`go run ./examples/"+dir+"`") {
			t.Errorf("README.md does not show examples/%s", dir)
		}
		test, err := os.ReadFile(filepath.Join(filepath.Dir(name), "main_test.go"))
		if err != nil || !compared.Match(test) {
			t.Errorf("no test compares the output of examples/%s: %v", dir, err)
		}
	}
}

// TestPagesNameCodeThatExists: a method, an option or a variable of the
// environment that a page names can be called, set, read. What was once there
// the changelog may go on to tell.
func TestPagesNameCodeThatExists(t *testing.T) {
	names, _ := declared(t)
	code := regexp.MustCompile(`\b(?:Store|Options|HTTPOptions|Receipt|Error|Answer|CommandOracle|Toolbox|mcpserver|rw|spec)\.([A-Z]\w+)`)
	variable := regexp.MustCompile(`\bRW_[A-Z_]*[A-Z]\b`)
	var source strings.Builder
	for _, pattern := range []string{"*.go", "*/*.go", "*/*/*.go"} {
		files, err := filepath.Glob(filepath.Join(repository, pattern))
		if err != nil {
			t.Fatal(err)
		}
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
	if found < 80 {
		t.Errorf("only %d names were found", found)
	}
}
