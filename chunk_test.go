package resilientwrite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// chunkStore opens a fresh store without flushes: these tests do not depend on them.
func chunkStore(t *testing.T) (*rw.Store, string) {
	t.Helper()
	dir := workspace(t)
	return open(t, dir, &rw.Options{Sync: rw.SyncOff}), dir
}

// addChunk stores the next piece.
func addChunk(t *testing.T, s *rw.Store, session, content string) rw.ChunkAppendResult {
	t.Helper()
	return must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: session, Content: []byte(content)}))(t, "append to ", session)
}

func composed(t *testing.T, s *rw.Store, session, path string) rw.ChunkComposeResult {
	t.Helper()
	return must(s.ChunkCompose(background, rw.ChunkComposeRequest{Session: session, OutputPath: path}))(t, "compose ", session)
}

func chunkStatus(t *testing.T, s *rw.Store, session string) rw.ChunkStatusResult {
	t.Helper()
	return must(s.ChunkStatus(background, rw.ChunkStatusRequest{Session: session}))(t, "status of ", session)
}

// chunkDir is a file or directory of the sessions on disk.
func chunkDir(dir string, names ...string) string {
	return filepath.Join(append([]string{dir, rw.StateDirName, "chunks"}, names...)...)
}

// chunkTree is the workspace and everything in the sessions.
func chunkTree(t *testing.T, dir string) string {
	return snapshot(t, dir) + described(t, chunkDir(dir))
}

// chunkRefused makes a call that must be refused with a detail and must change
// nothing.
func chunkRefused(t *testing.T, s *rw.Store, dir string, want rw.Detail, call func() error) *rw.Error {
	t.Helper()
	e := deny(t, s, dir, "", want, call)
	expect(t, strings.HasPrefix(e.Op, "chunk_"), "%+v", e)
	return e
}

// TestChunksComeBackByteForByte cuts texts at every byte, within characters
// too, and binary content anywhere, with empty pieces and separators between.
func TestChunksComeBackByteForByte(t *testing.T) {
	t.Parallel()
	s, dir := chunkStore(t)
	text := "naïve 文字 – 🧪🏳️‍🌈 \r\n\x00ende"
	for cut := range len(text) + 1 {
		name := fmt.Sprintf("cut-%d", cut)
		addChunk(t, s, name, text[:cut])
		addChunk(t, s, name, text[cut:])
		composed(t, s, name, "out/"+name)
		fileIs(t, dir, "out/"+name, text)
	}
	rng := rand.New(rand.NewPCG(28, 1))
	for round := range scale(300) {
		name, path := fmt.Sprintf("random-%d", round), fmt.Sprintf("bin/%d", round)
		var pieces []string
		for range 1 + rng.IntN(6) {
			piece := make([]byte, rng.IntN(4)*rng.IntN(9000))
			for i := range piece {
				piece[i] = byte(rng.Uint32())
			}
			pieces = append(pieces, string(piece))
		}
		for _, i := range rng.Perm(len(pieces)) { // in any order
			must(s.ChunkWrite(background, rw.ChunkWriteRequest{Session: name, Index: i + 1, Content: []byte(pieces[i]), TotalExpected: len(pieces)}))(t)
		}
		sep := []string{"", "\n", "\n---\n", "分"}[rng.IntN(4)]
		want := strings.Join(pieces, sep)
		p, err := s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: name, Separator: &sep})
		require(t, err == nil && p.SHA256.String() == hash(want) && string(p.Content) == want && p.TotalBytes == int64(len(want)),
			"preview: %v %+v", err, p)
		r := must(s.ChunkCompose(background, rw.ChunkComposeRequest{Session: name, OutputPath: path, Separator: &sep, ExpectedSHA256: digest(strings.ToUpper(p.SHA256.String()))}))(t)
		expect(t, r.SHA256.String() == hash(want) && r.Bytes == int64(len(want)) && r.ChunkCount == len(pieces) && len(r.ChunkHashes) == len(pieces),
			"reply %+v", r)
		for i, piece := range pieces {
			expect(t, r.ChunkHashes[i].String() == hash(piece) && p.ChunkHashes[i].String() == hash(piece), "hash of piece %d", i+1)
		}
		fileIs(t, dir, path, want)
	}
	check(t, s, true)
}

// TestPreviewShowsWhatComposeWrites: in windows of any size, with the results of the
// classifier and the validator for the whole.
func TestPreviewShowsWhatComposeWrites(t *testing.T) {
	t.Parallel()
	s, dir := chunkStore(t)
	text := `{"text": "日本語のテキスト", "n": [1, 2, 3]}`
	for i := 0; i < len(text); i += 7 {
		addChunk(t, s, "s", text[i:min(i+7, len(text))])
	}
	before := chunkTree(t, dir)
	for _, size := range []int64{1, 2, 5, 16, 1000} {
		var got strings.Builder
		for off := int64(0); ; {
			p, err := s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: "s", Offset: off, MaxBytes: size})
			require(t, err == nil && p.Preview && p.SHA256.String() == hash(text) && p.TotalBytes == int64(len(text)), "%v %+v", err, p)
			got.Write(p.Content)
			if off += int64(len(p.Content)); !p.Truncated {
				break
			}
		}
		equal(t, got.String(), text, "windows of ", size, " bytes")
	}
	whole, err := s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: "s", MaxBytes: 12, Classify: true, Validate: true, TargetPath: "a.json"})
	expect(t, err == nil && string(whole.Content) == text[:12] && whole.Truncated && whole.Risk != nil && whole.Risk.Verdict == rw.VerdictSafe &&
		whole.Validation != nil && whole.Validation.Valid && whole.Validation.Format == "json", "%v %+v", err, whole)
	if p, err := s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: "s", Offset: 5000}); err != nil || string(p.Content) != "" || p.Truncated || p.Offset != int64(len(text)) {
		t.Errorf("%v %+v", err, p)
	}
	equal(t, chunkTree(t, dir), before, "a preview changed")
	addChunk(t, s, "bad", `{"key": "`+awsID(7)+`"`)
	p, err := s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: "bad", Classify: true, Validate: true, TargetPath: "a.json"})
	expect(t, err == nil && p.Risk.Verdict == rw.VerdictHigh && !p.Validation.Valid && len(p.Validation.Errors) != 0, "%v %+v", err, p)
	check(t, s, true)
}

// harmlessCut is where a text can be cut so that neither part looks like a
// secret, as near to its middle as possible.
func harmlessCut(t *testing.T, text string) int {
	t.Helper()
	for d := range len(text) / 2 {
		for _, at := range []int{len(text)/2 - d, len(text)/2 + d} {
			if rw.ScoreContent([]byte(text[:at]), nil).Verdict != rw.VerdictHigh && rw.ScoreContent([]byte(text[at:]), nil).Verdict != rw.VerdictHigh {
				return at
			}
		}
	}
	t.Fatal("no cut hides the secret")
	return 0
}

// TestSecretSplitOverTwoChunks: each piece passes, the whole does not, and no
// file but the draft in quarantine holds it.
func TestSecretSplitOverTwoChunks(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	s := openGated(t, dir, nil)
	for i, c := range credentials() {
		t.Run(c.name, func(t *testing.T) {
			session := fmt.Sprint("s", i)
			at, whole := harmlessCut(t, c.text), c.secret
			if begin := strings.Index(c.text, c.secret); at <= begin || at >= begin+len(c.secret) {
				whole = c.text // of a key it is the first line that the cut goes through
			}
			for _, piece := range []string{c.text[:at], c.text[at:]} {
				must(s.ChunkAppend(agents(), rw.ChunkAppendRequest{Session: session, Content: []byte(piece)}))(t)
			}
			for _, r := range []rw.ChunkComposeRequest{{}, {Call: rw.Call{DryRun: true}}, {Call: rw.Call{AcceptRisk: "I say so"}}} {
				r.Session, r.OutputPath = session, "out/config.txt"
				e := chunkRefused(t, s, dir, rw.ErrRiskBlocked, func() error { return errorOf(s.ChunkCompose(agents(), r)) })
				expect(t, len(e.Patterns) != 0, "%+v", e)
			}
			for e := range testbed.Entries(t, dir, rw.StateDirName+"/quarantine") {
				expect(t, !strings.Contains(e.Text, whole), "%s holds the secret", e.Path)
			}
			expect(t, !chunkStatus(t, s, session).Sealed, "sealed by a refusal")
			// A piece that holds the whole secret does not even get into the session.
			chunkRefused(t, s, dir, rw.ErrRiskBlocked, func() error {
				return errorOf(s.ChunkAppend(agents(), rw.ChunkAppendRequest{Session: session, Content: []byte(c.text)}))
			})
			check(t, s, true)
		})
	}
}

// appending starts goroutines that append pieces to a session by way of two stores:
// <3.0> is the first piece of the fourth.
func appending(t *testing.T, writers, pieces int) (dir string, stores []*rw.Store, wait func()) {
	dir = workspace(t)
	stores = []*rw.Store{open(t, dir, &rw.Options{Sync: rw.SyncOff}), open(t, dir, &rw.Options{Sync: rw.SyncOff})}
	var wg sync.WaitGroup
	for g := range writers {
		wg.Go(func() {
			for i := range pieces {
				_, err := stores[g%2].ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte(fmt.Sprintf("<%d.%d>", g, i))})
				expect(t, err == nil, "append: %v %v", err, errors.Unwrap(err))
			}
		})
	}
	return dir, stores, wg.Wait
}

// inOrder expects the pieces of one writer once each, in their order.
func inOrder(t *testing.T, data string, writer any, pieces int) {
	t.Helper()
	at := -1
	for i := range pieces {
		mark := fmt.Sprintf("<%v.%d>", writer, i)
		next := strings.Index(data, mark)
		expect(t, strings.Count(data, mark) == 1 && next >= at, "%s is there %d times, at %d after %d", mark, strings.Count(data, mark), next, at)
		at = next
	}
}

// TestChunksFromManyGoroutinesAndStores: every piece of two stores gets a
// number of its own.
func TestChunksFromManyGoroutinesAndStores(t *testing.T) {
	t.Parallel()
	dir, stores, wait := appending(t, 8, 8)
	wait()
	r := composed(t, stores[0], "s", "out.txt")
	data, _ := os.ReadFile(filepath.Join(dir, "out.txt"))
	equal(t, r.ChunkCount, 64, "pieces")
	for g := range 8 {
		inOrder(t, string(data), g, 8)
	}
	check(t, stores[1], true)
}

// TestSessionsHaveTheirStart checks that the time stays when chunks are
// added, and is new after a reset.
func TestSessionsHaveTheirStart(t *testing.T) {
	s, _ := opened(t, nil)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	began := func() string {
		t.Helper()
		return must(s.ChunkStatus(background, rw.ChunkStatusRequest{Session: "s"}))(t).CreatedAt.String()
	}
	for range 2 {
		s.SetNow(now)
		must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte("a")}))(t)
		now = now.Add(time.Hour)
	}
	equal(t, began(), "2026-01-02T03:04:05.000000Z", "began at")
	must(s.ChunkReset(background, rw.ChunkResetRequest{Session: "s"}))(t)
	must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte("a")}))(t)
	got := began()
	expect(t, got != "" && got != "2026-01-02T03:04:05.000000Z", "after a reset began at %q", got)
}

// TestComposeInConstantMemory: 100 MB of chunks become one file without ever being in
// memory together. The test counts the allocations, not the memory in use, which
// depends on the garbage collector.
func TestComposeInConstantMemory(t *testing.T) {
	size := 10 << 20
	if !short() {
		size = 100 << 20
	}
	const pieces = 10
	s, dir := chunkStore(t)
	addChunk(t, s, "big", "")
	for i := range pieces {
		f := must(os.Create(chunkDir(dir, "big", fmt.Sprintf("part-%03d.txt", i+2))))(t)
		io.Copy(f, &endless{left: int64(size / pieces)})
		f.Close()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := composed(t, s, "big", "big.txt")
	p, err := s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: "big", MaxBytes: 10, Classify: true})
	runtime.ReadMemStats(&after)
	require(t, err == nil && r.Bytes == int64(size) && p.SHA256 == r.SHA256, "%v %+v", err, r)
	used := after.TotalAlloc - before.TotalAlloc
	if used > 24<<20 { // one copy of the smaller size, grown by doubling, is as much
		t.Errorf("%d MB were allocated for %d MB of pieces", used>>20, size>>20)
	}
	t.Logf("%.1f MB were allocated for %d MB", float64(used)/(1<<20), size>>20)
}

// TestChunksOfFourProcesses: 4 × 25 appends are 100 pieces, each exactly once.
func TestChunksOfFourProcesses(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	var children []*process
	for i := range 4 {
		children = append(children, spawn(t, "chunks", dir, string(rune('a'+i)), rw.SyncFull))
	}
	for _, p := range children {
		noErr(t, p.Wait())
	}
	s := open(t, dir, nil)
	st := chunkStatus(t, s, "shared")
	require(t, len(st.PresentIndices) == 100 && st.MissingCount == 0 && st.NextIndex == 101, "%+v", st)
	composed(t, s, "shared", "out.txt")
	data, _ := os.ReadFile(filepath.Join(dir, "out.txt"))
	for _, id := range []string{"a", "b", "c", "d"} {
		inOrder(t, string(data), id, 25)
	}
	check(t, s, true)
}

// TestNextCallFinishesForTheDead: another process dies within each verb before each
// stage, and a store that stays open encounters its state, reading or writing: before
// the record nothing happened, after it everything did.
func TestNextCallFinishesForTheDead(t *testing.T) {
	t.Parallel()
	states := map[string][2]string{ // before and after the verb
		"append": {"first second", "first second third"}, "replace": {"first second", "first SECOND"},
		"compose": {"first second", ""}, "reset": {"first second", ""},
	}
	for verb, want := range states {
		stages := []rw.Stage{rw.StageRecord, rw.StagePublish, rw.StageSettle}
		if !*long && verb != "append" {
			stages = stages[1:2]
		}
		for _, stage := range stages {
			t.Run(verb+"/"+string(stage), func(t *testing.T) {
				t.Parallel()
				s, dir := opened(t, nil)
				addChunk(t, s, "s", "first")
				addChunk(t, s, "s", "second")
				spawn(t, "die-"+verb, dir, string(stage), rw.SyncFull).died(t)
				text := want[0]
				if stage == rw.StagePublish || stage == rw.StageSettle {
					text = want[1]
				}
				meetTheDead(t, s, dir, verb, stage, text)
				s.Close(background)
				check(t, open(t, dir, nil), true) // which sweeps what never was a commit
			})
		}
	}
}

// meetTheDead checks the state that a dead process left, and then continues.
func meetTheDead(t *testing.T, s *rw.Store, dir, verb string, stage rw.Stage, text string) {
	t.Helper()
	if stage == rw.StagePublish { // a reader meets it first
		st := chunkStatus(t, s, "s")
		expect(t, st.Exists == (text != "") && len(st.PresentIndices) == len(strings.Fields(text)), "status %+v, want %q", st, text)
	}
	before := len(strings.Fields(text))
	equal(t, addChunk(t, s, "s", "fresh").Index, before+1, "index")
	sep := " "
	must(s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "s", OutputPath: "after.txt", Separator: &sep}))(t)
	fileIs(t, dir, "after.txt", strings.TrimSpace(text+" fresh"))
	if verb == "compose" && text == "" {
		fileIs(t, dir, "out.txt", "firstsecond")
	}
}

// TestChunkArgumentsThatAreWrong: each is refused with its detail, and nothing
// appears on disk.
func TestChunkArgumentsThatAreWrong(t *testing.T) {
	t.Parallel()
	s, dir := opened(t, &rw.Options{Sync: rw.SyncOff, MaxContentBytes: 100})
	for _, name := range []string{"", strings.Repeat("s", 65), "a/b", "../x", ".", "a\n", "a\x00", "\xff", "ä", "a b", "-\u200b"} {
		for _, call := range []func() error{
			calling(s.ChunkWrite, rw.ChunkWriteRequest{Session: name, Index: 1}),
			calling(s.ChunkAppend, rw.ChunkAppendRequest{Session: name}),
			calling(s.ChunkCompose, rw.ChunkComposeRequest{Session: name, OutputPath: "o"}),
			calling(s.ChunkReset, rw.ChunkResetRequest{Session: name}),
			calling(s.ChunkStatus, rw.ChunkStatusRequest{Session: name}),
			calling(s.ChunkPreview, rw.ChunkPreviewRequest{Session: name}),
		} {
			e := chunkRefused(t, s, dir, rw.ErrBadSession, call)
			expect(t, e.Kind == rw.ErrPolicyViolation && e.Reason == rw.ReasonEncoding, "%+v", e)
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
		chunkRefused(t, s, dir, c.want, calling(s.ChunkWrite, c.r))
	}
	chunkRefused(t, s, dir, rw.ErrBadIndex, calling(s.ChunkAppend, rw.ChunkAppendRequest{Session: "s", ExpectIndex: -3}))
	addChunk(t, s, "s", "x")
	for want, r := range map[rw.Detail]rw.ChunkPreviewRequest{
		rw.ErrInvalidArgument: {Session: "s", Offset: -1}, rw.ErrTooLarge: {Session: "s", MaxBytes: 1 << 40}, rw.ErrEscapesWorkspace: {Session: "s", TargetPath: "../x"},
		rw.ErrSessionNotFound: {Session: "t"},
	} {
		chunkRefused(t, s, dir, want, calling(s.ChunkPreview, r))
	}
	ended, cancel := context.WithCancel(background)
	cancel()
	chunkRefused(t, s, dir, rw.ErrCanceled, func() error {
		return errorOf(s.ChunkAppend(ended, rw.ChunkAppendRequest{Session: "s", Content: []byte("x")}))
	})
	chunkRefused(t, s, dir, rw.ErrCanceled, func() error {
		return errorOf(s.ChunkCompose(ended, rw.ChunkComposeRequest{Session: "s", OutputPath: "x"}))
	})
	check(t, s, true)
}

// wreckedManifests are unusable manifests, and ways to create them.
var wreckedManifests = map[string]func(path string) error{
	"deleted":  os.Remove,
	"empty":    func(p string) error { return os.Truncate(p, 0) },
	"torn":     func(p string) error { return os.Truncate(p, 60) },
	"garbage":  func(p string) error { return os.WriteFile(p, []byte("\x00\xff}{ not json"), 0o600) },
	"an array": func(p string) error { return os.WriteFile(p, []byte("[1,2]"), 0o600) },
	"null":     func(p string) error { return os.WriteFile(p, []byte("null"), 0o600) },
	"other":    func(p string) error { return os.WriteFile(p, []byte(`{"format":"resilientwrite.chunks/1"}`), 0o600) },
	"python's": func(p string) error {
		return os.WriteFile(p, []byte(`{"session": "s", "created": 1.5, "parts": 3}`), 0o600)
	},
	"edited":    func(p string) error { replaceIn(p, `"bytes":3`, `"bytes":4`); return nil },
	"directory": func(p string) error { return errors.Join(os.Remove(p), os.MkdirAll(filepath.Join(p, "x"), 0o700)) },
	"link":      func(p string) error { return errors.Join(os.Remove(p), os.Symlink("/etc/passwd", p)) },
}

// TestManifestIsACache: whatever happens to the manifest, the chunks exist and the
// session continues.
func TestManifestIsACache(t *testing.T) {
	t.Parallel()
	s, dir := chunkStore(t)
	for name, wreck := range wreckedManifests {
		t.Run(name, func(t *testing.T) {
			for _, piece := range []string{"one", "two", ""} {
				addChunk(t, s, "s", piece)
			}
			noErr(t, wreck(chunkDir(dir, "s", "manifest.json")))
			st := chunkStatus(t, s, "s")
			diff := cmp.Diff([]int{1, 2, 3}, st.PresentIndices)
			expect(t, diff == "" && st.Bytes == 6 && !st.Sealed, "%s %+v", diff, st)
			equal(t, string(must(s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: "s"}))(t).Content), "onetwo")
			equal(t, must(s.ChunkList(background, rw.ChunkListRequest{}))(t).Count, 1)
			again := must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte("two"), ExpectIndex: 2}))(t)
			equal(t, again.Index, 2, "index of a repeated call")
			noErr(t, wreck(chunkDir(dir, "s", "manifest.json")))
			equal(t, addChunk(t, s, "s", "four").Index, 4, "index")
			composed(t, s, "s", "out.txt")
			fileIs(t, dir, "out.txt", "onetwofour")
			noErr(t, wreck(chunkDir(dir, "s", "manifest.json")))
			// The journal still knows that it was composed – unless the other
			// implementation has taken the session over since.
			equal(t, chunkStatus(t, s, "s").Sealed, (name != "python's"), "sealed")
			composed(t, s, "s", "out.txt")
			equal(t, must(s.ChunkReset(background, rw.ChunkResetRequest{Session: "s"}))(t).Removed, 4)
			expect(t, errorOf(os.Stat(chunkDir(dir, "s"))) != nil, "the directory is still there")
			check(t, s, false)
		})
	}
}

// tampers are what can happen to a piece.
var tampers = map[string]func(p string) error{
	"byte":   func(p string) error { return os.WriteFile(p, []byte("twO"), 0o600) },
	"cut":    func(p string) error { return os.Truncate(p, 1) },
	"longer": func(p string) error { return os.WriteFile(p, []byte("two and more"), 0o600) },
	"link":   func(p string) error { return errors.Join(os.Remove(p), os.Symlink("part-001.txt", p)) },
}

// TestPartChangedOnDisk: a changed chunk is detected in any state of the manifest,
// named by its number, and can be sent again.
func TestPartChangedOnDisk(t *testing.T) {
	t.Parallel()
	s, dir := chunkStore(t)
	for name, wreck := range wreckedManifests {
		t.Run(name, func(t *testing.T) {
			for what, tamper := range tampers {
				switch {
				case name == "python's": // then its pieces are its own
					continue
				case what == "link" && name != "edited": // then it is not a chunk at all
					continue
				case what == "link":
					wreck = func(string) error { return nil }
				}
				for _, piece := range []string{"one", "two", "three"} {
					addChunk(t, s, what, piece)
				}
				noErr(t, errors.Join(wreck(chunkDir(dir, what, "manifest.json")), tamper(chunkDir(dir, what, "part-002.txt"))))
				addChunk(t, s, what, "four") // a write in between takes nothing over
				driftIsRefused(t, s, dir, what)
				must(s.ChunkWrite(background, rw.ChunkWriteRequest{Session: what, Index: 2, Content: []byte("two")}))(t, what)
				composed(t, s, what, "deep/"+what)
				fileIs(t, dir, "deep/"+what, "onetwothreefour")
				must(s.ChunkReset(background, rw.ChunkResetRequest{Session: what}))(t)
			}
			check(t, s, false)
		})
	}
}

func driftIsRefused(t *testing.T, s *rw.Store, dir, session string) {
	t.Helper()
	for _, call := range []func() error{
		calling(s.ChunkCompose, rw.ChunkComposeRequest{Session: session, OutputPath: "deeper/out.txt"}),
		calling(s.ChunkPreview, rw.ChunkPreviewRequest{Session: session}),
	} {
		e := chunkRefused(t, s, dir, rw.ErrHashDriftOnRead, call)
		expect(t, e.Kind == rw.ErrWriteCorruption && e.Context["index"] == 2, "%+v", e)
	}
}

// TestResetStartsAgain: all chunks are removed, even more than one commit can remove,
// and none of them is part of a later session.
func TestResetStartsAgain(t *testing.T) {
	t.Parallel()
	s, dir := chunkStore(t)
	if r, err := s.ChunkReset(background, rw.ChunkResetRequest{Session: "s"}); err != nil || r.Existed || r.Removed != 0 || r.Status != rw.StatusUnchanged {
		t.Fatalf("%v %+v", err, r)
	}
	os.MkdirAll(chunkDir(dir, "s"), 0o700)
	for i := range 600 {
		os.WriteFile(chunkDir(dir, "s", fmt.Sprintf("part-%03d.txt", i+1)), []byte("old"), 0o600)
	}
	addChunk(t, s, "s", "last")
	addChunk(t, s, "neighbour", "stays")
	req := rw.ChunkResetRequest{Session: "s", Call: rw.Call{IdempotencyKey: "reset-1"}}
	r, err := s.ChunkReset(background, req)
	require(t, err == nil && r.Existed && r.Removed == 601 && r.JournalID != "" && len(r.Warnings) == 0, "%v %+v", err, r)
	expect(t, errorOf(os.Stat(chunkDir(dir, "s"))) != nil, "the directory is still there")
	addChunk(t, s, "s", "new")
	// The reset whose reply was lost does not touch the new session.
	again := must(s.ChunkReset(background, req))(t)
	require(t, again.Status == rw.StatusReplayed && again.Existed, "%+v", again)
	composed(t, s, "s", "out.txt")
	fileIs(t, dir, "out.txt", "new")
	equal(t, chunkStatus(t, s, "neighbour").NextIndex, 2)
	tail := must(s.JournalTail(background, rw.JournalTailRequest{N: 1000}))(t)
	gone := testbed.Count(tail.Entries, func(e rw.JournalEntry) bool { return e.Op == "delete" })
	equal(t, gone, 602, "rows of removals of the pieces and the manifest")
	check(t, s, true)
}

// TestLinkedSessionDirectories: a symbolic link in the place of a directory of
// sessions is refused, not followed, and hides no other session.
func TestLinkedSessionDirectories(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	os.WriteFile(filepath.Join(outside, "part-001.txt"), []byte("outside"), 0o600)
	tryAll := func(t *testing.T, s *rw.Store, dir, session string) {
		for _, call := range []func() error{
			calling(s.ChunkAppend, rw.ChunkAppendRequest{Session: session, Content: []byte("x")}),
			calling(s.ChunkCompose, rw.ChunkComposeRequest{Session: session, OutputPath: "o"}),
			calling(s.ChunkReset, rw.ChunkResetRequest{Session: session}),
			calling(s.ChunkStatus, rw.ChunkStatusRequest{Session: session}),
			calling(s.ChunkPreview, rw.ChunkPreviewRequest{Session: session}),
		} {
			chunkRefused(t, s, dir, rw.ErrBadStateDir, call)
		}
		equal(t, string(must(os.ReadFile(filepath.Join(outside, "part-001.txt")))(t)), "outside", "a file outside was changed")
		length(t, must(os.ReadDir(outside))(t), 1, "files outside")
	}
	s, dir := chunkStore(t)
	addChunk(t, s, "good", "x")
	os.Symlink(outside, chunkDir(dir, "linked"))
	tryAll(t, s, dir, "linked")
	l := must(s.ChunkList(background, rw.ChunkListRequest{}))(t)
	expect(t, l.Count == 1 && l.Sessions[0].Session == "good", "%+v", l)
	composed(t, s, "good", "good.txt")

	s, dir = chunkStore(t)
	os.Symlink(outside, chunkDir(dir))
	tryAll(t, s, dir, "s")
	fails(s.ChunkList(background, rw.ChunkListRequest{}))(t, rw.ErrBadStateDir)
}

// TestResetWhileOthersAppend: no call is refused, and the chunks that remain were sent
// after the last reset.
func TestResetWhileOthersAppend(t *testing.T) {
	t.Parallel()
	dir, stores, wait := appending(t, 3, 30)
	for range 15 {
		r := must(stores[1].ChunkReset(background, rw.ChunkResetRequest{Session: "s"}))(t)
		expect(t, len(r.Warnings) == 0, "reset: %v", r.Warnings)
		_, err := stores[0].ChunkPreview(background, rw.ChunkPreviewRequest{Session: "s"})
		expect(t, err == nil || errors.Is(err, rw.ErrSessionNotFound) || errors.Is(err, rw.ErrRetryExhausted), "preview: %v %v", err, errors.Unwrap(err))
	}
	wait()
	addChunk(t, stores[0], "s", "last")
	st := chunkStatus(t, stores[1], "s")
	expect(t, st.MissingCount == 0 && st.NextIndex == len(st.PresentIndices)+1, "%+v", st)
	composed(t, stores[1], "s", "out.txt")
	data, _ := os.ReadFile(filepath.Join(dir, "out.txt"))
	for g := range 3 {
		for i := range 30 {
			n := strings.Count(string(data), fmt.Sprintf("<%d.%d>", g, i))
			expect(t, n <= 1, "<%d.%d> is there %d times", g, i, n)
		}
	}
	check(t, stores[0], true)
}

// chunkScript is a sequence of calls that is interrupted at every operation. After each
// call the session and the file are in one known state. A crash within a call leaves
// the state before it or after it, and the remaining calls then lead to the same result
// as without the crash.
type chunkScript struct {
	name  string
	disk  func(*simfs.FS)
	steps []func(*rw.Store) error
	from  int // the first step that is broken off
	every int // of the operations; 0 means all
}

func stepAppend(content string) func(*rw.Store) error {
	return doing((*rw.Store).ChunkAppend, rw.ChunkAppendRequest{Session: "s", Content: []byte(content)})
}

func stepWrite(index int, content string) func(*rw.Store) error {
	return doing((*rw.Store).ChunkWrite, rw.ChunkWriteRequest{Session: "s", Index: index, Content: []byte(content), TotalExpected: 3})
}

func stepCompose(cleanup bool) func(*rw.Store) error {
	return doing((*rw.Store).ChunkCompose, rw.ChunkComposeRequest{Session: "s", OutputPath: "out/file.txt", Cleanup: cleanup})
}

func stepReset(s *rw.Store) error {
	return errorOf(s.ChunkReset(background, rw.ChunkResetRequest{Session: "s"}))
}

var chunkScripts = []chunkScript{
	{name: "build_and_clean_up", steps: []func(*rw.Store) error{
		stepAppend(longText), stepWrite(3, "third"), stepWrite(2, "wrong"), stepWrite(2, otherText), stepCompose(true),
	}},
	{name: "seal_and_reset", from: 2, steps: []func(*rw.Store) error{
		stepAppend("one"), stepAppend("two"), stepCompose(false), stepCompose(false), stepReset, stepAppend("new"), stepCompose(false),
	}},
	{name: "reset_of_many", every: 37, disk: func(f *simfs.FS) {
		for i := range 260 {
			f.WriteFile(fmt.Sprintf("%s/chunks/s/part-%03d.txt", rw.StateDirName, i+1), []byte("old"), 0o600)
		}
	}, steps: []func(*rw.Store) error{stepReset, stepAppend("new"), stepCompose(true)}},
	{name: "manifest_lost", from: 2, disk: func(f *simfs.FS) {
		f.WriteFile(rw.StateDirName+"/chunks/s/manifest.json", []byte("{torn"), 0o600)
		f.WriteFile(rw.StateDirName+"/chunks/s/part-001.txt", []byte("found"), 0o600)
	}, steps: []func(*rw.Store) error{
		stepAppend("two"), stepCompose(false), stepCompose(true),
	}},
}

// chunkState is the session and the file as a caller sees them.
func chunkState(t *testing.T, s *rw.Store) string {
	t.Helper()
	st := must(s.ChunkStatus(background, rw.ChunkStatusRequest{Session: "s"}))(t, "status")
	state := fmt.Sprint(st.Exists, st.PresentIndices, st.Sealed)
	if len(st.PresentIndices) > 0 {
		p := must(s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: "s"}))(t, "preview")
		state += p.SHA256.String()
	}
	if r, err := s.Read(background, rw.ReadRequest{Path: "out/file.txt"}); err == nil {
		state += " file " + r.SHA256.String()
	}
	return state
}

// chunkFiles are the files of all sessions on a disk.
func chunkFiles(fs *simfs.FS) string {
	var list []string
	for p, content := range fs.Tree() {
		if strings.HasPrefix(p, rw.StateDirName+"/chunks/") && content != "/" {
			list = append(list, p+"="+hash(content))
		}
	}
	sort.Strings(list)
	return strings.Join(list, "\n")
}

func (c chunkScript) open(t *testing.T, fs *simfs.FS, level rw.SyncLevel, nonce string) *rw.Store {
	t.Helper()
	return must(rw.OpenSim(fs, &rw.Options{Sync: level}, rw.Sim{Nonce: nonce, Manual: true}))(t)
}

// start makes a disk with everything up to the first step that is broken off.
func (c chunkScript) start(t *testing.T, level rw.SyncLevel) (*simfs.FS, *rw.Store) {
	t.Helper()
	fs := simfs.New()
	if c.disk != nil {
		c.disk(fs)
	}
	s := c.open(t, fs, level, "0001")
	for _, step := range c.steps[:c.from] {
		noErr(t, step(s))
	}
	return fs, s
}

// states runs the script to its end and returns the state after each step, and
// the files that are left.
func (c chunkScript) states(t *testing.T, level rw.SyncLevel) (list []string, left string) {
	t.Helper()
	fs, s := c.start(t, level)
	list = append(list, chunkState(t, s))
	for i, step := range c.steps[c.from:] {
		noErr(t, step(s), "step ", c.from+i)
		list = append(list, chunkState(t, s))
	}
	check(t, s, true)
	return list, chunkFiles(fs)
}

// run takes the steps until one fails and returns how many succeeded.
func (c chunkScript) run(s *rw.Store) (int, error) {
	for i, step := range c.steps[c.from:] {
		if err := step(s); err != nil {
			return i, err
		}
	}
	return len(c.steps) - c.from, nil
}

// resume opens a disk that a crash left, compares the state with those that
// are allowed, and takes the rest of the steps.
func (c chunkScript) resume(t *testing.T, fs *simfs.FS, level rw.SyncLevel, done int, states []string, left string, allowed ...int) {
	t.Helper()
	s := c.open(t, fs, level, "0002")
	got, at := chunkState(t, s), -1
	for _, i := range allowed {
		if i < len(states) && states[i] == got {
			at = i
		}
	}
	require(t, at >= 0, "after %d steps: %s\nallowed %v of\n%s", done, got, allowed, strings.Join(states, "\n"))
	check(t, s, true)
	for i, step := range c.steps[c.from+at:] {
		noErr(t, step(s), "step ", at+i, " after the crash")
	}
	mustEqual(t, chunkState(t, s), states[len(states)-1], "the end")
	check(t, s, true)
	noErr(t, s.Close(background))
	files := chunkFiles(fs)
	require(t, at >= len(states)-1 || files == left, "left over\n%s\nnot\n%s", files, left)
	nothingStaged(t, c.open(t, fs, level, "0003"))
}

// stride is how many operations a sweep passes over, but for the long ones.
func (c chunkScript) stride(short int) int {
	return max(c.every, 1) * stride(short)
}

// TestChunkCrashSweep kills the process at every mutating operation of every
// script, with and without a power cut.
func TestChunkCrashSweep(t *testing.T) {
	for _, c := range chunkScripts {
		for _, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncJournal, rw.SyncOff} {
			t.Run(c.name+"/"+string(level), func(t *testing.T) {
				t.Parallel()
				states, left := c.states(t, level)
				step := c.stride(7)
				for n := phase(step); ; n += step {
					fs, s := c.start(t, level)
					done := 0
					if _, err := killed(t, fs, n, func() (err error) { done, err = c.run(s); return }); err == nil {
						break
					}
					for _, disk := range theDisks(fs, level, 10, n) {
						c.resume(t, disk, level, done, states, left, done, done+1)
					}
				}
			})
		}
	}
}

// TestChunkFaultSweep makes operation i fail, applied and not applied, for every i
// until a run succeeds. What the error reports about the disk must be true.
func TestChunkFaultSweep(t *testing.T) {
	for _, c := range chunkScripts {
		for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
			for _, how := range []string{"applied=false", "applied=true", "read"} {
				t.Run(fmt.Sprintf("%s/%v/%s", c.name, errno, how), func(t *testing.T) {
					t.Parallel()
					states, left := c.states(t, rw.SyncFull)
					step := c.stride(11)
					for i := phase(step); c.oneFault(t, i, errno, how, states, left); i += step {
					}
				})
			}
		}
	}
}

// oneFault lets one operation fail and reports whether there was one.
func (c chunkScript) oneFault(t *testing.T, i int, errno syscall.Errno, how string, states []string, left string) bool {
	t.Helper()
	fs, s := c.start(t, rw.SyncFull)
	done := 0
	hit, err := failingAs(t, fs, i, errno, how, func() (err error) { done, err = c.run(s); return })
	allowed := []int{done}
	if err != nil {
		switch rw.AsError("test", err).Effect {
		case rw.EffectApplied:
			allowed = []int{done + 1}
		case rw.EffectUnknown:
			allowed = []int{done, done + 1}
		}
	}
	defer func() {
		if t.Failed() {
			t.Logf("fault %d at %q: %v", i, hit, err)
		}
	}()
	c.resume(t, fs.Crash(0, simfs.None), rw.SyncFull, done, states, left, allowed...)
	c.resume(t, fs.Crash(uint64(i), simfs.Some), rw.SyncFull, done, states, left, allowed...)
	s.Close(background)
	length(t, fs.Open(), 0, "open after Close")
	return hit != "" && !t.Failed()
}
