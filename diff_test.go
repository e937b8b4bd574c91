package resilientwrite_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestDiffBetweenVersions: any two versions of a file compare, across deletion and
// move, with the file on disk as the newest side.
func TestDiffBetweenVersions(t *testing.T) {
	s, dir := opened(t, nil)
	write := func(content string) uint64 {
		t.Helper()
		return must(s.SafeWrite(context.Background(), put("a.txt", content, rw.ModeOverwrite)))(t).Receipt.JournalSeq
	}
	diff := func(r rw.DiffRequest) rw.DiffResult {
		t.Helper()
		return must(s.Diff(context.Background(), r))(t, r)
	}
	one := write("one\nsame\n")
	d := diff(rw.DiffRequest{Path: "a.txt"})
	expect(t, d.From == 0 && strings.Contains(d.Diff, "+one\n") && d.FromSHA256.String() == "", "the first version: %+v", d)
	write("two\nsame\n")
	if d := diff(rw.DiffRequest{Path: "a.txt"}); d.From != one || d.To != 0 || !strings.Contains(d.Diff, "-one\n+two\n same\n") {
		t.Errorf("the newest change: %+v", d)
	}
	noErr(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("stranger\nsame\n"), 0o644))
	// What he wrote over is in history, although it was the newest version.
	if d := diff(rw.DiffRequest{Path: "a.txt"}); !strings.Contains(d.Diff, "-two\n+stranger\n") {
		t.Errorf("against the newest version: %+v", d)
	}
	if d := diff(rw.DiffRequest{Path: "a.txt", From: one}); !strings.Contains(d.Diff, "-one\n+stranger\n") {
		t.Errorf("what a stranger did: %+v", d)
	}
	three := write("three\nsame\n")
	if d := diff(rw.DiffRequest{Path: "a.txt", From: one, To: three}); !strings.Contains(d.Diff, "-one\n+three\n") || d.FromSHA256 == d.ToSHA256 {
		t.Errorf("two versions: %+v", d)
	}
	if d := diff(rw.DiffRequest{Path: "a.txt", From: three, To: three}); !d.Identical || d.Diff != "" {
		t.Errorf("a version and itself: %+v", d)
	}
	write("four\nsame\n")
	must(s.Move(context.Background(), rw.MoveRequest{Path: "a.txt", To: "b.txt"}))(t)
	if d := diff(rw.DiffRequest{Path: "b.txt"}); !strings.Contains(d.Diff, "-three\n+four\n") {
		t.Errorf("after a move: %+v", d)
	}
	must(s.Delete(context.Background(), rw.DeleteRequest{Path: "b.txt"}))(t)
	if d := diff(rw.DiffRequest{Path: "b.txt"}); !strings.Contains(d.Diff, "-four\n-same\n") || d.ToSHA256.String() != "" {
		t.Errorf("after a deletion: %+v", d)
	}
}

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
