package resilientwrite_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
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
	r := must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: session, Content: []byte(content)}))(t, "append to ", session)
	return r
}

func composed(t *testing.T, s *rw.Store, session, path string) rw.ChunkComposeResult {
	t.Helper()
	r := must(s.ChunkCompose(background, rw.ChunkComposeRequest{Session: session, OutputPath: path}))(t, "compose ", session)
	return r
}

func chunkStatus(t *testing.T, s *rw.Store, session string) rw.ChunkStatusResult {
	t.Helper()
	r := must(s.ChunkStatus(background, rw.ChunkStatusRequest{Session: session}))(t, "status of ", session)
	return r
}

// chunkDir is a file or directory of the sessions on disk.
func chunkDir(dir string, names ...string) string {
	return filepath.Join(append([]string{dir, rw.StateDirName, "chunks"}, names...)...)
}

// chunkTree is the workspace and everything in the sessions.
func chunkTree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(snapshot(t, dir))
	filepath.WalkDir(chunkDir(dir), func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		info, _ := d.Info()
		fmt.Fprintf(&b, "%s %v", p, info.Mode())
		if info.Mode().IsRegular() {
			data, _ := os.ReadFile(p)
			fmt.Fprintf(&b, " %v %x", info.ModTime().UnixNano(), hash(string(data)))
		}
		b.WriteByte('\n')
		return nil
	})
	return b.String()
}

// chunkRefused makes a call that must be refused with a detail and must change
// nothing.
func chunkRefused(t *testing.T, s *rw.Store, dir string, want rw.Detail, call func() error) *rw.Error {
	t.Helper()
	before := chunkTree(t, dir)
	err := call()
	isErr(t, err, want)
	if after := chunkTree(t, dir); after != before {
		t.Fatalf("the refusal changed something: %s", cmp.Diff(before, after))
	}
	e := rw.AsError("", err)
	if e.Effect != rw.EffectNone || e.Hint == "" || !strings.HasPrefix(e.Op, "chunk_") {
		t.Errorf("incomplete error %+v", e)
	}
	if left, _ := s.Unfinished(); len(left) > 0 {
		t.Errorf("left in staging: %v", left)
	}
	if text := conformsEnvelope(t, e); strings.Contains(string(text), dir) || strings.Contains(e.Error(), dir) {
		t.Errorf("the error shows an absolute path: %s", text)
	}
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
		if err != nil || p.SHA256.String() != hash(want) || string(p.Content) != want || p.TotalBytes != int64(len(want)) {
			t.Fatalf("preview: %v %+v", err, p)
		}
		r := must(s.ChunkCompose(background, rw.ChunkComposeRequest{Session: name, OutputPath: path, Separator: &sep, ExpectedSHA256: digest(strings.ToUpper(p.SHA256.String()))}))(t)
		if r.SHA256.String() != hash(want) || r.Bytes != int64(len(want)) || r.ChunkCount != len(pieces) || len(r.ChunkHashes) != len(pieces) {
			t.Errorf("reply %+v", r)
		}
		for i, piece := range pieces {
			if r.ChunkHashes[i].String() != hash(piece) || p.ChunkHashes[i].String() != hash(piece) {
				t.Errorf("hash of piece %d", i+1)
			}
		}
		fileIs(t, dir, path, want)
	}
	check(t, s, true)
}

// TestChunkWriteIsIdempotentPerIndex: the same bytes change nothing, others
// replace the piece; the expected total is remembered.
func TestChunkWriteIsIdempotentPerIndex(t *testing.T) {
	t.Parallel()
	s, dir := chunkStore(t)
	put := func(index int, content string, total int) (rw.ChunkWriteResult, error) {
		return s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "s", Index: index, Content: []byte(content), TotalExpected: total})
	}
	a, err := put(2, "two", 3)
	if err != nil || a.Status != rw.StatusSucceeded || a.NextIndex != 3 || *a.TotalExpected != 3 || a.SHA256.String() != hash("two") || a.Bytes != 3 ||
		a.ChunkPath != rw.StateDirName+"/chunks/s/part-002.txt" || a.JournalID == "" {
		t.Fatalf("%v %+v", err, a)
	}
	before := chunkTree(t, dir)
	if b, err := put(2, "two", 0); err != nil || b.Status != rw.StatusUnchanged || b.JournalID != "" || *b.TotalExpected != 3 {
		t.Fatalf("%v %+v", err, b)
	}
	if after := chunkTree(t, dir); after != before {
		t.Errorf("the same piece again changed %s", cmp.Diff(before, after))
	}
	if c, err := put(2, "TWO", 0); err != nil || c.Status != rw.StatusSucceeded || c.Receipt.PrevSHA256.String() != hash("two") {
		t.Fatalf("%v %+v", err, c)
	}
	chunkRefused(t, s, dir, rw.ErrIndexExceedsTotal, func() error { _, err := put(4, "four", 0); return err })
	if d, err := put(4, "four", 4); err != nil || *d.TotalExpected != 4 || d.NextIndex != 5 {
		t.Fatalf("%v %+v", err, d)
	}
	want := rw.ChunkStatusResult{
		Session: "s", Exists: true, TotalExpected: ptr(4), PresentIndices: []int{2, 4}, Missing: []int{1, 3}, MissingCount: 2,
		NextIndex: 5, Bytes: 7, ChunkDir: rw.StateDirName + "/chunks/s",
	}
	have := chunkStatus(t, s, "s")
	want.CreatedAt = have.CreatedAt
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
	put(1, "one", 0)
	put(3, "three", 0)
	composed(t, s, "s", "s.txt")
	fileIs(t, dir, "s.txt", "oneTWOthreefour")
	big, err := s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "big", Index: 999_999, Content: []byte("x")})
	if err != nil || !strings.HasSuffix(big.ChunkPath, "/part-999999.txt") {
		t.Fatalf("%v %+v", err, big)
	}
	chunkRefused(t, s, dir, rw.ErrBadIndex, func() error {
		_, err := s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "big", Content: []byte("y")})
		return err
	})
	if st := chunkStatus(t, s, "big"); st.MissingCount != 999_998 || len(st.Missing) != 1000 {
		t.Errorf("missing %d, listed %d", st.MissingCount, len(st.Missing))
	}
	check(t, s, true)
}

func ptr[T any](v T) *T { return &v }

// TestRepeatedAppendStoresOnce: after a lost reply the same call, with its key
// or with the number it expects, does not store the piece twice.
func TestRepeatedAppendStoresOnce(t *testing.T) {
	t.Parallel()
	s, dir := chunkStore(t)
	addChunk(t, s, "s", "one")
	keyed := rw.ChunkAppendRequest{Session: "s", Content: []byte("two"), Call: rw.Call{IdempotencyKey: "k2"}}
	first, err := s.ChunkAppend(background, keyed)
	if err != nil || first.Index != 2 {
		t.Fatalf("%v %+v", err, first)
	}
	addChunk(t, s, "s", "three")
	s.Close(background)
	s = open(t, dir, &rw.Options{Sync: rw.SyncOff})
	again, err := s.ChunkAppend(background, keyed)
	if err != nil || again.Status != rw.StatusReplayed || again.Index != 2 || again.SHA256.String() != hash("two") || again.NextIndex != 4 ||
		again.ChunkPath != first.ChunkPath || again.JournalID != first.JournalID {
		t.Fatalf("%v %+v", err, again)
	}
	chunkRefused(t, s, dir, rw.ErrIdempotencyKeyReused, func() error {
		_, err := s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte("other"), Call: rw.Call{IdempotencyKey: "k2"}})
		return err
	})
	expect := func(index int, content string) (rw.ChunkAppendResult, error) {
		return s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte(content), ExpectIndex: index})
	}
	if r, err := expect(4, "four"); err != nil || r.Index != 4 || r.Status != rw.StatusSucceeded {
		t.Fatalf("%v %+v", err, r)
	}
	if r, err := expect(4, "four"); err != nil || r.Index != 4 || r.Status != rw.StatusUnchanged {
		t.Fatalf("%v %+v", err, r)
	}
	e := chunkRefused(t, s, dir, rw.ErrIndexMismatch, func() error { _, err := expect(4, "five"); return err })
	if e.Context["next_index"] != 5 {
		t.Errorf("%v", e.Context)
	}
	chunkRefused(t, s, dir, rw.ErrIndexMismatch, func() error { _, err := expect(9, "nine"); return err })
	composed(t, s, "s", "s.txt")
	fileIs(t, dir, "s.txt", "onetwothreefour")
	// A key of a sealed, and of a removed, session still replays.
	if r, err := s.ChunkAppend(background, keyed); err != nil || r.Status != rw.StatusReplayed || r.Index != 2 {
		t.Fatalf("%v %+v", err, r)
	}
	must(s.ChunkReset(background, rw.ChunkResetRequest{Session: "s"}))(t)
	if r, err := s.ChunkAppend(background, keyed); err != nil || r.Status != rw.StatusReplayed || chunkStatus(t, s, "s").Exists {
		t.Fatalf("%v %+v", err, r)
	}
	check(t, s, true)
}

// TestSealedSession: a composed session makes the same file again and takes no
// more pieces until it is reset.
func TestSealedSession(t *testing.T) {
	t.Parallel()
	s, dir := chunkStore(t)
	addChunk(t, s, "s", "one")
	addChunk(t, s, "s", "two")
	sep := "\n"
	r, err := s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "s", OutputPath: "a/out.txt", Separator: &sep})
	if err != nil || r.Receipt.Op != "chunk_compose" || r.JournalID == "" || r.CleanedUp {
		t.Fatalf("%v %+v", err, r)
	}
	before := chunkTree(t, dir)
	if r := composed(t, s, "s", "a/out.txt"); r.Status != rw.StatusUnchanged || r.SHA256.String() != hash("one\ntwo") {
		t.Errorf("%+v", r)
	}
	if after := chunkTree(t, dir); after != before {
		t.Errorf("composing again changed %s", cmp.Diff(before, after))
	}
	for name, call := range map[string]func() error{
		"append": func() error {
			_, err := s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte("x")})
			return err
		},
		"write": func() error {
			_, err := s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "s", Index: 1, Content: []byte("one")})
			return err
		},
	} {
		e := chunkRefused(t, s, dir, rw.ErrSessionSealed, call)
		if e.Context["output_path"] != "a/out.txt" {
			t.Errorf("%s: %v", name, e.Context)
		}
	}
	// A file that was edited in the meantime is made again; the edited content is in
	// history.
	os.WriteFile(filepath.Join(dir, "a", "out.txt"), []byte("edited by hand"), 0o644)
	if r := composed(t, s, "s", "a/out.txt"); r.Status != rw.StatusSucceeded || r.Receipt.PrevSHA256.String() != hash("edited by hand") {
		t.Errorf("%+v", r)
	}
	composed(t, s, "s", "b.txt")
	fileIs(t, dir, "b.txt", "one\ntwo")
	st := chunkStatus(t, s, "s")
	if !st.Sealed || st.Separator != "\n" || st.OutputPath != "b.txt" || st.OutputSHA256.String() != hash("one\ntwo") {
		t.Errorf("%+v", st)
	}
	list, err := s.ChunkList(background, rw.ChunkListRequest{})
	if err != nil || list.Count != 1 || !list.Sessions[0].Sealed || list.Sessions[0].ChunkCount != 2 {
		t.Errorf("%v %+v", err, list)
	}
	rs, err := s.ChunkReset(background, rw.ChunkResetRequest{Session: "s"})
	if err != nil || !rs.Existed || rs.Removed != 2 {
		t.Fatalf("%v %+v", err, rs)
	}
	if r := addChunk(t, s, "s", "new"); r.Index != 1 {
		t.Errorf("%+v", r)
	}
	composed(t, s, "s", "c.txt")
	fileIs(t, dir, "c.txt", "new")
	tail, err := s.JournalTail(background, rw.JournalTailRequest{FilterMode: "compose"})
	if err != nil || len(tail.Entries) != 4 {
		t.Errorf("%v: %d rows of composes", err, len(tail.Entries))
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
			if err != nil || !p.Preview || p.SHA256.String() != hash(text) || p.TotalBytes != int64(len(text)) {
				t.Fatalf("%v %+v", err, p)
			}
			got.Write(p.Content)
			if off += int64(len(p.Content)); !p.Truncated {
				break
			}
		}
		if got.String() != text {
			t.Errorf("windows of %d bytes: %q", size, got.String())
		}
	}
	whole, err := s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: "s", MaxBytes: 12, Classify: true, Validate: true, TargetPath: "a.json"})
	if err != nil || string(whole.Content) != text[:12] || !whole.Truncated || whole.Risk == nil || whole.Risk.Verdict != rw.VerdictSafe ||
		whole.Validation == nil || !whole.Validation.Valid || whole.Validation.Format != "json" {
		t.Errorf("%v %+v", err, whole)
	}
	if p, err := s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: "s", Offset: 5000}); err != nil || string(p.Content) != "" || p.Truncated || p.Offset != int64(len(text)) {
		t.Errorf("%v %+v", err, p)
	}
	if after := chunkTree(t, dir); after != before {
		t.Errorf("a preview changed %s", cmp.Diff(before, after))
	}
	addChunk(t, s, "bad", `{"key": "`+awsID(7)+`"`)
	p, err := s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: "bad", Classify: true, Validate: true, TargetPath: "a.json"})
	if err != nil || p.Risk.Verdict != rw.VerdictHigh || p.Validation.Valid || len(p.Validation.Errors) == 0 {
		t.Errorf("%v %+v", err, p)
	}
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
				e := chunkRefused(t, s, dir, rw.ErrRiskBlocked, func() error { _, err := s.ChunkCompose(agents(), r); return err })
				if len(e.Patterns) == 0 {
					t.Errorf("%+v", e)
				}
			}
			filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() || strings.Contains(p, "quarantine") {
					return err
				}
				if data, _ := os.ReadFile(p); bytes.Contains(data, []byte(whole)) {
					t.Errorf("%s holds the secret", p)
				}
				return nil
			})
			if chunkStatus(t, s, session).Sealed {
				t.Error("sealed by a refusal")
			}
			// A piece that holds the whole secret does not even get into the session.
			chunkRefused(t, s, dir, rw.ErrRiskBlocked, func() error {
				_, err := s.ChunkAppend(agents(), rw.ChunkAppendRequest{Session: session, Content: []byte(c.text)})
				return err
			})
			check(t, s, true)
		})
	}
}

// TestChunksFromManyGoroutinesAndStores: every piece of two stores gets a
// number of its own.
func TestChunksFromManyGoroutinesAndStores(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	stores := []*rw.Store{open(t, dir, &rw.Options{Sync: rw.SyncOff}), open(t, dir, &rw.Options{Sync: rw.SyncOff})}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 8 {
				if _, err := stores[g%2].ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte(fmt.Sprintf("<%d.%d>", g, i))}); err != nil {
					t.Errorf("%v %v", err, errors.Unwrap(err))
				}
			}
		}()
	}
	wg.Wait()
	r := composed(t, stores[0], "s", "out.txt")
	data, _ := os.ReadFile(filepath.Join(dir, "out.txt"))
	if r.ChunkCount != 64 {
		t.Errorf("%d pieces", r.ChunkCount)
	}
	for g := range 8 {
		at := -1
		for i := range 8 { // once each, and those of one writer in their order
			mark := fmt.Sprintf("<%d.%d>", g, i)
			next := strings.Index(string(data), mark)
			if strings.Count(string(data), mark) != 1 || next < at {
				t.Errorf("%s is there %d times, at %d after %d", mark, strings.Count(string(data), mark), next, at)
			}
			at = next
		}
	}
	check(t, stores[1], true)
}

// TestSessionsAreReadReadOnly: a store that may not write reads them.
func TestSessionsAreReadReadOnly(t *testing.T) {
	t.Parallel()
	s, dir := chunkStore(t)
	addChunk(t, s, "s", "one")
	s.Close(background)
	ro := open(t, dir, &rw.Options{ReadOnly: true})
	if st := chunkStatus(t, ro, "s"); !st.Exists || st.NextIndex != 2 {
		t.Errorf("%+v", st)
	}
	if p, err := ro.ChunkPreview(background, rw.ChunkPreviewRequest{Session: "s"}); err != nil || string(p.Content) != "one" {
		t.Errorf("%v %+v", err, p)
	}
	if l, err := ro.ChunkList(background, rw.ChunkListRequest{}); err != nil || l.Count != 1 {
		t.Errorf("%v %+v", err, l)
	}
	chunkRefused(t, ro, dir, rw.ErrStoreReadOnly, func() error {
		_, err := ro.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte("x")})
		return err
	})
	chunkRefused(t, ro, dir, rw.ErrStoreReadOnly, func() error {
		_, err := ro.ChunkReset(background, rw.ChunkResetRequest{Session: "s"})
		return err
	})
	none := open(t, workspace(t), &rw.Options{ReadOnly: true}) // nothing was ever written there
	if st := chunkStatus(t, none, "s"); st.Exists {
		t.Errorf("%+v", st)
	}
	if l, err := none.ChunkList(background, rw.ChunkListRequest{}); err != nil || l.Count != 0 || l.Sessions == nil {
		t.Errorf("%v %+v", err, l)
	}
	text, _ := json.Marshal(chunkStatus(t, none, "s"))
	if strings.Contains(string(text), "[null]") || !strings.Contains(string(text), `"exists":false`) || !strings.Contains(string(text), `"missing":[]`) {
		t.Errorf("%s", text)
	}
}

// TestSessionsTellWhenTheyBegan checks that the time stays when chunks are
// added, and is new after a reset.
func TestSessionsTellWhenTheyBegan(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, nil)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	began := func() string {
		t.Helper()
		r := must(s.ChunkStatus(background, rw.ChunkStatusRequest{Session: "s"}))(t)
		return r.CreatedAt
	}
	for range 2 {
		s.SetNow(now)
		must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte("a")}))(t)
		now = now.Add(time.Hour)
	}
	if got := began(); got != "2026-01-02T03:04:05.000000Z" {
		t.Errorf("began at %q", got)
	}
	must(s.ChunkReset(background, rw.ChunkResetRequest{Session: "s"}))(t)
	must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte("a")}))(t)
	if got := began(); got == "" || got == "2026-01-02T03:04:05.000000Z" {
		t.Errorf("after a reset began at %q", got)
	}
}
