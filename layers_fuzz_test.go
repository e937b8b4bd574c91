package resilientwrite_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// fuzzed is a store for a fuzzing worker, which meets many inputs.
func fuzzed(f *testing.F) (*rw.Store, string) {
	f.Helper()
	dir := f.TempDir()
	s := must(rw.Open(background, dir, &rw.Options{Sync: rw.SyncOff}))(f)
	f.Cleanup(func() { s.Close(background) })
	return s, dir
}

// FuzzManifest: whatever the list of a session contains, with or without the hash that
// makes it ours, the chunks are those on disk, each is read as it was sent or not at
// all, and the session can be removed.
func FuzzManifest(f *testing.F) {
	for _, text := range []string{
		`{"format":"resilientwrite.chunks/1","session":"s","total_expected":2,"separator":"\n","parts":[{"index":1,"sha256":"` + hash("one") + `","bytes":3}],"check":"00"}`,
		`{"format":"resilientwrite.chunks/1","parts":[{"index":2,"sha256":"` + hash("other") + `","bytes":-1},{"index":1}],"sealed":{"output_path":"o.txt"}}`,
		`{"parts":[{"index":1,"sha256":"","bytes":0}],"reset_pending":true}`, `{"total_expected":9000000000000000000}`,
		`{"total_expected":3,"chunks":[]}`, `{"total_expected":-1}`, `{"format":7}`, `[]`, `null`, ``, "\xff", `{"parts":[{"index":-5}]}`,
	} {
		f.Add([]byte(text))
	}
	s, dir := fuzzed(f)
	f.Fuzz(func(t *testing.T, list []byte) {
		manifestIs(t, s, dir, list)
		if sealed, ok := rw.ResealManifest(list, "s"); ok {
			manifestIs(t, s, dir, sealed)
		}
	})
}

func manifestIs(t *testing.T, s *rw.Store, dir string, list []byte) {
	noErr(t, s.ResetTask(background))
	for _, piece := range []string{"one", "two"} {
		addChunk(t, s, "s", piece)
	}
	noErr(t, os.WriteFile(chunkDir(dir, "s", "manifest.json"), list, 0o600))
	st := chunkStatus(t, s, "s")
	if there := fmt.Sprint(st.PresentIndices); there != "[1 2]" && there != "[]" || st.MissingCount > 999_999 {
		t.Fatalf("%q: %+v", list, st)
	}
	p, err := s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: "s"})
	if err == nil && len(st.PresentIndices) > 0 && (!strings.HasPrefix(string(p.Content), "one") || !strings.HasSuffix(string(p.Content), "two")) {
		t.Fatalf("%q: %q", list, p.Content)
	}
	r, err2 := s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte("three")})
	if err2 == nil && r.Index != 3 && r.Index != 1 {
		t.Fatalf("%q: index %d", list, r.Index)
	}
	for _, err := range []error{err, err2} {
		if err != nil && rw.AsError("", err).Detail == rw.ErrInternal {
			t.Fatalf("%q: %v", list, err)
		}
	}
	if _, err := s.ChunkReset(background, rw.ChunkResetRequest{Session: "s"}); err != nil {
		t.Fatalf("%q: %v", list, err)
	}
}

// FuzzScratchIndex: whatever the index or a facts file contains, the objects exist
// until a valid entry expires them, their bytes are unchanged, and the next put is
// found again.
func FuzzScratchIndex(f *testing.F) {
	row := func(content, rest string) string { return `{"sha256":"` + hash(content) + `"` + rest + "}\n" }
	for _, text := range []string{
		row("a", `,"bytes":1,"label":"l","ts":"2026-11-21T10:00:00Z"`) + row("b", `,"expires_at":"2020-01-01T00:00:00Z"`),
		row("a", `,"bytes":-9,"label":7,"ts":null`), row("a", `,"bytes":9223372036854775807`) + row("b", `,"bytes":9223372036854775807`),
		strings.ToUpper(row("a", "")), "{\n\n\x00\xff\r\n[]\nnull\n", row("a", "")[:40], strings.Repeat("x", 70<<10), "",
		row("c", `,"expires_at":"9999-12-31T23:59:59Z"`), row("a", `,"expires_at":"0000-00-00"`),
		row("a", `,"bytes":9223372036854775807`),
	} {
		f.Add([]byte(text), true)
		f.Add([]byte(text), false)
	}
	s, dir := fuzzed(f)
	f.Fuzz(func(t *testing.T, text []byte, beside bool) {
		os.RemoveAll(inState(dir, "scratch"))
		noErr(t, s.ResetTask(background))
		keep(t, s, rw.ScratchPutRequest{Content: []byte("a"), Label: "a"})
		keep(t, s, rw.ScratchPutRequest{Content: []byte("b"), Label: "b"})
		path := inState(dir, "scratch", "index.jsonl")
		if beside {
			os.Remove(path)
			path = besideObject(dir, "a")
		}
		noErr(t, os.WriteFile(path, text, 0o600))
		if l := listed(t, s); l.ExpiredRemoved == 0 && !bytes.Contains(text, []byte("expires_at")) {
			if l.Objects != 2 || l.Count < 2 {
				t.Fatalf("%q: %+v", text, l)
			}
			gotBack(t, s, hash("a"), "a")
			gotBack(t, s, hash("b"), "b")
		}
		keep(t, s, rw.ScratchPutRequest{Content: []byte("c"), Label: "a fresh label"})
		l := listed(t, s)
		must(json.Marshal(l))(t)
		if r, err := s.ScratchRef(background, rw.ScratchRefRequest{Label: "a fresh label"}); err != nil || r.Entry.SHA256.String() != hash("c") || !r.BinExists {
			t.Fatalf("%q: %+v %v", text, r, err)
		}
		gotBack(t, s, hash("c"), "c")
	})
}
