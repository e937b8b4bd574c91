package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resilientwrite/resilientwrite/examples/internal/demo"
)

// The test binary is its own dying child.
func TestMain(m *testing.M) {
	if !demo.Crashes(die) {
		os.Exit(m.Run())
	}
}

const want = `found     [1 2 3] of 5 pieces, missing [4 5]
refused   chunk_compose: stale precondition: chunk_count_mismatch
sent      piece 4  24 bytes
sent      piece 5  23 bytes
preview   5 pieces, 124 bytes, begins "# Quarterly report\n"
composed  report.md  124 bytes of 5 pieces, cleaned up: true
again     already_applied: the session was composed into report.md and removed
journal
  chunk    first    .resilient_write/chunks/quarterly-report/part-001.txt
  chunk    first    .resilient_write/chunks/quarterly-report/part-002.txt
  chunk    first    .resilient_write/chunks/quarterly-report/part-003.txt
  chunk    second   .resilient_write/chunks/quarterly-report/part-004.txt
  chunk    second   .resilient_write/chunks/quarterly-report/part-005.txt
  compose  second   report.md
`

func TestChunked(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir := t.TempDir()
	var out bytes.Buffer
	if err := run(&out, dir); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	got, err := os.ReadFile(filepath.Join(dir, "report.md"))
	if err != nil || string(got) != strings.Join(report, "") {
		t.Errorf("%v: %q", err, got)
	}
}
