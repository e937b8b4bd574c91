package resilientwrite_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// TestTailFiltersEveryKind: every value in the rows can be used as a filter, and every
// filter is in the schema.
func TestTailFiltersEveryKind(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	must(s.SafeWrite(background, put("a.txt", "1", rw.ModeCreate)))(t)
	must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte("piece")}))(t)
	must(s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "s", OutputPath: "b.txt"}))(t)
	must(s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte("raw"), Label: "l"}))(t)
	must(s.Checkpoint(background, rw.CheckpointRequest{Name: "c", Data: json.RawMessage(`1`)}))(t)
	must(s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "move", Path: "a.txt", To: "m.txt"}, {Op: "delete", Path: "b.txt"}}}))(t)
	must(s.Undo(background, rw.UndoRequest{}))(t)
	tail := must(s.JournalTail(background, rw.JournalTailRequest{N: 100}))(t)
	f, _ := reflect.TypeFor[rw.JournalTailRequest]().FieldByName("FilterMode")
	offered := schema.Words(f.Tag.Get("enum"))
	for _, e := range tail.Entries {
		if !slices.Contains(offered, e.Op) {
			t.Errorf("rows say %s, which cannot be asked for", e.Op)
		}
		one, err := s.JournalTail(background, rw.JournalTailRequest{N: 100, FilterMode: e.Op})
		if err != nil || !slices.ContainsFunc(one.Entries, func(x rw.JournalEntry) bool { return x.JournalID == e.JournalID }) {
			t.Errorf("%s does not find its row %s: %v", e.Op, e.JournalID, err)
		}
	}
}
