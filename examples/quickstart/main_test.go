package main

import (
	"bytes"
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resilientwrite/resilientwrite/examples/internal/demo"
)

// The test binary is its own crashing child.
func TestMain(m *testing.M) {
	if !demo.Crashes(crash) {
		os.Exit(m.Run())
	}
}

const want = `created   docs/plan.md  7 bytes, HASH
replaced  docs/plan.md  9 bytes, HASH
appended  docs/plan.md  18 bytes, HASH
refused   safe_write docs/plan.md: stale precondition: hash_mismatch
          suggested action read_again, effect none: the file changed since you read it; read it again and apply your change to the current content
crashed   docs/plan.md still holds "# Plan B"…
recovered docs/plan.md  journal row 5
now       docs/plan.md holds "# Plan C\n"
journal
  1  commit   create    docs/plan.md quickstart
  2  commit   overwrite docs/plan.md quickstart
  3  commit   append    docs/plan.md quickstart
  4  refused  overwrite docs/plan.md quickstart
  5  commit   overwrite docs/plan.md child
`

func TestQuickstart(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	var out bytes.Buffer
	if err := run(&out, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(`[0-9a-f]{12}\b`).ReplaceAllString(out.String(), "HASH")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
