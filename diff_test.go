package resilientwrite_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestDiffRefuses: contents that cannot be compared are refused with the reason.
func TestDiffRefuses(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	for _, content := range []string{"a\x00b", "c\x00d"} {
		must(s.SafeWrite(context.Background(), put("bin", content, rw.ModeOverwrite)))(t)
	}
	d := must(s.Diff(context.Background(), rw.DiffRequest{Path: "bin"}))(t)
	expect(t, d.Omitted == "binary" && d.Diff == "" && !d.Identical, "%+v", d)
	must(s.SafeWrite(context.Background(), put("big", strings.Repeat("x\n", 1<<20), rw.ModeOverwrite)))(t)
	equal(t, must(s.Diff(context.Background(), rw.DiffRequest{Path: "big"}))(t).Omitted, "too_large")
	must(s.SafeWrite(context.Background(), put("long", strings.Repeat("line\n", 20000), rw.ModeOverwrite)))(t)
	d, err := s.Diff(context.Background(), rw.DiffRequest{Path: "long"})
	expect(t, err == nil && d.Truncated && len(d.Diff) <= 33<<10, "truncated %v, %d bytes, %v", d.Truncated, len(d.Diff), err)
	for _, row := range []struct {
		r    rw.DiffRequest
		want rw.Detail
	}{
		{rw.DiffRequest{Path: "nope"}, rw.ErrNotFound},
		{rw.DiffRequest{Path: "../x"}, rw.ErrEscapesWorkspace},
		{rw.DiffRequest{Path: "bin", From: 999}, rw.ErrVersionNotFound},
		{rw.DiffRequest{Path: "bin", To: 999}, rw.ErrVersionNotFound},
	} {
		fails(s.Diff(context.Background(), row.r))(t, row.want, row.r)
	}
}

// TestNoNameBeginsALineOfADiff: a line break in a name must not look like a change,
// or like the diff of another file.
func TestNoNameBeginsALineOfADiff(t *testing.T) {
	testbed.SkipIf(t, runtime.GOOS == "windows", "such names are not possible")
	s, name := open(t, t.TempDir(), nil), "a\n+++ b/other\n@@ -1 +1 @@\n-good\n+bad"
	must(s.SafeWrite(context.Background(), put(name, "one\n", rw.ModeCreate)))(t)
	dry := put(name, "two\n", rw.ModeOverwrite)
	dry.DryRun = true
	diffs := []string{must(s.SafeWrite(context.Background(), dry))(t).Diff}
	stale := put(name, "other\n", rw.ModeOverwrite)
	stale.Expect = rw.Exactly(must(s.SafeWrite(context.Background(), put(name, "two\n", rw.ModeOverwrite)))(t).PrevSHA256)
	_, err := s.SafeWrite(context.Background(), stale)
	var e *rw.Error
	require(t, errors.As(err, &e), "%v", err)
	conflict, _ := e.Context["diff"].(string)
	diffs = append(diffs, must(s.Diff(context.Background(), rw.DiffRequest{Path: name}))(t).Diff, conflict)
	for i, diff := range diffs {
		expect(t, strings.Contains(diff, "two\n") && strings.Count("\n"+diff, "\n+++ ") == 1 && !strings.Contains("\n"+diff, "\n+bad"), "%d: %q", i, diff)
	}
}
