package resilientwrite_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/hook"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

const (
	mergeBase   = "one\ntwo\nthree\nfour\nfive\n"
	mergeOthers = "one\nTWO\nthree\nfour\nfive\n"
)

// stale returns a store with a file that another program changed after the returned
// version.
func stale(t *testing.T, path, base, others string, opts *rw.Options) (string, *rw.Store, rw.Expect) {
	t.Helper()
	s, dir := opened(t, opts)
	r := write(t, s, path, base, rw.ModeCreate)
	noErr(t, s.Sync(background))
	noErr(t, os.WriteFile(filepath.Join(dir, path), []byte(others), 0o644))
	return dir, s, rw.Exactly(r.SHA256)
}

// TestMergeRefused: what cannot be merged is refused as without a merge.
func TestMergeRefused(t *testing.T) {
	secret := credentials()[0].secret
	cases := map[string]struct{ path, base, others, mine string }{
		"overlap":            {"a.txt", mergeBase, mergeOthers, "one\nzwei\nthree\nfour\nfive\n"},
		"adjacent":           {"a.txt", mergeBase, mergeOthers, "one\ntwo\ndrei\nfour\nfive\n"},
		"not UTF-8":          {"a.txt", mergeBase, mergeOthers + "\xff\n", "ONE\ntwo\nthree\nfour\nfive\n"},
		"NUL":                {"a.txt", mergeBase, mergeOthers, mergeBase + "\x00\n"},
		"syntax":             {"a.json", "{\n\"a\": 1,\n\"b\": 2,\n\"c\": 3\n}\n", "{\n\"a\": 1,\n\"b\": 2,\n\"c\": 3\n}\n}\n", "{\n\"a\": 0,\n\"b\": 2,\n\"c\": 3\n}\n"},
		"too large":          {"a.txt", mergeBase, strings.Repeat("x\n", 4<<20) + "x\n", "ONE\ntwo\nthree\nfour\nfive\n"},
		"deleted":            {"a.txt", mergeBase, "", "ONE\n"},
		"damaged base":       {"a.txt", mergeBase, mergeOthers, "one\ntwo\nthree\nfour\n5\n"},
		"a secret of others": {"a.txt", mergeBase, "one\n" + credentials()[0].text + "\nthree\nfour\nfive\n", "one\nzwei\nthree\nfour\nfive\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir, s, expect := stale(t, c.path, c.base, c.others, nil)
			if name == "deleted" {
				os.Remove(filepath.Join(dir, c.path))
			}
			if name == "damaged base" {
				kept := statePath(dir, "history", hash(c.base)[:2], hash(c.base))
				noErr(t, os.WriteFile(kept, []byte(c.others), 0o600))
			}
			_, err := s.SafeWrite(background, rw.SafeWriteRequest{Path: c.path, Content: []byte(c.mine), Mode: rw.ModeOverwrite, Expect: expect, Merge: rw.MergeClean, AllowShrink: true})
			var e *rw.Error
			require(t, errors.As(err, &e) && e.Detail == rw.ErrHashMismatch && e.Effect == rw.EffectNone, "%v", err)
			if name != "deleted" {
				fileIs(t, dir, c.path, c.others)
			}
			if name == "overlap" {
				testbed.Expect(t, e.Action == rw.ActionReadAgain && strings.Contains(e.Context["diff"].(string), "+TWO") && strings.Contains(e.Context["your_diff"].(string), "+zwei") &&
					slices.Equal(e.Context["conflict_lines"].([]int), []int{2}), "%+v", e)
			}
			if text := e.Context["diff"]; name == "a secret of others" && (text == nil || strings.Contains(text.(string), secret)) {
				t.Errorf("%v", text)
			}
			check(t, s, false)
		})
	}
}

// TestGateAndVerifierSeeMergedBytes: the verifier gets the merged bytes, and content
// that the gate refuses is not added by a merge.
func TestGateAndVerifierSeeMergedBytes(t *testing.T) {
	seen := ""
	opts := &rw.Options{Gate: rw.Gate{Mode: rw.GateBlock}, Hooks: hook.Hooks{Verify: []hook.Verifier{verifier(func(_ context.Context, c hook.Staged) error {
		data, err := os.ReadFile(c.Files[0].Staged)
		seen = string(data)
		return err
	})}}}
	dir, s, expect := stale(t, "a.txt", mergeBase, mergeOthers, opts)
	edit := rw.EditRequest{Path: "a.txt", Expect: expect, Merge: rw.MergeClean, Edits: []rw.EditOp{{Old: "five", New: credentials()[0].text}}}
	fails(s.Edit(background, edit))(t, rw.ErrRiskBlocked)
	fileIs(t, dir, "a.txt", mergeOthers)
	edit.Edits[0].New = "5"
	must(s.Edit(background, edit))(t)
	if want := "one\nTWO\nthree\nfour\n5\n"; seen != want {
		t.Errorf("the verifier saw %q", seen)
	}
}

func TestMergeByPolicy(t *testing.T) {
	for policy, want := range map[string]map[rw.MergeMode]bool{
		"":               {"": false, rw.MergeClean: true, rw.MergeOff: false},
		"merge: clean\n": {"": true, rw.MergeClean: true, rw.MergeOff: false},
		"merge: off\n":   {"": false, rw.MergeClean: false, rw.MergeOff: false},
	} {
		for asked, merged := range want {
			file := filepath.Join(t.TempDir(), "policy.yaml")
			noErr(t, os.WriteFile(file, []byte("version: 1\n"+policy), 0o600))
			_, s, expect := stale(t, "a.txt", mergeBase, mergeOthers, &rw.Options{PolicyFile: file})
			got, err := s.Edit(context.Background(), rw.EditRequest{Path: "a.txt", Expect: expect, Merge: asked, Edits: []rw.EditOp{{Old: "five", New: "5"}}})
			testbed.Expect(t, got.Merged == merged && merged == (err == nil), "policy %q, asked %q: %+v %v", policy, asked, got, err)
		}
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

// TestWrittenAhead: long content is in a slot before it is known whether, and how, it will be
// used.
func TestWrittenAhead(t *testing.T) {
	t.Parallel()
	long := func(line string) string { return strings.Repeat(strings.Repeat("a line\n", 7)+line, 8000) }
	was, sent := long("theirs\n"), long("mine\n")
	for name, c := range map[string]struct {
		r      rw.SafeWriteRequest
		change string // by another program, after the request was made
		want   string // of the file
		err    error
	}{
		"published":     {r: rw.SafeWriteRequest{Mode: rw.ModeOverwrite}, want: sent},
		"appended":      {r: rw.SafeWriteRequest{Mode: rw.ModeAppend}, want: was + sent},
		"converted":     {r: rw.SafeWriteRequest{Mode: rw.ModeOverwrite, EOL: "crlf"}, want: strings.ReplaceAll(sent, "\n", "\r\n")},
		"preserved":     {r: rw.SafeWriteRequest{Mode: rw.ModeOverwrite, EOL: "preserve", BOM: "preserve"}, want: sent},
		"unchanged":     {r: rw.SafeWriteRequest{Mode: rw.ModeOverwrite}, change: sent, want: sent},
		"merged":        {r: rw.SafeWriteRequest{Mode: rw.ModeOverwrite, Merge: rw.MergeClean}, change: "first\n" + was, want: "first\n" + sent},
		"existing":      {r: rw.SafeWriteRequest{}, want: was, err: rw.ErrFileAlreadyExists},
		"stale":         {r: rw.SafeWriteRequest{Mode: rw.ModeOverwrite}, change: "other\n" + was, want: "other\n" + was, err: rw.ErrHashMismatch},
		"truncated":     {r: rw.SafeWriteRequest{Mode: rw.ModeOverwrite, ContentSHA256: digest(strings.Repeat("0", 64))}, want: was, err: rw.ErrContentHashMismatch},
		"of a bad name": {r: rw.SafeWriteRequest{Path: "../a.txt"}, want: was, err: rw.ErrEscapesWorkspace},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dir := opened(t, nil)
			was := write(t, s, "a.txt", was, rw.ModeCreate)
			if c.r.Path = cmp.Or(c.r.Path, "a.txt"); c.r.Merge != "" || c.err == rw.ErrHashMismatch {
				c.r.Expect = rw.Exactly(was.SHA256)
			}
			if c.change != "" {
				noErr(t, s.Sync(background))
				noErr(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte(c.change), 0o644))
			}
			c.r.Content = []byte(sent)
			_, err := s.SafeWrite(background, c.r)
			require(t, errors.Is(err, c.err), "%v", err)
			fileIs(t, dir, "a.txt", c.want)
			nothingStaged(t, s)
			noErr(t, s.Close(background))
		})
	}
}
