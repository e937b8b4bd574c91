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
	w := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r1, err := s.SafeWrite(background, put("a.txt", "1", rw.ModeCreate))
	w(r1, err)
	r2, err := s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte("piece")})
	w(r2, err)
	r3, err := s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "s", OutputPath: "b.txt"})
	w(r3, err)
	r4, err := s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte("raw"), Label: "l"})
	w(r4, err)
	r5, err := s.Checkpoint(background, rw.CheckpointRequest{Name: "c", Data: json.RawMessage(`1`)})
	w(r5, err)
	r6, err := s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "move", Path: "a.txt", To: "m.txt"}, {Op: "delete", Path: "b.txt"}}})
	w(r6, err)
	r7, err := s.Undo(background, rw.UndoRequest{})
	w(r7, err)
	tail, err := s.JournalTail(background, rw.JournalTailRequest{N: 100})
	w(tail, err)
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
