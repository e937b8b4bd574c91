package resilientwrite_test

import (
	"bytes"
	"os"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// FuzzDiffLinear: the diff of two texts takes work in proportion to their
// length, whatever they have in common.
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

// FuzzStateLinear: what a neighbor may have put into the state directory – the
// list of a session of pieces, the index of the scratchpad, a checkpoint, a
// handoff – is read with work in proportion to its length.
func FuzzStateLinear(f *testing.F) {
	row := `{"sha256":"` + hash("a") + `","label":"l#"}` + "\n"
	seeds := []string{`{"index":#,"sha256":"` + hash("one") + `","bytes":3},`, row, `{"parts":[`, "k#: v\n", `"k#":1,`, "\n"}
	s, dir := fuzzed(f)
	if _, err := s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: "one"}); err != nil {
		f.Fatal(err)
	}
	if _, err := s.ScratchPut(background, rw.ScratchPutRequest{Content: "a", Label: "a"}); err != nil {
		f.Fatal(err)
	}
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
