package resilientwrite_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/hook"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// FuzzDiffLinear: the diff of two texts takes work in proportion to their length, for
// any common parts.
func FuzzDiffLinear(f *testing.F) {
	seeds := []string{"#\n", "a\n … b\n", "a\nb\n", "x#\ny\n", "\n … #\n", "a#", "a\n#\n … #\na\n"}
	testbed.FuzzLinear(f, 32<<10, 10*time.Microsecond, seeds, func(text []byte) int {
		half := len(text) / 2
		reversed := make([]byte, len(text))
		for i, c := range text {
			reversed[len(text)-1-i] = c
		}
		rw.UnifiedDiff("a", text[:half], text[half:])
		rw.UnifiedDiff("a", text, reversed)
		rw.UnifiedDiff("a", text, append(bytes.Clone(text[half:]), text[:half]...))
		return 0
	})
}

// FuzzEnvelopeLinear: reading and writing the envelope of a handoff takes work
// in proportion to its length.
func FuzzEnvelopeLinear(f *testing.F) {
	seeds := []string{`{"path":"a","sha256":"","x#":1},`, `{"id":"s#","depends_on":["s#"]},`, `"a",`, `"k#":1,`}
	testbed.FuzzLinear(f, 16<<10, 5*time.Microsecond, seeds, func(text []byte) int {
		list := `[` + string(text) + `""]`
		for _, doc := range []string{string(text), `{` + string(text) + `"z":1}`, `{"next_steps":` + list + `}`, `{"last_good_state":` + list + `}`, `{"dependency_graph":[` + string(text) + `{"id":"z"}]}`} {
			var e handoff.Envelope
			if e.UnmarshalJSON([]byte(doc)) == nil {
				e.MarshalJSON()
			}
		}
		return 0
	})
}

// FuzzStateLinear: data that another program may have put into the state directory –
// the list of a session of chunks, the index of the scratchpad, a checkpoint, a handoff
// – is read with work in proportion to its length.
func FuzzStateLinear(f *testing.F) {
	row := `{"sha256":"` + hash("a") + `","label":"l#"}` + "\n"
	seeds := []string{`{"index":#,"sha256":"` + hash("one") + `","bytes":3},`, row, `{"parts":[`, "k#: v\n", `"k#":1,`, "\n"}
	s, dir := fuzzed(f)
	must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte("one")}))(f)
	must(s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte("a"), Label: "a"}))(f)
	testbed.FuzzLinear(f, 8<<10, 50*time.Microsecond, seeds, func(text []byte) int {
		for path, doc := range map[string]string{
			chunkDir(dir, "s", "manifest.json"):      `{"parts":[` + string(text) + `{"index":1}]}`,
			statePath(dir, "scratch", "index.jsonl"): string(text),
			statePath(dir, "checkpoints", "c.json"):  `{"data":{` + string(text) + `"z":1}}`,
			dir + "/HANDOFF.md":                      "---\n" + string(text) + "\n---\n" + string(text),
		} {
			os.MkdirAll(statePath(dir, "checkpoints"), 0o700)
			noErr(f, os.WriteFile(path, []byte(doc), 0o600))
		}
		s.ChunkStatus(background, rw.ChunkStatusRequest{Session: "s"})
		s.ScratchList(background, rw.ScratchListRequest{})
		s.CheckpointRead(background, rw.CheckpointReadRequest{Name: "c"})
		s.HandoffRead(background, handoff.ReadRequest{})
		return 0
	})
}

// FuzzGlobLinear: matching a path against any accepted glob takes a bounded time for
// each byte of the path.
func FuzzGlobLinear(f *testing.F) {
	seeds := []string{"**/*a", "*a", "a/**/", "{a,b}", "{*a,**/b}", "[a-z]", "a/ … **/", "{a,{b, … }}"}
	testbed.FuzzLinear(f, 500, 100*time.Microsecond, seeds, func(text []byte) int {
		glob := string(text[:min(len(text), 900)])
		for _, path := range []string{strings.Repeat("a/", len(text)/2) + "c", strings.Repeat("a", 250) + strings.Repeat("/ab", len(text)/3), string(text)} {
			op := hook.Call{Changes: []hook.Change{{Path: path}}}
			hook.PathRules{Deny: []string{glob}, Allow: []string{glob, "**/" + glob}}.Authorize(background, op)
		}
		return 0
	})
}

// TestHostileGlobs: a glob whose braces expand to more globs than a call can match is
// refused by name before anything is matched.
func TestHostileGlobs(t *testing.T) {
	bomb := strings.Repeat("{a,b}", 40)
	s, dir := quick(t, nil)
	write(t, s, "a.txt", "a", rw.ModeCreate)
	deny(t, s, dir, "auto_state", rw.ErrTooLarge, func() error {
		return errorOf(s.HandoffWrite(background, handoff.WriteRequest{AutoState: handoff.AutoState(bomb), Envelope: handoff.Envelope{
			TaskID: "t", Status: handoff.Partial, Agent: "a", Summary: "s", NextSteps: []string{},
		}}))
	})
	op := hook.Call{Changes: []hook.Change{{Path: strings.Repeat("ab", 100)}}}
	expect(t, errorOf((hook.PathRules{Deny: []string{bomb}}).Authorize(background, op)) != nil, "a rule that cannot be matched denies nothing")
	d := must((hook.PathRules{Allow: []string{bomb}}).Authorize(background, op))(t)
	expect(t, d != hook.Allow(), "a rule that cannot be matched allows: %+v", d)
}

// TestManyEdits: edits are bounded by their number and by the total size that they
// process; more are refused at once, with a hint.
func TestManyEdits(t *testing.T) {
	s, dir := quick(t, nil)
	write(t, s, "a.txt", strings.Repeat("line\n", 1<<20), rw.ModeCreate)
	edits := make([]rw.EditOp, 4097)
	for i := range edits {
		edits[i] = rw.EditOp{Old: "line", New: "lane", Count: -1}
		if i%2 == 1 {
			edits[i] = rw.EditOp{Old: "lane", New: "line", Count: -1}
		}
	}
	end := testbed.Within(t, 60*time.Second, "edits beyond the bound")
	deny(t, s, dir, "too many", rw.ErrTooLarge, func() error { return errorOf(s.Edit(background, rw.EditRequest{Path: "a.txt", Edits: edits})) })
	deny(t, s, dir, "too many in a transaction", rw.ErrTooLarge, func() error {
		return errorOf(s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "edit", Path: "a.txt", Edits: edits}}}))
	})
	end()
	write(t, s, "b.txt", strings.Repeat("line\n", 1000), rw.ModeCreate)
	equal(t, must(s.Edit(background, rw.EditRequest{Path: "b.txt", Edits: edits[:4095]}))(t).Replacements, 4095*1000, "replacements")
}

// TestLongPathsLinear: a call takes work in proportion to the length of its
// paths, however many names they have.
func TestLongPathsLinear(t *testing.T) {
	s, _ := quick(t, nil)
	ctx := rw.WithProtectDefaults(background, rw.ProtectAsk)
	for _, piece := range testbed.Share(t, []string{"a/", "A/", ".run/", ".claude/", "refs/", "HEAD/", ".hg~1x/", "é/"}, 4, nil) {
		testbed.Linear(t, piece, 500, 100*time.Microsecond, func(n int) int {
			var ops []rw.TxOp
			for i := range 8 {
				deep := fmt.Sprint(strings.Repeat(piece, n/len(piece)), i)
				ops = append(ops, rw.TxOp{Op: "move", Path: deep, To: "to" + deep})
			}
			require(t, errorOf(s.Tx(ctx, rw.TxRequest{Ops: ops, Call: rw.Call{DryRun: true}})) != nil, "moves of files that are not there")
			return 0
		})
	}
}

// TestManyDirectoriesOfGitsNames: paths through very many directories with the names of
// git's own are refused before one of them is read.
func TestManyDirectoriesOfGitsNames(t *testing.T) {
	s, dir := quick(t, nil)
	var ops []rw.TxOp
	for i := range 256 {
		ops = append(ops, txWrite(fmt.Sprintf("d%d/%sx", i, strings.Repeat("refs/objects/", 300)), "x", rw.ModeCreate))
	}
	end := testbed.Within(t, 30*time.Second, "many directories")
	deny(t, s, dir, "many directories", rw.ErrTooLarge, func() error { return transact(s, ops...) })
	end()
	noErr(t, transact(s, txWrite("a/refs/b/config/objects/x", "x", rw.ModeCreate), txWrite("a/config/x", "x", rw.ModeCreate)))
}

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
	there := fmt.Sprint(st.PresentIndices)
	require(t, (there == "[1 2]" || there == "[]") && st.MissingCount <= 999_999, "%q: %+v", list, st)
	p, err := s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: "s"})
	require(t, err != nil || len(st.PresentIndices) == 0 || strings.HasPrefix(string(p.Content), "one") &&
		strings.HasSuffix(string(p.Content), "two"), "%q: %q", list, p.Content)
	r, err2 := s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte("three")})
	require(t, err2 != nil || r.Index == 3 || r.Index == 1, "%q: index %d", list, r.Index)
	for _, err := range []error{err, err2} {
		require(t, err == nil || rw.AsError("", err).Detail != rw.ErrInternal, "%q: %v", list, err)
	}
	must(s.ChunkReset(background, rw.ChunkResetRequest{Session: "s"}))(t, list)
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
		os.RemoveAll(statePath(dir, "scratch"))
		noErr(t, s.ResetTask(background))
		keep(t, s, rw.ScratchPutRequest{Content: []byte("a"), Label: "a"})
		keep(t, s, rw.ScratchPutRequest{Content: []byte("b"), Label: "b"})
		path := statePath(dir, "scratch", "index.jsonl")
		if beside {
			os.Remove(path)
			path = besideObject(dir, "a")
		}
		noErr(t, os.WriteFile(path, text, 0o600))
		if l := listed(t, s); l.ExpiredRemoved == 0 && !bytes.Contains(text, []byte("expires_at")) {
			require(t, l.Objects == 2 && l.Count >= 2, "%q: %+v", text, l)
			gotBack(t, s, hash("a"), "a")
			gotBack(t, s, hash("b"), "b")
		}
		keep(t, s, rw.ScratchPutRequest{Content: []byte("c"), Label: "a fresh label"})
		l := listed(t, s)
		must(json.Marshal(l))(t)
		r := must(s.ScratchRef(background, rw.ScratchRefRequest{Label: "a fresh label"}))(t)
		require(t, r.Entry.SHA256.String() == hash("c") && r.BinExists, "%q: %+v", text, r)
		gotBack(t, s, hash("c"), "c")
	})
}
