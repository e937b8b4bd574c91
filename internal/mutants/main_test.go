package main

import (
	"go/parser"
	"go/token"
	"testing"
)

// TestMutantsApply checks that every mutant still finds its place and leaves a
// file that parses. Whether the sweeps catch it takes the command.
func TestMutantsApply(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
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
