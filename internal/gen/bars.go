package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// bars prints the size of a tree, next to the target sizes.
func bars(w io.Writer, dir string) error {
	var production, tests, root, files int
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != "." && strings.HasPrefix(d.Name(), ".") || ownModules[path] {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		data, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			return err
		}
		lines := bytes.Count(data, []byte("\n"))
		switch {
		case strings.HasSuffix(path, "_test.go"):
			tests += lines
		case filepath.Dir(path) == ".":
			root, files = root+lines, files+1
			fallthrough
		default:
			production += lines
		}
		return nil
	})
	if err != nil {
		return err
	}
	cycle, err := largestCycle(dir)
	if err != nil {
		return err
	}
	all, err := goDoc(dir, "-all")
	if err != nil {
		return err
	}
	short, err := goDoc(dir, "-short")
	if err != nil {
		return err
	}
	wide := 0
	for line := range strings.Lines(string(all)) {
		if len([]rune(strings.TrimSuffix(line, "\n"))) > 100 {
			wide++
		}
	}
	for _, bar := range []struct {
		what      string
		have, max int
	}{
		{"production lines", production, 60_000},
		{"test lines", tests, 45_000},
		{"production lines of the root package", root, 7_000},
		{"production files of the root package", files, 30},
		{"files of its largest reference cycle", cycle, 6},
		{"lines of go doc -all .", bytes.Count(all, []byte("\n")), 3_000},
		{"lines of go doc -all . over 100 columns", wide, 0},
		{"lines of go doc -short .", bytes.Count(short, []byte("\n")), 230},
	} {
		fmt.Fprintf(w, "%-42s %7d  at most %d\n", bar.what, bar.have, bar.max)
	}
	return nil
}

// largestCycle returns how many files of a package refer to each other in a cycle at
// most. Methods count as references to the file that declares them.
func largestCycle(dir string) (int, error) {
	set := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return 0, err
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return 0, err
		}
		files = append(files, f)
	}
	// What other packages declare stays unresolved, which is no error here.
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: noImporter{}, Error: func(error) {}, FakeImportC: true}
	pkg, _ := conf.Check(dir, set, files, info)
	refers := map[string]map[string]bool{}
	for id, obj := range info.Uses {
		if obj.Pkg() != pkg || obj.Parent() != pkg.Scope() && obj.Parent() != nil {
			continue // of another package, or local to a function
		}
		if from, to := set.File(id.Pos()).Name(), set.File(obj.Pos()).Name(); from != to {
			if refers[from] == nil {
				refers[from] = map[string]bool{}
			}
			refers[from][to] = true
		}
	}
	// Two files are in one cycle if each of them reaches the other.
	reach := map[string]map[string]bool{}
	var visit func(seen map[string]bool, file string)
	visit = func(seen map[string]bool, file string) {
		for next := range refers[file] {
			if !seen[next] {
				seen[next] = true
				visit(seen, next)
			}
		}
	}
	for file := range refers {
		reach[file] = map[string]bool{}
		visit(reach[file], file)
	}
	largest := 0
	for file := range reach {
		n := 0
		for other := range reach[file] {
			if reach[other][file] {
				n++
			}
		}
		largest = max(largest, n)
	}
	return largest, nil
}

// noImporter imports no package.
type noImporter struct{}

func (noImporter) Import(path string) (*types.Package, error) {
	return nil, fmt.Errorf("%s is not read", path)
}

func goDoc(dir, how string) ([]byte, error) {
	cmd := exec.Command("go", "doc", how, ".")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go doc %s: %w", how, err)
	}
	return out, nil
}

// ownModules are directories that the sizes leave out.
var ownModules = map[string]bool{"adapters": true, "bench": true, "interop": true, "report": true, "hub": true, "testdata": true}
