package resilientwrite_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

func repairIt(t *testing.T, s *rw.Store, r admin.RepairRequest) admin.RepairResult {
	t.Helper()
	return must(s.Admin().Repair(background, r))(t, "repair")
}

// damagedRows changes the lines of the first segment.
func damagedRows(t *testing.T, dir string, change func([]string) []string) {
	t.Helper()
	path := statePath(dir, "journal", firstSegment)
	data := must(os.ReadFile(path))(t)
	list := strings.Split(strings.Trim(string(data), "\n\x00"), "\n\n")
	os.WriteFile(path, []byte("\n"+strings.Join(change(list), "\n\n")+"\n"), 0o600)
}

// repairable is one planted damage and what Repair makes of it.
type repairable struct {
	name   string
	damage func(t *testing.T, dir string)
	code   string           // what Check reports
	did    admin.RepairKind // "" when it is left, or Open mends it
	left   bool             // when nothing is acknowledged
	rows   bool             // every row is there afterwards
}

func plantedDamages() []repairable {
	rows := func(change func([]string) []string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { damagedRows(t, dir, change) }
	}
	state := func(parts ...string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			os.MkdirAll(filepath.Dir(statePath(dir, parts...)), 0o700)
			os.WriteFile(statePath(dir, parts...), []byte("damage"), 0o600)
		}
	}
	object := func(change func(string)) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			h := hash("version 0")
			change(statePath(dir, "history", h[:2], h))
		}
	}
	forger := func(l []string, i int) []string {
		l[i] = strings.Replace(l[i], "tester", "forger", 1)
		return l
	}
	return []repairable{
		{"row changed", rows(func(l []string) []string { return forger(l, 2) }), "chain_broken", "", true, true},
		{"first row changed", rows(func(l []string) []string { return forger(l, 0) }), "chain_broken", "", true, true},
		{"hash in a row changed", rows(func(l []string) []string {
			l[3] = strings.Replace(l[3], hash("version 3"), hash("forged"), 1)
			return l
		}), "chain_broken", "", true, true},
		{"last row changed", rows(func(l []string) []string { return forger(l, len(l)-1) }), "head_changed", "", true, true},
		{"row removed", rows(func(l []string) []string { return append(l[:2:2], l[3:]...) }), "seq_missing", "", true, false},
		{"first row removed", rows(func(l []string) []string { return l[1:] }), "seq_missing", "", true, false},
		{"tail cut off", rows(func(l []string) []string { return l[:3] }), "tail_missing", "", true, false},
		{"rows swapped", rows(func(l []string) []string { l[1], l[2] = l[2], l[1]; return l }), "seq_missing", admin.RepairOrdered, false, true},
		{"row doubled", rows(func(l []string) []string { return append(l[:3:3], l[2:]...) }), "seq_out_of_order", admin.RepairOrdered, false, true},
		{"row forged at the end", rows(func(l []string) []string {
			return append(l, strings.Replace(l[len(l)-1], fmt.Sprintf(`{"seq":%d`, len(l)), fmt.Sprintf(`{"seq":%d`, len(l)+1), 1))
		}), "chain_broken", "", true, true},
		{"garbage between rows", rows(func(l []string) []string { return append(append(l[:2:2], "garbage"), l[2:]...) }), "malformed_line", admin.RepairOrdered, false, true},
		{"row truncated", rows(func(l []string) []string { l[2] = l[2][:40]; return l }), "malformed_line", "", true, false},
		{"rows fused", rows(func(l []string) []string { l[1] += l[2]; return append(l[:2:2], l[3:]...) }), "malformed_line", admin.RepairOrdered, false, true},
		{"NULs over a row", rows(func(l []string) []string { l[2] = l[2][:20] + strings.Repeat("\x00", len(l[2])-20); return l }), "malformed_line", "", true, false},
		{"segment renamed", func(t *testing.T, dir string) {
			os.Rename(statePath(dir, "journal", firstSegment), statePath(dir, "journal", "00000000000000000003.jsonl"))
		}, "segment_name", admin.RepairOrdered, false, true},
		{"stranger in journal/", state("journal", "notes.txt"), "unknown_file", admin.RepairSetAside, false, true},
		{"stranger in history/", state("history", "notes.txt"), "unknown_file", admin.RepairSetAside, false, true},
		{"stranger among kept versions", state("history", hash("version 0")[:2], "notes.txt"), "unknown_file", admin.RepairSetAside, false, true},
		{"object changed", object(func(p string) { os.WriteFile(p, []byte("version X"), 0o600) }), "object_damaged", admin.RepairSetAside, false, true},
		{"object truncated", object(func(p string) { os.Truncate(p, 3) }), "object_damaged", admin.RepairSetAside, false, true},
		{"meta.json garbage", state("meta.json"), "meta_unreadable", "", false, true}, // Open makes it again
		{"staging left over", state("staging", "deadbeef-1-1"), "stale_staging", "", false, true},
		{"file edited", func(t *testing.T, dir string) {
			os.WriteFile(filepath.Join(dir, "a.txt"), []byte("edited"), 0o644)
		}, "file_differs", "", true, true},
		{"file removed", func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, "a.txt")) }, "file_differs", "", true, true},
		{"snapshot damaged", func(t *testing.T, dir string) {
			snaps, _ := filepath.Glob(statePath(dir, "index", "*.snap"))
			data, _ := os.ReadFile(snaps[0])
			data[100] ^= 1
			os.WriteFile(snaps[0], data, 0o600)
		}, "snapshot_damaged", admin.RepairSetAside, false, true},
		{"scratch object changed", state("scratch", hash("kept apart")+".bin"), "scratch_damaged", admin.RepairSetAside, false, true},
		{"scratch index garbage", func(t *testing.T, dir string) {
			data, _ := os.ReadFile(statePath(dir, "scratch", "index.jsonl"))
			os.WriteFile(statePath(dir, "scratch", "index.jsonl"), append([]byte("garbage\n"), data...), 0o600)
		}, "scratch_index_damaged", admin.RepairRebuilt, false, true},
		{"checkpoint garbage", state("checkpoints", "point.json"), "checkpoint_damaged", admin.RepairSetAside, false, true},
		{"manifest garbage", state("chunks", "up", "manifest.json"), "manifest_damaged", admin.RepairRebuilt, false, true},
		{"piece changed", state("chunks", "up", "part-001.txt"), "file_differs", admin.RepairSetAside, false, true},
		{"draft facts garbage", state("quarantine", "draft_"+strings.Repeat("0", 32)+".json"), "draft_damaged", admin.RepairSetAside, false, true},
		{"budgets garbage", state("budgets.json"), "budgets_damaged", admin.RepairSetAside, false, true},
		{"cursor garbage", state("cursors", strings.Repeat("0", 32)+".json"), "cursor_damaged", admin.RepairSetAside, false, true},
		{"handoff records garbage", state("handoffs", "read.json"), "handoff_records_damaged", admin.RepairSetAside, false, true},
	}
}

// damageable is a store that has something of everything.
func damageable(t *testing.T, dir string) {
	t.Helper()
	s := must(rw.Open(background, dir, &rw.Options{Caller: "tester", Sync: rw.SyncOff}))(t)
	for i := range 6 {
		write(t, s, "a.txt", fmt.Sprint("version ", i), rw.ModeOverwrite)
	}
	_, err1 := s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte("kept apart"), Label: "it"})
	_, err2 := s.Checkpoint(background, rw.CheckpointRequest{Name: "point", Data: []byte(`{"n":1}`), TTL: "permanent"})
	_, err3 := s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "up", Content: []byte("piece")})
	_, err4 := s.HandoffWrite(background, handoff.WriteRequest{Envelope: anEnvelope("t")})
	_, err5 := s.HandoffRead(background, handoff.ReadRequest{AcknowledgeAs: "next"})
	noErr(t, errors.Join(err1, err2, err3, err4, err5, s.SnapshotNow()))
	check(t, s, true)
	noErr(t, s.Close(background))
}

// TestRepairOfEveryPlantedDamage: damage that can be repaired is repaired, without
// losing a row or a byte; other damage is reported with a reason, and is accepted once
// the operator gives one. A second call changes nothing.
func TestRepairOfEveryPlantedDamage(t *testing.T) {
	for _, row := range plantedDamages() {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dir := workspace(t)
			damageable(t, dir)
			row.damage(t, dir)
			before := realTree(t, statePath(dir))
			s := open(t, dir, &rw.Options{Caller: "tester", Sync: rw.SyncOff})
			rows, _ := s.CountRows()
			found, _ := s.Check(background, admin.CheckRequest{Deep: true})

			plan := repairIt(t, s, admin.RepairRequest{Call: rw.Call{DryRun: true}})
			equal(t, must(s.CountRows())(t), rows, "a dry run wrote a row")
			r := repairIt(t, s, admin.RepairRequest{})
			equal(t, len(plan.Actions) == 0, (len(r.Actions) == 0), "planned ", plan.Actions, ", did ", r.Actions)
			var did []string
			for _, a := range r.Actions {
				did = append(did, string(a.Did))
			}
			expect(t, (row.did != "" || len(did) == 0) && (row.did == "" || strings.Contains(strings.Join(did, " "), string(row.did))),
				"did %+v, want %q; found %+v", r.Actions, row.did, found.Problems)
			var left []string
			for _, p := range r.Left {
				left = append(left, p.Code)
				expect(t, p.Why != "", "no reason why %s is left", p.Code)
			}
			expect(t, (row.left || len(left) == 0) && (!row.left || slices.Contains(left, row.code)), "left %v, want %v of %q; did %v", left, row.left, row.code, r.Actions)
			equal(t, r.Clean, !row.left, "clean")
			nothingIsGone(t, before, realTree(t, statePath(dir)))
			again := repairIt(t, s, admin.RepairRequest{})
			expect(t, len(again.Actions) == 0 && again.Status == rw.StatusUnchanged, "again: %+v", again.Actions)
			if row.rows {
				for seq := uint64(1); seq <= 6; seq++ {
					zero := seq - 1
					got := must(s.JournalSince(background, rw.JournalSinceRequest{AfterSeq: &zero, Limit: 1}))(t)
					expect(t, len(got.Entries) == 1 && got.Entries[0].Seq == seq, "row %d: %+v", seq, got)
				}
			}
			acknowledged(t, dir, s, row)
		})
	}
}

// acknowledged accepts the remaining damage, and checks that other damage is still
// reported, permanently.
func acknowledged(t *testing.T, dir string, s *rw.Store, row repairable) {
	t.Helper()
	if row.left && row.code != "file_differs" {
		a := repairIt(t, s, admin.RepairRequest{Acknowledge: "looked at it: " + row.name})
		expect(t, len(a.Actions) != 0 && a.Receipt.JournalSeq != 0, "acknowledged: %+v", a)
	}
	differs := row.left && row.code == "file_differs" || row.code == "tail_missing" // the rows with the current content of the file are lost
	for round := range 2 {
		got, err := s.Check(background, admin.CheckRequest{Deep: true})
		require(t, err == nil && (got.Clean || differs && len(got.Problems) <= 1 && got.Problems[0].Code == "file_differs"),
			"round %d: %v %+v", round, err, got.Problems)
		write(t, s, fmt.Sprint("on", round, ".txt"), "on", rw.ModeOverwrite)
		s.Close(background)
		s = open(t, dir, &rw.Options{Caller: "tester", Sync: rw.SyncOff})
	}
	s.Close(background)
	damagedRows(t, dir, func(l []string) []string {
		l[0] = strings.Replace(l[0], "a.txt", "b.txt", 1)
		return l
	})
	s = open(t, dir, &rw.Options{ReadOnly: true})
	got := must(s.Check(background, admin.CheckRequest{}))(t)
	expect(t, !got.Clean, "other damage is not named:")
}

// nothingIsGone demands that every byte that was there is somewhere: in its
// place, or in quarantine.
func nothingIsGone(t *testing.T, before, after map[string]string) {
	t.Helper()
	for path, content := range before {
		if content == "/" || after[path] == content || strings.HasPrefix(path, "locks/") || strings.HasPrefix(path, "index/") ||
			strings.HasPrefix(path, "journal/") && strings.HasPrefix(after[path], strings.TrimRight(content, "\x00")) || path == "meta.json" {
			continue
		}
		found := strings.HasPrefix(path, "staging/") // Open sweeps what belongs to no commit
		for other, text := range after {
			found = found || strings.HasPrefix(other, "quarantine/") && strings.HasPrefix(text, strings.TrimRight(content, "\x00"))
		}
		expect(t, found, "%s is gone", path)
	}
}

// TestRepairKeepsWhatWorks: after a repair every layer works.
func TestRepairKeepsWhatWorks(t *testing.T) {
	dir := workspace(t)
	damageable(t, dir)
	for _, d := range plantedDamages() {
		switch d.name {
		case "rows swapped", "scratch index garbage", "checkpoint garbage", "manifest garbage", "snapshot damaged", "budgets garbage", "handoff records garbage":
			d.damage(t, dir)
		}
	}
	s := open(t, dir, &rw.Options{Caller: "tester"})
	r := repairIt(t, s, admin.RepairRequest{Call: rw.Call{Caller: "operator"}})
	expect(t, r.Clean && len(r.Actions) >= 6, "%+v", r)
	h := must(s.History(background, rw.HistoryRequest{Path: "a.txt"}))(t)
	expect(t, len(h.Versions) == 6 && h.Versions[5].Available, "%+v", h)
	equal(t, must(s.ChunkStatus(background, rw.ChunkStatusRequest{Session: "up"}))(t).NextIndex, 2)
	out := must(s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "up", OutputPath: "up.txt"}))(t)
	expect(t, out.SHA256.String() == hash("piece"), "%+v", out)
	equal(t, string(must(s.ScratchGet(background, rw.ScratchGetRequest{SHA256: digest(hash("kept apart"))}))(t).Content), "kept apart")
	must(s.Checkpoint(background, rw.CheckpointRequest{Name: "point", Data: []byte(`{"n":2}`)}))(t)
	must(s.Undo(background, rw.UndoRequest{}))(t)
	check(t, s, true)
}

// TestRepairRefusals change nothing.
func TestRepairRefusals(t *testing.T) {
	dir := workspace(t)
	damageable(t, dir)
	ro := open(t, dir, &rw.Options{ReadOnly: true})
	fails(ro.Admin().Repair(background, admin.RepairRequest{}))(t, rw.ErrStoreReadOnly)
	s := open(t, dir, nil)
	fails(s.Admin().Repair(background, admin.RepairRequest{Acknowledge: strings.Repeat("x", 501)}))(t, rw.ErrInvalidArgument)
	r := repairIt(t, s, admin.RepairRequest{Acknowledge: "nothing is wrong"})
	expect(t, r.Status == rw.StatusUnchanged && r.Receipt.JournalSeq == 0, "%+v", r)
}

// repairAll repairs the store. It fails if something is left.
func repairAll(ctx context.Context, s *rw.Store, r admin.RepairRequest) error {
	out, err := s.Admin().Repair(ctx, r)
	if err == nil && !out.Clean {
		err = &rw.Error{Kind: rw.ErrWriteCorruption, Detail: rw.ErrIO, Effect: rw.EffectUnknown, Hint: fmt.Sprint(out.Left)}
	}
	return err
}

// TestRepairSweep kills Repair everywhere and makes every operation fail.
func TestRepairSweep(t *testing.T) {
	t.Parallel()
	upkeepSweep{
		step: 11, name: "repair", sim: rw.Sim{Segment: 2500}, damage: true,
		before: func(t *testing.T, s *rw.Store) {
			manyRows(t, s, 3)
			must(s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte("kept apart")}))(t)
			must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "up", Content: []byte("piece")}))(t)
			must(s.Checkpoint(background, rw.CheckpointRequest{Name: "sound", Data: []byte("{}")}))(t)
			must(s.HandoffWrite(background, handoff.WriteRequest{Envelope: anEnvelope("t")}))(t)
			must(s.HandoffRead(background, handoff.ReadRequest{AcknowledgeAs: "reader"}))(t)
			must(s.JournalSince(background, rw.JournalSinceRequest{Agent: "reader", AfterSeq: new(uint64)}))(t)
			fails(s.SafeWrite(rw.WithGate(background, rw.GateOfAgents), put("refused.txt", "key = "+ghToken(3)+"\n", rw.ModeCreate)))(t, rw.ErrRiskBlocked)
		},
		disk: func(fs *simfs.FS) {
			state := rw.StateDirName + "/"
			for _, name := range simFiles(fs, "journal") {
				data, _ := fs.ReadFile(state + "journal/" + name)
				l := strings.Split(strings.Trim(string(data), "\n\x00"), "\n\n")
				if len(l) > 3 {
					l[1], l[2] = l[2], l[1]+l[1]
				}
				fs.WriteFile(state+"journal/"+name, []byte("\n"+strings.Join(l, "\n\n")+"\n"), 0o600)
			}
			fs.WriteFile(state+"journal/notes.txt", []byte("stray"), 0o600)
			fs.WriteFile(state+"history/notes.txt", []byte("stray"), 0o600)
			fs.WriteFile(state+"scratch/"+hash("kept apart")+".bin", []byte("damage"), 0o600)
			fs.WriteFile(state+"chunks/up/manifest.json", []byte("damage"), 0o600)
			fs.WriteFile(state+"budgets.json", []byte("damage"), 0o600)
		},
		run: func(ctx context.Context, s *rw.Store) error {
			return repairAll(ctx, s, admin.RepairRequest{})
		},
		after: func(t *testing.T, s *rw.Store, fs *simfs.FS) {
			allHistory(t, s, manyPaths...)
			for _, sound := range []string{"checkpoints/sound.json", "handoffs/read.json", "cursors", "quarantine/draft_"} {
				expect(t, slices.ContainsFunc(slices.Collect(maps.Keys(fs.Tree())), func(p string) bool {
					return strings.HasPrefix(p, rw.StateDirName+"/"+sound) && fs.Tree()[p] != "/"
				}), "%s was set aside", sound)
			}
			equal(t, must(s.ChunkStatus(background, rw.ChunkStatusRequest{Session: "up"}))(t).NextIndex, 2)
		},
	}.sweeps(t)
}
