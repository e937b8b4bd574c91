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
	names := must(os.ReadDir("."))(t)
	var declared []string
	for _, name := range names {
		if !strings.HasSuffix(name.Name(), ".go") || strings.HasSuffix(name.Name(), "_test.go") {
			continue
		}
		f := must(parser.ParseFile(token.NewFileSet(), name.Name(), nil, parser.SkipObjectResolution))(t)
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

// TestActionsOfBothVersions: a caller in Go has eight actions, and version 1 of
// the envelope keeps its six.
func TestActionsOfBothVersions(t *testing.T) {
	old, two := rw.Actions()[:6], rw.Actions()[6:]
	if !slices.Equal(two, []rw.Action{rw.ActionFixCall, rw.ActionReadAgain}) {
		t.Fatal(rw.Actions())
	}
	for _, d := range rw.Details() {
		e := rw.NewError("op", d, "", nil)
		env := e.Envelope()
		if !slices.Contains(old, env.SuggestedAction) || env.Context["action"] != string(e.Action) ||
			env.SuggestedAction != e.Action && !slices.Contains(two, e.Action) {
			t.Errorf("%s: %s, in version 1 %s with %v", d, e.Action, env.SuggestedAction, env.Context["action"])
		}
	}
	for d, want := range map[rw.Detail][2]rw.Action{
		rw.ErrHashMismatch:      {rw.ActionReadAgain, rw.ActionAskUser},
		rw.ErrInvalidArgument:   {rw.ActionFixCall, rw.ActionAbort},
		rw.ErrDestructiveShrink: {rw.ActionFixCall, rw.ActionAskUser},
		rw.ErrSecretInName:      {rw.ActionFixCall, rw.ActionRedact},
		rw.ErrRiskBlocked:       {rw.ActionRedact, rw.ActionRedact},
		rw.ErrDenied:            {rw.ActionAskUser, rw.ActionAskUser},
	} {
		e := rw.NewError("op", d, "", nil)
		if got := [2]rw.Action{e.Action, e.Envelope().SuggestedAction}; got != want {
			t.Errorf("%s: %v, want %v", d, got, want)
		}
	}
}
