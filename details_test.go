package resilientwrite_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestEveryDetailHasItsRow: a reason without a row would reach a caller as an
// error of no kind, with no advice.
func TestEveryDetailHasItsRow(t *testing.T) {
	names, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	for _, name := range names {
		if !strings.HasSuffix(name.Name(), ".go") || strings.HasSuffix(name.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "Detail" {
				for _, v := range spec.Values {
					declared = append(declared, strings.Trim(v.(*ast.BasicLit).Value, `"`))
				}
			}
			return true
		})
	}
	slices.Sort(declared)
	rows := rw.Details()
	if len(declared) < 80 || len(slices.Compact(slices.Clone(declared))) != len(declared) {
		t.Errorf("%d details are declared, some of them twice", len(declared))
	}
	for _, d := range declared {
		if !slices.Contains(rows, rw.Detail(d)) {
			t.Errorf("%s has no row in the table of details", d)
		}
	}
	for _, d := range rows {
		kind, reason, action, code, hint := d.Describe()
		if !slices.Contains(declared, string(d)) || !slices.Contains(rw.Kinds(), kind) || !slices.Contains(rw.Reasons(), reason) ||
			!slices.Contains(rw.Actions(), action) || code == rw.CodeOK || hint == "" {
			t.Errorf("%s: %s, %s, %s, %d, %q", d, string(kind), reason, action, code, hint)
		}
	}
}
