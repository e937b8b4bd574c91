package main

import (
	"go/ast"
	"go/build"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestGeneratedFilesAreFresh fails when a generated file is not what the code
// makes now; go generate ./... mends it.
func TestGeneratedFilesAreFresh(t *testing.T) {
	files := Files()
	text := testbed.Must(descriptions("../.."))(t)
	files[descriptionsFile] = text
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
		if err != nil {
			t.Error(err)
			continue
		}
		testbed.Equal(t, cmp.Diff(string(want), string(got)), "", name, " is stale, run go generate ./...")
	}
}

// TestLayers checks that packages depend on those below them alone: nothing
// inside on the root, the engine on no layer, a layer on no other one, and the
// lowest packages on none.
func TestLayers(t *testing.T) {
	cmd := exec.Command("go", "list", "-f", "{{.ImportPath}}{{range .Imports}} {{.}}{{end}}", "./admin", "./analytics", "./around", "./call", "./command", "./handoff", "./hook", "./internal/...")
	cmd.Dir = repository
	out := testbed.Must(cmd.Output())(t)
	const module = "github.com/resilientwrite/resilientwrite"
	programs := []string{"gen", "stress", "mutants", "testbed", "overview"}                        // they stand above the root
	nouns := []string{"/admin", "/analytics", "/around", "/call", "/command", "/handoff", "/hook"} // public, and below the root
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	testbed.Require(t, len(lines) >= 30, "%d packages", len(lines))
	for _, line := range lines {
		words := strings.Fields(line)
		pkg := strings.TrimPrefix(words[0], module+"/internal/")
		top, _, _ := strings.Cut(pkg, "/")
		for _, imported := range words[1:] {
			inside, ok := strings.CutPrefix(imported, module)
			if !ok {
				continue
			}
			below, isInternal := strings.CutPrefix(inside, "/internal/")
			bad := ""
			switch {
			case !isInternal && slices.Contains(nouns, inside):
			case !isInternal && !slices.Contains(programs, top):
				bad = "packages inside do not import those above them"
			case top == "engine" && strings.HasPrefix(below, "layer/"):
				bad = "the engine knows no layer"
			case top == "layer" && strings.HasPrefix(below, "layer/"):
				bad = "layers do not know each other"
			case slices.Contains([]string{"fault", "fsx", "failpoint"}, pkg):
				bad = "it is one of the lowest packages"
			}
			testbed.Expect(t, bad == "", "%s imports %s: %s", words[0], imported, bad)
		}
	}
}

// TestBars checks that the command prints each size.
func TestBars(t *testing.T) {
	var b strings.Builder
	testbed.NoErr(t, bars(&b, repository))
	for line := range strings.Lines(b.String()) {
		words := strings.Fields(line)
		have, err := strconv.Atoi(words[len(words)-4])
		testbed.Expect(t, err == nil && (have != 0 || strings.Contains(line, "columns")), "%q", line)
	}
	testbed.Equal(t, strings.Count(b.String(), "\n"), 8, "lines")
}

// TestExportedNamesAreExplained: what go doc shows of the packages that others
// import has a comment, and one that begins with its name.
func TestExportedNamesAreExplained(t *testing.T) {
	for _, dir := range []string{".", "admin", "analytics", "around", "call", "command", "handoff", "hook", "mcpserver", "spec", "toolbox"} {
		for _, f := range sources(t, dir) {
			for _, decl := range f.Decls {
				switch d := decl.(type) {
				case *ast.FuncDecl:
					if d.Name.IsExported() && receiver(d) != "" {
						explained(t, dir, d.Name.Name, d.Doc)
					}
				case *ast.GenDecl:
					for _, spec := range d.Specs {
						explainedSpec(t, dir, d, spec)
					}
				}
			}
		}
	}
}

// receiver is the exported type of a method, the package for a function, and
// nothing for what go doc does not show.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return "package"
	}
	of := d.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if id, ok := of.(*ast.Ident); ok && id.IsExported() {
		return id.Name
	}
	return ""
}

func explained(t *testing.T, dir, name string, doc *ast.CommentGroup) {
	t.Helper()
	testbed.Expect(t, doc != nil && regexp.MustCompile(`^((A|An|The) )?`+name+`\b`).MatchString(doc.Text()),
		"%s: the comment of %s does not begin with it: %.60q", dir, name, doc.Text())
}

func explainedSpec(t *testing.T, dir string, d *ast.GenDecl, spec ast.Spec) {
	t.Helper()
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() {
			doc := s.Doc
			if doc == nil {
				doc = d.Doc
			}
			explained(t, dir, s.Name.Name, doc)
		}
	case *ast.ValueSpec:
		// A group has one comment for all, which begins as it likes.
		for _, name := range s.Names {
			testbed.Expect(t, !name.IsExported() || s.Doc != nil || s.Comment != nil || d.Doc != nil || d.Tok == token.CONST && ofNamedType(d),
				"%s: %s has no comment", dir, name.Name)
		}
	}
}

// ofNamedType reports whether a group of constants shows the values of a type,
// whose comment go doc prints above them.
func ofNamedType(d *ast.GenDecl) bool {
	id, ok := d.Specs[0].(*ast.ValueSpec).Type.(*ast.Ident)
	return ok && id.IsExported()
}

// TestMethodsDocumentTheirErrors: the comment of each call of a store says how it
// fails, or that it does as another one.
func TestMethodsDocumentTheirErrors(t *testing.T) {
	mentions := regexp.MustCompile(`\b([Ee]rrors?|fails?)\b`)
	calls := 0
	for _, f := range sources(t, ".") {
		for _, decl := range f.Decls {
			d, ok := decl.(*ast.FuncDecl)
			if !ok || !d.Name.IsExported() || d.Recv == nil || receiver(d) != "Store" || d.Type.Results == nil {
				continue
			}
			last := d.Type.Results.List[len(d.Type.Results.List)-1].Type
			if id, ok := last.(*ast.Ident); !ok || id.Name != "error" {
				continue
			}
			if calls++; !mentions.MatchString(d.Doc.Text()) {
				t.Errorf("the comment of %s does not say how it fails", d.Name.Name)
			}
		}
	}
	testbed.Expect(t, calls >= 45, "only %d calls were found", calls)
}

// TestEveryPackageHasAComment: also those that only this module imports.
func TestEveryPackageHasAComment(t *testing.T) {
	found := 0
	err := fs.WalkDir(os.DirFS(repository), ".", func(name string, d fs.DirEntry, err error) error {
		switch base := d.Name(); {
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		case name != "." && (base[0] == '.' || base == "testdata" || base == "node_modules"):
			return fs.SkipDir
		}
		pkg, err := build.ImportDir(filepath.Join(repository, filepath.FromSlash(name)), build.ImportComment)
		if err != nil || len(pkg.GoFiles) == 0 {
			return nil // no Go here, or only tests
		}
		if found++; len(strings.Fields(pkg.Doc)) < 5 {
			t.Errorf("package %s in %s has no comment", pkg.Name, name)
		}
		return nil
	})
	testbed.Expect(t, err == nil && found >= 35, "%d packages, %v", found, err)
}
