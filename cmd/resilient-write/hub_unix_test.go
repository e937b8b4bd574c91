//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestHubIsAProgramOfItsOwn: both subcommands run it with all arguments, and end
// as it does; without it they say how to get it.
func TestHubIsAProgramOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args, got string
		code      rw.Code
	}{
		{"hub status --hub x", "status --hub x|typed\n", 6},
		{"--root w hub ship --task t", "--root w ship --task t|typed\n", 6},
		{"resume t --into d", "resume t --into d|typed\n", 6},
		{"hub verify --json", "verify --json|typed\n", 6},
	} {
		t.Setenv("PATH", dir)
		var out, errs bytes.Buffer
		code := run(strings.Fields(c.args), os.Getenv, strings.NewReader(""), &out, &errs)
		if code != rw.CodeNotFound || !strings.Contains(errs.String(), "go build") {
			t.Errorf("%s without it: %d %s%s", c.args, code, out.String(), errs.String())
		}
		os.WriteFile(filepath.Join(dir, hubProgram), []byte("#!/bin/sh\nread -r line\necho \"$*|$line\"\nexit 6\n"), 0o755)
		out.Reset()
		code = run(strings.Fields(c.args), os.Getenv, strings.NewReader("typed\n"), &out, &errs)
		if out.String() != c.got || code != c.code {
			t.Errorf("%s: %d %q", c.args, code, out.String())
		}
		os.Remove(filepath.Join(dir, hubProgram))
	}
}
