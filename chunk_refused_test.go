package resilientwrite_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestComposeTellsWhatIsMissing: each refusal names its reason, changes nothing, and is
// not repeated once the chunk exists.
func TestComposeTellsWhatIsMissing(t *testing.T) {
	t.Parallel()
	s, dir := chunkStore(t)
	refuse := func(session string, want rw.Detail, about map[string]any) {
		t.Helper()
		for range 4 { // a changed session is examined again even if the budget is used up
			e := rw.AsError("", func() error {
				_, err := s.ChunkCompose(background, rw.ChunkComposeRequest{Session: session, OutputPath: "deep/out.txt"})
				return err
			}())
			if e.Detail == rw.ErrRetryExhausted {
				break
			}
			chunkRefused(t, s, dir, want, func() error { return e })
			for key, value := range about {
				if diff := cmp.Diff(value, e.Context[key]); diff != "" {
					t.Errorf("%s: %s", key, diff)
				}
			}
			if e.Kind != rw.ErrStalePrecondition || e.Reason != rw.ReasonUnknown {
				t.Errorf("%s is %s / %s", want, e.Kind, e.Reason)
			}
		}
	}
	put := func(session string, index, total int) {
		t.Helper()
		must(s.ChunkWrite(background, rw.ChunkWriteRequest{Session: session, Index: index, Content: []byte("x"), TotalExpected: total}))(t)
	}
	refuse("s", rw.ErrSessionNotFound, nil)
	put("s", 1, 4)
	put("s", 3, 0)
	refuse("s", rw.ErrNonContiguous, map[string]any{"have": []int{1, 3}, "missing": []int{2, 4}, "unexpected": []int{}})
	put("s", 2, 0)
	refuse("s", rw.ErrChunkCountMismatch, map[string]any{"have": 3, "total_expected": 4})
	put("s", 1, 2)
	refuse("s", rw.ErrChunkCountMismatch, map[string]any{"have": 3, "total_expected": 2})
	put("t", 1, 0)
	put("t", 5, 0)
	put("t", 1, 3)
	refuse("t", rw.ErrNonContiguous, map[string]any{"have": []int{1, 5}, "missing": []int{2, 3}, "unexpected": []int{5}})
	put("s", 1, 3)
	composed(t, s, "s", "deep/out.txt")
	// A session whose chunks were removed by another program.
	put("u", 1, 0)
	os.Remove(chunkDir(dir, "u", "part-001.txt"))
	refuse("u", rw.ErrNoChunksFound, nil)
	fails(s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: "u"}))(t, rw.ErrNoChunksFound)
	if st := chunkStatus(t, s, "none"); st.Exists || st.NextIndex != 1 {
		t.Errorf("%+v", st)
	}
	check(t, s, false)
}

// TestComposeGuards: what guards a write of a file guards a compose.
func TestComposeGuards(t *testing.T) {
	t.Parallel()
	s, dir := chunkStore(t)
	addChunk(t, s, "s", "short")
	big := strings.Repeat("a long file\n", 200)
	write(t, s, "file.txt", big, rw.ModeCreate)
	os.WriteFile(filepath.Join(dir, "readonly.txt"), []byte("r"), 0o444)
	for name, c := range map[string]struct {
		r    rw.ChunkComposeRequest
		want rw.Detail
	}{
		"create":        {rw.ChunkComposeRequest{OutputPath: "file.txt", Mode: rw.ModeCreate}, rw.ErrFileAlreadyExists},
		"stale":         {rw.ChunkComposeRequest{OutputPath: "file.txt", Expect: rw.Exactly(digest(hash("x")))}, rw.ErrHashMismatch},
		"not absent":    {rw.ChunkComposeRequest{OutputPath: "file.txt", Expect: rw.Absent}, rw.ErrHashMismatch},
		"result":        {rw.ChunkComposeRequest{OutputPath: "new.txt", ExpectedSHA256: digest(hash("x"))}, rw.ErrHashMismatch},
		"shrink":        {rw.ChunkComposeRequest{OutputPath: "file.txt"}, rw.ErrDestructiveShrink},
		"read-only":     {rw.ChunkComposeRequest{OutputPath: "readonly.txt"}, rw.ErrReadOnlyFile},
		"syntax":        {rw.ChunkComposeRequest{OutputPath: "a.json", Validate: true}, rw.ErrSyntaxInvalid},
		"protected":     {rw.ChunkComposeRequest{OutputPath: ".git/config"}, rw.ErrProtectedPath},
		"state":         {rw.ChunkComposeRequest{OutputPath: rw.StateDirName + "/chunks/s/part-001.txt"}, rw.ErrProtectedPath},
		"outside":       {rw.ChunkComposeRequest{OutputPath: "../x"}, rw.ErrEscapesWorkspace},
		"empty path":    {rw.ChunkComposeRequest{}, rw.ErrEmptyPath},
		"append":        {rw.ChunkComposeRequest{OutputPath: "file.txt", Mode: rw.ModeAppend}, rw.ErrInvalidArgument},
		"separator":     {rw.ChunkComposeRequest{OutputPath: "file.txt", Separator: ptr("\xff")}, rw.ErrInvalidArgument},
		"separator len": {rw.ChunkComposeRequest{OutputPath: "file.txt", Separator: ptr(strings.Repeat("x", 5000))}, rw.ErrInvalidArgument},
		"blank reason":  {rw.ChunkComposeRequest{OutputPath: "file.txt", Call: rw.Call{AcceptRisk: "  "}}, rw.ErrInvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			c.r.Session = "s"
			e := chunkRefused(t, s, dir, c.want, func() error { _, err := s.ChunkCompose(background, c.r); return err })
			if problems, ok := e.Context["errors"].([]rw.SyntaxProblem); c.want == rw.ErrSyntaxInvalid && (!ok || len(problems) == 0 || len(problems) > 5) {
				t.Errorf("problems %v", e.Context)
			}
		})
	}
	dry, err := s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "s", OutputPath: "d/new.txt", Call: rw.Call{DryRun: true}, Cleanup: true})
	if err != nil || dry.SHA256.String() != hash("short") || !strings.Contains(dry.Diff, "+short") || strings.Contains(dry.Diff, "manifest") || dry.CleanedUp {
		t.Errorf("%v %+v", err, dry)
	}
	if st := chunkStatus(t, s, "s"); st.Sealed {
		t.Error("a dry run sealed the session")
	}
	if _, err := os.Stat(filepath.Join(dir, "d")); err == nil {
		t.Error("a dry run made a directory")
	}
	r, err := s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "s", OutputPath: "file.txt", AllowShrink: true, Expect: rw.Exactly(digest(hash(big))), ExpectedSHA256: digest(hash("short"))})
	if err != nil || r.Receipt.PrevSHA256.String() != hash(big) {
		t.Fatalf("%v %+v", err, r)
	}
	must(s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "s", OutputPath: "readonly.txt", Force: true}))(t)
	check(t, s, true)
}

// TestChunkArgumentsThatAreWrong: each is refused with its detail, and nothing
// appears on disk.
func TestChunkArgumentsThatAreWrong(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff, MaxContentBytes: 100})
	for _, name := range []string{"", strings.Repeat("s", 65), "a/b", "../x", ".", "a\n", "a\x00", "\xff", "ä", "a b", "-\u200b"} {
		for _, call := range []func() error{
			func() error {
				_, err := s.ChunkWrite(background, rw.ChunkWriteRequest{Session: name, Index: 1})
				return err
			},
			func() error {
				_, err := s.ChunkAppend(background, rw.ChunkAppendRequest{Session: name})
				return err
			},
			func() error {
				_, err := s.ChunkCompose(background, rw.ChunkComposeRequest{Session: name, OutputPath: "o"})
				return err
			},
			func() error {
				_, err := s.ChunkReset(background, rw.ChunkResetRequest{Session: name})
				return err
			},
			func() error {
				_, err := s.ChunkStatus(background, rw.ChunkStatusRequest{Session: name})
				return err
			},
			func() error {
				_, err := s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: name})
				return err
			},
		} {
			e := chunkRefused(t, s, dir, rw.ErrBadSession, call)
			if e.Kind != rw.ErrPolicyViolation || e.Reason != rw.ReasonEncoding {
				t.Errorf("%+v", e)
			}
		}
	}
	for _, c := range []struct {
		r    rw.ChunkWriteRequest
		want rw.Detail
	}{
		{rw.ChunkWriteRequest{Index: 0}, rw.ErrBadIndex}, {rw.ChunkWriteRequest{Index: -1}, rw.ErrBadIndex}, {rw.ChunkWriteRequest{Index: 1_000_000}, rw.ErrBadIndex},
		{rw.ChunkWriteRequest{Index: 1, TotalExpected: -1}, rw.ErrBadIndex}, {rw.ChunkWriteRequest{Index: 1, TotalExpected: 1_000_000}, rw.ErrBadIndex},
		{rw.ChunkWriteRequest{Index: 3, TotalExpected: 2}, rw.ErrIndexExceedsTotal},
		{rw.ChunkWriteRequest{Index: 1, Content: []byte(strings.Repeat("x", 101))}, rw.ErrTooLarge},
		{rw.ChunkWriteRequest{Index: 1, Call: rw.Call{Caller: strings.Repeat("c", 201)}}, rw.ErrInvalidArgument}, {rw.ChunkWriteRequest{Index: 1, Call: rw.Call{IdempotencyKey: "\xff"}}, rw.ErrInvalidArgument},
		{rw.ChunkWriteRequest{Index: 1, Call: rw.Call{AcceptRisk: strings.Repeat("c", 501)}}, rw.ErrInvalidArgument},
	} {
		c.r.Session = "s"
		chunkRefused(t, s, dir, c.want, func() error { _, err := s.ChunkWrite(background, c.r); return err })
	}
	chunkRefused(t, s, dir, rw.ErrBadIndex, func() error {
		_, err := s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", ExpectIndex: -3})
		return err
	})
	addChunk(t, s, "s", "x")
	for want, r := range map[rw.Detail]rw.ChunkPreviewRequest{
		rw.ErrInvalidArgument: {Session: "s", Offset: -1}, rw.ErrTooLarge: {Session: "s", MaxBytes: 1 << 40}, rw.ErrEscapesWorkspace: {Session: "s", TargetPath: "../x"},
		rw.ErrSessionNotFound: {Session: "t"},
	} {
		chunkRefused(t, s, dir, want, func() error { _, err := s.ChunkPreview(background, r); return err })
	}
	ended, cancel := context.WithCancel(background)
	cancel()
	chunkRefused(t, s, dir, rw.ErrCanceled, func() error {
		_, err := s.ChunkAppend(ended, rw.ChunkAppendRequest{Session: "s", Content: []byte("x")})
		return err
	})
	chunkRefused(t, s, dir, rw.ErrCanceled, func() error {
		_, err := s.ChunkCompose(ended, rw.ChunkComposeRequest{Session: "s", OutputPath: "x"})
		return err
	})
	check(t, s, true)
}

// TestDryRunsOfChunksChangeNothing: they decide as the real calls would.
func TestDryRunsOfChunksChangeNothing(t *testing.T) {
	t.Parallel()
	s, dir := chunkStore(t)
	addChunk(t, s, "s", "one")
	before := chunkTree(t, dir)
	w, err := s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "new", Index: 7, Content: []byte("x"), Call: rw.Call{DryRun: true}})
	if err != nil || w.Index != 7 || w.JournalID != "" || !w.Receipt.DryRun {
		t.Errorf("%v %+v", err, w)
	}
	a, err := s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte("x"), Call: rw.Call{DryRun: true}})
	if err != nil || a.Index != 2 || a.SHA256.String() != hash("x") {
		t.Errorf("%v %+v", err, a)
	}
	r, err := s.ChunkReset(background, rw.ChunkResetRequest{Session: "s", Call: rw.Call{DryRun: true}})
	if err != nil || r.Removed != 1 || !r.Existed {
		t.Errorf("%v %+v", err, r)
	}
	if after := chunkTree(t, dir); after != before {
		t.Errorf("changed %s", cmp.Diff(before, after))
	}
}
