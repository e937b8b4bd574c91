package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGeneratedFilesAreFresh fails when a generated file is not what the code
// makes now; go generate ./... mends it.
func TestGeneratedFilesAreFresh(t *testing.T) {
	for name, want := range Files() {
		got, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is stale, run go generate ./...\n%s", name, diff)
		}
	}
}
