package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestMutantsApply checks that every mutant still finds its place and leaves a
// file that parses. Whether the sweeps catch it takes the command.
func TestMutantsApply(t *testing.T) {
	root := testbed.Must(moduleRoot())(t)
	for _, m := range mutants {
		src, err := m.apply(root)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.File, src, 0); err != nil {
			t.Errorf("point %d (%s): %v", m.Point, m.Fault, err)
		}
	}
}

// TestMutantsAreListed checks that docs/durability.md has the table of -list.
func TestMutantsAreListed(t *testing.T) {
	root := testbed.Must(moduleRoot())(t)
	page := testbed.Must(os.ReadFile(filepath.Join(root, "docs", "durability.md")))(t)
	testbed.Expect(t, strings.Contains(string(page), table()), "docs/durability.md does not have the table that go run ./internal/mutants -list prints")
}
