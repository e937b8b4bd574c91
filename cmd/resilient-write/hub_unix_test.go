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

// TestHubIsAProgramOfItsOwn: both subcommands run the hub program with all
// arguments, and exit with its code; if it is missing, they say how to get it.
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

// TestStatusShowsTheLag: status reports how many rows a hub lacks, and whether
// the task was lost.
func TestStatusShowsTheLag(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, ".resilient_write")
	s := must(rw.Open(t.Context(), dir, &rw.Options{StateDir: state}))(t)
	for range 3 {
		must(s.SafeWrite(t.Context(), rw.SafeWriteRequest{Path: "a.txt", Content: []byte("text\n"), Mode: rw.ModeAppend}))(t)
	}
	status := func() string {
		var out, errs bytes.Buffer
		if code := run([]string{"status", "--root", dir, "--state-dir", state}, os.Getenv, strings.NewReader(""), &out, &errs); code != 0 {
			t.Fatal(code, errs.String())
		}
		return out.String()
	}
	if strings.Contains(status(), `"hub"`) {
		t.Error("there is no hub")
	}
	for state, want := range map[string]string{
		`{"seq":1,"task":"t"}`:    `"hub":{"seq":1,"waiting":2,"task":"t"}`,
		`{"seq":3,"forked":true}`: `"hub":{"seq":3,"waiting":0,"forked":true}`,
	} {
		noErr(t, s.Admin().SetShipState([]byte(state)))
		if got := status(); !strings.Contains(got, want) {
			t.Errorf("%s: %s", state, got)
		}
	}
	s.Close(t.Context())
}
