package resilientwrite_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestAnalyticsReadsEveryRow: the fast way through the journal yields the
// figures that fully decoded rows do, for rows of every layer, names that need
// escapes, calls that were refused, and keys with replies.
func TestAnalyticsReadsEveryRow(t *testing.T) {
	dir := ramspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff, Caller: `an "agent" <&>`})
	other := hash("other")
	for i, path := range []string{"a.txt", "b & c.txt", "d <e>.txt", "ünïcode.txt", "f\u2028g.txt"} {
		write(t, s, path, "one", rw.ModeOverwrite)
		write(t, s, path, "two", rw.ModeAppend)
		_, err1 := s.SafeWrite(background, rw.SafeWriteRequest{Path: path, Content: []byte("x"), Expect: rw.Exactly(digest(other))})
		_, err2 := s.Edit(background, rw.EditRequest{Path: path, Call: rw.Call{IdempotencyKey: fmt.Sprint("k", i)}, Edits: []rw.EditOp{{Old: "two", New: "2"}}})
		if err1 == nil || err2 != nil {
			t.Fatal(err1, err2)
		}
	}
	keep(t, s, rw.ScratchPutRequest{Content: []byte("one"), Label: "l"})
	_, err1 := s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "up", Content: []byte("piece"), Call: rw.Call{Caller: "other"}})
	_, err2 := s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "up", OutputPath: "up.txt"})
	_, err3 := s.Checkpoint(background, rw.CheckpointRequest{Name: "p", Data: []byte(`1`)})
	_, err4 := s.Checkpoint(background, rw.CheckpointRequest{Name: "p", Data: []byte(`2`)})
	_, err5 := s.Move(background, rw.MoveRequest{Path: "a.txt", To: "z.txt"})
	_, err6 := s.Delete(background, rw.DeleteRequest{Path: "z.txt"})
	_, err7 := s.Undo(background, rw.UndoRequest{})
	noErr(t, errors.Join(err1, err2, err3, err4, err5, err6, err7))
	noErr(t, s.FillJournal(2000))
	fast, err1 := s.Analytics(background, rw.AnalyticsRequest{})
	slow, err2 := s.AnalyticsDecoded()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	got, _ := json.Marshal(fast)
	want, _ := json.Marshal(slow)
	if string(got) != string(want) {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if fast.TotalWrites < 2018 {
		t.Errorf("%d writes", fast.TotalWrites)
	}
}
