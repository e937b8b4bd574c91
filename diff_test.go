package resilientwrite_test

import (
	"context"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
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
	if d, err := s.Diff(context.Background(), rw.DiffRequest{Path: "long"}); err != nil || !d.Truncated || len(d.Diff) > 33<<10 {
		t.Errorf("truncated %v, %d bytes, %v", d.Truncated, len(d.Diff), err)
	}
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
