package resilientwrite_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// lookedAt is a context that counts how often it is checked and is canceled at check
// number end.
type lookedAt struct {
	context.Context
	cancel context.CancelFunc
	looks  atomic.Int64
	end    int64
}

func newLookedAt(end int64) *lookedAt {
	ctx, cancel := context.WithCancel(context.Background())
	return &lookedAt{Context: ctx, cancel: cancel, end: end}
}

func (c *lookedAt) Err() error {
	if c.looks.Add(1) >= c.end {
		c.cancel()
	}
	return c.Context.Err()
}

const laneBytes = 3 << 20

// laneCall is one call of the test.
type laneCall struct {
	least int64 // looks of a whole call
	call  func(ctx context.Context) error
}

// laneCalls are calls of every tool that takes content, with so much content that none
// of them is done before the context is checked.
func laneCalls(s *rw.Store) map[string]laneCall {
	text := strings.Repeat("some ordinary words of a line\r\n", laneBytes/31)
	list := "[" + strings.TrimSuffix(strings.Repeat(`"word",`, laneBytes/7), ",") + "]"
	return map[string]laneCall{
		"write": {30, func(ctx context.Context) error {
			_, err := s.SafeWrite(ctx, rw.SafeWriteRequest{Path: "big.txt", Content: []byte(text), Mode: rw.ModeOverwrite, EOL: "lf"})
			return err
		}},
		"append": {20, func(ctx context.Context) error {
			_, err := s.SafeWrite(ctx, rw.SafeWriteRequest{Path: "old.txt", Content: []byte(text), Mode: rw.ModeAppend})
			return err
		}},
		"validate": {2, func(ctx context.Context) error {
			_, err := s.SafeWrite(ctx, rw.SafeWriteRequest{Path: "big.json", Content: []byte(list), Mode: rw.ModeOverwrite, Validate: true})
			return err
		}},
		"edit": {24, func(ctx context.Context) error {
			_, err := s.Edit(ctx, rw.EditRequest{Path: "old.txt", Edits: []rw.EditOp{{Old: "ordinary", New: "usual", Count: -1}, {Old: "usual", New: "common", Count: -1}}})
			return err
		}},
		"tx": {30, func(ctx context.Context) error {
			ops := []rw.TxOp{{Op: "write", Path: "big.txt", Mode: rw.ModeOverwrite, Content: []byte(text)}}
			for range 20 {
				ops = append(ops, rw.TxOp{Op: "write", Path: "big.txt", Mode: rw.ModeAppend, Content: []byte("x")})
			}
			_, err := s.Tx(ctx, rw.TxRequest{Ops: ops})
			return err
		}},
		"directories": {20, func(ctx context.Context) error {
			_, err := s.Tx(ctx, rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: strings.Repeat("d/", 20) + "f", Content: []byte("x")}}})
			return err
		}},
		"chunk": {5, func(ctx context.Context) error {
			_, err := s.ChunkWrite(ctx, rw.ChunkWriteRequest{Session: "s", Index: 1, Content: []byte(text)})
			return err
		}},
		"compose": {25, func(ctx context.Context) error {
			_, err := s.ChunkCompose(ctx, rw.ChunkComposeRequest{Session: "old", OutputPath: "big.txt", Mode: rw.ModeOverwrite})
			return err
		}},
		"checkpoint": {5, func(ctx context.Context) error {
			_, err := s.Checkpoint(ctx, rw.CheckpointRequest{Name: "c", Data: json.RawMessage(list)})
			return err
		}},
		"scratch": {3, func(ctx context.Context) error {
			_, err := s.ScratchPut(ctx, rw.ScratchPutRequest{Content: []byte(text), Label: "l"})
			return err
		}},
		"score": {10, func(ctx context.Context) error {
			_, err := s.RiskScore(ctx, rw.RiskScoreRequest{Content: []byte(text)})
			return err
		}},
		"redact": {10, func(ctx context.Context) error {
			_, err := s.Redact(ctx, rw.RedactRequest{Content: []byte(text)})
			return err
		}},
		"check": {1, func(ctx context.Context) error {
			_, err := s.Validate(ctx, rw.ValidateRequest{Content: []byte(list), FormatHint: "json"})
			return err
		}},
	}
}

// laneVerbs are calls that work on existing content, which is large.
func laneVerbs(t *testing.T, s *rw.Store) map[string]laneCall {
	text := strings.Repeat("some ordinary words of a line\n", laneBytes/90)
	first := map[string]uint64{}
	for _, name := range []string{"deleted.txt", "moved.txt", "restored.txt", "undone.txt", "left.txt"} {
		r := must(s.SafeWrite(background, rw.SafeWriteRequest{Path: name, Content: []byte(text + name), Call: rw.Call{Session: name}}))(t)
		first[name] = r.Receipt.JournalSeq
		write(t, s, name, "another version of "+text, rw.ModeOverwrite)
	}
	must(s.SafeWrite(background, rw.SafeWriteRequest{Path: "undone.txt", Content: []byte(text), Mode: rw.ModeOverwrite, Call: rw.Call{Session: "undone"}}))(t)
	var drafts [2]string
	for i := range drafts {
		_, err := s.SafeWrite(rw.WithGate(background, rw.GateOfAgents), rw.SafeWriteRequest{Path: "refused.txt", Content: []byte(fmt.Sprint(text, i, "\nid ", awsID(uint64(i)), "\n"))})
		drafts[i], _ = rw.AsError("", err).Context["draft_ref"].(string)
	}
	for _, session := range []string{"seen", "reset"} {
		must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: session, Content: []byte(text)}))(t)
	}
	tx, err := s.TxBegin(background, rw.TxBeginRequest{})
	if err == nil {
		_, err = s.TxStage(background, rw.TxStageRequest{TxID: tx.TxID, Op: rw.TxOp{Op: "write", Path: "staged.txt", Content: []byte(text)}})
	}
	if err != nil || drafts[1] == "" {
		t.Fatal(drafts, err)
	}
	env := rw.HandoffEnvelope{TaskID: "t", Status: rw.HandoffPartial, Agent: "a", Summary: "s", NextSteps: []string{"n"}, LastGoodState: []rw.HandoffFile{}}
	must(s.HandoffWrite(background, rw.HandoffWriteRequest{Envelope: env}))(t)
	return map[string]laneCall{
		"delete": {5, func(ctx context.Context) error {
			_, err := s.Delete(ctx, rw.DeleteRequest{Path: "deleted.txt"})
			return err
		}},
		"move": {8, func(ctx context.Context) error {
			_, err := s.Move(ctx, rw.MoveRequest{Path: "moved.txt", To: "to.txt"})
			return err
		}},
		"restore": {10, func(ctx context.Context) error {
			_, err := s.Restore(ctx, rw.RestoreRequest{Path: "restored.txt", Version: first["restored.txt"]})
			return err
		}},
		"undo": {10, func(ctx context.Context) error {
			_, err := s.Undo(ctx, rw.UndoRequest{Call: rw.Call{Session: "undone"}})
			return err
		}},
		"tx commit": {5, func(ctx context.Context) error {
			_, err := s.TxCommit(ctx, rw.TxCommitRequest{TxID: tx.TxID})
			return err
		}},
		"handoff": {10, func(ctx context.Context) error {
			_, err := s.HandoffWrite(ctx, rw.HandoffWriteRequest{Envelope: env, Body: []byte(text), AutoState: "left.txt"})
			return err
		}},
		"handoff read": {1, func(ctx context.Context) error { _, err := s.HandoffRead(ctx, rw.HandoffReadRequest{}); return err }},
		"read": {1, func(ctx context.Context) error {
			_, err := s.Read(ctx, rw.ReadRequest{Path: "left.txt", Version: first["left.txt"]})
			return err
		}},
		"diff": {1, func(ctx context.Context) error { _, err := s.Diff(ctx, rw.DiffRequest{Path: "left.txt"}); return err }},
		"history": {1, func(ctx context.Context) error {
			_, err := s.History(ctx, rw.HistoryRequest{Path: "left.txt"})
			return err
		}},
		"preview": {1, func(ctx context.Context) error {
			_, err := s.ChunkPreview(ctx, rw.ChunkPreviewRequest{Session: "seen"})
			return err
		}},
		"reset": {1, func(ctx context.Context) error {
			_, err := s.ChunkReset(ctx, rw.ChunkResetRequest{Session: "reset"})
			return err
		}},
		"draft": {1, func(ctx context.Context) error {
			_, err := s.DraftGet(ctx, rw.DraftGetRequest{DraftRef: drafts[0]})
			return err
		}},
		"redact draft": {5, func(ctx context.Context) error {
			_, err := s.Redact(ctx, rw.RedactRequest{DraftRef: drafts[0]})
			return err
		}},
		"delete draft": {1, func(ctx context.Context) error {
			_, err := s.DraftDelete(ctx, rw.DraftDeleteRequest{DraftRef: drafts[1]})
			return err
		}},
	}
}

// TestCancelInTheMiddle: a call that is canceled at any check of its context ends as
// canceled, makes at most a few more checks, has changed nothing, and does not block
// the next call.
func TestCancelInTheMiddle(t *testing.T) {
	s, dir := quick(t, nil)
	old := strings.Repeat("some ordinary words of a line\n", laneBytes/30)
	write(t, s, "old.txt", old, rw.ModeCreate)
	must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "old", Content: []byte(old)}))(t)
	calls := laneCalls(s)
	maps.Copy(calls, laneVerbs(t, s))
	for _, name := range testbed.Share(t, sortedKeys(calls), 3, nil) {
		row, whole := calls[name], int64(1)
		for end := int64(1); ; end = max(end+1, end*2) {
			before := snapshot(t, dir)
			ctx := newLookedAt(end)
			err := row.call(rw.WithGate(ctx, rw.GateOfAgents))
			if err == nil {
				whole = ctx.looks.Load()
				break // canceled after the commit point, or not any more
			}
			isErr(t, err, rw.ErrCanceled, name, ", canceled at look ", end)
			if more := ctx.looks.Load() - end; more > 8 {
				t.Errorf("%s, canceled at look %d: %d looks after it", name, end, more)
			}
			if after := snapshot(t, dir); after != before {
				t.Errorf("%s, canceled at look %d: the files changed", name, end)
			}
			must(s.SafeWrite(background, rw.SafeWriteRequest{Path: "next.txt", Content: []byte(name), Mode: rw.ModeOverwrite}))(t, name, ", canceled at look ", end, ": the next write")
			noErr(t, s.ResetTask(background))
		}
		t.Logf("%s: %d looks", name, whole)
		if whole < row.least {
			t.Errorf("%s: %d looks at the context, want %d", name, whole, row.least)
		}
	}
}

// TestCancelInTheSearchOfAPattern: an expression of a policy that reads the same text
// repeatedly checks the context while it does.
func TestCancelInTheSearchOfAPattern(t *testing.T) {
	dir := ramspace(t)
	writePolicy(t, dir, "extend_patterns: {own: [{name: slow, regex: '(?s)a.*z|a'}]}\n")
	s := quickAt(t, dir, nil)
	text := strings.Repeat("a", 1<<20)
	must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "c", Content: []byte(text)}))(t)
	for name, call := range map[string]func(ctx context.Context) error{
		"write": func(ctx context.Context) error {
			_, err := s.SafeWrite(rw.WithGate(ctx, rw.GateOfAgents), rw.SafeWriteRequest{Path: "a.txt", Content: []byte(text)})
			return err
		},
		"compose": func(ctx context.Context) error {
			_, err := s.ChunkCompose(rw.WithGate(ctx, rw.GateOfAgents), rw.ChunkComposeRequest{Session: "c", OutputPath: "a.txt"})
			return err
		},
		"preview": func(ctx context.Context) error {
			_, err := s.ChunkPreview(ctx, rw.ChunkPreviewRequest{Session: "c", Classify: true})
			return err
		},
		"score": func(ctx context.Context) error {
			_, err := s.RiskScore(ctx, rw.RiskScoreRequest{Content: []byte(text)})
			return err
		},
		"redact": func(ctx context.Context) error {
			_, err := s.Redact(ctx, rw.RedactRequest{Content: []byte(text)})
			return err
		},
	} {
		ctx := newLookedAt(500)
		isErr(t, call(ctx), rw.ErrCanceled, name)
		if more := ctx.looks.Load() - 500; more < 0 || more > 16 {
			t.Errorf("%s: %d looks at the context after it was done", name, more)
		}
	}
}
