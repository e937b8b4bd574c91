package resilientwrite_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
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
			var e rw.HandoffEnvelope
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
			chunkDir(dir, "s", "manifest.json"):    `{"parts":[` + string(text) + `{"index":1}]}`,
			inState(dir, "scratch", "index.jsonl"): string(text),
			inState(dir, "checkpoints", "c.json"):  `{"data":{` + string(text) + `"z":1}}`,
			dir + "/HANDOFF.md":                    "---\n" + string(text) + "\n---\n" + string(text),
		} {
			os.MkdirAll(inState(dir, "checkpoints"), 0o700)
			if err := os.WriteFile(path, []byte(doc), 0o600); err != nil {
				f.Fatal(err)
			}
		}
		s.ChunkStatus(background, rw.ChunkStatusRequest{Session: "s"})
		s.ScratchList(background, rw.ScratchListRequest{})
		s.CheckpointRead(background, rw.CheckpointReadRequest{Name: "c"})
		s.HandoffRead(background, rw.HandoffReadRequest{})
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
			op := rw.HookCall{Changes: []rw.Change{{Path: path}}}
			rw.PathRules{Deny: []string{glob}, Allow: []string{glob, "**/" + glob}}.Authorize(background, op)
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
		_, err := s.HandoffWrite(background, rw.HandoffWriteRequest{AutoState: rw.AutoState(bomb), Envelope: rw.HandoffEnvelope{
			TaskID: "t", Status: rw.HandoffPartial, Agent: "a", Summary: "s", NextSteps: []string{},
		}})
		return err
	})
	op := rw.HookCall{Changes: []rw.Change{{Path: strings.Repeat("ab", 100)}}}
	if _, err := (rw.PathRules{Deny: []string{bomb}}).Authorize(background, op); err == nil {
		t.Error("a rule that cannot be matched denies nothing")
	}
	if d, err := (rw.PathRules{Allow: []string{bomb}}).Authorize(background, op); err != nil || d == rw.Allow() {
		t.Errorf("a rule that cannot be matched allows: %+v %v", d, err)
	}
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
	deny(t, s, dir, "too many", rw.ErrTooLarge, func() error {
		_, err := s.Edit(background, rw.EditRequest{Path: "a.txt", Edits: edits})
		return err
	})
	deny(t, s, dir, "too many in a transaction", rw.ErrTooLarge, func() error {
		_, err := s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "edit", Path: "a.txt", Edits: edits}}})
		return err
	})
	end()
	write(t, s, "b.txt", strings.Repeat("line\n", 1000), rw.ModeCreate)
	if r, err := s.Edit(background, rw.EditRequest{Path: "b.txt", Edits: edits[:4095]}); err != nil || r.Replacements != 4095*1000 {
		t.Errorf("%d replacements, %v", r.Replacements, err)
	}
}

// TestLongPathsLinear: a call takes work in proportion to the length of its
// paths, however many names they have.
func TestLongPathsLinear(t *testing.T) {
	s, _ := quick(t, nil)
	ctx := rw.WithProtectDefaults(background, rw.ProtectAsk)
	for _, piece := range []string{"a/", "A/", ".run/", ".claude/", "refs/", "HEAD/", ".hg~1x/", "é/"} {
		testbed.Linear(t, piece, 500, 100*time.Microsecond, func(n int) int {
			var ops []rw.TxOp
			for i := range 8 {
				deep := fmt.Sprint(strings.Repeat(piece, n/len(piece)), i)
				ops = append(ops, rw.TxOp{Op: "move", Path: deep, To: "to" + deep})
			}
			if _, err := s.Tx(ctx, rw.TxRequest{Ops: ops, Call: rw.Call{DryRun: true}}); err == nil {
				t.Fatal("moves of files that are not there")
			}
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
