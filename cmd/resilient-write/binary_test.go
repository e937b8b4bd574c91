package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Binary builds the command, once for all tests of both packages, and returns
// its path; RemoveBinary removes it.
var Binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "rwbin")
	if err != nil {
		return "", err
	}
	binaryDir = dir
	path := filepath.Join(dir, "resilient-write")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

var binaryDir string

// RemoveBinary removes what Binary built.
func RemoveBinary() {
	if binaryDir != "" {
		os.RemoveAll(binaryDir)
	}
}

// build returns the path of the built command.
func build(t testing.TB) string {
	t.Helper()
	path := must(Binary())(t)
	return path
}
