package resilientwrite_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// keyedCall is a call on the state directory with an idempotency key. A repeated call
// must return the same reply.
type keyedCall struct {
	name   string
	part   string
	before func(*rw.Store) error
	call   func(s *rw.Store, key string, dry bool) (reply any, r rw.Receipt, err error)
	other  func(s *rw.Store, key string) error // another request
	undo   func(*rw.Store) error               // restores the objects that a second run would remove again
}

const stagedID = "tx_staged"

// keyedCalls are the verbs that had no key of their own.
func keyedCalls() []keyedCall {
	secondTx := func(s *rw.Store) string {
		d, err := s.Describe(background, rw.DescribeRequest{})
		if err != nil || len(d.Transactions) == 0 {
			return stagedID
		}
		return d.Transactions[0]
	}
	txID := ""
	return []keyedCall{
		{
			name: "tx_begin", part: "tx",
			call: func(s *rw.Store, key string, dry bool) (any, rw.Receipt, error) {
				out, err := s.TxBegin(background, rw.TxBeginRequest{Call: rw.Call{IdempotencyKey: key, DryRun: dry}})
				return []string{out.TxID, out.ExpiresAt}, out.Receipt, err
			},
			other: func(s *rw.Store, key string) error {
				_, err := s.TxBegin(background, rw.TxBeginRequest{Call: rw.Call{IdempotencyKey: key, Caller: "another"}})
				return err
			},
			undo: func(s *rw.Store) error {
				_, err := s.TxRollback(background, rw.TxRollbackRequest{TxID: secondTx(s)})
				return err
			},
		},
		{
			name: "tx_rollback", part: "tx",
			before: func(s *rw.Store) error {
				b, err := s.TxBegin(background, rw.TxBeginRequest{})
				txID = b.TxID
				for i := range 3 {
					if err == nil {
						_, err = s.TxStage(background, rw.TxStageRequest{TxID: txID, Op: rw.TxOp{Op: "delete", Path: fmt.Sprint(i)}})
					}
				}
				return err
			},
			call: func(s *rw.Store, key string, dry bool) (any, rw.Receipt, error) {
				out, err := s.TxRollback(background, rw.TxRollbackRequest{TxID: txID, Call: rw.Call{IdempotencyKey: key, DryRun: dry}})
				return []any{out.TxID, out.Dropped, out.Existed}, out.Receipt, err
			},
			other: func(s *rw.Store, key string) error {
				_, err := s.TxRollback(background, rw.TxRollbackRequest{TxID: stagedID, Call: rw.Call{IdempotencyKey: key}})
				return err
			},
		},
		{
			name: "scratch_delete", part: "scratch",
			before: func(s *rw.Store) error {
				for i, r := range []rw.ScratchPutRequest{{Content: []byte("kept"), Label: "kept"}, {Content: []byte("one"), Label: "log"}, {Content: []byte("one"), Label: "again"}} {
					if _, err := s.ScratchPut(background, r); err != nil {
						return fmt.Errorf("%d: %w", i, err)
					}
				}
				return nil
			},
			call: func(s *rw.Store, key string, dry bool) (any, rw.Receipt, error) {
				out, err := s.ScratchDelete(background, rw.ScratchDeleteRequest{Label: "log", Call: rw.Call{IdempotencyKey: key, DryRun: dry}})
				return []any{out.SHA256, out.Removed, out.RowsRemoved, out.BytesFreed, out.ExpiredRemoved}, out.Receipt, err
			},
			other: func(s *rw.Store, key string) error {
				_, err := s.ScratchDelete(background, rw.ScratchDeleteRequest{Label: "kept", Call: rw.Call{IdempotencyKey: key}})
				return err
			},
			undo: func(s *rw.Store) error {
				_, err := s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte("put since"), Label: "log"})
				return err
			},
		},
		{
			name: "checkpoint_cleanup", part: "checkpoints",
			before: func(s *rw.Store) error {
				for name, ttl := range map[string]string{"kept": "permanent", "mine": "session", "other.one": "session"} {
					if _, err := s.Checkpoint(background, rw.CheckpointRequest{Name: name, Data: jsonString("x"), TTL: ttl}); err != nil {
						return err
					}
				}
				return nil
			},
			call: func(s *rw.Store, key string, dry bool) (any, rw.Receipt, error) {
				out, err := s.CheckpointCleanup(background, rw.CheckpointCleanupRequest{Call: rw.Call{IdempotencyKey: key, DryRun: dry}})
				return []any{out.Removed, out.Kept, out.More}, out.Receipt, err
			},
			other: func(s *rw.Store, key string) error {
				no := false
				_, err := s.CheckpointCleanup(background, rw.CheckpointCleanupRequest{IncludeSession: &no, Call: rw.Call{IdempotencyKey: key}})
				return err
			},
			undo: func(s *rw.Store) error {
				_, err := s.Checkpoint(background, rw.CheckpointRequest{Name: "since", Data: jsonString("x"), TTL: "session"})
				return err
			},
		},
	}
}

// TestAKeyedCallOnTheStateIsRepeated: a dry run changes nothing and binds no key; the
// call then happens once, and the same key returns the same reply again, also in
// another process and after a restart, and does not touch later changes.
func TestAKeyedCallOnTheStateIsRepeated(t *testing.T) {
	for _, c := range keyedCalls() {
		s, dir := quick(t, nil)
		if c.before != nil {
			noErr(t, c.before(s))
		}
		before := stateSnapshot(t, dir)
		would, r, err := c.call(s, "key", true)
		if err != nil || !r.DryRun || r.JournalSeq != 0 || stateSnapshot(t, dir) != before {
			t.Fatalf("%s: a dry run: %v %+v", c.name, err, r)
		}
		first, r, err := c.call(s, "key", false)
		if err != nil || r.Status != rw.StatusSucceeded || r.JournalSeq == 0 || r.IdempotencyKey != "key" {
			t.Fatalf("%s: %v %+v", c.name, err, r)
		}
		if c.name != "tx_begin" && !reflect.DeepEqual(would, first) {
			t.Errorf("%s: a dry run tells %v, the call %v", c.name, would, first)
		}
		if c.undo != nil {
			noErr(t, c.undo(s))
		}
		after := stateSnapshot(t, dir)
		again := func(where string, s *rw.Store) {
			t.Helper()
			for _, dry := range []bool{false, true} {
				got, g, err := c.call(s, "key", dry)
				if err != nil || g.Status != rw.StatusReplayed || g.JournalSeq != r.JournalSeq || g.Path != r.Path || !reflect.DeepEqual(got, first) {
					t.Errorf("%s, %s: %v %v\nwant %v\n%+v\nwant %+v", c.name, where, err, got, first, g, r)
				}
			}
		}
		again("at once", s)
		again("by another store", quickAt(t, dir, nil))
		if stateSnapshot(t, dir) != after {
			t.Errorf("%s: a repeated call changed something", c.name)
		}
		noErr(t, s.Close(background))
		s = quickAt(t, dir, nil)
		again("after a restart", s)
		isErr(t, c.other(s, "key"), rw.ErrIdempotencyKeyReused, c.name, ": the key for another request")
		if _, g, err := c.call(s, strings.Repeat("k", 201), false); !errors.Is(err, rw.ErrInvalidArgument) {
			t.Errorf("%s: a long key: %v %+v", c.name, err, g)
		}
		check(t, s, true)
	}
}

// TestAKeyedCallOnTheStateHappensOnceOverCrashes: interrupted at every operation, the
// repeated call returns the reply that the first call would have returned.
func TestAKeyedCallOnTheStateHappensOnceOverCrashes(t *testing.T) {
	for _, c := range keyedCalls() {
		sweep := stateSweep{name: c.name, part: c.part, before: c.before}
		_, s := sweep.prepare(t, rw.SyncFull)
		want, _, err := c.call(s, "key", false)
		noErr(t, err)
		replayed, ran := 0, 0
		for n := 0; ; n++ {
			fsys, s := sweep.prepare(t, rw.SyncFull)
			fsys.StopAt(n)
			_, _, err := c.call(s, "key", false)
			fsys.StopAt(-1)
			for _, disk := range []*simfs.FS{fsys.Crash(0, simfs.None), fsys.Crash(0, simfs.All)} {
				s := sweep.open(t, disk, rw.SyncFull, "0003")
				got, r, aerr := c.call(s, "key", false)
				if aerr != nil || c.name != "tx_begin" && !reflect.DeepEqual(got, want) {
					t.Fatalf("%s, operation %d: %v %v, want %v", c.name, n, aerr, got, want)
				}
				if r.Status == rw.StatusReplayed {
					replayed++
				} else {
					ran++
				}
				if err == nil && r.Status != rw.StatusReplayed {
					t.Errorf("%s: an acknowledged call happened again", c.name)
				}
				if c.name == "tx_begin" {
					if d, err := s.Describe(background, rw.DescribeRequest{}); err != nil || len(d.Transactions) != 1 || d.Transactions[0] != got.([]string)[0] {
						t.Errorf("operation %d: %v transactions, the call tells of %v", n, d.Transactions, got)
					}
				}
				check(t, s, true)
				noErr(t, s.Close(background))
			}
			if err == nil {
				break
			}
		}
		if replayed < 2 || ran < 2 {
			t.Errorf("%s: %d calls were answered by the key, %d ran", c.name, replayed, ran)
		}
	}
}

// TestAKeyedCleanupFitsIntoItsRow: names have the maximum length, including damaged
// ones; one call lists everything that it removed and the next key continues.
func TestAKeyedCleanupFitsIntoItsRow(t *testing.T) {
	s, dir := quick(t, nil)
	for i := range 40 {
		name := strings.Repeat("n", 125) + fmt.Sprintf("%03d", i)
		save(t, s, rw.CheckpointRequest{Name: name, Data: jsonString("x"), TTL: "session"})
		if i%3 == 0 {
			noErr(t, os.WriteFile(filepath.Join(dir, rw.StateDirName, "checkpoints", name+".json"), []byte("damaged"), 0o600))
		}
	}
	left := 40
	for i := 0; left > 0; i++ {
		r := rw.CheckpointCleanupRequest{Call: rw.Call{IdempotencyKey: fmt.Sprint("key", i)}}
		first, err := s.CheckpointCleanup(background, r)
		if err != nil || len(first.Removed) == 0 || len(first.Removed) > 30 {
			t.Fatalf("%d removed, %v", len(first.Removed), err)
		}
		left -= len(first.Removed)
		if first.Kept != left || first.More != (left > 0) {
			t.Errorf("%d left: %d %v", left, first.Kept, first.More)
		}
		if row, err := s.ReplyOf(first.Receipt.JournalSeq); err != nil || len(row) > 4<<10 {
			t.Errorf("the row holds %d bytes, %v", len(row), err)
		}
		before := stateSnapshot(t, dir)
		again, err := s.CheckpointCleanup(background, r)
		if err != nil || again.Status != rw.StatusReplayed || !reflect.DeepEqual(again.Removed, first.Removed) || again.Kept != first.Kept || again.More != first.More {
			t.Errorf("%v %+v\nwant %+v", err, again, first)
		}
		if stateSnapshot(t, dir) != before {
			t.Error("a repeated call set aside what is damaged")
		}
	}
	check(t, s, true)
}

// TestDryRunsOfStagingAndDrafts: they return the same result as the call, report that
// they are dry runs, and leave no trace.
func TestDryRunsOfStagingAndDrafts(t *testing.T) {
	dir := ramspace(t)
	s := openGated(t, dir, &rw.Options{Sync: rw.SyncOff})
	b := must(s.TxBegin(background, rw.TxBeginRequest{}))(t)
	op := rw.TxOp{Op: "write", Path: "a.txt", Content: []byte("x")}
	must(s.TxStage(background, rw.TxStageRequest{TxID: b.TxID, Op: op}))(t)
	_, err := s.SafeWrite(background, put("secret.txt", "key AKIA"+strings.ToUpper("qwertyuiopas2345"), rw.ModeCreate))
	ref, _ := rw.AsError("", err).Context["draft_ref"].(string)
	if ref == "" {
		t.Fatalf("no draft: %v", err)
	}
	before := stateSnapshot(t, dir)
	if out, err := s.TxStage(background, rw.TxStageRequest{TxID: b.TxID, Op: op, Call: rw.Call{DryRun: true, IdempotencyKey: "k"}}); err != nil || out.Index != 2 || !out.Receipt.DryRun {
		t.Errorf("stage: %v %+v", err, out)
	}
	fails(s.TxStage(background, rw.TxStageRequest{TxID: "tx_none", Op: op, Call: rw.Call{DryRun: true}}))(t, rw.ErrTxNotFound, "stage in none")
	if out, err := s.TxBegin(background, rw.TxBeginRequest{Call: rw.Call{DryRun: true}}); err != nil || out.TxID != "" || out.ExpiresAt == "" {
		t.Errorf("begin: %v %+v", err, out)
	}
	if out, err := s.DraftDelete(background, rw.DraftDeleteRequest{DraftRef: ref, DryRun: true}); err != nil || !out.Removed {
		t.Errorf("draft: %v %+v", err, out)
	}
	if stateSnapshot(t, dir) != before {
		t.Error("a dry run left something")
	}
	for _, removed := range []bool{true, false} { // once, and again after a lost reply
		if out, err := s.DraftDelete(background, rw.DraftDeleteRequest{DraftRef: ref}); err != nil || out.Removed != removed {
			t.Errorf("draft: %v %+v", err, out)
		}
	}
	if out, err := s.TxStage(background, rw.TxStageRequest{TxID: b.TxID, Op: op, Call: rw.Call{IdempotencyKey: "k"}}); err != nil || out.Index != 2 {
		t.Errorf("a dry run bound the key or took a number: %v %+v", err, out)
	}
	ro := openGated(t, dir, &rw.Options{ReadOnly: true})
	if _, err := ro.DraftDelete(background, rw.DraftDeleteRequest{DraftRef: ref, DryRun: true}); !errors.Is(err, rw.ErrStoreReadOnly) || rw.AsError("", err).RetryBudget != rw.DefaultRetryBudget {
		t.Errorf("read-only: %v", err)
	}
}
