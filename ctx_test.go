package resilientwrite_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"reflect"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/command"
	"github.com/resilientwrite/resilientwrite/handoff"
)

// TestEveryMethodHonoursItsContext calls each method of a Store and of its Admin that
// takes a context with one that is canceled, and with arguments that are valid.
func TestEveryMethodHonoursItsContext(t *testing.T) {
	s, dir := quick(t, &rw.Options{Session: "s"})
	write(t, s, "a.txt", "one", rw.ModeCreate)
	snap := must(s.Snapshot(background, around.SnapshotRequest{}))(t)
	tx := must(s.TxBegin(background, rw.TxBeginRequest{}))(t)
	claim := must(s.Claim(background, []string{"a.txt"}, time.Minute))(t)
	valid := map[string][]any{
		"Blame":           {around.BlameRequest{Path: "a.txt"}},
		"Checkpoint":      {rw.CheckpointRequest{Name: "c", Data: json.RawMessage("1")}},
		"ChunkAppend":     {rw.ChunkAppendRequest{Session: "s", Content: []byte("x")}},
		"ChunkCompose":    {rw.ChunkComposeRequest{Session: "s", OutputPath: "b.txt"}},
		"ChunkReset":      {rw.ChunkResetRequest{Session: "s"}},
		"ChunkWrite":      {rw.ChunkWriteRequest{Session: "s", Index: 1, Content: []byte("x")}},
		"Claim":           {[]string{"a.txt"}, time.Minute},
		"Content":         {admin.ContentRequest{}},
		"Exec":            {command.Request{Argv: []string{"true"}}},
		"HandoffWrite":    {handoff.WriteRequest{Envelope: anEnvelope("t")}},
		"JournalRows":     {rw.JournalSinceRequest{AfterSeq: new(uint64)}},
		"JournalSince":    {rw.JournalSinceRequest{AfterSeq: new(uint64)}},
		"Move":            {rw.MoveRequest{Path: "a.txt", To: "b.txt"}},
		"Renew":           {claim.Fence, time.Minute},
		"Restore":         {rw.RestoreRequest{Path: "a.txt", Version: 1}},
		"ScratchDelete":   {rw.ScratchDeleteRequest{Label: "l"}},
		"SeenCall":        {around.ToolCall{ID: "1"}},
		"SnapshotDiff":    {around.SnapshotDiffRequest{From: snap.ID}},
		"SnapshotRestore": {rw.SnapshotRestoreRequest{ID: snap.ID}},
		"SnapshotTree":    {snap.ID},
		"Tx":              {rw.TxRequest{Ops: []rw.TxOp{{Op: "delete", Path: "a.txt"}}}},
		"TxStage":         {rw.TxStageRequest{TxID: tx.TxID, Op: rw.TxOp{Op: "delete", Path: "a.txt"}}},
	}
	ctx, cancel := context.WithCancel(background)
	cancel()
	operator := s.Admin()
	for _, v := range []reflect.Value{reflect.ValueOf(s), reflect.ValueOf(&operator).Elem()} {
		for i := range v.NumMethod() {
			name, m := v.Type().Method(i).Name, v.Method(i)
			if m.Type().NumIn() == 0 || m.Type().In(0) != reflect.TypeFor[context.Context]() || m.Type().IsVariadic() || name == "Close" {
				continue
			}
			args := []reflect.Value{reflect.ValueOf(ctx)}
			for j := range m.Type().NumIn() - 1 {
				arg := reflect.Zero(m.Type().In(j + 1))
				if given := valid[name]; given != nil {
					arg = reflect.ValueOf(given[j])
				}
				args = append(args, arg)
			}
			out := m.Call(args)
			err, _ := out[len(out)-1].Interface().(error)
			if rows, ok := out[0].Interface().(iter.Seq2[rw.JournalEntry, error]); ok {
				for _, err = range rows {
				}
			}
			expect(t, errors.Is(err, rw.ErrCanceled), "%s: %v", name, err)
		}
	}
	fileIs(t, dir, "a.txt", "one")
}
